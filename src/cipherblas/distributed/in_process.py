"""Ranks in one process: a thread each, with the messages of real ranks, counted alike. For tests, and for planning."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from cipherblas.common.errors import brief
from cipherblas.distributed.communicator import Communicator, RankError, Words

Result = TypeVar("Result")
PATIENCE = 0.02  # seconds between looks at whether a rank has failed


class _Shared:
    """The state that all ranks of a run share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.queues: dict[tuple[int, int], queue.SimpleQueue[Words]] = {
            (source, to): queue.SimpleQueue() for source in range(size) for to in range(size)
        }
        self.fault: tuple[int, str] | None = None
        self.left: set[int] = set()  # ranks that have done their work
        self.lock = threading.Lock()


class InProcess(Communicator):
    """A rank that is a thread. Buffers are handed over without a copy where `copies` is false: then nobody may write to
    them, as in a run on shapes alone."""

    def __init__(self, shared: _Shared, rank: int, copies: bool) -> None:
        super().__init__(rank, shared.size)
        self._shared, self._copies = shared, copies

    def _put(self, words: Words, to: int) -> None:
        sent = words.copy() if self._copies else words if any(words.strides) else _shape_alone(words)
        self._shared.queues[self.rank, to].put(sent)

    def _take_header(self, source: int) -> Words:
        while True:
            left = (
                source in self._shared.left
            )  # before it is looked for: what a rank sent before it left is there
            try:
                return self._shared.queues[source, self.rank].get(timeout=PATIENCE)
            except queue.Empty:
                if self._shared.fault is not None:
                    raise RankError(*self._shared.fault) from None
                if left:
                    raise RankError(source, f"it left, and rank {self.rank} waits for it.") from None

    def _take(self, words: Words, source: int) -> None:
        words[...] = self._take_header(source)

    def _taken(self, shape: tuple[int, ...], source: int, place: Words | None = None) -> Words:
        if self._copies:
            return super()._taken(shape, source, place)
        return self._take_header(source).reshape(shape)

    def _placed(self, words: Words, place: Words | None) -> Words:
        return super()._placed(words, place if self._copies else None)

    def _packed(self, arrays: Sequence[Words]) -> Words:
        if self._copies or any(any(array.strides) for array in arrays):
            return super()._packed(arrays)
        return np.broadcast_to(np.uint64(0), (sum(array.size for array in arrays),))

    def _finish(self) -> None:
        pass

    def failed(self, error: BaseException) -> None:
        with self._shared.lock:
            if self._shared.fault is None:
                self._shared.fault = (self.rank, brief(error))


def _shape_alone(words: Words) -> Words:
    """An array without content, which keeps no other."""
    return np.broadcast_to(np.uint64(0), words.shape)


def run_ranks(size: int, work: Callable[[Communicator], Result], *, copies: bool = True) -> list[Result]:
    """work(communicator) on so many ranks at once; their results.

    Args:
        copies: buffers are copied, as real messages are.

    Raises:
        CipherblasError: that of the first rank that failed; others as `work` raises them.
    """
    shared = _Shared(size)
    results: list[Result | None] = [None] * size
    errors: dict[int, BaseException] = {}

    def one(rank: int) -> None:
        communicator = InProcess(shared, rank, copies)
        try:
            results[rank] = work(communicator)
            shared.left.add(rank)
        except BaseException as error:
            communicator.failed(error)
            errors[rank] = error

    if size == 1:
        return [work(InProcess(shared, 0, copies))]
    threads = [threading.Thread(target=one, args=(rank,), name=f"rank {rank}") for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        own = [error for error in errors.values() if not isinstance(error, RankError)]
        raise (own or list(errors.values()))[0]
    return results  # type: ignore[return-value]
