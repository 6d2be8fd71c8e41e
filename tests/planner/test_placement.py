"""Refreshes that the planner places: where they cost least, nowhere if none is needed, and what comes back is right."""

from __future__ import annotations

import functools
import itertools
import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import PrecisionError
from cipherblas.lang.analysis import trace
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.refreshing import REFRESH, SINE
from cipherblas.planner.plan.passes import Planned, PlanRequest
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict.feasible import Infeasible
from cipherblas.planner.rewrite.refresh_placement import (
    FEW_LEVELS,
    MAX_LEVELS,
    LevelNode,
    before_functions,
    least_levels,
    placed,
    refreshed,
)
from cipherblas.planner.rings import modulus_chains, sizing
from cipherblas.rlwe.counts import Counts
from cipherblas.runtime import arranged
from tests.corpus.machine import MACHINE
from tests.support.runs import Parties, run, toy

S = cb.secret


def step(spent: int, *sources: int, ciphertexts: int = 1, before: tuple[LevelNode, ...] = ()) -> LevelNode:
    depth = max((before[source].depth for source in sources), default=0) + spent
    return LevelNode(None, depth, spent, ciphertexts, sources)  # type: ignore[arg-type]


def steps_of(*rows: tuple[int, tuple[int, ...], int]) -> list[LevelNode]:
    found: tuple[LevelNode, ...] = ()
    for spent, sources, ciphertexts in rows:
        found = (*found, step(spent, *sources, ciphertexts=ciphertexts, before=found))
    return list(found)


def deepest(steps: list[LevelNode], refreshed: frozenset[int]) -> int:
    spent: list[int] = []
    for one in steps:
        inner = (0 if source in refreshed else spent[source] for source in one.sources)
        spent.append(max(inner, default=0) + one.spent)
    return max(spent)


def test_a_chain_is_refreshed_as_seldom_as_it_can() -> None:
    chain = steps_of((1, (), 1), *((1, (place,), 1) for place in range(40)))
    chosen = placed(chain, 15)
    assert chosen is not None and len(chosen) == 2 and deepest(chain, chosen) == 14  # 41 in three parts


def test_the_narrowest_place_is_taken() -> None:
    """Wide, narrow, wide: one ciphertext is refreshed, and not ten."""
    chain = steps_of((3, (), 10), (3, (0,), 1), (3, (1,), 10))
    assert placed(chain, 6) == frozenset({1})


def test_what_costs_no_level_is_computed_again() -> None:
    """x and 2x cross the cut: x alone is refreshed."""
    steps = steps_of((5, (), 1), (0, (0,), 1), (5, (0, 1), 1))
    assert placed(steps, 5) == frozenset({0})


def test_a_value_with_levels_left_is_not_refreshed() -> None:
    """What was computed early, and is needed late for a step or two."""
    steps = steps_of((1, (), 4), (4, (), 1), (4, (1,), 1), (1, (0, 2), 1))
    chosen = placed(steps, 5)
    assert chosen is not None and 0 not in chosen and deepest(steps, chosen) <= 5


def test_nothing_is_placed_where_levels_do_and_none_where_a_step_is_too_deep() -> None:
    steps = steps_of((5, (), 1), (3, (0,), 1))
    assert placed(steps, 8) == frozenset() and placed(steps, 4) is None


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_keep_to_the_levels(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = [
        (
            int(random.integers(0, 4)),
            tuple({int(one) for one in random.integers(0, place, random.integers(1, 3))}) if place else (),
            int(random.integers(1, 4)),
        )
        for place in range(9)
    ]
    steps, working = steps_of(*rows), int(random.integers(3, 7))
    chosen = placed(steps, working)
    assert chosen is not None and deepest(steps, chosen) <= working

    def cost(some: Any) -> int:
        return sum(steps[place].ciphertexts for place in some)

    subsets = itertools.chain.from_iterable(itertools.combinations(range(9), size) for size in range(10))
    least = min(cost(some) for some in subsets if deepest(steps, frozenset(some)) <= working)
    assert cost(chosen) <= 2 * least + 3  # cuts are one level each: nearly the best of all choices


@pytest.fixture
def shallow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings with so few levels that short programs are too deep for them."""
    monkeypatch.setattr(modulus_chains, "MAX_WORKING_LEVELS", 5)
    monkeypatch.setattr(sizing, "MAX_INSECURE_LIMBS", 12)


def chain_of(length: int) -> Any:
    def chain(x: Any, y: Any) -> Any:
        for number in range(length):
            x = 0.5 * x * x - 0.5 if number % 2 else x * y
        return x

    return chain


@pytest.mark.encrypted
def test_a_deep_program_is_refreshed_without_asking(shallow: None) -> None:
    program = toy(chain_of(16), x=S(20, 20), y=S(20, 20), precision=0.05)
    assert program.plan.counts.modulus_raises > 0
    assert "placed by the planner" in program.explain() and "refresh" in program.explain()
    random, parties = np.random.default_rng(5), Parties(program)
    parties.run({name: random.choice([-1.0, 0.0, 1.0], (20, 20)) for name in "xy"}).check()
    parties.run({name: np.full((20, 20), -1.0) for name in "xy"}).check()


def test_a_shallow_program_is_planned_as_before() -> None:
    program = cb.compile(chain_of(12), {"x": S(64, 64), "y": S(64, 64)}, precision=0.01)
    assert not program.plan.counts.modulus_raises


def test_a_precision_that_no_refresh_reaches_is_refused(shallow: None) -> None:
    with pytest.raises(cb.PrecisionError, match="less precise"):
        toy(chain_of(16), x=S(20, 20), y=S(20, 20), precision=1e-9)


# ---- however a program is spelled, and whatever it is allowed ----


def squares(x: Any) -> Any:
    """Fourteen levels."""
    for _ in range(14):
        x = cb.assume(x * x, 1.0)
    return x


@pytest.mark.encrypted
@pytest.mark.parametrize("shape", [(16, 1), (1, 16), (16,), ()], ids=str)
def test_vectors_and_numbers_are_refreshed_like_matrices(shallow: None, shape: tuple[int, ...]) -> None:
    program = toy(squares, x=S(*shape), error=0.3)
    assert program.plan.counts.modulus_raises == 2  # fourteen levels in three parts of five
    found, bound = run(program, {"x": np.random.default_rng(0).uniform(0.9, 1, shape)}), program.plan.error
    found.check()
    assert bound <= 0.3


FACTOR = np.random.default_rng(3).uniform(-1, 1, (16, 16))
FACTOR /= np.abs(FACTOR).sum(axis=1, keepdims=True)


def times(number: int, step: Any) -> Any:
    def repeated(x: Any) -> Any:
        for _ in range(number):
            x = step(x)
        return x

    return repeated


SPELLED: dict[str, Any] = {
    "iteration": times(16, lambda x: 0.5 * x * x - 0.5),
    "polynomials": times(4, lambda x: cb.assume(cb.polynomial(x, [0.1, 0.5, 0, -0.9]), 1.5)),
    "layers": times(4, lambda x: cb.assume(cb.square(FACTOR @ x) - 0.5, 1.0)),
    "diffusion": times(4, lambda x: cb.assume(x + 0.1 * x * (1 - x) + 0.01 * (FACTOR @ x), 1.0)),
    "a part": lambda x: squares(x)[:4],
    "a sum": lambda x: times(7, lambda y: cb.assume(y * y, 1.0))(x).sum() / 16,
}


@pytest.mark.parametrize("name", SPELLED)
def test_vectors_and_columns_are_refreshed_equally_often(shallow: None, name: str) -> None:
    """Neither (n,) nor (n, 1) is refused where the other one is planned, and both take about as long."""
    plans = [toy(SPELLED[name], x=S(*shape), error=0.6, machine=MACHINE).plan for shape in ((16,), (16, 1))]
    vector, column = plans
    assert vector.counts.modulus_raises == column.counts.modulus_raises
    assert vector.seconds < 1.5 * column.seconds and column.seconds < 1.5 * vector.seconds


@functools.cache
def alone(shape: tuple[int, ...], error: float) -> Counts:
    """What the fourteen squares take, with nothing beside them, on shallow rings."""
    assert modulus_chains.MAX_WORKING_LEVELS == 5
    return toy(squares, x=S(*shape), error=error).plan.counts


@pytest.mark.encrypted
@pytest.mark.parametrize("form", ["blocks", "tensors"])
@pytest.mark.parametrize("length", [13, 16])
def test_vectors_are_refreshed_where_their_entries_lie(shallow: None, form: str, length: int) -> None:
    program = toy(squares, x=S(length), error=0.3, form=form)
    assert program.plan.form == form and program.plan.counts.modulus_raises == 2
    run(program, {"x": np.random.default_rng(0).uniform(0.9, 1, length)}).check()


@pytest.mark.encrypted
@pytest.mark.parametrize("shape", [(16,), (8, 8)], ids=str)
def test_messages_that_grow_between_refreshes_stay_precise(shallow: None, shape: tuple[int, ...]) -> None:
    """A half of a square counts in units of a quarter, and so on: after some steps messages are 2^30 times as large as
    those that are refreshed, and dividing them by encoded numbers near 2^-30 would cost all precision."""
    program = toy(times(10, lambda x: 0.5 * x * x - 0.5), x=S(*shape), error=0.1)
    assert program.plan.counts.modulus_raises > 0
    run(program, {"x": np.random.default_rng(0).uniform(-1, 1, shape)}).check()


@pytest.mark.parametrize(
    "part",
    [lambda x: x[0], lambda x: x[:, 2], lambda x: x.ravel(), lambda x: x.diagonal()],
    ids=["row", "column", "ravel", "diagonal"],
)
def test_parts_of_a_deep_matrix_are_refreshed(shallow: None, part: Any) -> None:
    program = toy(lambda x: part(squares(x)), x=S(8, 8), error=0.3)
    assert program.plan.counts.modulus_raises == 2


WEIGHTS = np.random.default_rng(1).normal(size=(16, 16)) / 64
FILTERS = np.random.default_rng(2).normal(size=(2, 2, 3, 3)) / 16


def dense_layers(x: Any) -> Any:
    for _ in range(6):
        x = cb.assume(cb.square(WEIGHTS @ x) - 0.5, 1.0)
    return x


def convolutions(x: Any) -> Any:
    for _ in range(6):
        x = cb.assume(cb.square(cb.conv2d(x, FILTERS, padding=1)) - 0.5, 1.0)
    return x


@pytest.mark.encrypted
@pytest.mark.parametrize(("layers", "shape"), [(dense_layers, (16,)), (convolutions, (2, 6, 6))])
def test_layers_are_refreshed_where_nobody_says_where(shallow: None, layers: Any, shape: Any) -> None:
    program = toy(layers, x=S(*shape), error=0.5)
    assert program.plan.form == "tensors" and program.plan.counts.modulus_raises > 0
    run(program, {"x": np.random.default_rng(0).uniform(-1, 1, shape)}).check()


@pytest.mark.parametrize("form", ["blocks", "tensors"])
def test_a_form_that_can_refresh_may_be_named(shallow: None, form: str) -> None:
    assert toy(squares, x=S(8, 8), error=0.3, form=form).plan.counts.modulus_raises == 2


@pytest.mark.encrypted
@pytest.mark.parametrize(
    "part", [lambda x: x[:4], lambda x: x.T, lambda x: x.ravel()], ids=["rows", "transpose", "ravel"]
)
def test_a_part_of_a_deep_result_is_not_computed_again(shallow: None, part: Any) -> None:
    def both(x: Any) -> Any:
        found = squares(x)
        return {"whole": found, "part": part(found)}

    program = toy(both, x=S(8, 8), error=0.3)
    assert program.plan.counts.modulus_raises <= alone((8, 8), 0.3).modulus_raises + 1
    run(program, {"x": np.random.default_rng(0).uniform(0.9, 1, (8, 8))}).check()


BESIDE: dict[str, tuple[tuple[int, ...], Any]] = {
    "a vector and its sum": ((8,), lambda x: {"x": x, "sum": x.sum()}),
    "a vector and its norm": ((8,), lambda x: {"x": x, "norm": x @ x}),
    "two parts of a vector": ((8,), lambda x: {"first": x[:4], "second": x[4:]}),
    "a matrix and its trace": ((8, 8), lambda x: {"x": x, "trace": cb.trace(x)}),
    "a matrix and its means": ((8, 8), lambda x: {"x": x, "means": x.mean(axis=0)}),
}


@pytest.mark.encrypted
@pytest.mark.parametrize("name", BESIDE)
def test_a_deep_value_is_computed_once_whatever_stands_beside_it(shallow: None, name: str) -> None:
    """Key switches are those of the fourteen squares, of the refreshes, and one more for a norm; and what stands beside
    it is right."""
    shape, beside = BESIDE[name]
    program = toy(lambda x: beside(squares(x)), x=S(*shape), error=0.6)
    counts, least = program.plan.counts, alone(shape, 0.6)
    assert counts.modulus_raises <= least.modulus_raises + 2
    each = (least.relinearisations - 14) / least.modulus_raises
    assert counts.relinearisations <= 14 + counts.modulus_raises * each + 1
    if name in ("a vector and its sum", "two parts of a vector"):
        run(program, {"x": np.random.default_rng(0).uniform(0.9, 1, shape)}).check()


def bent(x: Any) -> Any:
    """Eight levels, after which different entries are still different."""
    for _ in range(8):
        x = cb.assume(x - 0.02 * x * x, 1.0)
    return x


@functools.cache
def bent_alone() -> Counts:
    assert modulus_chains.MAX_WORKING_LEVELS == 5
    return toy(bent, x=S(70, 50), error=0.05).plan.counts


LARGE: dict[str, Any] = {
    "rows": lambda x: x[13:40],
    "reshape": lambda x: x.reshape(50, 70),
    "means": lambda x: x.mean(axis=0),
}


@pytest.mark.encrypted
@pytest.mark.parametrize("name", LARGE)
def test_a_part_of_a_deep_value_in_several_ciphertexts(shallow: None, name: str) -> None:
    def both(x: Any) -> Any:
        found = bent(x)
        return {"whole": found, "part": LARGE[name](found)}

    program = toy(both, x=S(70, 50), error=0.05)
    blocks = math.prod(program.outputs[0].form.grid)
    assert blocks > 1 and "arrange" in {node.op for node in ordered(program.expression)}
    assert program.plan.counts.relinearisations < 1.5 * bent_alone().relinearisations
    run(program, {"x": np.random.default_rng(0).uniform(0, 0.9, (70, 50))}).check()


@pytest.mark.encrypted
def test_parts_of_more_ciphertexts_than_a_few_are_arranged_by_few_masks(
    shallow: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a slice; a transpose of as many is computed a second time."""
    monkeypatch.setattr(arranged, "FEW_ARRANGED", 1)
    monkeypatch.setattr(arranged, "MAX_MASKS", 200)
    rows, turned = (
        toy(lambda x, part=part: (bent(x), part(bent(x))), x=S(70, 50), error=0.05)
        for part in (LARGE["rows"], lambda x: x.T)
    )
    assert 2 * rows.plan.counts.relinearisations == turned.plan.counts.relinearisations
    run(rows, {"x": np.random.default_rng(0).uniform(0, 0.9, (70, 50))}).check()


def test_two_equal_calls_are_refreshed_as_one(shallow: None) -> None:
    for function in (
        lambda x: {"first": squares(x)[:4], "last": squares(x)[4:]},
        lambda x: {"x": squares(x), "first": squares(x)[:4]},
    ):
        raised = toy(function, x=S(8), error=0.6).plan.counts.modulus_raises
        assert raised <= alone((8,), 0.6).modulus_raises + 1


def convolved(x: Any, stride: int = 1, groups: int = 1, seed: int = 5) -> Any:
    weights = np.random.default_rng(seed).uniform(-0.1, 0.1, (4, x.shape[0] // groups, 3, 3))
    return cb.conv2d(x, weights, stride=stride, padding=1, groups=groups)


def relu(x: Any) -> Any:
    return cb.chebyshev(lambda values: np.maximum(values, 0.0), x, degree=7)


def residual_network(x: Any) -> Any:
    x = relu(convolved(x))
    for stride in (1, 2):
        x = relu(convolved(relu(convolved(x, stride))) + convolved(x, stride, seed=6))
    return cb.flatten(x)


def concatenating_network(x: Any) -> Any:
    x = relu(convolved(x))
    x = relu(convolved(x)) + relu(convolved(x, seed=6))
    return convolved(relu(convolved(x)))


def depthwise_network(x: Any) -> Any:
    for _ in range(3):
        x = relu(convolved(relu(convolved(x, groups=4))))
    return x


def promised_network(x: Any) -> Any:
    x = relu(convolved(x))
    return relu(cb.assume(convolved(x) + 0.1, 2.0))


def two_functions_in_a_row(x: Any) -> Any:
    return relu(cb.assume(relu(convolved(x)), 1.0))


def read_beside_its_function(x: Any) -> Any:
    for _ in range(3):
        x = x + convolved(relu(x))
    return x


def composite_functions(x: Any) -> Any:
    return cb.relu(convolved(cb.relu(convolved(x), precision=0.1)), precision=0.1)


@pytest.mark.parametrize(
    ("network", "count"),
    [
        (residual_network, 4),
        (concatenating_network, 3),
        (depthwise_network, 5),
        (promised_network, 1),
        (two_functions_in_a_row, None),
        (read_beside_its_function, 2),
        (composite_functions, None),
    ],
)
def test_networks_are_refreshed_before_their_functions(network: Any, count: int | None) -> None:
    found = before_functions(trace(network, {"x": S(4, 8, 8)}))
    assert count == (None if found is None else [node.op for node in ordered(found)].count(REFRESH))


@pytest.mark.encrypted
def test_what_is_read_beside_its_function_is_not_refreshed_for_that(shallow: None) -> None:
    program = toy(read_beside_its_function, x=S(4, 8, 8), error=20.0)
    assert program.plan.counts.modulus_raises == 2
    run(program, {"x": np.random.default_rng(0).uniform(-1, 1, (4, 8, 8))}).check()


@pytest.mark.encrypted
def test_a_deep_network_finds_its_refreshes(shallow: None) -> None:
    """As if they were written; the plan says where they are."""

    def written(x: Any) -> Any:
        def after(y: Any) -> Any:
            return relu(cb.refresh(y))

        x = relu(convolved(x))
        for stride in (1, 2):
            x = after(convolved(after(convolved(x, stride))) + convolved(x, stride, seed=6))
        return cb.flatten(x)

    program = toy(residual_network, x=S(4, 8, 8), error=30.0)
    by_hand = toy(written, x=S(4, 8, 8), error=30.0)
    assert [node.op for node in ordered(program.executed)].count(SINE) == 4
    assert program.plan.counts.modulus_raises == by_hand.plan.counts.modulus_raises == 4
    assert program.plan.seconds <= 1.05 * by_hand.plan.seconds
    run(program, {"x": np.random.default_rng(0).uniform(-1, 1, (4, 8, 8))}).check()


def _network(layers: int, degree: int) -> Expression:
    weights = np.eye(4).reshape(4, 4, 1, 1)

    def function(x: Any) -> Any:
        for _ in range(layers):
            x = cb.assume(cb.chebyshev(np.tanh, cb.conv2d(x, weights), degree=degree), 1.0)
        return x

    return trace(function, {"x": S(4, 2, 2)})


def test_the_fewest_levels_of_a_network() -> None:
    assert least_levels(_network(3, 15)) == 3 * (1 + 4)
    assert least_levels(_network(3, 16)) == 3 * (1 + 4)


@pytest.mark.parametrize("carried", [True, False])
@pytest.mark.parametrize("layers", [3, 9, 17])
def test_what_no_ring_carries_is_planned_with_refreshes_first(layers: int, carried: bool) -> None:
    """And without them where that fails, since the largest ring may do; or where that may take less, as far as it
    does."""
    asked: list[bool] = []
    limits: list[float] = []
    why = Infeasible(PrecisionError("The ring is too small."))
    taken = cast(
        Planned, SimpleNamespace(plan=SimpleNamespace(minimised=1.0, parameters=SimpleNamespace(n=1 << 17)))
    )

    def following(request: PlanRequest) -> Any:
        asked.append(any(node.op == REFRESH for node in ordered(request.expression)))
        limits.append(request.limit)
        return taken if carried or not asked[-1] else why

    found = refreshed(PlanRequest(_network(layers, 15), PlanOptions(machine=MACHINE)), following)
    assert found is taken
    levels = layers * 5
    first = [True] if carried and levels > MAX_LEVELS else [True, False]
    assert asked == (first if levels > FEW_LEVELS else [False, True])
    assert (
        limits[1:] == [1.0 if carried and FEW_LEVELS < levels <= MAX_LEVELS else math.inf][: len(asked) - 1]
    )
