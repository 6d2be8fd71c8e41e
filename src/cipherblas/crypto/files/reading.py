"""Reading a file that may be damaged, foreign, hostile, or vanishing: typed errors, bounded work."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, BinaryIO, NoReturn

import numpy as np

from cipherblas.common.errors import (
    CipherblasError,
    FormatError,
    MismatchError,
    SecurityError,
    StorageError,
    VersionError,
    brief,
)
from cipherblas.common.memory import Array, aligned_empty, bytes_of, check_memory, in_threads
from cipherblas.common.progress import Progress, Steps
from cipherblas.crypto.files import format as form
from cipherblas.crypto.files.foreign import NEEDED, advised, made, refused, standing_at, wanted
from cipherblas.crypto.files.streams import BYTES, as_buffer, is_read, name_of, spooled
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.security import check_wanted


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor lies in its file, and what it must hash to."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    nbytes: int
    digest: str


class Reader:
    """An open file whose header has been checked; tensors are read, and checked, on demand.

    The file stays open, so that it may be replaced or removed meanwhile; reads may run in several threads.
    Close it, or use it in a `with` block.

    Attributes:
        kind: of the file.
        nbytes: of the whole file.
        header: the writer's header with `format_version`, `kind`, `fingerprint`, `security`, `parameters`.
        parameters: the parameters the content was made with.
        tensors: name → TensorInfo.
    """

    def __init__(
        self,
        source: form.Source,
        kind: str,
        *,
        fingerprint: str | None = None,
        security: int | None = 128,
        insecure: bool = False,
    ) -> None:
        """Open and check; see `read` for the errors. `kind` may be `form.ANY`, and `security` None, for any."""
        self.path, self.kind = name_of(source), kind
        self._buffer: memoryview | None
        with standing_at(self.path), advised(kind):
            self._open(source, fingerprint, security, insecure)

    def _open(
        self, source: form.Source, fingerprint: str | None, security: int | None, insecure: bool
    ) -> None:
        kind, self._descriptor, self._buffer = self.kind, -1, None
        if isinstance(source, BYTES):
            self._buffer = as_buffer(source)
        else:
            self._descriptor = _open_regular(source, wanted(kind))
        try:
            size = len(self._buffer) if self._buffer is not None else os.fstat(self._descriptor).st_size
            self.nbytes = size
            raw = self._read_header(size, kind)
            if not raw.startswith(b"{"):
                raise refused(self.path, kind, self._read_at(0, min(size, NEEDED)))
            infos, metadata = _parse_container(self.path, raw, size - 8 - len(raw))
            entries = _checked_metadata(self.path, raw, metadata)
            if kind == form.ANY:
                kind = self.kind = _known_kind(self.path, metadata["kind"])
            if metadata["kind"] != kind:
                raise MismatchError(
                    f"{self.path} is another kind of file.",
                    expected=kind,
                    got=metadata["kind"],
                    advice=made(kind),
                )
            if fingerprint is not None and metadata["fingerprint"] != fingerprint:
                raise MismatchError(
                    f"{self.path} was made with other parameters.",
                    expected=fingerprint,
                    got=metadata["fingerprint"],
                    advice=f"{wanted(kind)} of the same program",
                )
            self.parameters = _checked_parameters(
                self.path, entries["parameters"], metadata, security, insecure
            )
            self.tensors = _with_digests(self.path, infos, entries["digests"])
        except OSError as error:
            self.close()
            if isinstance(error, CipherblasError):
                raise
            raise form.storage_error("read", self.path, error) from error
        except BaseException:
            self.close()
            raise
        self.header: dict[str, Any] = {
            **entries["header"],
            "format_version": form.FORMAT_VERSION,
            "kind": kind,
            "fingerprint": metadata["fingerprint"],
            "security": self.parameters.security,
            "parameters": self.parameters.to_dict(),
        }

    def _read_header(self, size: int, kind: str) -> bytes:
        start = self._read_at(0, min(size, NEEDED))
        length = int.from_bytes(start, "little")
        if size < 8 or length > form.MAX_HEADER_BYTES:
            raise refused(self.path, kind, start)
        if length > size - 8:
            raise FormatError(
                f"{self.path} is truncated.", expected=f"{8 + length} bytes or more", got=f"{size} bytes"
            )
        return self._read_at(8, length)

    def _read_at(self, offset: int, nbytes: int) -> bytes:
        data = bytearray(nbytes)
        self._read_into(offset, memoryview(data))
        return bytes(data)

    def _read_into(self, offset: int, target: memoryview) -> None:
        done = 0
        while done < len(target):
            if self._buffer is None:
                count = os.preadv(self._descriptor, [target[done:]], offset + done)
            else:
                part = self._buffer[offset + done : offset + len(target)]
                count = len(part)
                target[done : done + count] = part
            if count == 0:
                raise StorageError(
                    f"{self.path} became shorter while it was read.",
                    expected=f"{offset + len(target)} bytes or more",
                    got=f"{offset + done} bytes",
                    advice="the same once it is whole",
                    cause="Something writes to the file while it is read.",
                )
            done += count

    def _info(self, name: str) -> TensorInfo:
        try:
            return self.tensors[name]
        except KeyError:
            raise FormatError(
                f"{self.path} lacks a tensor.", expected=name, got=sorted(self.tensors)
            ) from None

    def text(self, field: str) -> str:
        """A text field of the header; FormatError when it is missing or something else."""
        found = self.header.get(field)
        if not isinstance(found, str):
            raise FormatError(
                f"{self.path} has no text in its field {field!r}.", expected="text", got=type(found).__name__
            )
        return found

    def expect(self, name: str, dtype: Any, shape: Sequence[int]) -> None:
        """Raise FormatError unless tensor `name` is there with this dtype and shape."""
        info = self._info(name)
        if info.dtype != np.dtype(dtype) or info.shape != tuple(shape):
            raise FormatError(
                f"{self.path} holds a tensor {name!r} of the wrong type or shape.",
                expected=f"{np.dtype(dtype)} {tuple(shape)}",
                got=f"{info.dtype} {info.shape}",
            )

    def read(self, name: str, tick: Callable[[int], object] = lambda done: None) -> Array:
        """One tensor as a new aligned array.

        Args:
            name: of the tensor.
            tick: called with numbers of bytes as they are read.

        Raises:
            FormatError: there is no such tensor, or its bytes are not what was written.
            StorageError: the file became shorter, or the system cannot read it.
        """
        info = self._info(name)
        return self._read(f"tensor {name!r}", info, tick)

    def read_part(self, name: str, index: int, digest: str, each: int = 1) -> Array:
        """One part of a tensor along its first axis, as a new aligned array; nothing else is read.

        Args:
            name: of the tensor.
            index: of the part.
            digest: what it must hash to, of `part_digests`.
            each: entries of a part, of which the last may have fewer.

        Raises:
            FormatError: there is no such tensor or part, or its bytes are not what was written.
            StorageError: the file became shorter, or the system cannot read it.
        """
        info = self._info(name)
        count = info.shape[0] if info.shape else 0
        parts = -(-count // each)
        if not 0 <= index < parts:
            raise FormatError(
                f"{self.path} lacks a part of tensor {name!r}.", expected=f"one of {parts}", got=index
            )
        start, entry = index * each, info.nbytes // count
        length = min(each, count - start)
        shape, offset = (length, *info.shape[1:]), info.offset + start * entry
        part = TensorInfo(info.dtype, shape, offset, length * entry, digest)
        return self._read(f"part {index} of tensor {name!r}", part, lambda done: None)

    def _read(self, what: str, info: TensorInfo, tick: Callable[[int], object]) -> Array:
        with standing_at(self.path), advised(self.kind):
            return self._checked(what, info, tick)

    def _checked(self, what: str, info: TensorInfo, tick: Callable[[int], object]) -> Array:
        array = aligned_empty(info.shape, info.dtype)
        hasher = form.hasher()
        data = bytes_of(array)
        for start in range(0, len(data), form.BLOCK_BYTES):
            block = data[start : start + form.BLOCK_BYTES]
            try:
                self._read_into(info.offset + start, block)
            except OSError as error:
                if isinstance(error, CipherblasError):
                    raise
                raise form.storage_error("read", self.path, error) from error
            hasher.update(block)
            tick(len(block))
        if hasher.hexdigest() != info.digest:
            raise FormatError(
                f"{self.path} is damaged: the checksum of {what} is wrong.",
                expected=info.digest,
                got=hasher.hexdigest(),
            )
        return array

    def read_all(
        self, progress: Progress | None = None, names: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """All tensors by name, in threads; errors as `read`, and MemoryBudgetError where they do not fit.

        Args:
            progress: called as progress(done, total), counted in bytes.
            names: of those that are read, if not all.
        """
        names = list(self.tensors) if names is None else names
        nbytes = sum(self._info(name).nbytes for name in names)
        check_memory(nbytes, f"reading {self.path}")
        steps = Steps(progress, nbytes)
        arrays = in_threads(lambda name: self.read(name, steps.tick), names, nbytes)
        return dict(zip(names, arrays, strict=True))

    def close(self) -> None:
        """Close the file. Reading afterwards raises an error."""
        descriptor, self._descriptor, self._buffer = self._descriptor, -1, None
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, CipherblasError):
            error.standing_at(self.path)
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


def read(
    path: form.Source,
    kind: str,
    *,
    fingerprint: str | None = None,
    security: int = 128,
    insecure: bool = False,
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read and check a whole file.

    Args:
        path: a file that `write` made, its bytes, or a stream of them.
        kind: the kind it must be.
        fingerprint: the parameters' fingerprint it must carry, or None for any.
        security: bits that the parameters must have: 128, 192 or 256.
        insecure: accept less; below 128 bits with a warning.

    Returns:
        (header, tensors): the writer's header with `format_version`, `kind`, `fingerprint`, `security` and
        `parameters` added; aligned arrays by name.

    Raises:
        FormatError: not a cipherblas file, damaged, or truncated.
        VersionError: written by a newer format version.
        MismatchError: another kind of file, or made with other parameters.
        SecurityError: its parameters have less than `security` bits.
        MemoryBudgetError: larger than the memory of this machine.
        StorageError: missing, a directory, no permission, vanished or shrunk while being read.
    """
    with Reader(path, kind, fingerprint=fingerprint, security=security, insecure=insecure) as reader:
        return reader.header, reader.read_all()


@contextlib.contextmanager
def opened(path: form.Source, expected: str) -> Iterator[BinaryIO]:
    """A file that is not of this format, to be read in the block; `expected` is what it should be, for errors.

    Raises:
        StorageError: the system refuses, also later in the block, or it is not a regular file.
    """
    try:
        with open(_open_regular(path, expected), "rb") as stream:
            yield stream
    except OSError as error:
        if isinstance(error, CipherblasError):
            raise
        raise form.storage_error("read", name_of(path), error, expected=expected) from error


def _open_regular(source: form.Source, expected: str) -> int:
    """Open for reading; only regular files, and without waiting for the writer of a pipe; or what has the bytes."""
    if is_read(source):
        return spooled(source)
    path = name_of(source)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise form.storage_error("read", path, error, expected=expected) from error
    except OSError as error:
        raise form.storage_error("read", path, error) from error
    except ValueError as error:  # a zero byte in the name
        raise StorageError("This is no name of a file.", got=repr(path), advice=form.A_NAME) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        got = "a directory" if stat.S_ISDIR(mode) else "a special file"
        raise StorageError(
            f"Cannot read {path}.",
            expected=expected,
            got=got,
            errno=errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL,
        )
    return descriptor


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice")
    return result


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not allowed")


def _integer(digits: str) -> int:
    """Anything larger is no length, prime, modulus or number of a key, and may be no double."""
    number = int(digits) if len(digits) <= form.MAX_DIGITS else 1 << 65
    if not -(1 << 63) <= number <= 1 << 64:
        raise ValueError("an integer of more than 64 bits")
    return number


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number beyond the range of a double")
    return number


def _check_depth(value: Any) -> None:
    """ValueError where lists and objects are nested so deeply that code which walks them could run out of stack."""
    level = [value]
    for _ in range(form.MAX_NESTING):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise ValueError(f"nested more than {form.MAX_NESTING} levels deep")


def parse_json(path: str, text: str | bytes, what: str) -> dict[str, Any]:
    """A JSON object; its numbers are finite doubles and integers of 64 bits, names occur once, nesting is shallow."""
    try:
        decoded = text if isinstance(text, str) else text.decode()
        value = json.loads(
            decoded,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_int=_integer,
            parse_float=_finite,
        )
        if "\\u" in decoded:
            json.dumps(value, ensure_ascii=False).encode()  # a surrogate alone is no character
        _check_depth(value)
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{path} is damaged, truncated, or not a cipherblas file: {what} must be JSON.",
            expected="JSON",
            got=str(error),
        ) from None  # its text may hold control characters of the file
    if not isinstance(value, dict):
        raise FormatError(
            f"{path} is damaged: {what} must be a JSON object.",
            expected="a JSON object",
            got=type(value).__name__,
        )
    return value


def _parse_container(path: str, raw: bytes, data_bytes: int) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """The tensors, without their digests, and the metadata of a safetensors header that precedes so many bytes.

    The rules are those of the safetensors library: tensors follow one another without gap or overlap and fill the
    file. It would map the file to judge it, and reading a mapped file that shrinks kills the process.
    """
    entries = parse_json(path, raw, "its header")
    metadata = entries.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise FormatError(f"{path} is damaged: its metadata must be texts.", expected="texts", got=metadata)
    infos = {name: _tensor_info(path, name, entry, 8 + len(raw)) for name, entry in entries.items()}
    end = 8 + len(raw)
    for name, info in sorted(infos.items(), key=lambda item: (item[1].offset, item[1].nbytes)):
        if info.offset != end:
            raise FormatError(
                f"{path} is damaged: tensor {name!r} stands in the wrong place.",
                expected=f"byte {end}",
                got=info.offset,
            )
        end += info.nbytes
    if end != 8 + len(raw) + data_bytes:
        raise FormatError(
            f"{path} is damaged or truncated.",
            expected=f"{end} bytes",
            got=f"{8 + len(raw) + data_bytes} bytes",
        )
    return infos, metadata


def _tensor_info(path: str, name: str, entry: Any, data_start: int) -> TensorInfo:
    """One entry of the header; its digest is added later."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FormatError(
            f"{path} is damaged: tensor {name!r} has the wrong fields.",
            expected="dtype, shape and data_offsets",
            got=entry,
        )
    named, shape, span = entry["dtype"], entry["shape"], entry["data_offsets"]
    dtype = form.DTYPES.get(named) if isinstance(named, str) else None
    if dtype is None:
        raise FormatError(
            f"{path} is damaged: tensor {name!r} has an unknown dtype.",
            expected=sorted(form.DTYPES),
            got=named,
        )
    # The product is compared with the bytes; an empty tensor can still have a huge dimension.
    if (
        not _are_lengths(shape)
        or len(shape) > form.MAX_DIMENSIONS
        or math.prod(max(size, 1) for size in shape) >= 1 << 56
    ):
        raise FormatError(
            f"{path} is damaged: tensor {name!r} has an impossible shape.",
            expected="dimensions that fit memory",
            got=shape,
        )
    if not _are_lengths(span) or len(span) != 2 or span[1] - span[0] != math.prod(shape) * dtype.itemsize:
        raise FormatError(
            f"{path} is damaged: the place of tensor {name!r} does not fit its shape.",
            expected=f"begin and end, {math.prod(shape) * dtype.itemsize} bytes",
            got=span,
        )
    return TensorInfo(dtype, tuple(shape), data_start + span[0], span[1] - span[0], "")


def _are_lengths(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _checked_metadata(path: str, raw: bytes, metadata: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Version, then checksum, then the JSON entries."""
    version = metadata.get(form.MAGIC)
    if version is None:
        raise FormatError(
            f"{path} is not a cipherblas file.", expected=f"a {form.MAGIC!r} entry in its header"
        )
    if not (version.isascii() and version.isdigit() and len(version) < 10):
        raise FormatError(
            f"{path} is damaged: its format version is no number.", expected=form.FORMAT_VERSION, got=version
        )
    if int(version) > form.FORMAT_VERSION:
        raise VersionError(
            f"{path} was written by a newer cipherblas.",
            expected=f"format {form.FORMAT_VERSION}",
            got=version,
            advice="pip install --upgrade cipherblas",
        )
    if int(version) < form.FORMAT_VERSION:
        raise VersionError(
            f"{path} was written by an older cipherblas.",
            expected=f"format {form.FORMAT_VERSION}",
            got=version,
        )
    if version != str(form.FORMAT_VERSION) or set(metadata) != set(form.ENTRIES):
        raise FormatError(
            f"{path} is damaged: its header has the wrong entries.",
            expected=form.ENTRIES,
            got=sorted(metadata),
        )
    stated = metadata["checksum"]
    found = form.header_checksum(raw.replace(stated.encode(), form.NO_CHECKSUM.encode(), 1))
    if found != stated:
        raise FormatError(
            f"{path} is damaged: the checksum of its header is wrong.", expected=stated, got=found
        )
    return {
        name: parse_json(path, metadata[name], f"its {name}") for name in ("parameters", "header", "digests")
    }


def _known_kind(path: str, kind: str) -> str:
    if kind not in form.KINDS:
        raise FormatError(f"{path} is of an unknown kind.", expected=", ".join(form.KINDS), got=kind)
    return kind


def _checked_parameters(
    path: str, values: dict[str, Any], metadata: dict[str, str], security: int | None, insecure: bool
) -> Parameters:
    if security is not None:
        check_wanted(security, insecure)
    try:
        parameters = Parameters.parsed(values)
    except CipherblasError as error:
        raise FormatError(f"{path} holds invalid parameters: {brief(error)}") from error
    stamped = (parameters.fingerprint(), str(parameters.security))
    if stamped != (metadata["fingerprint"], metadata["security"]):
        raise FormatError(
            f"{path} states a fingerprint or a security that is not that of its parameters.",
            expected=stamped,
            got=(metadata["fingerprint"], metadata["security"]),
        )
    if security is None:
        return parameters
    try:
        parameters.check_security(security, insecure)
    except SecurityError as error:
        raise error.at(path) from None
    return parameters


def _with_digests(path: str, infos: dict[str, TensorInfo], digests: dict[str, Any]) -> dict[str, TensorInfo]:
    if set(infos) != set(digests):
        raise FormatError(
            f"{path} is damaged: its digests are not those of its tensors.",
            expected=sorted(infos),
            got=sorted(digests),
        )
    for name, digest in digests.items():
        if not isinstance(digest, str):
            raise FormatError(
                f"{path} is damaged: the digest of {name!r} must be a text.",
                expected="text",
                got=type(digest).__name__,
            )
    return {name: replace(info, digest=digests[name]) for name, info in infos.items()}
