"""Images, labels and samples for networks, from files of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.cli.arrays import IMAGES, load_labelled
from cipherblas.common.arrays import finite_array, shape_text
from cipherblas.common.errors import ShapeError


class ImageFile(NamedTuple):
    """Images as a network takes them, (n, channels, height, width) or (n, length); labels where the file has them."""

    images: NDArray[np.float64]
    labels: NDArray[Any] | None


def load_images(path: Path, shape: Sequence[int], count: int | None = None) -> ImageFile:
    """The first images of a file, for a network whose inputs have this shape.

    Args:
        path: a .npz archive with an array images, and labels perhaps; or images alone as a .npy file. Bytes are pixels
            (n, height, width, channels); other numbers are in the order of the network.
        count: how many at most.

    Raises:
        StorageError, FormatError: the file cannot be read, or has no array of that name. ShapeError: no image, or of
            another shape. DTypeError, RangeError: no finite real numbers.
    """
    given, labels = load_labelled(path, (len(shape) + 1,))
    what = f"{IMAGES} of {path}"
    pixels = given.dtype == np.uint8 and len(shape) == 3
    found = finite_array(given[:count] if given.ndim else given, what, (len(shape) + 1,))
    if pixels:
        found = found.transpose(0, 3, 1, 2)
    if found.shape[1:] != tuple(shape):
        inner = shape_text((*shape[1:], shape[0]) if pixels else shape)
        raise ShapeError(
            f"The {what} are no inputs of the network, {shape_text(shape)}.",
            expected=f"any number of {inner}" + ", bytes" * pixels,
            got=shape_text(given.shape),
        )
    if labels is not None and labels.shape[:1] != given.shape[:1]:
        raise ShapeError(
            f"There is one label for each image of {path}.", expected=given.shape[:1], got=labels.shape
        )
    return ImageFile(np.ascontiguousarray(found), None if labels is None else labels[:count])
