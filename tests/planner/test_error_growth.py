"""What a plan promises of deep programs: errors grow as the functions that were written let them, and no faster."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import chebyshev

import cipherblas as cb
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.lang.analysis import evaluate_clear, trace
from cipherblas.lang.curves import Gated, curve_of
from cipherblas.lang.graph import deduplicated
from cipherblas.lang.nodes import ordered
from cipherblas.methods.polynomial.paterson_stockmeyer import PatersonStockmeyer
from cipherblas.rlwe.noise import SlotErrors
from cipherblas.rlwe.rings import RingShape
from tests.support.runs import run, toy

S = cb.secret
RNG = np.random.default_rng(51)


def relus(x: Any, layers: int, precision: float) -> Any:
    for _ in range(layers):
        x = cb.relu(x - 0.01, precision=precision)
    return x


@pytest.mark.parametrize("precision", [0.1, 0.01, 0.003])
def test_relu_after_relu_errs_by_the_sum_of_their_errors(precision: float) -> None:
    node = trace(lambda x: relus(x, 3, precision), {"x": S(50)})
    exact = x = np.linspace(-1, 1, 50)
    for _ in range(3):
        exact = np.maximum(exact - 0.01, 0)
    off = np.abs(evaluate_clear(node, {"x": x}) - exact).max()
    assert off <= node.missed <= 3 * precision * 1.25


def test_a_finer_function_promises_more() -> None:
    precisions = (0.1, 0.03, 0.01, 0.003)
    missed = [trace(functools.partial(relus, layers=3, precision=p), {"x": S(4)}).missed for p in precisions]
    assert missed == sorted(missed, reverse=True) and missed[-1] < missed[0] / 20


def test_a_function_is_as_steep_as_it_was_written() -> None:
    """The polynomial for |x| is steeper than |x| between its kinks."""
    node = trace(lambda x: cb.chebyshev(np.abs, cb.relu(x, precision=0.01), degree=40), {"x": S(4)})
    inner = node.children[0]
    assert node.missed == pytest.approx(node.error + inner.missed, rel=0.03)
    assert node.gain(0) > 1.1


@pytest.mark.parametrize("precision", [0.1, 0.01])
def test_slopes_of_curves_are_those_of_differences(precision: float) -> None:
    node = trace(lambda x: cb.relu(3 * x + 0.0, precision=precision), {"x": S(20001)})
    gated = next(one for one in ordered(node) if isinstance(one, Gated))
    curve = curve_of(gated)
    assert curve is not None
    x = np.linspace(-1, 1, 20001)
    slopes = np.abs(np.diff(evaluate_clear(gated, {"x": x})) / np.diff(3 * x))
    assert 0.3 * curve.slopes[id(gated)] < slopes.max() <= curve.slopes[id(gated)]
    steps = math.prod(one.gain(0) for one in ordered(gated) if one.op == "polynomial")
    assert curve.slopes[id(gated)] < min(12.0, 3 * steps)


def test_no_curve_where_entries_differ() -> None:
    x = S(3)
    for factor in (lambda z: z * np.arange(1.0, 4.0), lambda z: z[::-1], lambda z: z + z.sum()):
        z = trace(lambda x: 2.0 * x + 1.0, {"x": x})
        assert curve_of(Gated(z, factor(z))) is None


ERRORS = SlotErrors(own=1e-4)


@pytest.mark.parametrize("degree", [31, 62, 127])
def test_arguments_beyond_their_interval(degree: int) -> None:
    """What is off by 1e-3 exceeds 1 by as much: powers of high degrees would grow, and with them what is predicted."""
    coefficients = chebyshev.chebinterpolate(lambda t: np.tanh(3 * t), degree)
    ring = RingShape.for_depth(64, 10)
    method = PatersonStockmeyer(tuple(coefficients), 1.01)
    symbolic = Symbolic(ring)
    found = method.run(symbolic, symbolic.assume_errors(symbolic.fresh(None, bound=1.0), ERRORS))
    assert found.errors.deviation < 4 * 3 * ERRORS.own
    values = np.linspace(-1.001, 1.001, 64)
    clear = Clear(ring)
    ct = clear.assume_errors(clear.fresh(values + 0j, bound=1.0), ERRORS)
    result = method.run(clear, ct)
    assert np.abs(result.data.real - chebyshev.chebval(values, coefficients)).max() < 1e-9


def test_slopes_are_those_of_where_arguments_lie() -> None:
    """A fit that is free at the ends is steep there, and arguments stay away."""
    coefficients = (*[0.0] * 30, 0.0, 1.0)  # T_31: slope 31² at the end
    ring = RingShape.for_depth(64, 10)
    method = PatersonStockmeyer(coefficients, 1.0)
    deviations = []
    for bound in (0.5, 1.0):
        ev = Symbolic(ring)
        deviations.append(
            method.run(ev, ev.assume_errors(ev.fresh(None, bound=bound), ERRORS)).errors.deviation
        )
    assert deviations[0] <= 1.3 * 31 / math.sqrt(1 - 0.25) * ERRORS.own
    assert deviations[1] >= 31**2 * ERRORS.own


def network(sizes: tuple[int, ...]) -> tuple[list[Any], list[float], Any]:
    """Weights, bounds of what activations are of, and inputs."""
    weights = [RNG.normal(size=(b, a)) * math.sqrt(2 / a) for a, b in itertools.pairwise(sizes)]
    x = RNG.uniform(0, 1, (sizes[0], 8))
    bounds, values = [], x
    for w in weights[:-1]:
        bounds.append(1.3 * float(np.abs(w @ values).max()))
        values = np.maximum(w @ values, 0)
    return weights, bounds, x


@pytest.mark.encrypted
def test_a_network_of_two_hidden_layers_keeps_its_promise() -> None:
    weights, bounds, x = network((12, 12, 8, 4))

    def layers(x: Any) -> Any:
        for w, bound in zip(weights[:-1], bounds, strict=True):
            x = cb.relu(cb.assume(w @ x, bound), precision=0.05)
        return weights[-1] @ x

    program = toy(layers, x=S(*x.shape), precision=0.9)
    exact = x
    for w in weights[:-1]:
        exact = np.maximum(w @ exact, 0)
    found = run(program, {"x": x}).decrypted
    assert (
        np.abs(found - weights[-1] @ exact).max()
        <= program.plan.error
        < deduplicated(program.expression).bound
    )


def squares(x: Any) -> Any:
    for _ in range(4):
        x = x * x + 0.5 * x
    return x


@pytest.mark.encrypted
def test_a_promise_that_says_nothing_warns_and_names_the_step() -> None:
    def program(x: Any) -> Any:
        return 5.0 * cb.assume(cb.relu(x - 0.25, precision=0.05), 0.1)

    with pytest.warns(
        cb.PrecisionWarning, match=r"it is lost in assume\(relu\(.*cb.assume\(x, bound, error=…\)"
    ):
        cb.compile(program, {"x": S(8)}, error=0.45, security=0, insecure=True, ring_degree=4096)


@pytest.mark.encrypted
def test_a_promised_error_is_where_errors_begin_anew() -> None:
    def iterated(x: Any, **promise: float) -> Any:
        for _ in range(3):
            x = cb.assume(2 * x - 1.5 * x * x, 0.7, **promise)
        return x

    plain = toy(iterated, x=S(8, bound=0.7), precision=1e-3)
    program = toy(lambda x: iterated(x, error=1e-5), x=S(8, bound=0.7), precision=1e-3)
    assert program.expression.missed == 1e-5 <= program.plan.error <= program.plan.error_target
    assert program.plan.parameters.scale_bits < plain.plan.parameters.scale_bits
    assert "error=1e-05" in program.explain()
    x = RNG.uniform(0.2, 0.66, 8)
    found = run(program, {"x": x}).decrypted
    assert np.abs(found - program.evaluate({"x": x})).max() <= program.plan.error
