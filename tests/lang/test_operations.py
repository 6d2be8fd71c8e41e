"""The table of operations: one entry has all rules of its operation, also one that is entered from outside."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.lang import graph
from cipherblas.lang.analysis import evaluate_clear, evaluate_results, trace
from cipherblas.lang.nodes import OPERATIONS, Expression, operation, ordered
from cipherblas.lang.refreshing import RefreshedSine
from cipherblas.planner.predict.truncation import sensitivities

S = cb.secret
RANDOM = np.random.default_rng(3)
W = RANDOM.uniform(-1, 1, (4, 6))
FILTERS = RANDOM.uniform(-1, 1, (2, 1, 3, 3))

# Together they use every operation.
PROGRAMS: list[tuple[Any, dict[str, Any]]] = [
    (lambda a, b: (a @ b - 2.5 * b.T).T * b + 1, {"a": S(4, 4), "b": S(4, 4)}),
    (lambda x: cb.refresh(cb.assume(W @ x, 0.5)), {"x": S(6, 3)}),
    (lambda x, y: (x[1:] @ y).reshape(-1), {"x": S(6, 3), "y": S(3, 2)}),
    (lambda x: cb.joined(cb.split(W @ x, [3])[::-1]), {"x": S(6, 3)}),
    (lambda x: cb.polynomial(W @ x, [0.5, 1.0, -1.0, 0.25]), {"x": S(6, 3)}),
    (lambda x: cb.relu(W @ x, precision=0.1), {"x": S(6, 3)}),
    (lambda x: cb.tanh(W @ x, precision=0.1), {"x": S(6, 3)}),
    (lambda x: RefreshedSine(W @ x, 6.0), {"x": S(6, 3)}),
    (lambda x: {"one": W @ x, "two": x + 1, "again": W @ x}, {"x": S(6, 3)}),
    (
        lambda x: cb.flatten(cb.avg_pool2d(cb.square(cb.conv2d(x, FILTERS, padding="same")), 2)),
        {"x": S(1, 6, 6)},
    ),
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_graphs_come_back_from_files(number: int) -> None:
    function, operands = PROGRAMS[number]
    node = graph.deduplicated(trace(function, operands))
    tensors = {name: constant.values for name, constant in graph.constants(node).items()}
    again = graph.from_json(graph.to_json(node), operands, tensors)
    assert graph.to_json(again) == graph.to_json(node)
    assert graph.formula(again) == graph.formula(node)
    assert (again.shape, again.bound, again.secret) == (node.shape, node.bound, node.secret)
    values = {name: RANDOM.uniform(-1, 1, operand.shape) for name, operand in operands.items()}
    for found, expected in zip(evaluate_results(again, values), evaluate_results(node, values), strict=True):
        assert (found == expected).all()


def test_the_programs_use_every_operation() -> None:
    used = {current.op for function, operands in PROGRAMS for current in ordered(trace(function, operands))}
    known = {name for name in OPERATIONS if not name.startswith("test_")}
    assert used | {"truncated"} == known  # what the planner leaves out: tests/planner/test_truncation.py


def test_names_are_taken_once() -> None:
    class Other(Expression):
        op = "add"

    with pytest.raises(cb.ParameterError, match="An operation of that name exists"):
        operation(Other)


class Doubled(Expression):
    """Two times a node, from outside of the package."""

    op = "test_doubled"
    linear = True

    def __init__(self, child: Expression) -> None:
        super().__init__(child.shape, child.secret, 2 * child.bound, child)

    def _transpose(self) -> Expression:
        return Doubled(self.children[0].T)

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return 2 * parts[0]

    def gain(self, position: int) -> float:
        return 2.0

    def log_unit(self, parts: Sequence[float]) -> float:
        return parts[0] + 1


@pytest.fixture
def doubled() -> Iterator[None]:
    operation(Doubled)
    yield
    del OPERATIONS[Doubled.op]


@pytest.mark.usefixtures("doubled")
def test_an_operation_from_outside() -> None:
    """Written, transposed, deduplicated, stored, read, and known to errors, ranges and axes: by its entry alone."""
    operands = {"a": S(3, 5), "b": S(4, 5)}
    node = graph.deduplicated(trace(lambda a, b: a @ Doubled(b).T + a @ Doubled(b.T), operands))
    assert graph.formula(node) == "(a @ (test_doubled(b.T))) + (a @ (test_doubled(b.T)))"
    assert len(ordered(node)) == 5  # both terms are one node
    values = {name: RANDOM.uniform(-1, 1, operand.shape) for name, operand in operands.items()}
    again = graph.from_json(graph.to_json(node), operands, {})
    assert evaluate_clear(again, values) == pytest.approx(4 * values["a"] @ values["b"].T)
    (leaf,) = (current for current in ordered(again) if getattr(current, "name", "") == "b")
    assert sensitivities(again)[id(leaf)] == 2 * 2 * 5
    axes = graph.Axes(again)
    assert axes.of(again) == ("a.rows", "b.rows")
    assert again.packable is False and ordered(again)[2].packable
    assert math.isclose(ordered(again)[2].bound, 2.0)
