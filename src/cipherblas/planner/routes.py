"""The choice of the route: packed in slots, encrypted by rows and multiplied by GEMMs, or a network layer by layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from cipherblas.common.errors import CipherblasError, FormatError, ParameterError, PrecisionError
from cipherblas.crypto.params import Parameters
from cipherblas.lang.graph import as_matrices, is_network
from cipherblas.lang.nodes import Expression
from cipherblas.methods.matmul.registry import GEMM
from cipherblas.planner.assembly import Predictions, replay_slots
from cipherblas.planner.budgets import Budgets, budgets_of, check_size, secret_entries
from cipherblas.planner.layers import LayerSearch, replay_layers
from cipherblas.planner.plan import Plan, PlanOptions, Rejected, Route
from cipherblas.planner.rows import RowDecisions, RowSearch, RowTrace, assemble_rows, trace_rows
from cipherblas.planner.schema import check_decisions
from cipherblas.planner.search import Search, SlowerError
from cipherblas.planner.trace import Trace
from cipherblas.runtime.row_execution import supported

AnyTrace: TypeAlias = "Trace | RowTrace"
# Options that speak of slots alone.
MATRIX_OPTIONS = ("block", "options")
SLOT_OPTIONS = (*MATRIX_OPTIONS, "parameters")
LEAST_PRECISION = 2.0**-52


def make_plan(expression: Expression, options: PlanOptions) -> tuple[Plan, AnyTrace]:
    """The faster of the plans that two routes offer within the budgets, or that of the forced route.

    Raises:
        PrecisionError: no ring reaches the precision at this security.
        MemoryBudgetError: only plans beyond a budget were found.
        ParameterError: an option is out of range, the forced algorithm or route does not suit the program, or one
            option asks for slots and another one for GEMMs.
    """
    check_precision(options.precision)
    budgets = budgets_of(options, secret_entries(expression))
    check_size(expression, budgets)
    if is_network(expression):
        return _network(expression, options, budgets)
    if options.route == "layers":
        raise ParameterError("route", expected="slots | rows for a program of matrices", got="layers")
    route = _forced_route(options)
    if route == "rows":
        return RowSearch(expression, options, budgets).run()
    if route == "slots":
        return Search(expression, options, budgets).run()
    rows, reason = _rows(expression, options, budgets)
    try:
        best = math.inf if rows is None else rows[0].minimised
        slots = Search(expression, options, budgets, best).run()
    except SlowerError as error:
        assert rows is not None
        return _with(rows, [*error.losers])
    except CipherblasError as error:
        if rows is None:
            raise
        return _with(rows, [Rejected("slots", str(error))])
    if rows is None:
        return _with(slots, [Rejected(GEMM, reason)])
    if rows[0].minimised < slots[0].minimised:
        return _with(rows, [_slower(slots[0], rows[0]), *slots[0].rejected])
    return _with(slots, [*slots[0].rejected, _slower(rows[0], slots[0])])


def check_precision(precision: float) -> None:
    """Raise PrecisionError where no plan can reach a precision, whatever the parameters."""
    if precision < LEAST_PRECISION:
        raise PrecisionError(
            "the precision cannot be reached: operands and results are float64 numbers",
            expected=f"precision=… of {LEAST_PRECISION:.1g} at the least",
            got=f"{precision:g}",
        )


def _network(expression: Expression, options: PlanOptions, budgets: Budgets) -> tuple[Plan, AnyTrace]:
    """The faster of the plans for vectors, images and layers: layer by layer in slots, or by GEMMs where there are
    products with vectors alone."""
    if options.route == "slots":
        raise ParameterError("route", expected="layers | rows for vectors and images", got=options.route)
    for name in MATRIX_OPTIONS:
        if getattr(options, name) is not None:
            raise ParameterError(
                "options of a network", expected=f"no {name}, which is of products of matrices", got=name
            )
    matrices = as_matrices(expression)
    if options.route == "rows" or options.algorithm == GEMM:
        if matrices is None:
            raise ParameterError("route", expected="layers for a network", got="rows")
        return RowSearch(matrices, options, budgets).run()
    if options.route == "layers" or options.algorithm is not None:
        return LayerSearch(expression, options, budgets).run()
    rows, reason = None, ""
    if matrices is not None:
        rows, reason = _rows(matrices, options, budgets)
    try:
        layers = LayerSearch(expression, options, budgets).run()
    except CipherblasError as error:
        if rows is None:
            raise
        return _with(rows, [Rejected("layers", str(error))])
    if rows is None:
        return _with(layers, [] if matrices is None else [Rejected(GEMM, reason)])
    if rows[0].minimised < layers[0].minimised:
        return _with(rows, [_slower(layers[0], rows[0])])
    return _with(layers, [_slower(rows[0], layers[0])])


def executed(expression: Expression) -> Expression:
    """What runs by GEMMs: vectors as matrices with one column."""
    matrices = as_matrices(expression) if is_network(expression) else expression
    if matrices is None:
        raise ParameterError("products by GEMM", expected="matrices and vectors", got="layers of images")
    return matrices


def _forced_route(options: PlanOptions) -> Route | None:
    """The route that the options leave, or None where they leave both."""
    if options.algorithm == GEMM:
        if options.route == "slots":
            raise ParameterError("route", expected=f"rows with the algorithm {GEMM}", got="slots")
        for name in MATRIX_OPTIONS:
            if getattr(options, name) is not None:
                raise ParameterError(
                    f"options of {GEMM}", expected=f"no {name}, which is of products in slots", got=name
                )
        return "rows"
    slots = ["algorithm"] if options.algorithm is not None else []
    slots += [name for name in SLOT_OPTIONS if getattr(options, name) is not None]
    if slots and options.route == "rows":
        raise ParameterError("route", expected=f"slots with the option {slots[0]}", got="rows")
    return "slots" if slots else options.route


def _rows(expression: Expression, options: PlanOptions, budgets: Budgets) -> tuple[Any, str]:
    """The plan by GEMMs, or None and why there is none."""
    reason = supported(expression)
    if reason is not None:
        return None, reason
    try:
        return RowSearch(expression, options, budgets).run(), ""
    except CipherblasError as error:
        return None, str(error)


def _slower(loser: Plan, winner: Plan) -> Rejected:
    ratio = loser.minimised / winner.minimised
    return Rejected(loser.algorithm, f"slower by {ratio:.1f} times", loser.minimised)


def _with(found: tuple[Plan, Any], rejected: list[Rejected]) -> tuple[Plan, Any]:
    plan, run = found
    order = sorted(rejected, key=lambda loser: math.inf if loser.seconds is None else loser.seconds)
    return replace(plan, rejected=tuple(order)), run


def replay(
    expression: Expression, decisions: Mapping[str, Any], parameters: Parameters
) -> tuple[Plan, AnyTrace]:
    """The plan that was saved as `Plan.decisions`, traced again.

    All that it says follows from the decisions and from this machine: nothing is taken on the word of the file.

    Raises:
        FormatError: these are no decisions, or they are for other parameters than those of their file.
    """
    check_decisions(decisions)
    if decisions["parameters"] != parameters.to_dict():
        raise FormatError(
            "parameters of the decisions", expected=parameters.to_dict(), got=decisions["parameters"]
        )
    plan, run = _replayed(expression, decisions, parameters)
    error = decisions.get("asked_error")
    if error is None:
        return plan, run
    if error / expression.bound != plan.precision:
        raise FormatError("precision of the decisions", expected=error / expression.bound, got=plan.precision)
    return replace(plan, asked_error=error), run


def _replayed(
    expression: Expression, decisions: Mapping[str, Any], parameters: Parameters
) -> tuple[Plan, AnyTrace]:
    """The plan of checked decisions."""
    predictions, masks = Predictions.here(), budgets_of(PlanOptions(), 0).masks
    if decisions["route"] == "layers":
        return replay_layers(expression, decisions, parameters, predictions, masks)
    if decisions["route"] != "rows":
        return replay_slots(expression, decisions, parameters, predictions, masks)
    decided = RowDecisions.from_dict(decisions, parameters)
    expression = executed(expression)
    run = trace_rows(parameters, expression, decided.weight_bits, decided.key_policy, decided.fixed)
    return assemble_rows(expression, decided, run, predictions), run
