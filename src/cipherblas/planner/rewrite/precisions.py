"""How precise functions are that name no precision: as fine as the errors that the results are allowed need it."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

from cipherblas.lang.deferred import COARSEST, Deferred, functions_of, with_precisions, within
from cipherblas.lang.graph import deduplicated
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.results import results_of
from cipherblas.planner.plan.by_samples import BySamples, agreeing, check_functions
from cipherblas.planner.plan.passes import Following, Outcome, PlanRequest
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.predict.truncation import sensitivities, truncated
from cipherblas.planner.search.forms import check_precision

SHARE = 0.5  # of the errors that are allowed; the rest is left for those of encryption
MIN_SHARE = 0.1  # where functions with a precision of their own take more than the rest
FINEST = 2.0**-44
UNIT, STEPS = 5e-5, 4  # precisions are this one times powers of two, and so many between two of them
ROUNDS = 3  # the slope of a function is another one at another precision
FINER, FINER_ROUNDS = 4.0, 5  # where the errors of functions are measured


def prepared(request: PlanRequest, following: Following) -> Outcome:
    """The program with a precision for every function that names none, and without terms of approximations that do not
    count."""
    found = attempted(lambda: _prepared(request.expression, request.options))
    return found if isinstance(found, Infeasible) else following(request.of(*found))


def _prepared(expression: Expression, options: PlanOptions) -> tuple[Expression, PlanOptions]:
    """A graph and its options as they are planned."""
    expression = deduplicated(expression)
    if isinstance(options.promised, BySamples) and options.promised.agreement is not None:
        expression = with_defaults(expression, options)
        options = agreeing(expression, options)
    expression = deduplicated(with_defaults(expression, options))
    options = options.relative_to(expression)
    check_precision(options.precision)
    expression = truncated(expression, float(options.precision))
    return expression, options.relative_to(expression)  # the bound of a sum which was cut may be another


def with_defaults(expression: Expression, options: PlanOptions) -> Expression:
    """The program with a precision for every function that names none.

    Each may add the same to the error of a result, all together half of what is allowed.

    Raises:
        CipherblasError: a function cannot be approximated so precisely; as `PlanOptions.relative_to`.
    """
    functions = functions_of(expression)
    if not functions:
        return expression
    chosen = dict.fromkeys(map(id, functions), COARSEST)
    if isinstance(options.promised, BySamples):
        precision = float(options.relative_to(with_precisions(expression, chosen)[0]).precision)
        return _measured(expression, chosen, options, _stepped(SHARE * precision))
    for _ in range(ROUNDS):
        chosen = _needed(expression, functions, chosen, options)
    return with_precisions(expression, chosen)[0]


def _measured(
    expression: Expression, functions: Iterable[int], options: PlanOptions, precision: float
) -> Expression:
    """The program with a precision that all functions share, where errors are measured on samples: slopes that hold for
    every input are far larger. It is made finer until the results are as near as is asked for."""
    found = with_precisions(expression, dict.fromkeys(functions, precision))[0]
    for _ in range(FINER_ROUNDS):
        if not isinstance(attempted(functools.partial(check_functions, found, options)), Infeasible):
            break
        precision = _stepped(precision / FINER)
        finer = attempted(functools.partial(with_precisions, expression, dict.fromkeys(functions, precision)))
        if isinstance(finer, Infeasible):  # a function that cannot be approximated so precisely
            break
        found = finer[0]
    return found


def _needed(
    expression: Expression, functions: list[Deferred], chosen: dict[int, float], options: PlanOptions
) -> dict[int, float]:
    """The error that each function may have, by the slopes that the program has with the given precisions."""
    tried, fitted = with_precisions(expression, chosen)
    own = {id(node) for one in fitted.values() for node in within(one.node, one.argument)}
    needed = dict.fromkeys(chosen, COARSEST)
    targets = options.relative_to(tried).targets(tried)
    for result, target in zip(results_of(tried), targets, strict=True):
        slopes = sensitivities(result)
        others = math.fsum(
            node.error * slopes[id(node)] for node in ordered(result) if node.error and id(node) not in own
        )
        share = max(SHARE * (target - others), MIN_SHARE * target) / len(functions)
        for function in functions:
            _, node, unit = fitted[id(function)]
            slope = slopes.get(id(node), 0.0)
            if slope:
                needed[id(function)] = min(needed[id(function)], share / (slope * unit))
    return {key: _stepped(precision) for key, precision in needed.items()}


def _stepped(precision: float) -> float:
    """The nearest precision of a few, at most so coarse: functions of equal precisions are approximated once."""
    if not FINEST < precision < COARSEST:
        return COARSEST if precision >= COARSEST else FINEST
    power = math.floor(STEPS * math.log2(precision / UNIT)) / STEPS
    return float(UNIT * 2.0**power)
