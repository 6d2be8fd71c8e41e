"""The lock beside a key file, NAME.lock: one process at a time changes the record, and shared results are counted.

The key file may be replaced, and so may the record; the lock is only ever written in place. Its count is what tells a
record that was taken away, or brought back from an earlier time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

from cipherblas.common.errors import FormatError, MismatchError, StorageError
from cipherblas.crypto import files
from cipherblas.roles.budget import NEW_KEY

SUFFIX = ".lock"
LATEST = "the latest {} of this very key, from a backup"
_MAX_BYTES = 4096


class KeyLock:
    """The open lock of a key file, held."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self._path = descriptor, path

    def count(self, key_id: str) -> int | None:
        """How many results were shared under the key; None where nobody has counted.

        Raises:
            FormatError: it holds something else. MismatchError: the count of another key.
        """
        found = self._found()
        if found is None:
            return None
        if found[0] != key_id:
            raise MismatchError(
                f"{self._path} belongs to another key pair.",
                expected=key_id,
                got=found[0],
                advice=LATEST.format(self._path),
            )
        return found[1]

    def counts_another(self, key_id: str) -> bool:
        """Whether the count is that of another key, or of none."""
        found = self._found()
        return found is None or found[0] != key_id

    def set_count(self, key_id: str, count: int) -> None:
        """Write the count, in place; on the disk when this returns."""
        text = f"{key_id} {count:020d}\n".encode()
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))
        os.fsync(self._descriptor)

    def _found(self) -> tuple[str, int] | None:
        raw = os.pread(self._descriptor, _MAX_BYTES, 0)
        if not raw:
            return None
        match = re.fullmatch(rb"([!-~]{1,200}) ([0-9]{20})\n", raw)
        if match is None:
            raise FormatError(
                f"{self._path} is damaged.",
                expected="the name of a key pair and a count",
                got=f"{len(raw)} bytes",
                advice=(LATEST.format(self._path), NEW_KEY),
            )
        return match[1].decode(), int(match[2])


@contextlib.contextmanager
def locked(key_file: Path) -> Iterator[KeyLock]:
    """Held by one process at a time.

    Raises:
        StorageError: the file cannot be made or locked.
    """
    path = key_file.with_name(key_file.name + SUFFIX)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise files.storage_error("lock", path, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield KeyLock(descriptor, path)
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise files.storage_error("lock", path, error) from error
    finally:
        os.close(descriptor)
