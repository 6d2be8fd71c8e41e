"""Where the time of a rank goes: seconds of its stages, and the memory that it took, told to all others after a run."""

from __future__ import annotations

import contextlib
import operator
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields

import numpy as np

from cipherblas.common.process import peak_bytes
from cipherblas.distributed.communicator import Communicator


@dataclass(frozen=True)
class RankTimes:
    """Seconds of one rank's run.

    Attributes:
        compute: what is neither of the next two.
        communication: in which it sent, waited for others and received.
        copies: of rows to where they are needed.
        aligned, shifted: of `compute`, RotateAlign and ShiftByStep of products by kernels that have these.
        user, system: of its processor, of all threads: the system's are mostly of memory handed out page by page.
        peak_bytes: the most memory that the process had so far.
    """

    compute: float
    communication: float
    copies: float
    aligned: float
    shifted: float
    user: float
    system: float
    peak_bytes: float

    def and_then(self, other: RankTimes) -> RankTimes:
        """Of two runs, one after the other."""
        *seconds, peak = vars(self).values()
        *more, other_peak = vars(other).values()
        found = [*map(operator.add, seconds, more), max(peak, other_peak)]
        return RankTimes(*found)


class Stopwatch:
    """Of one rank, or of a process alone, from now on.

    Attributes:
        copies: seconds so far.
        stages: seconds of stages of products so far, by name.
    """

    def __init__(self, communicator: Communicator | None) -> None:
        self._communicator = communicator
        self.copies, self._before = 0.0, self._messages()
        self.stages: Mapping[str, float] = {}
        self._wall, self._processor = time.perf_counter(), os.times()

    def _messages(self) -> float:
        return 0.0 if self._communicator is None else self._communicator.seconds

    @contextlib.contextmanager
    def copying(self) -> Iterator[None]:
        """Count the time inside as copying."""
        start = time.perf_counter()
        yield
        self.copies += time.perf_counter() - start

    def stop(self, last: bool = True) -> RankTimes:
        """Since the start.

        Args:
            last: others do not follow, which will know the peak of memory as well.
        """
        now, spent = time.perf_counter(), os.times()
        messages = self._messages() - self._before
        return RankTimes(
            now - self._wall - messages - self.copies,
            messages,
            self.copies,
            self.stages.get("aligned", 0.0),
            self.stages.get("shifted", 0.0),
            spent.user - self._processor.user,
            spent.system - self._processor.system,
            float(peak_bytes()) if last else 0.0,
        )


def of_all(communicator: Communicator | None, mine: RankTimes) -> list[RankTimes]:
    """Return the times of all ranks, on every rank, after a barrier."""
    if communicator is None:
        return [mine]
    words = np.array(astuple(mine), np.float64).view(np.uint64)
    found = communicator.all_gather("times", [words])
    return [RankTimes(*(float(x) for x in one.view(np.float64))) for (one,) in found]


def slowest(times: list[RankTimes]) -> RankTimes:
    """The most of each."""
    return RankTimes(*(max(getattr(one, field.name) for one in times) for field in fields(RankTimes)))
