"""The same small programs of integers modulo t by SEAL's BGV and BFV, by OpenFHE's BGV and BFV, and here: the same
integers are decrypted. Each peer runs in a process of its own, where its wheel is installed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.corpus.machine import MACHINE

T = 65537  # = 1 mod 2^16
LENGTH = 8
OPENFHE = os.environ.get("CIPHERBLAS_OPENFHE_PYTHON")
SEAL = sys.executable if importlib.util.find_spec("seal") is not None else None

# Of a function each, of two lists of integers: what it decrypts, of every result as many entries as there are.
PROGRAM = """
import json, sys
scheme, t, x, y = json.loads(sys.argv[1])
length = len(x)
{setup}
product = relinearised(x, y)
total, step = product, length // 2
while step:
    total = add(total, rotated(total, step))
    step //= 2
results = [
    ("linear", add(add(add(x, x), x), negated(y))),
    ("product", product),
    ("deep", relinearised(product, add(x, y))),
    ("dot", total),
]
print(json.dumps({{name: decrypted(found) for name, found in results}}))
"""
OF_SEAL = PROGRAM.format(
    setup="""
import numpy, seal
parameters = seal.EncryptionParameters(getattr(seal.scheme_type, scheme))
parameters.set_poly_modulus_degree(8192)
parameters.set_coeff_modulus(seal.CoeffModulus.BFVDefault(8192))
parameters.set_plain_modulus(t)
context = seal.SEALContext(parameters, True, seal.sec_level_type.tc128)
assert context.parameters_set()
keys = seal.KeyGenerator(context)
public, relinearisation, galois = seal.PublicKey(), seal.RelinKeys(), seal.GaloisKeys()
keys.create_public_key(public)
keys.create_relin_keys(relinearisation)
keys.create_galois_keys([1, 2, 4], galois)
encryptor, decryptor = seal.Encryptor(context, public), seal.Decryptor(context, keys.secret_key())
evaluator, encoder = seal.Evaluator(context), seal.BatchEncoder(context)
padded = [numpy.array(one + [0] * (8192 - length), numpy.int64) for one in (x, y)]
x, y = (encryptor.encrypt(encoder.encode(one)) for one in padded)
add, negated = evaluator.add, evaluator.negate

def relinearised(a, b):
    found = evaluator.multiply(a, b)
    evaluator.relinearize_inplace(found, relinearisation)
    return found

def rotated(a, step):
    return evaluator.rotate_rows(a, step, galois)

def decrypted(a):
    return [int(one) % t for one in encoder.decode(decryptor.decrypt(a))[:length]]
"""
)
OF_OPENFHE = PROGRAM.format(
    setup="""
import openfhe
parameters = getattr(openfhe, {"bgv": "CCParamsBGVRNS", "bfv": "CCParamsBFVRNS"}[scheme])()
parameters.SetPlaintextModulus(t)
parameters.SetMultiplicativeDepth(2)
context = openfhe.GenCryptoContext(parameters)
for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE):
    context.Enable(feature)
keys = context.KeyGen()
context.EvalMultKeyGen(keys.secretKey)
context.EvalRotateKeyGen(keys.secretKey, [1, 2, 4])
x, y = (context.Encrypt(keys.publicKey, context.MakePackedPlaintext(one + [0] * length)) for one in (x, y))
add, negated, relinearised, rotated = context.EvalAdd, context.EvalNegate, context.EvalMult, context.EvalRotate

def decrypted(a):
    found = context.Decrypt(keys.secretKey, a)
    found.SetLength(length)
    return [one % t for one in found.GetPackedValue()]
"""
)
PEERS = [
    pytest.param(
        python, text, scheme, id=f"{name} {scheme}", marks=pytest.mark.skipif(python is None, reason=why)
    )
    for name, python, text, why in (
        ("seal", SEAL, OF_SEAL, "seal-python is not installed"),
        ("openfhe", OPENFHE, OF_OPENFHE, "CIPHERBLAS_OPENFHE_PYTHON names no interpreter that has openfhe"),
    )
    for scheme in ("bgv", "bfv")
]


@pytest.mark.encrypted
@pytest.mark.parametrize(("python", "text", "scheme"), PEERS)
def test_the_same_integers(python: str, text: str, scheme: str) -> None:
    half = T // 2
    x = np.array([0, 1, -1, half, -half, 12345, -54321 % half, half - 1])
    y = np.array([half, -half, 7, half, half, -12345, 2, -1])
    assert len(x) == LENGTH

    def function(x: Any, y: Any) -> dict[str, Any]:
        return {"linear": 3 * x - y, "product": x * y, "deep": (x * y) * (x + y), "dot": x @ y}

    given = json.dumps([scheme, T, x.tolist(), y.tolist()])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", text, given], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout.splitlines()[-1])
    program = cb.compile(function, {name: cb.secret(LENGTH, modulus=T) for name in "xy"}, machine=MACHINE)
    client = program.client()
    ours = client.decrypt(program.server(client.evaluation_keys()).run(client.encrypt({"x": x, "y": y})))
    expected = function(x.astype(object), y.astype(object))
    for name, value in expected.items():
        wanted = [int(one) % T for one in np.ravel(np.array(value, object))]
        assert np.ravel(ours[name]).tolist() == wanted, name
        assert theirs[name][: len(wanted)] == wanted, name
