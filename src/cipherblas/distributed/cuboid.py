"""Three numbers that belong to a product: along its rows, its columns and its inner dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cipherblas.common.errors import ShapeError


class Cuboid(NamedTuple):
    """Three lengths m, k, n: of a product of an m × k and a k × n matrix, of its blocks along each dimension, or of a
    grid of ranks.

    The order is that of the paper (FHE4DMM, Table I): rows, columns, inner dimension.
    """

    m: int
    n: int
    k: int

    @property
    def volume(self) -> int:
        """Products of entries, products of blocks, or ranks."""
        return self.m * self.n * self.k

    def parts(self, blocks: Cuboid) -> Cuboid:
        """Lengths when it is cut into so many parts along each dimension, rounded up."""
        m, n, k = (-(-length // count) for length, count in zip(self, blocks, strict=True))
        return Cuboid(m, n, k)


def checked(values: Sequence[int], what: str) -> Cuboid:
    """Return the three values as a cuboid, after a check.

    Raises:
        ShapeError: one is no positive integer.
    """
    if len(values) != 3 or any(type(value) is not int or value < 1 for value in values):
        raise ShapeError(
            f"The {what} must be three positive integers.", expected="(m, n, k)", got=tuple(values)
        )
    return Cuboid(*values)
