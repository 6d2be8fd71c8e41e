"""Nodes of a program, and the table of the operations that they can be.

A node knows its shape, whether it depends on secret data, and a bound on its entries. Transposition is
pushed to the leaves when it is written, so the executor only ever meets transposed operands: the client
packs a transposed matrix at no cost. Bounds follow from interval arithmetic (a product of an m×k and a k×n
matrix is bounded by k·max|A|·max|B|, that of known weights by their largest sum of a row), and the planner states the
error relative to them.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.arrays import (
    Shaped,
    clear_array,
    finite_array,
    is_scalar,
    real_array,
    real_number,
    shape_text,
)
from cipherblas.common.errors import DTypeError, ParameterError, RangeError, ShapeError, UnknownNameError
from cipherblas.lang.operands import CLEAR_BITS, Operand, checked_bound
from cipherblas.lang.places import Place, place_of_caller
from cipherblas.lang.spelled import OTHER_ARRAYS, OTHERS, spelled
from cipherblas.lang.steps import Step
from cipherblas.lang.windows import Window

Numeric = Callable[[Any], Any]  # a function of a number, or of every entry of an array
Bounds = tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]  # of columns, and of rows
RECURSION = 64  # of nested operations that are rewritten from one call


class Written(NamedTuple):
    """The exact expression of an approximated node: a function of another node's values. Values nearer to zero than
    `within` may have any result."""

    function: Numeric
    x: Expression
    within: float = 0.0

    def evaluate(self, x: NDArray[np.float64], own: NDArray[np.float64]) -> NDArray[np.float64]:
        """From the values of `x`, and those of the node itself."""
        found = np.asarray(self.function(x), np.float64)
        return np.where(np.abs(x) < self.within, own, found) if self.within else found


class Watcher(Protocol):
    """Who is told of every new node, and answers with the node that is taken: see `lang.samples`."""

    def made(self, node: Expression) -> Expression: ...


WATCHER: ContextVar[Watcher | None] = ContextVar("WATCHER", default=None)


class _Watched(type):
    """Of classes whose instances can be watched as they are made."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        node = super().__call__(*args, **options)
        watcher = WATCHER.get()
        return node if watcher is None else watcher.made(node)


class Expression(Shaped, metaclass=_Watched):
    """A node of a program: a matrix, a vector or an image. Combine nodes by `@`, `+`, `-`, `*`, unary `-` and `.T`.

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
        most_inputs: their largest number, where that is another one.
        fields, optional: of its parameters in a file; those that may be missing.
        root: of a graph alone; nothing is computed of it.
        layer: it is of networks: not of matrices, or of one at most.
        linear: the client can pack it as it packs its children.
        tensor: the array that stands for it in a file, if one does.
        product: it is one of a matrix, with sums over an inner dimension.
        sheds: it can be `shortened`.
        names: of operands that went into it beside those of its children.
        operand, name, transposed: of an operand; `operand` is None for all other nodes.
        label: of an operand, its name and how it is arranged but for a transpose.
        steps: how an operand is arranged before it is packed.
        arranged_of: the value that it is an arrangement of, and the step, where it was pushed to the operands.
        error: by which its value is known to be off the exact one, of exact children.
        window: of a convolution or a mean over windows; None for all other nodes.
        modulus: t of integers modulo t; None of real numbers.
        written: what it approximates, where it is known: while the program is written, and not in files.
        place: where the user wrote it, as far as that is known.
    """

    op: ClassVar[str]
    inputs: ClassVar[int] = 1
    most_inputs: ClassVar[int | None] = None
    fields: ClassVar[Mapping[str, schema.Check]] = {}
    optional: ClassVar[Mapping[str, schema.Check]] = {}
    root: ClassVar[bool] = False
    layer: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    product: ClassVar[bool] = False
    sheds: ClassVar[bool] = False
    operand: Operand | None = None
    name: str
    transposed: bool
    label: str
    steps: tuple[Step, ...] = ()
    window: Window | None = None
    error: float = 0.0
    modulus: int | None = None
    written: Written | None = None
    tensor: NDArray[np.float64] | None = None
    names: frozenset[str] = frozenset()
    place: Place | None = None

    def __init__(self, shape: tuple[int, ...], secret: bool, bound: float, *children: Expression) -> None:
        self.shape = shape
        self.secret = secret
        each = (child.modulus for child in children)
        if self.operand is not None:
            self.modulus = self.operand.plain_modulus
        else:
            self.modulus = next((modulus for modulus in each if modulus is not None), None)
        if self.modulus is not None:
            bound = min(bound, max(1.0, self.modulus // 2))
        self.bound = checked_bound(bound)
        self.children: tuple[Expression, ...] = children
        self.packable: bool = not secret or (self.linear and all(child.packable for child in children))
        self.depth: int = 1 + max((child.depth for child in children), default=0)
        self.place = place_of_caller()
        self._transposed: Expression | None = None
        self._missed: float | None = None
        self.facts: object = None  # of the graph below it, where somebody asked: see `lang.facts`
        self.known_arranged: dict[Step, Expression] = {}  # so that shared parts stay shared
        self.arranged_of: tuple[Expression, Step] | None = None

    __pandas_priority__ = 1 << 16  # above that of tables, which would take it for a number

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise DTypeError(
            "An encrypted value cannot be converted to an array.",
            advice="@, +, -, * with arrays of NumPy; cb.matmul(S, x) for S @ x of a sparse matrix or a table S",
        )

    def __array_function__(self, function: Any, _: Any, args: Any, named: Any) -> Any:
        return of_numpy(function, function.__name__, args, named)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """`array @ node`, which NumPy must not take apart element by element, and functions of entries."""
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        return of_numpy(ufunc if method == "__call__" else name, name, inputs, options)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The array API's functions for it: NumPy's, which ask it (`lang.from_numpy`)."""
        return np

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the decrypted result, as in NumPy: float64, or int64 of exact integers and of those modulo t
        (uint64 beyond 2^63)."""
        leaves = (node.operand for node in ordered(self) if node.operand is not None)
        if self.modulus is None and not any(operand.exact for operand in leaves):
            return np.dtype(np.float64)
        return np.dtype(np.uint64 if (self.modulus or 0) > 1 << 63 else np.int64)

    @property
    def mT(self) -> Expression:
        """The matrix, or each matrix of an array, transposed, as in NumPy."""
        return self.T if len(self.shape) == 2 else _function("transpose")(self, *_last_swapped(self.shape))

    @property
    def T(self) -> Expression:
        """The transpose (free: the client packs the operands transposed); of a vector or a number, itself."""
        if len(self.shape) < 2:
            return self
        if len(self.shape) != 2:
            raise ShapeError(
                "Only a matrix or a vector has a transpose.",
                got=shape_text(self.shape),
                advice="x.transpose() for all axes in reversed order",
            )
        if self._transposed is None:
            for node in checkpoints(self):
                node.T  # noqa: B018
            self._transposed = self._transpose()
            if self._transposed._transposed is None:  # it may be a node that there was before
                self._transposed._transposed = self
            self._transposed.is_arranged(self, Step("transpose", (1, 0)))
        return self._transposed

    def is_arranged(self, value: Expression, step: Step) -> None:
        """Remember that it is a value arranged by a step, computed from arranged operands: not what that is itself an
        arrangement of, to which further steps may lead back."""
        origin: Expression | None = value
        while origin is not None and origin is not self:
            origin = origin.arranged_of and origin.arranged_of[0]
        if self.arranged_of is None and origin is None:
            self.arranged_of = value, step

    # ---- the rules of an operation ----

    @property
    def utmost(self) -> float:
        """A number that no entry exceeds, of inputs that do not keep their bounds as well, where there is one; its
        bound elsewhere."""
        return self.bound

    def arranged(self, step: Step) -> Expression | None:
        """The same as an operation on arranged children (see `lang.arrangements`), where it is one."""
        return None

    def _transpose(self) -> Expression:
        """The transpose of a matrix."""
        raise NotImplementedError

    @property
    def parameters(self) -> dict[str, Any]:
        """Keyword arguments of `__init__` beside the children, JSON-ready."""
        return {}

    @property
    def identity(self) -> Hashable:
        """Equal for operations that make the same of the same children."""
        return json.dumps(self.parameters)

    @classmethod
    def of(cls, *parts: Any) -> Expression:
        """Return a node of the operation, or a simpler node of the same value; users call this."""
        return cls(*parts)

    def rebuilt(self, children: Sequence[Expression]) -> Expression:
        """Return the same operation on other nodes."""
        make: Callable[..., Expression] = type(self)
        found = make(*children, **self.parameters)
        found.place = self.place
        return found

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
        return make(*children, **{name: row[name] for name in (*cls.fields, *cls.optional) if name in row})

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        """The operation in NumPy, of the values of its children."""
        raise NotImplementedError

    def as_column(self, parts: Sequence[Expression]) -> Expression | None:
        """The same of matrices in place of vectors, numbers and images (`column_shape`); None where there is no such
        operation."""
        return None if self.layer else self.rebuilt(parts)

    def gain(self, position: int) -> float:
        """How much it changes by at most, per change of an entry of one child; values in bounds.

        Of linear operations, the largest sum of weights.
        """
        child = self.children[position]
        return max(1.0, self.bound / child.bound) if child.secret else 1.0

    def steepness(self, position: int) -> float:
        """As `gain`, of what was written: how much more it is off, per change of an entry of one child."""
        return self.gain(position)

    def missed_of(self, parts: Sequence[float]) -> float:
        """`missed`, from that of its children."""
        own = (self.steepness(position) * part for position, part in enumerate(parts) if part)
        return self.error + math.fsum(own)

    @property
    def missed(self) -> float:
        """Bound on the difference between the value and the exact expression without encryption: by approximations of
        functions, and by terms that were left out. It holds for every input within its bound."""
        if self._missed is None:
            for node in ordered(self):
                if node._missed is None:
                    node._missed = node.missed_of([child.missed for child in node.children])
        assert self._missed is not None
        return self._missed

    def log_unit(self, parts: Sequence[float]) -> float:
        """log2 of what its scale is relative to, from those of its children: a product's is that of both."""
        return math.fsum(parts)

    @property
    def row_sum(self) -> float:
        """Largest sum of absolute values in a row of a matrix, as far as the program knows its values.

        What a product on its left multiplies bounds by, and errors that are the same in all entries.
        """
        return self._sum_of(self.column_bounds, self.shape[1])

    @property
    def column_sum(self) -> float:
        """Largest sum of absolute values in a column of a matrix, or of all in a vector; see `row_sum`."""
        return self._sum_of(self.row_bounds, self.shape[0])

    def _sum_of(self, bounds: NDArray[np.float64] | None, length: int) -> float:
        most = length * self.bound
        return most if bounds is None else min(most, math.fsum(bounds))

    @property
    def row_norm(self) -> float:
        """Largest root of a sum of squares in a row, as `row_sum`."""
        most = self.bound * math.sqrt(math.prod(self.shape[1:]))
        return most if self.column_bounds is None else min(most, math.hypot(*self.column_bounds))

    @property
    def norm(self) -> float:
        """Largest singular value of a matrix, or length of a vector, as far as it is known."""
        if len(self.shape) == 1:
            most = self.bound * math.sqrt(self.shape[0])
            return most if self.row_bounds is None else min(most, math.hypot(*self.row_bounds))
        return math.sqrt(self.row_sum) * math.sqrt(self.column_sum)

    # Of columns and of rows: found when a node is made, since graphs are deep, and have many paths.
    _bounds: Bounds = (None, None)

    @property
    def column_bounds(self) -> NDArray[np.float64] | None:
        """Bounds of the entries of each column of a matrix, where more is known of them than its bound."""
        return self._bounds[0]

    @property
    def row_bounds(self) -> NDArray[np.float64] | None:
        """Bounds of the entries of each row of a matrix, or of each entry of a vector; see `column_bounds`."""
        return self._bounds[1]

    def integral(self, parts: Sequence[bool]) -> bool:
        """Whether entries are known to be whole numbers, from what is known of its children."""
        return all(parts)

    def shortened(self, error: float) -> Expression:
        """Without terms that change the value by at most `error` together; what is left counts them in its own."""
        return self

    def axes(
        self, parts: Sequence[tuple[str, str]], join: Callable[[str, str], None]
    ) -> tuple[str, str] | None:
        """Names of the rows and the columns of a matrix, from those of its children; `join` makes two names one. None
        where they are axes of their own."""
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
        if _is_batch(other):
            return NotImplemented
        return OPERATIONS["matmul"].of(self, _as_factor(held(other, self.modulus)))

    def __rmatmul__(self, other: Any) -> Expression:
        return OPERATIONS["matmul"].of(_as_factor(held(other, self.modulus)), self)

    def __add__(self, other: Any) -> Expression:
        if _is_batch(other):
            return NotImplemented
        if _is_zero(other):  # what sum() starts with
            return self
        return OPERATIONS["add"].of(*_aligned(self, other))

    def __radd__(self, other: Any) -> Expression:
        return self.__add__(other)

    def __sub__(self, other: Any) -> Expression:
        if _is_batch(other):
            return NotImplemented
        if _is_zero(other):
            return self
        left, right = _aligned(self, other)
        return OPERATIONS["add"].of(left, -right)

    def __rsub__(self, other: Any) -> Expression:
        return (-self).__add__(other)

    def __abs__(self) -> Any:
        return np.absolute(self)

    def __float__(self) -> NoReturn:
        raise DTypeError(
            "An encrypted value is no number while the program is written.",
            advice="the decrypted result on the client",
        )

    __int__ = __float__

    def _integer_part(self, *_: Any) -> NoReturn:
        raise DTypeError(
            "Whole parts and remainders of encrypted values are not computed.",
            advice="the decrypted result on the client",
        )

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise DTypeError(
            "A value of a program is never changed.",
            advice="cb.where(mask, y, x), with a clear mask that is True where y replaces x",
        )

    def _bits(self, *_: Any) -> NoReturn:
        raise DTypeError(
            "Bits of encrypted values are not computed.",
            advice="x * y, x + y - x * y or 1 - x for and, or and not of zeros and ones",
        )

    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = _bits
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _bits

    __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = __divmod__ = __rdivmod__ = _integer_part
    __round__ = __floor__ = __ceil__ = __trunc__ = _integer_part

    def __rpow__(self, base: Any) -> NoReturn:
        raise DTypeError(
            "The power of a number with an encrypted exponent is not computed.",
            advice="cb.exp(x * np.log(base)) for base ** x",
        )

    def __neg__(self) -> Expression:
        return self._times(-1.0)

    def _times(self, factor: float) -> Expression:
        return OPERATIONS["scale"].of(self, factor)

    def __pos__(self) -> Expression:
        return self

    def __mul__(self, other: Any) -> Expression:
        if _is_batch(other):
            return NotImplemented
        other = held(other, self.modulus)
        if is_scalar(other):
            return self._times(real_number(other))
        return OPERATIONS["multiply"].of(*_aligned(self, other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Expression:
        if isinstance(other, Expression):
            return other.__rtruediv__(self)
        if is_scalar(other):
            divisor: Any = real_number(other)
        else:
            other = held(other, None)
            _check_array(other)
            divisor = finite_array(other, "a divisor", (1, 2, 3, 4))
        if np.any(divisor == 0.0):
            raise RangeError("The program has a division by zero.", advice="a divisor other than 0")
        result: Expression = self * (1.0 / divisor)
        return result

    def __rtruediv__(self, other: Any) -> NoReturn:
        if not self.secret:
            raise DTypeError(
                "The division by a clear operand is not computed.",
                advice="y * p for y / p, with the inverses of its entries as the values of p",
            )
        raise DTypeError(
            "The division by an encrypted value is not computed.",
            advice="y * cb.inverse(x, lower=…) for y / x, no entry of x being below lower",
        )

    def __pow__(self, exponent: Any) -> Expression:
        return _function("power")(self, exponent)

    def __getitem__(self, key: Any) -> Expression:
        return _function("getitem")(self, key)

    def __len__(self) -> int:
        if not self.shape:
            raise DTypeError(
                "A number has no length.", advice="x itself: it is not indexed, and nothing is iterated"
            )
        return self.shape[0]

    def __iter__(self) -> Iterator[Expression]:
        return (self[number] for number in range(len(self)))

    def __bool__(self) -> NoReturn:
        raise DTypeError(
            "Whether an encrypted value is true is not known while the program is written.",
            advice="m * x + (1 - m) * y in place of branches, with m = cb.greater(x, threshold, margin=…)",
        )

    def _compared(self, other: Any) -> NoReturn:
        raise DTypeError(
            "Encrypted values cannot be compared.",
            advice="cb.greater(x, threshold, margin=…), which is 1 where x is greater and else 0, encrypted",
            cause="The server would see the result.",
        )

    __lt__ = __le__ = __gt__ = __ge__ = _compared

    def __getattr__(self, name: str) -> Any:
        """NumPy's methods: those of `lang.array_functions`."""
        if name.startswith("_") or name not in FUNCTIONS:
            if name.startswith("_"):
                raise AttributeError(f"a node of a program has no attribute {name!r}")
            advice = spelled(name, FUNCTIONS, CALLED, OTHERS)
            raise UnknownNameError(
                f"An encrypted value has no attribute {name!r}.", advice=() if advice == OTHERS else advice
            )
        return functools.partial(FUNCTIONS[name], self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {shape_text(self.shape)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made, and so checked, as an operation on the copied children."""
        return _operation_on, (type(self), self.children, self.parameters)


def _operation_on(
    kind: Callable[..., Expression], children: Sequence[Expression], parameters: Mapping[str, Any]
) -> Expression:
    return kind(*children, **parameters)


def of_numpy(function: Any, name: str, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return the node that stands for a call of NumPy's function on nodes: see `lang.from_numpy`.

    Raises:
        DTypeError: it is not computed.
    """
    found = NUMPY.get(function, NUMPY.get(name))
    if found is None:
        one = isinstance(function, np.ufunc) and function.nin == 1
        raise DTypeError(
            f"The function np.{name} cannot be applied to an encrypted value.",
            advice=spelled(name, FUNCTIONS, CALLED, OTHERS if one else OTHER_ARRAYS),
        )
    return found(*args, **named)


def operated(name: str, left: Any, right: Any) -> Any:
    """The operator that Python calls by a name, of two sides of which one is a node or a batch."""
    if isinstance(left, Shaped):
        return getattr(left, f"__{name}__")(right)
    return getattr(right, f"__{REFLECTED.get(name, f'r{name}')}__")(left)


# How Python calls the operators of NumPy's functions.
OPERATORS = {
    "matmul": "matmul",
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "truediv",
    "power": "pow",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
}
REFLECTED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
# That are functions of the package and no methods.
CALLED = (
    "concatenate",
    "diag",
    "inner",
    "matmul",
    "outer",
    "stack",
    "vdot",
    "where",
    "broadcast_to",
    "expand_dims",
)
OPERATIONS: dict[str, type[Expression]] = {}  # by the name that they have in files
FUNCTIONS: dict[str, Callable[..., Expression]] = {}  # that are methods of nodes
NUMPY: dict[Any, Callable[..., Any]] = {}  # by NumPy's function, or its name, what computes it
Function = TypeVar("Function", bound=Callable[..., Expression])


def node_function(function: Function) -> Function:
    """Enter a function whose first argument is a node as a method of nodes (a decorator)."""
    FUNCTIONS[function.__name__] = function
    return function


def _function(name: str) -> Callable[..., Expression]:
    return FUNCTIONS[name]


Kind = TypeVar("Kind", bound=type[Expression])


def operation(kind: Kind) -> Kind:
    """Register an operation (a class decorator), so that programs with it can be saved and loaded.

    Raises:
        ParameterError: there is one of that name.
    """
    if OPERATIONS.setdefault(kind.op, kind) is not kind:
        raise ParameterError(
            "An operation of that name exists.", got=kind.op, advice="another name as its op"
        )
    return kind


def _last_swapped(shape: tuple[int, ...]) -> tuple[int, ...]:
    """All axes of a shape, the last two in the other order."""
    if len(shape) < 2:
        raise ShapeError("Only matrices are transposed.", got=shape_text(shape), advice="x.T")
    axes = range(len(shape))
    return *axes[:-2], axes[-1], axes[-2]


def _short(value: Any) -> str:
    """A parameter of an operation; two equal numbers are one."""
    return str(value[0]) if isinstance(value, list) and len(set(value)) == 1 else str(value)


def _is_batch(value: Any) -> bool:
    """Whether a value is several nodes (`lang.batches`), which then does the operation."""
    return getattr(value, "batched", False) is True


def _is_zero(value: Any) -> bool:
    return is_scalar(value) and bool(value == 0)


def held(value: Any, modulus: int | None) -> Any:
    """Return what a user gives beside a node, arrays of other libraries as NumPy's (`clear_array`). Beside integers
    modulo t, integers that float64 might not hold are reduced."""
    if isinstance(value, Expression):
        return value
    value = clear_array(value, "a constant")
    if modulus is None:
        return value
    if isinstance(value, int):
        return value % modulus if abs(value) >= 1 << CLEAR_BITS else value
    wide = isinstance(value, (np.ndarray, np.integer)) and value.dtype in (np.int64, np.uint64)
    if wide and (np.abs(np.asarray(value).astype(np.float64)) >= 2.0**CLEAR_BITS).any():
        return value % value.dtype.type(modulus)
    return value


def _as_factor(value: Any) -> Expression:
    """A node for one side of `@`."""
    if isinstance(value, Expression):
        return value
    _check_array(value)
    return OPERATIONS["constant"].of(finite_array(value, "a constant", (1, 2, 3)))


# What to write for values of so many dimensions.
_OF_DIMENSIONS = {
    1: "a vector",
    2: "a matrix",
    3: "values of 3 dimensions: channels, height, width",
    4: "clear values of 4 dimensions: outputs, inputs, height, width",
}


def as_node(value: Any, dimensions: int, what: str) -> Expression:
    """A node for `value`, an expression or an array with so many dimensions."""
    if not isinstance(value, Expression):
        return OPERATIONS["constant"].of(finite_array(value, what, (dimensions,)))
    if len(value.shape) != dimensions:
        raise ShapeError(
            f"The number of dimensions of the {what} is wrong.",
            got=shape_text(value.shape),
            advice=f"x.reshape(1, {value.shape[0]}, {value.shape[1]}) for an image of one channel"
            if (len(value.shape), dimensions) == (2, 3)
            else _OF_DIMENSIONS[dimensions],
        )
    return value


def _check_array(value: Any) -> None:
    if not isinstance(value, (np.ndarray, list, tuple)):
        raise DTypeError(
            "An operand of a program must be a matrix.",
            got=type(value).__name__,
            advice="an operand of the program, a number or an array of NumPy",
        )


def _aligned(node: Expression, other: Any) -> tuple[Expression, Expression]:
    """Both sides of an entrywise operation, broadcast to one shape as NumPy does."""
    other = held(other, node.modulus)
    if not isinstance(other, Expression) and is_scalar(other):
        return node, _as_matrix(other, node.shape)
    if not isinstance(other, Expression):
        _check_array(other)
        other = real_array(other, "a constant")
        what = "A constant cannot be broadcast to the other operand."
    else:
        what = "Both sides of elementwise operations need shapes that can be broadcast to one."
    try:
        shape = np.broadcast_shapes(node.shape, other.shape)
    except ValueError:
        transposable = other.shape[::-1] == node.shape
        raise ShapeError(
            what,
            expected=shape_text(node.shape),
            got=shape_text(other.shape),
            advice=f"{getattr(other, 'label', 'right')}.T"
            if transposable
            else "equal lengths, or 1 where values are repeated",
        ) from None
    return _broadcast(node, shape), _broadcast(other, shape)


def _broadcast(value: Any, shape: tuple[int, ...]) -> Expression:
    if not isinstance(value, Expression):
        return _as_matrix(value, shape)
    if value.shape == shape:
        return value
    return OPERATIONS["arrange"].of(value, Step("broadcast", shape))


def _as_matrix(value: Any, shape: tuple[int, ...]) -> Expression:
    """A node for `value`; numbers and arrays are broadcast to `shape`."""
    if not is_scalar(value):
        _check_array(value)
    array = np.asarray(real_number(value) if is_scalar(value) else real_array(value, "a constant"))
    array = np.broadcast_to(array, shape)
    return OPERATIONS["constant"].of(finite_array(array, "a constant", (len(shape),)))


def column_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Of the matrix that stands for an array: a number is 1×1, a vector a column, of more axes the last one stays."""
    if not shape:
        return 1, 1
    return (shape[0], 1) if len(shape) == 1 else (math.prod(shape[:-1]), shape[-1])


def matrix_shape(node: Expression) -> tuple[int, int]:
    """Return rows and columns of a node; raise ShapeError if it is not a matrix."""
    if len(node.shape) != 2:
        raise ShapeError(
            "A matrix must have 2 dimensions.",
            got=shape_text(node.shape),
            advice="x.reshape(rows, columns)",
        )
    return node.shape[0], node.shape[1]


def ordered(node: Expression, origins: bool = False) -> list[Expression]:
    """Return the distinct nodes of a graph, children before parents, left before right.

    Args:
        origins: after them the values that they are known to be arrangements of, with all that these are made of.
    """
    found: dict[int, Expression] = {}
    waiting = [node]
    while waiting:
        current = waiting[-1]
        ahead = [child for child in current.children if id(child) not in found]
        if id(current) in found or not ahead:
            found[id(current)] = waiting.pop()
        else:
            waiting += reversed(ahead)
        if not waiting and origins:
            arranged = (one.arranged_of[0] for one in found.values() if one.arranged_of is not None)
            waiting += [one for one in arranged if id(one) not in found][:1]
    return list(found.values())


def checkpoints(node: Expression) -> list[Expression]:
    """Nodes below one whose depth is a multiple of `RECURSION`, of its shape and of such depths, children before
    parents; none for other nodes. Whoever rewrites a deep graph by recursion, and keeps what was rewritten, begins with
    these, so that no call is nested in more than about `RECURSION` others."""
    if node.depth % RECURSION:
        return []
    every = (one for one in ordered(node) if one.depth % RECURSION == 0 and one.shape == node.shape)
    return [one for one in every if one is not node]
