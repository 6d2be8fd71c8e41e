"""Slot vectors as coefficients, and several of them in threads of the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from cipherblas.common.errors import RangeError

if TYPE_CHECKING:
    from cipherblas._core import Context


def encoded(context: Context, values: NDArray[Any], scale: float, dither: int = 0) -> NDArray[Any]:
    """The coefficients round(scale · values) of a slot vector, int64 (N,); `dither` as `_core.Context.encode` has it.

    Raises:
        RangeError: one is not a number, infinite, or 2^62 or more in absolute value.
    """
    try:
        return context.encode(values, scale, dither)
    except ValueError as error:
        raise RangeError(f"The slots cannot be encoded: {error}.") from error


def all_encoded(
    context: Context, values: list[NDArray[Any]], scale: float, dithers: list[int]
) -> list[NDArray[Any]]:
    """The same of several slot vectors of full length, with a dither for each, in threads of the core.

    Raises:
        RangeError: as `encoded`, of any of them.
    """
    try:
        return context.encode_all(values, scale, dithers)
    except ValueError as error:
        raise RangeError(f"The slots cannot be encoded: {error}.") from error
