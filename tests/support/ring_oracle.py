"""Exact arithmetic of Z_Q[X]/(X^N + 1) on Python integers: what the core must agree with, bit for bit.

INSECURE toy rings. Nothing here uses the core's transforms: evaluations are taken term by term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core

Words = NDArray[np.uint64]
Integers = NDArray[np.object_]

MONTGOMERY = 1 << 52


def centred(x: Any, modulus: int) -> Any:
    """The representatives of integers x in (-modulus/2, modulus/2); moduli are odd."""
    return (x + modulus // 2) % modulus - modulus // 2


def to_object(values: Iterable[int]) -> Integers:
    return np.array([int(v) for v in values], dtype=object)


def multiply(x: Integers, y: Integers) -> Integers:
    """Product modulo X^N + 1, coefficients over the integers."""
    n = len(x)
    full = np.convolve(x, y)
    low = full[:n].copy()
    low[: n - 1] -= full[n:]
    return low


def automorphism(x: Integers, galois: int) -> Integers:
    """x(X^galois)."""
    n = len(x)
    result = to_object([0] * n)
    for i, value in enumerate(x):
        power = i * galois % (2 * n)
        result[power % n] += value if power < n else -value
    return result


def _root(n: int, modulus: int) -> int:
    """The smallest primitive 2N-th root of unity."""
    order = 2 * n
    for x in range(2, modulus):
        root = pow(x, (modulus - 1) // order, modulus)
        if pow(root, n, modulus) == modulus - 1:
            return min(pow(root, k, modulus) for k in range(1, order, 2))
    raise AssertionError("no root")


@cache
def _exponents(n: int) -> NDArray[np.int64]:
    """The matrix of (2 bitrev(i) + 1) k, of powers of a 2N-th root."""
    bits = n.bit_length() - 1
    points = np.array([2 * int(f"{i:0{bits}b}"[::-1], 2) + 1 for i in range(n)])
    return np.outer(points, np.arange(n)) % (2 * n)


@cache
def _powers(n: int, modulus: int) -> Integers:
    """Those of psi, one after the other."""
    psi, found = _root(n, modulus), [1]
    while len(found) < 2 * n:
        found.append(found[-1] * psi % modulus)
    return np.array(found, dtype=object)


@cache
def _evaluation(n: int, modulus: int) -> Integers:
    """The matrix of psi^((2 bitrev(i) + 1) k)."""
    found: Integers = _powers(n, modulus)[_exponents(n)]
    return found


@cache
def _interpolation(n: int, modulus: int) -> Integers:
    """The inverse of that matrix: what it holds is inverted, and transposed, and divided by N."""
    found: Integers = _powers(n, modulus)[-_exponents(n).T % (2 * n)] * pow(n, -1, modulus) % modulus
    return found


@dataclass
class Ring:
    """A context with its oracle, a generator of test values, and a secret."""

    n: int = 16
    q_bits: tuple[int, ...] = (50, 40, 41, 42, 43)
    special: int = 2
    alpha: int = 2
    seed: int = 0
    special_bits: int = 50
    digit_limbs: tuple[int, ...] = ()  # of each digit from q_0 on; by default `alpha` each
    context: _core.Context = field(init=False)
    generator: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        q: list[int] = []
        for bits in self.q_bits:
            q += _core.primes(self.n, bits, 1, q)
        p = _core.primes(self.n, self.special_bits, self.special, q) if self.special else []
        self.context = _core.Context(self.n, q, p, self.alpha, self.digit_limbs)
        self.generator = np.random.default_rng(self.seed)

    @property
    def moduli(self) -> list[int]:
        return self.context.moduli

    @property
    def num_q(self) -> int:
        return self.context.num_q

    @property
    def special_index(self) -> list[int]:
        return list(range(self.num_q, self.num_q + self.special))

    @property
    def special_product(self) -> int:
        return prod(self.moduli[i] for i in self.special_index)

    def rows(self, limbs: int) -> list[int]:
        """Positions of the limbs of a key or an extended plaintext made for so many limbs."""
        return [*range(limbs), *self.special_index]

    def digits(self, limbs: int) -> list[list[int]]:
        sizes = self.digit_limbs or (self.alpha,) * limbs
        starts = [sum(sizes[:digit]) for digit in range(len(sizes))]
        return [
            list(range(start, min(start + size, limbs)))
            for start, size in zip(starts, sizes, strict=True)
            if start < limbs
        ]

    def ntt(self, x: Integers, index: Sequence[int]) -> Words:
        """Rows of residues of integer coefficients in NTT form."""
        moduli = [self.moduli[i] for i in index]
        return np.array([_evaluation(self.n, m).dot(x % m) % m for m in moduli], dtype=np.uint64)

    def intt(self, rows: Words, index: Sequence[int]) -> Integers:
        """Centred coefficients modulo the product of the limbs at these positions."""
        moduli = [self.moduli[i] for i in index]
        modulus, total = prod(moduli), to_object([0] * self.n)
        for row, m in zip(rows, moduli, strict=True):
            x = _interpolation(self.n, m).dot(to_object(row)) % m
            total += x * (modulus // m) * pow(modulus // m, -1, m)
        return centred(total, modulus)

    # --- test values ------------------------------------------------------------------------------------------

    def random_rows(self, index: Sequence[int]) -> Words:
        return np.stack([self.generator.integers(0, self.moduli[i], self.n, dtype=np.uint64) for i in index])

    def random_ciphertext(self, limbs: int, components: int = 2) -> Words:
        """Uniform residues: exact identities need no encryption."""
        return np.stack([self.random_rows(range(limbs)) for _ in range(components)])

    def random_key(self, limbs: int) -> Words:
        return np.stack(
            [
                np.stack([self.context.pack_key(self.random_rows(self.rows(limbs))) for _ in range(2)])
                for _ in range(len(self.digits(limbs)))
            ]
        )

    def small(self, bound: int = 4) -> NDArray[np.int64]:
        return self.generator.integers(-bound, bound + 1, self.n, dtype=np.int64)

    @cached_property
    def secret_coefficients(self) -> NDArray[np.int64]:
        return self.small(1)

    @cached_property
    def secret(self) -> Words:
        return self.ntt(to_object(self.secret_coefficients), range(len(self.moduli)))

    # --- exact operations on ciphertexts ----------------------------------------------------------------------

    def polynomials(self, ciphertext: Words) -> list[Integers]:
        return [self.intt(component, range(len(component))) for component in ciphertext]

    def from_montgomery(self, rows: Words, index: Sequence[int]) -> Words:
        return np.array(
            [
                to_object(row) * pow(MONTGOMERY, -1, self.moduli[i]) % self.moduli[i]
                for row, i in zip(rows, index, strict=True)
            ],
            dtype=np.uint64,
        )

    def divide(self, x: Integers, modulus: int, divisor: int) -> Integers:
        """(x - [x]_divisor) / divisor for x modulo `modulus`, both centred."""
        return (centred(x, modulus) - centred(x, divisor)) // divisor

    def key_switch(self, x: Integers, galois: int, key: Words, limbs: int) -> tuple[Integers, Integers]:
        """sum_d [x]_{D_d}(X^galois) key_d, over the integers (to be taken modulo Q P)."""
        used = self.rows(limbs)
        sums = [to_object([0] * self.n), to_object([0] * self.n)]
        for d, digit in enumerate(self.digits(limbs)):
            product = prod(self.moduli[i] for i in digit)
            rotated = automorphism(centred(x, product), galois)
            for c in range(2):
                whole = self.context.unpack_key(key[d, c])  # it may have been made for more limbs
                rows = np.concatenate([whole[:limbs], whole[len(whole) - self.special :]])
                sums[c] = sums[c] + multiply(rotated, self.intt(self.from_montgomery(rows, used), used))
        return sums[0], sums[1]

    def linear_transform(
        self,
        sources: Sequence[Words],
        terms: Sequence[tuple[int, int, int, int, int]],
        keys: Sequence[Words],
        plaintext_coefficients: Callable[[int], Integers],
        outputs: int,
        rescale: bool,
    ) -> list[Words]:
        """What `Context.linear_transform` must give."""
        limbs = sources[0].shape[1]
        special = self.special_product
        modulus = prod(self.moduli[i] for i in self.rows(limbs))
        divisor = special * (self.moduli[limbs - 1] if rescale else 1)
        kept = limbs - rescale
        results = []
        for output in range(outputs):
            sums = [to_object([0] * self.n), to_object([0] * self.n)]
            for o, source, galois, key, plaintext in terms:
                if o != output:
                    continue
                b, a = self.polynomials(sources[source])
                if key < 0:
                    values = [special * b, special * a]
                else:
                    first, second = self.key_switch(a, galois, keys[key], limbs)
                    values = [first + special * automorphism(b, galois), second]
                for c in range(2):
                    factor = plaintext_coefficients(plaintext) if plaintext >= 0 else None
                    sums[c] = sums[c] + (values[c] if factor is None else multiply(values[c], factor))
            results.append(np.stack([self.ntt(self.divide(x, modulus, divisor), range(kept)) for x in sums]))
        return results
