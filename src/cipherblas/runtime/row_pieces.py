"""How matrices that are encrypted by rows, or by columns, are cut into pieces: operands, results, transposes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from cipherblas.common.errors import LevelError
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.forms.row_forms import RowForm
from cipherblas.lang.analysis import has_public_key
from cipherblas.lang.arrangements import first_of
from cipherblas.lang.facts import products
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.lang.operations import Leaf
from cipherblas.rlwe.basis import Basis, FirstLimbs
from cipherblas.rlwe.matrices.matrix import bit_ceil
from cipherblas.rlwe.rings import low_limbs
from cipherblas.runtime.executor import Executor, FormRun
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.placing import RequiredRows
from cipherblas.runtime.values import Cells, Handles, Input, Value


def switches_keys(node: Expression) -> bool:
    """Whether rows are transposed or multiplied by the secret: they are then at most N long."""
    sides = [[child.secret for child in product.children] for product in products(node)]
    return any(all(side) for side in sides) or len({side[0] for side in sides}) > 1


class RowPieces(FormRun, ABC):
    """The pieces of matrices by rows in one run: what kinds of products are given.

    Args:
        in_pieces: some product leaves its result in pieces of N columns.

    Attributes:
        ev: the evaluator of rows.
        basis: of fresh encryptions.
        mixed: values come from slots, or go there.
        kept: what kinds of products keep for the whole run.
    """

    name: ClassVar[str] = RowForm.name

    def __init__(self, run: Executor, in_pieces: bool) -> None:
        super().__init__(run)
        self.ev = run.evaluators.rows
        limbs = low_limbs(run.evaluators.slots.params) if run.refreshed else len(self.ev.params.q)
        self.basis: Basis = FirstLimbs(limbs)
        self.mixed = len(run.decisions.every_form) > 1
        self.kept: dict[Hashable, Any] = {}
        # Of more than N columns. So are operands that a public key encrypts, since longer rows have secrets of the
        # client's, and those with moduli of their own: what is added to them must be too.
        separate = in_pieces or self.ev.params.operand_moduli is not None
        self._in_pieces = self.mixed or separate or switches_keys(run.node) or has_public_key(run.node)

    @abstractmethod
    def orientation(self, node: Expression) -> bool | None:
        """How a value comes by itself (by columns?); None: in either way."""

    @abstractmethod
    def order(self, node: Expression) -> tuple[float, bool]:
        """Return a sort key for the terms of a sum in a mixed program: the least is computed first."""

    # ---- operands ----

    def operand(self, node: Expression, required: RequiredRows) -> Value:
        """A secret operand, as the client encrypts it: in pieces of N columns where that is needed."""
        assert node.operand is not None
        if required.placing is not None:
            return self.placed_operand(node, required)
        kind, copies = required.kind, self.copies(node, required.by_columns)
        if copies > 1 and kind.repeats:
            value = self.operand(first_of(node, 1 if required.by_columns else 0), required)
            whole = self.mapped("repeat", value, lambda ev, piece: ev.stack([piece] * copies))
            return self.result(node.shape, required.by_columns, whole.cells, value.unit)
        cols = kind.digits * node.shape[0 if required.by_columns else 1]
        length = self.ev.n if self._in_pieces and kind.in_pieces else cols
        self.ev.spend(-(-cols // length), "pieces of an operand")
        cols = self.width(cols) if kind.in_pieces else cols
        widths = [min(length, cols - start) for start in range(0, cols, length)]
        return self._sent(node, required, self._form(node, required, widths))

    def copies(self, node: Expression, by_columns: bool) -> int:
        """How many rows of an operand, or columns, are one and the same, which is sent once.

        Entries that are equal within a row are sent one by one, a word each: in the ring they are sums of n
        coefficients of an encryption of one of them, and of these 2·n - 1 would have to be sent.
        """
        axis = 1 if by_columns else 0
        return node.shape[axis] if isinstance(node, Leaf) and node.repeated[axis] else 1

    def placed_operand(
        self, node: Expression, required: RequiredRows, transposed: bool | None = None
    ) -> Value:
        """An operand whose entries stand at the required places.

        Args:
            transposed: how the form calls what is sent, where an operand and its transpose are one encryption.
        """
        self.ev.spend(1, "pieces of an operand")
        whole = self._form(node, required, [self.ev.n])
        by_columns = whole.by_columns if transposed is None else transposed
        return self._sent(node, required, replace(whole, by_columns=by_columns, placing=required.placing))

    def _form(self, node: Expression, required: RequiredRows, widths: list[int]) -> RowForm:
        """A node in pieces of so many columns, or a few more, which are zeros."""
        rows, cols = matrix_shape(node)
        stops = np.cumsum(widths).tolist()
        pieces = tuple((stop - width, stop) for stop, width in zip(stops, widths, strict=True))
        shape = (cols, rows) if required.by_columns else (rows, cols)
        return required.kind.of_operand(shape, required.by_columns, pieces)

    def _sent(self, node: Expression, required: RequiredRows, form: RowForm) -> Value:
        assert node.operand is not None
        given, basis, scale = (
            node.operand.encoding,
            required.basis or self.basis,
            self.ev.policy.fresh(required.scale),
        )
        if node.operand.public_key and basis.of_operands:
            raise LevelError(
                "A public key does not encrypt modulo the moduli of operands.",
                expected=f"at most {self.basis}",
                got=f"operand {node.name!r} of a product of secrets",
            )
        rows, cols = matrix_shape(node)
        shape = (cols, rows) if required.by_columns else (rows, cols)
        if given is not None:
            own = basis.of_operands and given.limbs == basis.words(self.ev.params)
            basis, scale = basis if own else FirstLimbs(given.limbs), 2.0**given.scale_bits
        wanted = Input(
            *(node.name, node.transposed != required.by_columns, shape, form),
            *(basis, scale, 1.0, node.operand.public_key),
            steps=node.steps,
        )
        return Value(node.shape, form, self.run.received(wanted, form.largest(node.bound)), 1.0)

    def width(self, cols: int) -> int:
        """The entries of a row of so many columns: where rows become slots it fills its subring, or whole pieces of N,
        with zeros."""
        if not self.mixed:
            return cols
        return max(2, bit_ceil(cols)) if cols <= self.ev.n else -(-cols // self.ev.n) * self.ev.n

    # ---- results ----

    def result(
        self,
        shape: tuple[int, ...],
        by_columns: bool,
        cells: Cells,
        unit: float,
        cut: tuple[bool, bool] = (False, False),
    ) -> Value:
        """Return a value made of these pieces. `cut`: whether their rows, and columns, are those of bytes or digits."""
        ((pieces,),) = cells
        rows, stops = pieces[0].shape[0], np.cumsum([piece.shape[1] for piece in pieces]).tolist()
        ranges = tuple((stop - piece.shape[1], stop) for stop, piece in zip(stops, pieces, strict=True))
        cols = shape[0 if by_columns else 1]
        cols = min(stops[-1], 2 * cols if cut[1] else cols)
        form = RowForm((rows, cols), by_columns, ranges).of_bytes(*cut)
        return Value(shape, form, cells, unit)

    def made(self, name: str, sources: Sequence[Cells], work: Callable[..., Iterable[Any]]) -> Cells:
        """The pieces, or ring elements, of work(stage, *those of the sources)."""

        def whole(context: RunContext, *cells: Cells) -> list[list[Handles]]:
            return [[list(work(context, *(one[0][0] for one in cells)))]]

        return self.run.perform(name, sources, whole)

    def mapped(self, name: str, value: Value, work: Callable[[RowsEvaluator, Any], Any]) -> Value:
        """The value with work(ev, piece) in the place of every piece."""

        def each(context: RunContext, pieces: Handles) -> Handles:
            return [work(context.rows, piece) for piece in pieces]

        return value.holding(self.made(name, [value.cells], each))

    def transposed(self, value: Value) -> Value:
        """The same matrix encrypted the other way: one C-MT per N × N block."""
        form = value.rows
        assert not any(form.cut)
        (rows, cols), n = form.shape, self.ev.n
        self.ev.spend(len(value.handles) * -(-rows // n), "transpositions")
        parts = [(start, min(start + n, rows)) for start in range(0, rows, n)]
        widths = [self.width(stop - start) for start, stop in parts]
        held = [min(stop, cols) - begin for begin, stop in form.pieces]  # rows of zeros are left out

        def transposed(context: RunContext, pieces: Handles) -> Handles:
            ev, columns = context.rows, []  # by piece of the result
            for part, width in zip(parts, widths, strict=True):
                blocks = [ev.rows_of(piece, *part) for piece in pieces]
                columns.append(
                    [
                        ev.take(ev.transpose(block), count, width)
                        for block, count in zip(blocks, held, strict=True)
                    ]
                )
            return [ev.stack(column) for column in columns]

        cells = self.made("transpose", [value.cells], transposed)
        return self.result(value.shape, not form.by_columns, cells, value.unit)

    def at_equal_limbs(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Both at the limbs of the one that has fewer."""
        if x.first().basis == y.first().basis:
            return x, y
        limbs = min(x.first().limbs, y.first().limbs)

        def dropped(value: Value) -> Value:
            if value.first().limbs == limbs:
                return value
            return self.mapped("drop limbs", value, lambda ev, piece: ev.drop(piece, limbs))

        return dropped(x), dropped(y)
