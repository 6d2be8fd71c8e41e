"""Samples of the operands, which a program is run on while it is written: the ranges that its values have.

A bound that holds for every input multiplies from step to step, and is soon far above what inputs of one kind give.
While samples are watched, every node that is made is computed on all of them; where the largest value times `slack` is
below the bound that the node has by itself, the node is taken with that bound (`cb.assume`). Functions are then
approximated on the ranges that their arguments have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import finite_array, real_array, shape_text
from cipherblas.common.errors import DTypeError, MismatchError, RangeError, ShapeError
from cipherblas.lang.layers import Assume
from cipherblas.lang.nodes import WATCHER, Expression
from cipherblas.lang.operands import BOUND_RANGE, IMAGE_DIMENSIONS, Operand

Arrays = list[NDArray[np.float64]]  # one for each sample, or one for all where it is the same
WORTH = 0.9  # of the bound that a node has by itself: a measured one above that share changes little


class Samples:
    """Values of all operands, some of each.

    Args:
        values: name → array whose first axis counts the samples; an array of the operand's own shape is one sample.
        operands: what they are samples of.
        slack: by which entries of other inputs may exceed those of the samples.

    Attributes:
        batched: each sample of an operand is one of several images.

    Raises:
        MismatchError: an operand has no samples, or another number of them.
        ShapeError, DTypeError, RangeError: of the arrays.
    """

    def __init__(self, values: Any, operands: Mapping[str, Operand], slack: float) -> None:
        self.batched = any(len(one.shape) > IMAGE_DIMENSIONS for one in operands.values() if one.secret)
        if not isinstance(values, Mapping):
            raise DTypeError(
                "Samples are given by the names of the operands.",
                got=type(values).__name__,
                advice=f"samples={{{', '.join(f'{name!r}: …' for name in operands)}}}",
            )
        if set(values) != set(operands):
            raise MismatchError(
                "Samples are needed of every operand of the program.",
                got=", ".join(map(str, values)) or "none",
                advice=f"samples={{{', '.join(f'{name!r}: …' for name in operands)}}}",
            )
        self.slack = slack
        self.values = {name: _of_operand(name, values[name], operand) for name, operand in operands.items()}
        numbers = {name: len(found) for name, found in self.values.items()}
        self.count = max(numbers.values())
        for name, number in numbers.items():
            if number not in (1, self.count):
                raise MismatchError(
                    "The operands have different numbers of samples.",
                    got=f"{number} of {name!r}",
                    advice=f"{self.count} of {name!r}, or one for all",
                )
        self._known: dict[int, tuple[Expression, Arrays]] = {}
        self._as_bounded = False

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Nodes that are made are computed, and have the bounds that were measured."""
        token = WATCHER.set(self)
        try:
            yield
        finally:
            WATCHER.reset(token)

    def sample(self, number: int) -> dict[str, NDArray[np.float64]]:
        """One sample of each operand."""
        return {name: found[number if len(found) > 1 else 0] for name, found in self.values.items()}

    @contextlib.contextmanager
    def as_bounded(self) -> Iterator[None]:
        """See `as_bounded`."""
        before, self._as_bounded = self._as_bounded, True
        try:
            yield
        finally:
            self._as_bounded = before

    def made(self, node: Expression) -> Expression:
        """The node, or the same with the bound that was measured."""
        if node.root:
            return node
        with np.errstate(all="ignore"):
            values = self._computed(node)
        self._known[id(node)] = node, values
        if not node.secret or node.packable or self._as_bounded or isinstance(node, Assume):
            return node
        largest = max(float(np.abs(value).max()) for value in values)
        if not np.isfinite(largest):
            raise RangeError(
                f"The program leaves the range of numbers on the samples at {node.title}.",
                advice="samples for which the program gives finite values in NumPy",
            )
        bound = max(self.slack * largest, BOUND_RANGE[0])
        if largest == 0 or bound > WORTH * node.bound:
            return node
        return Assume(node, bound)  # which is made as any node, with the same values

    def _computed(self, node: Expression) -> Arrays:
        if node.operand is not None:
            return [self._operand(node, given) for given in self.values[node.name]]
        parts = [self._known[id(child)][1] for child in node.children]
        count = max((len(part) for part in parts), default=1)
        return [np.asarray(node.evaluate([_at(part, number) for part in parts])) for number in range(count)]

    @staticmethod
    def _operand(node: Expression, given: NDArray[np.float64]) -> NDArray[np.float64]:
        assert node.operand is not None
        value = given.reshape(node.operand.shape)
        for step in node.steps:
            value = step(value)
        return value.T if node.transposed else value


@contextlib.contextmanager
def as_bounded() -> Iterator[None]:
    """Nodes that are made keep the bounds that they have by themselves, whatever the samples are."""
    watch = WATCHER.get()
    with watch.as_bounded() if isinstance(watch, Samples) else contextlib.nullcontext():
        yield


def within(x: Expression, bound: float) -> Expression:
    """The values with a bound that is promised, in the place of one that was measured."""
    own = x.x if isinstance(x, Assume) else x
    return Assume(own, bound) if bound < own.bound else own


def _at(arrays: Arrays, number: int) -> NDArray[np.float64]:
    return arrays[number if len(arrays) > 1 else 0]


def _of_operand(name: str, values: Any, operand: Operand) -> NDArray[np.float64]:
    """Samples of one operand: the number of them, then its shape."""
    dimensions = len(operand.shape)
    array = real_array(values, f"samples of {name!r}")
    found = finite_array(array.reshape(-1), f"samples of {name!r}", (1,)).reshape(array.shape)
    found = found[np.newaxis] if found.ndim == dimensions else found
    if found.shape[1:] != operand.shape or not len(found):
        raise ShapeError(
            f"The samples of {name!r} have another shape than the operand.",
            got=shape_text(found.shape),
            advice=f"an array of shape ({', '.join(('number of samples', *map(str, operand.shape)))})",
        )
    found = operand.normalised(found)
    operand.check_range(name, found)
    return found
