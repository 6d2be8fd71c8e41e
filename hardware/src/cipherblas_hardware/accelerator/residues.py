"""Arithmetic modulo primes below 2^54 on arrays, transforms of limbs, tables of twiddle factors."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from cipherblas_hardware.accelerator.isa import Words
from cipherblas_hardware.accelerator.timing import Timing, bit_reversed

_HALF = np.uint64(27)
_MASK = np.uint64((1 << 27) - 1)


def product(a: Words, b: Words | np.uint64, q: int) -> Words:
    """a·b mod q, for a, b and q below 2^54.

    The quotient is that of float64 numbers, whose error is below 16, and so the low 64 bits of a·b less its multiple of
    q are a number that has the right residue and lies between -16·q and 17·q.
    """
    quotient = (a.astype(np.float64) * np.float64(b) / q).astype(np.uint64)
    left = (a * b - quotient * np.uint64(q)).view(np.int64)
    found: Words = (left % q).view(np.uint64)
    return found


def high_product(a: Words, b: Words | np.uint64, shift: int) -> Words:
    """a·b >> shift, for a and b below 2^54 and a result that has 64 bits."""
    a1, a0, b1, b0 = a >> _HALF, a & _MASK, b >> _HALF, b & _MASK
    low = a0 * b0
    middle = a1 * b0 + a0 * b1 + (low >> _HALF)
    high, low = a1 * b1 + (middle >> _HALF), (middle & _MASK) << _HALF | (low & _MASK)
    found: Words = high >> np.uint64(max(shift - 54, 0))
    return found if shift >= 54 else found << np.uint64(54 - shift) | low >> np.uint64(shift)


@functools.lru_cache(maxsize=256)
def roots(n: int, q: int, inverse: bool = False) -> Words:
    """The core's table: powers of the smallest primitive 2N-th root, or of its inverse, by bit-reversed exponents."""
    order, x = 2 * n, 2
    while pow(root := pow(x, (q - 1) // order, q), n, q) != q - 1:
        x += 1
    odd = product(_powers(root * root % q, n, q), np.uint64(root), q)  # those that are primitive
    smallest = int(odd.min())
    powers = _powers(pow(smallest, -1, q) if inverse else smallest, n, q)
    found = powers[bit_reversed(np.arange(n), n.bit_length() - 1)]
    found.flags.writeable = False
    return found


def _powers(x: int, count: int, q: int) -> Words:
    found = np.ones(1, np.uint64)
    while len(found) < count:
        found = np.concatenate([found, product(found, np.uint64(pow(x, len(found), q)), q)])
    return found[:count]


def transformed(x: Words, q: int) -> Words:
    """The NTT of coefficients in natural order, in bit-reversed order."""
    n, table, length = len(x), roots(len(x), q), np.uint64(q)
    x = x.copy()
    blocks = 1
    while blocks < n:
        pairs = x.reshape(blocks, 2, -1)
        u = pairs[:, 0].copy()
        v = product(pairs[:, 1], np.broadcast_to(table[blocks : 2 * blocks, None], u.shape), q)
        pairs[:, 0] = (u + v) % length
        pairs[:, 1] = (u + length - v) % length
        blocks *= 2
    return x


@functools.lru_cache(maxsize=256)
def twiddles(timing: Timing, q: int, inverse: bool) -> Words:
    """Rows of a table: half a row for each of the first stages, then the words of each stage."""
    table, half = roots(timing.n, q, inverse), timing.lanes // 2
    parts: list[NDArray[np.uint64]] = []
    for stage in range(timing.log_n):
        own = table[1 << stage : 2 << stage]
        parts.append(np.tile(own, half >> stage) if len(own) <= half else own)
    words = np.concatenate(parts)
    found = np.zeros(timing.twiddle_rows * timing.lanes, np.uint64)
    found[: len(words)] = words
    found.flags.writeable = False
    return found


def twiddle_offsets(timing: Timing, stage: int) -> NDArray[np.intp]:
    """Positions in the table of the factors of all pairs of a limb."""
    half, pairs = timing.lanes // 2, np.arange(timing.n // 2)
    first = half * min(stage, timing.lane_bits) + (1 << max(stage, timing.lane_bits)) - timing.lanes
    return first + pairs % max(half, 1 << stage)
