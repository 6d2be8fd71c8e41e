"""Paterson and Stockmeyer's algorithm in the Chebyshev basis: depth, products, scales, and values in the clear."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev

from cipherblas.common.errors import LevelError, ParameterError
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.worst_case import WorstCase
from cipherblas.methods.polynomial.paterson_stockmeyer import PatersonStockmeyer, scheme
from cipherblas.rlwe.rings import RingShape

SLOTS = 64
SCALE_BITS = 40.0


def ring(depth: int, off: float = 0.01) -> RingShape:
    """Primes that are off the scale by different amounts, up and down."""
    bits = [SCALE_BITS + off * math.sin(3 * index + 1) for index in range(depth + 1)]
    return RingShape.from_bits(2 * SLOTS, [SCALE_BITS + 12, *bits], [50.0], 1, SCALE_BITS)


def dense(degree: int, seed: int = 0) -> list[float]:
    return list(np.random.default_rng(seed).uniform(-1, 1, degree + 1))


def parts(coefficients: Any, odd: bool) -> list[float]:
    return [value if index % 2 == odd else 0.0 for index, value in enumerate(coefficients)]


def evaluated(coefficients: list[float], scale: float | None = None, limbs: int | None = None) -> None:
    """The value in the clear is right, with slots at the ends of the interval, and the depth is as planned."""
    plan = scheme(tuple(coefficients))
    shape = ring(plan.levels + 1)
    t = np.cos(np.linspace(0, math.pi, SLOTS))
    t[SLOTS // 2] = 0.0
    expected = chebyshev.chebval(t, coefficients)
    bound = float(np.abs(coefficients).sum())
    clear, counted, worst = Clear(shape), Symbolic(shape), WorstCase(shape)
    method = PatersonStockmeyer(coefficients, bound)
    start = 2.0**SCALE_BITS if scale is None else scale
    found = method.run(clear, clear.fresh(t.astype(complex), bound=1.0, scale=start, limbs=limbs))
    assert np.abs(found.data - expected).max() <= 1e-9 * max(1.0, bound)
    symbolic = method.run(counted, counted.fresh(None, bound=1.0, scale=start, limbs=limbs))
    assert (symbolic.limbs, symbolic.scale, symbolic.bound) == (found.limbs, found.scale, found.bound)
    assert symbolic.components == 2 and symbolic.bound <= bound * (1 + 1e-12)
    assert counted.counts.products == plan.multiplications
    assert counted.counts.relinearisations == plan.relinearisations
    bounded = worst.decrypted_error(method.run(worst, worst.fresh(None, bound=1.0, scale=start, limbs=limbs)))
    assert symbolic.errors.deviation < bounded < math.inf
    if scale is None:
        assert len(shape.q) - found.limbs == plan.depth
        if plan.lead is None:  # one more rescale leaves just the usual scale
            last = shape.q[found.limbs - 1]
            assert found.scale / last == pytest.approx(2.0**SCALE_BITS, rel=1e-12)


@pytest.mark.parametrize("degree", [*range(2, 65), 100, 127, 128, 200, 255])
def test_depth_and_products(degree: int) -> None:
    plan = scheme(tuple(dense(degree)))
    power_of_two = degree & (degree - 1) == 0
    assert plan.levels == math.ceil(math.log2(degree + 1)) - power_of_two
    assert plan.multiplications <= 2 * math.sqrt(degree) + math.log2(degree)
    odd = scheme(tuple(parts(dense(degree), True)))
    assert odd.levels <= math.ceil(math.log2(degree + 1))
    assert odd.relinearisations <= math.sqrt(2 * degree) + math.log2(degree) + 2
    assert odd.multiplications <= math.sqrt(2 * degree) + math.log2(degree) + 4
    even = scheme(tuple(parts(dense(degree), False)))
    assert even.levels <= math.ceil(math.log2(degree + 1))
    assert even.multiplications <= scheme(tuple(dense(max(1, degree // 2)))).multiplications + 1
    assert plan.relinearisations <= plan.multiplications


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 6, 7, 8, 11, 15, 16, 23, 31, 47, 63, 64, 127, 255])
def test_values_in_the_clear(degree: int) -> None:
    evaluated(dense(degree))
    evaluated(parts(dense(degree + 1 - degree % 2), True))
    evaluated([*parts(dense(degree), False), *([0.5] if degree % 2 else [])])


@pytest.mark.parametrize(
    ("degree", "odd", "fewer"),
    [
        (6, 3, 0),
        (14, 5, 0),
        (22, 7, 0),
        (30, 11, 0),
        (62, 13, 2),
        (62, 29, 0),
        (122, 21, 2),
        (126, 9, 3),
        (126, 61, 0),
    ],
)
def test_few_odd_terms_beside_an_even_polynomial(degree: int, odd: int, fewer: int) -> None:
    """As many levels, and no more work than of a polynomial with all terms."""
    coefficients = parts(dense(degree), False)
    coefficients[1 : odd + 1 : 2] = dense(degree)[1 : odd + 1 : 2]
    evaluated(coefficients)
    found, whole = scheme(tuple(coefficients)), scheme(tuple(dense(degree)))
    assert found.levels == whole.levels
    assert found.relinearisations <= whole.relinearisations - fewer
    assert found.multiplications <= whole.multiplications + (whole.relinearisations - found.relinearisations)
    assert found.even == (fewer > 0) or not fewer


@given(st.lists(st.sampled_from([0.0, 0.0, 0.0, 1.0, -0.5, 1e-9, 30.0]), min_size=2, max_size=80))
@settings(max_examples=25, deadline=None)
def test_sparse_ones(coefficients: list[float]) -> None:
    if any(coefficients[1:]):
        evaluated(coefficients)


@pytest.mark.parametrize("degree", [2, 3, 7, 16, 31])
@pytest.mark.parametrize("bits", [-17.3, -0.4, 0.01, 7.7, SCALE_BITS - 3.0])
def test_arguments_at_other_scales(degree: int, bits: float) -> None:
    evaluated(dense(degree), scale=2.0 ** (SCALE_BITS + bits))


def test_a_small_leading_coefficient_takes_a_level() -> None:
    coefficients = [0.0, 1.0, 0.5, 0.1, 1e-14]
    assert scheme(tuple(coefficients)).levels == 2
    ev = Symbolic(ring(4))
    found = PatersonStockmeyer(coefficients, 2.0).run(ev, ev.fresh(None, bound=1.0))
    assert found.limbs == len(ring(4).q) - 2


def test_too_few_limbs_are_refused() -> None:
    ev = Symbolic(ring(1))
    with pytest.raises(LevelError, match="A polynomial spends"):
        PatersonStockmeyer(dense(31), 32.0).run(ev, ev.fresh(None, bound=1.0, limbs=2))
    with pytest.raises(ParameterError, match="needs a degree"):
        scheme((1.0, 0.0))


@pytest.mark.parametrize("degree", [3, 16, 63])
def test_errors_of_the_argument_are_bounded(degree: int) -> None:
    """What they change is at most what the worst case says, also at the ends of the interval, and beyond."""
    coefficients = list(np.cos(np.arange(degree + 1.0)))
    shape = ring(8)
    t = np.cos(np.linspace(0, math.pi, SLOTS))
    for bits in (20.0, 38.0):
        worst = WorstCase(shape)
        fresh = worst.fresh(None, bound=1.0, scale=2.0**bits)
        error = worst.worst_error(fresh) / fresh.scale
        bound = worst.decrypted_error(PatersonStockmeyer(coefficients, float(degree + 1)).run(worst, fresh))
        for sign in (-1, 1):
            off = chebyshev.chebval(t + sign * error, coefficients) - chebyshev.chebval(t, coefficients)
            assert np.abs(off).max() <= bound


def test_a_wider_interval_takes_no_more_products() -> None:
    """Of a polynomial whose odd part is linear, as that of ReLU."""
    coefficients = parts(dense(14), odd=False)
    coefficients[1] = 0.5
    method, plan = PatersonStockmeyer(coefficients, 20.0), scheme(tuple(coefficients))
    shape = ring(plan.levels + 1)
    counted, clear = Symbolic(shape), Clear(shape)
    t = 1.02 * np.cos(np.linspace(0, math.pi, SLOTS))
    found = method.run(clear, clear.fresh(t.astype(complex), bound=1.02), most=1.02)
    assert np.abs(found.data - chebyshev.chebval(t, coefficients)).max() <= 1e-9
    method.run(counted, counted.fresh(None, bound=1.02), most=1.02)
    assert counted.counts.relinearisations == plan.relinearisations
