"""Between encrypted rows, whose entries are coefficients, and blocks, whose entries are slots.

r = N/d rows of d entries share a ring element: coefficient j·r + t is entry j of the row with the bit-reversed number
t. Its slots are the canonical embedding of the coefficients c, w_j = Σ_k z_k·ζ^(k·5^j) with z_k = c_k + i·c_(k + S):
a Fourier transform, whose factors (butterflies) are linear transforms of three diagonals each. Some of them together
are a stage, at one level; without the bit reversal that a Fourier transform begins with, z comes in bit-reversed order.
Stages are unitary, so that an error that one of them adds counts the same at the end, whichever way; and what comes
in as error of entries goes out as the same error of entries, since all stages together only move it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import bit_reversed
from cipherblas.common.errors import FitError, ParameterError, ShapeError
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.values import Rows
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Plain, Transform
from cipherblas.forms.convert.relayout import best_baby_steps
from cipherblas.forms.layouts import Layout, SlotIndex, entry_index
from cipherblas.rlwe.key_policies import Step
from cipherblas.rlwe.matrices.matrix import bit_ceil
from cipherblas.rlwe.noise import SlotErrors, WorstSlots, slot_tail, tail
from cipherblas.rlwe.noise import worst as worst_of
from cipherblas.rlwe.noise.worst_case import WORST_BITS
from cipherblas.rlwe.rings import Ring

T = TypeVar("T")
MAX_STAGES = 4
STAGE_BATCH = 4  # elements whose stages read keys and masks at one time
# Errors that entries have in common become a bias where they are at most so many times their own ones: as large as it
# is for so many entries.
COMMON_SHARE, COMMON_ENTRIES = 8.0, 2.0**20
# A bias b stays below tail·B and an error of deviation s below tail·s where both are within tail·hypot(x·s, y·B), for
# any x, y with 1/x² + 1/y² = 1.
BESIDE_BIAS, OF_BIAS = math.sqrt(1.5), math.sqrt(3)


class Halves(NamedTuple):
    """A ring element as two blocks of real slots: the first halves of its rows, and the second ones (None: zeros)."""

    left: Ct
    right: Ct | None


@dataclass(frozen=True)
class Packing:
    """How rows of d entries share ring elements, and how many stages the transforms have.

    Attributes:
        row_degree: of the ring of rows, where that is another one: an element of N is N/n of that ring, one at each
            power of X below N/n, whose rows follow each other in the bit-reversed order of these powers.

    Raises:
        ShapeError: d is no power of two from 2 to N, or that of the ring of rows.
        ParameterError: no such number of stages.
    """

    n: int
    degree: int
    stages: int
    row_degree: int | None = None

    def __post_init__(self) -> None:
        most = self.row_degree or self.n
        if not 2 <= self.degree <= most or self.degree & (self.degree - 1):
            raise FitError(
                "Rows in slots must have a power of two of entries.",
                expected=f"a power of two from 2 to N = {most}",
                got=self.degree,
            )
        if not 1 <= self.stages <= min(MAX_STAGES, self.slots.bit_length() - 1):
            raise ParameterError(
                "The number of stages is out of range.", expected=f"1 to {MAX_STAGES}", got=self.stages
            )

    @classmethod
    def of_length(cls, ring: Ring, length: int, stages: int = 1) -> Packing:
        """Of rows of so many entries, or of pieces of as many as their ring holds, which zeros fill."""
        most = ring.row_degree or ring.n
        return cls(ring.n, min(max(2, bit_ceil(length)), most), stages, ring.row_degree)

    @property
    def slots(self) -> int:
        return self.n // 2

    @property
    def rows(self) -> int:
        """r, of an element."""
        return self.n // self.degree

    @property
    def rows_per_element(self) -> int:
        """Of an element of the ring of rows: what the tree packs into one."""
        return (self.row_degree or self.n) // self.degree

    @property
    def powers(self) -> list[int]:
        """Of X, at which elements of the ring of rows are in an element, in the order of their rows."""
        return [int(power) for power in bit_reversed(self.rows // self.rows_per_element)]

    def layout(self, by_columns: bool) -> Layout:
        """Half an element as block: r rows of d/2 entries in bit-reversed order one after the other, or columns."""
        rows, half, slots = self.rows, self.degree // 2, self.slots
        shape = (half, rows) if by_columns else (rows, half)

        def indexer(_: int) -> SlotIndex:
            slot = np.arange(slots, dtype=np.int64)
            row, entry = slot // half, bit_reversed(half)[slot % half]
            return SlotIndex(entry_index(entry, row, shape) if by_columns else entry_index(row, entry, shape))

        return Layout("coefficients", ("coefficients", *shape, by_columns, slots), *shape, slots, 1, indexer)


@dataclass(frozen=True)
class RowBundle:
    """r rows whose entries are the coefficients of one ciphertext.

    Attributes:
        ct: of no errors: those of entries are `errors` and `worst`.
        errors: of an entry; rounding of the ciphertext is among them where nothing is done to slots.
        worst: the largest one, in units of the message, where that is followed.
    """

    ct: Ct
    errors: SlotErrors
    worst: float


def rows_to_slots(evs: Evaluators, x: Rows, packing: Packing, rescales: int = 0) -> list[Halves]:
    """Rows as blocks of real slots, one pair for every r rows.

    A tree packs r rows into one element: x + X^s·y + τ(x - X^s·y) has twice the coefficients of x at even multiples of
    X^s and those of y at odd ones, where τ fixes the former and negates the latter; what rows have elsewhere, which is
    anything modulo Q, goes exactly. Then `stages` transforms, and real and imaginary parts are separated.

    Levels: `rescales`, and one per stage. Keys: log2(r) rotations, those of the stages, conjugation.

    Args:
        rescales: limbs to drop before the stages.

    Raises:
        ShapeError: the rows are not of d entries. LevelError: not so many levels are left.
    """
    return _per_element(x, packing, evs, lambda start, held: _halves(evs, x, packing, rescales, start, held))


def bundled_rows(evs: Evaluators, x: Rows, packing: Packing, rescales: int) -> list[RowBundle]:
    """Every r rows: the tree of `rows_to_slots` without its stages, for what reads coefficients.

    Levels: `rescales`. Keys: log2(r) rotations.

    Raises:
        ShapeError: the rows are not of d entries. LevelError: not so many levels are left.
    """

    def element(start: int, held: int) -> RowBundle:
        ct, rounding, worst = _joined(evs, x, packing, rescales, start, held)
        errors, worst = _entry_errors(evs, x, packing, rounding, worst)
        return RowBundle(evs.slots.assume_errors(ct, SlotErrors()), errors, worst)

    return _per_element(x, packing, evs, element)


def _per_element(x: Rows, packing: Packing, evs: Evaluators, work: Callable[[int, int], T]) -> list[T]:
    """work(first row, rows) for every r rows."""
    r = packing.rows
    if x.shape[1] != packing.degree:
        raise ShapeError(
            "Rows that become slots have the wrong length.", expected=packing.degree, got=x.shape[1]
        )
    whole, rest = divmod(x.shape[0], r)
    found = evs.slots.repeat(whole, lambda number: work(number * r, r), beside=evs.elements)
    return [*found, work(whole * r, rest)] if rest else found


def slots_to_rows(
    evs: Evaluators,
    pairs: list[Halves],
    count: int,
    packing: Packing,
    scale: float | None = None,
    low: bool = False,
) -> Rows:
    """The inverse of `rows_to_slots`: `count` rows of d entries, at as many limbs less as there are stages.

    Keys: those of the stages.

    Args:
        scale: of the rows; None: the one that they come with. Another one takes no level: slots are multiplied by a
            power of two, and the last stage by what remains.
        low: few limbs are left, so that keys are small: from `STAGE_BATCH` pairs on more of them are used, which takes
            less time.

    Raises:
        LevelError: not so many levels are left.
    """
    ev = evs.slots
    many = low and len(pairs) >= STAGE_BATCH

    def group(number: int) -> list[_Element]:
        some = pairs[number * STAGE_BATCH : (number + 1) * STAGE_BATCH]
        return _elements(ev, some, packing, scale, evs.elements is not ev, many)

    whole, rest = divmod(len(pairs), STAGE_BATCH)
    done = [*itertools.chain.from_iterable(ev.repeat(whole, group)), *(group(whole) if rest else [])]
    reached, limbs = done[0][0].scale, min(ct.limbs for ct, *_ in done)
    bound = max(one[1] for one in done)
    errors, worst = worst_of(one[2] for one in done), max(one[3] for one in done)
    # What entries have in common counts as a bias where it is small beside what is theirs alone: after a refresh.
    alone = evs.elements is not ev and COMMON_SHARE * errors.own > errors.dependent
    noise = (errors.own if alone else errors.deviation) * reached
    bias = tail(COMMON_ENTRIES) * errors.dependent * reached if alone else 0.0
    dropped = [ev.drop(ct, limbs) for ct, *_ in done]
    worst *= reached
    if evs.elements is ev:
        datas = [ev.element_of(ct) for ct in dropped]
    else:
        parted = [ev.parted(ct, evs.elements) for ct in dropped]
        datas = [parts[power] for parts in parted for power in packing.powers]
        datas = datas[: -(-count // packing.rows_per_element)]
        noise = math.hypot(noise, math.sqrt(ev.parted_variance(limbs)))
        worst += ev.worst_parted(limbs)
    return evs.rows.of_elements(
        *(datas, (count, packing.degree)),
        limbs=limbs,
        scale=reached,
        bound=bound,
        noise=noise,
        worst=worst,
        bias=bias,
        independent=alone,
    )


def _joined(
    evs: Evaluators, x: Rows, packing: Packing, rescales: int, start: int, held: int
) -> tuple[Ct, float, float]:
    """The rows from `start` on in one element, and what the rescales add to its slots: deviation, and at worst."""
    ev, inner, r, limbs = evs.slots, evs.elements, packing.rows_per_element, x.limbs

    def leaf(row: int) -> Ct:
        [data] = evs.rows.elements(x, start + row, start + row + 1)
        return inner.of_element(
            data, limbs=limbs, scale=x.scale, bound=x.bound, transformed=x.pending is not None
        )

    def own(number: int, held: int) -> Ct:
        """An element of the ring of rows."""
        found = _packed(inner, lambda row: leaf(number * r + row), 0, r, held, r)
        assert found is not None
        return found

    whole, rest = divmod(held, r)
    if inner is ev:
        ct = own(0, held)
    else:
        packed = inner.repeat(whole, lambda number: own(number, r))
        packed += [own(whole, rest)] if rest else []
        parts: list[Ct | None] = [None] * (packing.rows // r)
        for power, part in zip(packing.powers, packed, strict=False):
            parts[power] = part
        ct = ev.joined(parts, inner)
    ct = ev.assume_errors(ev.bounded(ct, x.bound), SlotErrors())
    for _ in range(rescales):
        ct = ev.rescale(ct)
    return ct, ct.errors.own, ev.worst_error(ct) / ct.scale


def _entry_errors(
    evs: Evaluators,
    x: Rows,
    packing: Packing,
    rounding: float,
    worst_rounding: float,
    added: float = 0.0,
    worst_added: float = 0.0,
) -> tuple[SlotErrors, float]:
    """Errors of the entries of joined rows, and the largest one.

    Args:
        rounding, worst_rounding: of the slots, which the transforms make that of single coefficients.
        added, worst_added: by the stages to an entry.
    """
    r, root, own_ring = packing.rows_per_element, math.sqrt(packing.slots), evs.elements is not evs.slots
    # Each level of the tree doubles the message and the errors before it: a third of the last one's variance remains.
    switched = max(r * r - 1, 0) / 3 * evs.rows.switch_variance(x.limbs)
    switched += evs.slots.joined_variance(x.limbs) if own_ring else 0.0
    levels = math.sqrt(switched) / r / x.scale
    beside, bias = BESIDE_BIAS if x.bias else 1.0, x.bias / x.scale * OF_BIAS / tail(1)
    noise, moved = beside * x.noise / x.scale, beside * math.hypot(added, rounding / root)
    if x.independent:
        total = SlotErrors(math.hypot(noise, beside * levels), moved, bias)
    else:
        total = SlotErrors(beside * levels, moved, math.hypot(noise, bias))
    worst = evs.rows.worst_error(x) + (r - 1) / r * evs.rows.worst_switch(x.limbs)
    worst += evs.slots.worst_joined(x.limbs) / r if own_ring else 0.0
    return total, math.sqrt(2) * worst / x.scale + worst_added + worst_rounding


def _halves(evs: Evaluators, x: Rows, packing: Packing, rescales: int, start: int, held: int) -> Halves:
    """One element of rows from `start` on."""
    ev = evs.slots
    ct, rounding, worst_rounding = _joined(evs, x, packing, rescales, start, held)
    (ct,), added, worst_added = _transformed(ev, [ct], packing, inverse=True)
    ct = ev.fold_into_scale(ct, 1 / math.sqrt(packing.slots))
    total, worst = _entry_errors(evs, x, packing, rounding, worst_rounding, added, worst_added)
    ct = ev.assume_errors(ct, total, worst * ct.scale)
    mirrored = ev.conjugate(ct)
    left = ev.bounded(ev.fold_into_scale(ev.add(ct, mirrored), 0.5), x.bound)
    difference = ev.times_monomial(ev.sub(mirrored, ct), ev.n // 2)  # -2i·Im z times i
    return Halves(left, ev.bounded(ev.fold_into_scale(difference, 0.5), x.bound))


def _packed(ev: Evaluator, leaf: Callable[[int], Ct], start: int, size: int, held: int, r: int) -> Ct | None:
    """Rows `start` to start + size - 1 in one element at the multiples of X^(r/size); None where all are missing."""
    if start >= held:
        return None
    if size == 1:
        return leaf(start)
    half = size // 2
    x: Ct | None
    if start + size <= held:
        x, y = ev.repeat(2, lambda part: _packed(ev, leaf, start + part * half, half, held, r))
    else:
        x, y = (_packed(ev, leaf, start + part * half, half, held, r) for part in range(2))
    assert x is not None
    plus = minus = x
    if y is not None:
        moved = ev.times_monomial(y, r // size)
        plus, minus = ev.add(x, moved), ev.sub(x, moved)
    total = ev.add(plus, ev.rotate(minus, ev.slots * size // (2 * r)))
    return ev.bounded(ev.fold_into_scale(total, 0.5), x.bound)


class _Element(NamedTuple):
    """The element of two blocks, its largest entry, the errors of an entry, and the worst one."""

    ct: Ct
    bound: float
    errors: SlotErrors
    worst: float


def _elements(
    ev: Evaluator, pairs: Sequence[Halves], packing: Packing, scale: float | None, own_ring: bool, many: bool
) -> list[_Element]:
    """The elements of pairs of blocks, those of equal limbs and scales together.

    Args:
        many: there are so many that more keys are worth their time.
    """
    begun = [_begun(ev, pair, own_ring) for pair in pairs]
    found: list[_Element] = []
    for _, group in itertools.groupby(begun, key=lambda one: (one.ct.limbs, one.ct.scale)):
        some = list(group)
        root, zs = math.sqrt(packing.slots), [one.ct for one in some]
        ratio = 1.0 if scale is None else scale * root / zs[0].scale
        doublings = max(0, math.floor(math.log2(ratio)))
        zs = [ev.scaled_up(z, doublings) for z in zs]
        zs, added, worst = _transformed(
            ev, zs, packing, inverse=False, factor=ratio / 2**doublings, many=many
        )
        for z, one in zip(zs, some, strict=True):
            # The coefficients are the entries over sqrt(S).
            z = ev.fold_into_scale(z, root)
            found.append(_Element(z, one.bound, one.errors.with_own(added), one.worst + worst))
    return found


def _begun(ev: Evaluator, pair: Halves, own_ring: bool) -> _Element:
    """Two blocks as one, before its stages."""
    z = ev.rescaled(pair.left)
    if pair.right is not None:
        z = ev.add(z, ev.times_monomial(ev.rescaled(pair.right), ev.n // 2))
    bound = max(half.bound for half in pair if half is not None)
    errors = z.errors
    if own_ring:  # a coefficient is one of one half
        errors = worst_of(half.errors for half in pair if half is not None)
    worst = ev.worst_error(z) / z.scale
    z = ev.fold_into_scale(z, 1.0)
    z = ev.assume_errors(ev.bounded(z, math.sqrt(2) * bound), SlotErrors())
    return _Element(z, bound, errors, worst)


def _transformed(
    ev: Evaluator,
    xs: Sequence[Ct],
    packing: Packing,
    *,
    inverse: bool,
    factor: float = 1.0,
    many: bool = False,
) -> tuple[list[Ct], float, float]:
    """The stages, of ciphertexts without errors at equal limbs and scales: the deviation of the error that they add to
    an entry, and the worst one. Entries are bounded by what bounds all: as coefficients before, or in slots.

    A mask that is rounded to integers is off by a polynomial e with independent coefficients; e·x has coefficients of
    deviation ‖x‖/sqrt(12), whatever x is, and ‖x‖ is sqrt(N)·bound at the most, or as much of a root of S of it.

    Args:
        factor: that the scale is multiplied by, in the masks of the last stage.
        many: twice as many baby steps, with more keys: several at a time take less time so.
    """
    noise, root = WorstSlots(ev.params), math.sqrt(packing.slots)
    unit = root if inverse else 1.0  # what an entry is multiplied by in the slots of the result
    bound = max(x.bound for x in xs)
    entries = bound if inverse else bound / math.sqrt(2)
    variance = worst = 0.0
    ranges, xs = stage_layers(packing, inverse), list(xs)
    for x in xs:
        names = ("slots", "coefficients")[:: -1 if inverse else 1]
        ev.require_levels(x, packing.stages, "the transform from {} to {}".format(*names))
    for number, (first, last) in enumerate(ranges, 1):
        scaled_up = factor if number == len(ranges) else 1.0
        transform = stage(packing.slots, first, last, inverse, scaled_up)
        terms, limbs, scale = len(transform), xs[0].limbs, xs[0].scale
        baby_steps = _baby_steps(packing.slots, first, last) << many
        lost = ev.params.q[limbs - 1]
        # What shares a giant step is summed before it: of that we know its norm, which no coefficient exceeds.
        ev.check_room(limbs, scale * lost, max(scaled_up, 1.0) * 2 * math.sqrt(2) * entries * unit, 0.0)
        xs = ev.linear_transform_of_each(xs, transform, baby_steps=baby_steps)
        xs = [ev.fold_into_scale(x, 1 / scaled_up) for x in xs] if scaled_up != 1 else xs
        masks = terms * ev.n / 12 * (entries / lost / scaled_up) ** 2
        added = max(math.hypot(x.errors.own, x.errors.mixed) for x in xs) / unit
        variance += masks + added**2
        # Slots of the later stages may add up what an earlier one adds; and e has slots up to TAIL·sqrt(N/12).
        switch = noise.key_switch(limbs) + noise.rounding()
        later = math.sqrt(packing.slots / 2**last) if not inverse else math.sqrt(2.0**first)
        gain = math.sqrt(2.0 ** (last - first))
        worst = worst + later * (gain + 2) * switch / min(scale, xs[0].scale) / unit
        rounded = slot_tail(1.0, WORST_BITS) * math.sqrt(ev.n / 12 * 2 * packing.slots) * terms
        worst += rounded * entries / lost / scaled_up
        xs = [ev.assume_errors(x, SlotErrors()) for x in xs]
    return xs, math.sqrt(variance), worst


def stage_layers(packing: Packing, inverse: bool) -> list[tuple[int, int]]:
    """The butterflies of each stage, as ranges of the log2(S) of them, in the order in which they are applied."""
    layers = packing.slots.bit_length() - 1
    bounds = [layers * part // packing.stages for part in range(packing.stages + 1)]
    ranges = list(itertools.pairwise(bounds))
    return ranges[::-1] if inverse else ranges


def _baby_steps(slots: int, first: int, last: int) -> int:
    return best_baby_steps(_steps(slots, first, last))


@functools.lru_cache(maxsize=64)
def _steps(slots: int, first: int, last: int) -> tuple[int, ...]:
    """Rotations of some butterflies together: sums of their distances, with any signs."""
    reach = (1 << last) - (1 << first)
    return tuple(sorted({step % slots for step in range(-reach, reach + 1, 1 << first)}))


@functools.lru_cache(maxsize=64)
def stage(slots: int, first: int, last: int, inverse: bool, factor: float = 1.0) -> Transform:
    """Butterflies `first` to last - 1 of the unitary transform, or their inverses, times a factor.

    Bounds are those of what stands in coefficients or in slots as entries (see `_transformed`): the inverse lets
    sums of coefficients grow by the root of as many, the other way they shrink by it.
    """
    size = 2.0 ** ((first - last) / 2)  # of every entry: one path leads from an input to an output
    terms: dict[Step, Plain | None] = {}
    for step in _steps(slots, first, last):
        values = functools.partial(_diagonal, slots, first, last, inverse, factor, step)
        key = ("embedding", slots, first, last, inverse, factor, step)
        terms[step] = Plain(key, values, factor * size * (1 + 1e-9), constant=True)
    growth = 1 / size if inverse else size
    return Transform(terms, factor * growth, factor, ("embedding", slots, first, last, inverse, factor))


def _diagonal(
    slots: int, first: int, last: int, inverse: bool, factor: float, step: int
) -> NDArray[np.complex128]:
    """One diagonal, times a factor: entry j of it is what leads from slot j + step to slot j.

    Butterfly l takes pairs u, v at a distance of 2^l to (u + ξ·v)/√2 and (u - ξ·v)/√2, where ξ is the root of order
    2^(l + 3) to the power of 5^(slot mod 2^l). So one path leads from each input to each output that differs in these
    bits alone, and its roots are multiplied.
    """
    slot = np.arange(slots, dtype=np.int64)
    other = (slot + step) % slots
    target, source = (other, slot) if inverse else (slot, other)
    exponent = np.zeros(slots, np.int64)
    for layer in range(first, last):
        half = 1 << layer
        power = _powers_of_five(slots)[target % half] + 4 * (target & half)
        exponent += (source >> layer & 1) * power << (last - 1 - layer)
    order = 4 << last
    roots = _roots(order)[exponent % order]
    differ = (slot ^ other) & ~((1 << last) - (1 << first))
    size = factor * 2.0 ** ((first - last) / 2)
    found: NDArray[np.complex128] = np.where(differ, 0, (roots.conj() if inverse else roots) * size)
    return found


@functools.lru_cache(maxsize=4)
def _powers_of_five(slots: int) -> NDArray[np.int64]:
    """5^j modulo 4·S, for the j that butterflies need."""
    powers = itertools.accumulate(range(1, slots // 2), lambda power, _: 5 * power % (4 * slots), initial=1)
    return np.fromiter(powers, np.int64)


@functools.lru_cache(maxsize=4)
def _roots(order: int) -> NDArray[np.complex128]:
    """The roots of unity of an order."""
    roots: NDArray[np.complex128] = np.exp(2j * np.pi / order * np.arange(order))
    return roots
