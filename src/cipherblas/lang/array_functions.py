"""NumPy's functions of arrays on nodes of a program: sums, means, slices, shapes, joins; all are made of operations.

Functions are named and behave as NumPy's. Nodes have those as methods that NumPy's arrays have.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import clear_array, finite_array, is_scalar, shape_text
from cipherblas.common.errors import DTypeError, ParameterError, ShapeError
from cipherblas.lang.arguments import axis_of, integer_of, node_of
from cipherblas.lang.arrangements import Arrange
from cipherblas.lang.batches import Batch, batched, entrywise, is_batch, stacked, total
from cipherblas.lang.layers import Flatten
from cipherblas.lang.nodes import Expression, node_function
from cipherblas.lang.operations import Constant, MatMul, Multiply
from cipherblas.lang.steps import MAX_INDICES, Step

__all__ = [
    "broadcast_to",
    "concatenate",
    "cumsum",
    "diag",
    "diagonal",
    "dot",
    "expand_dims",
    "inner",
    "matmul",
    "matrix_power",
    "mean",
    "outer",
    "power",
    "ravel",
    "reshape",
    "squared_norm",
    "squeeze",
    "stack",
    "sum",
    "trace",
    "transpose",
    "var",
    "vdot",
    "where",
]

Axis = int | Sequence[int] | None


def _node(x: Any, what: str = "The argument") -> Expression:
    """A node; of a batch, one that holds them all."""
    if is_batch(x):
        return stacked(x.nodes)
    return node_of(x, what)


def _as_part(x: Any) -> Expression:
    """A node, or an array as a constant."""
    if is_batch(x):
        return stacked(x.nodes)
    if isinstance(x, Expression):
        return x
    return Constant(finite_array(clear_array(x, "a constant"), "a constant", (0, 1, 2, 3, 4)))


def _axes(axis: Axis, dimensions: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(dimensions))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = tuple(axis_of(one, dimensions) for one in given)
    if len(set(found)) < len(found):
        raise ShapeError("An axis is given twice.", got=axis, advice=f"axis={tuple(sorted(set(found)))}")
    return found


# ---- shapes ----


@node_function
def reshape(x: Expression, *shape: Any) -> Expression:
    """Return the same entries in another shape, in row-major order (NumPy's order C). One length may be -1.

    Levels: none for operands, which the client reshapes, for entrywise results of these, and between vectors and
    matrices of one row or column; one for other computed values. Keys then: rotations.

    Raises:
        ShapeError: the number of entries differs.
    """
    node = _node(x)
    several = len(shape) == 1 and isinstance(shape[0], (tuple, list, np.ndarray))
    lengths = [integer_of(one, "A length of a shape") for one in (shape[0] if several else shape)]
    entries = math.prod(node.shape)
    if lengths.count(-1) == 1:
        rest = -math.prod(lengths)
        lengths[lengths.index(-1)] = entries // rest if rest else 0
    if min(lengths, default=1) < 1 or math.prod(lengths) != entries:
        raise ShapeError(
            "A reshaped array keeps its number of entries.",
            got=shape_text(lengths),
            advice=f"lengths with the product {entries}, one of which may be -1",
        )
    if len(node.shape) == 3 and len(lengths) == 1 and node.secret and not node.packable:
        return Flatten(node)
    return Arrange.of(node, Step("reshape", tuple(lengths)))


def _is_int(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


@node_function
def ravel(x: Expression) -> Expression:
    """Return all entries as a vector; see `reshape`."""
    return reshape(x, -1)


@node_function
def transpose(x: Expression, *axes: Any) -> Expression:
    """Return the array with its axes in another order, by default reversed. The order is a sequence, or one argument
    per axis."""
    node = _node(x)
    given = axes[0] if len(axes) == 1 and not _is_int(axes[0]) else axes or None
    order = tuple(range(len(node.shape)))[::-1] if given is None else _axes(given, len(node.shape))
    if len(order) != len(node.shape):
        raise ShapeError(
            "A transpose needs every axis.",
            got=order,
            advice=f"all {len(node.shape)} axes, or none to reverse them",
        )
    if len(order) < 3:
        return node.T if order == (1, 0) else node
    return Arrange.of(node, Step("transpose", order))


def broadcast_to(x: Expression, shape: Sequence[int]) -> Expression:
    """Return the array repeated along new axes and along axes of length one.

    Levels: none for operands, one for matrix products.

    Raises:
        ShapeError: it cannot be broadcast so.
    """
    return Arrange.of(
        _node(x), Step("broadcast", tuple(integer_of(one, "A length of a shape") for one in shape))
    )


def expand_dims(x: Expression, axis: int) -> Expression:
    """Return the array with a new axis of length one, as `x[:, None]` does."""
    node = _node(x)
    place = axis_of(axis, len(node.shape) + 1)
    return reshape(node, (*node.shape[:place], 1, *node.shape[place:]))


@node_function
def squeeze(x: Expression, axis: Axis = None) -> Expression:
    """Return the array without its axes of length one."""
    node = _node(x)
    gone = [i for i, n in enumerate(node.shape) if n == 1] if axis is None else _axes(axis, len(node.shape))
    if any(node.shape[one] != 1 for one in gone):
        raise ShapeError(
            "Only an axis of length one can be left out.",
            got=shape_text(node.shape),
            advice="x.squeeze() for all axes of length one, or x.sum(axis=…)",
        )
    return reshape(node, tuple(n for i, n in enumerate(node.shape) if i not in gone))


# ---- entries ----


@node_function
def getitem(x: Expression, key: Any) -> Expression:
    """`x[key]` with constant integers, slices, `None`, `...`, lists of integers, or masks.

    Levels: none for operands, entrywise results of these, and rows and columns of products; one where x is computed
    too, and its entries are taken from there.

    Raises:
        DTypeError: an index is a node of the program, or nothing that NumPy takes. ShapeError: it is out of range, or
            leaves no entry.
    """
    x, parts = _node(x), key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, Expression) for part in parts):
        raise DTypeError(
            "An encrypted index cannot be followed.",
            advice="one_hot @ A, with an encrypted vector one_hot that is 1 at that place and 0 elsewhere",
            cause="The server would see which entry is read.",
        )
    for part in parts:
        if isinstance(part, bool):
            _refuse_equality("index", part)
    if _is_basic(parts):
        return _basic(x, parts, _indexed(np.broadcast_to(np.int8(0), x.shape), key).shape)
    arrays = [part for part in parts if not isinstance(part, slice) or part != slice(None)]
    one = len(arrays) == 1 and isinstance(arrays[0], (list, np.ndarray)) and np.ndim(arrays[0]) == 1
    if one and len(parts) <= len(x.shape):
        axis = next(number for number, part in enumerate(parts) if part is arrays[0])
        indices = _indexed(np.arange(x.shape[axis]), np.asarray(arrays[0]))
        if indices.ndim == 1:
            return _taken(x, axis, indices)
    places = _indexed(np.arange(math.prod(x.shape)).reshape(x.shape), key)
    return reshape(_taken(ravel(x), 0, places.ravel()), places.shape)


def _indexed(array: NDArray[Any], key: Any) -> NDArray[Any]:
    try:
        found = np.asarray(array[key])
    except (IndexError, TypeError, ValueError) as error:
        raise ShapeError(
            "The index does not fit the array.",
            got=str(error),
            advice=f"an index that NumPy takes of an array of shape {array.shape}",
        ) from None
    if not found.size:
        raise ShapeError(
            "An index must leave at least one entry.",
            advice=f"an index that leaves an entry of an array of shape {array.shape}",
        )
    return found


def _is_basic(parts: Sequence[Any]) -> bool:
    return all(part is None or part is Ellipsis or isinstance(part, slice) or _is_int(part) for part in parts)


def _basic(x: Expression, parts: Sequence[Any], after: tuple[int, ...]) -> Expression:
    """A range along each axis, then the shape without the axes that an integer names."""
    given = [part for part in parts if part is not None]
    if Ellipsis in given:
        place = given.index(Ellipsis)
        given[place : place + 1] = [slice(None)] * (len(x.shape) - len(given) + 1)
    given += [slice(None)] * (len(x.shape) - len(given))
    ranges = []
    for part, length in zip(given, x.shape, strict=True):
        if not isinstance(part, slice):
            number = operator.index(part) % length
            part = slice(number, number + 1)
        start, stop, step = part.indices(length)
        ranges.append((start, max(stop, -1), step))
    if any(one != (0, length, 1) for one, length in zip(ranges, x.shape, strict=True)):
        x = Arrange.of(x, Step("slice", tuple(ranges)))
    return reshape(x, after)


def _taken(x: Expression, axis: int, indices: Any) -> Expression:
    if len(indices) > MAX_INDICES:
        raise ShapeError(
            "An index names too many entries.",
            got=len(indices),
            advice=f"slices, which have no limit, or at most {MAX_INDICES} entries",
        )
    return Arrange.of(x, Step("take", (axis, tuple(indices.tolist()))))


@node_function
def diagonal(x: Expression, offset: int = 0) -> Expression:
    """Return the diagonal of a matrix as a vector. Levels: none for operands; those of an entrywise product and sums
    for a product A @ B.

    Raises:
        ShapeError: no matrix, or it has no such diagonal.
    """
    node = _node(x)
    if len(node.shape) != 2:
        raise ShapeError(
            "Only a matrix has a diagonal.",
            got=shape_text(node.shape),
            advice="cb.diag(x) for the matrix of a vector"
            if len(node.shape) == 1
            else "a matrix of rows and columns",
        )
    return Arrange.of(node, Step("diagonal", (integer_of(offset, "The offset of a diagonal"),)))


def diag(x: Expression) -> Expression:
    """Return the diagonal of a matrix, or the diagonal matrix of a vector. Levels: see `diagonal`."""
    node = _node(x)
    if len(node.shape) != 1:
        return diagonal(node)
    (length,) = node.shape
    padded = Arrange.of(reshape(node, length, 1), Step("pad", ((0, 0), (0, length))))
    return reshape(reshape(padded, -1)[: length * length], length, length)


@node_function
def trace(x: Expression) -> Expression:
    """Return the sum of the diagonal. The trace of A @ B is computed as the sum of A * B.T, without the product."""
    node = _node(x)
    if isinstance(node, MatMul) and len(node.shape) == 2 and node.shape[0] == node.shape[1]:
        return sum(Multiply(node.left, node.right.T))
    return sum(diagonal(node))


# ---- sums ----


@node_function
def sum(x: Expression, axis: Axis = None, keepdims: bool = False) -> Expression:
    """Return the sum of the entries along the given axes, by default of all entries.

    The sum is a product with ones.

    Levels: those of a product with a clear matrix (none by rows).
    """
    if is_batch(x):
        summed: Expression = _batch_sum(x, axis, keepdims)
        return summed
    node = _node(x)
    axes = _axes(axis, len(node.shape))
    kept = tuple(1 if one in axes else length for one, length in enumerate(node.shape))
    found = node
    if isinstance(node, Multiply) and len(axes) == len(node.shape) == 2 and node.packable_factors:
        found = vdot(node.left, node.right)  # one sum of products, where there would be two more products
    elif len(node.shape) > 2:
        order = (*(one for one in range(len(node.shape)) if one not in axes), *axes)
        inner = math.prod(node.shape[one] for one in axes)
        outer = tuple(node.shape[one] for one in order[: len(node.shape) - len(axes)])
        found = reshape(transpose(node, order), math.prod(outer), inner) @ np.ones(inner)
        found = reshape(found, outer)
    else:
        for one in sorted(axes, reverse=True):
            ones = np.ones(found.shape[one])
            found = found @ ones if one == len(found.shape) - 1 else found.T @ ones
    return reshape(found, kept) if keepdims else found


def _batch_sum(x: Batch, axis: Axis, keepdims: bool) -> Any:
    """Of each node along its own axes; then of these."""
    axes = _axes(axis, len(x.shape))
    inner = tuple(one - 1 for one in axes if one)
    nodes = [sum(node, inner, keepdims) for node in x] if inner else list(x)
    if 0 not in axes:
        return batched(nodes)
    found = total(nodes)
    return reshape(found, (1, *found.shape)) if keepdims else found


@node_function
def mean(x: Expression, axis: Axis = None, keepdims: bool = False) -> Expression:
    """Return the mean along the given axes, by default of all entries; see `sum`."""
    node: Any = x if is_batch(x) else _node(x)
    count = math.prod(node.shape[one] for one in _axes(axis, len(node.shape)))
    result: Expression = sum(node, axis, keepdims) / count
    return result


@node_function
def var(x: Expression, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Expression:
    """Return the variance along the given axes: the mean of squares less the square of the mean.

    Args:
        ddof: the divisor is the number of entries less this.

    Levels: those of a square and a mean. Where a mean is far larger than the deviation, its square takes the precision.
    """
    node: Any = x if is_batch(x) else _node(x)
    count = math.prod(node.shape[one] for one in _axes(axis, len(node.shape)))
    divisor = divisor_of(count, ddof)
    average = mean(node, axis, keepdims)
    spread = mean(node * node, axis, keepdims) - average * average
    result: Expression = spread * (count / divisor)
    return result


def divisor_of(count: int, ddof: float) -> float:
    """A number of entries less `ddof`; ParameterError where that is not positive."""
    if not (is_scalar(ddof) and 0 <= ddof < count):
        raise ParameterError(
            f"The divisor of a variance, {count} less ddof, must be positive.",
            got=ddof,
            advice="ddof=0" if count < 2 else "ddof=0 or ddof=1",
        )
    return count - float(ddof)


@node_function
def cumsum(x: Expression, axis: int | None = None) -> Expression:
    """Return the running sums along an axis; without an axis, of all entries as a vector.

    Levels: those of a product with a clear matrix.
    """
    if is_batch(x) and axis is not None:
        summed: Expression = _batch_cumsum(x, axis_of(axis, len(x.shape)))
        return summed
    node = _node(x)
    if axis is None:
        node, axis = (node if len(node.shape) == 1 else ravel(node)), 0
    axis = axis_of(axis, len(node.shape))
    if len(node.shape) > 2:
        raise ShapeError(
            "Sums up to each entry are of vectors and matrices.",
            got=shape_text(node.shape),
            advice="x.reshape(rows, columns).cumsum(axis)",
        )
    lower = np.tri(node.shape[axis])
    return Constant(lower) @ node if axis == 0 else node @ Constant(lower.T)


def _batch_cumsum(x: Batch, axis: int) -> Any:
    """Of each node, or of the nodes one after another."""
    if axis:
        return batched([cumsum(node, axis - 1) for node in x])
    return batched([total(x.nodes[: number + 1]) for number in range(len(x))])


# ---- products ----


@node_function
def dot(x: Any, y: Any) -> Expression:
    """Return NumPy's `dot`: the inner product of vectors, the product of matrices, or the product by a number.

    Raises:
        ShapeError: several matrices on the right, which NumPy's `dot` multiplies by all of the left.
    """
    left, right = (one.ndim if isinstance(one, Batch) else _as_part(one).ndim for one in (x, y))
    if not left or not right:
        result: Expression = _node(y if is_scalar(x) else x) * (x if is_scalar(x) else y)
        return result
    if left > 1 and right > 2:
        raise ShapeError(
            "The dot product by several matrices is of all pairs.",
            advice=(
                "x @ y for the products one by one",
                "np.tensordot(x, y, axes=(-1, -2)) for those of all pairs",
            ),
        )
    return matmul(x, y)


def matmul(x: Any, y: Any) -> Expression:
    """Return the matrix product x @ y."""
    batched = is_batch(x) or is_batch(y)
    found: Expression = x @ y if batched else MatMul.of(_as_part(x), _as_part(y))
    return found


def vdot(x: Any, y: Any) -> Expression:
    """Return the inner product of all entries of two arrays."""
    return matmul(ravel(_as_part(x)), ravel(_as_part(y)))


def inner(x: Any, y: Any) -> Expression:
    """Return x @ y.T, the products of the rows of two matrices; of vectors the inner product; x * y for a number."""
    return dot(x, y if is_scalar(y) else _as_part(y).T)


def outer(x: Any, y: Any) -> Expression:
    """Return the matrix of all products of an entry of one vector and an entry of another. Levels and keys: as for a
    product of matrices."""
    left, right = ravel(_as_part(x)), ravel(_as_part(y))
    return matmul(reshape(left, -1, 1), reshape(right, 1, -1))


def squared_norm(x: Expression) -> Expression:
    """Return the sum of the squares of all entries, without a root."""
    node = _node(x)
    return node @ node if len(node.shape) == 1 else sum(node * node)


def matrix_power(x: Expression, exponent: int) -> Expression:
    """Return the product of `exponent` copies of a square matrix, by repeated squaring. Levels: log2(exponent), rounded
    up.

    Raises:
        ShapeError: not square. ParameterError: not a positive whole exponent.
    """
    node = _node(x)
    if len(node.shape) != 2 or node.shape[0] != node.shape[1]:
        raise ShapeError(
            "Only a square matrix has powers.",
            got=shape_text(node.shape),
            advice="x ** exponent for the power of every entry",
        )
    return _power(node, exponent, MatMul)


@node_function
@entrywise
def power(x: Expression, exponent: int) -> Expression:
    """Return `x ** exponent` of every entry, by repeated squaring. Levels: log2(exponent), rounded up.

    Raises:
        ParameterError: not a positive whole exponent.
    """
    return _power(_node(x), exponent, Multiply)


def _of_no_whole_power(node: Expression, exponent: Any, times: Any) -> str:
    """Return advice for a power that is not computed."""
    zero = is_scalar(exponent) and exponent == 0
    if times is MatMul:
        return f"np.eye({node.shape[0]})" if zero else "the decrypted matrix on the client"
    if zero:
        return "1.0, which that power is everywhere"
    return "cb.sqrt(x, lower=…), cb.inverse(x, lower=…), or cb.chebyshev(f, x) of another power f"


def _power(node: Expression, exponent: Any, times: Any) -> Expression:
    whole = _is_int(exponent) or (is_scalar(exponent) and float(exponent).is_integer())
    if not whole or not 1 <= exponent <= 1 << 10:
        raise ParameterError(
            "Only whole powers from 1 to 1024 are computed.",
            got=exponent,
            advice=_of_no_whole_power(node, exponent, times),
        )
    powers = {1: node}

    def of(number: int) -> Expression:
        if number not in powers:
            low = number // 2
            powers[number] = times(of(number - low), of(low))
        return powers[number]

    return of(int(exponent))


# ---- joins ----


def concatenate(parts: Sequence[Any], axis: int = 0) -> Expression:
    """Return arrays one after another along an axis, as a sum of arrays extended by zeros.

    Levels: none for operands and for rows or columns of products.

    Raises:
        ShapeError: no parts, or their other lengths differ. DTypeError: no node among them.
    """
    nodes = [_as_part(part) for part in parts]
    if not nodes:
        raise ShapeError("A join needs at least one array.", advice="a list of one array or more")
    place = axis_of(axis, len(nodes[0].shape))
    rests = {(*node.shape[:place], *node.shape[place + 1 :]) for node in nodes}
    if len(rests) > 1 or any(len(node.shape) != len(nodes[0].shape) for node in nodes):
        raise ShapeError(
            "Arrays that are joined need equal lengths along the other axes.",
            got=", ".join(shape_text(node.shape) for node in nodes),
            advice=_joinable(nodes, place),
        )
    length, start, terms = math.fsum(node.shape[place] for node in nodes), 0, []
    for node in nodes:
        sides = [(0, 0)] * len(node.shape)
        sides[place] = (start, int(length) - start - node.shape[place])
        start += node.shape[place]
        terms.append(Arrange.of(node, Step("pad", tuple(sides))) if len(nodes) > 1 else node)
    return total(terms)


def _joinable(nodes: Sequence[Expression], place: int) -> str:
    """How arrays of these shapes could be joined."""
    first, *others = nodes
    if len(first.shape) == 2 and all(
        one.shape[::-1] == first.shape or one.shape == first.shape for one in others
    ):
        return "the transpose x.T of those that lie the other way"
    if len({len(one.shape) for one in nodes}) == 1 and len(first.shape) == 2:
        return "arrays of one height" if place else "arrays of one width"
    return (
        "arrays of as many dimensions, x.reshape(…) for those of fewer, and of equal lengths along other axes"
    )


def stack(parts: Sequence[Any], axis: int = 0) -> Expression:
    """Return arrays of one shape along a new axis; see `concatenate`."""
    nodes = [_as_part(part) for part in parts]
    if len({node.shape for node in nodes}) != 1:
        raise ShapeError(
            "Arrays that are stacked need equal shapes.",
            got=", ".join(shape_text(node.shape) for node in nodes) or "none",
            advice="cb.concatenate(parts, axis) of arrays of other lengths"
            if nodes
            else "a list of one array or more",
        )
    return concatenate([expand_dims(node, axis) for node in nodes], axis_of(axis, len(nodes[0].shape) + 1))


def _refuse_equality(what: str, value: bool) -> NoReturn:
    """Python makes a bool of `x == y`, which would choose all entries or none without a word."""
    raise DTypeError(
        f"The {what} is {value}: encrypted values cannot be compared by ==.",
        advice=("an array of NumPy of type bool", "cb.greater(a, b, margin=…), and products with it"),
    )


def where(mask: Any, x: Any, y: Any) -> Expression:
    """Return the entries of x where a clear mask is true, and those of y elsewhere. x and y are nodes, arrays or
    numbers.

    Levels: one, for a product with the mask.

    Raises:
        DTypeError: the mask is a node of the program, or neither x nor y is.
    """
    if isinstance(mask, (Expression, Batch)):
        raise DTypeError(
            "The mask must be clear: an encrypted condition cannot be followed.",
            advice="mask * x + (1 - mask) * y, with an encrypted mask of zeros and ones",
        )
    if isinstance(mask, bool):
        _refuse_equality("mask", mask)
    if not any(isinstance(side, (Expression, Batch)) for side in (x, y)):
        raise DTypeError(
            "One side of `where` must be a node of the program.",
            got=f"{type(x).__name__} and {type(y).__name__}",
            advice="np.where(mask, x, y), which NumPy computes: nothing of it is encrypted",
        )
    chosen = np.asarray(mask, dtype=bool)
    shapes = [part.shape if isinstance(part, (Expression, Batch)) else np.shape(part) for part in (x, y)]
    try:
        shape = np.broadcast_shapes(chosen.shape, *shapes)
    except ValueError:
        raise ShapeError(
            "The mask and the sides of `where` do not fit.",
            got=", ".join(map(shape_text, (chosen.shape, *shapes))),
            advice="equal shapes, or lengths of 1 where values are repeated",
        ) from None
    chosen = np.broadcast_to(chosen, shape).astype(np.float64)
    result: Expression = _masked(x, chosen) + _masked(y, 1.0 - chosen)
    return result


def _masked(x: Any, mask: Any) -> Any:
    return x * mask if isinstance(x, (Expression, Batch)) else np.asarray(x, dtype=np.float64) * mask
