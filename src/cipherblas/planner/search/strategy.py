"""What a search is told by each form that values can have: candidates, and the rings that carry them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from cipherblas.common.errors import ParameterError
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.residue_slots import has_slots
from cipherblas.lang.facts import facts_of
from cipherblas.lang.modular import modulus_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.refreshing import is_refreshed
from cipherblas.planner.plan.assembly import Predictions, key_bytes_of
from cipherblas.planner.plan.peers import PEER_DEGREE
from cipherblas.planner.plan.plan import RING_DEGREES, PlanOptions
from cipherblas.planner.predict.cost import Rates
from cipherblas.planner.predict.dry_run import DryRun
from cipherblas.planner.predict.stages import Stages
from cipherblas.planner.rings import modulus_chains
from cipherblas.planner.rings.first import First
from cipherblas.planner.rings.modular_sizing import modular_draft, modular_nominal, modular_sizings
from cipherblas.planner.rings.sizing import (
    DRAFT_SCALE_BITS,
    ONE_LIMB,
    PRIME_SPREAD_BITS,
    NoRingError,
    Sizing,
    budget_bits,
    by_digits,
    drafted,
    magnitude_slope,
    sizings,
)
from cipherblas.planner.search.budgets import Budgets
from cipherblas.rlwe.key_policies import KEY_POLICIES, KeyPolicy
from cipherblas.rlwe.rings import Ring, RingShape
from cipherblas.runtime.values import Decisions

# Pairs of ciphertexts that share their a part, to try: more take more keys, and little less time.
SHARED_PAIRS = (3, 5, 7)
NOMINAL_DEPTHS = (0, 2, 6, 14)


@dataclass(frozen=True)
class Candidate:
    """One alternative to run a program, before its ring is sized.

    Attributes:
        name: of its algorithm, for people.
        runners_up: by the number of a node, what was nearly taken.
        other_conversions: by the number of a node whose value is converted, how it nearly was.
        drafted: the draft of a ring on which it was found, and its dry run there.
    """

    name: str
    decisions: Decisions
    n: int
    runners_up: Mapping[int, str] = field(default_factory=dict, compare=False)
    other_conversions: Mapping[int, str] = field(default_factory=dict, compare=False)
    drafted: tuple[Ring, DryRun] | None = field(default=None, compare=False)

    def with_policy(self, policy: KeyPolicy) -> Candidate:
        """The same with another key policy."""
        if policy == self.decisions.key_policy:
            return self
        return replace(self, decisions=replace(self.decisions, key_policy=policy), drafted=None)


class Size(Protocol):
    """A ring in bits, before its primes are searched."""

    @property
    def alpha(self) -> int: ...

    def shape(self) -> RingShape: ...

    def parameters(self, security: int, insecure: bool) -> Parameters: ...


Run = Callable[[Ring], DryRun]
RefuseUpload = Callable[[Candidate, int], None]  # (candidate, bytes that it uploads at least)


@dataclass(frozen=True)
class Scored:
    """A candidate of a strategy on a ring (a size of None: forced parameters), its dry run and its predicted stages.

    Attributes:
        seconds: of what the plan minimises.
    """

    strategy: Strategy
    candidate: Candidate
    size: Size | None
    run: DryRun
    upload_bytes: int
    key_bytes: int
    peak_bytes: int
    stages: Stages
    seconds: float
    ring: Ring
    extra_bits: float = 0.0


class Strategy(ABC):
    """Ways to compute a program in one form.

    Attributes:
        expression: what runs.
        label: of the form, in what is not taken.
        far: times as long as the best so far, what is not worth a ring of its own, by its price.
        apart: times as long as one that was sized, what candidates of one algorithm and degree may seem to take before
            they have rings of their own.
        policies: key policies in the order in which they are tried; the first that fits the key budget is taken.
        all_policies: all of them are compared.
        modulus: t of integers modulo t; None of other programs.
        fine: every tiling, option and digit size is compared.
        failing: so many candidates of one algorithm and degree that no ring carries stand for all.
        digits: so many rings of different digits price a candidate.
        limit: seconds from which on a plan is of no use.
    """

    form: ClassVar[str]
    label: ClassVar[str]
    far: float = 1.3
    near: float = 1.0
    policies: tuple[KeyPolicy, ...] = KEY_POLICIES
    all_policies: ClassVar[bool] = False
    fine = True
    failing: float = 3
    digits = 1
    limit: float = math.inf

    def __init__(self, expression: Expression, options: PlanOptions, budgets: Budgets) -> None:
        self.expression, self.options, self.budgets = expression, options, budgets
        self._slopes: dict[Hashable, float] = {}  # of candidates that take the same steps
        self._first = First()  # of the sizes of rings
        self.known: dict[int, list[Ring]] = {}  # by degree, those of the algorithm that was sized last
        self.carried: set[Hashable] = set()  # see `prices.cheapest`
        self.refreshed = is_refreshed(expression)
        self.modulus = modulus_of(expression)
        if options.key_policy is not None:
            self.policies = (options.key_policy,)

    @classmethod
    def refusal(cls, expression: Expression, options: PlanOptions) -> ParameterError | None:
        """Why a program cannot be computed in this form, or gains nothing; None where it may."""
        return None

    @property
    def degrees(self) -> Sequence[int]:
        """Ring degrees to try, smallest first."""
        if self.modulus is not None:
            degrees = RING_DEGREES if self.options.ring_degree is None else (self.options.ring_degree,)
            forced = self.options.parameters
            return [n for n in (degrees if forced is None else (forced.n,)) if has_slots(n, self.modulus)]
        if self.options.parameters is not None:
            return (self.options.parameters.n,)
        if self.refreshed and self.options.ring_degree is None:
            return modulus_chains.DEGREES
        largest = PEER_DEGREE if self.options.for_peer else RING_DEGREES[-1]
        return (
            [n for n in RING_DEGREES if n <= largest]
            if self.options.ring_degree is None
            else (self.options.ring_degree,)
        )

    @property
    def targets(self) -> tuple[float, ...]:
        """Largest allowed error of an entry, of each result."""
        return self.options.targets(self.expression)

    def excess(self, run: DryRun) -> float:
        """How many times its target the error of a result is, at most; what no ring changes is left out of both."""
        pairs = zip(run.promised, self.targets, strict=True)
        return max((one.error - one.known) / (target - one.known) for one, target in pairs)

    @property
    def alphas(self) -> tuple[int, ...]:
        """Limbs per digit to try, beside all in one digit."""
        return (1, 2, 3) if self.fine else (2,)

    @property
    def digit_sizes(self) -> tuple[int, ...]:
        """The same, or what peers have."""
        return ONE_LIMB if self.options.for_peer else self.alphas

    @abstractmethod
    def families(self, thorough: bool, refuse: RefuseUpload) -> Iterator[Iterator[list[Candidate]]]:
        """For each algorithm the candidates of each ring degree, smallest first.

        Args:
            thorough: look at smaller blocks of every algorithm.
            refuse: told the candidates that upload too much, at one limb, and so are left out.
        """

    def is_single_block(self, candidate: Candidate) -> bool:
        """Whether larger rings save nothing."""
        return True

    def stop_ratio(self, candidate: Candidate) -> float:
        """A ring slower than a smaller one, which is that of a candidate, by so much ends the search upwards."""
        return 1.3

    def least_seconds(self, rates: Rates, threads: int) -> float:
        """A lower bound on the seconds of every candidate."""
        return 0.0

    def nominal(self, n: int) -> list[Ring]:
        """Rings that some candidates may need, the smallest first, to look at strategies before any is searched."""
        if self.modulus is not None:
            return modular_nominal(n, self.modulus, NOMINAL_DEPTHS)
        return [RingShape.for_depth(n // 2, depth, DRAFT_SCALE_BITS) for depth in NOMINAL_DEPTHS]

    def price(
        self, candidate: Candidate, ring: Ring, run: Run, predictions: Predictions, most: float = math.inf
    ) -> tuple[float, int]:
        """Seconds of a candidate on a ring, and bytes of its keys.

        Args:
            run: counts it on a ring.
            most: seconds from which on the price need not be known.

        Raises:
            CipherblasError: as `run`.
            DearError: it takes more than `most`.
        """
        counted = run(ring)
        key_bytes = key_bytes_of(counted.keys, ring)
        stages = predictions.stages(counted.counts, counted.traffic(ring), key_bytes, ring)
        return predictions.seconds(stages), key_bytes

    def similar_rings(self, entries: Sequence[Scored], n: int) -> list[Ring]:
        """Rings of another degree with as many limbs as the fastest of some candidates has, its digits first."""
        size = min(entries, key=lambda one: one.seconds).size if entries else None
        if self.refreshed or not isinstance(size, Sizing):
            return []
        alpha, allowed = size.alpha, self.allowed_bits(n)
        found = sorted(
            by_digits(replace(size, n=n), self.digit_sizes), key=lambda one: abs(one.alpha - alpha)
        )
        return [one.shape() for one in found if one.log_qp + PRIME_SPREAD_BITS <= allowed]

    def taken(self, scored: list[Scored]) -> list[Scored]:
        """Return the scored candidates that are worth keeping."""
        return scored

    def refine_candidates(self, scored: Sequence[Scored], predictions: Predictions) -> Iterator[Candidate]:
        """More candidates, from what the best ones so far were found to take."""
        return iter(())

    def with_shared_masks(self, scored: Sequence[Scored]) -> Iterator[Candidate]:
        """The best candidate so far with ciphertexts that share their a part where they are refreshed."""
        if not self.refreshed:
            return
        best = next((one for one in scored if one.run.keys.encapsulation is not None), None)
        if best is None:
            return
        for secrets in SHARED_PAIRS:
            if best.run.together > secrets:  # else they go two by two, see `Bootstrapping.run_shared`
                yield replace(best.candidate, decisions=replace(best.candidate.decisions, sharing=secrets))

    def explained(self, candidate: Candidate) -> Candidate:
        """The candidate that is taken, with what was nearly taken for its nodes."""
        return candidate

    def draft(self, candidate: Candidate, run: Run) -> Ring | None:
        """A ring that carries a candidate, whatever its precision is; None where none is found so quickly.

        Raises:
            NoRingError: none of its degree does.
        """
        if self.modulus is not None:
            return modular_draft(run, candidate.n, self.modulus)
        if self.refreshed:
            return self.sizes(candidate, run, 0.0)[0].shape()
        return drafted(run, candidate.n, DRAFT_SCALE_BITS, self.allowed_bits(candidate.n))[0]

    def slope(self, run: Run, n: int) -> float:
        """Bits of the result per bit of scale; NoRingError as `drafted`."""
        return magnitude_slope(run, n, self.allowed_bits(n))

    def allowed_bits(self, n: int) -> float:
        """The largest log2(QP)."""
        return budget_bits(n, self.options.security, self.options.insecure)

    def row_degree(self, n: int) -> int | None:
        """Degree of a ring of its own for rows, beside slots of a ring of this degree; None: they have none."""
        return None

    def sizes(self, candidate: Candidate, run: Run, extra_bits: float) -> Sequence[Size]:
        """Rings that carry a candidate at the precision.

        Args:
            run: counts it on a ring.
            extra_bits: added to the scale (after a first choice missed the target, or its primes were too few).

        Raises:
            NoRingError: no ring of its degree does; key policies with fewer keys have larger errors yet.
        """
        allowed = self.allowed_bits(candidate.n)
        if self.modulus is not None:
            return modular_sizings(
                *(run, candidate.n, self.modulus, allowed, extra_bits, self.digit_sizes),
                keyless=candidate.decisions.unrelinearised,
            )
        if self.refreshed:
            if extra_bits:
                raise NoRingError(
                    f"At N = {candidate.n} refreshed values cannot be more precise.",
                    candidate.n,
                    2.0,
                    modulus=0.0,
                )
            security, insecure = self.options.security, self.options.insecure
            rows, profile = self.row_degree(candidate.n), modulus_chains.profile_of(self.expression)
            return modulus_chains.chain_sizings(
                *(run, candidate.n, self.excess, security, insecure, self._first, rows, profile)
            )
        similar_rings = (
            candidate.name,
            frozenset(
                (number, choice.method, frozenset(choice.options))
                for number, choice in candidate.decisions.choices.items()
            ),
        )
        if similar_rings not in self._slopes:
            self._slopes[similar_rings] = self.slope(run, candidate.n)
        return sizings(
            *(run, candidate.n, self.excess, self.options.security, self.options.insecure, extra_bits),
            *(self._slopes[similar_rings], self.digit_sizes),
            linear=not facts_of(self.expression).sheds,
            keyless=candidate.decisions.unrelinearised,
        )
