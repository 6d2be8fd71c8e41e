"""Tensors that stand in a ciphertext several times, or whose channels are cut together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cipherblas.common.errors import ShapeError
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.forms.convert.relayout import relayout
from cipherblas.forms.tensors import TensorLayout, contiguous, grid
from cipherblas.rlwe.rings import RingShape

SLOTS = 64
lengths = st.integers(1, 4)
layouts = st.builds(
    lambda shape, row, extra, segment, copies: (
        shape,
        {
            "channels": shape[0],
            "row": shape[2] + row,
            "pitch": min(segment, shape[1]) * (shape[2] + row) + extra,
            "segment": min(segment, shape[1]),
            "copies": copies,
        },
    ),
    st.tuples(lengths, lengths, lengths),
    *(st.integers(0, 2), st.integers(0, 3), lengths, st.sampled_from([1, 2, 4])),
)


def made(description) -> TensorLayout:
    shape, options = description
    try:
        return grid(shape, SLOTS, options)
    except ShapeError:
        assume(False)
        raise


@given(layouts)
def test_every_slot(description):
    """Each copy of each entry stands where the layout says; all other slots are zero."""
    layout = made(description)
    (channels, height, width), separated = layout.shape, SLOTS // layout.copies
    tensor = np.arange(1, 1 + channels * height * width, dtype=float).reshape(layout.shape)
    expected = np.zeros((layout.ciphertexts, SLOTS))
    for c, h, w in np.ndindex(*layout.shape):
        part, row = divmod(h, layout.segment)
        for copy in range(layout.copies):
            slot = c * layout.pitch + row * layout.row + w + copy * separated
            assert expected[part, slot] == 0
            expected[part, slot] = tensor[c, h, w]
    found = [layout.vector(number, tensor.ravel()) for number in range(layout.ciphertexts)]
    np.testing.assert_array_equal(found, expected)
    packed = [layout.layout.pack_one(tensor.reshape(-1, 1), number) for number in range(layout.ciphertexts)]
    np.testing.assert_array_equal(packed, expected)
    assert grid(layout.shape, SLOTS, layout.grid_options) == layout
    assert layout.alone == (layout.copies == 1)
    assert layout.once().alone


@given(layouts, layouts)
def test_relayout(description, other):
    """From one copy, or several, to several."""
    source = made(description)
    target = made((source.shape, {**other[1], "channels": source.shape[0]}))
    tensor = np.random.default_rng(0).uniform(-1, 1, source.shape)
    ev = Clear(RingShape.for_depth(SLOTS, 2))
    cts = [ev.encrypt(source.vector(i, tensor.ravel())) for i in range(source.ciphertexts)]
    moved = relayout(ev, cts, source.layout, target.layout)
    for number, ct in enumerate(moved):
        np.testing.assert_allclose(ct.data, target.vector(number, tensor.ravel()), rtol=0, atol=1e-9)


def test_contiguous():
    dense = contiguous((3, 2, 4), SLOTS)
    assert dense.contiguous
    assert not dense.repeated(2).contiguous
    assert not grid((2, 4, 4), SLOTS, {"channels": 2, "pitch": 8, "row": 4, "segment": 2}).contiguous
    assert grid((1, 4, 4), SLOTS, {"channels": 1, "pitch": 8, "row": 4, "segment": 2}).contiguous


def test_copies_that_do_not_fit():
    dense = contiguous((5, 1, 4), SLOTS)
    with pytest.raises(ShapeError, match="at most 16 slots, got 20"):
        dense.repeated(4)
    with pytest.raises(ShapeError, match="a divisor of 64, got 3"):
        dense.repeated(3)
