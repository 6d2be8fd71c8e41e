"""The largest error of a planned program for whatever operands within their bounds: one more symbolic run."""

from __future__ import annotations

from cipherblas.evaluators.rows.interface import FLOAT_ERROR
from cipherblas.evaluators.rows.worst_case import RowsWorstCase
from cipherblas.evaluators.slots.worst_case import WorstCase
from cipherblas.lang.nodes import Expression
from cipherblas.planner.layers import Recorded
from cipherblas.planner.plan import Plan
from cipherblas.planner.rows import HEADROOM_BITS, RecordingRowFeeds
from cipherblas.planner.trace import RecordingFeeds
from cipherblas.planner.truncation import truncation_error
from cipherblas.runtime.execution import Execution
from cipherblas.runtime.layer_execution import LayerExecution
from cipherblas.runtime.row_execution import RowExecution


def worst_error(expression: Expression, plan: Plan) -> float:
    """Bound on the error of an entry of the result, all errors adding up; what it assumes: `evaluators.worst_case`.

    Args:
        expression: what runs (`Program.executed`).
        plan: its decisions.
    """
    return _worst(expression, plan) + truncation_error(expression)


def _worst(expression: Expression, plan: Plan) -> float:
    if plan.route == "rows":
        return _rows_error(expression, plan)
    evaluator = WorstCase(plan.parameters, key_policy=plan.key_policy)
    feeds = RecordingFeeds(evaluator)
    execution: Execution | LayerExecution = (
        LayerExecution(evaluator, expression, Recorded(plan.choices), feeds)
        if plan.route == "layers"
        else Execution(evaluator, expression, plan.choices, plan.blocks, feeds)
    )
    result = execution.run()
    found = [ct for row in result.cells for cell in row for ct in cell]
    decoding = evaluator.worst.float
    worst = max((ct.data.error + decoding * (ct.data.message + ct.data.error)) / ct.scale for ct in found)
    return float(worst * abs(result.unit))


def _rows_error(expression: Expression, plan: Plan) -> float:
    evaluator = RowsWorstCase(plan.parameters, key_policy=plan.key_policy)
    (choice,) = plan.choices
    result = RowExecution(
        *(evaluator, expression, choice.options["weight_bits"], bool(choice.options.get("fixed", False))),
        *(HEADROOM_BITS, RecordingRowFeeds(evaluator)),
    ).run()
    errors: list[float] = [piece.data.error / piece.scale for piece in result.pieces]
    return max(
        error + FLOAT_ERROR * (piece.bound + error)
        for error, piece in zip(errors, result.pieces, strict=True)
    )
