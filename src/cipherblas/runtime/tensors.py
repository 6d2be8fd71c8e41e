"""Vectors and images in slots, computed layer by layer with clear weights.

How an input is packed and how a layer is computed is a choice: the planner's are recorded in the plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ParameterError, ShapeError, UnsuitedError
from cipherblas.common.work import ENTRIES_PER_STEP
from cipherblas.evaluators.slots.values import Plain
from cipherblas.forms.convert.relayout import relayout
from cipherblas.forms.slot_forms import TensorForm
from cipherblas.forms.tensors import TensorLayout, contiguous, grid, tensor_shape
from cipherblas.lang.analysis import is_constant
from cipherblas.lang.curves import GATED
from cipherblas.lang.facts import facts_of
from cipherblas.lang.layers import AvgPool2d
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.polynomials import POLYNOMIAL, RANGE_TOLERANCE, Polynomial
from cipherblas.lang.refreshing import REFRESH, SINE, RefreshedSine, refreshes_to_sines
from cipherblas.lang.windows import Window
from cipherblas.methods.bootstrapping.refresh import bootstrapping_of
from cipherblas.methods.doubling import folded, repeated
from cipherblas.methods.layers import build_conv, build_matvec
from cipherblas.methods.matvec_conv.base import LayerMethod, Weights, entries_plain, masked
from cipherblas.methods.matvec_conv.multiplexed import gaps_filled
from cipherblas.methods.matvec_conv.taps import pooled
from cipherblas.runtime.executor import FORMS, Steps, computes
from cipherblas.runtime.inputs import Inputs
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.polynomials import evaluated, polynomial_of
from cipherblas.runtime.slots import SlotEncryption, SlotRun, multiplied
from cipherblas.runtime.values import Cells, Handles, MethodChoice, Value

TENSORS = "tensors"
PACKING = "packing"
# Operations whose results have the unit of what they are made of, and those that choose it.
_KEEP_UNITS = frozenset({"add", "assume", "flatten", "truncated"})
_WITH_UNITS = frozenset({"conv2d", "matmul", POLYNOMIAL})
MAX_MAGNIFIED = 4.0  # errors of zeros that entries are computed from: nothing counts them


class TensorRun(SlotRun):
    """Tensors in slots."""

    name: ClassVar[str] = TENSORS

    def steps(self) -> int:
        """Nodes."""
        return sum(node.secret for node in self.run.order)

    def computed(self, node: Expression) -> None:
        self.run.tick()

    def finished(self, value: Value) -> Value:
        return self.rescaled(value)

    def of(self, shape: tuple[int, ...], tensor: TensorLayout, cells: Cells, unit: float) -> Value:
        """A value in a layout, as the last instruction left it."""
        return self.laid(shape, TensorForm.of(tensor), cells, unit)

    def made(self, name: str, sources: Sequence[Cells], work: Callable[..., Iterable[Any]]) -> Cells:
        """The ciphertexts of work(stage, *those of the sources), which are tensors."""

        def whole(context: RunContext, *cells: Cells) -> list[list[Handles]]:
            return [[list(work(context, *(one[0][0] for one in cells)))]]

        return self.run.perform(name, sources, whole)

    def masked(self, value: Value, once: bool = False) -> Value:
        """The value with zeros in slots without an entry, or but one copy of each. Levels: 1."""
        tensor = value.tensor.once() if once else value.tensor.with_zero_padding(True)
        cells = self.made("mask", [value.cells], lambda context, cts: masked(context.slots, cts, tensor))
        return self.of(value.shape, tensor, cells, value.unit)

    def cleared(self, value: Value) -> Value:
        """The value, masked again where what it was computed by has magnified the errors of zeros."""
        return self.rescaled(self.masked(value)) if value.magnified > MAX_MAGNIFIED else value

    def within(self, value: Value, node: Expression) -> Value:
        """The value of a node, masked where its bound was promised of entries alone: what slots without entries hold
        would grow with every product until it exceeds the modulus."""
        return self.masked(value) if not value.tensor.zero_padded and _assumed(node) else value

    def usual(self, node: Expression) -> SlotEncryption:
        """Where sines are refreshed, an operand that layers alone read has one of the limbs that refreshes spend:
        weights are encoded by the size of the limb that they are multiplied at, whatever that is."""
        how = super().usual(node)
        readers = self.run.readers(node)
        layers = bool(readers) and all(one.product or one.window is not None for one in readers)
        return how._replace(limbs=how.limbs + 1) if layers and refreshes_to_sines(self.run.node) else how

    def range_of(self, node: Expression) -> float:
        """The bound of a value once it has what nothing else than a promise or a bias makes of it: a polynomial takes
        that without a level where it is no larger than the unit."""
        while True:
            readers = self.run.readers(node)
            moved = len(readers) == 1 and (
                readers[0].op == "assume"
                or (readers[0].op == "add" and not all(x.secret for x in readers[0].children))
            )
            if not moved:
                return node.bound
            (node,) = readers

    def limbs_that_are_read(self, node: Expression, tensor: TensorLayout) -> int | None:
        """The limbs of a value of which a refresh, which alone reads it, makes use, and the mask before that; None
        where it is read otherwise."""
        whole = bootstrapping_of(self.ev.params) if self.run.refreshed else None
        while whole is not None:
            readers = self.run.readers(node)
            if len(readers) != 1:
                return None
            (node,) = readers
            if node.op in (REFRESH, SINE):
                few = whole.packed(*tensor.layout.active_slots)
                return max(whole.limbs_before, few.limbs_before) + (not tensor.zero_padded)
            clear = node.op == "add" and not all(part.secret for part in node.children)
            if not clear and node.op not in ("assume", "truncated"):
                return None
        return None

    def integers_in(self, unit: float) -> float:
        """The unit of what is encoded in one: that of integers modulo t is 1."""
        return unit if self.modulus is None else 1.0

    def unit_of(self, node: Expression, bound: float) -> float:
        """The unit of a value up to a bound: in programs that refresh a power of two, so that terms of a sum differ by
        integers, and none takes a level to be like the other. Where it becomes one sine, alone or in a sum, a power of
        two times the reach: slots to coefficients have the same diagonals for all sines then."""
        if not self.run.refreshed:
            return bound
        reach = self._reach_of(node) or 1.0
        return reach * 2.0 ** math.ceil(math.log2(bound / reach))

    def _reach_of(self, node: Expression) -> float | None:
        """The reach of the sine that the sums become which a value is a term of; None where there are several, or terms
        whose units are not chosen by `unit_of`."""
        seen, waiting, found = {id(node)}, [node], set[float]()
        while waiting:
            one = waiting.pop()
            others = [reader for reader in self.run.readers(one) if reader.op not in _WITH_UNITS]
            found |= {other.reach for other in others if isinstance(other, RefreshedSine)}
            others = [other for other in others if not isinstance(other, RefreshedSine)]
            if one.op in _KEEP_UNITS:
                others += [child for child in one.children if child.secret]
            if not all(other.op in _KEEP_UNITS or other.op in _WITH_UNITS for other in others):
                return None
            waiting += [other for other in others if id(other) not in seen]
            seen |= set(map(id, others))
        return min(found) if len(found) == 1 else None

    def weights_of(self, node: Expression, columns: bool = False) -> Callable[[Inputs], Weights]:
        """A clear factor of a layer, of the inputs of a run.

        Args:
            columns: an output sees a column of a matrix, not a row.
        """
        number, rows = self.run.number[id(node)], node.T if columns else node
        if (known := node.tensor) is not None:
            bound, total, norm = rows.bound, rows.row_sum, max(rows.row_norm, rows.bound)
            weights = Weights(("weights", number), lambda: known, bound, total, norm)
            return lambda inputs: weights
        seen = math.prod(rows.shape[1:])
        sums = rows.bound * seen, rows.bound * math.sqrt(seen)
        sums = (rows.row_sum, rows.row_norm) if len(rows.shape) == 2 else sums

        def given(inputs: Inputs) -> Weights:
            key = ("operand", number, inputs.run)
            return Weights(key, lambda: inputs.values(node), node.bound, *sums, stored=False)

        return given

    def plains(self, tensor: TensorLayout, node: Expression, unit: float) -> Callable[[Inputs], list[Plain]]:
        """The entries of a clear tensor that each ciphertext has, in a unit, of the inputs of a run."""
        constant, number = is_constant(node), self.run.number[id(node)]
        bound = node.bound / abs(unit)

        def packed(inputs: Inputs) -> list[Plain]:
            key = ("tensor", number, unit, *(() if constant else (inputs.run,)))
            return [
                entries_plain(tensor, one, key, lambda: inputs.values(node), bound, unit, constant=constant)
                for one in range(tensor.ciphertexts)
            ]

        return packed

    def relaid(self, value: Value, tensor: TensorLayout) -> Value:
        """The value in another layout. Levels: 1 per stage; see `stages`."""
        value = self.cleared(self.rescaled(value))
        for target in stages(value.tensor, tensor):
            value = self.rescaled(self._moved(value, target))
        return value

    def filled(self, value: Value, tensor: TensorLayout) -> Value:
        """The value in another layout, which is copied after entries have been brought to their places once: that takes
        fewer masks. Levels: 1."""
        value = self.relaid(value, tensor.once())
        value = value if value.tensor.alone else self.rescaled(self.masked(value, once=True))
        period = tensor.slots // tensor.copies
        cells = self.made(
            "repeat",
            [value.cells],
            lambda context, cts: [repeated(context.slots, ct, tensor.copies, period) for ct in cts],
        )
        return self.of(value.shape, tensor, cells, value.unit)

    def _moved(self, value: Value, tensor: TensorLayout) -> Value:
        source, target = value.layout, tensor.layout
        cells = self.made(
            "re-arrange", [value.cells], lambda context, cts: relayout(context.slots, cts, source, target)
        )
        return self.of(value.shape, tensor, cells, value.unit)

    def with_layout_of(self, x: Value, y: Value) -> Value:
        """y in the layout of x."""
        return y if x.tensor.key == y.tensor.key else self.relaid(y, x.tensor)

    def layer(self, node: Expression, value: Value, weights: Callable[[Inputs], Weights]) -> Value:
        """A layer by the method that was chosen."""
        ev, value = self.ev, self.cleared(self.rescaled(value))
        choice = self.run.choice(node, value.tensor)
        options = dict(choice.options)
        if "layout" in options:
            layout, before = options.pop("layout"), window_of(node, value.tensor)
            tensor = relaid_layout(value.tensor, layout, before.images if before is not None else 1)
            ev.spend(tensor.ciphertexts, "ciphertexts of an image or a vector")
            value = self.filled(value, tensor) if "filled" in layout else self.relaid(value, tensor)
        if options.pop("mask", False):
            value = self.masked(value, once=True)
        x, window = value.tensor, window_of(node, value.tensor)
        if window is not None:  # what its method looks at before it says how many steps it takes
            ev.spend(math.prod(window.kernel) * x.segments**2, "taps of a filter")
            ev.spend(window.outputs * window.shape[0] // ENTRIES_PER_STEP, "channels")
        unit = weights(self.inputs).bound
        if self.run.refreshed:
            bound = max(unit, self.range_of(node) / abs(value.unit))
            reach = self._reach_of(node)
            if reach is None:
                unit = self.unit_of(node, bound)
            else:
                unit = self.unit_of(node, max(reach, bound * abs(value.unit))) / abs(value.unit)
        unit = self.integers_in(unit)
        method = method_of(node, x, MethodChoice(choice.method, options))
        if (limbs := self.limbs_that_are_read(node, method.out)) is not None:
            value = self.lowered_to(value, limbs + method.levels)
        ev.spend(method.steps, "weights of a layer")
        cells = self.made(
            choice.method,
            [value.cells],
            lambda context, cts: method.run(context.slots, cts, replace(weights(context.inputs), bound=unit)),
        )
        return self.of(node.shape, method.out, cells, value.unit * unit)


FORMS[TENSORS] = TensorRun


@computes(TENSORS, "operand", "view")
def operand(run: TensorRun, node: Expression, required: None) -> Value:
    """A secret vector or image, packed as was chosen."""
    choice = run.run.choice(node)
    if choice.method != PACKING:
        raise ParameterError("An operand of a network must be packed.", expected=PACKING, got=choice.method)
    tensor = packing(node, run.ev.slots, **choice.options)
    run.ev.spend(tensor.ciphertexts, "ciphertexts of an image or a vector")
    return run.operand(node, TensorForm.of(tensor), (math.prod(node.shape), 1), None)


@computes(TENSORS, "matmul")
def matmul(run: TensorRun, node: Expression, required: None) -> Steps[Value]:
    """W @ x, or W @ X: a convolution of the rows of X, taken for channels, with filters of one entry; or X @ W, of one
    image in each row of X, with filters of all of it."""
    weights, x = node.children
    if of_images := weights.secret:
        x, weights = node.children
    if weights.secret or not x.secret or not node.shape:
        raise UnsuitedError(
            "A product of a network needs a clear matrix and an encrypted factor.",
            expected="a clear matrix and an encrypted factor",
            got=node.title,
        )
    value = yield from run.read(x)
    found, window = run.weights_of(weights, columns=of_images), window_of(node, value.tensor)
    if window is None:
        return run.layer(node, value, found)
    shape = window.weight_shape

    def filters(inputs: Inputs) -> Weights:
        matrix = found(inputs)

        def rows() -> NDArray[Any]:
            values = matrix.values()
            return np.ascontiguousarray(values.T if of_images else values).reshape(shape)

        return replace(matrix, values=rows)

    return run.layer(node, value, filters)


@computes(TENSORS, "conv2d")
def conv2d(run: TensorRun, node: Expression, required: None) -> Steps[Value]:
    """A convolution."""
    image, weights = node.children
    return run.layer(node, (yield from run.read(image)), run.weights_of(weights))


@computes(TENSORS, "avg_pool2d")
def avg_pool2d(run: TensorRun, node: Expression, required: None) -> Steps[Value]:
    """Sums of neighbours where these are in one ciphertext, else a convolution with equal weights."""
    value, window = (yield from run.read(node.children[0])), node.window
    assert window is not None and isinstance(node, AvgPool2d)
    x, taps = value.tensor, math.prod(window.kernel)
    inside = x.segments == 1 or (window.kernel[0] <= window.stride[0] and x.segment % window.stride[0] == 0)
    if window.padding != (0, 0) or not inside:
        weights = _mean(window, node.divisor)
        return run.layer(node, value, lambda inputs: weights)
    out = pooled(x, window, zero_padded=False)

    def sums(context: RunContext, cts: Handles) -> Handles:
        ev, found = context.slots, []
        for number in range(out.ciphertexts):
            group, part = divmod(number, out.segments)  # the last segments may hold no window
            ct = cts[group * x.segments + part]
            total = folded(ev, folded(ev, ct, window.kernel[1], x.col), window.kernel[0], x.row)
            found.append(ev.bounded(total, ct.bound * taps))
        return found

    unit = value.unit / node.divisor
    return run.of(node.shape, out, run.made("sums of neighbours", [value.cells], sums), unit)


def _mean(window: Window, divisor: int) -> Weights:
    """The weights of a mean over a window."""
    taps, each = math.prod(window.kernel), 1 / divisor
    return Weights(
        ("mean", window, divisor),
        lambda: np.broadcast_to(each, window.weight_shape),
        *(each, taps * each, math.sqrt(taps) * each),
    )


@computes(TENSORS, "flatten", "truncated")
def same(run: TensorRun, node: Expression, required: None) -> Steps[Value]:
    """The same entries."""
    return replace((yield from run.read(node.children[0])), shape=node.shape)


@computes(TENSORS, "assume")
def assume(run: TensorRun, node: Expression, required: None) -> Steps[Value]:
    """Other slots hold sums of parts of entries: in the mean, which the modulus must hold, they are no larger."""
    value = run.promised(node, (yield from run.read(node.children[0])))
    bound = node.bound / abs(value.unit)
    most = run.range_of(node) if run.run.refreshed else node.bound
    return run.filling(run.mapped("bound", value, lambda ev, ct: ev.bounded(ct, bound)), most)


@computes(TENSORS, "scale")
def scale(run: TensorRun, node: Expression, required: None) -> Steps[Value]:
    """A number changes the unit alone; integers modulo t are multiplied by it."""
    value, number = (yield from run.read(node.children[0])), node.parameters["factor"]
    if run.modulus is not None:
        return run.mapped("multiply by a number", value, lambda ev, ct: ev.multiply_scalar(ct, number))
    return replace(value, unit=value.unit * number)


@computes(TENSORS, "add")
def add(run: TensorRun, node: Expression, required: None) -> Steps[Value]:
    """The entrywise sum, in the layout of the first secret term. A term with more limbs than the other one is rescaled
    before, and not the sum, which has fewer."""
    first, second = sorted(node.children, key=lambda part: not part.secret)
    x = yield from run.read(first)
    if not second.secret:
        x = run.with_headroom(x, second.bound)
        return x.holding(run.made("add", [x.cells], _added(run.plains(x.tensor, second, x.unit))))
    y = run.with_layout_of(x, (yield from run.read(second)))
    limbs = min(x.first().limbs, y.first().limbs)
    x, y = (run.rescaled(one) if run.ev.below(one.first().limbs) >= limbs else one for one in (x, y))
    zero_padded = x.tensor.zero_padded and y.tensor.zero_padded
    total = run.sum_of_secrets(x, y)
    found = run.of(total.shape, x.tensor.with_zero_padding(zero_padded), total.cells, total.unit)
    return replace(found, magnified=max(x.magnified, y.magnified))


@computes(TENSORS, "multiply")
def multiply(run: TensorRun, node: Expression, required: None) -> Steps[Value]:
    """The entrywise product, in the layout of the first secret factor."""
    first, second = sorted(node.children, key=lambda part: not part.secret)
    x = run.rescaled((yield from run.read(first)))
    tensor = x.tensor
    if not second.secret:
        unit = run.integers_in(second.bound)
        plains = run.plains(tensor, second, unit)

        def by_clear(context: RunContext, cts: Handles) -> Handles:
            return [
                context.slots.multiply_sum([ct], [plain])
                for ct, plain in zip(cts, plains(context.inputs), strict=True)
            ]

        cells = run.made("multiply", [x.cells], by_clear)
        return run.of(node.shape, tensor.with_zero_padding(True), cells, x.unit * unit)
    if second is first:
        x = y = run.rescaled(run.within(x, first))
    else:
        y = run.with_layout_of(x, run.rescaled((yield from run.read(second))))
        if not y.tensor.zero_padded:  # of two factors one may be anything where the other is zero
            x = run.cleared(run.rescaled(run.within(x, node)))
        elif not x.tensor.zero_padded and y.magnified > MAX_MAGNIFIED:  # not where it is only near zero
            x = run.rescaled(run.masked(run.lowered_to(x, y.first().limbs + 1)))

    def entrywise(context: RunContext, xs: Handles, ys: Handles) -> Handles:
        return [multiplied(context.slots, a, b) for a, b in zip(xs, ys, strict=True)]

    cells = run.made("multiply", [x.cells, y.cells], entrywise)
    zeros = [factor.magnified for factor in (x, y) if factor.tensor.zero_padded]
    found = run.of(node.shape, tensor.with_zero_padding(bool(zeros)), cells, x.unit * y.unit)
    return replace(found, magnified=min(zeros, default=1.0))


@computes(TENSORS, GATED)
def gated(run: TensorRun, node: Expression, required: None) -> Steps[Value]:
    """As `multiply`."""
    return (yield from run.gated(node, lambda: multiply(run, node, required)))


@computes(TENSORS, POLYNOMIAL)
def polynomial(run: TensorRun, node: Expression, required: None) -> Steps[Value]:
    """The polynomial of every entry. Slots between them are masked where they may exceed the bound of the entries."""
    function = polynomial_of(node)
    x = yield from run.read(function.x)
    if not x.tensor.zero_padded and _may_exceed(x, function.x):
        x = run.masked(x)
    tensor = x.tensor
    value = evaluated(run, function, x, run.unit_of(node, function.bound), zeros=tensor.zero_padded)
    steepness = function.slope_at_zero * abs(x.unit / value.unit)
    magnified, middle = max(1.0, x.magnified * steepness) if tensor.zero_padded else 1.0, function.at_zero
    if not (middle and tensor.zero_padded):
        return replace(value, magnified=magnified)
    share, size = middle / value.unit, math.prod(node.shape)

    def entries() -> Any:
        return np.broadcast_to(share, size)

    key = ("polynomial", share)
    plains = [
        entries_plain(tensor, number, key, entries, abs(share), constant=True)
        for number in range(tensor.ciphertexts)
    ]
    cells = run.made("add", [value.cells], _added(lambda inputs: plains, 1.0))
    return replace(run.of(node.shape, tensor, cells, value.unit), magnified=magnified)


def _added(
    plains: Callable[[Inputs], list[Plain]], most: float = math.inf
) -> Callable[[RunContext, Handles], Handles]:
    """Ciphertexts and what is clear, of which no slot exceeds `most`."""

    def work(context: RunContext, cts: Handles) -> Handles:
        ev = context.slots
        return [
            ev.bounded(ev.add_plain(ct, plain), most)
            for ct, plain in zip(cts, plains(context.inputs), strict=True)
        ]

    return work


def _assumed(node: Expression) -> bool:
    """Whether a bound that a value is computed from was promised."""
    return any(current.op == "assume" for current in ordered(node))


def _may_exceed(value: Value, node: Expression) -> bool:
    """Whether slots without entries may hold more than the bound of the entries: it was promised of entries alone, or
    that of the slots is larger."""
    if _assumed(node):
        return True
    most = max(float(ct.bound) for ct in value.handles)
    return most * abs(value.unit) > node.bound * (1 + RANGE_TOLERANCE)


def window_of(node: Expression, image: TensorLayout | None = None) -> Window | None:
    """The window that slides over the input of a layer; None for a product with a vector.

    Args:
        image: layout of the input, which a product of images with a matrix sees all of.
    """
    if not node.product or len(node.shape) < 2:
        return node.window
    left, right = node.children
    if not left.secret:
        return Window((right.shape[0], 1, right.shape[1]), left.shape[0], (1, 1))
    if image is None:
        return None
    (channels, *sizes), images = image.shape, left.shape[0]
    shape = images, channels // images, *sizes
    return Window.of_images(shape, right.shape[1], (sizes[0], sizes[1]), (1, 1), (0, 0), 1)


def packing(node: Expression, slots: int, **options: Any) -> TensorLayout:
    """The layout of a secret operand; options as `contiguous`, or as `grid` where `row` is among them."""
    if "row" in options:
        return grid(tensor_shape(node.shape), slots, options)
    return contiguous(node.shape, slots, **options)


def relaid_layout(x: TensorLayout, options: dict[str, Any], images: int = 1) -> TensorLayout:
    """The layout that an input, of so many images, is brought into before a layer: see `grid`; or with channels in all
    gaps, in so many copies as "filled" says."""
    if "filled" in options:
        return gaps_filled(x, images).repeated(int(options["filled"]))
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
    middle = replace(source, row=target.row, col=target.col, segment=target.segment).with_zero_padding(True)
    return [middle, target]


def method_of(node: Expression, x: TensorLayout, choice: MethodChoice) -> LayerMethod:
    """The method that a choice names."""
    window = window_of(node, x)
    if window is not None:
        return build_conv(choice.method, x, window, choice.options)
    inner = node.children[0].shape[1]
    if math.prod(x.shape) != inner:
        raise ShapeError(
            "The vector has another number of entries than the matrix has columns.",
            expected=inner,
            got=math.prod(x.shape),
        )
    return build_matvec(choice.method, x, node.shape[0], choice.options)


def levels_behind(expression: Expression) -> dict[int, int]:
    """By the id of a node of a network, the fewest levels that are spent from its value to the results, if nothing is
    refreshed: those of products with weights, of polynomials, and of products of what is computed."""
    found = {id(expression): 0}
    for node in reversed(facts_of(expression).order):
        own = 0
        if isinstance(node, Polynomial) and node.secret:
            own = (node.degree - 1).bit_length()
        elif node.secret and (node.product or node.op == "conv2d"):
            own = 1
        for child in node.children:
            found[id(child)] = max(found.get(id(child), 0), found[id(node)] + own)
    return found


def least_levels(expression: Expression) -> int:
    """The fewest levels that a network spends from its operands to its results, if nothing is refreshed."""
    return max(levels_behind(expression).values())
