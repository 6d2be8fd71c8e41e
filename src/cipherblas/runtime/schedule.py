"""Schedules: who runs the tasks of a graph, and when.

`local` runs them one after the other. `counted` runs each template once and multiplies; `bounded` runs it once for all
blocks, which are alike, but adds every term of a sum. An evaluator says which of them is meant for it; any schedule
that respects the edges of the graph makes the same ciphertexts, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, cast

from cipherblas.common.errors import ShapeError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct, handles_in
from cipherblas.runtime.tasks import (
    Axis,
    BlockPart,
    Blocks,
    Dropped,
    Index,
    Loop,
    Step,
    Task,
    TaskGraph,
    Tasks,
    Template,
)

Grid: TypeAlias = "Sequence[Sequence[Any]]"  # of blocks, row after row
Done: TypeAlias = Callable[[Template], None]  # called after each task
Schedule: TypeAlias = Callable[[TaskGraph, Evaluator, Sequence[Grid], "Done | None"], list[list[list[Any]]]]
"""schedule(graph, evaluator, grids of the sources, done) → grids of the results."""


def run(
    graph: TaskGraph,
    ev: Evaluator,
    sources: Sequence[Grid],
    done: Done | None = None,
) -> list[list[list[Any]]]:
    """The results of a graph, by the schedule that is meant for the evaluator.

    Args:
        sources: their grids, in the order of `graph.sources`.
        done: called with its template after each task.

    Raises:
        ShapeError: the grids have other shapes than the sources.
    """
    expected = [blocks.shape for blocks in graph.sources]
    got = [(len(grid), len(grid[0])) if grid else (0, 0) for grid in sources]
    if got != expected:
        raise ShapeError(
            "The grids of blocks have other shapes than the sources of the graph.", expected=expected, got=got
        )
    return SCHEDULES[ev.schedule](graph, ev, sources, done)


class LiveBlocks:
    """The blocks that a run holds.

    Args:
        graph: whose sources they begin with.
        sources: their grids.
    """

    def __init__(self, graph: TaskGraph, sources: Sequence[Grid]) -> None:
        self._works = graph.works
        self._made: dict[Blocks, dict[Index, Any]] = {group.output.blocks: {} for group in graph.tasks}
        for blocks, grid in zip(graph.sources, sources, strict=True):
            self._made[blocks] = {(i, j): block for i, row in enumerate(grid) for j, block in enumerate(row)}

    def perform(self, task: Task, ev: Evaluator) -> None:
        """Run one task."""
        blocks, index = task.output
        made, work = self._made[blocks], self._works[task.template.name]
        inputs = [self._made[source][place] for source, place in task.inputs]
        if any(isinstance(one, list) and not one for one in inputs):  # computed elsewhere
            made[index] = []
        elif task.adds:
            made[index] = work(ev, *inputs, made.get(index))
        else:
            made[index] = work(ev, *inputs)

    def drop(self, dropped: Dropped) -> None:
        """Let blocks go."""
        made, row, col = self._made[dropped.blocks], dropped.row, dropped.col
        if row is not None and col is not None:
            del made[row, col]
        else:
            for index in [(i, j) for i, j in made if row in (None, i) and col in (None, j)]:
                del made[index]

    def grid(self, blocks: Blocks) -> list[list[Any]]:
        """All blocks of a grid."""
        made, (rows, cols) = self._made[blocks], blocks.shape
        return [[made[i, j] for j in range(cols)] for i in range(rows)]


def local(
    graph: TaskGraph, ev: Evaluator, sources: Sequence[Grid], done: Done | None
) -> list[list[list[Any]]]:
    """One task after the other, in the order of the loops; blocks go when nobody reads them any more."""
    held = LiveBlocks(graph, sources)
    for step in graph.walk():
        if isinstance(step, Dropped):
            held.drop(step)
            continue
        held.perform(step, ev)
        if done is not None:
            done(step.template)
    return [held.grid(blocks) for blocks in graph.results]


class _OneForAll:
    """One block of each grid stands for all: blocks are alike, the same operations on other data."""

    def __init__(self, graph: TaskGraph, ev: Evaluator, sources: Sequence[Grid], done: Done | None) -> None:
        self.ev, self._graph, self._done = ev, graph, done
        self._sources = dict(zip(graph.sources, sources, strict=True))
        self.blocks: dict[Blocks, Any] = {}
        self._turn: dict[Axis, int] = {}  # of the loops around
        self._ending: set[Blocks] = (
            set()
        )  # dropped when the loop is done that began to drop them part by part

    def run(self) -> list[list[list[Any]]]:
        """The results, one block in all places of each."""
        self.steps(self._graph.steps)
        results = []
        for blocks in self._graph.results:
            rows, cols = blocks.shape
            results.append([[self.blocks[blocks]] * cols] * rows)
        return results

    def steps(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, Loop):
                self._looped(step)
            elif isinstance(step, Tasks):
                self._performed(step)
            elif not step.ended:
                del self.blocks[step.part.blocks]

    def turn(self, loop: Loop, number: int) -> None:
        """One turn of a loop."""
        self._turn[loop.axis] = number
        self.steps(loop.steps)

    def turns(self, loop: Loop, sums: Sequence[Tasks]) -> None:
        """All turns of a loop that has several; `sums` add up along its axis."""
        for number in range(loop.axis.length if sums else 1):
            self.turn(loop, number)

    def _looped(self, loop: Loop) -> None:
        begun = {part.blocks for part in loop.ends} - self._ending
        self._ending |= begun
        if loop.axis.length == 1:
            self.turn(loop, 0)
        else:
            self.turns(loop, [tasks for tasks in tasks_in(loop) if loop.axis in tasks.summed])
        del self._turn[loop.axis]
        self._ending -= begun
        for blocks in begun:
            del self.blocks[blocks]

    def _performed(self, tasks: Tasks) -> None:
        inputs = [self._block(blocks, axes) for blocks, axes in tasks.inputs]
        if tasks.summed:
            begun = any(self._turn[axis] for axis in tasks.summed)
            inputs.append(self.blocks[tasks.output.blocks] if begun else None)
        self.blocks[tasks.output.blocks] = self._graph.works[tasks.template.name](self.ev, *inputs)
        if self._done is not None:
            self._done(tasks.template)

    def _block(self, blocks: Blocks, axes: tuple[Axis, Axis]) -> Any:
        given = self._sources.get(blocks)
        if given is None:
            return self.blocks[blocks]
        return given[self._turn[axes[0]]][self._turn[axes[1]]]


class _Counted(_OneForAll):
    """Template × multiplicity, on `Symbolic`. Counts, keys and memory are those of `local`, bounds and errors but for
    rounding."""

    ev: Symbolic

    def turns(self, loop: Loop, sums: Sequence[Tasks]) -> None:
        if sums:
            self._summed(loop, sums)
        else:
            self._repeated(loop)

    def _repeated(self, loop: Loop) -> None:
        """One turn, for all; memory grows from turn to turn by what each leaves."""

        def turn(number: int) -> list[Any]:
            before = self.blocks.copy() if number else None  # a second turn is only looked at
            self.turn(loop, number)
            left = {tasks.output.blocks for tasks in tasks_in(loop)} & self.blocks.keys()
            found = [self.blocks[each] for each in left]
            self.blocks = self.blocks if before is None else before
            return found

        self.ev.repeat(loop.axis.length, turn, lambda: sum(self._bytes(part) for part in loop.ends))

    def _summed(self, loop: Loop, sums: Sequence[Tasks]) -> None:
        """The first turn makes the sums; the others, of which one is counted, add terms like the first."""
        ev, number = self.ev, loop.axis.length
        self.turn(loop, 0)
        totals = handles_in([self.blocks[tasks.output.blocks] for tasks in sums])
        first = [(ct, ct.bound, ct.errors) for ct in totals]
        peak = ev.ledger.peak
        ev.repeated(number - 1, lambda: self.turn(loop, 1))
        ev.ledger.peak = max(peak, ev.ledger.peak)
        for ct, bound, errors in first:
            ct.bound, ct.errors = bound * number, errors.repeated(number)
            ev.check_room(ct.limbs, ct.scale, ct.bound, ct.noise)

    def _bytes(self, part: BlockPart) -> int:
        """The bytes of blocks that one turn of a loop is the last to read."""
        others = [n for n, axis in zip(part.blocks.shape, part.axes, strict=True) if axis is None]
        return math.prod(others) * _bytes(self.ev, self.blocks[part.blocks])


def counted(
    graph: TaskGraph, ev: Evaluator, sources: Sequence[Grid], done: Done | None
) -> list[list[list[Any]]]:
    """Each template once, times the number of its tasks, on `Symbolic`: a grid of any size in the time of one block."""
    return _Counted(graph, cast(Symbolic, ev), sources, done).run()


def bounded(
    graph: TaskGraph, ev: Evaluator, sources: Sequence[Grid], done: Done | None
) -> list[list[list[Any]]]:
    """Each template once for all blocks, every term of a sum."""
    return _OneForAll(graph, ev, sources, done).run()


# By the name that evaluators give.
SCHEDULES: dict[str, Schedule] = {"local": local, "counted": counted, "bounded": bounded}


def tasks_in(loop: Loop) -> list[Tasks]:
    """All tasks of a loop."""
    found: list[Tasks] = []
    for step in loop.steps:
        if isinstance(step, Loop):
            found += tasks_in(step)
        elif isinstance(step, Tasks):
            found.append(step)
    return found


def _bytes(ev: Evaluator, item: Any) -> int:
    """The bytes of the ciphertexts in nested lists, each counted as often as it stands there."""
    if isinstance(item, Ct):
        return ev.ct_bytes(item)
    return sum(_bytes(ev, part) for part in item)
