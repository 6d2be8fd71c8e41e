"""Ranks of MPI, through mpi4py: buffers alone, and waits that notice when another rank has failed."""

from __future__ import annotations

import atexit
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cipherblas.common.errors import CipherblasError, MismatchError, ParameterError
from cipherblas.common.memory import check_memory
from cipherblas.common.words import WORD_BYTES
from cipherblas.distributed.communicator import Communicator, RankError, Words

DATA, FAULT, HEARD, LEFT = 1, 2, 3, 4  # tags
YIELDING = 1e-3  # seconds in which a wait only lets other processes go first, before it pauses
YIELDS = 64  # between two looks at the clock, and at whether a rank has failed
MIN_PAUSE, MAX_PAUSE = 2e-5, 5e-4  # seconds of a pause after that
RESERVE = 1 << 20  # bytes that a rank gives back when it has failed, for lack of memory maybe, to say so
GRACE = 3.0  # seconds that ranks have to say why they stop, before all are ended
LINGERING = 1.0  # seconds in which what a rank sent before it left arrives
LAST_WORDS = 0.5  # seconds in which a launcher passes on what was printed, before it is told to end
PATIENCE = 600.0  # seconds after the first rank in which all others are to be there
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE")  # set by mpiexec of MPICH (and srun), of Open MPI
_LOCAL_SIZES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE")


def ranks_launched() -> int:
    """Ranks that `mpiexec` (or `srun`) started together with this process; 1 where nothing did."""
    return _first(_SIZES)


def ranks_here() -> int:
    """Return the number of ranks on this machine, as far as the launcher tells it. They share its processors."""
    return _first(_LOCAL_SIZES)


def _first(names: tuple[str, ...]) -> int:
    values = (os.environ.get(name, "") for name in names)
    return next((int(value) for value in values if value.isdigit() and int(value) > 0), 1)


def _abort(world: Any) -> None:
    """End all ranks, after what this one printed has arrived."""
    sys.stderr.flush()
    time.sleep(LAST_WORDS)
    world.Abort(1)


class MpiCommunicator(Communicator):
    """The ranks of `MPI.COMM_WORLD`.

    A rank that fails tells all others (`failed`), which then raise `RankError` at their next message, and ends the run
    when they have said so, or after some seconds. So do those that wait for a rank whose process has left: without an
    error, or by one before `Server.run`.

    Args:
        patience: seconds after the first rank in which all others are to make theirs.

    Raises:
        ParameterError: mpi4py, or an MPI library, is not installed.
        MismatchError: a rank did not come.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._mpi = _mpi()
        self._pending: list[tuple[Any, Words, int]] = []
        self._failure: BaseException | None = None
        self._heard: tuple[int, str] | None = None
        self._left: set[int] = set()
        self._reserve = bytearray(RESERVE)
        world = self._mpi.COMM_WORLD
        super().__init__(world.Get_rank(), world.Get_size())
        self._comm = self._all_here(world, patience)
        atexit.register(self._end)

    def _all_here(self, world: Any, patience: float) -> Any:
        """A communicator of its own, once every rank has asked for one."""
        found, request = world.Idup()
        deadline = time.monotonic() + patience
        while not request.Test():
            if time.monotonic() > deadline:
                atexit.register(_abort, world)  # MPI_Finalize would wait for the others
                raise MismatchError(
                    "Not every rank has made an MpiCommunicator.",
                    expected=f"{self.size} ranks within {patience:g} s",
                    got="fewer",
                    cause="A rank that ends, or fails, before it makes one is not waited for for ever.",
                )
            time.sleep(MAX_PAUSE)
        return found

    def _put(self, words: Words, to: int) -> None:
        words = np.ascontiguousarray(words)
        self._pending = [one for one in self._pending if not one[0].Test()]
        self._tell(words, DATA, [to])

    def receive_ahead(
        self, kind: str, sources: Sequence[int], into: Mapping[int, Sequence[Words]] | None = None
    ) -> Iterator[list[Words]]:
        """In a thread, where the MPI library allows that."""
        if not sources or self._mpi.Query_thread() < self._mpi.THREAD_MULTIPLE:
            return super().receive_ahead(kind, sources, into)
        places = into or {}
        arrived: queue.SimpleQueue[list[Words] | BaseException] = queue.SimpleQueue()

        def work() -> None:
            try:
                for source in sources:
                    arrived.put(self._received(kind, source, places.get(source)))
            except BaseException as error:  # which the caller raises
                arrived.put(error)

        threading.Thread(target=work, name="messages", daemon=True).start()
        return self._handed_over(arrived, len(sources))

    def _handed_over(
        self, arrived: queue.SimpleQueue[list[Words] | BaseException], count: int
    ) -> Iterator[list[Words]]:
        for _ in range(count):
            with self._timed():
                found = arrived.get()
            if isinstance(found, BaseException):
                raise found
            yield found

    def _take(self, words: Words, source: int) -> None:
        status = self._mpi.Status()
        request = self._comm.Irecv([words, self._mpi.UINT64_T], source, DATA)
        try:
            self._wait(lambda: request.Test(status), source)
            got = status.Get_count(self._mpi.UINT64_T)
        except self._mpi.Exception as error:
            if error.Get_error_class() != self._mpi.ERR_TRUNCATE:
                raise
            got = None
        if got != words.size:
            raise MismatchError(
                f"Rank {source} sent an array of another length than it announced.",
                expected=f"{words.size} words",
                got="more" if got is None else "fewer",
            )

    def _take_header(self, source: int) -> Words:
        status = self._mpi.Status()
        self._wait(lambda: self._comm.Iprobe(source, DATA, status), source)
        words = room_for(source, status.Get_count(self._mpi.UINT64_T))
        self._take(words, source)
        return words

    def _finish(self) -> None:
        for request, _, to in self._pending:
            self._wait(request.Test, to)
        self._pending.clear()

    def _wait(self, done: Callable[[], Any], other: int) -> None:
        """Until something is done with another rank; several ranks may share a processor, so that waiting must not keep
        it busy.

        Raises:
            RankError: a rank has failed, or the other one has left.
        """
        end = time.monotonic() + YIELDING
        while True:
            for _ in range(YIELDS):
                if done():
                    return
                os.sched_yield()
            self.check()
            if time.monotonic() > end:
                break
        pause, left = MIN_PAUSE, math.inf
        while not done():
            self.check()
            if other in self._left:
                left = min(left, time.monotonic())
                if time.monotonic() > left + LINGERING:
                    raise RankError(other, f"it left, and rank {self.rank} waits for it.")
            time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)

    def check(self) -> None:
        """Raise RankError where a rank has failed, in whichever thread asks; note those that have left."""
        self._note_left()
        if self._heard is None:
            status = self._mpi.Status()
            message = self._comm.Improbe(self._mpi.ANY_SOURCE, FAULT, status)  # nobody else receives it
            if message is None:
                return
            source = status.Get_source()
            words = room_for(source, status.Get_count(self._mpi.UINT64_T))
            message.Recv([words, self._mpi.UINT64_T])
            self._heard = source, words.tobytes().rstrip(b"\0").decode(errors="replace")
        raise RankError(*self._heard)

    def _note_left(self) -> None:
        status = self._mpi.Status()
        while (message := self._comm.Improbe(self._mpi.ANY_SOURCE, LEFT, status)) is not None:
            message.Recv([np.empty(1, np.uint64), self._mpi.UINT64_T])
            self._left.add(status.Get_source())

    def failed(self, error: BaseException) -> None:
        """Tell all others, once; this process then ends the run when it exits."""
        if self._failure is not None:
            return
        self._failure = error
        self._reserve = bytearray()
        if not isinstance(error, RankError):
            text = _why(error).encode()
            words = np.frombuffer(text + b"\0" * (-len(text) % 8 or 8), np.uint64)
            self._tell(words, FAULT, self._others)

    @property
    def _others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _tell(self, words: Words, tag: int, ranks: list[int]) -> None:
        for rank in ranks:
            self._pending.append((self._comm.Isend([words, self._mpi.UINT64_T], rank, tag), words, rank))

    def _end(self) -> None:
        """At exit: after a failure no rank may wait for another in MPI_Finalize."""
        try:
            if self._failure is None:
                self._leave()
                return
            self._say_why(self._failure)
        except RankError:
            pass
        self._mpi.COMM_WORLD.Abort(1)

    def _leave(self) -> None:
        """Tell all others, and wait for them, as MPI_Finalize does, but for those that fail.

        Raises:
            RankError: a rank has failed.
        """
        self._tell(np.zeros(1, np.uint64), LEFT, self._others)
        while len(self._left) < self.size - 1:
            self.check()
            for request, _, _ in self._pending:
                request.Test()
            time.sleep(MAX_PAUSE)

    def _say_why(self, error: BaseException) -> None:
        """Until all others have heard of it, or for some seconds."""
        deadline = time.monotonic() + GRACE
        if isinstance(error, RankError):
            self._tell(np.zeros(1, np.uint64), HEARD, [error.rank])
            deadline += GRACE  # the rank that failed ends the run
            heard = self.size
        else:
            heard = 0
        while time.monotonic() < deadline and heard != self.size - 1:
            for request, _, _ in self._pending:
                request.Test()
            if not isinstance(error, RankError) and self._comm.Iprobe(self._mpi.ANY_SOURCE, HEARD):
                self._comm.Recv([np.empty(1, np.uint64), self._mpi.UINT64_T], self._mpi.ANY_SOURCE, HEARD)
                heard += 1
            time.sleep(MAX_PAUSE)


def room_for(source: int, words: int) -> Words:
    """An array for a message of unknown length that waits.

    Args:
        words: how many MPI says they are; negative where the bytes are no whole words.

    Raises:
        MismatchError: they are none.
        MemoryBudgetError: they are more than the memory of this machine holds.
    """
    if words < 0:
        raise MismatchError(
            f"Rank {source} sent a message that nobody can read.", expected="whole words", got="other bytes"
        )
    check_memory(words * WORD_BYTES, f"What rank {source} sends")
    return np.empty(words, np.uint64)


def _why(error: BaseException) -> str:
    if isinstance(error, (SystemExit, KeyboardInterrupt)):
        return "it was stopped."
    return error.sentence if isinstance(error, CipherblasError) else f"{type(error).__name__}: {error}"


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: no library of MPI is found
        raise ParameterError(
            "Several ranks need mpi4py and an MPI library.",
            advice="pip install mpi4py mpich",
            cause=f"{error}.",
        ) from error
    return MPI
