"""What a plan promises of the errors of its results, and whom the promise covers.

`Bounds`: every input within the declared bounds. `BySamples`, `Measured`: inputs like samples that were given.
`EachStep`: nobody; each step by itself is as precise as was asked for.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from cipherblas.common import schema
from cipherblas.common.errors import ApproximationError
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.results import MAX_RESULTS, labels_of, results_of
from cipherblas.planner.predict.truncation import check_approximations, truncation_error
from cipherblas.rlwe.noise import FAILURE_BITS, tail
from cipherblas.runtime.values import StepError, Value

PromiseName = Literal["bounds", "samples", "none"]
MAX_SAMPLES = 1 << 40


class Promised(NamedTuple):
    """Of one result: the largest error of an entry, and the part of it that no ring changes."""

    error: float
    known: float


class Promise(ABC):
    """A kind of promise.

    Attributes:
        name: as an option of `compile`.
        stepwise: it is found from the errors of single steps (`Decisions.stepwise`).
        figure: what `explain()` calls the error that is stated of a result.
        of: what errs by so much.
    """

    name: ClassVar[PromiseName]
    stepwise: ClassVar[bool] = True
    figure: ClassVar[str] = "expected error"
    of: ClassVar[str] = "per entry"

    @abstractmethod
    def errors(
        self, expression: Expression, results: Sequence[Value], steps: Mapping[int, StepError]
    ) -> tuple[Promised, ...]:
        """The errors of all results of a program.

        Args:
            expression: what runs.
            results: their values, of a run without data.
            steps: the error of each node by itself, by its number; none where that is not `stepwise`.
        """

    @abstractmethod
    def check(self, expression: Expression, targets: Sequence[float]) -> None:
        """Raise PrecisionError where what no ring changes exceeds the errors that are allowed."""

    def planned(self, expression: Expression, steps: Mapping[int, StepError]) -> Promise:
        """As a plan keeps it, which has these errors of its steps."""
        return self

    @property
    def figures(self) -> tuple[SampledErrors, ...]:
        """The errors of each result that were found on samples."""
        return ()

    @abstractmethod
    def text(self) -> str:
        """Whom it covers, with which probability, and what happens otherwise: for people."""

    def to_dict(self) -> dict[str, Any] | None:
        """The promise as files hold it; None for the usual one."""
        return {"kind": self.name}


@dataclass(frozen=True)
class Bounds(Promise):
    """For every input within the bounds: errors and ranges are worst cases at every step."""

    name = "bounds"
    stepwise = False

    def errors(
        self, expression: Expression, results: Sequence[Value], steps: Mapping[int, StepError]
    ) -> tuple[Promised, ...]:
        known = [truncation_error(node) for node in results_of(expression)]
        return tuple(Promised(value.error() + more, more) for value, more in zip(results, known, strict=True))

    def check(self, expression: Expression, targets: Sequence[float]) -> None:
        check_approximations(expression, targets)

    def text(self) -> str:
        return (
            "for every input within the bounds: an entry errs by more, or a message wraps around, with probability "
            f"below 2^-{FAILURE_BITS}"
        )

    def to_dict(self) -> dict[str, Any] | None:
        return None


@dataclass(frozen=True)
class EachStep(Promise):
    """None for the result: the error of each step, relative to the bound of its value, is as asked for."""

    name = "none"
    figure, of = "error of a step", "for a value as large as the result"

    def errors(
        self, expression: Expression, results: Sequence[Value], steps: Mapping[int, StepError]
    ) -> tuple[Promised, ...]:
        order = [node for node in facts_of(expression).order if not node.root]
        largest = max(
            (
                (tail(math.prod(node.shape)) * math.hypot(*steps[number])) / node.bound
                for number, node in enumerate(order)
                if number in steps
            ),
            default=0.0,
        )
        return tuple(Promised(largest * node.bound, 0.0) for node in results_of(expression))

    def check(self, expression: Expression, targets: Sequence[float]) -> None:
        return

    def text(self) -> str:
        return (
            "none: each step errs by no more than what is stated, relative to the bound of its value; how errors of "
            "steps add up in the result is not predicted"
        )


@dataclass(frozen=True)
class SampledErrors:
    """Errors of the entries of one result, found on samples.

    Attributes:
        noise: largest difference of the encrypted from the polynomial program that is expected.
        noise_rms: the root of its mean square.
        approximation: largest difference of the polynomial program from the functions that were written, with a margin.
        approximation_rms: the root of its mean square on the samples.
        agreement: share of the samples whose largest entry is at the same place, of matrices in each row.
    """

    noise: float
    noise_rms: float
    approximation: float
    approximation_rms: float
    agreement: float

    @property
    def error(self) -> float:
        """Of both parts together."""
        return self.noise + self.approximation


_FIGURES = {
    "noise": schema.number(0.0),
    "noise_rms": schema.number(0.0),
    "approximation": schema.number(0.0),
    "approximation_rms": schema.number(0.0),
    "agreement": schema.number(0.0, 1.0),
}
check_promise = schema.either(
    schema.record({"kind": schema.one_of("none")}),
    schema.record(
        {
            "kind": schema.one_of("samples"),
            "count": schema.integer(1, MAX_SAMPLES),
            "slack": schema.number(1.0),
            "results": schema.listed(schema.record(_FIGURES), 1, MAX_RESULTS),
        }
    ),
)


@dataclass(frozen=True)
class Measured(Promise):
    """For inputs like samples on which a plan was simulated, as it is kept in plans and files."""

    name = "samples"
    count: int
    slack: float
    found: tuple[SampledErrors, ...]

    def errors(
        self, expression: Expression, results: Sequence[Value], steps: Mapping[int, StepError]
    ) -> tuple[Promised, ...]:
        return tuple(Promised(one.error, one.approximation) for one in self.found)

    def check(self, expression: Expression, targets: Sequence[float]) -> None:
        check_measured(expression, self.found, targets)

    @property
    def figures(self) -> tuple[SampledErrors, ...]:
        return self.found

    def text(self) -> str:
        samples = f"{self.count} sample{'s' if self.count != 1 else ''}"
        return (
            f"for inputs like the {samples}, slack {self.slack:g}: values of other inputs that exceed those of the "
            "samples by more may give wrong results unnoticed; while they do not, a step errs by more than its bound, "
            f"or a message wraps around, with probability below 2^-{FAILURE_BITS}"
        )

    def to_dict(self) -> dict[str, Any] | None:
        return {
            "kind": self.name,
            "count": self.count,
            "slack": self.slack,
            "results": [asdict(one) for one in self.found],
        }


BOUNDS, STEPS = Bounds(), EachStep()


def promise_of(values: Mapping[str, Any] | None) -> Promise:
    """The promise of a file, in the form of `Promise.to_dict`; None stands for the usual one."""
    if values is None:
        return BOUNDS
    if values["kind"] == EachStep.name:
        return STEPS
    found = tuple(SampledErrors(**one) for one in values["results"])
    return Measured(values["count"], values["slack"], found)


def check_measured(expression: Expression, found: Sequence[SampledErrors], targets: Sequence[float]) -> None:
    """Raise PrecisionError where the polynomials of a program are too far from its functions on the samples."""
    for label, one, target in zip(labels_of(expression), found, targets, strict=True):
        if one.approximation >= target:
            of = f"result {label}" if label else "the result"
            raise ApproximationError(
                f"The functions of the program err by {one.approximation:.3g} in {of} on the samples, and {target:.3g} "
                "is asked for.",
                advice="a finer precision=… of the functions",
                cause="Polynomials stand in for the functions.",
            )
