"""Writing a file, whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cipherblas.common.errors import CipherblasError, ParameterError, StorageError
from cipherblas.common.memory import ALIGNMENT, Array, bytes_of, in_threads
from cipherblas.crypto.files import format as form
from cipherblas.crypto.params import Parameters

STEPS_PER_BYTE = 2  # of progress: a byte is hashed, and then written
Tick = Callable[[int], object]


def _contiguous_pieces(array: Array) -> Iterator[memoryview]:
    """The bytes of an array in C order, in pieces of at most a block, copying only what is not contiguous."""
    if array.size == 0:
        return
    if array.flags.c_contiguous:
        data = bytes_of(array)
        for start in range(0, len(data), form.BLOCK_BYTES):
            yield data[start : start + form.BLOCK_BYTES]
    elif array.ndim > 1:
        for part in array:
            yield from _contiguous_pieces(part)
    else:
        yield from _contiguous_pieces(np.ascontiguousarray(array))


def _digest(array: Array, tick: Tick) -> str:
    hasher = form.hasher()
    for piece in _contiguous_pieces(array):
        hasher.update(piece)
        tick(len(piece))
    return str(hasher.hexdigest())


def part_digests(array: Array, each: int = 1, tick: Tick = lambda done: None) -> list[str]:
    """The digest of each part of a tensor along its first axis, for `Reader.read_part`: a writer that names them in its
    header lets parts be read, and checked, one by one.

    Args:
        each: entries of a part, of which the last may have fewer.
        tick: called with numbers of bytes as they are hashed.
    """
    parts = [array[start : start + each] for start in range(0, len(array), each)]
    return in_threads(lambda part: _digest(part, tick), parts, array.nbytes)


def _compact_json(value: Any, what: str) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"The {what} cannot be written as JSON.", got=str(error)) from error


def _container_header(
    kind: str, parameters: Parameters, header: Mapping[str, Any], tensors: Mapping[str, Array], tick: Tick
) -> bytes:
    """The safetensors header, padded so that the tensors start on a 64-byte boundary."""
    arrays = list(tensors.values())
    digests = in_threads(lambda array: _digest(array, tick), arrays, sum(array.nbytes for array in arrays))
    entries: dict[str, Any] = {
        "__metadata__": {
            form.MAGIC: str(form.FORMAT_VERSION),
            "kind": kind,
            "fingerprint": parameters.fingerprint(),
            "security": str(parameters.security),
            "parameters": _compact_json(parameters.to_dict(), "parameters"),
            "header": _compact_json(dict(header), "header"),
            "digests": _compact_json(dict(zip(tensors, digests, strict=True)), "digests"),
            "checksum": form.NO_CHECKSUM,
        }
    }
    offset = 0
    for name, array in tensors.items():
        span = [offset, offset + array.nbytes]
        entries[name] = {
            "dtype": form.DTYPE_NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": span,
        }
        offset += array.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > form.MAX_HEADER_BYTES:
        raise ParameterError(
            "The header of the file is too long.",
            expected=f"at most {form.MAX_HEADER_BYTES} bytes",
            got=len(text),
        )
    # The first place is the metadata's: nothing before it can hold 64 zeros in this form.
    place = text.index(f'"checksum":"{form.NO_CHECKSUM}"'.encode()) + len('"checksum":"')
    return text[:place] + form.header_checksum(text).encode() + text[place + len(form.NO_CHECKSUM) :]


def _writable_tensors(tensors: Mapping[str, Any]) -> dict[str, Array]:
    checked: dict[str, Array] = {}
    for name, array in tensors.items():
        if not isinstance(array, np.ndarray) or array.dtype not in form.DTYPE_NAMES:
            got = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise ParameterError(
                f"The tensor {name!r} has a type that files do not hold.",
                expected=f"an array of {sorted(form.DTYPES)}",
                got=got,
            )
        if name == "__metadata__" or array.ndim > form.MAX_DIMENSIONS:
            raise ParameterError(
                "A tensor has a name or a rank that files do not hold.", got=f"{name!r}, rank {array.ndim}"
            )
        checked[name] = array
    # Widest first, so that every tensor is aligned to its own word size.
    return dict(sorted(checked.items(), key=lambda item: (-item[1].itemsize, item[0])))


def _parameters_of(header: Mapping[str, Any], parameters: Parameters | None) -> Parameters:
    if parameters is not None:
        return parameters
    if "parameters" in header:
        return Parameters.from_dict(
            header["parameters"], insecure=True
        )  # what is written was accepted before
    raise ParameterError("A file needs its parameters.", expected="parameters=… or header['parameters']")


def write(
    path: form.PathLike,
    kind: str,
    header: Mapping[str, Any],
    tensors: Mapping[str, Array],
    *,
    parameters: Parameters | None = None,
    private: bool = False,
    tick: Tick = lambda done: None,
) -> None:
    """Write one file, whole or not at all.

    The bytes go to a temporary file in the same directory, which replaces `path` once they are on the disk.
    On any failure, Ctrl-C included, the temporary file is removed and an earlier `path` is untouched.

    Args:
        path: where to; its directory must exist.
        kind: one of `form.KINDS`.
        header: JSON-ready description. `format_version`, `kind`, `fingerprint` and `security` are added.
        tensors: arrays of 1- to 8-byte integers, float32 or float64.
        parameters: what the content was made with; may stand in `header["parameters"]` instead.
        private: readable by the owner only (mode 0600).
        tick: called with numbers of bytes as they are hashed, and again as they are written.

    Raises:
        ParameterError: unknown kind, no parameters, or a header or tensor that cannot be written.
        StorageError: the directory is missing or read-only, the disk is full, …
    """
    if kind not in form.KINDS:
        raise ParameterError("There is no such kind of file.", expected=form.KINDS, got=kind)
    parameters = _parameters_of(header, parameters)
    header = {name: value for name, value in header.items() if name != "parameters"}
    arrays = _writable_tensors(tensors)
    start = _container_header(kind, parameters, header, arrays, tick)
    total = 8 + len(start) + sum(array.nbytes for array in arrays.values())
    with replacing(path, total, private=private) as descriptor:
        _write_all(descriptor, memoryview(len(start).to_bytes(8, "little") + start))
        for array in arrays.values():
            for piece in _contiguous_pieces(array):
                _write_all(descriptor, piece)
                tick(len(piece))


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextlib.contextmanager
def replacing(path: form.PathLike, nbytes: int = 0, *, private: bool = False) -> Iterator[int]:
    """A descriptor to write to, whose file takes the place of `path` when the block ends without error.

    Raises:
        StorageError: for any error of the operating system; the temporary file is removed.
    """
    target = Path(path)
    temporary, descriptor = _open_beside(target, nbytes, private)
    try:
        try:
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
        _sync_directory(target.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and not isinstance(error, CipherblasError):
            raise _write_error(target, nbytes, error) from error
        raise


def check_writable(path: form.PathLike) -> None:
    """Raise the StorageError of `replacing` where no file can be made at `path`, before the work that is to fill it."""
    temporary, descriptor = _open_beside(Path(path))
    try:
        os.close(descriptor)
    finally:
        os.unlink(temporary)


def _open_beside(target: Path, nbytes: int = 0, private: bool = False) -> tuple[Path, int]:
    """A new temporary file in the folder of `target`, open for writing."""
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.partial")
        free = shutil.disk_usage(target.parent).free
        if free < nbytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        mode = 0o600 if private else 0o666
        return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        raise _write_error(target, nbytes, error) from error


def save_bytes(path: form.PathLike, content: bytes) -> None:
    """Write a file that is not of this format, whole or not at all; StorageError where the system refuses."""
    with replacing(path, len(content)) as descriptor:
        _write_all(descriptor, memoryview(content))


def _write_error(target: Path, nbytes: int, error: OSError) -> StorageError:
    if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        return form.storage_error("write", target, error)
    try:
        free = f", {shutil.disk_usage(target.parent).free} bytes free"
    except OSError:
        free = ""
    got = f"{error.strerror}{free}"
    return form.storage_error("write", target, error, expected=f"room for {nbytes} bytes", got=got)


def _sync_directory(directory: Path) -> None:
    """Make a rename durable; some file systems do not offer that, and then there is nothing to do."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
