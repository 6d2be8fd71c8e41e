"""Short cuts of the search for a plan: what is left out would not have been taken."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.lang.analysis import trace as traced
from cipherblas.lang.facts import products
from cipherblas.lang.graph import Axes
from cipherblas.lang.nodes import Expression
from cipherblas.methods.products import ALGORITHMS
from cipherblas.planner.plan.passes import Planned
from cipherblas.planner.plan.plan import Plan, PlanOptions
from cipherblas.planner.predict.dry_run import TooSlowError, dry_run
from cipherblas.planner.predict.feasible import Infeasible, feasible
from cipherblas.planner.rings import sizing
from cipherblas.planner.search import search
from cipherblas.planner.search.blocks import BlockStrategy
from cipherblas.planner.search.budgets import budgets_of, secret_entries
from cipherblas.planner.search.search import Search
from cipherblas.planner.search.strategy import Scored
from cipherblas.planner.search.tilings import block_lengths, single_product_tilings
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.values import Decisions, MethodChoice
from tests.corpus.machine import MACHINE
from tests.support.clear_runs import numbered

S, P = cb.secret, cb.public
WEIGHTS = np.random.default_rng(5).normal(size=(16, 24)) / 24


# --- the plan ---


def operands(**shapes: tuple[int, int]) -> dict[str, Any]:
    return {name: S(*shape) for name, shape in shapes.items()}


def squared(x: Any) -> Any:
    return x * x


# What is left out: by the upload (outer products of chains), by transforms (chains that are rearranged), by both.
PROGRAMS: list[tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = [
    (lambda a, b: a @ b, operands(a=(90, 60), b=(60, 70)), {}),
    (lambda a, b: a @ b, operands(a=(300, 5), b=(5, 300)), {"minimise": "server"}),
    (lambda a, b: a @ b, {"a": P(40, 90), "b": S(90, 30)}, {}),
    (lambda a, b, c: (a @ b) @ c, operands(a=(60, 60), b=(60, 60), c=(60, 60)), {}),
    (
        lambda a, b, c: (a @ b) @ c,
        operands(a=(150, 20), b=(20, 150), c=(150, 150)),
        {"upload_budget": 12 << 20},
    ),
    (lambda a, b, c: a @ (b @ c), operands(a=(9, 70), b=(70, 70), c=(70, 9)), {"minimise": "server"}),
    (lambda a, b, c: (a @ b) @ c, operands(a=(2, 2), b=(2, 2), c=(2, 2)), {"minimise": "server"}),
    (lambda a, b, c: a @ b + c @ b, operands(a=(120, 90), b=(90, 30), c=(120, 90)), {}),
    (lambda a, b: (a @ b) * (a @ b), operands(a=(50, 40), b=(40, 60)), {}),
    (lambda x: WEIGHTS[:10, :16] @ squared(WEIGHTS @ x + 0.1), operands(x=(24, 10)), {}),
    (lambda a: a @ a @ a, operands(a=(24, 24)), {"minimise": "server"}),
]


class AnyUpload(BlockStrategy):
    """Counts what uploads too much, too."""

    def _fits_upload(self, *_: Any) -> bool:
        return True


class Unpruned(Search):
    """Gives rings to all candidates and counts every one to its end."""

    def _max_ntt_limbs(self, ring: Any) -> float:
        return math.inf

    def _drafted(self, *_: Any) -> float:
        return math.inf

    def _cheapest(self, strategy: Any, candidates: Any, *_: Any) -> tuple[list[Scored], bool]:
        return [one for candidate in candidates for one in self._scored(strategy, candidate)], False


def planned(kind: type[Search], function: Callable[..., Any], arguments: Any, options: Any) -> Plan:
    expression = traced(function, arguments)
    wanted = PlanOptions(threads=1, machine=MACHINE, **options)  # what is left out depends on the rates
    budgets = budgets_of(wanted, secret_entries(expression))
    strategy = AnyUpload if kind is Unpruned else BlockStrategy
    return feasible(kind([strategy(expression, wanted, budgets)], wanted, budgets).run()).plan


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_plan_is_that_of_a_search_that_leaves_nothing_out(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Nor is a plan missed for its draft: drafts are not rings, but what is five times slower on one is never taken."""
    usual, other = (planned(kind, *PROGRAMS[number]) for kind in (Search, Unpruned))
    assert usual.decisions() == other.decisions()
    for loser in usual.rejected:
        if "more than" in loser.reason:
            (expected,) = (one for one in other.rejected if one.algorithm == loser.algorithm)
            assert expected.seconds > 1.5 * usual.minimised
    ratio = 1.5
    monkeypatch.setattr(search, "PRUNE_RATIO", ratio)
    monkeypatch.setattr(search, "HOPELESS", math.inf)
    plan = planned(Search, *PROGRAMS[number])
    assert plan.decisions() == other.decisions()
    assert plan.minimised == other.minimised
    found, known = ({loser.algorithm: loser for loser in one.rejected} for one in (plan, other))
    for name, loser in found.items():
        if name not in known:
            assert "," in name  # methods for each node, on a ring that is not among the best ones there
        elif "more than" in loser.reason:
            assert known[name].seconds > ratio * plan.minimised
        elif "seems" in loser.reason:
            assert known[name].seconds == pytest.approx(loser.seconds, rel=0.5)
        elif "at least" in loser.reason:
            assert re.match("uploads [0-9]", known[name].reason)
        elif loser.seconds is None:
            assert known[name].reason == loser.reason
        elif known[name].seconds <= ratio * plan.minimised:
            assert loser.seconds == known[name].seconds
        else:  # its fastest candidate may be among what was left out
            assert loser.seconds >= known[name].seconds


def test_something_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of these programs; else the test above would compare a search with itself."""
    monkeypatch.setattr(search, "PRUNE_RATIO", 1.5)
    reasons = [loser.reason for number in (4, 6) for loser in planned(Search, *PROGRAMS[number]).rejected]
    assert any(reason.startswith("uploads at least") for reason in reasons)
    assert any(reason.startswith("seems to take more than") for reason in reasons)


def test_slow_candidates_that_need_little_memory_are_kept() -> None:
    """What does not fit the memory does not limit what is counted: chains at a budget that the fastest exceed."""
    function, arguments, _ = PROGRAMS[4]
    options: dict[str, Any] = {"algorithm": "bicyclic"}
    free = planned(Search, function, arguments, options)
    options["memory_budget"] = free.peak_bytes - (10 << 20)
    plan, other = (planned(kind, function, arguments, options) for kind in (Search, Unpruned))
    assert plan.peak_bytes <= options["memory_budget"] < free.peak_bytes
    assert plan.decisions() == other.decisions()


# --- limits of transforms ---


def run(expression: Expression, ring: Any, name: str, block: int, limit: float = math.inf) -> Counts:
    blocks = {axis: min(block, length) for axis, length in Axes(expression).lengths.items()}
    choices = numbered(expression, [MethodChoice(name)] * len(products(expression)))
    return dry_run(ring, expression, Decisions("blocks", choices, blocks), max_ntt_limbs=limit).counts


@pytest.mark.parametrize("block", [6, 12, 24])
@pytest.mark.parametrize("name", ["fame", "skewed"])
def test_a_limit_of_transforms_ends_no_run_that_keeps_to_it(name: str, block: int) -> None:
    """Of grids of one, of eight and of 64 block products."""
    arguments = operands(a=(24, 24), b=(24, 24), c=(24, 24))
    expression = traced(lambda a, b, c: (a @ b) @ c, arguments)
    ring = RingShape.for_depth(2048, 10, 30.0)
    counts = run(expression, ring, name, block)
    transforms = counts.ntt_limbs + counts.encode_ntt_limbs
    assert run(expression, ring, name, block, transforms) == counts
    with pytest.raises(TooSlowError):
        run(expression, ring, name, block, transforms / 2)


@pytest.mark.parametrize("name", sorted(name for name in ALGORITHMS if not ALGORITHMS[name].baseline))
@pytest.mark.parametrize("number", [3, 7, 8])
def test_drafts_take_no_more_transforms_than_is_allowed_for(name: str, number: int) -> None:
    """A limit is that of the ring that comes of a draft: drafts have more limbs, and digits of one limb."""
    function, arguments, _ = PROGRAMS[number]
    expression = traced(function, arguments)
    draft = sizing.draft(1 << 14, 30.0)
    blocks = {axis: min(24, length) for axis, length in Axes(expression).lengths.items()}
    choices = numbered(expression, [MethodChoice(name)] * len(products(expression)))
    decisions = Decisions("blocks", choices, blocks)

    def transforms(ring: Any) -> int:
        counts = dry_run(ring, expression, decisions).counts
        return counts.ntt_limbs + counts.encode_ntt_limbs

    spent = len(draft.q) - dry_run(draft, expression, decisions).limbs
    sizes = [
        sizing.Sizing(1 << 14, 30.0, (49.0,) * base + (30.0,) * spent, alpha)
        for base in (2, 3)
        for alpha in (1, 2, base + spent)
    ]
    least = min(transforms(one.shape()) for one in sizes)
    assert sizing.draft_excess(sizes[0].shape()) == 1
    assert transforms(draft) <= sizing.draft_excess(draft) * least


# --- tilings ---


def all_tilings(algorithm: Any, shape: tuple[int, int, int], slots: int) -> Iterator[tuple[int, int, int]]:
    """By trying every length of every axis."""
    rows, inner, cols = (block_lengths(length) for length in shape)
    for bk in inner if algorithm.blocks_inner else inner[:1]:
        widest = 0
        for bm in rows:
            bn = next((bn for bn in cols if algorithm.fits(bm, bk, bn, slots)), 0)
            if bn > widest:
                widest = bn
                yield bm, bk, bn


LENGTHS = st.one_of(st.integers(1, 40), st.integers(1, 300))


@given(st.tuples(LENGTHS, LENGTHS, LENGTHS), st.sampled_from(sorted(ALGORITHMS)), st.integers(5, 15))
@settings(max_examples=60, deadline=None)
def test_tilings_are_all_that_are_maximal(shape: tuple[int, int, int], name: str, bits: int) -> None:
    algorithm, slots = ALGORITHMS[name], 1 << bits
    assert list(single_product_tilings(algorithm, shape, slots)) == list(all_tilings(algorithm, shape, slots))


def test_what_takes_longer_than_another_way_is_no_plan() -> None:
    """It is told from what is predicted, without primes."""
    expression = traced(lambda a: a @ WEIGHTS, {"a": S(16, 16)})
    options = PlanOptions(machine=MACHINE, form="blocks")
    budgets = budgets_of(options, secret_entries(expression))

    def found(limit: float) -> Planned | Infeasible:
        return Search([BlockStrategy(expression, options, budgets)], options, budgets, limit=limit).run()

    plan = feasible(found(math.inf)).plan
    assert feasible(found(plan.minimised)).plan.minimised == plan.minimised
    refused = found(plan.minimised / 4)
    assert isinstance(refused, Infeasible) and isinstance(refused.error, TooSlowError)


def test_whether_there_is_a_plan_is_known_from_the_first_that_holds() -> None:
    """Fewer are counted then."""
    expression = traced(lambda a, b: a @ b, {"a": S(40, 30), "b": S(30, 20)})
    options = PlanOptions(machine=MACHINE, form="blocks")
    budgets = budgets_of(options, secret_entries(expression))

    def found(any_plan: bool) -> tuple[Plan, int]:
        told: list[str] = []
        strategy = BlockStrategy(expression, options, budgets)
        search = Search([strategy], options, budgets, told.append, any_plan=any_plan)
        return feasible(search.run()).plan, len(told)

    (fastest, all_told), (first, told) = found(False), found(True)
    assert told < all_told
    assert first.minimised >= fastest.minimised and first.error <= first.error_target
