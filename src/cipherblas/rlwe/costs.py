"""What operations on matrices that are encrypted by rows cost, as counts for the planner.

Beside arithmetic it is memory that takes time: residues become float64 numbers or packed tiles and back, a
transposition walks over all N rows of N entries many times, however few of them hold a matrix, and the system hands
out large blocks page by page.
"""

from __future__ import annotations

from cipherblas.crypto.params import key_words
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import Ring

WORD_BYTES = 8
MAPPED_BYTES = 32 << 20  # the C library maps larger blocks anew each time; smaller ones are there already
PASS_LAYERS = 4  # of a transform of rows: as many layers as stay in the cache, see cpp/ring/row_transform.cpp

# Working memory, of what the core converts at a time: see cpp/gemm/float_gemm.cpp (digits of both operands as float64,
# five at most, and a tile per thread) and cpp/gemm/blocked.cpp (packed operands, 65 MiB at most).
DIGIT_ROWS = DIGIT_DEPTH = 4096
DIGIT_COLS, MOST_DIGITS = 2048, 3
PACKED_BYTES, PACKED_DEPTH = 65 << 20, 1024
CLEAR_COPIES = 6  # of a clear matrix that is added: float64 and signed numbers on their way to residues


def gemm_bytes(m: int, k: int, width: int) -> int:
    """Working memory of an m × k by k × width product modulo q, whichever path the core takes."""
    rows, depth, cols = min(m, DIGIT_ROWS), min(k, DIGIT_DEPTH), min(width, DIGIT_COLS)
    digits = (MOST_DIGITS * rows + 2 * cols) * (depth + 8)  # lines are padded
    tiles = rows * cols  # a tile for every thread, but no more tiles than these
    packed = min(PACKED_BYTES, min(k, PACKED_DEPTH) * (m + width) * WORD_BYTES)
    return max((digits + tiles) * WORD_BYTES, packed)


def clear_gemm_bytes(m: int, k: int, width: int) -> int:
    """The same for clear integers, with them and the values that they are rounded from."""
    return gemm_bytes(m, k, width) + 2 * m * k * WORD_BYTES


def spread_bytes(shape: tuple[int, int], n: int, limbs: int) -> int:
    """Copies of rows and columns at their coefficients of N × N, which a transposition reads: see
    `rlwe.matrices.transposition.spread`."""
    rows, cols = shape
    parts = (n if rows < n else 0, n if cols < n or rows < n else 0, cols if rows < n and cols < n else 0)
    return limbs * n * sum(parts) * WORD_BYTES


class RowCosts:
    """Adds the cost of operations to `counts`; shapes are rows × columns of an encryption."""

    def __init__(self, params: Ring, counts: Counts) -> None:
        self._counts = counts
        self._n = params.n
        self._key_words = key_words(params.n, (*params.q, *params.p))
        self._special, self._alpha = len(params.p), params.alpha

    def clear_gemm(self, m: int, k: int, width: int, limbs: int, passes: int) -> None:
        """An m × k matrix of integers times `width` columns of residues, by so many float64 GEMMs of all limbs."""
        counts = self._counts
        counts.float_macs += passes * m * k * width
        counts.float_inputs += passes * k * (m + width)
        counts.float_outputs += passes * m * width
        self._write(limbs * m * width)

    def secret_gemm(self, m: int, k: int, width: int, limbs: int) -> None:
        """An m × k matrix of residues times `width` columns of residues, exactly."""
        counts = self._counts
        counts.modular_macs += limbs * m * k * width
        counts.modular_inputs += limbs * k * (m + width)
        counts.modular_outputs += limbs * m * width
        self._write(limbs * m * width)

    def switches(self, rows: int, limbs: int, keys: int) -> None:
        """Switches of so many rows; each of the keys is read from memory once, and then from the caches."""
        counts, digits, extended = self._counts, -(-limbs // self._alpha), limbs + self._special
        counts.row_switches += rows
        counts.ntt_limbs += rows * (digits * extended + 2 * extended)
        counts.mac_limbs += rows * (2 * digits * extended + 2 * self._special * limbs)
        counts.key_bytes_read += keys * digits * 2 * extended * self._key_words * WORD_BYTES

    def transposition(self, shape: tuple[int, int], limbs: int, switches: int, keys: int) -> None:
        """C-MT: rows and columns that are missing are filled up with zeros; then two transforms and the switches
        between them, each of which reads and writes all rows."""
        self.switches(switches, limbs, keys)
        counts, n, (rows, cols) = self._counts, self._n, shape
        counts.transposes += 1
        if rows < n:
            self._write(limbs * n * n)
            self._write(limbs * n * cols)
        if cols < n:
            self._write(limbs * n * n)
        passes = 2 * -(-(n.bit_length() - 1) // PASS_LAYERS) + 1
        counts.moved_bytes += passes * 2 * limbs * 2 * n * n * WORD_BYTES

    def copy(self, shape: tuple[int, int], limbs: int) -> None:
        """Rows that are read and written elsewhere."""
        rows, cols = shape
        self._counts.moved_bytes += limbs * rows * (self._n + cols) * WORD_BYTES
        self._write(limbs * rows * self._n)
        self._write(limbs * rows * cols)

    def addition(self, shape: tuple[int, int], limbs: int) -> None:
        """A sum of two encryptions."""
        self._counts.adds += 1
        self._counts.moved_bytes += 3 * limbs * shape[0] * (self._n + shape[1]) * WORD_BYTES

    def _write(self, words: int) -> None:
        """A new array that is written."""
        nbytes = words * WORD_BYTES
        if nbytes >= MAPPED_BYTES:
            self._counts.fresh_bytes += nbytes
        else:
            self._counts.moved_bytes += nbytes
