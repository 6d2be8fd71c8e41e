"""Which limbs make up which digit of hybrid key switching (Han, Ki 2020).

Digits are limbs beside each other, from q_0 on: as many in each, or so that limbs of unequal sizes make digits of about
equal bits. The special modulus P is as large as the largest digit, so equal bits take the smallest one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from cipherblas.common.errors import ParameterError

ROUNDING_BITS = 1e-6  # of sums of bits


@functools.lru_cache(maxsize=1 << 12)
def digit_ranges(limbs: int, alpha: int, digit_limbs: tuple[int, ...] | None = None) -> tuple[range, ...]:
    """The limbs of each digit of `limbs` limbs.

    Args:
        alpha: limbs per digit.
        digit_limbs: limbs of each digit from q_0 on, where these are unlike; together at least `limbs`.
    """
    if digit_limbs is None:
        return tuple(range(start, min(start + alpha, limbs)) for start in range(0, limbs, alpha))
    found, start = [], 0
    for size in digit_limbs:
        if start >= limbs:
            break
        found.append(range(start, min(start + size, limbs)))
        start += size
    return tuple(found)


def checked_digits(digit_limbs: Any, limbs: int) -> tuple[int, ...]:
    """Limbs of each digit that come from elsewhere.

    Raises:
        ParameterError: they are no numbers from 1 on whose sum is `limbs`.
    """
    whole = isinstance(digit_limbs, Sequence) and all(
        type(size) is int and 1 <= size <= limbs for size in digit_limbs
    )
    if not whole or sum(digit_limbs) != limbs:
        raise ParameterError(
            "The limbs of the digits are not those that there are.",
            expected=f"1 or more for each digit, {limbs} together",
            got=digit_limbs,
            advice=[f"digit_limbs={(1,) * limbs}", "digit_limbs=None, and alpha=…: as many in each"],
        )
    return tuple(digit_limbs)


def largest_digit(bits: Sequence[float], ranges: Sequence[range]) -> float:
    """log2 of the largest digit of limbs of so many bits."""
    return max(math.fsum(bits[digit.start : digit.stop]) for digit in ranges)


def filled_digits(bits: Sequence[float], most: float) -> tuple[int, ...]:
    """Limbs of each digit, as many from q_0 on as `most` bits hold, and at least one: for every number of limbs that
    is the fewest digits that are no larger."""
    sizes: list[int] = []
    room = -1.0
    for each in bits:
        if each > room:
            sizes.append(0)
            room = most
        sizes[-1] += 1
        room -= each
    return tuple(sizes)


@functools.lru_cache(maxsize=1 << 10)
def equal_digits(bits: tuple[float, ...], digits: int) -> tuple[int, ...]:
    """Limbs of each of at most so many digits, the largest of which is as small as can be."""
    sums = {
        math.fsum(bits[start:end]) for start in range(len(bits)) for end in range(start + 1, len(bits) + 1)
    }
    ordered = sorted(size + ROUNDING_BITS for size in sums if size >= max(bits))
    low, high = -1, len(ordered) - 1  # `high` holds, as all limbs in one digit do; `low` does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if len(filled_digits(bits, ordered[middle])) <= digits else (middle, high)
    return filled_digits(bits, ordered[high])
