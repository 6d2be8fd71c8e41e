"""Other schedules than those of the package: a random order that respects the edges, and several worker threads."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.runtime.schedule import Done, Grid, LiveBlocks
from cipherblas.runtime.tasks import Blocks, Dropped, Index, Task, TaskGraph

Key = tuple[Blocks, Index]


class Frontier:
    """The tasks of a graph of which some are done: which can begin, and which blocks nobody needs any more."""

    def __init__(self, graph: TaskGraph) -> None:
        tasks = [step for step in graph.walk() if isinstance(step, Task)]
        self._kept = set(graph.results)
        self._missing = Counter(
            task.output for task in tasks
        )  # of each block, tasks that make it or add to it
        self._reads = Counter(place for task in tasks for place in set(task.inputs))
        self._waiting = tasks
        self._busy: set[Key] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    def ready(self) -> list[int]:
        """Positions of the tasks that can begin now: what they read is whole, and nobody adds to what they add to."""
        return [
            position
            for position, task in enumerate(self._waiting)
            if task.output not in self._busy and not any(self._missing[place] for place in task.inputs)
        ]

    def begin(self, position: int) -> Task:
        task = self._waiting.pop(position)
        self._busy.add(task.output)
        return task

    def end(self, task: Task) -> list[Dropped]:
        """What was read for the last time."""
        self._busy.discard(task.output)
        self._missing[task.output] -= 1
        dropped = []
        for blocks, (row, col) in set(task.inputs):
            self._reads[blocks, (row, col)] -= 1
            if not self._reads[blocks, (row, col)] and blocks not in self._kept:
                dropped.append(Dropped(blocks, row, col))
        return dropped


class Shuffled:
    """Any task that can begin, at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.orders: list[list[tuple[str, Index]]] = []

    def __call__(
        self, graph: TaskGraph, ev: Evaluator, sources: Sequence[Grid], done: Done | None
    ) -> list[list[list[object]]]:
        held, frontier = LiveBlocks(graph, sources), Frontier(graph)
        order = []
        while len(frontier):
            task = frontier.begin(self.random.choice(frontier.ready()))
            held.perform(task, ev)
            order.append((task.template.name, task.output[1]))
            if done is not None:
                done(task.template)
            for dropped in frontier.end(task):
                if dropped.blocks not in graph.sources:
                    held.drop(dropped)
        self.orders.append(order)
        return [held.grid(blocks) for blocks in graph.results]


class Workers:
    """Several threads, each with an evaluator of its own, that begin whatever can begin, at random.

    Attributes:
        most: tasks that ran at a time.
    """

    def __init__(self, number: int, seed: int = 0) -> None:
        self.number, self.random, self.most = number, random.Random(seed), 0

    def __call__(
        self, graph: TaskGraph, ev: Evaluator, sources: Sequence[Grid], done: Done | None
    ) -> list[list[list[object]]]:
        held, frontier = LiveBlocks(graph, sources), Frontier(graph)
        changed = threading.Condition()
        running = 0
        failed = False

        def work() -> Evaluator:
            nonlocal running, failed
            own = ev.sibling()

            def can_go_on() -> bool:
                return failed or not len(frontier) or bool(frontier.ready())

            def all_had_a_turn() -> bool:
                return failed or self.most == self.number or not frontier.ready()

            while True:
                with changed:
                    changed.wait_for(can_go_on)
                    if failed or not len(frontier):
                        return own
                    task = frontier.begin(self.random.choice(frontier.ready()))
                    running += 1
                    self.most = max(self.most, running)
                    changed.notify_all()
                    changed.wait_for(all_had_a_turn)  # short tasks may end before another thread wakes up
                try:
                    held.perform(task, own)
                except BaseException:
                    with changed:
                        failed = True
                        changed.notify_all()
                    raise
                with changed:
                    running -= 1
                    for dropped in frontier.end(task):
                        if dropped.blocks not in graph.sources:
                            held.drop(dropped)
                    if done is not None:
                        done(task.template)
                    changed.notify_all()

        with ThreadPoolExecutor(self.number) as pool:
            for worker in [pool.submit(work) for _ in range(self.number)]:
                ev.join(worker.result())
        return [held.grid(blocks) for blocks in graph.results]
