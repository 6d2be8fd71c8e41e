"""Programs in blocks: counts and memory by multiplicity are those of running every task, one by one."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import pytest

import cipherblas as cb
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.shared import SharedSymbolic
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.lang.facts import products
from cipherblas.lang.graph import axes_of
from cipherblas.lang.nodes import ordered
from cipherblas.runtime.blocks import FEATURES
from cipherblas.runtime.executor import Executor
from cipherblas.runtime.inputs import Inputs, SymbolicInputs
from cipherblas.runtime.values import Value
from tests.support.clear_runs import evaluators_of

MAX_TASKS = 600  # products of blocks, or blocks of operands, that are worth walking


class Walked(Symbolic):
    """Runs every task, as a real run does."""

    schedule = "local"
    repeat, one_for_all = Evaluator.repeat, Evaluator.one_for_all


class WalkedInputs(SymbolicInputs):
    """Packs every block of a clear part by itself."""

    blocks = Inputs.blocks


def several(lines: Sequence[str]) -> bool:
    """Whether these are facts of a program in blocks, of which some matrix has several, but not too many."""
    if not any(line.split()[:2] == ["form", "blocks"] for line in lines):
        return False
    grids = [
        int(rows) * int(cols) for line in lines for rows, cols in re.findall(r"(\d+)x(\d+) blocks", line)
    ]
    return 1 < max(grids, default=0) <= MAX_TASKS


def run(evaluators: Evaluators, inputs: SymbolicInputs, program: cb.Program) -> list[Value]:
    return Executor(evaluators, program.executed, program.plan.decided, inputs).results()


def multiplicity_is_a_walk(program: cb.Program) -> None:
    """What a program in blocks takes, whose tasks are not too many."""
    plan = program.plan
    axes = axes_of(program.executed)
    block_products = 0
    for node in products(program.executed):
        (rows, inner), cols = axes.of(node.children[0]), axes.of(node)[1]
        sizes = (plan.decided.blocks[axis] for axis in (rows, inner, cols))
        lengths = (*node.children[0].shape, node.children[1].shape[1])
        block_products += math.prod(-(-a // b) for a, b in zip(lengths, sizes, strict=True))
    if block_products > MAX_TASKS:
        return
    options: dict[str, Any] = {"key_policy": plan.key_policy, "mask_budget": plan.mask_budget}
    counted, walked = Symbolic(plan.parameters, **options), Walked(plan.parameters, **options)
    counted_inputs, walked_inputs = SymbolicInputs(), WalkedInputs()

    def shared(secrets: int) -> SharedSymbolic:
        return SharedSymbolic(plan.parameters, secrets, key_policy=plan.key_policy)

    by_kind, one_by_one = evaluators_of(counted, shared=shared), evaluators_of(walked, shared=shared)
    results, all_expected = run(by_kind, counted_inputs, program), run(one_by_one, walked_inputs, program)
    assert by_kind.counts == one_by_one.counts
    assert by_kind.counts * max(1, len(plan.moduli)) == plan.counts
    assert by_kind.request == one_by_one.request == plan.keys
    assert counted.ledger.live == walked.ledger.live
    assert list(counted_inputs.wanted) == list(walked_inputs.wanted)
    if all(child.secret for node in ordered(program.executed) for child in node.children):
        assert counted.peak_bytes == walked.peak_bytes
    else:  # encodings of later blocks of a clear factor are booked with those of the first one
        assert 0 <= counted.peak_bytes - walked.peak_bytes <= walked.run_bytes + walked.mask_bytes
    nodes, choices = ordered(program.executed), plan.decided.choices
    by_secret_features = any(
        choice.method == FEATURES and all(child.secret for child in nodes[number].children)
        for number, choice in choices.items()
    )
    for result, expected in zip(results, all_expected, strict=True):
        assert result.form == expected.form
        assert {ct.limbs for ct in result.handles} == {ct.limbs for ct in expected.handles}
        for counted_ct, ct in zip(result.handles, expected.handles, strict=True):
            if (
                by_secret_features
            ):  # errors of the terms of a sum are taken to be one, since one handle stands for all
                assert counted_ct.noise / 2 < ct.noise <= counted_ct.noise * (1 + 1e-9)
            else:
                assert ct.noise == pytest.approx(counted_ct.noise, rel=1e-9)
