"""Interpreting a network (vectors, images, layers with clear weights) with any `Evaluator`, layer by layer.

The counterpart of `execution` for tensors in slots. How an input is packed and how a layer is computed is asked of
`decide`: the planner's answers are recorded in the plan, a run reads them from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.common.work import ENTRIES_PER_STEP
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.forms.convert.relayout import relayout
from cipherblas.forms.tensors import TensorLayout, contiguous, grid, tensor_shape
from cipherblas.lang.analysis import is_constant
from cipherblas.lang.layers import Assume, AvgPool2d, Conv2d, Flatten, Truncated
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.operations import Add, Constant, Leaf, MatMul, Multiply, Scale
from cipherblas.lang.windows import Window
from cipherblas.methods.matvec_conv.base import LayerMethod, Weights, entries_plain, folded, masked
from cipherblas.methods.matvec_conv.registry import build_conv, build_matvec
from cipherblas.methods.matvec_conv.taps import conv_output
from cipherblas.runtime.slot_arithmetic import BlockedValue, Choice, Cts, Feeds, SlotArithmetic

PACKING = "packing"


@dataclass
class TensorValue(BlockedValue):
    """A tensor in slots; its `cells` are one block. `tensor` says where its entries lie."""

    tensor: TensorLayout

    @property
    def cts(self) -> Cts:
        return self.cells[0][0]


class Decide(Protocol):
    """How a secret operand is packed (`x` is None), or a layer computed on an input in the layout `x`."""

    def __call__(self, node: Expression, x: TensorLayout | None) -> Choice: ...


def supported(node: Expression) -> str | None:
    """Why a network cannot be run, or None if it can."""
    for current in ordered(node):
        if (
            isinstance(current, MatMul)
            and current.secret
            and (current.left.secret or len(current.shape) != 1)
        ):
            return "products of a network are of clear weights and an encrypted vector"
        if current.secret and len(current.shape) == 2:
            return "an encrypted matrix in a network of vectors and images"
    return None


class LayerExecution(SlotArithmetic):
    """One run of a network: `LayerExecution(...).run()`.

    `progress(done, total)` is called as weights are ready (the first run encodes them) and after every node; `weights`
    says how many there are, which a plan has counted.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        node: Expression,
        decide: Decide,
        feeds: Feeds,
        progress: Callable[[int, int], None] | None = None,
        weights: int = 0,
    ) -> None:
        reason = supported(node)
        if reason is not None:
            raise ParameterError("a network", expected="clear weights", got=reason)
        self.evaluator, self.node, self.decide, self.feeds = evaluator, node, decide, feeds
        self._order = [current for current in ordered(node) if current.secret]
        self._number = {id(current): number for number, current in enumerate(ordered(node))}
        self._progress = progress
        self._run = object()  # in the keys of values that change from run to run
        self._done, self._total = 0, weights + len(self._order)

    def run(self) -> TensorValue:
        """Compute every node, operands first, and return the (still encrypted) result."""
        self.evaluator.on_weights = self._tick
        try:
            return self._run_nodes()
        finally:
            self.evaluator.on_weights = None  # a circle would keep what the run holds

    def _run_nodes(self) -> TensorValue:
        last = {id(child): current for current in self._order for child in current.children}
        values: dict[int, TensorValue] = {}
        for current in self._order:
            values[id(current)] = self._computed(current, values)
            for child in current.children:
                if last.get(id(child)) is current:
                    values.pop(id(child), None)
            self._tick(1)
        if self._done < self._total:  # masks were counted among the weights
            self._tick(self._total - self._done)
        return self._ready(values[id(self.node)])

    def _tick(self, done: int) -> None:
        self._done = min(self._done + done, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _computed(self, node: Expression, values: dict[int, TensorValue]) -> TensorValue:
        if isinstance(node, Leaf):
            return self._operand(node)
        if isinstance(node, MatMul):
            return self._layer(node, values[id(node.right)])
        if isinstance(node, Conv2d):
            return self._layer(node, values[id(node.image)])
        if isinstance(node, AvgPool2d):
            return self._pooled(node, values[id(node.image)])
        if isinstance(node, Flatten):
            return replace(values[id(node.image)], shape=node.shape)
        if isinstance(node, Assume):
            return self._assumed(node, values[id(node.x)])
        if isinstance(node, Truncated):
            return values[id(node.x)]
        if isinstance(node, Scale):
            value = values[id(node.child)]
            return replace(value, unit=value.unit * node.factor)
        if isinstance(node, Add):
            return self._sum(node, values)
        assert isinstance(node, Multiply)
        return self._elementwise(node, values)

    # --- values ----------------------------------------------------------------------------------------------

    def _value(self, shape: tuple[int, ...], tensor: TensorLayout, cts: Cts, unit: float) -> TensorValue:
        return TensorValue(shape, tensor.layout, [[cts]], True, unit, tensor)

    def _operand(self, node: Leaf) -> TensorValue:
        choice = self.decide(node, None)
        if choice.algorithm != PACKING:
            raise ParameterError("decision for an operand", expected=PACKING, got=choice.algorithm)
        options = choice.options
        tensor = packing(node, self.evaluator.slots, **options)
        self.evaluator.spend(tensor.ciphertexts, "ciphertexts of an image or a vector")
        column = (math.prod(node.shape), 1)
        fed = self._fed(node, tensor.layout, (1, 1), column, None)
        return self._value(node.shape, tensor, fed.cells[0][0], fed.unit)

    def _relaid(self, value: TensorValue, tensor: TensorLayout) -> TensorValue:
        """The value in another layout. Levels: 1 per stage; see `stages`."""
        value = self._ready(value)
        for stage in stages(value.tensor, tensor):
            cts = relayout(self.evaluator, value.cts, value.tensor.layout, stage.layout)
            value = self._value(value.shape, stage, cts, value.unit)
            value = self._ready(value)
        return value

    def _ready(self, value: TensorValue) -> TensorValue:
        """The value as a layer expects it: near the usual scale, rescaled."""
        settled = self._settled(value)
        cts = [self.evaluator.ready(ct) for ct in settled.cells[0][0]]
        return self._value(value.shape, value.tensor, cts, settled.unit)

    def _assumed(self, node: Assume, value: TensorValue) -> TensorValue:
        """Other slots hold sums of parts of entries: in the mean, which the modulus must hold, they are no larger."""
        bound = node.bound / abs(value.unit)
        cts = [self.evaluator.bounded(ct, bound) for ct in value.cts]
        return self._value(node.shape, value.tensor, cts, value.unit)

    # --- layers ----------------------------------------------------------------------------------------------

    def _layer(self, node: MatMul | Conv2d | AvgPool2d, value: TensorValue) -> TensorValue:
        value = self._ready(value)
        choice = self.decide(node, value.tensor)
        options = dict(choice.options)
        if "layout" in options:
            tensor = relaid_layout(value.tensor, options.pop("layout"))
            self.evaluator.spend(tensor.ciphertexts, "ciphertexts of an image or a vector")
            value = self._relaid(value, tensor)
        if options.pop("mask", False):
            tensor = value.tensor.once()
            cts = masked(self.evaluator, value.cts, tensor)
            value = self._value(value.shape, tensor, cts, value.unit)
        self._spend(node, value.tensor)
        method = method_of(node, value.tensor, replace(choice, options=options))
        self.evaluator.spend(method.steps, "weights of a layer")
        if isinstance(node, AvgPool2d):
            weights = self._mean(node.window)
        else:
            weights = self._weights(node.left if isinstance(node, MatMul) else node.weights)
        cts = method.run(self.evaluator, value.cts, weights)
        return self._value(node.shape, method.out, cts, value.unit * weights.bound)

    def _spend(self, node: MatMul | Conv2d | AvgPool2d, x: TensorLayout) -> None:
        """What a method looks at before it says how many steps it takes."""
        if isinstance(node, MatMul):
            return
        window = node.window
        self.evaluator.spend(math.prod(window.kernel) * x.segments**2, "taps of a filter")
        self.evaluator.spend(window.outputs * window.shape[0] // ENTRIES_PER_STEP, "channels")

    def _weights(self, node: Expression) -> Weights:
        number = self._number[id(node)]
        if isinstance(node, Constant):
            bound, total, norm = node.bound, node.row_sum, max(node.row_norm, node.bound)
            return Weights(("weights", number), lambda: node.values, bound, total, norm)
        seen = math.prod(node.shape[1:])
        sums = node.bound * seen, node.bound * math.sqrt(seen)
        key = ("operand", number, self._run)
        return Weights(key, lambda: self.feeds.values(node), node.bound, *sums, stored=False)

    @staticmethod
    def _mean(window: Window) -> Weights:
        """The weights of a mean over a window."""
        each = 1 / math.prod(window.kernel)
        values = np.full(window.weight_shape, each)
        return Weights(("mean", window), lambda: values, each, 1.0, math.sqrt(each))

    def _pooled(self, node: AvgPool2d, value: TensorValue) -> TensorValue:
        window, x = node.window, value.tensor
        taps = math.prod(window.kernel)
        inside = x.segments == 1 or (
            window.kernel[0] <= window.stride[0] and x.segment % window.stride[0] == 0
        )
        if window.padding == (0, 0) and inside and x.places is None:
            ev = self.evaluator
            out = conv_output(x, window, x.channels, clean=False)
            cts = []
            for number in range(out.ciphertexts):
                group, part = divmod(number, out.segments)  # the last segments may hold no window
                ct = value.cts[group * x.segments + part]
                total = folded(ev, folded(ev, ct, window.kernel[1], x.col), window.kernel[0], x.row)
                cts.append(ev.bounded(total, ct.bound * taps))
            return self._value(node.shape, out, cts, value.unit / taps)
        return self._layer(node, value)

    # --- elementwise -----------------------------------------------------------------------------------------

    def _sum(self, node: Add, values: dict[int, TensorValue]) -> TensorValue:
        first, second = (node.left, node.right) if node.left.secret else (node.right, node.left)
        x = values[id(first)]
        if not second.secret:
            return self._sum_with_values(x, second)
        y = values[id(second)]
        if x.tensor.key != y.tensor.key:
            y = self._relaid(y, x.tensor)
        found = self._sum_of_secrets(x, y)
        tensor = x.tensor.with_clean(x.tensor.clean and y.tensor.clean)
        return self._value(node.shape, tensor, found.cells[0][0], found.unit)

    def _sum_with_values(self, x: TensorValue, node: Expression) -> TensorValue:
        """x + a clear tensor."""
        ev, value = self.evaluator, self._with_room(x, node.bound)
        cts = [
            ev.add_plain(ct, self._plain(x.tensor, number, node, value.unit))
            for number, ct in enumerate(value.cells[0][0])
        ]
        return self._value(x.shape, x.tensor, cts, value.unit)

    def _plain(self, tensor: TensorLayout, ciphertext: int, node: Expression, unit: float) -> Any:
        constant = is_constant(node)
        key = ("tensor", self._number[id(node)], unit, *(() if constant else (self._run,)))

        def values() -> Any:
            return self.feeds.values(node) / unit

        return entries_plain(tensor, ciphertext, key, values, node.bound / abs(unit), constant=constant)

    def _elementwise(self, node: Multiply, values: dict[int, TensorValue]) -> TensorValue:
        first, second = (node.left, node.right) if node.left.secret else (node.right, node.left)
        x = self._ready(values[id(first)])
        if not second.secret:
            plains = [self._plain(x.tensor, number, second, second.bound) for number in range(len(x.cts))]
            cts = [
                self.evaluator.multiply_sum([ct], [plain]) for ct, plain in zip(x.cts, plains, strict=True)
            ]
            return self._value(node.shape, x.tensor.with_clean(True), cts, x.unit * second.bound)
        y = x if second is first else self._ready(values[id(second)])
        if x.tensor.key != y.tensor.key:
            y = self._relaid(y, x.tensor)
        cts = [self._multiply(a, b) for a, b in zip(x.cts, y.cts, strict=True)]
        tensor = x.tensor.with_clean(x.tensor.clean or y.tensor.clean)
        return self._value(node.shape, tensor, cts, x.unit * y.unit)


def packing(node: Leaf, slots: int, **options: Any) -> TensorLayout:
    """The layout of a secret operand; options as `contiguous`, or as `grid` where `row` is among them."""
    if "row" in options:
        return grid(tensor_shape(node.shape), slots, options)
    return contiguous(node.shape, slots, **options)


def relaid_layout(x: TensorLayout, options: dict[str, Any]) -> TensorLayout:
    """The layout that an input is brought into before a layer; see `grid`."""
    return grid(x.shape, x.slots, options)


def stages(source: TensorLayout, target: TensorLayout) -> list[TensorLayout]:
    """Layouts to go through: entries within their channels first, then channels, where both change."""
    if source.key == target.key:
        return []
    inside = (source.row, source.col) != (target.row, target.col)
    between = (source.pitch, source.channels) != (target.pitch, target.channels)
    if (
        not (inside and between)
        or source.segments > 1
        or target.segments > 1
        or source.places
        or target.places
        or (source.copies, target.copies) != (1, 1)
    ):
        return [target]
    extent = (target.shape[1] - 1) * target.row + (target.shape[2] - 1) * target.col + 1
    if extent > source.pitch:
        return [target]
    middle = replace(source, row=target.row, col=target.col, segment=target.segment, clean=True)
    return [middle, target]


def method_of(node: MatMul | Conv2d | AvgPool2d, x: TensorLayout, choice: Choice) -> LayerMethod:
    """The method that a choice names."""
    if isinstance(node, MatMul):
        if math.prod(x.shape) != node.left.shape[1]:
            raise ShapeError("entries of a vector", expected=node.left.shape[1], got=math.prod(x.shape))
        return build_matvec(choice.algorithm, x, node.shape[0], choice.options)
    return build_conv(choice.algorithm, x, node.window, choice.options)
