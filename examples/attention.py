"""One attention layer of a transformer on encrypted activations, heads and all, in one program.

The client encrypts the activations x, tokens × (heads · width). The server has the weights: it computes queries, keys
and values, the scores Q·Kᵀ/√width of every head, a polynomial in the place of exp, the normalisation by a polynomial
in the place of 1/x, the values and the output projection, and never sees a number of x or of the result.

    python examples/attention.py --plot attention.png
    python examples/attention.py --heads 12 --tokens 128 --width 64 --error 0.9 --refresh --plan    # what it would take
"""

from __future__ import annotations

import argparse
import functools
import itertools
import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

import cipherblas as cb

Matrix = NDArray[np.float64]
MAX_ACTIVATION = 3.0  # activation, after a layer's normalisation
SCORES = 2.0  # no score is larger
PARTS = (  # of a run, whose seconds are printed
    *(
        "queries",
        "keys",
        "values",
        "scores",
        "weighted values",
        "refreshes",
        "exp polynomial",
        "slots to rows",
    ),
    *("means", "normalisation", "output projection", "operands", "other"),
)
EXP_DEGREE, INVERSE_DEGREE = 4, 3


@dataclass(frozen=True)
class Ranges:
    """What values must not leave: promised to the planner, and checked of arrays.

    Attributes:
        values: largest entries of queries, keys and values.
        least, largest: mean of exp(score) over the keys of a query.
        weighted: largest sum of values that weights weigh, over the tokens.
        context: largest entry of what the heads found.
    """

    values: float = 4.0
    least: float = 0.6
    largest: float = 2.0
    weighted: float = 4.0
    context: float = 3.0


@dataclass(frozen=True)
class Layer:
    """The weights of an attention layer, each (heads · width)².

    Attributes:
        query, key, value, output: of queries, keys, values, and the output projection.
        heads: number of heads.
        ranges: of values; see `calibrated`.
        refreshed: values are refreshed where they go from products to polynomials, which is faster in large layers.
    """

    query: Matrix
    key: Matrix
    value: Matrix
    output: Matrix
    heads: int
    ranges: Ranges = Ranges()
    refreshed: bool = False

    @classmethod
    def drawn(cls, random: np.random.Generator, heads: int, width: int) -> Layer:
        """Weights as a network begins its training with them; scores stay within ±SCORES."""
        size = heads * width
        query, key, value, output = random.normal(size=(4, size, size)) / np.sqrt(size)
        return cls(0.6 * query, 0.6 * key, 0.8 * value, output, heads)

    def calibrated(self, samples: list[Matrix], margin: float = 1.2) -> Layer:
        """With the ranges that values of some other activations are in, and a margin."""
        seen: dict[str, list[float]] = {name: [] for name in ("values", "mean", "weighted", "context")}
        width = len(self.query) // self.heads
        for x, head in itertools.product(samples, range(self.heads)):
            own = slice(head * width, (head + 1) * width)
            queries, keys, values = (x @ part[:, own] for part in (self.query, self.key, self.value))
            weights = np.exp(queries @ keys.T / np.sqrt(width))
            mean, weighted = weights.mean(axis=1, keepdims=True), weights @ values / len(x)
            seen["values"] += [float(np.abs(part).max()) for part in (queries, keys, values)]
            seen["mean"] += [float(mean.min()), float(mean.max())]
            seen["weighted"].append(float(np.abs(weighted).max()))
            seen["context"].append(float(np.abs(weighted / mean).max()))
        largest = {name: margin * max(found) for name, found in seen.items()}
        ranges = Ranges(
            *(largest["values"], min(seen["mean"]) / margin, largest["mean"]),
            *(largest["weighted"], largest["context"]),
        )
        return replace(self, ranges=ranges)


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--heads", type=int, default=2, metavar="N", help="heads (2)")
    parser.add_argument("--tokens", type=int, default=16, metavar="N", help="tokens (16)")
    parser.add_argument("--width", type=int, default=8, metavar="N", help="entries of a query of a head (8)")
    parser.add_argument(
        "--error", type=float, default=0.05, help="allowed error of an entry of the result (0.05)"
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="threads of the server (those of the machine)"
    )
    parser.add_argument(
        "--refresh", action="store_true", help="refresh between products and polynomials: for large layers"
    )
    parser.add_argument("--plan", action="store_true", help="say what it takes, and run nothing")
    parser.add_argument(
        "--runs", type=int, default=1, metavar="N", help="runs; the parts are those of the last one (1)"
    )
    parser.add_argument("--plot", type=Path, metavar="PNG", help="write a picture (needs matplotlib)")
    options = parser.parse_args(arguments)
    random = np.random.default_rng(11)
    layer = replace(Layer.drawn(random, options.heads, options.width), refreshed=options.refresh)
    shape = options.tokens, options.heads * options.width
    if options.refresh:  # errors of refreshed values are parts of their ranges
        layer = layer.calibrated([normalised(random.normal(size=shape)) for _ in range(4)])
    x = normalised(random.normal(size=shape))
    program = compiled(layer, options.tokens, options.error, options.threads)
    print(program.explain())
    if options.plan:
        return 0
    exact, same = attention(layer, x, softmax), program.evaluate({"x": x})  # before minutes of work
    found = encrypted(program, x, layer.heads, options.runs)
    print(
        f"error beside NumPy with the same polynomials {np.abs(found - same).max():.1e}, allowed {options.error:g}"
    )
    print(
        f"error beside NumPy with softmax {np.abs(found - exact).max():.1e}, entries up to {np.abs(exact).max():.2f}"
    )
    if options.plot is not None:
        draw(options.plot, found, exact)
        print(f"wrote {options.plot}")
    return 0


def normalised(x: Matrix) -> Matrix:
    """Rows with mean 0 and deviation 1, as a layer's normalisation leaves them, and no entry beyond MAX_ACTIVATION."""
    x = x - x.mean(axis=1, keepdims=True)
    found: Matrix = np.clip(x / x.std(axis=1, keepdims=True), -MAX_ACTIVATION, MAX_ACTIVATION)
    return found


def exponential() -> list[float]:
    """Coefficients of the polynomial in the place of exp on ±SCORES, in powers of the score."""
    return interpolated(np.exp, EXP_DEGREE, SCORES)


def inverse(ranges: Ranges) -> list[float]:
    """Coefficients of the polynomial in the place of 1/mean, in powers of u, mean = centre + reach · u, |u| <= 1."""
    centre, reach = centred(ranges)
    return interpolated(lambda u: 1 / (centre + reach * u), INVERSE_DEGREE, 1.0)


def interpolated(function: Callable[[Matrix], Matrix], degree: int, reach: float) -> list[float]:
    """Coefficients, from the constant one on, of the polynomial through the Chebyshev points of ±reach."""
    series = Chebyshev.interpolate(function, degree, domain=(-reach, reach))
    return [float(number) for number in series.convert(kind=Polynomial).coef]


def centred(ranges: Ranges) -> tuple[float, float]:
    """Centre and reach of the means."""
    return (ranges.largest + ranges.least) / 2, (ranges.largest - ranges.least) / 2


def compiled(layer: Layer, tokens: int, error: float, threads: int | None) -> cb.Program:
    """The program for activations of so many tokens."""
    return cb.compile(
        lambda x: attention(layer, x, polynomial_weights),
        {"x": cb.secret(tokens, len(layer.query), bound=MAX_ACTIVATION)},
        error=error,
        threads=threads,
        upload_budget=1 << 32,
    )


def attention(layer: Layer, x: Any, weighted: Callable[[Layer, Any, Any], Any]) -> Any:
    """The layer, of an array or of an encrypted matrix.

    Where values are refreshed, all heads are one value, which takes fewer refreshes; else each is computed alone.

    Args:
        weighted: of the layer, the scores of some heads side by side, and the values of each: what queries find.
    """
    together = layer.refreshed and not isinstance(x, np.ndarray)
    width, ranges = len(layer.query) // layer.heads, layer.ranges
    queries, keys, values = (
        heads_of(x, part, layer.heads, ranges.values, together)
        for part in (layer.query, layer.key, layer.value)
    )
    scores = [
        bounded(query @ (key.T * (1 / np.sqrt(width))), SCORES)
        for query, key in zip(queries, keys, strict=True)
    ]
    if together:
        return bounded(weighted(layer, joined(scores), values), ranges.context) @ layer.output
    parts = (weighted(layer, one, [value]) for one, value in zip(scores, values, strict=True))
    found = (
        bounded(part, ranges.context) @ layer.output[head * width : (head + 1) * width]
        for head, part in enumerate(parts)
    )
    return functools.reduce(operator.add, found)


def heads_of(x: Any, weights: Matrix, heads: int, bound: float, together: bool) -> list[Any]:
    """The product with some weights, head by head."""
    if together:
        return cb.split(bounded(x @ weights, bound), heads, axis=1)
    return [bounded(x @ part, bound) for part in np.split(weights, heads, axis=1)]


def joined(parts: list[Any]) -> Any:
    """What belongs to several heads side by side, as one value."""
    return parts[0] if len(parts) == 1 else cb.joined(parts, axis=1)


def polynomial_weights(layer: Layer, scores: Any, values: list[Any]) -> Any:
    """Values weighted by polynomials of the scores, normalised by a polynomial of their mean."""
    ranges, (centre, reach) = layer.ranges, centred(layer.ranges)
    again = cb.refresh if layer.refreshed else lambda value: value
    exponentials = cb.assume(cb.polynomial(again(scores), exponential()), 1.01 * np.exp(SCORES))
    weights, (tokens, width) = cb.split(exponentials, len(values), axis=1), values[0].shape
    # Of every query, once for each entry of its result.
    ones = np.full((tokens, width), 1 / tokens / reach)
    means = joined([bounded(each @ ones, ranges.largest / reach) for each in weights])
    normal = cb.polynomial(cb.assume(again(means) - centre / reach, 1.0), inverse(ranges))
    weighted = joined(
        [
            bounded(each @ (value * (1 / tokens)), ranges.weighted)
            for each, value in zip(weights, values, strict=True)
        ]
    )
    return again(weighted) * cb.assume(normal, 1.01 / ranges.least)


def softmax(layer: Layer, scores: Matrix, values: list[Matrix]) -> Matrix:
    """Values weighted by the softmax of the scores."""
    parts = np.split(np.exp(scores), len(values), axis=1)
    found: Matrix = np.concatenate(
        [
            weights @ value / weights.sum(axis=1, keepdims=True)
            for weights, value in zip(parts, values, strict=True)
        ],
        axis=1,
    )
    return found


def bounded(x: Any, bound: float) -> Any:
    """x, of which no entry is larger: promised of an encrypted one, checked of an array."""
    if not isinstance(x, np.ndarray):
        return cb.assume(x, bound)
    if np.abs(x).max() > bound:
        raise ValueError(
            f"activations leave their range: expected at most {bound:g}, got {np.abs(x).max():.2f}"
        )
    return x


def encrypted(program: cb.Program, x: Matrix, heads: int, runs: int = 1) -> Matrix:
    """The layer of encrypted activations; prints what its parts took in the last of some runs.

    In a first run the system clears the memory, and keys are read: a server of many clients has both.
    """
    client = program.client()
    server = program.server(client.evaluation_keys())
    message = client.encrypt({"x": x})
    for _ in range(max(runs, 1)):
        started = time.perf_counter()
        found: Matrix = client.decrypt(server.run(message))
        print(f"{time.perf_counter() - started:.2f} s, {server.last.seconds:.2f} s of it on the server")
    print("of which")
    for part, seconds in seconds_of_parts(server.last.node_seconds, x.shape[0], x.shape[1], heads).items():
        print(f"  {part:<20} {seconds:8.3f} s")
    return found


def seconds_of_parts(nodes: Sequence[Any], tokens: int, size: int, heads: int) -> dict[str, float]:
    """What the parts of the layer took on the server, from what its nodes did.

    Where queries, keys and values are one value each, the clear factors of keys and of values may be applied to what
    these are multiplied by: their products are told by themselves all the same.

    Args:
        nodes: `node_seconds` of a server.
        size: of a token, heads · width; means are counted as projections where there are as many tokens.
    """
    width, found = size // heads, dict.fromkeys(PARTS, 0.0)
    score = f"product {tokens}x{width} · {width}x{tokens}"
    steps = ("operand", "rows apart")  # of which products of ring elements are made
    clear = [
        number
        for number, node in enumerate(nodes)
        if _is_product(node) and node.secret == 1 and node.form not in steps
    ]
    scores = [number for number, node in enumerate(nodes) if node.title == score]
    first, last_score = scores[0], scores[-1]
    for number, node in enumerate(nodes):
        if node.form == steps[0]:
            part = "operands"
        elif node.form == steps[1]:  # of queries and of weights
            part = "scores" if number < first else "weighted values"
        elif " to " in node.form:
            part = "refreshes" if node.form.startswith("rows") else "slots to rows"
        elif node.title.startswith("refresh"):
            part = "refreshes"
        elif node.title.startswith(f"polynomial of degree {EXP_DEGREE}"):
            part = "exp polynomial"
        elif not _is_product(node):
            part = "normalisation" if node.form != "rows" else "other"
        elif node.secret == 2:
            part = "scores" if node.title == score else "weighted values"
        else:
            inner = int(node.title.split("·")[1].split("x")[0])
            if number == clear[-1] or inner == width:
                part = "output projection"
            elif inner != size:  # a mean is a product with a matrix of tokens × width
                part = "means"
            else:
                part = _projection(node, nodes[clear[0]], number > last_score)
        found[part] += node.seconds
    return found


def _is_product(node: Any) -> bool:
    return "·" in node.title


def _projection(node: Any, first: Any, after_scores: bool) -> str:
    """Of a product of activations and weights: the first one that scores need is that of queries."""
    if after_scores:
        return "values"
    return "queries" if node is first else "keys"


def draw(path: Path, found: Matrix, exact: Matrix) -> None:
    """The result beside that of NumPy with softmax, entry by entry."""
    from cipherblas.report.figures import new_figure, save_png

    figure = new_figure(10, 4.5)
    entries, errors = figure.subplots(1, 2)
    entries.plot(exact.ravel(), found.ravel(), ".", markersize=3)
    entries.axline((0, 0), slope=1, color="gray", linewidth=0.8)
    entries.set(title="entries of the result", xlabel="NumPy, softmax", ylabel="encrypted, polynomials")
    shown = errors.imshow(np.abs(found - exact), aspect="auto")
    errors.set(title="what they differ by", xlabel="entry", ylabel="token")
    figure.colorbar(shown, ax=errors)
    save_png(path, figure)


if __name__ == "__main__":
    raise SystemExit(main())
