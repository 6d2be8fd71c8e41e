"""Results of which nobody said how precise they must be, where the default promises little in their own units."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

from cipherblas.common.errors import PrecisionWarning
from cipherblas.lang.operands import Operand
from cipherblas.planner.plan import Plan

SAID = frozenset({"precision", "error", "agreement", "samples", "promise"})  # options that say it
COARSE = 0.25  # of the largest entry of an operand


def warn_of_default(operands: Mapping[str, Operand], plan: Plan, options: Iterable[str]) -> None:
    """Warn of results that were allowed to err by more than a quarter of the largest entry of an operand by the default
    precision, which is relative to the bound of a result.

    Args:
        options: names of those that were given.
    """
    if SAID & set(options):
        return
    largest = max(operand.bound for operand in operands.values() if operand.secret)
    for result in plan.results:
        if result.target <= COARSE * largest:
            continue
        of = f" {result.label!r}" if result.label else ""
        warnings.warn(
            PrecisionWarning(
                f"The result{of} may err by {result.error:.2g}, and encrypted entries are {largest:.3g} at most: the "
                f"default precision, {result.target / result.bound:.2g}, is relative to the bound of the result, "
                f"{result.bound:.3g}. Write error=… for the largest error that serves you; smaller bounds (bound=…, "
                "cb.assume) make results more precise, and so do columns that are scaled alike."
            ),
            stacklevel=4,
        )
