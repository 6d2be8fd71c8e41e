"""Arrays and numbers that users give: checked, as NumPy arrays of finite real entries, and shapes for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import CipherblasError, DTypeError, RangeError, ShapeError, capitalized
from cipherblas.common.limits import check_available

STRIP_ENTRIES = 1 << 16  # of a matrix that are converted at a time
NARROW_TYPES = ("int8", "int16", "int32", "float16", "float32")  # exact in float64, and shorter


class Shaped:
    """Properties of NumPy's arrays that follow from a shape."""

    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """The number of axes, as in NumPy."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of entries, as in NumPy."""
        return math.prod(self.shape)


def is_scalar(value: Any) -> bool:
    """Whether a value is one real number. A boolean is not one."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "fiu"
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def real_number(value: Any) -> float:
    """Return a scalar as a double; raise RangeError if it is too large."""
    try:
        return float(value)
    except OverflowError as error:
        raise RangeError(
            "The number is too large for a double.", got="more than 1.8e308", advice="a number below 1.8e308"
        ) from error


def shown(value: Any) -> str:
    """Describe a user's value for an error: of an array, which may hold secrets, the type alone."""
    kind = type(value).__name__
    return f"{value!r} ({kind})" if isinstance(value, (int, float, str, np.number)) else kind


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as text, such as 3x32x32; the shape of a number is 1."""
    return "x".join(map(str, shape)) or "1"


def real_array(value: Any, what: str) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DTypeError(
            f"{capitalized(what)} must not have masked entries.",
            advice="its method filled(0.0), or another value in place of masked entries",
        )
    if is_sparse(value):
        raise DTypeError(
            f"A sparse matrix is given for {what}, and zeros are encrypted as all entries are.",
            advice="its method toarray(): S.toarray() in place of S",
        )
    array = _converted(value, what)
    if array.dtype.kind not in "fiub":
        raise DTypeError(
            f"{capitalized(what)} must hold real numbers.",
            got=f"dtype {array.dtype}",
            advice="its real and imaginary parts, one by one: z.real and z.imag"
            if array.dtype.kind == "c"
            else "an array of float64, as its method astype(np.float64) makes of numbers",
        )
    return array


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse matrix of SciPy, or one like it."""
    return hasattr(value, "nnz") and hasattr(value, "toarray")


def clear_array(value: Any, what: str) -> Any:
    """Clear values that a user gives, as an array where they are one of another library: a table, a tensor, or a sparse
    matrix, which becomes a dense one. Everything else is returned as it is."""
    if isinstance(value, np.ndarray):
        return value
    if is_sparse(value):
        check_available(8 * math.prod(value.shape), f"{what}, a sparse matrix whose zeros are held too")
        return value.toarray()
    foreign = hasattr(value, "__array__") or hasattr(value, "__dlpack__")
    return real_array(value, what) if foreign and not isinstance(value, (Shaped, np.generic)) else value


def _converted(value: Any, what: str) -> NDArray[Any]:
    """As NumPy's, by what other libraries' tables and tensors say of themselves; none of these is imported."""
    _check_columns(value, what)
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            return np.from_dlpack(value)
        array = np.asarray(value)
    except CipherblasError:
        raise
    except ValueError as error:
        raise ShapeError(
            f"{capitalized(what)} is not a rectangular matrix.",
            got="ragged rows",
            advice="rows of equal lengths, those that are shorter with zeros at their ends",
        ) from error
    except (TypeError, RuntimeError, BufferError) as error:
        raise DTypeError(
            f"{capitalized(what)} cannot be read as an array of NumPy.",
            got=type(value).__name__,
            advice="a copy in the memory of this process: x.detach().cpu().numpy() of a tensor",
        ) from error
    if array.dtype == object and hasattr(value, "dtypes") and hasattr(value, "to_numpy"):
        return np.asarray(value.to_numpy(dtype=np.float64, na_value=np.nan))  # columns that may lack entries
    return array


def _check_columns(value: Any, what: str) -> None:
    """Name the columns of a table that hold no numbers, which an array of it would hide."""
    if not hasattr(value, "columns") or not hasattr(value, "dtypes"):
        return
    kinds = zip(value.columns, value.dtypes, strict=False)
    others = [str(name) for name, kind in kinds if getattr(kind, "kind", "f") not in "fiub"]
    if others:
        raise DTypeError(
            f"{capitalized(what)} has columns that hold no numbers.",
            got=", ".join(others),
            advice='the table of the other columns: df.select_dtypes("number") in place of df',
        )


def finite_matrix(value: Any, what: str) -> NDArray[np.float64]:
    """`value` as a float64 matrix; DTypeError, ShapeError or RangeError where it is not a finite real one."""
    return finite_array(value, what, (2,))


def finite_array(value: Any, what: str, dimensions: Sequence[int]) -> NDArray[np.float64]:
    """Return `value` as a float64 array with one of the given numbers of dimensions. Errors: as for `finite_matrix`."""
    return narrow_array(value, what, dimensions).astype(np.float64, copy=False)


def narrow_array(value: Any, what: str, dimensions: Sequence[int]) -> NDArray[Any]:
    """`value` in its own type, where that is one of `NARROW_TYPES`, or float64; errors as `finite_array`.

    This is where what a user gives becomes what is computed with: float64, but for large clear matrices whose type is
    kept to save a copy. What computes with the entries of those converts them before (`lang.analysis.evaluate_clear`,
    `runtime.row_products.clear_factors.rounded`): sums and products of a narrow type overflow, and so may a quotient by
    a bound.
    """
    array = real_array(value, what)
    if array.ndim not in dimensions or 0 in array.shape:
        name = {0: "a number", 1: "a vector", 2: "a matrix", 3: "an image", 4: "an array of 4 dimensions"}
        raise ShapeError(
            f"{capitalized(what)} must be {' or '.join(name[number] for number in dimensions)}.",
            expected=f"{' or '.join(map(str, dimensions))} dimensions, none of them 0",
            got=f"{array.ndim} (shape {array.shape})",
            advice=f"an array of one entry or more and {' or '.join(map(str, dimensions))} dimensions",
        )
    with np.errstate(over="ignore"):  # of a wider type: an infinity, which is refused
        found = np.ascontiguousarray(array, dtype=array.dtype if array.dtype in NARROW_TYPES else np.float64)
        found = found.reshape(array.shape)  # a number stays one
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        place = [int(x) for x in np.argwhere(~np.isfinite(found))[0]]
        kind = "NaN" if np.isnan(found[tuple(place)]) else "an infinity"
        raise RangeError(
            f"{capitalized(what)} must hold finite numbers.",
            got=f"{kind} at {place}",
            advice="np.nan_to_num of the array, where zeros may stand for NaN",
        )
    return found


def is_integral(matrix: NDArray[Any]) -> bool:
    """Whether all entries of a finite array are whole numbers."""
    matrix = np.atleast_1d(matrix)  # of a number, that one
    return matrix.dtype.kind == "i" or all(
        np.array_equal(matrix[rows], np.rint(matrix[rows])) for rows in strips(matrix)
    )


def strips(matrix: NDArray[Any]) -> Iterator[slice]:
    """Rows that are worked on together; entries of a vector, or filters, likewise."""
    step = max(1, STRIP_ENTRIES // math.prod(matrix.shape[1:]))
    return (slice(start, start + step) for start in range(0, len(matrix), step))


def bit_reversed(length: int) -> NDArray[np.int64]:
    """The numbers 0, …, length - 1, a power of two, with their bits in reversed order."""
    order = np.zeros(1, np.int64)
    while len(order) < length:
        order = np.concatenate([2 * order, 2 * order + 1])
    return order
