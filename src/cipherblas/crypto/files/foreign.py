"""Files that are not ours: what they seem to be, and what is written in their place."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from cipherblas.common.errors import Advice, CipherblasError, FormatError, StorageError, VersionError
from cipherblas.crypto.files import format as form

NUMPY, ZIP = b"\x93NUMPY", b"PK\x03\x04"
NEEDED = 8  # bytes of the beginning that are looked at
# By the kind that was wanted: what people call it, and what makes it. {path} is what was given, {ours} a name for it.
WANTED: dict[str, tuple[str, str]] = {
    "program": ("a program", "the file that cipherblas plan -o FILE, or program.save(FILE), wrote"),
    "client-program": ("a program for clients", "the file that program.save_client(FILE) wrote"),
    "secret-key": ("a secret key", "the folder that cipherblas keygen -o FOLDER wrote"),
    "public-key": ("a public key", "the file public-key in the folder of cipherblas keygen"),
    "evaluation-keys": (
        "a set of evaluation keys",
        "the folder evaluation in the folder of cipherblas keygen",
    ),
    "ciphertext": ("a ciphertext", "the file that cipherblas encrypt, or cipherblas run, wrote"),
    "encrypted-matrix": ("an encrypted matrix", "the file that cipherblas encrypt, or cipherblas run, wrote"),
    "machine": (
        "a file of a machine",
        "the file that cipherblas machine -o FILE, or Machine.save(FILE), wrote",
    ),
}
WANTED[form.ANY] = ("a file of cipherblas", "a file that a command, or save(PATH), wrote")
RECORD = "key-record"  # of what was shared under a key
# What else helps where there is no whole copy.
AGAIN = {
    "secret-key": (
        "program.client(), or cipherblas keygen, for another key, with which all is encrypted again",
    ),
    "evaluation-keys": ("client.evaluation_keys().save(PATH), or another cipherblas keygen",),
    "public-key": ("client.public_key().save(PATH)",),
    "machine": ("cb.Machine.measure(), or cipherblas machine -o FILE, on that machine",),
}
ARRAY = "cipherblas encrypt KEYS {path} -o {ours}, and {ours} in place of {path}"


def wanted(kind: str) -> str:
    """Describe the content of a file of ours, by its kind."""
    return WANTED[kind][0] if kind in WANTED else f"a file of the kind {kind}"


def made(kind: str) -> tuple[str, ...]:
    """The file of a kind of ours that is to be given."""
    return WANTED[kind][1:] if kind in WANTED else ()


@contextlib.contextmanager
def standing_at(place: str) -> Iterator[None]:
    """Tell errors of what is read or written at a place that their texts may name it."""
    try:
        yield
    except CipherblasError as error:
        error.standing_at(place)
        raise


@contextlib.contextmanager
def advised(kind: str) -> Iterator[None]:
    """Add advice to errors of readers of one kind of file: the file to give instead.

    It decorates what reads the content of the file as well: a header with the right checksum may say anything.
    """
    try:
        yield
    except FormatError as error:
        error.advice = error.advice or (*map(Advice, _instead(kind, isinstance(error, VersionError))),)
        raise
    except StorageError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EINVAL):
            more = tuple(map(Advice, made(kind)))  # which a reader inside has said already
            error.advice += tuple(one for one in more if one not in error.advice)
        raise


def _instead(kind: str, old: bool) -> tuple[str, ...]:
    """In place of a damaged file, or of one of an older version."""
    if kind == RECORD:
        return "its latest state, from a backup", "no record: the key then decrypts, and shares nothing more"
    source = made(kind)[0] if made(kind) else "it"
    return (f"{source} with this version" if old else f"a new copy of {source}", *AGAIN.get(kind, ()))


def refused(path: str, kind: str, start: bytes) -> FormatError:
    """The error of a file that begins with these bytes, where one of a kind of ours was wanted."""
    array = start.startswith(NUMPY) and kind in ("ciphertext", "encrypted-matrix")
    advice = [ARRAY.format(path=path, ours=Path(path).with_suffix(".ct"))] if array else []
    return FormatError(f"{path} is {_kind_of(start)}, not {wanted(kind)}.", advice=[*advice, *made(kind)])


def _kind_of(start: bytes) -> str:
    if start.startswith(NUMPY):
        return "a NumPy file"
    if start.startswith(ZIP):
        return "a .npz or .zip archive"
    if not start:
        return "empty"
    text = start.decode("ascii", "replace")
    return "a text" if all(c.isprintable() or c in "\t\r\n" for c in text) else "not a file of cipherblas"
