"""Ciphertexts that stay in their file until they are used: parts of tensors have digests of their own there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.errors import FormatError
from cipherblas.common.memory import aligned_empty
from cipherblas.common.progress import Progress
from cipherblas.crypto import files
from cipherblas.crypto.files.writing import Tick
from cipherblas.roles.wire.columns import columns_each

MAX_PARTS = 1 << 15  # of a file that have digests of their own: those of more would fill its header
check_digests = schema.mapping(schema.listed(schema.text, 0, MAX_PARTS))
_PARTED = re.compile(r"feed\d+\.(data|columns\d+|uniform\d+)")


@dataclass(frozen=True)
class StoredParts:
    """A tensor whose parts along the first axis are read one by one.

    Attributes:
        reader: of its file.
        name: of the tensor.
        digests: of its parts.
        each: entries along the first axis that a part has; the last may have fewer.
    """

    reader: files.Reader
    name: str
    digests: Sequence[str]
    each: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor."""
        return self.reader.tensors[self.name].shape

    @property
    def ndim(self) -> int:
        """Of the tensor."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the tensor."""
        return self.reader.tensors[self.name].dtype

    @property
    def nbytes(self) -> int:
        """Of the tensor."""
        return self.reader.tensors[self.name].nbytes

    def __len__(self) -> int:
        return len(self.digests)

    def read(self, index: int) -> NDArray[Any]:
        """One part; errors as `Reader.read_part`."""
        return self.reader.read_part(self.name, index, self.digests[index], self.each)

    def entry(self, index: int) -> NDArray[Any]:
        """The only entry of a part."""
        found: NDArray[Any] = self.read(index)[0]
        return found

    def whole(self) -> NDArray[Any]:
        """The tensor; of the same errors."""
        found = aligned_empty(self.shape, self.dtype)
        for index in range(len(self)):
            start = index * self.each
            found[start : start + self.each] = self.read(index)
        return found


def _entries(name: str, shape: tuple[int, ...]) -> int:
    """Entries of a part of a tensor: one ciphertext, or some columns."""
    return columns_each(shape) if len(shape) == 3 and not name.endswith(".data") else 1


def parted(tensors: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """The tensors of an operand whose parts get digests, as many as its header has room for: the entries of a part."""
    found, room = {}, MAX_PARTS
    for name, tensor in tensors.items():
        each = _entries(name, tensor.shape)
        parts = -(-len(tensor) // each)
        if _PARTED.fullmatch(name) and parts <= room:
            found[name] = each
            room -= parts
    return found


def digests_of(
    tensors: Mapping[str, NDArray[Any]], names: Mapping[str, int], tick: Tick
) -> dict[str, list[str]]:
    """For the header of a file: the digests of the parts of these tensors."""
    return {name: files.part_digests(tensors[name], each, tick) for name, each in names.items()}


def read_but_parts(reader: files.Reader, progress: Progress | None) -> dict[str, NDArray[Any] | StoredParts]:
    """All tensors of an operand; those whose parts have digests stay in the file.

    Raises:
        FormatError: the file has another number of digests than of parts; others as `Reader.read_all`.
    """
    digests = reader.header.get("parts", {})
    check_digests(digests, "an encrypted operand")
    kept: dict[str, NDArray[Any] | StoredParts] = {}
    for name, found in digests.items():
        info = reader.tensors.get(name)
        each = 1 if info is None or 0 in info.shape else _entries(name, info.shape)
        if info is None or not info.shape or -(-info.shape[0] // each) != len(found):
            raise FormatError(
                "The file has another number of digests than of parts.",
                expected=f"{len(found)} parts in {name!r}",
                got=None if info is None else info.shape,
            )
        if _PARTED.fullmatch(name):
            kept[name] = StoredParts(reader, name, found, each)
    return kept | reader.read_all(progress, [name for name in reader.tensors if name not in kept])
