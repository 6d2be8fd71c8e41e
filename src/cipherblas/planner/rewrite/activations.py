"""Functions behind refreshes: computed of the sine that a refresh finds, which takes smaller primes.

A refresh that is followed by a function of one number, as before every activation of a network, makes a line of a sine
only to have a polynomial of it. Here the polynomial is one of the sine: f(x) = h(sin(2π·x/kB)) for |x| ≤ B, k = 5, 6 or
8. Of shorter periods errors of x count less near zero, where most arguments of networks are, and more at the bound.

What is beyond B is a sine too, since EvalMod finds one of any number. Where h is one polynomial on all of [-1, 1], and
bounded there, no argument makes a result explode.

Source: see `cipherblas.lang.refreshing.RefreshedSine`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import Advice, CipherblasError, ParameterError, PrecisionError, RangeError
from cipherblas.lang.approximation import NEAR_ENOUGH, Fit, fitted, fitted_beyond, on_interval
from cipherblas.lang.facts import facts_of
from cipherblas.lang.layers import Assume
from cipherblas.lang.nodes import Expression
from cipherblas.lang.polynomials import Polynomial
from cipherblas.lang.refreshing import SINE_PERIODS, Refresh, RefreshedSine
from cipherblas.planner.plan.by_samples import BySamples
from cipherblas.planner.plan.passes import Following, Outcome, PlanRequest
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.search.forms import is_layers
from cipherblas.planner.search.refusals import nearest

Array = NDArray[np.float64]
DROPPED_SHARE = 2.0**-5  # of the error of a function, that the terms of its shorter part may be left out for
SINE_ROOM = 2.0**-5  # by which errors may carry a sine beyond 1
# By which they may carry it beyond that of a bound. Functions with kinks are fitted so far: powers grow beyond an
# interval, and what makes it wider afterwards makes large coefficients, which cancel.
SINE_REACH = 2.0**-7
TINY = 2.0**-40  # of the largest value of a function: errors that are as good as none
UNSEEN = 2.0**-20  # beside those of a refresh


def with_functions_inside(request: PlanRequest, following: Following) -> Outcome:
    """A network with the functions behind its refreshes inside of them, which takes fewer and smaller primes; as it is
    where that is not precise enough, unless it is to be clamped."""
    options, inside = request.options, None
    clamped = options.range == "clamped"
    failures: list[CipherblasError] = []
    if options.parameters is None and options.form in (None, "tensors") and is_layers(request.expression):
        # The polynomial of a sine may have a larger bound, which is beyond the interval of what follows.
        typical = isinstance(options.promised, BySamples)
        inside = attempted(
            lambda: functions_inside(request.expression, clamped=clamped, typical=typical), only=RangeError
        )
    if isinstance(inside, Expression):
        request.tell("functions inside of refreshes")
        found = following(request.of(inside, options.relative_to(inside)))
        if not isinstance(found, Infeasible):
            return found
        failures.append(found.error)
    if clamped:
        return Infeasible(failures[0] if failures else _nothing_clamped())
    plain = following(request)
    if isinstance(plain, Infeasible):
        return Infeasible(nearest([*failures, plain.error]))
    return plain


def _nothing_clamped() -> ParameterError:
    return ParameterError(
        "Ranges are clamped inside of refreshes, of programs in which functions alone follow them.",
        expected="layers, and a function behind every refresh",
        got="none",
        advice=Advice('range="promised"', {"range": "promised"}),
    )


def functions_inside(
    expression: Expression, *, clamped: bool = False, typical: bool = False
) -> Expression | None:
    """The program with polynomials of sines in the place of refreshes and the functions behind them; None where some
    refresh is followed by anything else, or none is refreshed.

    Args:
        clamped: whatever is beyond the bound of an argument stays bounded.
        typical: most arguments are far from their bounds.
    """
    order = facts_of(expression).order
    readers: dict[int, list[Expression]] = {}
    for node in order:
        for child in node.children:
            readers.setdefault(id(child), []).append(node)
    functions = {id(node): node for node in order if _refreshed_argument(node) is not None}
    for node in order:
        if isinstance(node, Refresh) and any(id(one) not in functions for one in _behind(node, readers)):
            return None
    if not functions:
        return None
    period, fits = _fits(list(functions.values()), clamped, typical)
    costs = [fit.cost for fit in fits.values()]
    made, cost = dict[int, Expression](), max(costs)
    # By what is refreshed, which several functions may be of.
    sines: dict[tuple[int, float], RefreshedSine] = {}
    for node in order:
        if id(node) in functions:
            refresh = _refreshed_argument(node)
            assert refresh is not None and isinstance(node, Polynomial)
            x, reach = made[id(refresh.x)], _reach(node)
            if (id(x), reach) not in sines:
                promised = x if x.bound <= reach else Assume(x, reach)
                sines[id(x), reach] = RefreshedSine(promised, reach, refresh.placed, period, cost)
            made[id(node)] = fits[id(node)].of(sines[id(x), reach])
            continue
        parts = [made[id(child)] for child in node.children]
        changed = any(a is not b for a, b in zip(parts, node.children, strict=True))
        made[id(node)] = node.rebuilt(parts) if changed else node
    return made[id(expression)]


def _fits(functions: list[Expression], clamped: bool, typical: bool) -> tuple[int, dict[int, SineFit]]:
    """The period of all sines, and the polynomials: the period that magnifies errors least, of those of which all
    polynomials are as near to their functions as the polynomials of x; or that of which they are nearest."""
    periods = SINE_PERIODS if not typical else tuple(reversed(SINE_PERIODS))
    best: tuple[float, int, dict[int, SineFit]] | None = None
    for period in periods:
        found = {id(node): SineFit.to(node, period, clamped) for node in functions}
        excess = max(fit.excess for fit in found.values())
        if best is None or excess < best[0]:
            best = excess, period, found
        if excess <= 1:
            break
    assert best is not None
    return best[1], best[2]


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


def _reach(node: Polynomial) -> float:
    """The bound of the argument of a function of a refreshed value."""
    refresh = _refreshed_argument(node)
    assert refresh is not None
    return min(refresh.x.bound, node.x.bound)


class SineFit(NamedTuple):
    """The polynomial of a sine that stands for a function of a refreshed value.

    Attributes:
        node: the polynomial of x, which stands for the same function.
        fit: on [-end, end].
        of_sine: the function of a sine.
        excess: error of the polynomial, over that of the polynomial of x.
        cost: error of a clamped one, over that of one that is not; 0 of others.
    """

    node: Polynomial
    fit: Fit
    end: float
    of_sine: Callable[[Array], Array]
    excess: float
    cost: float

    @classmethod
    def to(cls, node: Expression, period: int, clamped: bool) -> SineFit:
        """Of a period; clamped: on all values that a sine has."""
        assert isinstance(node, Polynomial)
        reach, function = _reach(node), _function_of(node)
        rate = 2 * math.pi / (period * reach)
        ends = (math.sin(rate * reach), sine_reach(rate * reach))

        def of_sines(most: float) -> Callable[[Array], Array]:
            def of_sine(values: Array) -> Array:
                return function(np.arcsin(np.clip(values, -most, most)) / rate)

            return of_sine

        def near(most: float) -> float:
            return fitted(of_sines(most), -most, most, node.degree, 0.0).error

        # What is written is not followed beyond its bound: a smooth function has a kink there, and needs no room.
        wider = not clamped and near(ends[1]) <= NEAR_ENOUGH * near(ends[0])
        most = ends[wider]
        of_sine = of_sines(most)
        fit = fit_of_sine(of_sine, most, node.degree, node.error, clamped)
        excess, cost, unseen = fit.error / max(node.error, TINY * fit.size), 0.0, UNSEEN * fit.size
        if clamped:
            usual = fit_of_sine(of_sine, most, node.degree, node.error)
            cost = max(fit.error, unseen) / max(usual.error, unseen)
        if not _is_written(node):  # it is near to the polynomial of x, which is off as well
            fit = fit._replace(error=fit.error + node.error)
        return cls(node, fit, 1 + SINE_ROOM if clamped else most, of_sine, excess, cost)

    def of(self, sine: RefreshedSine) -> Expression:
        """Its node."""
        value = on_interval(sine, self.fit, -self.end, self.end, self.node.function, self.of_sine)
        value.place = self.node.place
        return value


def _is_written(node: Polynomial) -> bool:
    """Whether a polynomial knows the function that it stands for."""
    return node.written is not None and node.written.x is node.x


def _function_of(node: Polynomial) -> Callable[[Array], Array]:
    """The function that it stands for, or the polynomial itself."""
    if not _is_written(node):
        return lambda values: node.evaluate([values])
    written = node.written
    assert written is not None
    return lambda values: written.evaluate(values, node.evaluate([values]))


def sine_reach(angle: float) -> float:
    """The largest sine that a polynomial is near to its function for, of arguments up to an angle."""
    return math.sin(angle) * (1 + SINE_REACH)


def fit_of_sine(
    function: Callable[[Array], Array], most: float, degree: int, error: float, clamped: bool = False
) -> Fit:
    """Return a polynomial for a function of sines up to `most`: of a degree, or of more in as many levels where it is
    less precise than `error`.

    Args:
        clamped: bounded on all of [-1, 1], and beyond by `SINE_ROOM`; the interval of its coefficients.
    """

    def fit(number: int) -> Fit:
        if clamped:
            return fitted_beyond(function, most, 1 + SINE_ROOM, number)
        return fitted(function, -most, most, number, 0.0)

    found = fit(degree)
    for more in range(degree + 1, 1 << degree.bit_length()):
        if found.error <= max(error, TINY * found.size):
            break
        better = fit(more)
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
