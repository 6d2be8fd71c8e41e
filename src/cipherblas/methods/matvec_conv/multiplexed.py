"""Convolutions of multiplexed images: what a stride leaves free is filled by other channels, so that an image of any
stage of a network lies in as few ciphertexts as its entries need, and nothing is closed up again.

After strides of g in all, entries of a channel are g rows and g columns of the first image's grid apart; g² channels
share the grid of one, channel (a·g + b) of them beginning at row a and column b. A convolution is a linear map between
two such layouts: one diagonal for every distance between what it reads and where its result stands. Distances are split
into baby steps, rotations of the input which share what is hoisted, and giant steps of sums.

Where the grid exceeds a ciphertext it is cut along its height, with all channels that share it: distances to what lies
in the segment beside that of a result count from there.

Several images lie side by side in the grid of one: of all that share a ciphertext the same channel, then the next
one. Distances are then the same for each of them, and those beyond the last slot lead to the first one of the same
image, so that there are no more than of one image with as many slots. Images of further ciphertexts lie as these do:
one set of encoded weights serves all.

Source of the layout: Lee, Lee, Lee, Kim, Kim, No, Choi, "Low-complexity deep convolutional neural networks on fully
homomorphic encryption using multiplexed parallel convolutions" (2022), computed there by masks and sums of rotations.
"""

from __future__ import annotations

import functools
import itertools
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, WeightGroup
from cipherblas.forms.tensors import TensorLayout
from cipherblas.lang.windows import Window
from cipherblas.methods.doubling import doublings, folded
from cipherblas.methods.matvec_conv.base import LayerMethod, Weights
from cipherblas.methods.matvec_conv.taps import covered, tap_step
from cipherblas.rlwe.noise import worst

Numbers = NDArray[np.integer[Any]]
MARKED = 1 << 27  # places, at most, that are marked one by one; of more the few that are there are sorted


class ConvDiagonals(NamedTuple):
    """The diagonals of a convolution: a rotation of the image that is multiplied by weights, for a giant step of an
    output.

    Attributes:
        rotations: the input ciphertext and the baby step of each different one, ascending.
        positions: of every diagonal, the number of its rotation.
        groups: of every output the giant steps, ascending, and which diagonals each has.
    """

    rotations: Numbers
    positions: Numbers
    groups: list[list[tuple[int, slice]]]


class ConvMultiplexed(LayerMethod):
    """A convolution from one multiplexed layout to the next one. Levels: 1.

    Args:
        x: layout of the input; with gaps or without.
        window: the convolution, of one stride in both directions.
        unit: half of it is the longest baby step, giant steps are its multiples.
        paired: two weights in each slot of an encoded vector, of diagonals half a period apart, which an image with its
            own rotation as imaginary part is multiplied by. Half the weights, and two rotations more.
        joined: the second half of the images are imaginary parts of the first one: weights are real. Half of all, and
            a conjugation for each two results.
        folded: every copy of the result within a period of the image has a part of its sums, and the copies are added.

    Raises:
        FitError: the image cannot be multiplexed, results need more rows or columns than there are, there is no half
            of the slots after which it repeats itself, or no half of the ciphertexts that lies as the other one, or
            there are no copies of the result before the image repeats itself.
    """

    name, baseline = "multiplexed", False
    title = "multiplexed convolution (baby steps, giant steps)"
    source = "layout of Lee et al. 2022"
    kinds = ("paired", "joined", "folded")

    def __init__(
        self,
        x: TensorLayout,
        window: Window,
        unit: int,
        paired: bool = False,
        joined: bool = False,
        folded: bool = False,
    ) -> None:
        self.x, self.window, self.unit = x, window, unit
        self.paired, self.joined, self.folded = paired, joined, folded
        self.out = multiplexed_output(x, window)
        self._reads = _Reads.of(x, self.out, window, joined)
        if folded and not self._reads.several:
            raise FitError(
                "The copies of a result cannot have parts of its sums.",
                expected="several in a period of the image",
                got=f"{self.out.copies} of the result, {x.copies} of the image",
            )
        if paired and self._length % 2:
            raise FitError(
                "The image repeats itself after an odd number of slots.",
                expected="an even number",
                got=self._length,
            )

    @property
    def options(self) -> dict[str, Any]:
        return {"unit": self.unit, **{name: True for name in self.kinds if getattr(self, name)}}

    @property
    def _length(self) -> int:
        """Slots, less than which results are from what they read."""
        return self._reads.length(self.folded)

    @functools.cached_property
    def _diagonals(self) -> ConvDiagonals:
        return _diagonals(self.x, self.window, self.unit, self.paired, self.joined, self.folded)

    @property
    def plaintexts(self) -> int:
        return len(self._diagonals.positions)

    @property
    def padded_weights(self) -> int:
        return self.plaintexts * self.x.slots

    @functools.cached_property
    def _weights(self) -> dict[tuple[int, int], list[Numbers]]:
        """The numbers of the weights of each diagonal of a giant step, those of segments, of copies and of second ones
        behind the others."""
        reads, unit = self._reads, self.unit
        babies, giants = _split(np.arange(reads.period), unit, reads.period)
        # Positions in one number: output ciphertext, giant step, input ciphertext, baby step.
        wide, rows, keys = reads.period, [], []
        for outputs, sources, steps, numbers in reads.all():
            read = steps < self._length
            second, steps = np.divmod(steps, self._half)
            own = (outputs * wide + giants[steps]) * reads.x.ciphertexts + sources
            keys.append((own * unit + babies[steps] + unit // 2)[read])
            rows.append((numbers + second * (reads.different * reads.weights))[read])
        key, row = np.concatenate(keys), np.concatenate(rows)
        order = np.argsort(key, kind="stable")  # so that images are listed alike
        key, row = key[order], row[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        found: dict[tuple[int, int], list[Numbers]] = {}
        for first, own in zip(key[starts].tolist(), np.split(row, starts[1:]), strict=True):
            found.setdefault(divmod(first // (reads.x.ciphertexts * unit), wide), []).append(own)
        return found

    def _numbers(self, output: int, giant: int) -> list[Numbers]:
        """The weights of the diagonals of a giant step; none where an output sees nothing but padding."""
        return self._weights.get((output, giant), [np.zeros(0, np.int32)])

    @property
    def _half(self) -> int:
        """Distance of two diagonals that are one: none is so far from the first where there are no pairs."""
        return self._length // 2 if self.paired else self._length

    @functools.cached_property
    def _steps(self) -> list[list[int]]:
        """The baby steps of every input ciphertext."""
        source, baby = self._diagonals.rotations.T
        return [baby[source == one].tolist() for one in range(self._reads.x.ciphertexts)]

    @functools.cached_property
    def _alike(self) -> list[int]:
        """For each output ciphertext the first one that is computed by the same weights."""
        reads, own = self._reads, math.prod(self.window.weight_shape)
        if self.window.images == 1:
            return list(range(reads.out.ciphertexts))
        each = reads.weights // reads.window.outputs
        known: dict[tuple[Any, ...], int] = {}
        source, baby = self._diagonals.rotations[self._diagonals.positions].T
        found = []
        for output in range(reads.out.ciphertexts):
            described: list[Any] = []
            groups = self._diagonals.groups[output]
            first = min(int(source[inside].min()) for _, inside in groups)
            for giant, inside in groups:
                numbers = self._numbers(output, giant)
                kinds, rows = np.divmod(np.concatenate(numbers), reads.weights)
                slots = reads.first[rows // each]
                terms = tuple(
                    (image - first, step, len(weights))
                    for image, step, weights in zip(
                        source[inside].tolist(), baby[inside].tolist(), numbers, strict=True
                    )
                )
                described.append((giant, terms, kinds.tobytes(), (rows % own).tobytes(), slots.tobytes()))
            found.append(known.setdefault(tuple(described), output))
        return found

    def run(self, ev: Evaluator, cts: Sequence[Ct], weights: Weights) -> list[Ct]:
        ev.require_levels(cts[0], self.levels, self.title)
        if self.joined:
            half = len(cts) // 2
            cts = [self._with_imaginary(ev, *two) for two in zip(cts[:half], cts[half:], strict=True)]
        rotated: list[Ct] = []
        for ct, steps in zip(cts, self._steps, strict=True):
            image = self._with_its_rotation(ev, ev.for_masks(ct)) if self.paired else ev.for_masks(ct)
            rotated += ev.rotate_many(image, [step % self.x.slots for step in steps])
        limbs = min(ct.limbs for ct in rotated)
        share = 0.5 if self.paired or self.joined else 1.0  # the conjugate has the other one
        rows = weights.rows[0] * share, weights.rows[1] * share
        bound = max(ct.bound for ct in rotated) * rows[0]
        whole = worst(ct.errors for ct in rotated).mapped(*rows)
        parts_of_sums = self._reads.copies if self.folded else 1
        errors = whole.share(parts_of_sums) if self.folded else whole
        results = []
        for output in range(self._reads.out.ciphertexts):
            giants = [giant for giant, _ in self._diagonals.groups[output]]
            groups = [
                self._group(weights, output, giant, inside)
                for giant, inside in self._diagonals.groups[output]
            ]
            sums = ev.weighted_sums(rotated, groups, ev.mask_scale(limbs), rows=rows)
            rounding = sum(ct.errors.common - whole.common for ct in sums)
            own = errors.rotated().with_common(max(rounding, 0.0))
            result = ev.rotate_sum(sums, giants, rescale=True, bound=bound, errors=own)
            total = folded(ev, result, parts_of_sums, self.out.slots // self.out.copies)
            results.append(ev.bounded(total, bound))
        if self.joined or self.paired:
            parts = [self._parts(ev, result, bound * math.sqrt(2)) for result in results]
            results = [part for some in zip(*parts, strict=True) for part in some]
        return results

    def _with_its_rotation(self, ev: Evaluator, ct: Ct) -> Ct:
        """A real image and, as imaginary part, its rotation by half a period.

        Errors have both parts. What a row of weights makes of the sum sees each of them once.
        """
        return self._with_imaginary(ev, ct, ev.rotate(ct, self._half))

    @staticmethod
    def _with_imaginary(ev: Evaluator, ct: Ct, other: Ct) -> Ct:
        """Two real images as one complex one."""
        found = ev.add(ct, ev.times_monomial(other, ev.n // 2))
        if ev.policy.approximate:
            found.errors = worst((ct.errors, other.errors)).times(math.sqrt(2))
        return ev.bounded(found, max(ct.bound, other.bound) * math.sqrt(2))

    def _parts(self, ev: Evaluator, ct: Ct, bound: float) -> list[Ct]:
        """Twice the real part, and of images that were joined twice the imaginary one, up to a bound."""
        other = ev.conjugate(ct)
        parts = [ev.add(ct, other)]
        if self.joined:
            parts.append(ev.times_monomial(ev.sub(other, ct), ev.n // 2))
        for part in parts:
            part.errors = worst((ct.errors, other.errors)).times(2.0)
        return [ev.bounded(part, bound) for part in parts]

    def _group(self, weights: Weights, output: int, giant: int, inside: slice) -> WeightGroup:
        sources = array("q", self._diagonals.positions[inside].tobytes())

        def build(term: int) -> NDArray[np.float64]:
            return self._slots(weights.values, giant, self._numbers(output, giant)[term])

        own = self.paired, self.joined, self.folded, self._alike[output]
        place = (self.name, self.x.key, self.window, self.unit, *own, giant)
        return weights.group(place, sources, build, again=self._alike[output] != output)

    def _slots(self, values: Callable[[], NDArray[Any]], giant: int, rows: Numbers) -> NDArray[Any]:
        """Some weights, where the rotation by a giant step finds them.

        Of a pair the second one is the imaginary part, less than nothing: Re (x + i·x')·(w - i·w') = x·w + x'·w'.
        """
        reads, out = self._reads, self._reads.out
        slots = np.zeros(self.x.slots, np.complex128 if self.paired else np.float64)
        place, numbers = np.divmod(rows, reads.weights)
        second, place = np.divmod(place, reads.different)
        copies, cut = np.divmod(place, len(reads.cuts) or 1)
        filters = values().reshape(-1)
        found = filters[numbers % len(filters)] * (0.5 if self.joined else 1.0)
        found = np.where(second, -0.5j, 0.5) * found if self.paired else found
        channels = numbers // (reads.weights // reads.window.outputs)
        taps = numbers % len(self.window.taps)
        first = reads.first[channels] + copies * (out.slots // out.copies) + giant
        kind = (cut * len(self.window.taps) + taps) * 2 + second
        for one in np.unique(kind):
            own = kind == one
            at, tap = divmod(int(one) // 2, len(self.window.taps))
            places = first[own][:, None] + reads.cuts[at].covered[tap][None, :]
            for again in range(0, out.slots, out.slots // out.copies * reads.copies):
                slots[(places + again) % out.slots] += found[own][:, None]
        return slots


class _Cut(NamedTuple):
    """The entries of one segment of an image that the results of one segment read.

    Attributes:
        segment, neighbour: their numbers.
        covered: for every tap the results, from the start of a channel, for which it reads an entry.
        seen: taps that read any.
    """

    segment: int
    neighbour: int
    covered: Sequence[Numbers]
    seen: Numbers


class _Reads:
    """The places that weights of a convolution read for their first results; weights are numbered as filters lie.

    Args:
        x, out: layouts of the image and of the result.
        window: the convolution; of several images weights are numbered as if each had its own.

    Attributes:
        weights: how many there are.
        cuts: pairs of segments, one of which reads of the other.
        period: after so many slots the image repeats itself.
        copies: of the result, those that read at different distances; the others are like these.
        several: whether such copies fill a period.
        different: places that one weight reads at: of every copy and every cut.
        first: slot where a channel of the result begins.
    """

    def __init__(self, x: TensorLayout, out: TensorLayout, window: Window) -> None:
        self.x, self.out, self.window = x, out, window
        self.cuts: list[_Cut] = []
        for segment in range(out.segments):
            for neighbour in range(x.segments):
                read = [covered(x, out, window, tap, segment, neighbour) for tap in window.taps]
                seen = np.flatnonzero([len(one) for one in read])
                if len(seen):
                    self.cuts.append(_Cut(segment, neighbour, read, seen))
        self._depth = window.shape[0] // window.groups
        self.weights = window.outputs * self._depth * len(window.taps)
        self.period, self.copies = x.slots // x.copies, out.copies // math.gcd(out.copies, x.copies)
        self.several = 1 < self.copies == self.period * out.copies // out.slots
        self.different = self.copies * len(self.cuts)
        self.first = _places(out)[:, 1]

    def length(self, folded: bool) -> int:
        """Slots, less than which results are from what they read; folded: a copy from its part."""
        return self.period // self.copies if folded else self.period

    @classmethod
    def of(cls, x: TensorLayout, out: TensorLayout, window: Window, joined: bool) -> _Reads:
        """Of all images, or of the first half of them, which the others are imaginary parts of.

        Raises:
            FitError: there are no two such halves.
        """
        if not joined:
            return cls(x, out, window)
        if window.images % 2:
            raise FitError("There is no half of the images.", expected="an even number", got=window.images)
        channels, height, width = window.shape
        half = replace(
            window,
            shape=(channels // 2, height, width),
            outputs=window.outputs // 2,
            groups=window.groups // 2,
            images=window.images // 2,
        )
        return cls(_half_of(x), _half_of(out), half)

    def _channels(self) -> tuple[Numbers, Numbers]:
        """Where channels of the result, (outputs, 1), and of the image that each reads, (outputs, inputs), begin."""
        outputs, depth = self.window.outputs, self._depth
        first = np.arange(outputs)[:, None] * self.window.groups // outputs * depth
        return _places(self.out)[:, None], _places(self.x)[first + np.arange(depth)]

    def _shifts(self) -> Iterator[tuple[int, _Cut, list[int]]]:
        """For each copy of the result and each cut: what it is shifted by, and the steps of the taps that are seen."""
        for copy in range(self.copies):
            for cut in self.cuts:
                distance = cut.neighbour - cut.segment
                steps = [tap_step(self.x, self.window, self.window.taps[tap], distance) for tap in cut.seen]
                yield copy * (self.out.slots // self.out.copies), cut, steps

    def different_steps(self) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """As the first three of `all`, of channels that lie alike once: (pairs, taps)."""
        ours, theirs = self._channels()
        slots, images = self.x.slots, self.x.ciphertexts
        keys = (ours[..., 0] * images + theirs[..., 0]) * (2 * slots) + theirs[..., 1] - ours[..., 1] + slots
        pairs, between = np.divmod(np.unique(keys)[:, None], 2 * slots)
        outputs, sources = np.divmod(pairs, images)
        for shift, cut, steps in self._shifts():
            found = (between - slots + np.array(steps) - shift) % self.period
            yield outputs + cut.segment, sources + cut.neighbour, found

    def all(self) -> Iterator[tuple[Numbers, Numbers, Numbers, Numbers]]:
        """For each copy of the result and each cut: ciphertexts of result and image, slots from the result to what it
        reads, and the numbers of the weights: (outputs, inputs, taps)."""
        window = self.window
        ours, theirs = self._channels()
        between = (theirs[..., 1] - ours[..., 1])[:, :, None]
        most = 2 * self.different * self.weights  # of pairs
        kind = np.int64 if most > np.iinfo(np.int32).max else np.int32
        numbers: Numbers = np.arange(self.weights, dtype=kind).reshape(
            window.outputs, self._depth, len(window.taps)
        )
        for place, (shift, cut, offsets) in enumerate(self._shifts()):
            steps = (between + np.array(offsets) - shift) % self.period
            own = numbers[:, :, cut.seen] + place * self.weights
            yield ours[..., None, 0] + cut.segment, theirs[..., None, 0] + cut.neighbour, steps, own


@functools.lru_cache(
    maxsize=256
)  # a search asks for each layer of a network once for every ring that it tries
def rotations_by_unit(
    x: TensorLayout, window: Window, paired: bool = False, joined: bool = False, folded: bool = False
) -> Mapping[int, tuple[int, int, int]]:
    """Baby steps, giant steps, those by nothing left out, and plaintexts of every unit that is a power of two.

    Rotations and conjugations that pairs and images that are joined take, and rotations that add up copies, are among
    the giant steps.

    Raises:
        FitError: as `ConvMultiplexed`.
    """
    reads = _Reads.of(x, multiplexed_output(x, window), window, joined)
    given, x, out = x, reads.x, reads.out
    period = reads.period
    if (folded and not reads.several) or (paired and reads.length(folded) % 2):
        return {}
    output, source, step = _distances(given, window, paired, joined, folded)
    more = (x.ciphertexts if paired else 0) + (out.ciphertexts if paired or joined else 0)
    more += doublings(reads.copies) * out.ciphertexts if folded else 0
    found = {}
    for bits in range(period.bit_length()):
        babies, giants = _split(step, 1 << bits, period)
        read, summed = source * (2 * period) + babies + period, output * period + giants
        number = _count(read[babies != 0], 2 * period * x.ciphertexts)
        found[1 << bits] = number, _count(summed[giants != 0], period * out.ciphertexts) + more, len(step)
    return found


@functools.lru_cache(maxsize=256)
def _distances(
    x: TensorLayout, window: Window, paired: bool, joined: bool, folded: bool
) -> tuple[Numbers, Numbers, Numbers]:
    """Ciphertexts of results and of the image, and the distances between what is read and where its result stands, each
    once; of pairs those that are half a period, or half a copy, apart are one."""
    reads = _Reads.of(x, multiplexed_output(x, window), window, joined)
    x, out = reads.x, reads.out
    length = reads.length(folded)
    half = length // 2 if paired else length
    places = (
        ((outputs * x.ciphertexts + sources) * half + steps % half)[steps < length]
        for outputs, sources, steps in reads.different_steps()
    )
    place, step = np.divmod(_different(places, out.ciphertexts * x.ciphertexts * half), half)
    return *np.divmod(place, x.ciphertexts), step


@functools.lru_cache(maxsize=256)  # a search runs each layer of a network once for every ring that it tries
def _diagonals(
    x: TensorLayout, window: Window, unit: int, paired: bool, joined: bool, folded: bool
) -> ConvDiagonals:
    """Of a convolution with this unit."""
    output, source, step = _distances(x, window, paired, joined, folded)
    reads = _Reads.of(x, multiplexed_output(x, window), window, joined)
    period, outputs = reads.period, reads.out.ciphertexts
    babies, giants = _split(step, unit, period)
    unseen = np.setdiff1d(np.arange(outputs), output)  # what sees nothing but padding is zero
    zeros = np.zeros(len(unseen), np.int64)
    output, giants = np.concatenate([output, unseen]), np.concatenate([giants, zeros])
    source, babies = np.concatenate([source, zeros]), np.concatenate([babies, zeros])
    order = np.lexsort((babies, source, giants, output))
    keys, positions = np.unique((source * (2 * period) + babies + period)[order], return_inverse=True)
    rotations = np.stack([keys // (2 * period), keys % (2 * period) - period], axis=1)
    output, giants = output[order], giants[order]
    starts = np.flatnonzero((np.diff(output, prepend=-1) != 0) | (np.diff(giants, prepend=-1) != 0)).tolist()
    groups: list[list[tuple[int, slice]]] = [[] for _ in range(outputs)]
    for start, stop in itertools.pairwise([*starts, len(output)]):
        groups[int(output[start])].append((int(giants[start]), slice(start, stop)))
    return ConvDiagonals(rotations, positions.astype(np.int64), groups)


def _different(parts: Iterable[Numbers], limit: int) -> Numbers:
    """The different numbers of several arrays, ascending, all below a limit."""
    if limit > MARKED:
        return np.unique(np.concatenate([np.unique(one) for one in parts]))
    there = np.zeros(limit, dtype=bool)
    for one in parts:
        there[one] = True
    return np.flatnonzero(there)


def _count(numbers: Numbers, limit: int) -> int:
    """How many different ones there are, all below a limit."""
    if limit > MARKED:
        return len(np.unique(numbers))
    there = np.zeros(limit, dtype=bool)
    there[numbers] = True
    return int(np.count_nonzero(there))


def _split(steps: Numbers, unit: int, period: int) -> tuple[Numbers, Numbers]:
    """Baby steps and giant steps that add up to some steps."""
    babies = _modulo(steps + unit // 2, unit) - unit // 2
    return babies, _modulo(steps - babies, period)


def _modulo(numbers: Numbers, modulus: int) -> Numbers:
    """As `%`; of powers of two far faster."""
    return numbers % modulus if modulus & (modulus - 1) else numbers & (modulus - 1)


def multiplexed_output(x: TensorLayout, window: Window) -> TensorLayout:
    """Where results stand: channels fill what strides have left free, copies fill the ciphertext.

    Raises:
        FitError: strides differ, or one does not divide a segment; results need more rows or columns than there are.
    """
    (step, other), (channels, height, width) = window.stride, window.out_shape
    if step != other or x.row % x.col:
        raise FitError(
            "The image cannot be multiplexed.", expected="one stride", got=f"stride {window.stride}"
        )
    segments, segment = 1, height
    if x.segments > 1 and (height, width) == (1, 1):
        step = 1  # of a mean of all that there is
    elif x.segments > 1:
        if x.segment % step:
            raise FitError(
                "A stride must divide the rows of a segment.",
                expected=f"a multiple of {step}",
                got=x.segment,
            )
        segment = x.segment // step
        segments = -(-height // segment)
    gap, row = x.col * step, x.row // x.col
    down, across = min(segment, height) * gap, width * gap
    if across > row or down * row > x.pitch or x.pitch > x.slots or segments > x.segments:
        raise FitError(
            "The results of a convolution exceed the grid of its image.",
            expected=f"at most {x.pitch // row * x.segments} rows and {row} columns",
            got=f"{height * gap} rows and {across} columns",
        )
    most, own = x.slots // x.pitch, channels // window.images
    together = _together(window.images, most * gap**2 // own)
    units = -(-own * together // gap**2)
    image, channel = np.divmod(np.arange(channels), own)
    unit, place = np.divmod(channel * together + image % together, gap * gap)
    ciphertext = image // together * -(-units // most) + unit // most
    first = unit % most * x.pitch + place // gap * row + place % gap
    copies = 1
    while units * x.pitch * 2 * copies <= x.slots and x.slots % (2 * copies) == 0:
        copies *= 2
    places = tuple(zip((ciphertext * segments).tolist(), first.tolist(), strict=True))
    return TensorLayout(
        *(window.out_shape, x.slots, min(channels, most), x.pitch, row * gap, gap, segment),
        places=places if gap > 1 or window.images > 1 else None,
        copies=copies if units <= most else 1,
    )


def _together(images: int, room: int) -> int:
    """The images of a ciphertext that has room for some: a power of two, no more than there are."""
    if images == 1 or room < 2:
        return 1
    return 1 << min(room.bit_length() - 1, (images - 1).bit_length())


def gaps_filled(x: TensorLayout, images: int = 1) -> TensorLayout:
    """The same image, or images, with channels in all gaps, and copies where ciphertexts have room.

    Raises:
        FitError: it cannot be multiplexed.
    """
    return multiplexed_output(x, Window(x.shape, x.shape[0], (1, 1), groups=images, images=images))


def _half_of(layout: TensorLayout) -> TensorLayout:
    """The layout of the first half of the images.

    Raises:
        FitError: the others do not lie as these do, in as many other ciphertexts.
    """
    (channels, height, width), number = layout.shape, layout.ciphertexts // 2
    places, half = _places(layout), channels // 2
    if not number or not np.array_equal(places[:half] + np.array([number, 0]), places[half:]):
        raise FitError(
            "The images have no two halves that lie alike in ciphertexts of their own.",
            expected="as many ciphertexts for each",
            got=f"{layout.ciphertexts} ciphertexts",
        )
    kept = None if layout.places is None else layout.places[:half]
    return replace(layout, shape=(half, height, width), places=kept)


def _places(layout: TensorLayout) -> Numbers:
    """First ciphertext, and first slot there, of every channel."""
    return np.array([layout.channel_place(channel) for channel in range(layout.shape[0])], dtype=np.int64)
