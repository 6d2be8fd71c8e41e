"""Encrypted matrices as they travel: an operand from the client to the server, a result back."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.checks import check_name
from cipherblas.common.errors import CipherblasError, FormatError, MismatchError, ShapeError, capitalized
from cipherblas.common.memory import bytes_of
from cipherblas.common.progress import Progress, Steps
from cipherblas.crypto import files
from cipherblas.crypto.params import Parameters
from cipherblas.lang.operands import Encryption
from cipherblas.lang.results import MAX_RESULTS, Arranged
from cipherblas.planner.predict.promises import PromiseName
from cipherblas.roles.wire.feeds import FORMATS, Sent, feed_tensors, read_feed, tensor_of
from cipherblas.roles.wire.report import RunReport
from cipherblas.roles.wire.sealed import Sealed
from cipherblas.roles.wire.stored import (
    check_digests,
    digests_of,
    parted,
    read_but_parts,
)

KIND = "ciphertext"
Part = TypeVar("Part")
_SHAPE = schema.listed(schema.integer(1), 0, 4)  # a number has none
_HEADER: dict[str, schema.Check] = {
    "role": schema.text,
    "program": schema.text,
    "key_id": schema.text,
    "shape": _SHAPE,
}
_OPERAND = schema.record(
    {
        **_HEADER,
        "name": schema.text,
        "feeds": schema.integer(),
        "forms": schema.listed(schema.pair(schema.text, schema.number())),
    },
    {"parts": check_digests},
    others=True,
)
_RESULT = schema.record(
    {
        **_HEADER,
        "seconds": schema.number(),
        "operands": schema.mapping(schema.text),
        "shape": schema.either(schema.listed(_SHAPE, 1, MAX_RESULTS), _SHAPE),
    },
    {"labels": schema.listed(schema.text, 1, MAX_RESULTS), "promise": schema.one_of(*get_args(PromiseName))},
    others=True,
)


@dataclass(frozen=True, repr=False)
class EncryptedOperand(files.InMemory, Sealed):
    """One operand, encrypted by a client or an encryptor, with its ciphertexts for each use in the program.

    Attributes:
        program_id: the program that it was encrypted for; of a key that serves several, the encoding that they ask for.
        name: the operand's name.
        shape: of the matrix, vector or image.
        feeds: per use of the operand the fresh ciphertexts, block after block in row-major order, or the pieces
            of N columns that were encrypted by rows.
        key_id: the key pair that it was encrypted with.
    """

    program_id: str
    name: str
    shape: tuple[int, ...]
    parameters: Parameters
    feeds: tuple[tuple[Sent, ...], ...]
    key_id: str = ""

    remedy: ClassVar[str] = "the array that it was encrypted from"

    @property
    def nbytes(self) -> int:
        """Bytes that travel: b parts, and seeds or (from the public key) a parts."""
        return sum(ct.nbytes for feed in self.feeds for ct in feed)

    @property
    def encryption(self) -> Encryption:
        """The key that encrypted it, by name: ciphertexts of the secret key have seeds."""
        seeded = all(ct.seed is not None for feed in self.feeds for ct in feed)
        return "secret-key" if seeded else "public-key"

    @functools.cached_property
    def digest(self) -> str:
        """The name of this very encryption: BLAKE2b over what it was made for and what is fresh of every ciphertext.

        That is the seed of its a part, or (from the public key) digests of its residues, which its file has too. So
        encrypting the same values again gives another digest, saving and loading the same one.
        """
        parts = (
            ct.seed if ct.seed is not None else FORMATS[ct.NAME].fresh(ct)
            for feed in self.feeds
            for ct in feed
        )
        described = [
            self.program_id,
            self.key_id,
            self.name,
            list(self.shape),
            [len(feed) for feed in self.feeds],
        ]
        return _digest("operand", described, parts)

    def save(self, path: files.Target, *, progress: Progress | None = None) -> None:
        """Write to a safetensors file, atomically.

        Args:
            path: where to; its directory must exist. Or a stream, as `open(path, "wb")` or `io.BytesIO()` gives it.
            progress: called as progress(done, total), counted in bytes: each is hashed, and then written.

        Raises:
            MismatchError: only some of the ciphertexts of a feed have seeds.
            StorageError: the system refuses.
        """
        tensors: dict[str, NDArray[Any]] = {}
        for index, feed in enumerate(self.feeds):
            tensors.update(feed_tensors(index, feed))
        header = {
            "role": "operand",
            "program": self.program_id,
            "key_id": self.key_id,
            "name": self.name,
            "shape": list(self.shape),
            "feeds": len(self.feeds),
            "forms": [(feed[0].NAME, feed[0].scale) for feed in self.feeds],
        }
        _write(path, header, tensors, self.parameters, progress, parted(tensors))

    @classmethod
    @files.advised(KIND)
    def load(
        cls,
        path: files.Source,
        *,
        security: int = 128,
        insecure: bool = False,
        lazy: bool = False,
        progress: Progress | None = None,
    ) -> EncryptedOperand:
        """Read an operand; that it is of the right program and key pair is checked where it is used.

        Args:
            path: the file, its bytes, or a stream of them.
            lazy: leave ciphertexts in the file, which stays open, until they are used: a run reads each as it begins,
                which takes less time and memory than to read all before, and one of several ranks its own blocks or
                columns alone. Damage is then found by the run. Where the file has no digests of them, all are read.
            security: bits that its parameters must have: 128, 192 or 256.
            insecure: accept less; below 128 bits with a warning.
            progress: called as progress(done, total), counted in bytes.

        Raises:
            FormatError, VersionError, StorageError: the file is not a whole file of ours.
            SecurityError: its parameters have less security.
            MismatchError: it is another kind of file, or a result.
        """
        header, tensors, parameters = _read(path, "operand", security, insecure, progress, lazy)
        _OPERAND(header, "an encrypted operand")
        name, forms = header["name"], header["forms"]
        _check_name(name, "an encrypted operand")
        if len(forms) != header["feeds"]:
            raise FormatError(
                "An encrypted operand has another number of forms than of uploads.",
                expected=header["feeds"],
                got=len(forms),
            )
        feeds = tuple(
            read_feed(tensors, index, parameters, form, float(scale))
            for index, (form, scale) in enumerate(forms)
        )
        return cls(header["program"], name, tuple(header["shape"]), parameters, feeds, header["key_id"])


def _check_name(name: str, what: str) -> None:
    try:
        check_name(name)
    except CipherblasError as error:
        raise FormatError(f"The fields of {what} cannot be read: {error}") from error


def _digest(what: str, described: Sequence[Any], parts: Iterable[bytes | NDArray[Any]]) -> str:
    """BLAKE2b over JSON and byte strings or arrays, none of which can be taken for a part of another."""
    hasher = hashlib.blake2b(digest_size=32, person=b"cipherblas-id")
    hasher.update(json.dumps([what, *described], separators=(",", ":")).encode() + b"\0")
    for part in parts:
        data = part if isinstance(part, bytes) else bytes_of(np.ascontiguousarray(part))
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()


def array_digest(array: NDArray[Any]) -> str:
    """The name of a clear array: BLAKE2b over its type, shape and bytes."""
    return _digest("array", [array.dtype.str, list(array.shape)], [array])


@dataclass(frozen=True, repr=False)
class EncryptedResult(files.InMemory, Sealed):
    """The encrypted value of a program, or all its results, each block after block in row-major order.

    Attributes:
        program_id: the program that computed it.
        shape: of the matrix, vector or image; of several results, a tuple or a dictionary of their shapes.
        ciphertexts: of all results, arrays (components, limbs, N); for matrices encrypted by rows, per piece the a part
            (limbs, rows, N) and the b part (limbs, rows, columns).
        seconds: how long the server computed.
        key_id: the key pair that decrypts it.
        operands: name → `EncryptedOperand.digest` of each secret operand that it was computed from, as the server says.
        parts: of several results, how many of the ciphertexts each has; of the only one, nothing.
        promise: the kind of promise of the program: "bounds", "samples" or "none"; see `PlanOptions.promise`.
        report: the facts of the run, measured beside predicted, which files leave out: None of a result from a file.

    Raises:
        ShapeError: the parts are not all ciphertexts, or not those of the shapes.
    """

    program_id: str
    shape: Arranged[tuple[int, ...]]
    parameters: Parameters
    ciphertexts: tuple[NDArray[np.uint64], ...]
    seconds: float = 0.0
    key_id: str = ""
    operands: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[int, ...] = ()
    promise: PromiseName = "bounds"
    report: RunReport | None = field(default=None, compare=False)

    remedy: ClassVar[str] = "client.decrypt(result), which gives its values"

    def __post_init__(self) -> None:
        if self.parts and (sum(self.parts), len(self.parts)) != (len(self.ciphertexts), len(self.shape)):
            expected = f"{len(self.shape)} parts of {len(self.ciphertexts)} ciphertexts"
            raise ShapeError(
                "The encrypted result has another number of parts than the program plans.",
                expected=expected,
                got=self.parts,
                advice=RUN,
            )

    @property
    def nbytes(self) -> int:
        """Bytes that travel."""
        return sum(ct.nbytes for ct in self.ciphertexts)

    @property
    def each(self) -> list[tuple[NDArray[np.uint64], ...]]:
        """The ciphertexts of each result."""
        if not self.parts:
            return [self.ciphertexts]
        stops = itertools.accumulate(self.parts)
        return [self.ciphertexts[stop - part : stop] for stop, part in zip(stops, self.parts, strict=True)]

    @functools.cached_property
    def digest(self) -> str:
        """The name of these very ciphertexts: BLAKE2b over all their residues."""
        described = [self.program_id, self.key_id, [list(array.shape) for array in self.ciphertexts]]
        return _digest("result", described, self.ciphertexts)

    def save(self, path: files.Target, *, progress: Progress | None = None) -> None:
        """Write to a safetensors file, atomically; arguments as `EncryptedOperand.save`.

        Raises:
            StorageError: the system refuses.
        """
        shape, labels = self.shape, list(self.shape) if isinstance(self.shape, Mapping) else None
        lengths = shape.values() if isinstance(shape, Mapping) else shape
        header = {
            "role": "result",
            "program": self.program_id,
            "shape": [one if isinstance(one, int) else list(one) for one in lengths],
            "seconds": self.seconds,
            "key_id": self.key_id,
            "operands": dict(self.operands),
            **({} if labels is None else {"labels": labels}),
            **({} if self.promise == "bounds" else {"promise": self.promise}),
        }
        tensors: dict[str, NDArray[Any]] = {}
        for prefix, arrays in zip(_prefixes(labels, len(self.parts)), self.each, strict=True):
            tensors.update(_result_tensors(prefix, arrays))
        _write(path, header, tensors, self.parameters, progress)

    @classmethod
    @files.advised(KIND)
    def load(
        cls,
        path: files.Source,
        *,
        security: int = 128,
        insecure: bool = False,
        progress: Progress | None = None,
    ) -> EncryptedResult:
        """Read a result; arguments and errors as `EncryptedOperand.load`."""
        header, tensors, parameters = _read(path, "result", security, insecure, progress)
        _RESULT(header, "an encrypted result")
        shape: Any = tuple(tuple(one) if isinstance(one, list) else one for one in header["shape"])
        count = len(shape) if isinstance(next(iter(shape), 0), tuple) else 0
        labels = header.get("labels")
        each = [_result_arrays(tensors, prefix) for prefix in _prefixes(_labels(labels, count), count)]
        if tensors:
            raise FormatError(
                "The file of an encrypted result holds tensors that do not belong there.",
                expected="no others",
                got=", ".join(tensors),
            )
        return cls(
            header["program"],
            shape if labels is None else dict(zip(labels, shape, strict=True)),
            parameters,
            tuple(itertools.chain.from_iterable(each)),
            float(header["seconds"]),
            header["key_id"],
            header["operands"],
            tuple(map(len, each)) if count else (),
            header.get("promise", "bounds"),
        )


def _labels(labels: Sequence[str] | None, count: int) -> Sequence[str] | None:
    """The names of so many results, of a file."""
    if labels is not None:
        for label in labels:
            _check_name(label, "an encrypted result")
        if len(labels) != count or len(set(labels)) != count:
            raise FormatError(
                "Encrypted results need different names.", expected=f"{count} different ones", got=len(labels)
            )
    return labels


def _prefixes(labels: Sequence[str] | None, count: int) -> list[str]:
    """The prefixes of the names of the tensors of each result; `count`: of several results, how many."""
    if not count:
        return ["result"]
    return [f"result.{label}" for label in (range(count) if labels is None else labels)]


def _result_tensors(prefix: str, arrays: Sequence[NDArray[np.uint64]]) -> dict[str, NDArray[Any]]:
    """The ciphertexts of a result in a file: in one tensor where they are alike."""
    shapes = {array.shape for array in arrays}
    if len(shapes) == 1 and min(shapes)[0] in (2, 3):
        return {prefix: np.stack(arrays)}
    return {_part_name(prefix, index): array for index, array in enumerate(arrays)}


def _part_name(prefix: str, index: int) -> str:
    return f"{prefix}:{index}" if "." in prefix else f"{prefix}{index}"


def _result_arrays(tensors: dict[str, NDArray[Any]], prefix: str) -> tuple[NDArray[np.uint64], ...]:
    """The ciphertexts of a result, which are taken from those of its file."""
    stacked = prefix in tensors
    names = itertools.takewhile(tensors.__contains__, (_part_name(prefix, i) for i in itertools.count()))
    found = [prefix] if stacked else list(names) or [_part_name(prefix, 0)]
    arrays, dimensions = tuple(tensor_of(tensors, name) for name in found), 3 + stacked
    for name in found:
        del tensors[name]
    wanted = "uint64 (count, 2 or 3, limbs, N)" if stacked else "uint64, 3 dimensions"
    fits = all(array.ndim == dimensions and (not stacked or array.shape[1] in (2, 3)) for array in arrays)
    if not fits or any(array.dtype != np.uint64 for array in arrays):
        got = ", ".join(f"{array.dtype} {array.shape}" for array in arrays)
        raise FormatError("The tensor of a result has the wrong type or shape.", expected=wanted, got=got)
    return tuple(arrays[0]) if stacked else arrays


def _write(
    path: files.Target,
    header: Mapping[str, Any],
    tensors: Mapping[str, NDArray[Any]],
    parameters: Parameters,
    progress: Progress | None,
    in_parts: Mapping[str, int] | None = None,
) -> None:
    """A file of ciphertexts; parts of some tensors have digests of their own."""
    once = sum(array.nbytes for array in tensors.values())
    steps = Steps(
        progress, files.STEPS_PER_BYTE * once + sum(tensors[name].nbytes for name in in_parts or ())
    )
    if in_parts:
        header = {**header, "parts": digests_of(tensors, in_parts, steps.tick)}
    files.write(path, KIND, header, tensors, parameters=parameters, tick=steps.tick)


def _read(
    path: files.Source,
    role: str,
    security: int,
    insecure: bool,
    progress: Progress | None,
    lazy: bool = False,
) -> tuple[dict[str, Any], dict[str, Any], Parameters]:
    """Header, tensors and parameters of a file of ciphertexts; where `lazy`, what has parts stays in the file."""
    with contextlib.ExitStack() as opened:
        reader = opened.enter_context(files.Reader(path, KIND, security=security, insecure=insecure))
        if reader.header.get("role") != role:
            got = reader.header.get("role")
            raise MismatchError(
                f"{reader.path} holds another kind of ciphertext.",
                expected=role,
                got=got,
                advice=WRITES.get(role, ()),
            )
        if not lazy:
            return reader.header, reader.read_all(progress), reader.parameters
        tensors = read_but_parts(reader, progress)
        opened.pop_all()  # it is closed with the last ciphertext that reads
        return reader.header, tensors, reader.parameters


RUN = "server.run(operands), of a server of this program"
AGAIN = "client.encrypt(operands), of a client of this program"
# By what a file of ciphertexts holds, who writes it.
WRITES = {
    "operand": "the file that `cipherblas encrypt`, or EncryptedOperand.save, wrote",
    "result": "the file that `cipherblas run`, or EncryptedResult.save, wrote",
}


def check_parameters(what: str, got: Parameters, expected: Parameters) -> None:
    """Raise MismatchError unless something was made with these parameters."""
    if got != expected:
        raise MismatchError(
            f"{capitalized(what)} belongs to other parameters.",
            expected=expected.fingerprint()[:12],
            got=got.fingerprint()[:12],
            advice="what program.client(), or a server, of this very program makes",
        )


def check_made_for(operand: EncryptedOperand, name: str, owners: Sequence[str]) -> None:
    """Raise MismatchError unless it is an encryption of this operand.

    Args:
        owners: the program, and the encoding that it asks for.
    """
    if operand.program_id not in owners:
        raise MismatchError(
            f"Operand {operand.name!r} was encrypted for another program.",
            expected=" | ".join(map(short_id, owners)),
            got=short_id(operand.program_id),
            advice=AGAIN,
            cause="Programs that are compiled together take one encryption where they ask for it alike: in the same "
            "form, with the same limbs, scale and bounds.",
        )
    if operand.name != name:
        raise MismatchError(
            "The operand was encrypted under another name.",
            expected=name,
            got=operand.name,
            advice=f"{{{operand.name!r}: …}}",
        )


def residue_of(parts: tuple[Part, ...], number: int, residues: int) -> tuple[Part, ...]:
    """The part of one t of several, of the ciphertexts of a result: they lie one t after another."""
    each = len(parts) // residues
    return parts[number * each : (number + 1) * each]


def check_residues_of(parts: Sequence[Any], residues: int, what: str, advice: str) -> None:
    """Raise ShapeError unless there are as many parts for each t."""
    if len(parts) % residues:
        raise ShapeError(
            f"{capitalized(what)} has not as many ciphertexts for each t.",
            expected=f"a multiple of {residues}",
            got=len(parts),
            advice=advice,
        )


def short_id(program_id: str) -> str:
    """Return the first 16 digits of a program's identity, for people."""
    return program_id[:16]


def check_shape(name: str, got: Sequence[int], expected: Sequence[int]) -> None:
    """Raise ShapeError unless `got` is `expected`."""
    if tuple(got) != tuple(expected):
        raise ShapeError(
            f"Operand {name!r} has the wrong shape.",
            expected="x".join(map(str, expected)),
            got="x".join(map(str, got)),
            advice=f"{name}.T"
            if len(got) == 2 and tuple(got) == tuple(expected)[::-1]
            else f"an array of shape {tuple(expected)}",
        )


def given(operands: Mapping[str, Any]) -> str:
    """How all operands of a program are given."""
    return "{" + ", ".join(f"{name!r}: …" for name in operands) + "}"
