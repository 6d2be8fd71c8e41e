"""Candidates in slots for programs of matrices: algorithms × ring degrees × blocks × options."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from cipherblas.common.errors import FitError
from cipherblas.common.words import WORD_BYTES
from cipherblas.forms.blocks import grid_shape
from cipherblas.forms.layouts import Layout, column_major
from cipherblas.forms.slot_forms import SlotForm
from cipherblas.lang.facts import facts_of, products
from cipherblas.lang.graph import axes_of
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.lang.operations import Leaf
from cipherblas.lang.results import results_of
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.products import build, find
from cipherblas.planner.plan.assembly import Predictions, key_bytes_of
from cipherblas.planner.plan.plan import RING_DEGREES, PlanOptions
from cipherblas.planner.predict.cost import Rates
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.predict.lower_bound import least_seconds
from cipherblas.planner.rings.sizing import DRAFT_SCALE_BITS, drafted
from cipherblas.planner.search.assignment import Assignment
from cipherblas.planner.search.block_methods import algorithm_names, choices_of, considered, option_sets
from cipherblas.planner.search.budgets import Budgets
from cipherblas.planner.search.method_prices import (
    Priced,
    Seconds,
    counted_handles,
    counted_product,
)
from cipherblas.planner.search.strategy import Candidate, RefuseUpload, Run, Scored, Strategy
from cipherblas.planner.search.tilings import (
    TILINGS_KEPT,
    fits_all,
    promising,
    stretched,
    tilings_of_one,
    uniform_tilings,
    widened,
)
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.rings import Ring
from cipherblas.rlwe.traffic import Traffic
from cipherblas.runtime.blocks import BLOCKS, LAYOUT_PRESERVING
from cipherblas.runtime.inputs import SymbolicInputs
from cipherblas.runtime.values import Decisions, MethodChoice

WITHOUT_KEYS = "elementwise without keys"  # whose results keep three components
FEW_MOVED = 32  # ciphertexts of a block that take a re-arrangement each
MAX_MOVED = 128
REFINED = 3  # pairs of a ring degree and of block lengths for which each node's method is chosen
LEVEL_SHARES = (0.0, 0.1)  # of a plan's seconds, that a limb is taken to cost
PROGRAM_TILINGS = 2  # of a program with several products: the largest blocks that fit


class BlockStrategy(Strategy):
    """Grids of blocks of matrices."""

    form: ClassVar[str] = BLOCKS
    label: ClassVar[str] = "slots"
    digits = 8  # all: prices are counted quickly

    def __init__(self, expression: Expression, options: PlanOptions, budgets: Budgets) -> None:
        super().__init__(expression, options, budgets)
        self.nodes, self.results = products(expression), results_of(expression)
        self.numbers = {id(node): number for number, node in enumerate(facts_of(expression).order)}
        self.axes = axes_of(expression)
        self.fine = self._is_one_product()
        if not self.fine:
            self.far, self.near, self.failing, self.digits = 2.0, 1.6, 1, 1
        self._algorithms: dict[Hashable, Algorithm] = {}
        # By decisions, degree and limbs: of the product alone, whatever the digits are.
        self._counted: dict[Hashable, tuple[Priced, Traffic]] = {}
        self._inputs = SymbolicInputs()  # whose clear blocks have their values, where these are known

    def _is_one_product(self) -> bool:
        """One product of two operands, up to factors: the case that is searched most finely."""

        def core(node: Expression) -> Expression:
            return node.children[0] if node.op == "scale" else node

        if len(self.nodes) != 1 or any(core(result) is not self.nodes[0] for result in self.results):
            return False
        return all(core(child).operand is not None or not child.secret for child in self.nodes[0].children)

    def slope(self, run: Run, n: int) -> float:
        """Of one product, no sum of terms with different ranges: the scale of its result is a power of the usual
        one."""
        if not self.fine:
            return super().slope(run, n)
        _, found = drafted(run, n, DRAFT_SCALE_BITS, self.allowed_bits(n))
        return float(round(math.log2(found.results[0].first().scale) / DRAFT_SCALE_BITS))

    def least_seconds(self, rates: Rates, threads: int) -> float:
        return least_seconds(self.expression, min(self.degrees, default=min(RING_DEGREES)), rates, threads)

    def is_single_block(self, candidate: Candidate) -> bool:
        """Whether every matrix is one block."""
        blocks = candidate.decisions.blocks
        return all(blocks[axis] >= length for axis, length in self.axes.lengths.items())

    def families(self, thorough: bool, refuse: RefuseUpload) -> Iterator[Iterator[list[Candidate]]]:
        options = self.options
        if not self.nodes:
            if facts_of(self.expression).multiplies_last and self.options.for_peer != "openfhe":
                yield map(self._unrelinearised, self.degrees)
            yield map(self._elementwise, self.degrees)
            return
        for name in algorithm_names(options):

            def fitting(n: int, name: str = name) -> list[Candidate]:
                found = self._of_algorithm(name, n, thorough)
                return [one for one in found if self._fits_upload(one, refuse)]

            yield map(fitting, self.degrees)

    def _elementwise(self, n: int) -> list[Candidate]:
        halves, places = False, n // 2
        if self.modulus is not None and facts_of(self.expression).entrywise:
            # Where one integer in a slot is not enough for all entries, there are two.
            sizes = (math.prod(self.axes.lengths[axis] for axis in self.axes.of(one)) for one in self.results)
            halves = max(sizes) > places
            places <<= halves
        for blocks in uniform_tilings(self.axes.lengths, self.options.largest_block):
            sizes = (math.prod(blocks[axis] for axis in self.axes.of(node)) for node in self.results)
            if max(sizes) <= places:
                others = stretched(self.expression, self.axes, blocks, places)
                found = sorted((blocks, *others), key=self._blocks_sent)
                decided = [Decisions(BLOCKS, {}, one, halves=halves) for one in found]
                return [Candidate("elementwise", one, n) for one in decided]
        return []

    def _unrelinearised(self, n: int) -> list[Candidate]:
        """The same with results of three components, which need no key."""
        return [
            replace(one, name=WITHOUT_KEYS, decisions=replace(one.decisions, unrelinearised=True))
            for one in self._elementwise(n)
        ]

    def _blocks_sent(self, blocks: Mapping[str, int]) -> int:
        """Blocks of all operands that differ, in one layout."""
        total = 0
        for leaf in facts_of(self.expression).order:
            if isinstance(leaf, Leaf) and leaf.secret:
                rows, cols = (blocks[axis] for axis in self.axes.of(leaf))
                layout = column_major(rows, cols, rows * cols)
                total += (
                    SlotForm(layout, grid_shape(*matrix_shape(leaf), rows, cols))
                    .repeating(leaf.shape, leaf.repeated)
                    .ciphertexts
                )
        return total

    def _of_algorithm(self, name: str, n: int, thorough: bool) -> Iterator[Candidate]:
        algorithm, slots = find(name), n // 2
        if self.fine:
            node = self.nodes[0]
            m, k = node.children[0].shape
            axes = (*self.axes.of(node.children[0]), self.axes.of(node)[1])
            shape = (m, k, node.shape[1])
            all_tilings = tilings_of_one(algorithm, shape, slots, self.options.block)
            tilings = (block for block in all_tilings if considered(self.options, algorithm, block))
            # Algorithms with levels of their own are slow to count, and lose to the others by far: one tiling each.
            kept = TILINGS_KEPT if thorough or algorithm.min_levels == 0 else 1
            for block in promising(tilings, shape, kept):
                for found in option_sets(self.options, algorithm, block, slots):
                    choices = {self.numbers[id(node)]: MethodChoice(name, found)}
                    yield Candidate(name, Decisions(BLOCKS, choices, _blocks(axes, block)), n)
            return
        uniform = uniform_tilings(self.axes.lengths, self.options.largest_block)
        if self.expression.root:
            uniform = self._and_widened(uniform)
        fitting = (
            blocks
            for blocks in uniform
            if fits_all(algorithm, self.expression, self.axes, blocks, slots)
            and all(considered(self.options, algorithm, self._block(node, blocks)) for node in self.nodes)
        )
        cut = list(itertools.islice(fitting, PROGRAM_TILINGS * (1 + self.expression.root)))
        longer: list[dict[str, int]] = []
        if self.options.largest_block is None:
            longer = [one for blocks in cut for one in stretched(self.expression, self.axes, blocks, slots)]
        cut += [one for one in longer if fits_all(algorithm, self.expression, self.axes, one, slots)]
        for blocks in sorted(cut, key=self._blocks_sent) if longer else cut:
            choices = {
                self.numbers[id(node)]: self._first_choice(algorithm, node, blocks, slots)
                for node in self.nodes
            }
            yield Candidate(name, Decisions(BLOCKS, choices, blocks), n)

    def _and_widened(self, tilings: Iterator[dict[str, int]]) -> Iterator[dict[str, int]]:
        for blocks in tilings:
            yield blocks
            wider = widened(self.expression, self.axes, blocks)
            if wider != blocks:
                yield wider

    def refine_candidates(self, scored: Sequence[Scored], predictions: Predictions) -> Iterator[Candidate]:
        """A method of its own for each node of a program with several, in the blocks and rings of the best plans."""
        if self.fine or not self.nodes or self.options.options is not None:
            return
        seen: set[Any] = set()
        for entry in scored:
            candidate, ring = entry.candidate, entry.ring
            key = candidate.n, tuple(sorted(candidate.decisions.blocks.items()))
            if key in seen or len(seen) == REFINED:
                continue
            seen.add(key)

            seconds = functools.partial(predictions.more_seconds, ring)
            tried: list[Mapping[int, MethodChoice]] = [candidate.decisions.choices]
            known: dict[Any, Any] = {}
            for level in LEVEL_SHARES:
                found, runners = self._assigned(entry, ring, seconds, level * entry.seconds, known)
                if found is not None and found not in tried:
                    tried.append(found)
                    methods = [
                        choice.method
                        for _, choice in sorted(found.items())
                        if choice.method != LAYOUT_PRESERVING
                    ]
                    name = ", ".join(dict.fromkeys(methods)) or "elementwise"
                    yield Candidate(name, replace(candidate.decisions, choices=found), candidate.n, runners)

    def _assigned(
        self, entry: Scored, ring: Ring, seconds: Seconds, level: float, known: dict[Any, Any]
    ) -> tuple[Mapping[int, MethodChoice] | None, Mapping[int, str]]:
        decisions = entry.candidate.decisions
        assignment = Assignment(
            *(self.expression, ring, decisions.blocks, decisions.key_policy),
            *(seconds, functools.partial(self._methods, decisions.blocks, ring.n // 2)),
            *(level, entry.seconds),
            known=known,
        )
        best = attempted(assignment.best)
        return (None, {}) if isinstance(best, Infeasible) else (best, assignment.runners_up())

    def _methods(self, blocks: Mapping[str, int], slots: int, node: Expression) -> Iterator[MethodChoice]:
        """The methods of a product that are compared."""
        for choice in choices_of(self.options, self._block(node, blocks), slots):
            algorithm, block = find(choice.method), self._block(node, blocks)
            if _moved(node, algorithm, block, slots, choice.options) <= MAX_MOVED:
                yield choice

    def _block(self, node: Expression, blocks: Mapping[str, int]) -> tuple[int, int, int]:
        rows, inner = self.axes.of(node.children[0])
        return blocks[rows], blocks[inner], blocks[self.axes.of(node)[1]]

    def _first_choice(
        self, algorithm: type[Algorithm], node: Expression, blocks: Mapping[str, int], slots: int
    ) -> MethodChoice:
        """The first options; of computed factors those that re-arrange them into the fewest ciphertexts."""
        block = self._block(node, blocks)
        sets = option_sets(self.options, algorithm, block, slots)
        found = next(sets, None)
        if found is None:
            raise FitError(f"No option of {algorithm.name} fits the block.", got=block)
        if _moved(node, algorithm, block, slots, found) > FEW_MOVED:
            found = min([found, *sets], key=functools.partial(_moved, node, algorithm, block, slots))
        return MethodChoice(algorithm.name, found)

    def _fits_upload(self, candidate: Candidate, refuse: RefuseUpload) -> bool:
        """Whether the upload fits its budget at one limb: what does not need not be counted to be refused."""
        uploads, allowed = self._least_upload(candidate), self.budgets.upload
        if uploads > allowed:
            refuse(candidate, uploads)
        return uploads <= allowed

    def _least_upload(self, candidate: Candidate) -> int:
        """Bytes of the operands that are factors of products, or parts of factors, each at one limb."""
        polynomials = sum(form.ciphertexts * (1 + own) for form, own in self._sent(candidate))
        return polynomials * candidate.n * WORD_BYTES

    def _sent(self, candidate: Candidate) -> list[tuple[SlotForm, bool]]:
        """Of the operands that are factors of products, or parts of factors: the forms, and whether the public key
        encrypts them."""
        found: dict[Any, tuple[SlotForm, bool]] = {}
        for node in self.nodes:
            algorithm = self._algorithm(candidate, node)
            layouts = algorithm.left_layout, algorithm.right_layout
            for side, layout in zip(node.children, layouts, strict=True):
                if not (side.secret and side.packable):
                    continue
                whole = self._in_blocks(side, layout)
                for leaf in facts_of(side).order:
                    if isinstance(leaf, Leaf) and leaf.secret:
                        key = (leaf.label, leaf.transposed, layout.key)
                        found[key] = whole.repeating(leaf.shape, leaf.repeated), leaf.operand.public_key
        return list(found.values())

    def _algorithm(self, candidate: Candidate, node: Expression) -> Algorithm:
        """Of a product, as a candidate computes it."""
        choice = candidate.decisions.choices[self.numbers[id(node)]]
        block, slots = self._block(node, candidate.decisions.blocks), candidate.n // 2
        key = choice.method, block, slots, tuple(sorted(choice.options.items()))
        if key not in self._algorithms:
            self._algorithms[key] = build(choice.method, *block, slots, choice.options)
        return self._algorithms[key]

    def _in_blocks(self, node: Expression, layout: Layout) -> SlotForm:
        return SlotForm(layout, grid_shape(*matrix_shape(node), layout.rows, layout.cols))

    def price(
        self, candidate: Candidate, ring: Ring, run: Run, predictions: Predictions, most: float = math.inf
    ) -> tuple[float, int]:
        """As a dry run finds, of the product alone."""
        if not self.fine:
            return super().price(candidate, ring, run, predictions)
        decisions = candidate.decisions
        (choice,) = decisions.choices.values()
        key = (
            *(choice.method, *choice.options.items(), *decisions.blocks.items()),
            *(decisions.key_policy, ring.n, *ring.q),
        )
        if key not in self._counted:
            self._counted[key] = self._count(candidate, ring, predictions, most)
        ev, traffic = self._counted[key]
        counts, key_bytes = ev.counts_with(ring), key_bytes_of(ev.request, ring)
        return predictions.seconds(predictions.stages(counts, traffic, key_bytes, ring)), key_bytes

    def _count(
        self, candidate: Candidate, ring: Ring, predictions: Predictions, most: float
    ) -> tuple[Priced, Traffic]:
        """The product alone, counted, with the traffic of the program."""
        (node,) = self.nodes
        algorithm, limbs = self._algorithm(candidate, node), len(ring.q)
        ev = Priced(ring, key_policy=candidate.decisions.key_policy).logged()
        traffic = sum(
            (form.upload(limbs, ring.n, public_key) for form, public_key in self._sent(candidate)), Traffic()
        )
        if most < math.inf:
            sent = predictions.seconds(predictions.stages(Counts(), traffic, 0, ring))
            rates, threads = predictions.machine.rates, predictions.threads
            ev.limited(most, lambda counts: sent + rates.seconds(counts, ring.n, threads))
        layouts = algorithm.left_layout, algorithm.right_layout
        left, right = (self._in_blocks(*pair).grid for pair in zip(node.children, layouts, strict=True))
        factors = [
            counted_handles(ev, layout, limbs)
            if side.secret
            else self._inputs.blocks(side, layout, grid, side.bound if self.modulus is None else 1.0)[0][0]
            for side, layout, grid in zip(node.children, layouts, (left, right), strict=True)
        ]
        found = counted_product(ev, algorithm, (left, right), factors)[0]
        back = self._in_blocks(node, algorithm.out_layout).download(found.limbs, found.components, ring.n)
        return ev, traffic + back


def _moved(
    node: Expression,
    algorithm: type[Algorithm],
    block: tuple[int, int, int],
    slots: int,
    options: Mapping[str, Any],
) -> int:
    """Ciphertexts of a block into which computed factors are re-arranged."""
    computed = [child.secret and not child.packable for child in node.children]
    if not any(computed):
        return 0
    method = build(algorithm.name, *block, slots, options)
    layouts = method.left_layout, method.right_layout
    return sum(layout.ciphertexts for layout, there in zip(layouts, computed, strict=True) if there)


def _blocks(axes: tuple[str, ...], block: tuple[int, ...]) -> dict[str, int]:
    """Axis → block length; axes that coincide (a @ a) take the smaller length."""
    blocks: dict[str, int] = {}
    for axis, length in zip(axes, block, strict=True):
        blocks[axis] = min(length, blocks.get(axis, length))
    return blocks
