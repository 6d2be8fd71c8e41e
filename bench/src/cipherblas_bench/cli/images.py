"""Images, labels and samples for networks, from files of NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from cipherblas.cli.arrays import load_array, load_members
from cipherblas.common.arrays import finite_array, shape_text
from cipherblas.common.errors import FormatError, ShapeError

IMAGES, LABELS = "images", "labels"  # in an archive
Normalised = tuple[tuple[float, ...], tuple[float, ...]]  # mean and deviation, of each channel or of all


class ImageFile(NamedTuple):
    """Images as a network takes them, (n, channels, height, width) or (n, length); labels where the file has them."""

    images: NDArray[np.float64]
    labels: NDArray[Any] | None


def parse_normalised(texts: tuple[str, str] | None) -> Normalised | None:
    """`123.7,116.3,103.5 58.4,57.1,57.4`, or one number each."""
    if texts is None:
        return None
    mean, deviation = (tuple(map(_number, text.split(","))) for text in texts)
    if len(mean) != len(deviation):
        raise typer.BadParameter(
            f"expected as many means as deviations, got {len(mean)} and {len(deviation)}",
            param_hint="--normalise",
        )
    if min(deviation) <= 0:
        raise typer.BadParameter(
            f"expected deviations above zero, got {texts[1]!r}", param_hint="--normalise"
        )
    return mean, deviation


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise typer.BadParameter(
            f"expected numbers such as 123.7,116.3,103.5, got {text!r}", param_hint="--normalise"
        )
    return found


def load_images(
    path: Path, shape: Sequence[int], count: int | None = None, normalised: Normalised | None = None
) -> ImageFile:
    """The first images of a file, for a network whose inputs have this shape.

    Args:
        path: a .npz archive with an array images, and labels perhaps; or images alone as a .npy file. Bytes are pixels
            (n, height, width, channels); other numbers are in the order of the network.
        count: how many at most.
        normalised: mean and deviation that are taken out of the numbers of the file.

    Raises:
        StorageError, FormatError: the file cannot be read, or has no array of that name. ShapeError: no image, or of
            another shape. DTypeError, RangeError: no finite real numbers.
    """
    archive = path.suffix.lower() == ".npz"
    members = load_members(path) if archive else {IMAGES: load_array(path, (len(shape) + 1,))}
    if IMAGES not in members:
        raise FormatError(
            f"{path} has no array {IMAGES!r}.",
            expected=IMAGES,
            got=", ".join(members) or "an empty archive",
            advice=f"numpy.savez({str(path)!r}, images=images, labels=labels)",
        )
    given, what = members[IMAGES], f"{IMAGES} of {path}"
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
    labels = members.get(LABELS)
    if labels is not None and labels.shape[:1] != given.shape[:1]:
        raise ShapeError(
            f"There is one label for each image of {path}.", expected=given.shape[:1], got=labels.shape
        )
    return ImageFile(
        np.ascontiguousarray(_without(normalised, found)), None if labels is None else labels[:count]
    )


def _without(normalised: Normalised | None, images: NDArray[np.float64]) -> NDArray[np.float64]:
    if normalised is None:
        return images
    if len(normalised[0]) not in (1, images.shape[1]):
        raise ShapeError(
            "There is one mean and one deviation for each channel, or one for all.",
            expected=images.shape[1],
            got=len(normalised[0]),
        )
    mean, deviation = (np.reshape(one, (-1, *[1] * (images.ndim - 2))) for one in normalised)
    return np.asarray((images - mean) / deviation)
