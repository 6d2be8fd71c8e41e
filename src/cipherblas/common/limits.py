"""The memory that there is, and what of it programs keep and stream."""

from __future__ import annotations

from collections.abc import Callable

import cipherblas._core as _core
from cipherblas.common.errors import MemoryBudgetError
from cipherblas.common.memory import more_memory

MASK_BYTES = 384 << 20  # of masks and constants that a program keeps
MAX_MASK_BYTES = 4 << 30  # of one that refreshes
USUAL_MEMORY = 8 << 30  # that is available, where the system does not say
RUN_BYTES = 128 << 20  # of clear operands, that one run keeps
# Of ciphertexts of an operand: so many are expanded when a run begins, and of more, which products may take one by one,
# so many of each side at a time.
KEPT_BYTES, STREAMING_BYTES = 128 << 20, 64 << 20


def available_memory() -> int | None:
    """Bytes that this process may take now without swapping; None where the system does not say.

    The least of what the machine has left and of what every control group above the process, and its own resource
    limits, leave it.
    """
    return _core.available_memory()


def usable(available: int | None) -> int:
    """Bytes that were found to be available, or a guess where the system does not say."""
    return available or USUAL_MEMORY


def weight_budget_of(available: int | None) -> int:
    """Bytes of memory for encoded weights where so many are available: half of them."""
    return usable(available) // 2


def default_weight_budget() -> int:
    """Bytes of memory for encoded weights where nobody said."""
    return weight_budget_of(available_memory())


def check_available(needed: int, purpose: str, release: Callable[[], object] = lambda: None) -> None:
    """Raise MemoryBudgetError when more bytes are needed than are available.

    Where memory is short, `release` and the pool of the core first give back what is kept for later.
    """
    available = available_memory()
    if available is not None and needed > available:
        release()
        _core.trim_pool()
        available = available_memory()
    if available is not None and needed > available:
        raise MemoryBudgetError(
            f"There is not enough memory for {purpose}.",
            expected=f"{needed / 2**20:.0f} MiB",
            got=f"{available / 2**20:.0f} MiB available",
            advice=more_memory(needed),
        )


def streaming_batch(nbytes: int) -> int:
    """How many ciphertexts of so many bytes are made for a product at a time."""
    return max(2, STREAMING_BYTES // nbytes)
