"""What is known of the entries of a node beside one bound of all: a bound for each column, and for each row.

It comes from operands that are declared with `columns`, and follows through sums, products and arrangements. The rows
of a vector are its entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from cipherblas.lang.nodes import Bounds, Expression
from cipherblas.lang.steps import Step

SUM_ROUNDING = 2.0**-40  # relative, of sums of bounds, and of bounds by norms
MAX_ENTRIES = 1 << 22  # of what is looked at entry by entry
VIEWS = ("slice", "broadcast", "transpose", "diagonal")  # steps that copy nothing
COLUMN, ROW = 1, 0  # axes of a matrix


def along(node: Expression, axis: int) -> NDArray[np.float64] | None:
    """Bounds of its entries with each index along an axis, where more is known than its bound."""
    return node.column_bounds if axis == COLUMN else node.row_bounds


def is_known(node: Expression) -> bool:
    """Whether more is known of its entries than its bound."""
    return along(node, COLUMN) is not None or along(node, ROW) is not None


def moved(entries: NDArray[np.float64], steps: Sequence[Step], bound: float) -> Bounds:
    """Return bounds of entries that steps put at other places, from bounds of all entries before."""
    for step in steps:
        if step.kind not in VIEWS and math.prod(step.out_shape(entries.shape)) > MAX_ENTRIES:
            return None, None
        entries = step(entries)
    if entries.ndim not in (1, 2):
        return None, None
    one = entries[
        tuple(slice(None if stride else 1) for stride in entries.strides)
    ]  # of those that are repeated
    rows = np.broadcast_to(one.max(axis=tuple(range(1, entries.ndim))), entries.shape[:1])
    columns = np.broadcast_to(one.max(axis=ROW), entries.shape[1:]) if entries.ndim == 2 else None
    return _less(columns, bound), _less(rows, bound)


def of_entries(node: Expression) -> NDArray[np.float64]:
    """A bound for every entry of a matrix or a vector: a view, where only those of columns or of rows are known."""
    columns, rows = along(node, COLUMN), along(node, ROW)
    if rows is None:
        return np.broadcast_to(node.bound if columns is None else columns, node.shape)
    by_rows = rows.reshape(-1, *(1,) * (len(node.shape) - 1))
    return np.broadcast_to(by_rows, node.shape) if columns is None else np.minimum(by_rows, columns)


def entrywise(
    operation: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]],
    left: Expression,
    right: Expression,
) -> Bounds:
    """Return bounds of entries that are computed one by one, by a sum or a product of bounds."""

    def of(axis: int) -> NDArray[np.float64] | None:
        if axis >= len(left.shape) or (along(left, axis) is None and along(right, axis) is None):
            return None
        return operation(_largest(left, axis), _largest(right, axis))

    return of(COLUMN), of(ROW)


def of_joined(parts: Sequence[Expression], axis: int) -> Bounds:
    """Return bounds of matrices one after another along an axis."""
    if not any(map(is_known, parts)):
        return None, None
    joined = np.concatenate([_largest(part, axis) for part in parts])
    other = np.max([_largest(part, 1 - axis) for part in parts], axis=0)
    return (joined, other) if axis == COLUMN else (other, joined)


def _largest(node: Expression, axis: int) -> NDArray[np.float64]:
    """As `along`, of a constant from its values."""
    found = along(node, axis)
    if found is not None:
        return found
    if node.tensor is None or len(node.shape) > 2:
        return np.full(node.shape[axis], node.bound)
    others = tuple(other for other in range(len(node.shape)) if other != axis)
    return np.asarray(np.maximum(node.tensor.max(axis=others), -node.tensor.min(axis=others)))


def least(bound: float, *bounds: NDArray[np.float64] | None) -> float:
    """The least bound of all entries: of one, and of the largest of each."""
    return min([bound, *(float(one.max()) or math.inf for one in bounds if one is not None)])


def weighed(bounds: NDArray[np.float64], weights: Expression, axis: int) -> NDArray[np.float64] | None:
    """Sums of bounds times absolute values of weights along an axis of these, as what they are is known; None where
    nothing is known of them. Each is a bound, in spite of rounding."""
    shape = weights.shape[:axis] + weights.shape[axis + 1 :]
    if weights.tensor is None and (not shape or along(weights, 1 - axis) is None):
        return None
    total = np.zeros(shape)
    for bound, values in zip(bounds, _slices(weights, axis), strict=True):
        total += bound * values
    return total * (1 + SUM_ROUNDING)


def _slices(weights: Expression, axis: int) -> Iterator[NDArray[np.float64]]:
    """Absolute values of weights with each index along an axis, or bounds of them."""
    if weights.tensor is not None:
        return map(np.abs, np.moveaxis(weights.tensor, axis, 0))
    return iter(np.moveaxis(of_entries(weights), axis, 0))


def _less(bounds: NDArray[np.float64] | None, bound: float) -> NDArray[np.float64] | None:
    return None if bounds is None or bounds.min() >= bound else bounds
