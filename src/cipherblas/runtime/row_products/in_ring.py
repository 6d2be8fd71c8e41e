"""Which products of a program with a ring of rows of its own are best ones of ring elements."""

from __future__ import annotations

from collections.abc import Callable

from cipherblas.lang.facts import products
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.rlwe.matrices.matrix import bit_ceil
from cipherblas.runtime.blocks import BLOCKS
from cipherblas.runtime.placing import comes_by_columns, comes_from, factor_of, placeable
from cipherblas.runtime.row_products.clear_in_ring import MIN_ROWS

MAX_GROUPS = 8  # of entries of a factor of a product of ring elements, each of which takes rows of its own


def products_in_ring(
    program: Expression, degree: int | None, form_of: Callable[[Expression], str]
) -> set[int]:
    """The products of ring elements, by their nodes' identities: of secrets; of clear factors and what these place,
    or what comes from blocks, where a ring element holds many rows.

    Args:
        degree: of the ring of rows, where that is one of its own.
        form_of: the form of each node.
    """
    found: set[int] = set()
    if degree is None:
        return found
    most = degree // MIN_ROWS  # entries of a row
    for node in products(program):
        entries = _entries(node, degree, form_of)
        if entries is not None:
            factors = [factor_of(child) for child in node.children if placeable(child)]
            clear = {id(one) for one in factors if one is not None and _of_operand(one)}
            found |= {id(node), *(clear if entries <= most else ())}
        elif has_clear_factor(node):
            secret = next(child for child in node.children if child.secret)
            length = matrix_shape(node)[0 if node.children[0].secret else 1]
            if max(2, bit_ceil(length)) <= most and comes_from(secret, BLOCKS, form_of):
                found.add(id(node))
    return found


def _entries(product: Expression, own: int, form_of: Callable[[Expression], str]) -> int | None:
    """Entries of a row where a product of secrets is one of ring elements: of factors that the client places, or of
    one and what comes from blocks, at not too many times the rows; else None."""
    left, right = product.children
    if not (left.secret and right.secret):
        return None
    rows, cols = matrix_shape(product)
    inner = matrix_shape(left)[1]
    both = placeable(left), placeable(right)
    from_blocks = [comes_from(child, BLOCKS, form_of) for child in (left, right)]
    orientations = [comes_by_columns(child) for child in (left, right)]
    if all(both):
        fits, lengths = (
            orientations[0] is not False and orientations[1] is not True,
            (max(rows, cols), max(rows, cols)),
        )
    elif from_blocks[0] and both[1]:
        fits, lengths = orientations[1] is not False, (rows, inner)
    elif from_blocks[1] and both[0]:
        fits, lengths = orientations[0] is not True, (cols, inner)
    else:
        return None
    degree = max(2, bit_ceil(lengths[0]))
    few = degree <= own and lengths[1] * degree <= MAX_GROUPS * own
    return degree if fits and few else None


def _of_operand(product: Expression) -> bool:
    """Whether a product is one of a clear factor and an operand: products of several clear factors leave no scale for
    rows that are taken apart, which grow by as many as there were."""
    return has_clear_factor(product) and all(child.packable or not child.secret for child in product.children)


def has_clear_factor(product: Expression) -> bool:
    """Whether one factor of a product is clear."""
    return sum(child.secret for child in product.children) == 1
