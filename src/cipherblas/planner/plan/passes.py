"""What a pass of the planner takes and gives: `planner.pipeline` lists them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from cipherblas.common.progress import Tell
from cipherblas.lang.nodes import Expression
from cipherblas.planner.plan.plan import Plan, PlanOptions
from cipherblas.planner.predict.dry_run import DryRun
from cipherblas.planner.predict.feasible import Infeasible


def _silent(what: str) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class PlanRequest:
    """A program to plan, with its options.

    Attributes:
        tell: told what is tried.
        limit: seconds, of what plans make least, from which on a plan is of no use: there is one that takes so many.
        any_plan: the first one that is found does: it is asked whether there is one.
    """

    expression: Expression
    options: PlanOptions
    tell: Tell = _silent
    limit: float = math.inf
    any_plan: bool = False

    def of(self, expression: Expression, options: PlanOptions | None = None) -> PlanRequest:
        """The same of another program."""
        return replace(self, expression=expression, options=options or self.options)

    def below(self, seconds: float) -> PlanRequest:
        """The same, of plans that take less."""
        return replace(self, limit=seconds)

    def asking(self, **changes: Any) -> PlanRequest:
        """The same with other options."""
        return replace(self, options=replace(self.options, **changes))


class Planned(NamedTuple):
    """A program as it is planned, its plan, and the dry run that the plan is of."""

    expression: Expression
    plan: Plan
    run: DryRun


Outcome = Planned | Infeasible
Following = Callable[[PlanRequest], Outcome]
# Takes a request and what follows the pass: hands that one or several requests, and gives the best of what comes back.
Pass = Callable[[PlanRequest, Following], Outcome]
