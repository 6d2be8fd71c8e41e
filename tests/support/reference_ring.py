"""Z_q[X]/(X^N + 1) on NumPy integers, straight from the definitions: what the reference engine computes with.

Nothing here uses the core. Residues are uint64 below 2^50; what is a number modulo several primes is a Python integer.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Integers = NDArray[Any]  # int64, or Python integers

HALF_BITS = 25  # sums of 2^13 products of halves are below 2^63
SMALL = 128  # rings up to here have their transforms as matrices: fewer calls of NumPy than layer by layer


def times(x: Any, y: Any, q: int) -> Words:
    """x·y mod q, for residues x and y of any shapes that broadcast, one of them an array; x may be a sum of two.

    A quotient below 2^51 is off by one at most in float64; what it leaves, modulo 2^64, is between -q and 2q.
    """
    x, y = np.asarray(x, np.uint64), np.asarray(y, np.uint64)
    quotient = (x.astype(np.float64) * y.astype(np.float64) / q).astype(np.uint64)
    left = (x * y - quotient * np.uint64(q)).view(np.int64)
    left += np.where(left < 0, q, 0) - np.where(left >= q, q, 0)
    return left.view(np.uint64)


def matrix_product(x: Words, y: Words, q: int) -> Words:
    """x @ y mod q for matrices of residues, at most 2^12 terms in a sum."""
    assert x.shape[-1] <= 1 << 12
    mask = (1 << HALF_BITS) - 1
    (x1, x0), (y1, y0) = (((m.astype(np.int64) >> HALF_BITS), m.astype(np.int64) & mask) for m in (x, y))
    high, middle, low = ((part % q).astype(np.uint64) for part in (x1 @ y1, x1 @ y0 + x0 @ y1, x0 @ y0))
    half = np.uint64(1 << HALF_BITS)
    return (times(times(high, half, q) + middle, half, q) + low) % np.uint64(q)


def plus(x: Words, y: Words, q: int) -> Words:
    return (x + y) % np.uint64(q)


def minus(x: Words, y: Words, q: int) -> Words:
    return (x + np.uint64(q) - y) % np.uint64(q)


def residues(x: Integers, q: int) -> Words:
    """Integers modulo q."""
    return np.asarray(x % q).astype(np.uint64)


def centred(limbs: Sequence[Words], primes: Sequence[int]) -> Integers:
    """The number of least absolute value that is limbs[i] modulo primes[i]; int64 where one prime is all.

    It is Σ_i y_i·D/d_i - v·D, D the product of the primes d_i, with v = floor(1/2 + Σ_i y_i/d_i) in float64, added up
    in the order of the primes: of numbers nearer to ±D/2 than float64 can tell the other one may be found.
    """
    if len(primes) == 1:
        (x,), (q,) = limbs, primes
        return np.where(x > q // 2, x.astype(np.int64) - q, x.astype(np.int64))
    modulus = prod(primes)
    total: Integers = np.zeros(limbs[0].shape, object)
    fraction = np.zeros(limbs[0].shape)
    for limb, q in zip(limbs, primes, strict=True):
        rest = modulus // q
        y = times(limb, pow(rest, -1, q), q)
        total = total + y.astype(object) * rest
        fraction = fraction + y.astype(np.float64) * (1.0 / q)
    multiple = np.floor(fraction + 0.5).astype(np.int64)
    return np.asarray(total - multiple.astype(object) * modulus)


# --- the ring ---


@functools.lru_cache(maxsize=32)
def reversed_bits(n: int) -> NDArray[np.int64]:
    """The numbers below n with their log2(n) bits in reverse."""
    bits = n.bit_length() - 1
    return np.array([int(f"{i:0{bits}b}"[::-1], 2) if bits else 0 for i in range(n)])


@functools.lru_cache(maxsize=64)
def smallest_root(n: int, q: int) -> int:
    """The smallest primitive 2n-th root of unity modulo q."""
    x = 2
    while pow(root := pow(x, (q - 1) // (2 * n), q), n, q) != q - 1:
        x += 1
    smallest, square = root, root * root % q
    for _ in range(n - 1):
        root = root * square % q
        smallest = min(smallest, root)
    return smallest


@functools.lru_cache(maxsize=128)
def _twiddles(n: int, q: int, inverse: bool) -> Words:
    """The powers 0, …, n - 1 of the root (of its inverse), in bit-reversed order."""
    root, power = smallest_root(n, q), 1
    root = pow(root, -1, q) if inverse else root
    powers = []
    for _ in range(n):
        powers.append(power)
        power = power * root % q
    return np.array(powers, np.uint64)[reversed_bits(n)]


@functools.lru_cache(maxsize=128)
def _transform(n: int, q: int, inverse: bool) -> Words:
    """The matrix of the powers of the points psi^(2·bitrev(i) + 1), or its inverse."""
    psi = smallest_root(n, q)
    powers = [pow(psi, exponent, q) for exponent in range(2 * n)]
    exponents = np.outer(np.arange(n), 2 * reversed_bits(n) + 1)
    if not inverse:
        return np.array(powers, np.uint64)[exponents % (2 * n)]
    return times(np.array(powers, np.uint64)[-exponents.T % (2 * n)], pow(n, -1, q), q)


def monomial(n: int, power: int, q: int) -> Words:
    """The values of X^power, power below 2N."""
    coefficients = np.zeros(n, np.uint64)
    coefficients[power % n] = 1 if power < n else q - 1
    return ntt(coefficients, q)


def ntt(x: Words, q: int) -> Words:
    """Coefficients (…, N) to values: place i holds that at psi^(2·bitrev(i) + 1).

    Layer by layer: modulo X^(2m) - w² = (X^m - w)(X^m + w) is modulo each of the two.
    """
    n, shape, blocks = x.shape[-1], x.shape, 1
    if n <= SMALL:
        return matrix_product(x, _transform(n, q, False), q)
    roots = _twiddles(n, q, False)
    while blocks < n:
        parts = x.reshape(*shape[:-1], blocks, 2, -1)
        low = parts[..., 0, :]
        high = times(parts[..., 1, :], roots[blocks : 2 * blocks, None], q)
        x = np.stack([plus(low, high, q), minus(low, high, q)], axis=-2).reshape(shape)
        blocks *= 2
    return x


def intt(x: Words, q: int) -> Words:
    """Values to coefficients."""
    n, shape = x.shape[-1], x.shape
    if n <= SMALL:
        return matrix_product(x, _transform(n, q, True), q)
    roots, blocks = _twiddles(n, q, True), n // 2
    while blocks:
        parts = x.reshape(*shape[:-1], blocks, 2, -1)
        first, second = parts[..., 0, :], parts[..., 1, :]
        high = times(minus(first, second, q), roots[blocks : 2 * blocks, None], q)
        x = np.stack([plus(first, second, q), high], axis=-2).reshape(shape)
        blocks //= 2
    return times(x, pow(n, -1, q), q)


@functools.lru_cache(maxsize=4096)
def permutation(n: int, galois: int) -> NDArray[np.int64]:
    """Where a(X^galois) at each place takes its value from: at psi^e it is a at psi^(galois·e)."""
    reverse = reversed_bits(n)
    exponents = galois * (2 * reverse + 1) % (2 * n)
    return reverse[exponents // 2]


def substituted(x: Words, galois: int, q: int) -> Words:
    """a(X^galois) by coefficients (…, n), modulo X^n + 1."""
    n = x.shape[-1]
    powers = np.arange(n) * galois % (2 * n)
    result = np.empty_like(x)
    result[..., powers % n] = np.where(powers < n, x, minus(np.zeros_like(x), x, q))
    return result


def weighed_by_powers(rows: Words, exponents: Sequence[int], q: int) -> Words:
    """Σ_i rows[i]·X^exponents[i], by coefficients modulo X^n + 1; exponents may be negative."""
    n = rows.shape[-1]
    source = (np.arange(n)[None] - np.asarray(exponents)[:, None]) % (2 * n)
    moved = np.take_along_axis(rows, source % n, axis=-1)
    signed = np.where(source < n, moved, minus(np.zeros_like(moved), moved, q))
    return np.asarray(signed.sum(axis=0, dtype=np.uint64) % np.uint64(q))
