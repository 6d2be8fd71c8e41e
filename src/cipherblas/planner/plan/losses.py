"""Plans whose promise says nothing: where a program loses what its results should tell, and what would help."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from cipherblas.common.errors import PrecisionWarning
from cipherblas.lang.facts import facts_of
from cipherblas.lang.graph import formula
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.results import results_of
from cipherblas.planner.plan.plan import Plan
from cipherblas.planner.predict.promises import BOUNDS
from cipherblas.runtime.executor import NodeFigures

LOST = 0.5  # of the largest value of a node: what is promised then tells hardly more than a sign
MAX_NAME_LENGTH = 80


def warn_of_losses(expression: Expression, plan: Plan) -> None:
    """Warn of results whose promised error is more than half of their largest value, and say which step lost them;
    where it is promised for every input.

    Args:
        expression: what runs.
    """
    if plan.promise is not BOUNDS:
        return
    for node, result in zip(results_of(expression), plan.results, strict=True):
        if result.error <= LOST * node.bound:
            continue
        of = f" {result.label}" if result.label else ""
        warnings.warn(
            PrecisionWarning(
                f"The promised error {result.error:.3g} of the result{of} is more than half of its largest value "
                f"{node.bound:.3g}: {_step(node, expression, plan.nodes)}."
            ),
            stacklevel=3,
        )


def _step(result: Expression, expression: Expression, figures: Sequence[NodeFigures]) -> str:
    """The first step to a result that loses it, and what to write."""
    order = [node for node in facts_of(expression).order if not node.root]
    noise: dict[int, float] = {}
    for one in figures:
        noise[one.number] = max(noise.get(one.number, 0.0), one.error)
    parts = {
        id(node): (node.missed + noise.get(number, 0.0)) / node.bound
        for number, node in enumerate(order)
        if node.secret
    }
    lost = next((node for node in ordered(result) if parts.get(id(node), 0.0) > LOST), result)
    before = max((parts.get(id(child), 0.0) for child in lost.children), default=0.0)
    told = f"it is lost in {_short(lost)}, whose errors are {parts.get(id(lost), 0.0):.2g} of its bound"
    if before:
        told += f", and those of what it is made of {before:.2g}"
    if lost.missed > LOST * lost.bound * parts.get(id(lost), 0.0):
        help_ = "a finer precision=… of the functions before it"
    else:
        help_ = "a smaller error=… or precision=… of the program"
    return f"{told}. Promise smaller bounds there, or an error (cb.assume(x, bound, error=…)), or ask for {help_}"


def _short(node: Expression) -> str:
    name = formula(node)
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[: MAX_NAME_LENGTH - 1]}… ({node.title})"
