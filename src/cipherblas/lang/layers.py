"""The operations of networks beside products: convolutions, means, flattening, and bounds that are promised.

Shapes and conventions are PyTorch's: an image is (channels, height, width), several have a first axis for their number,
filters are OIHW.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.arrays import real_number, shape_text
from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.lang.nodes import Expression, column_shape, operation
from cipherblas.lang.operands import BOUND_RANGE, MAX_LENGTH, checked_bound
from cipherblas.lang.operations import Constant, arranged
from cipherblas.lang.steps import Step
from cipherblas.lang.windows import Window

IMAGES = 3, 4  # dimensions of an image, and of several
PAIR = schema.listed(schema.integer(0, MAX_LENGTH), 2, 2)


@operation
class Conv2d(Expression):
    """The convolution (cross-correlation) of an image with clear filters."""

    op = "conv2d"
    layer = True
    window: Window
    inputs = 2
    fields: ClassVar = {"stride": PAIR, "padding": PAIR, "groups": schema.integer(1, MAX_LENGTH)}

    def __init__(
        self,
        image: Expression,
        weights: Expression,
        stride: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0),
        groups: int = 1,
    ) -> None:
        shape = _image_shape(image)
        if len(weights.shape) != 4:
            raise ShapeError(
                "The filters of a convolution need four dimensions.",
                expected="(outputs, inputs, height, width)",
                got=shape_text(weights.shape),
            )
        if weights.secret:
            raise ParameterError(
                "The filters of a convolution must be clear; encrypted filters are not supported.",
                advice="an array of NumPy, or cb.public(outputs, inputs, height, width)",
            )
        outputs, depth, *kernel = weights.shape
        self.window = Window.of_images(
            *(shape, outputs, (kernel[0], kernel[1])),
            *((stride[0], stride[1]), (padding[0], padding[1]), groups),
        )
        if weights.shape != self.window.weight_shape:
            raise ShapeError(
                f"The filters do not fit {shape[-3]} channels in {groups} group{'s' if groups != 1 else ''}.",
                got=shape_text(weights.shape),
                advice=f"filters of shape {self.window.weight_shape}",
            )
        self.image, self.weights = image, weights
        total = depth * math.prod(kernel) * weights.bound
        if isinstance(weights, Constant):
            total = weights.row_sum
        shape = _as_images(shape, self.window.out_shape)
        super().__init__(shape, image.secret, total * image.bound, image, weights)

    @property
    def parameters(self) -> dict[str, Any]:
        window = self.window
        groups = window.groups // window.images
        return {"stride": list(window.stride), "padding": list(window.padding), "groups": groups}

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        window = self.window
        filters = np.split(parts[1], window.groups // window.images) * window.images
        views = _windows(parts[0], window)
        # (groups, inputs, height, width, taps) and (groups, outputs, inputs, taps)
        found = [
            np.tensordot(weights, view, axes=([1, 2, 3], [0, 3, 4]))
            for weights, view in zip(filters, np.split(views, window.groups), strict=True)
        ]
        return (found[0] if len(found) == 1 else np.concatenate(found)).reshape(self.shape)


@operation
class AvgPool2d(Expression):
    """The mean over windows of every channel; padding counts as zeros (PyTorch's default).

    Attributes:
        divisor: of sums over windows: their size, or another one that was given.
    """

    op = "avg_pool2d"
    layer = True
    window: Window
    fields: ClassVar = {"kernel": PAIR, "stride": PAIR, "padding": PAIR}
    optional: ClassVar = {"divisor": schema.integer(1, MAX_LENGTH)}

    def __init__(
        self,
        image: Expression,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int] = (0, 0),
        divisor: int | None = None,
    ) -> None:
        shape = _image_shape(image)
        self.window = Window.of_images(
            *(shape, shape[-3], (kernel[0], kernel[1])),
            *((stride[0], stride[1]), (padding[0], padding[1]), shape[-3]),
        )
        if any(2 * pad > taps for pad, taps in zip(self.window.padding, self.window.kernel, strict=True)):
            raise ShapeError(
                "The padding of a pooling window must be at most half of it.",
                got=tuple(padding),
                advice=f"padding={tuple(taps // 2 for taps in self.window.kernel)} at most",
            )
        self.image = image
        taps = math.prod(self.window.kernel)
        self.divisor = taps if divisor is None else divisor
        if not 1 <= self.divisor <= MAX_LENGTH:
            raise ParameterError(
                "The divisor of a mean is out of range.",
                expected=f"1 to {MAX_LENGTH}",
                got=divisor,
                advice="divisor_override=1, for sums",
            )
        self._gain = taps / self.divisor
        bound = image.bound * self._gain
        super().__init__(_as_images(shape, self.window.out_shape), image.secret, bound, image)

    @property
    def parameters(self) -> dict[str, Any]:
        window = self.window
        divisor = {} if self._gain == 1 else {"divisor": self.divisor}
        return {
            "kernel": list(window.kernel),
            "stride": list(window.stride),
            "padding": list(window.padding),
            **divisor,
        }

    def integral(self, parts: Sequence[bool]) -> bool:
        return self.divisor == 1 and parts[0]

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        windows = _windows(parts[0], self.window)
        found = windows.mean(axis=(3, 4)) if self._gain == 1 else windows.sum(axis=(3, 4)) / self.divisor
        return np.asarray(found).reshape(self.shape)

    def log_unit(self, parts: Sequence[float]) -> float:
        return parts[0] + math.log2(self._gain)


@operation
class Flatten(Expression):
    """An image as a vector: channel after channel, row after row; several as a matrix, whose rows they are."""

    op = "flatten"
    layer = True

    def __init__(self, image: Expression) -> None:
        self.image = image
        *count, channels, height, width = _image_shape(image)
        super().__init__((*count, channels * height * width), image.secret, image.bound, image)

    def as_column(self, parts: Sequence[Expression]) -> Expression:
        return arranged(parts[0], Step("reshape", column_shape(self.shape)))

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return parts[0].reshape(self.shape)

    def log_unit(self, parts: Sequence[float]) -> float:
        return parts[0]


def _within(bounds: NDArray[np.float64] | None, more: float, bound: float) -> NDArray[np.float64] | None:
    return None if bounds is None else np.minimum(bounds + more, bound)


class Same(Expression):
    """The values of its child, or off them by what its bound is larger."""

    def __init__(self, shape: tuple[int, ...], secret: bool, bound: float, x: Expression) -> None:
        super().__init__(shape, secret, bound, x)
        more = max(0.0, bound - x.bound)
        self._bounds = _within(x.column_bounds, more, bound), _within(x.row_bounds, more, bound)

    @functools.cached_property
    def row_sum(self) -> float:
        return min(super().row_sum, self.children[0].row_sum)

    @functools.cached_property
    def column_sum(self) -> float:
        return min(super().column_sum, self.children[0].column_sum)

    @functools.cached_property
    def norm(self) -> float:
        return min(super().norm, self.children[0].norm)

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return parts[0]

    def gain(self, position: int) -> float:
        return 1.0

    def log_unit(self, parts: Sequence[float]) -> float:
        return parts[0]


@operation
class Assume(Same):
    """The same values, with a smaller bound that the user promises, of what is computed, and perhaps an error."""

    op = "assume"
    fields: ClassVar = {"bound": schema.number(*BOUND_RANGE)}
    optional: ClassVar = {"error": schema.number(*BOUND_RANGE)}

    def __init__(self, x: Expression, bound: float, error: float | None = None) -> None:
        self.x = x
        self.promised_error = None if error is None else checked_bound(error)
        super().__init__(x.shape, x.secret, min(bound, x.bound), x)

    @property
    def parameters(self) -> dict[str, Any]:
        error = {} if self.promised_error is None else {"error": self.promised_error}
        return {"bound": self.bound, **error}

    def missed_of(self, parts: Sequence[float]) -> float:
        """Return the promised error, which is that of the encrypted value: errors of encryption begin anew there."""
        return parts[0] if self.promised_error is None else self.promised_error

    def _transpose(self) -> Expression:
        return Assume(self.x.T, self.bound, self.promised_error)

    def arranged(self, step: Any) -> Expression:
        return Assume(arranged(self.x, step), self.bound, self.promised_error)


@operation
class Truncated(Same):
    """The same values: what is left of a sum whose other terms add up to at most `error`."""

    op = "truncated"
    fields: ClassVar = {"error": schema.number(*BOUND_RANGE)}

    def __init__(self, x: Expression, error: float) -> None:
        self.x, self.error = x, checked_bound(real_number(error))
        super().__init__(x.shape, x.secret, x.bound + self.error, x)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"error": self.error}

    def _transpose(self) -> Expression:
        return Truncated(self.x.T, self.error)

    def arranged(self, step: Any) -> Expression:
        return Truncated(arranged(self.x, step), self.error)


def _windows(image: NDArray[np.float64], window: Window) -> NDArray[np.float64]:
    """Every window of padded images: (channels of all, H', W', K1, K2)."""
    (pad_h, pad_w), (step_h, step_w) = window.padding, window.stride
    padded = np.pad(image.reshape(window.shape), ((0, 0), (pad_h, pad_h), (pad_w, pad_w)))
    views = np.lib.stride_tricks.sliding_window_view(padded, window.kernel, axis=(1, 2))
    return np.asarray(views[:, ::step_h, ::step_w])


def _image_shape(image: Expression) -> tuple[int, ...]:
    """The shape of one image, or of several."""
    if len(image.shape) not in IMAGES:
        raise ShapeError("An image needs three dimensions, several four.", got=shape_text(image.shape))
    return image.shape


def _as_images(images: tuple[int, ...], shape: tuple[int, int, int]) -> tuple[int, ...]:
    """The shape of a result, whose channels are those of all images."""
    if len(images) == len(shape):
        return shape
    return images[0], shape[0] // images[0], *shape[1:]
