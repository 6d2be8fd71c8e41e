"""What a client remembers beside its secret key: which encryptions are its latest, and what of it was shared.

In memory while the key is in no file; else in a file beside the key file, NAME.record, which every process that loads
the key reads and writes under a lock, NAME.lock, with a count of its own. Symbolic links are resolved: a file has one
record. The record is no secret.
"""

from __future__ import annotations

import contextlib
import os
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
from cipherblas.roles.budget import NEW_KEY, Budget, budget_here
from cipherblas.roles.key_lock import LATEST, KeyLock, locked
from cipherblas.roles.sharing import MAX_BITS, MAX_ENTRIES, MIN_BITS, Sharing

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
                {"entries": schema.integer(1, MAX_ENTRIES), "bits": schema.integer(MIN_BITS, MAX_BITS)}
            ),
        ),
        "spent": schema.integer(),
    },
    others=True,
)


@dataclass
class _Content:
    """Name → digest of the latest encryption; the budget."""

    encrypted: dict[str, str] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)


class KeyRecord:
    """The record of one key pair.

    Args:
        key_id: of the key pair.
        parameters: of the key.
        key_file: where the secret key lies, or None while it is in memory alone.
        recorded: whether the key file says that a count was begun when it was written.
    """

    def __init__(
        self,
        key_id: str,
        parameters: Parameters,
        key_file: files.PathLike | None = None,
        recorded: bool = False,
    ) -> None:
        self._key_id, self._parameters, self._recorded = key_id, parameters, recorded
        self._key_file = None if key_file is None else _real(key_file)
        self._encrypted: dict[str, str] = {}  # by this client; what others did is in the file
        self._here = budget_here(key_id)

    def latest(self) -> dict[str, str]:
        """Name → digest of the latest encryption: this client's where it made one, else that of the file.

        Raises:
            FormatError, VersionError, MismatchError, StorageError: the file is damaged, or of another key.
        """
        stored = self._stored() or _Content()
        return {**stored.encrypted, **self._encrypted}

    def note(self, digests: Mapping[str, str]) -> None:
        """Remember these encryptions as the latest; warns where the file cannot be written."""
        self._encrypted.update(digests)
        if self._key_file is None:
            return
        try:
            with locked(self._key_file):
                content = self._stored() or _Content()
                content.encrypted.update(digests)
                self._write(content)
        except StorageError as error:
            warnings.warn(
                f"Other processes cannot tell whether a result is of this encryption: {error}", stacklevel=4
            )

    def spend(self, sharing: Sharing, entries: int, digest: str) -> None:
        """Take entries from the budget, for the result of this digest; on the disk when this returns.

        Raises:
            SecurityError: the budget does not hold them, the result was shared before, or it cannot be known what was
                shared. Nothing is spent then.
            MismatchError: another budget was begun under this key.
            FormatError, VersionError, StorageError: the file is damaged, or cannot be written.
        """
        with self._here.lock:
            if self._key_file is None:
                self._spend_in_memory(sharing, entries, digest)
                return
            with locked(self._key_file) as lock:
                content, count = self._known(), self._checked_count(lock)
                if len(content.budget.shared) < (count or 0):
                    raise _lost(self._path, f"{count} results shared", f"{len(content.budget.shared)}")
                content.budget.spend(sharing, entries, digest)
                sharing.ask_ledger(self._key_id, digest, entries)
                self._write(
                    content
                )  # before it is counted: a record may know more than the count, never less
                lock.set_count(self._key_id, len(content.budget.shared))
                self._here.budget.merge(content.budget)

    def _spend_in_memory(self, sharing: Sharing, entries: int, digest: str) -> None:
        if self._here.forked:
            raise SecurityError(
                "A forked process shares nothing under a key in memory.",
                advice="client.save(path) before the fork, and cb.Client.load(path, program) in each process",
                cause="Its parent spends the same budget.",
            )
        if self._recorded:
            raise SecurityError(
                "The key was loaded without its record.",
                advice="cb.Client.load(path, program), to share results",
            )
        trial = Budget()
        trial.merge(self._here.budget)
        trial.spend(sharing, entries, digest)
        sharing.ask_ledger(self._key_id, digest, entries)
        self._here.budget.merge(trial)

    def _checked_count(self, lock: KeyLock) -> int | None:
        """The count of the lock, where it can be known what was shared under the key file."""
        assert self._key_file is not None
        try:
            links = os.stat(self._key_file).st_nlink
        except OSError as error:
            raise files.storage_error("read", self._key_file, error) from error
        if links > 1:
            raise SecurityError(
                f"{self._key_file} is one file under several names.",
                expected="one name",
                got=f"{links} names",
                advice=(
                    f"find / -samefile {self._key_file}, and rm for all names but this one",
                    "client.save(path) with another path, and the key there",
                ),
                cause="Each name has a record of its own.",
            )
        count = lock.count(self._key_id)
        if count is None and self._recorded:
            raise _lost(self._path, f"{self._key_file.name}.lock with its count", "none")
        return count

    @contextlib.contextmanager
    def beside(self, key_file: files.PathLike) -> Iterator[None]:
        """Keep the record beside this key file from now on; the block writes the key there.

        The record is written first: a key file is never there without what was spent under it.

        Raises:
            StorageError, FormatError, VersionError: as `spend`; the record then stays where it was.
        """
        before, target = (self._key_file, self._recorded), _real(key_file)
        content, count = self._known(), self._count_before()
        content.encrypted.update(self._encrypted)
        self._key_file = target
        try:
            with self._here.lock, locked(target) as lock:
                there = None if lock.counts_another(self._key_id) else lock.count(self._key_id)
                content.budget.merge(self._unless_foreign().budget)
                self._write(content)
                if count is not None:
                    lock.set_count(self._key_id, max(count, there or 0, len(content.budget.shared)))
                self._recorded = True
                yield
        except BaseException:
            self._key_file, self._recorded = before
            raise

    def _unless_foreign(self) -> _Content:
        """The content of the file; nothing where it is of a key that is about to be overwritten."""
        try:
            return self._stored() or _Content()
        except MismatchError:
            return _Content()

    def _count_before(self) -> int | None:
        """The count where the key lies now; None where that is lost, and stays so in copies."""
        if self._key_file is None:
            return None if self._recorded or self._here.forked else 0
        if not self._recorded:
            return 0
        with locked(self._key_file) as lock:
            return lock.count(self._key_id)

    @property
    def _path(self) -> Path:
        assert self._key_file is not None
        return self._key_file.with_name(self._key_file.name + SUFFIX)

    def _known(self) -> _Content:
        """The content of the file, and the counts that this process knows beyond it."""
        content = self._stored() or _Content()
        content.budget.merge(self._here.budget)
        return content

    @files.advised(KIND)
    def _stored(self) -> _Content | None:
        """The content of the file, or None where there is none."""
        if self._key_file is None or not self._path.exists():
            return None
        # The key was accepted with these very parameters.
        header, tensors = files.read(
            self._path, KIND, fingerprint=self._parameters.fingerprint(), insecure=True
        )
        _HEADER(header, f"{self._path}: the record of a key")
        if header["key_id"] != self._key_id:
            raise MismatchError(
                f"{self._path} belongs to another key pair.",
                expected=self._key_id,
                got=header["key_id"],
                advice=(LATEST.format(self._path), f"mv {self._path} to where its key lies"),
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
        return _Content(dict(header["encrypted"]), Budget(sharing, header["spent"], shared))

    def _write(self, content: _Content) -> None:
        budget, sharing = content.budget, content.budget.sharing
        header = {
            "key_id": self._key_id,
            "encrypted": content.encrypted,
            "sharing": None if sharing is None else {"entries": sharing.entries, "bits": sharing.bits},
            "spent": budget.spent,
        }
        tensors: dict[str, Any] = {}
        if budget.shared:
            digests = b"".join(bytes.fromhex(digest) for digest in budget.shared)
            tensors["shared"] = np.frombuffer(digests, np.uint8).reshape(-1, DIGEST_BYTES)
        files.write(self._path, KIND, header, tensors, parameters=self._parameters, private=True)


def _real(key_file: files.PathLike) -> Path:
    """Where a key lies, or will: its name without symbolic links."""
    return Path(os.path.realpath(key_file))


def _lost(record: Path, expected: str, got: str) -> SecurityError:
    return SecurityError(
        f"{record} and the lock beside it do not tell what was shared under the key.",
        expected=expected,
        got=got,
        advice=(LATEST.format(f"{record} and lock"), NEW_KEY),
        cause="Entries that are forgotten would be spent twice.",
    )
