"""Candidates by rows: products by GEMM, on the smallest modulus that reaches the precision."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from cipherblas.common.errors import LevelError, ParameterError, PrecisionError
from cipherblas.crypto.security import max_log_qp
from cipherblas.lang.facts import facts_of, products
from cipherblas.lang.modular import modulus_of
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.lang.results import results_of
from cipherblas.methods.products import GEMM
from cipherblas.planner.plan.assembly import Predictions
from cipherblas.planner.plan.exact import is_rounded_alone
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.rings.row_sizes import (
    MAX_MODULUS_BITS,
    MAX_SEARCHED_BITS,
    SPECIAL_BITS,
    RowSize,
    RowSizes,
)
from cipherblas.planner.search.strategy import Candidate, RefuseUpload, Run, Scored, Strategy
from cipherblas.rlwe.rings import Ring, RingShape
from cipherblas.runtime.executor import missing
from cipherblas.runtime.row_products.kind import Variant
from cipherblas.runtime.row_products.known import known_norm
from cipherblas.runtime.row_products.table import VARIANTS, changed, chosen, plain
from cipherblas.runtime.rows import ROWS
from cipherblas.runtime.values import Decisions, MethodChoice

ROW_DEGREES = tuple(1 << log_n for log_n in range(11, 15))
NOMINAL_LIMBS = (1, 2, 4, 7)  # of nominal rings
WORTH_KEYS = 1.1  # fewer keys are taken where they cost a tenth of the time at most,
WORTH_KEYS_SERVER = 1.02  # and less where the server's time is asked to be least
# Times as long as with its own modulus, what a candidate may take with that of another one.
SMALLER_MODULUS = 3.0


def unsupported(expression: Expression) -> str | None:
    """Why a program cannot be computed by rows, or None where it can."""
    node = missing(expression, ROWS)
    if node is not None:
        return f"no method by rows for {node.title}"
    # Else slots hold more: integers modulo t may have none.
    useful = products(expression) or modulus_of(expression) is not None
    return None if useful else "there is no matrix product"


def weight_bits_for(precision: float, expression: Expression) -> int:
    """Bits of rounded weights: each product then adds at most an eighth of the precision.

    That is relative to bounds by the sums of rows, or norms, which the roundings of all entries of a row may exceed.
    """
    spread, nodes = 1.0, products(expression)
    for node in nodes:
        left, right = node.children
        if left.secret != right.secret:
            total = right.column_sum if left.secret else left.row_sum
            clear, secret = (right, left) if left.secret else (left, right)
            spread = max(spread, left.shape[1] * clear.bound / total)
            if secret.column_bounds is not None or secret.row_bounds is not None:
                spread = max(spread, left.shape[1] * clear.bound * secret.bound / node.bound)
            if len(nodes) > 1 and math.isfinite(known_norm(clear)):  # roundings of all columns count together
                columns = math.sqrt(min(matrix_shape(secret)))
                spread = max(spread, left.shape[1] * clear.bound / known_norm(clear) * columns)
    return max(2, math.ceil(math.log2(4 / precision * spread)))


class RowStrategy(Strategy):
    """Matrices encrypted by rows or columns."""

    form: ClassVar[str] = ROWS
    label: ClassVar[str] = GEMM
    near = WORTH_KEYS
    all_policies: ClassVar[bool] = True

    @classmethod
    def refusal(cls, expression: Expression, options: PlanOptions) -> ParameterError | None:
        reason = unsupported(expression)
        if reason is not None:
            return ParameterError(
                "The program cannot be computed by GEMMs.",
                expected="products of matrices, sums and factors",
                got=reason,
            )
        if options.parameters is not None:
            return ParameterError(
                "Products by GEMM do not take parameters=: they choose their moduli one by one.",
            )
        return None

    @property
    def degrees(self) -> Sequence[int]:
        forced = self.options.ring_degree
        return ROW_DEGREES if forced is None else (forced,)

    def nominal(self, n: int) -> list[Ring]:
        sizes = [
            RowSize(n, limbs * MAX_SEARCHED_BITS, SPECIAL_BITS, plain_modulus=self.modulus)
            for limbs in NOMINAL_LIMBS
        ]
        return [size.shape() for size in sizes]

    def similar_rings(self, entries: Sequence[Scored], n: int) -> list[Ring]:
        """Return the rings of the candidates with and without keys, and with and without moduli of operands."""
        sizes = [
            one.size for one in sorted(entries, key=lambda one: one.seconds) if isinstance(one.size, RowSize)
        ]
        sizes = [replace(size, n=n, special_bits=SPECIAL_BITS) for size in sizes]
        kinds = {(size.limbs, len(size.narrow), size.operand_moduli): size for size in reversed(sizes)}
        return [size.shape() for size in reversed(kinds.values())]

    def price(
        self, candidate: Candidate, ring: Ring, run: Run, predictions: Predictions, most: float = math.inf
    ) -> tuple[float, int]:
        """With a special prime, which some candidates need and others do not; what may do with a smaller modulus than a
        ring has may take far less than there."""
        if isinstance(ring, RingShape) and not ring.p:
            ring = replace(ring, p=(2.0**SPECIAL_BITS,), alpha=1)
        seconds, key_bytes = super().price(candidate, ring, run, predictions)
        smallest = len(ring.q) == 1 and ring.operand_moduli is None
        return seconds if smallest else seconds / SMALLER_MODULUS, key_bytes

    def is_single_block(self, candidate: Candidate) -> bool:
        """Whether every row of a matrix is one row of the ring."""
        nodes = facts_of(self.expression).order
        return all(max(matrix_shape(node)) <= candidate.n for node in nodes if not node.root)

    def stop_ratio(self, candidate: Candidate) -> float:
        return super().stop_ratio(candidate) if self.is_single_block(candidate) else math.inf

    def families(self, thorough: bool, refuse: RefuseUpload) -> Iterator[Iterator[list[Candidate]]]:
        yield (list(self._candidates(n)) for n in self.degrees)

    def _candidates(self, n: int) -> Iterator[Candidate]:
        """With every combination of variants of GEMMs that can be combined, and each other one by itself."""
        bits = weight_bits_for(float(self.options.precision), self.expression)
        numbers = {id(node): number for number, node in enumerate(facts_of(self.expression).order)}
        nodes = products(self.expression)
        applying = self._variants(nodes)
        together = [variant for variant in applying if not variant.alone]
        combinations = [
            [variant for variant, takes in zip(together, taken, strict=True) if takes]
            for taken in itertools.product((False, True), repeat=len(together))
        ]
        combinations += [[variant] for variant in applying if variant.alone]
        for combination in combinations:
            choices = {}
            for node in nodes:
                options: dict[str, Any] = {"weight_bits": bits}
                options.update({one.name: True for one in combination if id(node) in applying[one]})
                choices[numbers[id(node)]] = MethodChoice(GEMM, options)
            yield Candidate(GEMM, Decisions(ROWS, choices), n)

    def _variants(self, nodes: Sequence[Expression]) -> dict[type[Variant], set[int]]:
        """The variants of GEMMs that are worth a look, with the products, by their ids, that they apply to."""
        rounded_alone = is_rounded_alone(self.expression, self.targets)
        found = {}
        for variant in VARIANTS.values():
            if variant.method == GEMM and variant.considered(self.expression, rounded_alone):
                applies = {id(node) for node in nodes if variant.applies(node, self.expression)}
                found.update({variant: applies} if applies else {})
        return found

    def draft(self, candidate: Candidate, run: Run) -> None:
        """None: rings of few limbs have no drafts."""

    def taken(self, scored: list[Scored]) -> list[Scored]:
        """The one with few keys where they cost little, then those that are slower than that."""
        fastest = min((one.seconds for one in scored), default=0.0)
        worth = WORTH_KEYS_SERVER if self.options.minimise == "server" else WORTH_KEYS
        close = [one for one in scored if one.seconds <= worth * fastest]
        best = min(close, key=lambda one: (one.key_bytes, one.seconds), default=None)
        return [one for one in scored if best is not None and (one is best or one.seconds > best.seconds)]

    def sizes(self, candidate: Candidate, run: Run, extra_bits: float) -> Sequence[RowSize]:
        """Return the rings that the kinds of its products request: the smallest ones whose precision suffices on the
        nominal ring."""
        choices = candidate.decisions.choices
        search = RowSizes(
            self.expression,
            candidate.n,
            frozenset((number, frozenset(choice.options)) for number, choice in choices.items()),
            *(run, self.excess, lambda special: self._allowed(candidate.n, special), self._first),
            math.ceil(extra_bits),
            operands=self.options.planned_for.rates.operands is not None,
            unreachable=lambda ring: self._unreachable(run, ring),
        )
        if not choices:
            return search.without_keys()
        flags = frozenset().union(*(choice.flags for choice in choices.values()))
        kind = changed(plain(products(self.expression)[0], self.expression), chosen(flags))
        return kind.sizes(search)

    def _allowed(self, n: int, special: float) -> float:
        """The largest log2(QP) that security allows, or enough where it sets no limit."""
        if self.options.insecure and not self.options.security:
            return MAX_MODULUS_BITS + special
        return max_log_qp(n, self.options.security)

    def _unreachable(self, run: Run, largest: Ring) -> PrecisionError:
        """Why no modulus reaches the precision."""
        asked = float(self.options.precision)
        precision = f"The precision {asked:g} cannot be reached by GEMM at N = {largest.n}"
        found = attempted(functools.partial(run, largest), only=LevelError)
        if isinstance(found, Infeasible):
            why = found.error
            return PrecisionError(
                f"{precision}: {why.message.removesuffix('.')}.", expected=why.expected, got=why.got
            )
        results = zip(found.errors, self.targets, results_of(self.expression), strict=True)
        error, target, node = max(results, key=lambda one: one[0] / one[1])
        return PrecisionError(
            f"{precision}: rounded weights and float64 leave more, whatever the modulus.",
            expected=f"an error of {error:.3g} or more, precision=… from {error / node.bound:.1g} on",
            got=f"{target:.3g}",
        )
