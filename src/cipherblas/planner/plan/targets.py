"""How near each result must come, and what is predicted of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cipherblas.common.arrays import is_scalar
from cipherblas.common.errors import ParameterError, PrecisionError
from cipherblas.lang.nodes import Expression
from cipherblas.lang.results import flattened, results_of


def each_error(error: Any) -> Sequence[Any]:
    """The errors that are asked for."""
    if error is None:
        return ()
    if isinstance(error, Mapping):
        return tuple(error.values())
    return tuple(error) if isinstance(error, (tuple, list)) else (error,)


def asked_errors(expression: Expression, error: Any) -> tuple[float, ...]:
    """An absolute error for each result, of one for all, or of one for each.

    Raises:
        ParameterError: they are for other results than those of the program.
    """
    if is_scalar(error):
        return (float(error),) * len(results_of(expression))
    if not expression.root:
        raise ParameterError(
            "The error of the only result must be a number.", expected="a number", got=repr(error)
        )
    return tuple(
        float(one) for one in flattened(expression, error, "The errors must be arranged as the results.")
    )


def targets(
    expression: Expression, precision: float, error: float | tuple[float, ...] | None
) -> tuple[float, ...]:
    """The largest allowed error of an entry, of each result: relative to its bound, or as `PlanOptions.asked` says."""
    results = results_of(expression)
    if error is None or not expression.root:
        return tuple(precision * node.bound for node in results)
    return error if isinstance(error, tuple) else (error,) * len(results)


def check_promised(results: Sequence[ResultFigures]) -> None:
    """Raise PrecisionError where a plan predicts errors beyond all that a result may be: parameters that a user forces,
    and those of files, may be such."""
    for one in results:
        if not one.error <= one.bound:
            of = f"result {one.label!r}" if one.label else "the result"
            raise PrecisionError(
                f"The parameters are none for this program: errors of {of} may exceed its bound.",
                expected=f"an error of at most {one.bound:.3g}",
                got=f"{one.error:.3g}",
            )


@dataclass(frozen=True)
class ResultFigures:
    """The prediction for one result.

    Attributes:
        label: its name, or its place; of the only result, nothing.
        bound: of its entries.
        error, target: the largest error of an entry, predicted and allowed.
        rounding_error: the part of the error that comes from clear factors that are rounded.
        nbytes: that are sent back.
    """

    label: str
    bound: float
    error: float
    target: float
    rounding_error: float
    nbytes: int


def nearest_target(results: Sequence[ResultFigures]) -> ResultFigures:
    """The result whose error is the largest part of what is allowed."""
    return max(results, key=lambda one: one.error / one.target if one.target else math.inf)
