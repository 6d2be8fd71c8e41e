"""A layout says which matrix entry each slot of each ciphertext holds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError, ShapeError
from cipherblas.evaluators.slots.values import OpenParts

EMPTY = -1
# Row and column of entries → those of others.
Entry = Callable[[NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]


@dataclass(frozen=True)
class SlotIndex:
    """The entries of one ciphertext: for each slot the flat index row·cols + col, `EMPTY` where the slot holds no
    entry.

    Attributes:
        real: the entry in the real part; in halves of slots the one in the first half.
        imag: the entry in the imaginary part, or None when that part is zero; or the one in the second half.
        sign: +1 or -1, the sign of the imaginary part.
    """

    real: NDArray[np.int64]
    imag: NDArray[np.int64] | None = None
    sign: int = 1


@dataclass(frozen=True)
class Layout:
    """A packing of a rows × cols block into the slots of one or more ciphertexts.

    Attributes:
        name: of the packing, with its parameters part of the identity: equal layouts have equal `key`.
        key: hashable identity.
        rows, cols: shape of the block.
        slots: S per ciphertext.
        ciphertexts: how many.
        indexer: ciphertext number → `SlotIndex`.
        complex_packing: imaginary parts hold entries too.
        imaginary_garbage: imaginary parts hold garbage (a product of complex packings).
        empty_garbage: empty slots hold garbage instead of zero.
        halves: entries lie in both halves of the slots modulo t, two in a slot, whose products are independent.
    """

    name: str
    key: Hashable
    rows: int
    cols: int
    slots: int
    ciphertexts: int
    indexer: Callable[[int], SlotIndex] = field(compare=False, repr=False)
    complex_packing: bool = False
    imaginary_garbage: bool = False
    empty_garbage: bool = False
    halves: bool = False

    def index(self, ciphertext: int) -> SlotIndex:
        """Return the entries of one ciphertext. The index is cached."""
        if not 0 <= ciphertext < self.ciphertexts:
            raise ShapeError(
                "The layout has no such ciphertext.", expected=f"0 to {self.ciphertexts - 1}", got=ciphertext
            )
        return _index(self, ciphertext)

    @property
    def active_slots(self) -> tuple[int, bool]:
        """The smallest power of two of slots, from the first one on, that hold all entries of every ciphertext, and
        whether all others repeat them: else those hold no entries."""
        return _active(self)

    def equals(self, other: Layout) -> bool:
        """Whether slots hold the same entries, and garbage in the same parts."""
        marks = ((one.imaginary_garbage, one.empty_garbage) for one in (self, other))
        return self.key == other.key and next(marks) == next(marks)

    @property
    def open(self) -> bool:
        """Whether slots have parts that hold garbage."""
        return self.imaginary_garbage or self.empty_garbage

    def open_parts(self, ciphertext: int) -> OpenParts:
        """The slots of one ciphertext whose real parts hold garbage, and those whose imaginary parts do."""
        index = self.index(ciphertext)
        real = (index.real == EMPTY) & self.empty_garbage
        if index.imag is not None:
            return real, (index.imag == EMPTY) & self.empty_garbage
        return real, np.full(self.slots, self.imaginary_garbage)

    def slot_bound(self, entry_bound: float) -> float:
        """Largest absolute value of a slot when no entry exceeds `entry_bound`."""
        return entry_bound * 2**0.5 if self.complex_packing else entry_bound

    def pack_one(self, matrix: NDArray[Any], ciphertext: int, unit: float = 1.0) -> NDArray[Any]:
        """The slots of one ciphertext, or 2 × S halves; only the entries that it holds are read.

        Args:
            matrix: a block, of any real type; of one at the far edge of a grid the part that is there.
            unit: an entry is unit · slot.
        """
        if matrix.ndim != 2 or matrix.shape[0] > self.rows or matrix.shape[1] > self.cols:
            raise ShapeError(
                "The block to pack has the wrong shape.", expected=(self.rows, self.cols), got=matrix.shape
            )
        index = self.index(ciphertext)
        if self.halves and index.imag is not None:
            return np.stack([self._read(matrix, half, unit) for half in (index.real, index.imag)])
        values = self._read(matrix, index.real, unit).astype(np.complex128)
        if index.imag is not None:
            values += 1j * index.sign * self._read(matrix, index.imag, unit)
        return values

    def _read(self, matrix: NDArray[Any], places: NDArray[np.int64], unit: float) -> NDArray[np.float64]:
        """The entries at flat indices of the block, in float64; zero where there is none."""
        if matrix.flags.c_contiguous and matrix.shape == (self.rows, self.cols):
            there, found = places != EMPTY, matrix.reshape(-1)[places]
        else:
            row, col = np.divmod(places, self.cols)  # of EMPTY: row -1
            there = (row >= 0) & (row < matrix.shape[0]) & (col < matrix.shape[1])
            found = matrix[np.where(there, row, 0), np.where(there, col, 0)]
        return np.where(there, found.astype(np.float64) / unit, 0.0)

    def pack(self, matrix: NDArray[Any]) -> list[NDArray[Any]]:
        """The slots of every ciphertext; see `pack_one`."""
        return [self.pack_one(matrix, i) for i in range(self.ciphertexts)]

    def unpack(self, vectors: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """The matrix held by the slots; an entry that is there several times is read once.

        Raises:
            ShapeError: the number or length of the vectors is wrong.
        """
        if len(vectors) != self.ciphertexts:
            raise ShapeError(
                "The number of slot vectors is wrong.", expected=self.ciphertexts, got=len(vectors)
            )
        flat = np.zeros(self.rows * self.cols + 1)
        expected = (2, self.slots) if self.halves else (self.slots,)
        for i, vector in enumerate(vectors):
            if vector.shape != expected:
                raise ShapeError("A slot vector has the wrong length.", expected=expected, got=vector.shape)
            index = self.index(i)
            if self.halves and index.imag is not None:
                flat[index.imag], flat[index.real] = vector[1], vector[0]
                continue
            if index.imag is not None:
                flat[index.imag] = np.imag(vector) * index.sign
            flat[index.real] = np.real(vector)
        return flat[:-1].reshape(self.rows, self.cols)


@dataclass(frozen=True)
class CoefficientLayout(Layout):
    """Entries, row after row, as the first coefficients of ciphertexts: none has slots of its own. Or blocks of one
    column or row, each of which is the slots that a polynomial repeats, beside others.

    Attributes:
        each: at most so many in a ciphertext, a power of two.
        block: rows and columns of one.
        lines: with the first of so many rows of blocks a new ciphertext begins.
        by_columns: columns of blocks one after another, in place of rows.
    """

    each: int = 1
    block: tuple[int, int] = (1, 1)
    lines: int = 1
    by_columns: bool = False

    def slot_bound(self, entry_bound: float) -> float:
        """Of a sum of all entries of a ciphertext times roots of unity."""
        return entry_bound * self.each

    @property
    def grid(self) -> tuple[int, int]:
        """Of blocks."""
        return self.rows // self.block[0], self.cols // self.block[1]

    def coefficients(self, matrix: NDArray[Any], ciphertext: int) -> NDArray[Any]:
        """The entries of one ciphertext, or its blocks, a row for each."""
        number, length = self.grid[::-1] if self.by_columns else self.grid
        group, own = divmod(ciphertext, -(-self.lines * length // self.each))
        start = group * self.lines * length + own * self.each
        stop = min(start + self.each, min((group + 1) * self.lines, number) * length)
        down, across = np.divmod(np.arange(start, stop), length)
        if self.by_columns:
            down, across = across, down
        if self.block == (1, 1):
            return np.asarray(matrix[down, across])
        blocks = matrix.reshape(self.grid[0], self.block[0], self.grid[1], self.block[1])
        return blocks[down, :, across, :].reshape(stop - start, -1)


@functools.lru_cache(maxsize=512)
def _index(layout: Layout, ciphertext: int) -> SlotIndex:
    return layout.indexer(ciphertext)


@functools.lru_cache(maxsize=512)
def _active(layout: Layout) -> tuple[int, bool]:
    rows = []
    for number in range(layout.ciphertexts):
        index = layout.index(number)
        rows += [index.real] if index.imag is None else [index.real, index.imag]
    places = np.stack(rows)
    slots = layout.slots
    for bits in range(slots.bit_length() - 1):
        held = 1 << bits
        if (places[:, held:] == EMPTY).all():
            return held, False
        if (places.reshape(len(rows), -1, held) == places[:, None, :held]).all():
            return held, True
    return slots, False


def empty_index(slots: int) -> NDArray[np.int64]:
    """Slots that hold nothing."""
    return np.full(slots, EMPTY, dtype=np.int64)


def entry_index(
    rows: NDArray[np.int64], cols: NDArray[np.int64], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Return the flat indices of the entries (rows, cols); `EMPTY` outside the matrix (padding)."""
    inside = (rows >= 0) & (rows < shape[0]) & (cols >= 0) & (cols < shape[1])
    return np.where(inside, rows * shape[1] + cols, EMPTY)


@functools.lru_cache(maxsize=1 << 12)
def column_major(
    rows: int, cols: int, slots: int, period: int | None = None, stride: int | None = None
) -> Layout:
    """Return the layout with entry (r, c) in slot r + stride·c. `stride` is `rows` by default; `period` repeats the
    block."""
    step = rows if stride is None else stride
    _check_fit("column-major", rows, cols, step * (cols - 1) + rows, slots)

    def indexer(_: int) -> SlotIndex:
        slot = np.arange(slots, dtype=np.int64)
        inside = slot if period is None else slot % period
        return SlotIndex(entry_index(inside % step, inside // step, (rows, cols)))

    return Layout(
        "column-major", ("column-major", rows, cols, slots, period, step), rows, cols, slots, 1, indexer
    )


def row_major(
    rows: int, cols: int, slots: int, period: int | None = None, stride: int | None = None
) -> Layout:
    """Entry (r, c) at slot r·stride + c (stride is by default `cols`), repeated every `period` slots if given."""
    step = cols if stride is None else stride
    _check_fit("row-major", rows, cols, step * (rows - 1) + cols, slots)

    def indexer(_: int) -> SlotIndex:
        slot = np.arange(slots, dtype=np.int64)
        inside = slot if period is None else slot % period
        return SlotIndex(entry_index(inside // step, inside % step, (rows, cols)))

    return Layout("row-major", ("row-major", rows, cols, slots, period, step), rows, cols, slots, 1, indexer)


@functools.lru_cache(maxsize=1 << 8)
def in_halves(rows: int, cols: int, slots: int, stride: int | None = None) -> Layout:
    """Return the layout of up to 2·S entries modulo t, column after column: the first S of them in the first halves of
    the slots. Entry (r, c) is at place r + stride·c; `stride` is `rows` by default."""
    step = rows if stride is None else stride
    _check_fit("halves", rows, cols, step * (cols - 1) + rows, 2 * slots)

    def indexer(_: int) -> SlotIndex:
        places = np.arange(2 * slots, dtype=np.int64)
        first, second = entry_index(places % step, places // step, (rows, cols)).reshape(2, slots)
        return SlotIndex(first, second)

    key: Hashable = ("halves", rows, cols, slots) if step == rows else ("halves", rows, cols, slots, step)
    return Layout("halves", key, rows, cols, slots, 1, indexer, halves=True)


def in_coefficients(
    rows: int,
    cols: int,
    slots: int,
    each: int,
    block: tuple[int, int] = (1, 1),
    *,
    lines: int | None = None,
    by_columns: bool = False,
) -> CoefficientLayout:
    """Return the layout of a matrix whose entries are coefficients, or whose blocks repeat in slots, so many in a
    ciphertext; see `CoefficientLayout`. By default they follow one another from the first row to the last.

    Raises:
        FitError: they do not fit.
    """
    repeated = block[0] * block[1]
    whole = 1 in block and not repeated & (repeated - 1) and not (rows % block[0] or cols % block[1])
    number, length = rows // block[0], cols // block[1]
    if by_columns:
        number, length = length, number
    lines = number if lines is None else lines
    if each & (each - 1) or not whole or each * repeated > slots or not 0 < lines <= number:
        raise FitError(
            "Coefficients do not fit a ciphertext.",
            expected=f"a power of two up to {max(1, slots // repeated)}, and whole blocks",
            got=each,
        )
    groups, last = divmod(number, lines)
    ciphertexts = groups * -(-lines * length // each) + -(-last * length // each)
    key = ("coefficients", rows, cols, slots, each, block, lines, by_columns)
    return CoefficientLayout(
        "coefficients",
        *(key, rows, cols, slots, ciphertexts, lambda _: SlotIndex(empty_index(slots))),
        each=each,
        block=block,
        lines=lines,
        by_columns=by_columns,
    )


def transposed(layout: Layout) -> Layout:
    """The layout of transposed blocks: entry (c, r) where `layout` has (r, c)."""
    rows, cols = layout.rows, layout.cols
    return _renamed(layout, "transposed", cols, rows, lambda row, col: (col, row))


def stacked(layout: Layout, rows: int) -> Layout:
    """The layout of blocks of so many rows, repeated one below the other to fill the block of `layout`."""
    return _renamed(layout, f"stacked {rows}", rows, layout.cols, lambda row, col: (row % rows, col))


def with_garbage(layout: Layout) -> Layout:
    """The same layout, except that empty slots hold garbage."""
    return replace(layout, key=("garbage", layout.key), empty_garbage=True)


def with_imaginary_garbage(layout: Layout, key: Hashable) -> Layout:
    """The same layout, except that imaginary parts hold garbage: of products of complex packings."""
    return replace(layout, key=key, imaginary_garbage=True)


def real(layout: Layout) -> Layout:
    """The same places, without garbage in imaginary parts.

    Raises:
        ShapeError: imaginary parts hold entries.
    """
    if layout.complex_packing:
        raise ShapeError(
            "Imaginary parts that hold entries cannot be left out.", expected="real slots", got=layout.name
        )
    if not layout.imaginary_garbage:
        return layout
    return replace(layout, key=("real", layout.key), imaginary_garbage=False)


def _renamed(layout: Layout, what: str, rows: int, cols: int, entry: Entry) -> Layout:
    """The layout of rows × cols blocks that has entry(r, c) where `layout` has (r, c)."""

    def renamed(flat: NDArray[np.int64]) -> NDArray[np.int64]:
        row, col = entry(flat // layout.cols, flat % layout.cols)
        return np.where(flat == EMPTY, EMPTY, row * cols + col)

    def indexer(ciphertext: int) -> SlotIndex:
        index = layout.index(ciphertext)
        imag = None if index.imag is None else renamed(index.imag)
        return SlotIndex(renamed(index.real), imag, index.sign)

    return replace(
        layout,
        name=f"{layout.name}, {what}",
        key=(what, layout.key),
        rows=rows,
        cols=cols,
        indexer=indexer,
    )


def _check_fit(name: str, rows: int, cols: int, needed: int, slots: int) -> None:
    if rows < 1 or cols < 1 or needed > slots:
        raise FitError(
            f"A {rows}×{cols} block in {name} order does not fit the slots.",
            expected=f"at most {slots} slots",
            got=needed,
        )
