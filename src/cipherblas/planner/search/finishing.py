"""From candidates that were counted to the plan: which are tried on real primes, and what each is there."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from cipherblas.common.errors import CipherblasError, LevelError, PrecisionError
from cipherblas.crypto.params import Parameters, TooFewPrimesError
from cipherblas.planner.plan.assembly import assemble
from cipherblas.planner.plan.plan import KeySaving, Plan
from cipherblas.planner.plan.targets import check_promised
from cipherblas.planner.predict.dry_run import DryRun, dry_run
from cipherblas.planner.predict.feasible import Infeasible, attempted, feasible
from cipherblas.planner.rings.sizing import EXTRA_PRIMES_BITS, NoRingError, too_few_primes
from cipherblas.planner.search.losers import ABOUT
from cipherblas.planner.search.scoring import SearchTerms
from cipherblas.planner.search.strategy import Run, Scored

FINALISTS = 12
KEPT_SMALLEST = 4
TRIES = 3  # scales of one candidate
MAX_BITS = 4.0  # added at one time: errors of steep functions fall faster than scales grow
EXTRA_BITS = 0.25  # added to the scale beside what a plan missed its target by

Rescored = Callable[[Scored, float], Iterable[Scored]]  # (candidate, bits that are added to its scale)


def fastest_of_each(scored: Sequence[Scored]) -> dict[str, Scored]:
    """Of each algorithm, of candidates that come fastest first."""
    best: dict[str, Scored] = {}
    for entry in scored:
        best.setdefault(entry.candidate.name, entry)
    return best


def finalists(terms: SearchTerms, scored: Sequence[Scored], best: Mapping[str, Scored]) -> list[Scored]:
    """The fastest that seem to fit the memory, the fastest of each algorithm, then the smallest.

    Where the server's time alone is made least, plans that are predicted to be about as fast there are told apart
    by what the client uploads. Of elementwise products that take about as long with a key and without, those without
    come first.
    """
    fitting = [entry for entry in scored if entry.peak_bytes <= terms.budgets.memory]
    if terms.options.minimise == "server":
        nearly_equal = [entry for entry in fitting if entry.seconds <= ABOUT * fitting[0].seconds]
        uploads = {id(one): one.upload_bytes for one in nearly_equal}
        about_least = ABOUT * min(uploads.values(), default=0)  # a few bytes are no reason
        fitting[: len(nearly_equal)] = sorted(
            nearly_equal, key=lambda one: (max(uploads[id(one)], about_least), one.seconds)
        )
    nearly = (one for one in fitting if one.seconds <= ABOUT * fitting[0].seconds)
    keyless = next((one for one in nearly if one.candidate.decisions.unrelinearised), None)
    if keyless is not None:
        fitting.insert(0, keyless)
    smallest = sorted(scored, key=lambda entry: entry.peak_bytes)
    chosen = [*fitting[:FINALISTS], *best.values(), *smallest[:KEPT_SMALLEST]]
    return list({id(entry): entry for entry in chosen}.values())


@dataclass(frozen=True)
class Finishing:
    """Plans of scored candidates with real primes.

    Attributes:
        rescored: the candidate on rings with a larger scale.
    """

    terms: SearchTerms
    rescored: Rescored

    def plan(self, entry: Scored, tries: int = TRIES) -> tuple[Plan, DryRun]:
        """The plan of a candidate; a scale that is a little too small is enlarged, so many times at most.

        Raises:
            One of `feasible.INFEASIBLE`: it does not hold, or exceeds a budget.
        """
        options = self.terms.options
        parameters: Parameters | None = options.parameters
        if entry.size is not None:
            size = entry.size
            found = attempted(
                lambda: size.parameters(options.security, options.insecure), only=TooFewPrimesError
            )
            if isinstance(found, Infeasible):
                failure = too_few_primes(found.error, entry.candidate.n, float(options.precision))
                return self._with_larger_scale(entry, EXTRA_PRIMES_BITS, tries, failure)
            parameters = found
        assert parameters is not None
        for masks in (self.terms.budgets.masks, 0):  # they are not kept where that alone is too much
            counted = attempted(
                functools.partial(self._on_primes, entry, parameters, masks),
                only=(LevelError, PrecisionError),
            )
            if isinstance(counted, Infeasible) and entry.size is not None:
                # Scales drift in another way than with primes of the sizes asked for, or a draw of errors that was not
                # among the first leaves its range.
                bits = EXTRA_BITS if isinstance(counted.error, LevelError) else MAX_BITS
                return self._with_larger_scale(entry, bits, tries, counted.error)
            run = feasible(counted)
            plan = assemble(
                *(
                    entry.strategy.expression,
                    parameters,
                    entry.candidate.decisions,
                    run,
                    self.terms.predictions,
                ),
                order=options.order,
                precision=float(options.precision),
                error=options.asked(entry.strategy.expression),
                mask_budget=masks,
                for_peer=options.for_peer,
            )
            needed = plan.peak_bytes - plan.weight_memory_bytes
            if needed <= self.terms.budgets.memory:
                break
        # Parameters that the user forces give the precision that they give: `explain` says so.
        if plan.error > plan.error_target and entry.size is not None:
            missed = _missed(entry, plan)
            return self._with_larger_scale(entry, min(missed.shortfall, MAX_BITS) + EXTRA_BITS, tries, missed)
        check_promised(plan.results)
        if needed > self.terms.budgets.memory:
            raise self.terms.over_budgets(entry, needed)
        return plan, run

    def _on_primes(self, entry: Scored, parameters: Parameters, masks: int) -> DryRun:
        """The dry run of a candidate that keeps so many bytes of masks."""
        expression, promise = entry.strategy.expression, self.terms.options.promised
        run = dry_run(
            *(parameters, expression, entry.candidate.decisions),
            mask_budget=masks,
            observed=True,
            promise=promise,
        )
        return replace(run, promise=promise.planned(expression, run.step_errors))

    def _with_larger_scale(
        self, entry: Scored, bits: float, tries: int, failure: CipherblasError
    ) -> tuple[Plan, DryRun]:
        """The plan at a scale so many bits larger; `failure` is raised where there is none."""
        assert entry.size is not None
        if tries:
            policy = entry.candidate.decisions.key_policy
            larger = attempted(lambda: list(self.rescored(entry, entry.extra_bits + bits)), only=NoRingError)
            if isinstance(larger, Infeasible):
                raise failure from larger.error
            for other in larger:
                same = other.candidate.decisions.key_policy == policy
                if other.size is not None and other.size.alpha == entry.size.alpha and same:
                    return self.plan(other, tries - 1)
        raise failure


def _missed(entry: Scored, plan: Plan) -> PrecisionError:
    """The error of a plan that misses its target."""
    expected = plan.error_target
    missed = PrecisionError(
        f"The nearest plan, by {entry.candidate.name}, may err by {plan.error:.3g}, and {expected:.3g} is asked for."
    )
    missed.shortfall = math.log2(plan.error / expected)
    return missed


def key_saving(
    terms: SearchTerms, entry: Scored, most_keys: Scored | None, counting: Callable[[Scored], Run]
) -> KeySaving | None:
    """Return the cost of fewer keys, against a larger key budget or the direct key policy; None where no keys were
    saved.

    Args:
        most_keys: the fastest candidate that only the key budget refuses.
        counting: counts a candidate on a ring.
    """
    if entry.strategy.all_policies:  # few keys were taken since they cost little
        return None
    other, policy = most_keys, entry.candidate.decisions.key_policy
    if other is None and policy != "direct":
        direct = replace(entry, candidate=entry.candidate.with_policy("direct"))
        other = terms.scored(entry.strategy, direct.candidate, entry.size, counting(direct))
    if other is None or other.key_bytes <= entry.key_bytes:
        return None
    if (other is most_keys or policy == "direct") and other.seconds >= entry.seconds:
        return None
    return KeySaving(
        algorithm=other.candidate.name,
        key_policy=other.candidate.decisions.key_policy,
        key_bytes=other.key_bytes,
        rotation_keys=len(other.run.keys.galois),
        rotations=other.run.counts.rotations,
        seconds=other.stages.evaluate,
    )
