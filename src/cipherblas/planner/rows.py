"""Plans for products by GEMM: the smallest modulus, then the fastest ring, that reach the precision.

The counterpart of `search` for programs whose matrices are encrypted by rows or columns. Everything is counted by
running the program with `RowsCounter`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import (
    CipherblasError,
    LevelError,
    MemoryBudgetError,
    ParameterError,
    PrecisionError,
)
from cipherblas.crypto.keys import KeyRequest
from cipherblas.crypto.params import MAX_PRIME_BITS, Parameters, make_parameters
from cipherblas.crypto.security import max_log_qp
from cipherblas.evaluators.rows.interface import Batch, ClearFactor, Rows, RowsEvaluator
from cipherblas.evaluators.rows.symbolic import RowsCounter
from cipherblas.lang.analysis import evaluate_clear
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.operations import MatMul
from cipherblas.methods.matmul.registry import GEMM
from cipherblas.planner.assembly import Predictions, key_bytes_of, resident_bytes, upload_bytes_of
from cipherblas.planner.budgets import Budgets
from cipherblas.planner.explain import size
from cipherblas.planner.plan import Plan, PlanOptions
from cipherblas.planner.stages import row_traffic
from cipherblas.planner.truncation import truncation_error
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import Ring, RingShape
from cipherblas.runtime.row_execution import RowExecution, RowFeed, RowValue, check_supported, has_fixed
from cipherblas.runtime.slot_arithmetic import Choice

ROW_DEGREES = tuple(1 << log_n for log_n in range(11, 15))
MIN_MODULUS_BITS, MAX_MODULUS_BITS = 24, 400
SPECIAL_BITS = float(MAX_PRIME_BITS)  # as large as a prime can be: the larger P, the smaller the noise
HEADROOM_BITS = (
    1.0  # between twice the message and the modulus: for the noise and for primes that are not 2^bits
)
PRIME_BITS = 0.6  # by which a prime may be smaller than asked for
KEY_POLICIES: tuple[KeyPolicy, ...] = ("direct", "composed", "binary")
WORTH_KEYS = 1.1  # fewer keys are taken where they cost a tenth of the time at most


@dataclass(frozen=True)
class RowTrace:
    """What one symbolic run of a program by GEMMs found; see `planner.trace.Trace`."""

    feeds: tuple[RowFeed, ...]
    result: RowValue
    counts: Counts
    keys: KeyRequest
    working_bytes: int
    fixed_factors: tuple[ClearFactor, ...] = ()
    truncation: float = 0.0

    @property
    def error(self) -> float:
        """Predicted largest error of an entry of the result."""
        entries = sum(math.prod(piece.shape) for piece in self.result.pieces)
        return max(piece.error(entries) for piece in self.result.pieces) + self.truncation


class RecordingRowFeeds:
    """Feeds for a symbolic run: records every request and answers with handles without data."""

    def __init__(self, evaluator: RowsEvaluator) -> None:
        self._evaluator = evaluator
        self.feeds: dict[RowFeed, None] = {}

    def secret(self, feed: RowFeed, bound: float) -> Sequence[Rows]:
        """Fresh handles, one per piece."""
        self.feeds[feed] = None
        return [
            self._evaluator.fresh(
                *(None, (feed.shape[0], stop - start)),
                bound=bound,
                scale=feed.scale,
                limbs=feed.limbs,
                public_key=feed.public_key,
            )
            for start, stop in feed.pieces
        ]

    def batch(self, feed: RowFeed, bound: float) -> Batch:
        """A fresh handle."""
        self.feeds[feed] = None
        return self._evaluator.fresh_batch(None, feed.shape, bound=bound, scale=feed.scale, limbs=feed.limbs)

    def public(self, node: Expression) -> NDArray[np.float64]:
        """The value of a part without operands: what keys of fixed weights are made from."""
        return np.asarray(evaluate_clear(node, {}))


@dataclass(frozen=True)
class RowDecisions:
    """What must be known to run a program by GEMMs."""

    parameters: Parameters
    weight_bits: int
    key_policy: KeyPolicy
    precision: float
    fixed: bool = False

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], parameters: Parameters) -> RowDecisions:
        """Rebuild from `Plan.decisions`, which have been checked by `planner.schema`."""
        (choice,) = values["choices"]
        return cls(
            parameters,
            choice["options"]["weight_bits"],
            values["key_policy"],
            float(values["precision"]),
            choice["options"].get("fixed", False),
        )


def trace_rows(
    ring: Ring, expression: Expression, weight_bits: int, key_policy: KeyPolicy, fixed: bool = False
) -> RowTrace:
    """Run `expression` symbolically.

    Raises:
        LevelError: the modulus does not hold the program. ParameterError: it needs slots.
    """
    counter = RowsCounter(ring, key_policy=key_policy)
    feeds = RecordingRowFeeds(counter)
    execution = RowExecution(counter, expression, weight_bits, fixed, HEADROOM_BITS, feeds)
    result = execution.run()
    return RowTrace(
        feeds=tuple(feeds.feeds),
        result=result,
        counts=counter.counts.copy(),
        keys=counter.request,
        working_bytes=counter.peak_bytes + sum(feed.memory_bytes(ring.n) for feed in feeds.feeds),
        fixed_factors=tuple(execution.fixed_factors),
        truncation=truncation_error(expression),
    )


def weight_bits_for(precision: float, expression: Expression) -> int:
    """Bits of rounded weights: each product then adds at most an eighth of the precision.

    That is relative to bounds by the sums of rows, which the roundings of all entries of a row may exceed.
    """
    spread = 1.0
    for node in ordered(expression):
        if isinstance(node, MatMul) and node.left.secret != node.right.secret:
            known = node.right.column_sum if node.left.secret else node.left.row_sum
            clear = node.right if node.left.secret else node.left
            spread = max(spread, node.left.shape[1] * clear.bound / known)
    return max(2, math.ceil(math.log2(4 / precision * spread)))


class Way(NamedTuple):
    """A choice that rings are sized for."""

    key_policy: KeyPolicy
    fixed: bool


class RowSearch:
    """One search; `run()` returns the plan and its trace."""

    def __init__(self, expression: Expression, options: PlanOptions, budgets: Budgets) -> None:
        check_supported(expression)
        if options.parameters is not None:
            raise ParameterError(
                "forced parameters", expected="none for products by GEMM", got="parameters=…"
            )
        self.expression, self.options, self.budgets = expression, options, budgets
        self.target = float(options.precision) * expression.bound
        self.weight_bits = weight_bits_for(float(options.precision), expression)
        self.predictions = Predictions.of(options)

    def run(self) -> tuple[Plan, RowTrace]:
        """The fastest plan that reaches the precision and fits the budgets, with few keys where they cost little.

        Raises:
            PrecisionError: no ring reaches the precision at this security; names the modulus that it needs.
            MemoryBudgetError: only plans beyond a budget were found.
        """
        found: list[tuple[Plan, RowTrace]] = []
        failures: list[CipherblasError] = []
        for n, way in itertools.product(self._degrees(), self._ways()):
            try:
                plan, run = self.planned(n, way)
                self._check_budgets(plan)
                found.append((plan, run))
            except CipherblasError as error:
                failures.append(error)
        if not found:
            raise next((e for e in failures if isinstance(e, MemoryBudgetError)), failures[-1])
        fastest = min(plan.minimised for plan, _ in found)
        close = [entry for entry in found if entry[0].minimised <= WORTH_KEYS * fastest]
        return min(close, key=lambda entry: (entry[0].key_bytes, entry[0].minimised))

    def _degrees(self) -> tuple[int, ...]:
        forced = self.options.ring_degree
        return ROW_DEGREES if forced is None else (forced,)

    def _ways(self) -> list[Way]:
        forced = self.options.key_policy
        policies = KEY_POLICIES if forced is None else (forced,)
        return [Way(policy, fixed) for fixed in {False, has_fixed(self.expression)} for policy in policies]

    def _shape(self, n: int, bits: float, special: bool) -> RingShape:
        limbs = max(1, math.ceil(bits / (MAX_PRIME_BITS - PRIME_BITS)))
        return RingShape.from_bits(n, [bits / limbs] * limbs, [SPECIAL_BITS] * special, 1, 20.0)

    def _limit(self, n: int, special: bool) -> float:
        """The largest log2(Q) that security allows."""
        if self.options.insecure and not self.options.security:
            return MAX_MODULUS_BITS
        return max_log_qp(n, self.options.security) - SPECIAL_BITS * special

    def planned(self, n: int, way: Way) -> tuple[Plan, RowTrace]:
        """The plan with the smallest modulus at one ring degree, budgets aside."""
        special = bool(len(self._probe(n, way)))
        limit = self._limit(n, special)
        for bits in self._moduli(n, special, limit, way):
            plan, run = self._with_primes(n, bits, special, way)
            if plan.error <= self.target:
                return plan, run
        needed = self._smallest(n, special, MAX_MODULUS_BITS, way)
        if needed is None:
            raise self._unreachable(n, special, way)
        raise PrecisionError(
            f"products by GEMM at N = {n}: the modulus that security allows is too small",
            expected=f"a modulus of {needed} bits",
            got=f"{max(limit, 0.0):.0f} bits at most",
        )

    def _unreachable(self, n: int, special: bool, way: Way) -> PrecisionError:
        """Why no modulus reaches the precision."""
        precision = f"the precision {float(self.options.precision):g} cannot be reached by GEMM at N = {n}"
        try:
            shape = self._shape(n, MAX_MODULUS_BITS, special)
            error = trace_rows(shape, self.expression, self.weight_bits, *way).error
        except LevelError as failure:
            return PrecisionError(
                f"{precision}: {failure.message}", expected=failure.expected, got=failure.got
            )
        return PrecisionError(
            f"{precision}: rounded weights and float64 leave more, whatever the modulus",
            expected=f"an error of {error:.3g} or more, precision=… from {error / self.expression.bound:.1g} on",
            got=f"{self.target:.3g}",
        )

    def _probe(self, n: int, way: Way) -> KeyRequest:
        """The keys that the program needs, whatever the modulus."""
        shape = self._shape(n, MAX_MODULUS_BITS, True)
        return trace_rows(shape, self.expression, self.weight_bits, *way).keys

    def _moduli(self, n: int, special: bool, limit: float, way: Way) -> Iterator[float]:
        """Sizes to try, smallest first: nominally one of them suffices, its primes may be a little smaller."""
        smallest = self._smallest(n, special, math.floor(limit), way)
        if smallest is not None:
            for extra in range(4):
                if smallest + extra <= limit:
                    yield smallest + extra

    def _smallest(self, n: int, special: bool, limit: int, way: Way) -> int | None:
        """The smallest log2(Q) with which the nominal ring reaches the precision."""
        low, high = MIN_MODULUS_BITS, limit
        if high < low or not self._reaches(n, high, special, way):
            return None
        while low < high:
            middle = (low + high) // 2
            if self._reaches(n, middle, special, way):
                high = middle
            else:
                low = middle + 1
        return low

    def _reaches(self, n: int, bits: int, special: bool, way: Way) -> bool:
        try:
            run = trace_rows(self._shape(n, bits, special), self.expression, self.weight_bits, *way)
        except LevelError:
            return False
        return run.error <= self.target

    def _with_primes(self, n: int, bits: float, special: bool, way: Way) -> tuple[Plan, RowTrace]:
        shape = self._shape(n, bits, special)
        parameters = make_parameters(
            n,
            [math.log2(q) for q in shape.q],
            SPECIAL_BITS if special else None,
            int(special),
            scale_bits=20.0,
            security=self.options.security,
            insecure=self.options.insecure,
        )
        run = trace_rows(parameters, self.expression, self.weight_bits, *way)
        decided = RowDecisions(
            parameters, self.weight_bits, way.key_policy, float(self.options.precision), way.fixed
        )
        return assemble_rows(self.expression, decided, run, self.predictions), run

    def _check_budgets(self, plan: Plan) -> None:
        for what, budget, needed in (
            ("memory", self.budgets.memory, plan.peak_bytes),
            ("evaluation keys", self.budgets.keys, plan.key_bytes),
            ("upload", self.budgets.upload, plan.upload_bytes),
        ):
            if needed > budget:
                raise MemoryBudgetError(
                    f"{GEMM} exceeds the budget of {what}",
                    expected=f"at most {size(budget)}",
                    got=size(needed),
                )


def assemble_rows(
    expression: Expression, decided: RowDecisions, run: RowTrace, predictions: Predictions
) -> Plan:
    """The plan of these decisions, whose trace is `run`."""
    parameters = decided.parameters
    key_bytes = key_bytes_of(run.keys, parameters)
    upload_bytes = upload_bytes_of(run.feeds, parameters)
    pieces = run.result.pieces
    result_bytes = sum(piece.limbs * piece.shape[0] * (parameters.n + piece.shape[1]) * 8 for piece in pieces)
    traffic = row_traffic(run.feeds, pieces, result_bytes, parameters)
    return Plan(
        parameters=parameters,
        choices=(Choice(GEMM, _options(decided)),),
        blocks={},
        key_policy=decided.key_policy,
        order="limb",
        precision=decided.precision,
        counts=run.counts,
        keys=run.keys,
        key_bytes=key_bytes,
        upload_bytes=upload_bytes,
        upload_ciphertexts=sum(feed.shape[0] * len(feed.pieces) for feed in run.feeds),
        result_ciphertexts=sum(piece.shape[0] for piece in run.result.pieces),
        result_bytes=result_bytes,
        levels=0,
        peak_bytes=key_bytes + resident_bytes(run.working_bytes),
        error=run.error,
        error_target=decided.precision * expression.bound,
        traffic=traffic,
        threads=predictions.threads,
        minimise=predictions.minimise,
        link=predictions.link,
        route="rows",
        rounding_error=max(piece.bias / piece.scale for piece in run.result.pieces),
    )


def _options(decided: RowDecisions) -> dict[str, Any]:
    options: dict[str, Any] = {"weight_bits": decided.weight_bits}
    return {**options, "fixed": True} if decided.fixed else options
