"""What refusals say to write is tried on the programs that they refuse: it compiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import Call, PrecisionWarning
from cipherblas.lang.nodes import ordered
from tests.support.advice import advised_options, any_plan_does, edited, is_rescaled

W = np.random.default_rng(1).normal(size=(8, 8)) / 3
X = {"x": cb.secret(8)}
# Programs that are refused as they are: source, operands, options.
REFUSED: dict[str, tuple[str, dict[str, cb.Operand], dict[str, Any]]] = {
    "a ReLU that no ring carries": ("lambda x: cb.relu(x)", X, {"precision": 1e-5}),
    "with an error": ("lambda x: cb.relu(x)", X, {"error": 1e-5}),
    "a ReLU too coarse": ("lambda x: cb.relu(x, precision=1e-2)", X, {"precision": 5e-3}),
    "a degree too low": ("lambda x: 2 * cb.sigmoid(x, degree=1) + 1", X, {"precision": 1e-4}),
    "several results": (
        "lambda x: {'a': cb.relu(W @ x), 'b': cb.sigmoid(x)}",
        X,
        {"error": {"a": 1e-5, "b": 1e-3}},
    ),
    "too precise": ("lambda x: (x * x) * (x * x)", X, {"precision": 1e-15}),
    "beyond float64": ("lambda x: x * x", X, {"precision": 1e-18}),
}


def _function(source: str, call: Call | None = None) -> Any:
    return eval(compile(edited(source, call), "net.py", "eval"), {"cb": cb, "W": W})


@pytest.mark.parametrize("name", REFUSED)
def test_advice_compiles(name: str) -> None:
    source, operands, options = REFUSED[name]
    with pytest.raises(cb.CipherblasError) as caught:
        cb.compile(_function(source), operands, **options)
    error = caught.value
    ready = [one for one in error.advice if is_rescaled(one)]
    assert ready, str(error)
    for advice in ready:
        with any_plan_does():
            cb.compile(_function(source, advice.call), operands, **advised_options(options, advice))
    lines = str(error).splitlines()
    assert len(lines) >= 2 and all(len(line) < 300 for line in lines)
    assert "inf" not in str(error).split() and lines[0].count("(expected") <= 1


@pytest.mark.filterwarnings("error::cipherblas.PrecisionWarning")
def test_a_relu_compiles_by_default() -> None:
    program = cb.compile(lambda x: cb.relu(x), X)
    assert program.plan.error <= program.plan.error_target <= 1.1e-4


def test_two_relus_compile_by_default_less_precisely() -> None:
    with pytest.warns(PrecisionWarning, match=r"cb.relu \(test_advice.py, line \d+\)") as warned:
        program = cb.compile(lambda x: cb.relu(W @ cb.relu(W @ x)), X)
    assert warned[0].filename == __file__
    assert program.plan.error <= program.plan.error_target


@pytest.mark.parametrize("precision", [1e-1, 1e-2, 1e-4, 1e-6])
def test_functions_follow_the_precision_of_the_program(precision: float) -> None:
    """Two functions and what is between them: together they take half of what is allowed."""
    program = cb.compile(lambda x: cb.tanh(W @ cb.sigmoid(4 * x)), X, precision=precision)
    x = np.linspace(-1, 1, 8)
    exact = np.tanh(W @ (1 / (1 + np.exp(-4 * x))))
    assert np.abs(program.evaluate({"x": x}) - exact).max() <= program.plan.error <= program.plan.error_target


def test_functions_on_samples() -> None:
    """On the ranges that samples have, and beside the functions themselves."""
    samples = np.random.default_rng(2).uniform(-1, 1, (20, 8))
    program = cb.compile(lambda x: W @ cb.relu(W @ cb.tanh(W @ x)), X, samples={"x": samples}, precision=3e-2)
    x = samples[0] * 0.9
    exact = W @ np.maximum(W @ np.tanh(W @ x), 0)
    assert np.abs(program.evaluate({"x": x}) - exact).max() <= program.plan.error


def test_precisions_of_functions_are_spent_where_they_count() -> None:
    """A function whose value is multiplied by little may be coarse: its polynomial has a lower degree."""

    def degrees(factor: float) -> list[int]:
        program = cb.compile(lambda x: cb.tanh(4 * x) + factor * cb.exp(x), X, precision=1e-5)
        return [
            len(node.parameters["coefficients"])
            for node in ordered(program.expression)
            if node.op == "polynomial"
        ]

    assert degrees(1e-3)[1] < degrees(1.0)[1]
