"""The optimal block layout: the paper's values, and every shape against all layouts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.distributed.blocks import optimal_blocks, optimal_slots, slots_needed
from cipherblas.distributed.cuboid import Cuboid

S_O = 128 * 128
POWERS = [1 << bits for bits in range(3, 13)]
SHAPES = [shape for shape in itertools.product(POWERS, repeat=3) if slots_needed(shape) > S_O]
PUBLISHED = {  # Fig. 4 and Table V
    (256, 64, 256): (1, 1, 4),
    (64, 256, 128): (1, 1, 2),
    (2048, 2048, 2048): (16, 16, 16),
    (16384, 16384, 16): (128, 128, 1),
    (1048576, 64, 16): (1024, 4, 1),
    (16384, 16, 16384): (16, 1, 1024),
}


def rank(blocks: tuple[int, int, int]) -> tuple[Any, ...]:
    b_m, b_n, b_k = blocks
    return b_m * b_n * b_k, b_m + b_n, blocks


def best_of_all(shape: tuple[int, int, int], slots: int, counts: Any) -> tuple[int, int, int]:
    """The least layout by trying all of them."""

    def fits(blocks: tuple[int, int, int]) -> bool:
        m, n, k = (-(-length // count) for length, count in zip(shape, blocks, strict=True))
        return max(m, k) * max(k, n) <= slots

    return min(filter(fits, itertools.product(*map(counts, shape))), key=rank)


@pytest.mark.parametrize(("shape", "blocks"), PUBLISHED.items())
def test_published_layouts(shape: tuple[int, int, int], blocks: tuple[int, int, int]) -> None:
    assert optimal_blocks(shape, S_O) == blocks


def test_all_powers_of_two_have_the_fewest_block_products() -> None:
    """For powers of two, blocks that are no powers of two are no better: `test_any_shape` tries these as well."""
    assert len(SHAPES) == 815
    for shape in SHAPES:
        best = best_of_all(shape, S_O, lambda length: [1 << b for b in range(length.bit_length())])
        assert rank(optimal_blocks(shape, S_O))[:2] == rank(best)[:2], shape


def test_blocks_of_powers_of_two_fill_the_slots() -> None:
    """Theorem 1: equality in Eq. 4."""
    assert all(slots_needed(Cuboid(*shape).parts(optimal_blocks(shape, S_O))) == S_O for shape in SHAPES)


@given(st.tuples(*[st.integers(1, 40)] * 3), st.integers(1, 300))
def test_any_shape(shape: tuple[int, int, int], slots: int) -> None:
    found = optimal_blocks(shape, slots)
    assert slots_needed(Cuboid(*shape).parts(found)) <= slots
    assert rank(found)[:2] == rank(best_of_all(shape, slots, lambda length: range(1, length + 1)))[:2]


@given(st.tuples(*[st.integers(1, 6)] * 3), st.integers(0, 4))
def test_closed_formulas_find_what_a_search_of_all_finds(exponents: tuple[int, int, int], side: int) -> None:
    shape = tuple(1 << bits for bits in exponents)
    assert len(shape) == 3
    best = best_of_all(shape, 4**side, lambda length: range(1, length + 1))
    assert rank(optimal_blocks(shape, 4**side))[:2] == rank(best)[:2]


@given(st.tuples(*[st.integers(1, 5000)] * 3), st.sampled_from([1 << 11, 1 << 13, 1 << 14]))
def test_long_shapes_fit(shape: tuple[int, int, int], slots: int) -> None:
    found = optimal_blocks(shape, slots)
    assert slots_needed(Cuboid(*shape).parts(found)) <= slots
    assert found.volume >= math.prod(shape) / slots**1.5


@pytest.mark.parametrize("shape", [(0, 1, 1), (1, -2, 1), (1, 1), (1.0, 1, 1), (True, 1, 1)])
def test_wrong_shapes(shape: Any) -> None:
    with pytest.raises(ShapeError, match="dimensions of a product"):
        optimal_blocks(shape, S_O)


@pytest.mark.parametrize("slots", [0, -1, 2.5])
def test_wrong_slots(slots: Any) -> None:
    with pytest.raises(ParameterError, match="slot"):
        optimal_blocks((4, 4, 4), slots)


@pytest.mark.parametrize(
    ("bits", "security", "slots"), [(503, 128, 1 << 14), (106, 128, 1 << 11), (214.5, 128, 1 << 13)]
)
def test_slots_by_noise_and_security(bits: float, security: int, slots: int) -> None:
    """Those of Table V, and of the edges of the table of secure moduli; more of either takes no fewer."""
    assert optimal_slots(bits - 31, 31, security) == slots
    assert optimal_slots(bits - 31, 31, 256) >= slots <= optimal_slots(2 * bits, 31, security)
    with pytest.raises(ParameterError, match="No ring"):
        optimal_slots(1e6, 31)
    with pytest.raises(ParameterError):
        optimal_slots(100, 31, 127)
