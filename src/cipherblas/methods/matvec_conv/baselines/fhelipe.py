"""Fhelipe: W·x and convolutions with the input fully replicated, one group of outputs after the other; baselines.

Source: A. Krastev, N. Samardzic, S. Langowski, S. Devadas, D. Sanchez: A Tensor Compiler with Automatic Data Packing
for Simple and Efficient Fully Homomorphic Encryption, PLDI 2024; as MetaKernel (Yuan et al., OOPSLA 2025), Figure 2,
Table 2 and Section 6.1, describes and counts it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Plain, WeightGroup
from cipherblas.forms.tensors import TensorLayout, grid
from cipherblas.lang.windows import Window
from cipherblas.methods.doubling import folded, repeated
from cipherblas.methods.matvec_conv.base import (
    LayerMethod,
    Weights,
    check_unit,
    check_vector,
    vector_layout,
)
from cipherblas.methods.matvec_conv.taps import conv_output, covered, needed_grid, tap_step

NAME = "fhelipe"
CHUNK = 16  # results that are merged at a time
Tap = tuple[int, int]


class _Fhelipe(LayerMethod):
    """The program of both; a product W·x is a convolution of images of one entry."""

    name = NAME
    title = "Fhelipe's full replication"
    source = "Krastev et al., PLDI 2024"

    def __init__(self, x: TensorLayout, window: Window) -> None:
        self.x, self.window = x, window
        self.inputs = rounded(x.shape[0])
        self.block = self.inputs * x.pitch
        self.copies = self._copies()
        self.per_output = x.slots // (self.copies * x.pitch)  # results merged into one ciphertext
        self.merges = self.groups > 1
        self.levels = 1 + self.merges + (x.segments > 1)
        self.out = self._output()

    def _copies(self) -> int:
        """r: outputs in one product."""
        filled = self.x.slots // self.block
        # Rotations for taps wrap around in an image that is repeated until it fills the ciphertext.
        return filled if len(self.window.taps) > 1 else min(filled, rounded(self.window.outputs))

    def _output(self) -> TensorLayout:
        x, per = self.x, self.per_output
        outputs = self.window.outputs
        regular = conv_output(x, self.window, min(outputs, per), zero_padded=self.merges)
        if self.copies == 1:
            return regular
        places = []
        for output in range(outputs):
            group, copy = divmod(output, self.copies)
            places.append((group // per, copy * self.block + group % per * x.pitch))
        return replace(regular, channels=outputs, pitch=1, places=tuple(places))

    @property
    def options(self) -> dict[str, Any]:
        return {}

    @property
    def repeats(self) -> bool:
        return self.copies > 1

    @property
    def groups(self) -> int:
        """M: products that hold all outputs of a segment."""
        return -(-self.window.outputs // self.copies)

    @property
    def formula(self) -> int:
        """Rotations as published; of an image that is cut, every tap within a segment and across its ends."""
        taps = sum(len(set(steps)) - 1 for steps in self._all_steps)
        if self.x.segments == 1:
            taps += len(self._reads(0)) * (self.copies.bit_length() - 1)
        sums = self.out.segments * self.groups * (self.inputs.bit_length() - 1)
        return taps + sums + self.out.segments * self.groups - self.out.ciphertexts

    @property
    def trivial_rotations(self) -> int:
        """Of taps: equal rotations are done once, an image that no tap leaves in place is rotated once more."""
        return sum(
            len(steps) - 1 - len({step % self.x.slots for step in steps.values()} - {0})
            for steps in self._all_steps
        )

    @property
    def plaintexts(self) -> int:
        return sum(len(self._reads(segment)) for segment in range(self.out.segments)) * self.groups

    @property
    def padded_weights(self) -> int:
        return self.plaintexts * self.copies * self.block

    def _reads(self, segment: int) -> dict[Tap, dict[int, NDArray[np.int64]]]:
        """Per tap the segments of the image that it reads, and the slots of a channel for which it does."""
        return self._all_reads[segment]

    @functools.cached_property
    def _all_reads(self) -> list[dict[Tap, dict[int, NDArray[np.int64]]]]:
        found = []
        for segment in range(self.out.segments):
            reads = {
                tap: {
                    neighbour: slots
                    for neighbour in range(self.x.segments)
                    if len(slots := covered(self.x, self.out, self.window, tap, segment, neighbour))
                }
                for tap in self.window.taps
            }
            found.append({tap: parts for tap, parts in reads.items() if parts})
        return found

    @functools.cached_property
    def _all_steps(self) -> list[dict[tuple[int, Tap], int]]:
        """Per segment of the image its rotations, by how many segments on it is and the tap that reads it."""
        return [
            {
                (neighbour - segment, tap): tap_step(self.x, self.window, tap, neighbour - segment)
                for segment in range(self.out.segments)
                for tap, parts in self._reads(segment).items()
                if neighbour in parts
            }
            for neighbour in range(self.x.segments)
        ]

    def run(self, ev: Evaluator, cts: Sequence[Ct], weights: Weights) -> list[Ct]:
        ev.require_levels(cts[0], self.levels, self.title)
        self.check_input()
        rotated = [self._rotated(ev, ct, number) for number, ct in enumerate(cts)]
        results: dict[int, Ct] = {}
        for segment in range(self.out.segments):
            shifted = {tap: self._shifted(ev, rotated, segment, tap) for tap in self._reads(segment)}
            bound = max(ct.bound for ct in cts) * weights.rows[0]
            for number in range(self.out.ciphertexts // self.out.segments):
                first = number * self.per_output
                groups = range(first, min(first + self.per_output, self.groups))
                products = (self._product(ev, shifted, weights, segment, group) for group in groups)
                results[number * self.out.segments + segment] = self._merged(
                    ev, products, groups, segment, bound
                )
        return [results[number] for number in range(self.out.ciphertexts)]

    def _rotated(self, ev: Evaluator, ct: Ct, neighbour: int) -> dict[int, Ct]:
        """Every rotation of one segment of the image."""
        steps = sorted(set(self._all_steps[neighbour].values()))
        return dict(zip(steps, ev.rotate_many(ct, steps), strict=True))

    def _shifted(self, ev: Evaluator, rotated: Sequence[dict[int, Ct]], segment: int, tap: Tap) -> Ct:
        """The slots that a tap reads for a segment of the result, in every copy."""
        parts = self._reads(segment)[tap]
        cts = [
            rotated[neighbour][tap_step(self.x, self.window, tap, neighbour - segment)] for neighbour in parts
        ]
        if self.x.segments == 1:
            return repeated(ev, cts[0], self.copies, self.block)
        limbs = ev.below(cts[0].limbs)
        if len(parts) == 1:
            return ev.drop(cts[0], limbs)
        masks = [self._tap_mask(segment, tap, neighbour) for neighbour in parts]
        return ev.rescale(ev.weighted_sum(cts, masks, ev.mask_scale(cts[0].limbs), rows=(1.0, 1.0)))

    def _product(
        self, ev: Evaluator, shifted: dict[Tap, Ct], weights: Weights, segment: int, group: int
    ) -> Ct:
        """A group of outputs, each at the start of its copy."""
        cts = list(shifted.values())
        scale = ev.mask_scale(cts[0].limbs)
        (product,) = ev.weighted_sums(
            cts, [self._group(weights, segment, group)], scale, rows=weights.rows, parts=self.inputs
        )
        bound = 2 * cts[0].bound * weights.rows[0]  # a slot holds parts of two outputs at most
        return ev.bounded(folded(ev, ev.rescale(product), self.inputs, self.x.pitch), bound)

    def _merged(self, ev: Evaluator, products: Iterator[Ct], groups: range, segment: int, bound: float) -> Ct:
        """All groups of a ciphertext of the result."""
        if not self.merges:
            return next(products)
        total: Ct | None = None
        masked: list[Ct] = []
        steps: list[int] = []
        for group, product in zip(groups, products, strict=True):
            scale = ev.mask_scale(product.limbs)
            masked.append(ev.weighted_sum([product], [self._mask(segment, group)], scale))
            steps.append((groups[0] - group) * self.x.pitch)
            if len(masked) == CHUNK or group == groups[-1]:
                part = ev.rotate_sum(masked, steps, rescale=True, bound=2 * bound)
                total = part if total is None else ev.bounded(ev.add(total, part), 2 * bound)
                masked, steps = [], []
        assert total is not None
        return ev.bounded(total, bound)

    def _copied(self, slots: NDArray[np.int64], group: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The outputs of a group, and slots of a channel moved to their copies."""
        first = group * self.copies
        for copy in range(min(self.copies, self.window.outputs - first)):
            yield first + copy, copy * self.block + slots

    def _group(self, weights: Weights, segment: int, group: int) -> WeightGroup:
        """The filters of a group of outputs, tap by tap."""
        taps = list(self._reads(segment))

        def build(term: int) -> NDArray[np.float64]:
            values, tap = self.filters(weights.values()), taps[term]
            slots = np.zeros(self.x.slots)
            channels = np.arange(self.x.shape[0])[:, None] * self.x.pitch
            read = np.concatenate(list(self._reads(segment)[tap].values()))
            for output, places in self._copied(read, group):
                slots[channels + places] = values[output, :, tap[0], tap[1], None]
            return slots

        key = (self.name, self.x.key, self.window, segment, group)
        return weights.group(key, range(len(taps)), build)

    @staticmethod
    def filters(values: NDArray[Any]) -> NDArray[Any]:
        """Weights as OIHW."""
        return values

    def _tap_mask(self, segment: int, tap: Tap, neighbour: int) -> Plain:
        """Ones where a tap reads a segment, in every channel."""

        def build() -> NDArray[np.float64]:
            slots = np.zeros(self.x.slots)
            channels = np.arange(self.x.shape[0])[:, None] * self.x.pitch
            slots[channels + self._reads(segment)[tap][neighbour]] = 1
            return slots

        key = (self.name, "tap", self.x.key, self.window, segment, tap, neighbour)
        return Plain(key, build, 1.0, constant=True)

    def _mask(self, segment: int, group: int) -> Plain:
        """Ones where the outputs of a group stand before they are merged."""

        def build() -> NDArray[np.float64]:
            _, height, width = self.out.shape
            rows = np.arange(min(self.out.segment, height - segment * self.out.segment))
            slots = np.zeros(self.x.slots)
            area = (rows[:, None] * self.x.row + np.arange(width) * self.x.col).ravel()
            for _, places in self._copied(area, group):
                slots[places] = 1
            return slots

        return Plain((self.name, "mask", self.out.key, segment, group), build, 1.0, constant=True)


class ConvFhelipe(_Fhelipe):
    """A convolution of stride 1 by SISO: every pair of channels apart. Levels: 2; 1 with one group of outputs, 3 where
    the image is cut.

    Channels, height and width are padded to powers of two, C·HW slots together. In one ciphertext each of the K²
    rotations of the image is repeated r = S/(C·HW) times; a product with the filters of r outputs is summed over the
    channels, the M = outputs/r results are masked and merged: (K² - 1) + K²·log2 r + M·log2 C + (M - 1) rotations. The
    outputs lie scattered: number m·r + a in place m of copy a.

    An image that exceeds a ciphertext is cut along its height into segments of all channels, each multiplied for each
    output; taps that reach into the next segment are masked and added. (Fhelipe cuts the width, which counts the same
    for square images and filters.)

    Args:
        x: the image as `input_layout` has it; zeros elsewhere where it is repeated.
        window: stride 1, one group.

    Raises:
        ShapeError: a row of all channels exceeds a ciphertext, another stride, groups, or x lies elsewhere.
    """

    def __init__(self, x: TensorLayout, window: Window) -> None:
        check_unit(window, self.title)
        wanted = self.input_layout(window, x.slots)
        if x.key != wanted.key:
            raise FitError(
                f"The image does not lie as {self.title} needs it.", expected=wanted.key, got=x.key
            )
        super().__init__(x, window)

    @staticmethod
    def input_layout(window: Window, slots: int) -> TensorLayout:
        """Where the entries of the image must lie.

        Raises:
            ShapeError: a row of all channels exceeds a ciphertext.
        """
        height, width = (rounded(length) for length in needed_grid(window))
        channels = window.shape[0]
        segment = min(height, slots // (rounded(channels) * width))
        if segment < 1:
            raise FitError(
                f"A row of {channels} channels does not fit a ciphertext of Fhelipe.",
                expected=f"at most {slots} slots",
                got=rounded(channels) * width,
            )
        lengths = {"channels": channels, "pitch": segment * width, "row": width}
        return grid(window.shape, slots, {**lengths, "segment": min(segment, window.shape[1])})


class MatVecFhelipe(_Fhelipe):
    """W·x, W n × k, both padded to powers of two, as a convolution of k images of one entry.

    log2 r + M·log2 k + (M - 1) rotations, r = min(S/k, n), M = n/r. Levels: 2; 1 where M = 1. The result is scattered.

    Args:
        x: the entries in the first slots of one ciphertext; zeros elsewhere where it is repeated.
        rows: n.

    Raises:
        ShapeError: n or k exceeds the slots, or x lies elsewhere.
    """

    def __init__(self, x: TensorLayout, rows: int) -> None:
        columns = check_vector(x, self.title)
        if rows > x.slots:
            raise FitError(
                f"The matrix of {self.title} has too many rows.", expected=f"at most {x.slots} rows", got=rows
            )
        vector = Window((columns, 1, 1), rows, (1, 1))
        super().__init__(ConvFhelipe.input_layout(vector, x.slots).with_zero_padding(x.alone), vector)

    @staticmethod
    def input_layout(shape: tuple[int, int, int], rows: int, slots: int) -> TensorLayout:
        """Where the entries of the vector must lie."""
        return vector_layout(shape, slots)

    @staticmethod
    def filters(values: NDArray[Any]) -> NDArray[Any]:
        return values[:, :, None, None]


def rounded(length: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << (length - 1).bit_length()
