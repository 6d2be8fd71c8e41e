"""Plans of exact integers by their residues modulo several t: which these are, and what all of them take together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from cipherblas.common.errors import (
    Advice,
    CipherblasError,
    LevelError,
    MemoryBudgetError,
    ParameterError,
    UnmatchedError,
)
from cipherblas.crypto.fields import MAX_PLAIN_MODULUS, is_prime
from cipherblas.crypto.params import Parameters
from cipherblas.lang import crt
from cipherblas.lang.exact import is_exact
from cipherblas.lang.joins import without_joins
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand
from cipherblas.lang.results import results_of
from cipherblas.planner.plan.assembly import executed
from cipherblas.planner.plan.passes import Outcome, Planned, PlanRequest
from cipherblas.planner.plan.plan import Plan, PlanOptions
from cipherblas.planner.plan.schema import MODULI, check_decisions
from cipherblas.planner.predict.dry_run import dry_run
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.rlwe.traffic import Traffic

# Steps between t that have slots in rings of half as many coefficients, and the bits of the least t that take them:
# there are too few smaller ones.
STEPS = ((1 << 17, 24), (1 << 16, 20), (1 << 14, 15))
MORE = 1  # numbers of t that are tried beyond the least one
START = 0.9  # of the mean size, from which t are looked for
UPLOAD, MEBIBYTE = "upload_budget", 20  # an option; log2 of the unit in which budgets are advised
SMALL_SLOTS = 1 << 13  # t - 1 is a multiple of this where some ring has slots


def by_residues(request: PlanRequest, planned: Callable[[PlanRequest], Outcome]) -> Outcome:
    """The fastest plan of a program of exact integers modulo several t.

    Args:
        planned: plans a program of integers modulo one t.
    """
    request = request.of(without_joins(request.expression))
    expression, options = request.expression, request.options
    operands = crt.operands_in(expression)
    best: Planned | None = None
    failure: Infeasible | None = None
    for moduli in candidates(expression, operands, options):
        request.tell(f"integers modulo {len(moduli)} numbers of {max(moduli).bit_length()} bits")
        limit = request.limit if best is None else min(request.limit, best.plan.minimised)
        outcome = _planned_modulo(replace(request, limit=limit / len(moduli)), operands, moduli, planned)
        if isinstance(outcome, Infeasible):
            if failure is None or outcome.error.shortfall < failure.error.shortfall:
                failure = outcome
        elif best is None or outcome.plan.minimised < best.plan.minimised:
            best = outcome
        if best is not None and request.any_plan:
            break
    if best is not None:
        return best
    if failure is None:
        return Infeasible(_no_moduli(expression, options))
    if isinstance(failure.error, ParameterError) and failure.error.shortfall < math.inf:
        return Infeasible(_no_ring(failure.error, options))
    return failure


def _planned_modulo(
    request: PlanRequest,
    operands: Mapping[str, Operand],
    moduli: tuple[int, ...],
    planned: Callable[[PlanRequest], Outcome],
) -> Outcome:
    """A plan of one set of t: that of the largest, by which errors have the least room, with others that it serves."""
    options, parameters = request.options, request.options.parameters
    largest = max(moduli)
    if parameters is not None:
        parameters = parameters.modulo(largest)
    options = replace(options, error=None, precision=PlanOptions.precision, parameters=parameters)
    if options.upload_budget is not None:  # of all of them together
        options = replace(options, upload_budget=options.upload_budget // len(moduli))
    program = crt.with_operands(request.expression, crt.declared_modulo(operands, largest))
    found = planned(request.of(program, options))
    if isinstance(found, Infeasible):
        return _of_all(found, len(moduli))
    expression = crt.with_operands(found.expression, operands)
    served = [largest]
    for modulus in sorted(set(moduli) - {largest}, reverse=True):
        if not _serves(found, operands, modulus):
            return Infeasible(LevelError(f"A plan modulo {largest} has no room modulo {modulus}."))
        served.append(modulus)
    if not crt.holds(expression, operands, served):  # bounds of another spelling are others
        return Infeasible(LevelError("Results may be larger than their residues tell.", got=served))
    return found._replace(expression=expression, plan=repeated(found.plan, served, expression))


def _serves(found: Planned, operands: Mapping[str, Operand], modulus: int) -> bool:
    """Whether a plan is one modulo another t too."""
    plan = found.plan

    def run() -> None:
        program = crt.with_operands(found.expression, crt.declared_modulo(operands, modulus))
        parameters = plan.parameters.modulo(modulus)
        runs = executed(program, plan.decided)
        dry_run(parameters, runs, plan.decided, mask_budget=plan.mask_budget, promise=plan.promise)

    return not isinstance(attempted(run, only=(LevelError, UnmatchedError, ParameterError)), Infeasible)


def repeated(plan: Plan, moduli: Sequence[int], expression: Expression) -> Plan:
    """The plan of a program that is run once for each t, by that of one run.

    Args:
        expression: that of exact integers, whose results have bounds.
    """
    times = len(moduli)
    found = replace(
        plan,
        moduli=tuple(moduli),
        counts=plan.counts * times,
        traffic=_traffic(plan.traffic, times),
        upload_bytes=plan.upload_bytes * times,
        upload_ciphertexts=plan.upload_ciphertexts * times,
        result_ciphertexts=plan.result_ciphertexts * times,
        result_bytes=plan.result_bytes * times,
        peak_bytes=plan.peak_bytes + (times - 1) * (plan.upload_bytes + plan.result_bytes),
        held_bytes=plan.held_bytes * times,
        results=tuple(
            replace(
                one,
                bound=node.bound,
                target=0.0,
                error=0.0,
                nbytes=one.nbytes * times,
            )
            for one, node in zip(plan.results, results_of(expression), strict=True)
        ),
        nodes=tuple(replace(one, counts=one.counts * times) for one in plan.nodes),
    )
    share = found.minimised / plan.minimised  # those of other ways are compared with one run
    rejected = [replace(one, seconds=one.seconds and one.seconds * share) for one in plan.rejected]
    return replace(found, rejected=tuple(rejected))


def moduli_of(decisions: Any) -> tuple[int, ...]:
    """Every t of decisions that a file holds; FormatError where they are none."""
    check_decisions(decisions)
    return tuple(decisions.get(MODULI, ()))


def without_moduli(decisions: Mapping[str, Any]) -> dict[str, Any]:
    """Decisions of a program modulo one t of several."""
    return {name: value for name, value in decisions.items() if name != MODULI}


def check_residues(expression: Expression, operands: Mapping[str, Operand], plan: Plan) -> None:
    """Raise ParameterError unless results are known from their residues modulo each t of a plan."""
    moduli = plan.moduli
    coprime = math.lcm(*moduli) == math.prod(moduli) and moduli[0] == plan.parameters.plain_modulus
    if not (coprime and is_exact(expression) and crt.holds(expression, operands, moduli)):
        raise ParameterError(
            "The numbers t of the plan do not tell the results of the program.",
            expected="coprime ones, whose product exceeds twice the largest result",
            got=moduli,
            advice="cb.compile(function, operands), which chooses them",
        )


def _traffic(one: Traffic, times: int) -> Traffic:
    numbers = {field.name: getattr(one, field.name) for field in fields(one)}
    return Traffic(**{name: n if isinstance(n, bool) else n * times for name, n in numbers.items()})


def candidates(
    expression: Expression, operands: Mapping[str, Operand], options: PlanOptions
) -> Iterator[tuple[int, ...]]:
    """Sets of t from which results are known."""
    modulus, parameters = crt.wanted_modulus(operands), options.parameters
    factors = () if modulus is None else slot_factors(modulus)
    if factors and parameters is None:
        yield factors
    if not crt.is_bounded(expression):
        return
    least = crt.least_product(expression)
    if parameters is not None:
        found = _downwards(parameters, least)
        if found:
            yield found
        return
    fewest = math.ceil(math.log2(least) / math.log2(MAX_PLAIN_MODULUS))
    for count in range(fewest, fewest + MORE + 1):
        moduli = _near(least, count)
        if moduli is not None:
            yield moduli


def _near(least: int, count: int) -> tuple[int, ...] | None:
    """So many primes with slots, of about one size, whose product is at least a number; None where there are none."""
    mean = 2.0 ** (math.log2(least) / count)
    step = next((step for step, bits in STEPS if mean >= 1 << bits), None)
    if step is None:
        if count > 1:
            return None
        step, mean = STEPS[-1][0], 1 << STEPS[-1][1]
    found: list[int] = []
    for candidate in range(max(1, int(START * mean) // step) * step + 1, MAX_PLAIN_MODULUS, step):
        if is_prime(candidate):
            found = [*found[-count + 1 :], candidate] if count > 1 else [candidate]
            if len(found) == count and math.prod(found) >= least:
                return tuple(reversed(found))
    return None


def _downwards(parameters: Parameters, least: int) -> tuple[int, ...]:
    """Of parameters that are given, their t and the next ones below that have slots; none where these are too few."""
    largest, step = parameters.plain_modulus or 0, 2 * parameters.n
    found = [largest]
    others = (one for one in range(largest - largest % step + 1, 1, -step) if one < largest)
    for candidate in others:
        if math.prod(found) >= least:
            break
        if is_prime(candidate) and candidate not in (*parameters.q, *parameters.p):
            found.append(candidate)
    return tuple(found) if math.prod(found) >= least else ()


def slot_factors(modulus: int) -> tuple[int, ...]:
    """The prime factors of a number, the largest first, where it is a product of different ones that have slots."""
    found: list[int] = []
    rest = modulus
    for candidate in range(SMALL_SLOTS + 1, min(MAX_PLAIN_MODULUS, math.isqrt(modulus)) + 1, SMALL_SLOTS):
        if rest % candidate == 0:
            found.append(candidate)
            rest //= candidate
    if rest > 1:
        found.append(rest)
    good = all(one <= MAX_PLAIN_MODULUS and one % SMALL_SLOTS == 1 and is_prime(one) for one in found)
    return tuple(sorted(found, reverse=True)) if good and len(set(found)) == len(found) else ()


def _of_all(failure: Infeasible, times: int) -> Infeasible:
    """A refusal modulo one t, with the budget of uploads that all of them need."""
    error = failure.error
    asked = dict(error.advice[0].options) if error.advice else {}
    if not isinstance(error, MemoryBudgetError) or UPLOAD not in asked:
        return failure
    asked[UPLOAD] *= times
    written = ", ".join(f"{name}={value >> MEBIBYTE} << {MEBIBYTE}" for name, value in asked.items())
    of_all = MemoryBudgetError(
        f"{error.message.removesuffix('.')}, modulo each of {times} numbers t.",
        advice=Advice(written, asked),
    )
    of_all.shortfall = error.shortfall
    return Infeasible(of_all)


def _no_ring(error: CipherblasError, options: PlanOptions) -> CipherblasError:
    """The refusal where no ring carries the program modulo each of any set of t, by that modulo one t."""
    return ParameterError(
        f"No ring of {options.security}-bit security has room for the errors of exact integers, computed by residues.",
        advice=("fewer products one after another", "a smaller bound=… of the operands"),
        cause=error.cause,
    )


def _no_moduli(expression: Expression, options: PlanOptions) -> CipherblasError:
    """The refusal where no set of t is large enough."""
    return ParameterError(
        "There are too few numbers t with slots for the bounds of the results.",
        expected="results whose bounds fewer t hold",
        got=f"{max(node.bound for node in results_of(expression)):.3g}",
        advice=("a smaller bound=… of the operands", "without parameters=, ring_degree=")[
            : 1 + (options.parameters is not None)
        ],
    )
