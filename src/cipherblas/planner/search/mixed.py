"""Candidates of several forms: products by GEMM on encrypted rows, entrywise operations on slots."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from cipherblas.common.errors import ParameterError
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.forms.blocks import grid_shape
from cipherblas.forms.convert.coefficients import Halves, Packing, rows_to_slots, slots_to_rows
from cipherblas.lang.analysis import has_public_key
from cipherblas.lang.facts import facts_of, products
from cipherblas.lang.graph import axes_of
from cipherblas.lang.nodes import Expression, matrix_shape, ordered
from cipherblas.lang.refreshing import REFRESH, is_refreshed
from cipherblas.lang.results import results_of
from cipherblas.methods.bootstrapping.refresh import bootstrapping_of
from cipherblas.methods.products import GEMM, RING
from cipherblas.planner.plan.explain import duration
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.plan.schema import MAX_WEIGHT_BITS
from cipherblas.planner.predict.cost import Rates
from cipherblas.planner.predict.dry_run import counted_evaluators
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.rings import modulus_chains
from cipherblas.planner.rings.sizing import draft
from cipherblas.planner.search.budgets import Budgets
from cipherblas.planner.search.method_prices import counted_plains
from cipherblas.planner.search.rows import weight_bits_for
from cipherblas.planner.search.strategy import Candidate, RefuseUpload, Strategy
from cipherblas.rlwe.basis import FirstLimbs
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import RingShape, low_limbs
from cipherblas.runtime import schedule
from cipherblas.runtime.blocks import BLOCKS, LAYOUT_PRESERVING, layout_preserving_product, multiply
from cipherblas.runtime.executor import METHODS, missing
from cipherblas.runtime.graphs import product_graph
from cipherblas.runtime.placing import UNMOVED
from cipherblas.runtime.row_products.in_ring import has_clear_factor, products_in_ring
from cipherblas.runtime.row_products.table import plain
from cipherblas.runtime.rows import ROWS
from cipherblas.runtime.values import Decisions, MethodChoice

MIXED = "gemm, elementwise"
NOMINAL_SCALE_BITS, NOMINAL_ROW_BITS = 30.0, 20.0  # of the ring on which forms are placed, and of rows
EARLY_SECONDS = 1e-6  # for a conversion before an operation that takes nothing: it is better after that
STAGES = (2, 3)
RESCALES = (0, 1)
# Errors of rounded weights count somewhat more once they are errors of slots, and twice in a square.
EXTRA_WEIGHT_BITS = 1
# Of rounded weights where values are refreshed: a GEMM of a thousand terms takes as long as for 18 bits.
REFRESHED_BITS = 26


def unsupported(expression: Expression) -> str | None:
    """Why a program gains nothing by several forms, or cannot have them; None where it may."""
    if not products(expression):
        return "there is no matrix product"
    if missing(expression, ROWS) is None:
        return "rows compute it alone"
    for node in facts_of(expression).order:
        if computed(node) and not forms_of(node):
            return f"no method by rows or in blocks for {node.title}"
    return None


def computed(node: Expression) -> bool:
    """Whether something is computed of a node on the server."""
    return node.secret and not node.packable and not node.root


def forms_of(node: Expression) -> list[str]:
    """The forms in which a computed node may be: products by rows, those of a computed and a clear factor and sums in
    either, entrywise ones in slots."""
    forms = (ROWS,) if node.product and not may_preserve_layout(node) else (ROWS, BLOCKS)
    return [form for form in forms if (form, node.op) in METHODS]


def may_preserve_layout(node: Expression) -> bool:
    """Whether a product is of a computed and a clear factor."""
    secret = [child for child in node.children if child.secret]
    return node.product and len(secret) == 1 and computed(secret[0])


class Placement:
    """The form of every node, by dynamic programming over the graph: a node is where it is cheapest with what it takes
    to bring its children there. Conversions, and products that may be in either form, are counted without data, on a
    nominal ring of the degree.

    A node with several parents is placed once, as the first of them has it.

    Args:
        ring: of the degree; of a program that refreshes, one that has limbs for that.
        all_by_rows: every product is by rows.
    """

    def __init__(
        self, expression: Expression, ring: RingShape, rates: Rates, threads: int, all_by_rows: bool = False
    ) -> None:
        self._expression, self._ring, self._rates, self._threads = expression, ring, rates, threads
        self._n, self._all_by_rows = ring.n, all_by_rows
        self._refreshed = is_refreshed(expression)
        # Of values by rows, and of those in blocks.
        self._low = low_limbs(ring) if self._refreshed else len(ring.q) // 2
        self._high = bootstrapping_of(ring).limbs(len(ring.q)) if self._refreshed else self._low
        self._alternatives: dict[int, dict[str, tuple[float, dict[int, str]]]] = {}
        self._placed: dict[int, str] = {}
        self._prices: dict[tuple[tuple[int, ...], str, int], float] = {}
        self._own: dict[tuple[int, str], float] = {}
        self._numbers = {id(node): number for number, node in enumerate(facts_of(expression).order)}

    def best(self) -> dict[int, str]:
        """The nodes that are in blocks, by number."""
        for node in ordered(self._expression):
            if computed(node):
                forms = [ROWS] if node.product and self._all_by_rows else forms_of(node)
                self._alternatives[id(node)] = {form: self._alternative(node, form) for form in forms}
        placed: dict[int, str] = {}
        for result in results_of(self._expression):
            if computed(result):
                _, found = min(self._alternatives[id(result)].values(), key=lambda entry: entry[0])
                placed = {**found, **placed}
        self._placed = placed
        return {number: form for number, form in sorted(placed.items()) if form != ROWS}

    def runners_up(self) -> dict[int, str]:
        """By the number of a node, the next best of its other forms, and what that takes more: its way and the
        conversion to the form of the first node that is made of it."""
        asked: dict[int, tuple[Expression, str | None]] = {}
        for parent in ordered(self._expression):
            for child in parent.children:
                if id(child) in self._alternatives and id(parent) in self._alternatives:
                    form = self._placed[self._numbers[id(parent)]]
                    asked.setdefault(self._numbers[id(child)], (child, form))
        for result in results_of(self._expression):
            if id(result) in self._alternatives:
                asked.setdefault(self._numbers[id(result)], (result, None))
        found = {}
        for number, (node, target) in asked.items():
            costs = {form: self._cost(node, form, target) for form in self._alternatives[id(node)]}
            taken = costs.pop(self._placed[number])
            if costs:
                other = min(costs, key=costs.__getitem__)
                found[number] = f"{other}, {_difference(costs[other] - taken)}"
        return found

    def other_conversions(self, conversions: Mapping[int, Mapping[str, int]]) -> dict[int, str]:
        """By the number of a node whose value is converted, the fastest other number of stages."""
        order, found = ordered(self._expression), {}
        for number, options in conversions.items():
            target = BLOCKS if self._placed[number] == ROWS else ROWS
            prices = {stages: self._price(order[number], target, stages) for stages in STAGES}
            taken = options["stages"]
            other = min((stages for stages in STAGES if stages != taken), key=prices.__getitem__)
            levels = f"{abs(other - taken)} level{'s' if abs(other - taken) != 1 else ''}"
            levels += " more" if other > taken else " less"
            found[number] = f"{other} stages, {_difference(prices[other] - prices[taken])}, {levels}"
        return found

    def _cost(self, node: Expression, form: str, target: str | None) -> float:
        """Seconds of the way to a node in a form, and on to the form that it is asked for in."""
        conversion = 0.0 if target is None or target == form else self._price(node, target)
        return self._alternatives[id(node)][form][0] + conversion

    def _alternative(self, node: Expression, form: str) -> tuple[float, dict[int, str]]:
        seconds, placed = self._product(node, form), {self._numbers[id(node)]: form}
        for child in {id(child): child for child in node.children}.values():
            if id(child) not in self._alternatives:
                continue

            costs = {source: self._cost(child, source, form) for source in self._alternatives[id(child)]}
            if node.op == REFRESH and BLOCKS in costs:  # from rows it is what takes them to blocks
                costs[BLOCKS] += self._refresh(child)
            source = min(costs, key=costs.__getitem__)
            seconds += costs[source]
            if node.op in UNMOVED and source != form:  # what is used twice is converted as late as can be
                seconds += EARLY_SECONDS
            placed = {**self._alternatives[id(child)][source][1], **placed}
        return seconds, placed

    def _product(self, node: Expression, form: str) -> float:
        """Seconds of a product that may be in either form; nothing of others, which have one form or are free."""
        if not may_preserve_layout(node):
            return 0.0
        key = self._numbers[id(node)], form
        if key not in self._own:
            counts = attempted(functools.partial(self._counts, node, form))
            self._own[key] = (
                math.inf
                if isinstance(counts, Infeasible)
                else self._rates.seconds(counts, self._n, self._threads)
            )
        return self._own[key]

    def _counts(self, node: Expression, form: str) -> Counts:
        """Seconds of a product in a form."""
        if form == ROWS:
            return plain(node, self._expression).counts(node, self._ring.family.rows.n, self._low)
        return _diagonals(node, self._ring, self._high)

    def _price(self, node: Expression, target: str, stages: int = STAGES[0]) -> float:
        """Seconds of a conversion in so many stages."""
        shape = matrix_shape(node)
        key = shape, target, stages
        if key not in self._prices:
            self._prices[key] = self._rates.seconds(
                self._conversion(shape, target, stages), self._n, self._threads
            )
        return self._prices[key]

    def _conversion(self, shape: tuple[int, int], target: str, stages: int) -> Counts:
        """Seconds of a conversion, with the refresh on its way if there is one."""
        packing = Packing.of_length(self._ring, shape[1], stages)
        evs = counted_evaluators(self._ring)
        pieces = -(-shape[1] // packing.degree)
        if target == ROWS and self._refreshed:
            one = evs.slots.fresh(None, bound=1.0, limbs=self._low + stages)
            pairs = [Halves(one, one)] * -(-shape[0] // packing.rows)
            slots_to_rows(evs, pairs, shape[0], packing)
            return evs.counts * pieces
        x = evs.rows.fresh(
            None,
            (shape[0], packing.degree),
            bound=1.0,
            scale=2.0**NOMINAL_ROW_BITS,
            basis=FirstLimbs(self._low),
        )
        if self._refreshed:
            bootstrapping_of(self._ring).of_rows(evs, x, packing, self._low - 1)
            return evs.counts * pieces
        pairs = rows_to_slots(evs, x, packing)
        counts = evs.counts
        if target == ROWS:
            slots_to_rows(evs, pairs, shape[0], packing)
            counts = evs.counts - counts
        return counts * pieces

    def _refresh(self, node: Expression) -> float:
        """Seconds of the refresh of a value in blocks."""
        shape = matrix_shape(node)
        key = shape, REFRESH, 0
        if key not in self._prices:
            ev = Symbolic(self._ring)
            method = bootstrapping_of(self._ring)
            method.run(ev, ev.fresh(None, bound=1.0, limbs=method.levels_before + 1))
            packing = Packing.of_length(self._ring, shape[1])
            number = -(-shape[0] // packing.rows) * -(-shape[1] // max(packing.degree // 2, 1))
            self._prices[key] = self._rates.seconds(ev.counts * number, self._n, self._threads)
        return self._prices[key]


class MixedStrategy(Strategy):
    """Rows where there are products, blocks where entries are multiplied."""

    form: ClassVar[str] = ROWS
    label: ClassVar[str] = MIXED
    fine, failing = False, 1
    far = near = 3.0
    alphas = (2, 4)  # key switches take most of the time: fewer digits are worth special primes

    def __init__(self, expression: Expression, options: PlanOptions, budgets: Budgets) -> None:
        super().__init__(expression, options, budgets)
        self._placements: dict[int, list[tuple[Placement, dict[int, str]]]] = {}

    @classmethod
    def refusal(cls, expression: Expression, options: PlanOptions) -> ParameterError | None:
        reason = unsupported(expression)
        if reason is None:
            return None
        return ParameterError(
            "The program has no use for several forms.",
            expected="products, and entrywise products of what is computed",
            got=reason,
        )

    def least_seconds(self, rates: Rates, threads: int) -> float:
        """The GEMMs of clear factors, of one limb in the smallest ring."""
        counts, n = Counts(), min(self.degrees)
        for node in filter(has_clear_factor, products(self.expression)):
            counts = counts + plain(node, self.expression).counts(node, n, 1)
        return rates.seconds(counts, n, threads)

    def families(self, thorough: bool, refuse: RefuseUpload) -> Iterator[Iterator[list[Candidate]]]:
        alternatives = itertools.product(STAGES, RESCALES[:1] if self.refreshed else RESCALES)
        for stages, rescales in alternatives:
            yield (list(self._candidates(n, stages, rescales)) for n in self.degrees)

    def _candidates(self, n: int, stages: int, rescales: int) -> Iterator[Candidate]:
        placements = attempted(lambda: self._placed(n))
        if isinstance(placements, Infeasible):
            return
        for _, forms in placements:
            yield Candidate(MIXED, self._decisions(n, stages, rescales, forms), n)

    def _decisions(self, n: int, stages: int, rescales: int, forms: Mapping[int, str]) -> Decisions:
        order = facts_of(self.expression).order
        squares = sum(not (node.linear or node.product) for node in order if node.secret)
        bits = weight_bits_for(float(self.options.precision), self.expression) + EXTRA_WEIGHT_BITS
        bits = REFRESHED_BITS if self.refreshed else min(bits + squares, MAX_WEIGHT_BITS)
        choices, conversions = {}, {}
        numbers = {id(node): number for number, node in enumerate(order)}
        in_ring = products_in_ring(
            self.expression, self.row_degree(n), lambda child: forms.get(numbers[id(child)], ROWS)
        )
        for number, node in enumerate(order):
            if not computed(node):
                continue
            form = forms.get(number, ROWS)
            if node.product:
                weights = {} if all(child.secret for child in node.children) else {"weight_bits": bits}
                gemm = (
                    MethodChoice(RING, weights)
                    if id(node) in in_ring
                    else MethodChoice(GEMM, {"weight_bits": bits})
                )
                choices[number] = MethodChoice(LAYOUT_PRESERVING) if form == BLOCKS else gemm
            elif form == BLOCKS and METHODS[BLOCKS, node.op] is multiply and _computed_factor(node):
                choices[number] = MethodChoice(LAYOUT_PRESERVING)
            for child in node.children:
                source = forms.get(numbers[id(child)], ROWS)
                if computed(child) and source != form and not (self.refreshed and source == ROWS):
                    options = {"stages": stages}
                    if source == ROWS:
                        options["rescales"] = rescales if _rounded(child) else 0
                    conversions[numbers[id(child)]] = options
        return Decisions(ROWS, choices, self._blocks(n), "direct", forms, conversions)

    def row_degree(self, n: int) -> int | None:
        """Degree of the ring of rows beside slots of a ring of this degree; None where it is the same one."""
        if not self.refreshed or has_public_key(self.expression):
            return None
        return modulus_chains.row_degree(n, self.options.security, self.options.insecure)

    def _placed(self, n: int) -> list[tuple[Placement, dict[int, str]]]:
        """The nodes that are in blocks, in a ring of this degree, and what found them; and with all products by rows,
        where that is different: levels are not among the prices."""
        if n not in self._placements:
            machine = self.options.planned_for
            threads = self.options.threads or machine.threads
            ring = draft(n, NOMINAL_SCALE_BITS)
            if self.refreshed:
                ring = modulus_chains.widest(n, self.allowed_bits(n), self.row_degree(n)).shape()
            found: list[tuple[Placement, dict[int, str]]] = []
            for all_by_rows in (False, True):
                placement = Placement(self.expression, ring, machine.rates, threads, all_by_rows)
                forms = placement.best()
                if all(forms != other for _, other in found):
                    found.append((placement, forms))
            self._placements[n] = found
        return self._placements[n]

    def explained(self, candidate: Candidate) -> Candidate:
        """With the other forms of nodes, and the other stages of conversions."""
        taken = candidate.decisions.forms
        placement = next(one for one, forms in self._placed(candidate.n) if forms == taken)
        conversions = {} if self.refreshed else placement.other_conversions(candidate.decisions.conversions)
        return replace(candidate, runners_up=placement.runners_up(), other_conversions=conversions)

    def _blocks(self, n: int) -> dict[str, int]:
        """Block lengths for what is packed in no other way: as it would come from rows."""
        axes, ring = axes_of(self.expression), RingShape(n, (), (), 1, 0.0, row_degree=self.row_degree(n))
        blocks: dict[str, int] = {}
        for node in facts_of(self.expression).order:
            if node.secret and not node.root:
                rows, cols = axes.of(node)
                packing = Packing.of_length(ring, matrix_shape(node)[1])
                blocks.setdefault(cols, packing.degree // 2)
                blocks.setdefault(rows, packing.rows)
        return {axis: blocks.get(axis, 1) for axis in axes.lengths}


def _diagonals(node: Expression, ring: RingShape, limbs: int) -> Counts:
    """The counts of a product in place, of a factor of so many limbs that comes from rows."""
    left, right = node.children
    secret = right if right.secret else left
    by_columns = left.secret  # as products with a clear right factor come
    packing = Packing.of_length(ring, matrix_shape(secret)[0 if by_columns else 1])
    algorithm = layout_preserving_product(packing.layout(by_columns), node)
    ev = Symbolic(ring)
    cells, grids = [], []
    for child, layout in zip(node.children, (algorithm.left_layout, algorithm.right_layout), strict=True):
        rows, cols = grid_shape(*matrix_shape(child), layout.rows, layout.cols)
        fresh = [ev.fresh(None, bound=1.0, limbs=limbs)]
        cells.append([[fresh if child is secret else counted_plains(layout, rows * cols)] * cols] * rows)
        grids.append((rows, cols))
    schedule.run(product_graph(algorithm, *grids), ev, cells)
    return ev.counts


def _difference(seconds: float) -> str:
    """The time of an alternative relative to the chosen one, as text."""
    return f"{duration(abs(seconds))} {'more' if seconds >= 0 else 'less'}"


def _rounded(node: Expression) -> bool:
    """Whether a value by rows has a scale that holds a clear factor."""
    return any(current.product for current in ordered(node))


def _computed_factor(node: Expression) -> bool:
    """Whether a factor of an entrywise product lies where its own computation leaves it."""
    return any(child.secret and not child.packable for child in node.children)
