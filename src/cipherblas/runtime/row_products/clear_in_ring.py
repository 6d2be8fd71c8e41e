"""Products of a clear matrix and rows that are placed, or came from ring elements: by polynomials."""

from __future__ import annotations

from cipherblas.evaluators.rows.values import ClearFactor, Rows
from cipherblas.forms.form import Placing
from cipherblas.lang.nodes import Expression
from cipherblas.methods.matmul.ring_elements import packed_elements, placed_elements, rows_of, spread
from cipherblas.methods.matmul.ring_weights import gathered_product, packed_product
from cipherblas.methods.products import RING
from cipherblas.runtime.executor import APART, OPERAND
from cipherblas.runtime.placing import Wish
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.clear_factors import ClearFactors
from cipherblas.runtime.row_products.kind import Request
from cipherblas.runtime.values import Value

LEAST_ROWS = 8  # of an element: with fewer a GEMM takes less than polynomials


class ClearInRing(ClearFactors):
    """By polynomials where rows are placed all over the ring, which multiplies them by as many as an element holds, or
    where they came from elements that hold many; else by GEMM."""

    name, method = "clear in ring", RING

    def request(
        self, run: RowPieces, product: Expression, wish: Wish, bounds: tuple[float, float]
    ) -> Request:
        return super().request(run, product, wish._replace(scale=wish.scale / growth(wish.placing)), bounds)

    def compute(self, run: RowPieces, product: Expression, wish: Wish, request: Request) -> Value:
        ((side, wished),) = request.wishes.items()
        x, factor = run.value(product.children[side], wished), request.factor.once()
        pieces = [_multiplied(run, product, factor, piece, wish.placing) for piece in x.handles]
        return run.result(product.shape, wish.by_columns, pieces, x.unit)


def spreads(placing: Placing | None) -> bool:
    """Whether rows that are wanted like this are computed packed, and then taken apart."""
    return placing is not None and placing.first is None and placing.each >= LEAST_ROWS


def growth(placing: Placing | None) -> float:
    """Of the scale: rows that are taken apart grow by as many as there were."""
    return placing.each if placing is not None and spreads(placing) else 1.0


def _multiplied(
    run: RowPieces, product: Expression, factor: ClearFactor, x: Rows, placing: Placing | None
) -> Rows:
    evs, n = run.run.evaluators, run.ev.n
    if placing is not None and spreads(placing):
        each, count = placing.each, factor.shape[0]
        with run.run.measured(product, OPERAND):
            elements = placed_elements(evs, x)
        packed = packed_product(evs, factor, elements, each)
        with run.run.measured(product, APART):
            return rows_of(evs, spread(evs, packed, each, 0, count), (count, n))
    each = n // x.shape[1]
    if placing is None and x.packed is not None and each >= LEAST_ROWS:
        found = gathered_product(evs, factor, packed_elements(evs, x), each, x.first)
        return rows_of(evs, found, (factor.shape[0], x.shape[1]), held=1)
    return run.ev.clear_product(factor, x)
