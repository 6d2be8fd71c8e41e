"""What an arrangement of a matrix product is: a product of arranged factors, where it is one."""

from __future__ import annotations

from typing import Any

import numpy as np

from cipherblas.lang.nodes import OPERATIONS, Expression
from cipherblas.lang.steps import Step


def arranged_product(product: Expression, step: Step) -> Expression | None:
    """The arranged product as an expression of its factors; None where entries of different rows and columns mix."""
    if step.kind in ("slice", "pad", "take"):
        return _of_rows_and_columns(product, step)
    if step.kind == "transpose":
        return product.T
    if step.kind == "reshape":
        return _reshaped(product, step.arguments)
    if step.kind == "broadcast":
        return _broadcast(product, step.arguments)
    if step.kind == "diagonal":
        return _diagonal(product, step.arguments[0])
    return None


def _at(node: Expression, kind: str, *arguments: Any) -> Expression:
    return OPERATIONS["arrange"].of(node, Step(kind, arguments))


def _times(left: Expression, right: Expression) -> Expression:
    return OPERATIONS["matmul"].of(left, right)


def _ones(*shape: int) -> Expression:
    return OPERATIONS["constant"].of(np.ones(shape))


def _of_rows_and_columns(product: Expression, step: Step) -> Expression:
    """Rows come from the left factor, columns from the right one."""
    left, right = product.children
    inner = left.shape[-1]
    if step.kind == "take":
        axis, indices = step.arguments
        if axis == 0:
            return _times(_at(left, "take", 0, indices), right)
        return _times(left, _at(right, "take", 1, indices))
    same = (0, inner, 1) if step.kind == "slice" else (0, 0)
    if len(product.shape) > 0:
        left = _at(left, step.kind, step.arguments[0], same)
    if len(product.shape) > 1:
        right = _at(right, step.kind, same, step.arguments[1])
    return _times(left, right)


def _reshaped(product: Expression, shape: tuple[int, ...]) -> Expression | None:
    """A row or a column as a vector, and the other way round; a number as a matrix."""
    left, right = product.children
    inner = left.shape[-1]
    row = left if len(left.shape) == 2 and left.shape[0] == 1 else None
    ones = sum(length == 1 for length in shape)
    if len(shape) > 2 or ones < len(shape) - 1:
        return None
    if len(product.shape) == 2 and product.shape[1] == 1 and len(shape) < 2:
        right = _at(right, "reshape", inner)
        return _times(left if shape else _at(left, "reshape", inner), right)
    if row is not None and len(shape) == 1:
        return _times(right.T, _at(row, "reshape", inner))
    if len(product.shape) == 2:  # a row as a column, or a column as a row
        return product.T if 1 in product.shape and len(shape) == 2 else None
    if not product.shape:
        left = _at(left, "reshape", 1, inner)
        return _times(left, right if len(shape) == 1 else _at(right, "reshape", inner, 1))
    if not shape:  # the one entry of a vector
        return _times(_at(left, "reshape", inner), right)
    if shape[-1] == 1:
        return _times(left, _at(right, "reshape", inner, 1))
    return _times(_at(right, "reshape", 1, inner), left.T)


def _broadcast(product: Expression, shape: tuple[int, ...]) -> Expression | None:
    """Repeated rows and columns: products with ones."""
    if len(shape) > 2:
        return None
    if len(shape) == 1:
        column: Expression = _at(product, "reshape", 1)
        return _times(_ones(shape[0], 1), column)
    lengths = (1,) * (2 - len(product.shape)) + product.shape
    found: Expression = product if len(product.shape) == 2 else _at(product, "reshape", *lengths)
    if lengths[0] != shape[0]:
        found = _times(_ones(shape[0], 1), found)
    return found if lengths[1] == shape[1] else _times(found, _ones(1, shape[1]))


def _diagonal(product: Expression, offset: int) -> Expression:
    """(A B)_ii = sum over t of A_it B_ti: an entrywise product and sums of rows."""
    rows, cols = max(0, -offset), max(0, offset)
    number = min(product.shape[0] - rows, product.shape[1] - cols)
    left, right = product.children
    inner = (0, left.shape[1], 1)
    left = _at(left, "slice", (rows, rows + number, 1), inner)
    right = _at(right, "slice", inner, (cols, cols + number, 1))
    return _times(OPERATIONS["multiply"].of(left, right.T), _ones(inner[1]))
