"""Programs of matrices as grids of equal blocks, each a few ciphertexts in some `Layout`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

from cipherblas.common.errors import FitError, ParameterError
from cipherblas.forms.blocks import grid_shape
from cipherblas.forms.convert.coefficients import Packing
from cipherblas.forms.convert.relayout import relayout
from cipherblas.forms.layouts import Layout, column_major, in_halves, real
from cipherblas.forms.slot_forms import SlotForm
from cipherblas.lang.curves import GATED
from cipherblas.lang.facts import facts_of, products
from cipherblas.lang.graph import axes_of
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.lang.operations import Leaf
from cipherblas.lang.polynomials import POLYNOMIAL
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.matmul.layout_preserving import LayoutPreserving
from cipherblas.methods.products import build
from cipherblas.runtime.executor import FORMS, Executor, Steps, computes
from cipherblas.runtime.graphs import product_graph
from cipherblas.runtime.polynomials import evaluated, polynomial_of
from cipherblas.runtime.positions import Positions, of_images, positions_of
from cipherblas.runtime.slots import ENTRYWISE, SlotEncryption, SlotRun, multiplied, unrelinearised
from cipherblas.runtime.values import MethodChoice, Value

# Of the budget of work, for each product of two blocks: counting does not walk them, but a run and `worst_error` do.
STEPS_PER_BLOCK_PRODUCT = 4
BLOCKS = "blocks"
WORTH_FILLING = (
    16  # times that a unit exceeds the bound of a value that is re-arranged, for which it is made smaller
)
LAYOUT_PRESERVING = LayoutPreserving.name  # of entrywise products in the layout of their first factor, too
FEATURES = "features"  # of products of clear matrices and blocks of one row, or of one column
COEFFICIENTS = "coefficients"  # of encrypted weights, many of which come in one ciphertext


class RequiredBlocks(NamedTuple):
    """The packing and encryption that a reader requires of an operand. A computed value keeps the layout, limbs, scale
    and unit of its computation."""

    layout: Layout | None = None
    encryption: SlotEncryption | None = None


class BlockRun(SlotRun):
    """Matrices in blocks; their lengths along each axis (see `Axes`) are among the decisions."""

    name: ClassVar[str] = BLOCKS

    def __init__(self, run: Executor) -> None:
        super().__init__(run)
        self.axes, self.lengths = axes_of(run.node), run.decisions.blocks
        self._beside_rows = len(run.decisions.every_form) > 1
        self._last = facts_of(run.node).last_products if run.decisions.unrelinearised else frozenset()
        if not self.axes.lengths.keys() <= self.lengths.keys():
            expected, got = ", ".join(self.axes.lengths), ", ".join(self.lengths) or "none"
            raise ParameterError("The decisions lack lengths of blocks.", expected=expected, got=got)

    def steps(self) -> int:
        """Products of blocks, and as a whole those of features; but none in place: the blocks of these are as their
        factor comes."""
        own = [node for node in products(self.run.node) if self.run.form_of(node) == self.name]
        cut = (node for node in own if self._method(node) not in (FEATURES, LAYOUT_PRESERVING))
        total = sum(math.prod(self._grid_of(product)) for product in cut)
        self.ev.spend(STEPS_PER_BLOCK_PRODUCT * total, "block products")
        return total + sum(self._method(node) == FEATURES for node in own)

    def _method(self, product: Expression) -> str | None:
        choice = self.run.choices.get(self.run.number[id(product)])
        return None if choice is None else choice.method

    @functools.cached_property
    def of_features(self) -> bool:
        """Whether products are those of features."""
        return any(choice.method == FEATURES for choice in self.run.choices.values())

    @functools.cached_property
    def positions(self) -> Positions:
        """Of images, which features have in slots."""
        found = positions_of(self.run.node) if self.of_features else None
        return found or Positions()

    @functools.cached_property
    def weights(self) -> frozenset[int]:
        """The encrypted matrices that products of features multiply samples by, by their ids."""
        own = (node for node in products(self.run.node) if self._method(node) == FEATURES)
        factors = ((node, self.sides(node)[1]) for node in own)
        return frozenset(id(weights) for node, weights in factors if weights.secret)

    def sides(self, product: Expression) -> tuple[Expression, Expression]:
        """Of a product of features the factor that holds samples, and that of weights."""
        left, right = product.children
        if left.secret and right.secret and self.positions.axis is not None:
            rows = self.positions.axis == 1
        else:
            names = self.axes.of(left)
            rows = right.secret and (not left.secret or {self.lengths[name] for name in names} == {1})
        return (right, left) if rows else (left, right)

    @functools.cached_property
    def _by_lines(self) -> bool:
        """Whether blocks of different samples never meet, from the operands to the results."""
        alone = len(self.run.decisions.every_form) == 1 and not self.run.refreshed
        return alone and all(self._method(node) == FEATURES for node in products(self.run.node))

    def _encrypted(
        self, node: Expression, form: SlotForm, shape: tuple[int, int], how: SlotEncryption
    ) -> Value:
        """As `SlotRun._encrypted`; of what holds samples, ranks share the blocks."""
        value, layout = super()._encrypted(node, form, shape, how), form.layout
        if id(node) in self.weights or not self._by_lines:  # weights, which all need
            return value
        axis = int(layout.rows == 1) if self.positions.axis is None else self.positions.axis
        cells = self.run.then(value.cells, lambda context, cells: context.slots.own_lines(cells, axis))
        return value.holding(cells)

    def collected(self, value: Value) -> Value:
        """As `FormRun.collected`."""
        if not self._by_lines:
            return value
        cells = self.run.perform(
            "collect", [value.cells], lambda context, cells: context.slots.collected(cells)
        )
        return value.holding(cells)

    def _grid_of(self, product: Expression) -> tuple[int, int, int]:
        left, right = product.children
        lengths = (left.shape[0], left.shape[1], right.shape[1])
        m, k, n = (-(-length // size) for length, size in zip(lengths, self.block(product), strict=True))
        return m, k, n

    def is_last(self, node: Expression) -> bool:
        """Whether a product entry by entry keeps three components."""
        return id(node) in self._last

    def block_of(self, node: Expression) -> tuple[int, int]:
        """Rows and columns of the blocks of a node."""
        rows, cols = self.axes.of(node)
        return self.lengths[rows], self.lengths[cols]

    def block(self, product: Expression) -> tuple[int, int, int]:
        """Rows, inner length and columns of the blocks of a product."""
        rows, inner = self.axes.of(product.children[0])
        return self.lengths[rows], self.lengths[inner], self.lengths[self.axes.of(product)[1]]

    def key(self, node: Expression, required: RequiredBlocks | None) -> Hashable:
        layout, encryption = required or RequiredBlocks()
        return (layout and layout.key, encryption) if node.packable else None

    def lasts(self, node: Expression) -> bool:
        return node.packable

    def dense(self, node: Expression) -> Layout:
        """A block of a node, column after column; where other values are by rows, as it would come from there."""
        if self._beside_rows:
            by_columns = self.wanted_by_columns.get(id(node), False)
            length = matrix_shape(node)[0 if by_columns else 1]
            return Packing.of_length(self.ev.params, length).layout(by_columns)
        rows, cols = (self.lengths[axis] for axis in self.axes.of(node))
        own = self.axes.of(node)[self.positions.axis or 0]
        if own in self.positions.images:
            return self._of_images(node)
        halved = self.of_features and self.modulus is not None and 1 in (rows, cols)
        lay = in_halves if halved or self.run.decisions.halves else column_major
        return lay(rows, cols, self.ev.slots)

    def _of_images(self, node: Expression) -> Layout:
        """A block of images, of features whose positions are in slots."""
        axis, each = self.positions.axis or 0, self.positions.each
        lengths = self.block_of(node)
        modular = self.modulus is not None
        return of_images(lengths[axis], lengths[1 - axis], each, axis, self.ev.slots, modular)

    @functools.cached_property
    def wanted_by_columns(self) -> dict[int, bool]:
        """How products by rows want what they are made of, by the id of a node: their left factor by columns."""
        wanted: dict[int, bool] = {}
        for node in reversed(self.run.order):
            by_rows = node.product and self.run.form_of(node) != self.name
            for child in node.children:
                if by_rows:
                    wanted.setdefault(id(child), child is node.children[0])
                elif id(node) in wanted and not node.product:
                    wanted.setdefault(id(child), wanted[id(node)])
        return wanted

    def form(self, node: Expression, layout: Layout) -> SlotForm:
        """The grid of a node in blocks of a layout."""
        rows, cols = grid_shape(*matrix_shape(node), layout.rows, layout.cols)
        self.ev.spend(rows * cols * layout.ciphertexts, "blocks of a matrix")
        return SlotForm(layout, (rows, cols))

    def clear(self, node: Expression, required: RequiredBlocks | None) -> Value:
        layout = (required or RequiredBlocks()).layout or self.dense(node)
        form = self.form(node, layout)
        grid, unit = form.grid, node.bound if self.modulus is None else 1.0
        cells = self.run.perform("pack", (), lambda context: context.inputs.blocks(node, layout, grid, unit))
        return Value(node.shape, form, cells, unit, secret=False)

    def adds_repeated(self, node: Leaf) -> bool:
        """Sums of products along a repeated axis add them up, and what has axes of its own may."""
        repeated = {axis for axis, one in zip(self.axes.of(node), node.repeated, strict=True) if one}
        others = (one for one in self.run.order if one.secret and one.children and one.op not in ENTRYWISE)
        return any(not one.product or self.axes.of(one.children[0])[1] in repeated for one in others)

    def factor(self, node: Expression, layout: Layout, other: Value | None) -> Steps[Value]:
        """The value of a factor in `layout`, ready to be multiplied, at the limbs of `other` where that is lower."""
        encryption = None
        if node.secret and node.packable:
            encryption = self.usual(node)
            if other is not None and other.secret:
                encryption = encryption._replace(limbs=other.first().limbs)
        value = yield from self.read(node, RequiredBlocks(layout, encryption))
        return self.rescaled(self.relaid(value, layout, node.bound))

    def relaid(self, value: Value, layout: Layout, bound: float) -> Value:
        """The value in another layout; no entry exceeds `bound`, and where slots hold nothing else, no slot does."""
        source = value.layout
        if source.equals(layout):
            return value
        if not value.secret:
            raise FitError(
                "A clear value is packed once and cannot be re-arranged.", expected=layout.key, got=source.key
            )
        if (source.rows, source.cols) != (layout.rows, layout.cols):  # as they may come from rows
            raise FitError(
                "A value cannot be re-arranged into blocks of other lengths.",
                expected=f"{layout.rows}×{layout.cols}",
                got=f"{source.rows}×{source.cols}",
            )
        value = self.normalised(value)
        moved = self.blockwise("re-arrange", value, lambda ev, cts: relayout(ev, cts, source, layout))
        moved = self.laid(value.shape, SlotForm(layout, value.slots.grid), moved.cells, value.unit)
        return self.filled(self.bounded(moved, bound), bound, WORTH_FILLING)

    def filled(self, value: Value, bound: float, least: int = 2) -> Value:
        """As `filling`, where no slot holds anything but entries."""
        layout = value.layout
        if layout.open or layout.slot_bound(1.0) != 1.0:
            return value
        return self.filling(value, bound, least)

    def bounded(self, value: Value, bound: float) -> Value:
        """The value; no entry exceeds `bound`, and where slots hold nothing else, no slot does."""
        layout = value.layout
        if layout.open:
            return value
        largest = layout.slot_bound(bound / abs(value.unit))
        return self.mapped("bound", value, lambda ev, ct: ev.bounded(ct, largest))

    def factors(self, node: Expression, algorithm: Algorithm) -> Steps[tuple[Value, Value]]:
        """Both factors of a product, at the same limbs."""
        first, second = node.children
        if first.packable and not second.packable:
            right = yield from self.factor(second, algorithm.right_layout, None)
            left = yield from self.factor(first, algorithm.left_layout, right)
        else:
            left = yield from self.factor(first, algorithm.left_layout, None)
            right = yield from self.factor(second, algorithm.right_layout, left)
        if left.secret and right.secret:
            limbs = min(left.first().limbs, right.first().limbs)
            left, right = self.lowered_to(left, limbs), self.lowered_to(right, limbs)
        return left, right


FORMS[BLOCKS] = BlockRun


def in_place(layout: Layout) -> Layout | None:
    """A layout with the same places in which values can be multiplied entrywise, or None where there is none."""
    return None if layout.complex_packing else real(layout)


@computes(BLOCKS, "operand", "view")
def operand(run: BlockRun, node: Expression, required: RequiredBlocks | None) -> Value:
    """A secret matrix."""
    choice = run.run.choice_or_none(node) if run.of_features else None
    if choice is not None:
        return BLOCK_OPERANDS[choice.method](run, node, choice, required or RequiredBlocks())
    layout, encryption = required or RequiredBlocks()
    return run.operand(node, run.form(node, layout or run.dense(node)), matrix_shape(node), encryption)


@computes(BLOCKS, "scale")
def scale(run: BlockRun, node: Expression, required: RequiredBlocks | None) -> Steps[Value]:
    """A number changes the unit alone."""
    layout, encryption = required or RequiredBlocks()
    if run.modulus is not None:
        value = yield from run.read(node.children[0], required)
        number = node.parameters["factor"]
        return run.mapped("multiply by a number", value, lambda ev, ct: ev.multiply_scalar(ct, number))
    factor = node.gain(0)
    if encryption is not None:
        encryption = encryption._replace(unit=abs(encryption.unit / factor))
    value = yield from run.read(node.children[0], RequiredBlocks(layout, encryption))
    return replace(value, unit=value.unit * math.copysign(factor, node.parameters["factor"]))


@computes(BLOCKS, "truncated")
def same(run: BlockRun, node: Expression, required: RequiredBlocks | None) -> Steps[Value]:
    """The same value."""
    return (yield from run.read(node.children[0], required))


@computes(BLOCKS, "assume")
def assume(run: BlockRun, node: Expression, required: RequiredBlocks | None) -> Steps[Value]:
    """The same value. The bound is one of entries: it serves where no slot holds anything else, here or later."""
    value = run.promised(node, (yield from run.read(node.children[0], required)))
    return run.filled(run.bounded(value, node.bound), node.bound)


@computes(BLOCKS, "add")
def add(run: BlockRun, node: Expression, required: RequiredBlocks | None) -> Steps[Value]:
    """Computed values decide layout, limbs, scale and unit, then the operand with the largest range."""
    first, second = sorted(node.children, key=lambda part: (part.packable, not part.secret, -part.bound))
    x = yield from run.read(first, required)
    if second.packable and not first.packable:
        x = run.with_headroom(x, second.bound)
    y = yield from run.read(
        second, RequiredBlocks(x.layout, SlotEncryption(x.first().limbs, x.first().scale, abs(x.unit)))
    )
    if y.secret:
        return run.sum_of_secrets(x, run.relaid(y, x.layout, second.bound))
    ratio = y.unit / x.unit
    return run.zipped("add", x, y, lambda ev, ct, plain: ev.add_plain(ct, plain.times(ratio)))


@computes(BLOCKS, "multiply")
def multiply(run: BlockRun, node: Expression, required: RequiredBlocks | None) -> Steps[Value]:
    """The entrywise product, column after column; or, where that was chosen, as its first computed factor lies."""
    first, second = sorted(node.children, key=lambda part: (part.packable, not part.secret))
    choice = run.run.choice_or_none(node)
    if choice is None:
        x = yield from run.factor(first, run.dense(node), None)
    else:
        x = yield from run.read(first)
        layout = in_place(x.layout) if choice.method == LAYOUT_PRESERVING and not first.packable else None
        if layout is None:
            raise ParameterError(
                f"The method of {node.title} does not fit its factors.", expected="none", got=choice.method
            )
        x = run.rescaled(run.relaid(x, layout, first.bound))
    if second is first:
        y = x
        if not run.lasts(first):
            yield from run.read(second)  # which it is kept for
    else:
        y = yield from run.factor(second, x.layout, x)
    streamed = []
    if run.is_last(node) and second is not first:  # each ciphertext is taken once
        streamed = [run.run.may_stream(*factor) for factor in ((first, x), (second, y))]
    product = run.zipped("multiply", x, y, unrelinearised if run.is_last(node) else multiplied, streamed)
    return run.laid(node.shape, x.slots, product.cells, x.unit * y.unit)


@computes(BLOCKS, GATED)
def gated(run: BlockRun, node: Expression, required: RequiredBlocks | None) -> Steps[Value]:
    """As `multiply`."""
    return (yield from run.gated(node, lambda: multiply(run, node, required)))


@computes(BLOCKS, POLYNOMIAL)
def polynomial(run: BlockRun, node: Expression, required: RequiredBlocks | None) -> Steps[Value]:
    """The polynomial of every entry, where its argument lies if slots without entries hold nothing there."""
    function = polynomial_of(node)
    argument = function.x
    if argument.packable:
        usual = run.usual(argument)._replace(unit=function.reach)
        x = yield from run.read(argument, RequiredBlocks(run.dense(argument), usual))
    else:
        x = yield from run.read(argument)
        layout = in_place(x.layout)
        if layout is None or layout.empty_garbage:
            layout = run.dense(argument)
        x = run.relaid(x, layout, argument.bound)
    value = evaluated(run, function, x, function.bound, zeros=True)
    if not function.at_zero:
        return value
    number = function.at_zero / value.unit
    how = number, matrix_shape(node), value.layout, value.slots.grid
    cells = run.run.perform("pack", (), lambda context: context.inputs.filled(*how))
    entries = Value(node.shape, value.form, cells, value.unit, secret=False)
    return run.zipped(
        *("add", value, entries), lambda ev, ct, plain: ev.bounded(ev.add_plain(ct, plain), 1.0)
    )


@computes(BLOCKS, "matmul")
def matmul(run: BlockRun, node: Expression, required: RequiredBlocks | None) -> Steps[Value]:
    """The algorithm that was chosen, on grids of blocks."""
    return (yield from run.contracted(node, lambda: _multiplied(run, node)))


def _multiplied(run: BlockRun, node: Expression) -> Steps[Value]:
    choice = run.run.choice(node)
    if choice.method in BLOCK_PRODUCTS:
        return (yield from BLOCK_PRODUCTS[choice.method](run, node))
    algorithm = build(choice.method, *run.block(node), run.ev.slots, choice.options)
    left, right = yield from run.factors(node, algorithm)
    products = right.slots.grid[1], left.slots.grid[0]  # that a block of the left, or of the right one, is in
    streamed = [
        once and number == 1 and left.secret and right.secret and run.run.may_stream(child, value)
        for child, value, once, number in zip(
            node.children, (left, right), algorithm.streamed, products, strict=True
        )
    ]
    return _product(run, node, algorithm, left, right, streamed=streamed)


def _layout_preserving_product(run: BlockRun, node: Expression) -> Steps[Value]:
    """A computed factor stays where it lies, and the product lies there too."""
    left, right = node.children
    secret, clear = (left, right) if left.secret else (right, left)
    if clear.secret or secret.packable:
        raise ParameterError(
            f"The method of {node.title} does not fit its factors.",
            expected="a computed factor and a clear one",
            got=node.title,
        )
    x = run.rescaled((yield from run.read(secret)))
    algorithm = layout_preserving_product(x.layout, node)
    layout = algorithm.left_layout if clear is left else algorithm.right_layout
    y = yield from run.read(clear, RequiredBlocks(layout))
    product = _product(run, node, algorithm, *((y, x) if clear is left else (x, y)), ticked=False)
    return run.bounded(product, node.bound)


# By method, what makes the blocks of an operand that comes otherwise.
BLOCK_OPERANDS: dict[str, Callable[[BlockRun, Expression, MethodChoice, RequiredBlocks], Value]] = {}
# By method, products that are no algorithm on pairs of blocks.
BLOCK_PRODUCTS: dict[str, Callable[[BlockRun, Expression], Steps[Value]]] = {
    LAYOUT_PRESERVING: _layout_preserving_product
}


def layout_preserving_product(lies: Layout, node: Expression) -> LayoutPreserving:
    """The product of a clear matrix and a value that lies so."""
    left, right = node.children
    clear_left = not left.secret
    rows, cols = matrix_shape(left if clear_left else right)
    return LayoutPreserving(lies, clear_left, *((cols, rows) if clear_left else (rows, cols)))


def _product(
    run: BlockRun,
    node: Expression,
    algorithm: Algorithm,
    left: Value,
    right: Value,
    ticked: bool = True,
    streamed: Sequence[bool] = (False, False),
) -> Value:
    """`streamed`: the ciphertexts of which factors need not stay."""
    graph = product_graph(algorithm, left.slots.grid, right.slots.grid)
    form = SlotForm(algorithm.out_layout, graph.results[0].shape)
    cells = run.done("multiply", graph, left.cells, right.cells, ticked=ticked, streamed=streamed)
    return run.laid(node.shape, form, cells, left.unit * right.unit)
