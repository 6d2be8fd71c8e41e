"""Homomorphic operations of one block product, and of all block products of a product."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cipherblas.distributed.cuboid import Cuboid, checked


@dataclass(frozen=True)
class Operations:
    """Homomorphic operations.

    Attributes:
        additions, plain_products, rotations, products: ADD, PMULT, ROT and MULT of the paper.
    """

    additions: float
    plain_products: float
    rotations: float
    products: float

    def __add__(self, other: Operations) -> Operations:
        return Operations(
            self.additions + other.additions,
            self.plain_products + other.plain_products,
            self.rotations + other.rotations,
            self.products + other.products,
        )

    def times(self, number: float) -> Operations:
        """The same so many times."""
        return Operations(
            self.additions * number,
            self.plain_products * number,
            self.rotations * number,
            self.products * number,
        )


def block_operations(shape: tuple[int, int, int]) -> Operations:
    """Operations of one block product, CGEMM(m, n, k).

    Args:
        shape: (m, n, k) of an m × k by k × n block.

    Raises:
        ShapeError: a dimension is no positive integer.

    Source: FHE4DMM, Table II, for the product of Zhu et al. (ESORICS 2023).
    """
    lengths = checked(shape, "dimensions of a block product")
    d3, d2, d1 = sorted(lengths)
    k = lengths.k
    copies = math.log2(k**3 / (d2 * d3**2) if k == d1 else d1 * d2 / d3**2)
    return Operations(2 * k + d3 + copies, 2 * k, 2 * k + 2 * d3 + copies, d3)


def total_operations(shape: tuple[int, int, int], blocks: tuple[int, int, int]) -> Operations:
    """Operations of a product that is cut into blocks, each block product by itself.

    Raises:
        ShapeError: a dimension, or a number of blocks, is no positive integer.

    Source: FHE4DMM, Eq. 2: F* = b_m·b_n·b_k · (CGEMM + ADD).
    """
    lengths, layout = checked(shape, "dimensions of a product"), checked(blocks, "numbers of blocks")
    one = block_operations(lengths.parts(layout))
    return (one + Operations(1, 0, 0, 0)).times(layout.volume)


def steps_of(shape: tuple[int, int, int], blocks: tuple[int, int, int]) -> int:
    """R, the steps of ShiftByStep and so the products of ciphertexts in a block product: its least length.

    Raises:
        ShapeError: a dimension, or a number of blocks, is no positive integer.

    Source: FHE4DMM, Algorithm 4, line 3.
    """
    layout: Cuboid = checked(blocks, "numbers of blocks")
    return min(checked(shape, "dimensions of a product").parts(layout))
