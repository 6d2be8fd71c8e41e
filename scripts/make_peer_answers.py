"""Known answers of other libraries in tests/interop/answers: keys and ciphertexts that they made, INSECURE and small.

usage: make_peer_answers.py     writes them anew; needs the wheel seal-python

Tests open them without the library. They change with what a program's file holds, and with SEAL's streams.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import seal

import cipherblas as cb
from cipherblas.crypto.params import make_parameters

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "interop" / "answers" / "seal"
MACHINE = cb.Machine.load(ROOT / "tests" / "vectors" / "machine.json")


def saved(what: Any, *more: Any) -> bytes:
    """The stream of an object of SEAL, whose wheel writes files."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream"
        what.save(str(path), *more)
        return path.read_bytes()


def main() -> None:
    """Everything."""
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
        values = (np.arange(12.0).reshape(4, 3) * (7 + number) % 5 - 2) / 4
        expected[name] = values.tolist()
        pairs = zip(cb.interop.seal.vectors(program, name, values), recipe["operands"][name], strict=True)
        for index, (slots, one) in enumerate(pairs):
            cipher = encryptor.encrypt(encoder.encode_complex(slots, one["scale"]))
            files[f"{name}-{index}"] = saved(cipher)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (FOLDER / name).write_bytes(content)
    (FOLDER / "values.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cb.InsecureParametersWarning)
        main()
