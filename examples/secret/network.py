"""A convolution, a square, a layer, a square, a layer: without biases, trained in the clear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from classification.images import CLASSES, LabelledImages

Array = NDArray[Any]
GRID = 4  # windows of the convolution along a side, one beside the other
CHANNELS, HIDDEN = 4, 16
BATCH, EPOCHS, RATE, DECAY = 64, 120, 1e-2, 2e-3  # of the training
FIRST_MOMENT, SECOND_MOMENT, TINY = 0.9, 0.999, 1e-8  # of Adam
LARGEST = 1.0  # weight: bounds of encrypted ones are known before any is


def as_it_is(value: Any, stage: int) -> Any:
    """What may be said of values on the way: nothing."""
    return value


@dataclass(frozen=True)
class Network:
    """Weights: filters, pixels of a window × channels; hidden, windows × channels × units; last, units × 10.

    Attributes:
        layer: the hidden one: from squares, as the convolution leaves them, and weights to images × units.
        sums: bounds on the absolute values in a column of each, where they are known before the weights are.
    """

    filters: Array
    hidden: Array
    last: Array
    layer: Callable[[Any, Any], Any]
    sums: tuple[float, ...] = ()

    @property
    def weights(self) -> tuple[Array, Array, Array]:
        """All of them, in their order."""
        return self.filters, self.hidden, self.last

    def scores(
        self, x: Any, filters: Any, hidden: Any, last: Any, said: Callable[[Any, int], Any] = as_it_is
    ) -> Any:
        """images × 10, of arrays or of encrypted matrices.

        Args:
            x: pixels of the windows of images.
            said: of the products, which are numbered, what is known.
        """
        first = said(x @ filters, 0)
        then = said(self.layer(first * first, hidden), 1)
        return said((then * then) @ last, 2)

    def clear_scores(self, x: Array) -> Array:
        """With its own weights."""
        return np.asarray(self.scores(x, *self.weights))


def windows(images: LabelledImages) -> Array:
    """Windows of images, side by side: windows × images × pixels of one.

    What a side has beyond four windows is left out.
    """
    rows, cols = (length // GRID for length in images.side)
    pictures = images.pixels.T.reshape(-1, *images.side)[:, : GRID * rows, : GRID * cols]
    cut = pictures.reshape(-1, GRID, rows, GRID, cols)
    return np.ascontiguousarray(cut.transpose(1, 3, 0, 2, 4).reshape(GRID * GRID, -1, rows * cols))


def hidden_layer(squares: Any, hidden: Any) -> Any:
    """images × units.

    Args:
        squares: windows × images × channels.
    """
    return (squares @ hidden).sum(axis=0)


def train(images: LabelledImages, seed: int = 0) -> Network:
    """Cross-entropy by Adam (Kingma and Ba 2015).

    Args:
        seed: of the first weights and of the order of the images.
    """
    random, x, targets = np.random.default_rng(seed), windows(images), np.eye(CLASSES)[images.digits]
    places, count, pixels = x.shape
    parameters = [
        random.normal(0, (4 / pixels) ** 0.5, (pixels, CHANNELS)),
        random.normal(0, (1 / (places * CHANNELS)) ** 0.5, (places, CHANNELS, HIDDEN)),
        random.normal(0, (1 / HIDDEN) ** 0.5, (HIDDEN, CLASSES)),
    ]
    moments = [(np.zeros_like(values), np.zeros_like(values)) for values in parameters]
    steps, step = EPOCHS * -(-count // BATCH), 0
    for _ in range(EPOCHS):
        order = random.permutation(count)
        for start in range(0, count, BATCH):
            chosen, step = order[start : start + BATCH], step + 1
            rate = RATE * (1 - (step - 1) / steps)
            for values, gradient, (first, second) in zip(
                parameters, gradients(parameters, x[:, chosen], targets[chosen]), moments, strict=True
            ):
                first += (1 - FIRST_MOMENT) * (gradient - first)
                second += (1 - SECOND_MOMENT) * (gradient**2 - second)
                spread = np.sqrt(second / (1 - SECOND_MOMENT**step)) + TINY
                values -= rate * first / (1 - FIRST_MOMENT**step) / spread
                np.clip(values, -LARGEST, LARGEST, out=values)
    filters, hidden, last = parameters
    return Network(filters, hidden, last, hidden_layer)


def gradients(parameters: list[Array], x: Array, targets: Array) -> list[Array]:
    """Of the mean cross-entropy plus DECAY/2 times the squared weights."""
    filters, hidden, last = parameters
    first = x @ filters
    squares = first * first
    then = (squares @ hidden).sum(axis=0)
    found = (then * then) @ last
    shares = np.exp(found - found.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    back = (shares - targets) / len(targets)
    of_last = (then * then).T @ back
    back = 2 * then * (back @ last.T)
    of_hidden = squares.transpose(0, 2, 1) @ back
    back = 2 * first * (back @ hidden.transpose(0, 2, 1))
    of_filters = (x.transpose(0, 2, 1) @ back).sum(axis=0)
    return [
        of_filters + DECAY * filters,
        of_hidden + DECAY * hidden,
        of_last + DECAY * last,
    ]
