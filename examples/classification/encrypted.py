"""Scores of encrypted images: the client encrypts, a server that holds the weights computes, the client decrypts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import cipherblas as cb
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand
from classification.images import PIXEL_BOUND
from classification.models import LinearModel, Matrix, SquareModel, layer_bound

TOLERANCE = 0.01  # of a score: the odds of two digits then change by 2% at most
STAGES = ("plan", "keys", "encrypt", "server", "decrypt")
COARSEST = 1e-4  # the default of `cb.compile`

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """What one way of computing encrypted scores gave.

    Attributes:
        values: decrypted, one column per image.
        programs: those that ran, in order.
        batch: images per run.
        seconds: by stage (`STAGES`), all runs together.
    """

    values: Matrix
    programs: tuple[cb.Program, ...]
    batch: int
    seconds: dict[str, float]

    @property
    def server_rate(self) -> float:
        """Images per second of the server alone."""
        return float(self.values.shape[1] / self.seconds["server"])

    @property
    def rate(self) -> float:
        """Images per second of encryption, server and decryption, one after the other."""
        seconds = sum(self.seconds[stage] for stage in ("encrypt", "server", "decrypt"))
        return float(self.values.shape[1] / seconds)


def linear(model: LinearModel, pixels: Matrix, progress: Progress | None = None) -> Outcome:
    """All images in one program without evaluation keys: weights @ pixels by GEMM, plus biases.

    Args:
        model: clear to the server.
        pixels: pixels × images, in [-1/2, 1/2]; the server never sees them.
        progress: called as progress(images done, images).
    """
    whole = model.step != 1.0
    return _run(
        lambda weights, biases, x: model.step * (weights @ x) + biases,
        pixels,
        PIXEL_BOUND,
        {"weights": model.weights},
        {"biases": model.biases},
        kind=np.int8 if whole else None,
        batch=pixels.shape[1],
        precision=min(COARSEST, TOLERANCE / model.bound),
        progress=progress,
    )


def square(model: SquareModel, pixels: Matrix, batch: int, progress: Progress | None = None) -> Outcome:
    """The whole model in one program, in slots: squares are products of ciphertexts, which GEMMs cannot do.

    Args:
        model: clear to the server.
        pixels: pixels × images, in [-1/2, 1/2].
        batch: images per run.
        progress: called as progress(images done, images).
    """

    def scores(w1: Expression, b1: Expression, w2: Expression, b2: Expression, x: Expression) -> Expression:
        hidden = w1 @ x + b1
        return w2 @ (hidden * hidden) + b2

    return _run(
        scores,
        pixels,
        PIXEL_BOUND,
        {"w1": model.hidden_weights, "w2": model.weights},
        {"b1": model.hidden_biases, "b2": model.biases},
        batch=batch,
        precision=min(COARSEST, TOLERANCE / model.bound),
        algorithm=None,
        progress=progress,
    )


def two_rounds(model: SquareModel, pixels: Matrix, progress: Progress | None = None) -> Outcome:
    """The model as two programs by GEMM: the client decrypts the hidden layer, squares it and encrypts it again.

    Interactive, and the client learns the hidden layer of its images. Arguments: as in `linear`.
    """
    # An error e of the hidden layer changes a score by at most hidden·max|w2|·(2·bound + e)·e: half of TOLERANCE.
    gain = layer_bound(model.weights, 3 * model.hidden_bound)
    allowed = min(TOLERANCE / 2 / gain, COARSEST * model.hidden_bound)
    first = _run(
        lambda weights, biases, x: weights @ x + biases,
        pixels,
        PIXEL_BOUND,
        {"weights": model.hidden_weights},
        {"biases": model.hidden_biases},
        batch=pixels.shape[1],
        precision=allowed / model.hidden_bound,
    )
    started = time.perf_counter()
    squares = first.values**2
    squaring = time.perf_counter() - started
    second = _run(
        lambda weights, biases, x: weights @ x + biases,
        squares,
        (model.hidden_bound + allowed) ** 2,
        {"weights": model.weights},
        {"biases": model.biases},
        batch=pixels.shape[1],
        precision=min(COARSEST, TOLERANCE / 2 / model.bound),
        progress=progress,
    )
    seconds = {stage: first.seconds[stage] + second.seconds[stage] for stage in STAGES}
    seconds["encrypt"] += squaring
    return Outcome(second.values, first.programs + second.programs, first.batch, seconds)


def _run(
    function: Callable[..., Expression],
    x: Matrix,
    bound: float,
    weights: Mapping[str, Matrix],
    biases: Mapping[str, Matrix],
    *,
    batch: int,
    precision: float,
    kind: Any = None,
    algorithm: str | None = "gemm",  # the planner takes it, too, but first counts all others: some seconds
    progress: Progress | None = None,
) -> Outcome:
    """One program for `batch` columns of x, run on all of them; `kind` is the type of the weights."""
    count = x.shape[1]
    batch = min(batch, count)
    wide = {name: np.repeat(column, batch, axis=1) for name, column in biases.items()}
    clear: dict[str, Any] = {**weights, **wide}
    operands = {name: _declared(values, kind) for name, values in weights.items()}
    operands.update({name: _declared(values, None) for name, values in wide.items()})
    seconds = dict.fromkeys(STAGES, 0.0)
    with _timed(seconds, "plan"):
        operands["x"] = cb.secret(len(x), batch, bound=bound)
        program = cb.compile(function, operands, precision=precision, algorithm=algorithm)
    with _timed(seconds, "keys"):
        client = program.client()
        server = program.server(client.evaluation_keys())
    results = []
    for start in range(0, count, batch):
        columns = x[:, start : start + batch]
        width = columns.shape[1]
        with _timed(seconds, "encrypt"):
            encrypted = client.encrypt({"x": np.pad(columns, ((0, 0), (0, batch - width)))})
        with _timed(seconds, "server"):
            answer = server.run({**encrypted, **clear})
        with _timed(seconds, "decrypt"):
            results.append(client.decrypt(answer)[:, :width])
        if progress is not None:
            progress(start + width, count)
    return Outcome(np.hstack(results), (program,), batch, seconds)


def _declared(matrix: Matrix, kind: Any) -> Operand:
    rows, cols = matrix.shape
    largest = float(np.abs(matrix).max())
    return cb.public(rows, cols, bound=largest or 1.0, dtype=kind)


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[stage] += time.perf_counter() - started
