"""Programs on samples in the clear, with errors drawn as the noise model has them.

Every node errs by itself as a run without data has counted it (`StepError`); how errors of nodes grow, cancel and are
damped on the way to a result is what a simulation finds, for inputs like the samples. Polynomials are computed as they
are, and compared with the functions that they stand for.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import PrecisionError
from cipherblas.common.progress import Progress, Steps
from cipherblas.lang.analysis import evaluate_results
from cipherblas.lang.facts import facts_of
from cipherblas.lang.graph import formula
from cipherblas.lang.nodes import Expression
from cipherblas.lang.results import results_of
from cipherblas.lang.samples import Samples
from cipherblas.planner.predict.promises import SampledErrors
from cipherblas.rlwe.noise import tail
from cipherblas.runtime.values import StepError

Array = NDArray[np.float64]
MIN_DRAWS = 64  # of errors, over all samples together
QUICK_DRAWS = 16  # while plans are compared
# Entries of all nodes that are drawn, at most, and while plans are compared: samples that are so large show in few
# draws what others show in many. So many are made of any, at least, and while plans are compared.
MAX_DRAWN, MAX_QUICKLY_DRAWN = 1 << 28, 1 << 26
MIN_LARGE_DRAWS, MIN_QUICK_DRAWS = 4, 2
PART = 1 << 15  # entries whose errors are drawn at once: the caches hold them
# Errors that depend on values: the same of all entries, or with the sign of each; else a draw of each.
SAME, SIGNED, KINDS = 0, 1, 3
MATRIX = 2  # dimensions
BITS = (
    16.0  # an entry of a result errs by more than stated with probability 2^-16, for values like the samples
)
# Independent parts of a result, at most, whose errors tell how far they vary from sample to sample by chance.
MAX_INDEPENDENT = 16


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


class Simulation:
    """A program on samples; results are kept.

    Args:
        samples: of its operands.
        expression: the program as it was written, whose nodes know the functions that they approximate.
    """

    def __init__(self, samples: Samples, expression: Expression) -> None:
        self.samples = samples
        self._written = [
            evaluate_results(expression, samples.sample(number), as_written=True)
            for number in range(samples.count)
        ]
        self._exact: dict[int, tuple[Expression, list[list[Array]]]] = {}
        self._approximations: dict[int, list[SampledErrors]] = {}

    @property
    def results(self) -> int:
        """How many results the program has."""
        return len(self._written[0])

    def written(self, place: int, number: int, shape: tuple[int, ...]) -> Array:
        """A result by the functions that were written, of one sample."""
        return self._written[number][place].reshape(shape)

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
        """Approximation errors of each result, found without encryption."""
        if id(expression) not in self._approximations:
            runs = self.exact(expression)
            self._approximations[id(expression)] = [
                _approximation(
                    *([run[place] for run in runs], [one[place] for one in self._written]),
                    *(self.samples.slack, self.samples.batched),
                )
                for place in range(len(results_of(expression)))
            ]
        return self._approximations[id(expression)]

    def errors(
        self, expression: Expression, steps: Mapping[int, StepError], progress: Progress | None = None
    ) -> tuple[SampledErrors, ...]:
        """The errors of all results of a program, whose nodes err so by themselves.

        Raises:
            PrecisionError: errors carry a value out of its range, so that nothing is known of the result.
        """
        draws = max(_draws(expression, MIN_DRAWS, MAX_DRAWN, MIN_LARGE_DRAWS), self.samples.count)
        return self._drawn(expression, steps, draws, progress)

    def quick_errors(
        self, expression: Expression, steps: Mapping[int, StepError]
    ) -> tuple[SampledErrors, ...]:
        """As `errors`, of few draws."""
        draws = _draws(expression, QUICK_DRAWS, MAX_QUICKLY_DRAWN, MIN_QUICK_DRAWS)
        return self._drawn(expression, steps, draws)

    def _drawn(
        self,
        expression: Expression,
        steps: Mapping[int, StepError],
        draws: int,
        progress: Progress | None = None,
    ) -> tuple[SampledErrors, ...]:
        """Errors of all results, each sample in turn."""
        count, random = self.samples.count, np.random.default_rng(0)
        each = len(results_of(expression))
        squares: list[list[Array]] = [[] for _ in range(each)]
        agreed, exact = [0.0] * each, self.exact(expression)
        told = Steps(progress, draws)
        for draw in range(draws):
            number = draw % count
            with np.errstate(all="ignore"):  # an error without bound is told as one
                noisy = noisy_results(self.samples, expression, steps, number, random)
                for place, (found, known) in enumerate(zip(noisy, exact[number], strict=True)):
                    squares[place].append((found - known) ** 2)
                    agreed[place] += _agree(found, self.written(place, number, found.shape))
            told.tick()
        with np.errstate(all="ignore"):
            return tuple(
                SampledErrors(
                    noise=_largest(found, min(count, draws), self.samples.batched),
                    noise_rms=math.sqrt(float(np.mean(found))),
                    approximation=known.approximation,
                    approximation_rms=known.approximation_rms,
                    agreement=places / draws,
                )
                for found, places, known in zip(squares, agreed, self.approximations(expression), strict=True)
            )


def _draws(expression: Expression, most: int, entries: int, least: int) -> int:
    """How many draws are made of the errors of a program, so many entries of its nodes at most."""
    each = sum(math.prod(node.shape) for node in facts_of(expression).order if not node.root)
    return max(least, min(most, entries // each))


def noisy_results(
    samples: Samples,
    expression: Expression,
    steps: Mapping[int, StepError],
    number: int,
    random: np.random.Generator,
) -> list[Array]:
    """The results on one sample with errors drawn."""
    order = [node for node in facts_of(expression).order if not node.root]
    place = {id(node): index for index, node in enumerate(order)}

    def through(node: Expression, value: Array) -> Array:
        step = steps.get(place[id(node)])
        if step is None:
            return value
        found = _erring(step, value, random)
        if node.op == "assume" and not max(float(found.max()), -float(found.min())) <= node.bound:
            raise PrecisionError(
                f"The errors of the program carry {node.title} out of its range on the samples.",
                expected="a finer precision=…, or a larger slack=…",
                got=f"entries above {node.bound:.3g}",
            )
        return found

    return evaluate_results(expression, samples.sample(number), through=through)


def _erring(step: StepError, value: Array, random: np.random.Generator) -> Array:
    """A value with errors drawn. What may depend on values and on other entries does so in one of three ways: it is the
    same for all entries, has the sign of each, or is a draw of its own for each."""

    found = np.empty(value.shape)
    kind, size = random.integers(KINDS) if step.common else -1, 0.0
    if kind in (SAME, SIGNED):
        size = step.common * random.standard_normal()
    values, results = value.reshape(-1), found.reshape(-1)
    for start in range(0, len(results), PART):
        part, own = results[start : start + PART], values[start : start + PART]
        _draw(random, step.own, part)
        if kind == SAME:
            part += size
        elif kind == SIGNED:
            part += size * np.sign(own)
        elif step.common:
            more = np.empty(len(part))
            _draw(random, step.common, more)
            part += more
        part += own
    return found


def _draw(random: np.random.Generator, deviation: float, found: Array) -> None:
    """Fill an array with normal numbers of a deviation, each one of 2^16: a word of 16 bits tells which."""
    words = np.frombuffer(random.bytes(2 * len(found)), "<u2")
    np.take(_normal_numbers(), words, out=found, mode="clip")  # which needs no copy of `found`
    found *= deviation


@functools.lru_cache(maxsize=1)
def _normal_numbers() -> Array:
    """In 2^16 steps of equal probability, with a mean of 0 and a deviation of 1."""
    normal, steps = statistics.NormalDist(), 1 << 16
    below = np.array([normal.inv_cdf((step + 0.5) / steps) for step in range(steps // 2)])
    found = np.concatenate([below, -below[::-1]])
    found /= found.std()
    return found


def _largest(squares: Sequence[Array], count: int, batched: bool) -> float:
    """The error of the largest entry of a result, from squares of errors of several draws on each of `count` samples.

    Deviations differ from entry to entry, and from sample to sample: that of the worst entry, times what the worst
    sample has more than all of them, but for what it has more by chance.

    Args:
        batched: rows of a result are of samples of their own.
    """
    stacked = np.stack(squares)
    entries = math.prod(stacked.shape[1:])
    if rows := _rows_of(stacked[0], batched):
        count, stacked = count * rows, stacked.reshape(len(squares) * rows, -1)
    mean = float(stacked.mean())
    if not math.isfinite(mean):
        return math.inf
    if mean == 0:
        return 0.0
    entry = math.sqrt(float(stacked.mean(axis=0).max()))
    of_samples = [float(stacked[number::count].mean()) for number in range(count)]
    seen = min(stacked[0].size, MAX_INDEPENDENT) * (len(stacked) / count)
    chance = 1 + math.sqrt(2 * math.log(max(count, 2))) / math.sqrt(2 * seen)
    sample = max(1.0, math.sqrt(max(of_samples) / mean) / chance)
    return noise_tail(entries) * entry * sample


def _rows_of(result: Array, batched: bool) -> int:
    """The samples of a result whose rows are of samples of their own; 0 where it is one of one sample."""
    return len(result) if batched and result.ndim == MATRIX else 0


def noise_tail(entries: int) -> float:
    """The noise that is stated of a result with so many entries, in deviations of its worst entry."""
    return tail(entries, BITS)


def _approximation(
    exact: Sequence[Array], written: Sequence[Array], slack: float, batched: bool
) -> SampledErrors:
    """The polynomial program beside the functions that were written. The largest difference gets the slack, and more
    where few entries were seen."""
    largest = squares = 0.0
    agreed = 0.0
    for number, value in enumerate(exact):
        other = written[number].reshape(value.shape)
        off = np.abs(value - other)
        largest, squares = max(largest, float(off.max())), squares + float(np.mean(off**2))
        agreed += _agree(value, other)
    images = _rows_of(exact[0], batched) or 1
    seen = len(exact) * images * min(exact[0].size // images, MAX_INDEPENDENT)
    return SampledErrors(
        noise=0.0,
        noise_rms=0.0,
        approximation=largest * slack * (1 + 2 / math.sqrt(seen)),
        approximation_rms=math.sqrt(squares / len(exact)),
        agreement=agreed / len(exact),
    )


def _agree(found: Array, expected: Array) -> float:
    """The share of rows whose largest entry is at the same place; a vector is one row."""
    if not found.shape:
        return 1.0
    return float(np.mean(np.argmax(found, axis=-1) == np.argmax(expected, axis=-1)))


def ranges_of(expression: Expression, values: Mapping[str, Array]) -> list[RangeFound]:
    """Of every node whose bound was promised or measured, and every argument of a polynomial, how far values come."""
    found: list[RangeFound] = []

    def through(node: Expression, value: Array) -> Array:
        if node.op == "assume":
            found.append(RangeFound(formula(node), float(np.abs(value).max()), node.bound))
        return value

    evaluate_results(expression, values, through=through)
    return found
