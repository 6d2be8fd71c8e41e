"""Sums of products of what is repeated: Σ_j (a_ij + x_j)² is Σ_j a_ij² + 2 Σ_j a_ij x_j + Σ_j x_j².

Distances to clear points are written as the former, which multiplies a matrix by itself under encryption, and sends
copies of x for that; the latter is a product of a clear matrix and x.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cipherblas.lang.analysis import evaluate_clear, is_constant
from cipherblas.lang.arrangements import Arrange, first_of
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.operations import Add, Constant, Leaf, MatMul, Multiply, Scale
from cipherblas.lang.steps import Step


class Terms(NamedTuple):
    """A matrix whose secret part is the same row everywhere.

    Attributes:
        clear: what is added to the row; None for nothing.
        row: a secret vector; None for nothing.
    """

    clear: Expression | None
    row: Expression | None


def separated(node: Expression) -> Expression:
    """The graph with such sums taken apart; itself where there are none."""
    made: dict[int, Expression] = {}
    for current in ordered(node):
        found = _separated_sum(current)
        if found is None:
            parts = [made[id(child)] for child in current.children]
            same = all(one is other for one, other in zip(parts, current.children, strict=True))
            found = current if same else current.rebuilt(parts)
        made[id(current)] = found
    return made[id(node)]


def _separated_sum(node: Expression) -> Expression | None:
    """A vector of weighted sums along the rows of a product, taken apart; None for all other nodes."""
    if not isinstance(node, MatMul) or len(node.left.shape) != 2 or len(node.right.shape) != 1:
        return None
    product, weights, factor = node.left, node.right, 1.0
    if isinstance(product, Scale):
        product, factor = product.child, product.factor
    if not isinstance(product, Multiply) or not product.secret or weights.secret:
        return None
    left, right = _terms(product.left), _terms(product.right)
    if left is None or right is None or (left.clear is None and right.clear is None):
        return None
    if product.left is product.right:
        right = left
    found = _sum(left, right, weights, node.shape[0])
    return found if factor == 1.0 else found * factor


def _sum(left: Terms, right: Terms, weights: Expression, rows: int) -> Expression:
    terms: list[Expression] = []
    if left.clear is not None and right.clear is not None:
        terms.append(_known((left.clear * right.clear) @ weights))
    if left is right:
        if left.clear is not None and left.row is not None:
            terms.append(_known(2.0 * left.clear * weights) @ left.row)
    else:
        for clear, row in ((left.clear, right.row), (right.clear, left.row)):
            if clear is not None and row is not None:
                terms.append(_known(clear * weights) @ row)
    if left.row is not None and right.row is not None:
        weighed = left.row if _are_ones(weights) else left.row * weights
        terms.append(Arrange.of(weighed @ right.row, Step("broadcast", (rows,))))
    total, *others = terms
    for term in others:
        total = total + term
    return total


def _known(clear: Expression) -> Expression:
    """A part without secrets; without operands as a constant, of which more is known than the bound of its entries."""
    return Constant(evaluate_clear(clear, {})) if is_constant(clear) else clear


def _are_ones(weights: Expression) -> bool:
    return weights.tensor is not None and bool(np.all(weights.tensor == 1.0))


def _terms(node: Expression) -> Terms | None:
    """The terms of a matrix; None if more than one row of it is secret."""
    clear: Expression | None = None
    row: Expression | None = None
    for factor, term in _summands(node, 1.0):
        if not term.secret:
            clear = factor * term if clear is None else clear + factor * term
            continue
        one = _row(term)
        if one is None:
            return None
        row = factor * one if row is None else row + factor * one
    return Terms(clear, row)


def _summands(node: Expression, factor: float) -> list[tuple[float, Expression]]:
    if isinstance(node, Scale):
        return _summands(node.child, factor * node.factor)
    if isinstance(node, Add) and node.secret:
        return _summands(node.left, factor) + _summands(node.right, factor)
    return [(factor, node)]


def _row(node: Expression) -> Expression | None:
    """The row that all rows of an operand are; None where they differ."""
    if not isinstance(node, Leaf) or not node.repeated[0]:
        return None
    return Arrange.of(first_of(node, 0), Step("reshape", node.shape[1:]))
