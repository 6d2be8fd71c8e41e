"""Labelled images of digits: a folder of IDX files, or scikit-learn's digits where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FormatError, MismatchError, RangeError, StorageError
from classification.idx import read_idx

CLASSES = 10
PIXEL_BOUND = 0.5  # pixels are moved to [-1/2, 1/2]: half the bound of [0, 1], so smaller error bounds
MAX_TRAINING, MAX_TESTING = 8000, 2000
SETS = ("train", "t10k")  # in this order: the last images are then from the test set
SEED = 1


@dataclass(frozen=True)
class LabelledImages:
    """Images as columns of pixels in [-1/2, 1/2], pixels × images, with their digits.

    Attributes:
        pixels: float64, pixels × images.
        digits: int64, one per image.
        side: (rows, columns) of an image.
    """

    pixels: NDArray[np.float64]
    digits: NDArray[np.int64]
    side: tuple[int, int]

    def part(self, start: int, stop: int) -> LabelledImages:
        """Images start to stop - 1."""
        return LabelledImages(self.pixels[:, start:stop], self.digits[start:stop], self.side)


def load_folder(folder: Path) -> LabelledImages:
    """All images of a folder with MNIST's file names: `t10k-images-idx3-ubyte`, `train-…`, labels, `.gz` or not.

    Raises:
        StorageError: there are no such files, or one cannot be read.
        FormatError, MismatchError, RangeError: a file is damaged, or files do not belong together.
    """
    parts = []
    for name in SETS:
        images, labels = (
            _find(folder, f"{name}-{kind}") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
        )
        if images and labels:
            parts.append(_read_pair(images, labels))
        elif images or labels:
            raise StorageError(
                f"The folder {folder} has one of the two {name} files alone.",
                expected="images and labels",
                got=(images or labels or folder).name,
            )
    if not parts:
        raise StorageError(
            f"There are no images in {folder}.",
            expected="t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, or those of train; .gz or not",
            got="none",
        )
    shapes = {pixels.shape[1:] for pixels, _ in parts}
    if len(shapes) > 1:
        raise MismatchError("The images differ in size.", expected="one size", got=sorted(shapes))
    pixels = np.concatenate([pixels for pixels, _ in parts])
    return _columns(pixels, np.concatenate([digits for _, digits in parts]), 255)


def _find(folder: Path, name: str) -> Path | None:
    found = [path for path in (folder / name, folder / f"{name}.gz") if path.exists()]
    return found[0] if found else None


def _read_pair(images: Path, labels: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    pixels, digits = read_idx(images, 3), read_idx(labels, 1)
    if len(pixels) != len(digits):
        raise MismatchError(
            f"The file {labels.name} has another number of labels than there are images.",
            expected=len(pixels),
            got=len(digits),
        )
    if digits.max() >= CLASSES:
        raise RangeError(f"A label in {labels.name} is no digit.", expected="0 to 9", got=int(digits.max()))
    return pixels, digits


def load_digits() -> LabelledImages:
    """scikit-learn's digits: 1797 images of 8×8 pixels, in a fixed random order.

    Raises:
        StorageError: scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits as load
    except ImportError as error:
        raise StorageError(
            "The digits of scikit-learn are not installed.",
            advice="pip install scikit-learn",
            cause=f"{error}.",
        ) from error
    found = load()
    order = np.random.default_rng(SEED).permutation(len(found.target))  # neighbours are by the same writer
    return _columns(found.images[order], found.target[order], 16)


def _columns(pixels: NDArray, digits: NDArray, white: int) -> LabelledImages:
    columns = pixels.reshape(len(pixels), -1).T / float(white) - PIXEL_BOUND
    return LabelledImages(np.ascontiguousarray(columns), digits.astype(np.int64), pixels.shape[1:3])


def split(images: LabelledImages, testing: int | None) -> tuple[LabelledImages, LabelledImages]:
    """The first images to train with, at most 8,000, and the last `testing` to classify.

    Args:
        images: all of them.
        testing: how many to classify; None: a fifth, at most 2,000.

    Raises:
        FormatError: there are too few images.
    """
    count = len(images.digits)
    testing = min(count // 5, MAX_TESTING) if testing is None else testing
    training = min(count - testing, MAX_TRAINING)
    if testing < 1 or (training < count // 2 and training < MAX_TRAINING):
        raise FormatError(
            "The number of images to classify is out of range.",
            expected=f"1 to half of the {count} images",
            got=testing,
        )
    found = np.unique(images.digits[:training])
    if len(found) < CLASSES:
        raise FormatError(
            "The images to train with lack some digits.", expected="all of 0 to 9", got=found.tolist()
        )
    return images.part(0, training), images.part(count - testing, count)
