"""Logistic regression, trained on an encrypted table: the server sees neither measurements nor labels nor weights.

Ten steps of gradient descent, each with two products and a cubic for the logistic function: more levels than any
ring has, so that the planner places refreshes (bootstrapping). The client decrypts the weights. The data are drawn by
scikit-learn; by default a table of 64×4 and two steps, which need no refresh and take seconds. The whole, in 16 GiB of
memory and a few minutes:

    python examples/logistic_regression.py --full --plot logistic.png
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import cipherblas as cb

Matrix = NDArray[np.float64]
RATE = 0.1  # of the steps: in the worst case an error grows by some 1 + RATE · features / 5 in each
CUBIC = (0.5, 0.2, 0.0, -0.004)  # 1 / (1 + exp(-z)) for |z| ≤ 4, roughly
SCORE, WEIGHT = 4.0, 1.0  # no score and no weight is larger
HELD_OUT = 500  # rows that accuracy is measured on
FULL = (1000, 20, 10)  # rows, features, steps


@dataclass(frozen=True)
class Run:
    """Weights of one training on encrypted data, and what it took."""

    weights: Matrix
    seconds: float
    program: cb.Program


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    options = parsed(arguments)
    rows, features, steps = FULL if options.full else (options.rows, options.features, options.steps)
    x, y = drawn(rows + HELD_OUT, features)
    known, held_out = (x[:rows], y[:rows]), (x[rows:], y[rows:])
    run = trained_encrypted(*known, steps, options.threads, options.insecure)
    history = trained(*known, steps)
    difference = np.abs(run.weights - history[-1]).max()
    exact = LogisticRegression(fit_intercept=False).fit(*known).coef_[0]
    print(
        f"{run.seconds:.1f} s on the server, refreshes of {run.program.plan.counts.modulus_raises} ciphertexts"
    )
    print(
        f"largest difference of a weight from NumPy's {difference:.1e}, predicted at most {run.program.plan.error:.1e}"
    )
    named = {"encrypted": run.weights, "NumPy": history[-1], "scikit-learn": exact}
    for name, weights in named.items():
        print(f"accuracy on {HELD_OUT} other rows, {name}: {100 * accuracy(weights, *held_out):.1f} %")
    if options.plot is not None:
        draw(options.plot, named, history, held_out)
        print(f"wrote {options.plot}")
    return 0


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """What the command was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=64, metavar="N", help="of the table (64)")
    parser.add_argument("--features", type=int, default=4, metavar="N", help="columns of the table (4)")
    parser.add_argument("--steps", type=int, default=2, metavar="N", help="of gradient descent (2)")
    rows, features, steps = FULL
    parser.add_argument(
        "--full", action="store_true", help=f"{rows}×{features}, {steps} steps, refreshes: 16 GiB"
    )
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="of the server (2)")
    parser.add_argument(
        "--insecure", action="store_true", help="INSECURE: parameters that protect nothing, for tests"
    )
    parser.add_argument("--plot", type=Path, metavar="PNG", help="write a picture (needs matplotlib)")
    return parser.parse_args(arguments)


def drawn(rows: int, features: int) -> tuple[Matrix, Matrix]:
    """Measurements from -1 to 1, two classes of them, and the classes: 0 or 1."""
    x, y = make_classification(
        rows, features, n_informative=features // 2, n_redundant=0, class_sep=1.0, flip_y=0.05, random_state=5
    )
    return x / np.abs(x).max(axis=0), y.astype(np.float64)


def descent(rows: int, steps: int, polynomial: Callable[..., Any], assume: Callable[..., Any]) -> Any:
    """The weights after every step, as a function of x and y, of arrays or of operands of a program.

    Args:
        polynomial: of arguments and coefficients, from the constant on.
        assume: of values and a bound that they keep.
    """
    rate = RATE / rows

    def train(x: Any, y: Any) -> list[Any]:
        weights = [assume(rate * (x.T @ (y - 0.5)), WEIGHT)]  # from weights of 0, where all chances are 1/2
        for _ in range(steps - 1):
            scores = assume(x @ weights[-1], SCORE)
            chances = assume(polynomial(scores, CUBIC), 1.0)
            weights.append(assume(weights[-1] + rate * (x.T @ (y - chances)), WEIGHT))
        return weights

    return train


def trained(x: Matrix, y: Matrix, steps: int) -> list[Matrix]:
    """The weights after every step, by NumPy; ValueError where a bound is not kept."""

    def polynomial(z: Matrix, coefficients: tuple[float, ...]) -> Matrix:
        return np.asarray(np.polynomial.polynomial.polyval(z, coefficients))

    def assume(values: Matrix, bound: float) -> Matrix:
        if np.abs(values).max() > bound:
            raise ValueError(f"values: expected at most {bound}, got {np.abs(values).max()}")
        return values

    found: list[Matrix] = descent(len(x), steps, polynomial, assume)(x, y)
    return found


def compiled(rows: int, features: int, steps: int, threads: int, insecure: bool) -> cb.Program:
    """The program that trains; the planner says where it refreshes."""
    train = descent(rows, steps, cb.polynomial, cb.assume)
    operands = {"x": cb.secret(rows, features), "y": cb.secret(rows)}
    choice: dict[str, Any] = {"security": 0, "insecure": True} if insecure else {}
    # Errors are promised for all tables, the worst included: far more than what is found.
    return cb.compile(lambda x, y: train(x, y)[-1], operands, precision=0.2, threads=threads, **choice)


def trained_encrypted(x: Matrix, y: Matrix, steps: int, threads: int = 2, insecure: bool = False) -> Run:
    """The last weights; the server has ciphertexts and public keys alone."""
    rows, features = x.shape
    program = compiled(rows, features, steps, threads, insecure)
    client = program.client()
    server = program.server(client.evaluation_keys())
    started = time.perf_counter()
    result = server.run(client.encrypt({"x": x, "y": y}))
    seconds = time.perf_counter() - started
    return Run(np.asarray(client.decrypt(result), dtype=np.float64), seconds, program)


def accuracy(weights: Matrix, x: Matrix, y: Matrix) -> float:
    """The part of rows whose class is found."""
    return float(np.mean((x @ weights > 0) == (y > 0.5)))


def loss(weights: Matrix, x: Matrix, y: Matrix) -> float:
    """What logistic regression makes small: the mean of -log of the chance that is given to the true class."""
    return float(np.log1p(np.exp(np.where(y > 0.5, -1, 1) * (x @ weights))).mean())


def draw(
    path: Path, named: dict[str, Matrix], history: list[Matrix], held_out: tuple[Matrix, Matrix]
) -> None:
    """Weights of length 1 side by side, and the loss after every step."""
    from cipherblas.report.figures import new_figure, save_png

    figure = new_figure(11, 4.5)
    left, right = figure.subplots(1, 2)
    places = np.arange(len(named["encrypted"]))
    for index, (name, weights) in enumerate(named.items()):
        left.bar(places + 0.27 * (index - 1), weights / np.linalg.norm(weights), 0.27, label=name)
    left.set(title="weights, of length 1", xlabel="feature", xticks=places)
    left.legend()
    steps = np.arange(1, len(history) + 1)
    right.plot(steps, [loss(weights, *held_out) for weights in history], "o-", color="C1", label="NumPy")
    right.plot(steps[-1:], [loss(named["encrypted"], *held_out)], "D", color="C0", label="encrypted")
    right.set(title=f"loss on {HELD_OUT} other rows", xlabel="step", xticks=steps)
    right.legend()
    save_png(path, figure)


if __name__ == "__main__":
    raise SystemExit(main())
