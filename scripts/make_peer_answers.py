"""Known answers of other libraries in tests/interop/answers: keys and ciphertexts that they made, INSECURE and small.

usage: make_peer_answers.py            writes those of SEAL anew, by the wheel seal-python
       make_peer_answers.py PYTHON     and those of OpenFHE, by an interpreter that has its wheel

Tests open them without the library. They change with what a program's file holds, and with SEAL's streams.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import seal
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.crypto.params import make_parameters

ROOT = Path(__file__).resolve().parents[1]
ANSWERS = ROOT / "tests" / "interop" / "answers"
MACHINE = cb.Machine.load(ROOT / "tests" / "vectors" / "machine.json")


def saved(what: Any, *more: Any) -> bytes:
    """The stream of an object of SEAL, whose wheel writes files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream"
        what.save(str(path), *more)
        return path.read_bytes()


def values_of(number: int) -> NDArray[np.float64]:
    """The values of an operand."""
    return (np.arange(12.0).reshape(4, 3) * (7 + number) % 5 - 2) / 4


def make_openfhe(python: str) -> None:
    """Those of OpenFHE."""
    folder, bridge = ANSWERS / "openfhe", cb.interop.openfhe
    folder.mkdir(parents=True, exist_ok=True)

    def worker(*arguments: str) -> None:
        path = ROOT / "tests" / "interop" / "openfhe_worker.py"
        subprocess.run([python, str(path), str(folder), *arguments], check=True)

    worker("make", "64", "2", "48", "38")
    params = bridge.parameters((folder / "context").read_bytes(), security=0, insecure=True)
    operands = {name: cb.secret(4, 3) for name in ("a", "b")}
    options: Any = {"parameters": params, "security": 0, "insecure": True, "machine": MACHINE}
    program = cb.compile(lambda a, b: a * b * a, operands, for_peer="openfhe", precision=1e-2, **options)
    (folder / "program").write_bytes(program.to_bytes())
    expected = {name: values_of(number) for number, name in enumerate(operands)}
    vectors = {
        name: [[(slot.real, slot.imag) for slot in one] for one in bridge.vectors(program, name, values)]
        for name, values in expected.items()
    }
    (folder / "vectors.json").write_text(json.dumps(vectors))
    worker("encrypt")
    (folder / "vectors.json").unlink()
    (folder / "public").unlink()
    listed = {name: values.tolist() for name, values in expected.items()}
    (folder / "values.json").write_text(json.dumps(listed) + "\n", encoding="utf-8")


def make_seal() -> None:
    """Those of SEAL."""
    folder = ANSWERS / "seal"
    params = make_parameters(64, [45.0, 40.0, 40.0], scale_bits=40.0, security=0, insecure=True)
    operands = {name: cb.secret(4, 3) for name in ("a", "b")}
    options: Any = {"parameters": params, "security": 0, "insecure": True, "machine": MACHINE}
    program = cb.compile(lambda a, b: a * b * a, operands, for_peer="seal", precision=1e-3, **options)
    recipe = cb.interop.seal.recipe(program)
    parameters = seal.EncryptionParameters(seal.scheme_type.ckks)
    parameters.set_poly_modulus_degree(recipe["poly_modulus_degree"])
    parameters.set_coeff_modulus([seal.Modulus(prime) for prime in recipe["coeff_modulus"]])
    context = seal.SEALContext(parameters, True, seal.sec_level_type.none)
    keys, public, relinearisation = seal.KeyGenerator(context), seal.PublicKey(), seal.RelinKeys()
    keys.create_public_key(public)
    keys.create_relin_keys(relinearisation)
    encryptor, encoder = seal.Encryptor(context, public), seal.CKKSEncoder(context)
    files = {
        "program": program.to_bytes(),
        "secret-key": saved(keys.secret_key()),
        "relin-keys": saved(relinearisation),
    }
    expected = {}
    for number, name in enumerate(operands):
        values = values_of(number)
        expected[name] = values.tolist()
        pairs = zip(cb.interop.seal.vectors(program, name, values), recipe["operands"][name], strict=True)
        for index, (slots, one) in enumerate(pairs):
            cipher = encryptor.encrypt(encoder.encode_complex(slots, one["scale"]))
            files[f"{name}-{index}"] = saved(cipher)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "values.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cb.InsecureParametersWarning)
        make_seal()
        for interpreter in sys.argv[1:]:
            make_openfhe(interpreter)
