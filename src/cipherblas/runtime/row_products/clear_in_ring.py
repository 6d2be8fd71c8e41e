"""Products of a clear matrix and rows that are placed, or came from ring elements: by polynomials."""

from __future__ import annotations

from cipherblas.forms.row_forms import Placing
from cipherblas.lang.nodes import Expression
from cipherblas.methods.matmul.ring_elements import packed_elements, placed_elements, rows_of, spread
from cipherblas.methods.matmul.ring_weights import gathered_product, packed_product
from cipherblas.methods.products import RING
from cipherblas.runtime.executor import EXTRACTION, OPERAND, Steps
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.placing import RequiredRows
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.clear_factors import ClearFactors
from cipherblas.runtime.row_products.kind import Factor, FactorRequest
from cipherblas.runtime.values import Cells, Handles, Value

MIN_ROWS = 8  # of an element: with fewer a GEMM takes less than polynomials


class ClearInRing(ClearFactors):
    """By polynomials where rows are placed all over the ring, which multiplies them by as many as an element holds, or
    where they came from elements that hold many; else by GEMM."""

    name, method = "clear in ring", RING

    def request(
        self, run: RowPieces, product: Expression, required: RequiredRows, bounds: tuple[float, float]
    ) -> FactorRequest:
        return super().request(
            run, product, required._replace(scale=required.scale / growth(required.placing)), bounds
        )

    def compute(
        self, run: RowPieces, product: Expression, required: RequiredRows, request: FactorRequest
    ) -> Steps[Value]:
        ((side, requested),) = request.requirements.items()
        x, placing = (yield from run.read(product.children[side], requested)), required.placing
        multiplied = _placed if placing is not None and spreads(placing) else _packed
        cells = multiplied(run, product, request.factor, x, placing)
        return run.result(product.shape, required.by_columns, cells, x.unit)


def spreads(placing: Placing | None) -> bool:
    """Whether rows that are wanted like this are computed packed, and then taken apart."""
    return placing is not None and placing.first is None and placing.each >= MIN_ROWS


def growth(placing: Placing | None) -> float:
    """Of the scale: rows that are taken apart grow by as many as there were."""
    return placing.each if placing is not None and spreads(placing) else 1.0


def _placed(run: RowPieces, product: Expression, factor: Factor, x: Value, placing: Placing | None) -> Cells:
    """By polynomials, and then taken apart."""
    assert placing is not None
    each, n, count = placing.each, run.ev.n, factor(run.inputs).shape[0]
    with run.run.timed_separately(product, OPERAND):
        elements = as_elements(run, x.cells)

    def multiplied(context: RunContext, ones: Handles) -> Handles:
        known = factor(context.inputs).once()
        return [packed_product(context.evaluators, known, one, each) for one in ones]

    packed = run.made("multiply", [elements], multiplied)

    def extracted(context: RunContext, ones: Handles) -> Handles:
        evs = context.evaluators
        return [rows_of(evs, spread(evs, one, each, 0, count), (count, n)) for one in ones]

    with run.run.timed_separately(product, EXTRACTION):
        return run.made("take apart", [packed], extracted)


def as_elements(run: RowPieces, cells: Cells) -> Cells:
    """Placed rows as ring elements, with their errors."""
    return run.made(
        "as elements",
        [cells],
        lambda context, pieces: [placed_elements(context.evaluators, piece) for piece in pieces],
    )


def _packed(run: RowPieces, product: Expression, factor: Factor, x: Value, placing: Placing | None) -> Cells:
    """By polynomials where rows came from elements that hold many, else by GEMM."""
    n = run.ev.n

    def multiplied(context: RunContext, pieces: Handles) -> Handles:
        evs, known, found = context.evaluators, factor(context.inputs).once(), []
        for piece in pieces:
            each = n // piece.shape[1]
            if placing is None and piece.packed is not None and each >= MIN_ROWS:
                elements = gathered_product(evs, known, packed_elements(evs, piece), each, piece.first)
                found.append(rows_of(evs, elements, (known.shape[0], piece.shape[1]), held=1))
            else:
                found.append(context.rows.clear_product(known, piece))
        return found

    return run.made("multiply", [x.cells], multiplied)
