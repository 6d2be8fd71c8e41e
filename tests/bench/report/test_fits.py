"""Fits: exact polynomials come back, and what is read off them is right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import Polynomial

from cipherblas_bench.report import e2dm_statements as study
from cipherblas_bench.report import fits

D = range(2, 20)
COEFFICIENTS = st.floats(-8, 8).filter(lambda value: abs(value) > 0.1)


def points(polynomial: Polynomial) -> dict[int, float]:
    return {d: float(polynomial(d)) for d in D}


@given(st.lists(COEFFICIENTS, min_size=2, max_size=7))
def test_an_exact_polynomial_comes_back(coefficients: list[float]) -> None:
    """By the fit of its degree, coefficient by coefficient; those of less differ by what R² says."""
    exact = Polynomial(coefficients)
    degree = exact.degree()
    found = fits.fit(points(exact), degree)
    assert found.degree == degree
    assert found.coefficients == pytest.approx(coefficients, rel=1e-6, abs=1e-5)
    assert found.r2 == pytest.approx(1.0, abs=1e-9)
    assert found(45) == pytest.approx(float(exact(45)), rel=1e-6)


@given(st.lists(COEFFICIENTS, min_size=2, max_size=4), st.integers(1, 6))
def test_r2_is_one_minus_residuals_over_deviations(coefficients: list[float], degree: int) -> None:
    """Against sums that are written out; and a polynomial of least squares is not bettered by its neighbours."""
    noise = np.random.default_rng(5).normal(size=len(D))
    seconds = dict(zip(D, Polynomial(coefficients)(np.array(D)) + noise, strict=True))
    found = fits.fit(seconds, degree)

    def residual(polynomial: Polynomial) -> float:
        return sum((value - float(polynomial(d))) ** 2 for d, value in seconds.items())

    mean = sum(seconds.values()) / len(seconds)
    deviation = sum((value - mean) ** 2 for value in seconds.values())
    assert found.r2 == pytest.approx(1 - residual(found.polynomial) / deviation, abs=1e-9)
    for step in (-1e-3, 1e-3):
        for power in range(degree + 1):
            changed = found.polynomial.coef.copy()
            changed[power] += step
            assert residual(Polynomial(changed)) > residual(found.polynomial)


def test_more_degrees_fit_better_and_a_missing_term_stays_missing() -> None:
    curve = fits.fits(points(Polynomial([1.0, 0.0, 2.0])))
    assert sorted(curve) == [1, 2, 3, 4, 5, 6]
    assert curve[1].r2 < 0.99 < curve[2].r2
    for degree in (3, 4, 5, 6):
        assert curve[degree].degree == degree
        assert curve[degree].coefficients == pytest.approx([1, 0, 2] + [0] * (degree - 2), abs=1e-6)


def test_a_constant_is_fitted_and_too_few_points_are_refused() -> None:
    assert fits.fit({2: 5.0, 3: 5.0, 4: 5.0}, 1).r2 == 1.0
    assert sorted(fits.fits({2: 1.0, 3: 4.0, 4: 9.0})) == [1, 2]
    with pytest.raises(ValueError, match="expected more than 3, got 3"):
        fits.fit({2: 1.0, 3: 4.0, 4: 9.0}, 3)


def test_the_smallest_degree_is_that_of_the_worst_curve() -> None:
    line, square = (fits.fits(points(Polynomial(c))) for c in ([1.0, 2.0], [0.0, -30.0, 1.5]))
    assert fits.smallest_degree([line]) == 1
    assert fits.smallest_degree([line, square]) == fits.smallest_degree([square]) == 2
    assert fits.smallest_degree([line, square], 1.1) is None
    assert fits.smallest_degree([]) is None


def test_crossings_are_where_the_lesser_one_changes() -> None:
    first, second = Polynomial([0.0, 0.0, 1.0]), Polynomial([20.5])
    assert fits.crossings(first, second, 2, 100) == [5]
    assert fits.crossings(second, first, 2, 100) == [5]
    assert fits.crossings(Polynomial.fromroots([3.5, 7.5]), Polynomial([0.0]), 2, 100) == [4, 8]
    assert fits.crossings(first, first, 2, 100) == []


def test_the_published_cubics_cross_where_the_study_says() -> None:
    """104 is the last d at which PALISADE-Linux is the faster of the two, and the limits are those of the text."""
    cubics = {name: fits.cubic(printed) for name, printed in study.PUBLISHED_CUBICS.items()}
    windows, linux = cubics["SEAL-Windows"], cubics["PALISADE-Linux"]
    assert fits.crossings(windows, linux, 20, 10_000) == [105]
    assert float(windows(104) / linux(104)) == pytest.approx(1.0003, abs=1e-4)
    assert float(windows(105) / linux(105)) == pytest.approx(0.9999, abs=1e-4)
    for name, limit in (("SEAL-Windows", 0.952), ("SEAL-Linux", 2.741), ("PALISADE-Windows", 5.490)):
        assert cubics[name].coef[3] / linux.coef[3] == pytest.approx(limit, abs=1e-3)
