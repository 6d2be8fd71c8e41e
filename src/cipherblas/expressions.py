"""The expression graph that a user's Python function builds: matrices, `@`, `+`, `-`, `*` and `.T`.

A node knows its shape, whether it depends on secret data, and a bound on its entries. Transposition is
pushed to the leaves when it is written, so the executor only ever meets transposed operands: the client
packs a transposed matrix at no cost. Bounds follow from interval arithmetic (a product of an m×k and a k×n
matrix is bounded by k·max|A|·max|B|), and the planner states the error relative to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherblas.errors import DTypeError, RangeError, ShapeError

Scalar: TypeAlias = "int | float | np.integer[Any] | np.floating[Any]"


@dataclass(frozen=True)
class Operand:
    """A declared operand: `rows` × `cols`, secret or public, entries of absolute value at most `bound`."""

    rows: int
    cols: int
    secret: bool
    bound: float

    def __post_init__(self) -> None:
        for what, value in (("rows", self.rows), ("columns", self.cols)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ShapeError(f"a matrix needs a positive number of {what}", expected=">= 1", got=value)
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise RangeError("the bound of an operand must be positive", expected="> 0", got=self.bound)


def secret(rows: int, cols: int, *, bound: float = 1.0) -> Operand:
    """An encrypted operand of shape `rows` × `cols` with entries in [-bound, bound]."""
    return Operand(int(rows), int(cols), True, float(bound))


def public(rows: int, cols: int, *, bound: float = 1.0) -> Operand:
    """A clear operand (a weight) of shape `rows` × `cols` with entries in [-bound, bound]."""
    return Operand(int(rows), int(cols), False, float(bound))


class Expression:
    """A matrix-valued node of a program; combine nodes with `@`, `+`, `-`, `*`, unary `-` and `.T`."""

    __array_ufunc__ = None  # NumPy must not take `array @ node` apart element by element
    shape: tuple[int, int]
    secret: bool
    bound: float

    @property
    def T(self) -> Expression:
        """The transpose (free: it is pushed to the operands, which the client packs transposed)."""
        raise NotImplementedError

    @property
    def children(self) -> tuple[Expression, ...]:
        return ()

    def __matmul__(self, other: Any) -> Expression:
        return MatMul(self, _as_matrix(other))

    def __rmatmul__(self, other: Any) -> Expression:
        return MatMul(_as_matrix(other), self)

    def __add__(self, other: Any) -> Expression:
        return Add(self, _as_matrix(other))

    def __radd__(self, other: Any) -> Expression:
        return Add(_as_matrix(other), self)

    def __sub__(self, other: Any) -> Expression:
        return Add(self, Scale(_as_matrix(other), -1.0))

    def __rsub__(self, other: Any) -> Expression:
        return Add(_as_matrix(other), Scale(self, -1.0))

    def __neg__(self) -> Expression:
        return Scale(self, -1.0)

    def __mul__(self, other: Any) -> Expression:
        if _is_scalar(other):
            return Scale(self, float(other))
        return Multiply(self, _as_matrix(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Expression:
        if not _is_scalar(other):
            raise DTypeError(
                "only division by a number is supported", expected="a number", got=type(other).__name__
            )
        if float(other) == 0.0:
            raise RangeError("division by zero", expected="a non-zero number", got=other)
        return Scale(self, 1.0 / float(other))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.shape[0]}x{self.shape[1]}>"


class Leaf(Expression):
    """An operand, possibly transposed. `name` is the keyword that the user's function gave it."""

    def __init__(self, name: str, operand: Operand, transposed: bool = False) -> None:
        self.name, self.operand, self.transposed = name, operand, transposed
        self.shape = (operand.cols, operand.rows) if transposed else (operand.rows, operand.cols)
        self.secret, self.bound = operand.secret, operand.bound

    @property
    def T(self) -> Expression:
        return Leaf(self.name, self.operand, not self.transposed)


class Constant(Expression):
    """A clear matrix whose values are part of the program."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.values = values
        self.shape = (int(values.shape[0]), int(values.shape[1]))
        self.secret, self.bound = False, max(float(np.max(np.abs(values))), 2.0**-60)

    @property
    def T(self) -> Expression:
        return Constant(np.ascontiguousarray(self.values.T))


class MatMul(Expression):
    """The product of an m×k and a k×n node."""

    def __init__(self, left: Expression, right: Expression) -> None:
        if left.shape[1] != right.shape[0]:
            raise ShapeError(
                "inner dimensions of a product differ",
                expected=f"{left.shape[1]} rows in the right factor",
                got=f"{right.shape[0]}x{right.shape[1]}",
            )
        self.left, self.right = left, right
        self.shape = (left.shape[0], right.shape[1])
        self.secret = left.secret or right.secret
        self.bound = left.shape[1] * left.bound * right.bound

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.left, self.right)

    @property
    def T(self) -> Expression:
        return MatMul(self.right.T, self.left.T)


class _Elementwise(Expression):
    def __init__(self, left: Expression, right: Expression) -> None:
        if left.shape != right.shape:
            raise ShapeError(
                "elementwise operations need equal shapes",
                expected=f"{left.shape[0]}x{left.shape[1]}",
                got=f"{right.shape[0]}x{right.shape[1]}",
            )
        self.left, self.right = left, right
        self.shape = left.shape
        self.secret = left.secret or right.secret

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.left, self.right)

    @property
    def T(self) -> Expression:
        return type(self)(self.left.T, self.right.T)


class Add(_Elementwise):
    """The entrywise sum."""

    def __init__(self, left: Expression, right: Expression) -> None:
        super().__init__(left, right)
        self.bound = left.bound + right.bound


class Multiply(_Elementwise):
    """The entrywise (Hadamard) product."""

    def __init__(self, left: Expression, right: Expression) -> None:
        super().__init__(left, right)
        self.bound = left.bound * right.bound


class Scale(Expression):
    """A node times a number."""

    def __init__(self, child: Expression, factor: float) -> None:
        if not math.isfinite(factor):
            raise RangeError("a factor must be finite", expected="a finite number", got=factor)
        if isinstance(child, Scale):  # -(2·x) is one factor
            child, factor = child.child, child.factor * factor
        self.child, self.factor = child, factor
        self.shape, self.secret = child.shape, child.secret
        self.bound = max(child.bound * abs(factor), 2.0**-60)

    @property
    def children(self) -> tuple[Expression, ...]:
        return (self.child,)

    @property
    def T(self) -> Expression:
        return Scale(self.child.T, self.factor)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _as_matrix(value: Any) -> Expression:
    if isinstance(value, Expression):
        return value
    if isinstance(value, np.ndarray) or (isinstance(value, (list, tuple)) and value):
        return Constant(finite_matrix(value, "a constant"))
    raise DTypeError(
        "an operand of a program must be a matrix",
        expected="an operand or a 2-D array",
        got=type(value).__name__,
    )


def finite_matrix(value: Any, what: str) -> NDArray[np.float64]:
    """`value` as a float64 matrix; DTypeError, ShapeError or RangeError where it is not a finite real one."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ShapeError(
            f"{what} is not a rectangular matrix", expected="2 dimensions", got="ragged rows"
        ) from error
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"{what} must hold real numbers", expected="a real dtype", got=str(array.dtype))
    if array.ndim != 2:
        raise ShapeError(
            f"{what} must be a matrix", expected="2 dimensions", got=f"{array.ndim} (shape {array.shape})"
        )
    matrix = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(matrix).all():
        row, col = (int(x) for x in np.argwhere(~np.isfinite(matrix))[0])
        kind = "NaN" if np.isnan(matrix[row, col]) else "an infinity"
        raise RangeError(
            f"{what} must hold finite numbers", expected="finite", got=f"{kind} at [{row}, {col}]"
        )
    return matrix


def trace(function: Callable[..., Any], operands: Mapping[str, Operand]) -> Expression:
    """Call `function` with one leaf per operand and return the node that it builds."""
    leaves = {name: Leaf(name, operand) for name, operand in operands.items()}
    result = function(**leaves)
    if not isinstance(result, Expression):
        raise DTypeError(
            "the function must return a matrix expression",
            expected="an expression",
            got=type(result).__name__,
        )
    return result


def leaves_of(node: Expression) -> list[Leaf]:
    """Every leaf below `node`, left to right, with repetitions."""
    if isinstance(node, Leaf):
        return [node]
    return [leaf for child in node.children for leaf in leaves_of(child)]


def evaluate_clear(node: Expression, values: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """The value of `node` in NumPy: the oracle that encrypted results are compared with."""
    if isinstance(node, Leaf):
        return values[node.name].T if node.transposed else values[node.name]
    if isinstance(node, Constant):
        return node.values
    if isinstance(node, Scale):
        return evaluate_clear(node.child, values) * node.factor
    left, right = (evaluate_clear(child, values) for child in node.children)
    if isinstance(node, MatMul):
        return left @ right
    return left + right if isinstance(node, Add) else left * right
