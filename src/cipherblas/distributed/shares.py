"""Which rows, columns, classes and blocks of an encrypted matrix a rank has.

Rows lie in the ring of a transposition: row i of R at place i·N/d, d the least power of two that is at least R; of more
than N rows each N are laid out so. A transposition's transform begins with layers in which the places of one class
modulo N/parts meet, and ends with layers within the `parts` blocks of N/parts rows (cpp/ring/row_transform.h): so a
rank has neighbouring classes, and the rows in them, whatever matrix they are of. Between the two all ranks exchange
rows once. Key switches are shared by blocks; their automorphisms exchange the rows of some pairs of blocks, which one
rank has both.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import cipherblas._core as _core
from cipherblas.rlwe.matrices.matrix import stride_of

Indices = NDArray[np.int64]
MIN_PARTS = 16
PARTS_PER_RANK = 4  # so that no rank has many more blocks than another


@dataclass(frozen=True)
class Shares:
    """How `size` ranks divide the matrices of a ring of degree n.

    Attributes:
        n: ring degree.
        size: ranks.
    """

    n: int
    size: int

    @functools.cached_property
    def parts(self) -> int:
        """Blocks of the rows of a transposition."""
        wanted = max(MIN_PARTS, PARTS_PER_RANK << (self.size - 1).bit_length())
        return min(wanted, self.n // 2)

    @property
    def height(self) -> int:
        """Rows of a block, which is the number of classes."""
        return self.n // self.parts

    def classes(self, rank: int) -> tuple[int, int]:
        """The first class of a rank, and the first of the next one."""
        return self.height * rank // self.size, self.height * (rank + 1) // self.size

    @functools.cached_property
    def all_blocks(self) -> tuple[tuple[int, ...], ...]:
        """The blocks of each rank: with each its partner; as equal in number as pairs allow."""
        partners = _core.inverse_blocks(self.parts)
        together = {tuple(sorted({block, partners[block]})) for block in range(self.parts)}
        found: list[list[int]] = [[] for _ in range(self.size)]
        for blocks in sorted(together, key=lambda blocks: (-len(blocks), blocks)):
            min(found, key=len).extend(blocks)
        return tuple(tuple(sorted(blocks)) for blocks in found)

    def blocks(self, rank: int) -> tuple[int, ...]:
        """The blocks of a rank."""
        return self.all_blocks[rank]

    def rows(self, count: int, rank: int) -> Indices:
        """The rows of a rank, of a matrix of so many, in rising order."""
        found = []
        for start in range(0, count, self.n):
            height = min(self.n, count - start)
            found.append(start + self._rows_of_one(height, rank))
        return np.concatenate(found)

    def _rows_of_one(self, count: int, rank: int) -> Indices:
        first, last = self.classes(rank)
        rows = np.arange(count)
        classes = rows * stride_of(count, self.n) % self.height
        return rows[(first <= classes) & (classes < last)]

    def places(self, rows: Indices, count: int, rank: int) -> Indices:
        """Where a rank's rows, of at most N, stand among those of its classes, part after part."""
        first, last = self.classes(rank)
        places = rows * stride_of(count, self.n)
        return places // self.height * (last - first) + places % self.height - first

    def columns(self, count: int, rank: int) -> slice:
        """The columns of a rank, of so many: multiples of a cache line where that is possible."""

        def bound(rank: int) -> int:
            return count if rank == self.size else count * rank // self.size // 8 * 8

        return slice(bound(rank), bound(rank + 1))
