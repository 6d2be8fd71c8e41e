"""A plan for what was asked for, or what to ask for instead: advice is tried before it is given."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cipherblas.common.errors import (
    Advice,
    CipherblasError,
    MemoryBudgetError,
    PrecisionError,
    PrecisionWarning,
    without,
)
from cipherblas.common.progress import Tell
from cipherblas.crypto.security import LEVELS
from cipherblas.lang.deferred import Deferred, functions_of
from cipherblas.lang.exact import is_exact
from cipherblas.lang.graph import deduplicated
from cipherblas.lang.nodes import Expression
from cipherblas.lang.results import arranged, results_of
from cipherblas.planner.plan.by_samples import BySamples, agreeing
from cipherblas.planner.plan.leaving_out import left_out
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.plan.targets import asked_errors
from cipherblas.planner.predict.truncation import truncated
from cipherblas.planner.rewrite.association import Planned
from cipherblas.planner.rewrite.precisions import settled
from cipherblas.planner.rewrite.spellings import planned_spelling
from cipherblas.planner.search.planner import check_precision
from cipherblas.planner.search.refusals import INFEASIBLE

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
    few coarser ones is taken, with a warning.

    Args:
        given: the precision was asked for, and is not the default one.

    Raises:
        CipherblasError: no parameters reach what is asked for; its advice is a precision that they reach.
    """
    try:
        return _planned(expression, options, progress)
    except INFEASIBLE as error:
        if isinstance(error, PrecisionError) and not (
            options.parameters is not None or options.agreement is not None or is_exact(expression)
        ):
            functions = functions_of(expression)
            if functions and not given and options.error is None:
                found = _less_precise(expression, functions, options, progress)
                if found is not None:
                    return found
            if not _does(error.advice, expression, options, progress):
                advice = _reachable(expression, options, progress)
                others = (one for one in error.advice if not one.options.keys() & {"precision", "error"})
                error.advice = (*(() if advice is None else (advice,)), *others)
        if not any(one.options or one.call for one in error.advice):
            _advise_options(error, expression, options, progress)
        raise


def _advise_options(
    error: CipherblasError, expression: Expression, options: PlanOptions, progress: Tell | None
) -> None:
    """Advise what to leave out of the options, or say that no option helps.

    Less security is advised where nothing else is enough: the next level, which the advice names.
    """
    forced = tuple(name for name in FORCED if getattr(options, name) is not None)
    found = left_out(forced, lambda names: _attempt(without(*names), expression, options, progress))
    for bits in reversed([level for level in LEVELS if level < options.security]):
        less = Advice(f"security={bits}: at {bits} bits of security it fits", {"security": bits})
        for names in ((), forced) if forced else ((),):
            if found is None:
                advice = less if not names else without(*names).also(less)
                found = _tried(advice, expression, options, progress)
    if found is not None:
        error.advice = (found,)
    elif isinstance(error, PrecisionError):
        error.cause = (
            f"{(error.cause or 'The program itself is too much').removesuffix('.')}; no option helps."
        )


def _attempt(
    advice: Advice, expression: Expression, options: PlanOptions, progress: Tell | None
) -> Advice | None:
    """What else is to be written beside the advice; raises CipherblasError where it does not help."""
    if progress is not None:
        progress(f"whether {advice.write} does")
    try:
        _planned(expression, replace(options, **advice.options), progress)
    except MemoryBudgetError as lacking:
        if lacking.advice:  # a larger budget
            return lacking.advice[0]
        raise
    return None


def _tried(
    advice: Advice, expression: Expression, options: PlanOptions, progress: Tell | None
) -> Advice | None:
    """The advice, with what else is to be written; None where it does not help."""
    try:
        more = _attempt(advice, expression, options, progress)
    except CipherblasError:
        return None
    return advice.also(more)


def _does(
    advice: Sequence[Advice], expression: Expression, options: PlanOptions, progress: Tell | None
) -> bool:
    """Whether the first advice is options that the program can be planned with."""
    if not advice or not advice[0].options:
        return False
    if progress is not None:
        progress(f"whether {advice[0].write} is enough")
    try:
        _planned(expression, replace(options, **advice[0].options), progress)
    except INFEASIBLE:
        return False
    return True


def _planned(expression: Expression, options: PlanOptions, progress: Tell | None) -> Planned:
    return planned_spelling(expression, functools.partial(_prepared, options), progress)


def _prepared(options: PlanOptions, expression: Expression) -> tuple[Expression, PlanOptions]:
    """A graph and its options as they are planned."""
    expression = deduplicated(expression)
    if isinstance(options.promised, BySamples) and options.promised.agreement is not None:
        expression = settled(expression, options)
        options = agreeing(expression, options)
    expression = deduplicated(settled(expression, options))
    options = options.relative_to(expression)
    check_precision(options.precision)
    expression = truncated(expression, float(options.precision))
    return expression, options.relative_to(expression)  # the bound of a sum which was cut may be another


def _less_precise(
    expression: Expression, functions: Sequence[Deferred], options: PlanOptions, progress: Tell | None
) -> Planned | None:
    """The plan at the finest of a few precisions that are coarser than the default; None where none does."""
    for precision in COARSER:
        try:
            found = _planned(expression, replace(options, precision=precision), progress)
        except PrecisionError:
            continue
        named = ", ".join(dict.fromkeys(str(one.place or one.function) for one in functions))
        warnings.warn(
            f"The result is planned with the precision {precision:g}: the default one, {float(options.precision):g}, "
            f"is not reached by {named}. To ask for it, write precision={precision:g}.",
            PrecisionWarning,
            stacklevel=5,
        )
        return found
    return None


def _reachable(expression: Expression, options: PlanOptions, progress: Tell | None) -> Advice | None:
    """A precision, or an error, that the program can be planned with, and that is near what was asked for."""
    asked = _finest(expression, options)
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
        if progress is not None:
            progress(f"whether a precision of {coarser[middle]:g} is reached")
        advice = _asking(expression, options, coarser[middle] / asked)
        try:
            _planned(expression, replace(options, **advice.options), progress)
            best, high = advice, middle - 1
        except PrecisionError:
            if best is None:
                return None
            low = middle + 1
        middle = (low + high) // 2
    return best


def _finest(expression: Expression, options: PlanOptions) -> float | None:
    """The precision that is asked for; None where the results have no bound for the errors."""
    try:
        return float(options.relative_to(expression).precision)
    except PrecisionError:
        return None


def _asking(expression: Expression, options: PlanOptions, factor: float) -> Advice:
    """What is asked for, so many times as coarse."""
    wanted: Any
    if options.error is None:
        wanted = float(f"{float(options.precision) * factor:.6g}")
        return Advice(f"precision={wanted:g}", {"precision": wanted})
    pairs = zip(results_of(expression), asked_errors(expression, options.error), strict=True)
    errors = tuple(float(f"{max(one, min(one * factor, COARSEST * node.bound)):.2g}") for node, one in pairs)
    wanted = arranged(expression, errors) if expression.root else errors[0]
    return Advice(f"error={wanted}", {"error": wanted})
