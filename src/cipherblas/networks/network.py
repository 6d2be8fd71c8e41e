"""A network: layers in their order, computed in the clear, or planned as an encrypted program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cipherblas.common.arrays import finite_array
from cipherblas.common.errors import ShapeError
from cipherblas.lang.arguments import integer_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import secret
from cipherblas.networks.layers import Activation, Array, Layer, Shape
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict.promises import SampledErrors
from cipherblas.roles.program import Program, compile

DEGREE = 62  # of the polynomial that stands for an activation: six levels
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
class NetworkCheck:
    """A network and its program on the same inputs.

    Attributes:
        count: of the inputs.
        accuracy: share that the network labels rightly in the clear; None without labels.
        outside: inputs on which a value leaves the range that the program was planned for.
        errors: of the scores, and the share of inputs whose largest score is that of the clear network, on all other
            inputs; None where there are none.
    """

    count: int
    accuracy: float | None
    outside: int
    errors: SampledErrors | None

    def __str__(self) -> str:
        rows = [
            ("inputs", f"{self.count}, {self.outside} of them outside of the ranges that were planned"),
            ("right in the clear", "not known" if self.accuracy is None else f"{self.accuracy:.1%}"),
        ]
        if self.errors is not None:
            found = self.errors
            rows += [
                ("labelled as in the clear", f"{found.agreement:.1%} of simulated runs"),
                ("approximation", f"at most {found.approximation:.2g}, rms {found.approximation_rms:.2g}"),
                ("noise", f"at most {found.noise:.2g}, rms {found.noise_rms:.2g}"),
            ]
        return "\n".join(f"{name:<26}{text}" for name, text in rows)


@dataclass(frozen=True)
class TrainedNetwork:
    """A trained network, as `from_onnx` reads it.

    Attributes:
        shape: of one input.
        steps: its layers, in an order in which they can be computed.
        left_out: operators at the end that the client computes: a softmax, the largest score.

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
        return np.asarray(self._computed(given, lambda layer, inputs: layer.clear(*inputs)))

    def encrypted(self, x: Expression, *, degree: int = DEGREE) -> Expression:
        """The scores of an encrypted input, to be part of a program.

        Args:
            x: a node of the network's shape.
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
        degree: int = DEGREE,
        **options: Any,
    ) -> Program:
        """Plan the network for one encrypted input, which is the operand "x".

        Args:
            samples: inputs (n, …) like those to come, by which ranges and errors are found: see `compile`. Without
                them these are bounds, which grow from layer to layer.
            bound: on the absolute value of an entry; by default the largest of the samples times the slack, or 1.
            degree: as of `encrypted`.
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
            bound = (float(np.abs(samples).max()) * beyond or 1.0) if bound is None else bound
        operand = secret(*self.shape, bound=1.0 if bound is None else bound)
        return compile(lambda x: self.encrypted(x, degree=degree), {INPUT: operand}, **options)

    def check(self, program: Program, values: Any, labels: Any = None) -> NetworkCheck:
        """Compare the network with its program on inputs that it was not planned on; nothing is encrypted.

        Args:
            program: as `compile` made it, or loaded.
            values: inputs (n, …).
            labels: the right classes (n,), if they are known.

        Raises:
            ShapeError: the inputs or labels have another shape.
            RangeError: an input exceeds the program's bound. PrecisionError: errors carry a value out of its range.
        """
        given = self._array(values, "the inputs")
        if given.shape == self.shape:
            raise ShapeError(
                "Inputs are counted by a first axis.", expected=("n", *self.shape), got=given.shape
            )
        scores = self(given).reshape(len(given), -1)
        if labels is not None and np.shape(labels) != (len(given),):
            raise ShapeError(
                "There is one label for each input.", expected=(len(given),), got=np.shape(labels)
            )
        right = None if labels is None else float(np.mean(scores.argmax(axis=1) == np.asarray(labels)))
        inside = [all(one.inside for one in program.check({INPUT: value})) for value in given]
        found: Any = program.simulate({INPUT: given[inside]}) if any(inside) else None
        return NetworkCheck(len(given), right, inside.count(False), found)

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
        rows = [("input", "", _shape_text(self.shape))]
        rows += [(step.name, str(step.layer), _shape_text(step.shape)) for step in self.steps]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        lines = [
            f"{name:<{widths[0]}}  {layer:<{widths[1]}}  {shape}".rstrip() for name, layer, shape in rows
        ]
        lines += [f"left to the client: {', '.join(self.left_out)}"] if self.left_out else []
        return "\n".join(lines)


def _shape_text(shape: Shape) -> str:
    return "x".join(map(str, shape))
