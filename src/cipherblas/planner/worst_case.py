"""The largest error of a planned program for whatever operands within their bounds: one more symbolic run."""

from __future__ import annotations

from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.worst_case import RowsWorstCase
from cipherblas.evaluators.slots.worst_case import WorstCase
from cipherblas.lang.nodes import Expression
from cipherblas.planner.plan import Plan
from cipherblas.planner.truncation import truncation_error
from cipherblas.runtime.executor import Executor
from cipherblas.runtime.inputs import SymbolicInputs
from cipherblas.runtime.rows import ROWS


def worst_error(expression: Expression, plan: Plan) -> float:
    """Bound on the error of an entry of the result, all errors adding up; what it assumes: `evaluators.worst_case`.

    Args:
        expression: what runs (`Program.executed`).
        plan: its decisions.
    """
    slots = WorstCase(plan.parameters, key_policy=plan.key_policy)
    rows = RowsWorstCase(plan.parameters, key_policy=plan.key_policy)
    result = Executor(
        Evaluators(lambda: slots, lambda: rows), expression, plan.decided, SymbolicInputs()
    ).run()
    evaluator: WorstCase | RowsWorstCase = rows if result.form.name == ROWS else slots
    worst = max(evaluator.decrypted_error(handle) for handle in result.handles)
    return float(worst * abs(result.unit)) + truncation_error(expression)
