"""Errors that the plan of a network predicts, and bounds that a user promises of values between layers."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.lang.operations import Leaf
from cipherblas.methods.doubling import folded, repeated
from cipherblas.planner.predict.dry_run import dry_run
from cipherblas.planner.predict.machine import Machine
from cipherblas.planner.search.tensors import GreedyMethods, Prices
from cipherblas.rlwe.noise import SlotErrors, tail
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.values import Decisions
from tests.support.runs import TOY, Parties, Run, encrypted, toy, values_of

RANDOM = np.random.default_rng(6)
INPUTS, HIDDEN, OUTPUTS = 400, 12, 3
FIRST = RANDOM.normal(0, 1, (HIDDEN, INPUTS)) / 80
SECOND = RANDOM.normal(0, 1, (OUTPUTS, HIDDEN)) / 4
# Of |FIRST @ x| for random x: a sum of 400 terms, far below the sum of their absolute values.
TYPICAL = 1.0


def network(x: Any, bound: float | None = None) -> Any:
    hidden = FIRST @ x
    return SECOND @ cb.square(hidden if bound is None else cb.assume(hidden, bound))


def ran(function: Any, **arguments: Any) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return encrypted(function, **TOY, **arguments)


def test_predicted_error_of_a_folded_product_is_near() -> None:
    """Inputs of 500 entries, 4 outputs: partial sums are folded, and every weight's error counts once.

    The worst entry is below the prediction, which is `tail` deviations; a deviation is `PRODUCT_TAIL` times the true
    one at most, times what the largest row of weights exceeds the others by.
    """
    weights = np.random.default_rng(2).choice([-1.0, 1.0], (4, 500))
    parties = Parties(toy(lambda x: weights @ x, x=cb.secret(500), precision=1e-4, form="tensors"))
    plan = parties.program.plan
    deviation = plan.error / tail(4)
    assert plan.choices[-1].options["n"] < 500  # it is folded
    runs = [parties.run(values_of(parties.program, seed)).check() for seed in range(8)]
    found = np.sqrt(np.mean([(run.decrypted - run.expected) ** 2 for run in runs]))
    assert deviation / 14 < found < deviation


def test_errors_of_copies_add_in_quadrature() -> None:
    for times in (2, 3, 8, 11):
        ev = Symbolic(RingShape.for_depth(64, 2))
        ct = ev.fresh(None, bound=1.0)
        ct.errors = SlotErrors(1.0)  # far above that of a rotation
        for total in (repeated(ev, ct, times, 5), folded(ev, ct, times, 5)):
            assert math.isclose(total.noise, math.sqrt(times), rel_tol=1e-6)


def test_errors_of_two_factors_may_be_the_same() -> None:
    ev = Symbolic(RingShape.for_depth(64, 2))
    x, y = ev.fresh(None, bound=8.0), ev.fresh(None, bound=8.0)
    assert math.isclose(ev.multiply(x, x).noise, 2 * 8.0 * x.noise, rel_tol=1e-6)
    assert math.isclose(ev.multiply(x, y).noise, 2 * 8.0 * x.noise, rel_tol=1e-6)


def test_assumed_bounds_lower_the_prediction_and_not_the_result() -> None:
    """On the same ring: bounds of every input, and a promise that these inputs keep."""
    assumed = ran(lambda x: network(x, TYPICAL), x=cb.secret(INPUTS), precision=1e-6).check()
    ring = assumed.program.plan.parameters
    by_all = ran(network, x=cb.secret(INPUTS), parameters=ring).check()
    values = np.random.default_rng(1).uniform(-1, 1, (INPUTS, 1000))
    assert np.abs(FIRST @ values).max() < TYPICAL < np.abs(FIRST).sum(axis=1).max() / 3
    np.testing.assert_array_equal(assumed.expected, by_all.expected)
    assert assumed.program.plan.error < by_all.program.plan.error / 2


def test_bounds_are_only_ever_narrowed() -> None:
    x = Leaf("x", cb.secret(5, bound=3.0))
    assert cb.assume(x, 2.0).bound == 2.0
    assert cb.assume(x, 4.0).bound == 3.0
    assert cb.square(cb.assume(x, 2.0)).bound == 4.0
    expected = np.abs(SECOND).sum(axis=1).max() * TYPICAL**2
    assert network(Leaf("x", cb.secret(INPUTS)), TYPICAL).bound == pytest.approx(expected)


def test_assumed_bounds_are_part_of_the_file(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, two = (
            cb.compile(lambda x, b=bound: network(x, b), {"x": cb.secret(INPUTS)}, **TOY)
            for bound in (1.0, 2.0)
        )
        one.save(tmp_path / "program")
        loaded = cb.Program.load(tmp_path / "program", insecure=True)
    assert "assume(" in one.explain()
    assert loaded.id == one.id != two.id
    assert loaded.plan.error == one.plan.error
    assert loaded.expression.bound == one.expression.bound


def test_refused_promises() -> None:
    x = Leaf("x", cb.secret(5))
    with pytest.raises(cb.DTypeError, match=r"assumed of must be a node of the program .got list"):
        cb.assume([1.0], 1.0)  # type: ignore[arg-type]
    with pytest.raises(cb.DTypeError, match=r"bound that is assumed must be a number .got str"):
        cb.assume(x, "1")  # type: ignore[arg-type]
    with pytest.raises(cb.ParameterError, match="assumed of an encrypted node"):
        cb.assume(Leaf("w", cb.public(5)), 1.0)
    for bound in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(cb.RangeError):
            cb.assume(x, bound)


def test_layers_without_masks_spend_fewer_levels() -> None:
    """A second product behind one that leaves sums of parts in other slots: repeated, it needs a mask, a level."""
    slots = 1 << 10
    expression = network(Leaf("x", cb.secret(INPUTS)))
    found = {}
    for masks in (True, False):
        chooser = GreedyMethods(expression, slots, Prices.of(Machine.here().rates, slots), masks)
        ring = RingShape.for_depth(slots, 8)
        run = dry_run(ring, expression, Decisions("tensors"), choose=chooser)
        asked = sum("mask" in choice.options for choice in run.choices.values())
        found[masks] = asked, run.results[0].first().limbs
    assert found[True][0] == 1 and found[False][0] == 0
    assert found[False][1] == found[True][1] + 1
