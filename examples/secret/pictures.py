"""Photographs of CIFAR-10, and a larger network of the kind: 64 filters of 5×5 pixels in three colours, which meet
an image at 10×10 positions, and 64 hidden units."""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cipherblas.common.errors import FormatError, StorageError
from classification.images import CLASSES, PIXEL_BOUND
from secret.network import BATCH, FIRST_MOMENT, SECOND_MOMENT, TINY, Array, Network

ROUNDING = 2.0**-18  # relative, of sums in float32 that are bounded
FILES = ("train50000.npz", "test10000.npz")
SIDE, COLOURS = 32, 3
KERNEL, STRIDE, GRID = 5, 3, 10  # of the convolution; positions along a side
PLACES = 128  # for the positions of an image, a power of two; those beyond the grid hold zeros
CHANNELS, HIDDEN = 64, 64
EPOCHS, RATE, DECAY = 12, 2e-3, 1e-4  # of the training
SUMS = (14.0, 64.0, 10.0)  # of the absolute weights in a column: bounds are known before any weight is


@dataclass(frozen=True)
class Photographs:
    """Images of 32×32 pixels in three colours, as bytes, and the number of what is on each."""

    pixels: Array
    classes: Array


def load(folder: Path, name: str) -> Photographs:
    """The images of an `.npz` file: `images` and `labels`, or JPEG files one after another in `jpeg` and `offsets`.

    Raises:
        StorageError: there is no such file, or Pillow is not installed. FormatError: it holds something else.
    """
    try:
        with np.load(folder / name) as file:
            given = {key: file[key] for key in file.files}
    except (OSError, ValueError) as error:
        raise StorageError(
            f"There are no images in {folder}.", expected=" and ".join(FILES), got="none", cause=f"{error}."
        ) from error
    pixels = given["images"] if "images" in given else _decoded(given, name)
    classes = given.get("labels")
    if pixels.shape[1:] != (SIDE, SIDE, COLOURS) or classes is None or len(classes) != len(pixels):
        raise FormatError(
            f"The images in {name} are not those of CIFAR-10.",
            expected=f"{SIDE}×{SIDE} pixels in {COLOURS} colours, and labels",
            got=pixels.shape,
        )
    return Photographs(pixels, classes.astype(np.int64))


def _decoded(given: dict[str, Array], name: str) -> Array:
    if not {"jpeg", "offsets"} <= given.keys():
        raise FormatError(
            f"The file {name} holds no images.", expected="jpeg, offsets and labels", got=", ".join(given)
        )
    try:
        from PIL import Image
    except ImportError as error:
        raise StorageError(
            "Pillow is not installed, which reads these images.",
            advice="pip install pillow",
            cause=f"{error}.",
        ) from error
    stream, offsets = given["jpeg"].tobytes(), given["offsets"]
    return np.stack(
        [
            np.asarray(Image.open(io.BytesIO(stream[start:stop])).convert("RGB"))
            for start, stop in itertools.pairwise(offsets)
        ]
    )


def _windows(pixels: Array) -> Array:
    """images × positions × (pixels of a window in three colours), in [-1/2, 1/2]."""
    view = np.lib.stride_tricks.sliding_window_view(pixels, (KERNEL, KERNEL), axis=(1, 2))
    view = view[:, ::STRIDE, ::STRIDE]
    return (view.reshape(len(pixels), view.shape[1] * view.shape[2], -1) / 255 - PIXEL_BOUND).astype(
        np.float32
    )


def patches(pixels: Array) -> Array:
    """What the client encrypts: (images · places) × pixels of a window, zeros where there is no position."""
    own = _windows(pixels)
    found = np.zeros((len(own), PLACES, own.shape[2]))
    found[:, : own.shape[1]] = own
    return found.reshape(-1, own.shape[2])


def layer(squares: Any, hidden: Any) -> Any:
    """images × units.

    Args:
        squares: (images · places) × channels.
        hidden: (channels · places) × units.
    """
    channels = squares.shape[1]
    flat = squares.reshape(-1, PLACES, channels).transpose(0, 2, 1).reshape(-1, channels * PLACES)
    return flat @ hidden


def clear_scores(network: Network, images: Photographs, at_once: int = 500) -> Array:
    """Of many images."""
    parts = (images.pixels[start : start + at_once] for start in range(0, len(images.classes), at_once))
    return np.concatenate([network.clear_scores(patches(part)) for part in parts])


def train(images: Photographs, epochs: int = EPOCHS, seed: int = 0) -> Network:
    """Cross-entropy by Adam (Kingma and Ba 2015), of images and their mirror images.

    Args:
        seed: of the first weights, of the order of the images, and of which are mirrored.
    """
    random, targets = np.random.default_rng(seed), np.eye(CLASSES, dtype=np.float32)[images.classes]
    taps, flat = COLOURS * KERNEL**2, GRID**2 * CHANNELS
    parameters = [
        random.normal(0, (4 / taps) ** 0.5, (taps, CHANNELS)),
        random.normal(0, (1 / flat) ** 0.5, (flat, HIDDEN)),
        random.normal(0, (1 / HIDDEN) ** 0.5, (HIDDEN, CLASSES)),
    ]
    parameters = [one.astype(np.float32) for one in parameters]
    moments = [(np.zeros_like(one), np.zeros_like(one)) for one in parameters]
    count = len(images.classes)
    steps, step = epochs * -(-count // BATCH), 0
    for _ in range(epochs):
        order = random.permutation(count)
        for start in range(0, count, BATCH):
            chosen, step = order[start : start + BATCH], step + 1
            pixels = images.pixels[chosen]
            mirrored = random.random(len(chosen)) < 0.5
            pixels = np.where(mirrored[:, None, None, None], pixels[:, :, ::-1], pixels)
            found = gradients(parameters, _windows(pixels), targets[chosen])
            rate = RATE * (1 - (step - 1) / steps)
            for values, gradient, (first, second), most in zip(parameters, found, moments, SUMS, strict=True):
                first += (1 - FIRST_MOMENT) * (gradient - first)
                second += (1 - SECOND_MOMENT) * (gradient**2 - second)
                spread = np.sqrt(second / (1 - SECOND_MOMENT**step)) + TINY
                values -= rate * first / (1 - FIRST_MOMENT**step) / spread
                np.clip(values, -1, 1, out=values)
                values /= np.maximum(1, (1 + ROUNDING) * np.abs(values).sum(axis=0) / most)
    filters, hidden, last = (one.astype(np.float64) for one in parameters)
    padded = np.zeros((CHANNELS, PLACES, HIDDEN))
    padded[:, : GRID**2] = hidden.reshape(CHANNELS, GRID**2, HIDDEN)
    return Network(filters, padded.reshape(-1, HIDDEN), last, layer, SUMS)


def gradients(parameters: list[Array], x: Array, targets: Array) -> list[Array]:
    """Of the mean cross-entropy plus DECAY/2 times the squared weights.

    Args:
        x: images × positions × pixels of a window.
    """
    filters, hidden, last = parameters
    count, places, channels = len(x), x.shape[1], filters.shape[1]
    first = x @ filters
    flat = (first * first).transpose(0, 2, 1).reshape(count, -1)
    then = flat @ hidden
    found = (then * then) @ last
    shares = np.exp(found - found.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    back = (shares - targets) / count
    of_last = (then * then).T @ back
    back = 2 * then * (back @ last.T)
    of_hidden = flat.T @ back
    back = 2 * first * (back @ hidden.T).reshape(count, channels, places).transpose(0, 2, 1)
    of_filters = x.reshape(-1, x.shape[2]).T @ back.reshape(-1, channels)
    return [of_filters + DECAY * filters, of_hidden + DECAY * hidden, of_last + DECAY * last]
