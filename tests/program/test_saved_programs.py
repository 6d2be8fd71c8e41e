"""Programs of vectors, numbers and arranged results are the same ones again: from files, copies and pickles."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang import graph
from cipherblas.lang.analysis import evaluate_clear, trace
from cipherblas.lang.nodes import ordered
from cipherblas.lang.shared_values import computed_once
from tests.support.runs import comes_back, run, toy, values_of

S = cb.secret
W = np.cos(np.arange(24.0)).reshape(3, 8)
# Whose vectors become rows in one place and columns in another: the matrices that stand for them are others than those
# that the nodes of a compiled program remember.
PROGRAMS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "x @ x": (lambda x: x @ x, {"x": S(8)}),
    "a computed vector by itself": (lambda x: cb.squared_norm(W @ x), {"x": S(8)}),
    "a squared residual": (
        lambda A, x, b: cb.squared_norm(A @ x - b),
        {"A": S(8, 8), "x": S(8), "b": S(8)},
    ),
    "a mean beside a product": (lambda X: (X.mean(), X @ X), {"X": S(8, 8)}),
    "exact x @ x": (lambda x: x @ x, {"x": S(8, dtype="int8", exact=True)}),
    "a product and its variance": (lambda y: (y @ y.T, (y @ y.T).var()), {"y": S(1, 2)}),
    "an arrangement and its transpose": (
        lambda A: ((A @ A).reshape(2, 8) + 1, ((A @ A).reshape(2, 8) + 1).T),
        {"A": S(4, 4)},
    ),
    "a number in three dimensions": (lambda x: (x @ x).reshape(1, 1, 1), {"x": S(4)}),
    "a sum of a product with a transpose": (
        lambda x: (cb.square(x) @ cb.square(x).T + 1).sum(axis=(0, 1)),
        {"x": S(1, 6)},
    ),
    "an outer product beside its factor": (
        lambda x: (cb.outer(_joined(x), _joined(x)), cb.square(_joined(x)), _joined(x)),
        {"x": S(1, 4)},
    ),
    "zeros of an operand beside zeros": (
        lambda x, y: (y @ cb.concatenate([0 * x, y, np.zeros((4, 4))], axis=1) @ np.ones((12, 4)), y),
        {"x": S(4, 4), "y": S(4, 4)},
    ),
}


def _joined(x: Any) -> Any:
    return cb.square(cb.concatenate([x.mean(axis=-1, keepdims=True), x], axis=1) + 2)


@pytest.mark.encrypted
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_compiles_comes_back(name: str, tmp_path: Path) -> None:
    function, operands = PROGRAMS[name]
    program = toy(function, **operands)
    comes_back(program)
    assert copy.deepcopy(program).id == program.id
    program.save(tmp_path / "program")
    with pytest.warns(cb.InsecureParametersWarning):
        loaded = cb.Program.load(tmp_path / "program", insecure=True)
    assert (loaded.id, loaded.plan) == (program.id, program.plan)
    run(loaded, values_of(loaded)).check()


@pytest.mark.parametrize("name", PROGRAMS)
def test_matrices_that_stand_for_a_program_are_those_of_its_file(name: str) -> None:
    """As many nodes, numbered alike: plans name them by their numbers."""
    function, operands = PROGRAMS[name]
    traced = trace(function, operands)
    for spelled in (computed_once(traced), traced):
        expression = graph.deduplicated(spelled)
        tensors = {name: constant.values for name, constant in graph.constants(expression).items()}
        again = graph.from_json(graph.to_json(expression), operands, tensors)
        here, there = graph.as_matrices(expression), graph.as_matrices(again)
        assert here is not None and there is not None
        assert graph.to_json(here) == graph.to_json(there)


def test_every_computed_node_has_a_matrix_that_stands_for_it() -> None:
    """Or for its transpose: where a vector is multiplied as a row, all that it is made of is transposed."""
    operands = {"x": S(6), "A": S(5, 6), "y": S(5)}
    function: Any = lambda x, A, y: (cb.square(A @ x + 1) @ (y * y), (y * y).sum())  # noqa: E731
    expression = graph.deduplicated(trace(function, operands))
    found = graph.columns(expression)
    assert found is not None
    here = {id(node) for node in ordered(found[id(expression)])}
    values = {name: np.random.default_rng(3).uniform(-1, 1, one.shape) for name, one in operands.items()}
    for node in ordered(expression):
        if node.secret and not node.root:
            stand_in = found[id(node)]
            assert id(stand_in) in here
            one, other = evaluate_clear(stand_in, values), evaluate_clear(node, values)
            pairs = ((one, other), (one.T, other))
            assert any(np.allclose(a.ravel(), b.ravel(), rtol=1e-12) for a, b in pairs)
