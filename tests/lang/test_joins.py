"""Computed matrices as one value, and parts of one: shapes, transposes, NumPy's values, files, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_clear, trace
from cipherblas.lang.graph import constants, deduplicated, formula, from_json, to_json
from cipherblas.lang.joins import MAX_PARTS
from cipherblas.lang.nodes import ordered

RNG = np.random.default_rng(3)
VALUES = {"A": RNG.normal(size=(4, 6)), "B": RNG.normal(size=(6, 4))}
OPERANDS = {name: cb.secret(*value.shape, bound=4.0) for name, value in VALUES.items()}
A, B = VALUES["A"], VALUES["B"]

PROGRAMS: dict[str, tuple[Callable[..., Any], Any]] = {
    "columns": (lambda A, B: cb.joined([A @ B, A * A], axis=1), np.hstack([A @ B, A * A])),
    "rows": (lambda A, B: cb.joined([A @ B, B @ A @ B]), np.vstack([A @ B, B @ A @ B])),
    "one": (lambda A, B: cb.joined([A @ B], axis=-1), A @ B),
    "transpose": (lambda A, B: cb.joined([A @ B, A * A], axis=1).T, np.hstack([A @ B, A * A]).T),
    "parts": (lambda A, B: 2 * cb.split(B @ A, 3, axis=1)[1], 2 * (B @ A)[:, 2:4]),
    "transpose of parts": (lambda A, B: cb.split(B @ A, [1, 2])[2].T, (B @ A)[2:].T),
    "parts of an operand": (lambda A, B: cb.split(A, [4], axis=1)[1], A[:, 4:]),
    "all of it": (lambda A, B: cb.split(A @ B, 1)[0], A @ B),
    "parts of joined ones": (
        lambda A, B: cb.split(cb.joined([A @ B, A * A], axis=1), [5], axis=1)[0],
        np.hstack([A @ B, A * A])[:, :5],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    function, expected = PROGRAMS[name]
    node = trace(function, OPERANDS)
    assert node.shape == expected.shape
    np.testing.assert_allclose(evaluate_clear(node, VALUES), expected)
    assert np.abs(expected).max() <= node.bound
    kept = deduplicated(node)
    again = from_json(to_json(kept), OPERANDS, {name: one.values for name, one in constants(kept).items()})
    assert formula(again) == formula(node)
    np.testing.assert_allclose(evaluate_clear(again, VALUES), expected)


def test_what_is_split_is_computed_once() -> None:
    def function(A: Any, B: Any) -> Any:
        first, second = cb.split(A @ B, 2, axis=1)
        return first * second

    assert sum(node.product for node in ordered(trace(function, OPERANDS))) == 1
    assert "[:, 0:2]" in formula(trace(lambda A, B: cb.split(A @ B, 2, axis=1)[0], OPERANDS))


REFUSED: list[tuple[Callable[..., Any], type[Exception], str]] = [
    (lambda A, B: cb.joined([]), cb.ParameterError, "1 to 1024"),
    (lambda A, B: cb.joined([A @ B] * (MAX_PARTS + 1)), cb.ParameterError, "got 1025"),
    (lambda A, B: cb.joined([A @ B, A]), cb.ShapeError, "equal lengths along the other axis"),
    (lambda A, B: cb.joined([A @ B, A], axis=1), cb.ParameterError, "got A 4x6"),
    (lambda A, B: cb.joined([A @ B, np.ones((4, 4))]), cb.DTypeError, "got ndarray"),
    (lambda A, B: cb.joined([A @ B], axis=2), cb.ShapeError, "no such axis"),
    (lambda A, B: cb.joined([A @ B], axis="rows"), cb.DTypeError, "got 'rows'"),
    (lambda A, B: cb.joined([(A @ B)[0] @ A]), cb.ShapeError, "2 dimensions"),
    (lambda A, B: cb.split(A @ B, 3), cb.ShapeError, "(?s)in 3 equal parts.*a divisor of 4"),
    (lambda A, B: cb.split(A @ B, 0), cb.ShapeError, "(?s)in 0 equal parts.*a divisor of 4"),
    (lambda A, B: cb.split(A @ B, [2, 2]), cb.ShapeError, "must grow"),
    (lambda A, B: cb.split(A @ B, [4]), cb.ShapeError, "from 1 to 3"),
    (lambda A, B: cb.split(A @ B, [1.5]), cb.DTypeError, "integers"),
    (lambda A, B: cb.split(A @ B, 1.5), cb.DTypeError, "integers"),
    (lambda A, B: cb.split(np.ones((2, 2)), 2), cb.DTypeError, "got ndarray"),
]


@pytest.mark.parametrize(("function", "error", "message"), REFUSED)
def test_refusals(function: Callable[..., Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        trace(function, OPERANDS)
