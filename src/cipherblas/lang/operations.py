"""The operations on matrices and vectors: operands, constants, products, sums, factors."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.arrays import finite_array, is_integral, shape_text
from cipherblas.common.errors import FormatError, RangeError, ShapeError
from cipherblas.lang.arranged_products import arranged_product
from cipherblas.lang.batches import batched_product
from cipherblas.lang.bounds import SUM_ROUNDING, along, entrywise, least, moved, weighed
from cipherblas.lang.facts import facts_of, operands_of
from cipherblas.lang.nodes import OPERATIONS, Bounds, Expression, column_shape, operation, ordered
from cipherblas.lang.operands import BOUND_RANGE, CLEAR_BITS, Operand
from cipherblas.lang.steps import Step

BY_ENTRIES = (
    "multiply",
    "polynomial",
    "gated",
    "refresh",
    "refresh_sine",
)  # that no product takes the place of
ZERO_BOUND = 2.0**-20  # stands for the bound of a matrix of zeros


@operation
class Leaf(Expression):
    """An operand, possibly transposed. `name` is the parameter of the user's function that it is.

    Attributes:
        repeated: along which axes all entries are known to be equal: those of one entry, and what is broadcast.
    """

    op = "operand"
    inputs = 0
    fields: ClassVar = {"name": schema.text, "transposed": schema.flag}
    linear = True
    operand: Operand

    def __init__(self, name: str, operand: Operand, transposed: bool = False) -> None:
        self.name, self.operand, self.transposed = name, operand, transposed
        self.names, self.label = frozenset({name}), name
        if operand.encoding is not None:
            self.error = operand.encoding.error
        shape = operand.shape[::-1] if transposed else operand.shape
        super().__init__(shape, operand.secret, operand.bound)
        self.repeated: tuple[bool, ...] = tuple(length == 1 for length in shape)

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

    def integral(self, parts: Sequence[bool]) -> bool:
        return self.operand.whole

    @functools.cached_property
    def _sums(self) -> tuple[float, float, float]:
        """Of rows and of columns, and the norm, of an operand or of what is cut out of it; infinite where its entries
        were moved."""
        if len(self.operand.shape) > 2 or any(step.kind not in ("slice", "pad") for step in self.steps):
            return math.inf, math.inf, math.inf
        row, column, norm = self.operand.sums()
        return (column, row, norm) if self.transposed else (row, column, norm)

    @property
    def row_sum(self) -> float:
        return min(super().row_sum, self._sums[0])

    @property
    def column_sum(self) -> float:
        return min(super().column_sum, self._sums[1])

    @property
    def row_norm(self) -> float:
        usual = super().row_norm
        if len(self.shape) != 2 or self.row_sum == self.shape[1] * self.bound:
            return usual
        return min(usual, self.norm, math.sqrt(self.bound) * math.sqrt(self.row_sum))

    @property
    def norm(self) -> float:
        return min(super().norm, self._sums[2])

    @functools.cached_property
    def _known(self) -> Bounds:
        """Bounds of its columns and rows, as the client arranges it."""
        if self.operand.columns is None:
            return None, None
        declared = np.broadcast_to(np.array(self.operand.columns), self.operand.shape)
        columns, rows = moved(declared, self.steps, self.bound)
        return (rows, columns) if self.transposed else (columns, rows)

    @property
    def column_bounds(self) -> NDArray[np.float64] | None:
        return self._known[0]

    @property
    def row_bounds(self) -> NDArray[np.float64] | None:
        return self._known[1]

    def __reduce__(self) -> tuple[Any, ...]:
        return Leaf, (self.name, self.operand, self.transposed)

    def as_column(self, parts: Sequence[Expression]) -> Expression:
        operand = dataclasses.replace(self.operand, shape=column_shape(self.shape), normalise=None)
        return Leaf(self.name, operand)  # what clients take out of it is said by the program's operand

    def log_unit(self, parts: Sequence[float]) -> float:
        return math.log2(self.bound)

    def text(self, parts: Sequence[str]) -> str:
        return f"{self.name}.T" if self.transposed else self.name

    @property
    def title(self) -> str:
        return f"{self.name} {shape_text(self.shape)}"


def _named(found: Mapping[str, Any], row: Mapping[str, Any], what: str) -> Any:
    if row["name"] not in found:
        raise FormatError(f"The name of {what} is not known.", expected=", ".join(found), got=row["name"])
    return found[row["name"]]


@operation
class Constant(Expression):
    """Clear values that are part of the program. The node holds a copy.

    `replaces` names the operands that it made superfluous: those of a node that was multiplied by zero.
    """

    op = "constant"
    inputs = 0
    fields: ClassVar = {"name": schema.text}

    def __init__(self, values: NDArray[np.float64], replaces: Iterable[str] = ()) -> None:
        self.values = np.array(values, dtype=np.float64, order="C")
        self.values.flags.writeable = False
        self.names = self.replaces = frozenset(replaces)
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
        return self.shape, self.digest  # files hold no more of it

    @classmethod
    def read(
        cls,
        row: Mapping[str, Any],
        children: Sequence[Expression],
        operands: Mapping[str, Operand],
        tensors: Mapping[str, NDArray[Any]],
    ) -> Expression:
        return cls(finite_array(_named(tensors, row, cls.op), "a constant", (0, 1, 2, 3, 4)))

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return self.values

    def integral(self, parts: Sequence[bool]) -> bool:
        return self._whole

    @functools.cached_property
    def _whole(self) -> bool:
        return is_integral(self.values)

    def __reduce__(self) -> tuple[Any, ...]:
        return Constant, (self.values, self.replaces)

    def as_column(self, parts: Sequence[Expression]) -> Expression:
        return Constant(self.values.reshape(column_shape(self.shape)), self.replaces)

    def log_unit(self, parts: Sequence[float]) -> float:
        return math.log2(self.bound)

    def text(self, parts: Sequence[str]) -> str:
        return f"constant[{shape_text(self.shape)}]"

    @property
    def title(self) -> str:
        return f"constant {shape_text(self.shape)}"

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


def _fitting(left: Expression, right: Expression) -> list[str]:
    """Products like this one whose inner lengths are equal: with a transpose where that does."""
    found = []
    if len(left.shape) == len(right.shape) == 2:
        a, b = getattr(left, "label", None), getattr(right, "label", None)
        named = a is not None and b is not None
        if left.shape[1] == right.shape[1]:
            found.append(f"{a} @ {b}.T" if named else "the transpose of the right factor")
        if left.shape[0] == right.shape[0]:
            found.append(f"{a}.T @ {b}" if named else "the transpose of the left factor")
    return found or [f"a right factor of {left.shape[-1]} rows"]


@operation
class MatMul(Expression):
    """The product of an m×k node and a k×n node, or a vector of k entries; or of two vectors, which is a number."""

    op = "matmul"
    inputs = 2
    product = True

    def __init__(self, left: Expression, right: Expression) -> None:
        if (len(left.shape), len(right.shape)) not in ((2, 1), (2, 2), (1, 1)):
            raise ShapeError(
                "The factors of a product must be matrices or vectors.",
                got=f"{shape_text(left.shape)} and {shape_text(right.shape)}",
                advice="x * y for the product by a number"
                if () in (left.shape, right.shape)
                else "x.reshape(1, -1) @ y",
            )
        if left.shape[-1] != right.shape[0]:
            raise ShapeError(
                f"The inner dimensions of a product differ: {shape_text(left.shape)} and {shape_text(right.shape)}.",
                advice=_fitting(left, right),
            )
        self.left, self.right = left, right
        bound = min(self._left_sum * right.bound, left.bound * right.column_sum, self._of_norms)
        inner, columns, rows = self._inner, self._columns, self._rows
        if inner[0] is not None and inner[1] is not None:
            bound = min(bound, float(inner[0] @ inner[1]) * (1 + SUM_ROUNDING) or math.inf)
        super().__init__(
            (*left.shape[:-1], *right.shape[1:]),
            left.secret or right.secret,
            least(bound, columns, rows),
            left,
            right,
        )
        self._bounds = columns if len(right.shape) == 2 else None, rows if len(left.shape) == 2 else None

    @property
    def _left_sum(self) -> float:
        """Largest sum of absolute values in a row of the left factor; a vector is one."""
        return self.left.row_sum if len(self.left.shape) == 2 else self.left.column_sum

    @property
    def _of_norms(self) -> float:
        """A bound on entries: that of a row of the left factor times that of a column of the right one."""
        left = min(self.left.row_norm, self.left.norm) if len(self.left.shape) == 2 else self.left.norm
        return left * self.right.norm * (1 + SUM_ROUNDING) or math.inf  # where that is too small for a double

    @property
    def _inner(self) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
        """Bounds of what each term of its sums has from the left factor, and from the right one."""
        return along(self.left, len(self.left.shape) - 1), self.right.row_bounds

    @property
    def _columns(self) -> NDArray[np.float64] | None:
        """Bounds of its columns; of a vector of all entries."""
        known, _ = self._inner
        found = None if known is None else weighed(known, self.right, 0)
        if found is None and self.right.column_bounds is not None:
            return self._left_sum * self.right.column_bounds
        return found

    @property
    def _rows(self) -> NDArray[np.float64] | None:
        """Bounds of its rows; of a product of two vectors of itself."""
        _, known = self._inner
        found = None if known is None else weighed(known, self.left, len(self.left.shape) - 1)
        if found is None and len(self.left.shape) == 2 and self.left.row_bounds is not None:
            return self.left.row_bounds * self.right.column_sum
        return found

    @property
    def _norms(self) -> float:
        """A bound on its own norm."""
        return self.left.norm * self.right.norm * (1 + SUM_ROUNDING) or math.inf

    @functools.cached_property
    def row_sum(self) -> float:
        by_norm = math.sqrt(self.shape[1]) * self._norms
        return max(self.bound, min(super().row_sum, self.left.row_sum * self.right.row_sum, by_norm))

    @functools.cached_property
    def column_sum(self) -> float:
        usual = min(super().column_sum, math.sqrt(self.shape[0]) * self._norms)
        return (
            min(usual, self.left.column_sum * self.right.column_sum) if len(self.left.shape) == 2 else usual
        )

    @functools.cached_property
    def norm(self) -> float:
        return max(self.bound, min(super().norm, self.left.norm * self.right.norm))

    @classmethod
    def of(cls, *parts: Expression) -> Any:
        """As NumPy's `@`: a vector on the left is multiplied by the transpose, and arrays of matrices one by one."""
        left, right = parts
        if max(len(left.shape), len(right.shape)) == 3:
            return batched_product(left, right)
        return cls(right.T, left) if len(left.shape) == 1 and len(right.shape) == 2 else cls(left, right)

    def _transpose(self) -> Expression:
        return MatMul(self.right.T, self.left.T)

    def arranged(self, step: Step) -> Expression | None:
        return arranged_product(self, step)

    def as_column(self, parts: Sequence[Expression]) -> Expression:
        left, right = parts
        if len(self.left.shape) == 2:
            return MatMul(left, right)
        # Of two columns one is transposed, and so is all that it is computed from: not what is long to compute.
        if left.packable or not _is_entrywise(left):
            return MatMul(left.T, right)
        if right.packable or not _is_entrywise(right):
            return MatMul(right.T, left)
        return MatMul(Constant(np.ones((1, left.shape[0]))), Multiply(left, right))

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.asarray(parts[0] @ parts[1])

    def gain(self, position: int) -> float:
        return self.right.column_sum if position == 0 else self._left_sum

    def axes(self, parts: Sequence[tuple[str, str]], join: Callable[[str, str], None]) -> tuple[str, str]:
        join(parts[0][1], parts[1][0])
        return parts[0][0], parts[1][1]

    def text(self, parts: Sequence[str]) -> str:
        return " @ ".join(self.wrapped(parts))

    @property
    def title(self) -> str:
        left, right = (shape_text(child.shape) for child in self.children)
        return f"W @ x {left}" if len(self.shape) == 1 else f"product {left} · {right}"


def _is_entrywise(node: Expression) -> bool:
    """Whether encrypted values are multiplied entrywise, functions of them taken, or they are refreshed, to compute a
    node."""
    return any(one.op in BY_ENTRIES and not one.packable for one in ordered(node))


def arranged(node: Expression, step: Step) -> Expression:
    """A node whose entries are arranged by a step of `lang.arrangements`."""
    return OPERATIONS["arrange"].of(node, step)


class _Elementwise(Expression):
    inputs = 2

    def arranged(self, step: Step) -> Expression:
        left = arranged(self.left, step)
        right = left if self.right is self.left else arranged(self.right, step)
        return self.rebuilt((left, right))

    def __init__(
        self, left: Expression, right: Expression, bound: float, bounds: Bounds = (None, None)
    ) -> None:
        if left.shape != right.shape:
            raise ShapeError(
                "Both sides of elementwise operations need equal shapes.",
                expected=shape_text(left.shape),
                got=shape_text(right.shape),
            )
        self.left, self.right = left, right
        super().__init__(left.shape, left.secret or right.secret, least(bound, *bounds), left, right)
        self._bounds = bounds


@operation
class Add(_Elementwise):
    """The entrywise sum."""

    op = "add"
    linear = True

    def __init__(self, left: Expression, right: Expression) -> None:
        super().__init__(left, right, left.bound + right.bound, entrywise(np.add, left, right))

    @functools.cached_property
    def row_sum(self) -> float:
        return self.left.row_sum + self.right.row_sum

    @functools.cached_property
    def column_sum(self) -> float:
        return self.left.column_sum + self.right.column_sum

    @functools.cached_property
    def norm(self) -> float:
        return self.left.norm + self.right.norm

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
        super().__init__(left, right, left.bound * right.bound, entrywise(np.multiply, left, right))

    def _transpose(self) -> Expression:
        return Multiply(self.left.T, self.right.T)

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return parts[0] * parts[1]

    def gain(self, position: int) -> float:
        return self.children[1 - position].bound

    @property
    def packable_factors(self) -> bool:
        """Whether the client can pack both factors."""
        return self.left.packable and self.right.packable

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
            raise RangeError(
                "A factor must be finite and other than 0.",
                expected="a finite number other than 0",
                got=factor,
            )
        self.child: Expression = child
        self.factor: float = float(factor)
        super().__init__(child.shape, child.secret, child.bound * abs(factor), child)
        known = child.column_bounds, child.row_bounds
        self._bounds = (
            None if known[0] is None else abs(factor) * known[0],
            None if known[1] is None else abs(factor) * known[1],
        )

    @classmethod
    def of(cls, *parts: Any) -> Expression:
        """A node times a number. Factors of factors are one factor, where that is the same number; zero times anything
        is a constant."""
        node: Expression
        factor: float
        node, factor = parts
        if not math.isfinite(factor):
            raise RangeError("A factor must be finite.", got=factor, advice="a finite number")
        if factor == 0:
            return Constant(np.zeros(node.shape), operands_of(node))
        inner = node
        if isinstance(node, Scale) and node.is_one_with(factor):
            inner, factor = node.child, node.factor * factor
        return inner if factor == 1 else cls(inner, factor)

    def is_one_with(self, factor: float) -> bool:
        """Whether its factor times another one is a factor that stands for both. Of integers float64 might not hold
        that, and in fixed point factors are fractions."""
        if 1.0 in (abs(self.factor), abs(factor)):
            return True
        if self.factor.is_integer() and float(factor).is_integer():
            if abs(self.factor * factor) < 2.0**CLEAR_BITS:
                return True
            return self.modulus is None and not facts_of(self).exact
        return not facts_of(self).fixed_point

    def _transpose(self) -> Expression:
        return Scale(self.child.T, self.factor)

    def arranged(self, step: Step) -> Expression:
        return Scale(arranged(self.child, step), self.factor)

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

    def integral(self, parts: Sequence[bool]) -> bool:
        return parts[0] and self.factor.is_integer()

    def log_unit(self, parts: Sequence[float]) -> float:
        return parts[0] + math.log2(abs(self.factor))

    @functools.cached_property
    def row_sum(self) -> float:
        return abs(self.factor) * self.child.row_sum

    @functools.cached_property
    def column_sum(self) -> float:
        return abs(self.factor) * self.child.column_sum

    @property
    def row_norm(self) -> float:
        return abs(self.factor) * self.child.row_norm

    @functools.cached_property
    def norm(self) -> float:
        return abs(self.factor) * self.child.norm

    def text(self, parts: Sequence[str]) -> str:
        (child,) = self.wrapped(parts)
        return f"-{child}" if self.factor == -1.0 else f"{self.factor!r} * {child}"

    @property
    def title(self) -> str:
        return f"product {shape_text(self.shape)}"
