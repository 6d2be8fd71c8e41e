"""Packings and their inverses, blocks, and re-arrangements between any two layouts."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import LevelError, ShapeError
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Plain
from cipherblas.forms.blocks import grid_shape, join, split
from cipherblas.forms.convert.relayout import plan, relayout, same_entries
from cipherblas.forms.layouts import EMPTY, column_major, row_major, stacked, transposed, with_garbage
from cipherblas.methods.matmul.diagonals import Diagonals
from cipherblas.methods.products import ALGORITHMS, build
from cipherblas.rlwe.rings import RingShape
from tests.support.watched import Tally, conversions_counted, watch

small = st.integers(1, 6)
names = st.sampled_from(sorted(ALGORITHMS))


def input_layouts(name, m, k, n, slots=256):
    algorithm = build(name, m, k, n, slots, {})
    return [(algorithm.left_layout, (m, k)), (algorithm.right_layout, (k, n)), (algorithm.out_layout, (m, n))]


@given(names, small, small, small, st.integers(0, 99))
def test_unpack_inverts_pack(name, m, k, n, seed):
    for layout, shape in input_layouts(name, m, k, n):
        matrix = np.random.default_rng(seed).uniform(-1, 1, shape)
        vectors = layout.pack(matrix)
        assert len(vectors) == layout.ciphertexts
        np.testing.assert_array_equal(layout.unpack(vectors), matrix)
        assert max(np.abs(v).max() for v in vectors) <= layout.slot_bound(np.abs(matrix).max())


@given(small, small)
def test_transposed_layouts_hold_transposed_blocks(rows, cols):
    matrix = np.random.default_rng(rows).uniform(-1, 1, (rows, cols))
    layout = column_major(rows, cols, 64, stride=rows + 1)
    np.testing.assert_array_equal(transposed(layout).pack(matrix.T)[0], layout.pack(matrix)[0])
    np.testing.assert_array_equal(transposed(layout).unpack(layout.pack(matrix)), matrix.T)
    assert transposed(layout).index(0).real[rows] == EMPTY


@given(small, small, st.integers(1, 3))
def test_stacked_layouts_repeat_rows(rows, cols, copies):
    matrix = np.random.default_rng(rows).uniform(-1, 1, (rows, cols))
    whole = column_major(rows * copies, cols, 128)
    layout = stacked(whole, rows)
    np.testing.assert_array_equal(layout.pack(matrix)[0], whole.pack(np.tile(matrix, (copies, 1)))[0])
    np.testing.assert_array_equal(layout.unpack(layout.pack(matrix)), matrix)


def test_layouts_with_garbage_are_other_layouts():
    layout = column_major(2, 3, 8)
    assert with_garbage(layout).empty_garbage and with_garbage(layout) != layout


def test_packing_refuses_other_shapes():
    layout = column_major(2, 3, 8)
    with pytest.raises(ShapeError, match=r"expected \(2, 3\), got \(3, 2\)"):
        layout.pack(np.zeros((3, 2)))
    with pytest.raises(ShapeError, match="expected 1, got 2"):
        layout.unpack([np.zeros(8), np.zeros(8)])
    with pytest.raises(ShapeError, match=r"expected \(8,\), got \(9,\)"):
        layout.unpack([np.zeros(9)])
    with pytest.raises(ShapeError, match="expected at most 8 slots, got 9"):
        row_major(3, 3, 8)


@pytest.mark.parametrize("shape", [(64, 64), (50, 64), (64, 3), (1, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "int8"])
def test_packing_reads_the_entries_of_a_ciphertext_alone(shape: tuple[int, int], order: Any, dtype: str):
    """A block of any type and order, at the edge of a grid the part that is there, as the padded one."""
    layout = Diagonals(64, 64, 1, 128).left_layout
    part = np.asarray(np.random.default_rng(1).integers(-100, 101, shape), dtype, order)
    padded = np.zeros((64, 64))
    padded[: shape[0], : shape[1]] = part
    tally = Tally(layout.slots + 1)
    with conversions_counted():
        for number in range(layout.ciphertexts):
            found = layout.pack_one(watch(part, tally), number, 3.0)
            assert np.array_equal(found, layout.pack_one(padded / 3, number))
    assert not tally.passes


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 8), st.integers(1, 8))
def test_join_inverts_split(rows, cols, block_rows, block_cols):
    matrix = np.arange(float(rows * cols)).reshape(rows, cols)
    blocks = split(matrix, block_rows, block_cols)
    assert (len(blocks), len(blocks[0])) == grid_shape(rows, cols, block_rows, block_cols)
    assert {block.shape for row in blocks for block in row} == {(block_rows, block_cols)}
    np.testing.assert_array_equal(join(blocks, rows, cols), matrix)


def rearrange(ev, source, target, matrix, garbage_seed=0):
    """Relayout on one evaluator, with garbage wherever the source layout admits it."""
    rng = np.random.default_rng(garbage_seed)
    cts = []
    for i, vector in enumerate(source.pack(matrix)):
        if source.imaginary_garbage:
            vector = vector + 1j * rng.uniform(-1, 1, source.slots)
        if source.empty_garbage:
            vector = np.where(source.index(i).real < 0, rng.uniform(-1, 1, source.slots), vector)
        bound = 3.0
        cts.append(ev.fresh(vector if isinstance(ev, Clear) else None, bound=bound))
    return relayout(ev, cts, source, target)


@given(names, names, small, small, small, st.sampled_from(["direct", "binary"]), st.integers(0, 99))
def test_every_result_becomes_every_operand(first, second, m, n, p, key_policy, seed):
    """C = A·B in its output layout becomes the left operand of C·D and the right operand of E·C."""
    source = build(first, m, 3, n, 512, {}).out_layout
    targets = [build(second, m, n, p, 512, {}).left_layout, build(second, p, m, n, 512, {}).right_layout]
    matrix = np.random.default_rng(seed).uniform(-1, 1, (m, n))
    ring = RingShape.for_depth(512, 2)
    for target in targets:
        counter = Symbolic(ring, key_policy=key_policy)
        planned = rearrange(counter, source, target, matrix)
        clear = Clear(ring, key_policy=key_policy, available=counter.request)
        moved = rearrange(clear, source, target, matrix)
        assert counter.counts == clear.counts
        for vector, ct, handle in zip(target.pack(matrix), moved, planned, strict=True):
            np.testing.assert_allclose(ct.data, vector, atol=1e-12)
            assert (ct.limbs, ct.scale, ct.noise) == (handle.limbs, handle.scale, handle.noise)
            assert ct.limbs >= len(ring.q) - 1


@given(names, names, small, small, small)
def test_operands_with_entries_in_imaginary_parts(first, second, m, k, n):
    source = build(first, m, k, n, 512, {}).left_layout
    target = build(second, m, k, n, 512, {}).left_layout
    matrix = np.random.default_rng(m).uniform(-1, 1, (m, k))
    moved = rearrange(Clear(RingShape.for_depth(512, 2)), source, target, matrix)
    for vector, ct in zip(target.pack(matrix), moved, strict=True):
        np.testing.assert_allclose(ct.data, vector, atol=1e-12)


def test_baby_steps_keep_rotations_few():
    """Column-major to skewed: 2·min(m, k) - 1 diagonals and more for the continuation, about 2·sqrt of that rotated."""
    target = build("skewed", 32, 32, 32, 4096, {}).left_layout
    source = column_major(32, 32, 4096)
    ev = Symbolic(RingShape.for_depth(4096, 1))
    relayout(ev, [ev.fresh(None, bound=1.0)], source, target)
    (piece,) = plan(source, target, 0)
    assert len(piece.transform) > 63
    assert ev.counts.rotations < len(piece.transform) / 2


def test_garbage_alone_costs_no_level():
    source = build("skewed", 4, 4, 4, 64, {}).out_layout
    target = column_major(4, 4, 64, stride=build("skewed", 4, 4, 4, 64, {}).stride)
    assert same_entries(source, target)
    ev = Clear(RingShape.for_depth(64, 0))
    matrix = np.arange(16.0).reshape(4, 4) / 16
    (ct,) = rearrange(ev, source, target, matrix)
    np.testing.assert_allclose(ct.data, target.pack(matrix)[0], atol=1e-12)
    assert ct.limbs == ev.top_limbs
    assert relayout(ev, [ct], target, target) == [ct]


def test_clear_operands_move_in_the_clear():
    source, target = column_major(3, 4, 16), build("outer-product", 3, 4, 2, 16, {}).left_layout
    matrix = np.arange(12.0).reshape(3, 4)
    ev = Symbolic(RingShape.for_depth(16, 0))
    moved = relayout(ev, [Plain("a", lambda: source.pack(matrix)[0], 11.0)], source, target)
    for plain, vector in zip(moved, target.pack(matrix), strict=True):
        np.testing.assert_array_equal(plain.values(), vector)
    assert ev.counts.rotations == ev.counts.linear_transforms == 0


def test_relayout_errors():
    ev = Symbolic(RingShape.for_depth(16, 1))
    ct = ev.fresh(None, bound=1.0)
    with pytest.raises(ShapeError, match="expected 2×2 in 16 slots, got 2×3 in 16 slots"):
        relayout(ev, [ct], column_major(2, 3, 16), column_major(2, 2, 16))
    with pytest.raises(LevelError, match="expected at least 2 limbs, got 1"):
        relayout(ev, [ev.drop(ct, 1)], column_major(2, 3, 16), row_major(2, 3, 16))
