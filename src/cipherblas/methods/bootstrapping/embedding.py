"""The canonical embedding as linear transforms of slots, cut into factors with few diagonals each.

Slot j of a polynomial is its value at ζ^(5^j). With c_k + i·c_{k+N/2} as one complex number for each k < N/2 that is a
linear map U of as many numbers, a Fourier transform with other twiddles: U = B_S ⋯ B_4·B_2·R, with R the bit reversal
and B_2, B_4, … its butterflies. R is left out in both directions, between which every slot is treated alike.

Numbers in the first n slots alone take the butterflies B_2 … B_n, and are coefficients of X^(S/n), all others being 0.
Slots of such a polynomial are repeated every n: what B_{2n} … B_S make of n slots is the sum of their rotations by n.

Sources: Cheon, Han, Kim, Kim and Song, "Bootstrapping for approximate homomorphic encryption" (2018); Chen, Chillotti
and Song, "Improved bootstrapping for approximate homomorphic encryption" (2019), whose factors these are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cipherblas.evaluators.slots.values import Masks, Plain, Slots, Transform

Diagonals = dict[int, Slots]  # rotation step, between -S/2 and S/2 → diagonal
KEPT = 2  # factors whose diagonals are in memory
MIN_REPEATS = 8  # of diagonals that are encoded once for all repeats


def slots_to_coefficients(
    slots: int, sizes: Sequence[int], factor: float = 1.0, *, halved: bool = False
) -> list[Transform]:
    """U without the bit reversal: the coefficients of the result are the slots of its argument.

    Args:
        sizes: butterflies in each factor, in the order in which they are applied; log2 S together. With fewer, log2 n,
            the first n slots become n slots, and others 0: the sum of rotations by multiples of n is left to do.
        factor: by which every slot is multiplied.
        halved: the first slot counts a half. Real slots have c_0 + Σ_k c_k·(ζ^k + ζ^-k), twice the real parts of what
            that makes of the first half of their coefficients.
    """
    return _factors(slots, slots, sizes, factor, inverse=False, halved=halved)


def coefficients_to_slots(
    slots: int, sizes: Sequence[int], factor: float = 1.0, *, repeated: int = 1, cut: bool = True
) -> list[Transform]:
    """The inverse of `slots_to_coefficients`.

    Args:
        slots: n, log2 n being the sum of `sizes`.
        repeated: the argument has so many times as many, repeated.
        cut: all slots of the result but the first n are 0; else they are repeated as well.
    """
    return _factors(slots, slots * repeated, sizes, factor, inverse=True, cut=cut)


def _factors(
    slots: int,
    length: int,
    sizes: Sequence[int],
    factor: float,
    inverse: bool,
    cut: bool = True,
    halved: bool = False,
) -> list[Transform]:
    held = 1 << sum(sizes)
    assert held <= slots and (held == slots or not inverse)
    each = factor ** (1 / len(sizes))
    found, done = [], 0
    for size in sizes:
        first = sum(sizes) - done - size if inverse else done
        kept = held if cut and first == 0 else length  # that factor stays within blocks of `held` slots
        found.append(_transform(slots, length, first, size, inverse, each, kept, halved and done == 0))
        done += size
    return found


def _transform(
    slots: int, length: int, first: int, size: int, inverse: bool, factor: float, kept: int, halved: bool
) -> Transform:
    """The butterflies of lengths 2^(first + 1) to 2^(first + size), and a factor.

    Args:
        slots: of the embedding; a result of `length` has it repeated.
        kept: slots of the result that are not 0.
        halved: the first slot of the argument counts a half.
    """
    key = ("embedding", slots, length, first, size, inverse, factor, kept, halved)
    largest = factor * (0.5**size if inverse else 1.0)

    def values(step: int) -> Slots:
        whole = np.tile(factor * _diagonals(slots, first, size, inverse)[step], length // slots)
        whole[kept:] = 0.0
        if halved:
            whole[-step % length] /= 2
        return whole

    def plain(step: int) -> Plain:
        return Plain((key, step), lambda: values(step), largest, constant=True)

    steps = _steps(slots, first, size)
    terms = 1 << size  # that every row has: from each butterfly, one of two entries
    repeats = length >> first + size if kept == length and not halved else 1
    return Transform(
        Masks(steps, lambda position: plain(steps[position])),
        largest * terms,
        largest * math.sqrt(terms),
        key,
        repeats if repeats >= MIN_REPEATS else 1,
    )


def _steps(slots: int, first: int, size: int) -> list[int]:
    """The steps of all diagonals that are not zero, in order."""
    unit, most = 1 << first, (1 << size) - 1
    if first + size < slots.bit_length() - 1:
        return [unit * step for step in range(-most, most + 1)]
    return [unit * step for step in range(-(1 << size) // 2, (1 << size) // 2)]  # ±S/2 are one step


@functools.lru_cache(maxsize=KEPT)
def _diagonals(slots: int, first: int, size: int, inverse: bool) -> Diagonals:
    """Of the product of the butterflies."""
    logs = range(first + 1, first + size + 1)
    total: Diagonals | None = None
    for log_length in reversed(logs) if inverse else logs:  # in the order in which they are applied
        stage = _butterfly(slots, 1 << log_length, inverse)
        total = stage if total is None else _product(slots, stage, total)
    assert total is not None
    return total


def _butterfly(slots: int, length: int, inverse: bool) -> Diagonals:
    """(x, y) → (x + w·y, x - w·y) of the halves of every block, or its inverse."""
    half = length // 2
    powers = np.array([pow(5, j, 4 * length) for j in range(half)])
    twiddles = np.exp(1j * np.pi / (2 * length) * powers)
    zeros, ones = np.zeros(half), np.ones(half)
    if inverse:  # (u, v) → (u + v, (u - v)/w) / 2
        twiddles = np.conj(twiddles)
        same, up, down = (ones, -twiddles), (ones, zeros), (zeros, twiddles)
        scale = 0.5
    else:
        same, up, down = (ones, -twiddles), (twiddles, zeros), (zeros, ones)
        scale = 1.0
    found: Diagonals = {}
    for step, halves in ((0, same), (half, up), (-half, down)):
        diagonal = np.tile(np.concatenate(halves).astype(np.complex128) * scale, slots // length)
        step = _symmetric(step, slots)
        found[step] = found[step] + diagonal if step in found else diagonal
    return found


def _product(slots: int, later: Diagonals, earlier: Diagonals) -> Diagonals:
    """Of two maps, one after the other."""
    found: dict[int, NDArray[np.complex128]] = {}
    for a, left in later.items():
        for b, right in earlier.items():
            step = _symmetric(a + b, slots)
            term = left * np.roll(right, -a)
            found[step] = found[step] + term if step in found else term
    return found


def _symmetric(step: int, slots: int) -> int:
    """The same rotation, from -S/2 to S/2 - 1."""
    return (step + slots // 2) % slots - slots // 2
