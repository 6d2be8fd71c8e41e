"""Programs with `x[:4]` beside x: what is computed anyway is arranged under encryption, or computed once more."""

from __future__ import annotations

from collections.abc import Callable

from cipherblas.common.errors import CipherblasError
from cipherblas.common.progress import Tell
from cipherblas.lang.nodes import Expression
from cipherblas.lang.shared_values import computed_once
from cipherblas.planner.association import Planned, planned_associated
from cipherblas.planner.plan import PlanOptions
from cipherblas.planner.refusals import INFEASIBLE, nearest
from cipherblas.planner.search import ABOUT

Prepared = tuple[Expression, PlanOptions]


def planned_spelling(
    traced: Expression, prepared: Callable[[Expression], Prepared], progress: Tell | None = None
) -> Planned:
    """The fastest plan of a program that computes `x[:4]` beside x: with x computed once, or as it is written.

    What is refreshed is never computed twice where it need not be.

    Args:
        traced: the graph of the user's function.
        prepared: a graph and its options as they are planned.

    Raises:
        CipherblasError: as `planned_associated`.
    """
    once = computed_once(traced)
    failures: list[CipherblasError] = []
    found: Planned | None = None
    if once is not traced:
        try:
            found = planned_associated(*prepared(once), progress)
        except INFEASIBLE as error:
            failures.append(error)
    if found is not None and found[1].counts.modulus_raises:
        return found
    try:
        written = planned_associated(*prepared(traced), progress)
    except INFEASIBLE as error:
        if found is not None:
            return found
        raise nearest([error, *failures]) from None
    return found if found is not None and ABOUT * found[1].minimised < written[1].minimised else written
