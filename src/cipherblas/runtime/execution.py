"""Interpreting an expression graph with any `Evaluator`: the one path that planning, checking and running share.

With a `Counter` it yields the counts, keys, feeds and memory of a plan; with `Clear` it checks the data movement;
with `Ckks` it computes. A matrix is a grid of equal blocks, each block a few ciphertexts in some `Layout`.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.forms.blocks import grid_shape
from cipherblas.forms.convert.relayout import relayout
from cipherblas.forms.layouts import Layout, column_major
from cipherblas.lang.graph import Axes, products
from cipherblas.lang.layers import Assume, Truncated
from cipherblas.lang.nodes import Expression, matrix_shape, ordered
from cipherblas.lang.operations import Add, Leaf, MatMul, Multiply, Scale
from cipherblas.methods.matmul.product import multiply_grids
from cipherblas.methods.matmul.registry import build
from cipherblas.runtime.slot_arithmetic import BlockedValue, Choice, Feeds, Like, SlotArithmetic

# Of the budget of work, for each product of two blocks: counting does not walk them, but a run does.
STEPS_PER_BLOCK_PRODUCT = 4


class Execution(SlotArithmetic):
    """One run of a program: `Execution(...).run(node)`.

    `choices` names the algorithm of each product in the order of `products(node)`; `blocks` gives the block
    length along each axis (see `Axes`); `progress(done, total)` is called after every block product.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        node: Expression,
        choices: Sequence[Choice],
        blocks: Mapping[str, int],
        feeds: Feeds,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.evaluator, self.node, self.feeds = evaluator, node, feeds
        self.axes = Axes(node)
        self.blocks = blocks
        if not self.axes.lengths.keys() <= blocks.keys():
            raise ParameterError(
                "block lengths", expected=", ".join(self.axes.lengths), got=", ".join(blocks) or "none"
            )
        if len(choices) != len(products(node)):
            raise ParameterError("choices of algorithms", expected=len(products(node)), got=len(choices))
        self.choices = {id(product): choice for product, choice in zip(products(node), choices, strict=True)}
        # Values that are used several times are kept until their last use.
        self._kept: dict[Any, BlockedValue] = {}
        self._uses = Tally(id(child) for current in ordered(node) for child in current.children)
        self._progress = progress
        self._done = 0
        self._total = sum(math.prod(self._grid_of(product)) for product in products(node))
        evaluator.spend(STEPS_PER_BLOCK_PRODUCT * self._total, "block products")

    def run(self) -> BlockedValue:
        """Execute the whole graph and return its (still encrypted) value."""
        return self._value(self.node, None)

    def _grid_of(self, product: MatMul) -> tuple[int, int, int]:
        sizes = self._block_sizes(product)
        lengths = (product.shape[0], product.left.shape[1], product.shape[1])
        m, k, n = (-(-length // size) for length, size in zip(lengths, sizes, strict=True))
        return m, k, n

    def _block_sizes(self, product: MatMul) -> tuple[int, int, int]:
        rows, inner = self.axes.of(product.left)
        return self.blocks[rows], self.blocks[inner], self.blocks[self.axes.of(product)[1]]

    # --- nodes -----------------------------------------------------------------------------------------------

    def _value(self, node: Expression, want: Layout | None, like: Like | None = None) -> BlockedValue:
        """The value of `node`. Operands are packed as `want` and encrypted as `like`, where these are given; a
        computed value keeps the layout, limbs, scale and unit that its computation leaves it in."""
        if not node.secret:
            return self._clear(node, want or self._dense(node))
        if isinstance(node, Leaf):
            return self._operand(node, want or self._dense(node), like)
        if node.packable:
            key = (id(node), want and want.key, like)
            if self._uses[id(node)] < 2:
                return self._computed(node, want, like)
            if key not in self._kept:
                self._kept[key] = self._computed(node, want, like)
            return self._kept[key]
        value = self._kept.pop(id(node), None) or self._computed(node, want, like)
        self._uses[id(node)] -= 1
        if self._uses[id(node)] > 0:
            self._kept[id(node)] = value
        return value

    def _computed(self, node: Expression, want: Layout | None, like: Like | None) -> BlockedValue:
        if isinstance(node, MatMul):
            return self._product(node)
        if isinstance(node, Scale):
            inner = None if like is None else replace(like, unit=abs(like.unit / node.factor))
            value = self._value(node.child, want, inner)
            return replace(value, unit=value.unit * node.factor)
        if isinstance(node, Add):
            return self._sum(node, want, like)
        # Their bound is that of entries alone: it serves where garbage is gone.
        if isinstance(node, (Assume, Truncated)):
            return self._value(node.x, want, like)
        assert isinstance(node, Multiply)
        return self._elementwise(node)

    def _dense(self, node: Expression) -> Layout:
        rows, cols = self.axes.of(node)
        return column_major(self.blocks[rows], self.blocks[cols], self.evaluator.slots)

    def _clear(self, node: Expression, layout: Layout) -> BlockedValue:
        grid = self._grid(node, layout)
        return BlockedValue(node.shape, layout, self.feeds.public(node, layout, grid), False, node.bound)

    def _grid(self, node: Expression, layout: Layout) -> tuple[int, int]:
        rows, cols = grid_shape(*matrix_shape(node), layout.rows, layout.cols)
        self.evaluator.spend(rows * cols * layout.ciphertexts, "blocks of a matrix")
        return rows, cols

    def _operand(self, node: Leaf, layout: Layout, like: Like | None) -> BlockedValue:
        return self._fed(node, layout, self._grid(node, layout), node.shape, like)

    def _sum(self, node: Add, want: Layout | None, like: Like | None) -> BlockedValue:
        # Computed values decide layout, limbs, scale and unit, then the operand with the largest range.
        first, second = sorted(
            (node.left, node.right), key=lambda part: (part.packable, not part.secret, -part.bound)
        )
        x = self._value(first, want, like)
        if second.packable and not first.packable:
            x = self._with_room(x, second.bound)
        y = self._value(second, x.layout, Like(x.first().limbs, x.first().scale, abs(x.unit)))
        if not y.secret:
            return self._sum_with_clear(x, y)
        return self._sum_of_secrets(x, self._relaid(y, x.layout, second.bound))

    def _elementwise(self, node: Multiply) -> BlockedValue:
        layout = self._dense(node)
        first, second = sorted((node.left, node.right), key=lambda part: (part.packable, not part.secret))
        x = self._factor(first, layout, None)
        y = self._factor(second, layout, x)
        cells = x.zipped(self.evaluator, y, self._multiply)
        return BlockedValue(node.shape, layout, cells, True, x.unit * y.unit)

    def _factor(self, node: Expression, layout: Layout, other: BlockedValue | None) -> BlockedValue:
        """The value of a factor in `layout`, ready to be multiplied, at the limbs of `other` where that is lower."""
        like = None
        if node.secret and node.packable:
            like = self._fresh(node)
            if other is not None and other.secret:
                like = replace(like, limbs=other.first().limbs)
        value = self._settled(self._relaid(self._value(node, layout, like), layout, node.bound))
        return value.mapped(self.evaluator, self.evaluator.ready) if value.secret else value

    def _relaid(self, value: BlockedValue, layout: Layout, bound: float) -> BlockedValue:
        """The value in another layout; no entry exceeds `bound`, and where slots hold nothing else, no slot does."""
        if value.layout.key == layout.key:
            return value
        if not value.secret:
            raise ShapeError("a clear value is packed once", expected=layout.key, got=value.layout.key)
        ev, value = self.evaluator, self._settled(value)
        cells = value.blocks(ev, lambda i, j: relayout(ev, value.cells[i][j], value.layout, layout))
        value = replace(value, layout=layout, cells=cells)
        if layout.imaginary_garbage or layout.empty_garbage:
            return value
        largest = layout.slot_bound(bound / abs(value.unit))
        return value.mapped(ev, lambda ct: ev.bounded(ct, largest))

    def _product(self, node: MatMul) -> BlockedValue:
        ev = self.evaluator
        choice = self.choices[id(node)]
        algorithm = build(choice.algorithm, *self._block_sizes(node), ev.slots, choice.options)
        if node.left.packable and not node.right.packable:
            right = self._factor(node.right, algorithm.right_layout, None)
            left = self._factor(node.left, algorithm.left_layout, right)
        else:
            left = self._factor(node.left, algorithm.left_layout, None)
            right = self._factor(node.right, algorithm.right_layout, left)
        if left.secret and right.secret:
            limbs = min(left.first().limbs, right.first().limbs)
            left, right = (side.mapped(ev, lambda ct: ev.drop(ct, limbs)) for side in (left, right))
        done = self._done

        def report(blocks: int, _: int) -> None:
            self._done = done + blocks
            if self._progress is not None:
                self._progress(self._done, self._total)

        cells = multiply_grids(ev, algorithm, left.cells, right.cells, report)
        return BlockedValue(node.shape, algorithm.out_layout, cells, True, left.unit * right.unit)
