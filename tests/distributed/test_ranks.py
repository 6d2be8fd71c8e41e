"""What ranks compute and hold: the published factors, sums over all ranks, and keys."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.distributed.cuboid import Cuboid
from cipherblas.distributed.grids import grid_3d, grid_4d
from cipherblas.distributed.ranks import ciphertexts_held, own_blocks, ranks_of, rotation_keys, work_of

SQUARE, FLAT, LARGE_M, SLIM = (16, 16, 16), (128, 128, 1), (1024, 4, 1), (16, 1, 1024)
sizes = st.integers(1, 7)


def moves(blocks: tuple[int, int, int], grid: Cuboid, sharing: Any) -> Fraction:
    work = work_of(own_blocks(blocks, grid, (0, 0, 0)), grid, 1, sharing)
    return work.left_moves + work.right_moves


@pytest.mark.parametrize(
    ("blocks", "steps", "ranks", "baseline", "shared", "star", "four"),
    [
        (SQUARE, 128, 8, 1024, 128, 64, 64),  # 128 and 64: Section VII-A
        (SQUARE, 128, 64, 128, 32, 8, 8),
        (FLAT, 16, 8, 4096, 96, 32, 32),
        (LARGE_M, 16, 8, 1024, 132, Fraction(257, 2), Fraction(257, 2)),
        (SLIM, 16, 8, 4096, 2176, 2176, 2176),
    ],
)
def test_movements_of_a_rank(
    blocks: tuple[int, int, int], steps: int, ranks: int, baseline: int, shared: int, star: Any, four: Any
) -> None:
    grid, own_grid = grid_3d(blocks, ranks), grid_4d(blocks, ranks, steps)
    assert moves(blocks, grid, "e3d") == baseline
    assert moves(blocks, grid, "4d-s") == shared
    assert moves(blocks, grid, "4d") == star
    assert moves(blocks, own_grid, "4d") == four


def test_memory_of_a_square() -> None:
    """Table IV."""
    for grid, sharing, expected in ((Cuboid(2, 2, 2), "e3d", 192), (Cuboid(1, 1, 8), "4d", 352)):
        own = own_blocks(SQUARE, grid, (0, 0, 0))
        found: Any = sharing
        assert ciphertexts_held(own, found) == expected


@given(st.tuples(sizes, sizes, sizes), st.data(), st.integers(1, 9))
def test_ranks_share_all_work(blocks: tuple[int, int, int], data: Any, steps: int) -> None:
    grid = Cuboid(*(data.draw(st.integers(1, length)) for length in blocks))
    own = {rank: own_blocks(blocks, grid, rank) for rank in ranks_of(grid)}
    m, n, k = blocks
    assert sum(one.volume for one in own.values()) == m * n * k
    works = {
        sharing: [work_of(one, grid, steps, sharing) for one in own.values()] for sharing in DISTRIBUTIONS
    }
    for found in works.values():
        assert sum(work.products for work in found) == m * n * k * steps
        assert sum(work.sums for work in found) == m * n * grid.k
    total = {sharing: sum(work.left_moves for work in found) for sharing, found in works.items()}
    assert total == {"e3d": m * n * k, "4d-s": m * k * grid.n, "4d": m * k}  # in 4D every block is moved once


DISTRIBUTIONS: tuple[Any, ...] = ("e3d", "4d-s", "4d")


@given(st.integers(1, 40), st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 3)))
def test_keys_of_all_ranks_are_those_of_3d(inner: int, shape: tuple[int, int, int]) -> None:
    block, grid = Cuboid(8, 8, inner), Cuboid(*shape)
    everything = rotation_keys(block, grid, (0, 0, 0), "e3d")
    last = ("up", max(8, inner) - 1)  # of all rows but one
    assert everything == {
        *((side, offset) for side in ("left", "up") for offset in range(1, inner)),
        *([last] if inner > 1 else []),
    }
    found = {rank: rotation_keys(block, grid, rank, "4d") for rank in ranks_of(grid)}
    assert frozenset().union(*found.values()) == everything
    for (i, j, _), keys in found.items():
        assert all(offset % grid.n == j for side, offset in keys if side == "left")
        assert all(offset % grid.m == i for side, offset in keys - {last} if side == "up")
        assert len(keys) <= -(-inner // grid.n) + -(-inner // grid.m) + 1


def test_keys_of_ranks_that_share_are_apart() -> None:
    grid, block = Cuboid(2, 3, 2), Cuboid(16, 16, 16)
    row = [rotation_keys(block, grid, (0, j, 0), "4d") for j in range(3)]
    left = [{key for key in keys if key[0] == "left"} for keys in row]
    assert sum(map(len, left)) == len(set().union(*left)) == 15


def test_wrong_ranks_and_grids() -> None:
    with pytest.raises(ShapeError, match="no such rank"):
        own_blocks(SQUARE, (2, 2, 2), (0, 2, 0))
    with pytest.raises(ShapeError, match="no block"):
        own_blocks((1, 2, 2), (2, 1, 1), (0, 0, 0))
    other: Any = "5d"
    with pytest.raises(ParameterError, match="share"):
        work_of(Cuboid(1, 1, 1), Cuboid(1, 1, 1), 1, other)
