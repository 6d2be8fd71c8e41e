"""What is not taken, and why: everything that a plan, or a refusal, says of the ways that it did not go.

A reason is true of the fastest candidate of its algorithm or form that was looked at, or says of which ring it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cipherblas.common.errors import CipherblasError, MemoryBudgetError, PrecisionError, WorkBudgetError
from cipherblas.lang.exact import is_exact
from cipherblas.planner.plan.assembly import key_bytes_of, peak_bytes_of
from cipherblas.planner.plan.explain import duration, size
from cipherblas.planner.plan.plan import Plan, Rejected
from cipherblas.planner.predict.dry_run import DryRun
from cipherblas.planner.rings.sizing import NoRingError
from cipherblas.planner.search.budgets import exceeded, larger
from cipherblas.planner.search.refusals import nearest, refused, refused_exact, refused_modular
from cipherblas.planner.search.scoring import SearchTerms
from cipherblas.planner.search.strategy import Scored, Strategy
from cipherblas.rlwe.rings import Ring

ABOUT = 1.05  # times as many seconds, which no prediction tells apart


@dataclass(frozen=True)
class Loss:
    """Why an algorithm or a form is not taken.

    Attributes:
        reason: for people; `{}` stands for how many times as long as the plan it takes.
        seconds: predicted, of the fastest candidate; None where none was counted.
        infeasible: it says why some candidates cannot be computed, and others may be so for other reasons.
    """

    reason: str
    seconds: float | None = None
    infeasible: bool = False

    def beside(self, name: str, taken: float) -> Rejected:
        """For people, beside a plan of so many seconds."""
        ratio = 0.0 if self.seconds is None else self.seconds / taken
        return Rejected(name, self.reason.format(f"{ratio:.1f}"), self.seconds)


class Losers:
    """Collected while candidates are looked at.

    Attributes:
        failures: why candidates are infeasible, in the order in which they were found.
        refused_keys, refused_uploads: candidates, each on one ring and with one policy, that exceed a budget.
        most_keys: the fastest that only the key budget refuses.
    """

    def __init__(self, terms: SearchTerms, refused: Sequence[Rejected] = ()) -> None:
        self._terms = terms
        self._losses = {one.algorithm: Loss(_literal(one.reason)) for one in refused}
        self._no_ring: dict[str, NoRingError] = {}  # of each algorithm at the largest degree that was tried
        # By algorithm, the nearest that budgets alone refuse.
        self._over_budget: dict[str, MemoryBudgetError] = {}
        self._least_keys: dict[str, int] = {}
        self.failures: list[CipherblasError] = []
        self.refused_keys = self.refused_uploads = 0
        self.most_keys: Scored | None = None

    # --- what is noted ---

    def _note(self, name: str, reason: str, seconds: float | None = None, infeasible: bool = False) -> None:
        """Note why a candidate is not taken: the first reason stays, but for those of faster candidates."""
        known = self._losses.get(name)
        if known is None or (seconds is not None and (known.seconds is None or seconds < known.seconds)):
            self._losses[name] = Loss(reason, seconds, infeasible)

    def note_failure(self, name: str, error: CipherblasError) -> None:
        """Note that a candidate is infeasible."""
        self.failures.append(error)
        if isinstance(error, NoRingError):
            self._no_ring[name] = error
            if error.found is not None:
                self._note_imprecise(error, *error.found)
        else:
            self._note(name, _literal(error.sentence), infeasible=True)

    def note_unfinished(self, entry: Scored, error: CipherblasError) -> None:
        """Note that a candidate does not hold on its real primes."""
        self._note(entry.candidate.name, _literal(error.sentence), entry.seconds)

    def note_price(self, name: str, seconds: float) -> None:
        """Note that a candidate is too slow by its price: it was given no ring of its own, and may need a larger
        one."""
        self._note(name, "seems to take {} times as long or more", seconds)

    def note_slow(self, name: str, ratio: float) -> None:
        """Note that a candidate takes so many times as long on the draft of a ring, and none was searched."""
        self._note(name, f"seems to take more than {ratio} times as long")

    def note_bound(self, label: str, least: float) -> None:
        """Note that all candidates of a form take so many seconds at least."""
        self._note(label, f"at least {duration(least)} (bound)")

    def note_least_upload(self, name: str, least: int) -> None:
        """Note that a candidate uploads so many bytes even at one limb."""
        self._note(name, f"uploads at least {size(least)}, {self._upload_budget}")

    def note_upload(self, scored: Scored) -> None:
        """Note that a candidate uploads too much."""
        self.refused_uploads += 1
        self._note(scored.candidate.name, f"uploads {size(scored.upload_bytes)}, {self._upload_budget}")
        self._note_over_budget(scored)

    def note_keys(self, scored: Scored) -> None:
        """Note that a candidate has too many keys: the reason names the fewest, and the fastest is kept to tell what
        fewer keys cost."""
        self.refused_keys += 1
        name = scored.candidate.name
        if scored.key_bytes < self._least_keys.get(name, math.inf):
            self._least_keys[name] = scored.key_bytes
            if self._losses.get(name, Loss("")).seconds is None:
                self._losses[name] = Loss(f"needs {size(scored.key_bytes)} of keys, {self._key_budget}")
        if self.most_keys is None or scored.seconds < self.most_keys.seconds:
            self.most_keys = scored
        self._note_over_budget(scored)

    @property
    def _upload_budget(self) -> str:
        return f"upload_budget is {size(self._terms.budgets.upload)}"

    @property
    def _key_budget(self) -> str:
        text, options = f"key_budget is {size(self._terms.budgets.keys)}", self._terms.options
        if options.key_budget is None:
            text += ", a share of memory_budget" if options.memory_budget else ", a share of the memory"
        return text

    def _note_over_budget(self, scored: Scored) -> None:
        name = scored.candidate.name
        error = self._terms.over_budgets(scored, scored.peak_bytes)
        known = self._over_budget.get(name)
        if known is None or error.shortfall < known.shortfall:
            self._over_budget[name] = error

    def _note_imprecise(self, error: NoRingError, run: DryRun, ring: Ring) -> None:
        """Budgets refuse a ring too that is not precise enough."""
        keys, upload = key_bytes_of(run.keys, ring), run.traffic(ring).upload_bytes
        options, budgets = self._terms.options, self._terms.budgets
        needs = exceeded(options, budgets, upload, keys, peak_bytes_of(run, keys, ring))
        error.needs = larger(needs)
        error.shortfall += math.fsum(need.bits for need in needs.values())
        error.found = None

    # --- what that says ---

    @property
    def keys_refuse(self) -> bool:
        """Whether some candidate has too many keys."""
        return bool(self._least_keys)

    def too_small(self, since: int) -> list[float]:
        """Bits of the moduli that the candidates need which failed since so many failures."""
        return [error.bits for error in self.failures[since:] if isinstance(error, NoRingError)]

    def needed_bits(self, name: str) -> float:
        """log2 of the modulus that an algorithm needs, where no ring was found for it."""
        return self._no_ring[name].bits if name in self._no_ring else 0.0

    def over_budget(self, name: str) -> bool:
        """Whether budgets alone refuse an algorithm."""
        return name in self._over_budget

    def beside(self, taken: Scored, plan: Plan, best: Mapping[str, Scored]) -> tuple[Rejected, ...]:
        """Every algorithm and form but what is taken, and why.

        Args:
            best: the fastest candidates of all algorithms that fit the budgets of keys and upload.
        """
        losses, found = self._all, []
        for name in {**best, **losses}:
            if name in (taken.candidate.name, taken.strategy.label):  # its form failed in smaller rings alone
                continue
            loss = self._slower(best[name], plan, losses.get(name)) if name in best else losses[name]
            found.append(loss.beside(name, plan.minimised))
        return tuple(
            sorted(found, key=lambda loser: loser.seconds if loser.seconds is not None else math.inf)
        )

    def _slower(self, other: Scored, plan: Plan, failed: Loss | None) -> Loss:
        """Why a candidate that was counted is not taken."""
        ratio, memory = other.seconds / plan.minimised, self._terms.budgets.memory
        if ratio >= ABOUT:
            reason = "takes {} times as long"
        elif ratio < 1 and failed is not None:
            reason = failed.reason
        elif other.peak_bytes > memory:
            reason = f"needs {size(other.peak_bytes)} of memory, memory_budget is {size(memory)}"
        else:
            reason = "takes about as long"
        return Loss(reason, other.seconds)

    @property
    def _all(self) -> dict[str, Loss]:
        """Algorithm → why it is not taken; a budget that refuses a ring says more than a smaller ring's lack."""
        small = {name: Loss(_literal(error.message)) for name, error in self._no_ring.items()}
        both = {
            name: replace(loss, reason=f"{small[name].reason.removesuffix('.')}; {_continued(loss.reason)}")
            for name, loss in self._losses.items()
            if loss.infeasible and name in small
        }
        return {**small, **self._losses, **both}

    def unfinished(self, failures: Sequence[CipherblasError]) -> CipherblasError:
        """The refusal of a program of which no candidate holds on its real primes, and why these do not."""
        return nearest([*failures, *self._over_budget.values()])

    def refusal(self, strategy: Strategy) -> CipherblasError:
        """The refusal of a program of which no candidate fits the budgets.

        Args:
            strategy: the last one.
        """
        failures, over, options = self.failures, self._over_budget, self._terms.options
        lacking = [error.shortfall for name, error in self._no_ring.items() if name not in over]
        if over and min(error.shortfall for error in over.values()) <= min(lacking, default=math.inf):
            return nearest(list(over.values()))
        if options.parameters is not None and failures:
            return failures[0]
        if is_exact(strategy.expression):
            exact = refused_exact(strategy.expression, options, failures)
            if exact is not None:
                return exact
        if strategy.modulus is not None:
            return refused_modular(strategy.modulus, options, failures)
        if self._no_ring or not self._losses:
            return refused(strategy.expression, options, failures)
        if len(self._losses) == 1 and failures:
            return failures[-1]
        return PrecisionError(
            "No parameters reach what was asked for.",
            expected=f"error {min(strategy.targets):.3g}, {options.security}-bit security",
            got="; ".join(
                f"{name}: {loss.reason.format('').removesuffix('.')}" for name, loss in self._losses.items()
            ),
        )

    @property
    def all_too_much_work(self) -> CipherblasError | None:
        """The last failure, where all candidates take too much work to be counted."""
        if self.failures and all(isinstance(error, WorkBudgetError) for error in self.failures):
            return self.failures[-1]
        return None


def _literal(text: str) -> str:
    """A reason without anything to fill in."""
    return text.replace("{", "{{").replace("}", "}}")


def _continued(sentence: str) -> str:
    """A sentence after another one's semicolon."""
    return sentence[:1].lower() + sentence[1:]
