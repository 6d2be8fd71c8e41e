"""Results of which nobody said how precise they must be, where the default promises little in their own units."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

import numpy as np

from cipherblas.common.errors import PrecisionWarning
from cipherblas.lang.deferred import functions_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand
from cipherblas.lang.operations import Constant
from cipherblas.lang.results import results_of
from cipherblas.planner.plan.plan import Plan, PlanOptions

SAID = frozenset({"precision", "error", "agreement", "samples", "promise"})  # options that say it
COARSE = 10.0  # times the largest entry of an operand
SHARE = 0.2  # of the columns: some of many random weights are always small
SAME_VALUES = frozenset({"scale", "add", "assume"})  # what a product may go through on its way to a result


def warn_of_default(
    operands: Mapping[str, Operand], expression: Expression, plan: Plan, options: Iterable[str]
) -> None:
    """Warn of results of which the default precision, which is relative to their bound, tells little: they may err by
    ten times the largest entry of an operand, or by more than each of a fifth of the columns of one can add to them.

    Args:
        options: names of those that were given.
    """
    if SAID & set(options) or plan.parameters.plain_modulus is not None:
        return
    largest = max(operand.bound for operand in operands.values() if operand.secret)
    for node, result in zip(results_of(expression), plan.results, strict=True):
        least = _least_column(node)
        if result.target > COARSE * largest:
            why = f"encrypted entries are {largest:.3g} at most"
        elif result.target > least:
            why = f"what is multiplied by the smallest weights adds {least:.2g} at most"
        else:
            continue
        of = f" {result.label!r}" if result.label else ""
        warnings.warn(
            PrecisionWarning(
                f"The result{of} may err by {result.error:.2g}, and {why}: the default precision, "
                f"{result.target / result.bound:.2g}, is relative to the bound of the result, {result.bound:.3g}. "
                "Write error=… for the largest error that serves you; smaller bounds (bound=…, cb.assume) make "
                "results more precise, and so do bounds of each column (bound=cb.columns([…])), or columns that are "
                "scaled alike."
            ),
            stacklevel=4,
        )


def warn_of_coarser(written: Expression, plan: Plan, options: PlanOptions) -> None:
    """Warn of a plan whose precision is a coarser one than the default, which functions do not reach.

    Args:
        options: those of the plan, as they were asked for.
    """
    if options.error is not None or options.agreement is not None or plan.precision <= options.precision:
        return
    named = ", ".join(dict.fromkeys(str(one.place or one.function) for one in functions_of(written)))
    warnings.warn(
        f"The result is planned with the precision {plan.precision:g}: the default one, {options.precision:g}, "
        f"is not reached by {named}. To ask for it, write precision={plan.precision:g}.",
        PrecisionWarning,
        stacklevel=4,
    )


def _least_column(node: Expression) -> float:
    """The most that each of the columns which count least, a fifth of them, adds to a result that is a product with
    constant weights; columns of zeros apart. Infinity of all other results."""
    factor = 1.0
    while node.op in SAME_VALUES:
        if node.op == "scale":
            factor *= node.gain(0)
        node = max(node.children, key=lambda child: (child.secret, child.bound))
    if not node.product:
        return np.inf
    weights, other = sorted(node.children, key=lambda child: child.secret)
    if not isinstance(weights, Constant):
        return np.inf
    inner = 0 if weights is node.children[1] else -1  # the axis that sums go along
    columns = (
        np.abs(np.moveaxis(weights.values, inner, -1)).reshape(-1, weights.values.shape[inner]).max(axis=0)
    )
    bounds = other.column_bounds if inner == 0 else other.row_bounds
    adds = columns * (other.bound if bounds is None else bounds)
    used = adds[adds > 0]
    if not len(used):
        return np.inf
    return factor * float(np.quantile(used, SHARE, method="inverted_cdf"))
