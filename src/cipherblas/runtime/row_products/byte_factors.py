"""Products of exact integers that are computed byte by byte (`forms.byte_rows`): the client puts them together."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from cipherblas.common.gemm_paths import MAX_BYTE_VALUE
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.forms import byte_rows
from cipherblas.forms.row_forms import ByteRowForm
from cipherblas.lang.analysis import integral_nodes
from cipherblas.lang.exact import is_exact
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.results import results_of
from cipherblas.runtime.placing import RequiredRows
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.kind import FactorRequest, Variant, refuse


class ByteFactors(Variant):
    """Factors of two bytes are cut into them; where both are secret, the client cuts operands."""

    name = "bytes"
    explained = ("factors", "of two bytes, each by itself: the client puts the products together")

    @classmethod
    def applies(cls, product: Expression, program: Expression) -> bool:
        return any(sides_of(product, program))

    @classmethod
    def considered(cls, program: Expression, rounded_alone: bool) -> bool:
        return rounded_alone

    @classmethod
    def taken(cls, run: RowPieces, product: Expression) -> bool:
        if run.mixed or not super().taken(run, product):
            raise refuse(
                product,
                "A product is decided to be one with the bytes of its factors, which only results of exact 16-bit "
                "integers may be.",
                "a result of exact integers, of a clear factor of two bytes, or of operands",
            )
        return True

    def request(
        self, run: RowPieces, product: Expression, required: RequiredRows, bounds: tuple[float, float]
    ) -> FactorRequest:
        """Products with bytes are smaller than those with words, and their scale is as much larger."""
        sides = sides_of(product, run.run.node)
        left, right = (
            float(byte_rows.OFFSET) if cut else bound for cut, bound in zip(sides, bounds, strict=True)
        )
        growth = product.children[0].shape[-1] * left * right / product.bound
        found = self.beneath.request(
            run, product, required._replace(scale=required.scale / growth), (left, right)
        )
        factor = found.clear
        if factor is not None:
            return replace(found, clear=lambda inputs: _in_bytes(factor(inputs)), in_bytes=True)
        digits = {
            side: required._replace(kind=ByteRowForm)
            for side, required in found.requirements.items()
            if sides[side]
        }
        return replace(found, requirements={**found.requirements, **digits})


class Sides(NamedTuple):
    """Factors of a product that are cut into bytes."""

    left: bool = False
    right: bool = False


def sides_of(product: Expression, program: Expression) -> Sides:
    """The factors of a product that may be cut into bytes.

    It is a result of a program of exact integers, which the client puts together, or a result is a multiple of it, and
    it is no factor or term of anything else. Of two secret factors both are operands, which the client cuts; of others
    the clear one is cut.
    """
    if not is_exact(program) or not _is_result_alone(product, program):
        return Sides()
    return Sides(*(_may_be_cut(product, child) for child in product.children))


def _is_result_alone(product: Expression, program: Expression) -> bool:
    """Whether a product is a result, or a result a multiple of it, and nothing else is made of it."""
    results, uses = results_of(program), facts_of(program).uses

    def used(node: Expression) -> int:  # but for the root of several results
        return uses[id(node)] - program.root * sum(node is other for other in program.children)

    for result in results:
        node, most = result, 0
        while node.op == "scale" and used(node) <= most:
            node, most = node.children[0], 1
        own = node is result or all(node is not other for other in results)
        if node is product and used(node) <= most and own:
            return True
    return False


def _may_be_cut(product: Expression, factor: Expression) -> bool:
    secrets = all(child.secret and child.operand is not None for child in product.children)
    return (secrets or not factor.secret) and has_two_bytes(factor)


def has_two_bytes(node: Expression) -> bool:
    """Whether the entries of a matrix are 16-bit integers, and not of 8 bits."""
    return integral_nodes(node)[id(node)] and MAX_BYTE_VALUE < node.bound <= byte_rows.MAX_VALUE


def _in_bytes(factor: ClearFactor) -> ClearFactor:
    """The bytes of a factor, as rows of one, of which nothing else is known; products of bytes are exact."""
    return replace(
        factor,
        key=(factor.key, "bytes"),
        shape=(byte_rows.rows_of(factor.shape[0]), factor.shape[1]),
        bound=float(byte_rows.OFFSET),
        integers=lambda: byte_rows.in_bytes(factor.integers()),
        row_sum=math.inf,
        norm=math.inf,
        rounding=0.0,
    )
