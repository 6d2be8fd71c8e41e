"""Maxima over windows: max(a, b) = a + relu(b - a), along one axis and then along the other.

Maxima of w neighbours give those of up to 2w: a step reads them at two places of the axis. What a step would read
beyond the image it leaves out, so that windows at the border hold the entries of the image alone, as those do that are
padded by -inf. The last step of an axis has its stride.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cipherblas.lang.nodes import Expression
from cipherblas.networks.functions import relu
from cipherblas.networks.layers import Activation, Array, Convolution, Nonlinear, Pair, Shape, pair_text


class Maximum(NamedTuple):
    """A step along an axis: entry t becomes the larger one of those at t·stride and t·stride + offset, where there is
    one at both.

    Attributes:
        read, made: lengths of the axis, before and after.
    """

    offset: int
    stride: int
    read: int
    made: int

    @property
    def pairs(self) -> range:
        """The entries that have two to choose from."""
        if not self.offset:
            return range(0)
        first = -(min(self.offset, 0) // self.stride)
        return range(first, min(self.made, (self.read - 1 - self.offset) // self.stride + 1))

    @property
    def moves(self) -> bool:
        """Whether entries change their places."""
        return (self.read, self.stride) != (self.made, 1)

    def of(self, x: Expression, axis: int, degree: int) -> Expression:
        """The result along the height (axis 0) or width (1) of an image."""
        first = self._sums(x, axis, range(self.made), {0: 1.0}) if self.moves else x
        pairs = self.pairs
        if not pairs:
            return first
        off = self._sums(x, axis, pairs, {0: -1.0, self.offset: 1.0})
        more = Activation("Relu", relu, degree).encrypted(off)
        pads = [(0, 0), (0, 0)]
        pads[axis] = pairs[0], self.made - pairs[-1] - 1
        if any(pads[axis]):
            more = _of_channels(x.shape[-3], np.ones((1, 1)), pads=(pads[0], pads[1])).encrypted(more)
        return first + more

    def _sums(self, x: Expression, axis: int, places: range, weights: dict[int, float]) -> Expression:
        """For every place t of these the sum of entries at t·stride + offset, each times its weight."""
        line = np.zeros(self.read - (len(places) - 1) * self.stride)
        for offset, weight in weights.items():
            line[places[0] * self.stride + offset] = weight
        window, stride = (line[:, None], (self.stride, 1)) if axis == 0 else (line[None], (1, self.stride))
        return _of_channels(x.shape[-3], window, stride).encrypted(x)


def _of_channels(
    channels: int, window: Array, stride: Pair = (1, 1), pads: tuple[Pair, Pair] = ((0, 0), (0, 0))
) -> Convolution:
    """One window for each channel by itself."""
    weights = np.broadcast_to(window, (channels, 1, *window.shape)).copy()
    return Convolution(weights, np.zeros(channels), stride, pads, channels)


def maxima(size: int, kernel: int, stride: int, pads: Pair) -> list[Maximum]:
    """The steps to maxima over windows of one axis."""
    made, found = (size + sum(pads) - kernel) // stride + 1, list[Maximum]()
    # A window is of so many entries before its place, and after it. Over a border it reaches no further than from its
    # place on, so that what is left out there was read before.
    before, after, most = 0, 0, kernel - 1 - pads[0]
    offsets, over = list[int](), (made - 1) * stride + most >= size
    while before < pads[0]:
        offsets.append(-min(before + 1, pads[0] - before))
        before -= offsets[-1]
    while after < most:
        offsets.append(min(after + 1 if over else before + after + 1, most - after))
        after += offsets[-1]
    for place, offset in enumerate(reversed(offsets or [0])):
        read = min(size, (made - 1) * stride + max(offset, 0) + 1)
        found.append(Maximum(offset, stride, read if place + 1 < len(offsets) else size, made))
        made, stride = read, 1
    return found[::-1]


@dataclass(frozen=True)
class MaxPooling(Nonlinear):
    """Maxima over windows; pads are entries beyond the image before and after it, which are never the maximum."""

    kernel: Pair
    stride: Pair
    pads: tuple[Pair, Pair] = ((0, 0), (0, 0))
    name: str = "MaxPool"
    degree: int = 0

    def shape(self, *shapes: Shape) -> Shape:
        channels, *sizes = shapes[0]
        steps = zip(sizes, self.pads, self.kernel, self.stride, strict=True)
        return channels, *((size + sum(pads) - k) // step + 1 for size, pads, k, step in steps)

    def steps(self, shape: Shape) -> list[tuple[int, Maximum]]:
        """Of an image of this shape, with their axes."""
        axes = zip(shape[1:], self.kernel, self.stride, self.pads, strict=True)
        return [(axis, one) for axis, given in enumerate(axes) for one in maxima(*given)]

    def functions(self, shape: Shape) -> int:
        """The number of polynomials that follow one another."""
        return sum(bool(one.pairs) for _, one in self.steps(shape))

    def clear(self, *values: Array) -> Array:
        padded = np.pad(values[0], ((0, 0), (0, 0), *self.pads), constant_values=-np.inf)
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.kernel, axis=(2, 3))
        return np.asarray(windows[:, :, :: self.stride[0], :: self.stride[1]].max(axis=(4, 5)))

    def encrypted(self, *values: Expression) -> Expression:
        found = values[0]
        for axis, one in self.steps(tuple(found.shape[-3:])):
            found = one.of(found, axis, self.degree)
        return found

    def __str__(self) -> str:
        text = "" if self.stride == (1, 1) else f", stride {pair_text(self.stride)}"
        return f"maxima of {pair_text(self.kernel)}{text}"
