"""Why there is no plan: what the alternative that came nearest lacks, the options that would lift that, and the node
whose range is to blame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from cipherblas.common.errors import (
    Advice,
    CipherblasError,
    FitError,
    LevelError,
    MemoryBudgetError,
    MismatchError,
    ParameterError,
    PrecisionError,
    SecurityError,
    ShapeError,
    UnsuitedError,
    WorkBudgetError,
    capitalized,
)
from cipherblas.crypto.fields import MAX_PLAIN_MODULUS
from cipherblas.crypto.residue_slots import has_slots
from cipherblas.lang.facts import facts_of
from cipherblas.lang.graph import formula
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.planner.plan.plan import RING_DEGREES, PlanOptions
from cipherblas.planner.rings.sizing import ModulusError, NoRingError
from cipherblas.planner.search.budgets import advised

GROWTH = 1.2  # times the bits that a program modulo t needs in one ring, those that it needs in a larger one, at most
# What a candidate may fail by, where another one may do: all else is a fault.
INFEASIBLE = (
    LevelError,
    MemoryBudgetError,
    MismatchError,
    ParameterError,
    PrecisionError,
    SecurityError,
    ShapeError,
    WorkBudgetError,
)
WIDE = 1.0  # bits of a range, with which a smaller bound helps
MAX_NAME_LENGTH = 80  # of a node in a message
MAX_ADVICE = 3
MUCH_FURTHER = 8.0  # bits beyond what the nearest alternative lacks, with which one is no alternative
SAMPLES = "samples={name: array, …}, inputs of the kind that comes: errors are then found on them"
SLACK = 1.02  # of a precision that is advised: it is found by a prediction


def nearest(errors: Sequence[CipherblasError]) -> CipherblasError:
    """Why the alternative that came nearest failed; it advises options that lift the others too, nearest first."""
    found, *others = sorted(errors, key=lambda error: error.shortfall)
    advice: dict[Any, Advice] = {}
    for error in (found, *others):
        if error.shortfall <= found.shortfall + MUCH_FURTHER:
            for one in error.advice:
                if one.options or error is found:
                    advice.setdefault(frozenset(one.options) or one.write, one)
    found.advice = tuple(advice.values())[:MAX_ADVICE]
    return found


class Range(NamedTuple):
    """How far the bound of a node exceeds the product of the bounds of what it is made of."""

    node: Expression
    bits: float


def widest(node: Expression) -> Range:
    """The node with the largest range, the first of equal ones: what a ring must hold beside the precision."""
    units: dict[int, float] = {}  # log2
    best = Range(node, -math.inf)
    for current in ordered(node):
        parts = [units[id(child)] for child in current.children]
        bound = math.log2(current.bound)
        unit = current.log_unit(parts) if current.secret else bound
        units[id(current)] = unit
        if current.secret and bound - unit > best.bits + 1e-9:
            best = Range(current, bound - unit)
    return best


def refused_exact(
    expression: Expression, options: PlanOptions, failures: Sequence[CipherblasError]
) -> PrecisionError | None:
    """The error of a program of exact integers that no ring carries: the modulus that it needs, and what is allowed;
    None where no failure names one."""
    known: list[tuple[float, float, str]] = []  # what it lacks, the modulus, what is allowed
    largest = max((failure.n for failure in failures if isinstance(failure, NoRingError)), default=0)
    for failure in failures:
        if isinstance(failure, ModulusError):
            lacks = failure.bits / max(failure.allowed, 1.0)
            known.append((lacks, failure.bits, f"{failure.allowed:.0f} bits are allowed at most"))
        elif isinstance(failure, NoRingError) and failure.n == largest and failure.modulus:
            most = f"{failure.bits / failure.excess:.0f} bits are allowed at most"
            allowed = most if failure.bits else failure.message
            known.append((failure.excess, failure.modulus, allowed.removesuffix(".")))
    if not known:
        return None
    _, bits, allowed = min(known)
    node, _ = widest(expression)
    return PrecisionError(
        f"The exact integers of the program need a modulus of {bits:.0f} bits, more than {options.security}-bit "
        "security allows.",
        advice=("a smaller bound=… of the operands", "fewer products one after another"),
        cause=f"{capitalized(allowed)}; the widest range of values is that of {_short(node)}, up to {node.bound:.3g}.",
    )


def _centred(expression: Expression) -> str:
    """Advice for a scale that is small because entries are farther from zero than from each other."""
    leaves = (node for node in facts_of(expression).order if node.operand is not None and node.secret)
    name = max(leaves, key=lambda leaf: leaf.bound).name
    return f"cb.assume({name} - c, spread), where entries of {name} are within a spread of a clear number c"


def _short(node: Expression) -> str:
    """The line of a node; its formula where that is not known, cut off where it is long."""
    if node.place is not None:
        return str(node.place) if node.place.function else f"the result of {node.op} {node.place}"
    name = formula(node)
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"


def refused(
    expression: Expression, options: PlanOptions, failures: Sequence[CipherblasError]
) -> PrecisionError:
    """The error of a program that no ring carries.

    Args:
        failures: of the search: of the largest rings that were tried, the one that lacks least is told; where refreshed
            values are not precise enough, which are less so in larger rings, of all of them.
    """
    tried = [failure for failure in failures if isinstance(failure, NoRingError)]
    largest = max((failure.n for failure in tried), default=0)
    ring = min(
        [failure for failure in tried if failure.of_refreshes]
        or [failure for failure in tried if failure.n == largest],
        key=lambda failure: failure.excess,
        default=None,
    )
    node, bits = widest(expression)
    name = _short(node)
    cause = "The options leave no ring degree" if ring is None else ring.message.removesuffix(".")
    others = ["fewer products" if ring is None or ring.coarser is None else _centred(expression)]
    lacking = math.inf if ring is None else ring.shortfall
    if bits >= WIDE or (
        options.error is not None and bits >= lacking
    ):  # a precision is relative to the bounds
        others.insert(0, f"cb.assume(…, bound) of {name}, where its entries stay below {node.bound:.3g}")
        cause += f"; the widest range of values is that of {name}"
    if not options.by_samples and any(one.written is not None for one in facts_of(expression).order):
        others = [SAMPLES]  # of functions the worst case multiplies, whatever the bounds are
    coarser = () if ring is None else _advice(expression, options, ring)
    error = PrecisionError(
        f"No parameters of {options.security}-bit security compute the program to a precision of "
        f"{float(options.precision):g}.",
        advice=ring.wanted if ring is not None and ring.wanted else (*coarser, *others),
        cause=f"{cause}.",
    )
    if ring is not None:
        error.shortfall = ring.shortfall
    return error


def refused_modular(
    modulus: int, options: PlanOptions, failures: Sequence[CipherblasError]
) -> CipherblasError:
    """The refusal of a program of integers modulo t: that of its methods, where these compute it on no ring.

    Args:
        failures: of the search: the last one is told.
    """
    if failures and all(isinstance(one, (FitError, UnsuitedError)) for one in failures):
        return failures[-1]
    cause = failures[-1].message if failures else "The options leave no ring degree."
    least = RING_DEGREES[0]
    smaller = any(has_slots(least, one) for one in range(2 * least + 1, modulus, 2 * least))
    fewer = ("fewer products one after another", *(["a smaller modulus=…"] if smaller else []))
    error = ParameterError(
        f"No ring of {options.security}-bit security has room for the errors of the program modulo {modulus}.",
        advice=(*_wider(modulus, options, failures), *fewer),
        cause=cause,
    )
    error.shortfall = min((one.shortfall for one in failures), default=math.inf)
    return error


def _wider(modulus: int, options: PlanOptions, failures: Sequence[CipherblasError]) -> list[str]:
    """Advice of a modulus near this one that has slots in larger rings, where this one has none."""
    largest = max((n for n in RING_DEGREES if has_slots(n, modulus)), default=RING_DEGREES[-1])
    excess = max((one.excess for one in failures if isinstance(one, NoRingError)), default=1.0)
    wanted = largest << max(1, math.ceil(math.log2(GROWTH * excess)))
    if options.parameters is not None or options.ring_degree is not None or wanted > RING_DEGREES[-1]:
        return []
    below = modulus - modulus % (2 * wanted) + 1
    above = range(below, MAX_PLAIN_MODULUS + 1, 2 * wanted)
    found = next((one for one in (*above, *range(below, 1, -2 * wanted)) if has_slots(wanted, one)), None)
    if found is None:
        return []
    return [f"modulus={found}: {modulus} has slots up to N = {largest} alone, this one up to N = {wanted}"]


def _advice(expression: Expression, options: PlanOptions, ring: NoRingError) -> Sequence[Advice]:
    """The options with which the ring would do, where a coarser precision is below the bound of every result."""
    times = math.inf if ring.coarser is None else SLACK * ring.coarser
    errors = {float(options.precision)} if options.error is None else set(options.targets(expression))
    if times * options.precision >= 1 or len(errors) > 1:
        return ()
    coarser = {"precision" if options.error is None else "error": _rounded_up(times * max(errors))}
    return (advised({**coarser, **ring.needs}),)


def _rounded_up(value: float) -> float:
    """A value of two digits, no smaller than the one that is given."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit) * unit:.2g}")
