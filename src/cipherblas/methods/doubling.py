"""Sums and copies of rotations of one ciphertext, by doubling."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Transform

HOISTED = 8  # rotations of a sum that share a hoisting: more would need more keys than they save time


def doublings(copies: int) -> int:
    """Rotations of `repeated` and `folded`: shorter sums that were made on the way are used again."""
    return copies.bit_length() - 1 + copies.bit_count() - 1


def repeated(ev: Evaluator, ct: Ct, times: int, length: int) -> Ct:
    """The first `length` slots `times` times in a row; the other slots must be zero. Levels: none.

    A sum that sees one copy of every slot sees every error once.
    """
    total = folded(ev, ct, times, -length)
    if times > 1:
        total.errors = total.errors.seen_once()
    return ev.bounded(total, ct.bound)


def folded(ev: Evaluator, ct: Ct, times: int, step: int) -> Ct:
    """Return Σ_i Rot_{i·step}(ct) for i < times. Levels: none."""
    total: Ct | None = None
    block, size, placed = ct, 1, 0
    while True:
        if times & size:
            moved = block if not placed else ev.rotate(block, placed * step)
            total = moved if total is None else ev.add_distinct(total, moved)
            placed += size
        if 2 * size > times:
            assert total is not None
            return total
        block = ev.add_distinct(block, ev.rotate(block, size * step))
        size *= 2


def folded_by_eights(ev: Evaluator, ct: Ct, times: int, step: int) -> Ct:
    """As `folded`: eight rotations share a hoisting, and a division by P, instead of three that follow one another.
    Levels: none. Keys: 7 for a factor 8 of `times`, in the place of 3."""
    while (together := math.gcd(times, HOISTED)) > 1:
        ct = ev.linear_transform(ct, _rotations(together, step))
        times, step = times // together, step * together
    return folded(ev, ct, times, step)


@functools.lru_cache(maxsize=256)
def _rotations(number: int, step: int) -> Transform:
    return replace(Transform.of({index * step: None for index in range(number)}), distinct=True)
