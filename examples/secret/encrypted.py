"""Scores of encrypted images by encrypted weights: exactly, of multiples of 2^-10, or approximately."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cipherblas as cb
from classification.images import PIXEL_BOUND
from secret.network import LARGEST, Array, Network

BITS = 10  # behind the point
ERROR = 0.01  # of approximate scores, of the largest one on the images of the training
MARGIN = 1.5  # bounds are those of the images of the training, times this
HALF_BITS = 28  # of squares, which have up to 56
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
    """The scores of the network in fixed point, in the clear, as Python's integers: multiples of 2^-110.

    No number on the way is rounded: the squares of the convolution are two halves, products with which fit float64.
    """
    filters, hidden, last = map(in_units, network.weights)
    first = in_units(x) @ filters  # of up to 28 bits
    squares = first * first
    low = squares & (1 << HALF_BITS) - 1
    halves = [
        network.layer(half.astype(np.float64), hidden.astype(np.float64)).astype(np.int64)
        for half in (squares >> HALF_BITS, low)
    ]
    then = halves[0].astype(object) * 2**HALF_BITS + halves[1].astype(object)
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
    sums = dict(zip(NAMES, network.sums, strict=False))
    if not approximate:
        unit = 2**BITS
        kind: dict[str, Any] = {"dtype": "int64", "exact": True}

        def weights(name: str, shape: tuple[int, ...]) -> Any:
            # Rounded to units, every entry may be half of one more.
            total = {"column_sum": sums[name] * unit + shape[0] / 2} if name in sums else {}
            return cb.secret(*shape, bound=round(LARGEST * unit), **total, **kind)

        return cb.compile(
            lambda x, filters, hidden, last: network.scores(x, filters, hidden, last),
            {
                "x": cb.secret(*x.shape, bound=round(PIXEL_BOUND * unit), **kind),
                **{name: weights(name, shape) for name, shape in shapes.items()},
            },
            **options,
        )  # fmt: skip
    largest = dict[int, float]()

    def found(value: Array, stage: int) -> Array:
        largest[stage] = float(MARGIN * np.abs(value).max())
        return value

    network.scores(x, *network.weights, said=found)

    def bounded(x: Any, filters: Any, hidden: Any, last: Any) -> Any:
        def said(value: Any, stage: int) -> Any:
            return cb.assume(value, largest[stage])

        return network.scores(x, filters, hidden, last, said=said)

    return cb.compile(
        bounded,
        {
            "x": cb.secret(*x.shape, bound=PIXEL_BOUND),
            **{
                name: cb.secret(*shape, bound=LARGEST, column_sum=sums.get(name))
                for name, shape in shapes.items()
            },
        },
        error=ERROR * largest[2],
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
    seconds["server"] = server.last.seconds
    layers: dict[str, float] = {}
    for one in server.last.node_seconds:
        kind = {"matmul": "products", "multiply": "squares", "add": "sums"}.get(one.op, "weights taken apart")
        layers[kind] = layers.get(kind, 0.0) + one.seconds
    return Outcome(found, seconds, layers)
