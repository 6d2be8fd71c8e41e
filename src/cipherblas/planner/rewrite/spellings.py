"""Programs that can be spelled in another way: with `x[:4]` beside x arranged under encryption or computed once more,
with sums of products taken apart. Parts of a value that is refreshed may be taken from the whole.
"""

from __future__ import annotations

from cipherblas.lang.exact import is_exact
from cipherblas.lang.graph import deduplicated
from cipherblas.lang.modular import modulus_of
from cipherblas.lang.separated import separated
from cipherblas.lang.shared_values import computed_once
from cipherblas.planner.plan.passes import Following, Outcome, Planned, PlanRequest
from cipherblas.planner.predict.feasible import Infeasible
from cipherblas.planner.search.losers import ABOUT
from cipherblas.planner.search.refusals import nearest


def spelled(request: PlanRequest, following: Following) -> Outcome:
    """The program in the ways that it can be spelled.

    What is refreshed is never computed twice where it need not be. What was written is taken where nothing else is
    clearly faster.
    """
    traced = deduplicated(request.expression, origins=True)
    once = computed_once(traced)
    separate = once if is_exact(once) or modulus_of(once) is not None else separated(once)
    found: list[Planned] = []
    failures: list[Infeasible] = []

    def plan(outcome: Outcome) -> None:
        if isinstance(outcome, Infeasible):
            failures.append(outcome)
        else:
            found.append(outcome)

    for spelling in {id(one): one for one in (separate, once, traced)}.values():
        if request.any_plan and found:
            break
        if spelling is not traced or not found or not found[-1].plan.counts.modulus_raises:
            plan(following(request.of(spelling)))
    if not found or (found[-1].plan.counts.modulus_raises and not request.any_plan):
        entire = computed_once(once, entire=True)
        if entire is not once:
            plan(following(request.of(entire)))
    if not found:
        return Infeasible(nearest([failure.error for failure in reversed(failures)]))
    best = found[-1]
    for other in found[-2::-1]:
        if ABOUT * other.plan.minimised < best.plan.minimised:
            best = other
    return best
