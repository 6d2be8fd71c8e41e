"""Arguments that users give to functions of a program: nodes, numbers, integers and axes, checked."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from cipherblas.common.arrays import is_scalar, real_number, shown
from cipherblas.common.errors import DTypeError, RangeError, ShapeError
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import MAX_LENGTH, Operand


def node_of(x: Any, what: str) -> Expression:
    """Return the node that a user passed; raise an error with advice for any other value.

    Args:
        what: the beginning of a sentence, as "The argument of a function".

    Raises:
        DTypeError: it is none.
    """
    if isinstance(x, Expression):
        return x
    if isinstance(x, Operand):
        advice = "the parameter of the function that is compiled, in place of the operand declared for it"
    elif is_scalar(x) or isinstance(x, (np.ndarray, list, tuple)):
        advice = "an operand or a result of the program; NumPy computes what is clear"
    else:
        advice = "an operand or a result of the program"
    raise DTypeError(f"{what} must be a node of the program.", got=type(x).__name__, advice=advice)


def number_of(value: Any, what: str) -> float:
    """A finite number that a user gave."""
    if not is_scalar(value):
        raise DTypeError(
            f"The {what} must be a number.",
            got=type(value).__name__,
            advice="a number, as 0.5 or np.float64(0.5)",
        )
    number = real_number(value)
    if not math.isfinite(number):
        raise RangeError(f"The {what} must be finite.", got=number, advice="a finite number")
    return number


def positive(value: Any, what: str, most: float = math.inf) -> float:
    """A number above zero that a user gave."""
    number = number_of(value, what)
    if not 0 < number <= most:
        limit = "" if math.isinf(most) else f" and at most {most:g}"
        raise RangeError(f"The {what} is out of range.", got=number, advice=f"a number above 0{limit}")
    return number


def integer_of(value: Any, what: str) -> int:
    """An integer that a user gave; NumPy's are taken, booleans and fractions are not."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        whole = is_scalar(value) and real_number(value).is_integer()
        raise DTypeError(
            f"{what} must be an integer.",
            got=shown(value),
            advice=str(int(value)) if whole else "an integer, as 1",
        ) from None
    if abs(number) > MAX_LENGTH:
        raise ShapeError(
            f"{what} is too large.",
            got=number,
            advice=f"an integer of at most {MAX_LENGTH} in absolute value",
        )
    return number


def axis_of(axis: Any, dimensions: int) -> int:
    """An axis that a user gave, counted from the front."""
    number = integer_of(axis, "An axis")
    if not -dimensions <= number < dimensions:
        raise ShapeError(
            "The array has no such axis.",
            got=number,
            advice=f"an axis from {-dimensions} to {dimensions - 1}"
            if dimensions
            else "the value itself: a number has no axes",
        )
    return number % dimensions
