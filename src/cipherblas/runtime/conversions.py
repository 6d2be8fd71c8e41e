"""Values that are computed in one form and asked for in another one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cipherblas.common.errors import ParameterError
from cipherblas.forms.blocks import grid_shape
from cipherblas.forms.convert.coefficients import Halves, Packing, rows_to_slots, slots_to_rows
from cipherblas.forms.slot_forms import SlotForm
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.methods.bootstrapping.refresh import bootstrapping_of
from cipherblas.rlwe.rings import low_limbs
from cipherblas.runtime.blocks import BLOCKS, BlockRun
from cipherblas.runtime.executor import CONVERSIONS, Conversion, Executor, Read, Steps
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.placing import RequiredRows
from cipherblas.runtime.rows import ROWS, RowRun
from cipherblas.runtime.values import Cells, Handles, Value

MAX_RESCALES = 2
STAGES = 2  # where nothing is decided
REFRESHED_SHARE = 0.9  # of the range of EvalMod, for what errors add to values


@dataclass(frozen=True)
class ConversionOptions:
    """How a value changes its form: stages of the transform, and limbs to drop before those from coefficients to
    slots, as after a product with rounded weights."""

    stages: int = STAGES
    rescales: int = 0

    @classmethod
    def of(cls, run: Executor, node: Expression) -> ConversionOptions:
        """As was decided about a node."""
        given = run.conversion_options(node)
        return cls(int(given.get("stages", cls.stages)), int(given.get("rescales", cls.rescales)))


def converts(source: str, target: str) -> Callable[[Conversion], Conversion]:
    """Enter a conversion: how values of one form become values of another one (a decorator).

    Raises:
        ParameterError: there is one.
    """

    def enter(conversion: Conversion) -> Conversion:
        if CONVERSIONS.setdefault((source, target), conversion) is not conversion:
            raise ParameterError(
                "A conversion between these forms exists already.",
                expected="other forms",
                got=f"{source} to {target}",
            )
        return conversion

    return enter


@converts(ROWS, BLOCKS)
def rows_to_blocks(run: Executor, node: Expression, required: Any) -> Steps[Value]:
    """Encrypted rows as blocks of r rows of d/2 entries, in units of the node's bound.

    In a program that refreshes they are refreshed on the way: they are at few limbs, and in coefficients already.
    """
    if run.refreshed:
        return (yield from _refreshed_blocks(run, node))
    rows, slots = _forms(run)
    ev, how = slots.ev, ConversionOptions.of(run, node)
    by_columns = _comes_by_columns(rows, slots, node)
    packing = packing_of(rows, node, by_columns, how.stages)
    # The scale of slots is that of the parameters at the end: over r·sqrt(S) before the tree and the stages, over two
    # before parts are separated.
    dropped = math.prod(float(ev.params.q[ev.top_limbs - 1 - number]) for number in range(how.rescales))
    growth = 2 * packing.rows_per_element * math.sqrt(packing.slots)
    scale = 2.0**ev.params.scale_bits * dropped / growth / node.bound
    value = yield from Read(node, ROWS, RequiredRows(by_columns, scale), use=False)
    rescales = how.rescales

    def converted(context: RunContext, pieces: Handles) -> list[list[Halves]]:
        return [rows_to_slots(context.evaluators, piece, packing, rescales) for piece in pieces]

    return _as_blocks(slots, node, by_columns, packing, value, converted)


def _refreshed_blocks(run: Executor, node: Expression) -> Steps[Value]:
    """Encrypted rows as blocks with all levels, whose rescale is that of the limbs above the first."""
    rows, slots = _forms(run)
    ev, by_columns = slots.ev, _comes_by_columns(rows, slots, node)
    packing = packing_of(rows, node, by_columns, STAGES)
    method, dropped = bootstrapping_of(ev.params), low_limbs(ev.params) - 1
    last = math.prod(map(float, ev.params.q[1 : 1 + dropped]))
    scale = REFRESHED_SHARE * method.largest(ev) * last / packing.rows_per_element / node.bound
    value = yield from Read(node, ROWS, RequiredRows(by_columns, scale), use=False)
    widths = [min(stop, value.rows.shape[1]) - start for start, stop in value.rows.pieces]

    def refreshed(context: RunContext, pieces: Handles) -> list[list[Halves]]:
        return [
            method.of_rows(context.evaluators, piece, packing, dropped, width)
            for piece, width in zip(pieces, widths, strict=True)
        ]

    return _as_blocks(slots, node, by_columns, packing, value, refreshed)


def _comes_by_columns(rows: RowRun, slots: BlockRun, node: Expression) -> bool:
    """How rows come that become blocks: as products are by themselves, or as those that follow want them."""
    found = rows.orientation(node)
    return slots.wanted_by_columns.get(id(node), False) if found is None else found


def _as_blocks(
    slots: BlockRun,
    node: Expression,
    by_columns: bool,
    packing: Packing,
    value: Value,
    converted: Callable[[RunContext, Handles], list[list[Halves]]],
) -> Value:
    """The blocks of a value that was by rows, in units of the node's bound."""
    layout = packing.layout(by_columns)
    grid, factor = grid_shape(*matrix_shape(node), layout.rows, layout.cols), abs(value.unit) / node.bound

    def work(context: RunContext, cells: Cells) -> list[list[Handles]]:
        ev, pieces = context.slots, converted(context, cells[0][0])

        def block(i: int, j: int) -> Handles:
            element, half = (j, i) if by_columns else (i, j)
            ct = pieces[half // 2][element][half % 2]
            assert ct is not None
            return [ev.bounded(ev.fold_into_scale(ct, factor), 1.0)]

        return [[block(i, j) for j in range(grid[1])] for i in range(grid[0])]

    made = slots.run.perform("rows to blocks", [value.cells], work)
    return slots.laid(node.shape, SlotForm(layout, grid), made, math.copysign(node.bound, value.unit))


def _forms(run: Executor) -> tuple[RowRun, BlockRun]:
    rows, slots = run.form_run(ROWS), run.form_run(BLOCKS)
    assert isinstance(rows, RowRun) and isinstance(slots, BlockRun)
    return rows, slots


@converts(BLOCKS, ROWS)
def blocks_to_rows(run: Executor, node: Expression, required: RequiredRows) -> Steps[Value]:
    """Blocks as encrypted rows, by rows or by columns, whichever needs less; their limbs are what is left, and so is
    their scale where it need not match another one."""
    rows, slots = _forms(run)
    how = ConversionOptions.of(run, node)
    value = slots.normalised((yield from Read(node, BLOCKS, use=False)))
    packings = {
        by: packing_of(rows, node, by, how.stages) for by in (required.by_columns, not required.by_columns)
    }
    lies = (by for by, packing in packings.items() if packing.layout(by).key == value.layout.key)
    by_columns = next(lies, required.by_columns)
    packing = packings[by_columns]
    value = slots.relaid(value, packing.layout(by_columns), node.bound)
    length, height = matrix_shape(node)[:: -1 if not by_columns else 1]
    halves = -(-length // (packing.degree // 2))

    # In a program that refreshes, rows have few limbs, and values the scale that is best there.
    scale = required.scale * abs(value.unit) if required.matched or run.refreshed else None
    if run.refreshed:
        value = slots.lowered_to(slots.rescaled(value), rows.basis.limbs + packing.stages)
    low, unit, bound = run.refreshed, abs(value.unit), node.bound

    def work(context: RunContext, cells: Cells) -> list[list[Handles]]:
        def cell(element: int, half: int) -> Any:
            row, col = (half, element) if by_columns else (element, half)
            return cells[row][col][0]

        pieces = []
        for piece in range(-(-length // packing.degree)):
            pairs = [
                Halves(
                    cell(element, 2 * piece),
                    cell(element, 2 * piece + 1) if 2 * piece + 1 < halves else None,
                )
                for element in range(-(-height // packing.rows))
            ]
            found = slots_to_rows(context.evaluators, pairs, height, packing, scale, low=low)
            pieces.append(context.rows.bounded(context.rows.fold_into_scale(found, unit), bound))
        return [[pieces]]

    made = run.perform("blocks to rows", [value.cells], work)
    result = rows.result(node.shape, by_columns, made, math.copysign(1.0, value.unit))
    return result if by_columns == required.by_columns else rows.transposed(result)


def packing_of(rows: RowRun, node: Expression, by_columns: bool, stages: int) -> Packing:
    """How the rows, or the columns, of a node share ring elements."""
    length = matrix_shape(node)[0 if by_columns else 1]
    return Packing.of_length(rows.run.evaluators.slots.params, length, stages)
