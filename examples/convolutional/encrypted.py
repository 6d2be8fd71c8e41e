"""Scores of encrypted images, one at a time: the client encrypts, the server computes, the client decrypts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

import cipherblas as cb
from cipherblas.lang.nodes import Expression
from classification.images import PIXEL_BOUND, LabelledImages
from classification.models import Matrix
from convolutional.model import PADDING, STRIDE, Network, pictures

TOLERANCE = 0.1  # of a score: the two best scores of an image are rarely as near as twice that
MARGIN = 1.5  # bounds are those of the images of the training, times this

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """What the encrypted runs gave.

    Attributes:
        scores: decrypted, one row per image.
        seconds: by stage, one number per run; the server's first run is apart, for it encodes the weights.
    """

    scores: Matrix
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def median(self, stage: str) -> float:
        """Seconds of one image."""
        return float(np.median(self.seconds[stage]))


def measured_bounds(network: Network, images: LabelledImages) -> tuple[float, float, float]:
    """Of what is squared first, what is squared then, and the scores: the largest values on images, with a margin."""
    first, hidden, scores = (MARGIN * np.abs(values).max() for values in network.layers(images))
    return float(f"{first:.2g}"), float(f"{hidden:.2g}"), float(f"{scores:.2g}")


def scores(network: Network, x: Expression, bounds: tuple[float, float, float] | None) -> Expression:
    """The network as a program; `bounds` of its three layers are promised, where they are given."""

    def bounded(layer: int, values: Expression) -> Expression:
        return values if bounds is None else cb.assume(values, bounds[layer])

    _, filter_biases, _, hidden_biases, weights, biases = network.parameters
    first = cb.conv2d(x, network.filters, filter_biases, stride=STRIDE, padding=PADDING)
    squares = cb.flatten(cb.square(bounded(0, first)))
    hidden = cb.matvec(network.hidden_weights, squares) + hidden_biases
    return bounded(2, cb.matvec(weights.T, cb.square(bounded(1, hidden))) + biases)


def compiled(
    network: Network,
    side: tuple[int, int],
    tolerance: float,
    bounds: tuple[float, float, float] | None,
) -> cb.Program:
    """The program for one image.

    Args:
        network: its weights become constants of the program.
        side: rows and columns of an image.
        tolerance: largest error of a score, as the plan predicts it.
        bounds: see `measured_bounds`; None: those that hold for every image.

    Raises:
        PrecisionError: no parameters reach the tolerance.
    """
    image = cb.secret(1, *side, bound=PIXEL_BOUND)
    return cb.compile(lambda x: scores(network, x, bounds), {"x": image}, error=tolerance)


def classify(program: cb.Program, images: LabelledImages, progress: Progress | None = None) -> Outcome:
    """The encrypted scores of images, one after the other.

    Args:
        program: as `compiled` makes it.
        images: the server never sees them.
        progress: called as progress(images done, images).
    """
    seconds: dict[str, list[float]] = {
        stage: [] for stage in ("keys", "encrypt", "first", "server", "decrypt")
    }
    with _timed(seconds["keys"]):
        client = program.client()
        server = program.server(client.evaluation_keys())
    found = []
    for number, picture in enumerate(pictures(images)):
        with _timed(seconds["encrypt"]):
            encrypted = client.encrypt({"x": picture[None]})
        with _timed(seconds["server" if number else "first"]):
            answer = server.run(encrypted)
        with _timed(seconds["decrypt"]):
            found.append(client.decrypt(answer))
        if progress is not None:
            progress(number + 1, len(images.digits))
    return Outcome(np.stack(found), seconds)


@contextmanager
def _timed(seconds: list[float]) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds.append(time.perf_counter() - started)
