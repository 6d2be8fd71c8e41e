"""Functions behind refreshes: computed of the sine that a refresh finds, which takes smaller primes.

A refresh that is followed by a function of one number, as before every activation of a network, makes a line of a sine
only to have a polynomial of it. Here the polynomial is one of the sine: f(x) = h(sin(2π·x/8B)) for |x| ≤ B.

Source: see `cipherblas.lang.refreshing.RefreshedSine`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import CipherblasError, PrecisionError, RangeError
from cipherblas.lang.approximation import Fit, fitted, on_interval
from cipherblas.lang.facts import facts_of
from cipherblas.lang.layers import Assume
from cipherblas.lang.nodes import Expression
from cipherblas.lang.polynomials import Polynomial
from cipherblas.lang.refreshing import Refresh, RefreshedSine
from cipherblas.planner.plan.passes import Following, Outcome, PlanRequest
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.search.forms import is_layers
from cipherblas.planner.search.refusals import nearest

Array = NDArray[np.float64]
DROPPED_SHARE = 2.0**-5  # of the error of a function, that the terms of its shorter part may be left out for


def with_functions_inside(request: PlanRequest, following: Following) -> Outcome:
    """A network with the functions behind its refreshes inside of them, which takes fewer and smaller primes; as it is
    where that is not precise enough."""
    options, inside = request.options, None
    failures: list[CipherblasError] = []
    if options.parameters is None and options.form in (None, "tensors") and is_layers(request.expression):
        # The polynomial of a sine may have a larger bound, which is beyond the interval of what follows.
        inside = attempted(lambda: functions_inside(request.expression), only=RangeError)
    if isinstance(inside, Expression):
        request.tell("functions inside of refreshes")
        found = following(request.of(inside, options.relative_to(inside)))
        if not isinstance(found, Infeasible):
            return found
        failures.append(found.error)
    plain = following(request)
    if isinstance(plain, Infeasible):
        return Infeasible(nearest([*failures, plain.error]))
    return plain


def functions_inside(expression: Expression) -> Expression | None:
    """The program with polynomials of sines in the place of refreshes and the functions behind them; None where some
    refresh is followed by anything else, or none is refreshed."""
    order = facts_of(expression).order
    readers: dict[int, list[Expression]] = {}
    for node in order:
        for child in node.children:
            readers.setdefault(id(child), []).append(node)
    made: dict[int, Expression] = {}
    sines: dict[
        tuple[int, float], RefreshedSine
    ] = {}  # by what is refreshed, which several functions may be of
    found = False
    for node in order:
        refresh = _refreshed_argument(node)
        if refresh is not None:
            assert isinstance(node, Polynomial)
            x, reach = made[id(refresh.x)], min(refresh.x.bound, node.x.bound)
            if (id(x), reach) not in sines:
                promised = x if x.bound <= reach else Assume(x, reach)
                sines[id(x), reach] = RefreshedSine(promised, reach, refresh.placed)
            made[id(node)] = _of_sine(node, sines[id(x), reach])
            found = True
            continue
        behind = _behind(node, readers) if isinstance(node, Refresh) else []
        if any(_refreshed_argument(one) is None for one in behind):
            return None
        parts = [made[id(child)] for child in node.children]
        changed = any(a is not b for a, b in zip(parts, node.children, strict=True))
        made[id(node)] = node.rebuilt(parts) if changed else node
    return made[id(expression)] if found else None


def _behind(node: Expression, readers: dict[int, list[Expression]]) -> list[Expression]:
    """The readers of a node, promises of its bound looked through."""
    found: list[Expression] = []
    waiting = [node]
    while waiting:
        for one in readers.get(id(waiting.pop()), []):
            (waiting if isinstance(one, Assume) else found).append(one)
    return found


def _refreshed_argument(node: Expression) -> Refresh | None:
    """The refresh, in one round, that a polynomial is of; None where it is of anything else."""
    if not isinstance(node, Polynomial):
        return None
    argument = node.x
    while isinstance(argument, Assume):
        argument = argument.x
    return argument if isinstance(argument, Refresh) and argument.rounds == 1 else None


def _of_sine(node: Polynomial, sine: RefreshedSine) -> Expression:
    """The function of x that a polynomial of a refreshed x stands for, as a polynomial of a sine."""
    most, function = math.sin(sine.rate * sine.reach), _function_of(node)

    def of_sine(values: Array) -> Array:
        x = np.arcsin(np.clip(values, -most, most)) / sine.rate
        return function(np.clip(x, -sine.reach, sine.reach))

    fit = fit_of_sine(of_sine, most, node.degree, node.error)
    value = on_interval(sine, fit, -most, most, node.function, of_sine)
    value.place = node.place
    return value


def _function_of(node: Polynomial) -> Callable[[Array], Array]:
    """The function that it stands for, or the polynomial itself."""
    if node.written is None or node.written.x is not node.x:
        return lambda values: node.evaluate([values])
    written = node.written
    return lambda values: written.evaluate(values, node.evaluate([values]))


def fit_of_sine(function: Callable[[Array], Array], most: float, degree: int, error: float) -> Fit:
    """Return a polynomial for a function of sines up to `most`: of a degree, or of more in as many levels where it is
    less precise than `error`."""
    found = fitted(function, -most, most, degree, 0.0)
    for more in range(degree + 1, 1 << degree.bit_length()):
        if found.error <= max(error, 2.0**-40 * found.size):
            break
        better = fitted(function, -most, most, more, 0.0)
        found = better if better.error < found.error else found
    return _shorter(found)


def _shorter(fit: Fit) -> Fit:
    """Without the last terms of its even or of its odd part, where these are far below its error."""
    kept, dropped = list(fit.coefficients), 0.0
    for odd in (0, 1):
        for place in reversed(range(2 + odd, len(kept), 2)):
            if dropped + abs(kept[place]) > DROPPED_SHARE * fit.error:
                break
            dropped += abs(kept[place])
            kept[place] = 0.0
    if not any(kept[1:]):
        raise PrecisionError("A function is as small as what it is approximated by.")
    while not kept[-1]:
        kept.pop()
    return fit._replace(coefficients=tuple(kept), error=fit.error + dropped)
