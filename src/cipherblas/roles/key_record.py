"""What a client remembers beside its secret key: which encryptions are its latest, and what of it was shared.

In memory while the key is in no file; else in a file beside the key file, NAME.record, which every process that loads
the key reads and writes under a lock. The record is no secret.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cipherblas.common import schema
from cipherblas.common.errors import FormatError, MismatchError, SecurityError, StorageError
from cipherblas.crypto import files
from cipherblas.crypto.params import Parameters
from cipherblas.roles.sharing import LEAST_BITS, MOST_BITS, MOST_ENTRIES, Sharing

KIND = "key-record"
SUFFIX = ".record"
DIGEST_BYTES = 32
_HEADER = schema.record(
    {
        "key_id": schema.text,
        "encrypted": schema.mapping(schema.text),
        "sharing": schema.either(
            schema.nothing,
            schema.record(
                {"entries": schema.whole(1, MOST_ENTRIES), "bits": schema.whole(LEAST_BITS, MOST_BITS)}
            ),
        ),
        "spent": schema.whole(),
    },
    others=True,
)


@dataclass
class _Content:
    """Name → digest of the latest encryption; the sharing, its spent entries, digests of shared results."""

    encrypted: dict[str, str] = field(default_factory=dict)
    sharing: Sharing | None = None
    spent: int = 0
    shared: dict[str, None] = field(default_factory=dict)

    def spend(self, sharing: Sharing, entries: int, digest: str) -> None:
        if self.sharing is not None and self.sharing != sharing:
            raise MismatchError("The budget of a key cannot be changed.", expected=self.sharing, got=sharing)
        if digest in self.shared:
            raise SecurityError(
                "This result was shared before: what is decrypted twice has its noise averaged out.",
                expected="a result that was not shared",
                got=digest[:16],
            )
        left = sharing.entries - self.spent
        if entries > left:
            raise SecurityError(
                "The result exceeds the entries that may still be shared under this key: make a new key.",
                expected=f"at most {left} of {sharing.entries} entries",
                got=entries,
            )
        self.sharing = sharing
        self.spent += entries
        self.shared[digest] = None

    def merge_budget(self, other: _Content) -> None:
        """Take in what another record of the same key knows: nothing that was spent is forgotten.

        A key belongs to a program, so that all its results have the same number of entries.
        """
        if self.sharing is not None and other.sharing is not None and self.sharing != other.sharing:
            raise MismatchError(
                "Two records of a key have different budgets.", expected=other.sharing, got=self.sharing
            )
        self.sharing = self.sharing or other.sharing
        each = max((known.spent // len(known.shared) for known in (self, other) if known.shared), default=0)
        self.shared.update(other.shared)
        self.spent = each * len(self.shared)


class KeyRecord:
    """The record of one key pair.

    Args:
        key_id: of the key pair.
        parameters: of the key.
        key_file: where the secret key lies, or None while it is in memory alone.
    """

    def __init__(self, key_id: str, parameters: Parameters, key_file: files.PathLike | None = None) -> None:
        self._key_id, self._parameters = key_id, parameters
        self._key_file = None if key_file is None else Path(os.path.abspath(key_file))
        self._content = _Content()  # what this process knows; what others do is in the file
        self._lock = threading.Lock()

    def latest(self) -> dict[str, str]:
        """Name → digest of the latest encryption: this process's where it made one, else that of the file.

        Raises:
            FormatError, VersionError, MismatchError, StorageError: the file is damaged, or of another key.
        """
        stored = self._stored() or _Content()
        return {**stored.encrypted, **self._content.encrypted}

    def note(self, digests: Mapping[str, str]) -> None:
        """Remember these encryptions as the latest; warns where the file cannot be written."""
        with self._lock:
            self._content.encrypted.update(digests)
        try:
            with self._exclusive() as content:
                content.encrypted.update(digests)
        except StorageError as error:
            warnings.warn(
                f"Other processes cannot tell whether a result is of this encryption: {error}", stacklevel=4
            )

    def spend(self, sharing: Sharing, entries: int, digest: str) -> None:
        """Take entries from the budget, for the result of this digest; on the disk when this returns.

        Raises:
            SecurityError: the budget does not hold them, or the result was shared before. Nothing is spent then.
            MismatchError: another budget was begun under this key.
            FormatError, VersionError, StorageError: the file is damaged, or cannot be written.
        """
        with self._exclusive() as content:
            content.spend(sharing, entries, digest)

    @contextlib.contextmanager
    def beside(self, key_file: files.PathLike) -> Iterator[None]:
        """Keep the record beside this key file from now on; the block writes the key there.

        The record is written first: a key file is never there without what was spent under it.

        Raises:
            StorageError, FormatError, VersionError: as `spend`; the record then stays where it was.
        """
        before, content = self._key_file, self._known()
        content.encrypted.update(self._content.encrypted)
        self._key_file = Path(os.path.abspath(key_file))
        try:
            try:
                there = self._stored() or _Content()
            except MismatchError:  # the record of a key that is about to be overwritten
                there = _Content()
            content.merge_budget(there)
            if content != _Content() or self._path.exists():
                self._write(content)
            yield
        except BaseException:
            self._key_file = before
            raise

    @property
    def _path(self) -> Path:
        assert self._key_file is not None
        return self._key_file.with_name(self._key_file.name + SUFFIX)

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[_Content]:
        """The content to change, nobody else changing it; written when the block ends without error."""
        with self._lock:
            if self._key_file is None:
                yield self._content
                return
            with _locked(self._key_file):
                content = self._known()
                yield content
                self._write(content)
                self._content.merge_budget(content)

    def _known(self) -> _Content:
        """What the file says, and beyond that what this process knows."""
        content = self._stored() or _Content()
        content.merge_budget(self._content)
        return content

    def _stored(self) -> _Content | None:
        """What the file says, or None where there is none."""
        if self._key_file is None or not self._path.exists():
            return None
        # The key was accepted with these very parameters.
        header, tensors = files.read(
            self._path, KIND, fingerprint=self._parameters.fingerprint(), insecure=True
        )
        _HEADER(header, f"{self._path}: the record of a key")
        if header["key_id"] != self._key_id:
            raise MismatchError(
                f"{self._path} belongs to another key pair.", expected=self._key_id, got=header["key_id"]
            )
        sharing = None if header["sharing"] is None else Sharing(**header["sharing"])
        digests = tensors.get("shared", np.zeros((0, DIGEST_BYTES), np.uint8))
        if digests.dtype != np.uint8 or digests.shape != (len(digests), DIGEST_BYTES):
            raise FormatError(
                f"{self._path} holds no digests of shared results where they should stand.",
                expected=f"(count, {DIGEST_BYTES}) bytes",
                got=f"{digests.dtype} {digests.shape}",
            )
        shared = dict.fromkeys(row.tobytes().hex() for row in digests)
        return _Content(dict(header["encrypted"]), sharing, header["spent"], shared)

    def _write(self, content: _Content) -> None:
        sharing = content.sharing
        header = {
            "key_id": self._key_id,
            "encrypted": content.encrypted,
            "sharing": None if sharing is None else {"entries": sharing.entries, "bits": sharing.bits},
            "spent": content.spent,
        }
        tensors: dict[str, Any] = {}
        if content.shared:
            digests = b"".join(bytes.fromhex(digest) for digest in content.shared)
            tensors["shared"] = np.frombuffer(digests, np.uint8).reshape(-1, DIGEST_BYTES)
        files.write(self._path, KIND, header, tensors, parameters=self._parameters, private=True)


@contextlib.contextmanager
def _locked(key_file: Path) -> Iterator[None]:
    """Held by one process at a time: a lock on the key file, which is always there and never written."""
    try:
        descriptor = os.open(key_file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageError(
            f"{key_file} cannot be locked.", got=error.strerror or str(error), errno=error.errno
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            raise StorageError(
                f"{key_file} cannot be locked.", got=error.strerror or str(error), errno=error.errno
            ) from error
        yield
    finally:
        os.close(descriptor)
