"""What a program of exact integers asks of its plan: errors below one half, whatever else is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cipherblas.common.errors import CipherblasError, ParameterError, PrecisionError, RangeError, without
from cipherblas.lang import crt
from cipherblas.lang.exact import check_exact, is_exact
from cipherblas.lang.facts import facts_of
from cipherblas.lang.graph import formula
from cipherblas.lang.joins import without_joins
from cipherblas.lang.modular import COMPUTED, check_one_modulus
from cipherblas.lang.nodes import Expression
from cipherblas.lang.results import arranged, results_of
from cipherblas.planner.plan.modular import check_form
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.plan.residues import slot_factors
from cipherblas.planner.plan.targets import ResultFigures, asked_errors
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.predict.promises import BOUNDS
from cipherblas.runtime.blocks import BLOCKS, FEATURES
from cipherblas.runtime.rows import ROWS
from cipherblas.runtime.tensors import TENSORS

HALF = 0.5
DEEP = 2  # products one after another: scales grow with every one, and t does not
# Of an entry, at most, by plan: less than one half, so that what is nearest is the result.
MAX_ERROR = HALF - 2.0**-10


def exact_options(expression: Expression, options: PlanOptions, precision: Any) -> PlanOptions:
    """The options of a program of exact integers, whose errors they bound; those of any other as they are.

    Args:
        precision: what the user gave for it, or None.

    Raises:
        ParameterError: a precision or an error of one half or more; a node that is not whole (`lang.exact`).
        RangeError: a bound that is too large.
    """
    if not is_exact(expression):
        return options
    check_one_modulus(expression)
    rounded = attempted(lambda: check_exact(expression), only=RangeError)
    if options.by_samples or options.promised != BOUNDS:
        raise ParameterError(
            "Exact integers are promised for every input within the bounds.",
            expected='promise="bounds", without samples',
            got=options.promised.name,
            advice=without("promise" if options.samples is None else "samples"),
        )
    if isinstance(rounded, Infeasible):
        _check_by_residues(expression, options, rounded.error, precision)
        return options
    results = results_of(expression)
    most = tuple(map(_most, results))
    asked: Sequence[float] = ()
    if options.error is not None:
        asked = asked_errors(expression, options.error)
    elif precision is not None:
        asked = [float(precision) * node.bound for node in results]
    if any(error > allowed for error, allowed in zip(asked, most, strict=bool(asked))):
        name = "error" if options.error is not None else "precision"
        raise ParameterError(
            f"The results of exact integers err by less than one half before they are rounded; {name}= may only ask "
            "for less.",
            expected=f"an error up to {min(most):.3g}, or none",
            got=f"{max(asked):.3g}",
            advice=without(name),
        )
    if asked:
        return options
    return replace(options, error=arranged(expression, most))


def _check_by_residues(
    expression: Expression, options: PlanOptions, rounded: CipherblasError, precision: Any
) -> None:
    """Check the options of a program of exact integers that is computed by residues alone.

    Args:
        rounded: says why it is not rounded.
        precision: what the user gave for it, or None.
    """
    facts = facts_of(without_joins(expression))
    other = next((node for node in facts.order if node.op not in COMPUTED), None)
    if other is not None and facts.integral[id(other)]:  # which smaller numbers may have
        rounded.cause = (
            f"Larger numbers are added, subtracted and multiplied, and {formula(other)} is something else."
        )
        raise rounded
    crt.check_exact_bounds(expression, bounded=not residues_known(expression))
    for name, value in (("precision", precision), ("error", options.error)):
        if value is not None:
            raise ParameterError(
                f"Exact integers that are as large are computed without errors, for every input: {name}= has no place.",
                got=f"{name}={value!r}",
                advice=without(name),
                cause=rounded.message,
            )
    check_form(expression, options.form, "Exact integers that are as large")


def may_take_residues(expression: Expression, options: PlanOptions) -> bool:
    """Whether a program of exact integers that can be rounded may be computed by residues as well."""
    if options.parameters is not None or options.form not in (None, BLOCKS, FEATURES, ROWS, TENSORS):
        return False
    if _depth(expression) < DEEP or not residues_hold(expression):
        return False
    return is_rounded_alone(expression, options.relative_to(expression).targets(expression))


def residues_hold(expression: Expression) -> bool:
    """Whether a program of exact integers can be computed by residues."""
    if not crt.is_computed(expression):
        return False
    bounded = not residues_known(expression)
    found = attempted(lambda: crt.check_exact_bounds(expression, bounded), only=(ParameterError, RangeError))
    return not isinstance(found, Infeasible)


def _depth(expression: Expression) -> int:
    """Products of two encrypted factors, one after another."""
    found: dict[int, int] = {}
    for node in facts_of(expression).order:
        below = max((found[id(child)] for child in node.children), default=0)
        both = node.op in ("matmul", "multiply") and all(child.secret for child in node.children)
        found[id(node)] = below + both
    return found[id(expression)]


def residues_known(expression: Expression) -> bool:
    """Whether results are wanted modulo a number whose factors have slots: they need no bound."""
    modulus = crt.wanted_modulus(crt.operands_in(expression))
    return modulus is not None and bool(slot_factors(modulus))


def is_rounded_alone(expression: Expression, targets: Sequence[float]) -> bool:
    """Whether a program of exact integers was asked for no smaller errors than those that rounding takes away: whoever
    asks for less wants to share results, whose errors count before that."""
    pairs = zip(results_of(expression), targets, strict=True)
    return is_exact(expression) and all(target >= _most(node) for node, target in pairs)


def _most(result: Expression) -> float:
    """The error of a result that rounding takes away; zeros are bounded by less than one half."""
    return min(MAX_ERROR, result.bound / 4)


def check_planned(expression: Expression, results: Sequence[ResultFigures]) -> None:
    """Raise PrecisionError where a program of exact integers may err by one half: forced parameters, or a file's."""
    if not is_exact(expression):
        return
    check_exact(expression)
    worst = max(results, key=lambda one: one.error)
    if worst.error >= HALF:
        of = f" {worst.label!r}" if worst.label else ""
        raise PrecisionError(
            f"These parameters do not compute the result{of} in exact integers.",
            expected="an error below 0.5",
            got=f"{worst.error:.3g}",
        )
