"""Checks that client and server share: the planned range of values, and the memory of the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from cipherblas._core import trim_pool
from cipherblas.errors import MemoryBudgetError, RangeError


def check_bound(name: str, matrix: NDArray[Any], bound: float) -> None:
    """Raise RangeError when an entry is beyond the planned range."""
    largest = max(float(matrix.max()), -float(matrix.min()))
    if largest > bound * (1 + 1e-12):
        raise RangeError(
            f"operand {name!r} has an entry beyond the planned range (declare bound=…)",
            expected=f"at most {bound:g} in absolute value",
            got=f"{largest:g}",
        )


def available_memory() -> int | None:
    """Bytes that a new allocation may use now without swapping; None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def check_available(needed: int, purpose: str, release: Callable[[], object] = lambda: None) -> None:
    """Raise MemoryBudgetError when more bytes are needed than are available.

    Where memory is short, `release` and the pool of the core first give back what is kept for later.
    """
    available = available_memory()
    if available is not None and needed > available:
        release()
        trim_pool()
        available = available_memory()
    if available is not None and needed > available:
        raise MemoryBudgetError(
            f"not enough memory for {purpose}",
            expected=f"{needed / 2**20:.0f} MiB",
            got=f"{available / 2**20:.0f} MiB available",
        )
