"""The expression graph that a user's Python function builds: matrices, `@`, `+`, `-`, `*` and `.T`.

A node knows its shape, whether it depends on secret data, and a bound on its entries. Transposition is
pushed to the leaves when it is written, so the executor only ever meets transposed operands: the client
packs a transposed matrix at no cost. Bounds follow from interval arithmetic (a product of an m×k and a k×n
matrix is bounded by k·max|A|·max|B|, that of known weights by their largest sum of a row), and the planner states the
error relative to them.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import json
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.arrays import finite_array, is_scalar, real_array, real_number, shape_text
from cipherblas.common.errors import (
    DTypeError,
    FormatError,
    MismatchError,
    ParameterError,
    RangeError,
    ShapeError,
)

Encryption = Literal["secret-key", "public-key"]  # which key encrypts an operand

MAX_DEPTH = 128  # of nested operations: graphs are walked recursively
MAX_LENGTH = 1 << 24  # rows or columns of an operand
BOUND_RANGE = 2.0**-600, 2.0**600  # products of two bounds stay finite numbers
ZERO_BOUND = 2.0**-20  # stands for the bound of a matrix of zeros


@dataclass(frozen=True)
class Operand:
    """A declared operand, secret or public, entries of absolute value at most `bound`.

    `shape` is (rows, columns) of a matrix, (length,) of a vector, (channels, height, width) of an image; filters, which
    are never secret, have four dimensions.

    `whole` promises whole numbers: products by GEMM then need not round them. `encryption` says which key is planned
    for: what is planned for the public key may come from the holder of the secret key too.
    """

    shape: tuple[int, ...]
    secret: bool
    bound: float
    whole: bool = False
    encryption: Encryption = "secret-key"

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _shape(self.shape, self.secret))
        if not is_scalar(self.bound):
            raise DTypeError("the bound of an operand", expected="a number", got=type(self.bound).__name__)
        object.__setattr__(self, "bound", checked_bound(real_number(self.bound)))
        allowed = get_args(Encryption) if self.secret else ("secret-key",)
        if self.encryption not in allowed:
            what = "a secret operand" if self.secret else "a clear operand, which is not encrypted"
            raise ParameterError(
                f"encryption of {what}", expected=" | ".join(allowed), got=repr(self.encryption)
            )

    @property
    def public_key(self) -> bool:
        """Whether the public key may encrypt it."""
        return self.encryption == "public-key"


def _shape(lengths: Any, secret: bool) -> tuple[int, ...]:
    try:
        values = tuple(lengths)
    except TypeError:
        raise DTypeError("shape of an operand", expected="integers", got=repr(lengths)) from None
    if len(values) == 2:
        return _length(values[0], "rows"), _length(values[1], "columns")
    if not 1 <= len(values) <= (3 if secret else 4):
        raise ShapeError(
            "dimensions of an operand",
            expected="1 (a vector), 2 (a matrix) or 3 (an image)" + ("" if secret else " or 4 (filters)"),
            got=len(values),
        )
    return tuple(_length(value, "entries along each dimension") for value in values)


def _length(value: Any, what: str) -> int:
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        length = operator.index(value)
    except TypeError:
        raise DTypeError(
            f"number of {what}", expected="an integer", got=f"{value!r} ({type(value).__name__})"
        ) from None
    if not 1 <= length <= MAX_LENGTH:
        raise ShapeError(
            f"an operand needs a positive number of {what}", expected=f"1 to {MAX_LENGTH}", got=length
        )
    return length


def checked_bound(bound: float) -> float:
    """`bound`, or RangeError when it is no positive number in a range that products do not leave."""
    if not BOUND_RANGE[0] <= bound <= BOUND_RANGE[1]:
        raise RangeError(
            "bound on the entries of a matrix",
            expected=f"> 0, from {BOUND_RANGE[0]:.1g} to {BOUND_RANGE[1]:.1g}",
            got=bound,
        )
    return bound


def secret(*shape: int, bound: float = 1.0, encryption: Encryption = "secret-key") -> Operand:
    """An encrypted operand with entries in [-bound, bound].

    Args:
        shape: rows and columns of a matrix, the length of a vector, or channels, height and width of an image.
        bound: of the absolute value of an entry.
        encryption: "secret-key": the client alone encrypts it, at half the bytes. "public-key": whoever has the public
            key can (`Program.encryptor`); the plan is made for the larger error, both halves of every ciphertext
            travel, and forms that need the secret key are left out.

    Raises:
        DTypeError, ShapeError, RangeError: not positive integers, or not a positive bound.
        ParameterError: no such encryption.
    """
    return Operand(shape, True, bound, encryption=encryption)


def public(*shape: int, bound: float | None = None, dtype: Any = None) -> Operand:
    """A clear operand (a weight) with entries in [-bound, bound].

    Args:
        shape: as `secret`; filters of a convolution have four lengths (outputs, inputs, height, width).
        bound: by default 1, for an integer type the largest absolute value of that type.
        dtype: type of the entries as NumPy names it: floating point (the default), or an integer type of at most
            32 bits, whose values are multiplied as they are.

    Raises:
        DTypeError: not a real type of these. Others as `secret`.
    """
    try:
        kind = np.dtype(np.float64 if dtype is None else dtype)
    except TypeError as error:
        raise DTypeError("type of an operand", expected="a NumPy type", got=repr(dtype)) from error
    if kind.kind not in "fiu" or (kind.kind != "f" and kind.itemsize > 4):
        raise DTypeError(
            "type of an operand", expected="floating point, or an integer of at most 32 bits", got=str(kind)
        )
    whole = kind.kind != "f"
    if bound is None:
        bound = float(-np.iinfo(kind).min or np.iinfo(kind).max) if whole else 1.0
    return Operand(shape, False, bound, whole)


class Expression:
    """A node of a program: a matrix, a vector or an image. Combine nodes with `@`, `+`, `-`, `*`, unary `-` and `.T`.

    A subclass is the entry of one operation, with all its rules: what it makes of shapes and bounds (`__init__`), of
    arrays (`evaluate`), a transpose (`_transpose`), errors (`gain`), ranges (`log_unit`) and axes (`axes`), and
    how it is written for people (`text`, `title`) and in files (`op`, `inputs`, `fields`, `parameters`). `operation`
    enters it.

    Arrays and lists are constants of the program. As in NumPy, `+`, `-` and `*` take numbers too, and constants
    that can be broadcast to the shape of the node; two nodes must have equal shapes.

    Attributes:
        shape: as NumPy's.
        secret: whether it depends on a secret operand.
        bound: on the absolute value of its entries.
        packable: made of operands without products of secrets, so that the client can pack it in any layout.
        children: the nodes it is computed from.
        op: name of the operation in files.
        inputs: number of children.
        fields: of its parameters in a file.
        layer: it is of networks: not of matrices, or of one at most.
        linear: the client can pack it as it packs its children.
        tensor: the array that stands for it in a file, if one does.
    """

    op: ClassVar[str]
    inputs: ClassVar[int] = 1
    fields: ClassVar[Mapping[str, schema.Check]] = {}
    layer: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    tensor: NDArray[np.float64] | None = None

    __array_ufunc__ = None  # NumPy must not take `array @ node` apart element by element

    def __init__(self, shape: tuple[int, ...], secret: bool, bound: float, *children: Expression) -> None:
        self.shape = shape
        self.secret = secret
        self.bound = checked_bound(bound)
        self.children: tuple[Expression, ...] = children
        self.packable: bool = not secret or (self.linear and all(child.packable for child in children))
        self.depth: int = 1 + max((child.depth for child in children), default=0)
        self._transposed: Expression | None = None
        if self.depth > MAX_DEPTH:
            raise ParameterError(
                "operations are nested too deeply (a long sum can be added in pairs)",
                expected=f"at most {MAX_DEPTH}",
                got=self.depth,
            )

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise DTypeError(
            "a node of a program is not an array", expected="@, +, -, * or .T", got="a conversion"
        )

    def __array_function__(self, function: Any, *_: Any, **__: Any) -> NoReturn:
        name = getattr(function, "__name__", str(function))
        raise DTypeError(
            "NumPy's functions do not take a node of a program", expected="@, +, -, * or .T", got=name
        )

    @property
    def T(self) -> Expression:
        """The transpose (free: the client packs the operands transposed); of a vector, itself."""
        if len(self.shape) == 1:
            return self
        if len(self.shape) != 2:
            raise ShapeError("a transpose", expected="a matrix or a vector", got=shape_text(self.shape))
        if self._transposed is None:
            self._transposed = self._transpose()
            self._transposed._transposed = self
        return self._transposed

    # ---- the rules of an operation ----

    def _transpose(self) -> Expression:
        """The transpose of a matrix."""
        raise NotImplementedError

    @property
    def parameters(self) -> dict[str, Any]:
        """What `__init__` takes by keyword beside the children, JSON-ready."""
        return {}

    @property
    def identity(self) -> Hashable:
        """Equal for operations that make the same of the same children."""
        return json.dumps(self.parameters)

    def rebuilt(self, children: Sequence[Expression]) -> Expression:
        """The same operation on other nodes."""
        make: Callable[..., Expression] = type(self)
        return make(*children, **self.parameters)

    @classmethod
    def read(
        cls,
        row: Mapping[str, Any],
        children: Sequence[Expression],
        operands: Mapping[str, Operand],
        tensors: Mapping[str, NDArray[Any]],
    ) -> Expression:
        """The node that a row of a file describes; it has the declared fields."""
        make: Callable[..., Expression] = cls
        return make(*children, **{name: row[name] for name in cls.fields})

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """The operation in NumPy, of the values of its children."""
        raise NotImplementedError

    def as_column(self, parts: Sequence[Expression]) -> Expression | None:
        """The same of matrices with one column in place of vectors; None where there is no such operation."""
        return None if self.layer else self.rebuilt(parts)

    def gain(self, position: int) -> float:
        """How much it changes by at most, per change of an entry of one child; values in bounds.

        Of linear operations, the largest sum of weights.
        """
        child = self.children[position]
        return max(1.0, self.bound / child.bound) if child.secret else 1.0

    def log_unit(self, parts: Sequence[float]) -> float:
        """log2 of what its scale is relative to, from those of its children: a product's is that of both."""
        return math.fsum(parts)

    @property
    def row_sum(self) -> float:
        """Largest sum of absolute values in a row of a matrix, as far as the program knows its values.

        What a product on its left multiplies bounds by, and errors that are the same in all entries.
        """
        return self.shape[1] * self.bound

    @property
    def column_sum(self) -> float:
        """Largest sum of absolute values in a column of a matrix, or of all in a vector; see `row_sum`."""
        return self.shape[0] * self.bound

    def axes(self, parts: Sequence[tuple[str, str]], join: Callable[[str, str], None]) -> tuple[str, str]:
        """Names of the rows and the columns of a matrix, from those of its children; `join` makes two names one."""
        for other in parts[1:]:
            join(parts[0][0], other[0])
            join(parts[0][1], other[1])
        return parts[0]

    def text(self, parts: Sequence[str]) -> str:
        """A formula of the texts of its children."""
        named = [f"{name}={_short(value)}" for name, value in self.parameters.items()]
        return f"{self.op}({', '.join([*parts, *named])})"

    def wrapped(self, parts: Sequence[str]) -> list[str]:
        """The texts of its children, in brackets where they need them."""
        return [
            text if not child.children or text == "…" else f"({text})"
            for child, text in zip(self.children, parts, strict=True)
        ]

    @property
    def title(self) -> str:
        """In a few words, as a step of a network."""
        return f"{self.op} {shape_text(self.children[0].shape)} to {shape_text(self.shape)}"

    # ---- what users write ----

    def __matmul__(self, other: Any) -> Expression:
        return _product(self, _as_factor(other))

    def __rmatmul__(self, other: Any) -> Expression:
        return _product(_as_factor(other), self)

    def __add__(self, other: Any) -> Expression:
        if _is_zero(other):  # what sum() starts with
            return self
        return Add(self, _as_matrix(other, self.shape))

    def __radd__(self, other: Any) -> Expression:
        return self.__add__(other)

    def __sub__(self, other: Any) -> Expression:
        return self if _is_zero(other) else Add(self, scaled(_as_matrix(other, self.shape), -1.0))

    def __rsub__(self, other: Any) -> Expression:
        return scaled(self, -1.0).__add__(other)

    def __neg__(self) -> Expression:
        return scaled(self, -1.0)

    def __pos__(self) -> Expression:
        return self

    def __mul__(self, other: Any) -> Expression:
        if is_scalar(other):
            return scaled(self, real_number(other))
        return Multiply(self, _as_matrix(other, self.shape))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Expression:
        if not is_scalar(other):
            raise DTypeError(
                "only division by a number is supported", expected="a number", got=type(other).__name__
            )
        if real_number(other) == 0.0:
            raise RangeError("division by zero", expected="a non-zero number", got=other)
        return scaled(self, 1.0 / real_number(other))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shape_text(self.shape)}>"


OPERATIONS: dict[str, type[Expression]] = {}  # by the name that they have in files
Kind = TypeVar("Kind", bound=type[Expression])


def operation(kind: Kind) -> Kind:
    """Enter an operation (a class decorator): programs with it can be saved and loaded.

    Raises:
        ParameterError: there is one of that name.
    """
    if OPERATIONS.setdefault(kind.op, kind) is not kind:
        raise ParameterError("an operation of that name exists", expected="another name", got=kind.op)
    return kind


@operation
class Leaf(Expression):
    """An operand, possibly transposed. `name` is the keyword that the user's function gave it."""

    op = "operand"
    inputs = 0
    fields: ClassVar = {"name": schema.text, "transposed": schema.flag}
    linear = True

    def __init__(self, name: str, operand: Operand, transposed: bool = False) -> None:
        self.name, self.operand, self.transposed = name, operand, transposed
        shape = operand.shape[::-1] if transposed else operand.shape
        super().__init__(shape, operand.secret, operand.bound)

    def _transpose(self) -> Expression:
        return Leaf(self.name, self.operand, not self.transposed)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"name": self.name, "transposed": self.transposed}

    @classmethod
    def read(
        cls,
        row: Mapping[str, Any],
        children: Sequence[Expression],
        operands: Mapping[str, Operand],
        tensors: Mapping[str, NDArray[Any]],
    ) -> Expression:
        return cls(row["name"], _named(operands, row, cls.op), row["transposed"])

    def as_column(self, parts: Sequence[Expression]) -> Expression:
        return Leaf(self.name, dataclasses.replace(self.operand, shape=(*self.shape, 1)))

    def log_unit(self, parts: Sequence[float]) -> float:
        return math.log2(self.bound)

    def text(self, parts: Sequence[str]) -> str:
        return f"{self.name}.T" if self.transposed else self.name

    @property
    def title(self) -> str:
        return f"{self.name} {shape_text(self.shape)}"


def _named(found: Mapping[str, Any], row: Mapping[str, Any], what: str) -> Any:
    if row["name"] not in found:
        raise FormatError(f"name of {what}", expected=", ".join(found), got=row["name"])
    return found[row["name"]]


@operation
class Constant(Expression):
    """Clear values that are part of the program (a copy of them).

    `replaces` names the operands that it made superfluous: those of a node that was multiplied by zero.
    """

    op = "constant"
    inputs = 0
    fields: ClassVar = {"name": schema.text}

    def __init__(self, values: NDArray[np.float64], replaces: Iterable[str] = ()) -> None:
        self.values = np.array(values, dtype=np.float64, order="C")
        self.values.flags.writeable = False
        self.replaces = frozenset(replaces)
        largest = max(float(self.values.max()), -float(self.values.min()))
        bound = max(largest, BOUND_RANGE[0]) if largest else ZERO_BOUND
        super().__init__(values.shape, False, bound)

    def _transpose(self) -> Expression:
        return Constant(self.values.T, self.replaces)

    @property
    def tensor(self) -> NDArray[np.float64]:  # type: ignore[override]
        return self.values

    @property
    def identity(self) -> Hashable:
        return self.shape, self.digest, self.replaces

    @classmethod
    def read(
        cls,
        row: Mapping[str, Any],
        children: Sequence[Expression],
        operands: Mapping[str, Operand],
        tensors: Mapping[str, NDArray[Any]],
    ) -> Expression:
        return cls(finite_array(_named(tensors, row, cls.op), "a constant", (1, 2, 3, 4)))

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return self.values

    def as_column(self, parts: Sequence[Expression]) -> Expression:
        return Constant(self.values[:, None], self.replaces)

    def log_unit(self, parts: Sequence[float]) -> float:
        return math.log2(self.bound)

    def text(self, parts: Sequence[str]) -> str:
        return f"constant[{shape_text(self.shape)}]"

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 of shape and values."""
        found = hashlib.sha256(json.dumps(self.shape).encode())
        found.update(self.values.data)
        return found.hexdigest()

    @functools.cached_property
    def row_sum(self) -> float:
        """Largest sum of absolute values in a row of a matrix, or in the filters of one output channel."""
        return max(self.bound, *(float(np.abs(row).sum()) for row in self.values))

    @functools.cached_property
    def column_sum(self) -> float:
        """Largest sum of absolute values in a column of a matrix; of a vector, the sum of all."""
        total = np.zeros(self.shape[1:])
        for row in self.values:
            total += np.abs(row)
        return max(float(total.max()), self.bound)

    @functools.cached_property
    def row_norm(self) -> float:
        """Largest root of a sum of squares in a row, as `row_sum`."""
        rows = self.values.reshape(self.shape[0], -1) / self.bound  # squares of the entries may be no doubles
        return self.bound * float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max()))


@operation
class MatMul(Expression):
    """The product of an m×k node and a k×n node, or a vector of k entries."""

    op = "matmul"
    inputs = 2

    def __init__(self, left: Expression, right: Expression) -> None:
        if len(left.shape) != 2 or len(right.shape) not in (1, 2):
            raise ShapeError(
                "factors of a product",
                expected="a matrix, and a matrix or a vector",
                got=f"{shape_text(left.shape)} and {shape_text(right.shape)}",
            )
        if left.shape[1] != right.shape[0]:
            raise ShapeError(
                "inner dimensions of a product differ",
                expected=f"{left.shape[1]} rows in the right factor",
                got=shape_text(right.shape),
            )
        self.left, self.right = left, right
        bound = min(left.row_sum * right.bound, left.bound * right.column_sum)
        super().__init__((left.shape[0], *right.shape[1:]), left.secret or right.secret, bound, left, right)

    def _transpose(self) -> Expression:
        return MatMul(self.right.T, self.left.T)

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.asarray(parts[0] @ parts[1])

    def gain(self, position: int) -> float:
        return self.right.column_sum if position == 0 else self.left.row_sum

    def axes(self, parts: Sequence[tuple[str, str]], join: Callable[[str, str], None]) -> tuple[str, str]:
        join(parts[0][1], parts[1][0])
        return parts[0][0], parts[1][1]

    def text(self, parts: Sequence[str]) -> str:
        return " @ ".join(self.wrapped(parts))

    @property
    def title(self) -> str:
        return f"W @ x {shape_text(self.left.shape)}"


class _Elementwise(Expression):
    inputs = 2

    def __init__(self, left: Expression, right: Expression, bound: float) -> None:
        if left.shape != right.shape:
            raise ShapeError(
                "elementwise operations need equal shapes",
                expected=shape_text(left.shape),
                got=shape_text(right.shape),
            )
        self.left, self.right = left, right
        super().__init__(left.shape, left.secret or right.secret, bound, left, right)


@operation
class Add(_Elementwise):
    """The entrywise sum."""

    op = "add"
    linear = True

    def __init__(self, left: Expression, right: Expression) -> None:
        super().__init__(left, right, left.bound + right.bound)

    def _transpose(self) -> Expression:
        return Add(self.left.T, self.right.T)

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return parts[0] + parts[1]

    def gain(self, position: int) -> float:
        return 1.0

    def log_unit(self, parts: Sequence[float]) -> float:
        return max(parts)

    def text(self, parts: Sequence[str]) -> str:
        left, right = self.wrapped(parts)
        if isinstance(self.right, Scale) and self.right.factor == -1.0 and parts[1] != "…":
            return f"{left} - {parts[1][1:]}"  # the text of the negated node begins with its sign
        return f"{left} + {right}"

    @property
    def title(self) -> str:
        return f"sum {shape_text(self.shape)}"


@operation
class Multiply(_Elementwise):
    """The entrywise (Hadamard) product."""

    op = "multiply"

    def __init__(self, left: Expression, right: Expression) -> None:
        super().__init__(left, right, left.bound * right.bound)

    def _transpose(self) -> Expression:
        return Multiply(self.left.T, self.right.T)

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return parts[0] * parts[1]

    def as_column(self, parts: Sequence[Expression]) -> Expression | None:
        return None

    def gain(self, position: int) -> float:
        return self.children[1 - position].bound

    def text(self, parts: Sequence[str]) -> str:
        return " * ".join(self.wrapped(parts))

    @property
    def title(self) -> str:
        return f"{'square' if self.left is self.right else 'product'} {shape_text(self.shape)}"


@operation
class Scale(Expression):
    """A node times a finite number other than zero."""

    op = "scale"
    fields: ClassVar = {"factor": schema.number()}
    linear = True

    def __init__(self, child: Expression, factor: float) -> None:
        if not math.isfinite(factor) or factor == 0:
            raise RangeError("a factor", expected="a finite number other than 0", got=factor)
        self.child: Expression = child
        self.factor: float = float(factor)
        super().__init__(child.shape, child.secret, child.bound * abs(factor), child)

    def _transpose(self) -> Expression:
        return Scale(self.child.T, self.factor)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"factor": self.factor}

    @property
    def identity(self) -> Hashable:
        return self.factor

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return parts[0] * self.factor

    def gain(self, position: int) -> float:
        return abs(self.factor)

    def log_unit(self, parts: Sequence[float]) -> float:
        return parts[0] + math.log2(abs(self.factor))

    @property
    def row_sum(self) -> float:
        return abs(self.factor) * self.child.row_sum

    @property
    def column_sum(self) -> float:
        return abs(self.factor) * self.child.column_sum

    def text(self, parts: Sequence[str]) -> str:
        (child,) = self.wrapped(parts)
        return f"-{child}" if self.factor == -1.0 else f"{self.factor!r} * {child}"

    @property
    def title(self) -> str:
        return f"product {shape_text(self.shape)}"


def _short(value: Any) -> str:
    """A parameter of an operation; two equal numbers are one."""
    return str(value[0]) if isinstance(value, list) and len(set(value)) == 1 else str(value)


def scaled(node: Expression, factor: float) -> Expression:
    """A node times a number. Factors of factors are one factor; zero times anything is a constant."""
    if not math.isfinite(factor):
        raise RangeError("a factor must be finite", expected="a finite number", got=factor)
    if factor == 0:
        return Constant(np.zeros(node.shape), operands_of(node))
    inner = node
    if isinstance(node, Scale):
        inner, factor = node.child, node.factor * factor
    return inner if factor == 1 else Scale(inner, factor)


def _is_zero(value: Any) -> bool:
    return is_scalar(value) and bool(value == 0)


def _product(left: Expression, right: Expression) -> Expression:
    """As NumPy's `@`: a vector on the left is multiplied by the transpose."""
    if len(left.shape) == 1 and len(right.shape) == 2:
        return MatMul(right.T, left)
    return MatMul(left, right)


def _as_factor(value: Any) -> Expression:
    """A node for one side of `@`."""
    if isinstance(value, Expression):
        return value
    _check_array(value)
    return Constant(finite_array(value, "a constant", (1, 2)))


def as_node(value: Any, dimensions: int, what: str) -> Expression:
    """A node for `value`, an expression or an array with so many dimensions."""
    if not isinstance(value, Expression):
        return Constant(finite_array(value, what, (dimensions,)))
    if len(value.shape) != dimensions:
        raise ShapeError(what, expected=f"{dimensions} dimensions", got=shape_text(value.shape))
    return value


def _check_array(value: Any) -> None:
    if not isinstance(value, (np.ndarray, list, tuple)):
        raise DTypeError(
            "an operand of a program must be a matrix",
            expected="an operand or a 2-D array",
            got=type(value).__name__,
        )


def _as_matrix(value: Any, shape: tuple[int, ...]) -> Expression:
    """A node for `value`; numbers and arrays are broadcast to `shape`."""
    if isinstance(value, Expression):
        return value
    if not is_scalar(value):
        _check_array(value)
    array = np.asarray(real_number(value) if is_scalar(value) else real_array(value, "a constant"))
    try:
        array = np.broadcast_to(array, shape)
    except ValueError:
        raise ShapeError(
            "a constant cannot be broadcast to the other operand",
            expected=shape_text(shape),
            got="x".join(map(str, array.shape)),
        ) from None
    return Constant(finite_array(array, "a constant", (len(shape),)))


def matrix_shape(node: Expression) -> tuple[int, int]:
    """Rows and columns; ShapeError where a node is no matrix."""
    if len(node.shape) != 2:
        raise ShapeError("a matrix", expected="2 dimensions", got=shape_text(node.shape))
    return node.shape[0], node.shape[1]


def trace(function: Callable[..., Any], operands: Mapping[str, Operand]) -> Expression:
    """Call `function` with one leaf per operand and return the node that it builds.

    Raises:
        MismatchError: the function does not take these operands by name.
        DTypeError: it does not return a node.
    """
    leaves = {name: Leaf(name, operand) for name, operand in operands.items()}
    if not callable(function):
        raise DTypeError("what to compile", expected="a function of matrices", got=type(function).__name__)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin: it will say itself what it does not like
        signature = None
    if signature is not None:
        try:
            signature.bind(**leaves)
        except TypeError as error:
            raise MismatchError(
                "the function does not take the operands by name", expected=str(signature), got=str(error)
            ) from None
    result = function(**leaves)
    if not isinstance(result, Expression):
        raise DTypeError(
            "the function must return a matrix expression",
            expected="an expression",
            got=type(result).__name__,
        )
    return result


def ordered(node: Expression) -> list[Expression]:
    """The distinct nodes of a graph, children before parents, left before right."""
    found: dict[int, Expression] = {}

    def visit(current: Expression) -> None:
        if id(current) not in found:
            for child in current.children:
                visit(child)
            found[id(current)] = current

    visit(node)
    return list(found.values())


def is_constant(node: Expression) -> bool:
    """Whether a clear part is known before operands are."""
    return not any(isinstance(current, Leaf) for current in ordered(node))


def has_public_key(node: Expression) -> bool:
    """Whether the public key may encrypt an operand of a graph."""
    return any(isinstance(current, Leaf) and current.operand.public_key for current in ordered(node))


def operands_of(node: Expression) -> set[str]:
    """Names of the operands that went into a graph, those multiplied by zero included."""
    names: set[str] = set()
    for current in ordered(node):
        if isinstance(current, Leaf):
            names.add(current.name)
        elif isinstance(current, Constant):
            names |= current.replaces
    return names


def operand_values(leaf: Leaf, values: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The entries of an operand as a leaf uses them, in the type that they were given in: not to be computed with."""
    return values[leaf.name].T if leaf.transposed else values[leaf.name]


def evaluate_clear(node: Expression, values: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """The value of `node` in NumPy, in float64 whatever the types of operands.

    The oracle that encrypted results are compared with, and what a program computes of its parts without secrets.
    """
    found: dict[int, NDArray[np.float64]] = {}
    for current in ordered(node):
        parts = [found[id(child)] for child in current.children]
        if isinstance(current, Leaf):
            found[id(current)] = operand_values(current, values).astype(np.float64, copy=False)
        else:
            found[id(current)] = current.evaluate(parts)
    return found[id(node)]
