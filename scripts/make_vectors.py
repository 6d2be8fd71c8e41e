"""Known-answer vectors in tests/vectors: values derived from fixed seeds, and one file of each kind.

usage: make_vectors.py [FOLDER]     writes all of them; by default over those in tests/vectors
       make_vectors.py --values     prints the derived values as JSON

Values come from a ring with 128 bits and an INSECURE tiny one, as SHA-256 of little-endian arrays in C order, with the
first entries. Whatever is drawn from the operating system otherwise comes from a counter under SHA-256 here, on one
thread: everything is the same each time. Nothing made here protects anything.

The vectors may change only where a format changes on purpose, with its version: see CONTRIBUTING.md.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import cipherblas as cb
import cipherblas._core as _core
from cipherblas.crypto import keys, randomness
from cipherblas.crypto.keys.generation import make_switching_key
from cipherblas.crypto.keys.key_id import RELINEARISATION, Galois
from cipherblas.crypto.keys.switching import uniform_part, unpack
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.rlwe.matrices import SharedBatch, encryption
from cipherblas.roles.key_record import KeyRecord

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "vectors"
VALUES = "values.json"
MACHINE = cb.Machine.load(FOLDER / "machine.json")  # that programs are planned for; of no computer
SEED = bytes(range(32))
KEY_ID = "00112233445566778899aabbccddeeff"
FIRST = 8
MODULUS = 2147352577  # of integers modulo t
BUDGET, SPENT, SHARED = cb.Sharing(entries=64, bits=30), 16, "5a" * 32

Matrix = NDArray[np.float64]


@contextlib.contextmanager
def fixed_randomness(label: str) -> Iterator[None]:
    """In the block `os.urandom` gives SHA-256 of (label, counter), and there is one thread."""
    drawn, threads = 0, _core.threads()

    def urandom(count: int) -> bytes:
        nonlocal drawn
        blocks = b""
        while len(blocks) < count:
            blocks += hashlib.sha256(f"{label} {drawn}".encode()).digest()
            drawn += 1
        return blocks[:count]

    _core.set_threads(1)
    try:
        with mock.patch("os.urandom", urandom):
            yield
    finally:
        _core.set_threads(threads)


def rings() -> dict[str, Parameters]:
    """The parameters of the values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cb.InsecureParametersWarning)
        tiny = make_parameters(
            1 << 6, [45.0, 40.0, 40.0], alpha=2, scale_bits=40.0, security=0, insecure=True
        )
    return {"128 bits": make_parameters(1 << 12, [36.0, 33.0], alpha=1, scale_bits=30.0), "tiny": tiny}


def entries(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Integers from -1000 to 1000 in no order."""
    count = int(np.prod(shape))
    return (np.arange(count, dtype=np.int64) * 7919 % 2001 - 1000).reshape(shape)


def matrix(rows: int, cols: int) -> Matrix:
    """Multiples of 1/1024 from -1 to 1."""
    return entries((rows, cols)) / 1024


def arrays(params: Parameters) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every array that is derived from seeds and integers alone, under its name."""
    context, q_and_p = params.context(), list(range(params.limbs + params.special_limbs))
    secret = keys.SecretKey(params, SEED, "", KEY_ID)
    yield "secret, coefficients", secret.coefficients()
    yield "secret, NTT form", secret.ntt()
    yield "shared secret 3", secret.shared_coefficients(3)
    for purpose in randomness.Purpose:
        if purpose.name.endswith("UNIFORM"):
            drawn = randomness.uniform(context, SEED, purpose, [5 + index for index in q_and_p], q_and_p)
            yield f"uniform, {purpose.name}", drawn
    yield "uniform half of a switching key", uniform_part(params, SEED, params.limbs)
    with fixed_randomness("values"):
        yield "errors", randomness.noise(context, 3)
        yield "ephemeral secret", randomness.ephemeral(context)
        public = keys.generate_public_key(secret)
        yield "public key", public.data
        message = entries((params.n,)) << 20
        yield "ciphertext, secret key", keys.encrypt(secret, message).data
        yield "ciphertext, public key", keys.encrypt(public, message).data
        for name, key in (("relinearisation", RELINEARISATION), ("rotation by 1", Galois(5))):
            made = make_switching_key(secret, key, params.limbs)
            yield f"{name} key", unpack(params, made.data, params.limbs)
        rows = encryption.encrypt_rows(secret, matrix(3, 20), 2.0**30)
        yield "encrypted rows, b", rows.b
        batch = encryption.encrypt_rows(secret, matrix(3, 20), 2.0**30, kind=SharedBatch)
        yield "encrypted batch with one a, b", batch.b
        yield "encrypted rows, public key, b", encryption.encrypt_rows(public, matrix(3, 20), 2.0**30).b
        rounded = encryption.encrypt_rows(secret, matrix(3, 20), 2.0**20 / 3)
        yield "encrypted rows, rounded by chance, b", rounded.b


def values() -> dict[str, Any]:
    """Ring → parameters and name → shape, type, first entries and SHA-256."""
    found: dict[str, Any] = {}
    for ring, params in rings().items():
        derived = {}
        for name, array in arrays(params):
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            derived[name] = {
                "shape": list(array.shape),
                "dtype": array.dtype.name,
                "first": [int(entry) for entry in array.ravel()[:FIRST]],
                "sha256": hashlib.sha256(little.tobytes()).hexdigest(),
            }
        found[ring] = {"parameters": params.to_dict(), "values": derived}
    return found


def write_slots(folder: Path) -> Matrix:
    """A product in slots, INSECURE: programs, both keys, evaluation keys, record, both operands, result."""
    params = make_parameters(64, [45.0, 30.0], alpha=1, scale_bits=30.0, security=0, insecure=True)
    options = {
        "parameters": params,
        "security": 0,
        "insecure": True,
        "precision": 1e-2,
        "algorithm": "skewed",
        "machine": MACHINE,
    }
    declared = {"a": cb.secret(4, 3), "b": cb.secret(3, 4, encryption="public-key")}
    program = cb.compile(lambda a, b: a @ b, declared, **options)
    a, b = matrix(4, 3), matrix(3, 4)
    client = program.client()
    program.save(folder / "program.json")
    program.save_client(folder / "client-program.json")
    client.save(folder / "secret-key")
    public, evaluation = client.public_key(), client.evaluation_keys()
    public.save(folder / "public-key")
    evaluation.save(folder / "evaluation-keys")
    encrypted = client.encrypt({"a": a})["a"]
    KeyRecord(encrypted.key_id, params, folder / "secret-key").spend(BUDGET, SPENT, SHARED)
    others = program.encryptor(public).encrypt({"b": b})["b"]
    encrypted.save(folder / "a.ciphertext")
    others.save(folder / "b.ciphertext")
    result = program.server(evaluation).run({"a": encrypted, "b": others})
    dataclasses.replace(result, seconds=0.0).save(folder / "result.ciphertext")
    return np.asarray(a @ b)


def write_rows(folder: Path) -> Matrix:
    """A product by GEMM with 128 bits, of a clear row: program, secret key, record, operand, result."""
    declared = {"w": cb.public(1, 8), "x": cb.secret(8, 4)}
    program = cb.compile(lambda w, x: w @ x, declared, form="rows", ring_degree=1 << 12, machine=MACHINE)
    w, x = matrix(1, 8), matrix(8, 4)
    client = program.client()
    program.save(folder / "program.json")
    client.save(folder / "secret-key")
    encrypted = client.encrypt({"x": x})["x"]
    encrypted.save(folder / "x.ciphertext")
    result = program.server(client.evaluation_keys()).run({"w": w, "x": encrypted})
    dataclasses.replace(result, seconds=0.0).save(folder / "result.ciphertext")
    return np.asarray(w @ x)


def write_modular(folder: Path) -> NDArray[np.int64]:
    """A product modulo t in slots and what is computed with it, INSECURE: program, keys, both operands, result."""
    params = make_parameters(
        64, [45.0] * 4, alpha=1, scale_bits=30.0, security=0, insecure=True, plain_modulus=MODULUS
    )
    options = {
        "parameters": params,
        "security": 0,
        "insecure": True,
        "algorithm": "skewed",
        "machine": MACHINE,
    }
    declared = {
        "a": cb.secret(4, 4, modulus=MODULUS),
        "b": cb.secret(4, 4, modulus=MODULUS, encryption="public-key"),
    }
    program = cb.compile(lambda a, b: (a @ b) * a - 3 * b, declared, **options)
    a, b = entries((4, 4)), entries((4, 4)) * 2**40 + 1
    client = program.client()
    program.save(folder / "program.json")
    client.save(folder / "secret-key")
    evaluation = client.evaluation_keys()
    evaluation.save(folder / "evaluation-keys")
    encrypted = client.encrypt({"a": a})["a"]
    others = program.encryptor(client.public_key()).encrypt({"b": b})["b"]
    encrypted.save(folder / "a.ciphertext")
    others.save(folder / "b.ciphertext")
    result = program.server(evaluation).run({"a": encrypted, "b": others})
    dataclasses.replace(result, seconds=0.0).save(folder / "result.ciphertext")
    exact = (a.astype(object) @ b * a - 3 * b.astype(object)) % MODULUS
    return exact.astype(np.int64)


def write_products(folder: Path) -> NDArray[np.int64]:
    """Products of exact integers that keep three components, INSECURE: program, keys, of which there are none, both
    operands, result."""
    params = make_parameters(
        64, [45.0] * 3, special_limbs=0, scale_bits=30.0, security=0, insecure=True, plain_modulus=MODULUS
    )
    options = {"parameters": params, "security": 0, "insecure": True, "machine": MACHINE}
    declared = {name: cb.secret(4, 4, dtype="int16", exact=True) for name in ("a", "b")}
    program = cb.compile(lambda a, b: a * b - 3 * b, declared, **options)
    a, b = entries((4, 4)) * 32, entries((4, 4)) - 29000
    client = program.client()
    program.save(folder / "program.json")
    program.save_client(folder / "client-program.json")
    client.save(folder / "secret-key")
    evaluation = client.evaluation_keys()
    evaluation.save(folder / "evaluation-keys")
    encrypted = client.encrypt({"a": a, "b": b})
    for name, operand in encrypted.items():
        operand.save(folder / f"{name}.ciphertext")
    result = program.server(evaluation).run(encrypted)
    dataclasses.replace(result, seconds=0.0).save(folder / "result.ciphertext")
    return np.asarray(a * b - 3 * b)


def write_formats(folder: Path) -> Matrix:
    """Rows in coefficient form, INSECURE, and their secret key."""
    params = make_parameters(16, [45.0, 40.0], alpha=1, scale_bits=40.0, security=0, insecure=True)
    secret = keys.SecretKey(params, SEED, "", KEY_ID)
    secret.save(folder / "secret-key")
    plain = matrix(2, 12)
    rows = encryption.encrypt_rows(secret, plain, 2.0**40)
    rows.save(folder / "rows.matrix")
    return plain


def write(folder: Path) -> None:
    """Everything, into a new folder or over vectors that are there."""
    if folder.exists():
        if not (folder / VALUES).is_file():
            raise SystemExit(f"{folder}: expected a new folder, or one with {VALUES}")
        shutil.rmtree(folder)
    expected = {}
    makers: dict[str, Callable[[Path], NDArray[Any]]] = {
        "slots": write_slots,
        "rows": write_rows,
        "formats": write_formats,
        "modular": write_modular,
        "products": write_products,
    }
    for name, make in makers.items():
        (folder / name).mkdir(parents=True)
        with fixed_randomness(name), warnings.catch_warnings():
            warnings.simplefilter("ignore", cb.InsecureParametersWarning)
            expected[name] = make(folder / name).tolist()
    text = json.dumps({"rings": values(), "expected": expected}, indent=1)
    (folder / VALUES).write_text(text + "\n", encoding="utf-8")
    MACHINE.save(folder / "machine.json")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="where to write")
    parser.add_argument("--values", action="store_true", help="print the derived values, write nothing")
    given = parser.parse_args()
    if given.values:
        json.dump(values(), sys.stdout, indent=1)
    else:
        write(given.folder)
        files = [path for path in given.folder.rglob("*") if path.is_file()]
        print(f"{len(files)} files, {sum(os.path.getsize(path) for path in files)} bytes in {given.folder}")


if __name__ == "__main__":
    main()
