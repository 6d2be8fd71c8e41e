"""The picture of the demonstration: inputs, what the server sees, results, errors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.report.figures import new_figure, save_png

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class DemoPicture:
    """The data of the picture. Images are rows of 64 pixels, ordered by digit; errors are relative to the bound."""

    queries: Matrix
    gallery: Matrix
    query_digits: NDArray[np.int64]
    gallery_digits: NDArray[np.int64]
    ciphertext: NDArray[np.uint64]
    similarity: Matrix
    similarity_errors: Matrix
    weights: Matrix
    scores: Matrix
    scores_errors: Matrix
    allowed: float
    captions: tuple[str, str]


def draw(path: Path, content: DemoPicture) -> None:
    """Write the picture as PNG, whole or not at all; StorageError where the system refuses."""
    figure = new_figure(16, 8.6)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
    figure.suptitle("Matrix products on a server that holds no secret key", fontsize=17, fontweight="bold")
    axes = figure.subplots(2, 4, width_ratios=[1, 1, 1.35, 1.1])
    _first_row(figure, axes[0], content)
    _second_row(figure, axes[1], content)
    save_png(path, figure)


def _first_row(figure: Any, axes: Any, content: DemoPicture) -> None:
    count, known = len(content.queries), len(content.gallery)
    _mosaic(axes[0], content.queries, content.query_digits)
    _title(axes[0], "Client: images, by digit", f"{count} queries and {known} known images, both encrypted")
    words = content.ciphertext.astype(np.float64)
    side = 1 << (words.size.bit_length() // 2)
    words = words[: words.size // side * side]
    axes[1].imshow(words.reshape(-1, side)[:side], cmap="gray", interpolation="nearest")
    axes[1].set_anchor("NW")
    axes[1].set_axis_off()
    _title(axes[1], "Server: the same, encrypted", f"one limb of one ciphertext: {words.size} words")
    low = float(content.similarity.min())
    image = axes[2].imshow(
        content.similarity, cmap="magma", vmin=low, vmax=1, aspect="auto", interpolation="nearest"
    )
    figure.colorbar(image, ax=axes[2], pad=0.02, label="similarity")
    _digit_ticks(axes[2].xaxis, content.gallery_digits)
    _digit_ticks(axes[2].yaxis, content.query_digits)
    axes[2].set_xlabel("known images, by digit")
    axes[2].set_ylabel("queries, by digit")
    _title(axes[2], f"Decrypted: queries @ gallery.T ({count}x{known})", content.captions[0])
    _errors(axes[3], content.similarity_errors, content.allowed)


def _second_row(figure: Any, axes: Any, content: DemoPicture) -> None:
    weights, scores = content.weights, content.scores
    limit = float(np.abs(weights).max())
    _tiles(axes[0], weights, columns=4, cmap="RdBu_r", limits=(-limit, limit))
    for digit in range(len(weights)):
        axes[0].text(9 * (digit % 4), 9 * (digit // 4) + 1.3, str(digit), fontsize=9, fontweight="bold")
    _title(axes[0], "Public: the weights of a classifier", "one 8x8 image per digit; the server sees these")
    _verdicts(axes[1], content)
    _title(axes[1], "Client: recognised digits", "what the decrypted scores say; red: wrong")
    low, high = np.quantile(scores, [0.005, 0.999])
    image = axes[2].imshow(scores, cmap="magma", vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    figure.colorbar(image, ax=axes[2], pad=0.02, label="score")
    axes[2].set_yticks(range(10))
    _digit_ticks(axes[2].xaxis, content.query_digits)
    axes[2].set_xlabel("queries, by digit")
    axes[2].set_ylabel("digit")
    shape = f"{scores.shape[0]}x{scores.shape[1]}"
    _title(axes[2], f"Decrypted: weights @ pixels ({shape})", content.captions[1])
    _errors(axes[3], content.scores_errors, content.allowed)


def _title(axis: Any, title: str, subtitle: str) -> None:
    axis.set_title(f"{title}\n", fontsize=12, fontweight="bold", loc="left")
    text = axis.text(0, 1.02, subtitle, transform=axis.transAxes, fontsize=8.5, color="0.35")
    text.set_in_layout(False)  # a long line must not push the colour bar away


def _tiles(
    axis: Any, images: Matrix, *, columns: int, cmap: str, limits: tuple[float, float], pitch: int = 9
) -> None:
    """8x8 images in rows; `pitch` pixels from one to the next."""
    rows = -(-len(images) // columns)
    canvas = np.full((rows * pitch - 1, columns * pitch - 1), np.nan)
    for index, image in enumerate(images):
        top, left = pitch * (index // columns), pitch * (index % columns)
        canvas[top : top + 8, left : left + 8] = image.reshape(8, 8)
    axis.imshow(canvas, cmap=cmap, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    axis.set_anchor("NW")
    axis.set_axis_off()


def _mosaic(axis: Any, images: Matrix, digits: NDArray[np.int64], per_digit: int = 10) -> None:
    """The first images of every digit, one digit per row."""
    rows = []
    for digit in range(10):
        found = images[digits == digit][:per_digit]
        rows.append(np.concatenate([found, np.zeros((per_digit - len(found), 64))]))
    _tiles(axis, np.concatenate(rows), columns=per_digit, cmap="gray_r", limits=(0, 0.45))


def _verdicts(axis: Any, content: DemoPicture, columns: int = 8, rows: int = 6, pitch: int = 11) -> None:
    """Images with the digit that the encrypted classifier found; some wrong ones among them, in red."""
    found = content.scores.argmax(axis=0)
    wrong = np.flatnonzero(found != content.query_digits)
    right = np.flatnonzero(found == content.query_digits)
    few = wrong[:: max(1, len(wrong) // 5)][:5]
    places = min(columns * rows - len(few), len(right))
    spread = right[np.linspace(0, max(len(right) - 1, 0), places).astype(int)]
    chosen = np.sort(np.concatenate([few, spread]))
    _tiles(axis, content.queries[chosen], columns=columns, cmap="gray_r", limits=(0, 0.45), pitch=pitch)
    for place, index in enumerate(chosen):
        good = found[index] == content.query_digits[index]
        axis.text(
            pitch * (place % columns) + 8.2,
            pitch * (place // columns) + 8.6,
            str(found[index]),
            ha="center",
            fontsize=9.5,
            fontweight="bold",
            color="tab:green" if good else "tab:red",
        )


def _digit_ticks(axis: Any, digits: NDArray[np.int64]) -> None:
    """One label in the middle of each digit's range."""
    present = [digit for digit in range(10) if (digits == digit).any()]
    axis.set_ticks([float(np.flatnonzero(digits == digit).mean()) for digit in present], map(str, present))


def _errors(axis: Any, errors: Matrix, allowed: float) -> None:
    """Histogram of the relative errors on a logarithmic axis, with the precision asked for."""
    logs = np.log10(np.maximum(errors.ravel(), 1e-18))
    low = np.floor(np.quantile(logs, 0.001))
    axis.hist(
        10 ** np.maximum(logs, low), bins=np.logspace(low, np.log10(allowed) + 0.5, 60), color="tab:blue"
    )
    axis.set_xscale("log")
    axis.axvline(errors.max(), color="tab:blue", linestyle="--", label=f"largest: {errors.max():.1e}")
    axis.axvline(allowed, color="tab:red", label=f"asked for: {allowed:.0e}")
    axis.set_yticks([])
    axis.set_xlabel("|decrypted - NumPy| / (max|A|·max|B|·k)")
    axis.legend(loc="upper left", fontsize=8.5, frameon=False)
    axis.spines[["top", "right", "left"]].set_visible(False)
    _title(axis, "Error", f"{errors.size} entries against NumPy")
