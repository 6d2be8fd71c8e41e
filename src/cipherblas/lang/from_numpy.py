"""NumPy's functions of encrypted values: one table of what computes each, with the arguments that are taken.

NumPy asks a node for them (`__array_function__`, `__array_ufunc__`), and the node asks `NUMPY` in `nodes`, which is
filled here. What the table lacks is refused with what to write (`spelled`), and so is an argument that is not taken.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from cipherblas.common.arrays import finite_array, is_scalar, shape_text
from cipherblas.common.errors import DTypeError, ShapeError
from cipherblas.lang import array_functions as arrays
from cipherblas.lang.approximation import chebyshev
from cipherblas.lang.arguments import axis_of, integer_of
from cipherblas.lang.batches import Batch
from cipherblas.lang.comparison import relu
from cipherblas.lang.elementary import erf_of_array, exp, sigmoid, tanh
from cipherblas.lang.functions import polynomial, square
from cipherblas.lang.joins import split
from cipherblas.lang.minimax import composition
from cipherblas.lang.nodes import NUMPY, OPERATORS, Expression, node_function, operated

Nodes = (Expression, Batch)


@dataclass(frozen=True)
class OfNumpy:
    """A function of NumPy.

    Attributes:
        name: below `numpy`, or of another library whose functions are those of arrays.
        order: NumPy's arguments in their order.
        ours: what computes it; its parameters are the arguments that are taken.
        written: how it is written here.
    """

    name: str
    order: str
    ours: Callable[..., Any]
    written: str

    @property
    def taken(self) -> tuple[str, ...]:
        """The arguments that are taken."""
        return tuple(inspect.signature(self.ours).parameters)

    @property
    def call(self) -> str:
        """As a user writes it, with all arguments that are taken."""
        library = "" if "." in self.name and not self.name.startswith("linalg.") else "np."
        return f"{library}{self.name}({', '.join(self.taken)})"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The node that stands for a call of NumPy's function.

        Raises:
            DTypeError: an argument is given that is not taken.
        """
        names, taken = self.order.split(), self.taken
        given = {**dict(zip(names, args, strict=False)), **named}
        for name, value in given.items():
            if name not in taken and not self._is_usual(name, value, given):
                raise DTypeError(
                    f"The argument {name} of {self.name} is not taken of encrypted values.",
                    advice=(self.call, self.written),
                )
        if len(args) > len(names):
            raise DTypeError(
                f"{self.name} of encrypted values takes at most {len(names)} arguments.",
                got=len(args),
                advice=self.call,
            )
        return self.ours(**{name: value for name, value in given.items() if name in taken})

    def _is_usual(self, name: str, value: Any, given: dict[str, Any]) -> bool:
        """Whether an argument says nothing that is not so without it."""
        if name == "dtype" and value is not None:
            return all(np.dtype(value) == one.dtype for one in given.values() if isinstance(one, Nodes))
        missing = getattr(np, "_NoValue", None)
        usual = (name == "where" and value is True) or (name == "order" and str(value) == "C")
        return value is None or value is missing or usual or self._is_default(name, value)

    def _is_default(self, name: str, value: Any) -> bool:
        """Whether NumPy takes that value of an argument where none is given."""
        function: Any = np
        for part in self.name.split("."):
            function = getattr(function, part, None)
        try:
            default = inspect.signature(function).parameters[name].default
        except (KeyError, TypeError, ValueError):  # functions that tell no signature
            return False
        return isinstance(value, (bool, int, str)) and type(value) is type(default) and value == default


# ---- shapes and entries ----


def _moved(a: Any, source: Any, destination: Any) -> Any:
    numbered = np.empty(tuple(range(a.ndim)))  # whose lengths name its axes
    try:
        order = np.moveaxis(numbered, source, destination).shape
    except ValueError as error:
        raise ShapeError(
            "Axes are moved to as many places.",
            got=str(error),
            advice="x.transpose(order), with all axes in their order",
        ) from None
    return arrays.transpose(a, order)


def _swapped(a: Any, axis1: int, axis2: int) -> Any:
    first, second = axis_of(axis1, a.ndim), axis_of(axis2, a.ndim)
    return a if first == second else _moved(a, (first, second), (second, first))


def _expanded(a: Any, axis: Any) -> Any:
    several = axis if isinstance(axis, (tuple, list)) else (axis,)
    places = {axis_of(one, a.ndim + len(several)) for one in several}
    if len(places) < len(several):
        raise ShapeError("A new axis is given twice.", got=str(axis), advice="one place for each new axis")
    lengths = iter(a.shape)
    shape = [1 if place in places else next(lengths) for place in range(a.ndim + len(places))]
    return arrays.reshape(a, shape)


def _flipped(m: Any, axis: Any = None) -> Any:
    given = range(m.ndim) if axis is None else np.atleast_1d(axis).tolist()
    axes = {axis_of(one, m.ndim) for one in given}
    return m[tuple(slice(None, None, -1 if one in axes else 1) for one in range(m.ndim))]


def _along(a: Any, axis: Any, places: Callable[[Any], Any]) -> Any:
    """Entries along an axis, by their places among those that there are; without an axis, of all entries."""
    if axis is None:
        a, axis = arrays.ravel(a), 0
    number = axis_of(axis, a.ndim)
    before = [slice(None)] * number
    try:
        chosen = places(np.arange(a.shape[number]))
    except (TypeError, ValueError) as error:
        raise ShapeError(
            "The axis has no such copies.",
            got=str(error),
            advice="counts that are whole numbers, from 0 on, one or as many as entries along the axis",
        ) from None
    key = (*before, chosen)
    return a[key]


def _taken(a: Any, indices: Any, axis: Any = None) -> Any:
    chosen = indices if isinstance(indices, Nodes) else np.asarray(indices)
    return _along(a, axis, lambda places: chosen)


def _rolled(a: Any, shift: Any, axis: Any = None) -> Any:
    found, axes = (arrays.ravel(a), 0) if axis is None else (a, axis)
    try:
        pairs = [*np.broadcast(shift, axes)]
    except ValueError as error:
        raise ShapeError(
            "Shifts are by one axis each.", got=str(error), advice="as many shifts as axes"
        ) from None
    for by, one in pairs:
        found = _along(found, one, functools.partial(np.roll, shift=integer_of(by, "A shift")))
    return found if axis is not None else arrays.reshape(found, a.shape)


def _tiled(A: Any, reps: Any) -> Any:
    times = np.atleast_1d(reps).tolist()
    shape = (1,) * (len(times) - A.ndim) + A.shape
    found = arrays.reshape(A, shape)
    for axis, count in enumerate([1] * (len(shape) - len(times)) + times):
        if count != 1:
            found = _along(found, axis, functools.partial(np.tile, reps=count))
    return found


def _joined(arrays_: Sequence[Any], axis: Any = 0) -> Any:
    if axis is None:
        parts: list[Any] = [arrays._as_part(one) for one in arrays_]
        return arrays.concatenate([arrays.ravel(one) for one in parts])
    return arrays.concatenate(arrays_, axis)


def _of_dimensions(dimensions: int) -> Callable[[Any], Any]:
    def extended(a: Any) -> Any:
        if not isinstance(a, Nodes):
            return np.array(a, ndmin=dimensions)
        return a if a.ndim >= dimensions else a.reshape((1,) * (dimensions - a.ndim) + a.shape)

    return extended


def _side_by_side(tup: Sequence[Any]) -> Any:
    parts = [_of_dimensions(1)(one) for one in tup]
    return arrays.concatenate(parts, 0 if all(part.ndim == 1 for part in parts) else 1)


def _columns(tup: Sequence[Any]) -> Any:
    parts: list[Any] = [arrays._as_part(one) for one in tup]
    return arrays.concatenate([one if one.ndim > 1 else arrays.reshape(one, -1, 1) for one in parts], 1)


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    if ary.ndim == 1 and not isinstance(ary, Batch):
        parts = split(arrays.reshape(ary, -1, 1), indices_or_sections, axis_of(axis, 1))
        return [arrays.ravel(part) for part in parts]
    return split(ary, indices_or_sections, axis)


def _triangle(lower: bool) -> Callable[..., Any]:
    def chosen(m: Any, k: int = 0) -> Any:
        axis_of(-1, m.ndim)
        rows, columns = (
            (m.shape * 2)[-2:] if m.ndim == 1 else m.shape[-2:]
        )  # a vector is repeated, as in NumPy
        return m * (np.tri(rows, columns, k) if lower else 1 - np.tri(rows, columns, k - 1))

    return chosen


def _steps(a: Any, n: int = 1, axis: int = -1) -> Any:
    number, found = axis_of(axis, a.ndim), a
    for _ in range(integer_of(n, "The number of differences")):
        before = [slice(None)] * number
        later, earlier = (*before, slice(1, None)), (*before, slice(None, -1))
        found = found[later] - found[earlier]
    return found


def _size(a: Any, axis: Any = None) -> int:
    several = axis if isinstance(axis, (tuple, list)) else (axis,)
    return int(a.size) if axis is None else math.prod(a.shape[axis_of(one, a.ndim)] for one in several)


# ---- sums ----


def _average(a: Any, axis: Any = None, weights: Any = None, keepdims: bool = False) -> Any:
    if weights is None:
        return arrays.mean(a, axis, keepdims)
    given = finite_array(weights, "The weights of an average", (0, 1, 2, 3, 4))
    if given.shape != a.shape:
        several = axis if isinstance(axis, (tuple, list)) else () if axis is None else (axis,)
        places = [axis_of(one, a.ndim) for one in several]
        if given.shape != tuple(a.shape[one] for one in places):
            raise ShapeError(
                "The weights of an average are of all entries, or of those along its axes.",
                expected=shape_text(a.shape),
                got=shape_text(given.shape),
                advice="weights of the shape of the array, or one for each entry along axis=…",
            )
        shape = [length if one in places else 1 for one, length in enumerate(a.shape)]
        given = given.transpose(np.argsort(places)).reshape(shape)
    spread = np.broadcast_to(given, a.shape)
    axes = tuple(axis) if isinstance(axis, list) else axis
    return arrays.sum(a * spread, axis, keepdims) / spread.sum(axis=axes, keepdims=keepdims)


def _covariances(m: Any, rowvar: bool = True, bias: bool = False, ddof: float | None = None) -> Any:
    less = (0 if bias else 1) if ddof is None else ddof
    if m.ndim < 2:
        return arrays.var(m, ddof=less)
    rows = m if rowvar else m.T
    divisor = arrays.divisor_of(rows.shape[1], less)
    centred = rows - arrays.mean(rows, 1, True)
    found = centred @ centred.T / divisor
    return (
        arrays.squeeze(found) if rows.shape[0] == 1 else found
    )  # NumPy's variance of one variable is a number


# ---- products ----


def _contracted(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = (one if isinstance(one, Nodes) else np.asarray(one) for one in (a, b))
    if is_scalar(axes):
        count = integer_of(axes, "The number of axes")
        axes = tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    left, right = (
        [axis_of(one, part.ndim) for one in np.atleast_1d(named).tolist()]
        for named, part in zip(axes, (a, b), strict=True)
    )
    if [a.shape[one] for one in left] != [b.shape[one] for one in right]:
        raise ShapeError(
            "The axes that are summed over need equal lengths.",
            got=f"{[a.shape[one] for one in left]} and {[b.shape[one] for one in right]}",
            advice="axes=(axes of the first, axes of the second), in one order",
        )
    outer_a, outer_b = (
        [one for one in range(part.ndim) if one not in inner] for part, inner in ((a, left), (b, right))
    )
    shape = (*(a.shape[one] for one in outer_a), *(b.shape[one] for one in outer_b))
    inner = math.prod(a.shape[one] for one in left)
    rows = arrays.reshape(arrays.transpose(arrays._as_part(a), [*outer_a, *left]), -1, inner)
    cols = arrays.reshape(arrays.transpose(arrays._as_part(b), [*right, *outer_b]), inner, -1)
    return arrays.reshape(arrays.matmul(rows, cols), shape)


def _rows_of_products(x1: Any, x2: Any) -> Any:
    return arrays.sum(x1 * x2, -1)


# ---- entries by entries ----


def _larger(x1: Any, x2: Any) -> Any:
    return relu(_difference(x1, x2)) + x2


def _smaller(x1: Any, x2: Any) -> Any:
    return -relu(_difference(x2, x1)) + x2


def _difference(x1: Any, x2: Any) -> Any:
    return x1 - x2 if isinstance(x1, Nodes) else -x2 + x1


def _absolute(x: Any) -> Any:
    return 2 * relu(x) - x


def _clipped(a: Any, a_min: Any = None, a_max: Any = None, min: Any = None, max: Any = None) -> Any:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    found = a if low is None else _larger(a, low)
    return found if high is None else _smaller(found, high)


def _smooth(function: np.ufunc) -> Callable[[Any], Any]:
    return lambda x: chebyshev(function, x)


def _erf(x: Any) -> Any:
    return chebyshev(erf_of_array, x, name="erf")


# ---- what compares entries ----

PRICED = 1e-2  # the precision of the comparisons whose levels a refusal tells


@functools.lru_cache(maxsize=1)
def relu_levels() -> int:
    """The levels of a `relu` at the precision `PRICED`."""
    stages = composition(PRICED * (1 - PRICED), 2 * PRICED)
    return 1 + sum((len(stage.coefficients) - 1).bit_length() for stage in stages)


def _not_compared(name: str, rounds: Callable[[int], int]) -> Callable[..., NoReturn]:
    """A function that would compare entries with one another: it is refused, with its price."""

    def refused(a: Any, axis: Any = None, *_: Any, **__: Any) -> NoReturn:
        entries = a.size if axis is None else a.shape[axis_of(axis, a.ndim)]
        found = rounds(math.ceil(math.log2(max(entries, 2))))
        raise DTypeError(
            f"The {name} of encrypted entries is not computed.",
            advice=(
                "the decrypted result on the client",
                "y + cb.relu(x - y) for the larger of two, and y - cb.relu(y - x) for the smaller",
            ),
            cause=f"Of {entries} entries it takes {found} rounds of cb.relu, one after another, "
            f"each of {relu_levels()} levels at a precision of {PRICED:g}.",
        )

    refused.__name__, refused.__doc__ = name, f"Refuse `{name}`, with its price."
    return refused


def _of_pairs(halvings: int) -> int:
    return halvings


def _of_network(halvings: int) -> int:
    return halvings * (halvings + 1) // 2  # Batcher's


COMPARING = {
    name: node_function(_not_compared(name, _of_network if "sort" in name else _of_pairs))
    for name in ("max", "min", "argmax", "argmin", "sort", "argsort")
}

_SMOOTH = (np.sin, np.cos, np.sinh, np.cosh, np.arctan, np.arcsinh, np.expm1, np.exp2)
_WRITTEN = {
    "matmul": "x @ y",
    "add": "x + y",
    "subtract": "x - y",
    "multiply": "x * y",
    "divide": "x / y, with a clear y",
    "power": "x ** 3",
}


def _operator(name: str) -> Callable[[Any, Any], Any]:
    return lambda x1, x2: operated(OPERATORS[name], x1, x2)


ENTRIES: tuple[OfNumpy, ...] = (
    *(OfNumpy(name, "x1 x2", _operator(name), written) for name, written in _WRITTEN.items()),
    OfNumpy("shape", "a", lambda a: a.shape, "x.shape"),
    OfNumpy("ndim", "a", lambda a: a.ndim, "x.ndim"),
    OfNumpy("size", "a axis", _size, "x.size"),
    OfNumpy("reshape", "a shape order", lambda a, shape: arrays.reshape(a, shape), "x.reshape(shape)"),
    OfNumpy("ravel", "a order", lambda a: arrays.ravel(a), "x.ravel()"),
    OfNumpy(
        "transpose",
        "a axes",
        lambda a, axes=None: arrays.transpose(a, *(() if axes is None else (axes,))),
        "x.transpose(axes)",
    ),
    OfNumpy("matrix_transpose", "x", lambda x: _swapped(x, -1, -2), "x.mT"),
    OfNumpy("swapaxes", "a axis1 axis2", _swapped, "x.transpose(axes)"),
    OfNumpy("moveaxis", "a source destination", _moved, "x.transpose(axes)"),
    OfNumpy("squeeze", "a axis", lambda a, axis=None: arrays.squeeze(a, axis), "x.squeeze(axis)"),
    OfNumpy("expand_dims", "a axis", _expanded, "cb.expand_dims(x, axis)"),
    OfNumpy(
        "broadcast_to",
        "array shape",
        lambda array, shape: arrays.broadcast_to(array, np.atleast_1d(shape).tolist()),
        "cb.broadcast_to(x, shape)",
    ),
    OfNumpy("atleast_1d", "a", _of_dimensions(1), "x.reshape(-1)"),
    OfNumpy("atleast_2d", "a", _of_dimensions(2), "x.reshape(1, -1)"),
    OfNumpy(
        "concatenate",
        "arrays axis out dtype casting",
        lambda arrays, axis=0: _joined(arrays, axis),
        "cb.concatenate(parts, axis)",
    ),
    OfNumpy(
        "stack",
        "arrays axis out dtype casting",
        lambda arrays, axis=0: _stacked(arrays, axis),
        "cb.stack(parts, axis)",
    ),
    OfNumpy(
        "vstack",
        "tup dtype casting",
        lambda tup: _joined([_of_dimensions(2)(one) for one in tup]),
        "cb.concatenate(parts)",
    ),
    OfNumpy("hstack", "tup dtype casting", _side_by_side, "cb.concatenate(parts, axis=1)"),
    OfNumpy("column_stack", "tup", _columns, "cb.stack(vectors, axis=1)"),
    OfNumpy("split", "ary indices_or_sections axis", _split, "cb.split(x, sections, axis)"),
    OfNumpy("take", "a indices axis out mode", _taken, "x[indices]"),
    OfNumpy("flip", "m axis", _flipped, "x[::-1]"),
    OfNumpy("flipud", "m", lambda m: _flipped(m, 0), "x[::-1]"),
    OfNumpy("fliplr", "m", lambda m: _flipped(m, 1), "x[:, ::-1]"),
    OfNumpy("roll", "a shift axis", _rolled, "cb.concatenate([x[-n:], x[:-n]])"),
    OfNumpy(
        "repeat",
        "a repeats axis",
        lambda a, repeats, axis=None: _along(a, axis, lambda places: np.repeat(places, repeats)),
        "x[[0, 0, 1, 1]]",
    ),
    OfNumpy("tile", "A reps", _tiled, "cb.concatenate([x, x])"),
    OfNumpy("diag", "v k", lambda v: arrays.diag(v), "cb.diag(x)"),
    OfNumpy(
        "diagonal",
        "a offset axis1 axis2",
        lambda a, offset=0: arrays.diagonal(a, offset),
        "x.diagonal(offset)",
    ),
    OfNumpy("tril", "m k", _triangle(True), "x * np.tri(n)"),
    OfNumpy("triu", "m k", _triangle(False), "x * (1 - np.tri(n, k=-1))"),
    OfNumpy("diff", "a n axis prepend append", _steps, "x[1:] - x[:-1]"),
    OfNumpy(
        "where",
        "condition x y",
        lambda condition, x, y: arrays.where(condition, x, y),
        "cb.where(mask, x, y), a clear mask",
    ),
    OfNumpy(
        "zeros_like",
        "a dtype order subok shape",
        lambda a: np.zeros(a.shape),
        "np.zeros(x.shape), in the clear",
    ),
    OfNumpy(
        "ones_like", "a dtype order subok shape", lambda a: np.ones(a.shape), "np.ones(x.shape), in the clear"
    ),
    OfNumpy(
        "full_like",
        "a fill_value dtype order subok shape",
        lambda a, fill_value: np.full(a.shape, fill_value),
        "np.full(x.shape, 0.5), in the clear",
    ),
    OfNumpy(
        "sum",
        "a axis dtype out keepdims initial where",
        lambda a, axis=None, keepdims=False: arrays.sum(a, axis, keepdims),
        "x.sum(axis)",
    ),
    OfNumpy(
        "mean",
        "a axis dtype out keepdims where",
        lambda a, axis=None, keepdims=False: arrays.mean(a, axis, keepdims),
        "x.mean(axis)",
    ),
    OfNumpy(
        "var",
        "a axis dtype out ddof keepdims where",
        lambda a, axis=None, ddof=0, keepdims=False: arrays.var(a, axis, ddof, keepdims),
        "x.var(axis, ddof)",
    ),
    OfNumpy("average", "a axis weights returned keepdims", _average, "(x * w).sum(axis) / w.sum()"),
    OfNumpy(
        "cov",
        "m y rowvar bias ddof fweights aweights dtype",
        _covariances,
        "c @ c.T / (n - 1), with c = x - x.mean(axis=1, keepdims=True)",
    ),
    OfNumpy("cumsum", "a axis dtype out", lambda a, axis=None: arrays.cumsum(a, axis), "x.cumsum(axis)"),
    OfNumpy("trace", "a offset axis1 axis2 dtype out", lambda a: arrays.trace(a), "x.trace()"),
    OfNumpy("dot", "a b out", lambda a, b: arrays.dot(a, b), "x @ y"),
    OfNumpy("vdot", "a b", lambda a, b: arrays.vdot(a, b), "cb.vdot(x, y)"),
    OfNumpy("inner", "a b", lambda a, b: arrays.inner(a, b), "x @ y.T"),
    OfNumpy("outer", "a b out", lambda a, b: arrays.outer(a, b), "cb.outer(x, y)"),
    OfNumpy("tensordot", "a b axes", _contracted, "x.reshape(…) @ y.reshape(…)"),
    OfNumpy("vecdot", "x1 x2", _rows_of_products, "(x * y).sum(axis=-1)"),
    OfNumpy("linalg.matrix_power", "a n", lambda a, n: arrays.matrix_power(a, n), "cb.matrix_power(x, n)"),
    OfNumpy("linalg.multi_dot", "arrays out", lambda arrays: functools.reduce(_product, arrays), "x @ y @ z"),
    OfNumpy("negative", "x", lambda x: -x, "-x"),
    OfNumpy("positive", "x", lambda x: x, "x"),
    OfNumpy("square", "x", lambda x: square(x), "cb.square(x)"),
    OfNumpy("absolute", "x", _absolute, "abs(x), which is 2 * cb.relu(x) - x"),
    OfNumpy("fabs", "x", _absolute, "abs(x)"),
    OfNumpy("maximum", "x1 x2", _larger, "y + cb.relu(x - y)"),
    OfNumpy("minimum", "x1 x2", _smaller, "y - cb.relu(y - x)"),
    OfNumpy("clip", "a a_min a_max out min max", _clipped, "low + cb.relu(x - low) - cb.relu(x - high)"),
    OfNumpy("exp", "x", lambda x: exp(x), "cb.exp(x)"),
    OfNumpy("tanh", "x", lambda x: tanh(x), "cb.tanh(x)"),
    OfNumpy(
        "polyval",
        "p x",
        lambda p, x: polynomial(x, np.asarray(p)[::-1].tolist()),
        "cb.polynomial(x, coefficients), the lowest first",
    ),
    *(OfNumpy(f.__name__, "x", _smooth(f), f"cb.chebyshev(np.{f.__name__}, x)") for f in _SMOOTH),
    OfNumpy("scipy.special.expit", "x", lambda x: sigmoid(x), "cb.sigmoid(x)"),
    OfNumpy("scipy.special.erf", "x", _erf, "cb.chebyshev(erf, x)"),
)


def _stacked(parts: Sequence[Any], axis: int) -> Any:
    return arrays.stack(parts, axis)


def _product(x: Any, y: Any) -> Any:
    return arrays.matmul(x, y)


def _enter() -> None:
    """Each under NumPy's function, where this version has it; those of other libraries by their names alone, so that
    nothing is imported."""
    for entry in ENTRIES:
        library, _, name = entry.name.rpartition(".")
        if library.startswith("scipy"):
            NUMPY[name] = entry
            continue
        found = getattr(np.linalg if library else np, name, None)
        if found is not None:
            NUMPY[found] = entry
    for name in OPERATORS:
        NUMPY.setdefault(getattr(np, name), _operator(name))  # those that compare say so themselves
    for name, refused in COMPARING.items():
        NUMPY[getattr(np, name)] = refused
        if name in ("max", "min"):
            NUMPY[getattr(np, f"a{name}")] = refused


_enter()
