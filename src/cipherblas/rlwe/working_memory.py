"""What products of matrices hold while they run, beside their factors and their result."""

from __future__ import annotations

import cipherblas._core as _core
from cipherblas.common.words import WORD_BYTES

LINE_WORDS = 8  # that lines of converted entries are padded by
POLYNOMIAL_COPIES = 4  # of the coefficients of polynomials, on their way from a matrix to the core
CLEAR_COPIES = 6  # of a clear matrix that is added: float64 and signed numbers on their way to residues


def gemm_bytes(m: int, k: int, width: int) -> int:
    """Working memory of an m × k by k × width product modulo q, whichever path the core takes: digits of both operands
    as float64, the most of one and one fewer of the other, and a tile per thread; or packed operands."""
    rows, depth = min(m, _core.CONVERTED_ROWS), min(k, _core.CONVERTED_DEPTH)
    cols = min(width, _core.CONVERTED_COLS)
    digits = (_core.MOST_DIGITS * rows + (_core.MOST_DIGITS - 1) * cols) * (depth + LINE_WORDS)
    tiles = rows * cols  # a tile for every thread, but no more tiles than these
    packed = min(_core.PACKED_ROWS + _core.PACKED_COLS, m + width) * min(k, _core.PACKED_DEPTH)
    return max(digits + tiles, packed) * WORD_BYTES


def operand_gemm_bytes(m: int, k: int, width: int, moduli: int) -> int:
    """The same modulo so many moduli of operands: packed bytes."""
    lines = min(m, _core.OPERAND_ROWS) + min(width, _core.OPERAND_COLS) + 64  # of panels that are not full
    return moduli * lines * (min(k, _core.OPERAND_DEPTH) + 4)


def clear_gemm_bytes(m: int, k: int, width: int) -> int:
    """The same for clear integers, with them and the values that they are rounded from."""
    return gemm_bytes(m, k, width) + 2 * m * k * WORD_BYTES


def spread_bytes(shape: tuple[int, int], n: int, limbs: int) -> int:
    """Copies of rows and columns at their coefficients of N × N, which a transposition reads: see
    `rlwe.matrices.transposition.spread`."""
    rows, cols = shape
    parts = (n if rows < n else 0, n if cols < n or rows < n else 0, cols if rows < n and cols < n else 0)
    return limbs * n * sum(parts) * WORD_BYTES
