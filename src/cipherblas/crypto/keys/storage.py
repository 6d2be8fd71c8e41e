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
from cipherblas.crypto.keys.numbers import (
    FROM_ROWS,
    FROM_SHARED,
    FROM_SPARSE,
    RELINEARISE,
    ROW_KEYS,
    TO_ROWS,
    TO_SHARED,
    TO_SPARSE,
    is_of_rows,
    is_of_weights,
    place_of,
    shared_by,
    shared_number,
    weight_row,
)
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.keys.shared_request import check_secrets
from cipherblas.crypto.keys.switching import (
    StoredKey,
    SwitchingKey,
    parameters_of,
    stored_shape,
)
from cipherblas.crypto.params import ROW_LIMBS, Parameters

MANIFEST = "manifest.safetensors"
_PART_NAME = re.compile(r"part-[0-9a-f]{16}-[0-9]{5}\.safetensors")
_MAX_KEYS = 1 << 17  # more than there are Galois elements in use
_NAMES = {
    RELINEARISE: "relinearisation",
    TO_SPARSE: "to-sparse",
    FROM_SPARSE: "from-sparse",
    TO_ROWS: "to-rows",
    FROM_ROWS: "from-rows",
}
_FIXED_LIMBS = {TO_SPARSE: 1, TO_ROWS: ROW_LIMBS, FROM_ROWS: ROW_LIMBS}  # of keys that serve no other ones


class Owner(NamedTuple):
    """What evaluation keys belong to: a program and a key pair."""

    program_id: str
    key_id: str


def _tensor_name(galois: int) -> str:
    if shared_by(galois):
        return f"shared-{shared_by(galois)}-{_tensor_name(shared_number(galois))}"
    for first, name in ((TO_SHARED, "to-place"), (FROM_SHARED, "from-place")):
        place = place_of(galois, first)
        if place is not None:
            return f"{name}-{place}"
    if is_of_rows(galois):
        return f"rows-{_tensor_name(galois - ROW_KEYS)}"
    if is_of_weights(galois):
        return "weights-{}-{}".format(*weight_row(galois))
    return _NAMES.get(galois, f"galois-{galois}")


def save(
    path: files.Target,
    params: Parameters,
    owner: Owner,
    limbs: Mapping[int, int],
    key: Callable[[int, int], SwitchingKey],
    *,
    part_bytes: int = 1 << 30,
    progress: Progress | None = None,
) -> None:
    """Write keys to one file, or to a directory when they exceed `part_bytes` or `path` is a directory.

    Args:
        path: of these; or a stream, to which all keys go as one file.
        limbs: Galois element (or RELINEARISE) → limbs, in the order to be written.
        key: gives the key of (element, limbs); called once each, one part's keys at a time.
        progress: called as progress(done, total), counted in bytes: each is hashed, and then written.

    Raises:
        StorageError: the system refuses; nothing half-written is left, an earlier set is untouched.
    """
    groups = [[*limbs]] if files.is_written(path) else _groups(params, limbs, part_bytes)
    set_name = os.urandom(8).hex()
    stored = sum(_stored_bytes(params, number, count) for number, count in limbs.items())
    steps = Steps(progress, files.STEPS_PER_BYTE * stored)

    def write_part(file: files.Target, part: int) -> None:
        made = [key(element, limbs[element]) for element in groups[part]]
        seeds = np.frombuffer(b"".join(one.seed for one in made), np.uint8)
        tensors = {_tensor_name(one.galois): one.stored(params) for one in made}
        tensors["seeds"] = seeds.reshape(len(made), randomness.SEED_BYTES)
        listed = [[one.galois, one.limbs] for one in made]
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


def _stored_bytes(params: Parameters, number: int, limbs: int) -> int:
    """Of a key in its file."""
    return 8 * math.prod(stored_shape(params, number, limbs)) + randomness.SEED_BYTES


def check_part_bytes(part_bytes: int) -> None:
    """Raise ParameterError unless files may have so many bytes of keys."""
    if part_bytes <= 0:
        raise ParameterError(
            "The bytes per file must be above 0.",
            got=part_bytes,
            advice="part_bytes=1 << 30, or another number",
        )


def _groups(params: Parameters, limbs: Mapping[int, int], part_bytes: int) -> list[list[int]]:
    """Elements in order, cut into parts of at most `part_bytes` in the file, at least one key each."""
    check_part_bytes(part_bytes)
    groups: list[list[int]] = [[]]
    filled = 0
    for element, count in limbs.items():
        size = _stored_bytes(params, element, count)
        if groups[-1] and filled + size > part_bytes:
            groups.append([])
            filled = 0
        groups[-1].append(element)
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
        KeyRequest.of_limbs({key.galois: key.limbs for key in stored}, RELINEARISE).check(reader.parameters)
    return stored


@contextlib.contextmanager
def _listed_well(path: str) -> Iterator[None]:
    """What refuses a list of keys is a damaged file."""
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
    pairs = [pair for pair in listed if isinstance(pair, list) and len(pair) == 2]
    whole = [pair for pair in pairs if all(type(number) is int and number >= 0 for number in pair)]
    by_element: dict[int, int] = {pair[0]: pair[1] for pair in whole}
    wrong = any(
        _FIXED_LIMBS.get(shared_number(number), limbs) != limbs for number, limbs in by_element.items()
    )
    if len(by_element) != len(listed) or wrong:
        raise FormatError(
            f"{reader.path} has a damaged list of keys.", expected="[element, limbs], each once", got=listed
        )
    others = {number: limbs for number, limbs in by_element.items() if not shared_by(number)}
    with _listed_well(reader.path):
        KeyRequest.of_limbs(others, RELINEARISE).check(reader.parameters)
        for number in by_element.keys() - others.keys():  # of a set that may be in several parts
            check_secrets(shared_by(number))
            parameters_of(reader.parameters, number).check_key_limbs(by_element[number])
    if set(reader.tensors) != {"seeds", *map(_tensor_name, by_element)}:
        raise FormatError(
            f"{reader.path} holds other tensors than its keys have.",
            expected="one per key",
            got=sorted(reader.tensors),
        )
    reader.expect("seeds", np.uint8, (len(listed), randomness.SEED_BYTES))
    seeds = reader.read("seeds")
    stored = []
    for (element, limbs), seed in zip(by_element.items(), seeds, strict=True):
        shape = stored_shape(reader.parameters, element, limbs)
        reader.expect(_tensor_name(element), np.uint64, shape)
        stored.append(StoredKey(element, limbs, seed.tobytes(), reader, _tensor_name(element)))
    return stored
