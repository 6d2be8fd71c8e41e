"""Counted blocks: loops over blocks that are counted once and multiplied give what walking every block gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.common import work
from cipherblas.evaluators.slots import bookkeeping
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.lang.analysis import trace as traced
from cipherblas.lang.facts import products
from cipherblas.lang.graph import Axes, deduplicated
from cipherblas.lang.nodes import Expression
from cipherblas.methods.products import ALGORITHMS, find
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.executor import Executor
from cipherblas.runtime.inputs import Inputs, SymbolicInputs
from cipherblas.runtime.values import Decisions, MethodChoice, Value
from tests.corpus.machine import MACHINE
from tests.support.clear_runs import evaluators_of, numbered

S, P = cb.secret, cb.public
RING = RingShape.for_depth(512, 14, 30.0)
LIMB_BYTES = RING.n * 8
WEIGHTS = np.random.default_rng(3).normal(size=(20, 20))
MAX_LENGTH, MAX_BLOCKS = 16, 4


class Walked(Symbolic):
    """Walks every block, and counts every transform, as a real run does."""

    schedule = "local"
    linear_transform = Evaluator.linear_transform


class WalkedInputs(SymbolicInputs):
    """Packs every block of a clear part by itself."""

    blocks = Inputs.blocks


Program = tuple[Callable[..., Any], dict[str, Any]]


def programs(m: int, k: int, n: int, p: int) -> list[Program]:
    """What programs of matrices are made of, with secret, clear and constant factors of any grid."""
    w = WEIGHTS[:p, :m]
    return [
        (lambda a, b: a @ b, {"a": S(m, k), "b": S(k, n)}),
        (lambda a, b: a @ b, {"a": P(m, k, bound=3), "b": S(k, n)}),
        (lambda a, b: a @ b + 0.5, {"a": S(m, k), "b": P(k, n)}),
        (lambda a, b, c: (a @ b) @ c, {"a": S(m, k), "b": S(k, n), "c": S(n, p)}),
        (lambda a, b, c: a @ (b @ c), {"a": S(m, k), "b": S(k, n), "c": S(n, p)}),
        (
            lambda a, b, c, d: a @ b - c @ d,
            {"a": S(m, k), "b": S(k, n), "c": S(m, p), "d": S(p, n, bound=7)},
        ),
        (lambda a, b: (a @ b) * (a @ b) * 0.3 + 1.5, {"a": S(m, k), "b": S(k, n)}),
        (lambda a: a.T @ a, {"a": S(m, k)}),
        (lambda a: a @ a @ a, {"a": S(m, m)}),
        (lambda a: (2 * a) @ (2 * a) + a, {"a": S(m, m)}),
        (lambda a, b: w @ (a @ b) + 1, {"a": S(m, k), "b": S(k, n)}),
        (lambda b: w @ (b * b * b * -0.004 + b * 0.197 + 0.5), {"b": S(m, n)}),
        (lambda a, b, c: a * b - c * 0.25, {"a": S(m, n), "b": S(m, n), "c": S(m, n, bound=9)}),
        (lambda a, b, c: (a @ b) * c + c, {"a": P(m, k), "b": S(k, n), "c": S(m, n)}),
    ]


def run(
    counter: Symbolic,
    inputs: SymbolicInputs,
    expression: Expression,
    choices: list[MethodChoice],
    blocks: Any,
) -> Value:
    decisions = Decisions("blocks", numbered(expression, choices), blocks)
    return Executor(evaluators_of(counter), expression, decisions, inputs).run()


def check(
    expression: Expression,
    choices: list[MethodChoice],
    blocks: dict[str, int],
    exact_peak: bool,
    **options: Any,
) -> None:
    walked, counted = Walked(RING, **options), Symbolic(RING, **options)
    walked_inputs, counted_inputs = WalkedInputs(), SymbolicInputs()
    try:
        expected = run(walked, walked_inputs, expression, choices, blocks)
    except cb.CipherblasError as error:
        with pytest.raises(type(error)):
            run(counted, counted_inputs, expression, choices, blocks)
        return
    result = run(counted, counted_inputs, expression, choices, blocks)
    assert counted.counts == walked.counts
    assert counted.request == walked.request
    assert list(counted_inputs.wanted) == list(walked_inputs.wanted)
    assert counted.ledger.live == walked.ledger.live
    if exact_peak:
        assert counted.peak_bytes == walked.peak_bytes
    else:  # encodings of later blocks of a clear factor are booked with those of the first one
        encodings = walked.run_bytes + walked.mask_bytes
        assert walked.peak_bytes <= counted.peak_bytes <= walked.peak_bytes + encodings
    assert result.form == expected.form and result.unit == expected.unit
    for found_row, expected_row in zip(result.cells, expected.cells, strict=True):
        for found_cell, expected_cell in zip(found_row, expected_row, strict=True):
            for x, y in zip(found_cell, expected_cell, strict=True):
                assert (x.limbs, x.scale, x.components) == (y.limbs, y.scale, y.components)
                assert x.bound == pytest.approx(y.bound, rel=1e-9)
                assert x.noise == pytest.approx(y.noise, rel=1e-9)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_counted_blocks_are_those_of_a_walk(data: st.DataObject) -> None:
    shape = [data.draw(st.integers(1, MAX_LENGTH), label=name) for name in "mknp"]
    function, operands = data.draw(st.sampled_from(programs(*shape)), label="program")
    expression = deduplicated(traced(function, operands))
    axes = Axes(expression)
    blocks = {
        axis: data.draw(st.integers(-(-length // MAX_BLOCKS), length), label=axis)
        for axis, length in axes.lengths.items()
    }
    choices = []
    for node in products(expression):
        name = data.draw(st.sampled_from(sorted(ALGORITHMS)), label="algorithm")
        rows, inner = axes.of(node.children[0])
        block = blocks[rows], blocks[inner], blocks[axes.of(node)[1]]
        found = list(find(name).candidates(*block, RING.n // 2))
        assume(found)
        choices.append(MethodChoice(name, data.draw(st.sampled_from(found), label="options")))
    budgets = st.sampled_from([0, 40 * LIMB_BYTES, 300 * LIMB_BYTES, 1 << 28])
    policy = data.draw(st.sampled_from(["direct", "composed", "binary"]), label="policy")
    masks, kept = data.draw(budgets, label="masks"), data.draw(budgets, label="kept")
    clear = any(not child.secret for node in products(expression) for child in node.children)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bookkeeping, "RUN_BYTES", kept)
        check(expression, choices, blocks, not clear, key_policy=policy, mask_budget=masks)


def test_a_large_grid_takes_no_more_handles_than_a_small_one() -> None:
    """Of 10^8 block products as of 64."""
    handles = []
    for length in (64, 8_000):
        expression = traced(lambda a, b: a @ b, {"a": S(length, length), "b": S(length, length)})
        blocks = dict.fromkeys(Axes(expression).lengths, 16)
        choices = [MethodChoice("skewed", {"baby_steps": 8})]
        with work.budget_of(1 << 60):
            counter = Symbolic(RING)
            run(counter, SymbolicInputs(), expression, choices, blocks)
        handles.append(counter.ledger.handles)
        assert counter.counts.products == 8 * (length // 16) ** 3
    assert handles[0] == handles[1]


def test_baby_steps_that_do_not_divide_are_priced() -> None:
    """Giant steps of fhe-mm are booked by counts that are remembered."""
    operands = {"a": cb.secret(12, 10), "b": cb.secret(10, 9)}
    options: dict[str, Any] = {"algorithm": "fhe-mm", "options": {"baby_steps": 7}, "machine": MACHINE}
    assert cb.compile(lambda a, b: a @ b, operands, **options).plan.algorithm == "fhe-mm"
