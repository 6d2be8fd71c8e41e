"""What a program is declared to take: secret and public operands, their shapes, bounds and types."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, ParamSpec, get_args

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import finite_array, is_scalar, real_array, real_number, shape_text, shown
from cipherblas.common.checks import check_bound, check_integral
from cipherblas.common.errors import DTypeError, ParameterError, RangeError, ShapeError
from cipherblas.lang.normalisation import Normalisation

Given = ParamSpec("Given")
Encryption = Literal["secret-key", "public-key"]  # which key encrypts an operand

MAX_LENGTH = 1 << 24  # rows or columns of an operand
IMAGE_DIMENSIONS = 3  # channels, height, width
MAX_SCALE_BITS = 900  # a float64 holds the scale beside any bound
ENCODING, NORMALISE, MODULUS, FIXED_POINT = "encoding", "normalise", "modulus", "fixed_point"
MAX_FIXED_BITS = 52  # behind the point
MAX_MODULUS, WORD_MODULUS = (
    1 << 31,
    1 << 32,
)  # of integers: products of two residues are int64, or wrap around
MAX_EXACT_MODULUS = 1 << 64  # of integers that are computed exactly and reduced by the client
CLEAR_BITS = 53  # of whole numbers in the clear, in float64, before they are reduced modulo t
WHOLE_BYTES, EXACT_BYTES = 4, 8  # of integers of an operand at most
EXACT, KNOWN = "exact", ("row_sum", "column_sum", "norm", "columns")  # what not every operand says
KNOWN_ROUNDING = 1e-9  # relative, of sums of float64 numbers
BOUND_RANGE = 2.0**-600, 2.0**600  # products of two bounds stay finite numbers


@dataclass(frozen=True)
class Columns:
    """Bounds of the entries of each column of an operand; see `columns`."""

    bounds: tuple[float, ...]

    def __repr__(self) -> str:
        return f"<bounds of {len(self.bounds)} columns, {min(self.bounds):.6g} to {max(self.bounds):.6g}>"


def columns(bounds: Sequence[float]) -> Columns:
    """Return bounds of the entries of a matrix, one for each column, to give as `bound` to `secret` or `public`.

    Of columns with very different ranges, sums over a row are bounded by what these add up to, and products with
    weights by what each column adds with its own: constant ones, or those of an operand that is declared by columns
    too (`x @ w.T`).

    Raises:
        DTypeError: they are no numbers.

    Examples:
        >>> secret(100, 3, bound=columns([1.0, 0.01, 0.01])).bound
        1.0
    """
    try:
        found: tuple[Any, ...] = tuple(bounds)
    except TypeError:
        found = ()
    if not found or not all(is_scalar(one) for one in found):
        raise DTypeError(
            "The bounds of columns must be numbers.",
            got=repr(bounds),
            advice="cb.columns([1.0, 0.5]), a number for each column",
        )
    return Columns(tuple(float(real_number(one)) for one in found))


@dataclass(frozen=True)
class Encoding:
    """How an operand comes, where a program does not choose it: see `Program.with_encodings`.

    Attributes:
        limbs: of its ciphertexts: the first ones of the program's; words of an entry, where the plan gives it moduli of
            its own.
        scale_bits: log2 of what an entry is multiplied by to become one of the message.
        error: by which an entry may be off what it stands for when it is encrypted.

    Raises:
        ParameterError: not a positive number of limbs, or numbers that no ring has.

    Examples:
        >>> Encoding(limbs=2, scale_bits=40.0).error
        0.0
    """

    limbs: int
    scale_bits: float
    error: float = 0.0

    def __post_init__(self) -> None:
        given = self.limbs, self.scale_bits, self.error
        limbs, bits, error = (real_number(one) if is_scalar(one) else math.nan for one in given)
        good = limbs.is_integer() and limbs >= 1 and abs(bits) <= MAX_SCALE_BITS and error >= 0
        if not good or error > BOUND_RANGE[1]:
            raise ParameterError(
                "An encoding needs limbs, the bits of a scale, and an error that is no less than 0.",
                got=", ".join(map(shown, given)),
                advice="cb.Encoding(limbs=2, scale_bits=40.0, error=1e-6)",
            )
        for name, value in (("limbs", int(limbs)), ("scale_bits", bits), ("error", error)):
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Operand:
    """A declared operand, secret or public. No entry exceeds `bound` in absolute value.

    `shape` is (rows, columns) of a matrix, (length,) of a vector, (channels, height, width) of an image; images that a
    first axis counts, and filters, which are never secret, have four dimensions.

    `whole` promises whole numbers: products by GEMM then need not round them. `encryption` says which key is planned
    for: what is planned for the public key may come from the holder of the secret key too. `exact`, of a secret
    operand of whole numbers, makes the program one of exact integers: see `lang.exact`.

    What else is known of it, or None: `row_sum` and `column_sum` bound the sums of absolute values in a row and in a
    column of a matrix, `column_sum` that of all entries of a vector, `norm` the largest singular value, or the length
    of a vector; `columns` are bounds of the entries of each column. `encoding`: how a secret one comes, where that is
    given. `normalise`: the mean and deviation that the client takes out of a secret one; bounds are of what is left.
    `modulus`: t of a secret operand of integers modulo t: see `lang.modular`. Of an exact one too, what the client
    reduces results by. `fixed_point`: bits behind the point of a real operand in fixed point, or of the integers that
    are its multiples of a unit: see `lang.fixed_point`.
    """

    shape: tuple[int, ...]
    secret: bool
    bound: float
    whole: bool = False
    encryption: Encryption = "secret-key"
    exact: bool = False
    row_sum: float | None = None
    column_sum: float | None = None
    norm: float | None = None
    columns: tuple[float, ...] | None = None
    encoding: Encoding | None = None
    normalise: Normalisation | None = None
    modulus: int | None = None
    fixed_point: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _shape(self.shape, self.secret))
        if not is_scalar(self.bound):
            raise DTypeError(
                "The bound of an operand must be a number.",
                got=type(self.bound).__name__,
                advice=("a number, as bound=1.0", "bound=cb.columns([…]) for a bound of each column"),
            )
        object.__setattr__(self, "bound", checked_bound(real_number(self.bound)))
        if self.encoding is not None and (self.exact or not self.secret):
            raise ParameterError(
                "Only a secret operand that is not exact can come in an encoding that is given.",
                got="an exact operand" if self.exact else "a clear operand",
                advice="cb.secret(…) of real numbers for it",
            )
        self._check_known()
        self._check_normalised()
        self._check_modulus()
        self._check_fixed_point()
        allowed = get_args(Encryption) if self.secret else ("secret-key",)
        if self.encryption not in allowed:
            what = "a secret operand" if self.secret else "a clear operand, which is not encrypted"
            raise ParameterError(
                f"The encryption of {what} is not known.",
                got=repr(self.encryption),
                advice=[f'encryption="{name}"' for name in allowed],
            )
        if self.exact and not (self.secret and self.whole and self.bound >= 1):
            raise ParameterError(
                "Only a secret operand of whole numbers, bounded by 1 or more, can be exact.",
                advice="cb.secret(…, dtype=np.int32, exact=True), with a bound=… of 1 or more if there is one",
                got=", ".join(
                    (
                        "secret" if self.secret else "clear",
                        "whole numbers" if self.whole else "real numbers",
                        f"bounded by {self.bound:g}",
                    )
                ),
            )

    def __repr__(self) -> str:
        """As a user would say it, in a line; files hold `declared`."""
        said = [f"bound {self.bound:.6g}", self.known] if self.modulus is None else [f"modulo {self.modulus}"]
        said += ["exact integers" if self.exact else "whole numbers" if self.whole else ""]
        said += [f"{self.fixed_point} bits behind the point" if self.fixed_point is not None else ""]
        said += ["by the public key" if self.public_key else "", str(self.normalise or "")]
        kind = "secret" if self.secret else "public"
        return f"<{kind} {shape_text(self.shape)}, {', '.join(filter(None, said))}>"

    @property
    def declared(self) -> dict[str, Any]:
        """The operand as files hold it. `exact`, further bounds and an encoding stand there only if they are given, so
        that files of other operands stay as they were."""
        optional = EXACT, *KNOWN, ENCODING, NORMALISE, MODULUS, FIXED_POINT
        said = {name: value for name, value in vars(self).items() if name not in optional or value}
        if self.columns is not None:
            said["columns"] = list(self.columns)
        if self.encoding is not None:
            said[ENCODING] = vars(self.encoding)
        if self.normalise is not None:
            said[NORMALISE] = {name: list(numbers) for name, numbers in vars(self.normalise).items()}
        return said

    def normalised(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """An array of the operand's shape as it is encrypted; or several, which further axes in front count."""
        return values if self.normalise is None else self.normalise.of(values, len(self._normalised_shape))

    @property
    def _normalised_shape(self) -> tuple[int, ...]:
        """The shape of what has a mean and a deviation: of images one of them."""
        return self.shape[1:] if len(self.shape) > IMAGE_DIMENSIONS else self.shape

    def _check_normalised(self) -> None:
        """Check that a normalisation fits the operand."""
        if self.normalise is None:
            return
        if not self.secret or self.whole:
            raise ParameterError(
                "Only a secret operand of real numbers can be normalised.",
                got="an operand of whole numbers" if self.secret else "a clear operand",
                advice="cb.secret(…, normalise=…) without dtype=…, which takes arrays of any real type",
            )
        self.normalise.check_shape(self._normalised_shape)

    def _check_modulus(self) -> None:
        """Check that a modulus fits the operand."""
        if self.modulus is None:
            return
        whole = type(self.modulus) is int
        if (
            not whole
            or not (self.exact or is_computed(self.modulus))
            or not 2 <= self.modulus <= MAX_EXACT_MODULUS
        ):
            raise ParameterError(
                f"The modulus of an operand must be an integer from 2 to {MAX_EXACT_MODULUS}.",
                got=shown(self.modulus),
                advice="cb.secret(…, modulus=65537)",
            )
        others = {
            "normalise=…": self.normalise is not None,
            "an encoding": self.encoding is not None,
            **{f"{name}=…": getattr(self, name) is not None for name in KNOWN},
        }
        given = [name for name, there in others.items() if there]
        if not self.secret or not self.whole or given:
            raise ParameterError(
                "Only a secret operand of whole numbers has a modulus, and nothing else is declared of it.",
                got=", ".join(given) or ("real numbers" if self.secret else "a clear operand"),
                advice=f"cb.secret(…, modulus={self.modulus}) without {given[0] if given else 'dtype=…'}",
            )

    def _check_fixed_point(self) -> None:
        """Check that bits behind the point fit the operand."""
        if self.fixed_point is None:
            return
        if type(self.fixed_point) is not int or not 1 <= self.fixed_point <= MAX_FIXED_BITS:
            raise ParameterError(
                f"The bits behind the point must be an integer from 1 to {MAX_FIXED_BITS}.",
                got=shown(self.fixed_point),
                advice="fixed_point=10",
            )
        others = {
            "modulus=…": self.modulus is not None,
            "normalise=…": self.normalise is not None,
            "an encoding": self.encoding is not None,
            **{f"{name}=…": getattr(self, name) is not None for name in KNOWN},
            "exact=True": self.exact and not self.whole,
            "an integer type": self.whole and self.secret and not self.exact,
        }
        given = [name for name, there in others.items() if there]
        if given:
            raise ParameterError(
                "An operand in fixed point has real numbers and a bound, and nothing else is declared of it.",
                got=", ".join(given),
                advice=f"cb.secret(…, bound=1.0, fixed_point={self.fixed_point}) without {given[0]}",
            )

    def _check_known(self) -> None:
        """Check that all bounds fit the shape, and that they agree with `bound`."""
        dimensions = len(self.shape)
        for name, allowed in (("row_sum", (2,)), ("column_sum", (1, 2)), ("norm", (1, 2)), ("columns", (2,))):
            if getattr(self, name) is not None and dimensions not in allowed:
                raise ShapeError(
                    f"The {name} of an operand does not fit its shape.",
                    got=f"{dimensions} dimensions",
                    advice=f"{'a matrix' if allowed == (2,) else 'a matrix or a vector'}, or bound=… alone",
                )
        for name in KNOWN[:-1]:
            value = getattr(self, name)
            if value is None:
                continue
            if not is_scalar(value):
                raise DTypeError(
                    f"The {name} of an operand must be a number.",
                    got=type(value).__name__,
                    advice=f"a number, as {name}=1.0",
                )
            number = checked_bound(real_number(value))
            object.__setattr__(self, name, number)
            object.__setattr__(self, "bound", min(self.bound, number))
        if self.columns is not None:
            found = tuple(checked_bound(real_number(one)) for one in self.columns)
            if len(found) != self.shape[1]:
                raise ShapeError(
                    "Every column of an operand needs its bound.",
                    got=f"{len(found)} for {self.shape[1]} columns",
                    advice=f"cb.columns([…]) of {self.shape[1]} numbers",
                )
            object.__setattr__(self, "columns", found)
            object.__setattr__(self, "bound", min(self.bound, max(found)))

    def sums(self) -> tuple[float, float, float]:
        """Bounds on the sums of absolute values in rows and columns, and on the norm, of a matrix or a vector."""
        rows, cols = (*self.shape, 1, 1)[:2]
        row, column, norm = cols * self.bound, rows * self.bound, self.bound * math.sqrt(rows * cols)
        if self.columns is not None:
            row = math.fsum(self.columns)
            norm = math.sqrt(rows) * math.hypot(*self.columns)
        if self.norm is not None:
            row, column = min(row, self.norm * math.sqrt(cols)), min(column, self.norm * math.sqrt(rows))
        row = row if self.row_sum is None else min(row, self.row_sum)
        column = column if self.column_sum is None else min(column, self.column_sum)
        return (
            row,
            column,
            min(norm, math.sqrt(row) * math.sqrt(column), math.inf if self.norm is None else self.norm),
        )

    @property
    def known(self) -> str:
        """Bounds beside `bound` as text; empty if there are none."""
        words = {
            "row_sum": "rows sum up to",
            "column_sum": "columns sum up to" if len(self.shape) == 2 else "entries sum up to",
            "norm": "norm up to",
        }
        found = [f"{text} {getattr(self, name):.6g}" for name, text in words.items() if getattr(self, name)]
        if self.columns is not None:
            found.append(f"columns from {min(self.columns):.6g} to {max(self.columns):.6g}")
        return ", ".join(found)

    def check_range(self, name: str, matrix: NDArray[Any]) -> None:
        """Raise RangeError when an entry of an array, as it is encrypted, is beyond the bound."""
        try:
            check_bound(name, matrix, self.bound)
        except RangeError as error:
            if self.normalise is None:
                raise
            low, high = self.normalise.before(self.bound)
            raise RangeError(
                f"Operand {name!r}, with {self.normalise}, has an entry beyond the planned range, which is "
                f"{self.bound:g} in absolute value.",
                advice=(
                    error.advice[0],
                    f"np.clip({name}, {low:.6g}, {high:.6g}) in place of {name}, as it is before",
                ),
            ) from None

    def check(self, name: str, matrix: NDArray[Any]) -> None:
        """Raise RangeError where an array, as it is encrypted, does not keep what is declared of it; it names no
        entry."""
        self.check_range(name, matrix)
        if self.whole:
            check_integral(name, matrix)
        sums: dict[str, Callable[[], float]] = {
            "row_sum": lambda: _largest_sum(matrix),
            "column_sum": lambda: _largest_sum(np.atleast_2d(matrix.T)),
            "norm": lambda: _largest_norm(matrix),
        }
        for what, found in sums.items():
            most = getattr(self, what)
            if most is not None and found() > most * (1 + KNOWN_ROUNDING):
                raise RangeError(
                    f"Operand {name!r} does not keep its {what}, which is at most {most:g}.",
                    advice=f"a larger {what}=… where the operand is declared",
                )
        if self.columns is not None:
            largest = np.maximum(matrix.max(axis=0), -matrix.min(axis=0).astype(np.float64))
            beyond = np.flatnonzero(largest > np.asarray(self.columns) * (1 + KNOWN_ROUNDING))
            if len(beyond):
                raise RangeError(
                    f"Column {beyond[0]} of operand {name!r} does not keep its bound, "
                    f"{self.columns[beyond[0]]:g} in absolute value.",
                    advice="a larger bound=cb.columns(…) where the operand is declared",
                )

    @property
    def public_key(self) -> bool:
        """Whether the public key may encrypt it."""
        return self.encryption == "public-key"

    @property
    def plain_modulus(self) -> int | None:
        """The t that everything is computed modulo; None of exact integers, whose results alone are reduced."""
        return None if self.exact else self.modulus


def is_computed(modulus: int) -> bool:
    """Whether integers modulo a number are computed modulo it, and not exactly first."""
    return 2 <= modulus <= MAX_MODULUS or modulus == WORD_MODULUS


def _largest_sum(matrix: NDArray[Any]) -> float:
    """Of absolute values in a row."""
    return max(float(np.abs(row, dtype=np.float64).sum()) for row in matrix)


def _largest_norm(matrix: NDArray[Any]) -> float:
    """The largest singular value of a matrix, or the length of a vector."""
    values = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
    gram = values @ values.T if values.shape[0] <= values.shape[1] else values.T @ values
    return math.sqrt(max(0.0, float(np.linalg.eigvalsh(gram)[-1])))


def _shape(lengths: Any, secret: bool) -> tuple[int, ...]:
    try:
        values = tuple(lengths)
    except TypeError:
        raise DTypeError(
            "The shape of an operand must be integers.",
            got=repr(lengths),
            advice="a tuple of integers, as (4, 4)",
        ) from None
    if len(values) == 2:
        return _length(values[0], "rows"), _length(values[1], "columns")
    if len(values) > IMAGE_DIMENSIONS + 1:
        raise ShapeError(
            "An operand has the wrong number of dimensions.",
            got=len(values),
            advice="cb.secret(images, channels, height, width) at most"
            if secret
            else "cb.public(outputs, inputs, height, width) at most",
        )
    return tuple(_length(value, "entries along each dimension") for value in values)


def _length(value: Any, what: str) -> int:
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        length = operator.index(value)
    except TypeError:
        raise DTypeError(
            f"The number of {what} must be an integer.",
            got=shown(value),
            advice=_whole_length(value),
        ) from None
    if not 1 <= length <= MAX_LENGTH:
        raise ShapeError(
            f"An operand needs a positive number of {what}.",
            got=length,
            advice="1 or more" if length < 1 else f"{MAX_LENGTH} or less",
        )
    return length


def _given_shape(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Lengths one by one, or all of them in one tuple, as NumPy's functions take them."""
    one = shape[0] if len(shape) == 1 else None
    return tuple(one) if isinstance(one, (tuple, list)) else shape


def _whole_length(value: Any) -> str:
    """Return advice for a length that is not an integer."""
    if isinstance(value, np.ndarray):
        return "the shape of the array, array.shape"
    if is_scalar(value) and real_number(value).is_integer():
        return str(int(value))
    return "an integer, as 4"


def checked_bound(bound: float) -> float:
    """Return `bound`; raise RangeError unless it is a positive number whose products stay finite."""
    if not BOUND_RANGE[0] <= bound <= BOUND_RANGE[1]:
        raise RangeError(
            "The bound on the entries of a matrix is out of range.",
            expected=f"> 0, from {BOUND_RANGE[0]:.1g} to {BOUND_RANGE[1]:.1g}",
            got=bound,
            advice="bound=… of entries in other units: 1 where the client divides them by the largest one",
        )
    return bound


class Declaration(Generic[Given]):
    """`secret` or `public`: a function of lengths, and `like`, a function of data."""

    def __init__(self, declare: Callable[Given, Operand]) -> None:
        self._declare = declare
        functools.update_wrapper(self, declare)

    def __call__(self, *shape: Given.args, **options: Given.kwargs) -> Operand:
        return self._declare(*shape, **options)

    def __reduce__(self) -> str:
        return str(self.__name__)  # type: ignore[attr-defined]

    def like(self, array: Any, /, *, columns: bool = False, **options: Any) -> Operand:
        """Declare an operand with the shape, the type and the bound of an array, a table or a tensor.

        The bound is public: it is part of the program, which the server reads. It is the power of two at or above the
        largest absolute value (of integers at most what their type holds), so that it tells no entry. Other data must
        keep it; where they may be larger, give bound=….

        Args:
            array: an array of NumPy, a table of pandas or Arrow, or what has `__array__` or `__dlpack__`.
            columns: a bound for each column of a matrix, in place of one for all (`columns`).
            **options: those of the declaration; a bound or a dtype among them is taken in the place of that of the
                data.

        Integers are declared with the narrowest type of at most 32 bits that holds them and, where their own type has
        no sign, none; integers that need more are real numbers, unless `exact` says otherwise.

        Raises:
            DTypeError, RangeError, ShapeError: not an array of finite real numbers, or as `secret`.

        Examples:
            >>> table = np.array([[0.7, 30.0], [-0.2, 41.0]])
            >>> secret.like(table).bound
            64.0
            >>> secret.like(table, columns=True).columns
            (1.0, 64.0)
        """
        found = real_array(array, "The data of an operand")
        finite = finite_array(found.reshape(-1), "The data of an operand", (1,)).reshape(found.shape)
        if "dtype" not in options and "modulus" not in options:
            wide = bool(options.get("exact")) and found.dtype.kind in "iu"
            options["dtype"] = found.dtype if wide else _narrowest(found)
        if "bound" not in options and "modulus" not in options:
            whole = _dtype_of(options["dtype"])
            most = _largest(whole) if whole.kind in "iu" else math.inf
            sizes = np.abs(finite)
            if columns and found.ndim == 2:
                options["bound"] = Columns(tuple(min(_power(one), most) for one in sizes.max(axis=0)))
            elif columns:
                raise ShapeError(
                    "Only a matrix has bounds of columns.",
                    got=shape_text(found.shape),
                    advice="the same without columns=True",
                )
            else:
                options["bound"] = min(_power(sizes.max()), most)
        return self._declare(*found.shape, **options)


def _narrowest(array: NDArray[Any]) -> np.dtype[Any]:
    """The type that an operand like an array is declared with."""
    if array.dtype.kind == "b":
        return np.dtype(np.uint8)
    if array.dtype.kind == "f":
        return np.dtype(np.float64)
    types = (np.uint8, np.uint16, np.uint32) if array.dtype.kind == "u" else (np.int8, np.int16, np.int32)
    low, high = int(array.min()), int(array.max())
    fits = (one for one in types if np.iinfo(one).min <= low and high <= np.iinfo(one).max)
    return np.dtype(next(fits, np.float64))


def _power(size: float) -> float:
    """The power of two at or above a size; of zero, 1."""
    if not size:
        return 1.0
    part, exponent = math.frexp(float(size))
    return math.ldexp(1.0, exponent - (part == 0.5))


@Declaration
def secret(
    *shape: int,
    bound: float | Columns | None = None,
    encryption: Encryption = "secret-key",
    dtype: Any = None,
    exact: bool = False,
    row_sum: float | None = None,
    column_sum: float | None = None,
    norm: float | None = None,
    normalise: Any = None,
    modulus: int | None = None,
    fixed_point: int | None = None,
) -> Operand:
    """Declare an encrypted operand with entries in [-bound, bound].

    Args:
        shape: rows and columns of a matrix, the length of a vector, channels, height and width of an image, and the
            number of several before these; nothing for a number. One by one, or in a tuple: `secret(*array.shape)` and
            `secret(array.shape)` are the same.
        bound: of the absolute value of an entry; by default 1, for an integer type the largest absolute value of that
            type, which it must not exceed. Of a matrix also one for each column (`columns`).
        encryption: "secret-key": the client alone encrypts it, at half the bytes. "public-key": whoever has the public
            key can (`Program.encryptor`); the plan is made for the larger error, both halves of every ciphertext
            travel, and forms that need the secret key are left out.
        dtype: type of the entries as NumPy names it: floating point (the default), or an integer type of at most
            32 bits, of exact ones 64: encryption then refuses fractions, whatever the type of the array.
        exact: the program computes exact integers, and wraps around nowhere: its results are whole numbers, int64 or,
            where their bound is 2^63 or more, Python's integers in an array of objects, and wrong with a probability
            below 2^-40. It needs an integer type; all else in the program must be whole numbers too.
        row_sum, column_sum: of the absolute values in a row, and in a column, of a matrix: what a product with it
            multiplies bounds and errors by, which the number of its columns, or rows, times the bound are without. Of a
            matrix whose rows are probabilities the row_sum is 1. The column_sum of a vector is that of all entries.
        norm: the largest singular value of a matrix, or the length of a vector.
        normalise: (mean, deviation), two numbers or one of each for every channel of an image, or entry of a vector. An
            entry x is encrypted as (x - mean)/deviation, by whoever encrypts it, and the program, its samples and all
            bounds are of that; arrays are given as they are, and may be of bytes.
        modulus: t of integers modulo t: whoever encrypts the operand reduces it, and results are the integers from 0 to
            t - 1, int64, exactly, as NumPy's that wrap around. All secret operands of a program have the same. It is
            any number from 2 to 2^64; beyond 2^63 results are uint64. Matrix products and sums are computed modulo t up
            to 2^31, and 2^32; all else too where t is a prime = 1 mod 2^13, or more. Anything else is computed without
            wrapping around, and reduced when it is decrypted. The dtype may be any integer type; there is no bound.
        fixed_point: bits behind the point: whoever encrypts the operand rounds it to multiples of 2^-fixed_point, and
            everything else is computed exactly, with sums, products and numbers alone. Results are float64, off by
            what rounding operands and constants causes, and nothing else. Other operands may be whole numbers; clear
            ones that are not are rounded too.

    What is declared is checked where the operand is encrypted.

    Raises:
        DTypeError, ShapeError, RangeError: not positive integers, not a positive bound, not a real type of these, or a
            bound beyond the type.
        ParameterError: no such encryption, or an exact operand without an integer type, or one with it that is to be
            normalised.

    Examples:
        >>> pixels = secret(3, 32, 32, bound=2.0, normalise=(127.5, 63.75))
        >>> float(pixels.normalised(np.full((3, 32, 32), 255.0)).max())
        2.0
    """
    if modulus is not None:
        others = row_sum, column_sum, norm, normalise, fixed_point
        return _modular(shape, modulus, bound, encryption, dtype, exact, *others)
    if not isinstance(exact, bool):
        raise DTypeError("`exact` must be True or False.", got=repr(exact), advice="exact=True")
    kind = _dtype(dtype, EXACT_BYTES if exact else WHOLE_BYTES)
    largest = _largest(kind)
    known = _known(bound, largest, row_sum, column_sum, norm)
    operand = Operand(
        _given_shape(shape),
        True,
        known.pop("bound"),
        kind.kind != "f",
        encryption,
        exact,
        normalise=None if normalise is None else Normalisation.given(normalise),
        fixed_point=fixed_point,
        **known,
    )
    if operand.whole and operand.bound > largest:
        raise RangeError(
            f"The bound of an operand exceeds what its type, {kind}, holds.",
            got=bound,
            advice=(f"bound={largest:.0f}, or less", "a wider dtype=…"),
        )
    return operand


def _modular(
    shape: tuple[int, ...],
    modulus: Any,
    bound: Any,
    encryption: Encryption,
    dtype: Any,
    exact: bool,
    *others: Any,
) -> Operand:
    """An operand of integers modulo t."""
    kind = np.dtype(np.int64) if dtype is None else _dtype_of(dtype)
    names = ("bound", "row_sum", "column_sum", "norm", "normalise", "fixed_point")
    given = [name for name, value in zip(names, (bound, *others), strict=True) if value is not None]
    given += ["exact"] if exact else []
    number = (
        modulus if type(modulus) is int and 2 <= modulus <= MAX_EXACT_MODULUS else 65537
    )  # else refused below
    if given or kind.kind not in "iu":
        raise ParameterError(
            "An operand with a modulus has whole numbers, which are reduced, and no bound.",
            got=", ".join(f"{name}=…" for name in given) or f"dtype {kind}",
            advice=f"cb.secret(…, modulus={number}) without {given[0] if given else 'dtype'}=…",
        )
    return Operand(
        _given_shape(shape),
        True,
        max(1.0, _float_above(number // 2)),
        True,
        encryption,
        not is_computed(number),
        modulus=modulus,
    )


def _known(
    bound: float | Columns | None,
    usual: float,
    row_sum: float | None,
    column_sum: float | None,
    norm: float | None,
) -> dict[str, Any]:
    """Keyword arguments of an operand."""
    found: dict[str, Any] = {"row_sum": row_sum, "column_sum": column_sum, "norm": norm}
    if isinstance(bound, Columns):
        return {**found, "bound": max(bound.bounds), "columns": bound.bounds}
    return {
        **found,
        "bound": usual if bound is None else _float_above(bound) if type(bound) is int else bound,
    }


def _float_above(number: int) -> float:
    """The least double that is not below an integer."""
    found = real_number(number)
    return found if found >= number else math.nextafter(found, math.inf)


@Declaration
def public(
    *shape: int,
    bound: float | Columns | None = None,
    dtype: Any = None,
    row_sum: float | None = None,
    column_sum: float | None = None,
    norm: float | None = None,
    fixed_point: int | None = None,
) -> Operand:
    """Declare a clear operand (a weight) with entries in [-bound, bound].

    Args:
        shape: as `secret`; filters of a convolution have four lengths (outputs, inputs, height, width).
        bound: by default 1, for an integer type the largest absolute value of that type.
        dtype: type of the entries as NumPy names it: floating point (the default), or an integer type, whose values are
            multiplied as they are: one of at most 32 bits, or int64 with a bound below 2^53.
        row_sum, column_sum, norm: as `secret`; checked where the server is given the operand.
        fixed_point: bits behind the point, beside secret operands in fixed point; by default as many as these have.

    Raises:
        DTypeError: not a real type of these. Others as `secret`.
    """
    small = type(bound) in (int, float) and 0 < bound < 2.0**CLEAR_BITS  # type: ignore[operator]
    kind = _dtype(dtype, EXACT_BYTES if small else WHOLE_BYTES)
    known = _known(bound, _largest(kind), row_sum, column_sum, norm)
    return Operand(
        _given_shape(shape), False, known.pop("bound"), kind.kind != "f", fixed_point=fixed_point, **known
    )


def _dtype(dtype: Any, most: int) -> np.dtype[Any]:
    """A type of entries, integers of so many bytes at most; DTypeError where they cannot have it."""
    kind = _dtype_of(dtype)
    if kind.kind not in "fiu" or (kind.kind != "f" and kind.itemsize > most):
        wide = kind.kind in "iu"
        raise DTypeError(
            "The type of an operand is not supported.",
            expected=f"floating point, or an integer of at most {8 * most} bits",
            got=str(kind),
            advice=(
                *((f"dtype={kind.name!r}, exact=True of a secret operand: exact integers",) if wide else ()),
                *((f"dtype={kind.name!r}, bound=2**52 of a clear one",) if wide else ()),
                "dtype=np.int32, or np.float64 for larger numbers",
            ),
        )
    return kind


def _dtype_of(dtype: Any) -> np.dtype[Any]:
    """A type of NumPy; DTypeError where it is none."""
    try:
        kind = np.dtype(np.float64 if dtype is None else dtype)
    except TypeError as error:
        raise DTypeError(
            "The type of an operand must be a NumPy type.",
            got=repr(dtype),
            advice="dtype=np.float64, or np.int8, np.int16, np.int32 for whole numbers",
        ) from error
    return kind


def _largest(kind: np.dtype[Any]) -> float:
    """The bound of a type where none is given: the largest absolute value of integers, else 1."""
    if kind.kind == "f":
        return 1.0
    limits = np.iinfo(kind)
    return float(-limits.min or limits.max)
