"""The search for a plan: every strategy's candidates × key policies × rings, by counted cost, under the budgets."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from cipherblas.common.errors import (
    CipherblasError,
    LevelError,
    MemoryBudgetError,
    PrecisionError,
    WorkBudgetError,
)
from cipherblas.common.progress import Tell
from cipherblas.crypto.params import Parameters, TooFewPrimesError
from cipherblas.lang.exact import is_exact
from cipherblas.planner.plan.assembly import Predictions, assemble, key_bytes_of, peak_bytes_of
from cipherblas.planner.plan.explain import duration, size
from cipherblas.planner.plan.plan import KeySaving, Plan, PlanOptions, Rejected
from cipherblas.planner.plan.targets import check_promised
from cipherblas.planner.predict.dry_run import DryRun, TooSlowError, dry_run
from cipherblas.planner.rings.sizing import MORE_PRIMES_BITS, NoRingError, draft_excess, too_few_primes
from cipherblas.planner.search.budgets import Budgets, exceeded, larger, over_budget
from cipherblas.planner.search.prices import cheapest
from cipherblas.planner.search.refusals import INFEASIBLE, nearest, refused, refused_exact
from cipherblas.planner.search.strategy import Candidate, Run, Scored, Size, Strategy
from cipherblas.rlwe.rings import Ring
from cipherblas.runtime.rows import ROWS

FINALISTS = 12
SMALLEST = 4
ABOUT = 1.05  # times as many seconds, which no prediction tells apart
WORTH_REFINING = 5  # times as long as the best so far, what a method for each node may still save
PRUNE_RATIO = 20  # what takes so many times as long as the best so far is not counted to its end
HOPELESS = 5  # times as long as the best so far, on drafts of rings: no ring is searched for what is so slow
SMALLER_BLOCKS = 0.8  # of a modulus that is needed: more than other blocks of a larger ring may save
COUNTED = 6  # candidates that upload too much at one limb already, that are counted nonetheless to tell what they lack
PRICED = "seems to take"  # so many times as long or more, what was given no ring: it may need a larger one
MOST_BITS = 4.0  # added at one time: errors of steep functions fall faster than scales grow
MORE_BITS = 0.25  # added to the scale beside what a plan missed its target by


class HopelessError(TooSlowError):
    """A candidate is too slow on the draft of a ring."""


class Search:
    """One search; `run()` returns the plan and its dry run.

    Args:
        strategies: asked one after the other: what takes far longer than the best so far is not counted to its end.
        progress: told what is tried.
    """

    def __init__(
        self,
        strategies: Sequence[Strategy],
        options: PlanOptions,
        budgets: Budgets,
        progress: Tell | None = None,
    ) -> None:
        self.strategies, self.options, self.budgets = strategies, options, budgets
        self._tell: Tell = progress or (lambda what: None)
        self.predictions = Predictions.of(options)
        self.rates = self.predictions.machine.rates
        self.rejected: dict[str, Rejected] = {}
        self.best_seconds = math.inf  # so far
        self._best_draft = math.inf  # seconds on a draft of a ring, so far
        self._no_ring: dict[str, NoRingError] = {}  # of each algorithm at the largest degree that was tried
        self._most_keys: Scored | None = None  # the fastest that only the key budget refuses
        self._least_keys: dict[str, int] = {}
        self._refused_keys = self._refused_uploads = 0  # candidates, each on one ring and with one policy
        self._thorough = False  # look at smaller blocks of every algorithm, whatever their prices are
        self._failures: list[CipherblasError] = []
        self._too_slow = 0  # candidates that were not counted to their end
        self._left_out = False  # candidates for their price
        self._over_budget: dict[
            str, MemoryBudgetError
        ] = {}  # by algorithm, the nearest that budgets alone refuse
        # By algorithm and ring degree, the least of what uploads too much at one limb.
        self._uncounted: dict[tuple[str, int], tuple[int, Strategy, Candidate]] = {}

    # --- scoring ---

    def dry(self, strategy: Strategy, candidate: Candidate) -> Run:
        """What counts a candidate on a ring; results are kept: rings are looked at again when they are weighed."""

        def run(ring: Ring) -> DryRun:
            return dry_run(
                *(ring, strategy.expression, candidate.decisions),
                mask_budget=self.budgets.masks,
                max_ntt_limbs=self._max_ntt_limbs(ring),
                promise=self.options.promised,
            )

        return _remembered(run, candidate.drafted)

    def _max_ntt_limbs(self, ring: Ring) -> float:
        """So many transforms alone would take far longer than the best plan so far."""
        layers = ring.n * (ring.n.bit_length() - 1)
        excess = draft_excess(ring)
        seconds = PRUNE_RATIO * self.best_seconds * excess
        if excess > 1:
            seconds = min(seconds, PRUNE_RATIO * self._best_draft)
        return seconds * self.predictions.threads / (layers * max(self.rates.least_ntt, 1e-12))

    def score(self, strategy: Strategy, candidate: Candidate, extra_bits: float = 0.0) -> Iterator[Scored]:
        """The candidate on every ring that carries it, under the first key policy that fits the key budget.

        Raises:
            NoRingError: no ring of its degree does; key policies with fewer keys have larger errors yet.
        """
        degree = f"N = 2^{candidate.n.bit_length() - 1}"
        for policy in strategy.policies:
            self._tell(f"{candidate.name}, {degree}, {policy} keys")
            one, refused, found = candidate.with_policy(policy), self._refused_keys, False
            run, keyless = self.dry(strategy, one), True
            sizes: Sequence[Size | None] = [None]
            drafted = math.inf
            if self.options.parameters is None:
                drafted = self._drafted(strategy, one, run)
                sizes = strategy.sizes(one, run, extra_bits)
            for bits in sizes:
                scored = self._weighed(strategy, one, bits, run, extra_bits)
                if scored is not None:
                    found, keyless = True, keyless and not len(scored.run.keys)
                    if scored.peak_bytes <= self.budgets.memory:
                        self._best_draft = min(self._best_draft, drafted)
                    yield scored
            # Other policies have other keys, and the same upload.
            if (found and keyless) or (
                not strategy.all_policies and (found or self._refused_keys == refused)
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
        seconds = self._on_ring(strategy, candidate, None, run, ring).seconds
        if seconds > HOPELESS * self._best_draft:
            raise HopelessError(
                "the program takes too long on a draft of its ring", expected=self._best_draft, got=seconds
            )
        return seconds

    def _weighed(
        self, strategy: Strategy, candidate: Candidate, bits: Size | None, run: Run, extra_bits: float
    ) -> Scored | None:
        """The candidate on one ring; None, and a reason kept, where it exceeds a budget."""
        scored = self._predicted(strategy, candidate, bits, run, extra_bits)
        upload = scored.run.traffic(scored.ring).upload_bytes
        if upload > self.budgets.upload:
            self._refused_uploads += 1
            allowed = size(self.budgets.upload)
            self._reject(candidate.name, f"uploads {size(upload)}, upload_budget is {allowed}")
            self._exceeds(scored)
            return None
        if scored.key_bytes > self.budgets.keys:
            self._reject_keys(scored)
            self._exceeds(scored)
            return None
        if scored.peak_bytes <= self.budgets.memory:
            self.best_seconds = min(self.best_seconds, scored.seconds)
        return scored

    def _exceeds(self, scored: Scored) -> None:
        """Budgets alone refuse a candidate: of each algorithm the nearest one is kept."""
        name = scored.candidate.name
        error = self._over_budgets(scored, scored.peak_bytes)
        known = self._over_budget.get(name)
        if known is None or error.shortfall < known.shortfall:
            self._over_budget[name] = error

    def _over_budgets(self, scored: Scored, memory: int) -> MemoryBudgetError:
        upload = scored.run.traffic(scored.ring).upload_bytes
        needs = exceeded(self.options, self.budgets, upload, scored.key_bytes, memory)
        return over_budget(f"{scored.candidate.name} at N = 2^{scored.ring.n.bit_length() - 1}", needs)

    def _refuse_upload(self, strategy: Strategy, candidate: Candidate, least: int) -> None:
        """A candidate uploads too much even at one limb: what uploads least is kept."""
        name = candidate.name
        allowed = size(self.budgets.upload)
        self._reject(name, f"uploads at least {size(least)}, upload_budget is {allowed}")
        known = self._uncounted.get((name, candidate.n))
        if known is None or least < known[0]:
            self._uncounted[name, candidate.n] = least, strategy, candidate

    def _predicted(
        self, strategy: Strategy, candidate: Candidate, bits: Size | None, run: Run, extra_bits: float = 0.0
    ) -> Scored:
        ring: Ring | None = self.options.parameters if bits is None else bits.shape()
        assert ring is not None
        return self._on_ring(strategy, candidate, bits, run, ring, extra_bits)

    def _on_ring(
        self,
        strategy: Strategy,
        candidate: Candidate,
        bits: Size | None,
        run: Run,
        ring: Ring,
        extra_bits: float = 0.0,
    ) -> Scored:
        counted = run(ring)
        key_bytes = key_bytes_of(counted.keys, ring)
        stages = self.predictions.stages(counted.counts, counted.traffic(ring), key_bytes, ring)
        peak = peak_bytes_of(counted, key_bytes, ring)
        seconds = self.predictions.seconds(stages)
        return Scored(strategy, candidate, bits, counted, key_bytes, peak, stages, seconds, ring, extra_bits)

    def _reject(self, name: str, reason: str, seconds: float | None = None) -> None:
        known = self.rejected.get(name)
        if known is None or (seconds is not None and (known.seconds is None or seconds < known.seconds)):
            self.rejected[name] = Rejected(name, reason, seconds)

    def _reject_keys(self, scored: Scored) -> None:
        """Too many keys: the reason names the fewest, and the fastest is kept to tell what fewer keys cost."""
        self._refused_keys += 1
        name, least = scored.candidate.name, self._least_keys
        if scored.key_bytes < least.get(name, math.inf):
            least[name] = scored.key_bytes
            allowed = f"key_budget is {size(self.budgets.keys)}"
            if self.options.key_budget is None:
                allowed += (
                    ", a share of memory_budget" if self.options.memory_budget else ", a share of the memory"
                )
            reason = f"needs {size(scored.key_bytes)} of keys, {allowed}"
            if self.rejected.get(name, Rejected(name, "")).seconds is None:
                self.rejected[name] = Rejected(name, reason)
        if self._most_keys is None or scored.seconds < self._most_keys.seconds:
            self._most_keys = scored

    # --- the plan ---

    def run(self) -> tuple[Plan, DryRun]:
        """The fastest candidate that holds when it is run without data on its real primes.

        Raises:
            CipherblasError: none holds, or none fits the budgets.
        """
        scored = self._all_scored()
        if not scored and self._least_keys:  # smaller blocks need fewer keys
            self._thorough = True
            scored = self._all_scored()
        failures: list[CipherblasError] = []
        found = self._first_that_holds(scored, failures)
        if found is None and failures and self._left_out and not self._thorough:
            self._thorough = True
            found = self._first_that_holds(self._all_scored(), failures)
        if found is not None:
            return found
        if not failures:
            raise self._impossible()
        raise nearest([*failures, *self._over_budget.values()])

    def _first_that_holds(
        self, scored: Sequence[Scored], failures: list[CipherblasError]
    ) -> tuple[Plan, DryRun] | None:
        """The plan of the fastest candidate that holds on its real primes; what the others lack joins the failures."""
        self.best_seconds = math.inf  # whatever is looked at from here on is counted to its end
        best: dict[str, Scored] = {}
        for entry in scored:
            best.setdefault(entry.candidate.name, entry)
        for entry in self._finalists(scored, best):
            self._tell(f"{entry.candidate.name} once more, on its real primes")
            try:
                plan, run = self._finish(entry)
            except INFEASIBLE as error:
                failures.append(error)
                self._reject(entry.candidate.name, error.sentence, entry.seconds)
                continue
            saving, taken = self._key_saving(entry), entry.strategy.explained(entry.candidate)
            losers = self._losers(entry, plan.minimised, best)
            plan = replace(plan, runners_up=taken.runners_up, other_crossings=taken.other_crossings)
            return replace(plan, rejected=losers, key_saving=saving), run
        return None

    def _all_scored(self) -> list[Scored]:
        """Every candidate within the budgets, fastest first."""
        found: list[Scored] = []
        for strategy in self._in_order():
            least = strategy.least_seconds(self.rates, self.predictions.threads)
            if least > self.best_seconds:
                self._reject(strategy.label, f"at least {duration(least)} (bound)")
                continue
            families = strategy.families(self._thorough, functools.partial(self._refuse_upload, strategy))
            scored = [one for family in families for one in self._family(strategy, family)]
            worth = [one for one in scored if one.seconds <= WORTH_REFINING * self.best_seconds]
            self._tell("a method for each node")
            for candidate in strategy.refined(_fastest_first(worth), self.predictions):
                scored += self._scored(strategy, candidate)
            for candidate in strategy.sharing(_fastest_first(scored)):
                self._tell("refreshes with an a part for several")
                scored += self._scored(strategy, candidate)
            found += strategy.taken(scored)
        return _fastest_first(found)

    def _in_order(self) -> list[Strategy]:
        """Those whose first candidate seems to be fast come first: others need no rings then."""
        if len(self.strategies) == 1 or self.strategies[0].form != ROWS:
            return list(self.strategies)
        first, *others = self.strategies
        seconds, least = self._glance(first), others[-1].least_seconds(self.rates, self.predictions.threads)
        return (
            [first, *others] if seconds <= least or seconds <= self._glance(others[-1]) else [*others, first]
        )

    def _glance(self, strategy: Strategy) -> float:
        """Seconds of the first candidate on the first nominal ring that carries it."""
        families = strategy.families(False, lambda candidate, least: None)
        with contextlib.suppress(*INFEASIBLE):
            for candidate in itertools.chain.from_iterable(itertools.chain.from_iterable(families)):
                one = candidate.with_policy(strategy.policies[0])
                for ring in strategy.nominal(candidate.n):
                    with contextlib.suppress(*INFEASIBLE):
                        return strategy.price(one, ring, self.dry(strategy, one), self.predictions)[0]
                break
        return math.inf

    def _finalists(self, scored: Sequence[Scored], best: Mapping[str, Scored]) -> list[Scored]:
        """The fastest that seem to fit the memory, the fastest of each algorithm, then the smallest.

        Where the server's time alone is made least, plans that are predicted to be about as fast there are told apart
        by what the client uploads.
        """
        fitting = [entry for entry in scored if entry.peak_bytes <= self.budgets.memory]
        if self.options.minimise == "server":
            alike = [entry for entry in fitting if entry.seconds <= ABOUT * fitting[0].seconds]
            uploads = {id(one): one.run.traffic(one.ring).upload_bytes for one in alike}
            about_least = ABOUT * min(uploads.values(), default=0)  # a few bytes are no reason
            fitting[: len(alike)] = sorted(
                alike, key=lambda one: (max(uploads[id(one)], about_least), one.seconds)
            )
        smallest = sorted(scored, key=lambda entry: entry.peak_bytes)
        chosen = [*fitting[:FINALISTS], *best.values(), *smallest[:SMALLEST]]
        return list({id(entry): entry for entry in chosen}.values())

    def _key_saving(self, entry: Scored) -> KeySaving | None:
        """What a larger key budget, or the direct key policy, would give; None where nothing was saved."""
        if entry.strategy.all_policies:  # few keys were taken since they cost little
            return None
        other, policy = self._most_keys, entry.candidate.decisions.key_policy
        if other is None and policy != "direct":
            direct = entry.candidate.with_policy("direct")
            other = self._predicted(entry.strategy, direct, entry.size, self.dry(entry.strategy, direct))
        if other is None or other.key_bytes <= entry.key_bytes:
            return None
        if (other is self._most_keys or policy == "direct") and other.seconds >= entry.seconds:
            return None
        return KeySaving(
            algorithm=other.candidate.name,
            key_policy=other.candidate.decisions.key_policy,
            key_bytes=other.key_bytes,
            rotation_keys=len(other.run.keys.galois),
            rotations=other.run.counts.rotations,
            seconds=other.stages.evaluate,
        )

    def _family(self, strategy: Strategy, degrees: Iterator[list[Candidate]]) -> Iterator[Scored]:
        """One algorithm over growing rings, until a ring is clearly slower than a smaller one."""
        best, needed, last, largest = math.inf, 0.0, list[Scored](), max(strategy.degrees)
        for candidates in self._each(strategy, degrees):
            if not candidates or (
                candidates[0].n < largest and strategy.allowed_bits(candidates[0].n) < needed
            ):
                continue
            failed, ratio = len(self._failures), strategy.stop_ratio(candidates[0])
            found, hopeless = self._cheapest(strategy, candidates, last, ratio * best)
            yield from found
            if hopeless and strategy.whole(candidates[0]):
                return  # larger rings take longer, and more bytes
            fastest = min((scored.seconds for scored in found), default=math.inf)
            if fastest > ratio * best:
                return
            best, last = min(best, fastest), found or last
            # Other blocks of a program are as deep: where a ring is too small for one, a larger one comes next.
            too_small = [error.bits for error in self._failures[failed:] if isinstance(error, NoRingError)]
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
        forced, n = self.options.parameters, candidates[0].n
        slow = self._too_slow

        def price(candidate: Candidate, ring: Ring) -> float:
            seconds = math.inf
            for one in map(candidate.with_policy, strategy.policies):
                try:
                    seconds, key_bytes = strategy.price(one, ring, self.dry(strategy, one), self.predictions)
                except TooSlowError:
                    return PRUNE_RATIO * self.best_seconds
                if strategy.all_policies or key_bytes <= self.budgets.keys:
                    break
            return seconds

        def scored(candidate: Candidate) -> list[Scored] | None:
            failed, refused = len(self._failures), self._refused_uploads
            entries = list(self._scored(strategy, candidate))
            stops = any(isinstance(error, NoRingError) for error in self._failures[failed:])
            # Smaller blocks have more ciphertexts.
            stops = stops or (self._refused_uploads > refused and not strategy.fine)
            return None if stops and not entries else entries

        rings: Sequence[Ring] = [forced] if forced is not None else strategy.alike(last, n)
        if not rings and self.best_seconds < math.inf:
            rings = strategy.known.get(n) or strategy.nominal(n)[:1]
        about = max(strategy.apart, ABOUT if self.options.minimise == "server" else 1.0)
        far = strategy.far * self.best_seconds
        if self._thorough:
            about = limit = far = math.inf
        found, least = cheapest(
            *(candidates, rings, price, scored, min(limit, far), about, strategy.failing, strategy.digits)
        )
        self._left_out |= least < math.inf
        too_slow = far <= least < math.inf
        if too_slow and not found:
            self._reject(candidates[0].name, PRICED, least)
        if found and strategy.fine:
            strategy.known[n] = [one.ring for one in found]
        return found, not found and (too_slow or self._too_slow - slow == len(candidates))

    def _each(self, strategy: Strategy, degrees: Iterator[list[Candidate]]) -> Iterator[list[Candidate]]:
        """The candidates of each ring degree, as far as there are any."""
        while True:
            try:
                yield next(degrees)
            except StopIteration:
                return
            except INFEASIBLE as error:
                self._failed(strategy.label, error)

    def _failed(self, name: str, error: CipherblasError) -> None:
        self._failures.append(error)
        if isinstance(error, NoRingError):
            self._no_ring[name] = error
            if error.found is not None:
                self._imprecise(error, *error.found)
        else:
            self._reject(name, error.sentence)

    def _imprecise(self, error: NoRingError, run: DryRun, ring: Ring) -> None:
        """Budgets refuse a ring too that is not precise enough."""
        keys, upload = key_bytes_of(run.keys, ring), run.traffic(ring).upload_bytes
        needs = exceeded(self.options, self.budgets, upload, keys, peak_bytes_of(run, keys, ring))
        error.needs = larger(needs)
        error.shortfall += math.fsum(need.bits for need in needs.values())
        error.found = None

    def _scored(self, strategy: Strategy, candidate: Candidate) -> Iterator[Scored]:
        try:
            yield from self.score(strategy, candidate)
        except TooSlowError as error:
            self._too_slow += 1
            ratio = HOPELESS if isinstance(error, HopelessError) else PRUNE_RATIO
            self._reject(candidate.name, f"takes more than {ratio} times as long")
        except INFEASIBLE as error:
            self._failed(candidate.name, error)

    def _losers(self, taken: Scored, seconds: float, best: Mapping[str, Scored]) -> tuple[Rejected, ...]:
        """Every algorithm and form but what is taken, and why: beside a plan of so many seconds."""
        losers, rejected = [], self._rejections
        for name in {**best, **rejected}:
            if name in (taken.candidate.name, taken.strategy.label):  # its form failed in smaller rings alone
                continue
            if name in best:
                ratio = best[name].seconds / seconds
                failed = rejected.get(name)
                reason = failed.reason if ratio < 1 and failed else _as_long(ratio)
                losers.append(Rejected(name, reason, best[name].seconds))
            else:
                loser = rejected[name]
                if loser.reason == PRICED and loser.seconds is not None:
                    loser = replace(
                        loser, reason=f"{PRICED} {loser.seconds / seconds:.1f} times as long or more"
                    )
                losers.append(loser)
        return tuple(
            sorted(losers, key=lambda loser: loser.seconds if loser.seconds is not None else math.inf)
        )

    @property
    def _rejections(self) -> dict[str, Rejected]:
        """Algorithm → why it is not taken; a budget that refuses a ring says more than a smaller ring's lack."""
        small = {name: Rejected(name, error.message) for name, error in self._no_ring.items()}
        return {**small, **self.rejected}

    def _impossible(self) -> CipherblasError:
        strategy = self.strategies[-1]
        details = "; ".join(f"{r.algorithm}: {r.reason.removesuffix('.')}" for r in self.rejected.values())
        if self._failures and all(isinstance(error, WorkBudgetError) for error in self._failures):
            return self._failures[-1]
        self._count_refused()
        over = self._over_budget
        lacking = min(
            (error.shortfall for name, error in self._no_ring.items() if name not in over), default=math.inf
        )
        if over and min(error.shortfall for error in over.values()) <= lacking:
            return nearest(list(over.values()))
        if self.options.parameters is not None and self._failures:
            return self._failures[0]
        exact = is_exact(strategy.expression)
        failure = refused_exact(strategy.expression, self.options, self._failures) if exact else None
        if failure is not None:
            return failure
        if self._no_ring or not details:
            return refused(strategy.expression, self.options, self._failures)
        if len(self.rejected) == 1 and self._failures:
            return self._failures[-1]
        return PrecisionError(
            "No parameters reach what was asked for.",
            expected=f"error {min(strategy.targets):.3g}, {self.options.security}-bit security",
            got=details,
        )

    def _count_refused(self) -> None:
        """Count what uploads too much whatever its ring is, the least first: whether it is refused for that alone."""
        self.best_seconds = self._best_draft = math.inf
        counted = 0
        for _, strategy, candidate in sorted(self._uncounted.values(), key=lambda one: one[0]):
            lacking = self._no_ring.get(candidate.name)
            needed = 0.0 if lacking is None else SMALLER_BLOCKS * lacking.bits
            if candidate.name in self._over_budget or strategy.allowed_bits(candidate.n) < needed:
                continue
            for _ in self._scored(strategy, candidate):
                pass  # none fits
            counted += 1
            if counted == COUNTED:
                return

    def _finish(self, entry: Scored, tries: int = 3) -> tuple[Plan, DryRun]:
        """The plan of a scored candidate with real primes; a scale that is a little too small is enlarged."""
        options, strategy, decided = self.options, entry.strategy, entry.candidate.decisions
        parameters: Parameters | None = options.parameters
        if entry.size is not None:
            try:
                parameters = entry.size.parameters(options.security, options.insecure)
            except TooFewPrimesError as error:
                failure = too_few_primes(error, entry.candidate.n, float(options.precision))
                return self._enlarged(entry, MORE_PRIMES_BITS, tries, failure)
        assert parameters is not None
        for masks in (self.budgets.masks, 0):  # they are not kept where that alone is too much
            counted = functools.partial(dry_run, parameters, strategy.expression, decided)
            try:
                run = counted(mask_budget=masks, observed=True, promise=options.promised)
                run = replace(run, promise=options.promised.planned(strategy.expression, run.step_errors))
            except (LevelError, PrecisionError) as error:
                # Scales drift in another way than with primes of the sizes asked for, or a draw of errors that was not
                # among the first leaves its range.
                if entry.size is None:
                    raise
                bits = MORE_BITS if isinstance(error, LevelError) else MOST_BITS
                return self._enlarged(entry, bits, tries, error)
            plan = assemble(
                *(strategy.expression, parameters, decided, run, self.predictions),
                order=options.order,
                precision=float(options.precision),
                error=options.asked(strategy.expression),
                mask_budget=masks,
            )
            needed = plan.peak_bytes - plan.weight_memory_bytes
            if needed <= self.budgets.memory:
                break
        # Parameters that the user forces give the precision that they give: `explain` says so.
        if plan.error > plan.error_target and entry.size is not None:
            expected = plan.error_target
            missed = PrecisionError(
                f"The nearest plan, by {entry.candidate.name}, may err by {plan.error:.3g}, and {expected:.3g} is "
                "asked for."
            )
            missed.shortfall = math.log2(plan.error / expected)
            bits = min(math.log2(plan.error / expected), MOST_BITS) + MORE_BITS
            return self._enlarged(entry, bits, tries, missed)
        check_promised(plan.results)
        if needed > self.budgets.memory:
            raise self._over_budgets(entry, needed)
        return plan, run

    def _enlarged(
        self, entry: Scored, bits: float, tries: int, failure: CipherblasError
    ) -> tuple[Plan, DryRun]:
        """The plan at a scale so many bits larger; `failure` is raised where there is none."""
        assert entry.size is not None
        if tries:
            policy = entry.candidate.decisions.key_policy
            try:
                larger = list(self.score(entry.strategy, entry.candidate, entry.extra_bits + bits))
            except NoRingError as error:
                raise failure from error
            for other in larger:
                same = other.candidate.decisions.key_policy == policy
                if other.size is not None and other.size.alpha == entry.size.alpha and same:
                    return self._finish(other, tries - 1)
        raise failure


def _as_long(ratio: float) -> str:
    return f"takes {ratio:.1f} times as long" if ratio >= ABOUT else "takes about as long"


def _fastest_first(scored: Sequence[Scored]) -> list[Scored]:
    return sorted(scored, key=lambda one: one.seconds)


def _remembered(
    function: Callable[[Ring], DryRun], known: tuple[Ring, DryRun] | None
) -> Callable[[Ring], DryRun]:
    """The function with its results kept, of which one may be known."""
    found: dict[Ring, DryRun] = {} if known is None else dict([known])

    def lookup(ring: Ring) -> DryRun:
        if ring not in found:
            found[ring] = function(ring)
        return found[ring]

    return lookup
