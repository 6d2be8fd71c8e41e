"""Products with a clear matrix where a value lies: any layout with each entry once, either side, several blocks."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ShapeError
from cipherblas.forms.convert.coefficients import Packing
from cipherblas.forms.layouts import EMPTY, Layout, SlotIndex, column_major, row_major
from cipherblas.methods.matmul.layout_preserving import LayoutPreserving
from cipherblas.methods.matmul.skewed import Skewed
from tests.support import product_runs as harness

SLOTS = 256


def scattered(rows: int, cols: int, seed: int) -> Layout:
    """Entries anywhere."""
    places = np.random.default_rng(seed).permutation(SLOTS)[: rows * cols]

    def indexer(_: int) -> SlotIndex:
        index = np.full(SLOTS, EMPTY, dtype=np.int64)
        index[places] = np.arange(rows * cols)
        return SlotIndex(index)

    return Layout("scattered", ("scattered", rows, cols, seed), rows, cols, SLOTS, 1, indexer)


layouts = st.one_of(
    st.builds(lambda e, by: Packing(2 * SLOTS, 2**e, 2).layout(by), st.integers(1, 9), st.booleans()),
    st.builds(lambda m, k: column_major(m, k, SLOTS), st.integers(1, 16), st.integers(1, 16)),
    st.builds(lambda m, k: row_major(m, k, SLOTS), st.integers(1, 16), st.integers(1, 16)),
    st.builds(scattered, st.integers(1, 6), st.integers(1, 6), st.integers(0, 5)),
)
grids = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))


@given(layouts, st.booleans(), grids, st.sampled_from(["direct", "composed", "binary"]))
def test_any_layout(lies, clear_left, grid, policy):
    algorithm = LayoutPreserving(lies, clear_left)
    public = "left" if clear_left else "right"
    harness.check(algorithm, seed=sum(grid), grid=grid, public=public, key_policy=policy)


@given(st.booleans(), st.integers(1, 8), st.integers(1, 8))
def test_fewer_diagonals_of_a_smaller_matrix(clear_left, inner, outer):
    """Where entries lie at one stride, inner + outer - 1 distances occur; zeros beyond them change nothing."""
    lies = column_major(8, 16, SLOTS) if clear_left else row_major(16, 8, SLOTS)
    algorithm = LayoutPreserving(lies, clear_left, inner, outer)
    layout = algorithm.left_layout if clear_left else algorithm.right_layout
    assert layout.ciphertexts == inner + outer - 1
    weights = np.zeros((8, 8))
    if clear_left:
        weights[:outer, :inner] = np.arange(1.0, 1 + inner * outer).reshape(outer, inner)
    else:
        weights[:inner, :outer] = np.arange(1.0, 1 + inner * outer).reshape(inner, outer)
    values = np.random.default_rng(0).uniform(-1, 1, (lies.rows, lies.cols))
    factors = (weights, values) if clear_left else (values, weights)
    found = harness.product(algorithm, *factors, public="left" if clear_left else "right")
    np.testing.assert_allclose(found.result, factors[0] @ factors[1], atol=1e-9)


def test_rotations_are_baby_and_giant_steps():
    """64 columns at a stride of 128 slots that wrap around: 64 diagonals, 7 + 7 rotations, one level."""
    lies = Packing(2 * 8192, 256, 2).layout(by_columns=True)
    algorithm = LayoutPreserving(lies, clear_left=False)
    assert (algorithm.m, algorithm.k, algorithm.n, algorithm.right_layout.ciphertexts) == (128, 64, 64, 64)
    counts = harness.check(algorithm, seed=1, public="right").counts
    assert counts.rotations <= 2 * 8 and counts.plain_products == 64 and counts.relinearisations == 0


def test_layouts_that_do_not_do():
    packed = Skewed(4, 4, 4, SLOTS)
    with pytest.raises(ShapeError, match="real slots in one ciphertext"):
        LayoutPreserving(packed.left_layout, clear_left=False)
    with pytest.raises(ShapeError, match="real slots in one ciphertext"):
        LayoutPreserving(packed.out_layout, clear_left=False)
    with pytest.raises(ShapeError, match="each entry once"):
        LayoutPreserving(column_major(4, 4, SLOTS, period=64), clear_left=False)
    with pytest.raises(ShapeError, match="diagonals"):
        LayoutPreserving(Packing(2 * 8192, 8192, 2).layout(by_columns=False), clear_left=False)
    missing = dataclasses.replace(scattered(3, 3, 0), rows=4, key="missing")
    with pytest.raises(ShapeError, match="each entry once"):
        LayoutPreserving(missing, clear_left=False)
