"""Encrypted rows in files: column after column, since one of several ranks needs some columns alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ShapeError
from cipherblas.common.memory import ALIGNMENT, aligned, aligned_empty

# Of columns that share a digest, as files have them: readers that do not read all count on it.
MIN_BYTES = 1 << 12
MAX_GROUPS = 1 << 11


def by_columns(rows: NDArray[Any]) -> NDArray[Any]:
    """A part, (limbs, rows, columns), as files have it: (columns, limbs, rows)."""
    return aligned(rows.transpose(2, 0, 1))


def by_rows(columns: NDArray[Any]) -> NDArray[Any]:
    """The same back; ShapeError for what has other dimensions."""
    if columns.ndim != 3:
        raise ShapeError("The columns have the wrong shape.", expected="three dimensions", got=columns.shape)
    count, limbs, rows = columns.shape
    found = aligned_empty((limbs, rows, count), columns.dtype)
    line = ALIGNMENT // columns.itemsize
    for start in range(0, count, line):
        found[:, :, start : start + line] = columns[start : start + line].transpose(1, 2, 0)
    return found


def columns_each(shape: tuple[int, ...]) -> int:
    """How many columns share a digest, of a tensor of such columns."""
    count, limbs, rows = shape
    column = limbs * rows * np.dtype(np.uint64).itemsize
    least = max(-(-MIN_BYTES // column), -(-count // MAX_GROUPS))
    return -(-count // -(-count // least))
