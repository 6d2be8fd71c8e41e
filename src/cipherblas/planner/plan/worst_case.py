"""The largest error of a planned program for whatever operands within their bounds: one more symbolic run.

Its list does not do for that: by how much a curve or a known matrix magnifies errors as a whole is decided from the
errors of its argument while the list is made (`SlotRun.gated`), and these are other ones here.
"""

from __future__ import annotations

import math
from dataclasses import replace

from cipherblas.common.errors import LevelError
from cipherblas.common.progress import Progress
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.worst_case import RowsWorstCase
from cipherblas.evaluators.slots.shared import SharedWorstCase
from cipherblas.evaluators.slots.worst_case import WorstCase
from cipherblas.lang.nodes import Expression
from cipherblas.lang.results import results_of
from cipherblas.planner.plan.plan import Plan
from cipherblas.planner.predict.feasible import Infeasible, attempted, feasible
from cipherblas.planner.predict.promises import BOUNDS
from cipherblas.runtime.executor import Executor
from cipherblas.runtime.inputs import SymbolicInputs


def worst_errors(expression: Expression, plan: Plan, progress: Progress | None = None) -> list[float]:
    """Bound on the error of an entry, of each result, all errors adding up; assumptions: `evaluators.worst_case`.

    Args:
        expression: what runs (`Program.executed`).
        plan: its decisions.
        progress: called as that of `Executor`.

    Returns:
        Infinite where a value that is refreshed might leave the range in which it comes back.
    """
    params, own = plan.parameters, plan.parameters.family.rows
    if params.plain_modulus is not None:  # exact, for whatever operands
        return [0.0] * len(results_of(expression))
    slots = WorstCase(params, key_policy=plan.key_policy)
    rows = RowsWorstCase(own, key_policy=plan.key_policy)
    elements = None if own is params else lambda: WorstCase(own, key_policy=plan.key_policy)
    evaluators = Evaluators(
        lambda: slots,
        lambda: rows,
        elements,
        lambda secrets: SharedWorstCase(params, secrets, key_policy=plan.key_policy),
    )
    decided = replace(plan.decided, stepwise=False)
    executor = Executor(evaluators, expression, decided, SymbolicInputs(), progress)
    results = attempted(executor.results, only=LevelError)
    if isinstance(results, Infeasible) and (executor.refreshed or plan.promise != BOUNDS):
        return [math.inf] * len(results_of(expression))
    found = []
    for node, value in zip(results_of(expression), feasible(results), strict=True):
        evaluator = value.form.evaluator(evaluators)
        worst = max(evaluator.decrypted_error(handle) for handle in value.handles)
        found.append(value.form.error(float(worst * abs(value.unit))) + node.missed)
    return found
