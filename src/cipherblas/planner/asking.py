"""A plan for what was asked for, or what to ask for instead: advice is tried before it is given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cipherblas.common.errors import (
    Advice,
    CipherblasError,
    MemoryBudgetError,
    PrecisionError,
    without,
)
from cipherblas.common.progress import Tell
from cipherblas.crypto.security import LEVELS
from cipherblas.lang.deferred import functions_of
from cipherblas.lang.exact import is_exact
from cipherblas.lang.nodes import Expression
from cipherblas.lang.results import arranged, results_of
from cipherblas.planner.pipeline import planned
from cipherblas.planner.plan.leaving_out import left_out
from cipherblas.planner.plan.passes import Outcome, Planned, PlanRequest
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.plan.targets import asked_errors
from cipherblas.planner.predict.feasible import Infeasible, attempted

# Options that force a part of the plan, in the order in which it is tried whether it does without.
FORCED = ("block", "options", "algorithm", "form", "parameters", "ring_degree", "key_policy")
COARSER = (1e-3, 1e-2)  # than the default, where functions do not reach that
COARSEST = 1e-1  # precision that is advised
TRIES = 3  # plans that are looked for to find a precision that can be reached


def planned_as_asked(
    expression: Expression, options: PlanOptions, given: bool, progress: Tell | None = None
) -> Planned:
    """The fastest plan of a program that was traced, and the program as it is planned.

    Functions without a precision of their own get one. Where they do not reach the default precision, the finest of a
    few coarser ones is taken: that of the plan.

    Args:
        given: the precision was asked for, and is not the default one.

    Raises:
        CipherblasError: no parameters reach what is asked for; its advice is a precision that they reach.
    """
    request = (
        PlanRequest(expression, options) if progress is None else PlanRequest(expression, options, progress)
    )
    found = planned(request)
    if not isinstance(found, Infeasible):
        return found
    error = found.error
    if isinstance(error, PrecisionError) and not (
        options.parameters is not None or options.agreement is not None or is_exact(expression)
    ):
        if functions_of(expression) and not given and options.error is None:
            coarser = _less_precise(request)
            if coarser is not None:
                return coarser
        if not _does(error.advice, request):
            advice = _reachable(request)
            others = (one for one in error.advice if not one.options.keys() & {"precision", "error"})
            error.advice = (*(() if advice is None else (advice,)), *others)
    if not any(one.options or one.call for one in error.advice):
        _advise_options(error, request)
    raise error


def _advise_options(error: CipherblasError, request: PlanRequest) -> None:
    """Advise what to leave out of the options, or say that no option helps.

    Less security is advised where nothing else is enough: the next level, which the advice names.
    """
    options = request.options
    forced = tuple(name for name in FORCED if getattr(options, name) is not None)
    found = left_out(forced, lambda names: _attempt(without(*names), request))
    for bits in reversed([level for level in LEVELS if level < options.security]):
        less = Advice(f"security={bits}: at {bits} bits of security it fits", {"security": bits})
        for names in ((), forced) if forced else ((),):
            if found is None:
                advice = less if not names else without(*names).also(less)
                more = _attempt(advice, request)
                found = None if isinstance(more, Infeasible) else advice.also(more)
    if found is not None:
        error.advice = (found,)
    elif isinstance(error, PrecisionError):
        error.cause = (
            f"{(error.cause or 'The program itself is too much').removesuffix('.')}; no option helps."
        )


def _attempt(advice: Advice, request: PlanRequest) -> Advice | Infeasible | None:
    """The options that are to be written beside the advice."""
    request.tell(f"whether {advice.write} does")
    found = _any_plan(request, advice)
    if not isinstance(found, Infeasible):
        return None
    if isinstance(found.error, MemoryBudgetError) and found.error.advice:  # a larger budget
        return found.error.advice[0]
    return found


def _does(advice: Sequence[Advice], request: PlanRequest) -> bool:
    """Whether the first advice is options that the program can be planned with."""
    if not advice or not advice[0].options:
        return False
    request.tell(f"whether {advice[0].write} is enough")
    return not isinstance(_any_plan(request, advice[0]), Infeasible)


def _any_plan(request: PlanRequest, advice: Advice) -> Outcome:
    """A plan by the options of an advice, however long it takes, or why there is none."""
    return planned(replace(request.asking(**advice.options), any_plan=True))


def _less_precise(request: PlanRequest) -> Planned | None:
    """The plan at the finest of a few precisions that are coarser than the default; None where none does."""
    for precision in COARSER:
        found = planned(request.asking(precision=precision))
        if not isinstance(found, Infeasible):
            return found
    return None


def _reachable(request: PlanRequest) -> Advice | None:
    """A precision, or an error, that the program can be planned with, and that is near what was asked for."""
    asked = _finest(request)
    if asked is None:
        return None
    coarser = [
        10.0**power for power in range(math.floor(math.log10(asked)) + 1, 0) if 10.0**power <= COARSEST
    ]
    best: Advice | None = None
    low, high = 0, len(coarser) - 1  # of those that are finer than `low` none is known to be reached
    middle = high
    for _ in range(TRIES):
        if not low <= middle <= high:
            break
        request.tell(f"whether a precision of {coarser[middle]:g} is reached")
        advice = _asking(request, coarser[middle] / asked)
        if not isinstance(_any_plan(request, advice), Infeasible):
            best, high = advice, middle - 1
        elif best is None:
            return None
        else:
            low = middle + 1
        middle = (low + high) // 2
    return best


def _finest(request: PlanRequest) -> float | None:
    """The precision that is asked for; None where the results have no bound for the errors."""
    found = attempted(lambda: request.options.relative_to(request.expression), only=PrecisionError)
    return None if isinstance(found, Infeasible) else float(found.precision)


def _asking(request: PlanRequest, factor: float) -> Advice:
    """The request, so many times as coarse."""
    expression, options = request.expression, request.options
    wanted: Any
    if options.error is None:
        wanted = float(f"{float(options.precision) * factor:.6g}")
        return Advice(f"precision={wanted:g}", {"precision": wanted})
    pairs = zip(results_of(expression), asked_errors(expression, options.error), strict=True)
    errors = tuple(float(f"{max(one, min(one * factor, COARSEST * node.bound)):.2g}") for node, one in pairs)
    wanted = arranged(expression, errors) if expression.root else errors[0]
    return Advice(f"error={wanted}", {"error": wanted})
