"""What a program of integers modulo t asks of its plan: rows or slots modulo t, and no precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cipherblas.common.errors import Advice, MismatchError, ParameterError, without
from cipherblas.crypto.fields import MAX_PLAIN_MODULUS, is_prime
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.residue_slots import has_slots
from cipherblas.lang.graph import as_matrices
from cipherblas.lang.modular import check_modular, modulus_of
from cipherblas.lang.nodes import Expression
from cipherblas.methods.layers import LAYER_METHODS
from cipherblas.methods.products import GEMM
from cipherblas.planner.plan.passes import Following, Outcome, PlanRequest
from cipherblas.planner.plan.plan import RING_DEGREES, PlanOptions
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.predict.promises import BOUNDS
from cipherblas.runtime.blocks import BLOCKS, FEATURES
from cipherblas.runtime.executor import missing
from cipherblas.runtime.rows import ROWS
from cipherblas.runtime.tensors import TENSORS

MODULAR_FORMS = (BLOCKS, FEATURES, ROWS, TENSORS)  # that compute integers modulo t


def by_rows_or_in_slots(request: PlanRequest, following: Following) -> Outcome:
    """A program of integers modulo t in the forms that compute it: by rows, and in blocks of slots where t has some."""
    refusals = ParameterError, MismatchError
    found = attempted(lambda: check_options(request.expression, request.options, {}), only=refusals)
    if isinstance(found, Infeasible):
        return found
    modulus, options = modulus_of(request.expression), request.options
    assert modulus is not None
    if options.form in (ROWS, TENSORS) or options.algorithm == GEMM:
        return following(request)
    if as_matrices(request.expression) is None:
        return following(request)
    if options.algorithm in LAYER_METHODS:
        return following(request.asking(form=TENSORS))
    if options.form is None and _asks_for_slots(options):
        return following(request.asking(form=BLOCKS))
    if options.form is not None or missing(request.expression, ROWS) is not None:
        return following(request)
    if not any(has_slots(n, modulus) for n in _degrees(options)):
        return following(request.asking(form=ROWS))
    return following(request)


def _asks_for_slots(options: PlanOptions) -> bool:
    """Whether options leave slots alone."""
    asked = options.form or options.algorithm or options.block or options.options
    return options.parameters is not None or asked not in (None, ROWS, GEMM)


def _degrees(options: PlanOptions) -> Sequence[int]:
    """The degrees of rings of slots."""
    if options.parameters is not None:
        return (options.parameters.n,)
    return RING_DEGREES if options.ring_degree is None else (options.ring_degree,)


def check_options(expression: Expression, options: PlanOptions, given: Mapping[str, Any]) -> None:
    """Check the options of a program of integers modulo t; those of any other are as they are.

    Args:
        given: what the user gave.

    Raises:
        ParameterError: options that contradict exact results, a modulus without slots where rows do not do, an
            operation that is no sum and no product (`lang.modular`).
    """
    modulus = modulus_of(expression)
    if modulus is None:
        return
    check_modular(expression)
    for name in ("precision", "error", "samples", "agreement"):
        if given.get(name) is not None:
            raise ParameterError(
                f"Results modulo {modulus} are exact, for every input: {name}= has no place.",
                got=f"{name}={given[name]!r}" if name in ("precision", "error") else name,
                advice=f"cb.compile(…) without {name}=",
            )
    if options.promised != BOUNDS:
        raise ParameterError(
            f"Results modulo {modulus} are exact, for every input.",
            got=f"promise={options.promised.name!r}",
            advice='promise="bounds", or none',
        )
    check_form(expression, options.form, f"Integers modulo {modulus}")
    check_modulus_of(options.parameters, modulus)
    degrees, needed = _degrees(options), _asks_for_slots(options) or missing(expression, ROWS) is not None
    if needed and not any(has_slots(n, modulus) for n in degrees):
        raise _without_slots(modulus, degrees)


def check_form(expression: Expression, form: str | None, what: str) -> None:
    """Raise ParameterError where a form that is asked for computes no integers modulo t.

    Args:
        what: the numbers of the program are called.
    """
    images = as_matrices(expression) is None
    forms = (TENSORS,) if images else MODULAR_FORMS
    if form not in (None, *forms):
        raise ParameterError(
            f"{what} are computed by rows, or in slots: in blocks, of one feature each, or as tensors, which images "
            "are.",
            expected=" | ".join(forms),
            got=form,
            advice=Advice(f'form="{TENSORS}"', {"form": TENSORS}) if images else without("form"),
        )


def needs_exact(expression: Expression, options: PlanOptions) -> bool:
    """Whether a program of integers modulo t needs slots modulo t that there are none of: it is computed without
    wrapping around then, as far as its bounds allow that."""
    modulus = modulus_of(expression)
    assert modulus is not None
    if options.parameters is not None or options.form == ROWS or options.algorithm == GEMM:
        return False
    needed = _asks_for_slots(options) or missing(expression, ROWS) is not None
    return needed and not any(has_slots(n, modulus) for n in _degrees(options))


def check_modulus_of(parameters: Parameters | None, modulus: int | None) -> None:
    """Raise MismatchError unless parameters, where there are any, are for plaintexts modulo this t."""
    if parameters is not None and parameters.plain_modulus != modulus:
        raise MismatchError(
            "The parameters are for another kind of plaintexts than the program.",
            expected=f"plain_modulus={modulus}",
            got=f"plain_modulus={parameters.plain_modulus}",
            advice=f"make_parameters(…, plain_modulus={modulus})",
        )


def _without_slots(modulus: int, degrees: Sequence[int]) -> ParameterError:
    step = 2 * min(degrees)
    if not is_prime(modulus):
        why = "it is not prime"
    elif modulus % step != 1:
        why = f"it is not 1 modulo {step}"
    else:
        why = "its rings have no slots"
    near = _nearest(modulus, 2 * min(degrees))
    return ParameterError(
        f"The modulus {modulus} has no slots to compute in: {why}.",
        expected=f"a prime = 1 mod {step} up to {MAX_PLAIN_MODULUS}",
        got=modulus,
        advice=[f"modulus={one}" for one in near]
        + ["products of matrices and sums alone, which need no slots"],
    )


def _nearest(modulus: int, step: int) -> list[int]:
    """The next primes = 1 modulo a step, above and below."""

    def first(numbers: Iterable[int]) -> list[int]:
        found = (one for one in numbers if one > 2 and one <= MAX_PLAIN_MODULUS and is_prime(one))
        return [one for one in [next(found, None)] if one is not None]

    base = modulus - (modulus - 1) % step
    above = first(range(base + step, MAX_PLAIN_MODULUS + 1, step))
    return [*above, *first(range(base, 1, -step))]
