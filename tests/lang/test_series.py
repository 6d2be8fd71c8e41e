"""The values of Chebyshev series beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import chebyshev

from cipherblas.lang.polynomials import SERIES_ENTRIES, SERIES_WIDTH, series_values


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 5, 7), (2, SERIES_ENTRIES + 1)])
def test_values_of_a_series_are_those_of_numpy_for_every_degree(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, shape)
    for length in (*range(1, 4 * SERIES_WIDTH + 2), 63, 64, 255, 256):
        coefficients = random.normal(size=length)
        found, expected = series_values(list(coefficients), x), chebyshev.chebval(x, coefficients)
        assert found.shape == shape
        assert np.all(np.abs(found - expected) <= 1e-13 * np.abs(coefficients).sum()), length


def test_values_at_the_ends_and_at_zero() -> None:
    x = np.array([-1.0, 0.0, 1.0])
    coefficients = np.eye(41)
    for power in range(41):
        ends = [(-1.0) ** power, np.cos(np.pi * power / 2), 1.0]
        np.testing.assert_allclose(series_values(coefficients[power], x), ends, atol=1e-13)
