"""A default precision that tells little of a result is warned of, with what to write."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import program_of

W = np.array([3e3, 10.0, 1.0, 0.1, 1e-4])  # of columns of standard deviations 0.001 to 10,000
TOY: dict[str, Any] = {"security": 0, "insecure": True, "ring_degree": 8192}
LITTLE: dict[str, tuple[Callable[..., Any], Any]] = {
    "columns of different scale": (lambda x: x @ W, cb.secret(100, 5, bound=4e4)),
    "squares of them": (lambda x: x.T @ x, cb.secret(100, 5, bound=4e4)),
    "exponential": (lambda x: cb.exp(x), cb.secret(8, bound=20.0)),
}
ENOUGH: dict[str, tuple[Callable[..., Any], Any]] = {
    "product": (lambda x: x @ np.full((64, 3), 0.5), cb.secret(8, 64)),
    "columns of one scale": (lambda x: x @ np.ones(5), cb.secret(100, 5, bound=4e4)),
    "weights of zero": (lambda x: x @ np.array([1.0, 0.0, 0.5, 0.25, 1.0]), cb.secret(100, 5)),
    "network": (lambda x: cb.square(np.full((8, 20), 0.5) @ x), cb.secret(20)),
    "exact": (lambda x: x.T @ x, cb.secret(50, 3, dtype="int8", exact=True)),
}


def warned(function: Callable[..., Any], operand: Any, **options: Any) -> tuple[cb.Program, list[str]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        program = program_of(function, x=operand, **{**TOY, **options})
    return program, [str(one.message) for one in found if isinstance(one.message, cb.PrecisionWarning)]


@pytest.mark.parametrize("name", LITTLE)
def test_little_is_warned_of_and_what_to_write_is_planned(name: str) -> None:
    function, operand = LITTLE[name]
    program, (message,) = warned(function, operand)
    for part in (f"may err by {program.plan.error:.2g}", "default precision", "Write error=", "bound"):
        assert part in message
    better, more = warned(function, operand, error=program.plan.error_target / 4)
    assert not more and better.plan.error <= program.plan.error_target / 4
    assert not warned(function, operand, precision=1e-4)[1]  # what was asked for


@pytest.mark.parametrize("name", ENOUGH)
def test_enough_is_not(name: str) -> None:
    assert not warned(*ENOUGH[name])[1]


def test_of_several_results_those_that_it_is_of() -> None:
    operand = cb.secret(100, 5, bound=4e4)
    _, (message,) = warned(lambda x: {"mean": x.mean(axis=0), "moments": x.T @ x}, operand)
    assert "The result 'moments' may err" in message
