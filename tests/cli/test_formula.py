"""Formulas: parsed to the same expressions that Python builds, and nothing else is accepted."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.cli.formula import CALLED, OF_FUNCTIONS, Formula, FormulaError
from cipherblas.cli.number_functions import OF_MATH, OF_NUMPY
from cipherblas.common.errors import RangeError
from cipherblas.lang.analysis import evaluate_clear, evaluate_results, trace
from cipherblas.lang.graph import formula as formula_of
from cipherblas.lang.graph import to_json
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import public, secret
from cipherblas.lang.operations import Leaf
from cipherblas.lang.results import arranged
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.rewrite.precisions import with_defaults

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


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("chebyshev(np.tanh, x, degree=9)", np.tanh),
        ("cb.chebyshev(numpy.tanh, x, degree=9)", np.tanh),
        ("cipherblas.chebyshev(tanh, x, degree=9)", np.tanh),
        ("chebyshev(math.tanh, x, degree=9)", math.tanh),
        ("chebyshev(degree=9, f=erf, x=x, name='erf')", math.erf),
        ("chebyshev(np.log1p, x, interval=(-0.5, 2), promised=True)", np.log1p),
        ("chebyshev(arctan, x.T - 1, precision=1e-3)", np.arctan),
    ],
)
def test_functions_of_numpy_and_math_by_name(text: str, function: Any) -> None:
    x = Leaf("x", secret(4, bound=2.0))
    formula = Formula(text)
    assert formula.names == ["x"]
    names = {"cb": cb, "cipherblas": cb, "np": np, "numpy": np, "math": math, "chebyshev": cb.chebyshev}
    names |= {"tanh": np.tanh, "erf": math.erf, "arctan": np.arctan, "x": x}
    expected = eval(text, names)
    assert same_graph(with_defaults(formula(x=x), PlanOptions()), with_defaults(expected, PlanOptions()))
    assert function.__name__ in formula_of(formula(x=x))


def same_graph(node: Expression, other: Expression) -> bool:
    return bool(to_json(node) == to_json(other))


def test_every_function_that_may_be_named_is_one_of_a_number() -> None:
    assert {"tanh", "arctan", "log1p", "sqrt", "absolute"} <= set(OF_NUMPY) and {"erf", "lgamma"} <= set(
        OF_MATH
    )
    others = {"add", "isnan", "invert", "sum", "load", "frompyfunc", "factorial", "pow", "fsum", "vectorize"}
    assert not others & {*OF_NUMPY, *OF_MATH}
    for function in (*OF_NUMPY.values(), *OF_MATH.values()):
        point = 1.0 if function.__name__ in ("acosh", "arccosh") else 0.5
        assert math.isfinite(function(point))


@pytest.mark.parametrize(
    "function",
    [
        *("x", "np.os", "np.add", "np.linalg.det", "np.load", "np.isnan", "np.vectorize", "np", "math.pow"),
        *(
            "os.system",
            "np.tanh.__class__",
            "__import__('os').system",
            "np.__dict__",
            "'tanh'",
            "lambda t: t",
        ),
        *("eval", "cb.tanh", "gelu", "np.tanh(x)", "[np.tanh]", "2", "None", "*x"),
    ],
)
def test_no_other_function_may_be_named(function: str) -> None:
    for text in (f"chebyshev({function}, x)", f"x + cb.chebyshev(x=x, f={function.lstrip('*')})"):
        with pytest.raises(FormulaError, match=r"is no function of one number.*np\.tanh or math\.erf"):
            Formula(text)


def test_a_function_takes_its_arguments() -> None:
    x = Leaf("x", secret(4, bound=2.0))
    for text, reason in [
        ("chebyshev(x=x)", "missing 1 required positional argument"),
        ("chebyshev(np.tanh, x, x)", "positional arguments"),
        ("chebyshev(np.tanh, x, size=1)", "unexpected keyword"),
    ]:
        with pytest.raises(FormulaError, match=reason):
            Formula(text)(x=x)
    for text, argument in [
        ("chebyshev(math.log, x)", "-2"),
        ("chebyshev(log, x)", "-2"),
        ("chebyshev(math.exp, 500 * x)", ""),
    ]:
        with pytest.raises(RangeError, match=f"not finite on its interval.*got {argument}"):
            Formula(text)(x=x)


def test_an_operand_may_be_called_like_the_library() -> None:
    a = Leaf("cb", secret(4, 6))
    formula = Formula("cb.mean() + cb.T.sum()", ["cb"])
    assert formula.names == ["cb"] and formula(cb=a).shape == ()
    assert Formula("cb.mean(a) + cb.sum(a)").names == ["a"]


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


def test_every_function_of_programs_is_known() -> None:
    """What `cipherblas` offers to write programs with, formulas have; a new function needs no list here."""
    written = {
        name
        for name in cb.__all__
        if inspect.isfunction(getattr(cb, name))
        and getattr(cb, name).__module__.startswith("cipherblas.lang.")
    }
    assert written == set(CALLED) and not {"public", "secret"} & written
    assert {"relu", "conv2d", "refresh", "stack", "joined", "split", "chebyshev"} <= set(CALLED)
    assert all(CALLED[name] is getattr(cb, name) for name in CALLED)


def test_functions_of_functions_are_known_as_such() -> None:
    """A parameter that is a function is given by a name, never built as a formula."""
    for name, function in CALLED.items():
        takes = [
            one for one in inspect.signature(function).parameters.values() if "Numeric" in str(one.annotation)
        ]
        assert [one.name for one in takes] == [one for other, one in OF_FUNCTIONS.items() if other == name]


def test_joined_and_split() -> None:
    formula = Formula("joined([a, b.T]) @ joined([c, c])[:4, :]")
    assert formula.names == ["a", "b", "c"]
    x = VALUES["a"]
    found = evaluate_clear(trace(Formula("split(a, 3)[1] + 0"), {"a": SHAPES["a"]}), {"a": x})
    np.testing.assert_allclose(found, x[1:2], rtol=0, atol=0)


@pytest.mark.parametrize(
    "text",
    [
        "a * 9**9**9",
        "a * 2**100000",
        "10.0**10.0**10.0 * a",
        "a * (1e300 * 1e300)",
        "a * (-8)**0.5",
    ],
)
def test_numbers_that_no_double_holds(text: str) -> None:
    with pytest.raises(FormulaError, match="double"):
        trace(Formula(text), {"a": SHAPES["a"]})


_TEXT = (
    "a b s 2 0 -1 1e300 ( ) [ ] , : @ + * / ** .T sum( axis= tanh( polynomial( concatenate( .mean( reshape( chebyshev( "
    "np.exp None ... = ; 'x' diag( outer( True relu( precision= 0.1 a[0] where( 1j cb. split( joined( greater("
)
_PIECES = _TEXT.split()


@given(st.lists(st.sampled_from(_PIECES), min_size=1, max_size=12))
def test_texts_of_all_kinds_are_formulas_or_refused(pieces: list[str]) -> None:
    """No exception but those that the command line shows as a sentence."""
    operands = {"a": secret(3, 4), "b": secret(4, 3), "s": secret(4)}
    try:
        formula = Formula(" ".join(pieces), operands)
        trace(formula, {name: operands.get(name, secret(3, 4)) for name in formula.names})
    except (FormulaError, cb.CipherblasError):
        pass
