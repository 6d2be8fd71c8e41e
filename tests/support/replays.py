"""Other replays than that of the package: in a random order that respects what is read, and on several threads."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

from cipherblas.evaluators.family import Evaluators
from cipherblas.runtime.listing import Instruction, Replay


class Frontier:
    """The instructions that have not begun."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._waiting = list(replay.listing)

    def __len__(self) -> int:
        return len(self._waiting)

    def ready(self) -> list[int]:
        """Positions of those whose sources are made."""
        held = self._replay.held
        return [
            position
            for position, one in enumerate(self._waiting)
            if all(source in held for source in one.sources)
        ]

    def begin(self, position: int) -> Instruction:
        return self._waiting.pop(position)


class Shuffled(Replay):
    """Any instruction that can begin, at random.

    Attributes:
        orders: of all such replays, the numbers of their instructions.
    """

    orders: list[list[int]] = []  # noqa: RUF012
    seed = 0

    def _run(self) -> None:
        chosen, frontier, order = random.Random(self.seed), Frontier(self), []
        while len(frontier):
            one = frontier.begin(chosen.choice(frontier.ready()))
            self.finish(one, self.compute(one, self.context))
            order.append(one.number)
        self.orders.append(order)


class OnTwoThreads(Replay):
    """Whatever can begin, on two threads with evaluators of their own, which wait for one another where they can.

    Attributes:
        most: instructions that ran at a time, in any such replay.
    """

    most = 0

    def _run(self) -> None:
        self._frontier, self._changed = Frontier(self), threading.Condition()
        self._running, self._failed = 0, False
        with ThreadPoolExecutor(2) as pool:
            for worker in [pool.submit(self._work) for _ in range(2)]:
                self.context.evaluators.join(worker.result())

    def _work(self) -> Evaluators:
        own = self.context.evaluators.sibling()
        while (one := self._next()) is not None:
            try:
                cells = self.compute(one, self.context._replace(evaluators=own))
            except BaseException:
                with self._changed:
                    self._failed = True
                    self._changed.notify_all()
                raise
            with self._changed:
                self._running -= 1
                self.finish(one, cells)
                self._changed.notify_all()
        return own

    def _next(self) -> Instruction | None:
        frontier = self._frontier
        with self._changed:
            self._changed.wait_for(lambda: self._ended() or bool(frontier.ready()))
            if self._ended():
                return None
            one = frontier.begin(frontier.ready()[0])
            self._running += 1
            OnTwoThreads.most = max(OnTwoThreads.most, self._running)
            self._changed.notify_all()
            # Short ones may end before another thread wakes up.
            self._changed.wait_for(lambda: self._failed or self._running > 1 or not frontier.ready(), 0.2)
            return one

    def _ended(self) -> bool:
        return self._failed or not len(self._frontier)
