"""Interpreting an expression graph by GEMMs on matrices that are encrypted by rows or by columns.

The counterpart of `execution` (slots): one path for planning (`RowsCounter`), checking (`RowsClear`) and running
(`RowsCkks`). W @ X wants X encrypted by rows and gives rows, X @ W by columns, a product of secrets wants its left
factor by columns and its right one by rows and gives either. Operands are encrypted as they are wanted; a computed
value that is wanted the other way is transposed under encryption.

Scales come from the top: the result's scale is as large as the modulus allows, and each node passes on what its
children need.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ParameterError
from cipherblas.evaluators.rows.interface import EXACT_BITS, Batch, ClearFactor, Rows, RowsEvaluator
from cipherblas.lang.analysis import has_public_key, is_constant
from cipherblas.lang.layers import Assume, Truncated
from cipherblas.lang.nodes import Expression, matrix_shape, ordered
from cipherblas.lang.operations import Add, Constant, Leaf, MatMul, Multiply, Scale
from cipherblas.methods.matmul.gemm import secret_product
from cipherblas.rlwe.row_costs import WORD_BYTES

STRIP_ENTRIES = 1 << 16  # of a clear matrix that are converted at a time


@dataclass(frozen=True)
class RowFeed:
    """What the client sends for one use of an operand: the rows of the operand, or of its transpose, encrypted.

    Attributes:
        name: of the operand.
        transposed: the rows of the transpose.
        shape: rows × columns of what is encrypted.
        pieces: column ranges, each an encryption of its own. A piece longer than N has a secret for every N columns
            and one a part (shared-a rows).
        limbs: q-limbs.
        scale: of the encoding.
        shared: one encryption whose rows share their a parts, for fixed weights.
        public_key: it may be encrypted with the public key.
    """

    name: str
    transposed: bool
    shape: tuple[int, int]
    pieces: tuple[tuple[int, int], ...]
    limbs: int
    scale: float
    shared: bool = False
    public_key: bool = False

    @property
    def seeds(self) -> int:
        """The a parts that travel as a seed, one per piece: none from the public key."""
        return 0 if self.public_key else len(self.pieces)

    def residue_bytes(self, n: int) -> int:
        """Bytes of the parts that travel as residues."""
        rows, cols = self.shape
        uniform = (len(self.pieces) - self.seeds) * n
        return self.limbs * rows * (cols + uniform) * WORD_BYTES

    def memory_bytes(self, n: int) -> int:
        """Bytes on the server, where seeds are expanded and stay so: the b parts and all a parts."""
        rows, cols = self.shape
        uniform = -(-cols // n) if self.shared else rows * len(self.pieces)
        return self.limbs * (rows * cols + uniform * n) * WORD_BYTES


@dataclass(frozen=True)
class RowValue:
    """A matrix as it is encrypted, up to a sign.

    Attributes:
        pieces: row encryptions of column ranges of the matrix, or of its transpose where it is `by_columns`.
    """

    pieces: tuple[Rows, ...]
    by_columns: bool
    sign: int = 1


class RowFeeds(Protocol):
    """Where the executor gets operands from."""

    def secret(self, feed: RowFeed, bound: float) -> Sequence[Rows]:
        """The encrypted pieces of an operand."""

    def batch(self, feed: RowFeed, bound: float) -> Batch:
        """The encryption of an operand whose rows share their a parts."""

    def public(self, node: Expression) -> NDArray[Any]:
        """The values of a part without secrets: of any real type, so that large matrices of narrow ones need no copy.

        Nothing is computed in that type: `rounded` and `_sum_with_clear` convert strip by strip.
        """


def supported(node: Expression) -> str | None:
    """Why a program cannot go this way, or None where it can."""
    products = 0
    for current in ordered(node):
        if not current.secret:
            continue
        if isinstance(current, Multiply):
            return "elementwise products need slots"
        products += isinstance(current, MatMul)
    return None if products else "there is no matrix product"


def check_supported(node: Expression) -> None:
    """Raise ParameterError where a program cannot go this way."""
    reason = supported(node)
    if reason is not None:
        raise ParameterError(
            "the program cannot be computed by GEMMs",
            expected="products of matrices, sums and factors",
            got=reason,
        )


def is_whole(matrix: NDArray[Any]) -> bool:
    """Whether all entries of a finite array are whole numbers."""
    return matrix.dtype.kind == "i" or all(
        np.array_equal(matrix[rows], np.rint(matrix[rows])) for rows in _strips(matrix)
    )


def rounded(values: NDArray[Any], unit: float, bits: int) -> NDArray[Any]:
    """values / unit, rounded to integers of so many bits and a sign, without a float64 copy of all of them."""
    integers = np.empty(values.shape, np.int32 if bits < 31 else np.float64)
    for rows in _strips(values):
        integers[rows] = np.rint(np.divide(values[rows], unit, dtype=np.float64))
    return integers


def _strips(matrix: NDArray[Any]) -> Iterator[slice]:
    """Rows that are worked on together; entries of a vector, or filters, likewise."""
    step = max(1, STRIP_ENTRIES // math.prod(matrix.shape[1:]))
    return (slice(start, start + step) for start in range(0, len(matrix), step))


def sums_are_exact(largest: float, terms: int) -> bool:
    """Whether a sum of so many integers up to `largest`, with any signs, is exact in float64."""
    return largest * terms < 2.0**EXACT_BITS


def most_weight_bits(terms: int) -> int:
    """Bits of rounded weights of which a sum of so many is exact in float64: keys of fixed weights are such sums."""
    return EXACT_BITS - 1 - math.ceil(math.log2(terms))


def whole(node: Expression) -> bool:
    """Whether the entries of a clear part are known to be whole numbers."""
    for current in ordered(node):
        if isinstance(current, Leaf):
            found = current.operand.whole
        elif isinstance(current, Constant):
            found = is_whole(current.values)
        else:
            found = not isinstance(current, Scale) or float(current.factor).is_integer()
        if not found:
            return False
    return True


def can_be_fixed(clear: Expression, other: Expression) -> bool:
    """Whether a product can have keys of its own: of a constant and an operand that the secret key encrypts.

    The secrets of rows that share their a parts are the client's, so that no public key encrypts them.
    """
    return isinstance(other, Leaf) and not other.operand.public_key and is_constant(clear)


def has_fixed(node: Expression) -> bool:
    """Whether some product can have keys of its own."""
    for current in ordered(node):
        if isinstance(current, MatMul) and current.left.secret != current.right.secret:
            clear, other = sorted((current.left, current.right), key=lambda part: part.secret)
            if can_be_fixed(clear, other):
                return True
    return False


def switches_keys(node: Expression) -> bool:
    """Whether rows are transposed or multiplied by the secret: they are then at most N long."""
    orientations = set()
    for current in ordered(node):
        if isinstance(current, MatMul) and current.secret:
            if current.left.secret and current.right.secret:
                return True
            orientations.add(current.left.secret)
    return len(orientations) > 1


class RowExecution:
    """One run of a program: `RowExecution(...).run()`.

    Args:
        evaluator: the interpreter.
        node: the program.
        weight_bits: clear factors that are not whole numbers are rounded to so many bits and a sign.
        fixed: constants that multiply an operand have keys of their own.
        headroom_bits: log2 of what the modulus exceeds twice the largest message by.
        feeds: where operands come from.
        progress: called as progress(done, total) after every product.
    """

    def __init__(
        self,
        evaluator: RowsEvaluator,
        node: Expression,
        weight_bits: int,
        fixed: bool,
        headroom_bits: float,
        feeds: RowFeeds,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        check_supported(node)
        self.evaluator, self.node, self.feeds = evaluator, node, feeds
        self.weight_bits, self.headroom_bits = weight_bits, headroom_bits
        self.fixed = fixed
        self.fixed_factors: list[ClearFactor] = []  # in the order of their keys' numbers
        self.limbs = len(evaluator.params.q)
        # Products with fixed weights come in pieces of N columns, and so do operands that a public key encrypts, since
        # longer rows have secrets of the client's: what is added to them must too.
        self._in_pieces = fixed or switches_keys(node) or has_public_key(node)
        self._orientations: dict[int, bool | None] = {}
        self._uses = Tally(id(child) for current in ordered(node) for child in current.children)
        self._kept: dict[tuple[int, bool, float], RowValue] = {}
        self._progress = progress
        self._done = 0
        self._total = sum(isinstance(current, MatMul) and current.secret for current in ordered(node))

    def run(self) -> RowValue:
        """Execute the whole graph and return its (still encrypted) value."""
        room = self.evaluator.log_modulus(self.limbs) - 1 - self.headroom_bits
        by_columns = self._natural(self.node)
        return self._value(self.node, bool(by_columns), 2.0**room / self.node.bound)

    def _natural(self, node: Expression) -> bool | None:
        """The orientation that a value comes in by itself (by columns?); None: in either."""
        if id(node) not in self._orientations:
            self._orientations[id(node)] = self._found_natural(node)
        return self._orientations[id(node)]

    def _found_natural(self, node: Expression) -> bool | None:
        if isinstance(node, Leaf):
            return None
        if isinstance(node, MatMul):
            if node.left.secret and node.right.secret:
                return None
            return node.left.secret
        for child in node.children:
            if child.secret and self._natural(child) is not None:
                return self._natural(child)
        return None

    def _value(self, node: Expression, by_columns: bool, scale: float) -> RowValue:
        """The value of a node; one that is used several times in the same way is computed once, and kept."""
        if self._uses[id(node)] < 2:
            return self._computed(node, by_columns, scale)
        key = (id(node), by_columns, scale)
        if key not in self._kept:
            self._kept[key] = self._computed(node, by_columns, scale)
        return self._kept[key]

    def _computed(self, node: Expression, by_columns: bool, scale: float) -> RowValue:
        natural = self._natural(node)
        if natural is not None and natural != by_columns and isinstance(node, MatMul):
            return self._turned(self._computed(node, natural, scale))
        if isinstance(node, Leaf):
            return self._operand(node, by_columns, scale)
        if isinstance(node, Scale):
            value = self._value(node.child, by_columns, scale * abs(node.factor))
            pieces = tuple(self.evaluator.absorb(piece, abs(node.factor)) for piece in value.pieces)
            return RowValue(pieces, by_columns, value.sign if node.factor > 0 else -value.sign)
        if isinstance(node, Add):
            return self._sum(node, by_columns, scale)
        if isinstance(node, Assume):
            value = self._value(node.x, by_columns, scale)
            pieces = tuple(self.evaluator.bounded(piece, node.bound) for piece in value.pieces)
            return RowValue(pieces, by_columns, value.sign)
        if isinstance(node, Truncated):
            return self._value(node.x, by_columns, scale)
        assert isinstance(node, MatMul)
        value = self._product(node, by_columns, scale)
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)
        return value

    def _operand(self, node: Leaf, by_columns: bool, scale: float) -> RowValue:
        cols = node.shape[0 if by_columns else 1]
        length = self.evaluator.n if self._in_pieces else cols
        self.evaluator.spend(-(-cols // length), "pieces of an operand")
        pieces = tuple((start, min(start + length, cols)) for start in range(0, cols, length))
        return RowValue(
            tuple(self.feeds.secret(self._feed(node, by_columns, scale, pieces), node.bound)), by_columns
        )

    def _feed(
        self,
        node: Leaf,
        by_columns: bool,
        scale: float,
        pieces: tuple[tuple[int, int], ...],
        shared: bool = False,
    ) -> RowFeed:
        rows, cols = matrix_shape(node)
        shape = (cols, rows) if by_columns else (rows, cols)
        transposed = node.transposed != by_columns
        return RowFeed(
            *(node.name, transposed, shape, pieces),
            *(self.limbs, float(scale), shared, node.operand.public_key),
        )

    def _turned(self, value: RowValue) -> RowValue:
        """The same matrix encrypted the other way: one C-MT per N × N block."""
        ev = self.evaluator
        rows, n = value.pieces[0].shape[0], ev.n
        columns: list[list[Rows]] = []  # by piece of the result
        ev.spend(-(-rows // n) * len(value.pieces), "transpositions")
        for start in range(0, rows, n):
            height = min(n, rows - start)
            blocks = [ev.rows_of(piece, start, start + height) for piece in value.pieces]
            columns.append([ev.take(ev.transpose(block), block.shape[1], height) for block in blocks])
        return RowValue(tuple(ev.stack(column) for column in columns), not value.by_columns, value.sign)

    def _sum(self, node: Add, by_columns: bool, scale: float) -> RowValue:
        ev = self.evaluator
        if not (node.left.secret and node.right.secret):
            first, second = (node.left, node.right) if node.left.secret else (node.right, node.left)
            x = self._value(first, by_columns, scale)
            return self._sum_with_clear(x, second)
        x, y = (self._value(child, by_columns, scale) for child in (node.left, node.right))
        combine = ev.add if x.sign == y.sign else ev.sub
        pieces = tuple(combine(p, q) for p, q in zip(x.pieces, y.pieces, strict=True))
        return RowValue(pieces, by_columns, x.sign)

    def _sum_with_clear(self, x: RowValue, clear: Expression) -> RowValue:
        ev, start, pieces = self.evaluator, 0, []
        for piece in x.pieces:
            stop = start + piece.shape[1]

            def values(start: int = start, stop: int = stop) -> NDArray[np.float64]:
                matrix = self.feeds.public(clear)
                part = (matrix.T if x.by_columns else matrix)[:, start:stop]
                return np.asarray(np.multiply(part, x.sign, dtype=np.float64))

            pieces.append(ev.add_clear(piece, values, clear.bound))
            start = stop
        return RowValue(tuple(pieces), x.by_columns, x.sign)

    def _product(self, node: MatMul, by_columns: bool, scale: float) -> RowValue:
        if node.left.secret and node.right.secret:
            return self._secret_product(node, by_columns, scale)
        clear, other = (node.right, node.left) if node.left.secret else (node.left, node.right)
        factor = self._factor(clear, transposed=by_columns)
        if self.fixed and isinstance(other, Leaf) and can_be_fixed(clear, other):
            return self._fixed_product(factor, other, by_columns, scale)
        x = self._value(other, by_columns, scale * factor.unit)
        pieces = tuple(self.evaluator.clear_product(factor, piece) for piece in x.pieces)
        return RowValue(pieces, by_columns, x.sign)

    def _fixed_product(self, factor: ClearFactor, node: Leaf, by_columns: bool, scale: float) -> RowValue:
        cols = node.shape[0 if by_columns else 1]
        feed = self._feed(node, by_columns, scale * factor.unit, ((0, cols),), shared=True)
        number = len(self.fixed_factors)
        self.fixed_factors.append(factor)
        x = self.feeds.batch(feed, node.bound)
        return RowValue(tuple(self.evaluator.fixed_product(factor, number, x)), by_columns)

    def _factor(self, node: Expression, transposed: bool) -> ClearFactor:
        rows, cols = matrix_shape(node)
        shape = (cols, rows) if transposed else (rows, cols)
        exact, bits = whole(node) and sums_are_exact(node.bound, shape[1]), self.weight_bits
        if exact:
            unit = min(node.bound, 1.0)  # whole numbers below 1 are zeros, which are whole in any unit
        else:
            bits = min(bits, most_weight_bits(shape[1]))
            unit = node.bound / 2**bits

        def integers() -> NDArray[Any]:
            values = self.feeds.public(node)
            if not exact:
                values = rounded(values, unit, bits)
            elif values.dtype.kind == "f":
                values = values.astype(np.float64, copy=False)
            return values.T if transposed else values

        total = node.column_sum if transposed else node.row_sum
        return ClearFactor((id(node), transposed), shape, node.bound, unit, exact, integers, total)

    def _secret_product(self, node: MatMul, by_columns: bool, scale: float) -> RowValue:
        """(M1 M2)ᵀ = M2ᵀ M1ᵀ by rows is M1 M2 by columns."""
        ev = self.evaluator
        left_scale = math.sqrt(scale) * math.sqrt(node.right.bound) / math.sqrt(node.left.bound)
        left = self._value(node.left, True, left_scale)
        right = self._value(node.right, False, scale / left_scale)
        first, second = (right, left) if by_columns else (left, right)
        ev.spend(ev.product_steps * len(first.pieces) * len(second.pieces), "products of pieces")
        pieces = tuple(
            ev.stack([secret_product(ev, row_piece, col_piece) for row_piece in first.pieces])
            for col_piece in second.pieces
        )
        return RowValue(pieces, by_columns, left.sign * right.sign)
