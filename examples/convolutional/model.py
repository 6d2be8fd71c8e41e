"""A convolutional network with squares: convolution, squares, a full layer, squares, a full layer; in the clear."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from classification.images import LabelledImages
from classification.models import Matrix

KERNEL, STRIDE, PADDING = 5, 2, 2


@dataclass(frozen=True)
class Network:
    """scores = W2·(W1·flatten((filters * image + b0)²) + b1)² + b2, * the convolution with stride 2 and padding 2.

    Attributes:
        parameters: as `forward` takes them, float64.
    """

    parameters: tuple[Matrix, ...]

    @property
    def channels(self) -> int:
        return len(self.parameters[1])

    @property
    def hidden(self) -> int:
        """Units of the layer behind the convolution."""
        return len(self.parameters[3])

    @property
    def filters(self) -> Matrix:
        """Channels × 1 × 5 × 5."""
        found: Matrix = self.parameters[0].T.reshape(-1, 1, KERNEL, KERNEL)
        return found

    @property
    def hidden_weights(self) -> Matrix:
        """Hidden × (channels · places): the order in which an image is flattened."""
        by_place = self.parameters[2].reshape(-1, self.channels, self.hidden)
        found: Matrix = by_place.transpose(2, 1, 0).reshape(self.hidden, -1)
        return found

    def layers(self, images: LabelledImages) -> tuple[Matrix, Matrix, Matrix]:
        """What is squared first, what is squared then, the scores; images first, in the clear."""
        found: tuple[Matrix, Matrix, Matrix] = forward(self.parameters, patches(pictures(images)))
        return found


def forward(parameters: Sequence[Any], windows: Any) -> Any:
    """The three layers of a batch, for NumPy's arrays and for those of a differentiating library alike.

    Args:
        parameters: 25 × channels, channels; (places · channels) × hidden, hidden; hidden × 10, 10.
        windows: as `patches` makes them.
    """
    taps, filter_biases, hidden_weights, hidden_biases, weights, biases = parameters
    first = windows @ taps + filter_biases
    hidden = (first * first).reshape((len(windows), -1)) @ hidden_weights + hidden_biases
    return first, hidden, (hidden * hidden) @ weights + biases


def pictures(images: LabelledImages) -> Matrix:
    """Images × rows × columns."""
    return np.ascontiguousarray(images.pixels.T).reshape(-1, *images.side)


def patches(batch: NDArray[Any]) -> NDArray[Any]:
    """The windows of a convolution as rows: images × places × 25. A mid grey is 0, and so is the padding."""
    padded = np.pad(batch, ((0, 0), (PADDING, PADDING), (PADDING, PADDING)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (KERNEL, KERNEL), axis=(1, 2))
    chosen = views[:, ::STRIDE, ::STRIDE]
    return np.ascontiguousarray(chosen).reshape(len(batch), -1, KERNEL * KERNEL)


def places(side: tuple[int, int]) -> int:
    """Windows of an image."""
    return math.prod((length + 2 * PADDING - KERNEL) // STRIDE + 1 for length in side)
