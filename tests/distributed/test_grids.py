"""Grids of ranks: the paper's, those derived from its formulas, and all grids of small cases."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ParameterError
from cipherblas.distributed.grids import grid_3d, grid_4d, moved_3d, moved_4d

SQUARE, LARGER_SQUARE = (16, 16, 16), (32, 32, 32)
FLAT, LARGE_M, SLIM, LARGER_SLIM = (128, 128, 1), (1024, 4, 1), (16, 1, 1024), (32, 1, 2048)
# blocks, R, ranks, grid in 3D, grid in 4D; of the paper where ranks are 8 and blocks square (Section VII-A)
GRIDS = [
    (SQUARE, 128, 8, (2, 2, 2), (1, 1, 8)),
    (SQUARE, 128, 64, (4, 4, 4), (2, 2, 16)),
    (SQUARE, 128, 128, (4, 4, 8), (2, 4, 16)),
    (LARGER_SQUARE, 128, 256, (4, 8, 8), (2, 4, 32)),
    (FLAT, 16, 8, (2, 4, 1), (2, 4, 1)),
    (FLAT, 16, 64, (8, 8, 1), (8, 8, 1)),
    (FLAT, 16, 128, (8, 16, 1), (8, 16, 1)),
    *((LARGE_M, 16, p, (p, 1, 1), (p, 1, 1)) for p in (2, 8, 64, 128)),
    *((SLIM, 16, p, (1, 1, p), (1, 1, p)) for p in (2, 8, 64, 128)),
    (LARGER_SLIM, 16, 256, (2, 1, 128), (1, 1, 256)),
]


@pytest.mark.parametrize(("blocks", "steps", "ranks", "in_3d", "in_4d"), GRIDS)
def test_known_grids(
    blocks: tuple[int, int, int],
    steps: int,
    ranks: int,
    in_3d: tuple[int, int, int],
    in_4d: tuple[int, int, int],
) -> None:
    assert grid_3d(blocks, ranks) == in_3d
    assert grid_4d(blocks, ranks, steps) == in_4d


def test_objectives_of_a_square() -> None:
    assert moved_3d(SQUARE, (2, 2, 2)) == 3 * 2 * 256
    assert moved_4d(SQUARE, (1, 1, 8), 128) == (1 + 1 + 8) * 256
    assert moved_4d(SQUARE, (2, 2, 2), 128) == 2 * (2 * 256 * (1 + 65)) + 2 * 256


def test_without_sharing_both_objectives_are_equal() -> None:
    assert moved_4d(SLIM, (1, 1, 8), 16) == moved_3d(SLIM, (1, 1, 8))


@given(st.tuples(*[st.integers(1, 6)] * 3), st.integers(1, 24), st.integers(1, 40))
def test_against_all_grids(blocks: tuple[int, int, int], ranks: int, steps: int) -> None:
    grids = [grid for grid in itertools.product(range(1, 7), repeat=3) if math.prod(grid) <= ranks]
    grids = [grid for grid in grids if all(p <= b for p, b in zip(grid, blocks, strict=True))]
    work = {grid: math.prod(-(-b // p) for b, p in zip(blocks, grid, strict=True)) for grid in grids}
    least = [grid for grid in grids if work[grid] == min(work.values())]
    in_3d, in_4d = grid_3d(blocks, ranks), grid_4d(blocks, ranks, steps)
    assert in_3d in least and moved_3d(blocks, in_3d) == min(moved_3d(blocks, grid) for grid in least)
    assert in_4d in least
    assert moved_4d(blocks, in_4d, steps) == min(moved_4d(blocks, grid, steps) for grid in least)


@given(st.tuples(*[st.integers(0, 4)] * 3), st.integers(0, 6))
def test_all_ranks_are_used_where_blocks_can_be_divided(exponents: tuple[int, int, int], bits: int) -> None:
    blocks = (1 << exponents[0], 1 << exponents[1], 1 << exponents[2])
    volume = math.prod(blocks)
    for grid in (grid_3d(blocks, 1 << bits), grid_4d(blocks, 1 << bits, 8)):
        assert grid.volume == min(1 << bits, volume)


@given(st.tuples(*[st.integers(1, 5)] * 3), st.integers(0, 30))
def test_ranks_enough_have_a_block_product_each(blocks: tuple[int, int, int], more: int) -> None:
    """Algorithm 3, line 3: the grid is the block layout."""
    ranks = math.prod(blocks) + more
    assert grid_3d(blocks, ranks) == blocks == grid_4d(blocks, ranks, 4)


def test_no_rank() -> None:
    with pytest.raises(ParameterError, match="rank"):
        grid_3d(SQUARE, 0)
