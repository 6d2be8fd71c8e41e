"""What calls of an engine take and give: arrays of the host, and handles that only the engine looks into."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]
Signed: TypeAlias = NDArray[np.int64]

# Handles. Those of plaintexts have an attribute `nbytes`: there are budgets of what is kept.
Ciphertext: TypeAlias = Any
Matrix: TypeAlias = Any
Key: TypeAlias = Any
Message: TypeAlias = Any  # the coefficients of a plaintext
Addend: TypeAlias = Any  # a plaintext that is added
Factor: TypeAlias = Any  # a plaintext that is multiplied by

# One term of a linear transform: output, source, Galois element, number of its key (-1: none, for the element 1), and
# number of its plaintext (-1: none, for a factor of 1).
Term: TypeAlias = tuple[int, int, int, int, int]


def largest(integers: Any) -> float:
    """The largest absolute value of integers, or of what stands for them."""
    known: float | None = getattr(integers, "largest", None)
    if known is None:
        known = float(max(integers.max(), -integers.min())) if integers.size else 0.0
    return known
