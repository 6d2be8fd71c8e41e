"""Values by rows that lie beside one another as one, and parts of one: rows of an encryption, which are free."""

from __future__ import annotations

from typing import Any

from cipherblas.common.errors import MismatchError
from cipherblas.lang.joins import JOINED, PART, Joined, Part
from cipherblas.lang.nodes import Expression
from cipherblas.runtime.executor import computes
from cipherblas.runtime.placing import Wish
from cipherblas.runtime.rows import ROWS, RowRun
from cipherblas.runtime.values import Value


@computes(ROWS, JOINED)
def joined(run: RowRun, node: Expression, wish: Wish) -> Value:
    """Their rows one below the other, at the limbs of the one that has fewest. One that was in slots and has a scale of
    its own comes first, and the others are brought to that."""
    assert isinstance(node, Joined)
    ev, by_columns = run.ev, node.axis == 1
    own = wish._replace(by_columns=by_columns)
    order = sorted(range(len(node.children)), key=lambda place: run.order(node.children[place]))
    found: dict[int, Value] = {}
    for place in order:
        child = node.children[place]
        found[place] = run.value(child, own)
        if not run.run.refreshed and run.own_scale(child) is not None:
            first = found[place].first()
            own = Wish(by_columns, first.scale / abs(found[place].unit), first.limbs, matched=True)
    values = [found[place] for place in range(len(node.children))]
    if len({value.unit < 0 for value in values}) > 1:
        raise MismatchError(
            "Matrices that are joined must have units of one sign.",
            expected="one sign",
            got=[value.unit for value in values],
        )
    limbs = min(value.first().limbs for value in values)

    def rows(value: Value, piece: int) -> Any:
        handle = ev.drop(value.handles[piece], limbs)
        return handle if abs(value.unit) == 1 else ev.absorb(handle, abs(value.unit))

    pieces = [ev.stack([rows(value, piece) for value in values]) for piece in range(len(values[0].handles))]
    result = run.result(node.shape, by_columns, pieces, -1.0 if values[0].unit < 0 else 1.0)
    return result if by_columns == wish.by_columns else run.turned(result)


@computes(ROWS, PART)
def part(run: RowRun, node: Expression, wish: Wish) -> Value:
    """Some rows of the encryption of the whole, which is computed once for all parts that are wanted alike."""
    assert isinstance(node, Part)
    by_columns = node.axis == 1
    x = run.value(node.x, wish._replace(by_columns=by_columns))
    pieces = [run.ev.rows_of(piece, node.start, node.stop) for piece in x.handles]
    result = run.result(node.shape, by_columns, pieces, x.unit)
    return result if by_columns == wish.by_columns else run.turned(result)
