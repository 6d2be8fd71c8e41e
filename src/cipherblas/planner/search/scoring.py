"""A candidate on a ring: its dry run, and what is predicted of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cipherblas.common.errors import MemoryBudgetError
from cipherblas.planner.plan.assembly import Predictions, key_bytes_of, peak_bytes_of
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict.dry_run import DryRun, dry_run
from cipherblas.planner.search.budgets import Budgets, exceeded, over_budget
from cipherblas.planner.search.strategy import Candidate, Run, Scored, Size, Strategy
from cipherblas.rlwe.rings import Ring


@dataclass(frozen=True)
class SearchTerms:
    """Requirements of a plan: options, budgets in bytes, and the machine of its predicted times."""

    options: PlanOptions
    budgets: Budgets
    predictions: Predictions

    @classmethod
    def of(cls, options: PlanOptions, budgets: Budgets) -> SearchTerms:
        """Return the requirements of a search."""
        return cls(options, budgets, Predictions.of(options))

    def counting(
        self, strategy: Strategy, candidate: Candidate, max_ntt_limbs: Callable[[Ring], float]
    ) -> Run:
        """Return the function that counts a candidate on a ring. It keeps results, since the search asks for rings
        again when it weighs them.

        Args:
            max_ntt_limbs: limbs that it may transform on a ring.
        """
        found: dict[Ring, DryRun] = {} if candidate.drafted is None else dict([candidate.drafted])

        def run(ring: Ring) -> DryRun:
            if ring not in found:
                found[ring] = dry_run(
                    *(ring, strategy.expression, candidate.decisions),
                    mask_budget=self.budgets.masks,
                    max_ntt_limbs=max_ntt_limbs(ring),
                    promise=self.options.promised,
                )
            return found[ring]

        return run

    def scored(
        self, strategy: Strategy, candidate: Candidate, size: Size | None, run: Run, extra_bits: float = 0.0
    ) -> Scored:
        """The candidate on a ring of a size; None: on the parameters that the options force."""
        ring: Ring | None = self.options.parameters if size is None else size.shape()
        assert ring is not None
        return self.on_ring(strategy, candidate, size, run, ring, extra_bits)

    def on_ring(
        self,
        strategy: Strategy,
        candidate: Candidate,
        size: Size | None,
        run: Run,
        ring: Ring,
        extra_bits: float = 0.0,
    ) -> Scored:
        """The candidate on a ring, which may be a draft of the size."""
        counted = run(ring)
        key_bytes, traffic = key_bytes_of(counted.keys, ring), counted.traffic(ring)
        stages = self.predictions.stages(counted.counts, traffic, key_bytes, ring)
        return Scored(
            *(strategy, candidate, size, counted, traffic.upload_bytes, key_bytes),
            *(peak_bytes_of(counted, key_bytes, ring), stages, self.predictions.seconds(stages), ring),
            extra_bits,
        )

    def over_budgets(self, scored: Scored, memory: int) -> MemoryBudgetError:
        """The error of a candidate that would do, but for budgets, and needs so many bytes of memory."""
        needs = exceeded(self.options, self.budgets, scored.upload_bytes, scored.key_bytes, memory)
        return over_budget(f"{scored.candidate.name} at N = 2^{scored.ring.n.bit_length() - 1}", needs)
