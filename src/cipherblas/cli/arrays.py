"""NumPy files in and out, with our errors and atomic writes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import MAGIC_PREFIX
from numpy.typing import NDArray

from cipherblas.common.arrays import narrow_array
from cipherblas.common.errors import DTypeError, FormatError
from cipherblas.crypto import files

IMAGES, LABELS = "images", "labels"  # in an archive

SAVED = "numpy.save({!r}, array)"
_TEXTS = (".csv", ".tsv", ".txt")


def load_array(path: Path, dimensions: Sequence[int], wide: bool = False) -> NDArray[Any]:
    """The real, finite array in a `.npy` file, of one of these numbers of dimensions.

    Its type is that of `cipherblas.common.arrays.narrow_array`.

    Args:
        wide: integers of 64 bits stay what they are, for operands of exact integers, and of those modulo t.

    Raises:
        StorageError: the file cannot be read.
        FormatError: it is no NumPy file, or a damaged one.
        ShapeError, DTypeError, RangeError: its content is no such array of finite real numbers.
    """
    given = _load(path)
    found = narrow_array(given, str(path), dimensions)
    if wide and given.dtype.kind in "iu" and given.dtype.itemsize == 8:
        return given.astype(given.dtype.newbyteorder("="), copy=False)
    return found


def load_members(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays in a `.npz` archive, by name; they are not checked.

    Raises:
        StorageError, FormatError, DTypeError: as `load_array`, of an archive.
    """
    expected = "a .npz archive of arrays"
    try:
        with files.opened(path, expected) as stream:
            if stream.read(2) != b"PK":  # NumPy would take it for a pickle
                raise ValueError(f"a file that is not {expected}")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                return {name: np.asarray(archive[name]) for name in archive.files}
    except (ValueError, EOFError, SyntaxError, KeyError, zipfile.BadZipFile) as error:
        raise FormatError(
            f"{path} is not a whole archive of NumPy.",
            got=str(error),
            advice=f"numpy.savez({str(path)!r}, images=images, labels=labels)",
        ) from error


def load_labelled(path: Path, dimensions: Sequence[int]) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The inputs of a network and their labels: the arrays images and labels of a `.npz` archive, which are not
    checked; or inputs alone of a `.npy` file.

    Raises:
        StorageError, FormatError, DTypeError, ShapeError: as `load_array` and `load_members`, or no array images.
    """
    if path.suffix.lower() != ".npz":
        return load_array(path, dimensions), None
    members = load_members(path)
    if IMAGES not in members:
        raise FormatError(
            f"{path} has no array {IMAGES!r}.",
            expected=IMAGES,
            got=", ".join(members) or "an empty archive",
            advice=f"numpy.savez({str(path)!r}, images=images, labels=labels)",
        )
    return members[IMAGES], members.get(LABELS)


def _load(path: Path) -> NDArray[Any]:
    expected = "a .npy file with an array of real numbers"
    try:
        with files.opened(path, expected) as stream:
            _check_kind(path, stream.read(len(MAGIC_PREFIX)), expected)
            # Mapped first: that compares the size of the file with its header before anything is allocated.
            np.load(f"/dev/fd/{stream.fileno()}", mmap_mode="r", allow_pickle=False)
            stream.seek(0)  # where /dev/fd gives the same description, the header was read from it
            return np.asarray(np.load(stream, allow_pickle=False))
    except (ValueError, EOFError, SyntaxError) as error:
        if "Python objects" in str(error):
            raise DTypeError(
                f"{path} holds Python objects, not numbers.",
                advice=f"numpy.save({str(path)!r}, array.astype(float))",
            ) from error
        raise FormatError(
            f"{path} is not a whole NumPy file.", got=str(error), advice=SAVED.format(str(path))
        ) from error


def _check_kind(path: Path, start: bytes, expected: str) -> None:
    """FormatError where a file does not begin as a `.npy` file does; NumPy would take it for a pickle."""
    if start == MAGIC_PREFIX:
        return
    if start.startswith(b"PK"):
        raise FormatError(
            f"{path} is a .npz archive, which may hold several arrays, not {expected}.",
            advice=f"numpy.save({path.with_suffix('.npy').name!r}, numpy.load({path.name!r})[name])",
        )
    if path.suffix.lower() in _TEXTS:
        numbers = f"numpy.loadtxt({path.name!r}, delimiter=',')"
        target = f"{path.with_suffix('.npy').name!r}"
        raise FormatError(f"{path} is a text, not {expected}.", advice=f"numpy.save({target}, {numbers})")
    if not start:
        raise FormatError(f"{path} is empty, not {expected}.", advice=SAVED.format(str(path)))
    raise FormatError(
        f"{path} is not a NumPy file.",
        got=f"a file that begins with {start!r}",
        advice=SAVED.format(str(path)),
    )


def lengths_of(shape: Any) -> Any:
    """A shape as JSON has it, or those of several results, in a list or by name."""
    if isinstance(shape, Mapping):
        return {name: list(one) for name, one in shape.items()}
    return [one if isinstance(one, int) else list(one) for one in shape]


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], *, private: bool = False) -> None:
    """Write a `.npz` file of arrays by any names (`numpy.savez` has names of its own), as `save_array`."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.save(member, array, allow_pickle=False)
    files.save_bytes(path, buffer.getvalue(), private=private)


def save_array(path: Path, array: NDArray[Any], *, private: bool = False) -> None:
    """Write a `.npy` file, whole or not at all; StorageError where the system refuses.

    Args:
        private: readable by the owner only (mode 0600).
    """
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    files.save_bytes(path, buffer.getvalue(), private=private)
