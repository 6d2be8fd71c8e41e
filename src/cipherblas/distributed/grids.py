"""Grids of ranks p_m × p_n × p_k: what data they move, and the one that moves least.

Rank (i, j, t) of a grid holds a part of the blocks of A[i, t] and of B[t, j], and adds to C[i, j].
Source: FHE4DMM, Section IV-B (3D) and Section V-B-2 (4D).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cipherblas.common.errors import ParameterError
from cipherblas.distributed.cuboid import Cuboid, checked

Moved = Callable[[Cuboid], float]


def moved_3d(blocks: tuple[int, int, int], grid: tuple[int, int, int]) -> int:
    """Ciphertexts that all ranks take in and send out together, where each moves the data of its blocks by itself.

    Source: FHE4DMM, Eq. 5, in ciphertexts (H = 1): p_m·b_k·b_n + p_n·b_m·b_k + p_k·b_m·b_n.
    """
    b, p = checked(blocks, "numbers of blocks"), checked(grid, "grid of ranks")
    return p.m * b.k * b.n + p.n * b.m * b.k + p.k * b.m * b.n


def moved_4d(blocks: tuple[int, int, int], grid: tuple[int, int, int], steps: int) -> float:
    """The same where ranks share the movements inside block products: all-reduce after RotateAlign, all-gather of each
    step of ShiftByStep, which costs half of a broadcast.

    Args:
        steps: R, see `cgemm.steps_of`.

    Source: FHE4DMM, Eq. 6, in ciphertexts (H = 1), with σ(x) = min(x - 1, 1).
    """
    b, p = checked(blocks, "numbers of blocks"), checked(grid, "grid of ranks")
    shared = 0.5 * steps + 1
    left = p.n * b.m * b.k * (1 + shared * min(p.n - 1, 1))
    right = p.m * b.k * b.n * (1 + shared * min(p.m - 1, 1))
    return left + right + p.k * b.m * b.n


def grid_3d(blocks: tuple[int, int, int], ranks: int) -> Cuboid:
    """The grid of at most `ranks` ranks for a product in 3D (E3D), the baseline and 4D-S.

    Raises:
        ShapeError: a number of blocks is no positive integer.
        ParameterError: there is no rank.

    Source: FHE4DMM, Algorithm 3, lines 2 to 5: Eq. 5 is made least; with ranks enough, each has one block product.

    Examples:
        >>> grid_3d((16, 16, 16), 8)
        Cuboid(m=2, n=2, k=2)
    """
    return _best(blocks, ranks, lambda grid: moved_3d(blocks, grid))


def grid_4d(blocks: tuple[int, int, int], ranks: int, steps: int) -> Cuboid:
    """The grid of at most `ranks` ranks for a product in 4D.

    Args:
        steps: R, see `cgemm.steps_of`.

    Raises:
        ShapeError: a number of blocks is no positive integer.
        ParameterError: there is no rank.

    Source: FHE4DMM, Section V-B-2: as `grid_3d`, with Eq. 6.

    Examples:
        >>> grid_4d((16, 16, 16), 8, 128)
        Cuboid(m=1, n=1, k=8)
    """
    return _best(blocks, ranks, lambda grid: moved_4d(blocks, grid, steps))


def busiest(blocks: Cuboid, grid: Cuboid) -> int:
    """Block products of the rank that has the most."""
    return blocks.parts(grid).volume


def _best(blocks: tuple[int, int, int], ranks: int, moved: Moved) -> Cuboid:
    """Least work of the busiest rank, then least data moved, then most ranks, then fewest along the rows.

    The paper makes the number of ranks in use as large as possible, which is the same where the numbers of blocks can
    be divided. Where they cannot, more ranks may have more to do: of 3 × 3 × 1 blocks, 3 × 1 × 1 ranks have 3 each, and
    of 2 × 2 × 1 ranks one has 4.
    """
    layout = checked(blocks, "numbers of blocks")
    if type(ranks) is not int or ranks < 1:
        raise ParameterError("A grid needs a rank at least.", expected="a positive integer", got=ranks)
    return min(
        _grids(layout, ranks),
        key=lambda grid: (busiest(layout, grid), moved(grid), -grid.volume, grid),
    )


def _grids(blocks: Cuboid, ranks: int) -> Iterator[Cuboid]:
    """All grids of at most so many ranks, none of them without a block."""
    for m in range(1, min(blocks.m, ranks) + 1):
        for n in range(1, min(blocks.n, ranks // m) + 1):
            for k in range(1, min(blocks.k, ranks // (m * n)) + 1):
                yield Cuboid(m, n, k)
