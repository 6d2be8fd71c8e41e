"""Products of ring elements in the ring of rows: of two encrypted matrices."""

from __future__ import annotations

import math
from dataclasses import replace

from cipherblas.evaluators.rows.values import ClearFactor
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.form import Placing
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.methods.matmul.ring_elements import (
    Elements,
    Errors,
    packed_elements,
    placed_elements,
    rows_of,
    spread,
)
from cipherblas.methods.matmul.ring_products import (
    Terms,
    inner_elements,
    inner_product,
    outer_elements,
    outer_product,
)
from cipherblas.methods.matmul.ring_weights import gathered_product, packed_product
from cipherblas.methods.products import RING
from cipherblas.runtime.executor import APART, OPERAND
from cipherblas.runtime.placing import Carried, Wish, carried, placeable
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.clear_factors import clear_factor
from cipherblas.runtime.row_products.clear_in_ring import LEAST_ROWS
from cipherblas.runtime.row_products.kind import Request
from cipherblas.runtime.row_products.known import keeps
from cipherblas.runtime.row_products.secret_factors import SecretFactors, balanced, pieces_product
from cipherblas.runtime.values import Value


class SecretsInRing(SecretFactors):
    """Of two placed factors, or of one and what comes from blocks."""

    name, method = "secret in ring", RING

    def orientation(self, product: Expression) -> bool | None:
        """As what comes from blocks is packed: by columns where that is the left factor."""
        placed = list(map(placeable, product.children))
        return None if all(placed) else not placed[0]

    def request(
        self, run: RowPieces, product: Expression, wish: Wish, bounds: tuple[float, float]
    ) -> Request:
        scales = balanced(wish.scale, bounds)
        return Request({side: Wish(side == 0, scales[side], wish.limbs) for side in (0, 1)})

    def compute(self, run: RowPieces, product: Expression, wish: Wish, request: Request) -> Value:
        multiplied = _outer if all(map(placeable, product.children)) else _inner
        return multiplied(run, product, wish, (request.wishes[0].scale, request.wishes[1].scale))


def _outer(run: RowPieces, node: Expression, wish: Wish, scales: tuple[float, float]) -> Value:
    """By columns the left factor is the wide one, whose entries are those of the result's rows."""
    wide, narrow = (0, 1) if wish.by_columns else (1, 0)  # the places of the factors, which may be one node
    length, count = matrix_shape(node)[:: 1 if wish.by_columns else -1]
    degree = run.width(length)
    each = run.ev.n // degree
    moved = _moved(run, node.children[narrow], narrow == 0, each)
    if moved is not None:
        return _outer_moved(run, node, wish, moved)

    def placed(side: int, placing: Placing) -> Value:
        return run.value(node.children[side], Wish(side == 0, scales[side], wish.limbs, placing=placing))

    x = placed(wide, Placing(each))
    ys = [placed(narrow, Placing(each, first)) for first in range(0, count, each)]
    terms = _known(run, node, (x, ys[0]), swapped=wide == 1)
    rows = outer_product(run.run.evaluators, x.first(), [y.first() for y in ys], count, degree, terms)
    return run.result(node.shape, wish.by_columns, [rows], x.unit * ys[0].unit)


def _outer_moved(run: RowPieces, node: Expression, wish: Wish, moved: Carried) -> Value:
    """Q·(x·W)ᵀ = (Q·Wᵀ)·xᵀ: a product of what is packed with the operand, whose rows are placed narrowly."""
    evs, narrow = run.run.evaluators, int(wish.by_columns)
    length, count = matrix_shape(node)[:: 1 if wish.by_columns else -1]
    degree = run.width(length)
    each, by_columns = run.ev.n // degree, narrow == 0
    factor = _moved_factor(run, moved.product, transposed=not by_columns).columns(*moved.rows)
    y = _operand(run, moved, by_columns, each, _placed_scale(run), wish.limbs)
    scale = wish.scale * moved.gain * factor.unit / _placed_scale(run)
    wished = Wish(not by_columns, scale, wish.limbs, placing=Placing(each))
    x = run.value(node.children[1 - narrow], wished)
    wide = placed_elements(evs, x.first())
    terms, other = factor.shape[1], node.children[narrow].bound / moved.gain
    with run.run.measured(moved.product, run.name):
        alone = replace(wide, errors=wide.errors.alone)
        turned = packed_product(evs, factor, alone, each, negative=True)

    def rights(start: int, stop: int) -> list[list[Ct]]:
        return [[group.cts[row] for group in y] for row in range(start, stop)]

    found = inner_elements(
        *(evs, turned, rights, y[0].errors),
        sums=count,
        terms=factor.shape[0],
        bound=terms * wide.cts[0].bound * other,
    )
    # Of Q·(x·W)ᵀ, an error of Q meets no more than entries of x·W, whatever both products before it gather.
    met = other * found.cts[0].scale / wide.cts[0].scale
    found = replace(found, errors=found.errors.beside(_of_sums(wide.errors, met, terms)))
    rows = run.ev.absorb(rows_of(evs, found, (count, degree), held=1), moved.gain)
    return run.result(node.shape, wish.by_columns, [rows], x.unit * moved.sign)


def _inner(run: RowPieces, node: Expression, wish: Wish, scales: tuple[float, float]) -> Value:
    """What comes from blocks is packed as the result will lie: the left factor by columns, the right one by rows."""
    left, right = node.children
    by_columns = bool(run.orientation(node))
    packed, other = (left, right) if by_columns else (right, left)
    own, others = scales if by_columns else scales[::-1]
    each = run.ev.n // run.width(matrix_shape(packed)[0 if by_columns else 1])
    moved = _moved(run, other, by_columns, each)
    if moved is not None:
        factor = _moved_factor(run, moved.product, transposed=by_columns)
        others = _placed_scale(run)
        own = wish.scale * moved.gain * factor.unit / others / each  # which what is taken apart grows by
    x = run.value(packed, Wish(by_columns, own, wish.limbs))
    held, terms = x.first(), left.shape[1]
    if held.packed is None:  # it lay the other way, and was transposed: its rows are no ring elements
        limbs = held.limbs  # its scale may be that for a clear factor that would have moved
        matched = wish.scale / held.scale if wish.matched or moved is not None else None
        y = run.value(other, Wish(not by_columns, matched or others, limbs))
        pair = run.at_equal_limbs(*((x, y) if by_columns else (y, x)))
        return pieces_product(run, node, wish, *pair)
    if moved is not None:
        scale = own * others / held.scale if wish.matched else others
        return _inner_moved(run, node, x, moved, scale)
    scale = wish.scale / held.scale if wish.matched else others
    ys = [
        run.value(other, Wish(by_columns, scale, held.limbs, placing=Placing(each, first, negative=True)))
        for first in range(-held.first, terms, each)
    ]
    known = _known(run, node, (x, ys[0]), swapped=not by_columns)
    rows = inner_product(run.run.evaluators, held, [y.first() for y in ys], terms, known)
    return run.result(node.shape, by_columns, [rows], x.unit * ys[0].unit)


def _inner_moved(run: RowPieces, node: Expression, x: Value, moved: Carried, scale: float) -> Value:
    """P·(x·W) = (P·x)·W: a product of rows of P, taken apart, with the operand, and then with the clear factor."""
    evs, by_columns = run.run.evaluators, x.rows.by_columns
    held, terms, other = x.first(), node.children[0].shape[1], node.children[1 if by_columns else 0]
    degree = held.shape[1]
    each = run.ev.n // degree
    factor = _moved_factor(run, moved.product, transposed=by_columns).rows(*moved.rows)
    y = _operand(run, moved, by_columns, each, scale, held.limbs)
    with run.run.measured(node, APART):
        parts = spread(evs, packed_elements(evs, held), each, held.first, terms)
    product = outer_elements(
        evs,
        replace(parts, errors=parts.errors.alone),
        lambda start, stop: [list(group.cts) for group in y[start:stop]],
        y[0].errors,
        sums=len(y),
        entries=(degree, min(each, factor.shape[1])),
        bound=terms * held.bound * y[0].cts[0].bound,
    )
    most = terms * held.bound * other.bound / moved.gain
    with run.run.measured(moved.product, run.name):
        found = gathered_product(evs, factor, product, each, most=most)
    met = other.bound / moved.gain * found.cts[0].scale / parts.cts[0].scale
    found = replace(found, errors=found.errors.beside(_of_sums(parts.errors, met, terms)))
    rows = run.ev.absorb(rows_of(evs, found, (factor.shape[0], degree), held=1), moved.gain)
    return run.result(node.shape, by_columns, [rows], x.unit * moved.sign)


def _known(run: RowPieces, node: Expression, factors: tuple[Value, Value], swapped: bool) -> Terms:
    """What the program knows of a product; the first factor is the left one, or `swapped`."""
    left, right = node.children
    sides = (left, left.row_sum), (right, right.column_sum)
    kept, terms = [], []
    for value, (side, total) in zip(factors, sides[::-1] if swapped else sides, strict=True):
        kept.append(keeps(value, side))
        terms.append(total / side.bound if kept[-1] else math.inf)
    most = node.bound / abs(math.prod(value.unit for value in factors)) if all(kept) else math.inf
    return Terms(terms[0], terms[1], most)


def _of_sums(errors: Errors, met: float, terms: int) -> Errors:
    """Of sums of so many products with what is no larger than `met`."""
    noise, sums = met * errors.of_sums(terms), met * terms
    return Errors(0.0, noise, sums * errors.bias, sums * errors.worst, (0.0, 0.0))


def _moved(run: RowPieces, factor: Expression, by_columns: bool, each: int) -> Carried | None:
    """The clear factor of one of a product, where it is moved to the other one."""
    if each < LEAST_ROWS:
        return None
    found = carried(factor, by_columns)
    return found if found is not None and run.run.choice(found.product).method == RING else None


def _operand(
    run: RowPieces, moved: Carried, by_columns: bool, each: int, scale: float, limbs: int | None
) -> list[Elements]:
    """The secret operand encrypted the other way, in groups of `each` entries that stand together, as elements."""
    (node,) = (child for child in moved.product.children if child.secret)
    length = matrix_shape(node)[1 if by_columns else 0]
    return [
        _placed_elements(run, node, Wish(not by_columns, scale, limbs, placing=Placing(each, first)))
        for first in range(0, length, each)
    ]


def _moved_factor(run: RowPieces, product: Expression, transposed: bool) -> ClearFactor:
    """The clear factor of a product that several others take, with integers that are made once."""
    key = SecretsInRing, id(product), transposed
    if key not in run.kept:
        run.kept[key] = clear_factor(run, product, transposed).once()
    found: ClearFactor = run.kept[key]
    return found


def _placed_elements(run: RowPieces, node: Expression, wish: Wish) -> Elements:
    """A placed operand as ring elements, for all products that take it like this."""
    turned = node.transposed != wish.by_columns
    key = SecretsInRing, node.name, turned, node.steps, wish.placing, wish.scale, wish.limbs
    if key not in run.kept:
        value = run.placed_operand(node, wish, turned=False)
        with run.run.measured(node, OPERAND):
            run.kept[key] = placed_elements(run.run.evaluators, value.first())
    found: Elements = run.kept[key]
    return found


def _placed_scale(run: RowPieces) -> float:
    """Of operands that are multiplied as they are sent, one scale for all products: a quarter of the modulus, of which
    clear factors and what else is multiplied take the rest."""
    return float(2.0 ** math.floor(run.ev.log_modulus(run.limbs) / 4))
