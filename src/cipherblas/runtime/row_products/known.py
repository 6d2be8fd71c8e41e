"""What a program knows of the factors of products by rows beside the bounds of their entries."""

from __future__ import annotations

import math

from cipherblas.lang.analysis import is_constant
from cipherblas.lang.nodes import Expression
from cipherblas.runtime.slots import KNOWN_BELOW
from cipherblas.runtime.values import Handles


def known_norm(node: Expression) -> float:
    """The norm of a matrix, where more is known of it than follows from the bound of its entries."""
    usual = KNOWN_BELOW * node.bound * math.sqrt(math.prod(node.shape))
    return node.norm if node.norm < usual and not is_constant(node) else math.inf


def keeps(pieces: Handles, unit: float, node: Expression) -> bool:
    """Whether what the program knows of a node holds for the messages of its value: errors are no part of them."""
    return all(piece.bound <= node.bound / unit for piece in pieces)


def known_most(product: Expression, pieces: Handles, unit: float, secret: Expression) -> float:
    """Return a bound on the entries of a product with a clear factor, in units of its secret factor's value; its norm
    is known from here on.

    Args:
        pieces, unit: of the value of `secret`.
    """
    if not keeps(pieces, unit, secret):
        return math.inf
    for piece in pieces:
        piece.norm = known_norm(secret) / unit
    return product.bound / unit


def know_sums(pieces: Handles, unit: float, node: Expression, known: float) -> None:
    """Bounds on the sums over the inner dimension of a factor, and on its norm."""
    if keeps(pieces, unit, node):
        norm = known_norm(node)
        for piece in pieces:
            piece.column_sum, piece.norm = known / unit, norm / unit
