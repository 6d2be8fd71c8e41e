"""What is computed on grids of blocks, as data: templates, the blocks that they read and make, and how often.

A `Template` is a piece of a method, written against an evaluator; `Tasks` is one template on many blocks, one task for
every index along some axes. A product of grids is four of them, however many blocks there are: tasks are listed one by
one (`TaskGraph.walk`) only where they are run one by one. Counting is template × multiplicity; who runs what when is up
to a schedule (`schedule.py`).

Tasks whose index has an axis that their block lacks add up: each adds its term to that block in place. Additions modulo
q are exact, so that terms may come in any order, one at a time; who reads the block waits for all of them.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from cipherblas.common.errors import ParameterError

MAX_REMEMBERED = 1 << 13  # tasks of a graph whose order is kept once it was walked

Index: TypeAlias = tuple[int, int]


Work: TypeAlias = Callable[..., Any]
"""What a template does: work(ev, *blocks) with an evaluator; for tasks that add up with the sum so far after the
blocks, None for the first term. It works on the evaluator that it is given, and changes no block but that sum."""


@dataclass(frozen=True)
class Template:
    """One piece of a method, which says by its name what it does (`TaskGraph.using`).

    Attributes:
        steps: of progress that a task is.
    """

    name: str
    steps: int = 0


@dataclass(frozen=True, eq=False)
class Axis:
    """The numbers 0, …, length - 1, for which tasks repeat."""

    name: str
    length: int


@dataclass(frozen=True, eq=False)
class Blocks:
    """A grid of like blocks. A block is whatever a template makes at once: a list of ciphertexts, say."""

    name: str
    shape: tuple[int, int]

    def at(self, row: Axis, col: Axis) -> BlockPlace:
        """Return the block at a task's index along these axes.

        Raises:
            ParameterError: they have other lengths than the grid, or are one.
        """
        if (row.length, col.length) != self.shape or row is col:
            raise ParameterError(
                f"The axes do not fit the grid {self.name!r}.",
                expected="two of {}×{}".format(*self.shape),
                got=f"{row.name} {row.length} × {col.name} {col.length}",
            )
        return BlockPlace(self, (row, col))


class BlockPlace(NamedTuple):
    """One block for each task: that of `blocks` at the task's index along `axes`."""

    blocks: Blocks
    axes: tuple[Axis, Axis]


class BlockPart(NamedTuple):
    """Some blocks of a grid: those at the index of the loops around along `axes`, all along None."""

    blocks: Blocks
    axes: tuple[Axis | None, Axis | None]


@dataclass(frozen=True, eq=False)
class Tasks:
    """One template on many blocks: a task for every index along the axes of what it reads and makes."""

    template: Template
    inputs: tuple[BlockPlace, ...]
    output: BlockPlace

    @functools.cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Along which the tasks repeat."""
        places = (*self.inputs, self.output)
        return tuple(dict.fromkeys(axis for place in places for axis in place.axes))

    @functools.cached_property
    def summed(self) -> tuple[Axis, ...]:
        """The axes along which tasks add to one block."""
        return tuple(axis for axis in self.axes if axis not in self.output.axes)

    @property
    def number(self) -> int:
        """How many tasks there are."""
        return math.prod(axis.length for axis in self.axes)

    def places(self, blocks: Blocks) -> list[BlockPlace]:
        """Where they read or make blocks of a grid."""
        return [place for place in (*self.inputs, self.output) if place.blocks is blocks]


class Loop(NamedTuple):
    """Steps for every index along an axis.

    Attributes:
        ends: of blocks that were made before the loop, the parts that each turn is the last to read.
    """

    axis: Axis
    steps: tuple[Step, ...]
    ends: tuple[BlockPart, ...] = ()


class Drop(NamedTuple):
    """Nobody reads these blocks any more.

    Attributes:
        ended: a loop around has them among its `ends`.
    """

    part: BlockPart
    ended: bool


Step: TypeAlias = "Tasks | Loop | Drop"


class Task(NamedTuple):
    """One task: the blocks that it reads, and the one that it makes or, if it `adds`, adds to."""

    template: Template
    inputs: tuple[tuple[Blocks, Index], ...]
    output: tuple[Blocks, Index]
    adds: bool


class Dropped(NamedTuple):
    """Blocks that nobody reads any more: those of a row and a column, all along None."""

    blocks: Blocks
    row: int | None
    col: int | None


class TaskGraph:
    """Tasks, the blocks that they begin with, and those that are asked for.

    Args:
        tasks: in any order; their edges are the blocks that some make and others read.
        sources: blocks that are given.
        results: blocks that are asked for.
        order: of loops, the outermost first: every axis once.

    Attributes:
        tasks: each after those that make what they read.
        works: what templates do, by name.
        terms: of a product of blocks the least of its lengths: about as many ciphertexts of a side meet those of the
            other; 0 where it is no product.
        steps: the tasks in nested loops, in the order of the axes. Neighbours that repeat along an axis share its loop,
            where each turn reads what that turn made. Blocks are dropped right after the last who reads them, in the
            innermost loop that has all who make and read them, or deeper where each turn of a loop is the last to read
            a part of its own.

    Raises:
        ParameterError: blocks are read that nobody makes, made twice, or made for nobody; an axis is missing in the
            order; tasks wait for each other.
    """

    def __init__(
        self,
        tasks: Iterable[Tasks],
        sources: Sequence[Blocks],
        results: Sequence[Blocks],
        order: Sequence[Axis],
    ) -> None:
        self.sources, self.results, self.order = tuple(sources), tuple(results), tuple(order)
        self.works: Mapping[str, Work] = {}
        self.terms = 0
        tasks = list(tasks)
        self._readers: dict[Blocks, list[Tasks]] = defaultdict(list)
        for group in tasks:
            for blocks in {place.blocks for place in group.inputs}:
                self._readers[blocks].append(group)
        self._check(tasks)
        self.tasks = _sorted(tasks, self.sources)
        self._names = {group.template.name for group in self.tasks}
        due = [group.output.blocks for group in self.tasks if group.output.blocks not in self.results]
        self.steps = _with_drops(
            self._nested(self.tasks, self.order), dict.fromkeys(due, (None, None)), frozenset()
        )
        # The steps one by one, once they were walked; shared by all that use the graph.
        self._order_found: list[tuple[Task | Dropped, ...]] = []

    def using(self, works: Mapping[str, Work], terms: int = 0) -> TaskGraph:
        """The same graph, whose templates do what `works` says by their names.

        Raises:
            ParameterError: it lacks one.
        """
        if not self._names <= works.keys():
            raise ParameterError(
                "The task graph has templates for which no work is given.",
                expected=sorted(self._names),
                got=sorted(works),
            )
        other = TaskGraph.__new__(TaskGraph)
        other.__dict__ |= self.__dict__ | {"works": works, "terms": terms}
        return other

    @property
    def numbers(self) -> dict[str, int]:
        """Template → how often it runs."""
        found: dict[str, int] = defaultdict(int)
        for group in self.tasks:
            found[group.template.name] += group.number
        return dict(found)

    def walk(self) -> Iterator[Task | Dropped]:
        """Task after task, and what is dropped between them, in the order of the loops."""
        if self._order_found:
            return iter(self._order_found[0])
        steps = _walked(self.steps, {})
        if sum(group.number for group in self.tasks) > MAX_REMEMBERED:
            return steps
        self._order_found.append(tuple(steps))
        return iter(self._order_found[0])

    def _check(self, tasks: Sequence[Tasks]) -> None:
        made = [group.output.blocks for group in tasks]
        known = {*self.sources, *made}
        for blocks in [*self._readers, *self.results]:
            if blocks not in known:
                raise _refusal(blocks, "given, or made by a task", "neither")
        for blocks in made:
            if blocks in self.sources or made.count(blocks) > 1:
                raise _refusal(blocks, "given, or made by one kind of task", "made twice")
            if blocks not in self._readers and blocks not in self.results:
                raise _refusal(blocks, "read by a task, or a result", "neither")
        for result in self.results:
            if result in self.sources:
                raise _refusal(result, "made by a task", "given")
        axes = {axis for group in tasks for axis in group.axes}
        if len(set(self.order)) != len(self.order) or not axes <= set(self.order):
            names = [[axis.name for axis in some] for some in (axes, self.order)]
            raise ParameterError(
                "The order of loops must name every axis of the tasks once.",
                expected=sorted(names[0]),
                got=names[1],
            )

    def _nested(self, tasks: Sequence[Tasks], order: tuple[Axis, ...]) -> tuple[Step, ...]:
        """Loops over the first axis where tasks have it, and inside and beside them loops over the others."""
        if not order:
            return tuple(tasks)
        axis, *rest = order
        steps: list[Step] = []
        for run in self._runs(tasks, axis):
            inner = self._nested(run, tuple(rest))
            steps += [Loop(axis, inner)] if axis in run[0].axes else inner
        return tuple(steps)

    def _runs(self, tasks: Sequence[Tasks], axis: Axis) -> Iterator[list[Tasks]]:
        """Neighbours that share a loop over an axis, or that all lack it."""
        runs: list[list[Tasks]] = []
        for group in tasks:
            looped = axis in group.axes
            if (
                runs
                and looped == (axis in runs[-1][0].axes)
                and (not looped or _joins(group, runs[-1], axis))
            ):
                runs[-1].append(group)
            else:
                runs.append([group])
        for run in runs:
            if any(axis in group.summed for group in run) and not self._own(run, axis):
                yield from ([group] for group in run)
            else:
                yield run

    def _own(self, run: Sequence[Tasks], axis: Axis) -> bool:
        """Whether what a turn of the loop makes, sums apart, is read in the same turn alone."""
        made = (group.output.blocks for group in run if axis not in group.summed)
        return all(
            blocks not in self.results and all(reader in run for reader in self._readers[blocks])
            for blocks in made
        )


def _refusal(blocks: Blocks, expected: str, got: str) -> ParameterError:
    return ParameterError(
        f"The blocks {blocks.name!r} do not fit their task graph.", expected=expected, got=got
    )


def _sorted(tasks: Sequence[Tasks], sources: Iterable[Blocks]) -> tuple[Tasks, ...]:
    """Tasks after those that make what they read, else in their order."""
    known, waiting, done = set(sources), list(tasks), []
    while waiting:
        group = next((one for one in waiting if all(place.blocks in known for place in one.inputs)), None)
        if group is None:
            names = ", ".join(one.template.name for one in waiting)
            raise ParameterError(
                "The tasks of a graph wait for each other in a circle.",
                expected="an order of its tasks",
                got=f"a circle of {names}",
            )
        waiting.remove(group)
        known.add(group.output.blocks)
        done.append(group)
    return tuple(done)


def _joins(group: Tasks, run: Sequence[Tasks], axis: Axis) -> bool:
    """Whether tasks may share a loop with those of `run`: they read what the same turn made, and no unfinished sum."""
    makers = {maker.output.blocks: maker.output for maker in run}
    read = [(makers[place.blocks], place) for place in group.inputs if place.blocks in makers]
    return all(_position([made, place], axis) is not None for made, place in read)


def _position(places: Iterable[BlockPlace], axis: Axis) -> int | None:
    """Along which dimension all of them go with an axis; None where they differ, or some do not."""
    found = {place.axes.index(axis) if axis in place.axes else None for place in places}
    return found.pop() if len(found) == 1 else None


def _with_drops(
    steps: Sequence[Step],
    due: Mapping[Blocks, tuple[Axis | None, Axis | None]],
    ended: Collection[Blocks],
) -> tuple[Step, ...]:
    """Steps with drops of blocks that are read last in them.

    Args:
        due: these blocks, and what loops around say about the index.
        ended: those that were made before a loop around.
    """
    inside = [list(_tasks_of(step)) for step in steps]
    result: list[Step] = []
    drops: dict[int, list[Drop]] = defaultdict(list)
    deeper: dict[int, dict[Blocks, tuple[Axis | None, Axis | None]]] = defaultdict(dict)
    ends: dict[int, list[BlockPart]] = defaultdict(list)
    for blocks, axes in due.items():
        users = [number for number, tasks in enumerate(inside) if any(t.places(blocks) for t in tasks)]
        last = users[-1]
        step = steps[last]
        position = None
        if isinstance(step, Loop):
            places = [place for tasks in inside[last] for place in tasks.places(blocks)]
            position = _position(places, step.axis)
        if position is None:
            drops[last].append(Drop(BlockPart(blocks, axes), blocks in ended))
            continue
        assert isinstance(step, Loop)
        known = (step.axis, axes[1]) if position == 0 else (axes[0], step.axis)
        deeper[last][blocks] = known
        if len(users) > 1 or blocks in ended:
            ends[last].append(BlockPart(blocks, known))
    for number, step in enumerate(steps):
        if isinstance(step, Loop):
            gone = {*ended, *(part.blocks for part in ends[number])}
            step = Loop(step.axis, _with_drops(step.steps, deeper[number], gone), tuple(ends[number]))
        result += [step, *drops[number]]
    return tuple(result)


def _tasks_of(step: Step) -> Iterator[Tasks]:
    if isinstance(step, Tasks):
        yield step
    elif isinstance(step, Loop):
        for inner in step.steps:
            yield from _tasks_of(inner)


def _walked(steps: Iterable[Step], index: dict[Axis, int]) -> Iterator[Task | Dropped]:
    for step in steps:
        if isinstance(step, Loop):
            for turn in range(step.axis.length):
                index[step.axis] = turn
                yield from _walked(step.steps, index)
        elif isinstance(step, Drop):
            row, col = step.part.axes
            yield Dropped(
                step.part.blocks, None if row is None else index[row], None if col is None else index[col]
            )
        else:
            inputs = tuple((blocks, (index[row], index[col])) for blocks, (row, col) in step.inputs)
            blocks, (row, col) = step.output
            yield Task(step.template, inputs, (blocks, (index[row], index[col])), bool(step.summed))
