"""Aligned memory, room in files, a check of what the process may use at all, threads for work without the GIL."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import cipherblas._core as _core
from cipherblas.common.errors import MemoryBudgetError, StorageError, capitalized

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register

MAX_BYTES = 1 << 62  # beyond any machine

FEW_BYTES = 1 << 20  # which one thread has hashed or copied before others have started

MAX_EVICTED = 64  # parts of mapped files that left memory: more than one call reads

Array = np.ndarray[Any, np.dtype[Any]]
Item = TypeVar("Item")
Result = TypeVar("Result")


def aligned_empty(shape: Sequence[int], dtype: Any = np.uint64) -> Array:
    """Return an uninitialised C-contiguous array from the pool of the core; its data start at a multiple of 64 bytes.

    So what the interpreter and the core hold is reused by either, and the peak of both together is what is alive.

    Raises:
        MemoryBudgetError: the system does not give that much memory.
    """
    dtype = np.dtype(dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    if not 0 <= nbytes < MAX_BYTES:
        raise MemoryBudgetError(
            "No machine has so much memory.",
            expected=f"below {MAX_BYTES} bytes",
            got=nbytes,
            advice="smaller shapes",
        )
    try:
        block: Array = _core.empty(nbytes)
    except MemoryError as error:
        raise MemoryBudgetError(
            "The machine is out of memory.",
            expected=f"{nbytes} bytes free",
            got=str(error),
            advice=more_memory(nbytes),
        ) from error
    aligned: Array = block.view(dtype).reshape(tuple(shape))
    return aligned


def aligned(array: Array) -> Array:
    """The array itself where it is C-contiguous and its data start at a multiple of 64 bytes, else a copy that is."""
    if array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0:
        return array
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def stacked(parts: Sequence[Array]) -> Array:
    """`np.stack(parts)`, at least one; no copy where they lie one after the other in one block."""
    first = parts[0]
    start, size = first.ctypes.data, first.nbytes
    in_order = first.base is not None and all(
        part.base is first.base
        and (part.shape, part.dtype) == (first.shape, first.dtype)
        and part.flags.c_contiguous
        and part.ctypes.data == start + number * size
        for number, part in enumerate(parts)
    )
    if not in_order:
        return np.stack(parts)
    return np.lib.stride_tricks.as_strided(first, (len(parts), *first.shape), (size, *first.strides))


def reserve(descriptor: int, start: int, length: int) -> None:
    """Lengthen a file by blocks that are there: writing to a mapped hole on a full disk would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, start, length)
    else:
        os.ftruncate(descriptor, start + length)


def mapped_file(
    nbytes: int, what: str, folder: str | Path | None = None, argument: str = "folder"
) -> mmap.mmap:
    """Room in a temporary file that goes with it: what was not used for long leaves memory.

    Args:
        what: goes there, in the plural.
        folder: of the file; by default the system's folder for temporary files.
        argument: what the user calls the folder.

    Raises:
        StorageError: the file cannot be made, or the disk is full.
    """
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="cipherblas-") as file:  # the mapping keeps it
            reserve(file.fileno(), 0, nbytes)
            return mmap.mmap(file.fileno(), nbytes)
    except OSError as error:
        raise StorageError(
            f"{what} that memory does not hold cannot go into a temporary file.",
            expected=f"{nbytes} bytes of disk",
            got=str(error),
            errno=error.errno,
            advice=[
                f"{argument}=… that there is, on a disk with {mebibytes(nbytes)} free",
                *(
                    []
                    if folder
                    else [f"TMPDIR=… with such a folder in the environment, where {argument}= is not given"]
                ),
            ],
        ) from error


class ResidentParts:
    """The parts of mapped files that stay in the memory of the process: those used last, up to a budget.

    The system keeps the others in its cache of files as far as there is room. Not safe in threads by itself.

    Args:
        budget: bytes of parts that stay; the one used last stays anyway.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.nbytes = 0
        self._used: OrderedDict[Hashable, tuple[mmap.mmap, int, int]] = OrderedDict()  # longest ago first
        # Parts that left: a call that took several may have read some of them again since.
        self._left: deque[tuple[Hashable, tuple[mmap.mmap, int, int]]] = deque(maxlen=MAX_EVICTED)

    def use(self, key: Hashable, mapped: mmap.mmap, start: int, nbytes: int) -> None:
        """A part is read next; others leave memory, used longest ago first, where they would be too many bytes."""
        if self._used.pop(key, None) is not None:
            self.nbytes -= nbytes
        while self._used and self.nbytes + nbytes > self.budget:
            left = self._used.popitem(last=False)
            self.nbytes -= left[1][2]
            self._left.append(left)
        self._used[key] = mapped, start, nbytes
        self.nbytes += nbytes
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        for other, (file, begin, length) in self._left:
            if other not in self._used:
                file.madvise(mmap.MADV_DONTNEED, begin, pages(length))  # of a file: what was written stays


def pages(nbytes: int) -> int:
    """Rounded up to pages."""
    return -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE


def mebibytes(nbytes: int) -> str:
    """Bytes for people, rounded up."""
    return f"{-(-nbytes // 2**20)} MiB"


def more_memory(nbytes: int) -> str:
    """Advice where so many bytes were not there."""
    return f"the same where {mebibytes(nbytes)} are free: on this machine, or on another one"


def bytes_of(array: Array) -> memoryview:
    """The bytes of a C-contiguous array, writable when the array is."""
    flat: Array = array.reshape(-1).view(np.uint8)
    return flat.data


def in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], nbytes: int = MAX_BYTES
) -> list[Result]:
    """Return `[work(item) for item in items]`, computed in as many threads as the core has. The first error is raised,
    others are dropped.

    Args:
        work: what is done with one item.
        items: those it is done with.
        nbytes: of all items together; few are treated in this thread.
    """
    workers = min(len(items), _core.threads()) if nbytes > FEW_BYTES else 1
    if workers <= 1:
        return [work(item) for item in items]
    waiting = iter(range(len(items)))  # whose next number one thread gets
    results: list[Any] = [None] * len(items)
    failed: dict[int, BaseException] = {}

    def stop() -> None:
        """Nobody begins another item."""
        for _ in waiting:
            pass

    def some() -> None:
        for number in waiting:
            try:
                results[number] = work(items[number])
            except BaseException as error:
                failed[number] = error
                stop()

    from concurrent.futures import ThreadPoolExecutor  # which imports much, for few calls

    with ThreadPoolExecutor(workers) as pool:
        try:
            for future in [pool.submit(some) for _ in range(workers)]:
                future.result()
        except BaseException:  # an interruption
            stop()
            raise
    if failed:
        raise failed[min(failed)]
    return results


def check_memory(nbytes: int, purpose: str) -> None:
    """Raise MemoryBudgetError if `nbytes` exceed the memory of this machine, or a limit on this process."""
    total = _core.total_memory()
    if total is not None and nbytes > total:
        raise MemoryBudgetError(
            f"{capitalized(purpose)} needs more memory than there is.",
            expected=f"at most {total} bytes",
            got=nbytes,
            advice=more_memory(nbytes),
        )
