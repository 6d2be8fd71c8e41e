"""The feeds of an operand in files, by the name of their format: what a header calls the form of a feed."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import CipherblasError, FormatError, MismatchError
from cipherblas.common.memory import stacked
from cipherblas.crypto import files
from cipherblas.crypto.keys import FreshCiphertext, StoredCiphertext
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.randomness import SEED_BYTES
from cipherblas.rlwe.matrices import OperandRows, RlweRows, SharedBatch, SharedRows
from cipherblas.roles.wire.columns import by_columns, by_rows, columns_each
from cipherblas.roles.wire.stored import StoredParts
from cipherblas.roles.wire.stored_rows import StoredRows

EncryptedRows: TypeAlias = "RlweRows | SharedRows | SharedBatch | StoredRows"
Sent: TypeAlias = "FreshCiphertext | EncryptedRows"
Tensors = Mapping[str, Any]


def feed_tensors(index: int, feed: Sequence[Sent]) -> dict[str, NDArray[Any]]:
    """One feed in a file: b parts and seeds, or from the public key both parts."""
    seeds = [np.frombuffer(ct.seed, dtype=np.uint8) for ct in feed if ct.seed is not None]
    if len(seeds) not in (0, len(feed)):
        raise MismatchError(
            "Either all ciphertexts of an operand have seeds, or none has.",
            expected="all with seeds, or none",
            got=f"{len(seeds)} of {len(feed)}",
        )
    tensors = {f"feed{index}.seed": np.stack(seeds)} if seeds else {}
    return tensors | FORMATS[feed[0].NAME].tensors(index, feed)


def read_feed(
    tensors: Tensors, index: int, parameters: Parameters, name: str, scale: float
) -> tuple[Sent, ...]:
    """Read a feed, as `feed_tensors` wrote it.

    Raises:
        FormatError: it is not what the header announces, or cannot be read.
    """
    if name not in FORMATS:
        raise FormatError("The form of an operand is unknown.", expected=" | ".join(FORMATS), got=name)
    return FORMATS[name].read(tensors, index, parameters, scale)


def tensor_of(tensors: Tensors, name: str) -> Any:
    """One of the tensors of a file; FormatError where it has none of this name."""
    if name not in tensors:
        raise FormatError("A tensor of the file is missing.", expected=name, got=", ".join(tensors))
    return tensors[name]


class _Slots:
    """Ciphertexts of slots, in one tensor.

    `fresh`: what no two ciphertexts from the public key share, digests of their parts, as files have them. `tensors`:
    all but the seeds.
    """

    def fresh(self, ct: Any) -> bytes:
        digest: str = ct.data_digest
        return digest.encode()

    def tensors(self, index: int, feed: Sequence[Any]) -> dict[str, NDArray[Any]]:
        return {f"feed{index}.data": stacked([ct.data for ct in feed])}

    def read(
        self, tensors: Tensors, index: int, parameters: Parameters, scale: float
    ) -> tuple[FreshCiphertext, ...]:
        seeds, data = tensors.get(f"feed{index}.seed"), tensor_of(tensors, f"feed{index}.data")
        if seeds is None:
            fits, wanted = data.ndim == 4, "uint64 (count, 2, limbs, N)"
        else:
            fits = data.ndim == 3 and seeds.dtype == np.uint8 and seeds.shape == (len(data), SEED_BYTES)
            wanted = f"uint64 (count, limbs, N) and (count, {SEED_BYTES}) bytes"
        if not fits or data.dtype != np.uint64:
            got = (data.shape, None if seeds is None else seeds.shape)
            raise FormatError(
                "The ciphertexts of the file are not those that its header announces.",
                expected=wanted,
                got=got,
            )
        each, limbs = enumerate(_seeds(seeds, len(data))), data.shape[-2]
        try:
            if isinstance(data, StoredParts):
                return tuple(
                    StoredCiphertext(
                        parameters, limbs, seed, functools.partial(data.entry, part), data.digests[part]
                    )
                    for part, seed in each
                )
            return tuple(FreshCiphertext(parameters, limbs, seed, data[part]) for part, seed in each)
        except CipherblasError as error:  # residues out of range, more limbs than there are
            raise FormatError(f"The ciphertexts of the file cannot be read: {error}") from error


class _Rows(NamedTuple):
    """Pieces of rows of one kind, each in tensors of its own."""

    kind: type[RlweRows] | type[SharedRows] | type[SharedBatch]

    def fresh(self, ct: Any) -> bytes:
        if isinstance(ct, StoredRows):
            assert isinstance(ct.uniform, StoredParts)
            return "".join(ct.uniform.digests).encode()
        columns = ct.a.transpose(2, 0, 1)
        return "".join(files.part_digests(columns, columns_each(columns.shape))).encode()

    def tensors(self, index: int, feed: Sequence[Any]) -> dict[str, NDArray[Any]]:
        found = {}
        for piece, ct in enumerate(feed):
            found[f"feed{index}.columns{piece}"] = by_columns(ct.b)
            if ct.seed is None:
                found[f"feed{index}.uniform{piece}"] = by_columns(ct.a)
        return found

    def read(
        self, tensors: Tensors, index: int, parameters: Parameters, scale: float
    ) -> tuple[EncryptedRows, ...]:
        seeds: Any = tensors.get(f"feed{index}.seed")
        if seeds is not None and (seeds.ndim != 2 or seeds.dtype != np.uint8):
            raise FormatError(
                "The seeds of encrypted rows have the wrong shape.",
                expected=f"(pieces, {SEED_BYTES})",
                got=seeds.shape,
            )
        old = f"feed{index}.rows"  # of files that have rows one after the other, and their a parts likewise
        stored = sum(key.startswith((old, f"feed{index}.columns")) for key in tensors)
        pieces: list[EncryptedRows] = []
        for piece, seed in enumerate(_seeds(seeds, stored)):
            try:
                b = _part(tensors, f"feed{index}.columns{piece}", f"{old}{piece}")
                uniform = seed or _part(tensors, f"feed{index}.uniform{piece}", f"feed{index}.a{piece}")
                pieces.append(self._piece(parameters.family.rows, scale, b, uniform))
            except (CipherblasError, IndexError) as error:
                raise FormatError(f"The encrypted rows of the file cannot be read: {error}") from error
        return tuple(pieces)

    def _piece(self, params: Parameters, scale: float, b: Any, uniform: Any) -> EncryptedRows:
        """Encrypted rows, checked or to be checked; both parts are in the file, or none."""
        if isinstance(b, StoredParts) and not isinstance(uniform, np.ndarray):
            return StoredRows(self.kind, params, (b.shape[2], b.shape[0]), scale, b, uniform)
        b, uniform = (by_rows(one.whole()) if isinstance(one, StoredParts) else one for one in (b, uniform))
        rows = self.kind(params, b.shape[1:], scale, b, uniform)
        rows.check_residues()
        return rows


def _part(tensors: Tensors, columns: str, rows: str) -> Any:
    """A part as it is, or where it stays."""
    found = tensors.get(columns)
    if found is None:
        return tensor_of(tensors, rows)
    return found if isinstance(found, StoredParts) else by_rows(found)


def _seeds(seeds: NDArray[Any] | None, count: int) -> list[bytes | None]:
    """The seeds of a feed, or None for each of its ciphertexts."""
    return [None] * count if seeds is None else [seed.tobytes() for seed in seeds]


FORMATS: dict[str, _Slots | _Rows] = {
    FreshCiphertext.NAME: _Slots(),
    **{kind.NAME: _Rows(kind) for kind in (RlweRows, OperandRows, SharedRows, SharedBatch)},
}
