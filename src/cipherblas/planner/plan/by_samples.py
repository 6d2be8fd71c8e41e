"""Promises for inputs like samples: errors of results are those that a simulation finds on them."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cipherblas.common.errors import ApproximationError, ParameterError, PrecisionError
from cipherblas.common.progress import Progress, Steps
from cipherblas.lang.analysis import evaluate_results
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.results import arranged, results_of
from cipherblas.lang.samples import Samples
from cipherblas.planner.plan.plan import Plan, PlanOptions
from cipherblas.planner.predict.dry_run import dry_run
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.predict.promises import (
    STEPS,
    Measured,
    Promise,
    Promised,
    SampledErrors,
    check_measured,
)
from cipherblas.planner.predict.simulation import MIN_DRAWS, Array, Simulation, noise_tail, noisy_results
from cipherblas.planner.predict.truncation import truncation_error
from cipherblas.runtime.values import StepError, Value

MAX_SHARE_OF_BOUND = 0.9  # that an error may be
DEVIATION_STEPS = 40  # of a bisection
LINEAR_BITS = 4  # over which the errors of results are taken to grow as those of steps
NEGLIGIBLE = 2.0**-14  # of the largest error of a step, relative to the bounds of their values


class BySamples(Promise):
    """For inputs like the samples.

    Args:
        samples: of its operands.
        expression: the program as it was written, whose nodes know the functions that they approximate.
        agreement: share of the samples whose largest entry must stay at its place, of every result.
    """

    name = "samples"

    def __init__(self, samples: Samples, expression: Expression, agreement: float | None = None) -> None:
        self.samples, self.agreement = samples, agreement
        self.simulation = Simulation(samples, expression)
        self._quick: dict[tuple[object, ...], tuple[float, ...]] = {}
        self._planned: dict[tuple[object, ...], tuple[SampledErrors, ...]] = {}

    def errors(
        self, expression: Expression, results: Sequence[Value], steps: Mapping[int, StepError]
    ) -> tuple[Promised, ...]:
        known = [one.approximation for one in self.simulation.approximations(expression)]
        noise = self._noise(expression, steps)
        return tuple(Promised(own + more, more) for own, more in zip(noise, known, strict=True))

    def check(self, expression: Expression, targets: Sequence[float]) -> None:
        check_measured(expression, self.simulation.approximations(expression), targets)

    def planned(self, expression: Expression, steps: Mapping[int, StepError]) -> Promise:
        """Simulated on all samples.

        Raises:
            PrecisionError: errors carry a value out of its range.
        """
        self.simulation.exact(expression)  # which keeps it alive, and its id its own
        key = id(expression), tuple(sorted(steps.items()))
        if key not in self._planned:
            self._planned[key] = self.simulation.errors(expression, steps)
        return Measured(self.samples.count, self.samples.slack, self._planned[key])

    def allowed(self, expression: Expression) -> tuple[float, ...]:
        """Errors of all results that leave the largest entry at its place on as many samples as `agreement` says:
        whatever the noise is, or in the mean.

        Raises:
            PrecisionError: the polynomials alone move it on more samples.
        """
        assert self.agreement is not None
        found, every = [], self._margins(expression)
        known = self.simulation.approximations(expression)
        for result, one, (margins, exact) in zip(results_of(expression), known, every, strict=True):
            margin = _kept(margins, self.agreement)
            if margin <= 0:
                raise ApproximationError(
                    f"The polynomials of the program agree with its functions on {one.agreement:.1%} of the samples.",
                    expected=f"agreement={self.agreement:g} or more, by a finer precision=… of the functions",
                    got=f"{one.agreement:.3g}",
                )
            noise = noise_tail(math.prod(result.shape)) * self._left(one, margins, exact)[0]
            found.append(one.approximation + max(margin / 2, noise))
        return tuple(found)

    def room(self, expression: Expression) -> float:
        """The noise that the agreement leaves beside the approximations of a program, relative to that beside none."""
        assert self.agreement is not None
        shares = []
        known = self.simulation.approximations(expression)
        for one, (margins, exact) in zip(known, self._margins(expression), strict=True):
            own, most = self._left(one, margins, exact)
            if not most:  # no label may be lost
                own, most = (
                    min(_kept(some, self.agreement), sys.float_info.max) for some in (margins, exact)
                )
            shares.append(own / most if most else 1.0)
        return min(shares)

    def _left(self, known: SampledErrors, margins: Array, exact: Array) -> tuple[float, float]:
        """The deviations that the noise of entries may have beside the approximations, and that it may have beside the
        functions themselves: for inputs like the samples, and so that on these samples the same part of the labels that
        may yet be lost is for chance."""
        assert self.agreement is not None
        if self.agreement >= 1:  # no label may be lost
            return 0.0, 0.0
        lost = _lost_in_the_mean(1 - self.agreement, len(exact))
        most = _deviation(exact, 1 - lost)
        kept = float(np.mean(margins > 0))
        if kept <= self.agreement:
            return 0.0, most
        beside = math.sqrt(max(most**2 - known.approximation_rms**2, 0.0))
        spare = (kept - self.agreement) / (1 - self.agreement)
        return min(beside, _deviation(margins, kept - lost * spare)), most

    def _margins(self, expression: Expression) -> list[tuple[Array, Array]]:
        """Of every result, by how much its largest entry exceeds the others on each sample, in increasing order: that
        of the program, and that of the functions that it approximates."""
        runs, found = self.simulation.exact(expression), []
        for place in range(len(results_of(expression))):
            written = [
                self.simulation.written(place, number, run[place].shape) for number, run in enumerate(runs)
            ]
            pairs = [
                (_margins(run[place], own), _margins(own, own))
                for run, own in zip(runs, written, strict=True)
            ]
            own, exact = (np.sort(np.concatenate(some)) for some in zip(*pairs, strict=True))
            found.append((own, exact))
        return found

    def text(self) -> str:
        return Measured(self.samples.count, self.samples.slack, ()).text()

    def _noise(self, expression: Expression, steps: Mapping[int, StepError]) -> tuple[float, ...]:
        """Of few draws; programs whose steps err alike are simulated once: errors are nearly linear in
        those of the steps."""
        order = [node for node in facts_of(expression).order if not node.root]
        sizes = {number: math.hypot(*step) / order[number].bound for number, step in steps.items()}
        top = max(sizes.values(), default=0.0)
        if top == 0:
            return (0.0,) * len(results_of(expression))
        if not math.isfinite(top):
            return (math.inf,) * len(results_of(expression))
        kept = {number: step for number, step in steps.items() if sizes[number] > NEGLIGIBLE * top}
        self.simulation.exact(expression)  # which keeps it alive, and its id its own
        profile = tuple((number, round(math.log2(sizes[number] / top))) for number in sorted(kept))
        key = id(expression), profile, round(math.log2(top) / LINEAR_BITS)
        if key not in self._quick:
            found = attempted(lambda: self.simulation.quick_errors(expression, kept), only=PrecisionError)
            if isinstance(found, Infeasible):  # errors so large that nothing is known; smaller ones may do
                self._quick[key] = (math.inf,) * self.simulation.results
            else:
                self._quick[key] = tuple(one.noise / top for one in found)
        return tuple(ratio * top for ratio in self._quick[key])


def _kept(margins: Array, agreement: float) -> float:
    """The least of the margins that must stay above zero."""
    needed = max(math.ceil(agreement * len(margins)), 1)
    return float(margins[len(margins) - needed])


def _deviation(margins: Array, agreement: float) -> float:
    """The largest standard deviation of independent errors of entries that leaves more than such a share of margins
    above zero; 0 where none does."""
    seen = margins[np.isfinite(margins)]

    def agreeing(deviation: float) -> float:
        kept = sum(math.erfc(-margin / (2 * deviation)) / 2 for margin in seen)
        return float(kept + len(margins) - len(seen)) / len(margins)

    if agreement >= 1 or not len(seen):
        return 0.0
    low, high = 0.0, float(np.abs(seen).max())
    for _ in range(DEVIATION_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if middle and agreeing(middle) >= agreement else (low, middle)
    return low


def _lost_in_the_mean(most: float, count: int) -> float:
    """The share of labels lost in the mean that is at most so large where the samples are typical, and up to one
    standard deviation beyond: a label is lost by chance in up to half of the cases, so that a share estimated on
    `count` samples has a variance of up to share / (2 * count)."""
    spread = math.sqrt(0.5 / count)
    return float(((math.sqrt(spread**2 + 4 * most) - spread) / 2) ** 2)


def _margins(found: Array, expected: Array) -> Array:
    """Of each row, by how much the entry that should be the largest exceeds the others; below zero: it does not."""
    rows = np.atleast_2d(found).reshape(-1, found.shape[-1] if found.shape else 1)
    if rows.shape[1] < 2:
        return np.full(len(rows), math.inf)
    right = np.argmax(expected.reshape(rows.shape), axis=1)
    own = rows[np.arange(len(rows)), right]
    others = rows.copy()
    others[np.arange(len(rows)), right] = -math.inf
    return np.asarray(own - others.max(axis=1))


def agreeing(expression: Expression, options: PlanOptions) -> PlanOptions:
    """The options with the errors that the agreement allows, where one is asked for.

    Raises:
        ParameterError: errors are asked for as well. PrecisionError: see `BySamples.allowed`.
    """
    promise = options.promised
    if not isinstance(promise, BySamples) or promise.agreement is None:
        return options
    if options.error is not None:
        raise ParameterError(
            "The agreement says how large errors may be: give it or an error.",
            expected="one of them",
            got="both",
        )
    results = results_of(expression)
    bounds = [node.bound for node in results]
    allowed = [
        min(error, MAX_SHARE_OF_BOUND * bound)
        for error, bound in zip(promise.allowed(expression), bounds, strict=True)
    ]
    return replace(options, error=arranged(expression, allowed))


def check_functions(expression: Expression, options: PlanOptions) -> None:
    """Raise PrecisionError where the approximations of a program alone are further from its functions than is asked
    for, on the samples that its promise is for."""
    promise = options.promised
    assert isinstance(promise, BySamples)
    if promise.agreement is not None:
        promise.allowed(expression)
    else:
        promise.check(expression, options.relative_to(expression).targets(expression))


def simulated_plan(
    plan: Plan,
    executed: Expression,
    written: Expression | None,
    samples: Samples,
    progress: Progress | None = None,
) -> list[SampledErrors]:
    """The errors of all results of a planned program on samples, whatever its plan promises.

    Args:
        executed: what runs.
        written: the program as it was written, whose nodes know the functions that they approximate; None of one from a
            file, whose approximations are then those that its plan states.
        progress: counted in draws of errors.
    """
    run = dry_run(plan.parameters, executed, plan.decided, mask_budget=plan.mask_budget, promise=STEPS)
    simulation = Simulation(samples, executed if written is None else written)
    found = list(simulation.errors(executed, run.step_errors, progress))
    if written is not None:
        return found
    stated = plan.promise.figures
    if stated:
        return [
            replace(known, noise=one.noise, noise_rms=one.noise_rms)
            for one, known in zip(found, stated, strict=True)
        ]
    errors = map(truncation_error, results_of(executed))
    return [replace(one, approximation=known) for one, known in zip(found, errors, strict=True)]


class SampledRuns(NamedTuple):
    """The results of a planned program on samples.

    Attributes:
        exact: of every sample, those of its polynomials without errors.
        noisy: the number of a sample, and the results with errors drawn; every sample is drawn, few of them often.
        carried: the number of a sample for each draw whose errors carry a value out of its range: its results tell
            nothing.
    """

    exact: list[list[Array]]
    noisy: list[tuple[int, list[Array]]]
    carried: list[int]


def sampled_runs(
    plan: Plan, executed: Expression, samples: Samples, progress: Progress | None = None
) -> SampledRuns:
    """Run a planned program in the clear on samples, without errors and with them.

    Args:
        executed: what runs.
        progress: counted in runs.
    """
    run = dry_run(plan.parameters, executed, plan.decided, mask_budget=plan.mask_budget, promise=STEPS)
    draws, random = max(MIN_DRAWS, samples.count), np.random.default_rng(0)
    told = Steps(progress, samples.count + draws)
    found = SampledRuns([], [], [])
    for number in range(samples.count):
        found.exact.append(evaluate_results(executed, samples.sample(number)))
        told.tick()
    for draw in range(draws):
        number = draw % samples.count
        drawn = functools.partial(noisy_results, samples, executed, run.step_errors, number, random)
        with np.errstate(all="ignore"):  # an error without bound is told as one
            results = attempted(drawn, only=PrecisionError)
        if isinstance(results, Infeasible):
            found.carried.append(number)
        else:
            found.noisy.append((number, results))
        told.tick()
    return found
