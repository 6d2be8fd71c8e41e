"""Sums, products and units of values in slots: what blocks of matrices and tensors share."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cipherblas.common.errors import LevelError
from cipherblas.evaluators.policy.approximate import MAX_ENCODED_BITS
from cipherblas.evaluators.policy.interface import Scale
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Plain
from cipherblas.forms.slot_forms import SlotForm
from cipherblas.lang.analysis import is_constant
from cipherblas.lang.curves import BEYOND, GATED, Gated, curve_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operations import Leaf
from cipherblas.lang.polynomials import POLYNOMIAL
from cipherblas.lang.refreshing import REFRESH, SINE
from cipherblas.methods.bootstrapping.refresh import bootstrapping_of
from cipherblas.rlwe.basis import FirstLimbs
from cipherblas.rlwe.noise import TAIL, MatrixSums, SlotErrors, worst
from cipherblas.runtime import schedule
from cipherblas.runtime.executor import Executor, FormRun, Read, Steps
from cipherblas.runtime.graphs import blockwise_graph
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.tasks import TaskGraph, Template
from cipherblas.runtime.values import Cells, Handles, Input, Value, handles_of

RANGE_MARGIN = 2.0**12  # ranges that differ by less share a unit, at the cost of so much of the modulus
MAX_FILLED_BITS = 20  # of a factor that multiplies ciphertexts, and keeps their scale
SCALE_SLACK = 0.2  # of log2 of the usual scale, by which scales are off when nothing is done about it
# Operations that compute every entry of those at the same place.
ENTRYWISE = frozenset({"add", "multiply", "scale", "assume", "truncated", GATED, POLYNOMIAL, REFRESH, SINE})
KNOWN_BELOW = 0.99  # of the number of terms times a bound, that a sum is known to be below
UNIT_TOLERANCE = 2.0**-46  # relative difference of two units below which they are the same


class SlotEncryption(NamedTuple):
    """Limbs, scale and unit that an operand is encrypted with."""

    limbs: int
    scale: Scale
    unit: float


class SlotRun(FormRun):
    """Values in slots in one run, on any evaluator."""

    def __init__(self, run: Executor) -> None:
        super().__init__(run)
        self.ev = run.evaluators.slots
        self.modulus = self.ev.params.plain_modulus  # whose integers are in units of 1
        self._sent: dict[Hashable, Value] = {}  # operands with several uses, at the most limbs so far

    def laid(self, shape: tuple[int, ...], form: SlotForm, cells: Cells, unit: float) -> Value:
        """The value that the last instruction left in this form. No other place says how ciphertexts lie: what the
        layout leaves open, `Evaluator.left_open` takes for anything."""
        layout = form.layout
        if layout.open:

            def opened(ev: Evaluator, cts: Handles) -> Handles:
                return [
                    ev.left_open(ct, functools.partial(layout.open_parts, number))
                    for number, ct in enumerate(cts)
                ]

            def work(context: RunContext, cells: Cells) -> list[list[Handles]]:
                return [[opened(context.slots, cell) for cell in row] for row in cells]

            cells = self.run.then(cells, work)
        return Value(shape, form, cells, unit)

    def done(
        self, name: str, graph: TaskGraph, *sources: Cells, ticked: bool = True, streamed: Sequence[bool] = ()
    ) -> Cells:
        """The one result of a graph, whose steps are told to whoever waits.

        Args:
            streamed: of which sources each ciphertext is taken once, and need not stay.
        """

        def work(context: RunContext, *grids: Cells) -> list[list[Handles]]:
            def done(template: Template) -> None:
                if template.steps:
                    context.told(template.steps)

            for cells, once in zip(grids, streamed, strict=False):
                for handle in handles_of(cells) if once else ():
                    handle.stream()
            (grid,) = schedule.run(graph, context.slots, grids, done if ticked else None)
            return grid

        return self.run.perform(name, sources, work)

    def blockwise(self, name: str, value: Value, work: Callable[[Evaluator, Handles], Handles]) -> Value:
        """The value with work(ev, block) in the place of every block; `work` uses no other evaluator, and holds no
        ciphertext."""
        graph = blockwise_graph(name, work, value.slots.grid)
        return value.holding(self.done(name, graph, value.cells))

    def mapped(self, name: str, value: Value, work: Callable[[Evaluator, Any], Any]) -> Value:
        """The value with work(ev, ct) in the place of every ciphertext; see `blockwise`."""
        return self.blockwise(name, value, lambda ev, cts: [work(ev, ct) for ct in cts])

    def zipped(
        self,
        name: str,
        x: Value,
        y: Value,
        work: Callable[[Evaluator, Any, Any], Any],
        streamed: Sequence[bool] = (),
    ) -> Value:
        """x with work(ev, ct, y's ct) in the place of every ciphertext; both have the same form.

        Args:
            streamed: as of `done`.
        """

        def block(ev: Evaluator, xs: Handles, ys: Handles) -> Handles:
            return [work(ev, a, b) for a, b in zip(xs, ys, strict=True)]

        graph = blockwise_graph(name, block, x.slots.grid, 2)
        return x.holding(self.done(name, graph, x.cells, y.cells, streamed=streamed))

    def usual(self, node: Expression) -> SlotEncryption:
        """How an operand is encrypted: with all limbs that are computed with, slots up to 1 at the scale of the
        parameters."""
        limbs, params = self.ev.top_limbs, self.ev.params
        if self.modulus is not None:
            return SlotEncryption(limbs, self.ev.policy.usual, 1.0)
        if self.run.refreshed:
            limbs = bootstrapping_of(params).limbs(limbs)
        return SlotEncryption(limbs, 2.0**params.scale_bits, node.bound)

    def operand(
        self, node: Expression, form: SlotForm, shape: tuple[int, int], encryption: SlotEncryption | None
    ) -> Value:
        """A secret operand, as the client encrypts it: what came with more limbs is not sent again with fewer."""
        assert node.operand is not None
        asked = self.usual(node) if encryption is None else encryption
        how = self._given(node, form) or asked._replace(scale=self.ev.policy.fresh(asked.scale))
        kind = id(node), form.layout.key, how.scale, how.unit
        value = self._sent.get(kind)
        if value is None or value.first().limbs < how.limbs:
            value = self._encrypted(node, form, shape, how)
            if self.run.shared(node):
                self._sent[kind] = value
        return self.lowered_to(value, asked.limbs)

    def _given(self, node: Expression, form: SlotForm) -> SlotEncryption | None:
        """The encoding that an operand comes in; None where the program chooses it."""
        encoding = None if node.operand is None else node.operand.encoding
        if encoding is None:
            return None
        most, scale = self.usual(node).limbs, 2.0**encoding.scale_bits * node.bound
        bits = math.log2(scale * form.layout.slot_bound(1.0))
        if encoding.limbs > most or bits > MAX_ENCODED_BITS:
            raise LevelError(
                f"Operand {node.name!r} cannot come as it is given.",
                expected=f"at most {most} limbs, and entries times the scale below 2^{MAX_ENCODED_BITS}",
                got=f"{encoding.limbs} limbs, and entries up to 2^{bits:.1f}",
                advice="cb.Encoding(limbs=…, scale_bits=…) within these",
            )
        return SlotEncryption(encoding.limbs, scale, node.bound)

    def _encrypted(
        self, node: Expression, form: SlotForm, shape: tuple[int, int], how: SlotEncryption
    ) -> Value:
        assert node.operand is not None
        bound = form.layout.slot_bound(node.bound / how.unit)
        # Coefficients beyond what the client encodes: the rest of the scale is a factor that the server multiplies.
        excess, scale = 0, how.scale
        if self.modulus is None:
            excess = max(0, math.ceil(math.log2(how.scale * bound)) - MAX_ENCODED_BITS)
            scale = how.scale / 2**excess
        assert isinstance(node, Leaf)
        sent = form.repeating(node.shape, node.repeated)
        wanted = Input(
            *(node.name, node.transposed, shape, sent),
            *(FirstLimbs(how.limbs), scale, how.unit, node.operand.public_key),
            steps=node.steps,
        )
        cells = self.run.received(wanted, bound)
        value = self.laid(node.shape, form, cells, how.unit)
        if sent.equal == (1, 1):
            self.run.as_sent(value.first(), wanted.key)
        elif self.adds_repeated(node):
            value = self.mapped("repeat", value, lambda ev, ct: ev.depending(ct))
        return self._scaled_up(value, excess) if excess else value

    def adds_repeated(self, node: Leaf) -> bool:
        """Whether entries of an operand that are equal, and so in one ciphertext, may be added up by what follows."""
        return any(one.op not in ENTRYWISE for one in self.run.order if one.secret and one.children)

    def _scaled_up(self, value: Value, bits: int) -> Value:
        """The same slots at a scale 2^bits larger."""
        return self.mapped("enlarge", value, lambda ev, ct: ev.scaled_up(ct, bits))

    def _folded_into_scale(self, value: Value, factor: float) -> Value:
        """The value times a factor, at another scale."""
        return self.mapped("absorb", value, lambda ev, ct: ev.fold_into_scale(ct, factor))

    def _multiplied(self, value: Value, factor: int) -> Value:
        """The value times a small integer."""
        return self.mapped("multiply by a number", value, lambda ev, ct: ev.multiply_scalar(ct, factor))

    def filling(self, value: Value, bound: float, least: int = 2) -> Value:
        """The value in smaller units, so that its slots, which hold entries up to `bound` alone, are up to 1 again.

        Units are multiplied with values, and bounds that are promised are not: without this slots would shrink from
        product to product, and what rescaling rounds away would grow beside them.

        Args:
            least: a smaller power of two is not worth it.
        """
        factor = 1 << min(max(math.frexp(abs(value.unit) / bound)[1] - 1, 0), MAX_FILLED_BITS)
        if factor < least or self.modulus is not None:
            return value
        return replace(self._multiplied(value, factor), unit=value.unit / factor)

    def with_headroom(self, value: Value, bound: float) -> Value:
        """The value in units of a bound that is far larger than its own."""
        if self.modulus is not None or bound <= RANGE_MARGIN * _true_bound(value):
            return value
        ev = self.ev
        factor, unit = abs(value.unit) / bound, math.copysign(bound, value.unit)
        value = replace(self._folded_into_scale(value, factor), unit=unit)
        return self._rescaled_to(value, 2.0 ** (2 * ev.params.scale_bits))

    def _rescaled_to(self, value: Value, scale: float) -> Value:
        """The value rescaled as often as it keeps at least `scale`: more would crowd out the larger term of a sum."""
        ev = self.ev
        while ev.below(value.first().limbs) > 0 and value.first().scale >= scale * ev.level_size(
            value.first().limbs
        ):
            value = self.mapped("rescale", value, lambda ev, ct: ev.rescale(ct))
        return value

    def normalised(self, value: Value) -> Value:
        """The value with a scale near a power of that of the parameters, so that rescaling leaves just one.

        Sums of terms with very different ranges have other scales.
        """
        if not value.secret or self.modulus is not None:
            return value
        bits = self.ev.params.scale_bits
        powers = math.log2(value.first().scale) / bits
        if abs(powers - max(1, round(powers))) <= SCALE_SLACK:
            return value
        missing = math.ceil((max(1, math.ceil(powers)) - powers) * bits)
        return self._scaled_up(value, missing)

    def rescaled(self, value: Value) -> Value:
        """Return the value as a product expects it: near the usual scale, rescaled."""
        value = self.normalised(value)
        if not value.secret or self.ev.is_rescaled(value.first()):  # as all are
            return value
        return self.mapped("rescale", value, lambda ev, ct: ev.rescaled(ct))

    def lowered_to(self, value: Value, limbs: int) -> Value:
        """The value at so many limbs, or fewer where it has no more."""
        if value.first().limbs <= limbs:
            return value
        return self.mapped("drop limbs", value, lambda ev, ct: ev.drop(ct, limbs))

    def lowered(self, value: Value) -> Value:
        """The value at the fewest limbs that hold it."""
        different = {id(ct): ct for ct in value.handles}.values()
        limbs = max(self.ev.least_limbs(ct) for ct in different)
        return self.mapped("drop limbs", value, lambda ev, ct: ev.drop(ct, limbs))

    def promised(self, node: Expression, value: Value) -> Value:
        """The value of an `Assume`: without errors, where it says what they are."""
        if "error" not in node.parameters:
            return value
        return self._message(value)

    def gated(self, node: Expression, multiplied: Callable[[], Steps[Value]]) -> Steps[Value]:
        """A function of one number, by its factors: errors of the number are multiplied by the slope of the curve as a
        whole, where nothing else reads what it is made of, and not by those of its steps."""
        assert isinstance(node, Gated)
        argument = node.left
        single = (
            argument.packable or self.decisions.stepwise
        )  # whose errors are those of encryption, or of each step
        curve = None if single else curve_of(node)
        inner = frozenset() if curve is None else curve.slopes.keys() - {id(argument), id(node)}
        if curve is None or not (self._of_this_form(inner) and self.run.reads_alone(node, inner)):
            return (yield from multiplied())
        x = yield from Read(argument, self.name, use=False)
        errors, most = self._errors(x)
        beyond = abs(x.unit) * max(TAIL * errors.deviation, most)
        if beyond > BEYOND * argument.bound:  # as large as the values: they are followed step by step
            return (yield from multiplied())
        slopes = {key: slope * beyond for key, slope in curve.slopes.items()}
        with self.run.exact(argument, self.name, self._message(x), slopes):
            value = yield from multiplied()
        factor = curve.slopes[id(node)] * abs(x.unit / value.unit)
        if errors.own and value.layout.key != x.layout.key:
            errors = errors.rotated()
        return self._with_errors(value, errors.times(factor), most * factor)

    def contracted(self, node: Expression, multiplied: Callable[[], Steps[Value]]) -> Steps[Value]:
        """A product of which the program knows how much it magnifies its factors: by that errors of computed factors
        are multiplied, and not by the number of its terms."""
        left, right = node.children
        inner = left.shape[-1]
        column_norm = math.sqrt(right.bound) * math.sqrt(right.column_sum)
        sides = [
            (one, MatrixSums(total, min(squares, total, other.norm), other.norm))
            for one, other, total, squares in (
                (right, left, left.row_sum, left.row_norm),
                (left, right, right.column_sum, column_norm),
            )
            if one.secret and not one.packable and left is not right
            if total < KNOWN_BELOW * inner * other.bound and not is_constant(other)
        ]
        if not sides or self.decisions.stepwise or self.modulus is not None:
            return (yield from multiplied())
        with contextlib.ExitStack() as stack:
            found = []
            for one, sums in sides:
                x = yield from Read(one, self.name, use=False)
                errors, most = self._errors(x)
                product = errors.multiplied(sums, math.prod(one.shape), len(x.handles))
                found.append((abs(x.unit), max(TAIL * errors.deviation, most), product, most * sums.row_sum))
                stack.enter_context(self.run.exact(one, self.name, self._message(x), {}))
            value = yield from multiplied()
        # Each factor is what it is with its own errors, where the other one's are multiplied by it.
        both = math.prod(unit * beyond for unit, beyond, _, _ in found)
        for unit, _, errors, most in found:
            factor = unit / abs(value.unit)
            value = self._with_errors(value, errors.times(factor), most * factor)
        if len(found) > 1:
            more = inner * both / abs(value.unit)
            value = self._with_errors(value, SlotErrors(common=more / TAIL), more)
        return value

    def _errors(self, x: Value) -> tuple[SlotErrors, float]:
        """Of the slots of a value, and the worst one."""
        different = {id(ct): ct for ct in x.handles}.values()
        errors = worst(ct.errors for ct in different)
        return errors, max(self.ev.worst_error(ct) / ct.scale for ct in different)

    def _message(self, x: Value) -> Value:
        return self.mapped("message", x, lambda ev, ct: ev.as_message(ct))

    def _with_errors(self, value: Value, errors: SlotErrors, most: float) -> Value:
        """The value with further errors of its slots."""

        def work(context: RunContext, cells: Cells) -> Cells:
            ev = context.slots
            different = {id(ct): ct for ct in handles_of(cells)}  # in a dry run one stands for many blocks
            for ct in different.values():
                total = ct.errors.plus(errors) if errors.own else ct.errors.with_spread(errors)
                ev.assume_errors(ct, total, ev.worst_error(ct) + most * ct.scale)
            return cells

        return value.holding(self.run.perform("errors", (value.cells,), work))

    def _of_this_form(self, inner: Container[int]) -> bool:
        return all(self.run.form_of(one) == self.name for one in self.run.order if id(one) in inner)

    def sum_of_secrets(self, x: Value, y: Value) -> Value:
        """Both in one unit: by a small integer factor, which keeps the scale, or by a change of the smaller's scale."""
        ratio = abs(y.unit / x.unit)
        negative = (x.unit < 0) != (y.unit < 0)
        if _is_integer(ratio):
            factor = round(ratio)
            y = self._multiplied(y, factor) if factor > 1 else y
            unit = x.unit
        elif _is_integer(1 / ratio):
            factor = round(1 / ratio)
            x = self._multiplied(x, factor)
            unit = math.copysign(y.unit, x.unit)
        elif _true_bound(x) >= _true_bound(y):
            unit = x.unit
            y = self._rescaled_to(self._folded_into_scale(y, ratio), x.first().scale)
        else:
            unit = math.copysign(y.unit, x.unit)
            x = self._rescaled_to(self._folded_into_scale(x, 1 / ratio), y.first().scale)
        if negative:
            total = self.zipped("subtract", x, y, lambda ev, a, b: ev.sub(a, b))
        else:
            total = self.zipped("add", x, y, lambda ev, a, b: ev.add(a, b))
        return replace(total, unit=unit)


def multiplied(ev: Evaluator, a: Any, b: Any) -> Any:
    """The product of two ciphertexts, or of a ciphertext and a plaintext."""
    if isinstance(a, Plain) or isinstance(b, Plain):
        return ev.multiply(a, b)
    return ev.multiply_relinearised(a, b)


def unrelinearised(ev: Evaluator, a: Any, b: Any) -> Any:
    """The product of two ciphertexts, with three components."""
    return ev.multiply(a, b)


def _true_bound(value: Value) -> float:
    """Bound on the entries of the matrix itself."""
    return float(value.first().bound * abs(value.unit))


def _is_integer(value: float) -> bool:
    """Whether a ratio of units is a small integer."""
    return value <= RANGE_MARGIN and abs(value - round(value)) <= UNIT_TOLERANCE * value
