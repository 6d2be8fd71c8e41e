"""Evaluation keys beyond a memory budget: in a file that is mapped into memory, and read from it where they are used.

The file has no name, so that nobody can change or shorten it, and goes with the process. Keys that were not used for
longest leave the process's memory again; the system keeps them in its cache of files as far as there is room.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import numpy as np

from cipherblas.common.memory import Array, ResidentParts, mapped_file, pages
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.keys.key_id import KeyId


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
        self._next = 0
        self._places: dict[KeyId, tuple[int, int]] = {}  # key → where it is, and its bytes
        self._resident = ResidentParts(memory)
        self._map = mapped_file(room, "Evaluation keys", folder)

    @property
    def memory(self) -> int:
        """Bytes of keys that may stay in the memory of the process."""
        return self._resident.budget

    @property
    def resident_bytes(self) -> int:
        """Of the keys that were used last, and have not left memory."""
        return self._resident.nbytes

    def room(self, key: KeyId) -> Callable[[tuple[int, ...]], Array]:
        """A function that gives a key its memory, of a shape, to be written once."""

        def place(shape: tuple[int, ...]) -> Array:
            start, nbytes = self._next, WORD_BYTES * prod(shape)
            self._places[key] = start, nbytes
            self._next += pages(nbytes)
            self.use(key)
            return np.frombuffer(self._map, np.uint64, prod(shape), start).reshape(shape)

        return place

    def use(self, key: KeyId) -> None:
        """A key is read next; others leave memory, used longest ago first, where they would be too many bytes."""
        self._resident.use(key, self._map, *self._places[key])
