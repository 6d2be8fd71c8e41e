"""Candidates by rows: products by GEMM, on the smallest modulus that reaches the precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from cipherblas.common.errors import LevelError, ParameterError, PrecisionError
from cipherblas.crypto.params import MAX_PRIME_BITS, Parameters, make_parameters
from cipherblas.crypto.security import max_log_qp
from cipherblas.lang.graph import products
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.results import results_of
from cipherblas.methods.matmul.registry import GEMM
from cipherblas.planner.budgets import Budgets
from cipherblas.planner.plan import PlanOptions
from cipherblas.planner.strategy import Candidate, Run, Scored, Strategy
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.executor import missing
from cipherblas.runtime.rows import ROWS, can_be_fixed
from cipherblas.runtime.values import Choice, Decisions

ROW_DEGREES = tuple(1 << log_n for log_n in range(11, 15))
MIN_MODULUS_BITS, MAX_MODULUS_BITS = 24, 400
SPECIAL_BITS = float(MAX_PRIME_BITS)  # as large as a prime can be: the larger P, the smaller the noise
PRIME_BITS = 0.6  # by which a prime may be smaller than asked for
NOMINAL_SCALE_BITS = 20.0  # of parameters whose scales come from the modulus
WORTH_KEYS = 1.1  # fewer keys are taken where they cost a tenth of the time at most


def unsupported(expression: Expression) -> str | None:
    """Why a program cannot be computed by rows, or None where it can."""
    node = missing(expression, ROWS)
    if node is not None:
        return f"no method by rows for {node.title}"
    return None if products(expression) else "there is no matrix product"


def weight_bits_for(precision: float, expression: Expression) -> int:
    """Bits of rounded weights: each product then adds at most an eighth of the precision.

    That is relative to bounds by the sums of rows, which the roundings of all entries of a row may exceed.
    """
    spread = 1.0
    for node in products(expression):
        left, right = node.children
        if left.secret != right.secret:
            known = right.column_sum if left.secret else left.row_sum
            clear = right if left.secret else left
            spread = max(spread, left.shape[1] * clear.bound / known)
    return max(2, math.ceil(math.log2(4 / precision * spread)))


@dataclass(frozen=True)
class RowSize:
    """A modulus of so many bits, in as few primes as possible, and a special prime where keys are switched."""

    n: int
    bits: float
    special: bool
    alpha: int = 1

    def shape(self) -> RingShape:
        """For a dry run, before primes are searched."""
        limbs = max(1, math.ceil(self.bits / (MAX_PRIME_BITS - PRIME_BITS)))
        special = [SPECIAL_BITS] * self.special
        return RingShape.from_bits(self.n, [self.bits / limbs] * limbs, special, 1, NOMINAL_SCALE_BITS)

    def parameters(self, security: int, insecure: bool) -> Parameters:
        """Real primes, checked against the security table."""
        return make_parameters(
            self.n,
            [math.log2(q) for q in self.shape().q],
            SPECIAL_BITS if self.special else None,
            int(self.special),
            scale_bits=NOMINAL_SCALE_BITS,
            security=security,
            insecure=insecure,
        )


class RowStrategy(Strategy):
    """Matrices encrypted by rows or columns."""

    form: ClassVar[str] = ROWS
    label: ClassVar[str] = GEMM
    stop_ratio: ClassVar[float] = math.inf
    all_policies: ClassVar[bool] = True

    def __init__(self, expression: Expression, options: PlanOptions, budgets: Budgets) -> None:
        super().__init__(expression, options, budgets)
        reason = unsupported(expression)
        if reason is not None:
            raise ParameterError(
                "The program cannot be computed by GEMMs.",
                expected="products of matrices, sums and factors",
                got=reason,
            )
        if options.parameters is not None:
            raise ParameterError(
                "Products by GEMM take no forced parameters.",
                expected="none for products by GEMM",
                got="parameters=…",
            )

    @property
    def degrees(self) -> Sequence[int]:
        forced = self.options.ring_degree
        return ROW_DEGREES if forced is None else (forced,)

    def families(
        self, thorough: bool, refuse: Callable[[str, str], None]
    ) -> Iterator[Iterator[list[Candidate]]]:
        yield (list(self._candidates(n)) for n in self.degrees)

    def _candidates(self, n: int) -> Iterator[Candidate]:
        bits = weight_bits_for(float(self.options.precision), self.expression)
        numbers = {id(node): number for number, node in enumerate(ordered(self.expression))}
        for fixed in {False, any(map(can_be_fixed, products(self.expression)))}:
            choices = {}
            for node in products(self.expression):
                options = {"weight_bits": bits, **({"fixed": True} if fixed and can_be_fixed(node) else {})}
                choices[numbers[id(node)]] = Choice(GEMM, options)
            yield Candidate(GEMM, Decisions(ROWS, choices), n)

    def taken(self, scored: list[Scored]) -> list[Scored]:
        """The one with few keys where they cost little, then those that are slower than that."""
        fastest = min((one.seconds for one in scored), default=0.0)
        close = [one for one in scored if one.seconds <= WORTH_KEYS * fastest]
        best = min(close, key=lambda one: (one.key_bytes, one.seconds), default=None)
        return [one for one in scored if best is not None and (one is best or one.seconds > best.seconds)]

    def sizes(self, candidate: Candidate, run: Run, extra_bits: float) -> Sequence[RowSize]:
        """The smallest modulus with which the nominal ring reaches the precision."""
        n = candidate.n
        special = len(run(RowSize(n, MAX_MODULUS_BITS, True).shape()).keys) > 0

        def reaches(bits: int) -> bool:
            try:
                return self.excess(run(RowSize(n, bits, special).shape())) <= 1
            except LevelError:
                return False

        def smallest(most: int) -> int | None:
            low, high = MIN_MODULUS_BITS, most
            if high < low or not reaches(high):
                return None
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if reaches(middle) else (middle + 1, high)
            return low

        limit = self._limit(n, special)
        found = smallest(math.floor(limit))
        if found is not None and found + math.ceil(extra_bits) <= limit:
            return [RowSize(n, found + math.ceil(extra_bits), special)]
        needed = smallest(MAX_MODULUS_BITS)
        if needed is None:
            raise self._unreachable(run, RowSize(n, MAX_MODULUS_BITS, special))
        raise PrecisionError(
            f"The modulus that security allows products by GEMM at N = {n} is too small.",
            expected=f"a modulus of {needed} bits",
            got=f"{max(limit, 0.0):.0f} bits at most",
        )

    def _limit(self, n: int, special: bool) -> float:
        """The largest log2(Q) that security allows."""
        if self.options.insecure and not self.options.security:
            return MAX_MODULUS_BITS
        return max_log_qp(n, self.options.security) - SPECIAL_BITS * special

    def _unreachable(self, run: Run, largest: RowSize) -> PrecisionError:
        """Why no modulus reaches the precision."""
        asked = float(self.options.precision)
        precision = f"The precision {asked:g} cannot be reached by GEMM at N = {largest.n}"
        try:
            found = run(largest.shape())
        except LevelError as failure:
            return PrecisionError(
                f"{precision}: {failure.message.removesuffix('.')}.",
                expected=failure.expected,
                got=failure.got,
            )
        results = zip(found.errors, self.targets, results_of(self.expression), strict=True)
        error, target, node = max(results, key=lambda one: one[0] / one[1])
        return PrecisionError(
            f"{precision}: rounded weights and float64 leave more, whatever the modulus.",
            expected=f"an error of {error:.3g} or more, precision=… from {error / node.bound:.1g} on",
            got=f"{target:.3g}",
        )
