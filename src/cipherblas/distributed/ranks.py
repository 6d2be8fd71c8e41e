"""What one rank of a grid computes, holds, and which rotation keys it needs.

Ways to share the movements of data inside block products (RotateAlign, then R steps of ShiftByStep):

t3d     every block product moves both of its operands, and each is a rank's only one: the grid is the blocks;
e3d     the same on the grid that moves least, of any blocks;
tdsc    the same, by diagonals of a square grid of blocks: of an operand, or of a column times a row of blocks;
4d-s    a rank moves each of its blocks once, for all its block products;
4d-b    the ranks that hold the same blocks share that out, each taking some of the blocks, on the grid of `grid_4d`;
4d      the same, each taking some of the offsets of every block, as published;
4d*     the same on the grid of `grid_3d`.

Source: FHE4DMM, Sections IV-C, V and VII-A, Table III.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.distributed.cuboid import Cuboid, checked
from cipherblas.distributed.grids import grid_3d, grid_4d

Distribution = Literal["t3d", "e3d", "tdsc", "4d-s", "4d-b", "4d*", "4d"]
PER_PRODUCT: tuple[Distribution, ...] = (
    "t3d",
    "e3d",
    "tdsc",
)  # those in which every block product moves both operands
PER_OFFSET: tuple[Distribution, ...] = ("4d*", "4d")  # those in which ranks share the movements of one block
PER_BLOCK: tuple[Distribution, ...] = ("4d-b", *PER_OFFSET)  # and those of several blocks
Side = Literal[
    "left", "up"
]  # of A, whose rows are rotated to the left; of B, whose columns are rotated upwards
RotationKey = tuple[Side, int]  # and the offset along that dimension of the slots


@dataclass(frozen=True)
class RankWork:
    """The work of a rank.

    Attributes:
        left_moves, right_moves: of A and of B, in units of the movements of one operand in one block product.
        products: of ciphertexts.
        sums: ciphertexts that it adds to those of the other ranks along the inner dimension.
    """

    left_moves: Fraction
    right_moves: Fraction
    products: int
    sums: int


def grid_of(blocks: Cuboid, ranks: int, steps: int, distribution: Distribution) -> Cuboid:
    """The grid of at most so many ranks for a way to share.

    In T3D a rank has one block product. In TDSC ranks have diagonals: along the inner dimension where all of them add
    to each block of the result, along the rows where diagonals are of the result itself.

    Args:
        steps: R, see `cgemm.steps_of`.

    Raises:
        ParameterError: there is no rank, no such way to share, T3D has fewer ranks than block products, or TDSC no
            square grid of blocks beside a single row or column.

    Source: FHE4DMM, Sections III-A (T3D), IV-A and VII-A (TDSC), IV-B (E3D), V-B-2 (4D).
    """
    _check_distribution(distribution)
    if distribution == "t3d":
        if ranks < blocks.volume:
            raise ParameterError(
                "T3D needs a rank for every block product.", expected=f"{blocks.volume} ranks", got=ranks
            )
        return blocks
    if distribution == "tdsc":
        least, diagonals, others = sorted(blocks)
        if least != 1 or diagonals != others:
            raise ParameterError(
                "TDSC takes a square grid of blocks, and a single row or column of them beside it.",
                expected="g × 1 × g, 1 × g × g or g × g × 1 blocks (m × n × k)",
                got=" × ".join(map(str, blocks)),
            )
        taking = min(ranks, diagonals)
        return Cuboid(taking, 1, 1) if blocks.k == 1 else Cuboid(1, 1, taking)
    return grid_4d(blocks, ranks, steps) if distribution in ("4d", "4d-b") else grid_3d(blocks, ranks)


def ranks_of(grid: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """The indices (i, j, t) of all ranks."""
    m, n, k = checked(grid, "grid of ranks")
    return itertools.product(range(m), range(n), range(k))


def own_blocks(
    blocks: tuple[int, int, int], grid: tuple[int, int, int], rank: tuple[int, int, int]
) -> Cuboid:
    """Numbers of blocks [a, b, c] of a rank along rows, columns and inner dimension: they differ by one at most.

    Where the grid divides the blocks these are b_m / p_m, b_n / p_n and b_k / p_k for every rank.

    Raises:
        ShapeError: a number is no positive integer, the grid is larger than the blocks, or has no such rank.
    """
    layout, ranks = checked(blocks, "numbers of blocks"), checked(grid, "grid of ranks")
    if any(p > b for p, b in zip(ranks, layout, strict=True)):
        raise ShapeError("A rank of the grid has no block.", expected=f"at most {layout}", got=ranks)
    if any(not 0 <= index < p for index, p in zip(rank, ranks, strict=True)):
        raise ShapeError("The grid has no such rank.", expected=f"indices below {ranks}", got=rank)
    m, n, k = (b // p + (index < b % p) for b, p, index in zip(layout, ranks, rank, strict=True))
    return Cuboid(m, n, k)


def work_of(own: Cuboid, grid: Cuboid, steps: int, distribution: Distribution) -> RankWork:
    """Movements and products of a rank with these blocks (see `own_blocks`).

    The paper's Section V-C gives the factor of 4D-S for 4D; its example in Section VII-A (128 → 64) needs the further
    division by the ranks that share, and that is counted here.

    Args:
        steps: R, see `cgemm.steps_of`.

    Raises:
        ParameterError: there is no such way to share.

    Source: FHE4DMM, Sections V-C and VII-A.
    """
    _check_distribution(distribution)
    left, right = Fraction(own.m * own.k), Fraction(own.n * own.k)
    if distribution in PER_PRODUCT:
        left = right = Fraction(own.volume)
    elif distribution in PER_BLOCK:
        left, right = left / grid.n, right / grid.m
    return RankWork(left, right, own.volume * steps, own.m * own.n)


def ciphertexts_held(own: Cuboid, distribution: Distribution) -> int:
    """Ciphertexts in the memory of a rank at once: its blocks of A, B and C, and in 4D a step's of A and of B.

    4D-S keeps a step's blocks as 4D does.

    Raises:
        ParameterError: there is no such way to share.

    Source: FHE4DMM, Table IV.
    """
    _check_distribution(distribution)
    blocks = own.m * own.k + own.n * own.k + own.m * own.n
    return blocks if distribution in PER_PRODUCT else blocks + own.m + own.n


def ciphertexts_ahead(own: Cuboid, grid: Cuboid) -> int:
    """Ciphertexts that a rank of `PER_OFFSET` holds besides: of a side that several ranks share those of the next
    offset, which it shifts and sends ahead of its use; and the blocks of A at one inner index rotated down by a row,
    from which comes what wraps around on a ring whose degree is a power of two. That is where memory is limited; else
    it has those of as many of its offsets as fit the working memory."""
    return own.m * (1 + (grid.n > 1)) + own.n * (grid.m > 1)


def rotation_keys(
    block: Cuboid, grid: Cuboid, rank: tuple[int, int, int], distribution: Distribution
) -> frozenset[RotationKey]:
    """The rotation keys that rank (i, j, t) needs, all others can be kept from it.

    RotateAlign of a block of k inner entries takes the offsets below k on either side, ShiftByStep those below R ≤ k.
    In 4D a rank takes the offsets that are j modulo p_n of A, which the ranks (i, :, t) share, and those that are i
    modulo p_m of B: some k / p_n + k / p_m keys. Table IV says O(k / p), which is less: ranks along the inner dimension
    have other blocks, but rotate them by the same offsets, and a side that one rank has alone needs all its keys there.
    On a ring whose degree is a power of two who rotates A at all has one key more, unless B needs it there: that of all
    rows but one. In 4D-B, where whole blocks are shared, a rank has all keys of a side of which it prepares any.

    Args:
        block: lengths (m, n, k) of a block, padded to powers of two.

    Raises:
        ParameterError: there is no such way to share.

    Source: FHE4DMM, Section V-B-1.
    """
    _check_distribution(distribution)
    i, j, _ = rank
    shared: tuple[tuple[Side, int, int], ...] = (("left", j, grid.n), ("up", i, grid.m))
    if distribution not in PER_OFFSET:
        shared = (("left", 0, 1), ("up", 0, 1))
    found = {
        (side, offset) for side, first, stride in shared for offset in range(first, block.k, stride) if offset
    }
    if any(side == "left" for side, _ in found):
        found.add(("up", max(block.m, block.k) - 1))
    return frozenset(found)


def _check_distribution(distribution: str) -> None:
    if distribution not in get_args(Distribution):
        raise ParameterError(
            "There is no such way to share movements.",
            expected=" | ".join(get_args(Distribution)),
            got=distribution,
        )
