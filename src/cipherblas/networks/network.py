"""A network: layers in their order, computed in the clear, or planned as an encrypted program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cipherblas.common.arrays import finite_array
from cipherblas.common.errors import Advice, ApproximationError, MismatchError, ShapeError
from cipherblas.common.progress import Progress, Steps
from cipherblas.lang.analysis import trace
from cipherblas.lang.arguments import integer_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.normalisation import Normalisation
from cipherblas.lang.operands import Operand, secret
from cipherblas.lang.polynomials import MAX_DEGREE
from cipherblas.lang.samples import Samples
from cipherblas.networks.layers import Activation, Array, Layer, Shape
from cipherblas.planner.plan.by_samples import BySamples, sampled_runs
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.roles.program import Program, compile

DEGREE, DEGREES = 62, (30, 62, 126, 254)  # of polynomials that stand for activations: one level more each
ROOM = 0.5  # for noise beside polynomials, relative to that beside the functions themselves
INPUT = "x"


@dataclass(frozen=True)
class NetworkStep:
    """A layer of a network and the values that it reads.

    Attributes:
        name: of the node, as the file has it.
        inputs: numbers of values: 0 is the input of the network, i + 1 the result of step i.
        shape: of its result, for one image.
    """

    name: str
    layer: Layer
    inputs: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True)
class NetworkRuns:
    """The scores of one way to compute a network, on the same inputs as the others.

    Attributes:
        accuracy: share of the runs with the right label; None without labels.
        agreement: share of the runs with the label of the clear network.
        rms, largest: of the differences from the scores of the clear network.
    """

    accuracy: float | None
    agreement: float
    rms: float
    largest: float

    @classmethod
    def of(cls, scores: Array, exact: Array, labels: Array | None) -> NetworkRuns:
        """Of runs, a row each, with the scores of the clear network on the same inputs."""
        found, off = scores.argmax(axis=1), np.abs(scores - exact)
        return cls(
            None if labels is None else float(np.mean(found == labels)),
            float(np.mean(found == exact.argmax(axis=1))),
            float(np.sqrt(np.mean(off**2))),
            float(off.max()),
        )


@dataclass(frozen=True)
class NetworkCheck:
    """A network and its program on the same inputs, those that stay in the ranges that were planned.

    Attributes:
        count: of the inputs.
        outside: inputs on which a value leaves the range that the program was planned for.
        clear: runs of the network itself; None where all inputs are outside, as the others.
        approximated: with the program's polynomials in place of functions.
        noisy: with errors of encryption as well, as the noise model has them.
    """

    count: int
    outside: int
    clear: NetworkRuns | None = None
    approximated: NetworkRuns | None = None
    noisy: NetworkRuns | None = None

    def __str__(self) -> str:
        lines = [f"inputs  {self.count}, {self.outside} of them outside the ranges that were planned"]
        runs = [one for one in (self.clear, self.approximated, self.noisy) if one is not None]
        if runs:
            rows: list[tuple[str, ...]] = [("", "clear", "approximated", "noisy")]
            if runs[0].accuracy is not None:
                rows.append(("right label", *(f"{one.accuracy:.1%}" for one in runs)))
            rows += [
                ("label of the clear network", *(f"{one.agreement:.1%}" for one in runs)),
                ("error of a score, rms", *(f"{one.rms:.2g}" for one in runs)),
                ("error of a score, largest", *(f"{one.largest:.2g}" for one in runs)),
            ]
            lines += [f"{row[0]:<26}" + "".join(f"  {one:>12}" for one in row[1:]) for row in rows]
        return "\n".join(lines)


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network, as `from_onnx` reads it.

    Attributes:
        shape: of one input.
        steps: its layers, in an order in which they can be computed.
        left_out: operators at the end that the client computes: a softmax, the largest score.
        normalise: the mean and deviation that the client takes out of an input; None where inputs are taken as they
            are.

    Examples:
        >>> import numpy as np
        >>> from cipherblas.networks.layers import Dense
        >>> layer = Dense(np.eye(2), np.zeros(2))
        >>> network = TrainedNetwork((2,), (NetworkStep("scores", layer, (0,), (2,)),))
        >>> network(np.array([0.5, -0.25]))
        array([ 0.5 , -0.25])
        >>> program = network.compile(bound=1.0)
        >>> program.shape
        (2,)
    """

    shape: Shape
    steps: tuple[NetworkStep, ...]
    left_out: tuple[str, ...] = ()
    normalise: Normalisation | None = None

    def __post_init__(self) -> None:
        if self.normalise is not None:
            found = Normalisation.given(self.normalise)
            found.check_shape(self.shape)
            object.__setattr__(self, "normalise", found)

    @property
    def scores(self) -> Shape:
        """The shape of a result."""
        return self.steps[-1].shape if self.steps else self.shape

    @property
    def activations(self) -> int:
        """The number of functions of single entries."""
        return sum(isinstance(step.layer, Activation) for step in self.steps)

    def __call__(self, values: Any) -> Array:
        """The scores in the clear, by NumPy and with the functions themselves.

        Args:
            values: one input, or several along a first axis.

        Raises:
            ShapeError: not of the network's shape. DTypeError, RangeError: no finite real numbers.
        """
        given = self._array(values, "an input of the network")
        if given.shape == self.shape:
            found: Array = self(given[None])[0]
            return found
        if given.shape[1:] != self.shape:
            raise ShapeError(
                "The network has inputs of another shape.",
                expected=self.shape,
                got=given.shape[-len(self.shape) :],
            )
        entries = self.operand().normalised(given)
        return np.asarray(self._computed(entries, lambda layer, inputs: layer.clear(*inputs)))

    def operand(self, bound: float = 1.0) -> Operand:
        """Declare an encrypted input.

        Args:
            bound: on the absolute value of an entry as it is encrypted, normalised.
        """
        return secret(*self.shape, bound=bound, normalise=self.normalise)

    def encrypted(self, x: Expression, *, degree: int = DEGREE) -> Expression:
        """The scores of an encrypted input, to be part of a program.

        Args:
            x: a node of the network's shape, of an operand that is declared as `operand` does.
            degree: of the polynomials that stand for functions.
        """
        if tuple(x.shape) != self.shape:
            raise ShapeError(
                "The network has inputs of another shape.", expected=self.shape, got=tuple(x.shape)
            )
        degree = integer_of(degree, "The degree of activations")

        def computed(layer: Layer, inputs: Sequence[Any]) -> Any:
            one = replace(layer, degree=degree) if isinstance(layer, Activation) else layer
            return one.encrypted(*inputs)

        found: Expression = self._computed(x, computed)
        return found

    def compile(
        self,
        samples: Any = None,
        *,
        bound: float | None = None,
        degree: int | None = None,
        **options: Any,
    ) -> Program:
        """Plan the network for one encrypted input, which is the operand "x".

        Args:
            samples: inputs (n, …) like those to come, by which ranges and errors are found: see `compile`. Without
                them these are bounds, which grow from layer to layer.
            bound: on the absolute value of an entry as it is encrypted; by default the largest of the samples times the
                slack, or 1.
            degree: as of `encrypted`; by default 62, or what an agreement needs that is asked for: 30 to 254.
            **options: of `compile`: error, agreement, slack, security, ring_degree, …

        Returns:
            The planned program; nothing was executed.

        Raises:
            ShapeError, DTypeError, RangeError: the samples have another shape, or are no finite real numbers. Others as
                of `compile`.
        """
        if samples is not None:
            samples = self._array(samples, "the samples")
            if samples.shape[1:] != self.shape or not len(samples):
                raise ShapeError(
                    "The samples are no inputs of the network.",
                    expected=("any number", *self.shape),
                    got=samples.shape,
                )
            options["samples"] = {INPUT: samples}
            beyond = options.get("slack", PlanOptions.slack)
            largest = float(np.abs(self.operand().normalised(samples)).max())
            bound = (largest * beyond or 1.0) if bound is None else bound
        operand = self.operand(1.0 if bound is None else bound)
        if degree is None:
            degree = self._degree(operand, options) if options.get("agreement") is not None else DEGREE
        try:
            return compile(lambda x: self.encrypted(x, degree=degree), {INPUT: operand}, **options)
        except ApproximationError as error:
            finer = min(2 * degree + 2, MAX_DEGREE)
            more = () if finer <= degree else (Advice(f"degree={finer}", {"degree": finer}),)
            error.advice = (*more, Advice("a larger error=…, or a smaller agreement=…"))
            error.cause = f"Polynomials of degree {degree} stand for the functions of the network."
            raise

    def _degree(self, operand: Operand, options: Mapping[str, Any]) -> int:
        """The least degree whose polynomials leave noise most of the room that the functions themselves leave it, for
        the agreement that is asked for."""
        for degree in DEGREES[:-1]:
            samples = Samples(
                options.get("samples"), {INPUT: operand}, options.get("slack", PlanOptions.slack)
            )
            with samples.watching():
                written = trace(lambda x: self.encrypted(x, degree=degree), {INPUT: operand})  # noqa: B023
            if BySamples(samples, written, options["agreement"]).room(written) >= ROOM:
                return degree
        return DEGREES[-1]

    def check(
        self, program: Program, values: Any, labels: Any = None, *, progress: Progress | None = None
    ) -> NetworkCheck:
        """Compare the network with its program on inputs that it was not planned on; nothing is encrypted.

        Args:
            program: as `compile` made it, or loaded.
            values: inputs (n, …).
            labels: the right classes (n,), if they are known.
            progress: called as progress(done, total), counted in inputs: first whether they are in range, then from 0
                in runs of the program.

        Raises:
            ShapeError: the inputs or labels have another shape.
            MismatchError: the program has other operands or results than the network.
            PrecisionError: errors carry a value out of its range.
        """
        given = self._array(values, "the inputs")
        if given.shape[1:] != self.shape or not len(given):
            raise ShapeError(
                "The inputs are not those of the network, counted by a first axis.",
                expected=("n", *self.shape),
                got=given.shape,
            )
        right = None if labels is None else np.asarray(labels)
        if right is not None and right.shape != (len(given),):
            raise ShapeError("There is one label for each input.", expected=(len(given),), got=right.shape)
        if list(program.operands) != [INPUT] or program.shape != self.scores:
            raise MismatchError(
                "The program is not one of this network.",
                expected=f"operand {INPUT!r}, a result of shape {self.scores}",
                got=f"operands {', '.join(program.operands)}, results of shape {program.shape}",
                advice="the program that network.compile(…), or cipherblas import, made of the network",
            )
        operand = program.operands[INPUT]
        if operand.normalise != self.normalise:
            raise MismatchError(
                "The program takes its inputs otherwise than the network.",
                expected=str(self.normalise or "inputs as they are"),
                got=str(operand.normalise or "inputs as they are"),
                advice="from_onnx(…, normalise=…), as when the program was planned",
            )
        inside, told = [], Steps(progress, len(given))
        for value in given:
            inside.append(all(one.inside for one in program.check({INPUT: value})))
            told.tick()
        count, outside = len(given), inside.count(False)
        if outside == count:
            return NetworkCheck(count, outside)
        given, right = given[inside], None if right is None else right[inside]
        exact = self(given).reshape(len(given), -1)
        samples = Samples({INPUT: given}, program.operands, 1.0)
        runs = sampled_runs(program.plan, program.executed, samples, progress)
        numbers = [number for number, _ in runs.noisy]
        return NetworkCheck(
            count,
            outside,
            NetworkRuns.of(exact, exact, right),
            NetworkRuns.of(_rows(runs.exact), exact, right),
            NetworkRuns.of(
                _rows([found for _, found in runs.noisy]),
                exact[numbers],
                None if right is None else right[numbers],
            ),
        )

    def _array(self, values: Any, what: str) -> Array:
        """Numbers for one input or several, in float64."""
        count = len(self.shape)
        return finite_array(values, what, (count, count + 1))

    def _computed(self, given: Any, computed: Callable[[Layer, Sequence[Any]], Any]) -> Any:
        """The result of the last step; a value goes when nothing reads it any more."""
        last = {number: at for at, step in enumerate(self.steps) for number in step.inputs}
        values: dict[int, Any] = {0: given}
        for at, step in enumerate(self.steps):
            values[at + 1] = computed(step.layer, [values[number] for number in step.inputs])
            for number in set(step.inputs):
                if last[number] == at:
                    del values[number]
        return values[len(self.steps)]

    def __str__(self) -> str:
        rows = [("input", str(self.normalise or ""), _shape_text(self.shape))]
        rows += [(step.name, str(step.layer), _shape_text(step.shape)) for step in self.steps]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        lines = [
            f"{name:<{widths[0]}}  {layer:<{widths[1]}}  {shape}".rstrip() for name, layer, shape in rows
        ]
        lines += [f"left to the client: {', '.join(self.left_out)}"] if self.left_out else []
        return "\n".join(lines)


def _rows(runs: Sequence[Sequence[Array]]) -> Array:
    """The scores of several runs, a row each."""
    return np.stack([scores.reshape(-1) for (scores,) in runs])


def _shape_text(shape: Shape) -> str:
    return "x".join(map(str, shape))
