"""The search for a plan: every strategy's candidates × key policies × rings, by counted cost, under the budgets."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from cipherblas.common.errors import CipherblasError
from cipherblas.common.progress import Tell
from cipherblas.planner.plan.passes import Outcome, Planned
from cipherblas.planner.plan.plan import PlanOptions, Rejected
from cipherblas.planner.predict.feasible import DearError, Infeasible, TooSlowError, attempted
from cipherblas.planner.rings.sizing import draft_excess
from cipherblas.planner.search.budgets import Budgets
from cipherblas.planner.search.finishing import Finishing, fastest_of_each, finalists, key_saving
from cipherblas.planner.search.losers import ABOUT, Losers
from cipherblas.planner.search.prices import Price, cheapest
from cipherblas.planner.search.scoring import SearchTerms
from cipherblas.planner.search.strategy import Candidate, Run, Scored, Size, Strategy
from cipherblas.rlwe.rings import Ring
from cipherblas.runtime.rows import ROWS

WORTH_REFINING = 5  # times as long as the best so far, what a method for each node may still save
PRUNE_RATIO = 20  # what takes so many times as long as the best so far is not counted to its end
HOPELESS = 5  # times as long as the best so far, on drafts of rings: no ring is searched for what is so slow
SMALLER_BLOCKS = 0.8  # of a modulus that is needed: more than other blocks of a larger ring may save
FAR_BEYOND = 1.5  # times a limit of seconds, what real primes make no less than the limit
COUNTED = 6  # candidates that upload too much at one limb already, that are counted nonetheless to tell what they lack


class HopelessError(TooSlowError):
    """A candidate is too slow on the draft of a ring."""


class Search:
    """One search; `run()` returns the plan with its dry run, or why there is none.

    Its phases: candidates get rings and are counted (`_all_scored`), the most promising are tried on real primes
    (`finishing`), and what is not taken is told (`losers`). What it knows meanwhile is what was best so far, which says
    what is not worth counting.

    Args:
        strategies: asked one after the other: what takes far longer than the best so far is not counted to its end.
        progress: told what is tried.
        refused: forms that the program cannot be computed in.
        limit: seconds from which on a plan is of no use.
        any_plan: the first one that is found does.
    """

    def __init__(
        self,
        strategies: Sequence[Strategy],
        options: PlanOptions,
        budgets: Budgets,
        progress: Tell | None = None,
        refused: Sequence[Rejected] = (),
        limit: float = math.inf,
        any_plan: bool = False,
    ) -> None:
        self.strategies = strategies
        self._any_plan = any_plan
        self._useless = FAR_BEYOND * limit  # seconds, as they are predicted before there are primes
        self._tell: Tell = progress or (lambda what: None)
        self.terms = SearchTerms.of(options, budgets)
        self.rates = self.terms.predictions.machine.rates
        self.losers = Losers(self.terms, refused)
        self.best_seconds = math.inf  # so far
        self._best_draft = math.inf  # seconds on a draft of a ring, so far
        self._thorough = False  # look at smaller blocks of every algorithm, whatever their prices are
        self._too_slow = 0  # candidates that were not counted to their end
        self._left_out = False  # candidates for their price
        # By algorithm and ring degree, the least of what uploads too much at one limb.
        self._uncounted: dict[tuple[str, int], tuple[int, Strategy, Candidate]] = {}

    # --- the plan ---

    def run(self) -> Outcome:
        """The fastest candidate that holds when it is run without data on its real primes."""
        scored = self._all_scored()
        least = scored[0].seconds if scored else math.inf
        if least > self._useless or (self._useless < math.inf and not scored):
            return Infeasible(TooSlowError("another way takes far less", expected=self._useless, got=least))
        if not scored and self.losers.keys_refuse:  # smaller blocks need fewer keys
            self._thorough = True
            scored = self._all_scored()
        failures: list[CipherblasError] = []
        found = self._first_that_holds(scored, failures)
        if found is None and failures and self._any_plan:
            self._any_plan = False
            found = self._first_that_holds(self._all_scored(), failures)
        if found is None and failures and self._left_out and not self._thorough:
            self._thorough = True
            found = self._first_that_holds(self._all_scored(), failures)
        if found is not None:
            return found
        return Infeasible(self.losers.unfinished(failures) if failures else self._refusal())

    def _first_that_holds(self, scored: Sequence[Scored], failures: list[CipherblasError]) -> Planned | None:
        """The plan of the fastest candidate that holds on its real primes; what the others lack joins the failures."""
        self.best_seconds = math.inf  # whatever is looked at from here on is counted to its end
        finishing = Finishing(
            self.terms, lambda entry, bits: self.score(entry.strategy, entry.candidate, bits)
        )
        best = fastest_of_each(scored)
        for entry in finalists(self.terms, scored, best):
            self._tell(f"{entry.candidate.name} once more, on its real primes")
            found = attempted(functools.partial(finishing.plan, entry))
            if isinstance(found, Infeasible):
                failures.append(found.error)
                self.losers.note_unfinished(entry, found.error)
                continue
            plan, run = found
            saving = key_saving(
                *(self.terms, entry, self.losers.most_keys),
                lambda one: self.dry(one.strategy, one.candidate),
            )
            taken = entry.strategy.explained(entry.candidate)
            plan = replace(
                plan,
                runners_up=taken.runners_up,
                other_conversions=taken.other_conversions,
                rejected=self.losers.beside(entry, plan, best),
                key_saving=saving,
            )
            return Planned(entry.strategy.expression, plan, run)
        return None

    def _refusal(self) -> CipherblasError:
        """Why no candidate fits the budgets."""
        if (too_much := self.losers.all_too_much_work) is not None:
            return too_much
        self._count_refused()
        return self.losers.refusal(self.strategies[-1])

    def _count_refused(self) -> None:
        """Count what uploads too much whatever its ring is, the least first: whether it is refused for that alone."""
        self.best_seconds = self._best_draft = math.inf
        counted = 0
        for _, strategy, candidate in sorted(self._uncounted.values(), key=lambda one: one[0]):
            needed = SMALLER_BLOCKS * self.losers.needed_bits(candidate.name)
            if self.losers.over_budget(candidate.name) or strategy.allowed_bits(candidate.n) < needed:
                continue
            self._scored(strategy, candidate)  # none fits
            counted += 1
            if counted == COUNTED:
                return

    # --- all candidates ---

    def _all_scored(self) -> list[Scored]:
        """Every candidate within the budgets, fastest first; where any plan does, the first one alone."""
        found: list[Scored] = []
        for strategy in self._in_order():
            least = strategy.least_seconds(self.rates, self.terms.predictions.threads)
            if least > self.best_seconds:
                self.losers.note_bound(strategy.label, least)
                continue
            families = strategy.families(self._thorough, functools.partial(self._refuse_upload, strategy))
            scored = list[Scored]()
            for one in itertools.chain.from_iterable(self._family(strategy, family) for family in families):
                if self._any_plan and one.peak_bytes <= self.terms.budgets.memory:
                    return [one]
                scored.append(one)
            worth = [one for one in scored if one.seconds <= WORTH_REFINING * self.best_seconds]
            self._tell("a method for each node")
            for candidate in strategy.refine_candidates(_fastest_first(worth), self.terms.predictions):
                scored += self._scored(strategy, candidate)
            for candidate in strategy.with_shared_masks(_fastest_first(scored)):
                self._tell("refreshes with an a part for several")
                scored += self._scored(strategy, candidate)
            found += strategy.taken(scored)
        return _fastest_first(found)

    def _in_order(self) -> list[Strategy]:
        """The strategies, those first whose first candidate seems to be fast: others need no rings then."""
        if len(self.strategies) == 1 or self.strategies[0].form != ROWS:
            return list(self.strategies)
        first, *others = self.strategies
        seconds, least = (
            self._glance(first),
            others[-1].least_seconds(self.rates, self.terms.predictions.threads),
        )
        return (
            [first, *others] if seconds <= least or seconds <= self._glance(others[-1]) else [*others, first]
        )

    def _glance(self, strategy: Strategy) -> float:
        """Seconds of the first candidate on the first nominal ring that carries it."""
        families = strategy.families(False, lambda candidate, least: None)
        first = attempted(
            lambda: next(itertools.chain.from_iterable(itertools.chain.from_iterable(families)), None)
        )
        if first is None or isinstance(first, Infeasible):
            return math.inf
        one = first.with_policy(strategy.policies[0])
        for ring in strategy.nominal(first.n):
            price = attempted(
                functools.partial(strategy.price, one, ring, self.dry(strategy, one), self.terms.predictions)
            )
            if not isinstance(price, Infeasible):
                return price[0]
        return math.inf

    def _family(self, strategy: Strategy, degrees: Iterator[list[Candidate]]) -> Iterator[Scored]:
        """One algorithm over growing rings, until a ring is clearly slower than a smaller one."""
        best, needed, last, largest = math.inf, 0.0, list[Scored](), max(strategy.degrees)
        for candidates in self._each(strategy, degrees):
            if not candidates or (
                candidates[0].n < largest and strategy.allowed_bits(candidates[0].n) < needed
            ):
                continue
            failed, ratio = len(self.losers.failures), strategy.stop_ratio(candidates[0])
            found, hopeless = self._cheapest(strategy, candidates, last, ratio * best)
            yield from found
            if hopeless and strategy.is_single_block(candidates[0]):
                return  # larger rings take longer, and more bytes
            fastest = min((scored.seconds for scored in found), default=math.inf)
            if fastest > ratio * best:
                return
            best, last = min(best, fastest), found or last
            # Other blocks of a program are as deep: where a ring is too small for one, a larger one comes next.
            too_small = self.losers.too_small(failed)
            if too_small and not (found or strategy.fine):
                needed = SMALLER_BLOCKS * max(too_small)

    def _cheapest(
        self, strategy: Strategy, candidates: Sequence[Candidate], last: Sequence[Scored], limit: float
    ) -> tuple[list[Scored], bool]:
        """The candidates of one ring degree that may be taken, by their prices, and whether all are far too slow.

        Args:
            last: candidates of a smaller degree.
            limit: of seconds.
        """
        forced, n = self.terms.options.parameters, candidates[0].n
        slow = self._too_slow

        def price(candidate: Candidate, ring: Ring, most: float) -> Price:
            seconds = math.inf
            for one in map(candidate.with_policy, strategy.policies):
                work = functools.partial(
                    strategy.price, one, ring, self.dry(strategy, one), self.terms.predictions, most
                )
                found = attempted(work, only=TooSlowError)
                if isinstance(found, Infeasible):
                    if isinstance(found.error, DearError):
                        return Price(found.error.least, exact=False)
                    return Price(PRUNE_RATIO * self.best_seconds)
                seconds, key_bytes = found
                if strategy.all_policies or key_bytes <= self.terms.budgets.keys:
                    break
            return Price(seconds)

        def scored(candidate: Candidate) -> list[Scored] | None:
            failed, refused = len(self.losers.failures), self.losers.refused_uploads
            entries = self._scored(strategy, candidate)
            # Smaller blocks have more ciphertexts.
            uploads = self.losers.refused_uploads > refused and not strategy.fine
            stops = uploads or bool(self.losers.too_small(failed))
            return None if stops and not entries else entries

        rings: Sequence[Ring] = [forced] if forced is not None else strategy.similar_rings(last, n)
        if not rings and self.best_seconds < math.inf:
            rings = strategy.known.get(n) or strategy.nominal(n)[:1]
        about = max(strategy.near, ABOUT if self.terms.options.minimise == "server" else 1.0)
        far = strategy.far * self.best_seconds
        if self._thorough:
            about = limit = far = math.inf
        found, least = cheapest(
            *(candidates, rings, price, scored, min(limit, far), about, strategy.failing, strategy.digits),
            told=not last,
            carried=strategy.carried,
        )
        self._left_out |= least < math.inf
        too_slow = far <= least < math.inf
        if too_slow and not found:
            self.losers.note_price(candidates[0].name, least)
        if found and strategy.fine:
            strategy.known[n] = [one.ring for one in found]
        return found, not found and (too_slow or self._too_slow - slow == len(candidates))

    def _each(self, strategy: Strategy, degrees: Iterator[list[Candidate]]) -> Iterator[list[Candidate]]:
        """The candidates of each ring degree, as far as there are any."""
        while True:
            found = attempted(lambda: next(degrees, None))
            if isinstance(found, Infeasible):
                self.losers.note_failure(strategy.label, found.error)
            elif found is None:
                return
            else:
                yield found

    # --- one candidate ---

    def _scored(self, strategy: Strategy, candidate: Candidate) -> list[Scored]:
        """The candidate on the rings that carry it, as far as it fits the budgets."""
        found: list[Scored] = []

        def collect() -> None:
            for one in self.score(strategy, candidate):
                found.append(one)

        failed = attempted(collect)
        if isinstance(failed, Infeasible):
            if isinstance(failed.error, TooSlowError):
                self._too_slow += 1
                hopeless = isinstance(failed.error, HopelessError)
                self.losers.note_slow(candidate.name, HOPELESS if hopeless else PRUNE_RATIO)
            else:
                self.losers.note_failure(candidate.name, failed.error)
        return found

    def dry(self, strategy: Strategy, candidate: Candidate) -> Run:
        """The function that counts a candidate on a ring."""
        return self.terms.counting(strategy, candidate, self._max_ntt_limbs)

    def _max_ntt_limbs(self, ring: Ring) -> float:
        """So many transforms alone would take far longer than the best plan so far."""
        layers = ring.n * (ring.n.bit_length() - 1)
        excess = draft_excess(ring)
        seconds = PRUNE_RATIO * self.best_seconds * excess
        if excess > 1:
            seconds = min(seconds, PRUNE_RATIO * self._best_draft)
        return seconds * self.terms.predictions.threads / (layers * max(self.rates.least_ntt, 1e-12))

    def score(self, strategy: Strategy, candidate: Candidate, extra_bits: float = 0.0) -> Iterator[Scored]:
        """The candidate on every ring that carries it, under the first key policy that fits the key budget.

        Raises:
            NoRingError: no ring of its degree does; key policies with fewer keys have larger errors yet.
        """
        degree = f"N = 2^{candidate.n.bit_length() - 1}"
        for policy in strategy.policies:
            self._tell(f"{candidate.name}, {degree}, {policy} keys")
            one, refused, found = candidate.with_policy(policy), self.losers.refused_keys, False
            run, keyless = self.dry(strategy, one), True
            sizes: Sequence[Size | None] = [None]
            drafted = math.inf
            if self.terms.options.parameters is None:
                drafted = self._drafted(strategy, one, run)
                sizes = strategy.sizes(one, run, extra_bits)
            for bits in sizes:
                scored = self._weighed(strategy, one, bits, run, extra_bits)
                if scored is not None:
                    found, keyless = True, keyless and not len(scored.run.keys)
                    if scored.peak_bytes <= self.terms.budgets.memory:
                        self._best_draft = min(self._best_draft, drafted)
                    yield scored
            # Other policies have other keys, and the same upload.
            if (found and keyless) or (
                not strategy.all_policies and (found or self.losers.refused_keys == refused)
            ):
                return

    def _drafted(self, strategy: Strategy, candidate: Candidate, run: Run) -> float:
        """Seconds of a candidate on the draft of a ring.

        Raises:
            HopelessError: they are so many more than those of the best one that no ring needs to be searched for it.
        """
        if strategy.fine:
            return math.inf
        ring = strategy.draft(candidate, run)
        if ring is None:
            return math.inf
        seconds = self.terms.on_ring(strategy, candidate, None, run, ring).seconds
        if seconds > HOPELESS * self._best_draft:
            raise HopelessError(
                "the program takes too long on a draft of its ring", expected=self._best_draft, got=seconds
            )
        return seconds

    def _weighed(
        self, strategy: Strategy, candidate: Candidate, bits: Size | None, run: Run, extra_bits: float
    ) -> Scored | None:
        """The candidate on one ring; None, and a reason kept, where it exceeds a budget."""
        scored, budgets = self.terms.scored(strategy, candidate, bits, run, extra_bits), self.terms.budgets
        if scored.upload_bytes > budgets.upload:
            self.losers.note_upload(scored)
            return None
        if scored.key_bytes > budgets.keys:
            self.losers.note_keys(scored)
            return None
        if scored.peak_bytes <= budgets.memory:
            self.best_seconds = min(self.best_seconds, scored.seconds)
        return scored

    def _refuse_upload(self, strategy: Strategy, candidate: Candidate, least: int) -> None:
        """A candidate uploads too much even at one limb: what uploads least is kept."""
        self.losers.note_least_upload(candidate.name, least)
        known = self._uncounted.get((candidate.name, candidate.n))
        if known is None or least < known[0]:
            self._uncounted[candidate.name, candidate.n] = least, strategy, candidate


def _fastest_first(scored: Sequence[Scored]) -> list[Scored]:
    return sorted(scored, key=lambda one: one.seconds)
