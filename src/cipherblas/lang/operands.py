"""What a program is declared to take: secret and public operands, their shapes, bounds and types."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from cipherblas.common.arrays import is_scalar, real_number
from cipherblas.common.errors import DTypeError, ParameterError, RangeError, ShapeError

Encryption = Literal["secret-key", "public-key"]  # which key encrypts an operand

MAX_LENGTH = 1 << 24  # rows or columns of an operand
BOUND_RANGE = 2.0**-600, 2.0**600  # products of two bounds stay finite numbers


@dataclass(frozen=True)
class Operand:
    """A declared operand, secret or public, entries of absolute value at most `bound`.

    `shape` is (rows, columns) of a matrix, (length,) of a vector, (channels, height, width) of an image; filters, which
    are never secret, have four dimensions.

    `whole` promises whole numbers: products by GEMM then need not round them. `encryption` says which key is planned
    for: what is planned for the public key may come from the holder of the secret key too. `exact`, of a secret
    operand of whole numbers, makes the program one of exact integers: see `lang.exact`.
    """

    shape: tuple[int, ...]
    secret: bool
    bound: float
    whole: bool = False
    encryption: Encryption = "secret-key"
    exact: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _shape(self.shape, self.secret))
        if not is_scalar(self.bound):
            raise DTypeError(
                "The bound of an operand must be a number.",
                expected="a number",
                got=type(self.bound).__name__,
            )
        object.__setattr__(self, "bound", checked_bound(real_number(self.bound)))
        allowed = get_args(Encryption) if self.secret else ("secret-key",)
        if self.encryption not in allowed:
            what = "a secret operand" if self.secret else "a clear operand, which is not encrypted"
            raise ParameterError(
                f"The encryption of {what} is not known.",
                expected=" | ".join(allowed),
                got=repr(self.encryption),
            )
        if self.exact and not (self.secret and self.whole and self.bound >= 1):
            raise ParameterError(
                "Only a secret operand of whole numbers, bounded by 1 or more, can be exact.",
                expected="secret(…, dtype=an integer type, exact=True)",
                got=", ".join(
                    (
                        "secret" if self.secret else "clear",
                        "whole numbers" if self.whole else "real numbers",
                        f"bounded by {self.bound:g}",
                    )
                ),
            )

    @property
    def declared(self) -> dict[str, Any]:
        """What files hold of it: `exact` where it is, so that others are described as they always were."""
        return {name: value for name, value in vars(self).items() if name != "exact" or value}

    @property
    def public_key(self) -> bool:
        """Whether the public key may encrypt it."""
        return self.encryption == "public-key"


def _shape(lengths: Any, secret: bool) -> tuple[int, ...]:
    try:
        values = tuple(lengths)
    except TypeError:
        raise DTypeError(
            "The shape of an operand must be integers.", expected="integers", got=repr(lengths)
        ) from None
    if len(values) == 2:
        return _length(values[0], "rows"), _length(values[1], "columns")
    if len(values) > (3 if secret else 4):
        raise ShapeError(
            "An operand has the wrong number of dimensions.",
            expected="0 (a number), 1 (a vector), 2 (a matrix) or 3 (an image)"
            + ("" if secret else " or 4 (filters)"),
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
            f"The number of {what} must be an integer.",
            expected="an integer",
            got=f"{value!r} ({type(value).__name__})",
        ) from None
    if not 1 <= length <= MAX_LENGTH:
        raise ShapeError(
            f"An operand needs a positive number of {what}.", expected=f"1 to {MAX_LENGTH}", got=length
        )
    return length


def checked_bound(bound: float) -> float:
    """`bound`, or RangeError when it is no positive number in a range that products do not leave."""
    if not BOUND_RANGE[0] <= bound <= BOUND_RANGE[1]:
        raise RangeError(
            "The bound on the entries of a matrix is out of range.",
            expected=f"> 0, from {BOUND_RANGE[0]:.1g} to {BOUND_RANGE[1]:.1g}",
            got=bound,
        )
    return bound


def secret(
    *shape: int,
    bound: float | None = None,
    encryption: Encryption = "secret-key",
    dtype: Any = None,
    exact: bool = False,
) -> Operand:
    """An encrypted operand with entries in [-bound, bound].

    Args:
        shape: rows and columns of a matrix, the length of a vector, channels, height and width of an image; nothing for
            a number.
        bound: of the absolute value of an entry; by default 1, for an integer type the largest absolute value of that
            type, which it must not exceed.
        encryption: "secret-key": the client alone encrypts it, at half the bytes. "public-key": whoever has the public
            key can (`Program.encryptor`); the plan is made for the larger error, both halves of every ciphertext
            travel, and forms that need the secret key are left out.
        dtype: type of the entries as NumPy names it: floating point (the default), or an integer type of at most
            32 bits: encryption then refuses fractions, whatever the type of the array.
        exact: the program computes exact integers: its results are whole numbers, rounded to int64 when they are
            decrypted, and wrong with a probability below 2^-40. It needs an integer type; all else in the program must
            be whole numbers too.

    Raises:
        DTypeError, ShapeError, RangeError: not positive integers, not a positive bound, not a real type of these, or a
            bound beyond the type.
        ParameterError: no such encryption, or an exact operand without an integer type.
    """
    kind = _dtype(dtype)
    largest = _largest(kind)
    if not isinstance(exact, bool):
        raise DTypeError("`exact` must be True or False.", expected="True or False", got=repr(exact))
    operand = Operand(shape, True, largest if bound is None else bound, kind.kind != "f", encryption, exact)
    if operand.whole and operand.bound > largest:
        raise RangeError(
            "The bound of an operand exceeds its type.", expected=f"at most {largest:g} of {kind}", got=bound
        )
    return operand


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
    kind = _dtype(dtype)
    return Operand(shape, False, _largest(kind) if bound is None else bound, kind.kind != "f")


def _dtype(dtype: Any) -> np.dtype[Any]:
    """A type of entries; DTypeError where they cannot have it."""
    try:
        kind = np.dtype(np.float64 if dtype is None else dtype)
    except TypeError as error:
        raise DTypeError(
            "The type of an operand must be a NumPy type.", expected="a NumPy type", got=repr(dtype)
        ) from error
    if kind.kind not in "fiu" or (kind.kind != "f" and kind.itemsize > 4):
        raise DTypeError(
            "The type of an operand is not supported.",
            expected="floating point, or an integer of at most 32 bits",
            got=str(kind),
        )
    return kind


def _largest(kind: np.dtype[Any]) -> float:
    """The bound of a type where none is given: the largest absolute value of integers, else 1."""
    if kind.kind == "f":
        return 1.0
    limits = np.iinfo(kind)
    return float(-limits.min or limits.max)
