"""Odd polynomials that are nearest to the sign function, and compositions of them.

Source: Remez's algorithm; Lee, Lee, No, Kim, "Minimax approximation of sign function by composite polynomial for
homomorphic comparison" (2021): minimax polynomials composed reach a precision in less depth than one of a high degree.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from cipherblas.common.errors import PrecisionError
from cipherblas.lang.polynomials import largest_value

Array = NDArray[np.float64]
DEGREES = {2: 3, 3: 7, 4: 15, 5: 31}  # of a polynomial that takes so many levels
WORK = {2: 2, 3: 4, 4: 7, 5: 11}  # products of these
MAX_LEVELS = 24
ROUNDS, LEVELLED = 60, 1e-4  # of Remez's algorithm; the relative difference of extremes that ends it
POINTS = 400  # per coefficient, at which errors are looked at
ERROR_MARGIN = 1.0001  # what is between two points
DECIMALS = 12  # of results: processors differ in what comes after these
COARSER = "a coarser precision=…"


class SignFactor(NamedTuple):
    """Σ_i c_i·T_i(x/reach), near 1 on [low, reach] and odd; `error` is its largest difference from 1 there, `top`
    bounds it on [-reach, reach]."""

    coefficients: tuple[float, ...]
    reach: float
    error: float
    top: float


@functools.lru_cache(maxsize=1024)
def odd_minimax(low: float, reach: float, degree: int) -> SignFactor:
    """The odd polynomial of a degree whose largest difference from 1 on [low, reach] is the least."""
    count = (degree + 1) // 2
    points = _points(low / reach, count)
    basis = _basis(points, count)
    # Of x², the extremes are near those of a Chebyshev polynomial.
    chosen = np.searchsorted(points, _squared_extremes(low / reach, count + 1)).clip(0, len(points) - 1)
    signs = (-1.0) ** np.arange(count + 1)
    best, found = math.inf, np.zeros(count)
    for _ in range(ROUNDS):
        system = np.column_stack([basis[chosen], signs])
        try:
            solved = np.linalg.solve(system, np.ones(count + 1))
        except np.linalg.LinAlgError:
            break
        off = 1 - basis @ solved[:-1]
        largest = float(np.abs(off).max())
        if largest < best:
            best, found = largest, solved[:-1]
        if largest <= abs(solved[-1]) * (1 + LEVELLED):
            break
        exchanged = _extremes(off, count + 1)
        if exchanged is None:
            break
        chosen = exchanged
    coefficients = np.zeros(degree + 1)
    coefficients[1::2] = found = np.round(found, DECIMALS)
    given = tuple(map(float, coefficients))
    error = float(np.abs(1 - basis @ found).max()) * ERROR_MARGIN
    return SignFactor(given, reach, _above(error), _above(largest_value(given)))


def _above(bound: float) -> float:
    """The bound in so many decimals, never less than it is."""
    return round(bound, DECIMALS) + 10.0**-DECIMALS


def _points(low: float, count: int) -> Array:
    """In [low, 1], ascending, dense where an odd polynomial can change most, and no two of them nearly the same."""
    dense = _squared_extremes(low, POINTS * count)
    found = np.union1d(np.round(dense, 12), np.round(np.linspace(low, 1.0, POINTS), 12))
    return np.asarray(found.clip(low, 1.0))


def _squared_extremes(low: float, number: int) -> Array:
    """Points of [low, 1] whose squares are extremes of a Chebyshev polynomial."""
    turns = (1 - np.cos(np.linspace(0.0, math.pi, number))) / 2
    return np.asarray(np.sqrt(low**2 + (1 - low**2) * turns))


def _basis(points: Array, count: int) -> Array:
    return np.asarray(chebyshev.chebvander(points, 2 * count - 1)[:, 1::2])


def _extremes(off: Array, number: int) -> NDArray[np.intp] | None:
    """Where an error that changes its sign is largest between two changes: so many neighbours, or None."""
    cuts = np.flatnonzero(np.signbit(off[1:]) != np.signbit(off[:-1])) + 1
    parts = np.split(np.arange(len(off)), cuts)
    peaks = [part[np.argmax(np.abs(off[part]))] for part in parts]
    if len(peaks) < number:
        return None
    starts = range(len(peaks) - number + 1)
    start = max(starts, key=lambda first: np.abs(off[peaks[first : first + number]]).min())
    return np.array(peaks[start : start + number])


@functools.lru_cache(maxsize=64)
def composition(low: float, precision: float) -> tuple[SignFactor, ...]:
    """Polynomials of which each is applied to the value of the one before: together within `precision` of the sign, for
    arguments from low to 1 in absolute value. Of the fewest levels, then the fewest products.

    Raises:
        PrecisionError: 24 levels are not enough.
    """
    for levels in range(min(DEGREES), MAX_LEVELS + 1):
        found = [stages for parts in _partitions(levels) if (stages := _composed(low, precision, parts))]
        if found:
            return min(found, key=lambda stages: sum(len(stage.coefficients) for stage in stages))
    raise PrecisionError(
        f"No composition of {MAX_LEVELS} levels is so near to the sign function.",
        got=f"margin {low:.3g} of the bound, precision {precision:.3g}",
        advice=COARSER,
    )


def _partitions(levels: int) -> Iterator[tuple[int, ...]]:
    """Levels of the stages, ascending."""
    for number in range(-(-levels // max(DEGREES)), levels // min(DEGREES) + 1):
        for parts in itertools.combinations_with_replacement(sorted(DEGREES), number):
            if sum(parts) == levels:
                yield parts


def _composed(low: float, precision: float, parts: tuple[int, ...]) -> tuple[SignFactor, ...] | None:
    stages: list[SignFactor] = []
    reach = 1.0
    for part in parts:
        stage = odd_minimax(low, reach, DEGREES[part])
        stages.append(stage)
        low, reach = 1 - stage.error, stage.top
        if low <= 0:
            return None
    return tuple(stages) if stages[-1].error <= precision else None
