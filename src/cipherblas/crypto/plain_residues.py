"""Arrays of integers modulo t, and their residues modulo a prime of ciphertexts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

PIECE_BITS = 13  # of a message: its product with a residue below 2^50 is a word


def reduced(values: NDArray[Any], modulus: int, factor: int = 1) -> NDArray[np.int64]:
    """factor · values modulo t, of least absolute value.

    Args:
        values: whole numbers, of an integer type, or float64 of at most 53 bits.
    """
    array = values if values.dtype.kind in "iu" else values.astype(np.int64)
    wide = array.astype(np.uint64 if array.dtype == np.uint64 else np.int64)
    found = np.asarray(wide % wide.dtype.type(modulus)).astype(np.int64)
    if factor % modulus != 1:
        small = factor % modulus
        small = small - modulus if small > modulus // 2 else small
        found = centred(found, modulus) * small % modulus  # below 2^62 in absolute value
    return centred(found, modulus)


def centred(values: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    """Integers from 0 to t - 1 as those of least absolute value."""
    return np.where(values > modulus // 2, values - modulus, values)


def multiplied_residues(message: NDArray[np.int64], factor: int, q: int) -> NDArray[np.uint64]:
    """message · factor modulo q, a prime below 2^50, factor a residue."""
    magnitude = np.abs(message).view(np.uint64)
    bits = int(magnitude.max(initial=0)).bit_length()
    found = np.zeros(message.shape, np.uint64)
    mask, prime = np.uint64((1 << PIECE_BITS) - 1), np.uint64(q)
    for shift in range((max(bits, 1) - 1) // PIECE_BITS * PIECE_BITS, -1, -PIECE_BITS):
        piece = (magnitude >> np.uint64(shift)) & mask
        found = ((found << np.uint64(PIECE_BITS)) % prime + piece * np.uint64(factor)) % prime
    return np.where((message < 0) & (found > 0), prime - found, found)


def from_quotients(quotients: NDArray[np.int64], modulus: int, factor: int) -> NDArray[np.int64]:
    """-factor · quotients modulo t, from 0 to t - 1."""
    return reduced(quotients, modulus, -factor % modulus) % modulus
