"""Evaluation keys beyond a memory budget: in a file that is mapped into memory, and read from it where they are used.

The file has no name, so that nobody can change or shorten it, and goes with the process. Keys that were not used for
longest leave the process's memory again; the system keeps them in its cache of files as far as there is room.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict, deque
from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np

from cipherblas.common.memory import Array, mapped_file

WORD_BYTES = 8
MOST_LEFT = 64  # more than one call reads


class KeyStream:
    """Room for keys in a mapped file; not safe in threads by itself.

    Args:
        memory: bytes of keys that may stay in the memory of the process.
        room: bytes of all keys, each rounded up to pages.
        folder: of the file; by default the system's folder for temporary files.

    Raises:
        StorageError: the file cannot be made, or the disk is full.
    """

    def __init__(self, memory: int, room: int, folder: str | Path | None = None) -> None:
        self.memory = memory
        self._next = 0
        self._places: dict[int, tuple[int, int]] = {}  # number of a key → where it is, and its bytes
        self._used: OrderedDict[int, int] = (
            OrderedDict()
        )  # bytes of what is in memory, used longest ago first
        self._resident = 0
        # Others that left: a call that took several keys may have read some of them again since.
        self._left: deque[int] = deque(maxlen=MOST_LEFT)
        self._map = mapped_file(room, "Evaluation keys", folder)

    @property
    def resident_bytes(self) -> int:
        """Of the keys that were used last, and have not left memory."""
        return self._resident

    def room(self, number: int) -> Callable[[tuple[int, ...]], Array]:
        """What gives a key its place, of a shape, to be written once."""

        def place(shape: tuple[int, ...]) -> Array:
            start, nbytes = self._next, WORD_BYTES * prod(shape)
            self._places[number] = start, nbytes
            self._next += pages(nbytes)
            self.use(number)
            return np.frombuffer(self._map, np.uint64, prod(shape), start).reshape(shape)

        return place

    def use(self, number: int) -> None:
        """A key is read next; others leave memory, used longest ago first, where they would be too many bytes."""
        nbytes = self._used.pop(number, 0)
        self._resident -= nbytes
        nbytes = nbytes or self._places[number][1]
        while self._used and self._resident + nbytes > self.memory:
            other, taken = self._used.popitem(last=False)
            self._resident -= taken
            self._left.append(other)
        self._used[number] = nbytes
        self._resident += nbytes
        for other in self._left:
            start, taken = self._places[other]
            if other not in self._used and hasattr(
                mmap, "MADV_DONTNEED"
            ):  # of a file: what was written stays
                self._map.madvise(mmap.MADV_DONTNEED, start, pages(taken))


def pages(nbytes: int) -> int:
    """Rounded up to pages."""
    return -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
