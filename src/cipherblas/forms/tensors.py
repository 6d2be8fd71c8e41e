"""Vectors and images in slots: where each entry of a (channels, height, width) tensor lies.

A vector of k entries is a tensor of k channels of one entry, a matrix one of as many channels as it has rows. The usual
layout is contiguous: channels one after the other, rows of a channel one after the other, as NumPy stores them (CHW).
After a stride the entries stay where they were computed, so that rows and columns are some slots apart.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import FitError, ShapeError
from cipherblas.forms.layouts import Layout, SlotIndex, empty_index


@dataclass(frozen=True)
class TensorLayout:
    """A (channels, height, width) tensor in the slots of one or more ciphertexts.

    Entry (c, h, w) lies in ciphertext (c div channels)·segments + h div segment, where `segments` is the number of
    segments of a channel, at slot (c mod channels)·pitch + (h mod segment)·row + w·col. With `places`, channel c lies
    in `segments` ciphertexts from `places[c][0]` on, in each from slot `places[c][1]` on. With `copies`, the same
    stands again every slots/copies slots.

    Attributes:
        shape: channels, height, width of the tensor.
        slots: S per ciphertext.
        channels: per ciphertext.
        pitch: slots from a channel to the next.
        row: slots from a row to the next.
        col: slots from an entry to the next.
        segment: rows of a channel in one ciphertext; fewer than the height where a channel exceeds a ciphertext.
        zero_padded: slots without an entry, or a copy of one, are zero.
        places: first ciphertext, a multiple of the segments, and first slot of every channel, where these are not
            regular.
        copies: how often every entry stands in its ciphertext.
    """

    shape: tuple[int, int, int]
    slots: int
    channels: int
    pitch: int
    row: int
    col: int
    segment: int
    zero_padded: bool = True
    places: tuple[tuple[int, int], ...] | None = None
    copies: int = 1

    def __post_init__(self) -> None:
        if min(*self.shape, self.channels, self.pitch, self.row, self.col, self.segment, self.copies) < 1:
            raise ShapeError(
                "A tensor in slots needs positive lengths.", expected="positive lengths", got=self.shape
            )
        if self.slots % self.copies:
            raise ShapeError(
                "The copies of a tensor must divide the slots.",
                expected=f"a divisor of {self.slots}",
                got=self.copies,
            )
        if self.extent > self.slots // self.copies:
            raise FitError(
                f"A tensor {shape_text(self.shape)}, {self.channels} channels per ciphertext, has too many slots.",
                expected=f"at most {self.slots // self.copies} slots",
                got=self.extent,
            )

    @property
    def segments(self) -> int:
        """Ciphertexts of one channel."""
        return -(-self.shape[1] // self.segment)

    @property
    def groups(self) -> int:
        """Groups of channels, each in `segments` ciphertexts."""
        return -(-self.shape[0] // self.channels)

    @functools.cached_property
    def ciphertexts(self) -> int:
        """How many."""
        if self.places is not None:
            return self.segments + max(ciphertext for ciphertext, _ in self.places)
        return self.groups * self.segments

    @functools.cached_property
    def extent(self) -> int:
        """Slots from the first entry of a ciphertext to its last."""
        rows = min(self.segment, self.shape[1])
        inside = (rows - 1) * self.row + (self.shape[2] - 1) * self.col + 1
        if self.places is not None:
            return max(slot for _, slot in self.places) + inside
        return (min(self.channels, self.shape[0]) - 1) * self.pitch + inside

    @property
    def contiguous(self) -> bool:
        """Whether rows, and the channels of a ciphertext, follow each other without gaps."""
        _, height, width = self.shape
        dense = self.col == 1 and (self.row == width or height == 1)
        if not dense or self.places is not None or self.copies > 1:
            return False
        return self.pitch == height * width or (self.segments > 1 and self.channels == 1)

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """Hashable identity."""
        fields = (self.channels, self.pitch, self.row, self.col, self.segment, self.places, self.copies)
        return ("tensor", self.shape, self.slots, *fields)

    def with_zero_padding(self, zero_padded: bool) -> TensorLayout:
        """The same places; whether other slots are zero."""
        return self if zero_padded == self.zero_padded else replace(self, zero_padded=zero_padded)

    @property
    def grid_options(self) -> dict[str, int]:
        """The arguments of `grid` that make this layout; JSON-ready."""
        return {name: getattr(self, name) for name in ("channels", "pitch", "row", "segment", "copies")}

    def once(self) -> TensorLayout:
        """The same places, one copy, zeros in all other slots."""
        return replace(self, zero_padded=True, copies=1)

    def repeated(self, copies: int) -> TensorLayout:
        """The same places in so many copies."""
        return replace(self, copies=copies)

    @property
    def alone(self) -> bool:
        """Whether every entry stands once and all other slots are zero."""
        return self.zero_padded and self.copies == 1

    def vector(self, ciphertext: int, flat: NDArray[Any]) -> NDArray[Any]:
        """The slots of one ciphertext: the entries of the flattened tensor and their copies, zero elsewhere."""
        return self.fill(np.zeros(self.slots, dtype=flat.dtype), ciphertext, flat)

    def fill(self, vector: NDArray[Any], ciphertext: int, flat: NDArray[Any]) -> NDArray[Any]:
        """Write the entries of one ciphertext, and their copies, into `vector`, and return it."""
        entries, slots = self.entries(ciphertext)
        for copy in range(self.copies):
            vector[slots + copy * (self.slots // self.copies)] = flat[entries]
        return vector

    def channel_place(self, channel: int) -> tuple[int, int]:
        """Ciphertext of the first segment of a channel, and its first slot there."""
        if self.places is not None:
            return self.places[channel]
        return channel // self.channels * self.segments, channel % self.channels * self.pitch

    def entries(self, ciphertext: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the flat indices of the entries in one ciphertext, and their slots."""
        return _entries(self, ciphertext)

    @property
    def layout(self) -> Layout:
        """The packing of the flattened tensor, a column, for encryption and decryption."""
        size = math.prod(self.shape)
        return Layout(
            *("tensor", self.key, size, 1, self.slots, self.ciphertexts),
            functools.partial(_slot_index, self),
            empty_garbage=not self.zero_padded,
        )


def _slot_index(layout: TensorLayout, ciphertext: int) -> SlotIndex:
    numbers = np.arange(math.prod(layout.shape), dtype=np.int64)
    return SlotIndex(layout.fill(empty_index(layout.slots), ciphertext, numbers))


@functools.lru_cache(maxsize=256)
def _entries(layout: TensorLayout, ciphertext: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    channels, height, width = layout.shape
    if not 0 <= ciphertext < layout.ciphertexts:
        raise ShapeError(
            "The layout of the tensor has no such ciphertext.",
            expected=f"0 to {layout.ciphertexts - 1}",
            got=ciphertext,
        )
    group, part = divmod(ciphertext, layout.segments)
    first = part * layout.segment
    rows = min(layout.segment, height - first)
    if layout.places is not None:
        places = np.array(layout.places, dtype=np.int64)
        numbers = np.flatnonzero(places[:, 0] == ciphertext - part)
        bases = places[numbers, 1]
    else:
        numbers = np.arange(
            group * layout.channels, min((group + 1) * layout.channels, channels), dtype=np.int64
        )
        bases = (numbers - group * layout.channels) * layout.pitch
    h, w = np.arange(rows, dtype=np.int64), np.arange(width, dtype=np.int64)
    slots = bases[:, None, None] + h[None, :, None] * layout.row + w[None, None, :] * layout.col
    flat = (numbers[:, None, None] * height + (h + first)[None, :, None]) * width + w[None, None, :]
    return flat.ravel(), slots.ravel()


def contiguous(
    shape: Sequence[int], slots: int, *, channels: int | None = None, pitch: int | None = None, rows: int = 1
) -> TensorLayout:
    """The tensor channel after channel, row after row.

    Args:
        shape: (k,) of a vector, or (channels, height, width).
        channels: per ciphertext; by default as many as fit.
        pitch: slots from a channel to the next; by default the size of a channel.
        rows: where a channel is cut into segments, their number of rows is a multiple of this.
    """
    full = tensor_shape(shape)
    count, height, width = full
    size = height * width if pitch is None else pitch
    if size > slots:
        segment = slots // width // rows * rows
        if segment < 1:
            raise FitError(
                f"There is no room for {rows} rows of an image in one ciphertext.",
                expected=f"at most {slots} slots",
                got=rows * width,
            )
        parts = -(-height // segment)
        segment = min(segment, -(-height // (parts * rows)) * rows)  # segments of about equal length
        return TensorLayout(full, slots, 1, segment * width, width, 1, segment)
    most = (slots - height * width) // size + 1
    each = min(count, most) if channels is None else channels
    return TensorLayout(full, slots, each, size, width, 1, height)


def grid(shape: tuple[int, int, int], slots: int, options: Mapping[str, Any]) -> TensorLayout:
    """A tensor whose rows lie `row` slots apart.

    Args:
        options: `channels` per ciphertext, `pitch`, `row`; `segment`, by default the height; `copies`, by default 1.
    """
    channels, pitch, row = (int(options[name]) for name in ("channels", "pitch", "row"))
    segment, copies = int(options.get("segment", shape[1])), int(options.get("copies", 1))
    return TensorLayout(shape, slots, channels, pitch, row, 1, segment, copies=copies)


def tensor_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """(k,) as (k, 1, 1), the rows of a (k, n) matrix as channels (k, 1, n); (c, h, w) as it is; of images (n, c, h, w)
    the channels of one after those of the other."""
    lengths = tuple(int(length) for length in shape)
    if len(lengths) == 1:
        return (lengths[0], 1, 1)
    if len(lengths) == 2:
        return (lengths[0], 1, lengths[1])
    if len(lengths) == 3:
        return (lengths[0], lengths[1], lengths[2])
    if len(lengths) == 4:
        return (lengths[0] * lengths[1], lengths[2], lengths[3])
    raise ShapeError(
        "A tensor needs one to four dimensions.",
        expected="(length,), (rows, columns), (channels, height, width) or (images, channels, height, width)",
        got=lengths,
    )
