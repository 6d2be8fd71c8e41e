"""A program on samples in the clear, with errors drawn as the noise model has them: what its results err by.

Every node errs by itself as a run without data has counted it (`StepError`); how errors of nodes grow, cancel and are
damped on the way to a result is what the simulation finds, for inputs like the samples. Its polynomials are computed as
they are, and compared with the functions that they stand for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ParameterError, PrecisionError
from cipherblas.common.progress import Progress, Steps
from cipherblas.lang.analysis import evaluate_results
from cipherblas.lang.graph import formula
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.results import arranged, results_of
from cipherblas.lang.samples import Samples
from cipherblas.planner.dry_run import dry_run
from cipherblas.planner.plan import Plan, PlanOptions
from cipherblas.planner.promises import STEPS, Measured, Promise, Promised, SampledErrors, check_measured
from cipherblas.planner.truncation import truncation_error
from cipherblas.rlwe.noise import tail
from cipherblas.runtime.values import StepError, Value

Array = NDArray[np.float64]
LEAST_DRAWS = 64  # of errors, over all samples together
QUICK_DRAWS = 16  # while plans are compared
BITS = (
    16.0  # an entry of a result errs by more than stated with probability 2^-16, for values like the samples
)
# Independent parts of a result, at most, whose errors tell how far they vary from sample to sample by chance.
MOST_INDEPENDENT = 16
MOST_OF_BOUND = 0.9  # that an error may be
LINEAR_BITS = 4  # over which the errors of results are taken to grow as those of steps
NEGLIGIBLE = 2.0**-14  # of the largest error of a step, relative to the bounds of their values


class RangeFound(NamedTuple):
    """How far the values of a node of a program come on some inputs, and how far they may.

    Attributes:
        node: its formula.
        largest: absolute value of an entry.
        bound: that the program was planned for.
    """

    node: str
    largest: float
    bound: float

    @property
    def inside(self) -> bool:
        """Whether the values stay in their range."""
        return self.largest <= self.bound


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
        self._written = [
            evaluate_results(expression, samples.sample(number), as_written=True)
            for number in range(samples.count)
        ]
        self._exact: dict[int, tuple[Expression, list[list[Array]]]] = {}
        self._approximations: dict[int, list[SampledErrors]] = {}
        self._quick: dict[tuple[object, ...], tuple[float, ...]] = {}

    def errors(
        self, expression: Expression, results: Sequence[Value], steps: Mapping[int, StepError]
    ) -> tuple[Promised, ...]:
        known = [one.approximation for one in self.approximations(expression)]
        noise = self._noise(expression, steps)
        return tuple(Promised(own + more, more) for own, more in zip(noise, known, strict=True))

    def check(self, expression: Expression, targets: Sequence[float]) -> None:
        check_measured(expression, self.approximations(expression), targets)

    def planned(self, expression: Expression, steps: Mapping[int, StepError]) -> Promise:
        """Simulated on all samples.

        Raises:
            PrecisionError: errors carry a value out of its range.
        """
        return Measured(self.samples.count, self.samples.slack, simulated(self, expression, steps))

    def allowed(self, expression: Expression) -> tuple[float, ...]:
        """Errors of all results that leave the largest entry at its place on as many samples as `agreement` says.

        Raises:
            PrecisionError: the polynomials alone move it on more samples.
        """
        assert self.agreement is not None
        found = []
        for place, one in enumerate(self.approximations(expression)):
            runs = self.exact(expression)
            written = [self.written(place, number, run[place].shape) for number, run in enumerate(runs)]
            margins = np.sort(
                np.concatenate(
                    [_margins(run[place], other) for run, other in zip(runs, written, strict=True)]
                )
            )
            needed = math.ceil(self.agreement * len(margins))
            margin = float(margins[len(margins) - needed]) if needed else float(margins[-1])
            if margin <= 0:
                raise PrecisionError(
                    f"The polynomials of the program agree with its functions on {one.agreement:.1%} of the samples.",
                    expected=f"agreement={self.agreement:g} or more, by a finer precision=… of the functions",
                    got=f"{one.agreement:.3g}",
                )
            found.append(one.approximation + margin / 2)
        return tuple(found)

    def text(self) -> str:
        return Measured(self.samples.count, self.samples.slack, ()).text()

    def exact(self, expression: Expression) -> list[list[Array]]:
        """The results of the program as it runs, without errors, on every sample."""
        if id(expression) not in self._exact:
            found = [
                evaluate_results(expression, self.samples.sample(number))
                for number in range(self.samples.count)
            ]
            self._exact[id(expression)] = expression, found
        return self._exact[id(expression)][1]

    def approximations(self, expression: Expression) -> list[SampledErrors]:
        """What is known of each result before there are errors of encryption."""
        if id(expression) not in self._approximations:
            runs = self.exact(expression)
            self._approximations[id(expression)] = [
                _approximation(
                    [run[place] for run in runs], [one[place] for one in self._written], self.samples.slack
                )
                for place in range(len(results_of(expression)))
            ]
        return self._approximations[id(expression)]

    def written(self, place: int, number: int, shape: tuple[int, ...]) -> Array:
        """A result by the functions that were written, of one sample."""
        return self._written[number][place].reshape(shape)

    def _noise(self, expression: Expression, steps: Mapping[int, StepError]) -> tuple[float, ...]:
        """As `simulated`, of few draws; programs whose steps err alike are simulated once: errors are nearly linear in
        those of the steps."""
        order = [node for node in ordered(expression) if not node.root]
        sizes = {number: math.hypot(*step) / order[number].bound for number, step in steps.items()}
        top = max(sizes.values(), default=0.0)
        if top == 0:
            return (0.0,) * len(results_of(expression))
        if not math.isfinite(top):
            return (math.inf,) * len(results_of(expression))
        kept = {number: step for number, step in steps.items() if sizes[number] > NEGLIGIBLE * top}
        self.exact(expression)  # which keeps it alive, and its id its own
        profile = tuple((number, round(math.log2(sizes[number] / top))) for number in sorted(kept))
        key = id(expression), profile, round(math.log2(top) / LINEAR_BITS)
        if key not in self._quick:
            try:
                found = _drawn(self, expression, kept, QUICK_DRAWS)
                self._quick[key] = tuple(one.noise / top for one in found)
            except PrecisionError:  # so large that nothing is known; smaller ones may do
                self._quick[key] = (math.inf,) * len(self._written[0])
        return tuple(ratio * top for ratio in self._quick[key])


def simulated(
    promise: BySamples,
    expression: Expression,
    steps: Mapping[int, StepError],
    progress: Progress | None = None,
) -> tuple[SampledErrors, ...]:
    """The errors of all results of a program, whose nodes err so by themselves.

    Raises:
        PrecisionError: errors carry a value out of its range, so that nothing is known of the result.
    """
    return _drawn(promise, expression, steps, LEAST_DRAWS, progress)


def _drawn(
    promise: BySamples,
    expression: Expression,
    steps: Mapping[int, StepError],
    draws: int,
    progress: Progress | None = None,
) -> tuple[SampledErrors, ...]:
    """Errors of all results, from so many draws at the least, each sample in turn."""
    count = promise.samples.count
    wanted = draws if draws == QUICK_DRAWS else max(draws, count)
    random = np.random.default_rng(0)
    each = len(results_of(expression))
    squares: list[list[Array]] = [[] for _ in range(each)]
    agreed, exact = [0.0] * each, promise.exact(expression)
    told = Steps(progress, wanted)
    for draw in range(wanted):
        number = draw % count
        with np.errstate(all="ignore"):
            noisy = _noisy(promise, expression, steps, number, random)
        for place, (found, known) in enumerate(zip(noisy, exact[number], strict=True)):
            squares[place].append((found - known) ** 2)
            agreed[place] += _agree(found, promise.written(place, number, found.shape))
        told.tick()
    approximations = promise.approximations(expression)
    return tuple(
        SampledErrors(
            noise=_largest(found, min(count, wanted)),
            noise_rms=math.sqrt(float(np.mean(found))),
            approximation=known.approximation,
            approximation_rms=known.approximation_rms,
            agreement=places / wanted,
        )
        for found, places, known in zip(squares, agreed, approximations, strict=True)
    )


def _noisy(
    promise: BySamples,
    expression: Expression,
    steps: Mapping[int, StepError],
    number: int,
    random: np.random.Generator,
) -> list[Array]:
    """The results on one sample with errors drawn."""
    order = [node for node in ordered(expression) if not node.root]
    place = {id(node): index for index, node in enumerate(order)}

    def through(node: Expression, value: Array) -> Array:
        step = steps.get(place[id(node)])
        if step is None:
            return value
        found = value + _error(step, value, random)
        if node.op == "assume" and not float(np.abs(found).max()) <= node.bound:
            raise PrecisionError(
                f"The errors of the program carry {node.title} out of its range on the samples.",
                expected="a finer precision=…, or a larger slack=…",
                got=f"entries above {node.bound:.3g}",
            )
        return found

    return evaluate_results(expression, promise.samples.sample(number), through=through)


def _error(step: StepError, value: Array, random: np.random.Generator) -> Array:
    """A draw. What may depend on values and on other entries does so in one of three ways: it is the same for all
    entries, has the sign of each, or is a draw of its own for each."""
    own = random.normal(0.0, 1.0, value.shape) * step.own
    if not step.common:
        return np.asarray(own)
    way = random.integers(3)
    size = step.common * random.normal()
    if way == 0:
        return np.asarray(own + size)
    if way == 1:
        return np.asarray(own + size * np.sign(value))
    return np.asarray(own + step.common * random.normal(0.0, 1.0, value.shape))


def _largest(squares: Sequence[Array], count: int) -> float:
    """What the largest entry of a result errs by, from squares of errors of several draws on each of `count` samples.

    Deviations differ from entry to entry, and from sample to sample: that of the worst entry, times what the worst
    sample has more than all of them, but for what it has more by chance.
    """
    stacked = np.stack(squares)
    mean = float(stacked.mean())
    if not math.isfinite(mean):
        return math.inf
    if mean == 0:
        return 0.0
    entry = math.sqrt(float(stacked.mean(axis=0).max()))
    entries = math.prod(stacked.shape[1:])
    of_samples = [float(stacked[number::count].mean()) for number in range(count)]
    seen = min(entries, MOST_INDEPENDENT) * (len(squares) / count)
    chance = 1 + math.sqrt(2 * math.log(max(count, 2))) / math.sqrt(2 * seen)
    sample = max(1.0, math.sqrt(max(of_samples) / mean) / chance)
    return tail(entries, BITS) * entry * sample


def _approximation(exact: Sequence[Array], written: Sequence[Array], slack: float) -> SampledErrors:
    """The polynomial program beside the functions that were written. The largest difference gets the slack, and more
    where few entries were seen."""
    largest = squares = 0.0
    agreed = 0.0
    for number, value in enumerate(exact):
        other = written[number].reshape(value.shape)
        off = np.abs(value - other)
        largest, squares = max(largest, float(off.max())), squares + float(np.mean(off**2))
        agreed += _agree(value, other)
    seen = len(exact) * min(math.prod(exact[0].shape), MOST_INDEPENDENT)
    return SampledErrors(
        noise=0.0,
        noise_rms=0.0,
        approximation=largest * slack * (1 + 2 / math.sqrt(seen)),
        approximation_rms=math.sqrt(squares / len(exact)),
        agreement=agreed / len(exact),
    )


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


def _agree(found: Array, expected: Array) -> float:
    """The share of rows whose largest entry is at the same place; a vector is one row."""
    if not found.shape:
        return 1.0
    return float(np.mean(np.argmax(found, axis=-1) == np.argmax(expected, axis=-1)))


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
        min(error, MOST_OF_BOUND * bound)
        for error, bound in zip(promise.allowed(expression), bounds, strict=True)
    ]
    return replace(options, error=arranged(expression, allowed))


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
    promise = BySamples(samples, executed if written is None else written)
    found = list(simulated(promise, executed, run.step_errors, progress))
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


def ranges_of(expression: Expression, values: Mapping[str, Array]) -> list[RangeFound]:
    """Of every node whose bound was promised or measured, and every argument of a polynomial, how far values come."""
    found: list[RangeFound] = []

    def through(node: Expression, value: Array) -> Array:
        if node.op == "assume":
            found.append(RangeFound(formula(node), float(np.abs(value).max()), node.bound))
        return value

    evaluate_results(expression, values, through=through)
    return found
