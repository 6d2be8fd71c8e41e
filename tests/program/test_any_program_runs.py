"""A program that compiles runs: over extreme bounds, values, types and options there are two outcomes alone.

`compile` refuses with a typed error that says why; or keys are made, operands at ±bound, of zeros and in between are
encrypted, the server runs, and the result is within the predicted error.
"""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cipherblas as cb
from tests.support.extreme_programs import Case, case, fillings
from tests.support.runs import Parties

CASES, REFRESH_BATCH = 100, 25
MIN_SHARE = 0.4  # of the cases; else nothing is tested

# Kept out: it takes half a minute to make keys or to run. What runs by GEMM with transpositions has tests of its own.
SLOW = "keys of transpositions"


def refusal(found: Case) -> str | None:
    """Run a case. Returns why it was not run to its end, or None; fails on any third outcome."""
    try:
        program = cb.compile(found.function, found.declared(), **found.options)
    except cb.CipherblasError as error:
        if error.expected is None and error.got is None and error.cause is None and not error.advice:
            raise AssertionError("a refusal that does not say why") from error
        return f"{type(error).__name__}: {error}"
    if program.plan.form == "rows" and program.plan.keys.galois:
        return SLOW
    parties = Parties(program)
    for values in fillings(program, found.seed):
        parties.run(values).within()
    return None


def checked(seed: int) -> str | None:
    found = case(seed)
    try:
        return refusal(found)
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n{found}") from error


@pytest.mark.parametrize("first", range(0, CASES, REFRESH_BATCH))
def test_what_compiles_runs(first: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # of NumPy: an overflow, a division by zero
        outcomes = [checked(seed) for seed in range(first, first + REFRESH_BATCH)]
    assert outcomes.count(None) >= MIN_SHARE * REFRESH_BATCH, outcomes


@given(st.integers(1 << 32, 1 << 64))
def test_what_compiles_runs_for_new_numbers(seed: int) -> None:
    checked(seed)
