"""Files that are bytes in memory, of everything that has files: the same content, and no file of the system."""

from __future__ import annotations

import io
from typing import Any, TypeVar

from cipherblas.common.errors import DTypeError
from cipherblas.common.progress import Progress
from cipherblas.crypto.files.streams import BYTES

Kept = TypeVar("Kept", bound="InMemory")


class InMemory:
    """A class with `save` and `load`, whose files may be bytes in memory."""

    __slots__ = ()

    def to_bytes(self, *, progress: Progress | None = None) -> bytes:
        """The file that `save` writes, as bytes: nothing is written to a disk.

        Args:
            progress: as that of `save`, where it has one.

        Raises:
            CipherblasError: as `save`, but for errors of disks.
        """
        saved: Any = self
        stream = io.BytesIO()
        saved.save(stream, **_told(progress))
        return stream.getvalue()

    @classmethod
    def from_bytes(
        cls: type[Kept],
        content: bytes | bytearray | memoryview,
        *,
        progress: Progress | None = None,
        **options: Any,
    ) -> Kept:
        """Read what `to_bytes` returned, or `save` wrote: as `load`, of bytes alone.

        Args:
            content: of the file.
            progress: as that of `load`, where it has one.
            options: the others of `load`, as `security`.

        Raises:
            DTypeError: no bytes.
            CipherblasError: as `load`, but for errors of disks.
        """
        kind: Any = cls
        check_bytes(content, f"{cls.__name__}.load(path)")
        found: Kept = kind.load(content, **_told(progress), **options)
        return found


def _told(progress: Progress | None) -> dict[str, Progress]:
    return {} if progress is None else {"progress": progress}


def check_bytes(content: object, otherwise: str) -> None:
    """Raise DTypeError unless these are bytes; `otherwise`: what to write for a path."""
    if not isinstance(content, BYTES):
        raise DTypeError(
            "The content of a file is given as bytes.",
            got=type(content).__name__,
            advice=("the bytes that to_bytes() returned", otherwise),
        )
