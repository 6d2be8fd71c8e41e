"""Values by rows that lie beside one another as one, and parts of one: rows of an encryption, which are free."""

from __future__ import annotations

from typing import Any

from cipherblas.common.errors import UnmatchedError
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.lang.joins import JOINED, PART, Joined, Part
from cipherblas.lang.nodes import Expression
from cipherblas.runtime.executor import Steps, computes
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.placing import RequiredRows
from cipherblas.runtime.rows import ROWS, RowRun
from cipherblas.runtime.values import Handles, Value


@computes(ROWS, JOINED)
def joined(run: RowRun, node: Expression, required: RequiredRows) -> Steps[Value]:
    """Their rows one below the other, at the limbs of the one that has fewest. One that was in slots and has a scale of
    its own comes first, and the others are brought to that."""
    assert isinstance(node, Joined)
    by_columns = node.axis == 1
    own = required._replace(by_columns=by_columns)
    order = sorted(range(len(node.children)), key=lambda place: run.order(node.children[place]))
    found: dict[int, Value] = {}
    for place in order:
        child = node.children[place]
        found[place] = yield from run.read(child, own)
        if not run.run.refreshed and run.own_scale(child) is not None:
            first = found[place].first()
            own = RequiredRows(by_columns, first.scale / abs(found[place].unit), first.basis, matched=True)
    values = [found[place] for place in range(len(node.children))]
    if len({value.unit < 0 for value in values}) > 1:
        raise UnmatchedError(
            "Matrices that are joined must have units of one sign.",
            expected="one sign",
            got=[value.unit for value in values],
        )
    limbs = min(value.first().limbs for value in values)

    units = [abs(value.unit) for value in values]

    def rows(ev: RowsEvaluator, handle: Any, unit: float) -> Any:
        handle = ev.drop(handle, limbs)
        return handle if unit == 1 else ev.fold_into_scale(handle, unit)

    def stacked(context: RunContext, *parts: Handles) -> Handles:
        ev = context.rows
        return [
            ev.stack([rows(ev, one, unit) for one, unit in zip(piece, units, strict=True)])
            for piece in zip(*parts, strict=True)
        ]

    cells = run.made("stack", [value.cells for value in values], stacked)
    result = run.result(node.shape, by_columns, cells, -1.0 if values[0].unit < 0 else 1.0)
    return result if by_columns == required.by_columns else run.transposed(result)


@computes(ROWS, PART)
def part(run: RowRun, node: Expression, required: RequiredRows) -> Steps[Value]:
    """Some rows of the encryption of the whole, which is computed once for all parts that are wanted alike."""
    assert isinstance(node, Part)
    by_columns = node.axis == 1
    x = yield from run.read(node.x, required._replace(by_columns=by_columns))
    start, stop = node.start, node.stop
    rows = run.mapped("take rows", x, lambda ev, piece: ev.rows_of(piece, start, stop))
    result = run.result(node.shape, by_columns, rows.cells, x.unit)
    return result if by_columns == required.by_columns else run.transposed(result)
