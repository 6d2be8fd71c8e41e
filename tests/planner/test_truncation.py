"""Coefficients that a fit leaves near zero cost nothing, and what they would add is part of the predicted error."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import trace as traced
from cipherblas.lang.graph import deduplicated
from cipherblas.lang.layers import Truncated
from cipherblas.lang.nodes import ordered
from cipherblas.lang.operations import Leaf
from cipherblas.planner.predict.truncation import sensitivities, truncated
from tests.support.runs import TOY, run, toy

pytestmark = pytest.mark.encrypted

S = cb.secret


def fitted(degree: int, reach: float = 1.0) -> Any:
    """A sigmoid's coefficients by least squares: even ones are rounding errors."""
    points = np.linspace(-reach, reach, 200)
    return np.polynomial.polynomial.polyfit(points, 1 / (1 + np.exp(-points)), degree)


def odd(coefficients: Any) -> list[float]:
    return [float(c) if index == 0 or index % 2 else 0.0 for index, c in enumerate(coefficients)]


def compiled(coefficients: Any, operand: Any, **options: Any) -> cb.Program:
    return toy(lambda x: cb.polynomial(x, coefficients), x=operand, **options)


def check(program: cb.Program, coefficients: Any, values: Any) -> None:
    found = run(program, {"x": values}).check()
    expected = np.polynomial.polynomial.polyval(values, np.asarray(coefficients))
    assert np.abs(found.decrypted - expected).max() <= program.plan.error


@pytest.mark.parametrize("operand", [S(20), S(4, 5)])
@pytest.mark.parametrize("degree", [4, 7])
def test_fitted_coefficients_near_zero_cost_nothing(operand: Any, degree: int) -> None:
    coefficients = fitted(degree)
    assert 0 < np.abs(coefficients[2::2]).max() < 1e-12
    program = compiled(coefficients, operand, precision=1e-3)
    by_hand = compiled(odd(coefficients), operand, precision=1e-3)
    assert program.plan.parameters.limbs == by_hand.plan.parameters.limbs
    assert program.plan.counts == by_hand.plan.counts
    check(program, coefficients, np.random.default_rng(1).choice([-1.0, -0.4, 1.0], operand.shape))


def test_leading_and_small_coefficients_are_left_out() -> None:
    coefficients = [0.5, 0.25, 1e-8, -0.02, 0.0, 1e-17]
    program = compiled(coefficients, S(8), precision=1e-3)
    assert program.plan.counts == compiled([0.5, 0.25, 0.0, -0.02], S(8), precision=1e-3).plan.counts
    check(program, coefficients, np.linspace(-1, 1, 8))


def test_terms_that_the_precision_shows_stay() -> None:
    for precision, kept in ((1e-3, False), (1e-9, True)):
        node = deduplicated(traced(lambda x: cb.polynomial(x, [0.0, 1.0, 1e-8]), {"x": S(4)}))
        found = truncated(node, precision)
        assert any(isinstance(one, Truncated) for one in ordered(found)) is not kept
        assert found.bound == pytest.approx(node.bound)


def test_what_is_left_out_is_counted_through_what_follows() -> None:
    def program(x: Any) -> Any:
        y = cb.polynomial(x, [0.0, 1.0, 1e-9])
        return 3 * (np.full((2, 4), 2.0) @ (y * y))

    node = deduplicated(traced(program, {"x": S(4)}))
    found = truncated(node, 1e-3)
    # 1e-9 in each of two factors up to 1, four weights of 2, times 3
    assert node.missed == 0.0
    assert found.missed == pytest.approx(2 * 4 * 2 * 3 * 1e-9)
    slopes = sensitivities(found)
    assert slopes[id(found)] == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = cb.compile(program, {"x": S(4)}, precision=1e-3, **TOY).plan
    assert plan.error > found.missed


def test_operands_that_occur_in_such_a_term_alone_stay() -> None:
    node = traced(lambda x, y: x * x + 1e-12 * y, {"x": S(3, 3), "y": S(3, 3)})
    assert truncated(node, 1e-3) is node


def test_truncated_programs_are_saved_and_loaded(tmp_path: Any) -> None:
    program = compiled(fitted(2), S(6), precision=1e-3)
    assert "truncated(" in program.explain()
    program.save(tmp_path / "program")
    loaded = cb.Program.load(tmp_path / "program", insecure=True)
    assert loaded.id == program.id and loaded.plan.error == program.plan.error
    assert loaded.worst_error >= loaded.expression.missed > 0
    transposed = Truncated(Leaf("x", S(2, 3)), 0.5).T
    assert transposed.shape == (3, 2) and transposed.bound == 1.5
