"""Least squares and principal components of tables that another machine never sees.

The server multiplies an encrypted table by its own transpose; the client solves the small systems that are left. The
tables are scikit-learn's: least squares on its diabetes data (442 patients, 10 measurements), principal components on
its handwritten digits (1797 images of 64 pixels).

    python examples/encrypted_table.py --plot table.png
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, load_digits

import cipherblas as cb

Matrix = NDArray[np.float64]


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plot", type=Path, metavar="PNG", help="write a picture (needs matplotlib)")
    options = parser.parse_args(arguments)
    table = load_diabetes()
    x = table.data / np.abs(table.data).max(axis=0)
    y = table.target - table.target.mean()
    weights, exact = least_squares(x, y / np.abs(y).max())
    fitted, expected = x @ weights * np.abs(y).max(), x @ exact * np.abs(y).max()
    print(
        f"least squares: largest difference of a fitted value {np.abs(fitted - expected).max():.1e} of {np.ptp(y):.0f}"
    )
    digits = load_digits()
    axes, variances = principal_components(digits.data / 16, 2)
    exact_axes, exact_variances = components_of(np.cov(digits.data.T / 16, bias=True), 2)
    alignment = np.abs(np.sum(axes * exact_axes, axis=0))
    print(f"principal components: variances {variances.round(4)}, NumPy's {exact_variances.round(4)}")
    print(f"principal components: least cosine of an axis and NumPy's {alignment.min():.8f}")
    if options.plot is not None:
        draw(options.plot, (expected, fitted), digits.data / 16 @ axes, digits.target)
        print(f"wrote {options.plot}")
    return 0


def least_squares(x: Matrix, y: Matrix) -> tuple[Matrix, Matrix]:
    """Weights from encrypted x and y, and NumPy's."""
    operands = {"X": cb.secret(*x.shape), "y": cb.secret(len(y))}
    # Errors of the Gram matrix grow by its condition number in the weights: a finer precision than the default.
    found = evaluated(
        lambda X, y: {"gram": X.T @ X, "moment": X.T @ y}, operands, {"X": x, "y": y}, precision=1e-7
    )
    exact = np.asarray(np.linalg.lstsq(x, y, rcond=None)[0], dtype=np.float64)
    return np.linalg.solve(found["gram"], found["moment"]), exact


def principal_components(x: Matrix, number: int) -> tuple[Matrix, Matrix]:
    """The first axes of an encrypted table and the variances along them; entries are from 0 to 1."""
    found = evaluated(
        lambda X: {"gram": X.T @ X / len(x), "mean": X.mean(axis=0)},
        {"X": cb.secret(*x.shape)},
        {"X": x},
        precision=1e-6,
    )
    return components_of(found["gram"] - np.outer(found["mean"], found["mean"]), number)


def components_of(covariance: Matrix, number: int) -> tuple[Matrix, Matrix]:
    """The eigenvectors of the largest eigenvalues, as columns, and these."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return vectors[:, ::-1][:, :number], values[::-1][:number]


def evaluated(function: Any, operands: dict[str, Any], values: dict[str, Matrix], precision: float) -> Any:
    """What a program makes of encrypted values: the server has ciphertexts and public keys alone."""
    program = cb.compile(function, operands, precision=precision)
    client = program.client()
    server = program.server(client.evaluation_keys())
    started = time.perf_counter()
    result = server.run(client.encrypt(values))
    seconds = time.perf_counter() - started
    print(
        f"{program.plan.algorithm}: {seconds:.2f} s with encryption, {server.last.seconds:.2f} s of it on the server"
    )
    return client.decrypt(result)


def draw(path: Path, fits: tuple[Matrix, Matrix], points: Matrix, digits: NDArray[np.int64]) -> None:
    """Fitted values beside NumPy's, and the images along the first two components."""
    from cipherblas.report.figures import new_figure, save_png

    figure = new_figure(11, 5)
    left, right = figure.subplots(1, 2)
    left.plot(*fits, ".", markersize=4)
    left.axline((0, 0), slope=1, color="gray", linewidth=0.8)
    left.set(title="least squares: fitted values", xlabel="NumPy", ylabel="from encrypted data")
    shown = right.scatter(points[:, 0], points[:, 1], c=digits, cmap="tab10", s=6)
    right.set(title="digits along two components, found encrypted", xlabel="first", ylabel="second")
    figure.colorbar(shown, ax=right)
    save_png(path, figure)


if __name__ == "__main__":
    raise SystemExit(main())
