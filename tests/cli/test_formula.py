"""Formulas: parsed to the same expressions that Python builds, and nothing else is accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.cli.formula import Formula, FormulaError
from cipherblas.lang.analysis import evaluate_clear, evaluate_results, trace
from cipherblas.lang.graph import formula as formula_of
from cipherblas.lang.operands import public, secret
from cipherblas.lang.operations import Leaf
from cipherblas.lang.results import arranged

SHAPES = {"a": secret(3, 4), "b": secret(4, 3), "c": public(3, 3), "weights": secret(3, 3)}
VALUES = {name: np.random.default_rng(5).uniform(-1, 1, operand.shape) for name, operand in SHAPES.items()}


@pytest.mark.parametrize(
    "text",
    [
        "a @ b",
        "(a @ b).T",
        "a @ b + c",
        "2 * a @ b - 0.5 * c.T",
        "-(a @ b) * c",
        "+c - weights / 4",
        "(a@b)@(c + weights.T)",
        "a @ (b * 2e-1) * 1.5",
        "(2 * 3 - 1) * c * weights",
        "b.T @ a.T",
    ],
)
def test_means_what_numpy_means(text: str) -> None:
    formula = Formula(text)
    operands = {name: SHAPES[name] for name in formula.names}
    found = evaluate_clear(trace(formula, operands), VALUES)
    expected = eval(text, {}, dict(VALUES))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("text", ["a @ b, c", "a @ b,", "b.T @ a.T, -c, a @ b"])
def test_several_results(text: str) -> None:
    formula = Formula(text)
    operands = {name: SHAPES[name] for name in formula.names}
    node = trace(formula, operands)
    found, expected = evaluate_results(node, VALUES), eval(text, {}, dict(VALUES))
    assert isinstance(arranged(node, found), tuple) and len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_named_results_may_be_used_by_later_ones() -> None:
    formula = Formula("p = a @ b; q = p @ c - p")
    assert formula.names == ["a", "b", "c"]
    node = trace(formula, {name: SHAPES[name] for name in formula.names})
    found = arranged(node, evaluate_results(node, VALUES))
    p = VALUES["a"] @ VALUES["b"]
    assert isinstance(found, dict) and list(found) == ["p", "q"]
    np.testing.assert_allclose(found["q"], p @ VALUES["c"] - p, rtol=0, atol=1e-12)
    assert formula_of(node) == "p = a @ b; q = ((a @ b) @ c) - (a @ b)"
    assert Formula(formula_of(node)).names == ["a", "b", "c"]  # what `explain` prints can be given again


def test_functions_methods_and_indices() -> None:
    nodes = {"a": Leaf("a", secret(4, 6)), "s": Leaf("s", secret())}
    for text, shape in [
        ("mean(a[:, [1, 2]] ** 2, axis=0)", (2,)),
        ("a.sum(axis=(0, 1), keepdims=True) * s", (1, 1)),
        ("concatenate([a, -a[1:3, ::-1]], axis=0)", (6, 6)),
        ("a[-1, None].reshape(3, -1).T[..., 0]", (2,)),
        ("polynomial(a, [0, 1, 2]) - square(a)", (4, 6)),
        ("sigmoid(a) * greater(a, 0.5, margin=0.1)", (4, 6)),
        ("a[[True, False, True, True]]", (3, 6)),
    ]:
        found = Formula(text)(**{name: nodes[name] for name in Formula(text).names})
        assert found.shape == shape, text


def test_names_in_order_of_appearance() -> None:
    assert Formula("x @ weights + x @ y").names == ["x", "weights", "y"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a @",
        "a @ b; c",
        "x = a; b",
        "x = y = a",
        "x.y = a",
        "x, y = a, b",
        "x = a; x = b",
        "x = a; a = b",
        "x = x @ a",
        "x: a = b",
        "x += a",
        "a, (b, c)",
        "()",
        "x = 3",
        "__import__('os').system('true')",
        "a.real",
        "a.T.__class__",
        "a.inverse()",
        "print(a)",
        "sum(*a)",
        "sum(a, **b)",
        "a[lambda: 0]",
        "a['x'].y",
        "'a' @ a",
        "[a, a]",
        "a % b",
        "a if b else c",
        "lambda: a",
        "f(a)",
        "[a, b]",
        "'text' * a",
        "True * a",
        "1j * a",
        "a @ b < c",
        "not a",
        "~a",
        "(a := b)",
        "2 + 3",
        "1e999 * a",
        "9" * 1000 + " * a",
        "9" * 5000 + " * a",
        "a" + " + a" * 1500,
        "-" * 1000 + "a",
        "(" * 900 + "a" + ")" * 900,
        "\0a",
    ],
)
def test_refuses_everything_else(text: str) -> None:
    with pytest.raises(FormulaError):
        Formula(text)


def test_a_number_is_no_matrix() -> None:
    with pytest.raises(FormulaError, match="no transpose"):
        trace(Formula("a @ (2).T"), {"a": SHAPES["a"]})
    with pytest.raises(FormulaError):
        trace(Formula("a * (1 / 0)"), {"a": SHAPES["a"]})


@given(st.text(max_size=60) | st.text(alphabet="ab@+-*/.T()0123456789 ", max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    try:
        names: Any = Formula(text).names
    except FormulaError:
        return
    assert names and all(name.isidentifier() for name in names)
