"""A classifier with two hidden layers of ReLU, trained in the clear, and its scores of encrypted images."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import cipherblas as cb
from classification.images import CLASSES, PIXEL_BOUND, LabelledImages
from classification.models import Matrix

BATCH, EPOCHS, RATE, DECAY = 64, 30, 1e-3, 1e-4  # of the training
FIRST_MOMENT, SECOND_MOMENT, TINY = 0.9, 0.999, 1e-8  # of Adam
AGREEMENT = 0.98  # share of the images whose digit stays that of the clear model
MAX_SAMPLES = 1000  # images on which a program is planned, unless it takes more at once
UPLOAD_BUDGET = 8 << 30


@dataclass(frozen=True)
class ReluModel:
    """Layers of an image as a row: x @ weights + biases, ReLU behind all but the last.

    Attributes:
        layers: (weights, inputs × outputs; biases), in their order.
    """

    layers: Sequence[tuple[Matrix, Matrix]]

    def scores(self, pixels: Any, relu: Any = lambda x: np.maximum(x, 0.0)) -> Any:
        """images × 10.

        Args:
            pixels: images × pixels, or an encrypted node of that shape.
            relu: of every entry.
        """
        *hidden, (weights, biases) = self.layers
        for inner, offset in hidden:
            pixels = relu(pixels @ inner + offset)
        return pixels @ weights + biases


def train(images: LabelledImages, hidden: Sequence[int], seed: int = 0) -> ReluModel:
    """Cross-entropy by Adam (Kingma and Ba 2015).

    Args:
        images: to train with.
        hidden: units of the hidden layers.
        seed: of the first weights and of the order of the images.
    """
    random, pixels, targets = np.random.default_rng(seed), images.pixels.T, np.eye(CLASSES)[images.digits]
    sizes = [pixels.shape[1], *hidden, CLASSES]
    parameters: list[Matrix] = []
    for inputs, outputs in itertools.pairwise(sizes):
        parameters += [random.normal(0, (2 / inputs) ** 0.5, (inputs, outputs)), np.zeros(outputs)]
    moments = [(np.zeros_like(values), np.zeros_like(values)) for values in parameters]
    step = 0
    for _ in range(EPOCHS):
        order = random.permutation(len(pixels))
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            step += 1
            for values, gradient, (first, second) in zip(
                parameters, _gradients(parameters, pixels[chosen], targets[chosen]), moments, strict=True
            ):
                first += (1 - FIRST_MOMENT) * (gradient - first)
                second += (1 - SECOND_MOMENT) * (gradient**2 - second)
                spread = np.sqrt(second / (1 - SECOND_MOMENT**step)) + TINY
                values -= RATE * first / (1 - FIRST_MOMENT**step) / spread
    return ReluModel(list(zip(parameters[::2], parameters[1::2], strict=True)))


def _gradients(parameters: Sequence[Matrix], pixels: Matrix, targets: Matrix) -> list[Matrix]:
    """Of the mean cross-entropy plus DECAY/2 times the squared weights."""
    weights, biases = parameters[::2], parameters[1::2]
    inputs = [pixels]
    for inner, offset in zip(weights, biases, strict=True):
        inputs.append(np.maximum(inputs[-1] @ inner + offset, 0.0))
    scores = inputs[-2] @ weights[-1] + biases[-1]
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    back = (shares - targets) / len(pixels)
    found: list[Matrix] = []
    for place in reversed(range(len(weights))):
        found = [inputs[place].T @ back + DECAY * weights[place], back.sum(axis=0), *found]
        back = (back @ weights[place].T) * (inputs[place] > 0)
    return found


def compiled(model: ReluModel, known: LabelledImages, count: int, degree: int) -> cb.Program:
    """A program for the scores of `count` images, whose form the planner chooses.

    Args:
        known: images in the clear, on which ranges and errors are found.
        degree: of the polynomials in the place of ReLU.
    """

    def relu(x: Any) -> Any:
        return cb.chebyshev(lambda t: np.maximum(t, 0.0), x, degree=degree, name="relu")

    rows = known.pixels.T
    samples = np.resize(rows, (max(1, min(len(rows), MAX_SAMPLES) // count), count, rows.shape[1]))
    return cb.compile(
        lambda x: model.scores(x, relu),
        {"x": cb.secret(count, rows.shape[1], bound=PIXEL_BOUND)},
        samples={"x": samples},
        agreement=AGREEMENT,
        upload_budget=UPLOAD_BUDGET,
    )


@dataclass(frozen=True)
class BatchOutcome:
    """Decrypted scores, images × 10, and the seconds of each stage."""

    scores: Matrix
    encrypt: float
    server: float
    decrypt: float


def classified(program: cb.Program, pixels: Matrix) -> tuple[BatchOutcome, BatchOutcome]:
    """The scores of encrypted images, twice with the same keys: a first run encodes what later ones find encoded.

    Args:
        pixels: images × pixels, as many images as the program takes.
    """
    client = program.client()
    server = program.server(client.evaluation_keys())
    return _run(client, server, pixels), _run(client, server, pixels)


def _run(client: Any, server: Any, pixels: Matrix) -> BatchOutcome:
    begun = time.perf_counter()
    encrypted = client.encrypt({"x": pixels})
    sent = time.perf_counter()
    answer = server.run(encrypted)
    del encrypted
    done = time.perf_counter()
    scores = client.decrypt(answer)
    return BatchOutcome(scores, sent - begun, done - sent, time.perf_counter() - done)
