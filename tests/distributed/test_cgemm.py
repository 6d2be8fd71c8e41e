"""Operations of block products: Table II, and the comparison of Fig. 4."""

from __future__ import annotations

import itertools
import math

import pytest

from cipherblas.distributed.cgemm import Operations, block_operations, steps_of, total_operations


def test_square_blocks_have_no_copies() -> None:
    assert block_operations((128, 128, 128)) == Operations(3 * 128, 2 * 128, 4 * 128, 128)


@pytest.mark.parametrize(
    ("shape", "copies"),
    [
        ((64, 16, 128), 7 * 3 - 6 - 4 * 2),  # k = d1: log2(k³ / (d2·d3²))
        ((128, 16, 64), 7 + 6 - 4 * 2),  # k = d2: log2(d1·d2 / d3²)
        ((64, 128, 16), 7 + 6 - 4 * 2),  # k = d3
    ],
)
def test_rows_of_table_2(shape: tuple[int, int, int], copies: int) -> None:
    k, d3 = shape[2], min(shape)
    expected = Operations(2 * k + d3 + copies, 2 * k, 2 * k + 2 * d3 + copies, d3)
    assert block_operations(shape) == expected


def test_formulas_agree_where_both_hold() -> None:
    """k = d1 = d2."""
    for d, e in itertools.combinations((8, 16, 64, 128), 2):
        copies = math.log2(e * e / d**2)
        assert block_operations((e, d, e)).rotations == pytest.approx(2 * e + 2 * d + copies)


@pytest.mark.parametrize(("blocks", "rotations"), [((1, 1, 4), 1024), ((2, 1, 2), 1536)])
def test_rotations_of_figure_4(blocks: tuple[int, int, int], rotations: int) -> None:
    """Up to logarithms, of 256x256 by 256x64; for the second layout the paper prints 2048, as of blocks of 128x128."""
    found = total_operations((256, 64, 256), blocks)
    assert rotations <= found.rotations <= rotations + 4 * 8


def test_every_block_product_is_added() -> None:
    one, total = block_operations((8, 8, 8)), total_operations((16, 24, 32), (2, 3, 4))
    assert total == (one + Operations(1, 0, 0, 0)).times(24)


def test_steps_are_the_least_length_of_a_block() -> None:
    assert steps_of((2048, 2048, 2048), (16, 16, 16)) == 128
    assert steps_of((1048576, 64, 16), (1024, 4, 1)) == 16
    assert steps_of((10, 9, 100), (3, 1, 1)) == 4
