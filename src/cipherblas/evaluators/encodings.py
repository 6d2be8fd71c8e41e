"""Encoded plaintexts: caches of masks, whose least recently used go, and stores of weights, which stay."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.errors import StorageError
from cipherblas.limits import available_memory

DEFAULT_BYTES = 512 << 20
SEGMENT_BYTES = 256 << 20  # of the file of a store of weights
PAGE_BYTES = 4096


class EncodeCache:
    """Arrays by key, at most `budget` bytes of them; safe in threads. Equal keys must stand for equal arrays."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.nbytes = 0
        self._lock = threading.Lock()
        self._arrays: OrderedDict[Hashable, NDArray[Any]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._arrays

    def get(self, key: Hashable, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The array of a key, made if it is not there."""
        with self._lock:
            found = self._arrays.get(key)
            if found is not None:
                self._arrays.move_to_end(key)
                return found
        made = make()
        with self._lock:
            if made.nbytes <= self.budget and key not in self._arrays:
                self._arrays[key] = made
                self.nbytes += made.nbytes
            while self.nbytes > self.budget:
                _, dropped = self._arrays.popitem(last=False)
                self.nbytes -= dropped.nbytes
        return made

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._arrays.clear()
            self.nbytes = 0


class Encodings:
    """What a server keeps from run to run: plaintexts as coefficients (8·N bytes each), and in NTT form.

    Args:
        budget: bytes of both together.
    """

    def __init__(self, budget: int = DEFAULT_BYTES) -> None:
        self.coefficients = EncodeCache(budget // 2)
        self.rows = EncodeCache(budget // 2)

    def clear(self) -> None:
        """Forget everything."""
        self.coefficients.clear()
        self.rows.clear()


class WeightStore:
    """Encoded weights of a program: in memory up to a budget, the rest in a file that is mapped into memory.

    The file has no name, so that it cannot be changed and goes with the process. What is read from it again and again
    streams through the page cache. Equal keys must stand for equal arrays; safe in threads.

    Args:
        budget: bytes in memory; by default half of what is available when the first weights come.
        folder: where the file goes; by default the system's folder for temporary files.
    """

    def __init__(self, budget: int | None = None, folder: str | Path | None = None) -> None:
        self.budget = budget
        self.folder = folder
        self.memory_bytes = 0
        self.file_bytes = 0
        self._arrays: dict[Hashable, NDArray[np.uint64]] = {}
        self._lock = threading.Lock()
        self._file: Any = None
        self._segment: mmap.mmap | None = None
        self._used = 0  # of the last segment

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._arrays

    def get(self, key: Hashable) -> NDArray[np.uint64] | None:
        """The array of a key, or None."""
        with self._lock:
            return self._arrays.get(key)

    def put(self, key: Hashable, array: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Keep an array; what is to be used from then on.

        Raises:
            StorageError: the file cannot be written.
        """
        with self._lock:
            if key not in self._arrays:
                if self.budget is None:
                    self.budget = (available_memory() or 8 << 30) // 2
                if self.memory_bytes + array.nbytes <= self.budget:
                    self.memory_bytes += array.nbytes
                else:
                    array = self._written(array)
                self._arrays[key] = array
            return self._arrays[key]

    def _written(self, array: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """A copy in the file."""
        room = -(-array.nbytes // PAGE_BYTES) * PAGE_BYTES
        try:
            if self._segment is None or self._used + room > len(self._segment):
                self._segment, self._used = self._next_segment(max(SEGMENT_BYTES, room)), 0
        except OSError as error:
            raise StorageError(
                "encoded weights beyond the memory budget go into a temporary file",
                expected=f"{array.nbytes} bytes of disk",
                got=str(error),
            ) from error
        start, self._used = self._used, self._used + room
        copy = np.frombuffer(self._segment, dtype=np.uint64, count=array.size, offset=start).reshape(
            array.shape
        )
        copy[...] = array
        copy.flags.writeable = False
        self.file_bytes += array.nbytes
        return copy

    def _next_segment(self, length: int) -> mmap.mmap:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self.folder, prefix="cipherblas-weights-")  # noqa: SIM115
        start = self._file.seek(0, 2)
        _reserve(self._file.fileno(), start, length)
        return mmap.mmap(self._file.fileno(), length, offset=start)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._arrays.clear()
            self._segment, self._used = None, 0
            self.memory_bytes = self.file_bytes = 0
            if self._file is not None:
                self._file.close()
                self._file = None


def _reserve(descriptor: int, start: int, length: int) -> None:
    """Lengthen a file by blocks that are there: writing to a mapped hole on a full disk would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, start, length)
    else:
        os.ftruncate(descriptor, start + length)
