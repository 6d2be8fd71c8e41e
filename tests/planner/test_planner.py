"""The planner: what it says, what it is forced to, what it chooses, and that its short cuts count right."""

from __future__ import annotations

import itertools
import re
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.common.errors import LevelError
from cipherblas.lang.analysis import trace as traced
from cipherblas.lang.graph import Axes
from cipherblas.methods.products import ALGORITHMS, find
from cipherblas.planner.plan.explain import explain, progressions
from cipherblas.planner.plan.plan import PlanOptions, Rejected
from cipherblas.planner.predict.dry_run import TooSlowError, dry_run
from cipherblas.planner.predict.feasible import feasible
from cipherblas.planner.predict.lower_bound import least_counts
from cipherblas.planner.search.blocks import BlockStrategy
from cipherblas.planner.search.budgets import budgets_of
from cipherblas.planner.search.search import Search
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.values import Decisions, MethodChoice
from tests.support.clear_runs import numbered

S, P = cb.secret, cb.public


def product(a: Any, b: Any) -> Any:
    return a @ b


def compiled(m: int = 12, k: int = 12, n: int = 12, **options: Any) -> cb.Program:
    return cb.compile(product, {"a": S(m, k), "b": S(k, n)}, **options)


# --- explain ---


def test_explain_names_everything() -> None:
    program = compiled(algorithm="fame", precision=1e-3)
    plan, text = program.plan, program.explain()
    rows = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in text.splitlines() if line[0] != " ")
    params = plan.parameters
    assert rows["program"] == "a @ b"
    assert "a 12x12 secret" in rows["operands"]
    assert rows["algorithm"].startswith("fame")
    assert str(params.n) in rows["ring degree N"]
    assert f"{params.log_q:.1f} ({params.limbs} limbs)" in rows["log2(Q), log2(P)"]
    assert f"{params.log_p:.1f} ({params.special_limbs} limbs)" in rows["log2(Q), log2(P)"]
    assert rows["dnum"] == str(params.dnum)
    assert rows["security"] == "128 bits"
    assert rows["levels spent"] == str(plan.levels)
    assert plan.levels >= 1
    assert rows["ciphertexts"].startswith(f"{plan.upload_ciphertexts} up")
    assert f"{plan.counts.products} ciphertext" in rows["products"]
    assert f"{plan.counts.rotations} rotations" in rows["key switches"]
    assert f"{len(plan.keys.galois)} rotation keys" in rows["evaluation keys"]
    assert {pow(5, step, 2 * params.n) for step in plan.rotation_steps} == set(plan.keys.galois)
    assert rows["keys rotate by"] == progressions(plan.rotation_steps)
    assert plan.to_dict()["rotation_steps"] == plan.rotation_steps
    assert "MiB" in rows["peak memory"]
    assert "thread" in rows["expected time"]
    assert f"{plan.error:.2g}" in rows["expected error"]
    assert "0.012" in rows["expected error"]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([-3], "-3"),
        ([1, 2], "1, 2"),
        ([-6, -4, -2, 1, 2, 3, 4, 9], "-6 to -2 by 2, 1 to 4, 9"),
        ([i * i for i in range(9)], "0, 1, 4, 9, 16, 25, 36, …"),
    ],
)
def test_progressions(numbers: list[int], text: str) -> None:
    assert progressions(numbers, width=26) == text


def test_explain_names_the_losers() -> None:
    text = compiled(16, 16, 16).explain()
    lost = text.split("not taken:")[1]
    assert len([name for name in ALGORITHMS if name in lost]) >= 3
    assert "times as long" in lost


def test_reasons_of_losers_have_no_full_stop() -> None:
    """Some are the sentences of errors, others are phrases."""
    program = compiled(4, 4, 4, algorithm="fame")
    reasons = "The message does not fit the modulus (got 88.2).", "takes 3.1 times as long"
    losers = tuple(Rejected(name, reason) for name, reason in zip("xy", reasons, strict=True))
    plan = replace(program.plan, rejected=losers)
    text = explain(plan, "a @ b", program.operands, [program.shape])
    assert text.splitlines()[-3:] == [
        "not taken:",
        "  x: The message does not fit the modulus (got 88.2)",
        "  y: takes 3.1 times as long",
    ]


def test_insecure_parameters_are_named() -> None:
    with pytest.warns(UserWarning, match="insecure"):
        program = compiled(security=0, insecure=True, precision=1e-9)
    assert program.plan.parameters.security == 0
    assert "NONE (insecure parameters)" in program.explain()


def test_keys_are_those_that_are_made() -> None:
    program = compiled(algorithm="bicyclic")
    keys = program.client().evaluation_keys()
    assert keys.nbytes == program.plan.key_bytes
    assert keys.request == program.plan.keys
    assert len(keys) == len(program.plan.keys)


def test_uploads_and_downloads_are_those_that_are_sent() -> None:
    for options in ({"algorithm": "skewed"}, {"algorithm": "outer-product"}, {"block": 5}):
        program = compiled(**options)
        client = program.client()
        inputs = client.encrypt({"a": np.ones((12, 12)), "b": np.ones((12, 12))})
        assert sum(operand.nbytes for operand in inputs.values()) == program.plan.upload_bytes
        assert (
            sum(len(feed) for operand in inputs.values() for feed in operand.feeds)
            == program.plan.upload_ciphertexts
        )
        result = program.server(client.evaluation_keys()).run(inputs)
        assert result.nbytes == program.plan.result_bytes
        assert len(result.ciphertexts) == program.plan.result_ciphertexts


# --- what is forced ---


@pytest.mark.parametrize("degree", [1 << 12, 1 << 13, 1 << 15])
def test_ring_degree(degree: int) -> None:
    assert compiled(ring_degree=degree).plan.parameters.n == degree


@pytest.mark.parametrize("algorithm", ["skewed", "bicyclic", "fame", "e2dm"])
@pytest.mark.parametrize("block", [1, 5, 100])
def test_block(algorithm: str, block: int) -> None:
    plan = compiled(13, 7, 20, algorithm=algorithm, block=block).plan
    assert max(plan.blocks.values()) <= block
    for axis, length in zip(("a.rows", "a.cols", "b.cols"), (13, 7, 20), strict=True):
        assert plan.blocks[axis] <= length


def test_options_of_an_algorithm() -> None:
    plan = compiled(algorithm="skewed", options={"baby_steps": 2, "complex_packing": False}).plan
    assert dict(plan.choices[0].options) == {"baby_steps": 2, "complex_packing": False}


def test_threads_are_predicted_for() -> None:
    one, eight = (
        compiled(40, 40, 40, algorithm="fame", ring_degree=1 << 14, threads=threads).plan
        for threads in (1, 8)
    )
    assert (one.threads, eight.threads) == (1, 8)
    same = replace(one, threads=8)  # what is fastest may be another plan
    assert same.counts == one.counts and same.seconds < one.seconds
    assert eight.seconds < one.seconds


def test_forced_parameters() -> None:
    parameters = compiled(precision=1e-6, algorithm="fame").plan.parameters
    for algorithm in ("fame", "skewed", None):
        plan = compiled(parameters=parameters, algorithm=algorithm).plan
        assert plan.parameters == parameters
        assert plan.error < 1e-6 * 12
    with pytest.raises(LevelError):
        compiled(parameters=compiled(algorithm="skewed").plan.parameters, algorithm="fame")


# --- what is chosen ---


@pytest.mark.slow
@pytest.mark.parametrize(
    ("minimise", "shapes"),
    [("end-to-end", ((16, 16, 16), (60, 3, 60))), ("server", ((24, 24, 24), (1, 24, 24)))],
)
def test_the_fastest_that_fits_is_taken(minimise: str, shapes: tuple[tuple[int, int, int], ...]) -> None:
    """Against every algorithm by name: none is predicted to be faster, by what is asked to be least."""
    for shape in shapes:
        free = compiled(*shape, minimise=minimise).plan
        for name, algorithm in ALGORITHMS.items():
            if not algorithm.baseline:
                other = compiled(*shape, algorithm=name, minimise=minimise).plan
                assert free.minimised <= other.minimised * (1 + 1e-9)


def test_budgets_are_kept_and_cost_time() -> None:
    quick = {"minimise": "server"}  # of any size
    free = compiled(64, 64, 64, **quick).plan
    small_upload = compiled(64, 64, 64, **quick, upload_budget=free.upload_bytes // 2).plan
    assert small_upload.upload_bytes <= free.upload_bytes // 2
    assert small_upload.minimised >= free.minimised
    least = compiled(64, 64, 64, **quick, memory_budget=free.peak_bytes - (8 << 20)).plan
    assert least.peak_bytes <= free.peak_bytes - (8 << 20)


def test_smaller_memory_leads_to_smaller_plans() -> None:
    """Where the fastest candidates all need too much, the planner looks further."""
    options: dict[str, Any] = {"algorithm": "fame", "ring_degree": 1 << 13}
    free = compiled(128, 128, 128, **options, memory_budget=4 << 30).plan
    budget = free.peak_bytes - (20 << 20)
    tight = compiled(128, 128, 128, **options, memory_budget=budget).plan
    assert tight.peak_bytes <= budget < free.peak_bytes
    assert tight.minimised >= free.minimised


KEY_BUDGETS = {"algorithm": "fame", "ring_degree": 1 << 13, "minimise": "server"}


def test_fewer_keys_say_what_they_cost() -> None:
    free = compiled(24, 24, 24, **KEY_BUDGETS)
    assert free.plan.key_saving is None
    assert "fewer keys" not in free.explain()
    budget = free.plan.key_bytes // 2
    tight = compiled(24, 24, 24, **KEY_BUDGETS, key_budget=budget)
    saving = tight.plan.key_saving
    assert tight.plan.key_bytes <= budget < saving.key_bytes
    assert (saving.seconds, saving.rotation_keys) == (
        pytest.approx(free.plan.seconds, rel=0.5),
        len(free.plan.keys.galois),
    )
    assert tight.plan.seconds > saving.seconds
    more = tight.plan.counts.rotations - saving.rotations
    (line,) = (line for line in tight.explain().splitlines() if line.startswith("fewer keys"))
    assert f"{saving.rotation_keys} rotation keys" in line
    assert f"{abs(more)} rotations {'more' if more >= 0 else 'fewer'}" in line
    assert "times" in line


def test_a_key_budget_that_nothing_fits_names_the_least() -> None:
    with pytest.raises(
        cb.MemoryBudgetError, match=r"fame at .* needs [0-9.]+ MiB of keys, key_budget is 1.0 MiB"
    ):
        compiled(8, 8, 8, **KEY_BUDGETS, key_budget=1 << 20)


def test_forced_policies_are_compared_with_direct_keys() -> None:
    plan = compiled(24, 24, 24, algorithm="fame", key_policy="binary").plan
    assert plan.key_saving.key_policy == "direct"
    assert plan.key_saving.key_bytes > plan.key_bytes


def test_factors_do_not_spoil_the_search() -> None:
    """`2 * (a @ b)` is planned as finely as `a @ b`."""
    plain = compiled(64, 64, 64).plan
    for function in (lambda a, b: 2 * (a @ b), lambda a, b: (a / 3) @ b, lambda a, b: -(a @ (0.1 * b))):
        plan = cb.compile(function, {"a": S(64, 64), "b": S(64, 64)}).plan
        assert plan.counts == plain.counts
        assert plan.blocks == plain.blocks


@pytest.mark.parametrize("shape", [(512, 512, 512), (1, 5000, 3)])
def test_large_products_are_planned_for_little_memory(shape: tuple[int, int, int]) -> None:
    """Planning them has taken minutes, and all memory."""
    assert compiled(*shape, memory_budget=2 << 30).plan.peak_bytes <= 2 << 30


# --- short cuts ---

RING = RingShape.from_bits(1 << 10, [48.0, 48.0, 30.0, 30.1, 30.2], [50.0], 1, 30.0)


@given(st.data())
@settings(max_examples=60)
def test_a_product_takes_at_least_its_bound(data: st.DataObject) -> None:
    m, k, n = (data.draw(st.integers(1, 20), name) for name in "mkn")
    block = tuple(data.draw(st.integers(-(-length // 3), length)) for length in (m, k, n))
    name = data.draw(st.sampled_from(sorted(ALGORITHMS)))
    found = list(find(name).candidates(*block, RING.n // 2))
    assume(found)
    choice = MethodChoice(name, data.draw(st.sampled_from(found)))
    policy = data.draw(st.sampled_from(["direct", "composed", "binary"]))
    right = data.draw(st.sampled_from([S, P]))
    expression = traced(product, {"a": S(m, k), "b": right(k, n, bound=5)})
    axes = Axes(expression)
    names = (*axes.of(expression.children[0]), axes.of(expression)[1])
    blocks = dict(zip(names, block, strict=True))
    decisions = Decisions("blocks", numbered(expression, [choice]), blocks, policy)
    counts, least = dry_run(RING, expression, decisions).counts, least_counts(expression, RING.n)
    for count in fields(Counts):
        assert getattr(least, count.name) <= getattr(counts, count.name)


def test_candidates_that_take_too_long_are_not_counted_to_their_end() -> None:
    expression = traced(lambda a, b: (a @ b) @ a, {"a": S(8, 8), "b": S(8, 8)})
    blocks = dict.fromkeys(Axes(expression).lengths, 8)
    decisions = Decisions(
        "blocks", numbered(expression, [MethodChoice("fame"), MethodChoice("fame")]), blocks
    )
    ring = RingShape.for_depth(512, 8, 30.0)
    full = dry_run(ring, expression, decisions)
    with pytest.raises(TooSlowError):
        dry_run(ring, expression, decisions, max_ntt_limbs=full.counts.ntt_limbs / 2)


def test_plans_do_not_depend_on_the_order_of_equal_programs() -> None:
    ids = {compiled(20, 30, 10).id for _ in range(3)}
    assert len(ids) == 1


def test_every_algorithm_offers_candidates_wherever_it_fits() -> None:
    for (name, algorithm), block in itertools.product(
        ALGORITHMS.items(), [(1, 1, 1), (1, 9, 4), (16, 16, 16), (3, 40, 2), (30, 2, 30)]
    ):
        if algorithm.fits(*block, 2048):
            assert list(algorithm.candidates(*block, 2048)), (name, block)


def test_the_search_is_open_to_inspection() -> None:
    expression, options = traced(product, {"a": S(8, 8), "b": S(8, 8)}), PlanOptions()
    budgets = budgets_of(options, 128)
    strategy = BlockStrategy(expression, options, budgets)
    _, plan, run = feasible(Search([strategy], options, budgets).run())
    assert plan.counts == run.counts
    assert strategy.fine


def test_progress_is_told_what_is_tried() -> None:
    told: list[str] = []
    program = cb.compile(product, {"a": S(40, 30), "b": S(30, 20)}, progress=told.append)
    degree = program.plan.parameters.n.bit_length() - 1
    assert f"{program.plan.algorithm}, N = 2^{degree}, {program.plan.key_policy} keys" in told
    assert told[-1] == f"{program.plan.algorithm} once more, on its real primes"
    assert len({line.split(",")[0] for line in told}) > 2


def test_what_a_progress_raises_ends_the_planning() -> None:
    """Ctrl-C, or a caller that has waited for long enough."""

    def enough(what: str) -> None:
        if "N = " in what:
            raise TimeoutError(what)

    with pytest.raises(TimeoutError, match=r"keys"):
        cb.compile(product, {"a": S(40, 30), "b": S(30, 20)}, progress=enough)


def test_lengths_of_blocks_can_be_said() -> None:
    """Rows, inner dimension and columns, as long as the matrices are; elsewhere the longest counts."""
    plan = compiled(64, 20, 48, algorithm="fhe-mm", form="blocks", block=(16, 32, 8)).plan
    assert plan.decided.blocks == {"a.rows": 16, "a.cols": 20, "b.cols": 8}
    chain = cb.compile(
        lambda a, b, c: a @ b @ c,
        {"a": S(24, 8), "b": S(8, 24), "c": S(24, 8)},
        form="blocks",
        block=(8, 4, 8),
        precision=1e-2,
    )
    assert max(chain.plan.decided.blocks.values()) == 8


@pytest.mark.parametrize("block", [(8, 8), (8, 0, 8), (8, 8, 8.0)])
def test_lengths_of_blocks_that_there_are_not(block: Any) -> None:
    with pytest.raises(cb.ParameterError, match="three lengths"):
        compiled(8, 8, 8, block=block)
