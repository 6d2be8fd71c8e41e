"""Polynomials and functions as nodes: coefficients, bounds, slopes, errors over whole intervals, refusals."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev, polynomial
from scipy import special

import cipherblas as cb
from cipherblas.lang.graph import formula
from cipherblas.lang.layers import Truncated
from cipherblas.lang.minimax import composition
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.operations import Leaf
from cipherblas.lang.polynomials import Polynomial, largest_value, of_powers
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.rewrite.precisions import with_defaults

GRID = 8_001


def leaf(bound: float = 1.0, *shape: int) -> Leaf:
    return Leaf("x", cb.secret(*(shape or (GRID,)), bound=bound))


def value(node: Expression, x: Any) -> Any:
    """The node in NumPy."""
    found: dict[int, Any] = {}
    for one in ordered(node):
        found[id(one)] = x if one.operand is not None else one.evaluate([found[id(c)] for c in one.children])
    return found[id(node)]


def stated(node: Expression, f: Callable[[Any], Any], low: float, high: float, within: float = 0.0) -> float:
    """The stated error of a function, which no entry of the interval exceeds, nor its bound; entries within a distance
    of zero are free."""
    x = np.union1d(np.linspace(low, high, GRID // 2), np.geomspace(max(low, high * 1e-6), high, GRID // 2))
    x = np.resize(x, GRID)
    found = value(node, x)
    assert np.abs(found).max() <= node.bound
    error = node.missed
    off = np.abs(found - f(x))[np.abs(x) >= within]
    assert off.max() <= error
    return error


# --- polynomials ---


@given(
    st.lists(st.floats(-10, 10), min_size=2, max_size=12),
    st.floats(-20, 20).map(lambda bits: 2.0**bits),
)
@settings(max_examples=30, deadline=None)
def test_chebyshev_coefficients_are_exact_but_for_one_rounding(powers: list[float], reach: float) -> None:
    found = of_powers(powers, reach)
    for point in (Fraction(1), Fraction(-1), Fraction(1, 3)):
        exact = sum((Fraction(a) * (point * Fraction(reach)) ** i for i, a in enumerate(powers)), Fraction(0))
        before, now, total = Fraction(1), point, Fraction(0)
        for coefficient in found:
            total += Fraction(coefficient) * before
            before, now = now, 2 * point * now - before
        allowed = sum(abs(Fraction(c)) for c in found) / 2**53 + Fraction(len(found), 2**1074)
        assert abs(total - exact) <= allowed


@given(st.lists(st.integers(-99, 99), min_size=2, max_size=40), st.floats(1e-3, 1))
@settings(max_examples=40, deadline=None)
def test_bounds_and_slopes_hold_and_are_tight(coefficients: list[int], part: float) -> None:
    if not any(coefficients[1:]):
        return
    node = Polynomial(leaf(3.0 * part), coefficients, 3.0)
    x = np.linspace(-3.0 * part, 3.0 * part, GRID)
    largest = np.abs(value(node, x)).max()
    assert largest <= node.bound <= largest * 1.01 + 2.0**-40 * np.abs(coefficients).sum()
    slopes = chebyshev.chebval(x / 3.0, chebyshev.chebder(coefficients)) / 3.0
    assert np.abs(slopes).max() <= node.gain(0) <= np.abs(slopes).max() * 1.01 + 2.0**-36


def test_what_a_polynomial_becomes() -> None:
    x = leaf(2.0, 5)

    def ops(node: Expression) -> list[str]:
        return [one.op for one in ordered(node)]

    assert ops(cb.polynomial(x, [1.0, 2.0])) == ["operand", "scale", "constant", "add"]
    assert ops(cb.polynomial(x, [0.0, 0.0, 1.0])) == ["operand", "multiply"]
    assert ops(cb.polynomial(x, [0.0, 3.0, 0.0, 0.0, 1.0])).count("multiply") == 2
    assert ops(cb.polynomial(x, [0.5, 1.0, 1.0, -2.0])) == ["operand", "polynomial"]
    node = cb.polynomial(leaf(2.0), [0.5, 1.0, 1.0, -2.0])
    points = np.linspace(-2, 2, GRID)
    assert np.allclose(value(node, points), polynomial.polyval(points, [0.5, 1.0, 1.0, -2.0]), atol=1e-13)
    assert formula(cb.polynomial(x, [0.5, 1.0, 1.0, -2.0])) == "polynomial[3](x)"
    transposed = cb.polynomial(leaf(1.0, 2, 3), [0, 1, 2, 3]).T
    assert transposed.shape == (3, 2) and transposed.op == "polynomial"


def test_small_terms_are_shed_and_counted() -> None:
    node = Polynomial(leaf(), [0.5, 0.25, 1e-9, 0.1, 1e-12, 0.01, -1e-9], 1.0)
    found = node.shortened(1e-8)
    assert isinstance(found, Polynomial) and found.degree == 5
    assert found.error == pytest.approx(2.001e-9) and found.coefficients[2::2] == (0.0, 0.0)
    assert node.shortened(1e-13) is node
    few = Polynomial(leaf(), [0.5, 0.25, 1e-9, 0.1], 1.0).shortened(1e-8)
    assert isinstance(few, Truncated) and few.bound >= largest_value((0.5, 0.25, 0.0, 0.1))
    x = np.linspace(-1, 1, GRID)
    assert np.abs(value(few, x) - value(Polynomial(leaf(), [0.5, 0.25, 0.0, 0.1], 1.0), x)).max() < 1e-15


# --- functions of one interval ---

FUNCTIONS: dict[str, tuple[Callable[..., Expression], Callable[[Any], Any]]] = {
    "sigmoid": (cb.sigmoid, special.expit),
    "tanh": (cb.tanh, np.tanh),
    "gelu": (cb.gelu, lambda x: x * special.ndtr(x)),
    "exp": (cb.exp, np.exp),
}


@pytest.mark.parametrize("bound", [1e-6, 1.0, 20.0])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_over_the_whole_interval(name: str, bound: float) -> None:
    make, f = FUNCTIONS[name]
    for options in ({}, {"precision": 1e-8}, {"degree": 5}):
        node = with_defaults(make(leaf(bound), **options), PlanOptions())
        error = stated(node, f, -bound, bound)
        if "degree" not in options:
            size = np.abs(f(np.linspace(-bound, bound, GRID))).max()
            assert error <= options.get("precision", 5e-5) * size
    assert name in formula(make(leaf(8.0))) and name in formula(with_defaults(make(leaf(8.0)), PlanOptions()))


@pytest.mark.parametrize(("lower", "bound"), [(0.1, 1.0), (1.0, 30.0), (1e-6, 1e-5), (900.0, 1e6 / 500)])
def test_inverse_and_root(lower: float, bound: float) -> None:
    node = with_defaults(cb.inverse(leaf(bound), lower=lower), PlanOptions())
    assert stated(node, lambda x: 1 / x, lower, bound) <= 5e-5 / lower
    node = cb.sqrt(leaf(bound), lower=lower, precision=1e-4)
    assert stated(node, np.sqrt, lower, bound) <= 1e-4 * math.sqrt(bound)


def test_any_function() -> None:
    def steps(number: float) -> float:
        return math.log(number) if number > 2 else math.log(2)

    node = cb.chebyshev(steps, leaf(9.0), interval=(1.0, 9.0), degree=60, promised=True)
    assert 1e-4 < stated(node, np.vectorize(steps), 1.0, 9.0) < 0.1
    assert formula(node).startswith("steps[60](assume(")
    wide = cb.chebyshev(np.cos, leaf(2.0), interval=(-3.0, 5.0), precision=1e-8)
    assert stated(wide, np.cos, -2.0, 2.0) <= 1e-8
    line = with_defaults(cb.chebyshev(lambda t: 3 * t + 1, leaf(2.0)), PlanOptions())
    assert {one.op for one in ordered(line)} <= {"operand", "scale", "constant", "add", "truncated"}


# --- sign and what is made of it ---


@pytest.mark.parametrize(("margin", "precision"), [(0.1, 1e-3), (0.02, 1e-3), (0.5, 1e-9)])
@pytest.mark.parametrize("bound", [1.0, 1e6])
def test_sign(margin: float, precision: float, bound: float) -> None:
    node = cb.sign(leaf(bound), margin=margin * bound, precision=precision)
    assert node.bound <= 1 + 1.01 * precision + 0.002
    error = stated(node, np.sign, -bound, bound, within=margin * bound)
    assert error <= precision


def test_greater_and_relu() -> None:
    node = cb.greater(leaf(2.0), 0.5, margin=0.25, precision=1e-3)
    x = np.linspace(-2, 2, GRID)
    found = value(node, x)
    assert np.abs(found - (x > 0.5))[np.abs(x - 0.5) >= 0.25].max() <= node.missed <= 1e-3
    assert found.min() >= -2e-3 and found.max() <= 1 + 2e-3
    for bound, precision in ((1.0, 1e-2), (300.0, 1e-3)):
        node = cb.relu(leaf(bound), precision=precision)
        assert stated(node, lambda x: np.maximum(x, 0), -bound, bound) <= precision * bound * 1.001


def test_compositions_take_few_levels() -> None:
    def levels(low: float, precision: float) -> int:
        return sum((len(stage.coefficients) - 1).bit_length() for stage in composition(low, precision))

    assert levels(0.1, 1e-3) <= 8
    assert levels(2.0**-10, 2.0**-10) <= 14
    assert levels(2.0**-12, 2.0**-13) <= 17


# --- refused ---

X = cb.secret(4)
REFUSED: list[tuple[type[Exception], str, Callable[[Any], Any]]] = [
    (cb.RangeError, "could leave the interval", lambda x: cb.chebyshev(np.exp, x, interval=(-0.5, 0.5))),
    (cb.RangeError, "could leave the interval", lambda x: cb.chebyshev(np.exp, x, interval=(0.0, 2.0))),
    (cb.RangeError, "must have a length", lambda x: cb.chebyshev(np.exp, x, interval=(1.0, 1.0))),
    (cb.DTypeError, "must be two numbers", lambda x: cb.chebyshev(np.exp, x, interval=3)),
    (cb.DTypeError, "must be a number", lambda x: cb.chebyshev(np.exp, x, interval=(-1, "1"))),
    (cb.RangeError, "not finite on its interval", lambda x: cb.chebyshev(np.log, x)),
    (cb.PrecisionError, "so near to the function", lambda x: cb.chebyshev(np.sign, x)),
    (cb.ParameterError, "degree or a precision", lambda x: cb.sigmoid(x, degree=3, precision=0.1)),
    (cb.ParameterError, "(?s)got 256.*1 to 255", lambda x: cb.tanh(x, degree=256)),
    (cb.DTypeError, "must be an integer", lambda x: cb.tanh(x, degree=2.5)),
    (cb.RangeError, "precision of a function is out of range", lambda x: cb.tanh(x, precision=0)),
    (cb.DTypeError, "must be a node", lambda x: cb.exp(np.ones(3))),
    (cb.DTypeError, "must be a node", lambda x: cb.inverse(np.ones(3), lower=0.1)),
    (cb.RangeError, "range of doubles", lambda x: cb.exp(1000 * x)),
    (cb.RangeError, "must stay above 0", lambda x: cb.inverse(x, lower=0.0)),
    (cb.RangeError, "must stay above 0", lambda x: cb.sqrt(x, lower=1.0)),
    (cb.RangeError, "below the bound", lambda x: cb.sign(x, margin=1.0)),
    (cb.RangeError, "margin of a comparison is out of range", lambda x: cb.sign(x, margin=0)),
    (cb.PrecisionError, "No composition", lambda x: cb.sign(x, margin=1e-9)),
    (cb.DTypeError, "must be a node", lambda x: cb.relu(3.0)),
    (cb.RangeError, "could leave the interval", lambda x: Polynomial(x, [0, 1], 0.5)),
    (cb.ParameterError, "a term beside its constant", lambda x: Polynomial(x, [1, 0, 0], 1.0)),
    (cb.RangeError, "must be finite", lambda x: Polynomial(x, [1, math.nan], 1.0)),
    (cb.RangeError, "bound on the entries", lambda x: Polynomial(x, [1, 1e300], 1.0)),
    (cb.ParameterError, "Python identifier", lambda x: Polynomial(x, [0, 1], 1.0, name="a b")),
    (
        cb.RangeError,
        "values of a polynomial are out of range",
        lambda x: cb.polynomial(1e20 * x, [0.0, 0.0, 1.0, *[1.0] * 60]),
    ),
]


@pytest.mark.parametrize(("error", "text", "made"), REFUSED)
def test_what_is_refused(error: type[Exception], text: str, made: Callable[[Any], Any]) -> None:
    with pytest.raises(error, match=text):
        made(Leaf("x", X))


# --- functions that are none of one number, or not everywhere ---


def _raises(error: type[Exception]) -> Callable[[Any], Any]:
    def function(t: Any) -> Any:
        raise error("no")

    return function


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda t: None, cb.DTypeError),
        (lambda t: {}[t], cb.DTypeError),
        (lambda t: [][int(t) + 5], cb.DTypeError),
        (lambda t: t.missing, cb.DTypeError),
        (lambda t: "one", cb.DTypeError),
        (lambda t: [t, t], cb.DTypeError),
        (lambda t: t + 1j, cb.DTypeError),
        (lambda t: object(), cb.DTypeError),
        (lambda: 1.0, cb.DTypeError),
        (lambda t: cb.tanh(t), cb.DTypeError),
        ("tanh", cb.DTypeError),
        (_raises(RuntimeError), cb.DTypeError),
        (_raises(RecursionError), cb.DTypeError),
        (lambda t: 1 // 0, cb.RangeError),
        (lambda t: math.exp(t * 1e9), cb.RangeError),
        (lambda t: 10**400, cb.RangeError),
        (lambda t: math.nan, cb.RangeError),
        (_raises(ValueError), cb.RangeError),
    ],
)
def test_a_function_that_is_none_of_a_number(function: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        cb.chebyshev(function, leaf())


@pytest.mark.parametrize(
    "function",
    [
        lambda t: np.float32(0.5) * t,
        lambda t: 0.5 * t if t > 0 else t * 0.5,  # no arrays
        lambda t: Fraction(t) / 2,
        lambda t: np.array([t / 2]),
        lambda t: {True: t / 2}[True],
    ],
)
def test_functions_of_one_number_of_all_kinds(function: Any) -> None:
    found = cb.chebyshev(function, leaf())
    grid = np.linspace(-1, 1, GRID)
    assert np.abs(value(found, grid) - grid / 2).max() <= 1e-4
    assert cb.chebyshev(lambda t: t > 2, leaf()) is not None  # booleans are numbers; a constant is one


@pytest.mark.parametrize(
    "function",
    [
        cb.square,
        cb.tanh,
        functools.partial(cb.assume, bound=0.5),
        functools.partial(cb.polynomial, coefficients=[1, 2, 3, 4]),
        functools.partial(cb.chebyshev, np.cos),
        functools.partial(cb.sign, margin=0.5, precision=1e-2),
        functools.partial(cb.greater, threshold=0.1, margin=0.5, precision=1e-2),
        functools.partial(cb.relu, precision=0.1),
        cb.refresh,
    ],
)
def test_functions_of_a_batch_are_those_of_each_node(function: Any) -> None:
    operands = {"T": cb.secret(2, 3, 3), "U": cb.secret(2, 3, 3)}
    batch = Leaf("T", operands["T"]) @ Leaf("U", operands["U"]) / 3
    found = function(batch)
    assert type(found) is type(batch) and len(found) == 2
    for one, node in zip(found, batch, strict=True):
        assert formula(one) == formula(function(node))
    assert formula(function(x=batch)[1]) == formula(found[1])


def test_no_products_with_arrays_of_four_dimensions() -> None:
    array = Leaf("T", cb.secret(2, 3, 3))
    four, batch = array[:, None], array @ Leaf("U", cb.secret(2, 3, 3))
    for made in (lambda: four @ array, lambda: array @ four, lambda: batch @ four, lambda: batch + four):
        with pytest.raises(cb.ShapeError):
            made()


def test_a_batch_is_no_number_and_is_not_compared() -> None:
    batch = Leaf("T", cb.secret(2, 3, 3)) @ Leaf("U", cb.secret(2, 3, 3))
    for made in (
        lambda: batch > 0,
        lambda: 1 / batch,
        lambda: batch[2],
        lambda: batch[2:],
        lambda: batch["a"],
    ):
        with pytest.raises(cb.CipherblasError):
            made()
    with pytest.raises(cb.DTypeError, match=r"rounds of cb\.relu"):
        batch.argmax()
