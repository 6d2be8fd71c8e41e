"""The passes of the planner, and what they make of infeasible candidates and of faults."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import Advice, CipherblasError, FitError, LevelError, MismatchError, ShapeError
from cipherblas.lang.analysis import trace
from cipherblas.lang.graph import deduplicated
from cipherblas.methods.matmul.skewed import Skewed
from cipherblas.planner import pipeline
from cipherblas.planner.plan.passes import Following, Outcome, PlanRequest
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict.feasible import INFEASIBLE, Infeasible, attempted, feasible
from cipherblas.planner.rewrite.refresh_placement import refreshed
from cipherblas.planner.search.rows import RowStrategy
from cipherblas.runtime import blocks
from cipherblas.runtime.executor import METHODS
from tests.corpus.machine import MACHINE
from tests.support.runs import toy

PLANNER = Path(pipeline.__file__).parent
# Files that catch what is raised for other reasons: options that the user gave, files of machines, the system.
OTHERS = {
    "plan/plan.py": {"CipherblasError"},
    "plan/text.py": {"(CipherblasError, ArithmeticError, TypeError, ValueError)"},  # of functions of the user
    "predict/caches.py": {"(OSError, UnicodeDecodeError)"},
    "predict/machine.py": {"FormatError", "OSError", "CipherblasError", "(OSError, CipherblasError)"},
    "rings/row_sizes.py": {"ValueError"},
}
SMALL = {"a": cb.secret(16, 16), "b": cb.secret(16, 16)}


def product(a: Any, b: Any) -> Any:
    return a @ b


def raising(error: BaseException) -> Callable[..., Any]:
    def work(*_: Any, **__: Any) -> Any:
        raise error

    return work


# --- infeasibility is a result ---


def test_what_is_infeasible_is_caught_in_one_place() -> None:
    found: dict[str, set[str]] = {}
    for path in PLANNER.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "suppress" not in text
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ExceptHandler):
                caught = "everything" if node.type is None else ast.unparse(node.type)
                found.setdefault(str(path.relative_to(PLANNER)), set()).add(caught)
    assert found == {**OTHERS, "predict/feasible.py": {"only"}}


@pytest.mark.parametrize("kind", INFEASIBLE)
def test_what_is_infeasible_comes_back_and_can_be_raised(kind: type[CipherblasError]) -> None:
    error = kind("It does not do.")
    found = attempted(raising(error))
    assert found == Infeasible(error)
    with pytest.raises(kind) as caught:
        feasible(found)
    assert caught.value is error
    assert feasible(attempted(lambda: 3)) == 3


@pytest.mark.parametrize("kind", [ShapeError, MismatchError, cb.ParameterError, TypeError, ZeroDivisionError])
def test_every_other_exception_is_a_fault(kind: type[Exception]) -> None:
    with pytest.raises(kind):
        attempted(raising(kind("A fault.")))


def test_only_some_reasons() -> None:
    assert isinstance(attempted(raising(FitError("large")), only=FitError), Infeasible)
    with pytest.raises(LevelError):
        attempted(raising(LevelError("low")), only=FitError)


# --- a fault in a candidate ends the compile ---


@pytest.mark.parametrize(
    "fault",
    [
        IndexError("list index out of range"),
        ShapeError("The layouts of a re-arrangement must be of one matrix."),
        MismatchError("The terms of a sum differ in scale."),
        cb.ParameterError("The axes do not fit the grid."),
    ],
)
@pytest.mark.parametrize("place", ["__init__", "multiply", "prepare_left"])
def test_a_fault_of_a_method_ends_the_compile(
    monkeypatch: pytest.MonkeyPatch, place: str, fault: Exception
) -> None:
    """Other methods would do: it is not hidden among what is not taken."""
    assert {one.algorithm for one in cb.compile(product, SMALL, machine=MACHINE).plan.rejected} >= {"skewed"}
    monkeypatch.setattr(Skewed, place, raising(fault))
    with pytest.raises(type(fault)) as caught:
        cb.compile(product, SMALL, machine=MACHINE)
    assert caught.value is fault


def test_a_fault_of_an_operation_ends_the_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = KeyError("multiply")
    monkeypatch.setitem(METHODS, (blocks.BLOCKS, "multiply"), raising(fault))
    with pytest.raises(KeyError) as caught:
        cb.compile(lambda x: x * x, {"x": cb.secret(4, 4)}, machine=MACHINE)
    assert caught.value is fault


def test_a_method_that_does_not_fit_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Skewed, "multiply", raising(FitError("The block is too large.")))
    plan = cb.compile(product, SMALL, machine=MACHINE).plan
    assert plan.algorithm != "skewed"


def test_a_fault_of_a_form_ends_the_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows, which a plan in slots beats by far."""
    monkeypatch.setattr(RowStrategy, "sizes", raising(AssertionError("no size")))
    with pytest.raises(AssertionError, match="no size"):
        cb.compile(lambda x: np.eye(16) @ x, {"x": cb.secret(16, 16)}, machine=MACHINE)


# --- passes ---


def request(function: Callable[..., Any], operands: dict[str, Any], **options: Any) -> PlanRequest:
    return PlanRequest(deduplicated(trace(function, operands)), PlanOptions(machine=MACHINE, **options))


def test_every_pass_hands_the_program_on_in_their_order() -> None:
    """Each as it would do with those after it; what follows the last one is never asked."""
    names = [one.__name__ for one in pipeline.PASSES]
    assert names[0] == "spelled" and names[-1] == "searched" and len(names) == len(set(names))
    refusal, told = Infeasible(FitError("too large")), list[str]()

    def noting(name: str, real: pipeline.Pass) -> pipeline.Pass:
        def one(asked: PlanRequest, following: Following) -> Outcome:
            told.append(name)
            return real(asked, following) if real is not pipeline.searched else refusal

        return one

    passes = tuple(noting(*pair) for pair in zip(names, pipeline.PASSES, strict=True))
    assert pipeline.planned(request(product, SMALL), passes) == refusal
    assert list(dict.fromkeys(told)) == names


def test_a_pass_gives_back_what_it_cannot_change() -> None:
    refusal = Infeasible(FitError("too large"))
    for one in (pipeline.associated, pipeline.with_larger_uploads, refreshed, pipeline.in_blocks_otherwise):
        assert one(request(product, SMALL), lambda asked: refusal) is refusal


def test_uploads_are_larger_where_nothing_else_is_in_the_way() -> None:
    asked: list[int | None] = []

    def following(one: PlanRequest) -> Outcome:
        asked.append(one.options.upload_budget)
        return lacking

    error = cb.MemoryBudgetError("upload", advice=Advice("upload_budget=…", {"upload_budget": 1 << 29}))
    lacking = Infeasible(error)
    pipeline.with_larger_uploads(request(product, SMALL), following)
    assert asked == [None, 1 << 31]
    asked.clear()
    pipeline.with_larger_uploads(request(product, SMALL, upload_budget=1 << 20), following)
    assert asked == [1 << 20]


@pytest.mark.parametrize(
    ("options", "advice"),
    [({"precision": 1e-13}, "precision="), ({"form": "blocks"}, "the same without form=")],
)
def test_a_form_that_lacks_an_operation_is_one_way_of_several(options: dict[str, Any], advice: str) -> None:
    """Blocks know no parts of a computed value: that is no fault, and what helps is said."""
    with pytest.raises(cb.PrecisionError) as refused:
        toy(lambda a, b: cb.square(cb.split(a @ b, [1])[1]), a=cb.secret(4, 2), b=cb.secret(2, 2), **options)
    assert advice in str(refused.value)
