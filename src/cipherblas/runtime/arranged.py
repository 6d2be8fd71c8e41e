"""Computed matrices whose entries are put at other places: one linear transform of a block."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ShapeError
from cipherblas.forms.convert.relayout import relayout
from cipherblas.forms.form import SlotForm
from cipherblas.forms.layouts import EMPTY, Layout, SlotIndex
from cipherblas.lang.arrangements import Arrange
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.runtime.blocks import BLOCKS, BlockRun, Wish
from cipherblas.runtime.executor import computes
from cipherblas.runtime.values import Value


@computes(BLOCKS, "arrange")
def arrange(run: BlockRun, node: Expression, wish: Wish | None) -> Value:
    """One transform from the layout of the child to that of the node, each of one block. Levels: 1."""
    assert isinstance(node, Arrange)
    (child,) = node.children
    x = run.ready(run.value(child))
    layout = (wish or Wish()).layout or run.dense(node)
    form = run.form(node, layout)
    if x.slots.grid != (1, 1) or form.grid != (1, 1):
        raise ShapeError(
            f"The {node.title} is only computed where both fit one block.",
            expected="one block",
            got=f"{x.slots.grid} and {form.grid} blocks",
        )
    source = x.layout
    target = seen_from(source, layout, node)
    moved = run.blockwise("arrange", x, lambda ev, cts: relayout(ev, cts, source, target))
    return run.bounded(run.laid(node.shape, SlotForm(layout, (1, 1)), moved.cells, x.unit), node.bound)


def seen_from(source: Layout, layout: Layout, node: Arrange) -> Layout:
    """The layout of the node as one of the entries of its child, which lies in `source`."""
    before, after = matrix_shape(node.children[0]), matrix_shape(node)

    @functools.cache
    def entries() -> NDArray[np.int64]:
        """For every entry of a block, and for an empty slot, which comes last, the entry of the child's block."""
        places = node.index()
        rows, cols = np.divmod(places, before[1])
        found = np.full((layout.rows, layout.cols), EMPTY, dtype=np.int64)
        found[: after[0], : after[1]] = np.where(places >= 0, rows * source.cols + cols, EMPTY)
        return np.append(found.ravel(), EMPTY)

    def indexer(ciphertext: int) -> SlotIndex:
        index = layout.index(ciphertext)
        imag = None if index.imag is None else entries()[index.imag]
        return SlotIndex(entries()[index.real], imag, index.sign)

    key = ("arranged", layout.key, before, (source.rows, source.cols), node.steps)
    return replace(layout, key=key, rows=source.rows, cols=source.cols, indexer=indexer)
