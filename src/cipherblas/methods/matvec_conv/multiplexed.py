"""Convolutions of multiplexed images: what a stride leaves free is filled by other channels, so that an image of any
stage of a network lies in as few ciphertexts as its entries need, and nothing is closed up again.

After strides of g in all, entries of a channel are g rows and g columns of the first image's grid apart; g² channels
share the grid of one, channel (a·g + b) of them beginning at row a and column b. A convolution is a linear map between
two such layouts: one diagonal for every distance between what it reads and where its result stands. Distances are split
into baby steps, rotations of the input which share what is hoisted, and giant steps of sums.

Source of the layout: Lee, Lee, Lee, Kim, Kim, No, Choi, "Low-complexity deep convolutional neural networks on fully
homomorphic encryption using multiplexed parallel convolutions" (2022), computed there by masks and sums of rotations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, WeightGroup
from cipherblas.forms.tensors import TensorLayout
from cipherblas.lang.windows import Window
from cipherblas.methods.matvec_conv.base import LayerMethod, Weights
from cipherblas.methods.matvec_conv.taps import covered, tap_step
from cipherblas.rlwe.noise import worst

Numbers = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Diagonal:
    """The weights by which one rotation of an input ciphertext is multiplied, for a giant step of an output.

    Attributes:
        source: input ciphertext.
        baby: rotation of it.
        rows: numbers of the weights, those of copies and of second ones behind the others.
    """

    source: int
    baby: int
    rows: Numbers


class ConvMultiplexed(LayerMethod):
    """A convolution from one multiplexed layout to the next one. Levels: 1.

    Args:
        x: layout of the input, in whole channels; with gaps or without.
        window: the convolution, of one stride in both directions.
        unit: half of it is the longest baby step, giant steps are its multiples.
        paired: two weights in each slot of an encoded vector, of diagonals half a period apart, which an image with its
            own rotation as imaginary part is multiplied by. Half the weights, and two rotations more.

    Raises:
        FitError: the image cannot be multiplexed, results need more rows or columns than there are, or there is no half
            of the slots after which it repeats itself.
    """

    name, baseline = "multiplexed", False
    title = "multiplexed convolution (baby steps, giant steps)"
    source = "layout of Lee et al. 2022"

    def __init__(self, x: TensorLayout, window: Window, unit: int, paired: bool = False) -> None:
        self.x, self.window, self.unit, self.paired = x, window, unit, paired
        self.out = multiplexed_output(x, window)
        self._reads = _Reads(x, self.out, window)
        if paired and self._reads.period % 2:
            raise FitError(
                "The image repeats itself after an odd number of slots.",
                expected="an even number",
                got=self._reads.period,
            )

    @property
    def options(self) -> dict[str, Any]:
        return {"unit": self.unit, **({"paired": True} if self.paired else {})}

    @property
    def plaintexts(self) -> int:
        return sum(len(diagonals) for diagonals in self._groups.values())

    @property
    def padded_weights(self) -> int:
        return self.plaintexts * self.x.slots

    @functools.cached_property
    def _groups(self) -> dict[tuple[int, int], list[Diagonal]]:
        """By output ciphertext and giant step, the diagonals."""
        reads, unit = self._reads, self.unit
        babies, giants = _split(np.arange(reads.period), unit, reads.period)
        # Positions in one number: output ciphertext, giant step, input ciphertext, baby step.
        wide, rows, keys = reads.period, [], []
        for copy, (outputs, sources, steps) in enumerate(reads.of_copies()):
            second, steps = np.divmod(steps, self._half)
            own = (outputs * wide + giants[steps]) * self.x.ciphertexts + sources
            keys.append((own * unit + babies[steps] + unit // 2).ravel())
            rows.append((reads.numbers() + (copy + second * reads.copies) * reads.weights).ravel())
        key, row = np.concatenate(keys), np.concatenate(rows).astype(np.int32)
        order = np.argsort(key)
        key, row = key[order], row[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        found: dict[tuple[int, int], list[Diagonal]] = {}
        for first, own in zip(key[starts].tolist(), np.split(row, starts[1:]), strict=True):
            rest, baby = divmod(first, unit)
            rest, source = divmod(rest, self.x.ciphertexts)
            found.setdefault(divmod(rest, wide), []).append(Diagonal(source, baby - unit // 2, own))
        for output in range(self.out.ciphertexts):  # one that sees nothing but padding is zero
            if all(place != output for place, _ in found):
                found[output, 0] = [Diagonal(0, 0, np.zeros(0, np.int32))]
        return found

    @property
    def _half(self) -> int:
        """Distance of two diagonals that are one: none is so far from the first where there are no pairs."""
        return self._reads.period // 2 if self.paired else self._reads.period

    @functools.cached_property
    def _steps(self) -> list[list[int]]:
        """The baby steps of every input ciphertext."""
        steps: list[set[int]] = [set() for _ in range(self.x.ciphertexts)]
        for diagonals in self._groups.values():
            for one in diagonals:
                steps[one.source].add(one.baby)
        return [sorted(wanted) for wanted in steps]

    def run(self, ev: Evaluator, cts: Sequence[Ct], weights: Weights) -> list[Ct]:
        ev.require_levels(cts[0], self.levels, self.title)
        rotated: list[Ct] = []
        position: dict[tuple[int, int], int] = {}
        for source, (ct, steps) in enumerate(zip(cts, self._steps, strict=True)):
            position |= {(source, step): len(rotated) + place for place, step in enumerate(steps)}
            image = self._with_its_rotation(ev, ev.for_masks(ct)) if self.paired else ev.for_masks(ct)
            rotated += ev.rotate_many(image, [step % self.x.slots for step in steps])
        limbs = min(ct.limbs for ct in rotated)
        share = 0.5 if self.paired else 1.0  # the conjugate has the other one
        rows = weights.rows[0] * share, weights.rows[1] * share
        bound = max(ct.bound for ct in rotated) * rows[0]
        errors = worst(ct.errors for ct in rotated).mapped(*rows)
        results = []
        for output in range(self.out.ciphertexts):
            giants = sorted(giant for place, giant in self._groups if place == output)
            groups = [self._group(weights, output, giant, position) for giant in giants]
            sums = ev.weighted_sums(rotated, groups, ev.mask_scale(limbs), rows=rows)
            rounding = sum(ct.errors.common - errors.common for ct in sums)
            own = errors.rotated().with_common(max(rounding, 0.0))
            result = ev.rotate_sum(sums, giants, rescale=True, bound=bound, errors=own)
            results.append(
                self._with_its_conjugate(ev, result, bound * math.sqrt(2)) if self.paired else result
            )
        return results

    def _with_its_rotation(self, ev: Evaluator, ct: Ct) -> Ct:
        """A real image and, as imaginary part, its rotation by half a period.

        Errors have both parts. What a row of weights makes of the sum sees each of them once.
        """
        rotation = ev.rotate(ct, self._half)
        found = ev.add(ct, ev.times_monomial(rotation, ev.n // 2))
        found.errors = worst((ct.errors, rotation.errors)).times(math.sqrt(2))
        return ev.bounded(found, ct.bound * math.sqrt(2))

    @staticmethod
    def _with_its_conjugate(ev: Evaluator, ct: Ct, bound: float) -> Ct:
        """Twice the real part, up to a bound."""
        other = ev.conjugate(ct)
        found = ev.add(ct, other)
        found.errors = worst((ct.errors, other.errors)).times(2.0)
        return ev.bounded(found, bound)

    def _group(
        self, weights: Weights, output: int, giant: int, position: dict[tuple[int, int], int]
    ) -> WeightGroup:
        diagonals = self._groups[output, giant]

        def build(term: int) -> NDArray[np.float64]:
            return self._slots(weights.values, giant, diagonals[term].rows)

        sources = [position[one.source, one.baby] for one in diagonals]
        place = (self.name, self.x.key, self.window, self.unit, self.paired, output, giant)
        return weights.group(place, sources, build)

    def _slots(self, values: Callable[[], NDArray[Any]], giant: int, rows: Numbers) -> NDArray[Any]:
        """Some weights, where the rotation by a giant step finds them.

        Of a pair the second one is the imaginary part, less than nothing: Re (x + i·x')·(w - i·w') = x·w + x'·w'.
        """
        reads, out = self._reads, self.out
        slots = np.zeros(self.x.slots, np.complex128 if self.paired else np.float64)
        copies, numbers = np.divmod(rows, reads.weights)
        second, copies = np.divmod(copies, reads.copies)
        found = values().reshape(-1)[numbers]
        found = np.where(second, -0.5j, 0.5) * found if self.paired else found
        channels, taps = numbers // (reads.weights // self.window.outputs), numbers % len(self.window.taps)
        first = reads.first[channels] + copies * (out.slots // out.copies) + giant
        for tap, part in np.unique(np.stack([taps, second]), axis=1).T:
            own = (taps == tap) & (second == part)
            places = first[own][:, None] + reads.covered[tap][None, :]
            for again in range(0, out.slots, out.slots // out.copies * reads.copies):
                slots[(places + again) % out.slots] += found[own][:, None]
        return slots


class _Reads:
    """The places that weights of a convolution read for their first results; weights are numbered as filters lie.

    Args:
        x, out: layouts of the image and of the result.

    Attributes:
        weights: how many there are.
        period: after so many slots the image repeats itself.
        copies: of the result, those that read at different distances; the others are like these.
        first: slot where a channel of the result begins.
        covered: for every tap the results, from the start of a channel, for which it reads an entry.
    """

    def __init__(self, x: TensorLayout, out: TensorLayout, window: Window) -> None:
        self._x, self._out, self._window = x, out, window
        self.covered: list[Numbers] = [covered(x, out, window, tap) for tap in window.taps]
        self._seen = np.flatnonzero([len(one) for one in self.covered])
        self._depth = window.shape[0] // window.groups
        self.weights = window.outputs * self._depth * len(window.taps)
        self.period, self.copies = x.slots // x.copies, out.copies // math.gcd(out.copies, x.copies)
        self.first = _places(out)[:, 1]

    def numbers(self) -> Numbers:
        """Of the weights that read anything: (outputs, inputs, taps)."""
        shape = self._window.outputs, self._depth, len(self._window.taps)
        return np.arange(self.weights, dtype=np.int32).reshape(shape)[:, :, self._seen]

    def of_copies(self) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """For each copy of the result: ciphertexts of result and image, and slots from the result to what it reads."""
        window, out = self._window, self._out
        channels = np.arange(window.outputs)[:, None] * window.groups // window.outputs * self._depth
        ours, theirs = _places(out)[:, None], _places(self._x)[channels + np.arange(self._depth)]
        offsets = np.array(
            [tap_step(self._x, window, window.taps[tap]) for tap in self._seen], dtype=np.int32
        )
        distances = (theirs[..., 1] - ours[..., 1])[:, :, None] + offsets
        for copy in range(self.copies):
            steps = (distances - copy * (out.slots // out.copies)) % self.period
            yield ours[..., None, 0], theirs[..., None, 0], steps


@functools.lru_cache(
    maxsize=256
)  # a search asks for each layer of a network once for every ring that it tries
def rotations_by_unit(
    x: TensorLayout, window: Window, paired: bool = False
) -> Mapping[int, tuple[int, int, int]]:
    """Baby steps, giant steps, those by nothing left out, and plaintexts of every unit that is a power of two.

    Rotations and conjugations that pairs take are among the giant steps.

    Raises:
        FitError: as `ConvMultiplexed`.
    """
    out = multiplexed_output(x, window)
    reads = _Reads(x, out, window)
    period = reads.period
    there = np.zeros((out.ciphertexts, x.ciphertexts, period), dtype=bool)
    for outputs, sources, steps in reads.of_copies():
        there[outputs, sources, steps] = True
    if paired:
        if period % 2:
            return {}
        there = there[..., : period // 2] | there[..., period // 2 :]
    more = x.ciphertexts + out.ciphertexts if paired else 0
    output, source, step = np.nonzero(there)
    found = {}
    for bits in range(period.bit_length()):
        babies, giants = _split(step, 1 << bits, period)
        read = np.unique(source * (2 * period) + babies + period)
        summed = np.unique(output * period + giants)
        number = int(np.count_nonzero(read % (2 * period) != period))
        found[1 << bits] = number, int(np.count_nonzero(summed % period)) + more, len(step)
    return found


def _split(steps: Numbers, unit: int, period: int) -> tuple[Numbers, Numbers]:
    """Baby steps and giant steps that add up to some steps."""
    babies = (steps + unit // 2) % unit - unit // 2
    return babies, (steps - babies) % period


def multiplexed_output(x: TensorLayout, window: Window) -> TensorLayout:
    """Where results stand: channels fill what strides have left free, copies fill the ciphertext.

    Raises:
        FitError: the image is cut into segments, strides differ, or results need more rows or columns than there are.
    """
    (step, other), (channels, height, width) = window.stride, window.out_shape
    if x.segments > 1 or step != other or x.row % x.col:
        raise FitError(
            "The image cannot be multiplexed.",
            expected="whole channels, one stride",
            got=f"stride {window.stride}",
        )
    gap, row = x.col * step, x.row // x.col
    down, across = height * gap, width * gap
    if across > row or down * row > x.pitch or x.pitch > x.slots:
        raise FitError(
            "The results of a convolution exceed the grid of its image.",
            expected=f"at most {x.pitch // row} rows and {row} columns",
            got=f"{down} rows and {across} columns",
        )
    units, most = -(-channels // gap**2), x.slots // x.pitch
    numbers = np.arange(channels)
    unit, place = np.divmod(numbers, gap * gap)
    first = unit % most * x.pitch + place // gap * row + place % gap
    copies = 1
    while units * x.pitch * 2 * copies <= x.slots and x.slots % (2 * copies) == 0:
        copies *= 2
    places = tuple(zip((unit // most).tolist(), first.tolist(), strict=True))
    return TensorLayout(
        *(window.out_shape, x.slots, min(channels, most), x.pitch, row * gap, gap, height),
        places=places if gap > 1 else None,
        copies=copies if units <= most else 1,
    )


def gaps_filled(x: TensorLayout) -> TensorLayout:
    """The same image with channels in all gaps, and copies where ciphertexts have room.

    Raises:
        FitError: it cannot be multiplexed.
    """
    return multiplexed_output(x, Window(x.shape, x.shape[0], (1, 1)))


def _places(layout: TensorLayout) -> Numbers:
    """Ciphertext and first slot of every channel."""
    return np.array([layout.channel_place(channel) for channel in range(layout.shape[0])], dtype=np.int64)
