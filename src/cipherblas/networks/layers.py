"""The layers that networks are made of: each on batches of arrays, and on an encrypted image or vector.

Whatever is linear and local is a `Convolution`: batch norms, strides of slices, channels of zeros, joins of channels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.lang.approximation import chebyshev
from cipherblas.lang.functions import avg_pool2d, conv2d, flatten
from cipherblas.lang.nodes import Expression

Array = NDArray[np.float64]
Pair = tuple[int, int]
Shape = tuple[int, ...]


class Layer(ABC):
    """One step of a network. Shapes are those of one image (C, H, W) or vector (F,), without the batch."""

    @abstractmethod
    def shape(self, *shapes: Shape) -> Shape:
        """The shape of the result, of inputs of these shapes."""

    @abstractmethod
    def clear(self, *values: Array) -> Array:
        """The result for a batch, by NumPy: the first axis counts images."""

    @abstractmethod
    def encrypted(self, *values: Expression) -> Expression:
        """The result for one encrypted input, or for several that a first axis counts."""

    def __str__(self) -> str:
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Convolution(Layer):
    """Filters (O, C/groups, K1, K2) and a bias (O,); pads are zeros before and after the image, of height and width."""

    weights: Array
    bias: Array
    stride: Pair = (1, 1)
    pads: tuple[Pair, Pair] = ((0, 0), (0, 0))
    groups: int = 1

    def shape(self, *shapes: Shape) -> Shape:
        (_, *sizes), kernel = shapes[0], self.weights.shape[2:]
        steps = zip(sizes, self.pads, kernel, self.stride, strict=True)
        return len(self.weights), *((size + sum(pads) - k) // step + 1 for size, pads, k, step in steps)

    def clear(self, *values: Array) -> Array:
        kernel, (down, right), groups = self.weights.shape[2:], self.stride, self.groups
        padded = np.pad(values[0], ((0, 0), (0, 0), *self.pads))
        windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))
        windows = windows[:, :, ::down, ::right]
        count, _, height, width = windows.shape[:4]
        # One matrix product a group: rows are places, columns what a filter reads.
        read = windows.reshape(count, groups, -1, height, width, *kernel).transpose(1, 0, 3, 4, 2, 5, 6)
        read = read.reshape(groups, count * height * width, -1)
        filters = self.weights.reshape(groups, len(self.weights) // groups, -1).transpose(0, 2, 1)
        found = (read @ filters).reshape(groups, count, height, width, -1).transpose(1, 0, 4, 2, 3)
        return np.asarray(found.reshape(count, -1, height, width) + self.bias[:, None, None])

    def encrypted(self, *values: Expression) -> Expression:
        # Zeros around the filters stand for what one side is padded by more than the other.
        more = [(max(after - before, 0), max(before - after, 0)) for before, after in self.pads]
        weights = np.pad(self.weights, ((0, 0), (0, 0), *more))
        padding = tuple(max(pads) for pads in self.pads)
        bias = self.bias if self.bias.any() else None
        return conv2d(values[0], weights, bias, stride=self.stride, padding=padding, groups=self.groups)

    @property
    def pointwise(self) -> bool:
        """Whether every entry of the result is made of channels of one pixel."""
        return self.weights.shape[2:] == (1, 1) and self.pads == ((0, 0), (0, 0)) and self.groups == 1

    def scaled(self, factors: Array, more: Array) -> Convolution:
        """The same, with its channels multiplied by numbers and others added: a batch norm behind it."""
        return replace(
            self, weights=self.weights * factors[:, None, None, None], bias=self.bias * factors + more
        )

    def between(self, before: Array, after: Array) -> Convolution:
        """The same for channels that come multiplied by numbers, with others by which its own are multiplied."""
        filters = len(self.weights) // self.groups
        divided = np.repeat(before.reshape(self.groups, -1), filters, axis=0)
        weights = self.weights / divided[:, :, None, None] * after[:, None, None, None]
        return replace(self, weights=weights, bias=self.bias * after)

    def after(self, first: Convolution) -> Convolution:
        """One pointwise convolution for two."""
        own, before = self.weights[:, :, 0, 0], first.weights[:, :, 0, 0]
        stride = first.stride[0] * self.stride[0], first.stride[1] * self.stride[1]
        return Convolution((own @ before)[:, :, None, None], own @ first.bias + self.bias, stride)

    def __str__(self) -> str:
        outputs, inputs, height, width = self.weights.shape
        text = f"conv {inputs * self.groups} to {outputs}, {height}x{width}"
        text += "" if self.stride == (1, 1) else f", stride {pair_text(self.stride)}"
        return text + ("" if self.groups == 1 else f", {self.groups} groups")


@dataclass(frozen=True)
class Pooling(Layer):
    """Means over windows, without padding."""

    kernel: Pair
    stride: Pair

    def shape(self, *shapes: Shape) -> Shape:
        channels, *sizes = shapes[0]
        steps = zip(sizes, self.kernel, self.stride, strict=True)
        return channels, *((size - k) // step + 1 for size, k, step in steps)

    def clear(self, *values: Array) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(values[0], self.kernel, axis=(2, 3))
        return np.asarray(windows[:, :, :: self.stride[0], :: self.stride[1]].mean(axis=(4, 5)))

    def encrypted(self, *values: Expression) -> Expression:
        return avg_pool2d(values[0], self.kernel, self.stride)

    def __str__(self) -> str:
        return f"means of {pair_text(self.kernel)}"


@dataclass(frozen=True)
class Dense(Layer):
    """Weights (O, F) times a vector, and a bias (O,)."""

    weights: Array
    bias: Array

    def shape(self, *shapes: Shape) -> Shape:
        return (len(self.weights),)

    def clear(self, *values: Array) -> Array:
        return np.asarray(values[0] @ self.weights.T + self.bias)

    def between(self, before: Array, after: Array) -> Dense:
        """The same layer for features that come multiplied by numbers, as of a convolution."""
        return Dense(self.weights / before * after[:, None], self.bias * after)

    def encrypted(self, *values: Expression) -> Expression:
        x: Any = values[0]
        found: Any = self.weights @ x if len(x.shape) == 1 else x @ self.weights.T
        result: Expression = found + self.bias if self.bias.any() else found
        return result

    def __str__(self) -> str:
        return f"dense {self.weights.shape[1]} to {len(self.weights)}"


@dataclass(frozen=True)
class Flattened(Layer):
    """An image as a vector."""

    def shape(self, *shapes: Shape) -> Shape:
        return (int(np.prod(shapes[0])),)

    def clear(self, *values: Array) -> Array:
        return values[0].reshape(len(values[0]), -1)

    def encrypted(self, *values: Expression) -> Expression:
        return flatten(values[0])


@dataclass(frozen=True)
class Raised(Layer):
    """Channels of one dimension (C, L) as an image of height 1."""

    def shape(self, *shapes: Shape) -> Shape:
        channels, length = shapes[0]
        return channels, 1, length

    def clear(self, *values: Array) -> Array:
        return values[0][:, :, None, :]

    def encrypted(self, *values: Expression) -> Expression:
        *count, channels, length = values[0].shape
        found: Expression = values[0].reshape(*count, *self.shape((channels, length)))
        return found

    def __str__(self) -> str:
        return "as an image of height 1"


class Nonlinear(Layer):
    """A layer that polynomials stand for.

    Attributes:
        name: of the operator.
        degree: of the polynomials.
    """

    name: str
    degree: int

    def of_degree(self, degree: int) -> Nonlinear:
        """The same, by polynomials of another degree."""
        own: Any = self
        found: Nonlinear = replace(own, degree=degree)
        return found


@dataclass(frozen=True)
class Activation(Nonlinear):
    """A function of every entry, by a polynomial on the range of its argument.

    Attributes:
        name: of the operator.
        function: on arrays.
        degree: of the polynomial.
    """

    name: str
    function: Callable[[Any], Any]
    degree: int = 0

    def shape(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def clear(self, *values: Array) -> Array:
        return np.asarray(self.function(values[0]))

    def encrypted(self, *values: Expression) -> Expression:
        return chebyshev(self.function, values[0], degree=self.degree, name=self.name.lower())

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Scaled(Layer):
    """Every entry times a number, plus a number, or numbers of the result's shape."""

    factor: float
    more: float | Array = 0.0

    def shape(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def clear(self, *values: Array) -> Array:
        return np.asarray(values[0] * self.factor + self.more)

    def encrypted(self, *values: Expression) -> Expression:
        found = values[0] if self.factor == 1.0 else values[0] * self.factor
        return found + self.more if np.any(self.more) else found

    def __str__(self) -> str:
        return f"times {self.factor:.4g}{', plus numbers' * bool(np.any(self.more))}"


@dataclass(frozen=True)
class SignedSum(Layer):
    """Values of one shape, each with its sign."""

    signs: tuple[int, ...]

    def shape(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def _sum(self, values: Sequence[Any]) -> Any:
        total = values[0] if self.signs[0] > 0 else -values[0]
        for value, sign in zip(values[1:], self.signs[1:], strict=True):
            total = total + value if sign > 0 else total - value
        return total

    def clear(self, *values: Array) -> Array:
        return np.asarray(self._sum(values))

    def encrypted(self, *values: Expression) -> Expression:
        found: Expression = self._sum(values)
        return found

    def __str__(self) -> str:
        return "sum" if min(self.signs) > 0 else "difference"


@dataclass(frozen=True)
class Product(Layer):
    """Two values of one shape, entry by entry."""

    def shape(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def clear(self, *values: Array) -> Array:
        return values[0] * values[1]

    def encrypted(self, *values: Expression) -> Expression:
        found: Expression = values[0] * values[1]
        return found


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


def channels_of(known: int, kept: Sequence[int], count: int, stride: Pair = (1, 1)) -> Convolution:
    """The convolution that takes channel i of `known` to channel kept[i] of `count`, and drops it where that is -1."""
    weights = np.zeros((count, known, 1, 1))
    for source, target in enumerate(kept):
        if target >= 0:
            weights[target, source] = 1.0
    return Convolution(weights, np.zeros(count), stride)


def pair_text(pair: Pair) -> str:
    return f"{pair[0]}x{pair[1]}"
