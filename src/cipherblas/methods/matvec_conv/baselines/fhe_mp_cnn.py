"""FHE-MP-CNN: W·x by zero-padded diagonals, and the multiplexed parallel convolution; named baselines.

Source: E. Lee, J.-W. Lee, J. Lee, Y.-S. Kim, Y. Kim, J.-S. No, W. Choi: Low-Complexity Deep Convolutional Neural
Networks on Fully Homomorphic Encryption Using Multiplexed Parallel Convolutions, ICML 2022; counts as MetaKernel
(Yuan et al., OOPSLA 2025), Table 2, states them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Plain, WeightGroup
from cipherblas.forms.tensors import TensorLayout, grid
from cipherblas.lang.windows import Window
from cipherblas.methods.doubling import doublings, folded, repeated
from cipherblas.methods.matvec_conv.base import LayerMethod, OneVectorMethod, Weights, check_unit
from cipherblas.methods.matvec_conv.taps import conv_output, covered, needed_grid, tap_step

NAME = "fhe-mp-cnn"
CHUNK = 64  # rotations of the input that are alive together


class MatVecFheMpCnn(OneVectorMethod):
    """W·x, W n × k, by its n + k - 1 diagonals, each padded with zeros to a ciphertext: n + k - 2 rotations. Levels: 1.

    Args:
        x: the entries in the first slots of one ciphertext, anything elsewhere.
        rows: n.

    Raises:
        ShapeError: n or k exceeds the slots, or x lies elsewhere.
    """

    name = NAME
    title = "FHE-MP-CNN's zero-padded diagonals"
    source = "Lee et al., ICML 2022"

    @property
    def plaintexts(self) -> int:
        return self.rows + self.columns - 1

    @property
    def padded_weights(self) -> int:
        return self.rows * self.columns

    @property
    def formula(self) -> int:
        """Rotations as published."""
        return self.rows + self.columns - 2

    @property
    def trivial_rotations(self) -> int:
        """None, unless there are more diagonals than slots."""
        slots = self.x.slots
        return self.formula - sum(len({step % slots for step in steps} - {0}) for steps in self._chunks)

    @property
    def _chunks(self) -> list[range]:
        """The diagonals, by the slots that they lie to the right of the main one."""
        diagonals = range(1 - self.rows, self.columns)
        return [diagonals[start : start + CHUNK] for start in range(0, len(diagonals), CHUNK)]

    def run(self, ev: Evaluator, cts: Sequence[Ct], weights: Weights) -> list[Ct]:
        ev.require_levels(cts[0], self.levels, self.title)
        scale = ev.mask_scale(cts[0].limbs)
        bound, rows = weights.rows
        sums: list[Ct] = []
        for steps in self._chunks:
            norm = min(rows, math.sqrt(len(steps)))  # no weight exceeds 1
            rotated = ev.rotate_many(cts[0], steps)
            sums += ev.weighted_sums(
                rotated, [self._group(weights, steps)], scale, rows=(min(bound, len(steps)), norm)
            )
        bound *= cts[0].bound
        total = ev.rotate_sum(sums, [0] * len(sums), rescale=True, bound=bound)
        return [ev.bounded(total, bound)]

    def _group(self, weights: Weights, diagonals: range) -> WeightGroup:
        def build(term: int) -> NDArray[np.float64]:
            slots, diagonal = np.zeros(self.x.slots), diagonals[term]
            rows = np.arange(max(0, -diagonal), min(self.rows, self.columns - diagonal))
            slots[rows] = weights.values()[rows, rows + diagonal]
            return slots

        key = (self.name, self.x.key, self.rows, diagonals.start)
        return weights.group(key, range(len(diagonals)), build)


class ConvFheMpCnn(LayerMethod):
    """The multiplexed parallel convolution of stride 1, image and result in one ciphertext each. Levels: 2.

    The image stands there q times, q = 2^floor(log2(S / (pitch·inputs))), pitch = H·W where the result is as large as
    the image. Its rotations for the taps are multiplied by the filters of q outputs at a time, one in each copy; the
    products are summed over the input channels, each output is rotated to its place and masked, and the result is
    repeated in turn. Rotations for K² taps: (K² - 1) + ceil(outputs/q)·ceil(log2 inputs) + outputs + log2 q', q' the
    copies of the result; outputs that lie in place already are counted there. Where inputs rounded up to a power of two
    do not fit beside each other, the sum takes as many rotations as `folded`.

    Args:
        x: q copies of the image, as `input_layout`.
        window: stride 1, one group.

    Raises:
        ShapeError: image or result exceed a ciphertext, another stride, groups, or x lies elsewhere.
    """

    name = NAME
    title = "FHE-MP-CNN's multiplexed parallel convolution"
    source = "Lee et al., ICML 2022, with stride 1"
    levels = 2

    def __init__(self, x: TensorLayout, window: Window) -> None:
        check_unit(window, self.title)
        if x.key != self.input_layout(window, x.slots).key:
            expected = f"{copies_that_fit(window.shape[0] * x.pitch, x.slots)} copies of {window.shape}"
            raise FitError(f"The image does not lie as {self.title} needs it.", expected=expected, got=x.key)
        self.x, self.window = x, window
        inputs, outputs = x.shape[0], window.outputs
        if outputs * x.pitch > x.slots:
            raise FitError(
                f"The result of {self.title} does not fit a ciphertext.",
                expected=f"at most {x.slots} slots",
                got=outputs * x.pitch,
            )
        once = conv_output(x, window, outputs, zero_padded=True)
        self.out = once.repeated(copies_that_fit(outputs * x.pitch, x.slots))
        self.copy_stride = x.slots // x.copies
        rounded = 1 << (inputs - 1).bit_length()
        self.summed = rounded if rounded * x.pitch <= self.copy_stride else inputs
        self.reads = {tap: covered(x, once, window, tap) for tap in window.taps}
        self.taps = [tap for tap in window.taps if len(self.reads[tap])]

    @staticmethod
    def input_layout(window: Window, slots: int) -> TensorLayout:
        """Where the entries of the image must lie.

        Raises:
            ShapeError: the image exceeds a ciphertext.
        """
        height, width = needed_grid(window)
        channels, pitch = window.shape[0], height * width
        options = {"channels": channels, "pitch": pitch, "row": width}
        return grid(window.shape, slots, {**options, "copies": copies_that_fit(channels * pitch, slots)})

    @property
    def options(self) -> dict[str, Any]:
        return {}

    @property
    def groups(self) -> int:
        """How often q outputs are computed."""
        return -(-self.window.outputs // self.x.copies)

    @property
    def plaintexts(self) -> int:
        return self.groups * len(self.taps)

    @property
    def padded_weights(self) -> int:
        return self.window.outputs * self.copy_stride * len(self.taps)

    @property
    def formula(self) -> int:
        """Rotations as published, by zero included, with the sums as they are done."""
        ending = self.window.outputs + self.out.copies.bit_length() - 1
        return len(self.taps) - 1 + self.groups * doublings(self.summed) + ending

    @property
    def trivial_rotations(self) -> int:
        done = len(self._distinct(self._tap_steps())) + self.groups * doublings(self.summed)
        done += sum(len(self._distinct(self._places(group).values())) for group in range(self.groups))
        return self.formula - done - (self.out.copies.bit_length() - 1)

    def _distinct(self, steps: Iterable[int]) -> set[int]:
        """Rotations that are done: no two of the same ciphertext are equal, none is by zero."""
        return {step % self.x.slots for step in steps} - {0}

    def run(self, ev: Evaluator, cts: Sequence[Ct], weights: Weights) -> list[Ct]:
        ev.require_levels(cts[0], self.levels, self.title)
        shifted = ev.rotate_many(cts[0], self._tap_steps())
        scale = ev.mask_scale(cts[0].limbs)
        bound = cts[0].bound * weights.rows[0]
        total: Ct | None = None
        for group in range(self.groups):
            (product,) = ev.weighted_sums(
                shifted, [self._group(weights, group)], scale, rows=weights.rows, parts=self.summed
            )
            product = ev.rescale(product)
            # After the sum over inputs a slot holds parts of two outputs at most.
            product = ev.bounded(folded(ev, product, self.summed, self.x.pitch), 2 * bound)
            places = self._places(group)
            moved = ev.rotate_many(product, list(places.values()))
            masks = [self._mask(output) for output in places]
            total = ev.weighted_sum(moved, masks, ev.mask_scale(product.limbs), total, rows=(1, 1))
            ev.bounded(total, 2 * bound)
        assert total is not None
        result = ev.bounded(ev.rescale(total), bound)
        return [repeated(ev, result, self.out.copies, self.x.slots // self.out.copies)]

    def _tap_steps(self) -> list[int]:
        return [tap_step(self.x, self.window, tap) for tap in self.taps]

    def _outputs(self, group: int) -> range:
        return range(group * self.x.copies, min((group + 1) * self.x.copies, self.window.outputs))

    def _places(self, group: int) -> dict[int, int]:
        """The rotation that brings each output of a group from the start of its copy to its place."""
        return {
            output: copy * self.copy_stride - output * self.x.pitch
            for copy, output in enumerate(self._outputs(group))
        }

    def _group(self, weights: Weights, group: int) -> WeightGroup:
        """The filters of q outputs, tap by tap."""

        def build(term: int) -> NDArray[np.float64]:
            values, x, tap = weights.values(), self.x, self.taps[term]
            slots = np.zeros(x.slots)
            channels = np.arange(x.shape[0])[:, None] * x.pitch
            for copy, output in enumerate(self._outputs(group)):
                places = channels + copy * self.copy_stride + self.reads[tap]
                slots[places] = values[output, :, tap[0], tap[1], None]
            return slots

        key = (self.name, self.x.key, self.window, group)
        return weights.group(key, range(len(self.taps)), build)

    def _mask(self, output: int) -> Plain:
        """Ones where an output stands in the result."""

        def build() -> NDArray[np.float64]:
            channel, height, width = self.out.shape
            flat = np.zeros((channel, height, width))
            flat[output] = 1
            return self.out.once().vector(0, flat.ravel())

        return Plain((self.name, "mask", self.out.key, output), build, 1.0, constant=True)


def copies_that_fit(length: int, slots: int) -> int:
    """The largest power of two of copies of so many slots.

    Raises:
        ShapeError: not even one fits.
    """
    if length > slots:
        raise FitError(
            "An image does not fit a ciphertext of FHE-MP-CNN.", expected=f"at most {slots} slots", got=length
        )
    return 1 << (slots // length).bit_length() - 1
