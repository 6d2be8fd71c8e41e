"""Products of two encrypted matrices: four GEMMs for each limb, and key switches (`methods.matmul.gemm`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cipherblas.lang.facts import operands_of
from cipherblas.lang.graph import same
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.methods.matmul.gemm import secret_product
from cipherblas.rlwe.basis import OPERAND_BASIS, Basis
from cipherblas.rlwe.counts import Counts
from cipherblas.runtime.executor import Steps
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.placing import UNMOVED, RequiredRows
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.kind import FactorRequest, RowProduct
from cipherblas.runtime.row_products.known import keeps, know_sums
from cipherblas.runtime.values import Handles, Value


class SecretFactors(RowProduct):
    """The left factor is wanted by columns and the right one by rows: (M1 M2)ᵀ = M2ᵀ M1ᵀ by rows is M1 M2 by
    columns."""

    name = "secret"

    @classmethod
    def applies(cls, product: Expression, program: Expression) -> bool:
        return all(child.secret for child in product.children)

    def request(
        self, run: RowPieces, product: Expression, required: RequiredRows, bounds: tuple[float, float]
    ) -> FactorRequest:
        """Both at scales that fill the modulus together; where operands have moduli of their own, modulo these."""
        left, right = product.children
        scale, basis = _before_switch(run, required)
        root = run.ev.policy.row_root(scale)
        if root is not None and right.packable and not run.mixed and same(left.T, right):
            # Xᵀ X: one encryption of X serves for both
            return FactorRequest({1: RequiredRows(False, root, basis)})
        scales = run.ev.policy.row_factors(scale, bounds, unswitched(product))
        return FactorRequest({side: RequiredRows(side == 0, scales[side], basis) for side in (0, 1)})

    def compute(
        self, run: RowPieces, product: Expression, required: RequiredRows, request: FactorRequest
    ) -> Steps[Value]:
        if len(request.requirements) == 1:
            x = y = yield from run.read(product.children[1], request.requirements[1])
        else:
            x, y = yield from _factors(run, product, request.requirements, required)
        return pieces_product(run, product, required, x, y)

    def counts(self, product: Expression, n: int, limbs: int) -> Counts:
        """Of the exact GEMMs of both parts of both factors."""
        (rows, cols), inner = matrix_shape(product), product.children[0].shape[1]
        return Counts(modular_macs=(n + rows) * inner * (n + cols) * limbs)

    def scale(self, run: RowPieces, product: Expression, known: Sequence[float]) -> float:
        return math.prod(known)


def unswitched(product: Expression) -> tuple[bool, bool]:
    """The factors of a product that are encryptions of operands, or sums and multiples of some."""
    left, right = product.children
    return _is_unswitched(left), _is_unswitched(right)


def _is_unswitched(node: Expression) -> bool:
    while not node.packable:
        if node.op == "add":
            return all(_is_unswitched(child) for child in node.children if child.secret)
        if node.op not in UNMOVED:
            return False
        (node,) = node.children
    return True


def _before_switch(run: RowPieces, required: RequiredRows) -> tuple[Any, Basis | None]:
    """Scale and basis of the product of both factors, before it is switched from the moduli of operands."""
    if run.ev.params.operand_moduli is None:
        return required.scale, required.basis
    return run.ev.policy.before_switch(required.scale, OPERAND_BASIS, run.basis), OPERAND_BASIS


def _factors(
    run: RowPieces, product: Expression, requirements: Mapping[int, RequiredRows], required: RequiredRows
) -> Steps[tuple[Value, Value]]:
    """Both factors of a product; what was in slots comes first: operands have its basis."""
    found: dict[int, Value] = {}
    for side in sorted(requirements, key=lambda side: run.mixed and run.order(product.children[side])):
        own = requirements[side]
        if run.mixed and found:
            first = next(iter(found.values())).first()
            own = own._replace(basis=first.basis)
            if required.matched:
                scale, _ = _before_switch(run, required)
                own = own._replace(scale=scale / first.scale, matched=True)
        found[side] = yield from run.read(product.children[side], own)
    return run.at_equal_limbs(found[0], found[1])


def pieces_product(run: RowPieces, product: Expression, required: RequiredRows, x: Value, y: Value) -> Value:
    """The products of the pieces of both factors."""
    left, right = product.children
    known = x is not y and not any(value.rows.cut[1] for value in (x, y))
    units, by_columns = (abs(x.unit), abs(y.unit)), required.by_columns
    first, second = (y, x) if by_columns else (x, y)
    independent, rows = not operands_of(left) & operands_of(right), first.rows.shape[1]
    run.ev.spend(run.ev.product_steps * len(first.handles) * len(second.handles), "products of pieces")

    def multiplied(context: RunContext, xs: Handles, ys: Handles) -> Handles:
        ev, most = context.rows, math.inf
        if known:
            know_sums(xs, units[0], left, left.row_sum)
            know_sums(ys, units[1], right, right.column_sum)
            if keeps(xs, units[0], left) and keeps(ys, units[1], right):
                most = product.bound / (units[0] * units[1])
        firsts, seconds = (ys, xs) if by_columns else (xs, ys)
        return [
            ev.rows_of(
                ev.stack(
                    [secret_product(ev, row_piece, col_piece, independent, most) for row_piece in firsts]
                ),
                *(0, rows),
            )
            for col_piece in seconds
        ]

    cut = first.rows.cut[1], second.rows.cut[1]
    cells = run.made("multiply", [x.cells, y.cells], multiplied)
    return run.result(product.shape, by_columns, cells, x.unit * y.unit, cut)
