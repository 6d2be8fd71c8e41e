"""Computed matrices whose entries are put at other places: one linear transform of all blocks."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.forms.convert.relayout import masks_of, relayout
from cipherblas.forms.layouts import EMPTY, Layout, SlotIndex
from cipherblas.lang.arrangements import Arrange
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.runtime import schedule
from cipherblas.runtime.blocks import BLOCKS, BlockRun, RequiredBlocks
from cipherblas.runtime.executor import Steps, computes
from cipherblas.runtime.features import taken
from cipherblas.runtime.graphs import blockwise_graph
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.values import Cells, Handles, Value, handles_of

# Ciphertexts that a value is arranged from, and into, however many masks that takes. Of more the masks are bounded,
# each of them a plaintext of its own: those of a transpose are more than memory keeps, those of a slice are few.
FEW_ARRANGED = 32
MAX_MASKS = 1 << 11


@computes(BLOCKS, "arrange")
def arrange(run: BlockRun, node: Expression, required: RequiredBlocks | None) -> Steps[Value]:
    """One transform from the ciphertexts of the child to those of the node. Levels: 1; none of features, some of which
    are taken."""
    assert isinstance(node, Arrange)
    (child,) = node.children
    if run.of_features:
        return taken(run, node, (yield from run.read(child)))
    x = run.rescaled((yield from run.read(child)))
    form = run.form(node, (required or RequiredBlocks()).layout or run.dense(node))
    source, target = places_of(x.layout, x.slots.grid, form.layout, form.grid, node)

    def moved(ev: Evaluator, cts: Handles) -> Handles:
        return relayout(ev, cts, source, target)

    graph, (rows, cols), each = blockwise_graph("arrange", moved, (1, 1)), form.grid, form.layout.ciphertexts

    def work(context: RunContext, cells: Cells) -> list[list[Handles]]:
        (((found,),),) = schedule.run(graph, context.slots, [[[handles_of(cells)]]])
        blocks = [found[start : start + each] for start in range(0, len(found), each)]
        return [blocks[row * cols : (row + 1) * cols] for row in range(rows)]

    moved_cells = run.run.perform("arrange", [x.cells], work)
    return run.bounded(run.laid(node.shape, form, moved_cells, x.unit), node.bound)


def places_of(
    layout: Layout, grid: tuple[int, int], after: Layout, grid_after: tuple[int, int], node: Arrange
) -> tuple[Layout, Layout]:
    """How a transform sees the child of a node, in blocks of a layout, and the node: as one block each, of the same
    entries.

    Raises:
        FitError: they are many ciphertexts, and take too many masks.
    """
    source, made = of_grid(layout, grid), of_grid(after, grid_after)
    target = seen_from(source, made, node)
    if max(source.ciphertexts, made.ciphertexts) > FEW_ARRANGED:
        masks = sum(masks_of(source, target))
        if masks > MAX_MASKS:
            raise FitError(
                f"The {node.title} takes too many masks.",
                expected=f"at most {MAX_MASKS}",
                got=masks,
                advice="the value, and what is arranged of it, in programs of their own",
            )
    return source, target


def of_grid(layout: Layout, grid: tuple[int, int]) -> Layout:
    """A grid of blocks as one block, whose ciphertexts are those of all of them, row after row."""
    if grid == (1, 1):
        return layout
    rows, cols = grid[0] * layout.rows, grid[1] * layout.cols

    def indexer(number: int) -> SlotIndex:
        block, ciphertext = divmod(number, layout.ciphertexts)
        row, col = divmod(block, grid[1])
        first, index = row * layout.rows * cols + col * layout.cols, layout.index(ciphertext)

        def moved(entries: NDArray[np.int64]) -> NDArray[np.int64]:
            down, along = np.divmod(entries, layout.cols)
            return np.where(entries == EMPTY, EMPTY, first + down * cols + along)

        return SlotIndex(moved(index.real), None if index.imag is None else moved(index.imag), index.sign)

    ciphertexts = grid[0] * grid[1] * layout.ciphertexts
    key = ("grid", layout.key, grid)
    return replace(layout, key=key, rows=rows, cols=cols, ciphertexts=ciphertexts, indexer=indexer)


def seen_from(source: Layout, layout: Layout, node: Arrange) -> Layout:
    """The layout of a node, of one block, as one of the entries of its child, which lies in `source`."""
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
