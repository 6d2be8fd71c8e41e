"""Products of ring elements in the ring of rows: of two encrypted matrices."""

from __future__ import annotations

import math
from dataclasses import replace

from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.row_forms import Placing
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.methods.matmul.ring_elements import (
    Errors,
    packed_elements,
    rows_of,
    spread,
)
from cipherblas.methods.matmul.ring_products import (
    SumTerms,
    inner_elements,
    inner_product,
    outer_elements,
    outer_product,
)
from cipherblas.methods.matmul.ring_weights import gathered_product, packed_product
from cipherblas.methods.products import RING
from cipherblas.rlwe.basis import Basis
from cipherblas.runtime.executor import EXTRACTION, OPERAND, Read, Steps
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.placing import Carried, RequiredRows, carried, placeable
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.clear_factors import clear_factor
from cipherblas.runtime.row_products.clear_in_ring import MIN_ROWS, as_elements
from cipherblas.runtime.row_products.kind import Factor, FactorRequest
from cipherblas.runtime.row_products.known import keeps
from cipherblas.runtime.row_products.secret_factors import SecretFactors, pieces_product, unswitched
from cipherblas.runtime.values import Cells, Handles, Value


class SecretsInRing(SecretFactors):
    """Of two placed factors, or of one and what comes from blocks."""

    name, method = "secret in ring", RING

    def orientation(self, product: Expression) -> bool | None:
        """As what comes from blocks is packed: by columns where that is the left factor."""
        placed = list(map(placeable, product.children))
        return None if all(placed) else not placed[0]

    def request(
        self, run: RowPieces, product: Expression, required: RequiredRows, bounds: tuple[float, float]
    ) -> FactorRequest:
        scales = run.ev.policy.row_factors(required.scale, bounds, unswitched(product))
        return FactorRequest({side: RequiredRows(side == 0, scales[side], required.basis) for side in (0, 1)})

    def compute(
        self, run: RowPieces, product: Expression, required: RequiredRows, request: FactorRequest
    ) -> Steps[Value]:
        multiplied = _outer if all(map(placeable, product.children)) else _inner
        scales = request.requirements[0].scale, request.requirements[1].scale
        return multiplied(run, product, required, scales)


def _outer(
    run: RowPieces, node: Expression, required: RequiredRows, scales: tuple[float, float]
) -> Steps[Value]:
    """By columns the left factor is the wide one, whose entries are those of the result's rows."""
    wide, narrow = (
        (0, 1) if required.by_columns else (1, 0)
    )  # the places of the factors, which may be one node
    length, count = matrix_shape(node)[:: 1 if required.by_columns else -1]
    degree = run.width(length)
    each = run.ev.n // degree
    moved = _moved(run, node.children[narrow], narrow == 0, each)
    if moved is not None:
        return (yield from _outer_moved(run, node, required, moved))

    def placed(side: int, placing: Placing) -> Read:
        return run.read(
            node.children[side], RequiredRows(side == 0, scales[side], required.basis, placing=placing)
        )

    x, ys = (yield from placed(wide, Placing(each))), []
    for first in range(0, count, each):
        ys.append((yield from placed(narrow, Placing(each, first))))
    terms = _known(node, (x, ys[0]), swapped=wide == 1)

    def multiplied(context: RunContext, xs: Handles, *others: Handles) -> Handles:
        rights = [other[0] for other in others]
        return [outer_product(context.evaluators, xs[0], rights, count, degree, terms)]

    cells = run.made("multiply", [x.cells, *(y.cells for y in ys)], multiplied)
    return run.result(node.shape, required.by_columns, cells, x.unit * ys[0].unit)


def _outer_moved(run: RowPieces, node: Expression, required: RequiredRows, moved: Carried) -> Steps[Value]:
    """Q·(x·W)ᵀ = (Q·Wᵀ)·xᵀ: a product of what is packed with the operand, whose rows are placed narrowly."""
    narrow = int(required.by_columns)
    length, count = matrix_shape(node)[:: 1 if required.by_columns else -1]
    degree = run.width(length)
    each, by_columns = run.ev.n // degree, narrow == 0
    of_inputs, part = _moved_factor(run, moved.product, transposed=not by_columns), moved.rows
    factor, gain = of_inputs(run.inputs).columns(*part), moved.gain
    y = _operand(run, moved, by_columns, each, _placed_scale(run), required.basis)
    scale = required.scale * moved.gain * factor.unit / _placed_scale(run)
    requested = RequiredRows(not by_columns, scale, required.basis, placing=Placing(each))
    x = yield from run.read(node.children[1 - narrow], requested)
    wide = as_elements(run, x.cells)
    (made, terms), other = factor.shape, node.children[narrow].bound / gain

    def transposed(context: RunContext, ones: Handles) -> Handles:
        (one,), own = ones, of_inputs(context.inputs).columns(*part)
        alone = replace(one, errors=one.errors.alone)
        return [packed_product(context.evaluators, own, alone, each, negative=True)]

    with run.run.timed_separately(moved.product, run.name):
        lefts = run.made("multiply", [wide], transposed)

    def multiplied(context: RunContext, left: Handles, ones: Handles, *groups: Handles) -> Handles:
        evs, (one,), own = context.evaluators, ones, [group for (group,) in groups]

        def rights(start: int, stop: int) -> list[list[Ct]]:
            return [[group.cts[row] for group in own] for row in range(start, stop)]

        found = inner_elements(
            *(evs, left[0], rights, own[0].errors),
            sums=count,
            terms=made,
            bound=terms * one.cts[0].bound * other,
        )
        # Of Q·(x·W)ᵀ, an error of Q meets no more than entries of x·W, whatever both products before it gather.
        met = other * found.cts[0].scale / one.cts[0].scale
        found = replace(found, errors=found.errors.beside(_of_sums(one.errors, met, terms)))
        return [context.rows.fold_into_scale(rows_of(evs, found, (count, degree), held=1), gain)]

    cells = run.made("multiply", [lefts, wide, *y], multiplied)
    return run.result(node.shape, required.by_columns, cells, x.unit * moved.sign)


def _inner(
    run: RowPieces, node: Expression, required: RequiredRows, scales: tuple[float, float]
) -> Steps[Value]:
    """The product of a factor that comes from blocks, packed as the result will lie: the left one by columns, the right
    one by rows."""
    left, right = node.children
    by_columns = bool(run.orientation(node))
    packed, other = (left, right) if by_columns else (right, left)
    own, others = scales if by_columns else scales[::-1]
    each = run.ev.n // run.width(matrix_shape(packed)[0 if by_columns else 1])
    moved = _moved(run, other, by_columns, each)
    if moved is not None:
        factor = _moved_factor(run, moved.product, transposed=by_columns)(run.inputs)
        others = _placed_scale(run)
        own = required.scale * moved.gain * factor.unit / others / each  # which what is taken apart grows by
    x = yield from run.read(packed, RequiredRows(by_columns, own, required.basis))
    held, terms = x.first(), left.shape[1]
    if held.packed is None:  # it lay the other way, and was transposed: its rows are no ring elements
        basis = held.basis  # its scale may be that for a clear factor that would have moved
        matched = required.scale / held.scale if required.matched or moved is not None else None
        y = yield from run.read(other, RequiredRows(not by_columns, matched or others, basis))
        pair = run.at_equal_limbs(*((x, y) if by_columns else (y, x)))
        return pieces_product(run, node, required, *pair)
    if moved is not None:
        scale = own * others / held.scale if required.matched else others
        return _inner_moved(run, node, x, moved, scale)
    scale = required.scale / held.scale if required.matched else others
    ys = []
    for first in range(-held.first, terms, each):
        placing = Placing(each, first, negative=True)
        ys.append((yield from run.read(other, RequiredRows(by_columns, scale, held.basis, placing=placing))))
    known = _known(node, (x, ys[0]), swapped=not by_columns)

    def multiplied(context: RunContext, xs: Handles, *rest: Handles) -> Handles:
        return [inner_product(context.evaluators, xs[0], [one[0] for one in rest], terms, known)]

    cells = run.made("multiply", [x.cells, *(y.cells for y in ys)], multiplied)
    return run.result(node.shape, by_columns, cells, x.unit * ys[0].unit)


def _inner_moved(run: RowPieces, node: Expression, x: Value, moved: Carried, scale: float) -> Value:
    """P·(x·W) = (P·x)·W: a product of rows of P, taken apart, with the operand, and then with the clear factor."""
    by_columns, held = x.rows.by_columns, x.first()
    terms, other = node.children[0].shape[1], node.children[1 if by_columns else 0].bound / moved.gain
    degree, first, gain = held.shape[1], held.first, moved.gain
    each = run.ev.n // degree
    of_inputs, part = _moved_factor(run, moved.product, transposed=by_columns), moved.rows
    count, inner = of_inputs(run.inputs).rows(*part).shape
    y = _operand(run, moved, by_columns, each, scale, held.basis)

    def extracted(context: RunContext, pieces: Handles) -> Handles:
        evs = context.evaluators
        return [spread(evs, packed_elements(evs, pieces[0]), each, first, terms)]

    with run.run.timed_separately(node, EXTRACTION):
        parts = run.made("take apart", [x.cells], extracted)

    def multiplied(context: RunContext, ones: Handles, pieces: Handles, *groups: Handles) -> Handles:
        (one,), own = ones, [group for (group,) in groups]
        return [
            outer_elements(
                context.evaluators,
                replace(one, errors=one.errors.alone),
                lambda start, stop: [list(group.cts) for group in own[start:stop]],
                own[0].errors,
                sums=len(own),
                entries=(degree, min(each, inner)),
                bound=terms * pieces[0].bound * own[0].cts[0].bound,
            )
        ]

    product = run.made("multiply", [parts, x.cells, *y], multiplied)

    def gathered(context: RunContext, ones: Handles, pieces: Handles) -> Handles:
        own, most = of_inputs(context.inputs).rows(*part), terms * pieces[0].bound * other
        return [gathered_product(context.evaluators, own, ones[0], each, most=most)]

    with run.run.timed_separately(moved.product, run.name):
        found = run.made("multiply", [product, x.cells], gathered)

    def finished(context: RunContext, ones: Handles, before: Handles) -> Handles:
        (one,), (added,) = ones, before
        met = other * one.cts[0].scale / added.cts[0].scale
        one = replace(one, errors=one.errors.beside(_of_sums(added.errors, met, terms)))
        return [context.rows.fold_into_scale(rows_of(context.evaluators, one, (count, degree), held=1), gain)]

    cells = run.made("as rows", [found, parts], finished)
    return run.result(node.shape, by_columns, cells, x.unit * moved.sign)


def _known(node: Expression, factors: tuple[Value, Value], swapped: bool) -> SumTerms:
    """Facts about a product. The first factor is the left one, or the right one if `swapped`."""
    left, right = node.children
    sides = (left, left.row_sum), (right, right.column_sum)
    kept, terms = [], []
    for value, (side, total) in zip(factors, sides[::-1] if swapped else sides, strict=True):
        kept.append(keeps(value.handles, abs(value.unit), side))
        terms.append(total / side.bound if kept[-1] else math.inf)
    most = node.bound / abs(math.prod(value.unit for value in factors)) if all(kept) else math.inf
    return SumTerms(terms[0], terms[1], most)


def _of_sums(errors: Errors, met: float, terms: int) -> Errors:
    """Of sums of so many products with what is no larger than `met`."""
    noise, sums = met * errors.of_sums(terms), met * terms
    return Errors(0.0, noise, sums * errors.bias, sums * errors.worst, (0.0, 0.0))


def _moved(run: RowPieces, factor: Expression, by_columns: bool, each: int) -> Carried | None:
    """The clear factor of one of a product, where it is moved to the other one."""
    if each < MIN_ROWS:
        return None
    found = carried(factor, by_columns)
    return found if found is not None and run.run.choice(found.product).method == RING else None


def _operand(
    run: RowPieces, moved: Carried, by_columns: bool, each: int, scale: float, basis: Basis | None
) -> list[Cells]:
    """The secret operand encrypted the other way, in groups of `each` entries that stand together, as elements."""
    (node,) = (child for child in moved.product.children if child.secret)
    length = matrix_shape(node)[1 if by_columns else 0]
    return [
        _placed_elements(run, node, RequiredRows(not by_columns, scale, basis, placing=Placing(each, first)))
        for first in range(0, length, each)
    ]


def _moved_factor(run: RowPieces, product: Expression, transposed: bool) -> Factor:
    """The clear factor of a product that several others take, with integers that are made once in a run."""
    key = SecretsInRing, id(product), transposed
    if key not in run.kept:
        factor = clear_factor(run, product, transposed)
        run.kept[key] = lambda inputs: inputs.kept(key, lambda: factor(inputs).once())
    found: Factor = run.kept[key]
    return found


def _placed_elements(run: RowPieces, node: Expression, required: RequiredRows) -> Cells:
    """A placed operand as ring elements, for all products that take it like this."""
    transposed = node.transposed != required.by_columns
    key = SecretsInRing, node.name, transposed, node.steps, required.placing, required.scale, required.basis
    if key not in run.kept:
        value = run.placed_operand(node, required, transposed=False)
        with run.run.timed_separately(node, OPERAND):
            run.kept[key] = as_elements(run, value.cells)
    found: Cells = run.kept[key]
    return found


def _placed_scale(run: RowPieces) -> float:
    """Of operands that are multiplied as they are sent, one scale for all products: a quarter of the modulus, of which
    clear factors and what else is multiplied take the rest."""
    return float(2.0 ** math.floor(run.ev.log_modulus(run.basis) / 4))
