"""Two classifiers of images, trained in the clear: a linear one, and one hidden layer of squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import StorageError
from classification.images import CLASSES, PIXEL_BOUND, LabelledImages

Matrix = NDArray[np.float64]

WEIGHT_BOUND = 0.2  # of the square model: a plan's error is relative to the bounds of what is multiplied
REGULARISATION = 0.03  # of the linear model, as scikit-learn counts it: small weights lose less by rounding
BATCH, EPOCHS, RATE, DECAY = 100, 30, 2e-3, 1e-3  # of the training of the square model
FIRST_MOMENT, SECOND_MOMENT, TINY = 0.9, 0.999, 1e-8  # of Adam


@dataclass(frozen=True)
class LinearModel:
    """scores = weights @ pixels + biases.

    Attributes:
        weights: 10 × pixels; where `step` is not 1, whole numbers that are multiplied by it.
        biases: 10 × 1.
        step: what a unit of the weights stands for.
    """

    weights: Matrix
    biases: Matrix
    step: float = 1.0

    def scores(self, pixels: Matrix) -> Matrix:
        """10 × images, in the clear."""
        return self.step * (self.weights @ pixels) + self.biases

    @property
    def bound(self) -> float:
        """On the absolute value of a score, whatever the image."""
        return float(self.step * layer_bound(self.weights, PIXEL_BOUND) + np.abs(self.biases).max())

    def quantised(self) -> LinearModel:
        """The weights rounded to signed bytes with one common step."""
        step = float(np.abs(self.weights).max()) / 127
        return LinearModel(np.rint(self.weights / step), self.biases, step)


@dataclass(frozen=True)
class SquareModel:
    """scores = weights @ (hidden_weights @ pixels + hidden_biases)² + biases, squared entry by entry.

    Attributes:
        hidden_weights: hidden × pixels.
        hidden_biases: hidden × 1.
        weights: 10 × hidden.
        biases: 10 × 1.
    """

    hidden_weights: Matrix
    hidden_biases: Matrix
    weights: Matrix
    biases: Matrix

    def hidden(self, pixels: Matrix) -> Matrix:
        """hidden × images: what is squared."""
        return self.hidden_weights @ pixels + self.hidden_biases

    def scores(self, pixels: Matrix) -> Matrix:
        """10 × images, in the clear."""
        return self.weights @ self.hidden(pixels) ** 2 + self.biases

    @property
    def hidden_bound(self) -> float:
        """On the absolute value of what is squared, whatever the image."""
        return float(layer_bound(self.hidden_weights, PIXEL_BOUND) + np.abs(self.hidden_biases).max())

    @property
    def bound(self) -> float:
        """On the absolute value of a score, whatever the image."""
        return float(layer_bound(self.weights, self.hidden_bound**2) + np.abs(self.biases).max())


def layer_bound(weights: Matrix, bound: float) -> float:
    """k·max|W|·bound: the bound of a product that the planner takes, too."""
    return float(weights.shape[1] * np.abs(weights).max() * bound)


def train_linear(images: LabelledImages) -> LinearModel:
    """Multinomial logistic regression by scikit-learn.

    Raises:
        StorageError: scikit-learn is not installed.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from threadpoolctl import threadpool_limits  # comes with scikit-learn
    except ImportError as error:
        raise StorageError(
            "Training needs scikit-learn.", advice="pip install scikit-learn", cause=f"{error}."
        ) from error
    with threadpool_limits(1):  # small products: threads would wait for each other longer than they compute
        trained = LogisticRegression(C=REGULARISATION, max_iter=500).fit(images.pixels.T, images.digits)
    return LinearModel(np.array(trained.coef_), np.array(trained.intercept_)[:, None])


def train_square(images: LabelledImages, hidden: int, seed: int = 0) -> SquareModel:
    """Cross-entropy by Adam (Kingma and Ba 2015) with a cosine schedule, weights kept within ±WEIGHT_BOUND.

    Args:
        images: to train with.
        hidden: units of the hidden layer.
        seed: of the first weights and of the order of the images.
    """
    random = np.random.default_rng(seed)
    count, pixels = len(images.digits), len(images.pixels)
    parameters = [
        random.normal(0, pixels**-0.5, (hidden, pixels)),
        np.zeros((hidden, 1)),
        random.normal(0, hidden**-0.5, (CLASSES, hidden)),
        np.zeros((CLASSES, 1)),
    ]
    moments = [(np.zeros_like(values), np.zeros_like(values)) for values in parameters]
    targets = np.eye(CLASSES)[:, images.digits]
    step = 0
    for epoch in range(EPOCHS):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * epoch / EPOCHS))
        order = random.permutation(count)
        for start in range(0, count, BATCH):
            chosen = order[start : start + BATCH]
            gradients = _gradients(parameters, images.pixels[:, chosen], targets[:, chosen])
            step += 1
            for values, gradient, (first, second) in zip(parameters, gradients, moments, strict=True):
                first += (1 - FIRST_MOMENT) * (gradient - first)
                second += (1 - SECOND_MOMENT) * (gradient**2 - second)
                spread = np.sqrt(second / (1 - SECOND_MOMENT**step)) + TINY
                values -= rate * first / (1 - FIRST_MOMENT**step) / spread
                np.clip(values, -WEIGHT_BOUND, WEIGHT_BOUND, out=values)
    return SquareModel(*parameters)


def _gradients(parameters: list[Matrix], pixels: Matrix, targets: Matrix) -> list[Matrix]:
    """Of the mean cross-entropy plus DECAY/2 times the squared weights."""
    first, first_bias, second, second_bias = parameters
    hidden = first @ pixels + first_bias
    scores = second @ hidden**2 + second_bias
    shares = np.exp(scores - scores.max(axis=0))
    shares /= shares.sum(axis=0)
    by_score = (shares - targets) / targets.shape[1]
    by_hidden = 2 * hidden * (second.T @ by_score)
    return [
        by_hidden @ pixels.T + DECAY * first,
        by_hidden.sum(axis=1, keepdims=True),
        by_score @ (hidden**2).T + DECAY * second,
        by_score.sum(axis=1, keepdims=True),
    ]
