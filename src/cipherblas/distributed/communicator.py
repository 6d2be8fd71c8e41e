"""Messages between ranks: arrays of 64-bit words with a small header, counted, and what ranks do together with them.

Nothing is pickled: what travels are the words of ciphertexts, which are public, and headers of integers. Collectives
are made of messages from one rank to another, so that a rank which waits for one notices that another has failed.
"""

from __future__ import annotations

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import CipherblasError, MismatchError
from cipherblas.common.memory import aligned_empty, check_memory
from cipherblas.common.words import WORD_BYTES

Words: TypeAlias = NDArray[np.uint64]
PACKED_WORDS = 1 << 14  # smaller arrays of a message are copied into one buffer; larger ones go as they are
MARK = 0x6369706865724D31  # "cipherM1": first word of a header
_FIXED = 3  # words of a header before the shapes: mark, kind, number of arrays
_DIMENSIONS = 4
KINDS = (
    "words",
    "blocks",
    "rows",
    "columns",
    "classes",
    "lengths",
    "digest",
    "result",
    "sum",
    "times",
    "end",
)  # what a message may be


class RankError(CipherblasError):
    """Another rank has failed: this one cannot go on.

    Attributes:
        rank: which.
    """

    def __init__(self, rank: int, why: str) -> None:
        super().__init__(f"Rank {rank} failed: {why}")
        self.rank = rank


@dataclass
class Sent:
    """The traffic of a rank.

    Attributes:
        messages: headers apart.
        nbytes: of their words, headers apart.
        headers: each precedes one message, or several that hold large arrays.
    """

    messages: int = 0
    nbytes: int = 0
    headers: int = 0

    def __add__(self, other: Sent) -> Sent:
        return Sent(self.messages + other.messages, self.nbytes + other.nbytes, self.headers + other.headers)

    def __sub__(self, other: Sent) -> Sent:
        return Sent(self.messages - other.messages, self.nbytes - other.nbytes, self.headers - other.headers)


class Communicator(ABC):
    """One rank's end of the messages between `size` ranks.

    Subclasses move buffers: `_put` sends one without waiting, `_take` waits for one of known length, `_finish` waits
    until all that were put may be overwritten. Buffers from one rank to another arrive in order.

    Attributes:
        rank, size: of this rank, and of all.
        sent: what this rank has sent so far.
        seconds: in which it has sent, waited and received so far.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.sent = Sent()
        self.seconds = 0.0

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start

    @abstractmethod
    def _put(self, words: Words, to: int) -> None: ...

    @abstractmethod
    def _take(self, words: Words, source: int) -> None:
        """Fill `words` with the next buffer of a rank."""

    @abstractmethod
    def _take_header(self, source: int) -> Words:
        """The next buffer of a rank, of any length."""

    @abstractmethod
    def _finish(self) -> None: ...

    # ---- one rank to another ----

    def send(self, kind: str, arrays: Sequence[Words], to: int) -> None:
        """Send arrays; they may be changed once `finish` has returned."""
        shapes = [number for array in arrays for number in _shape_words(array.shape)]
        header = np.array([MARK, KINDS.index(kind), len(arrays), *shapes], np.uint64)
        with self._timed():
            self._put(header, to)
            self.sent.headers += 1
            small = [array.reshape(-1) for array in arrays if 0 < array.size < PACKED_WORDS]
            packed = small if len(small) < 2 else [self._packed(small)]
            for buffer in [*packed, *(array for array in arrays if array.size >= PACKED_WORDS)]:
                self._put(buffer.reshape(-1), to)
                self.sent.messages += 1
                self.sent.nbytes += buffer.size * WORD_BYTES

    def _packed(self, arrays: Sequence[Words]) -> Words:
        """Small arrays in one buffer."""
        room: Words = aligned_empty((sum(array.size for array in arrays),))
        return np.concatenate(arrays, out=room)

    def receive(self, kind: str, source: int, into: Sequence[Words] | None = None) -> list[Words]:
        """The traffic of a rank.

        Args:
            into: C-contiguous arrays that it is written to, large ones without a copy; by default new ones.

        Raises:
            MismatchError: it is another kind of message, or of other shapes: the ranks do not run the same program.
            MemoryBudgetError: it announces more than the memory of this machine holds.
            RankError: a rank has failed.
        """
        with self._timed():
            return self._received(kind, source, into)

    def _received(self, kind: str, source: int, into: Sequence[Words] | None) -> list[Words]:
        header = self._take_header(source)
        known = len(header) >= _FIXED and int(header[0]) == MARK and int(header[1]) < len(KINDS)
        got = KINDS[int(header[1])] if known else "no message of ours"
        if got != kind:
            raise MismatchError(
                f"Rank {source} sent another message than rank {self.rank} waits for.", expected=kind, got=got
            )
        shapes = _shapes_of(header)
        if shapes is None:
            raise MismatchError(
                f"Rank {source} sent a header that nobody can read.",
                expected=f"a length and {_DIMENSIONS} numbers for each array",
                got=f"{len(header)} words",
            )
        if into is not None and shapes != (wanted := [place.shape for place in into]):
            raise MismatchError(
                f"Rank {source} sent other arrays than rank {self.rank} waits for.",
                expected=wanted,
                got=shapes,
            )
        places = [None] * len(shapes) if into is None else into
        sizes = [math.prod(shape) for shape in shapes]
        small = sum(size for size in sizes if size < PACKED_WORDS)
        packed, start = self._taken((small,), source) if small else np.empty(0, np.uint64), 0
        arrays = []
        for shape, size, place in zip(shapes, sizes, places, strict=True):
            if size >= PACKED_WORDS:
                arrays.append(self._taken(shape, source, place))
            else:
                arrays.append(self._placed(packed[start : start + size].reshape(shape), place))
                start += size
        return arrays

    def _taken(self, shape: tuple[int, ...], source: int, place: Words | None = None) -> Words:
        """The next buffer of a rank, of known length, in an array of this shape."""
        if place is None:
            check_memory(math.prod(shape) * WORD_BYTES, f"What rank {source} sends")
        room: Words = aligned_empty(shape) if place is None else place
        assert room.flags.c_contiguous  # or what follows would be a copy
        self._take(room.reshape(-1), source)
        return room

    def _placed(self, words: Words, place: Words | None) -> Words:
        """A small array at its place."""
        if place is None:
            return words
        place[...] = words
        return place

    def receive_ahead(
        self, kind: str, sources: Sequence[int], into: Mapping[int, Sequence[Words]] | None = None
    ) -> Iterator[list[Words]]:
        """Yield the messages of ranks, in this order: one `receive` from each.

        Where it can, a thread of its own takes them while the caller computes: until it has got all of them, the caller
        must receive nothing else. Here, where that makes no difference, each is received when it is asked for.
        """
        into = into or {}
        return (self.receive(kind, source, into.get(source)) for source in sources)

    def finish(self) -> None:
        """Wait until all that was sent may be changed."""
        with self._timed():
            self._finish()

    # ---- all ranks together ----

    def exchange(
        self, kind: str, arrays: Mapping[int, Sequence[Words]], sources: Sequence[int]
    ) -> dict[int, list[Words]]:
        """Send arrays to some ranks, each its own, and receive from some.

        Args:
            arrays: rank → what it gets.
            sources: those that send something to this one.
        """
        self._send_all(kind, arrays)
        found = {source: self.receive(kind, source) for source in _in_turn(sources, self.rank, self.size)}
        self.finish()
        return found

    def begin_exchange(
        self, kind: str, arrays: Mapping[int, Sequence[Words]], into: Mapping[int, Sequence[Words]]
    ) -> Callable[[], None]:
        """The same, of which only the sending is done, and the receiving begun (`receive_ahead`).

        Args:
            arrays: rank → what it gets.
            into: rank → where the arrays go that it sends; see `receive`.

        Returns:
            What ends it: then all has come, and what was sent may be changed.
        """
        self._send_all(kind, arrays)
        coming = self.receive_ahead(kind, _in_turn(list(into), self.rank, self.size), into)

        def end() -> None:
            for _ in coming:
                pass
            self.finish()

        return end

    def _send_all(self, kind: str, arrays: Mapping[int, Sequence[Words]]) -> None:
        for step in range(1, self.size):  # so that not all write to one rank first
            to = (self.rank + step) % self.size
            if to in arrays:
                self.send(kind, arrays[to], to)

    def all_gather(
        self, kind: str, arrays: Sequence[Words], group: Sequence[int] | None = None
    ) -> list[list[Words]]:
        """The arrays of all ranks of a group, of any lengths, in the order of the group.

        Lengths are agreed upon first: each message has a header with its shapes.
        """
        group = range(self.size) if group is None else group
        others = [rank for rank in group if rank != self.rank]
        found = self.exchange(kind, dict.fromkeys(others, arrays), others)
        return [list(arrays) if rank == self.rank else found[rank] for rank in group]

    def gather(self, kind: str, arrays: Sequence[Words], to: int = 0) -> list[list[Words]] | None:
        """The arrays of all ranks, in their order, on one rank; None on the others."""
        if self.rank != to:
            self.exchange(kind, {to: arrays}, [])
            return None
        found = self.exchange(kind, {}, [rank for rank in range(self.size) if rank != to])
        return [list(arrays) if rank == to else found[rank] for rank in range(self.size)]

    def broadcast(
        self, kind: str, arrays: Sequence[Words] | None, root: int, group: Sequence[int] | None = None
    ) -> list[Words]:
        """Send the array of one rank of a group to all of them, along a binomial tree."""
        group = list(range(self.size) if group is None else group)
        start, count = group.index(root), len(group)
        place = (group.index(self.rank) - start) % count
        step = 1
        while step <= place:
            step *= 2
        if place:
            arrays = self.receive(kind, group[(start + place - step // 2) % count])
        assert arrays is not None
        while place + step < count:
            self.send(kind, arrays, group[(start + place + step) % count])
            step *= 2
        self.finish()
        return list(arrays)

    def reduce(
        self,
        kind: str,
        arrays: Sequence[Words],
        add: Callable[[Sequence[Words], Sequence[Words]], Sequence[Words]],
        root: int,
        group: Sequence[int] | None = None,
    ) -> list[Words] | None:
        """The sum of what all ranks of a group have, on one of them: a binary tree of `add`; None on the others.

        Sums of residues are not sums of words: `add` reduces modulo each prime.
        """
        group = list(range(self.size) if group is None else group)
        start, count = group.index(root), len(group)
        place, step = (group.index(self.rank) - start) % count, 1
        while step < count:
            if place % (2 * step):
                self.send(kind, arrays, group[(start + place - step) % count])
                self.finish()
                return None
            if place + step < count:
                arrays = add(arrays, self.receive(kind, group[(start + place + step) % count]))
            step *= 2
        return list(arrays)

    def barrier(self) -> None:
        """Wait for all."""
        self.all_gather("end", [])

    # ---- faults ----

    @abstractmethod
    def failed(self, error: BaseException) -> None:
        """Tell all others that this rank cannot go on."""


def _shape_words(shape: tuple[int, ...]) -> list[int]:
    return [len(shape), *shape, *[0] * (_DIMENSIONS - len(shape))]


def _shapes_of(header: Words) -> list[tuple[int, ...]] | None:
    """The shapes of all arrays that a header announces; None where it is not of that form."""
    count, rest = int(header[_FIXED - 1]), header[_FIXED:]
    if len(rest) != count * (1 + _DIMENSIONS):
        return None
    rows = rest.reshape(count, 1 + _DIMENSIONS)
    if (rows[:, 0] > _DIMENSIONS).any():
        return None
    return [tuple(int(length) for length in row[1 : 1 + int(row[0])]) for row in rows]


def _in_turn(ranks: Sequence[int], rank: int, size: int) -> list[int]:
    """In the order in which they send to this one."""
    return sorted(ranks, key=lambda other: (rank - other) % size)
