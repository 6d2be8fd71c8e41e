"""Interpreting an expression graph with any `Evaluator`: the one path that planning, checking and running share.

With a `Counter` it yields the counts, keys, feeds and memory of a plan; with `Clear` it checks the data movement;
with `Ckks` it computes. A matrix is a grid of equal blocks, each block a few ciphertexts in some `Layout`.

Slots hold entries in a unit of their own: an entry is unit · slot. Operands are in units of their bounds, so that
slots are near 1 whatever the range of the data, and multiplying by a number changes the unit alone.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from cipherblas.algorithms.product import multiply_grids
from cipherblas.algorithms.registry import build
from cipherblas.errors import ShapeError
from cipherblas.evaluators.base import MAX_ENCODED_BITS, MAX_SMALL_INTEGER, Evaluator
from cipherblas.expressions import Add, Expression, Leaf, MatMul, Multiply, Scale, ordered
from cipherblas.graph import Axes, products
from cipherblas.layouts.base import Layout, column_major
from cipherblas.layouts.blocks import grid_shape
from cipherblas.layouts.relayout import relayout

Cts = list[Any]  # ciphertexts, or plaintexts where the operand is clear

# A plan beyond these would be walked for hours; nothing of that size fits a machine.
MAX_BLOCKS, MAX_BLOCK_PRODUCTS = 1 << 16, 1 << 22
RANGE_MARGIN = 2.0**12  # ranges that differ by less share a unit, at the cost of so much of the modulus
MAX_SUM_BITS = 90.0  # log2 of the scale of a sum, for what decryption reads
SCALE_SLACK = 0.2  # of log2 of the usual scale, by which scales are off when nothing is done about it
UNIT_TOLERANCE = 2.0**-46  # relative difference of two units below which they are the same


@dataclass(frozen=True)
class Choice:
    """How one product of the program is computed: an algorithm's name and its options."""

    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class BlockedValue:
    """A matrix as a grid of blocks; `cells[i][j]` are the ciphertexts (or plaintexts) of block (i, j).

    Attributes:
        unit: an entry of the matrix is unit · slot; may be negative.
    """

    shape: tuple[int, int]
    layout: Layout
    cells: list[list[Cts]]
    secret: bool
    unit: float

    @property
    def grid(self) -> tuple[int, int]:
        return len(self.cells), len(self.cells[0])

    def first(self) -> Any:
        return self.cells[0][0][0]

    def mapped(self, function: Callable[[Any], Any]) -> BlockedValue:
        """The value with every ciphertext replaced."""
        cells = [[[function(ct) for ct in cell] for cell in row] for row in self.cells]
        return replace(self, cells=cells)

    def zipped(self, other: BlockedValue, function: Callable[[Any, Any], Any]) -> list[list[Cts]]:
        """function(ct, other's ct) for every ciphertext; both have the same layout and grid."""
        return [
            [[function(a, b) for a, b in zip(p, q, strict=True)] for p, q in zip(r, s, strict=True)]
            for r, s in zip(self.cells, other.cells, strict=True)
        ]


@dataclass(frozen=True)
class FeedSpec:
    """What the client sends for one use of an operand: how it is packed, at how many limbs, scale and unit.

    `public_key`: it may be encrypted with the public key.
    """

    name: str
    transposed: bool
    shape: tuple[int, int]
    layout: Layout
    grid: tuple[int, int]
    limbs: int
    scale: float
    unit: float
    public_key: bool = False

    @property
    def ciphertexts(self) -> int:
        return self.grid[0] * self.grid[1] * self.layout.ciphertexts

    @property
    def seeds(self) -> int:
        """Halves of ciphertexts that travel as a seed: none from the public key."""
        return 0 if self.public_key else self.ciphertexts

    def residue_bytes(self, n: int) -> int:
        """Bytes of the halves that travel as residues."""
        return (2 * self.ciphertexts - self.seeds) * self.limbs * n * 8

    @property
    def encoding_scale(self) -> float:
        """What an entry of the matrix is multiplied by to become a slot of the message."""
        return self.scale / self.unit

    def key(self) -> tuple[Any, ...]:
        return (
            *(self.name, self.transposed, self.layout.key, self.grid),
            *(self.limbs, self.scale, self.unit),
        )


class Feeds(Protocol):
    """Where the executor gets operands from: made up (planning), arrays (`Clear`) or ciphertexts (`Ckks`)."""

    def secret(self, spec: FeedSpec, bound: float) -> list[list[Cts]]:
        """The encrypted blocks of a secret operand, in its unit; no slot exceeds `bound`."""

    def public(self, node: Expression, layout: Layout, grid: tuple[int, int]) -> list[list[Cts]]:
        """The packed blocks (`Plain`s) of a part without secrets, in units of its bound."""


@dataclass(frozen=True)
class _Like:
    """Limbs, scale and unit that an operand is to be encrypted with."""

    limbs: int
    scale: float
    unit: float


class Execution:
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
        self.choices = {id(product): choice for product, choice in zip(products(node), choices, strict=True)}
        # Values that are used several times are kept until their last use.
        self._kept: dict[Any, BlockedValue] = {}
        self._uses = Tally(id(child) for current in ordered(node) for child in current.children)
        self._progress = progress
        self._done = 0
        self._total = sum(math.prod(self._grid_of(product)) for product in products(node))
        if self._total > MAX_BLOCK_PRODUCTS:
            raise ShapeError(
                "block products of a program", expected=f"at most {MAX_BLOCK_PRODUCTS}", got=self._total
            )

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

    def _value(self, node: Expression, want: Layout | None, like: _Like | None = None) -> BlockedValue:
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

    def _computed(self, node: Expression, want: Layout | None, like: _Like | None) -> BlockedValue:
        if isinstance(node, MatMul):
            return self._product(node)
        if isinstance(node, Scale):
            inner = None if like is None else replace(like, unit=abs(like.unit / node.factor))
            value = self._value(node.child, want, inner)
            return replace(value, unit=value.unit * node.factor)
        if isinstance(node, Add):
            return self._sum(node, want, like)
        assert isinstance(node, Multiply)
        return self._elementwise(node)

    def _dense(self, node: Expression) -> Layout:
        rows, cols = self.axes.of(node)
        return column_major(self.blocks[rows], self.blocks[cols], self.evaluator.slots)

    def _clear(self, node: Expression, layout: Layout) -> BlockedValue:
        grid = self._grid(node, layout)
        return BlockedValue(node.shape, layout, self.feeds.public(node, layout, grid), False, node.bound)

    def _grid(self, node: Expression, layout: Layout) -> tuple[int, int]:
        rows, cols = grid_shape(*node.shape, layout.rows, layout.cols)
        if rows * cols > MAX_BLOCKS:
            raise ShapeError("blocks of a matrix", expected=f"at most {MAX_BLOCKS}", got=rows * cols)
        return rows, cols

    def _fresh(self, node: Expression) -> _Like:
        """The usual way to encrypt an operand: all limbs, slots up to 1 at the scale of the parameters."""
        ev = self.evaluator
        return _Like(ev.top_limbs, 2.0**ev.params.scale_bits, node.bound)

    def _operand(self, node: Leaf, layout: Layout, like: _Like | None) -> BlockedValue:
        like = self._fresh(node) if like is None else like
        bound = layout.slot_bound(node.bound / like.unit)
        # Coefficients beyond what the client encodes: the rest of the scale is a factor that the server multiplies.
        excess = max(0, math.ceil(math.log2(like.scale * bound)) - MAX_ENCODED_BITS)
        grid = self._grid(node, layout)
        scale = like.scale / 2**excess
        spec = FeedSpec(
            *(node.name, node.transposed, node.shape, layout, grid),
            *(like.limbs, scale, like.unit, node.operand.public_key),
        )
        value = BlockedValue(node.shape, layout, self.feeds.secret(spec, bound), True, like.unit)
        return value.mapped(lambda ct: self._enlarged(ct, excess)) if excess else value

    def _enlarged(self, ct: Any, bits: int) -> Any:
        """The same slots at a scale 2^bits larger."""
        while bits > 0:
            factor = min(1 << bits, MAX_SMALL_INTEGER)
            ct = self.evaluator.absorb(self.evaluator.multiply_scalar(ct, factor), 1 / factor)
            bits -= factor.bit_length() - 1
        return ct

    def _sum(self, node: Add, want: Layout | None, like: _Like | None) -> BlockedValue:
        # Computed values decide layout, limbs, scale and unit, then the operand with the largest range.
        first, second = sorted(
            (node.left, node.right), key=lambda part: (part.packable, not part.secret, -part.bound)
        )
        x = self._value(first, want, like)
        if second.packable and not first.packable:
            x = self._with_room(x, second.bound)
        y = self._value(second, x.layout, _Like(x.first().limbs, x.first().scale, abs(x.unit)))
        if not y.secret:
            return self._sum_with_clear(x, y)
        return self._sum_of_secrets(x, self._relaid(y, x.layout))

    def _with_room(self, value: BlockedValue, bound: float) -> BlockedValue:
        """The value in units of a bound that is far larger than its own."""
        if bound <= RANGE_MARGIN * _true_bound(value):
            return value
        ev = self.evaluator
        factor, unit = abs(value.unit) / bound, math.copysign(bound, value.unit)
        value = replace(value.mapped(lambda ct: ev.absorb(ct, factor)), unit=unit)
        return self._shed(value, 2.0 ** min(2 * ev.params.scale_bits, MAX_SUM_BITS - ev.params.scale_bits))

    def _shed(self, value: BlockedValue, scale: float) -> BlockedValue:
        """The value rescaled as often as it keeps at least `scale`: more would crowd out the larger term of a sum."""
        ev = self.evaluator
        while value.first().limbs > 1 and value.first().scale >= scale * ev.params.q[value.first().limbs - 1]:
            value = value.mapped(ev.rescale)
        return value

    def _settled(self, value: BlockedValue) -> BlockedValue:
        """The value with a scale near a power of that of the parameters, so that rescaling leaves just one.

        Sums of terms with very different ranges have other scales.
        """
        if not value.secret:
            return value
        bits = self.evaluator.params.scale_bits
        powers = math.log2(value.first().scale) / bits
        if abs(powers - max(1, round(powers))) <= SCALE_SLACK:
            return value
        missing = math.ceil((max(1, math.ceil(powers)) - powers) * bits)
        return value.mapped(lambda ct: self._enlarged(ct, missing))

    def _sum_with_clear(self, x: BlockedValue, y: BlockedValue) -> BlockedValue:
        ratio = y.unit / x.unit
        cells = x.zipped(y, lambda ct, plain: self.evaluator.add_plain(ct, plain.times(ratio)))
        return replace(x, cells=cells)

    def _sum_of_secrets(self, x: BlockedValue, y: BlockedValue) -> BlockedValue:
        """Both in one unit: by a small integer factor, which keeps the scale, or by a change of the smaller's scale."""
        ev, ratio = self.evaluator, abs(y.unit / x.unit)
        negative = (x.unit < 0) != (y.unit < 0)
        if _is_integer(ratio):
            factor = round(ratio)
            y = y.mapped(lambda ct: ev.multiply_scalar(ct, factor)) if factor > 1 else y
            unit = x.unit
        elif _is_integer(1 / ratio):
            factor = round(1 / ratio)
            x = x.mapped(lambda ct: ev.multiply_scalar(ct, factor))
            unit = math.copysign(y.unit, x.unit)
        elif _true_bound(x) >= _true_bound(y):
            unit = x.unit
            y = self._shed(y.mapped(lambda ct: ev.absorb(ct, ratio)), x.first().scale)
        else:
            unit = math.copysign(y.unit, x.unit)
            x = self._shed(x.mapped(lambda ct: ev.absorb(ct, 1 / ratio)), y.first().scale)
        return replace(x, cells=x.zipped(y, ev.sub if negative else ev.add), unit=unit)

    def _elementwise(self, node: Multiply) -> BlockedValue:
        layout = self._dense(node)
        first, second = sorted((node.left, node.right), key=lambda part: (part.packable, not part.secret))
        x = self._factor(first, layout, None)
        y = self._factor(second, layout, x)
        cells = x.zipped(y, self._multiply)
        return BlockedValue(node.shape, layout, cells, True, x.unit * y.unit)

    def _multiply(self, a: Any, b: Any) -> Any:
        product = self.evaluator.multiply_sum([a], [b])
        return self.evaluator.relinearise(product) if product.components == 3 else product

    def _factor(self, node: Expression, layout: Layout, other: BlockedValue | None) -> BlockedValue:
        """The value of a factor in `layout`, ready to be multiplied, at the limbs of `other` where that is lower."""
        like = None
        if node.secret and node.packable:
            like = self._fresh(node)
            if other is not None and other.secret:
                like = replace(like, limbs=other.first().limbs)
        value = self._settled(self._relaid(self._value(node, layout, like), layout))
        return value.mapped(self.evaluator.ready) if value.secret else value

    def _relaid(self, value: BlockedValue, layout: Layout) -> BlockedValue:
        if value.layout.key == layout.key:
            return value
        if not value.secret:
            raise ShapeError("a clear value is packed once", expected=layout.key, got=value.layout.key)
        value = self._settled(value)
        cells = [
            [relayout(self.evaluator, cell, value.layout, layout) for cell in row] for row in value.cells
        ]
        return replace(value, layout=layout, cells=cells)

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
            left, right = (side.mapped(lambda ct: ev.drop(ct, limbs)) for side in (left, right))
        done = self._done

        def report(blocks: int, _: int) -> None:
            self._done = done + blocks
            if self._progress is not None:
                self._progress(self._done, self._total)

        cells = multiply_grids(ev, algorithm, left.cells, right.cells, report)
        return BlockedValue(node.shape, algorithm.out_layout, cells, True, left.unit * right.unit)


def _true_bound(value: BlockedValue) -> float:
    """Bound on the entries of the matrix itself."""
    return float(value.first().bound * abs(value.unit))


def _is_integer(value: float) -> bool:
    """Whether a ratio of units is a small integer."""
    return value <= RANGE_MARGIN and abs(value - round(value)) <= UNIT_TOLERANCE * value
