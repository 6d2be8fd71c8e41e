"""What writer and reader share: names, limits, checksums."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np

from cipherblas.common.errors import StorageError

FORMAT_VERSION = 2
KINDS = (
    *("program", "secret-key", "public-key", "evaluation-keys", "ciphertext"),
    *("encrypted-matrix", "key-record"),
)

MAGIC = "cipherblas"  # metadata entry that holds the format version
ENTRIES = (MAGIC, "kind", "fingerprint", "security", "parameters", "header", "digests", "checksum")
MAX_HEADER_BYTES = 1 << 24
MAX_DIMENSIONS = 8
MAX_NESTING = 16  # of lists and objects in a header
MOST_DIGITS = 20  # of an integer of 64 bits, its sign included
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

PathLike = str | os.PathLike[str]


def storage_error(action: str, path: PathLike, error: OSError, **details: Any) -> StorageError:
    reason = error.strerror or str(error)
    details.setdefault("got", reason)
    return StorageError(f"Cannot {action} {os.fspath(path)}.", errno=error.errno, **details)


def hasher() -> Any:
    return hashlib.blake2b(digest_size=32, person=b"cipherblas")


def header_checksum(header: bytes) -> str:
    return str(hashlib.blake2b(len(header).to_bytes(8, "little") + header, digest_size=32).hexdigest())
