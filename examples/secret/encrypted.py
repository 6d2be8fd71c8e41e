"""Scores of encrypted images by encrypted weights: exactly, of multiples of 2^-10, or approximately."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cipherblas as cb
from classification.images import PIXEL_BOUND
from secret.network import LARGEST, Array, Network, scores

BITS = 10  # behind the point
ERROR = 0.01  # of approximate scores, of the largest one on the images of the training
MARGIN = 1.5  # bounds are those of the images of the training, times this
BUDGET = 16 << 30  # bytes of ciphertexts that are sent, and of memory
NAMES = ("filters", "hidden", "last")


@dataclass(frozen=True)
class Outcome:
    """Decrypted scores, images × 10; seconds by stage, and of the server by kind of node."""

    scores: Array
    seconds: dict[str, float]
    layers: dict[str, float] = field(default_factory=dict)


def in_units(values: Array) -> Array:
    """Multiples of 2^-10 as whole numbers."""
    found: Array = np.rint(values * 2**BITS).astype(np.int64)
    return found


def exact_scores(x: Array, network: Network) -> Array:
    """The scores of the network in fixed point, in the clear, as Python's integers: multiples of 2^-110."""
    filters, hidden, last = map(in_units, network.weights)
    first = in_units(x) @ filters  # of up to 28 bits
    squares = (first * first).astype(object)
    then = sum(one @ weights for one, weights in zip(squares, hidden.astype(object), strict=True))
    return np.asarray((then * then) @ last.astype(object))


def compiled(network: Network, x: Array, approximate: bool, link: float) -> cb.Program:
    """A program for as many images as there are, of which a ciphertext has one feature.

    Args:
        x: windows of images in the clear, on which the bounds of approximate values are found.
        link: bits a second between client and server.
    """
    options: dict[str, Any] = {
        "upload_budget": BUDGET,
        "memory_budget": BUDGET,
        "form": "features",
        "link": link,
    }
    shapes = dict(zip(NAMES, (one.shape for one in network.weights), strict=True))
    if not approximate:
        unit = 2**BITS
        kind: dict[str, Any] = {"dtype": "int64", "exact": True}
        return cb.compile(
            scores,
            {
                "x": cb.secret(*x.shape, bound=round(PIXEL_BOUND * unit), **kind),
                **{name: cb.secret(*shape, bound=round(LARGEST * unit), **kind) for name, shape in shapes.items()},
            },
            **options,
        )  # fmt: skip
    first = x @ network.filters
    then = ((first * first) @ network.hidden).sum(axis=0)
    bounds = [float(MARGIN * np.abs(one).max()) for one in (first, then, (then * then) @ network.last)]

    def bounded(x: Any, filters: Any, hidden: Any, last: Any) -> Any:
        first = cb.assume(x @ filters, bounds[0])
        then = cb.assume(((first * first) @ hidden).sum(axis=0), bounds[1])
        return cb.assume((then * then) @ last, bounds[2])

    return cb.compile(
        bounded,
        {
            "x": cb.secret(*x.shape, bound=PIXEL_BOUND),
            **{name: cb.secret(*shape, bound=LARGEST) for name, shape in shapes.items()},
        },
        error=ERROR * bounds[2],
        **options,
    )


def run(program: cb.Program, network: Network, x: Array, approximate: bool) -> Outcome:
    """The client encrypts images and weights, the server computes, the client decrypts."""
    given = dict(zip(("x", *NAMES), (x, *network.weights), strict=True))
    client = program.client()
    server = program.server(client.evaluation_keys())
    seconds: dict[str, float] = {}

    def timed(stage: str, begun: float) -> float:
        now = time.perf_counter()
        seconds[stage] = now - begun
        return now

    begun = time.perf_counter()
    encrypted = client.encrypt(given if approximate else {name: in_units(one) for name, one in given.items()})
    begun = timed("encrypt", begun)
    answer = server.run(encrypted)
    begun = timed("server, seeds expanded", begun)
    del encrypted
    found = client.decrypt(answer)
    timed("decrypt", begun)
    seconds["server"] = server.seconds
    layers: dict[str, float] = {}
    for one in server.node_seconds:
        kind = {"matmul": "products", "multiply": "squares", "add": "sums"}.get(one.op, "weights taken apart")
        layers[kind] = layers.get(kind, 0.0) + one.seconds
    return Outcome(found, seconds, layers)
