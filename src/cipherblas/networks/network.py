"""A network: layers in their order, computed in the clear, or planned as an encrypted program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import finite_array
from cipherblas.common.errors import Advice, ApproximationError, MismatchError, ShapeError, in_place_of
from cipherblas.common.progress import Progress, Steps
from cipherblas.lang.analysis import trace
from cipherblas.lang.arguments import integer_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.normalisation import Normalisation
from cipherblas.lang.operands import IMAGE_DIMENSIONS, Operand, secret
from cipherblas.lang.samples import Samples, within
from cipherblas.networks.choices import Choices, functions_of, warn_of_growth
from cipherblas.networks.equalisation import equalised, is_read_by_channels
from cipherblas.networks.layers import Activation, Array, NetworkStep, Nonlinear, Shape
from cipherblas.networks.network_check import NetworkCheck, NetworkRuns
from cipherblas.planner.plan.by_samples import BySamples, sampled_runs
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.roles.program import Program, compile

DEGREE, DEGREES = 62, (30, 62, 126, 254)  # of polynomials that stand for activations: one level more each
ROOM = 0.5  # for noise beside polynomials, relative to that beside the functions themselves
INPUT = "x"
AT_ONCE = 32  # inputs that are computed in the clear together


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
        parts = [
            self._computed(part, lambda step, inputs: step.layer.clear(*inputs))
            for part in self._parts(given)
        ]
        return np.concatenate(parts)

    def operand(self, bound: float = 1.0, batch: int | None = None) -> Operand:
        """Declare an encrypted input.

        Args:
            bound: on the absolute value of an entry as it is encrypted, normalised.
            batch: the number of inputs that are encrypted together, counted by a first axis; None for one without it.

        Raises:
            DTypeError, ShapeError: no positive integer. MismatchError: inputs that are no images are normalised by
                several numbers.
        """
        if batch is not None and (batch := integer_of(batch, "The batch of a network")) < 1:
            raise ShapeError(
                "A batch of a network has one input or more.",
                got=batch,
                advice="batch=8, or none for one input",
            )
        several = self.normalise is not None and max(map(len, vars(self.normalise).values())) > 1
        if batch is not None and several and len(self.shape) != IMAGE_DIMENSIONS:
            raise MismatchError(
                "Inputs that are no images are normalised by one mean and one deviation where several are encrypted "
                "together.",
                expected="normalise=(mean, deviation) of two numbers",
                got=str(self.normalise),
                advice="inputs that are normalised before they are encrypted, and a network without normalise=…",
            )
        return secret(*([] if batch is None else [batch]), *self.shape, bound=bound, normalise=self.normalise)

    def encrypted(
        self,
        x: Expression,
        *,
        degree: int = DEGREE,
        activation: Mapping[str, int] | None = None,
        ranges: Mapping[str, float] | None = None,
    ) -> Expression:
        """The scores of an encrypted input, or of several, to be part of a program.

        Args:
            x: a node of the network's shape, or of several inputs that a first axis counts, of an operand that is
                declared as `operand` does.
            degree: of the polynomials that stand for functions.
            activation: degrees of some of them, by names of nodes or of operators: {"Relu": 254, "layer3.relu": 126}.
                That of a node goes before that of its operator.
            ranges: bounds on the absolute value of what nodes read, by their names: the polynomial of a function is
                made for arguments of this range. Where it is measured on samples as well, this one is taken.

        Raises:
            ParameterError: no node has such a name, or it has no function. RangeError: a range is no positive number.
            ShapeError, MismatchError: the node has another shape, or is an operand that is normalised otherwise.
        """
        if self.shape not in (tuple(x.shape), tuple(x.shape[1:])):
            raise ShapeError(
                "The network has inputs of another shape.", expected=self.shape, got=tuple(x.shape)
            )
        declared = x.operand
        if self.normalise is not None and declared is not None and declared.normalise != self.normalise:
            raise MismatchError(
                "The operand is encrypted otherwise than the network takes its inputs.",
                expected=str(self.normalise),
                got=str(declared.normalise or "entries as they are"),
                advice="the operand that network.operand(bound) declares",
            )
        return self._written(x, Choices(self.steps, degree, activation, ranges))[0]

    def _written(self, x: Expression, choices: Choices) -> tuple[Expression, dict[str, float]]:
        """The scores of an encrypted input, and bounds on what nodes with functions read."""
        bounds: dict[str, float] = {}

        def computed(step: NetworkStep, inputs: Sequence[Any]) -> Any:
            layer = step.layer
            if isinstance(layer, Nonlinear):
                bounds[step.name] = max(bounds.get(step.name, 0.0), *(one.bound for one in inputs))
                layer = layer.of_degree(choices.degree_of(step.name, layer))
            return layer.encrypted(*inputs)

        def promised(number: int, value: Any) -> Any:
            return within(value, choices.bounds[number]) if number in choices.bounds else value

        found: Expression = self._computed(x, computed, promised)
        return found, bounds

    def ranges(self, samples: Any, *, slack: float = PlanOptions.slack) -> dict[str, float]:
        """Bounds on what nodes with functions read, to be printed, changed, and given to `compile`.

        It takes such bounds from samples itself; there with polynomials in the place of functions.

        Args:
            samples: inputs (n, …) like those to come.
            slack: by which entries of other inputs may exceed those of the samples.

        Returns:
            By names of nodes, in the network's order.

        Raises:
            ShapeError, DTypeError, RangeError: as of `compile`.
        """
        largest = self._largest(self._samples(samples))
        return {name: slack * largest[name] for name, _ in functions_of(self.steps)}

    def _largest(self, samples: Array) -> dict[str, float]:
        """By names of nodes, the largest absolute value of what they read."""
        found: dict[str, float] = {}

        def computed(step: NetworkStep, inputs: Sequence[Any]) -> Any:
            found[step.name] = max(found.get(step.name, 0.0), *(float(np.abs(one).max()) for one in inputs))
            return step.layer.clear(*inputs)

        for part in self._parts(samples):
            self._computed(part, computed)
        return found

    def compile(
        self,
        samples: Any = None,
        *,
        bound: float | None = None,
        batch: int | None = None,
        degree: int | None = None,
        activation: Mapping[str, int] | None = None,
        ranges: Mapping[str, float] | None = None,
        **options: Any,
    ) -> Program:
        """Plan the network for one encrypted input, or for a batch of them, which is the operand "x".

        Args:
            samples: inputs (n, …) like those to come, by which ranges and errors are found: see `compile`. Without
                them, and without `ranges`, these are bounds, which grow from layer to layer.
            bound: on the absolute value of an entry as it is encrypted; by default the largest of the samples times the
                slack, or 1.
            batch: the inputs of one run, which a first axis counts, as it does scores: an image takes less time in
                batches. Fewer are encrypted with anything in the place of others.
            degree: as of `encrypted`; by default the least of 62, 126 and 254 whose polynomials are near enough for the
                error that is asked for, or what an agreement needs: 30 to 254.
            activation, ranges: as of `encrypted`.
            **options: of `compile`: error, agreement, slack, security, ring_degree, …

        Returns:
            The planned program; nothing was executed.

        Raises:
            ShapeError, DTypeError, RangeError: the samples have another shape, or are no finite real numbers, or leave
                one of the ranges. Others as of `encrypted` and `compile`.
            MismatchError: there is no such option.
            PrecisionWarning: (a warning) a bound that neither samples nor ranges give is more than 100 times that of
                the input.
        """
        _check_options(options)
        choices = Choices(self.steps, DEGREE if degree is None else degree, activation, ranges)
        self.operand(batch=batch)  # refuses what is no batch
        if samples is not None:
            samples = self._samples(samples)
            if choices.ranges:
                choices.check_samples(self._largest(samples))
            options["samples"] = {INPUT: in_batches(samples, batch)}
            beyond = options.get("slack", PlanOptions.slack)
            largest = float(np.abs(self.operand().normalised(samples)).max())
            bound = (largest * beyond or 1.0) if bound is None else bound
        operand = self.operand(1.0 if bound is None else bound, batch)
        network = self if samples is None else self._equalised(samples, choices)
        chosen = degree is not None
        if not chosen and options.get("agreement") is not None:
            choices, chosen = network._agreeing(operand, options, activation, ranges), True
        while True:
            try:
                return network._compiled(operand, choices, options)
            except ApproximationError as error:
                finer = choices.finer
                if finer is not None and not chosen:
                    choices = Choices(self.steps, finer, activation, ranges)
                    continue
                error.advice = (*choices.advice, Advice("a larger error=…, or a smaller agreement=…"))
                degrees = " and ".join(map(str, choices.degrees))
                error.cause = f"Polynomials of degree {degrees} stand for the functions of the network."
                raise

    def _equalised(self, samples: Array, choices: Choices) -> TrainedNetwork:
        """The same scores, of channels that are as large as each other where functions read them; not where a range is
        promised, which is one of the numbers that the network itself has."""
        largest: dict[int, Array] = {}

        def computed(step: NetworkStep, inputs: Sequence[Any]) -> Any:
            if is_read_by_channels(step.layer):
                (number,), (value,) = step.inputs, inputs
                own = np.abs(value).max(axis=(0, *range(2, value.ndim)))
                largest[number] = np.maximum(largest.get(number, 0.0), own)
            return step.layer.clear(*inputs)

        for part in self._parts(samples):
            self._computed(part, computed)
        return replace(self, steps=equalised(self.shape, self.steps, largest, choices.bounds))

    def _compiled(self, operand: Operand, choices: Choices, options: Mapping[str, Any]) -> Program:
        def written(x: Expression) -> Expression:
            found, bounds = self._written(x, choices)
            if options.get("samples") is None:
                warn_of_growth(
                    {name: bounds[name] for name in bounds if name not in choices.ranges}, operand.bound
                )
            return found

        return compile(written, {INPUT: operand}, **options)

    def _agreeing(
        self,
        operand: Operand,
        options: Mapping[str, Any],
        activation: Mapping[str, int] | None,
        ranges: Mapping[str, float] | None,
    ) -> Choices:
        """With the least degree whose polynomials leave noise most of the room that the functions themselves leave it,
        for the agreement that is asked for."""
        for degree in DEGREES:
            choices = Choices(self.steps, degree, activation, ranges)
            if degree == DEGREES[-1]:
                break
            samples = Samples(
                options.get("samples"), {INPUT: operand}, options.get("slack", PlanOptions.slack)
            )
            with samples.watching():
                written = trace(lambda x: self._written(x, choices)[0], {INPUT: operand})  # noqa: B023
            if BySamples(samples, written, options["agreement"]).room(written) >= ROOM:
                break
        return choices

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
        batch = self._batch_of(program)
        if list(program.operands) != [INPUT] or program.shape != (*batch, *self.scores):
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
        inside, told, each = list[bool](), Steps(progress, len(given)), batch[0] if batch else 1

        def stays(values: Array) -> bool:
            several = in_batches(values, *batch)[0]
            return all(one.inside for one in program.check({INPUT: several}))

        for start in range(0, len(given), each):
            some = given[start : start + each]
            all_of_them = stays(some)
            for number in range(len(some)):
                inside.append(all_of_them or (each > 1 and stays(some[number : number + 1])))
                told.tick()
        count, outside = len(given), inside.count(False)
        if outside == count:
            return NetworkCheck(count, outside)
        given, right = given[inside], None if right is None else right[inside]
        exact = self(given).reshape(len(given), -1)
        samples = Samples({INPUT: in_batches(given, *batch)}, program.operands, 1.0)
        runs = sampled_runs(program.plan, program.executed, samples, progress)
        width = exact.shape[1]

        def inputs_of(samples: Sequence[int]) -> NDArray[np.int64]:
            return (each * np.asarray(samples, dtype=np.int64)[:, None] + np.arange(each)).ravel()

        drawn = inputs_of([number for number, _ in runs.noisy])
        known = drawn < len(given)  # a last batch is filled with others
        numbers, carried = drawn[known], inputs_of(sorted(set(runs.carried)))
        return NetworkCheck(
            count,
            outside,
            NetworkRuns.of(exact, exact, right),
            NetworkRuns.of(_rows(runs.exact, width)[: len(given)], exact, right),
            NetworkRuns.of(
                _rows([found for _, found in runs.noisy], width)[known],
                exact[numbers],
                None if right is None else right[numbers],
            )
            if len(numbers)
            else None,
            int(np.count_nonzero(carried < len(given))),
        )

    def _batch_of(self, program: Program) -> tuple[int, ...]:
        """The number of inputs of a run, where a first axis counts them."""
        shape = program.operands[INPUT].shape if INPUT in program.operands else self.shape
        return shape[:1] if shape[1:] == self.shape else ()

    def _array(self, values: Any, what: str) -> Array:
        """Numbers for one input or several, in float64."""
        count = len(self.shape)
        return finite_array(values, what, (count, count + 1))

    def _samples(self, values: Any) -> Array:
        """Several inputs; ShapeError where they are none."""
        samples = self._array(values, "the samples")
        if samples.shape[1:] != self.shape or not len(samples):
            raise ShapeError(
                "The samples are no inputs of the network.",
                expected=("any number", *self.shape),
                got=samples.shape,
            )
        return samples

    def _parts(self, given: Array) -> Iterator[Array]:
        """Inputs, some at a time, as they are encrypted."""
        for start in range(0, len(given), AT_ONCE):
            yield self.operand().normalised(given[start : start + AT_ONCE])

    def _computed(
        self,
        given: Any,
        computed: Callable[[NetworkStep, Sequence[Any]], Any],
        made: Callable[[int, Any], Any] = lambda number, value: value,
    ) -> Any:
        """The result of the last step; a value goes when nothing reads it any more.

        Args:
            made: is called with each value and its number, and returns what is read in its place.
        """
        last = {number: at for at, step in enumerate(self.steps) for number in step.inputs}
        values: dict[int, Any] = {0: made(0, given)}
        for at, step in enumerate(self.steps):
            values[at + 1] = made(at + 1, computed(step, [values[number] for number in step.inputs]))
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


def _check_options(options: Mapping[str, Any]) -> None:
    """Raise MismatchError where one is none of `compile`, and name the nearest, also of those of networks alone."""
    known = (
        "degree",
        "activation",
        "ranges",
        "bound",
        "batch",
        "progress",
        *PlanOptions.__dataclass_fields__,
    )
    for name in options:
        if name not in known:
            raise MismatchError(
                f"Networks are compiled without an option {name!r}.",
                expected=", ".join(known),
                got=name,
                advice=in_place_of(name, known, "{}="),
            )


def in_batches(inputs: Array, batch: int | None = None) -> Array:
    """Inputs by batches; the last one is filled with the first ones."""
    if batch is None:
        return inputs
    count = -(-len(inputs) // batch)
    return inputs[np.arange(count * batch) % len(inputs)].reshape(count, batch, *inputs.shape[1:])


def _rows(runs: Sequence[Sequence[Array]], width: int) -> Array:
    """The scores of several runs, a row for each input."""
    return np.concatenate([scores.reshape(-1, width) for (scores,) in runs])


def _shape_text(shape: Shape) -> str:
    return "x".join(map(str, shape))
