"""The reader of scripts/read_file.py, which is written from docs/file-format.md, against the known-answer vectors."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.crypto.test_vectors import FROZEN, VECTORS
from tests.support.scripts import script

TINY = FROZEN["rings"]["tiny"]
SEED = bytes(range(32))
MONTGOMERY = 1 << 52


@pytest.fixture(scope="module")
def reader() -> ModuleType:
    return script("read_file")


def opened(reader: ModuleType, name: str) -> Any:
    return reader.read((VECTORS / name).read_bytes())


def is_frozen(found: Any, name: str) -> bool:
    frozen = TINY["values"][name]
    words = np.array(found, frozen["dtype"])
    assert list(words.shape) == frozen["shape"]
    return hashlib.sha256(words.tobytes()).hexdigest() == frozen["sha256"]


def test_it_uses_nothing_of_the_package() -> None:
    source = (Path(__file__).resolve().parents[2] / "scripts" / "read_file.py").read_text(encoding="utf-8")
    assert "import cipherblas" not in source and "from cipherblas" not in source
    assert len([line for line in source.splitlines() if line.strip()]) < 140


@pytest.mark.parametrize(
    "path", sorted(VECTORS.rglob("*")), ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_every_file_opens_and_a_changed_byte_is_seen(reader: ModuleType, path: Path) -> None:
    if not path.is_file() or path.name in ("values.json", "machine.json"):
        return
    data = path.read_bytes()
    found = reader.read(data)
    assert found.kind and found.parameters["n"]
    last = bytearray(data)
    last[-1] ^= 1
    with pytest.raises(ValueError, match="damaged"):
        reader.read(bytes(last))


def test_secrets_and_uniform_halves(reader: ModuleType) -> None:
    n, q, p = (TINY["parameters"][name] for name in ("n", "q", "p"))
    secret = reader.ternary(SEED, reader.SECRET, 0, n)
    assert is_frozen(secret, "secret, coefficients")
    assert is_frozen([reader.to_ntt(secret, prime) for prime in [*q, *p]], "secret, NTT form")
    primes = [*q, *p]
    drawn = [
        reader.uniform(SEED, reader.CIPHERTEXT, 5 + index, prime, n) for index, prime in enumerate(primes)
    ]
    assert is_frozen(drawn, "uniform, CIPHERTEXT_UNIFORM")
    halves = [
        [
            reader.uniform(SEED, reader.SWITCHING_KEY, digit << 16 | index, prime, n)
            for index, prime in enumerate(primes)
        ]
        for digit in range(math.ceil(len(q) / TINY["parameters"]["alpha"]))
    ]
    assert is_frozen(halves, "uniform half of a switching key")
    for prime in primes:
        np.testing.assert_array_equal(reader.from_ntt(reader.to_ntt(secret, prime), prime), secret % prime)


def test_results(reader: ModuleType) -> None:
    files = [
        opened(reader, f"slots/{name}") for name in ("secret-key", "client-program.json", "result.ciphertext")
    ]
    error = files[1].header["results"][0]["error"]
    np.testing.assert_allclose(reader.matrix(*files), FROZEN["expected"]["slots"], rtol=0, atol=error)


def test_operands_with_a_seed_and_with_both_halves(reader: ModuleType) -> None:
    key, program = opened(reader, "slots/secret-key"), opened(reader, "slots/client-program.json")
    n, q = key.parameters["n"], key.parameters["q"]
    secret = reader.ternary(key.tensors["seed"].tobytes(), reader.SECRET, 0, n)
    entries = np.arange(12) * 7919 % 2001 - 1000
    for encoding in program.header["inputs"]:
        file = opened(reader, f"slots/{encoding['name']}.ciphertext")
        (data,) = file.tensors["feed0.data"]
        if "feed0.seed" in file.tensors:
            seed = file.tensors["feed0.seed"][0].tobytes()
            a = [reader.uniform(seed, reader.CIPHERTEXT, limb, prime, n) for limb, prime in enumerate(q)]
            data = np.array([data, np.array(a, np.uint64)])
        values = reader.slots(reader.decrypted(secret, data, q)) / encoding["scale"]
        form = encoding["form"]
        real, imag = (program.tensors[f"{form['layout']}.{part}"][0] for part in ("real", "imag"))
        expected = np.where(real < 0, 0, entries[real]) + 1j * form["signs"][0] * np.where(
            imag < 0, 0, entries[imag]
        )
        np.testing.assert_allclose(values, expected / 1024, rtol=0, atol=1e-4)


def test_keys(reader: ModuleType) -> None:
    key, keys = opened(reader, "slots/secret-key"), opened(reader, "slots/evaluation-keys")
    public = opened(reader, "slots/public-key")
    n, q, p = (key.parameters[name] for name in ("n", "q", "p"))
    primes = [*q, *p]
    secret = reader.ternary(key.tensors["seed"].tobytes(), reader.SECRET, 0, n)
    s = [reader.to_ntt(secret, prime) for prime in primes]
    a = [
        reader.uniform(public.tensors["seed"].tobytes(), reader.PUBLIC_KEY, i, prime, n)
        for i, prime in enumerate(q)
    ]
    assert (
        largest(
            reader, [(b + a[i] * s[i]) % q[i] for i, b in enumerate(public.tensors["b"].astype(object))], q
        )
        < 30
    )
    number = [listed[0] for listed in keys.header["keys"]].index(0)
    seed = keys.tensors["seeds"][number].tobytes()
    for digit, b in enumerate(keys.tensors["relinearisation"].astype(object)):
        rows = []
        for i, prime in enumerate(primes):
            uniform = reader.uniform(seed, reader.SWITCHING_KEY, digit << 16 | i, prime, n)
            message = math.prod(p) * s[i] * s[i] if i == digit else 0
            rows.append(((b[i] + uniform * s[i]) * pow(MONTGOMERY, -1, prime) - message) % prime)
        assert largest(reader, rows, primes) < 30


def largest(reader: ModuleType, limbs: Any, primes: list[int]) -> int:
    """Of the coefficients of a polynomial."""
    found = reader.centred(
        [reader.from_ntt(limb, prime) for limb, prime in zip(limbs, primes, strict=True)], primes
    )
    return int(np.abs(found).max())


def test_rows(reader: ModuleType) -> None:
    key, rows = opened(reader, "formats/secret-key"), opened(reader, "formats/rows.matrix")
    n, q = key.parameters["n"], key.parameters["q"]
    count, cols = rows.header["shape"]
    secret = reader.ternary(key.tensors["seed"].tobytes(), reader.SECRET, 0, n)
    step, seed = n // (1 << (cols - 1).bit_length()), rows.tensors["seed"].tobytes()
    for row in range(count):
        limbs = []
        for limb, prime in enumerate(q):
            a = reader.uniform(seed, reader.ROWS, limb << 32 | row, prime, n)
            product = reader.from_ntt(reader.to_ntt(a, prime) * reader.to_ntt(secret, prime) % prime, prime)
            limbs.append(
                (rows.tensors["b"][limb, row].astype(object) + product[: step * cols : step]) % prime
            )
        found = reader.centred(limbs, q) / rows.header["scale"]
        np.testing.assert_allclose(
            found.astype(float), FROZEN["expected"]["formats"][row], rtol=0, atol=1e-10
        )
