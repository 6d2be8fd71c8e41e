"""A picture of classified images: each with its true and its decrypted digit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cipherblas.report.figures import new_figure, save_png
from classification.images import LabelledImages

COLUMNS, ROWS = 10, 4


def draw(path: Path, images: LabelledImages, predicted: NDArray[np.int64], title: str) -> None:
    """Write the first images as PNG, the wrongly classified ones (at most half of the picture) last and in red.

    Raises:
        StorageError: the system refuses.
    """
    figure = new_figure(COLUMNS * 1.1, ROWS * 1.35 + 0.5)
    figure.suptitle(title, fontsize=12)
    grid = figure.subplots(ROWS, COLUMNS)
    for axis in grid.flat:
        axis.set_axis_off()
    for axis, index in zip(grid.flat, _chosen(images.digits, predicted), strict=False):
        axis.imshow(images.pixels[:, index].reshape(images.side), cmap="gray_r", interpolation="nearest")
        true, found = images.digits[index], predicted[index]
        axis.set_title(f"{true} → {found}", fontsize=10, color="black" if true == found else "tab:red")
    save_png(path, figure)


def _chosen(digits: NDArray[np.int64], predicted: NDArray[np.int64]) -> list[int]:
    wrong = np.flatnonzero(digits != predicted)[: ROWS * COLUMNS // 2]
    right = np.flatnonzero(digits == predicted)[: ROWS * COLUMNS - len(wrong)]
    return [*right.tolist(), *wrong.tolist()]
