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

from cipherblas.algorithms.layers.base import LayerMethod, Weights, Window, folded, repeated
from cipherblas.algorithms.layers.imra import Pattern
from cipherblas.errors import ShapeError
from cipherblas.evaluators.base import Evaluator
from cipherblas.evaluators.values import Ct, Plain
from cipherblas.layouts.tensors import TensorLayout

NOTHING = (-1,)


@dataclass(frozen=True)
class Part:
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

    @abstractmethod
    def parts(self, output: int, group: int) -> Iterator[Part]:
        """The weights of a group, structural zeros left out."""

    @abstractmethod
    def build(self, values: NDArray[Any], output: int, group: int, part: Part) -> NDArray[np.float64]:
        """The slots of the weights of a part."""

    @functools.cached_property
    def _parts(self) -> list[list[list[Part]]]:
        found = [
            [list(self.parts(output, group)) for group in range(self.pattern.groups)]
            for output in range(self.out.ciphertexts)
        ]
        for output in found:  # outputs that see nothing but padding are zero
            if not any(output):
                output[0].append(Part(0, 0, NOTHING))
        return found

    @property
    def plaintexts(self) -> int:
        return sum(len(parts) for output in self._parts for parts in output)

    @property
    def options(self) -> dict[str, Any]:
        pattern = self.pattern
        return {"n": pattern.n, "k": pattern.k, "p_b": pattern.p_b, "p_s": pattern.p_s}

    def check_input(self) -> None:
        """Raise ShapeError where the input must be repeated but other slots are not zero."""
        if self.pattern.replications > 1 and not self.x.clean:
            raise ShapeError(
                "input of a layer that repeats it", expected="zeros in all other slots", got="garbage"
            )

    def run(self, ev: Evaluator, cts: Sequence[Ct], weights: Weights) -> list[Ct]:
        ev.require_levels(cts[0], self.levels, self.title)
        self.check_input()
        pattern = self.pattern
        sources = [repeated(ev, ct, pattern.replications, pattern.k * pattern.unit) for ct in cts]
        steps: list[set[int]] = [set() for _ in sources]
        for output in self._parts:
            for parts in output:
                for part in parts:
                    steps[part.source].add(part.step)
        rotated = [self._rotated(ev, ct, sorted(wanted)) for ct, wanted in zip(sources, steps, strict=True)]
        return [self._output(ev, number, rotated, weights) for number in range(self.out.ciphertexts)]

    @staticmethod
    def _rotated(ev: Evaluator, ct: Ct, steps: list[int]) -> dict[int, Ct]:
        return dict(zip(steps, ev.rotate_many(ct, steps), strict=True))

    def _output(self, ev: Evaluator, output: int, rotated: Sequence[dict[int, Ct]], weights: Weights) -> Ct:
        pattern = self.pattern
        limbs = min(ct.limbs for steps in rotated for ct in steps.values())
        scale = float(ev.params.q[limbs - 1])
        sums, turns = [], []
        groups = [(group, parts) for group, parts in enumerate(self._parts[output]) if parts]
        # A row of weights is cut into so many pieces, whose errors add in quadrature: its norm is that of all together.
        pieces = len(groups) * pattern.p_s * pattern.wide
        rows = weights.rows[0], weights.rows[1] / math.sqrt(pieces)
        for group, parts in groups:
            plains = [self._plain(weights, output, group, part) for part in parts]
            cts = [rotated[part.source][part.step] for part in parts]
            sums.append(ev.weighted_sum(cts, plains, scale, rows=rows))
            turns.append(group * pattern.rows * pattern.unit)
        total = ev.rotate_sum(sums, turns, rescale=True)
        total = ev.bounded(total, cts_bound(rotated) * weights.rows[0])
        total = folded(ev, total, pattern.p_s, (pattern.k_d + pattern.buffer) * pattern.unit)
        total = folded(ev, total, pattern.wide, pattern.n * pattern.unit)
        return ev.bounded(
            total, cts_bound(rotated) * weights.rows[0] * (1 if self.out.clean else pattern.p_s)
        )

    def _plain(self, weights: Weights, output: int, group: int, part: Part) -> Plain:
        place = (self.name, self.x.key, *self.options.values(), output, group, part.source, part.place)

        def build() -> NDArray[np.float64]:
            if part.place == NOTHING:
                return np.zeros(self.pattern.slots)
            return self.build(weights.values(), output, group, part)

        return weights.plain(place, build)


def cts_bound(rotated: Sequence[dict[int, Ct]]) -> float:
    """The largest bound of the inputs."""
    return max(ct.bound for steps in rotated for ct in steps.values())


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
                "pattern of a product W·x", expected=f"units of 1 of {x.slots} slots", got=pattern
            )
        if pattern.k < x.extent or pattern.n < min(each, rows):
            raise ShapeError("pattern of a product W·x", expected=f"n ≥ {each}, k ≥ {x.extent}", got=pattern)
        self.x, self.matrix_rows, self.pattern, self.each = x, rows, pattern, each
        self.out = TensorLayout((rows, 1, 1), x.slots, each, 1, 1, 1, 1, clean=pattern.clean)

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

    def parts(self, output: int, group: int) -> Iterator[Part]:
        for source in range(self.x.ciphertexts):
            for row in range(self.pattern.rows):
                yield Part(source, row, (row,))

    def build(self, values: NDArray[Any], output: int, group: int, part: Part) -> NDArray[np.float64]:
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

    def __init__(self, x: TensorLayout, window: Window, pattern: Pattern, each: int) -> None:
        if x.shape != window.shape or x.places is not None:
            raise ShapeError("layout of an image", expected=window.shape, got=x.shape)
        if pattern.unit != x.pitch or pattern.slots != x.slots:
            raise ShapeError("pattern of a convolution", expected=f"units of {x.pitch} slots", got=pattern)
        inputs = min(x.channels, x.shape[0])
        if pattern.k < inputs or pattern.n < min(each, window.outputs):
            raise ShapeError("pattern of a convolution", expected=f"n ≥ {each}, k ≥ {inputs}", got=pattern)
        self.x, self.window, self.pattern, self.each = x, window, pattern, each
        self.out = conv_output(x, window, each, clean=pattern.clean)

    @property
    def options(self) -> dict[str, Any]:
        return {**super().options, "each": self.each}

    @functools.cached_property
    def _connected(self) -> NDArray[np.bool_]:
        """Which input channel an output channel sees, by number of group of channels."""
        window = self.window
        outputs = np.arange(window.outputs) * window.groups // window.outputs
        inputs = np.arange(window.shape[0]) * window.groups // window.shape[0]
        return np.equal(outputs[:, None], inputs[None, :])

    def _diagonals(self, output_group: int, input_group: int) -> NDArray[np.bool_]:
        """Which diagonals between two groups of channels hold weights."""
        if (output_group, input_group) not in self._seen:
            pattern = self.pattern
            block = np.zeros((pattern.n, pattern.k), dtype=bool)
            part = self._connected[
                output_group * self.each : (output_group + 1) * self.each,
                input_group * self.x.channels : (input_group + 1) * self.x.channels,
            ]
            block[: part.shape[0], : part.shape[1]] = part
            units = np.arange(pattern.k_d)
            self._seen[output_group, input_group] = np.array(
                [block[units % pattern.n, (units + d) % pattern.k].any() for d in range(pattern.n_d)]
            )
        return self._seen[output_group, input_group]

    @functools.cached_property
    def _seen(self) -> dict[tuple[int, int], NDArray[np.bool_]]:
        return {}

    def parts(self, output: int, group: int) -> Iterator[Part]:
        pattern, x = self.pattern, self.x
        output_group, segment = divmod(output, self.out.segments)
        for input_group in range(x.groups):
            present = self._diagonals(output_group, input_group)
            for row in range(pattern.rows):
                if not any(present[diagonal + row] for _, diagonal in pattern.blocks(group)):
                    continue
                for i, j in self.window.taps:
                    for neighbour in range(x.segments):
                        if len(self._covered(segment, neighbour, i, j)):
                            step = row * pattern.unit + self._step(segment, neighbour, i, j)
                            yield Part(input_group * x.segments + neighbour, step, (row, i, j))

    def _step(self, segment: int, neighbour: int, i: int, j: int) -> int:
        """Slots from an output's place to what tap (i, j) reads for it."""
        x, (pad_h, pad_w) = self.x, self.window.padding
        rows = i - pad_h - (neighbour - segment) * x.segment
        return rows * x.row + (j - pad_w) * x.col

    def _covered(self, segment: int, neighbour: int, i: int, j: int) -> NDArray[np.int64]:
        """Slots, from the start of a channel, of the outputs of a segment for which tap (i, j) reads a segment."""
        key = (segment, neighbour, i, j)
        if key not in self._slots:
            self._slots[key] = self._find_covered(*key)
        return self._slots[key]

    @functools.cached_property
    def _slots(self) -> dict[tuple[int, int, int, int], NDArray[np.int64]]:
        return {}

    def _find_covered(self, segment: int, neighbour: int, i: int, j: int) -> NDArray[np.int64]:
        x, out, window = self.x, self.out, self.window
        height, width = x.shape[1:]
        out_rows = np.arange(segment * out.segment, min((segment + 1) * out.segment, out.shape[1]))
        read = out_rows * window.stride[0] + i - window.padding[0]
        inside = (read >= max(0, neighbour * x.segment)) & (read < min(height, (neighbour + 1) * x.segment))
        out_cols = np.arange(out.shape[2])
        across = out_cols * window.stride[1] + j - window.padding[1]
        cols = out_cols[(across >= 0) & (across < width)]
        rows = out_rows[inside] - segment * out.segment
        return (rows[:, None] * out.row + cols[None, :] * out.col).ravel()

    def build(self, values: NDArray[Any], output: int, group: int, part: Part) -> NDArray[np.float64]:
        pattern, x, window = self.pattern, self.x, self.window
        row, i, j = part.place
        output_group, segment = divmod(output, self.out.segments)
        input_group, neighbour = divmod(part.source, x.segments)
        covered = self._covered(segment, neighbour, i, j)
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
            found = values[first_out + co[chosen], (first_in + ci[chosen]) % depth, i, j]
            places = (start + group * pattern.rows + units[chosen]) * pattern.unit
            slots[(places[:, None] + covered[None, :]) % pattern.slots] = found[:, None]
        return slots


def conv_output(x: TensorLayout, window: Window, each: int, *, clean: bool) -> TensorLayout:
    """The layout of a convolution's result: every output stays at the slot where its window begins.

    Raises:
        ShapeError: the result is larger than the image's grid of slots, or a stride does not divide a segment.
    """
    (step_h, step_w), (channels, height, width) = window.stride, window.out_shape
    row, col = x.row * step_h, x.col * step_w
    if x.segments > 1:
        if x.segment % step_h or -(-height * step_h // x.segment) > x.segments:
            raise ShapeError(
                "rows of a segment", expected=f"a multiple of the stride {step_h}", got=x.segment
            )
        segment, rows = x.segment // step_h, x.segment // step_h
    else:
        segment = rows = height
    across = (width - 1) * col + 1
    if (rows > 1 and across > row) or (rows - 1) * row + across > x.pitch:
        raise ShapeError(
            "a convolution's result needs a wider image",
            expected=f"{height}x{width} outputs in {x.pitch} slots a channel",
            got=f"rows {x.row} slots apart",
        )
    return TensorLayout((channels, height, width), x.slots, each, x.pitch, row, col, segment, clean=clean)
