"""Evaluation keys: the public key material that a server computes with."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from cipherblas.common.errors import DTypeError, MissingKeyError, ParameterError, ShapeError
from cipherblas.common.memory import Array, aligned_empty, check_memory, in_threads, pages
from cipherblas.common.progress import Progress
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto import files
from cipherblas.crypto.keys import storage
from cipherblas.crypto.keys.key_id import RELINEARISATION, KeyId
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.keys.streaming import KeyStream
from cipherblas.crypto.keys.switching import (
    StoredKey,
    SwitchingKey,
    shape_of,
)
from cipherblas.crypto.params import Parameters

ALL_KEYS = "client.evaluation_keys(), which has all that its program needs"


class EvaluationKeys(files.InMemory):
    """The evaluation keys of one program, which are public: switching keys for Galois elements and for relinearisation.

    Made by `make_evaluation_keys` or `EvaluationKeys.load`; it takes public arrays only.

    Attributes:
        params: the parameters they were made with.
        program_id: the program they were made for, or "".
        key_id: public name of the key pair they belong to, or "".
    """

    def __init__(
        self, params: Parameters, program_id: str, keys: Iterable[SwitchingKey | StoredKey], key_id: str = ""
    ) -> None:
        """Collect checked keys.

        Raises:
            DTypeError, ShapeError: an entry is not a switching key of these parameters.
            ParameterError: a Galois element occurs twice or does not exist.
        """
        self.params = params
        self.program_id = program_id
        self.key_id = key_id
        self._keys: dict[KeyId, SwitchingKey] = {}
        self._stored: dict[KeyId, StoredKey] = {}
        self._lock = threading.RLock()
        self._stream: KeyStream | None = None
        self._folder: str | Path | None = None  # of its file
        for key in keys:
            self._add(key)
        self.request.check(params)

    def _add(self, key: Any) -> None:
        if not isinstance(key, (SwitchingKey, StoredKey)):
            raise DTypeError(
                "Evaluation keys are made of SwitchingKeys.", expected="SwitchingKey", got=type(key).__name__
            )
        if key.id in self._keys or key.id in self._stored:
            raise ParameterError("A key occurs twice.", got=self._name(key.id))
        if isinstance(key, StoredKey):
            self._stored[key.id] = key
            return
        shape = shape_of(self.params, key.id, key.limbs)
        if key.data.shape != shape:
            raise ShapeError(
                f"The key for {self._name(key.id)} has the wrong shape.",
                expected=shape,
                got=key.data.shape,
            )
        if key.data.dtype != np.uint64 or not key.data.flags.c_contiguous:
            raise DTypeError(
                f"The key for {self._name(key.id)} must be an array of C-contiguous uint64.",
                expected="C-contiguous uint64",
                got=key.data.dtype,
            )
        self._keys[key.id] = key

    def _name(self, key: KeyId) -> str:
        return key.describe(self.params.n)

    @property
    def request(self) -> KeyRequest:
        """The keys that are here, and their numbers of limbs."""
        return KeyRequest(self._limbs())

    def _limbs(self) -> dict[KeyId, int]:
        loaded = {key: one.limbs for key, one in self._keys.items()}
        return {**loaded, **{key: one.limbs for key, one in self._stored.items()}}

    def __len__(self) -> int:
        return len(self._keys) + len(self._stored)

    @property
    def nbytes(self) -> int:
        """Bytes of all keys when they are expanded in memory."""
        return self.request.nbytes(self.params)

    def __repr__(self) -> str:
        return (
            f"EvaluationKeys({len(self)} keys, {self.nbytes} bytes in memory, N={self.params.n}, "
            f"parameters {self.params.fingerprint()[:12]})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are checked by the constructor.

        Keys that are still in files are carried as they are there, at half the bytes, and expanded where they are used.
        """
        with self._lock:
            keys = (*self._keys.values(), *self._stored.values())
        return EvaluationKeys, (self.params, self.program_id, keys, self.key_id)

    def get(self, key: KeyId, limbs: int) -> Array:
        """The words of a switching key for a ciphertext of `limbs` limbs.

        Returns:
            uint64 of `shape_of`, Montgomery form, packed; the key may have been made for more limbs.

        Raises:
            MissingKeyError: no such key, or it was made for fewer limbs.
            FormatError, StorageError: the key is read from a file, and that is damaged or gone.
        """
        return self.key(key, limbs).data

    def relinearisation(self, limbs: int) -> Array:
        """The relinearisation key for `limbs` limbs; as `get`."""
        return self.key(RELINEARISATION, limbs).data

    def key(self, key: KeyId, limbs: int = 1) -> SwitchingKey:
        """The SwitchingKey itself; as `get`."""
        self.expect(key, limbs)
        with self._lock:
            if key not in self._keys:
                place = aligned_empty if self._stream is None else self._stream.room(key)
                self._keys[key] = self._stored[key].load(place)
                del self._stored[key]
            if self._stream is not None:
                self._stream.use(key)
            return self._keys[key]

    @property
    def of_rows(self) -> EvaluationKeys | RowKeys:
        """The keys of the ring of rows: these, where it is no other one."""
        return self if self.params.row_degree is None else RowKeys(self)

    def keep_within(self, memory: int, folder: str | Path | None = None) -> None:
        """Have at most so many bytes of keys in memory at one time, and those that one call of the engine reads, where
        all of them are more: they are in a mapped temporary file then, and come from there where they are used.

        Args:
            memory: bytes.
            folder: of the file; by default the system's folder for temporary files, which should be on a disk.

        Raises:
            ParameterError: no number of bytes. StorageError: the disk is full.
        """
        if type(memory) is not int or memory < 0:
            raise ParameterError(
                "A memory budget is a number of bytes.", got=memory, advice="memory=0, or more"
            )
        with self._lock:
            if self.nbytes <= memory:
                return
            shapes = [shape_of(self.params, key, limbs) for key, limbs in self._limbs().items()]
            room = sum(pages(WORD_BYTES * prod(shape)) for shape in shapes)
            stream = KeyStream(memory, room, folder)
            for key, one in list(self._keys.items()):
                data = stream.room(key)(one.data.shape)
                data[...] = one.data
                self._keys[key] = SwitchingKey(key, one.limbs, one.seed, data)
            self._stream, self._folder = stream, folder

    @property
    def memory_bytes(self) -> int:
        """Bytes of keys that are in memory at most, once all are expanded; a call of the engine may read more."""
        return self.nbytes if self._stream is None else min(self.nbytes, self._stream.memory)

    def expect(self, key: KeyId, limbs: int) -> None:
        """Raise MissingKeyError unless a key is here, and for so many limbs; it is not read from its file."""
        here = self._keys.get(key) or self._stored.get(key)
        if here is None:
            raise MissingKeyError(
                f"There is no evaluation key for {self._name(key)}.", got=self._summary(), advice=ALL_KEYS
            )
        if here.limbs < limbs:
            raise MissingKeyError(
                f"The evaluation key for {self._name(key)} was made for fewer limbs.",
                expected=f"at least {limbs}",
                got=here.limbs,
                advice=ALL_KEYS,
            )

    def _summary(self, longest: int = 8) -> str:
        names = [self._name(key) for key in sorted((*self._keys, *self._stored))]
        more = f" and {len(names) - longest} more" if len(names) > longest else ""
        return f"{len(names)} keys ({', '.join(names[:longest])}{more})" if names else "no keys"

    def check(self, request: KeyRequest) -> None:
        """Raise MissingKeyError unless every key of `request` is here."""
        for key, limbs in request.in_order().items():
            self.expect(key, limbs)

    def only(self, request: KeyRequest) -> EvaluationKeys:
        """A set of the keys of `request` alone, which are not copied; those in files stay there.

        Raises:
            MissingKeyError: one of them is not here.
        """
        self.check(request)
        with self._lock:
            both: dict[KeyId, SwitchingKey | StoredKey] = {**self._stored, **self._keys}
        wanted = [both[key] for key in request.in_order()]
        found = EvaluationKeys(self.params, self.program_id, wanted, self.key_id)
        if self._stream is not None:
            found.keep_within(self._stream.memory, self._folder)
        return found

    def modulo(self, plain_modulus: int) -> EvaluationKeys:
        """These keys for a program modulo another t, on which they do not depend; they are not copied."""
        if plain_modulus == self.params.plain_modulus:
            return self
        found = EvaluationKeys.__new__(EvaluationKeys)
        vars(found).update(vars(self))  # what one reads from files, both have
        found.params = self.params.modulo(plain_modulus)
        return found

    def digest(self) -> str:
        """The name of these very keys: BLAKE2b over their numbers, limbs and seeds."""
        with self._lock:
            both: dict[KeyId, SwitchingKey | StoredKey] = {**self._stored, **self._keys}
        hasher = hashlib.blake2b(digest_size=32, person=b"cipherblas-keys")
        for key in sorted(both):
            one = both[key]
            hasher.update(key.number.to_bytes(8, "little") + one.limbs.to_bytes(8, "little") + one.seed)
        return hasher.hexdigest()

    def load_all(self, progress: Progress | None = None) -> None:
        """Read and expand all keys that are still in files, in threads.

        Args:
            progress: called as progress(done, total), counted in keys.

        Raises:
            MemoryBudgetError: they would not fit this machine's memory.
            FormatError, StorageError: a file is damaged or gone.
        """
        check_memory(self.memory_bytes, "expanding the evaluation keys")
        waiting = list(self._stored.values())
        done = 0

        def load(stored: StoredKey) -> None:
            nonlocal done
            loaded = self.key(stored.id) if self._stream is not None else stored.load()
            with self._lock:
                self._keys.setdefault(stored.id, loaded)
                self._stored.pop(stored.id, None)
                done += 1
                if progress is not None:
                    progress(done, len(waiting))

        in_threads(load, waiting)

    def save(
        self, path: files.Target, *, part_bytes: int = 1 << 30, progress: Progress | None = None
    ) -> None:
        """Write the keys, a parts as seeds.

        Args:
            path: a file, or a directory where they exceed `part_bytes` or `path` is one.
            part_bytes: of keys in a file.
            progress: called as progress(done, total), counted in bytes: each is hashed, and then written.

        Raises:
            StorageError: the system refuses; nothing half-written is left, an earlier set is untouched.
        """
        owner = storage.Owner(self.program_id, self.key_id)
        limbs = self._limbs()
        storage.save(path, self.params, owner, limbs, self.key, part_bytes=part_bytes, progress=progress)

    @classmethod
    @files.advised("evaluation-keys")
    def load(
        cls,
        path: files.Source,
        *,
        security: int = 128,
        insecure: bool = False,
        lazy: bool = False,
        memory: int | None = None,
        folder: str | Path | None = None,
        progress: Progress | None = None,
    ) -> EvaluationKeys:
        """Read what `save` wrote; that the keys are of the right program is checked where they are used.

        Args:
            path: the file or directory.
            security: bits that their parameters must have, of Q and the special primes P together.
            insecure: accept less; below 128 bits with a warning.
            lazy: expand each key when it is first used, instead of all now.
            memory, folder: bytes of keys in memory, and where the others are; see `keep_within`.
            progress: called with (keys done, keys in all).

        Raises:
            FormatError, VersionError, SecurityError, StorageError, MemoryBudgetError: as `files.read`.
            MismatchError: another kind of file (a secret key, say), or parts of different key sets.
        """
        with files.standing_at(files.name_of(path)):
            found, owner, stored = storage.open_keys(path, security, insecure)
        keys = cls(found, owner.program_id, stored, owner.key_id)
        if memory is not None:
            keys.keep_within(memory, folder)
        if not lazy:
            keys.load_all(progress)
        return keys


class RowKeys:
    """The keys of a set that belong to the ring of rows, by their names in it.

    Attributes:
        params: the parameters of that ring.
    """

    def __init__(self, keys: EvaluationKeys) -> None:
        self.params = keys.params.family.rows
        self._keys = keys

    def get(self, key: KeyId, limbs: int) -> Array:
        """As `EvaluationKeys.get`."""
        return self._keys.get(key.in_rows(), limbs)

    def key(self, key: KeyId, limbs: int = 1) -> SwitchingKey:
        """As `EvaluationKeys.key`."""
        return self._keys.key(key.in_rows(), limbs)

    def expect(self, key: KeyId, limbs: int) -> None:
        """As `EvaluationKeys.expect`."""
        self._keys.expect(key.in_rows(), limbs)
