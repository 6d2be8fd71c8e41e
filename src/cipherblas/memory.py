"""Aligned memory, a check against the machine's size, and threads for work that releases the GIL."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from cipherblas.errors import MemoryBudgetError

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register

Array = np.ndarray[Any, np.dtype[Any]]
Item = TypeVar("Item")
Result = TypeVar("Result")


def aligned_empty(shape: Sequence[int], dtype: Any = np.uint64) -> Array:
    """An uninitialised C-contiguous array whose data start at a multiple of 64 bytes.

    Raises:
        MemoryBudgetError: the system does not give that much memory.
    """
    dtype = np.dtype(dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    try:
        block = np.empty(nbytes + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError, OverflowError) as error:
        raise MemoryBudgetError("out of memory", expected=f"{nbytes} bytes free", got=str(error)) from error
    start = -block.ctypes.data % ALIGNMENT
    aligned: Array = block[start : start + nbytes].view(dtype).reshape(tuple(shape))
    return aligned


def bytes_of(array: Array) -> memoryview:
    """The bytes of a C-contiguous array, writable when the array is."""
    flat: Array = array.reshape(-1).view(np.uint8)
    return flat.data


def threads() -> int:
    """Threads to use: what the arithmetic core was set to, else CIPHERBLAS_THREADS, else all processors."""
    core = sys.modules.get("cipherblas._core")
    if core is not None:
        return max(1, int(core.threads()))
    wanted = os.environ.get("CIPHERBLAS_THREADS", "")
    return int(wanted) if wanted.isdigit() and int(wanted) > 0 else len(os.sched_getaffinity(0))


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """`[work(item) for item in items]`, in threads; the first error is raised and the rest is dropped."""
    workers = min(len(items), threads())
    if workers <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def check_memory(nbytes: int, purpose: str) -> None:
    """Raise MemoryBudgetError when `nbytes` exceed the memory of this machine."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if nbytes > physical:
        raise MemoryBudgetError(
            f"{purpose} needs more memory than there is", expected=f"at most {physical} bytes", got=nbytes
        )
