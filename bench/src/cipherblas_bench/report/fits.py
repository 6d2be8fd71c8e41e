"""Polynomials fitted to measured times by least squares, and what is read off them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Polynomial

ENOUGH = 0.99  # R^2 from which a fit is called good


@dataclass(frozen=True)
class Fit:
    """A polynomial through measured points.

    Attributes:
        polynomial: seconds of d.
        r2: coefficient of determination, 1 - (sum of squared residuals) / (sum of squared deviations from the mean).
    """

    polynomial: Polynomial
    r2: float

    @property
    def degree(self) -> int:
        return self.polynomial.degree()

    @property
    def coefficients(self) -> list[float]:
        """From that of d^0 to the leading one."""
        return [float(value) for value in self.polynomial.coef]

    def __call__(self, d: float) -> float:
        """Seconds that it says for d."""
        return float(self.polynomial(d))


def fit(points: Mapping[int, float], degree: int) -> Fit:
    """The polynomial of least squares of this degree.

    Raises:
        ValueError: there are no more points than the degree.
    """
    if len(points) <= degree:
        raise ValueError(f"points: expected more than {degree}, got {len(points)}")
    d, seconds = (np.array(list(each), dtype=np.float64) for each in (points.keys(), points.values()))
    # Fitted over [-1, 1]; the change of variables may cut leading zeros, which are put back.
    found = Polynomial.fit(d, seconds, degree).convert()
    found = Polynomial(np.pad(found.coef, (0, degree + 1 - len(found.coef))))
    residual = float(((seconds - found(d)) ** 2).sum())
    deviation = float(((seconds - seconds.mean()) ** 2).sum())
    if deviation == 0.0:  # a constant: the fit is exact but for rounding
        return Fit(found, 1.0)
    return Fit(found, 1.0 - residual / deviation)


def fits(points: Mapping[int, float], degrees: Iterable[int] = range(1, 7)) -> dict[int, Fit]:
    """Fits by degree, of the degrees that there are points enough for."""
    return {degree: fit(points, degree) for degree in degrees if degree < len(points)}


def smallest_degree(curves: Iterable[Mapping[int, Fit]], enough: float = ENOUGH) -> int | None:
    """The least degree from which on all curves have an R^2 of at least `enough`; None where there is none."""
    every = list(curves)
    shared = sorted(set.intersection(*(set(curve) for curve in every))) if every else []
    good = [degree for degree in shared if all(curve[degree].r2 >= enough for curve in every)]
    return good[0] if good else None


def crossings(first: Polynomial, second: Polynomial, low: int, high: int) -> list[int]:
    """The integers d of low < d <= high at which another one of the two is less than at d - 1."""
    d = np.arange(low, high + 1)
    below = first(d) < second(d)
    return [int(value) for value in d[1:][below[1:] != below[:-1]]]


def cubic(coefficients: Sequence[float]) -> Polynomial:
    """A polynomial from its coefficients as they are printed: the leading one first."""
    return Polynomial(list(reversed(coefficients)))
