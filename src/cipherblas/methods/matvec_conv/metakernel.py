"""MetaKernel: W·x and convolutions by the pattern of `imra`, one level, contiguous results.

Source: P. Yuan, Y. Liu, J. Lai, L. Li, T. Sui, L. Xiao, X. Zhang, et al.: MetaKernel: Enabling Efficient Encrypted
Neural Network Inference through Unified MVM and Convolution, OOPSLA 2025; Algorithms 1 to 3, Section 4.2.4.

Beyond the paper: sums over input ciphertexts are taken before the giant steps, so that these are paid once per output
ciphertext; the sum over superblocks doubles; a channel may be padded until a ciphertext wraps around by itself, so that
no rotation is done twice; the final mask is left to whoever needs zeros.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError, ShapeError
from cipherblas.common.work import ENTRIES_PER_STEP
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, WeightGroup
from cipherblas.forms.tensors import TensorLayout
from cipherblas.lang.windows import Window
from cipherblas.methods.doubling import folded, repeated
from cipherblas.methods.matvec_conv.base import LayerMethod, Weights
from cipherblas.methods.matvec_conv.baselines.imra import Pattern
from cipherblas.methods.matvec_conv.taps import conv_output, covered, tap_step
from cipherblas.rlwe.noise import SlotErrors, worst

NOTHING = (-1,)


@dataclass(frozen=True)
class PatternPart:
    """Encoded weights between one input ciphertext and one group of an output ciphertext.

    Attributes:
        source: input ciphertext.
        step: rotation of the (repeated) input.
        place: identifies the weights within the layer.
    """

    source: int
    step: int
    place: tuple[int, ...]


class _MetaKernel(LayerMethod):
    """The pattern's program; subclasses say which weights stand where."""

    name, baseline = "metakernel", False
    title = "MetaKernel (iterative multiply-rotate-accumulate)"
    source = "Yuan et al., OOPSLA 2025, Algorithms 1 to 3"

    pattern: Pattern
    window: Window | None = None
    taps = 1

    @abstractmethod
    def parts(self, output: int, group: int) -> Iterator[PatternPart]:
        """The weights of a group, structural zeros left out."""

    @abstractmethod
    def build(self, values: NDArray[Any], output: int, group: int, part: PatternPart) -> NDArray[np.float64]:
        """The slots of the weights of a part."""

    @functools.cached_property
    def _parts(self) -> list[list[list[PatternPart]]]:
        found = [
            [list(self.parts(output, group)) for group in range(self.pattern.groups)]
            for output in range(self.out.ciphertexts)
        ]
        for output in found:  # outputs that see nothing but padding are zero
            if not any(output):
                output[0].append(PatternPart(0, 0, NOTHING))
        return found

    @property
    def plaintexts(self) -> int:
        return sum(len(parts) for output in self._parts for parts in output)

    @property
    def steps(self) -> int:
        """Zeros among the weights, which are found on the way, included."""
        return self.pattern.plaintexts(self.taps, self.x.ciphertexts, self.out.ciphertexts)

    @property
    def options(self) -> dict[str, Any]:
        pattern = self.pattern
        return {"n": pattern.n, "k": pattern.k, "p_b": pattern.p_b, "p_s": pattern.p_s}

    @property
    def repeats(self) -> bool:
        return self.pattern.replications > 1

    @property
    def padded_weights(self) -> int:
        return (
            self.pattern.n
            * self.pattern.k
            * self.pattern.unit
            * self.taps
            * self.x.ciphertexts
            * self.out.ciphertexts
        )

    def run(self, ev: Evaluator, cts: Sequence[Ct], weights: Weights) -> list[Ct]:
        ev.require_levels(cts[0], self.levels, self.title)
        self.check_input()
        pattern = self.pattern
        sources = [
            repeated(ev, ev.for_masks(ct), pattern.replications, pattern.k * pattern.unit) for ct in cts
        ]
        rotated = [
            ct
            for source, steps in zip(sources, self._steps, strict=True)
            for ct in ev.rotate_many(source, steps)
        ]
        limbs = min(ct.limbs for ct in rotated)
        scale = ev.mask_scale(limbs)
        bound = max(ct.bound for ct in rotated) * weights.rows[0]
        errors = worst(ct.errors for ct in rotated).mapped(*weights.rows)
        results: list[Ct] = []
        each = max(1, ev.working_bytes // (pattern.groups * 2 * limbs * ev.limb_bytes()))
        for start in range(0, self.out.ciphertexts, each):
            outputs = range(start, min(start + each, self.out.ciphertexts))
            groups = [(output, group) for output in outputs for group in range(pattern.groups)]
            groups = [(output, group) for output, group in groups if self._parts[output][group]]
            sums = ev.weighted_sums(
                rotated, [self._group(weights, *place) for place in groups], scale, rows=weights.rows
            )
            for output in outputs:
                own = [
                    (ct, group) for ct, (other, group) in zip(sums, groups, strict=True) if other == output
                ]
                results.append(self._output(ev, own, bound, errors))
        return results

    @functools.cached_property
    def _steps(self) -> list[list[int]]:
        """The rotations of every input ciphertext."""
        steps: list[set[int]] = [set() for _ in range(self.x.ciphertexts)]
        for output in self._parts:
            for parts in output:
                for part in parts:
                    steps[part.source].add(part.step)
        return [sorted(wanted) for wanted in steps]

    @functools.cached_property
    def _position(self) -> dict[tuple[int, int], int]:
        """Where a rotated input stands among all of them."""
        places = ((source, step) for source, steps in enumerate(self._steps) for step in steps)
        return {place: position for position, place in enumerate(places)}

    def _output(self, ev: Evaluator, sums: Sequence[tuple[Ct, int]], bound: float, errors: SlotErrors) -> Ct:
        """One output ciphertext from the sums of its groups; `errors`: of the inputs, times all weights of a row.

        A slot that is folded has a part of its row: the errors of the parts together are those of the row.
        """
        pattern = self.pattern
        parts = pattern.p_s * pattern.wide
        share = errors.share(parts)
        rounding = math.fsum(ct.errors.common - errors.common for ct, _ in sums)
        turns = [group * pattern.rows * pattern.unit for _, group in sums]
        total = ev.rotate_sum(
            [ct for ct, _ in sums],
            turns,
            rescale=True,
            bound=bound,
            errors=share.rotated().with_common(max(rounding, 0.0)),
        )
        total = folded(ev, total, pattern.p_s, (pattern.k_d + pattern.buffer) * pattern.unit)
        total = folded(ev, total, pattern.wide, pattern.n * pattern.unit)
        # A slot beyond the result holds a part of the sum of one output, and where a rotation wraps around, of another.
        mixed = (2 if pattern.p_s > 1 else 1) * (2 if pattern.wide > 1 and not pattern.cyclic else 1)
        return ev.bounded(total, bound * mixed)

    def _group(self, weights: Weights, output: int, group: int) -> WeightGroup:
        parts = self._parts[output][group]

        def build(term: int) -> NDArray[np.float64]:
            part = parts[term]
            if part.place == NOTHING:
                return np.zeros(self.pattern.slots)
            return self.build(weights.values(), output, group, part)

        sources = [self._position[part.source, part.step] for part in parts]
        key = (self.name, self.x.key, self.window, *self.options.values(), output, group)
        return weights.group(key, sources, build)


class MatVecMetaKernel(_MetaKernel):
    """W·x, W rows × columns. The result is a vector, contiguous. Levels: 1.

    Args:
        x: layout of the input, any; its entries in the order of its flattened shape are the columns.
        rows: of W.
        pattern: with units of one slot; n is at least the rows of an output ciphertext.
        each: outputs per ciphertext.
    """

    def __init__(self, x: TensorLayout, rows: int, pattern: Pattern, each: int) -> None:
        if pattern.unit != 1 or pattern.slots != x.slots:
            raise ShapeError(
                "The pattern of a product W·x has other units than its vector.",
                expected=f"units of 1 of {x.slots} slots",
                got=pattern,
            )
        if pattern.k < x.extent or pattern.n < min(each, rows):
            raise ShapeError(
                "The pattern of a product W·x is too small.",
                expected=f"n ≥ {each}, k ≥ {x.extent}",
                got=pattern,
            )
        self.x, self.matrix_rows, self.pattern, self.each = x, rows, pattern, each
        self.out = TensorLayout((rows, 1, 1), x.slots, each, 1, 1, 1, 1, zero_padded=pattern.zero_padded)

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "each": self.each}

    @functools.cached_property
    def _columns(self) -> list[NDArray[np.int64]]:
        """Per input ciphertext the column of W of every slot, -1 where there is none."""
        found = []
        for ciphertext in range(self.x.ciphertexts):
            columns = np.full(self.pattern.k, -1, dtype=np.int64)
            entries, slots = self.x.entries(ciphertext)
            columns[slots] = entries
            found.append(columns)
        return found

    def parts(self, output: int, group: int) -> Iterator[PatternPart]:
        for source in range(self.x.ciphertexts):
            for row in range(self.pattern.rows):
                yield PatternPart(source, row, (row,))

    def build(self, values: NDArray[Any], output: int, group: int, part: PatternPart) -> NDArray[np.float64]:
        pattern = self.pattern
        first = output * self.each
        count = min(self.each, self.matrix_rows - first)
        slots = np.zeros(pattern.slots)
        units = np.arange(pattern.k_d)
        rows = units % pattern.n
        for start, diagonal in pattern.blocks(group):
            columns = self._columns[part.source][(units + diagonal + part.step) % pattern.k]
            chosen = (rows < count) & (columns >= 0)
            places = (start + group * pattern.rows + units[chosen]) % pattern.slots
            slots[places] = values[first + rows[chosen], columns[chosen]]
        return slots


class ConvMetaKernel(_MetaKernel):
    """A convolution: the filters become columns (Ke2Col), the image stays as it is. Levels: 1.

    Every tap of a filter is a rotation of the image; where it leaves the image the weight is zero. With a stride the
    results stay where their window begins. A channel that exceeds a ciphertext is cut along its height; taps that reach
    into the neighbouring segment are rotations of that one.

    Args:
        x: layout of the input.
        window: the convolution.
        pattern: with units as long as the channels are apart.
        each: output channels per ciphertext.
    """

    window: Window

    def __init__(self, x: TensorLayout, window: Window, pattern: Pattern, each: int) -> None:
        if x.shape != window.shape:
            raise ShapeError(
                "The layout of an image does not fit its convolution.", expected=window.shape, got=x.shape
            )
        if x.places is not None:
            raise FitError(
                "Channels that fill the gaps of others are convolved as multiplexed ones.",
                expected="channels at equal distances",
                got="channels in gaps",
            )
        if pattern.unit != x.pitch or pattern.slots != x.slots:
            raise ShapeError(
                "The pattern of a convolution has other units than its image.",
                expected=f"units of {x.pitch} slots",
                got=pattern,
            )
        inputs = min(x.channels, x.shape[0])
        if pattern.k < inputs or pattern.n < min(each, window.outputs):
            raise ShapeError(
                "The pattern of a convolution is too small.",
                expected=f"n ≥ {each}, k ≥ {inputs}",
                got=pattern,
            )
        self.x, self.window, self.pattern, self.each = x, window, pattern, each
        self.taps = len(window.taps)
        self.out = conv_output(x, window, each, zero_padded=pattern.zero_padded)

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "each": self.each}

    @property
    def steps(self) -> int:
        """Each pair of groups of channels has diagonals, looked at once, and each of them a weight for every tap.

        Segments of a result read those beside them alone.
        """
        pattern, x, out = self.pattern, self.x, self.out
        diagonals = x.groups * out.groups * pattern.n_d * (1 + pattern.k_d // ENTRIES_PER_STEP)
        return diagonals + pattern.plaintexts(self.taps, x.groups, out.ciphertexts)

    @functools.cached_property
    def _connected(self) -> NDArray[np.bool_]:
        """The input channel that an output channel sees, by number of group of channels."""
        window = self.window
        outputs = np.arange(window.outputs) * window.groups // window.outputs
        inputs = np.arange(window.shape[0]) * window.groups // window.shape[0]
        return np.equal(outputs[:, None], inputs[None, :])

    def _diagonals(self, output_group: int, input_group: int) -> Sequence[bool]:
        """The diagonals between two groups of channels that hold weights."""
        if (output_group, input_group) not in self._seen:
            pattern = self.pattern
            block = np.zeros((pattern.n, pattern.k), dtype=bool)
            part = self._connected[
                output_group * self.each : (output_group + 1) * self.each,
                input_group * self.x.channels : (input_group + 1) * self.x.channels,
            ]
            block[: part.shape[0], : part.shape[1]] = part
            units = np.arange(pattern.k_d)
            self._seen[output_group, input_group] = [
                bool(block[units % pattern.n, (units + d) % pattern.k].any()) for d in range(pattern.n_d)
            ]
        return self._seen[output_group, input_group]

    @functools.cached_property
    def _seen(self) -> dict[tuple[int, int], Sequence[bool]]:
        return {}

    def parts(self, output: int, group: int) -> Iterator[PatternPart]:
        pattern, x = self.pattern, self.x
        output_group, segment = divmod(output, self.out.segments)
        starts = [diagonal for _, diagonal in pattern.blocks(group)]
        reads = self._reads(segment)
        for input_group in range(x.groups):
            present = self._diagonals(output_group, input_group)
            first = input_group * x.segments
            for row in range(pattern.rows):
                if any(present[start + row] for start in starts):
                    turn = row * pattern.unit
                    for neighbour, i, j, step in reads:
                        yield PatternPart(first + neighbour, turn + step, (row, i, j))

    def _reads(self, segment: int) -> list[tuple[int, int, int, int]]:
        """Segments that a segment's outputs read, tap by tap: number, tap, slots from the output to what it reads."""
        if segment not in self._found_reads:
            self._found_reads[segment] = [
                (neighbour, i, j, tap_step(self.x, self.window, (i, j), neighbour - segment))
                for i, j in self.window.taps
                for neighbour in range(self.x.segments)
                if len(self._covered(segment, neighbour, i, j))
            ]
        return self._found_reads[segment]

    @functools.cached_property
    def _found_reads(self) -> dict[int, list[tuple[int, int, int, int]]]:
        return {}

    def _covered(self, segment: int, neighbour: int, i: int, j: int) -> NDArray[np.int64]:
        """Slots, from the start of a channel, of the outputs of a segment for which tap (i, j) reads a segment."""
        key = (segment, neighbour, i, j)
        if key not in self._slots:
            self._slots[key] = covered(self.x, self.out, self.window, (i, j), segment, neighbour)
        return self._slots[key]

    @functools.cached_property
    def _slots(self) -> dict[tuple[int, int, int, int], NDArray[np.int64]]:
        return {}

    def build(self, values: NDArray[Any], output: int, group: int, part: PatternPart) -> NDArray[np.float64]:
        pattern, x, window = self.pattern, self.x, self.window
        row, i, j = part.place
        output_group, segment = divmod(output, self.out.segments)
        input_group, neighbour = divmod(part.source, x.segments)
        read = self._covered(segment, neighbour, i, j)
        first_out, first_in = output_group * self.each, input_group * x.channels
        outputs = min(self.each, window.outputs - first_out)
        inputs = min(x.channels, x.shape[0] - first_in)
        slots = np.zeros(pattern.slots)
        units = np.arange(pattern.k_d)
        for start, diagonal in pattern.blocks(group):
            co, ci = units % pattern.n, (units + diagonal + row) % pattern.k
            chosen = (co < outputs) & (ci < inputs)
            chosen[chosen] = self._connected[first_out + co[chosen], first_in + ci[chosen]]
            depth = window.shape[0] // window.groups
            filters = (first_out + co[chosen]) % len(values)  # of one image
            found = values[filters, (first_in + ci[chosen]) % depth, i, j]
            places = (start + group * pattern.rows + units[chosen]) * pattern.unit
            slots[(places[:, None] + read[None, :]) % pattern.slots] = found[:, None]
        return slots
