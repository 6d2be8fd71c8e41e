"""What a program knows of the factors of products by rows beside the bounds of their entries."""

from __future__ import annotations

import math

from cipherblas.lang.analysis import is_constant
from cipherblas.lang.nodes import Expression
from cipherblas.runtime.slots import KNOWN_BELOW
from cipherblas.runtime.values import Value


def known_norm(node: Expression) -> float:
    """The norm of a matrix, where more is known of it than follows from the bound of its entries."""
    usual = KNOWN_BELOW * node.bound * math.sqrt(math.prod(node.shape))
    return node.norm if node.norm < usual and not is_constant(node) else math.inf


def keeps(value: Value, node: Expression) -> bool:
    """Whether what the program knows of a node holds for the messages of its value: errors are no part of them."""
    return all(piece.bound <= node.bound / abs(value.unit) for piece in value.handles)


def known_most(product: Expression, value: Value, secret: Expression) -> float:
    """What no entry of a product with a clear factor exceeds, in units of its secret one's value, of which the norm is
    known from here on."""
    if not keeps(value, secret):
        return math.inf
    for piece in value.handles:
        piece.norm = known_norm(secret) / abs(value.unit)
    return product.bound / abs(value.unit)


def know_sums(value: Value, node: Expression, known: float) -> None:
    """What the program knows of the sums over the inner dimension of a factor, and of its norm."""
    if keeps(value, node):
        unit, norm = abs(value.unit), known_norm(node)
        for piece in value.handles:
            piece.column_sum, piece.norm = known / unit, norm / unit
