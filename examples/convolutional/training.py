"""Training the network in the clear, with gradients and Adam by autograd (https://github.com/HIPS/autograd)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import StorageError
from classification.images import CLASSES, PIXEL_BOUND, LabelledImages
from convolutional.model import KERNEL, Network, forward, patches, pictures, places

BATCH = 100
RATES = ((0.6, 2e-3), (0.85, 5e-4), (1.0, 1e-4))  # up to which share of the steps, Adam's rate
DECAY = 1e-4  # of all weights: small weights give small values, and squares square them
SIDE_PER_SHIFT = 14  # images are shifted at random by a pixel per so many pixels of their side

Progress = Callable[[int, int], None]


def train(
    images: LabelledImages,
    channels: int,
    hidden: int,
    epochs: int,
    progress: Progress | None = None,
    seed: int = 0,
) -> Network:
    """Cross-entropy plus the decay of weights, minimised by Adam at three falling rates.

    Args:
        images: to train with; large ones are shifted a little, differently every time.
        channels: of the convolution.
        hidden: units of the layer behind it.
        epochs: how often every image is seen.
        progress: called as progress(steps done, steps).
        seed: of the first weights, of the order of the images and of their shifts.

    Raises:
        StorageError: autograd is not installed.
    """
    try:
        import autograd.numpy as derivable
        from autograd import grad
        from autograd.misc.optimizers import adam
    except ImportError as error:
        raise StorageError(
            "Training needs autograd.", advice="pip install autograd", cause=f"{error}."
        ) from error
    random = np.random.default_rng(seed)
    batches = _Batches(images, random)
    steps = epochs * batches.count

    def loss(parameters: Any, windows: NDArray[Any], targets: NDArray[Any]) -> Any:
        scores = forward(parameters, windows)[-1]
        scores = scores - derivable.max(scores, axis=1, keepdims=True)
        chosen = derivable.sum(scores * targets) - derivable.sum(
            derivable.log(derivable.sum(derivable.exp(scores), axis=1))
        )
        weights = sum(derivable.sum(values * values) for values in parameters[::2])
        return DECAY / 2 * weights - chosen / len(targets)

    gradient = grad(loss)
    parameters = _first(random, places(images.side), channels, hidden)
    done = 0
    for until, rate in RATES:
        count = round(until * steps) - done

        def report(_: Any, iteration: int, __: Any, start: int = done) -> None:
            if progress is not None:
                progress(start + iteration + 1, steps)

        parameters = adam(
            lambda values, _: gradient(values, *batches.next()),
            *(parameters, report),
            num_iters=count,
            step_size=rate,
        )
        done += count
    return Network(tuple(np.asarray(values, np.float64) for values in parameters))


def _first(random: np.random.Generator, places: int, channels: int, hidden: int) -> list[NDArray[Any]]:
    """Parameters as `forward` takes them: normal weights that keep the range of what they multiply, no biases."""
    widths = (KERNEL * KERNEL, channels), (places * channels, hidden), (hidden, CLASSES)
    found = []
    for inputs, outputs in widths:
        found += [random.normal(0, inputs**-0.5, (inputs, outputs)), np.zeros(outputs)]
    return [values.astype(np.float32) for values in found]


class _Batches:
    """Windows of shifted images and their targets, batch after batch, every image once an epoch."""

    def __init__(self, images: LabelledImages, random: np.random.Generator) -> None:
        self._pictures = pictures(images).astype(np.float32)
        self._targets = np.eye(CLASSES, dtype=np.float32)[images.digits]
        self._shift = min(images.side) // SIDE_PER_SHIFT
        self._random = random
        self._waiting = np.arange(0)
        self.count = -(-len(self._pictures) // BATCH)

    def next(self) -> tuple[NDArray[Any], NDArray[Any]]:
        if not len(self._waiting):
            self._waiting = self._random.permutation(len(self._pictures))
        chosen, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
        return patches(self._shifted(self._pictures[chosen])), self._targets[chosen]

    def _shifted(self, batch: NDArray[Any]) -> NDArray[Any]:
        shift = self._shift
        wide = np.pad(batch, ((0, 0), (shift, shift), (shift, shift)), constant_values=-PIXEL_BOUND)
        rows, cols = batch.shape[1:]
        corners = self._random.integers(0, 2 * shift + 1, (len(batch), 2))
        return np.stack(
            [image[i : i + rows, j : j + cols] for image, (i, j) in zip(wide, corners, strict=True)]
        )
