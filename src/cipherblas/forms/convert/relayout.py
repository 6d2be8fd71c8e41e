"""Homomorphic change of layout: one linear transform built from the index maps of the two layouts."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError, ShapeError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Masks, Plain, Transform
from cipherblas.forms.layouts import Layout
from cipherblas.rlwe.key_policies import total_step

GIANT_COST = 2  # a giant rotation is not hoisted: counted as so many baby rotations


class _Source(NamedTuple):
    """A part of a source ciphertext that holds entries: its real or its imaginary part."""

    ciphertext: int
    imaginary: bool


class _Support(NamedTuple):
    """Where a layout holds its entries. The first part that holds entry e is number `part[e]`, -1 where none does; it
    has it in `copies[e]` slots, which stand in `slots` from `first[e]` on, ascending."""

    parts: Sequence[tuple[_Source, int]]  # real parts first, with the sign of each
    part: NDArray[np.int64]
    slots: NDArray[np.int64]
    first: NDArray[np.int64]
    copies: NDArray[np.int64]


class _Selection(NamedTuple):
    """Entries of diagonals: target[i] takes value[i] times the slot that step[i] rotates there."""

    step: NDArray[np.int64]
    target: NDArray[np.int64]
    value: NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class _Piece:
    """The contribution of one source part to one target ciphertext."""

    source: _Source
    selections: Sequence[_Selection]
    slots: int
    key: Hashable

    @property
    def masks(self) -> int:
        """Diagonals of the transform, which are counted before it is made."""
        steps = np.concatenate([one.step for one in self.selections])
        return int(np.count_nonzero(np.bincount(steps + self.slots // 2, minlength=1)))

    @functools.cached_property
    def transform(self) -> Transform:
        return _transform(self.selections, self.slots, self.key)

    @functools.cached_property
    def baby_steps(self) -> int:
        return best_baby_steps(list(map(total_step, self.transform.terms)))


def relayout(ev: Evaluator, cts: Sequence[Any], source: Layout, target: Layout) -> list[Any]:
    """The block held by `cts` in layout `source`, in layout `target`.

    Levels: 1; none where the layouts differ in nothing but garbage in the imaginary parts, which is removed by a
    conjugation (the scale doubles). Keys: the rotations of the map by baby steps and giant steps; conjugation
    where the source has anything in its imaginary parts. Clear operands are re-arranged in the clear.

    Raises:
        ShapeError: the layouts hold blocks of different shapes, or the source lacks an entry.
    """
    if (source.rows, source.cols, source.slots) != (target.rows, target.cols, target.slots):
        raise ShapeError(
            "The layouts of a re-arrangement must be of one matrix.",
            expected=f"{target.rows}×{target.cols} in {target.slots} slots",
            got=f"{source.rows}×{source.cols} in {source.slots} slots",
        )
    if source.equals(target):
        return list(cts)
    if isinstance(cts[0], Plain):
        return _relayout_plain(cts, source, target)
    if same_entries(source, target) and (target.empty_garbage or not source.empty_garbage):
        if not source.imaginary_garbage or target.imaginary_garbage:
            return list(cts)
        return [ev.fold_into_scale(ev.add(ct, ev.conjugate(ct)), 0.5) for ct in cts]
    parts: dict[_Source, Ct] = {}
    results = []
    for number in range(target.ciphertexts):
        pieces = plan(source, target, number)
        for piece in pieces:
            if piece.source not in parts:
                parts[piece.source] = _part(
                    ev, ev.rescaled(cts[piece.source.ciphertext]), source, piece.source
                )
        moved = (
            ev.linear_transform(parts[piece.source], piece.transform, baby_steps=piece.baby_steps)
            for piece in pieces
        )
        results.append(ev.add_all(moved))
    return results


def masks_of(source: Layout, target: Layout) -> Iterator[int]:
    """Masks of each of the transforms of `relayout`; none where places stay."""
    if source.key != target.key and not same_entries(source, target):
        for number in range(target.ciphertexts):
            for piece in plan(source, target, number):
                yield piece.masks


def _part(ev: Evaluator, ct: Ct, layout: Layout, part: _Source) -> Ct:
    """Twice the real part, or twice j times the imaginary part, of a ciphertext; itself if it is real."""
    if not layout.imaginary_garbage and not layout.complex_packing:
        return ct
    conjugate: Ct = ev.conjugate(ct)
    twice: Ct = ev.sub(ct, conjugate) if part.imaginary else ev.add(ct, conjugate)
    return twice


def _relayout_plain(cts: Sequence[Plain], source: Layout, target: Layout) -> list[Plain]:
    matrix = functools.cache(lambda: source.unpack([plain.values() for plain in cts]))

    def values(number: int) -> NDArray[np.complex128]:
        return target.pack_one(matrix(), number)

    bound = target.slot_bound(max(plain.bound for plain in cts))
    key: Hashable = ("relayout", target.key, tuple(plain.key for plain in cts))
    constant, blocks = all(plain.constant for plain in cts), cts[0].blocks
    return [
        Plain((key, i), functools.partial(values, i), bound, keep=True, constant=constant, blocks=blocks)
        for i in range(target.ciphertexts)
    ]


@functools.lru_cache(maxsize=64)
def same_entries(source: Layout, target: Layout) -> bool:
    """Whether every slot holds the same entry in both layouts."""
    if source.ciphertexts != target.ciphertexts or source.complex_packing or target.complex_packing:
        return False
    pairs = ((source.index(i).real, target.index(i).real) for i in range(source.ciphertexts))
    return all(np.array_equal(a, b) for a, b in pairs)


@functools.lru_cache(maxsize=256)
def plan(source: Layout, target: Layout, number: int) -> tuple[_Piece, ...]:
    """The transforms that make ciphertext `number` of the target layout."""
    index = target.index(number)
    wanted = [(index.real, 1.0 + 0j)]
    if index.imag is not None:
        wanted.append((index.imag, 1j * index.sign))
    held, halved = _support(source), source.imaginary_garbage or source.complex_packing
    selections: dict[int, list[_Selection]] = {}
    for entries, coefficient in wanted:
        places = np.flatnonzero(entries >= 0)
        parts = held.part[entries[places]]
        if parts.min(initial=0) < 0:
            raise _lacking(source)
        steps = _nearest(held, entries[places], places, source.slots)
        for part in np.unique(parts).tolist():
            (of_part, sign), own = held.parts[part], parts == part
            # z + z̄ = 2·Re z; z - z̄ = 2j·Im z.
            factor = (0.5 if halved else 1.0) * (-1j * sign if of_part.imaginary else 1.0)
            values = np.full(np.count_nonzero(own), coefficient * factor)
            selection = _Selection(steps[own], places[own], values)
            selections.setdefault(part, []).append(selection)
    if not selections:
        raise _lacking(source)
    return tuple(
        _Piece(
            held.parts[part][0],
            found,
            source.slots,
            ("relayout", source.key, target.key, number, held.parts[part][0]),
        )
        for part, found in sorted(selections.items())
    )


def _lacking(source: Layout) -> FitError:
    return FitError(
        "A layout to re-arrange must hold every entry of the block.",
        expected="every entry of the block",
        got=source.name,
    )


@functools.lru_cache(maxsize=16)
def _support(layout: Layout) -> _Support:
    indices = [layout.index(number) for number in range(layout.ciphertexts)]
    parts = [((_Source(number, False), 1), index.real) for number, index in enumerate(indices)]
    parts += [
        ((_Source(number, True), index.sign), index.imag)
        for number, index in enumerate(indices)
        if index.imag is not None
    ]
    entries = layout.rows * layout.cols
    owner, first, copies = np.full(entries, -1), np.zeros(entries, np.int64), np.zeros(entries, np.int64)
    slots: list[NDArray[np.int64]] = []
    there = 0
    for part, (_, of_slot) in enumerate(parts):
        used = np.flatnonzero(of_slot >= 0)
        used = used[owner[of_slot[used]] < 0]  # what an earlier part does not hold
        used = used[np.argsort(of_slot[used], kind="stable")]
        own, starts, counts = np.unique(of_slot[used], return_index=True, return_counts=True)
        owner[own], first[own], copies[own] = part, there + starts, counts
        slots.append(used)
        there += len(used)
    return _Support([one for one, _ in parts], owner, np.concatenate(slots), first, copies)


def _nearest(
    held: _Support, entries: NDArray[np.int64], target: NDArray[np.int64], slots: int
) -> NDArray[np.int64]:
    """The shortest step to each target slot from one that holds its entry, of the part that does."""
    first, count = held.first[entries], held.copies[entries]
    best = np.full(len(target), slots)
    for copy in range(int(count.max(initial=0))):
        candidate = held.slots[np.minimum(first + copy, len(held.slots) - 1)]
        step = _centred(candidate - target, slots)
        better = (copy < count) & (np.abs(step) < np.abs(best))
        best[better] = step[better]
    return best


def _centred(steps: Any, slots: int) -> Any:
    """Representatives in (-S/2, S/2] modulo S, a power of two."""
    return ((steps + slots // 2 - 1) & (slots - 1)) - (slots // 2 - 1)


def _transform(selections: Sequence[_Selection], slots: int, key: Hashable) -> Transform:
    """The diagonals of the selections together, kept sparse: a layout may need thousands of them."""
    steps, targets, values = (np.concatenate(parts) for parts in zip(*selections, strict=True))
    # By steps, then by targets; both have at most 16 bits, which are sorted by their digits.
    order = np.argsort(targets.astype(np.uint16), kind="stable")
    order = order[np.argsort((steps[order] + slots // 2 - 1).astype(np.uint16), kind="stable")]
    steps, targets = steps[order], targets[order]
    # Selections that take the same source slot to the same target slot are one entry.
    different = _starts((steps[1:] != steps[:-1]) | (targets[1:] != targets[:-1]))
    summed = np.add.reduceat(values[order], different)
    steps, targets, sizes = steps[different], targets[different], np.abs(summed)
    starts = _starts(steps[1:] != steps[:-1])
    bounds = np.maximum.reduceat(sizes, starts)
    stops = [*starts[1:], len(steps)]
    different_steps = steps[starts].tolist()

    def mask(index: int) -> Plain:
        inside = slice(starts[index], stops[index])
        values_of = functools.partial(_diagonal, slots, targets[inside], summed[inside])
        return Plain((key, different_steps[index]), values_of, float(bounds[index]), constant=True)

    terms = Masks(different_steps, mask)
    row_sums = np.bincount(targets, sizes)
    row_squares = np.bincount(targets, sizes**2)
    return Transform(terms, float(row_sums.max()), math.sqrt(float(row_squares.max())), key)


def _starts(differs: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where runs of equal numbers begin.

    Args:
        differs: whether each number but the first one differs from the one before it.
    """
    return np.concatenate(([0], np.flatnonzero(differs) + 1))


def _diagonal(
    slots: int, targets: NDArray[np.int64], values: NDArray[np.complex128]
) -> NDArray[np.complex128]:
    row = np.zeros(slots, dtype=np.complex128)
    row[targets] = values
    return row


def best_baby_steps(steps: Sequence[int]) -> int:
    """The number of baby steps with the cheapest rotations: powers of two and distances between steps are tried."""
    unit = math.gcd(*steps) or 1
    span = max(1, (max(steps) - min(steps)) // unit)
    units = np.sort(np.array(steps, dtype=np.int64)) // unit
    found = {1 << e for e in range(span.bit_length() + 1)}
    found.update(sorted({(b - a) // unit for a, b in itertools.pairwise(steps)})[:64])
    sizes = np.array(sorted(found))
    giants, babies = np.divmod(units, sizes[:, None])
    babies.sort(axis=1)
    # Different numbers in sorted rows are one more than the places where they change.
    changes = [np.count_nonzero(rows[:, 1:] != rows[:, :-1], axis=1) for rows in (babies, giants)]
    return int(sizes[np.argmin(changes[0] + 1 + GIANT_COST * (changes[1] + 1))])
