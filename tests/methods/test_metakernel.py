"""MetaKernel: every pattern against NumPy, its counts, and the paper's worked examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cipherblas.common.errors import LevelError, ShapeError
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.forms.tensors import TensorLayout, contiguous, grid
from cipherblas.lang.windows import Window
from cipherblas.methods.doubling import doublings
from cipherblas.methods.matvec_conv.baselines.imra import Pattern, gamma, optimise, patterns
from cipherblas.methods.matvec_conv.metakernel import ConvMetaKernel, MatVecMetaKernel
from cipherblas.rlwe.rings import RingShape
from tests.support import layer_runs

length = st.integers(1, 40)
slots = st.sampled_from([16, 32, 64, 128, 256])
small = st.integers(1, 6)
side = st.integers(1, 9)
pads = st.tuples(st.integers(0, 2), st.integers(0, 2))
steps = st.sampled_from([(1, 1), (1, 1), (2, 2), (2, 1), (1, 3)])


def convolved(x, filters, window):
    """By the definition, tap by tap."""
    (_, height, width), (down, right) = window.out_shape, window.stride
    padded = np.pad(x, ((0, 0), *((pad, pad) for pad in window.padding)))
    depth, each = filters.shape[1], window.outputs // window.groups
    result = np.zeros(window.out_shape)
    for output, channel, i, j in np.ndindex(*filters.shape):
        read = padded[output // each * depth + channel, i : i + height * down, j : j + width * right]
        result[output] += filters[output, channel, i, j] * read[::down, ::right][:height, :width]
    return result


def segmented(method):
    return method.x.segments > 1


def check_matvec(method, columns):
    rng = np.random.default_rng(columns)
    values, x = rng.uniform(-2, 2, (method.matrix_rows, columns)), rng.uniform(-1, 1, method.x.shape)
    counts = layer_runs.check(method, values, x, values @ x.ravel())
    pattern, ends = method.pattern, (method.x.ciphertexts, method.out.ciphertexts)
    assert counts.rotations == pattern.rotations(1, *ends)
    assert counts.plain_products == method.plaintexts == pattern.plaintexts(1, *ends)
    assert method.padded_weights >= values.size
    return counts


def check_conv(method):
    window = method.window
    rng = np.random.default_rng(window.outputs)
    values, x = rng.uniform(-2, 2, window.weight_shape), rng.uniform(-1, 1, window.shape)
    counts = layer_runs.check(method, values, x, convolved(x, values, window))
    assert counts.plain_products == method.plaintexts
    return counts


# --- results -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(length, length, slots, st.data())
@settings(max_examples=100)
def test_matvec(rows, columns, slot_count, data):
    """Any lengths, several ciphertexts on both sides, any pattern, from the whole W to slices of it."""
    x = contiguous((columns,), slot_count, channels=data.draw(st.integers(1, min(columns, slot_count))))
    each = data.draw(st.integers(1, min(rows, slot_count)))
    found = list(patterns(each, x.extent, 1, slot_count))
    assume(found)
    check_matvec(MatVecMetaKernel(x, rows, data.draw(st.sampled_from(found)), each), columns)


@pytest.mark.parametrize("slot_count", [8, 16])
def test_every_small_pattern(slot_count):
    """All patterns, not a choice of them."""
    checked = 0
    for rows in range(1, 8):
        for columns in range(1, 8):
            x = contiguous((columns,), slot_count)
            for pattern in patterns(rows, columns, 1, slot_count):
                check_matvec(MatVecMetaKernel(x, rows, pattern, rows), columns)
                checked += 1
    assert checked > 200


@given(st.tuples(small, side, side), st.integers(1, 3), st.integers(0, 5), small, slots, st.data())
def test_matvec_of_an_image(shape, gap, extra, rows, slot_count, data):
    """Entries with gaps between them, as a stride leaves them, and garbage in the gaps where that is allowed."""
    channels, height, width = shape
    row = width * gap + 1
    try:
        x = TensorLayout(shape, slot_count, channels, height * row + extra, row, gap, height)
    except ShapeError:
        assume(False)
    found = list(patterns(rows, x.extent, 1, slot_count))
    assume(found)
    check_matvec(MatVecMetaKernel(x, rows, data.draw(st.sampled_from(found)), rows), math.prod(shape))


GROUPS = [
    (inputs, outputs, groups)
    for inputs in range(1, 7)
    for outputs in range(1, 9)
    for groups in range(1, math.gcd(inputs, outputs) + 1)
    if math.gcd(inputs, outputs) % groups == 0
]


@pytest.mark.slow
@given(
    *(st.sampled_from(GROUPS), side, side),
    *(st.tuples(st.integers(1, 4), st.integers(1, 4)), steps, pads, slots, st.data()),
)
@settings(max_examples=60)
def test_conv(channels, height, width, kernel, stride, padding, slot_count, data):
    """Groups, depthwise, strides, paddings, padded pitches, wider rows, segments with halos, several ciphertexts."""
    inputs, outputs, groups = channels
    try:
        window = Window((inputs, height, width), outputs, kernel, stride, padding, groups)
        x = image(data, window, slot_count)
    except ShapeError:
        assume(False)
    method = conv(data, window, x)
    counts = check_conv(method)
    if all(pad < taps for pad, taps in zip(padding, kernel, strict=True)) and not segmented(method):
        ends = (x.ciphertexts, method.out.ciphertexts)
        assert counts.rotations <= method.pattern.rotations(method.taps, *ends)
        assert counts.plain_products <= method.pattern.plaintexts(method.taps, *ends)


def image(data, window, slot_count):
    channels, height, width = window.shape
    area = height * width
    if area > slot_count:
        return contiguous(window.shape, slot_count, rows=window.stride[0])
    row = data.draw(st.sampled_from([width, width, width + 3]))
    pitch = data.draw(st.sampled_from([height * row, height * row + 3, 1 << (height * row - 1).bit_length()]))
    each = data.draw(st.integers(1, channels))
    return grid(window.shape, slot_count, {"channels": each, "pitch": pitch, "row": row})


def conv(data, window, x):
    if x.segments > 1:
        each, found = 1, [Pattern(1, 1, x.pitch, x.slots, 1, 1)]
    else:
        each = data.draw(st.integers(1, min(window.outputs, max(1, x.slots // x.pitch))))
        found = list(patterns(each, min(x.channels, x.shape[0]), x.pitch, x.slots))
    assume(found)
    try:
        return ConvMetaKernel(x, window, data.draw(st.sampled_from(found)), each)
    except ShapeError as error:
        if "wider" not in str(error) and "segment" not in str(error):
            raise
        assume(False)
        raise


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [(3, 3), (5, 1), (2, 3)])
def test_image_cut_into_segments(stride, kernel):
    """Taps read the neighbouring segments; with a stride the last segments may hold no result."""
    window = Window((3, 17, 8), 2, kernel, (stride, stride), (kernel[0] // 2, kernel[1] // 2))
    x = contiguous(window.shape, 32, rows=stride)
    assert x.segments > 3
    method = ConvMetaKernel(x, window, Pattern(1, 1, x.pitch, 32, 1, 1), 1)
    check_conv(method)


# --- counts ------------------------------------------------------------------------------------------------


def best(rows, columns, slot_count):
    return optimise(rows, columns, 1, slot_count, lambda p: p.published_cost())


def test_worked_examples():
    """MetaKernel: W of 8 x 4 in 8 slots takes 3 rotations; 8 x 8 in 32 slots is (p_b, p_s) = (4, 2), 5 rotations."""
    pattern = best(8, 4, 8)
    assert pattern.rotations() == 3
    assert check_matvec(MatVecMetaKernel(contiguous((4,), 8), 8, pattern, 8), 4).rotations == 3
    pattern = best(8, 8, 32)
    assert (pattern.n, pattern.k, pattern.p_b, pattern.p_s) == (8, 8, 4, 2)
    assert pattern.rotations() == 5
    method = MatVecMetaKernel(contiguous((8,), 32), 8, pattern, 8)
    assert check_matvec(method, 8).rotations == 5
    assert 64 / (method.plaintexts * 32) == 0.5


def test_gamma():
    assert gamma(9) == 4
    assert [gamma(1 << bits) for bits in range(6)] == list(range(6))
    with pytest.raises(ShapeError, match=r"at least 1 .got 0"):
        gamma(0)


@given(st.integers(1, 500))
def test_doublings(copies):
    """No more rotations than γ, which rebuilds shorter repetitions."""
    assert doublings(copies) <= gamma(copies)
    assert doublings(copies) >= math.ceil(math.log2(copies))


@given(length, length, slots)
def test_the_best_pattern_is_no_worse_than_any_other(rows, columns, slot_count):
    found = list(patterns(rows, columns, 1, slot_count))
    assume(found)
    assert optimise(rows, columns, 1, slot_count, Pattern.rotations).rotations() == min(
        pattern.rotations() for pattern in found
    )


@given(st.integers(1, 4), st.integers(1, 4), st.integers(3, 8), st.integers(3, 8), st.data())
def test_counts_of_a_dense_conv(inputs, outputs, height, width, data):
    """Every diagonal and every tap holds weights, all steps differ: just the counts of the pattern."""
    window = Window((inputs, height, width), outputs, (3, 3), padding=(1, 1))
    x = contiguous(window.shape, 512)
    method = ConvMetaKernel(
        x, window, data.draw(st.sampled_from(list(patterns(outputs, inputs, x.pitch, 512)))), outputs
    )
    counts = check_conv(method)
    assert counts.rotations <= method.pattern.rotations(9)
    if width > 3 and height > 3 and (method.pattern.n, method.pattern.k) == (outputs, inputs):
        assert counts.rotations == method.pattern.rotations(9)
        assert counts.plain_products == method.pattern.plaintexts(9)


# --- refusals ----------------------------------------------------------------------------------------------


def test_patterns_that_are_refused():
    for arguments, expected in (
        ((6, 4, 1, 64, 1, 1), r"n \| k or k \| n"),
        ((4, 4, 1, 64, 3, 1), r"p_b \| min\(n, k\)"),
        ((4, 4, 1, 64, 4, 3), r"p_s \| p_b"),
        ((8, 8, 1, 8, 2, 2), "expected 1, got 2"),
        ((8, 8, 1, 7, 1, 1), "at most 7 slots"),
        ((0, 8, 1, 8, 1, 1), "positive numbers"),
    ):
        with pytest.raises(ShapeError, match=expected):
            Pattern(*arguments)
    with pytest.raises(ShapeError, match="at most 8 slots, got 9"):
        optimise(9, 2, 1, 8, Pattern.rotations)


def test_layouts_that_are_refused():
    x, pattern = contiguous((8,), 32), best(8, 8, 32)
    with pytest.raises(ShapeError, match="units of 1 of 64 slots"):
        MatVecMetaKernel(contiguous((8,), 64), 8, pattern, 8)
    with pytest.raises(ShapeError, match="n ≥ 9, k ≥ 8"):
        MatVecMetaKernel(x, 9, pattern, 9)
    window = Window((2, 2, 2), 2, (1, 1))
    with pytest.raises(ShapeError, match="layout of an image"):
        ConvMetaKernel(x, window, pattern, 2)
    with pytest.raises(ShapeError, match="units of 4 slots"):
        ConvMetaKernel(contiguous((2, 2, 2), 32), window, pattern, 2)
    dirty = MatVecMetaKernel(x.with_zero_padding(False), 8, pattern, 8)
    ev = Symbolic(RingShape.for_depth(32, 2))
    with pytest.raises(ShapeError, match="zeros in all other slots"):
        dirty.run(ev, [ev.fresh(None, bound=1.0)], layer_runs.weights_of(np.ones((8, 8))))
    with pytest.raises(LevelError, match="at least 2 limbs, got 1"):
        MatVecMetaKernel(x, 8, pattern, 8).run(
            ev, [ev.fresh(None, bound=1.0, limbs=1)], layer_runs.weights_of(np.ones((8, 8)))
        )
