"""Arrangements of values that are computed anyway are of these, and not of a second computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_results, trace
from cipherblas.lang.graph import as_matrices, deduplicated
from cipherblas.lang.nodes import Expression, column_shape, ordered
from cipherblas.lang.shared_values import computed_once
from tests.support.runs import run, toy

S = cb.secret
VALUES = np.random.default_rng(0).uniform(-1, 1, (6, 6))


def cube(x: Any) -> Any:
    return x * x * x


PARTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x[:4],
    "a row": lambda x: x[0],
    "an entry": lambda x: x[1, 2],
    "a slice of a slice": lambda x: x[1:5][:, ::2],
    "some columns": lambda x: x[:, [3, 0]],
    "transpose": lambda x: x.T,
    "columns of the transpose": lambda x: x.T[:, :2],
    "ravel": lambda x: x.ravel(),
    "reshape": lambda x: x.reshape(4, 9),
    "diagonal": lambda x: x.diagonal(),
    "broadcast": lambda x: x[:1] + np.ones((3, 6)),
    "sum of columns": lambda x: x.sum(axis=0),
    "trace": lambda x: x.trace(),
    "gram": lambda x: x.T @ x,
    "its own factor": lambda x: x[:3] * x[3:],
}


def products(node: Expression) -> int:
    """Entrywise ones."""
    return sum(current.op == "multiply" for current in ordered(node))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_beside_the_whole_is_not_computed_again(part: str) -> None:
    def both(x: Any) -> Any:
        found = cube(x)
        return found, PARTS[part](found)

    written = trace(both, {"x": S(6, 6)})
    once = deduplicated(computed_once(written))
    assert products(once) == 2 + (part == "its own factor") < products(written)
    for found, expected in zip(evaluate_results(once, {"x": VALUES}), both(VALUES), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


VECTORS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda x: x * 1.0,
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "a half": lambda x: x[:3],
    "an entry": lambda x: x[0],
    "a column": lambda x: x[:, None],
    "a row": lambda x: x[None, :],
    "weighed": lambda x: x @ VALUES[0],
    "weights first": lambda x: VALUES[0] @ x,
    "a product with a matrix": lambda x: VALUES @ x,
    "repeated": lambda x: cb.broadcast_to(x, (3, 6)) if isinstance(x, Expression) else np.tile(x, (3, 1)),
}
SQUARES: dict[str, Callable[[Any], Any]] = {
    "norm": lambda x: x @ x,
    "inner product": lambda x: x @ (x * x),
}


@pytest.mark.parametrize("part", [*PARTS, *VECTORS, *SQUARES])
def test_as_matrices_nothing_is_computed_twice(part: str) -> None:
    """Inner products of computed columns are sums of an entrywise product: of a transposed one all is computed anew."""
    shape = (6, 6) if part in PARTS else (6,)
    of = {**VECTORS, **SQUARES, **PARTS}[part]

    def both(x: Any) -> Any:
        found = cube(x)
        return found, of(found)

    more = {"its own factor": 1, "norm": 1, "inner product": 2}.get(part, 0)
    once = as_matrices(deduplicated(computed_once(trace(both, {"x": S(*shape)}))))
    assert once is not None and products(once) == 2 + more
    given = VALUES if len(shape) == 2 else VALUES[1]
    values = {"x": given.reshape(column_shape(given.shape))}
    for found, expected in zip(evaluate_results(once, values), both(given), strict=True):
        np.testing.assert_allclose(found.ravel(), np.ravel(expected), rtol=1e-12, atol=1e-14)


WHOLES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "halves": (lambda x: (x[:3], x[3:]), (6,)),
    "rows": (lambda x: (x[:2], x[2:4], x[1:5]), (6, 6)),
    "a row and a column": (lambda x: (x[:, 0], x[0]), (6, 6)),
    "sums": (lambda x: (x.sum(axis=0), x.sum(axis=1)), (6, 6)),
    "a product": (lambda x: (x[:3] @ x[3:].T,), (6, 6)),
}


@pytest.mark.parametrize("name", WHOLES)
def test_wholes_are_computed_for_several_parts(name: str) -> None:
    of, shape = WHOLES[name]
    written = trace(lambda x: of(cube(x)), {"x": S(*shape)})
    once = deduplicated(computed_once(written, entire=True))
    assert products(once) == 2
    given = VALUES if len(shape) == 2 else VALUES[1]
    for found, expected in zip(evaluate_results(once, {"x": given}), of(cube(given)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


TWICE: dict[str, tuple[Callable[[Any], Any], int]] = {
    "whole and part": (lambda x: (cube(x), cube(x)[:3]), 2),
    "two parts": (lambda x: (cube(x)[:3], cube(x)[3:]), 2),
    "a part of a part": (lambda x: (cube(x)[1:5], cube(x)[1:5][::2], cube(x)), 2),
    "a transpose": (lambda x: (cube(x).T, cube(x)), 2),
    "a sum": (lambda x: (cube(x), cube(x).sum(axis=0)), 2),
    "assumed": (lambda x: (assumed(cube(x))[:3], assumed(cube(x))[3:]), 2),
    "other bounds": (lambda x: (assumed(cube(x)), assumed(cube(x), 3.0)), 2),
    "equal constants": (lambda x: ((x * VALUES) ** 2, (x * VALUES.copy()) ** 2), 1),
    "other constants": (lambda x: ((x * VALUES) ** 2, (x * -VALUES) ** 2), 2),
    "other parts": (lambda x: (cube(x[:3]), cube(x[3:])), 4),
}


def assumed(x: Any, bound: float = 2.0) -> Any:
    return cb.assume(x, bound) if isinstance(x, Expression) else x


@pytest.mark.parametrize("name", TWICE)
def test_what_is_written_twice_is_computed_once(name: str) -> None:
    """Each call of `cube` makes nodes of its own; equal ones are one, and so are the values that parts are of."""
    function, number = TWICE[name]
    written = deduplicated(trace(function, {"x": S(6, 6)}), origins=True)
    once = deduplicated(computed_once(computed_once(written), entire=True))
    squares = sum(
        node.op == "multiply" and all(part.secret for part in node.children) for node in ordered(once)
    )
    assert squares == number
    for found, expected in zip(evaluate_results(once, {"x": VALUES}), function(VALUES), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_refreshes_asked_for_twice_are_one() -> None:
    def refreshed(x: Any) -> Any:
        return cb.refresh(cube(x))

    def function(x: Any) -> Any:
        return refreshed(x)[:3], refreshed(x)[3:], cb.refresh(cube(x), rounds=2)

    once = computed_once(deduplicated(trace(function, {"x": S(6, 6)}), origins=True), entire=True)
    nodes = ordered(deduplicated(once))
    assert sum(node.op == "refresh" for node in nodes) == 2 and products(once) == 2


def test_one_part_is_computed_from_parts() -> None:
    written = trace(lambda x: cube(x)[:4], {"x": S(6)})
    assert computed_once(written, entire=True) is written


def test_what_is_computed_of_the_whole_shares_it_too() -> None:
    def pieces(x: Any) -> Any:
        found = cube(x)
        return found @ found[:, :1]

    once = computed_once(trace(pieces, {"x": S(6, 6)}))
    assert products(deduplicated(once)) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda x: cube(x)[:4],
        lambda x: (x[:2], x),
        lambda x: (x + x.T, x),
        lambda x: (cube(x)[:4], cube(x)[4:]),
    ],
    ids=["a part alone", "an operand", "sums of operands", "two parts"],
)
def test_other_programs_stay_as_they_are(function: Any) -> None:
    written = trace(function, {"x": S(6, 6)})
    assert computed_once(written) is written


@pytest.mark.encrypted
@pytest.mark.parametrize("part", ["rows", "a row", "transpose", "ravel", "diagonal", "gram"])
def test_either_way_is_right(part: str) -> None:
    def both(x: Any) -> Any:
        found = cube(x)
        return {"whole": found, "part": PARTS[part](found)}

    run(toy(both, x=S(6, 6), error=0.01), {"x": VALUES}).check()


THERE_AND_BACK: dict[str, Callable[[Any], Any]] = {
    "reshaped": lambda y: y.reshape(36).reshape(6, 6),
    "reversed": lambda y: y[::-1][::-1],
    "transposed": lambda y: y.T.T,
    "an axis more": lambda y: y[None][0],
    "reshaped, transposed": lambda y: y.T.reshape(36).reshape(6, 6).T,
}


@pytest.mark.parametrize("back", THERE_AND_BACK)
@pytest.mark.parametrize("value", ["product", "cube"])
def test_what_is_arranged_back_is_the_value_itself(back: str, value: str) -> None:
    """Nothing is remembered as an arrangement of an arrangement of itself: that would be followed for ever."""

    def function(x: Any) -> Any:
        y = x @ x if value == "product" else cube(x)
        return y + THERE_AND_BACK[back](y), y.reshape(36), y[::-1]

    written = trace(function, {"x": S(6, 6)})
    for node in ordered(written):
        seen, current = set(), node
        while current.arranged_of is not None:
            assert id(current) not in seen
            seen.add(id(current))
            current = current.arranged_of[0]
    once = deduplicated(computed_once(written))
    for found, expected in zip(evaluate_results(once, {"x": VALUES}), function(VALUES), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
