"""Matrices encrypted row by row, by coefficients, on Python and NumPy integers: what transposition must agree with.

INSECURE: noise and uniform residues come from a seeded generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from tests.support.ring_oracle import Ring, Words, centred

Signed = NDArray[np.int64]

SIGMA = 3.2
TAIL = 7.0  # deviations: one in 4·10^11 values of a Gaussian is beyond


def multiply_rows(x: Signed, small: Signed, modulus: int) -> Signed:
    """x·small modulo X^N + 1 and the modulus, for rows x in [0, 2^50) and a small polynomial; exact.

    The halves of x make sums below 2^25·N·max|small|, which float64 transforms give to far less than 1/2.
    """
    n = len(small)
    transform = np.fft.rfft(small.astype(np.float64), 2 * n)

    def product(rows: Signed) -> Signed:
        full = np.rint(np.fft.irfft(np.fft.rfft(rows.astype(np.float64), 2 * n) * transform, 2 * n))
        return (full[..., :n] - full[..., n:]).astype(np.int64)

    high = product(x >> 25) % modulus
    for _ in range(25):
        high = 2 * high % modulus
    return (high + product(x & ((1 << 25) - 1))) % modulus


@dataclass
class RowScheme(Ring):
    """A ring with keys, and encryption of rows whose entries lie at the powers of X^(N/d)."""

    n: int = 1 << 10
    q_bits: tuple[int, ...] = (50,)
    special: int = 1
    alpha: int = 1

    @cached_property
    def secret(self) -> Words:
        return self.residues(self.secret_coefficients)

    def residues(self, coefficients: Signed) -> Words:
        """All limbs of small coefficients, in NTT form."""
        return self.context.plaintext(coefficients, self.num_q, special=True)

    def noise(self, *shape: int) -> Signed:
        return np.rint(self.generator.normal(0, SIGMA, shape)).astype(np.int64)

    # --- keys -------------------------------------------------------------------------------------------------

    def key(self, source: Words, limbs: int) -> Words:
        """A switching key from `source`, residues of all limbs in NTT form, to the secret."""
        a = np.stack([self.random_rows(self.rows(limbs)) for _ in self.digits(limbs)])
        return self.context.switching_key(self.secret, source, a, self.noise(len(a), self.n), limbs)

    def transpose_keys(self, d: int, policy: str, limbs: int) -> list[Words]:
        return [
            self.key(self.context.automorphism(self.secret, element), limbs)
            for element in _core.transpose_plan(d, policy)[0]
        ]

    def switch_deviation(self, limbs: int) -> float:
        """Standard deviation of the coefficients that one key switch adds; see cpp/rlwe/row_switch.h."""
        digits = [prod(self.moduli[i] for i in digit) for digit in self.digits(limbs)]
        key = self.n * SIGMA**2 / 12 * sum((digit / self.special_product) ** 2 for digit in digits)
        return float(np.sqrt(key + (1 + np.count_nonzero(self.secret_coefficients)) / 12))

    # --- rows -------------------------------------------------------------------------------------------------

    def uniform_rows(self, limbs: int, rows: int) -> Words:
        return np.stack([self.random_rows(range(limbs)) for _ in range(rows)], axis=1)

    def encrypt(self, messages: Signed, limbs: int) -> tuple[Words, Words]:
        """(a, b), uint64 (limbs, rows, N) and (limbs, rows, d), of rows (rows, d) below 2^40."""
        rows, d = messages.shape
        a = self.uniform_rows(limbs, rows)
        plain = messages + self.noise(rows, d)
        b = np.empty((limbs, rows, d), np.uint64)
        for i in range(limbs):
            masks = multiply_rows(a[i].astype(np.int64), self.secret_coefficients, self.moduli[i])[
                :, :: self.n // d
            ]
            b[i] = (plain - masks) % self.moduli[i]
        return a, b

    def phase(self, a: Words, b: Words) -> list[Signed]:
        """The residues of a·s + b where b is given, per limb (rows, d)."""
        found = []
        for i in range(len(a)):
            masks = multiply_rows(a[i].astype(np.int64), self.secret_coefficients, self.moduli[i])
            found.append((masks[:, :: self.n // b.shape[2]] + b[i].astype(np.int64)) % self.moduli[i])
        return found

    def errors(self, a: Words, b: Words, expected: Sequence[Signed]) -> Signed:
        """Phase minus expected residues, centred; the same in all limbs, as a small error must be."""
        limbs = [
            centred(found - wanted, modulus)
            for found, wanted, modulus in zip(self.phase(a, b), expected, self.moduli, strict=False)
        ]
        for other in limbs[1:]:
            np.testing.assert_array_equal(other, limbs[0])
        return limbs[0]

    def message_errors(self, a: Words, b: Words, messages: Signed) -> Signed:
        return self.errors(a, b, [messages % q for q in self.moduli[: len(a)]])
