"""Interpreting an expression graph with any `Evaluator`: the one path that planning, checking and running share.

With a `Counter` it yields the counts, keys, feeds and memory of a plan; with `Clear` it checks the data movement;
with `Ckks` it computes. A matrix is a grid of equal blocks, each block a few ciphertexts in some `Layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cipherblas.algorithms.base import Algorithm
from cipherblas.algorithms.registry import build
from cipherblas.errors import ShapeError
from cipherblas.evaluators.base import Evaluator, is_small_integer
from cipherblas.evaluators.values import Ct, Plain
from cipherblas.expressions import Add, Constant, Expression, Leaf, MatMul, Multiply, Scale
from cipherblas.layouts.base import Layout, column_major
from cipherblas.layouts.blocks import grid_shape
from cipherblas.layouts.relayout import relayout

Cts = list[Any]  # ciphertexts, or plaintexts where the operand is clear


@dataclass(frozen=True)
class Choice:
    """How one product of the program is computed: an algorithm's name and its options."""

    algorithm: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class BlockedValue:
    """A matrix as a grid of blocks; `cells[i][j]` are the ciphertexts (or plaintexts) of block (i, j)."""

    shape: tuple[int, int]
    layout: Layout
    cells: list[list[Cts]]
    secret: bool

    @property
    def grid(self) -> tuple[int, int]:
        return len(self.cells), len(self.cells[0])

    def first(self) -> Any:
        return self.cells[0][0][0]


@dataclass(frozen=True)
class FeedSpec:
    """What the client sends for one use of an operand: how it is packed, at how many limbs and which scale."""

    name: str
    transposed: bool
    shape: tuple[int, int]
    layout: Layout
    grid: tuple[int, int]
    limbs: int
    scale: float

    @property
    def ciphertexts(self) -> int:
        return self.grid[0] * self.grid[1] * self.layout.ciphertexts

    def key(self) -> tuple[Any, ...]:
        return (self.name, self.transposed, self.layout.key, self.grid, self.limbs, self.scale)


class Feeds(Protocol):
    """Where the executor gets operands from: made up (planning), arrays (`Clear`) or ciphertexts (`Ckks`)."""

    def secret(self, spec: FeedSpec, bound: float) -> list[list[Cts]]:
        """The encrypted blocks of a secret operand."""

    def public(self, leaf: Leaf | Constant, layout: Layout, grid: tuple[int, int]) -> list[list[Cts]]:
        """The packed blocks (`Plain`s) of a clear operand."""


@dataclass(frozen=True)
class _Like:
    """Limbs and scale that an operand is to be encrypted with."""

    limbs: int
    scale: float


class Execution:
    """One run of a program: `Execution(...).run(node)`.

    `choices` names the algorithm of each product in the order of `products(node)`; `blocks` gives the block
    length along each axis (see `Axes`); `progress(done, total)` is called after every block operation.
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
        self._values: dict[int, BlockedValue] = {}
        self._progress = progress
        self._done = 0
        self._total = sum(self._steps(product) for product in products(node))

    def run(self) -> BlockedValue:
        """Execute the whole graph and return its (still encrypted) value."""
        return self._value(self.node, None)

    def _tick(self, steps: int = 1) -> None:
        self._done += steps
        if self._progress is not None:
            self._progress(self._done, self._total)

    def _steps(self, product: MatMul) -> int:
        m, k, n = self._grid_of(product)
        return k * (m + n) + m * k * n + m * n

    def _grid_of(self, product: MatMul) -> tuple[int, int, int]:
        sizes = self._block_sizes(product)
        lengths = (product.shape[0], product.left.shape[1], product.shape[1])
        m, k, n = (-(-length // size) for length, size in zip(lengths, sizes, strict=True))
        return m, k, n

    def _block_sizes(self, product: MatMul) -> tuple[int, int, int]:
        rows, inner = self.axes.of(product.left)
        return self.blocks[rows], self.blocks[inner], self.blocks[self.axes.of(product)[1]]

    # --- nodes -----------------------------------------------------------------------------------------------

    def _value(self, node: Expression, want: Layout | None, like: Ct | _Like | None = None) -> BlockedValue:
        """The value of `node`. Operands are packed as `want` and encrypted to match `like`, where these are given;
        a computed value keeps the layout that its algorithm leaves it in."""
        if isinstance(node, (Leaf, Constant)):
            return self._operand(node, want or self._dense(node), like)
        if isinstance(node, MatMul):
            if id(node) not in self._values:
                self._values[id(node)] = self._product(node)
            return self._values[id(node)]
        if isinstance(node, Scale):
            return self._scaled(node, want, like)
        if isinstance(node, Add):
            return self._sum(node, want, like)
        assert isinstance(node, Multiply)
        return self._elementwise(node)

    def _dense(self, node: Expression) -> Layout:
        rows, cols = self.axes.of(node)
        return column_major(self.blocks[rows], self.blocks[cols], self.evaluator.slots)

    def _operand(self, node: Leaf | Constant, layout: Layout, like: Ct | _Like | None) -> BlockedValue:
        grid = grid_shape(*node.shape, layout.rows, layout.cols)
        if isinstance(node, Constant) or not node.secret:
            return BlockedValue(node.shape, layout, self.feeds.public(node, layout, grid), secret=False)
        # Every secret operand is encrypted so that its coefficients are near 2^scale_bits whatever its range,
        # or so that it can be added to `like` without any work on the server.
        scale = like.scale if like is not None else 2.0**self.evaluator.params.scale_bits / node.bound
        limbs = like.limbs if like is not None else self.evaluator.top_limbs
        spec = FeedSpec(node.name, node.transposed, node.shape, layout, grid, limbs, scale)
        return BlockedValue(node.shape, layout, self.feeds.secret(spec, node.bound), secret=True)

    def _scaled(self, node: Scale, want: Layout | None, like: Ct | _Like | None) -> BlockedValue:
        if like is not None and not is_small_integer(node.factor):
            # Such a factor is a matter of scale: the operand is encrypted so that the product comes out like `like`.
            like = _Like(like.limbs, like.scale * abs(node.factor))
        value = self._value(node.child, want, like)
        return _mapped(value, lambda ct: self.evaluator.multiply_scalar(ct, node.factor))

    def _sum(self, node: Add, want: Layout | None, like: Ct | _Like | None) -> BlockedValue:
        first, second = sorted((node.left, node.right), key=_is_operand)  # computed values decide the layout
        x = self._value(first, want, like)
        y = self._value(second, x.layout, x.first() if x.secret else like)
        y = self._relaid(y, x.layout)
        cells = [
            [[self._add(a, b) for a, b in zip(p, q, strict=True)] for p, q in zip(r, s, strict=True)]
            for r, s in zip(x.cells, y.cells, strict=True)
        ]
        return BlockedValue(node.shape, x.layout, cells, node.secret)

    def _add(self, a: Any, b: Any) -> Any:
        if isinstance(a, Plain) and not isinstance(b, Plain):
            a, b = b, a
        if isinstance(b, Plain):
            return self.evaluator.add_plain(a, b)
        return self.evaluator.add(*self.evaluator.align(a, b))

    def _elementwise(self, node: Multiply) -> BlockedValue:
        layout = self._dense(node)
        first, second = sorted((node.left, node.right), key=_is_operand)
        x = self._factor(first, layout, None)
        y = self._factor(second, layout, x)
        cells = [
            [[self._multiply(a, b) for a, b in zip(p, q, strict=True)] for p, q in zip(r, s, strict=True)]
            for r, s in zip(x.cells, y.cells, strict=True)
        ]
        return BlockedValue(node.shape, layout, cells, node.secret)

    def _multiply(self, a: Any, b: Any) -> Any:
        product = self.evaluator.multiply_sum([a], [b])
        return self.evaluator.relinearise(product) if product.components == 3 else product

    def _factor(self, node: Expression, layout: Layout, other: BlockedValue | None) -> BlockedValue:
        """The value of a factor in `layout`, ready to be multiplied, at the limbs of `other` where that is lower."""
        like = None
        if other is not None and other.secret and isinstance(node, Leaf) and node.secret:
            scale = 2.0**self.evaluator.params.scale_bits / node.bound
            like = _Like(other.first().limbs, scale)
        value = self._relaid(self._value(node, layout, like), layout)
        if not value.secret:
            return value
        return _mapped(value, self.evaluator.ready)

    def _relaid(self, value: BlockedValue, layout: Layout) -> BlockedValue:
        if value.layout.key == layout.key:
            return value
        if not value.secret:
            raise ShapeError(
                "a clear intermediate cannot change its layout", expected=layout.key, got=value.layout.key
            )
        cells = [
            [relayout(self.evaluator, cell, value.layout, layout) for cell in row] for row in value.cells
        ]
        return BlockedValue(value.shape, layout, cells, value.secret)

    def _product(self, node: MatMul) -> BlockedValue:
        ev = self.evaluator
        choice = self.choices[id(node)]
        bm, bk, bn = self._block_sizes(node)
        algorithm = build(choice.algorithm, bm, bk, bn, ev.slots, choice.options)
        if _is_operand(node.left) and not _is_operand(node.right):
            right = self._factor(node.right, algorithm.right_layout, None)
            left = self._factor(node.left, algorithm.left_layout, right)
        else:
            left = self._factor(node.left, algorithm.left_layout, None)
            right = self._factor(node.right, algorithm.right_layout, left)
        left, right = self._levelled(left, right)
        cells = self._blocked_product(algorithm, left.cells, right.cells)
        return BlockedValue(node.shape, algorithm.out_layout, cells, node.secret)

    def _blocked_product(
        self, algorithm: Algorithm, left: list[list[Cts]], right: list[list[Cts]]
    ) -> list[list[Cts]]:
        """Every block is prepared once and serves all its products; sums run over k before relinearisation."""
        ev, m, n = self.evaluator, len(left), len(right[0])
        sums: list[list[Any]] = [[None] * n for _ in range(m)]
        for t in range(len(right)):
            if m == n == 1:
                sums[0][0] = algorithm.multiply_once(ev, left[0][t], right[t][0], sums[0][0])
                self._tick(3)
                continue
            lefts = [self._prepared(algorithm.prepare_left, left[i][t]) for i in range(m)]
            rights = [self._prepared(algorithm.prepare_right, right[t][j]) for j in range(n)]
            for i in range(m):
                for j in range(n):
                    sums[i][j] = algorithm.multiply(ev, lefts[i], rights[j], sums[i][j])
                    self._tick()
        cells: list[list[Cts]] = []
        for row in sums:
            cells.append([])
            for j in range(n):
                cells[-1].append(algorithm.finish(ev, row[j]))
                row[j] = None  # the accumulators are large: let each go as soon as it is closed
                self._tick()
        return cells

    def _prepared(self, prepare: Callable[[Evaluator, Cts], list[Any]], cts: Cts) -> list[Any]:
        prepared = prepare(self.evaluator, cts)
        self._tick()
        return prepared

    def _levelled(self, left: BlockedValue, right: BlockedValue) -> tuple[BlockedValue, BlockedValue]:
        if not (left.secret and right.secret):
            return left, right
        limbs = min(left.first().limbs, right.first().limbs)

        def lower(value: BlockedValue) -> BlockedValue:
            return (
                value
                if value.first().limbs == limbs
                else _mapped(value, lambda ct: self.evaluator.drop(ct, limbs))
            )

        return lower(left), lower(right)


class Axes:
    """Names for the dimensions of a program, equal where the program forces equal lengths and blocks.

    `a.rows` is the row axis of operand `a`; `a @ b` makes `a.cols` and `b.rows` one axis, an elementwise
    operation makes both axes of its operands one.
    """

    def __init__(self, node: Expression) -> None:
        self._parent: dict[str, str] = {}
        self._names: dict[int, tuple[str, str]] = {}
        self.lengths: dict[str, int] = {}
        self._constants = 0
        self._visit(node)
        for child_id, (rows, cols) in list(self._names.items()):
            self._names[child_id] = (self._root(rows), self._root(cols))
        self.lengths = {self._root(name): length for name, length in self.lengths.items()}

    def of(self, node: Expression) -> tuple[str, str]:
        """The names of the row and the column axis of `node`."""
        return self._names[id(node)]

    def _root(self, name: str) -> str:
        while self._parent.get(name, name) != name:
            name = self._parent[name]
        return name

    def _join(self, x: str, y: str) -> None:
        first, second = sorted((self._root(x), self._root(y)))
        self._parent[second] = first

    def _visit(self, node: Expression) -> tuple[str, str]:
        if id(node) in self._names:
            return self._names[id(node)]
        if isinstance(node, (Leaf, Constant)):
            if isinstance(node, Leaf):
                label = node.name
            else:
                label = f"constant{self._constants}"
                self._constants += 1
            names = (f"{label}.rows", f"{label}.cols")
            if isinstance(node, Leaf) and node.transposed:
                names = (names[1], names[0])
            for name, length in zip(names, node.shape, strict=True):
                self.lengths[name] = length
        else:
            parts = [self._visit(child) for child in node.children]
            if isinstance(node, MatMul):
                self._join(parts[0][1], parts[1][0])
                names = (parts[0][0], parts[1][1])
            else:
                for other in parts[1:]:
                    self._join(parts[0][0], other[0])
                    self._join(parts[0][1], other[1])
                names = parts[0]
        self._names[id(node)] = names
        return names


def products(node: Expression) -> list[MatMul]:
    """Every distinct matrix product of the graph, operands first."""
    seen: dict[int, MatMul] = {}

    def visit(current: Expression) -> None:
        if id(current) in seen:
            return
        for child in current.children:
            visit(child)
        if isinstance(current, MatMul):
            seen[id(current)] = current

    visit(node)
    return list(seen.values())


def _is_operand(node: Expression) -> bool:
    """True for operands and numbers times operands: what the client can pack in any layout."""
    if isinstance(node, Scale):
        return _is_operand(node.child)
    return isinstance(node, (Leaf, Constant))


def _mapped(value: BlockedValue, function: Callable[[Any], Any]) -> BlockedValue:
    cells = [[[function(ct) for ct in cell] for cell in row] for row in value.cells]
    return BlockedValue(value.shape, value.layout, cells, value.secret)
