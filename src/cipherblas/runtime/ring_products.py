"""Products of ring elements in the ring of rows: of secrets, and of what is placed or packed by clear factors."""

from __future__ import annotations

import math
from dataclasses import replace

from cipherblas.evaluators.rows.values import ClearFactor, Rows
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
from cipherblas.runtime.rows import PRODUCTS, RowProducts, RowRun
from cipherblas.runtime.values import Value

LEAST_ROWS = 8  # of an element: with fewer a GEMM takes less than polynomials


def ring_product(run: RowRun, node: Expression, wish: Wish) -> Value:
    """Of two placed factors, or of one and what comes from blocks."""
    left, right = node.children
    scale = math.sqrt(wish.scale) * math.sqrt(right.bound) / math.sqrt(left.bound)
    scales = scale, wish.scale / scale
    if placeable(left) and placeable(right):
        return _outer(run, node, wish, scales)
    return _inner(run, node, wish, scales)


def spreads(placing: Placing | None) -> bool:
    """Whether rows that are wanted like this are computed packed, and then taken apart."""
    return placing is not None and placing.first is None and placing.each >= LEAST_ROWS


def growth(placing: Placing | None) -> float:
    """Of the scale: rows that are taken apart grow by as many as there were."""
    return placing.each if placing is not None and spreads(placing) else 1.0


def ring_clear_product(
    run: RowRun, node: Expression, factor: ClearFactor, x: Rows, placing: Placing | None
) -> Rows:
    """By polynomials where rows are placed all over the ring, which multiplies them by as many as an element holds, or
    where they came from elements that hold many; else by GEMM."""
    evs, n = run.run.evaluators, run.ev.n
    if placing is not None and spreads(placing):
        each, count = placing.each, factor.shape[0]
        with run.run.measured(node, OPERAND):
            elements = placed_elements(evs, x)
        packed = packed_product(evs, factor, elements, each)
        with run.run.measured(node, APART):
            return rows_of(evs, spread(evs, packed, each, 0, count), (count, n))
    each = n // x.shape[1]
    if placing is None and x.packed is not None and each >= LEAST_ROWS:
        found = gathered_product(evs, factor, packed_elements(evs, x), each, x.first)
        return rows_of(evs, found, (factor.shape[0], x.shape[1]), held=1)
    return run.ev.clear_product(factor, x)


def _outer(run: RowRun, node: Expression, wish: Wish, scales: tuple[float, float]) -> Value:
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


def _outer_moved(run: RowRun, node: Expression, wish: Wish, moved: Carried) -> Value:
    """Q·(x·W)ᵀ = (Q·Wᵀ)·xᵀ: a product of what is packed with the operand, whose rows are placed narrowly."""
    evs, narrow = run.run.evaluators, int(wish.by_columns)
    length, count = matrix_shape(node)[:: 1 if wish.by_columns else -1]
    degree = run.width(length)
    each, by_columns = run.ev.n // degree, narrow == 0
    factor = run.moved_factor(moved.product, transposed=not by_columns).columns(*moved.rows)
    y = _operand(run, moved, by_columns, each, run.placed_scale, wish.limbs)
    scale = wish.scale * moved.gain * factor.unit / run.placed_scale
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


def _inner(run: RowRun, node: Expression, wish: Wish, scales: tuple[float, float]) -> Value:
    """What comes from blocks is packed as the result will lie: the left factor by columns, the right one by rows."""
    left, right = node.children
    by_columns = bool(run.orientation(node))
    packed, other = (left, right) if by_columns else (right, left)
    own, others = scales if by_columns else scales[::-1]
    each = run.ev.n // run.width(matrix_shape(packed)[0 if by_columns else 1])
    moved = _moved(run, other, by_columns, each)
    if moved is not None:
        factor = run.moved_factor(moved.product, transposed=by_columns)
        others = run.placed_scale
        own = wish.scale * moved.gain * factor.unit / others / each  # which what is taken apart grows by
    x = run.value(packed, Wish(by_columns, own, wish.limbs))
    held, terms = x.first(), left.shape[1]
    if held.packed is None:  # it lay the other way, and was transposed: its rows are no ring elements
        limbs = held.limbs  # its scale may be that for a clear factor that would have moved
        matched = wish.scale / held.scale if wish.matched or moved is not None else None
        y = run.value(other, Wish(not by_columns, matched or others, limbs))
        pair = run.at_equal_limbs(*((x, y) if by_columns else (y, x)))
        return run.pieces_product(node, wish, *pair)
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


def _inner_moved(run: RowRun, node: Expression, x: Value, moved: Carried, scale: float) -> Value:
    """P·(x·W) = (P·x)·W: a product of rows of P, taken apart, with the operand, and then with the clear factor."""
    evs, by_columns = run.run.evaluators, x.rows.by_columns
    held, terms, other = x.first(), node.children[0].shape[1], node.children[1 if by_columns else 0]
    degree = held.shape[1]
    each = run.ev.n // degree
    factor = run.moved_factor(moved.product, transposed=by_columns).rows(*moved.rows)
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


def _known(run: RowRun, node: Expression, factors: tuple[Value, Value], swapped: bool) -> Terms:
    """What the program knows of a product; the first factor is the left one, or `swapped`."""
    left, right = node.children
    sides = (left, left.row_sum), (right, right.column_sum)
    kept, terms = [], []
    for value, (side, total) in zip(factors, sides[::-1] if swapped else sides, strict=True):
        kept.append(run.keeps(value, side))
        terms.append(total / side.bound if kept[-1] else math.inf)
    most = node.bound / abs(math.prod(value.unit for value in factors)) if all(kept) else math.inf
    return Terms(terms[0], terms[1], most)


def _of_sums(errors: Errors, met: float, terms: int) -> Errors:
    """Of sums of so many products with what is no larger than `met`."""
    noise, sums = met * errors.of_sums(terms), met * terms
    return Errors(0.0, noise, sums * errors.bias, sums * errors.worst, (0.0, 0.0))


def _moved(run: RowRun, factor: Expression, by_columns: bool, each: int) -> Carried | None:
    """The clear factor of one of a product, where it is moved to the other one."""
    if each < LEAST_ROWS:
        return None
    found = carried(factor, by_columns)
    return found if found is not None and run.run.choice(found.product).method == RING else None


def _operand(
    run: RowRun, moved: Carried, by_columns: bool, each: int, scale: float, limbs: int | None
) -> list[Elements]:
    """The secret operand encrypted the other way, in groups of `each` entries that stand together, as elements."""
    (node,) = (child for child in moved.product.children if child.secret)
    length = matrix_shape(node)[1 if by_columns else 0]
    return [
        run.placed_elements(node, Wish(not by_columns, scale, limbs, placing=Placing(each, first)))
        for first in range(0, length, each)
    ]


PRODUCTS[RING] = RowProducts(ring_product, ring_clear_product, growth)
