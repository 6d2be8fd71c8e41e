"""Matrices larger than a ciphertext: a grid of equal blocks, zero-padded at the far edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ShapeError


def grid_shape(rows: int, cols: int, block_rows: int, block_cols: int) -> tuple[int, int]:
    """Return the numbers of block rows and of block columns."""
    if min(rows, cols, block_rows, block_cols) < 1:
        raise ShapeError(
            "A grid of blocks needs positive sizes.",
            expected="positive sizes",
            got=f"{rows}×{cols} in {block_rows}×{block_cols}",
        )
    return -(-rows // block_rows), -(-cols // block_cols)


def split(matrix: NDArray[Any], block_rows: int, block_cols: int) -> list[list[NDArray[np.float64]]]:
    """Return the blocks of a matrix, row by row. Each block is block_rows × block_cols."""
    if matrix.ndim != 2:
        raise ShapeError("A matrix must have 2 dimensions.", expected="2 dimensions", got=matrix.ndim)
    rows, cols = matrix.shape
    grid_rows, grid_cols = grid_shape(rows, cols, block_rows, block_cols)
    padded = np.zeros((grid_rows * block_rows, grid_cols * block_cols))
    padded[:rows, :cols] = matrix
    return [
        [
            padded[i * block_rows : (i + 1) * block_rows, j * block_cols : (j + 1) * block_cols]
            for j in range(grid_cols)
        ]
        for i in range(grid_rows)
    ]


def join(blocks: Sequence[Sequence[NDArray[Any]]], rows: int, cols: int) -> NDArray[np.float64]:
    """The inverse of `split`: the first rows × cols of the assembled blocks."""
    assembled = np.block([list(row) for row in blocks])
    if assembled.shape[0] < rows or assembled.shape[1] < cols:
        raise ShapeError(
            "The blocks to join do not cover the matrix.",
            expected=f"at least {rows}×{cols}",
            got=assembled.shape,
        )
    return np.asarray(assembled[:rows, :cols], dtype=np.float64)


def block_of(matrix: NDArray[Any], block_rows: int, block_cols: int, row: int, col: int) -> NDArray[Any]:
    """Block (row, col) of the grid, a view; at the far edges what is there of it."""
    return matrix[row * block_rows : (row + 1) * block_rows, col * block_cols : (col + 1) * block_cols]
