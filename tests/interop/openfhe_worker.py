"""OpenFHE in an interpreter that has it: usage: openfhe_worker.py FOLDER make N DEPTH FIRST SCALE | encrypt | decrypt.

`make` writes context, public and secret key; `encrypt` what `vectors.json` holds; `decrypt` reads results.
"""

import json
import sys
from pathlib import Path

import openfhe

FOLDER = Path(sys.argv[1])


def made(n, depth, first, scale):
    asked = openfhe.CCParamsCKKSRNS()
    asked.SetRingDim(n)
    asked.SetBatchSize(n // 2)
    asked.SetSecurityLevel(openfhe.HEStd_NotSet)
    asked.SetMultiplicativeDepth(depth)
    asked.SetFirstModSize(first)
    asked.SetScalingModSize(scale)
    asked.SetScalingTechnique(openfhe.FIXEDMANUAL)
    asked.SetKeySwitchTechnique(openfhe.HYBRID)
    asked.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
    asked.SetCKKSDataType(openfhe.COMPLEX)
    context = openfhe.GenCryptoContext(asked)
    for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE):
        context.Enable(feature)
    keys = context.KeyGen()
    for name, one in (("context", context), ("public", keys.publicKey), ("secret-key", keys.secretKey)):
        (FOLDER / name).write_bytes(as_bytes(openfhe.Serialize(one, openfhe.JSON)))


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def text(name):
    return (FOLDER / name).read_text()


def encrypt(context):
    key = openfhe.DeserializePublicKeyString(text("public"), openfhe.JSON)
    for name, vectors in json.loads(text("vectors.json")).items():
        for number, vector in enumerate(vectors):
            plain = context.MakeCKKSPackedPlaintext([complex(*one) for one in vector])
            stream = openfhe.Serialize(context.Encrypt(key, plain), openfhe.JSON)
            (FOLDER / f"{name}-{number}").write_bytes(as_bytes(stream))


def decrypt(context):
    key, found = openfhe.DeserializePrivateKeyString(text("secret-key"), openfhe.JSON), []
    for path in sorted(FOLDER.glob("result-*")):
        ciphertext = openfhe.DeserializeCiphertextString(path.read_text(), openfhe.JSON)
        plain = context.Decrypt(key, ciphertext)
        plain.SetLength(context.GetRingDimension() // 2)
        found.append([(one.real, one.imag) for one in plain.GetCKKSPackedValue()])
    (FOLDER / "decoded.json").write_text(json.dumps(found))


if sys.argv[2] == "make":
    made(*map(int, sys.argv[3:]))
else:
    found = openfhe.DeserializeCryptoContextString(text("context"), openfhe.JSON)
    (encrypt if sys.argv[2] == "encrypt" else decrypt)(found)
