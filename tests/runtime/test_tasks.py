"""Task graphs: what they refuse, how their loops lie, when blocks go, and that counts are template × multiplicity."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.methods.products import ALGORITHMS, build
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime import schedule
from cipherblas.runtime.graphs import blockwise_graph, product_graph
from cipherblas.runtime.tasks import Axis, Blocks, Drop, Dropped, Loop, Task, TaskGraph, Tasks, Template
from tests.support.schedules import Shuffled

RING = RingShape.for_depth(128, 4)
ROWS, COLS, INNER = Axis("i", 2), Axis("j", 3), Axis("k", 4)


def add(_: Any, *blocks: Any) -> Any:
    """Their sum, of tasks that add up with None for the sum so far."""
    return sum(block for block in blocks if block is not None)


ADD = Template("add")
WORKS = {"add": add}


def grid(axes: tuple[Axis, Axis], name: str = "grid") -> Blocks:
    return Blocks(name, (axes[0].length, axes[1].length))


def nested(steps: Any) -> Iterator[Any]:
    """The steps with names instead of objects."""
    for step in steps:
        if isinstance(step, Loop):
            yield step.axis.name, *nested(step.steps)
        elif isinstance(step, Drop):
            yield f"drop {step.part.blocks.name}"
        else:
            yield step.template.name


# --- structure ---


def test_a_product_lies_in_loops_by_its_inner_blocks() -> None:
    graph = product_graph(build("skewed", 4, 4, 4, 128, {}), (5, 7), (7, 6))
    assert list(nested(graph.steps)) == [
        (
            "inner",
            ("columns", "prepare right"),
            ("rows", "prepare left", ("columns", "multiply"), "drop left, prepared"),
            "drop right, prepared",
        ),
        ("rows", ("columns", "finish", "drop sums")),
    ]
    assert graph.numbers == {"prepare right": 42, "prepare left": 35, "multiply": 210, "finish": 30}


def test_a_huge_product_is_described_as_fast_as_a_small_one() -> None:
    graph = product_graph(build("skewed", 4, 4, 4, 128, {}), (10**6, 10**6), (10**6, 10**6))
    assert graph.numbers["multiply"] == 10**18
    first = next(graph.walk())
    assert isinstance(first, Task)
    assert first.template.name == "prepare right"


def test_sums_are_finished_before_they_are_read() -> None:
    """Not in one loop, though both repeat along it."""
    x, y, z = grid((ROWS, INNER), "x"), grid((ROWS, COLS), "y"), grid((ROWS, INNER), "z")
    graph = TaskGraph(
        [
            Tasks(ADD, (y.at(ROWS, COLS),), z.at(ROWS, INNER)),
            Tasks(ADD, (x.at(ROWS, INNER),), y.at(ROWS, COLS)),
        ],
        (x,),
        (z,),
        (INNER, ROWS, COLS),
    )
    assert [group.output.blocks for group in graph.tasks] == [y, z]
    assert list(nested(graph.steps)) == [
        ("k", ("i", ("j", "add"))),
        ("k", ("i", ("j", "add"))),
        "drop y",
    ]
    (found,) = schedule.local(graph.using(WORKS), Clear(RING), [[[1, 2, 3, 4]] * 2], None)
    assert found == [[30] * 4] * 2  # each y is 10, each z the sum of three


def test_what_outlives_a_loop_shares_none_with_sums() -> None:
    x, y, z = grid((ROWS, INNER), "x"), grid((ROWS, INNER), "y"), grid((ROWS, COLS), "z")
    tasks = [
        Tasks(ADD, (x.at(ROWS, INNER),), y.at(ROWS, INNER)),
        Tasks(ADD, (y.at(ROWS, INNER),), z.at(ROWS, COLS)),
    ]
    assert len(TaskGraph(tasks, (x,), (z,), (INNER, ROWS, COLS)).steps) == 1
    assert len(TaskGraph(tasks, (x,), (y, z), (INNER, ROWS, COLS)).steps) == 2


# --- refusals ---


def test_a_circle_is_refused() -> None:
    x, y, z = (grid((ROWS, COLS), name) for name in "xyz")
    tasks = [
        Tasks(ADD, (x.at(ROWS, COLS), z.at(ROWS, COLS)), y.at(ROWS, COLS)),
        Tasks(ADD, (y.at(ROWS, COLS),), z.at(ROWS, COLS)),
    ]
    with pytest.raises(ParameterError, match="circle"):
        TaskGraph(tasks, (x,), (z,), (ROWS, COLS))


def test_other_faults_are_refused() -> None:
    x, y, z = (grid((ROWS, COLS), name) for name in "xyz")
    copy = Tasks(ADD, (x.at(ROWS, COLS),), y.at(ROWS, COLS))
    for tasks, sources, results, order, message in [
        ([copy], (), (y,), (ROWS, COLS), "'x' do not fit their task graph .expected given, or made"),
        ([copy], (x,), (z,), (ROWS, COLS), "'z' do not fit their task graph .expected given, or made"),
        ([copy, copy], (x,), (y,), (ROWS, COLS), "made twice"),
        ([copy], (x, y), (y,), (ROWS, COLS), "made twice"),
        (
            [copy, Tasks(ADD, (x.at(ROWS, COLS),), z.at(ROWS, COLS))],
            (x,),
            (y,),
            (ROWS, COLS),
            "'z' do not fit their task graph .expected read",
        ),
        ([copy], (x,), (x, y), (ROWS, COLS), "'x' do not fit their task graph .expected made by a task"),
        ([copy], (x,), (y,), (ROWS,), "order of loops"),
        ([copy], (x,), (y,), (ROWS, COLS, COLS), "order of loops"),
    ]:
        with pytest.raises(ParameterError, match=message):
            TaskGraph(tasks, sources, results, order)
    for axes in [(COLS, ROWS), (ROWS, ROWS)]:
        with pytest.raises(ParameterError, match="axes do not fit the grid 'x'"):
            x.at(*axes)


def test_a_template_that_does_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="templates"):
        blockwise_graph("add", add, (2, 2)).using({"subtract": add})


def test_grids_of_other_shapes_are_refused() -> None:
    algorithm = build("skewed", 4, 4, 4, 128, {})
    for left, right in [((2, 3), (2, 3)), ((0, 1), (1, 1)), ((1, 0), (0, 1))]:
        with pytest.raises(ShapeError, match="grids of blocks"):
            product_graph(algorithm, left, right)
    with pytest.raises(ShapeError, match="grids of blocks"):
        schedule.run(blockwise_graph("add", add, (2, 2)), Clear(RING), [[[1, 2, 3]]])


# --- lifetimes ---


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    """Any graph that is none of a method's."""
    axes = [Axis(name, draw(st.integers(1, 3))) for name in "ijk"]
    pairs = st.permutations(axes).map(lambda some: (some[0], some[1]))
    made: list[Blocks] = []
    for number in range(draw(st.integers(1, 2))):
        made.append(grid(draw(pairs), f"source {number}"))
    sources, tasks = tuple(made), []
    for number in range(draw(st.integers(1, 5))):
        inputs = []
        for blocks in draw(st.lists(st.sampled_from(made), min_size=1, max_size=3)):
            fitting = [
                (a, b) for a in axes for b in axes if a is not b and (a.length, b.length) == blocks.shape
            ]
            inputs.append(blocks.at(*draw(st.sampled_from(fitting))))
        output = draw(pairs)
        if not set(output) <= {axis for place in inputs for axis in place.axes} and draw(st.booleans()):
            output = inputs[0].axes
        made.append(grid(output, f"made {number}"))
        tasks.append(Tasks(ADD, tuple(inputs), made[-1].at(*output)))
    read = {place.blocks for group in tasks for place in group.inputs}
    last = [group.output.blocks for group in tasks if group.output.blocks not in read]
    results = {*last, draw(st.sampled_from(made[len(sources) :]))}
    draw(st.randoms()).shuffle(tasks)
    return TaskGraph(tasks, sources, tuple(results), draw(st.permutations(axes)))


@given(graphs(), st.integers(0, 2**32))
def test_any_graph_in_any_order(graph: TaskGraph, seed: int) -> None:
    """The order of the loops respects the edges, drops what is read no more, and gives what a random order gives."""
    steps = list(graph.walk())
    tasks = [step for step in steps if isinstance(step, Task)]
    assert len(tasks) == sum(group.number for group in graph.tasks) == sum(graph.numbers.values())
    makers = {task.output: number for number, task in enumerate(steps) if isinstance(task, Task)}
    readers: dict[Any, int] = {}
    for number, step in enumerate(steps):
        if isinstance(step, Task):
            for place in step.inputs:
                readers[place] = number
                assert place[0] in graph.sources or makers[place] < number
    gone: dict[Any, int] = {}
    for number, step in enumerate(steps):
        if isinstance(step, Dropped):
            for blocks, (row, col) in makers:
                here = blocks is step.blocks and step.row in (None, row) and step.col in (None, col)
                if here and makers[blocks, (row, col)] < number:
                    gone.setdefault((blocks, (row, col)), number)
    for place in makers:
        assert (place[0] in graph.results) != (place in gone)
        if place in gone:
            assert max(makers[place], readers[place]) < gone[place]
    sources = [
        [[1 + 7 * i + 3 * j for j in range(blocks.shape[1])] for i in range(blocks.shape[0])]
        for blocks in graph.sources
    ]
    found = schedule.local(graph.using(WORKS), Clear(RING), sources, None)
    assert Shuffled(seed)(graph.using(WORKS), Clear(RING), sources, None) == found


def test_blocks_of_a_product_go_with_their_last_use() -> None:
    """Of the right grid with the turn of the inner index, of the left one with the row, sums when they are finished."""
    graph = product_graph(build("skewed", 4, 4, 4, 128, {}), (2, 3), (3, 2))
    last, steps = {}, list(graph.walk())
    for number, step in enumerate(steps):
        if isinstance(step, Task):
            last.update(dict.fromkeys(step.inputs, number))
    for number, step in enumerate(steps):
        if isinstance(step, Dropped):
            read = [
                last[blocks, (row, col)]
                for blocks, (row, col) in last
                if blocks is step.blocks and step.row in (None, row) and step.col in (None, col)
            ]
            between = steps[max(read) + 1 : number]
            assert all(isinstance(other, Dropped) for other in between)


# --- counting ---


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 1), (2, 3, 4), (6, 1, 1)])
def test_counts_are_templates_times_their_numbers(name: str, shape: tuple[int, int, int]) -> None:
    """Each template run once by itself, on blocks that others made."""
    m, k, n = shape
    algorithm = build(name, 4, 5, 6, 128, {})
    graph = product_graph(algorithm, (m, k), (k, n))

    def fresh(ev: Symbolic, layout: Any) -> list[Any]:
        return [ev.fresh(None, bound=1.0) for _ in range(layout.ciphertexts)]

    alone = Symbolic(RING)
    blocks = dict(
        zip(
            graph.sources,
            (fresh(alone, algorithm.left_layout), fresh(alone, algorithm.right_layout)),
            strict=True,
        )
    )
    expected, masks = Counts(), 0
    for group in graph.tasks:
        before = alone.counts.copy()
        inputs = [blocks[place.blocks] for place in group.inputs]
        blocks[group.output.blocks] = graph.works[group.template.name](
            alone, *inputs, *([None] if group.summed else [])
        )
        spent = alone.counts - before
        masks += spent.mask_encodings
        spent.mask_encodings = 0  # of all blocks
        for _ in range(graph.numbers[group.template.name]):
            expected += spent
    expected.mask_encodings = masks
    ev = Symbolic(RING)
    sources = [
        [[fresh(ev, algorithm.left_layout)] * k] * m,
        [[fresh(ev, algorithm.right_layout)] * n] * k,
    ]
    schedule.run(graph, ev, sources)
    assert ev.counts == expected


def test_progress_is_told_after_every_product() -> None:
    told: list[str] = []
    algorithm = build("outer-product", 2, 2, 2, 128, {})
    ev = Clear(RING)
    block = [ev.fresh(np.zeros(128), bound=1.0) for _ in range(algorithm.left_layout.ciphertexts)]
    graph = product_graph(algorithm, (2, 2), (2, 2))
    schedule.run(
        graph, ev, [[[block] * 2] * 2] * 2, lambda template: told.extend([template.name] * template.steps)
    )
    assert told == ["multiply"] * 8


def test_a_random_order_is_random() -> None:
    """Or the tests that use it would prove little."""
    shuffled = [Shuffled(seed) for seed in range(3)]
    for one in shuffled:
        one(blockwise_graph("add", add, (4, 4)), Clear(RING), [[[random.random()] * 4] * 4], None)
    assert len({str(one.orders) for one in shuffled}) == 3
