"""Adder, multiplier and pair of lanes in the simulated hardware, beside integers of Python."""

from __future__ import annotations

import itertools
import random
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest

from cipherblas_hardware.accelerator.isa import Arithmetic, Modulus
from tests.support.vectors_bench import VectorsBench

STAGES = 4
MULTIPLIER = 3 * STAGES + 5
LANES = MULTIPLIER + 4
MUL, MAC, ADD, FORWARD, INVERSE, LAST, ADDMUL = Arithmetic


def entry(q: int, width: int) -> tuple[int, int, int, int]:
    """q, q of the multiplier, µ and shift."""
    return astuple(Modulus.of(q, width))


def odd_moduli(bits: int) -> list[int]:
    """All odd numbers of so many bits: that they be primes is asked nowhere."""
    return list(range((1 << bits - 1) + 1, 1 << bits, 2))


def edges(q: int) -> list[int]:
    near = {0, 1, 2, q - 1, q - 2, q // 2, q // 2 + 1}
    near |= {(1 << k) + d for k in range(q.bit_length()) for d in (-1, 0, 1)}
    return sorted(word for word in near if 0 <= word < q)


@pytest.fixture(scope="module")
def benches(kept: Path) -> dict[int, VectorsBench]:
    return {
        width: VectorsBench("arithmetic_bench", {"Width": width, "Stages": STAGES}, 8, kept)
        for width in (8, 50, 54)
    }


@pytest.mark.parametrize("bits", [2, 3, 5, 8])
def test_multiplier_for_all_words(benches: dict[int, VectorsBench], bits: int) -> None:
    """Of every odd modulus of so many bits; of 8 bits, of every eighth."""
    moduli = odd_moduli(bits)[:: 8 if bits == 8 else 1]
    parts = []
    for q in moduli:
        a, b = np.divmod(np.arange(q * q, dtype=np.uint64), np.uint64(q))
        part = np.zeros((q * q, 12), np.uint64)
        part[:, 2], part[:, 4], part[:, 8:] = a, b, np.array(entry(q, 8), np.uint64)
        parts.append(part)
    x = np.concatenate(parts)
    a, b, q = x[:, 2], x[:, 4], x[:, 8]
    found = benches[8](x, MULTIPLIER)
    assert (found[:, 2] == a * b % q).all() and (found[:, 3] == found[:, 2]).all()
    found = benches[8](x, 2)
    assert (found[:, 0] == (a + b) % q).all() and (found[:, 1] == (q + a - b) % q).all()


@pytest.mark.parametrize("width", [50, 54])
def test_operations_of_a_pair(benches: dict[int, VectorsBench], width: int) -> None:
    """Edge words and random ones, moduli of all lengths, another operation and another modulus in every cycle."""
    rng = random.Random(width)
    moduli = [(1 << bits) - d for bits in range(20, width + 1) for d in (1, 3, 5, 1 << bits - 2)]
    moduli += [(1 << bits - 1) + d for bits in range(20, width + 1) for d in (1, 3, 5)]
    moduli = [q | 1 for q in moduli]
    rows, wanted = [], []
    for _ in range(20_000):
        q = rng.choice(moduli)
        known = edges(q)
        words = [rng.choice(known) if rng.random() < 0.4 else rng.randrange(q) for _ in range(6)]
        operation = rng.randrange(7)
        rows.append([operation, 0, *words, *entry(q, width)])
        u, v, b0, b1, c0, c1 = words
        wanted.append(
            {
                MUL: (u * b0, v * b1),
                MAC: (c0 + u * b0, c1 + v * b1),
                ADD: (u + c0, v + c1),
                FORWARD: (u + v * b1, u - v * b1),
                INVERSE: (u + v, (u - v) * b1),
                LAST: (c0 + (u + v) * b0, c1 + (u - v) * b1),
                ADDMUL: ((u + c0) * b0, (v + c1) * b1),
            }[operation]
            + (u * b0,)
        )
    x = np.array(rows, np.uint64)
    moduli_of_rows = x[:, 8].astype(object)
    expected = np.array(wanted, object) % moduli_of_rows[:, None]
    found = benches[width](x, LANES)
    for form, lanes in (("*", found[:, 4:6]), ("tiles", found[:, 6:8])):
        wrong = np.flatnonzero((lanes != expected[:, :2]).any(axis=1))
        assert not wrong.size, (form, rows[wrong[0]], lanes[wrong[0]], expected[wrong[0]])
    products = benches[width](x, MULTIPLIER)[:, 2:4]
    assert (products == expected[:, 2:]).all()


@pytest.mark.parametrize("width", [50, 54])
def test_products_that_are_not_reduced(benches: dict[int, VectorsBench], width: int) -> None:
    """c + (a b >> shift), of a sum of overflows: below 2^width, since the shift leaves six bits free."""
    rng = random.Random(width)
    rows, wanted = [], []
    for bits in range(20, width + 1):
        for _ in range(40):
            a, b, c = rng.randrange(1 << bits), rng.randrange(1 << width), rng.randrange(1 << width - 1)
            rows.append([MAC, 1, a, a, b, b, c, c, (1 << width) - 1, 0, 0, bits + 5])
            wanted.append(c + (a * b >> bits + 5))
    found = benches[width](np.array(rows, np.uint64), LANES)[:, 4:]
    assert (found == np.array(wanted, np.uint64)[:, None]).all()


def test_forms_agree_where_moduli_change_with_every_word(benches: dict[int, VectorsBench]) -> None:
    """Products of tiles are those of `*`, back to back."""
    rng = random.Random(5)
    rows = []
    for bits, _ in itertools.product(range(20, 55), range(50)):
        q = rng.randrange(1 << bits - 1, 1 << bits) | 1
        a, b = (rng.randrange(q) for _ in range(2))
        rows.append([MUL, 0, a, a, b, b, 0, 0, *entry(q, 54)])
    found = benches[54](np.array(rows, np.uint64), MULTIPLIER)
    assert (found[:, 2] == [row[2] * row[4] % row[8] for row in rows]).all()
    assert (found[:, 2] == found[:, 3]).all()
