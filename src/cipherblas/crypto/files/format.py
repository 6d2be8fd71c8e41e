"""What writer and reader share: names, limits, checksums."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import IO, Any

import numpy as np

from cipherblas.common.errors import StorageError, in_place_of

FORMAT_VERSION = 2
KINDS = (
    *("program", "client-program", "secret-key", "public-key", "evaluation-keys", "ciphertext"),
    *("encrypted-matrix", "key-record"),
)

ANY = ""  # in place of a kind, where a file may be of any
MAGIC = "cipherblas"  # metadata entry that holds the format version
ENTRIES = (MAGIC, "kind", "fingerprint", "security", "parameters", "header", "digests", "checksum")
MAX_HEADER_BYTES = 1 << 24
MAX_DIMENSIONS = 8
MAX_NESTING = 16  # of lists and objects in a header
MAX_DIGITS = 20  # of an integer of 64 bits, its sign included
BLOCK_BYTES = 8 << 20  # read, hashed and written at a time: Ctrl-C is answered between blocks
NO_CHECKSUM = "0" * 64

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(code)
    for name, code in {
        "U8": "<u1",
        "I8": "<i1",
        "U16": "<u2",
        "I16": "<i2",
        "U32": "<u4",
        "I32": "<i4",
        "U64": "<u8",
        "I64": "<i8",
        "F32": "<f4",
        "F64": "<f8",
    }.items()
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}

A_NAME = "a path without zero bytes"
PathLike = str | os.PathLike[str]
Content = bytes | bytearray | memoryview
Source = str | os.PathLike[str] | Content | IO[bytes]  # what is read: a path, or what has the bytes of a file
Target = str | os.PathLike[str] | IO[bytes]  # where to: a path, or what takes the bytes of a file


def storage_error(action: str, path: PathLike, error: OSError, **details: Any) -> StorageError:
    """Return a StorageError for a failed operation ("read", say) on a path, with advice against its cause."""
    reason = error.strerror or str(error)
    details.setdefault("got", reason)
    details.setdefault("advice", _remedies(action == "read", Path(path), error.errno))
    found = StorageError(f"Cannot {action} {os.fspath(path)}.", errno=error.errno, **details)
    found.standing_at(os.fspath(path))
    return found


def _remedies(reading: bool, path: Path, number: int | None) -> tuple[str, ...]:
    """Return advice against this errno, or nothing if there is none."""
    if number in (errno.ENOENT, errno.ENOTDIR):
        return _beside(path) if reading else (f"mkdir -p {path.parent}, or a path in a folder that there is",)
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            (f"chmod u+r {path}, by its owner",) if reading else ("a path in a folder that you may write to",)
        )
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return ("a path on a disk with more room",)
    if number == errno.EISDIR:
        return (f"the path of a file, as in {path / 'NAME'}",)
    return (f"a file in place of the symbolic link {path}",) if number == errno.ELOOP else ()


def _beside(path: Path) -> tuple[str, ...]:
    """The path in the same folder whose name is nearest, if one is near."""
    try:
        names = os.listdir(path.parent)
    except OSError:
        return ()
    return tuple(str(path.with_name(name)) for name in in_place_of(path.name, names))


def hasher() -> Any:
    return hashlib.blake2b(digest_size=32, person=b"cipherblas")


def header_checksum(header: bytes) -> str:
    return str(hashlib.blake2b(len(header).to_bytes(8, "little") + header, digest_size=32).hexdigest())
