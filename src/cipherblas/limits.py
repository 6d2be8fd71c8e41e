"""Checks that client and server share: the planned range of values, and the memory of the machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cipherblas.errors import RangeError


def check_bound(name: str, matrix: NDArray[np.float64], bound: float) -> None:
    """Raise RangeError when an entry is beyond the planned range."""
    largest = float(np.max(np.abs(matrix)))
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
