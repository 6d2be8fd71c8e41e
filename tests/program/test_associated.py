"""Programs whose chains of products are computed in another association than they are written in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import ParameterError, PrecisionError
from cipherblas.lang.analysis import trace
from cipherblas.lang.graph import deduplicated, formula
from cipherblas.lang.nodes import Expression
from cipherblas.planner import pipeline
from cipherblas.planner.plan.passes import Planned, PlanRequest
from cipherblas.planner.plan.plan import Plan, PlanOptions
from cipherblas.planner.predict.feasible import feasible
from cipherblas.planner.rewrite import association
from tests.corpus.machine import MACHINE
from tests.support.runs import run

S = cb.secret


def four(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a @ b @ c @ d


def squares(d: int, names: str = "abcd", **more: Any) -> dict[str, Any]:
    return {name: S(d, d, **more) for name in names}


def since(first: pipeline.Pass, expression: Expression, options: PlanOptions) -> Planned:
    """The plan by this pass and those after it."""
    passes = pipeline.PASSES[pipeline.PASSES.index(first) :]
    return feasible(pipeline.planned(PlanRequest(expression, options), passes))


def as_written(function: Any, operands: dict[str, Any], **options: Any) -> Plan:
    wanted = PlanOptions.given({"machine": MACHINE} | options)
    return since(pipeline.with_larger_uploads, deduplicated(trace(function, operands)), wanted).plan


@pytest.mark.parametrize(
    ("function", "operands", "found"),
    [
        (lambda a, b, x: a @ b @ x, {"a": S(40, 40), "b": S(40, 40), "x": S(40)}, "a @ (b @ x)"),
        (four, squares(6), "(a @ b) @ (c @ d)"),
        (lambda a, b, c: a @ (b @ c), {"a": S(4, 24), "b": S(24, 24), "c": S(24, 24)}, "(a @ b) @ c"),
    ],
)
def test_the_faster_association_is_planned(function: Any, operands: dict[str, Any], found: str) -> None:
    program = cb.compile(function, operands, machine=MACHINE)
    assert formula(program.expression) == found
    assert found in program.explain()
    assert program.plan.minimised < as_written(function, operands).minimised


def test_what_is_written_stays_where_nothing_is_faster() -> None:
    operands = squares(24, "abc")
    program = cb.compile(lambda a, b, c: a @ b @ c, operands, machine=MACHINE)
    assert formula(program.expression) == "(a @ b) @ c"
    assert program.plan.minimised == as_written(lambda a, b, c: a @ b @ c, operands).minimised


def test_a_ring_that_carries_another_association_alone_is_taken() -> None:
    """Four matrices from left to right spend more levels than N = 2^13 has."""
    options: dict[str, Any] = {"ring_degree": 1 << 13, "form": "blocks", "machine": MACHINE}
    with pytest.raises(PrecisionError):
        as_written(four, squares(8), **options)
    assert formula(cb.compile(four, squares(8), **options).expression) == "(a @ b) @ (c @ d)"


def test_wrong_options_are_refused_as_ever() -> None:
    for options in ({"algorithm": "skewed", "options": {"nonsense": 1}}, {"algorithm": "nonsense"}):
        with pytest.raises(ParameterError):
            cb.compile(four, squares(8), machine=MACHINE, **options)


def test_the_error_of_what_is_written_is_told() -> None:
    with pytest.raises(PrecisionError, match="4096"):
        cb.compile(four, squares(8), ring_degree=1 << 12, machine=MACHINE)


def test_it_computes_the_product_and_survives_its_file(tmp_path: Path) -> None:
    program = cb.compile(four, squares(6), machine=MACHINE)
    program.save(tmp_path / "program")
    loaded = cb.Program.load(tmp_path / "program")
    assert loaded.id == program.id and formula(loaded.expression) == "(a @ b) @ (c @ d)"
    random = np.random.default_rng(2)
    run(loaded, {name: random.uniform(-1, 1, (6, 6)) for name in "abcd"}).check()


def test_exact_integers_stay_as_they_are_written() -> None:
    operands = {"a": S(12, 12, dtype="int8", exact=True), "x": S(12, 1, dtype="int8", exact=True)}
    program = cb.compile(lambda a, x: (a @ a) @ x, operands, machine=MACHINE)
    assert formula(program.expression) == "(a @ a) @ x"


def test_results_keep_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors are relative to the bound of a result: an association in which that is another one is not taken."""
    operands = {"a": S(8, 8), "b": S(8, 8), "x": S(8)}
    written, other = (
        deduplicated(trace(function, operands))
        for function in (
            lambda a, b, x: a @ b @ np.eye(8) @ x,
            lambda a, b, x: cb.assume(a @ (b @ (np.eye(8) @ x)), 1.0),
        )
    )
    assert since(pipeline.associated, other, PlanOptions(machine=MACHINE)).expression.bound < written.bound
    monkeypatch.setattr(association, "reassociation", lambda *_: other)
    program = cb.compile(lambda a, b, x: a @ b @ np.eye(8) @ x, operands, machine=MACHINE)
    assert formula(program.expression) == formula(written)
