"""Polynomials whose slots repeat: with P slots that do they are polynomials in X^(N/2P), of 2P coefficients.

So N/2P of them fit one polynomial, Σ_k w_k·X^k, where their coefficients never meet.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.crypto.plain_residues import centred
from cipherblas.crypto.residue_slots import residue_slots

HALF_BITS = 16  # of residues, whose products float64 adds up


def side_by_side(vectors: NDArray[Any], n: int, modulus: int | None) -> NDArray[Any]:
    """The coefficients of Σ_k w_k·X^k: of real numbers, in float64, or modulo t, centred.

    Args:
        vectors: count × P, both powers of two or less than N/2P: the slots of w_k, equal in both halves modulo t.
    """
    count, period = vectors.shape
    found = np.zeros((2 * period, n // (2 * period)), np.float64 if modulus is None else np.int64)
    if modulus is None:
        found[:, :count] = _cosines(period) @ vectors.T
    else:
        found[:, :count] = _product(_residues(n, period, modulus), (vectors % modulus).T, modulus)
    return found.ravel()


def _powers(period: int) -> NDArray[np.int64]:
    """Of the root that the slots of the small ring are values at: 2P × P exponents modulo 4P."""
    slots = np.array([pow(5, slot, 4 * period) for slot in range(period)], np.int64)
    return np.arange(2 * period)[:, None] * slots % (4 * period)


@functools.lru_cache(maxsize=16)
def _cosines(period: int) -> NDArray[np.float64]:
    """From real slots to coefficients."""
    found: NDArray[np.float64] = np.cos(_powers(period) * (math.pi / (2 * period))) / period
    return found


@functools.lru_cache(maxsize=16)
def _residues(n: int, period: int, modulus: int) -> NDArray[np.int64]:
    """The same modulo t: sums of a root of unity to a power and its inverse, over 2P."""
    x = np.zeros(n, np.int64)
    x[n // (2 * period)] = 1
    root = int(residue_slots(n, modulus).halves(x)[0, 0]) % modulus
    roots = np.array([pow(root, power, modulus) for power in range(4 * period)], np.int64)
    powers, inverse = _powers(period), pow(2 * period, -1, modulus)
    return (roots[powers] + roots[-powers % (4 * period)]) % modulus * inverse % modulus


def _product(left: NDArray[np.int64], right: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    """Of two matrices of residues below 2^31, centred."""
    (high, low), (upper, lower) = (
        ((one >> HALF_BITS).astype(np.float64), (one & (1 << HALF_BITS) - 1).astype(np.float64))
        for one in (left, right)
    )
    first, middle, last = (
        part.astype(np.int64) % modulus for part in (high @ upper, high @ lower + low @ upper, low @ lower)
    )
    found = ((first << HALF_BITS) + middle) % modulus
    return centred(((found << HALF_BITS) + last) % modulus, modulus)
