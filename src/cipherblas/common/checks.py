"""Checks that client and server share: names of operands, the planned range of values."""

from __future__ import annotations

import keyword
import re
from typing import Any

from numpy.typing import NDArray

from cipherblas.common.arrays import is_integral
from cipherblas.common.errors import ParameterError, RangeError

MAX_NAME_LENGTH = 100


def _identifier(name: object) -> str:
    """A name that may stand in place of one that may not."""
    found = re.sub(r"\W+", "_", str(name)[:MAX_NAME_LENGTH])
    found = found if found.isidentifier() and not keyword.iskeyword(found) else f"_{found}"[:MAX_NAME_LENGTH]
    return found if found.isidentifier() else "x"


def check_name(name: object, what: str = "name of an operand") -> None:
    """Check the name of an operand or a result, from a user or a file: it stands in formulas, and on terminals.

    Raises:
        ParameterError: it is no Python identifier, or longer than 100 characters.
    """
    if (
        not isinstance(name, str)
        or not name.isidentifier()
        or keyword.iskeyword(name)
        or len(name) > MAX_NAME_LENGTH
    ):
        raise ParameterError(
            f"The {what} must be a Python identifier.",
            got=repr(name),
            advice=_identifier(name),
        )


def check_integral(name: str, matrix: NDArray[Any]) -> None:
    """Raise RangeError when an entry of an operand with an integer type is no whole number."""
    if not is_integral(matrix):
        raise RangeError(
            f"Operand {name!r} was declared with an integer type and has fractions.",
            advice=("np.rint of the array", "another dtype=… where the operand is declared"),
        )


def check_bound(name: str, matrix: NDArray[Any], bound: float) -> None:
    """Raise RangeError when an entry is beyond the planned range, and does not say by how much: it may be secret."""
    largest = max(float(matrix.max()), -float(matrix.min()))
    if largest > bound * (1 + 1e-12):
        raise RangeError(
            f"Operand {name!r} has an entry beyond the planned range, which is {bound:g} in absolute value.",
            advice=(
                "bound=… where the operand is declared, the largest absolute value that an entry may have",
                f"np.clip({name}, {-bound:g}, {bound:g}) in place of {name}",
            ),
        )
