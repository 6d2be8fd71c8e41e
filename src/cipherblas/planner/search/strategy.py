"""What a search is told by each form that values can have: candidates, and the rings that carry them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from cipherblas.crypto.params import Parameters
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression
from cipherblas.lang.refreshing import is_refreshed, refreshes_twice
from cipherblas.planner.plan.assembly import Predictions
from cipherblas.planner.plan.plan import RING_DEGREES, PlanOptions
from cipherblas.planner.predict.cost import Rates
from cipherblas.planner.predict.dry_run import DryRun
from cipherblas.planner.predict.stages import Stages
from cipherblas.planner.rings import chains
from cipherblas.planner.rings.sizing import (
    DRAFT_SCALE_BITS,
    NoRingError,
    budget_bits,
    drafted,
    magnitude_slope,
    sizings,
)
from cipherblas.planner.search.budgets import Budgets
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import Ring, RingShape
from cipherblas.runtime.values import Decisions

# Pairs of ciphertexts that share their a part, to try: more take more keys, and little less time.
SHARING = (3, 5, 7)
KEY_POLICIES: tuple[KeyPolicy, ...] = ("direct", "composed", "binary")


@dataclass(frozen=True)
class Candidate:
    """One way to run a program, before its ring is sized.

    Attributes:
        name: of its algorithm, for people.
        runners_up: by the number of a node, what was nearly taken.
        other_crossings: by the number of a node whose value is converted, how it nearly was.
    """

    name: str
    decisions: Decisions
    n: int
    runners_up: Mapping[int, str] = field(default_factory=dict, compare=False)
    other_crossings: Mapping[int, str] = field(default_factory=dict, compare=False)

    def with_policy(self, policy: KeyPolicy) -> Candidate:
        """The same with another key policy."""
        return replace(self, decisions=replace(self.decisions, key_policy=policy))


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
        stop_ratio: a ring slower than a smaller one by so much ends the search upwards.
        policies: key policies in the order in which they are tried; the first that fits the key budget is taken.
        all_policies: all of them are compared.
        fine: every tiling, option and digit size is compared.
    """

    form: ClassVar[str]
    label: ClassVar[str]
    stop_ratio: ClassVar[float] = 1.3
    policies: tuple[KeyPolicy, ...] = KEY_POLICIES
    all_policies: ClassVar[bool] = False
    fine = True

    def __init__(self, expression: Expression, options: PlanOptions, budgets: Budgets) -> None:
        self.expression, self.options, self.budgets = expression, options, budgets
        self._slopes: dict[Hashable, float] = {}  # of candidates that take the same steps
        self.refreshed = is_refreshed(expression)
        if options.key_policy is not None:
            self.policies = (options.key_policy,)

    @property
    def degrees(self) -> Sequence[int]:
        """Ring degrees to try, smallest first."""
        if self.options.parameters is not None:
            return (self.options.parameters.n,)
        if self.refreshed and self.options.ring_degree is None:
            return chains.DEGREES
        return RING_DEGREES if self.options.ring_degree is None else (self.options.ring_degree,)

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

    @abstractmethod
    def families(self, thorough: bool, refuse: RefuseUpload) -> Iterator[Iterator[list[Candidate]]]:
        """For each algorithm the candidates of each ring degree, smallest first.

        Args:
            thorough: look at smaller blocks of every algorithm.
            refuse: told the candidates that upload too much, at one limb, and so are left out.
        """

    def whole(self, candidate: Candidate) -> bool:
        """Whether larger rings save nothing."""
        return True

    def least_seconds(self, rates: Rates, threads: int) -> float:
        """What every candidate takes at least."""
        return 0.0

    def taken(self, scored: list[Scored]) -> list[Scored]:
        """Those of the scored candidates that are worth keeping."""
        return scored

    def refined(self, scored: Sequence[Scored], predictions: Predictions) -> Iterator[Candidate]:
        """More candidates, from what the best ones so far were found to take."""
        return iter(())

    def sharing(self, scored: Sequence[Scored]) -> Iterator[Candidate]:
        """The best candidate so far with ciphertexts that share their a part where they are refreshed."""
        best = next((one for one in scored if one.run.keys.encapsulation is not None), None)
        if best is None:
            return
        for secrets in SHARING:
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
        if self.refreshed:
            return self.sizes(candidate, run, 0.0)[0].shape()
        return drafted(run, candidate.n, DRAFT_SCALE_BITS, self.allowed_bits(candidate.n))[0]

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
        if self.refreshed:
            if extra_bits:
                raise NoRingError(
                    f"At N = {candidate.n} refreshed values cannot be more precise.",
                    candidate.n,
                    2.0,
                    modulus=0.0,
                )
            security, insecure = self.options.security, self.options.insecure
            rows, fine = self.row_degree(candidate.n), refreshes_twice(self.expression)
            return chains.chain_sizings(run, candidate.n, self.excess, security, insecure, rows, fine)
        alike = (
            candidate.name,
            frozenset(
                (number, choice.method, frozenset(choice.options))
                for number, choice in candidate.decisions.choices.items()
            ),
        )
        if alike not in self._slopes:
            self._slopes[alike] = magnitude_slope(run, candidate.n, allowed)
        return sizings(
            *(run, candidate.n, self.excess, self.options.security, self.options.insecure, extra_bits),
            *(self._slopes[alike], self.alphas),
            linear=not facts_of(self.expression).sheds,
        )
