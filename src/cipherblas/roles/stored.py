"""Ciphertexts that stay in their file until they are used: each has a digest of its own there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.errors import FormatError
from cipherblas.common.progress import Progress
from cipherblas.crypto import files
from cipherblas.crypto.files.writing import Tick
from cipherblas.crypto.keys import FreshCiphertext

MOST_PARTS = (
    1 << 15
)  # ciphertexts of a file that have digests of their own: those of more would fill its header
check_digests = schema.mapping(schema.listed(schema.text, 0, MOST_PARTS))


@dataclass(frozen=True)
class StoredParts:
    """A tensor whose parts along the first axis are read one by one.

    Attributes:
        reader: of its file.
        name: of the tensor.
        digests: of its parts.
    """

    reader: files.Reader
    name: str
    digests: Sequence[str]

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

    def __len__(self) -> int:
        return len(self.digests)

    def read(self, index: int) -> NDArray[Any]:
        """One ciphertext; errors as `Reader.read_part`."""
        found: NDArray[Any] = self.reader.read_part(self.name, index, self.digests[index])[0]
        return found


def data_name(feed: int) -> str:
    """The tensor of the ciphertexts of a feed."""
    return f"feed{feed}.data"


def seed_name(feed: int) -> str:
    """The tensor of their seeds."""
    return f"feed{feed}.seed"


def parted(feeds: Sequence[Sequence[Any]]) -> list[str]:
    """The tensors of an operand whose parts get digests: ciphertexts in slots."""
    return [
        data_name(index)
        for index, feed in enumerate(feeds)
        if isinstance(feed[0], FreshCiphertext) and len(feed) <= MOST_PARTS
    ]


def digests_of(tensors: Mapping[str, NDArray[Any]], names: Sequence[str], tick: Tick) -> dict[str, list[str]]:
    """For the header of a file: the digests of the parts of these tensors."""
    return {name: files.part_digests(tensors[name], tick=tick) for name in names}


def read_but_parts(reader: files.Reader, progress: Progress | None) -> dict[str, NDArray[Any] | StoredParts]:
    """All tensors of an operand; those whose parts have digests stay in the file.

    Raises:
        FormatError: the file has another number of digests than of parts; others as `Reader.read_all`.
    """
    digests = reader.header.get("parts", {})
    check_digests(digests, "an encrypted operand")
    kept: dict[str, NDArray[Any] | StoredParts] = {}
    for name, each in digests.items():
        info = reader.tensors.get(name)
        if info is None or not info.shape or info.shape[0] != len(each):
            raise FormatError(
                "The file has another number of digests than of ciphertexts.",
                expected=f"{len(each)} ciphertexts in {name!r}",
                got=None if info is None else info.shape,
            )
        if name.endswith(".data"):
            kept[name] = StoredParts(reader, name, each)
    return kept | reader.read_all(progress, [name for name in reader.tensors if name not in kept])
