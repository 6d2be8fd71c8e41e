"""Evaluation keys in files: b parts and seeds, in one file or in a directory of parts with a manifest.

A directory is complete once its manifest is there: parts carry the random name of their set, the manifest is
replaced last, and parts of an earlier set are removed only then. An interrupted save leaves the earlier set.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cipherblas.common.errors import CipherblasError, FormatError, MismatchError, ParameterError, StorageError
from cipherblas.common.memory import in_threads
from cipherblas.common.progress import Progress, Steps
from cipherblas.crypto import files, randomness
from cipherblas.crypto.keys.key_id import KeyId
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.keys.switching import StoredKey, SwitchingKey, stored_shape
from cipherblas.crypto.params import Parameters

MANIFEST = "manifest.safetensors"
_PART_NAME = re.compile(r"part-[0-9a-f]{16}-[0-9]{5}\.safetensors")
_MAX_KEYS = 1 << 17  # more than there are Galois elements in use


class Owner(NamedTuple):
    """The owner of evaluation keys: a program and a key pair."""

    program_id: str
    key_id: str


def save(
    path: files.Target,
    params: Parameters,
    owner: Owner,
    limbs: Mapping[KeyId, int],
    key: Callable[[KeyId, int], SwitchingKey],
    *,
    part_bytes: int = 1 << 30,
    progress: Progress | None = None,
) -> None:
    """Write keys to one file, or to a directory when they exceed `part_bytes` or `path` is a directory.

    Args:
        path: of these; or a stream, to which all keys go as one file.
        limbs: key → limbs, in the order to be written.
        key: gives the key of (name, limbs); called once each, one part's keys at a time.
        progress: called as progress(done, total), counted in bytes: each is hashed, and then written.

    Raises:
        StorageError: the system refuses; nothing half-written is left, an earlier set is untouched.
    """
    groups = [[*limbs]] if files.is_written(path) else _groups(params, limbs, part_bytes)
    set_name = os.urandom(8).hex()
    stored = sum(_stored_bytes(params, one, count) for one, count in limbs.items())
    steps = Steps(progress, files.STEPS_PER_BYTE * stored)

    def write_part(file: files.Target, part: int) -> None:
        made = [key(one, limbs[one]) for one in groups[part]]
        seeds = np.frombuffer(b"".join(one.seed for one in made), np.uint8)
        tensors = {str(one.id): one.stored(params) for one in made}
        tensors["seeds"] = seeds.reshape(len(made), randomness.SEED_BYTES)
        listed = [[one.id.number, one.limbs] for one in made]
        header = {**owner._asdict(), "set": set_name, "part": part, "keys": listed}
        files.write(file, "evaluation-keys", header, tensors, parameters=params, tick=steps.tick)

    if files.is_written(path) or (len(groups) == 1 and not Path(files.name_of(path)).is_dir()):
        files.check_writable(path)  # before the keys are made
        write_part(path, 0)
        return
    target = Path(files.name_of(path))
    with _directory(target) as directory:
        names = [f"part-{set_name}-{part:05d}.safetensors" for part in range(len(groups))]
        try:
            for part, name in enumerate(names):
                write_part(directory / name, part)
            header = {**owner._asdict(), "set": set_name, "parts": names}
            files.write(directory / MANIFEST, "evaluation-keys", header, {}, parameters=params)
        except BaseException:
            for name in names:
                with contextlib.suppress(OSError):
                    os.unlink(directory / name)
            raise
        for file in directory.iterdir():
            if _PART_NAME.fullmatch(file.name) and file.name not in names:
                with contextlib.suppress(OSError):
                    file.unlink()


def _stored_bytes(params: Parameters, key: KeyId, limbs: int) -> int:
    """Of a key in its file."""
    return 8 * math.prod(stored_shape(params, key, limbs)) + randomness.SEED_BYTES


def check_part_bytes(part_bytes: int) -> None:
    """Raise ParameterError unless files may have so many bytes of keys."""
    if part_bytes <= 0:
        raise ParameterError(
            "The bytes per file must be above 0.",
            got=part_bytes,
            advice="part_bytes=1 << 30, or another number",
        )


def _groups(params: Parameters, limbs: Mapping[KeyId, int], part_bytes: int) -> list[list[KeyId]]:
    """Keys in order, cut into parts of at most `part_bytes` in the file, at least one key each."""
    check_part_bytes(part_bytes)
    groups: list[list[KeyId]] = [[]]
    filled = 0
    for key, count in limbs.items():
        size = _stored_bytes(params, key, count)
        if groups[-1] and filled + size > part_bytes:
            groups.append([])
            filled = 0
        groups[-1].append(key)
        filled += size
    return groups


@contextlib.contextmanager
def _directory(target: Path) -> Iterator[Path]:
    """An existing directory itself; otherwise a temporary one that gets the name when all went well."""
    if target.is_dir():
        yield target
        return
    if target.exists():
        raise StorageError(
            f"Cannot write {target}.",
            expected="a directory or a free name",
            got="a file",
            advice=("another path", f"rm {target}"),
            cause="These keys exceed one file, and go to a directory.",
        )
    temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.partial")
    try:
        temporary.mkdir()
        yield temporary
        temporary.rename(target)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, CipherblasError):
            raise files.storage_error("write", target, error) from error
        raise


def open_keys(path: files.Source, security: int, insecure: bool) -> tuple[Parameters, Owner, list[StoredKey]]:
    """Check headers and list the keys without reading them; errors as `EvaluationKeys.load`."""

    def opened(file: files.Source, fingerprint: str | None = None) -> files.Reader:
        kind = "evaluation-keys"
        return files.Reader(file, kind, fingerprint=fingerprint, security=security, insecure=insecure)

    if files.is_read(path) or not Path(files.name_of(path)).is_dir():
        reader = opened(path)
        owner = _owner(reader)
        if "parts" in reader.header:
            raise FormatError(
                f"{reader.path} is a manifest: keys are loaded from its directory.",
                advice=str(Path(reader.path).parent),
            )
        return reader.parameters, owner, _whole(reader, _stored_keys(reader))
    target = Path(files.name_of(path))
    with opened(target / MANIFEST) as manifest:
        found, header = manifest.parameters, manifest.header
        owner = _owner(manifest)
        names: Any = header.get("parts")
        well_formed = isinstance(names, list) and 0 < len(names) <= _MAX_KEYS
        if not well_formed or not all(isinstance(name, str) and _PART_NAME.fullmatch(name) for name in names):
            raise FormatError(
                f"{manifest.path} names no parts, or not as parts are named.",
                expected="part-….safetensors",
                got=names,
            )
    readers = in_threads(lambda name: opened(target / name, found.fingerprint()), names)
    stored = []
    for part, reader in enumerate(readers):
        there = (reader.header.get("set"), reader.header.get("part"), _owner(reader))
        if there != (header.get("set"), part, owner):
            raise MismatchError(
                f"{reader.path} belongs to another key set.",
                expected=(header.get("set"), part, owner),
                got=there,
                advice="a folder with the files of one client.evaluation_keys().save(FOLDER)",
            )
        stored += _stored_keys(reader)
    return found, owner, _whole(manifest, stored)


def _whole(reader: files.Reader, stored: list[StoredKey]) -> list[StoredKey]:
    """The keys of all parts, if none is missing of those that belong together."""
    with _listed_well(reader.path):
        KeyRequest({key.id: key.limbs for key in stored}).check(reader.parameters)
    return stored


@contextlib.contextmanager
def _listed_well(path: str) -> Iterator[None]:
    """Turn errors about a list of keys into errors about a damaged file."""
    try:
        yield
    except ParameterError as error:
        raise FormatError(f"{path} has a wrong list of keys: {error}") from error


def _owner(reader: files.Reader) -> Owner:
    return Owner(*(reader.text(field) for field in Owner._fields))


def _stored_keys(reader: files.Reader) -> list[StoredKey]:
    listed: Any = reader.header.get("keys")
    if not isinstance(listed, list) or len(listed) > _MAX_KEYS:
        raise FormatError(f"{reader.path} has no list of keys, or one that is too long.", got=listed)
    pairs: list[Any] = [pair for pair in listed if isinstance(pair, list) and len(pair) == 2]
    whole = [pair for pair in pairs if all(type(number) is int and number >= 0 for number in pair)]
    numbers: dict[int, int] = dict(whole)
    if len(numbers) != len(listed):
        raise FormatError(
            f"{reader.path} has a damaged list of keys.", expected="[number, limbs], each once", got=listed
        )
    with _listed_well(reader.path):
        keys = {KeyId.of_number(number): limbs for number, limbs in numbers.items()}
        for key, limbs in keys.items():
            key.check(reader.parameters, limbs)
    if set(reader.tensors) != {"seeds", *map(str, keys)}:
        raise FormatError(
            f"{reader.path} holds other tensors than its keys have.",
            expected="one per key",
            got=sorted(reader.tensors),
        )
    reader.expect("seeds", np.uint8, (len(listed), randomness.SEED_BYTES))
    seeds = reader.read("seeds")
    stored = []
    for (key, limbs), seed in zip(keys.items(), seeds, strict=True):
        reader.expect(str(key), np.uint64, stored_shape(reader.parameters, key, limbs))
        stored.append(StoredKey(key, limbs, seed.tobytes(), reader, str(key)))
    return stored
