"""Reading IDX files, the format of MNIST: unsigned bytes in an array of any number of dimensions."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FormatError
from cipherblas.crypto import files

Stream: TypeAlias = BinaryIO | gzip.GzipFile

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTE = 0x08  # the element type of images and labels; the format knows five others
MAX_BYTES = 1 << 30  # bytes: a damaged header must not ask for more


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array in an IDX file of unsigned bytes; the file may be compressed by gzip.

    Args:
        path: of the file.
        dimensions: how many the array must have: 3 for images (image, row, column), 1 for labels.

    Raises:
        FormatError: it is no IDX file of bytes, has other dimensions, or is truncated or too long.
        StorageError: the system cannot read it.
    """
    with files.opened(path, "an IDX file") as raw:
        compressed = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        raw.seek(0)
        if not compressed:
            return _read(raw, path, dimensions)
        try:
            with gzip.GzipFile(fileobj=raw) as stream:
                return _read(stream, path, dimensions)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise FormatError(
                f"The file {path.name} is damaged.", expected="a whole gzip file", got=str(error)
            ) from error


def _read(stream: Stream, path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Header: two zero bytes, element type, number of dimensions, each length in 4 bytes, highest byte first."""
    magic = _exactly(stream, 4, path)
    if magic[:2] != b"\0\0":
        raise FormatError(
            f"The file {path.name} is no IDX file.", expected="two zero bytes first", got=magic[:2].hex()
        )
    if magic[2] != UNSIGNED_BYTE:
        raise FormatError(
            f"The entries of {path.name} have another type.",
            expected="0x08, unsigned bytes",
            got=f"0x{magic[2]:02x}",
        )
    if magic[3] != dimensions:
        raise FormatError(
            f"The array of {path.name} has another number of dimensions.", expected=dimensions, got=magic[3]
        )
    shape = tuple(int(length) for length in np.frombuffer(_exactly(stream, 4 * dimensions, path), ">u4"))
    size = math.prod(shape)
    if not 0 < size <= MAX_BYTES:
        raise FormatError(
            f"The array of {path.name} is empty or too large.",
            expected=f"1 to {MAX_BYTES} entries",
            got=shape,
        )
    content = _exactly(stream, size, path)
    if stream.read(1):
        raise FormatError(
            f"The file {path.name} is longer than its header says.",
            expected=f"{size} bytes of content",
            got="more",
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


def _exactly(stream: Stream, count: int, path: Path) -> bytes:
    content = stream.read(count)
    if len(content) != count:
        raise FormatError(f"The file {path.name} is truncated.", expected=f"{count} bytes", got=len(content))
    return content
