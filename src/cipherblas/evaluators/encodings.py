"""Encoded plaintexts: caches of masks, whose least recently used go, and stores of weights, which stay."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.errors import StorageError
from cipherblas.limits import available_memory

DEFAULT_BYTES = 512 << 20
SEGMENT_BYTES = 256 << 20  # of the file of a store of weights
PAGE_BYTES = 4096


def default_weight_budget() -> int:
    """Bytes of memory for encoded weights where nobody said: half of what is available."""
    return (available_memory() or 8 << 30) // 2


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

    Both grow by segments; those in memory ask for huge pages. The file has no name, so that it cannot be changed and
    goes with the process; what is read from it again and again streams through the page cache. Equal keys must stand
    for equal arrays; safe in threads.

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
        self._segments: dict[bool, mmap.mmap] = {}  # the last one in memory (True) and in the file
        self._used = {True: 0, False: 0}

    def __len__(self) -> int:
        return len(self._arrays)

    def get(self, key: Hashable) -> NDArray[np.uint64] | None:
        """The array of a key, or None."""
        with self._lock:
            return self._arrays.get(key)

    def put(self, key: Hashable, array: NDArray[np.uint64]) -> None:
        """Keep an array that `allocate` gave and that was filled."""
        with self._lock:
            array.flags.writeable = False
            self._arrays[key] = array

    def allocate(self, shape: Sequence[int]) -> NDArray[np.uint64]:
        """Room for an array, aligned to pages.

        Raises:
            StorageError: the file cannot be made or lengthened.
        """
        nbytes = 8 * math.prod(shape)
        room = -(-nbytes // PAGE_BYTES) * PAGE_BYTES
        with self._lock:
            if self.budget is None:
                self.budget = default_weight_budget()
            in_memory = self.memory_bytes + room <= self.budget
            segment = self._segments.get(in_memory)
            if segment is None or self._used[in_memory] + room > len(segment):
                segment = self._next_segment(max(SEGMENT_BYTES, room), in_memory)
                self._segments[in_memory], self._used[in_memory] = segment, 0
            start = self._used[in_memory]
            self._used[in_memory] += room
            if in_memory:
                self.memory_bytes += room
            else:
                self.file_bytes += room
        flat = np.frombuffer(segment, dtype=np.uint64, count=math.prod(shape), offset=start)
        return flat.reshape(tuple(shape))

    def _next_segment(self, length: int, in_memory: bool) -> mmap.mmap:
        if in_memory:
            segment = mmap.mmap(-1, length)
            if hasattr(mmap, "MADV_HUGEPAGE"):
                segment.madvise(mmap.MADV_HUGEPAGE)
            return segment
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self.folder, prefix="cipherblas-weights-")  # noqa: SIM115
            start = self._file.seek(0, 2)
            _reserve(self._file.fileno(), start, length)
            return mmap.mmap(self._file.fileno(), length, offset=start)
        except OSError as error:
            raise StorageError(
                "encoded weights beyond the memory budget go into a temporary file",
                expected=f"{length} bytes of disk",
                got=str(error),
                errno=error.errno,
            ) from error

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._arrays.clear()
            self._segments.clear()
            self._used = {True: 0, False: 0}
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
