"""Who multiplies which blocks of a product, and who finishes which blocks of its result: by a grid of ranks, or by
diagonals of blocks.

A rank adds up its own block products; the ranks that have sums of the same blocks then add up theirs, each some of the
blocks, so that no rank has all of that to do.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.ranks import Distribution, grid_of

Place = tuple[int, int]  # of a block of the result
Product = tuple[int, int, int]  # row, column and inner index of a block product


def share(length: int, parts: int, index: int) -> range:
    """The blocks of a part: neighbours, the first parts having one more where they do not divide."""
    size, more = divmod(length, parts)
    start = index * size + min(index, more)
    return range(start, start + size + (index < more))


@dataclass(frozen=True)
class Cut(ABC):
    """A product that is cut for ranks; ranks beyond those of the grid have nothing to multiply.

    Attributes:
        blocks, grid: numbers of blocks, and of ranks, along rows, columns and inner dimension.
    """

    blocks: Cuboid
    grid: Cuboid

    @abstractmethod
    def products(self, rank: int) -> Iterator[Product]:
        """The block products of a rank, one inner index after the other."""

    @abstractmethod
    def results(self, rank: int) -> list[Place]:
        """The blocks of the result that a rank has sums of."""

    @abstractmethod
    def adding(self, rank: int) -> list[int]:
        """The ranks that have sums of the same blocks, this one among them."""

    def finished(self, rank: int) -> list[Place]:
        """The blocks of the result that a rank gets whole, and finishes."""
        if rank >= self.grid.volume:
            return []
        group, places = self.adding(rank), self.results(rank)
        own = share(len(places), len(group), group.index(rank))
        return places[own.start : own.stop]


class GridCut(Cut):
    """Rank (i, j, t) of a grid has some rows, columns and inner blocks."""

    def place(self, rank: int) -> tuple[int, int, int]:
        """Indices of a rank in the grid."""
        _, n, k = self.grid
        return rank // (n * k), rank // k % n, rank % k

    def number(self, i: int, j: int, t: int) -> int:
        """The rank of these indices."""
        return (i * self.grid.n + j) * self.grid.k + t

    def own(self, rank: int) -> tuple[range, range, range]:
        """Rows, columns and inner blocks of a rank."""
        rows, columns, inner = (
            share(length, parts, index)
            for length, parts, index in zip(self.blocks, self.grid, self.place(rank), strict=True)
        )
        return rows, columns, inner

    def products(self, rank: int) -> Iterator[Product]:
        rows, columns, inner = self.own(rank)
        return ((i, j, t) for t in inner for i in rows for j in columns)

    def results(self, rank: int) -> list[Place]:
        rows, columns, _ = self.own(rank)
        return list(itertools.product(rows, columns))

    def adding(self, rank: int) -> list[int]:
        i, j, _ = self.place(rank)
        return [self.number(i, j, t) for t in range(self.grid.k)]

    def along(self, rank: int, axis: int) -> list[int]:
        """The ranks that differ from one along an axis alone: they hold the same blocks of an operand."""
        place = self.place(rank)
        return [
            self.number(*(index if a == axis else own for a, own in enumerate(place)))
            for index in range(self.grid[axis])
        ]


class DiagonalCut(Cut):
    """A rank has some diagonals of a square grid of blocks, of the operand or the result that has one.

    Diagonal d of g × g blocks are the blocks (i, i + d modulo g). Of a left operand of g × g blocks, and one column of
    blocks on the right, each diagonal takes all blocks of the right operand and adds to all of the result; so does one
    of a right operand beside a row of blocks. Of a column times a row, each diagonal of the result takes all blocks of
    both, and nothing is added up.

    Source: Huang, Hong, Weng, Lu, Qu (TDSC 2023), as FHE4DMM has it in Section IV-A and Fig. 4(b).
    """

    @property
    def count(self) -> int:
        """Diagonals, g."""
        return max(self.blocks)

    def products(self, rank: int) -> Iterator[Product]:
        count = self.count
        for d in share(count, self.grid.volume, rank):
            for i in range(count):
                other = (i + d) % count
                if self.blocks.n == 1:
                    yield i, 0, other
                elif self.blocks.m == 1:
                    yield 0, other, i
                else:
                    yield i, other, 0

    def results(self, rank: int) -> list[Place]:
        if self.grid.m > 1:  # a column times a row
            return [(i, j) for i, j, _ in self.products(rank)]
        return list(itertools.product(range(self.blocks.m), range(self.blocks.n)))

    def adding(self, rank: int) -> list[int]:
        return [rank] if self.grid.k == 1 else list(range(self.grid.k))


def cut_of(blocks: Cuboid, ranks: int, steps: int, distribution: Distribution) -> GridCut | DiagonalCut:
    """How a product is cut for at most so many ranks.

    Args:
        blocks: their numbers along rows, columns and inner dimension.
        steps: R, see `cgemm.steps_of`.

    Raises:
        ParameterError: T3D has too few ranks, TDSC other blocks than it can take, or there is no such way to share.
    """
    grid = grid_of(blocks, ranks, steps, distribution)
    return (DiagonalCut if distribution == "tdsc" else GridCut)(blocks, grid)
