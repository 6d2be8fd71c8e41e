"""Programs of matrices that are encrypted by rows or by columns, whose products are GEMMs.

W @ X wants X encrypted by rows and gives rows, X @ W by columns, a product of secrets wants its left factor by columns
and its right one by rows and gives either. Operands are encrypted as they are wanted; a computed value that is wanted
the other way is transposed under encryption.

Scales come from the top: the result's scale is as large as the modulus allows, and each node passes on what its
children need. The kind of a product (`runtime.row_products`) says what it asks of its factors and how it is computed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Hashable
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import UnmatchedError
from cipherblas.common.nested import result_of
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.rows.values import Rows
from cipherblas.forms.row_forms import RowForm
from cipherblas.lang.exact import is_exact
from cipherblas.lang.facts import products
from cipherblas.lang.nodes import Expression
from cipherblas.methods.products import GEMM
from cipherblas.runtime.executor import FORMS, Executor, Steps, completed, computes
from cipherblas.runtime.inputs import Inputs
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.placing import LAID, RequiredRows, lies_by_columns
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.kind import RowProduct
from cipherblas.runtime.row_products.table import chosen, decided, plain
from cipherblas.runtime.values import Handles, Value

ROWS = RowForm.name
# Between twice the message and the modulus: for the noise and for primes that are not 2^bits.
HEADROOM_BITS = 1.0
EXACT_HEADROOM_BITS = 0.03  # where errors are below one half of whole numbers that are large
MAX_SCALE_BITS = 900.0  # a float64 holds it beside any bound


class RowRun(RowPieces):
    """Matrices encrypted by rows, or by columns, in one run: which way, at which scale, by which kinds of products."""

    name: ClassVar[str] = ROWS

    def __init__(self, run: Executor) -> None:
        taken = [kind for choice in run.choices.values() for kind in chosen(choice.flags)]
        super().__init__(run, in_pieces=any(kind.in_pieces for kind in taken))
        self._exact = is_exact(run.node)
        self._orientations: dict[int, bool | None] = {}
        self._own_scales: dict[int, float | None] = {}
        self._kinds: dict[int, RowProduct] = {}

    def kind(self, product: Expression) -> RowProduct:
        """The kind of a product that is computed by rows, as was decided."""
        if id(product) not in self._kinds:
            self._kinds[id(product)] = decided(self, product)
        return self._kinds[id(product)]

    def steps(self) -> int:
        """Products."""
        return sum(self.run.form_of(node) == self.name for node in products(self.run.node))

    def key(self, node: Expression, required: RequiredRows) -> Hashable:
        return required

    def lasts(self, node: Expression) -> bool:
        return True

    def finished(self, value: Value) -> Value:
        def extracted(ev: RowsEvaluator, piece: Rows) -> Rows:
            ev.check_switched(piece, "a result")
            ev.extracted(piece)
            return piece

        return self.mapped("settle", value, extracted)

    def required_of_result(self, node: Expression) -> RequiredRows:
        """As it was computed for other results; else at as large a scale as the modulus holds."""
        requirements = self.run.requirements(node, self.name)
        made = [
            required
            for required in requirements
            if isinstance(required, RequiredRows) and required.placing is None
        ]
        made = [required for required in made if required.basis is None or not required.basis.of_operands]
        made = [required for required in made if self.ev.policy.readable(required.scale)]
        if made:
            return max(made, key=lambda required: required.scale)
        room = min(self.ev.log_modulus(self.basis) - 1 - self._headroom(node), MAX_SCALE_BITS)
        assumed = node
        while assumed.op == "assume":  # what it is a promise about must fit as well
            (assumed,) = assumed.children
        bound = max(node.bound, assumed.bound)
        return RequiredRows(bool(self.orientation(node)), self.ev.policy.widest(room, bound))

    def _headroom(self, node: Expression) -> float:
        """Bits of the modulus for the error of a result; of exact integers it is below 1, however rare one is asked."""
        if not self._exact or not node.bound:
            return HEADROOM_BITS
        return min(HEADROOM_BITS, EXACT_HEADROOM_BITS + math.log2(1 + 1 / node.bound))

    def orientation(self, node: Expression) -> bool | None:
        """How a value comes by itself (by columns?); None: in either way."""
        return result_of(node, self._orientation)

    def _orientation(self, node: Expression) -> Generator[Expression, bool | None, bool | None]:
        if id(node) not in self._orientations:
            self._orientations[id(node)] = yield from self._found_orientation(node)
        return self._orientations[id(node)]

    def _found_orientation(self, node: Expression) -> Generator[Expression, bool | None, bool | None]:
        if node.op in LAID:
            return lies_by_columns(node)
        if node.operand is not None:  # what is repeated is sent once in one way
            copies = [self.copies(node, by_columns) for by_columns in (False, True)]
            return None if copies[0] == copies[1] else copies[1] > copies[0]
        if node.product:
            here = self.run.form_of(node) == self.name
            choice = self.run.choices.get(self.run.number[id(node)]) if here else None
            return plain(node, self.run.node, GEMM if choice is None else choice.method).orientation(node)
        secret = [child for child in node.children if child.secret]
        for child in sorted(secret, key=lambda child: child.packable):
            found = yield child
            if found is not None:
                return found
        return None

    def own_scale(self, node: Expression) -> float | None:
        """The scale, about, that a value by rows comes in because some of it was in slots; None: any that is wanted."""
        return result_of(node, self._own_scale)

    def _own_scale(self, node: Expression) -> Generator[Expression, float | None, float | None]:
        if id(node) not in self._own_scales:
            self._own_scales[id(node)] = yield from self._found_scale(node)
        return self._own_scales[id(node)]

    def _found_scale(self, node: Expression) -> Generator[Expression, float | None, float | None]:
        if node.packable or not node.secret:
            return None
        if self.run.form_of(node) != self.name:
            slots = self.run.evaluators.slots
            return float(2.0**slots.params.scale_bits) / math.sqrt(slots.slots) / node.bound
        known = []
        for child in node.children:
            scale = yield child
            if scale is not None:
                known.append(scale)
        if not known:
            return None
        if node.product:
            return self.kind(node).scale(self, node, known)
        return max(known) / (float(node.gain(0)) if node.op == "scale" else 1.0)

    def order(self, node: Expression) -> tuple[float, bool]:
        """Return a sort key for the terms of a sum in a mixed program. First comes the term with the largest scale of
        its own, since others are brought to it without loss; then other computed terms, then packed ones."""
        return -(self.own_scale(node) or 0.0), node.packable


FORMS[ROWS] = RowRun


@computes(ROWS, "operand", "view")
def operand(run: RowRun, node: Expression, required: RequiredRows) -> Value:
    """A secret matrix, encrypted as it is wanted."""
    return run.operand(node, required)


@computes(ROWS, "scale")
def scale(run: RowRun, node: Expression, required: RequiredRows) -> Steps[Value]:
    """A change of scale alone, and of sign."""
    policy, wanted = run.ev.policy, required.scale
    factor, unit = policy.in_scale(node.parameters["factor"])
    value = yield from run.read(
        node.children[0], required._replace(scale=policy.scaled(required.scale, factor))
    )
    scaled = run.mapped("scale", value, lambda ev, piece: ev.fold_into_scale(piece, factor, wanted))
    return replace(scaled, unit=value.unit * unit)


@computes(ROWS, "assume")
def assume(run: RowRun, node: Expression, required: RequiredRows) -> Steps[Value]:
    """The same matrix with another bound."""
    value, exact = (yield from run.read(node.children[0], required)), "error" in node.parameters
    bound = node.bound

    def assumed(ev: RowsEvaluator, piece: Rows) -> Rows:
        return ev.bounded(ev.as_message(piece) if exact else piece, bound)

    return run.mapped("bound", value, assumed)


@computes(ROWS, "truncated")
def truncated(run: RowRun, node: Expression, required: RequiredRows) -> Steps[Value]:
    """The same matrix."""
    return (yield from run.read(node.children[0], required))


@computes(ROWS, "add")
def add(run: RowRun, node: Expression, required: RequiredRows) -> Steps[Value]:
    """The entrywise sum of pieces."""
    # What was in slots has a scale and limbs of its own, which the other term then follows.
    first, second = sorted(node.children, key=lambda part: (not part.secret, run.mixed and run.order(part)))
    x = yield from run.read(first, required)
    if not second.secret:
        return _with_clear(run, x, second)
    if run.mixed:
        required = RequiredRows(required.by_columns, x.first().scale, x.first().basis, matched=True)
    y = yield from run.read(second, required)
    x, y = run.at_equal_limbs(x, y)
    if abs(x.unit) != abs(y.unit):
        raise UnmatchedError(
            "Rows that are added must have equal units.", expected=abs(x.unit), got=abs(y.unit)
        )
    name = "add" if x.unit == y.unit else "sub"

    def combined(context: RunContext, xs: Handles, ys: Handles) -> Handles:
        combine = getattr(context.rows, name)
        return [combine(p, q) for p, q in zip(xs, ys, strict=True)]

    return x.holding(run.made(name, [x.cells, y.cells], combined))


def _with_clear(run: RowRun, x: Value, clear: Expression) -> Value:
    unit, form = x.unit, x.rows

    def entries(inputs: Inputs, start: int, stop: int) -> NDArray[np.float64]:
        matrix = inputs.given(clear)
        part = (matrix.T if form.by_columns else matrix)[:, start:stop]
        missing = stop - start - part.shape[1]
        if missing:
            part = np.pad(part, ((0, 0), (0, missing)))
        return np.asarray(np.multiply(part, unit, dtype=np.float64))

    def added(context: RunContext, pieces: Handles) -> Handles:
        return [
            context.rows.add_clear(piece, functools.partial(entries, context.inputs, *place), clear.bound)
            for piece, place in zip(pieces, form.pieces, strict=True)
        ]

    return x.holding(run.made("add", [x.cells], added))


@computes(ROWS, "matmul")
def matmul(run: RowRun, node: Expression, required: RequiredRows) -> Steps[Value]:
    """As its kind computes it, the way it comes by itself; turned where it is wanted the other way."""
    natural = run.orientation(node)
    transposed = natural is not None and natural != required.by_columns
    own = required._replace(by_columns=required.by_columns != transposed)
    kind, (left, right) = run.kind(node), node.children
    request = kind.request(run, node, own, (left.bound, right.bound))
    value = yield from completed(kind.compute(run, node, own, request))
    run.run.tick()
    return run.transposed(value) if transposed else value
