"""Channels of a network in numbers of one size: a polynomial errs by as much for all of them, and noise is as large.

ReLU and its kin, means, sums and maxima commute with positive factors of channels. So a convolution in front may
multiply each of its channels by a number, and one behind divide by it: the scores stay what they are, and channels of
small numbers are no smaller than others where a function reads them.
Source: Nagel, van Baalen, Blankevoort, Welling, ICCV 2019, section 4.1, where channels are equalised for quantisation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cipherblas.networks.layers import (
    Activation,
    Array,
    Convolution,
    Dense,
    Flattened,
    Layer,
    NetworkStep,
    Pooling,
    Raised,
    Scaled,
    Shape,
    SignedSum,
)
from cipherblas.networks.maxima import MaxPooling

# How far channels are brought together: the rest is room for entries that exceed those of the samples.
POWER = 0.6
LEAST = 1 / 16  # of the largest channel's numbers, that others are taken to have
TRIED = np.linspace(-4.0, 4.0, 33)


def equalised(
    shape: Shape, steps: Sequence[NetworkStep], largest: Mapping[int, Array], kept: Collection[int] = ()
) -> tuple[NetworkStep, ...]:
    """The steps of a network with the same scores, whose functions read channels of about the same size.

    Args:
        shape: of an input of the network.
        steps: its layers.
        largest: of values that functions read, by their numbers, the largest absolute value of each channel.
        kept: numbers of values that stay what they are.
    """
    groups = _Groups(len(steps) + 1)
    held = {0, len(steps), *kept}
    for number, step in enumerate(steps, 1):
        if _commutes(step.layer):
            for one in step.inputs:
                groups.join(one, number)
        elif not isinstance(step.layer, (Convolution, Dense)):
            held |= {number, *step.inputs}
    factors = _factors([shape, *(step.shape for step in steps)], groups, largest, held)
    found = []
    for number, step in enumerate(steps, 1):
        layer = step.layer
        if isinstance(layer, (Convolution, Dense)):
            layer = layer.between(factors[step.inputs[0]], factors[number])
        found.append(replace(step, layer=layer))
    return tuple(found)


def is_read_by_channels(layer: Layer) -> bool:
    """Whether a layer is a function whose argument may be equalised."""
    return isinstance(layer, Activation) and _commutes(layer)


def _commutes(layer: Layer) -> bool:
    """With positive factors of channels."""
    if isinstance(layer, Activation):
        try:
            with np.errstate(all="ignore"):  # a logarithm does not commute
                found: Any = layer.function(TRIED)
                return np.shape(found) == TRIED.shape and all(
                    np.allclose(layer.function(factor * TRIED), factor * found, rtol=1e-9, atol=0.0)
                    for factor in (0.3, 5.0)
                )
        except ValueError:  # numbers of its own for each channel
            return False
    if isinstance(layer, Scaled):
        return not np.any(layer.more)
    return isinstance(layer, (Pooling, MaxPooling, Flattened, Raised, SignedSum))


class _Groups:
    """Values whose channels have the same factors."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def of(self, value: int) -> int:
        while self._parents[value] != value:
            value = self._parents[value]
        return value

    def join(self, one: int, other: int) -> None:
        self._parents[self.of(other)] = self.of(one)


def _factors(
    shapes: Sequence[Shape], groups: _Groups, largest: Mapping[int, Array], held: Collection[int]
) -> list[Array]:
    """Of the channels of each value."""
    still = {groups.of(value) for value in held}
    count = {groups.of(value): shape[0] for value, shape in enumerate(shapes)}
    for value, shape in enumerate(shapes):  # a flattened image has its channels' factors
        count[groups.of(value)] = min(count[groups.of(value)], shape[0])
    size = {group: np.zeros(channels) for group, channels in count.items()}
    for value, own in largest.items():
        group = groups.of(value)
        most = own.max()
        if most > 0:
            shares = own.reshape(count[group], -1).max(axis=1) / most
            size[group] = np.maximum(size[group], shares)
    found = []
    for value, shape in enumerate(shapes):
        group = groups.of(value)
        own = size[group]
        if group in still or not own.any():
            own = np.ones(count[group])
        found.append(np.repeat(np.maximum(own, LEAST) ** -POWER, shape[0] // count[group]))
    return found
