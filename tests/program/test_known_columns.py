"""Bounds of columns through products, sums and arrangements of factors that are declared by columns too."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import trace
from tests.support.runs import run, toy, toy_rows

S, P = cb.secret, cb.public
X, W = (
    np.array([1000.0, 1.0, 0.01]),
    np.array([0.001, 1.0, 100.0]),
)  # what columns of a table and weights may reach
ONES = np.ones((2, 1))
OPERANDS = {"x": S(4, 3, bound=cb.columns(X)), "w": P(2, 3, bound=cb.columns(W))}
Form = Callable[[Any, Any], Any]
# What NumPy computes as well; the largest entry that there can be.
FORMS: list[tuple[Form, float]] = [
    (lambda x, w: x @ w.T, 3.0),
    (lambda x, w: w @ x.T, 3.0),
    (lambda x, w: (x @ w.T)[:, 0], 3.0),
    (lambda x, w: x @ w[0], 3.0),
    (lambda x, w: w[0] @ x.T, 3.0),
    (lambda x, w: x[0] @ w[0], 3.0),
    (lambda x, w: x[0] @ w.T, 3.0),
    (lambda x, w: w @ x[0], 3.0),
    (lambda x, w: x[:, 1:] @ w[:, 1:].T, 2.0),
    (lambda x, w: x[:, ::-1] @ w[:, ::-1].T, 3.0),
    (lambda x, w: x[:, [2, 0, 1]] @ w[:, [2, 0, 1]].T, 3.0),
    (lambda x, w: x[0].reshape(1, 3) @ w.T, 3.0),
    (lambda x, w: x * w[0], 1.0),
    (lambda x, w: (x * w[:1]).sum(axis=1), 3.0),
    (lambda x, w: (x[:2] * w).sum(), 6.0),
    (lambda x, w: (x @ w.T) @ ONES, 6.0),
    (lambda x, w: np.ones((1, 4)) @ (x @ w.T), 12.0),
    (lambda x, w: (x.sum(axis=0) * w[0]).sum(), 12.0),
    (lambda x, w: x.mean(axis=0) @ w.T, 3.0),
    (lambda x, w: (x * (1 / X)) @ (w * X).T, 3.0),
    (lambda x, w: (-2 * x + x) @ (2 * w).T, 18.0),
    (lambda x, w: (x @ np.diag(W)) @ ONES[[0, 0, 0]], 3.0),
    (lambda x, w: (x + X) @ w.T, 6.0),
    (lambda x, w: (x @ x.T)[0, 1:] @ x[1:, :1], 3 * 1000 * (1000**2 + 1 + 0.01**2)),
]


def reached(function: Form) -> float:
    """The largest entry over signs of all entries at their bounds: of the first row of each, and of the others alike,
    or alternating."""
    found = 0.0
    for x, w in itertools.product(itertools.product((1.0, -1.0), repeat=3), repeat=2):
        for others in (1.0, -1.0):
            rows = np.array([1.0, *[others] * 3])[:, None]
            found = max(found, float(np.abs(function(rows * x * X, rows[:2] * w * W)).max()))
    return found


@pytest.mark.parametrize(("function", "bound"), FORMS)
def test_declared_factors_contract_as_constants_do(function: Form, bound: float) -> None:
    node = trace(function, OPERANDS)
    assert reached(function) * (1 - 1e-9) <= node.bound
    constant = trace(lambda x: function(x, np.ones((2, 3)) * W), {"x": OPERANDS["x"]})
    assert node.bound <= constant.bound * (1 + 1e-9)
    assert node.bound == pytest.approx(bound * (3 if "-2" in repr(function) else 1), rel=1e-9)


@pytest.mark.parametrize(("function", "bound"), FORMS)
def test_every_entry_keeps_the_bounds_of_its_row_and_column(function: Form, bound: float) -> None:
    node = trace(function, OPERANDS)
    rng = np.random.default_rng(1)
    for _ in range(50):
        x, w = (rng.choice([-1.0, 1.0, 0.3], shape) for shape in ((4, 3), (2, 3)))
        values = np.abs(np.asarray(function(x * X, w * W)))
        assert values.max() <= node.bound * (1 + 1e-9)
        if node.column_bounds is not None:
            assert (values.max(axis=0) <= node.column_bounds * (1 + 1e-9)).all()
        if node.row_bounds is not None:
            assert (values.reshape(len(values), -1).max(axis=1) <= node.row_bounds * (1 + 1e-9)).all()


def test_sums_are_those_of_columns() -> None:
    """Of nodes that are computed, or arranged in any way."""
    for function in (lambda x, w: x + x, lambda x, w: x[[0, 1, 1]] * 2.0):
        node = trace(function, OPERANDS)
        assert node.row_sum == pytest.approx(2 * X.sum())
        assert node.row_norm == pytest.approx(2 * np.hypot.reduce(X))
    joined = trace(lambda x, w: cb.joined([x @ np.diag(W), x @ np.diag(X)]), OPERANDS)
    part = trace(lambda x, w: cb.split(x @ np.diag(X), [1], axis=1)[1], OPERANDS)
    assert joined.column_bounds == pytest.approx([1e6, 1.0, 1.0]) and part.column_bounds == pytest.approx(
        [1.0, 1e-4]
    )


@pytest.mark.encrypted
@pytest.mark.parametrize("made", [toy, toy_rows])
@pytest.mark.parametrize("function", [FORMS[0][0], FORMS[1][0], FORMS[3][0], FORMS[13][0], FORMS[20][0]])
def test_results_are_as_precise_as_what_they_can_be(made: Any, function: Form) -> None:
    if made is toy_rows and function in (FORMS[3][0], FORMS[13][0]):
        pytest.skip("of matrices and their products alone")
    program = made(function, **OPERANDS)
    assert program.plan.error_target == pytest.approx(1e-4 * program.expression.bound)
    rng = np.random.default_rng(2)
    for x, w in (
        (np.ones((4, 3)), np.ones((2, 3))),
        (rng.uniform(-1, 1, (4, 3)), rng.choice([-1, 1], (2, 3))),
    ):
        run(program, {"x": x * X, "w": w * W}).check()
