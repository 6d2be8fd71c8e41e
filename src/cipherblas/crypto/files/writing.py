"""Writing a file of this format: its header, and the digests and bytes of its tensors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from cipherblas.common.errors import ParameterError
from cipherblas.common.memory import ALIGNMENT, Array, bytes_of, in_threads
from cipherblas.crypto.files import format as form
from cipherblas.crypto.files.targets import replacing, write_all
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
    path: form.Target,
    kind: str,
    header: Mapping[str, Any],
    tensors: Mapping[str, Array],
    *,
    parameters: Parameters | None = None,
    private: bool = False,
    tick: Tick = lambda done: None,
) -> None:
    """Write one file, completely or not at all.

    On any failure, Ctrl-C included, an earlier `path` is untouched: see `replacing`, also for links, devices and
    pipes.

    Args:
        path: where to; its directory must exist. Or a stream.
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
        write_all(descriptor, memoryview(len(start).to_bytes(8, "little") + start))
        for array in arrays.values():
            for piece in _contiguous_pieces(array):
                write_all(descriptor, piece)
                tick(len(piece))
