"""Errors where nothing is independent: above those of the plan, and of operands at their bounds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.rows.worst_case import RowsWorstCase
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.worst_case import WorstCase
from cipherblas.planner.plan.worst_case import worst_errors
from tests.support.runs import Parties, program_of

pytestmark = pytest.mark.encrypted


def _squares(x: Any) -> Any:
    for _ in range(3):
        x = x * x
    return x


FILTERS = np.full((2, 1, 3, 3), 0.2)
WEIGHTS = np.full((10, 32), 0.3)
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "outer product": (
        lambda a, b: a @ b,
        {"a": cb.secret(8, 24), "b": cb.secret(24, 8), "algorithm": "outer-product"},
    ),
    "skewed": (lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8), "algorithm": "skewed"}),
    "bicyclic": (lambda a, b: a @ b, {"a": cb.secret(8, 9), "b": cb.secret(9, 11), "algorithm": "bicyclic"}),
    "fame": (lambda a, b: a @ b, {"a": cb.secret(8, 9), "b": cb.secret(9, 11), "algorithm": "fame"}),
    "squares": (_squares, {"x": cb.secret(4, 4), "precision": 1e-6}),
    "sums": (lambda a: a * a - 3 * a + 0.5 * np.ones((4, 4)), {"a": cb.secret(4, 4)}),
    "public key": (
        lambda a, b: a @ b,
        {"a": cb.public(8, 8), "b": cb.secret(8, 8, encryption="public-key"), "form": "blocks"},
    ),
    "rows": (lambda a, b: a @ b, {"a": cb.public(8, 64), "b": cb.secret(64, 8), "form": "rows"}),
    "fixed rows": (lambda b: WEIGHTS @ b, {"b": cb.secret(32, 8), "form": "rows"}),
    "rows of the public key": (
        lambda a, b: a @ b + np.ones((8, 8)),
        {"a": cb.public(8, 8), "b": cb.secret(8, 8, encryption="public-key"), "form": "rows"},
    ),
    "network": (
        lambda x: WEIGHTS @ cb.flatten(cb.avg_pool2d(cb.square(cb.conv2d(x, FILTERS)), 2)),
        {"x": cb.secret(1, 10, 10)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_operands_at_their_bounds_stay_below(case: str) -> None:
    """All entries equal and nearly as large as they may be: errors of encodings and of products are then alike."""
    function, arguments = CASES[case]
    program = program_of(function, **arguments)
    assert program.worst_error >= program.plan.error
    parties = Parties(program)
    for sign in (1.0, -1.0):
        values = {name: np.full(op.shape, 0.99 * sign * op.bound) for name, op in program.operands.items()}
        assert parties.run(values).error <= program.worst_error


def test_secret_times_secret_by_rows() -> None:
    """Traced alone: keys of a transposition take long to make."""
    program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(8, 64), "b": cb.secret(64, 8)}, form="rows")
    assert program.plan.error < program.worst_error < 1e3 * program.plan.results[0].target


def test_errors_add_up() -> None:
    """k ciphertexts summed have k times the error, not sqrt(k) times; a plan adds them as independent."""
    program = cb.compile(lambda a, b: a + b, {"a": cb.secret(4, 4), "b": cb.secret(4, 4)})
    single = cb.compile(lambda a: a + 0, {"a": cb.secret(4, 4)}, parameters=program.plan.parameters)
    ratio = program.worst_error / single.worst_error
    assert ratio == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda a, b: a @ b, {"a": cb.secret(20, 30), "b": cb.secret(30, 10), "algorithm": "skewed"}),
        (lambda a, b: a @ b, {"a": cb.public(20, 30), "b": cb.secret(30, 10), "algorithm": "fame"}),
        (lambda a, b: (a @ b) * b + 0.5, {"a": cb.secret(15, 15), "b": cb.secret(15, 15)}),
        (lambda a, b: (a @ b) @ a, {"a": cb.secret(16, 12), "b": cb.secret(12, 16), "algorithm": "bicyclic"}),
    ],
)
def test_one_block_stands_for_all(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    """Grids of several blocks; the bound is that of walking all of them."""
    program = program_of(function, **arguments, block=8)
    assert max(program.outputs[0].form.grid) > 1
    found = program.worst_error
    monkeypatch.setattr(WorstCase, "schedule", "local")
    assert worst_errors(program.executed, program.plan)[0] == found


def test_a_finer_plan_has_a_smaller_worst_error() -> None:
    def found(precision: float) -> float:
        return cb.compile(
            lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)}, precision=precision
        ).worst_error

    assert found(1e-8) < found(1e-4) / 1000


def test_a_loaded_program_has_the_same(tmp_path: Any) -> None:
    program = cb.compile(lambda a, b: (a @ b) @ a, {"a": cb.secret(4, 4), "b": cb.secret(4, 4)})
    program.save(tmp_path / "program")
    assert cb.Program.load(tmp_path / "program").worst_error == program.worst_error
    assert worst_errors(program.executed, program.plan)[0] == program.worst_error


@pytest.mark.parametrize(("base", "worst"), [(Evaluator, WorstCase), (RowsEvaluator, RowsWorstCase)])
def test_what_takes_a_noise_from_its_caller_is_not_believed(base: type, worst: type) -> None:
    """Methods whose callers state a noise, or where data begin, have an own form in the worst case."""
    for name, method in inspect.getmembers(base, inspect.isfunction):
        arguments = inspect.signature(method).parameters
        if name.startswith("_") or not {"noise", "bias", "public_key"} & set(arguments):
            continue
        if name in ("make", "rotate_sum", "check_room"):  # their data come from hooks, or there are none
            continue
        assert getattr(worst, name) is not method, name
