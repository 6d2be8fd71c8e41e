"""Programs that can be spelled in another way: with `x[:4]` beside x arranged under encryption or computed once more,
with sums of products taken apart. Parts of a value that is refreshed may be taken from the whole.
"""

from __future__ import annotations

from collections.abc import Callable

from cipherblas.common.errors import CipherblasError
from cipherblas.common.progress import Tell
from cipherblas.lang.exact import is_exact
from cipherblas.lang.graph import deduplicated
from cipherblas.lang.nodes import Expression
from cipherblas.lang.separated import separated
from cipherblas.lang.shared_values import computed_once
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.rewrite.association import Planned, planned_associated
from cipherblas.planner.search.refusals import INFEASIBLE, nearest
from cipherblas.planner.search.search import ABOUT

Prepared = tuple[Expression, PlanOptions]


def planned_spelling(
    traced: Expression, prepared: Callable[[Expression], Prepared], progress: Tell | None = None
) -> Planned:
    """The fastest plan of a program, in the ways that it can be spelled.

    What is refreshed is never computed twice where it need not be. What was written is taken where nothing else is
    clearly faster.

    Args:
        traced: the graph of the user's function.
        prepared: a graph and its options as they are planned.

    Raises:
        CipherblasError: as `planned_associated`.
    """
    traced = deduplicated(traced, origins=True)
    once = computed_once(traced)
    apart = once if is_exact(once) else separated(once)
    found: list[Planned] = []
    failures: list[CipherblasError] = []

    def plan(spelling: Expression) -> None:
        try:
            found.append(planned_associated(*prepared(spelling), progress))
        except INFEASIBLE as error:
            failures.append(error)

    for spelling in {id(one): one for one in (apart, once, traced)}.values():
        if spelling is not traced or not found or not found[-1][1].counts.modulus_raises:
            plan(spelling)
    if not found or found[-1][1].counts.modulus_raises:
        wholes = computed_once(once, wholes=True)
        if wholes is not once:
            plan(wholes)
    if not found:
        raise nearest(failures[::-1]) from None
    best = found[-1]
    for other in found[-2::-1]:
        if ABOUT * other[1].minimised < best[1].minimised:
            best = other
    return best
