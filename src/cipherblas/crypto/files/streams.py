"""Files that have no path: bytes, and what reads or writes them. Streams pass through a file without a name.

So they are checked, and written whole or not at all, as all others are. Bytes are read where they are.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from cipherblas.common.errors import DTypeError
from cipherblas.crypto.files import format as form

BYTES = (bytes, bytearray, memoryview)


def is_read(source: Any) -> bool:
    """Whether it is bytes, or has some to be read."""
    return isinstance(source, BYTES) or hasattr(source, "read")


def is_written(target: Any) -> bool:
    """Whether bytes are written to it."""
    return hasattr(target, "write")


def as_buffer(content: bytes | bytearray | memoryview) -> memoryview:
    """Bytes as a view of them, without a copy where they lie one after the other."""
    view = memoryview(content)
    return view.cast("B") if view.contiguous else memoryview(view.tobytes())


def check_path(place: Any) -> None:
    """Raise DTypeError where a path alone will do: of keys whose record stands beside them."""
    if is_read(place) or is_written(place):
        raise DTypeError(
            "A secret key is kept in a file with a path.",
            got=type(place).__name__,
            advice=('a path, as "client.key"', "client.to_bytes(), of a key that shares no results"),
            cause="What was spent under it is written beside it.",
        )
    name_of(place)


def name_of(place: form.Source | form.Target) -> str:
    """Return the name of a path or a stream, for messages.

    Raises:
        DTypeError: it is no path, no bytes and no stream.
    """
    if isinstance(place, BYTES):
        return "the file in memory"
    if is_read(place) or is_written(place):
        name = getattr(place, "name", None)
        return name if isinstance(name, str) else "the stream"
    if not isinstance(place, (str, os.PathLike)):
        raise DTypeError(
            "A file is given by its path, or as a stream of bytes.",
            got=type(place).__name__,
            advice=('a path, as "product.program"', "a stream, as io.BytesIO()"),
        )
    return os.fspath(place)


def spooled(source: Any) -> int:
    """A descriptor of all that is left to be read.

    Raises:
        DTypeError: it reads text.
    """
    with tempfile.TemporaryFile() as file:
        if isinstance(source, BYTES):
            file.write(source)
        else:
            _checked(source.read(0), "read")
            shutil.copyfileobj(source, file, form.BLOCK_BYTES)
        file.seek(0)
        return os.dup(file.fileno())


@contextlib.contextmanager
def written(target: Any) -> Iterator[int]:
    """A descriptor whose bytes are written to a stream when the block ends without error."""
    with _unnamed(in_memory=isinstance(target, io.BytesIO)) as file:
        yield file.fileno()
        file.seek(0)
        _copied(file, target)


def _unnamed(in_memory: bool) -> IO[bytes]:
    """A file without a name; on no disk where its content goes to memory anyway, and may be a secret."""
    if in_memory and hasattr(os, "memfd_create"):
        return open(os.memfd_create("cipherblas", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()


def _copied(file: IO[bytes], target: Any) -> None:
    while block := file.read(form.BLOCK_BYTES):
        try:
            done = target.write(block)
        except TypeError as error:
            raise _no_text("write") from error
        while done is not None and done < len(block):  # as raw streams, and sockets, do
            block = block[done:]
            done = target.write(block)


def _checked(found: object, what: str) -> None:
    if not isinstance(found, bytes):
        raise _no_text(what)


def _no_text(what: str) -> DTypeError:
    mode = "rb" if what == "read" else "wb"
    return DTypeError(
        f"Files of cipherblas are bytes, and this stream {what}s text.", advice=f'open(path, "{mode}")'
    )
