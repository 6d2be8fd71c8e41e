"""Candidates by rows: products by GEMM, on the smallest modulus that reaches the precision."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import cipherblas._core as _core
from cipherblas.common.errors import LevelError, MismatchError, ParameterError, PrecisionError
from cipherblas.common.gemm_paths import are_bytes
from cipherblas.crypto.params import (
    MAX_PRIME_BITS,
    MOST_OPERAND_MESSAGE,
    OPERAND_LIMBS,
    OPERAND_MODULI,
    SPECIAL_MARGIN_BITS,
    Parameters,
    make_parameters,
)
from cipherblas.crypto.security import max_log_qp
from cipherblas.lang.exact import is_exact
from cipherblas.lang.facts import facts_of, products
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.lang.results import results_of
from cipherblas.methods.products import GEMM
from cipherblas.planner.plan.assembly import Predictions
from cipherblas.planner.plan.exact import is_rounded_alone
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.rings.sizing import PRIME_SPREAD_BITS, ModulusError
from cipherblas.planner.search.budgets import Budgets
from cipherblas.planner.search.strategy import Candidate, RefuseUpload, Run, Scored, Strategy
from cipherblas.rlwe.rings import Ring, RingShape
from cipherblas.runtime.byte_products import sides_of
from cipherblas.runtime.executor import missing
from cipherblas.runtime.rows import ROWS, can_be_fixed, can_be_reduced, known_norm
from cipherblas.runtime.values import Choice, Decisions

ROW_DEGREES = tuple(1 << log_n for log_n in range(11, 15))
MIN_MODULUS_BITS, MAX_MODULUS_BITS = 24, 400
# As large as a prime can be: the larger P, the smaller the noise. Where security leaves less, what it leaves.
SPECIAL_BITS = float(MAX_PRIME_BITS)
PRIME_BELOW = 2.0**-6  # bits by which a prime is smaller that fills whole bytes
PRIME_BITS = 0.6  # by which a prime may be smaller than asked for
# A modulus is so much larger where the special prime must be smaller: the noise of key switches is larger then.
SPARE_BITS = 2
# Of primes by which products are divided before keys are switched: that many bits, which there are primes of, up to
# those of which a float64 GEMM of a thousand terms is exact (and `byte_bits`); so many primes; and limbs that keys have
# beside.
NARROW_BITS = tuple(16.0 + 0.5 * step for step in range(12))
NARROW_PRIMES = (1, 2)
BYTE_BITS = 16
NARROWED_KEY_LIMBS = (1, 2)
# Of the error that is asked for, where results may be shared: what switches add at so small a scale is a thousand times
# as large at worst (`worst_error`), beside 8 to 100 times elsewhere.
NARROWED_EXCESS = 2.0**-6
LARGEST_BITS = MAX_PRIME_BITS - 0.1  # of a prime that is to be found, one or two of its size
NOMINAL_LIMBS = (1, 2, 4, 7)  # of nominal rings
NOMINAL_SCALE_BITS = 20.0  # of parameters whose scales come from the modulus
WORTH_KEYS = 1.1  # fewer keys are taken where they cost a tenth of the time at most,
SMALLER_MODULUS = (
    3.0  # times as long as with its own modulus, what a candidate may take with that of another one
)
WORTH_KEYS_SERVER = 1.02  # and less where the server's time is asked to be least


def unsupported(expression: Expression) -> str | None:
    """Why a program cannot be computed by rows, or None where it can."""
    node = missing(expression, ROWS)
    if node is not None:
        return f"no method by rows for {node.title}"
    return None if products(expression) else "there is no matrix product"


@functools.cache
def byte_bits(n: int) -> float | None:
    """log2 of the largest prime of a ring whose residues are multiplied as two bytes; None where it has none of so many
    bits."""
    try:
        (found,) = _core.primes(n, BYTE_BITS, 1)
    except ValueError:
        return None
    return math.log2(found) if are_bytes(found) else None


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


@dataclass(frozen=True)
class RowSize:
    """A modulus of so many bits, in as few primes as possible, and a special prime where keys are switched.

    Attributes:
        special_bits: of the special prime; 0 for none.
        more: primes beyond the fewest.
        aligned: the first prime of two fills whole bytes, so that both together have the fewest.
        narrow: bits of primes beyond these, by which products are divided before keys are switched.
        operand_moduli: of operands of products; None for the same as keys have.
    """

    n: int
    bits: float
    special_bits: float
    alpha: int = 1
    more: int = 0
    narrow: tuple[float, ...] = ()
    aligned: bool = False
    operand_moduli: tuple[int, ...] | None = None

    @property
    def limbs(self) -> int:
        """Primes of the modulus, but for narrow ones."""
        largest = LARGEST_BITS if self.narrow else MAX_PRIME_BITS - PRIME_BITS
        return max(1, math.ceil(self.bits / largest)) + self.more

    @property
    def key_limbs(self) -> int | None:
        """Primes of the modulus of keys; None for all."""
        return self.limbs if self.narrow else None

    def shape(self) -> RingShape:
        """For a dry run, before primes are searched."""
        limbs = self.limbs
        each = self.bits / limbs
        first = 8 * (each // 8) - PRIME_BELOW if self.aligned else each
        q_bits = [first, *[(self.bits - first) / (limbs - 1) for _ in range(limbs - 1)], *self.narrow]
        special = [self.special_bits] * bool(self.special_bits)
        optional: Any = {"key_limbs": self.key_limbs, "operand_moduli": self.operand_moduli}
        return RingShape.from_bits(self.n, q_bits, special, 1, NOMINAL_SCALE_BITS, **optional)

    def parameters(self, security: int, insecure: bool) -> Parameters:
        """Real primes, checked against the security table."""
        return make_parameters(
            self.n,
            [math.log2(q) for q in self.shape().q],
            self.special_bits or None,
            int(self.special_bits > 0),
            scale_bits=NOMINAL_SCALE_BITS,
            security=security,
            insecure=insecure,
            key_limbs=self.key_limbs,
            operand_moduli=self.operand_moduli,
        )


class RowStrategy(Strategy):
    """Matrices encrypted by rows or columns."""

    form: ClassVar[str] = ROWS
    label: ClassVar[str] = GEMM
    apart = WORTH_KEYS
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
                "Products by GEMM do not take parameters=: they choose their moduli one by one.",
            )

    @property
    def degrees(self) -> Sequence[int]:
        forced = self.options.ring_degree
        return ROW_DEGREES if forced is None else (forced,)

    def nominal(self, n: int) -> list[Ring]:
        sizes = [RowSize(n, limbs * LARGEST_BITS, SPECIAL_BITS) for limbs in NOMINAL_LIMBS]
        return [size.shape() for size in sizes]

    def alike(self, entries: Sequence[Scored], n: int) -> list[Ring]:
        """Those of the candidates, with keys or without, and with and without moduli of operands."""
        sizes = [
            one.size for one in sorted(entries, key=lambda one: one.seconds) if isinstance(one.size, RowSize)
        ]
        sizes = [replace(size, n=n, special_bits=SPECIAL_BITS) for size in sizes]
        kinds = {(size.limbs, len(size.narrow), size.operand_moduli): size for size in reversed(sizes)}
        return [size.shape() for size in reversed(kinds.values())]

    def price(
        self, candidate: Candidate, ring: Ring, run: Run, predictions: Predictions
    ) -> tuple[float, int]:
        """With a special prime, which some candidates need and others do not; what may do with a smaller modulus than a
        ring has may take far less than there."""
        if isinstance(ring, RingShape) and not ring.p:
            ring = replace(ring, p=(2.0**SPECIAL_BITS,), alpha=1)
        seconds, key_bytes = super().price(candidate, ring, run, predictions)
        smallest = len(ring.q) == 1 and ring.operand_moduli is None
        return seconds if smallest else seconds / SMALLER_MODULUS, key_bytes

    def whole(self, candidate: Candidate) -> bool:
        """Whether every row of a matrix is one row of the ring."""
        nodes = facts_of(self.expression).order
        return all(max(matrix_shape(node)) <= candidate.n for node in nodes if not node.root)

    def stop_ratio(self, candidate: Candidate) -> float:
        return super().stop_ratio(candidate) if self.whole(candidate) else math.inf

    def families(self, thorough: bool, refuse: RefuseUpload) -> Iterator[Iterator[list[Candidate]]]:
        yield (list(self._candidates(n)) for n in self.degrees)

    def _candidates(self, n: int) -> Iterator[Candidate]:
        bits = weight_bits_for(float(self.options.precision), self.expression)
        numbers = {id(node): number for number, node in enumerate(facts_of(self.expression).order)}
        nodes = products(self.expression)
        clear = any(not child.secret for node in nodes for child in node.children)
        cut = sides_of(self.expression) if is_rounded_alone(self.expression, self.targets) else {}
        ways = [
            (*ways, False)
            for ways in itertools.product(
                {False, any(map(can_be_fixed, nodes))}, {False, clear}, {False, bool(cut)}
            )
        ]
        reducible = is_exact(self.expression) and any(map(can_be_reduced, nodes))
        ways += [(False, False, False, True)] * reducible
        for fixed, rounded, in_bytes, reduced in ways:
            choices = {}
            for node in nodes:
                options: dict[str, Any] = {"weight_bits": bits}
                if fixed and can_be_fixed(node):
                    options["fixed"] = True
                if rounded and not all(child.secret for child in node.children):
                    options["rounded"] = True
                if in_bytes and id(node) in cut:
                    options["bytes"] = True
                if reduced and can_be_reduced(node):
                    options["moduli"] = True
                choices[numbers[id(node)]] = Choice(GEMM, options)
            yield Candidate(GEMM, Decisions(ROWS, choices), n)

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
        """The smallest modulus with which the nominal ring reaches the precision.

        Where it takes several primes and no key is switched, one prime more is worth a look: residues of smaller primes
        have fewer digits, each of which is a GEMM. So are two primes, one of which fills whole bytes. Where keys are
        switched, moduli with narrow primes are.
        """
        n, extra = candidate.n, math.ceil(extra_bits)
        switched = len(run(RowSize(n, MAX_MODULUS_BITS, SPECIAL_BITS).shape()).keys) > 0
        special = SPECIAL_BITS if switched else 0.0

        def reaches(size: RowSize, most: float = 1.0) -> bool:
            try:
                return self.excess(run(size.shape())) <= most
            except (LevelError, MismatchError):  # what is added to a product has more limbs than keys serve
                return False

        def smallest(most: int) -> int | None:
            tried = range(MIN_MODULUS_BITS, most + 1)
            kind = frozenset(
                (number, frozenset(choice.options)) for number, choice in candidate.decisions.choices.items()
            )
            return self._first(kind, tried, lambda bits: reaches(RowSize(n, bits, special)))

        if any(choice.options.get("moduli") for choice in candidate.decisions.choices.values()):
            return self._with_operand_moduli(n, reaches, extra, None, special, most_moduli=True)
        allowed = self._allowed(n, special)
        limit = allowed - special
        found = smallest(math.floor(limit))
        if found is not None and found + extra <= limit:
            size = RowSize(n, found + extra, special)
            if switched:
                narrowed = [] if size.limbs == 1 else self._narrowed(n, reaches, extra)
                return [size, *narrowed, *self._with_operand_moduli(n, reaches, extra, found, special)]
            if size.limbs == 1:
                return [size]
            aligned = replace(size, aligned=True)
            fits = size.limbs == 2 and max(aligned.shape().q) < 2.0**LARGEST_BITS
            return [size, *([aligned] if fits else []), replace(size, more=1)]
        narrowed = self._narrowed(n, reaches, extra) if switched else []
        narrowed += self._with_operand_moduli(n, reaches, extra, None, special) if switched else []
        needed = smallest(MAX_MODULUS_BITS)
        if needed is None:
            raise self._unreachable(run, RowSize(n, MAX_MODULUS_BITS, special))
        for bits in range(needed + extra, needed + extra + SPARE_BITS + 1) if switched else ():
            size = RowSize(n, bits, min(special, allowed - PRIME_SPREAD_BITS - bits))
            if size.special_bits >= bits / size.limbs + SPECIAL_MARGIN_BITS and reaches(size):
                return [size, *narrowed]
        if narrowed:
            return narrowed
        raise ModulusError(
            f"The modulus that security allows products by GEMM at N = {n} is too small.",
            needed,
            max(limit, 0.0),
        )

    def _narrowed(self, n: int, reaches: Callable[[RowSize, float], bool], extra: int) -> list[RowSize]:
        """The smallest moduli with narrow primes, of those whose keys have one limb or two: products fill the modulus
        before their scale is divided, and what keys serve holds the result."""
        allowed = self._allowed(n, SPECIAL_BITS) - PRIME_SPREAD_BITS
        most = 1.0 if is_exact(self.expression) else NARROWED_EXCESS
        found = []
        short = byte_bits(n)
        shorts = ((),) if short is None else ((), (short,))
        for limbs, count, last in itertools.product(NARROWED_KEY_LIMBS, (0, *NARROW_PRIMES), shorts):
            if not 1 <= count + len(last) <= max(NARROW_PRIMES) or (extra and not count):
                continue
            each = min(LARGEST_BITS, (allowed - SPECIAL_MARGIN_BITS) / (limbs + 1))
            special = min(SPECIAL_BITS, allowed - limbs * each)
            sizes = (
                RowSize(n, limbs * each, special, narrow=(*(bits + extra,) * count, *last))
                for bits in (NARROW_BITS if count else NARROW_BITS[:1])
            )
            tried = [size for size in sizes if size.bits + math.fsum(size.narrow) <= allowed]
            if tried and tried[0].limbs == limbs:
                size = self._first(("narrow", n, limbs, count, last), tried, lambda size: reaches(size, most))
                found += [] if size is None else [size]
        return found

    def _with_operand_moduli(
        self,
        n: int,
        reaches: Callable[[RowSize, float], bool],
        extra: int,
        usual: int | None,
        most_special: float,
        most_moduli: bool = False,
    ) -> list[RowSize]:
        """The smallest modulus of keys beside operands that have moduli of their own, as few as reach the precision:
        products fill these, and what keys serve, in as few limbs as can be, holds the result.

        Args:
            usual: bits of the modulus without. Where results may be shared the one of keys is no smaller, as far
                as its limbs hold so many, so that what switches add is no larger either.
            most_special: bits of the special prime; 0 where no key is switched.
            most_moduli: messages may not be words any more where moduli are many: of products of one operand.
        """
        if self.options.planned_for.rates.operands is None:
            return []
        allowed = self._allowed(n, most_special)
        exact = is_exact(self.expression)
        excess = 1.0 if exact or usual is not None else NARROWED_EXCESS
        least_of_keys = MIN_MODULUS_BITS if exact or usual is None else usual
        sizes = itertools.accumulate(map(math.log2, OPERAND_MODULI))
        # The messages of two operands fill the modulus together.
        largest = min(allowed, 2 * math.log2(MOST_OPERAND_MESSAGE))
        counts = range(1, sum(size <= largest for size in sizes) + 1)
        free = allowed - PRIME_SPREAD_BITS

        def size(bits: int, moduli: int) -> RowSize:
            special = min(most_special, free - bits)
            return RowSize(n, bits, special, operand_moduli=OPERAND_MODULI[:moduli])

        for limbs in range(1, OPERAND_LIMBS + 1):
            # Beside one limb the special prime is as large as it can be, beside two as large as security leaves it.
            each = free - most_special if limbs == 1 else (free - SPECIAL_MARGIN_BITS) / (limbs + 1)
            each = each if most_special else free / limbs
            most = math.floor(limbs * min(each, LARGEST_BITS - PRIME_BITS))
            fewer = (limbs - 1) * math.ceil(MAX_PRIME_BITS - PRIME_BITS)  # that so few limbs do not take
            least = max(least_of_keys, fewer)
            tried = [(most, number) for number in counts]
            while most_moduli and tried and not reaches(size(*tried[-1]), excess):
                tried.pop()
            if most < max(MIN_MODULUS_BITS, fewer):
                continue
            found = self._first("moduli", tried, lambda one: reaches(size(*one), excess))
            if found is None:
                continue
            tried = [(bits, found[1]) for bits in range(min(least, most), most + 1)]
            found = self._first("bits beside moduli", tried, lambda one: reaches(size(*one), excess)) or found
            return [size(min(found[0] + extra, most), found[1])]
        return []

    def _allowed(self, n: int, special: float) -> float:
        """The largest log2(QP) that security allows, or enough where it sets no limit."""
        if self.options.insecure and not self.options.security:
            return MAX_MODULUS_BITS + special
        return max_log_qp(n, self.options.security)

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
