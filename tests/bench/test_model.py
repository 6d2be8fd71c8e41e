"""`bench model`: rows of real programs, exact bytes, errors within their bounds, and what a summary says."""

from __future__ import annotations

from typing import Any

import pytest

import cipherblas_bench as bench
from cipherblas import _core
from cipherblas.planner.predict.machine import Machine
from cipherblas_bench import model, own_process
from cipherblas_bench.harness import MeasurementError
from tests.support.bench_fields import check_fields

pytestmark = pytest.mark.encrypted


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured_here(what: str, work: Any, *given: Any) -> Any:
        return work(*given) if work is model.measured else own_process.in_own_process(what, work, *given)

    monkeypatch.setattr(model, "in_own_process", measured_here)
    monkeypatch.setattr(model, "MAX_RUNS", 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["secret 16x16 · 16x16", "layer 10x784"])
def test_rows(name: str) -> None:
    threads = _core.threads()
    try:
        found, *summaries = bench.run_model([name], budget=0.0)
    finally:
        _core.set_threads(threads)
    assert (found["bench"], found["case"]) == ("model", name)
    check_fields([found, *summaries])
    for what in ("upload_bytes", "result_bytes", "key_bytes"):
        assert found["predicted"][what] == found["measured"][what]
    assert 0 < found["error"] == found["measured"]["error"] <= found["predicted"]["error"]
    for stage in model.STAGES:
        assert found["measured"][stage] > 0
        assert found["ratios"][stage] == found["predicted"][stage] / found["measured"][stage]
    assert [row["case"] for row in summaries] == ["seconds", *model.STAGES, "bytes", "peak_bytes", "error"]
    assert summaries[5]["ratio_least"] == summaries[5]["ratio_largest"] == 1


def test_all_kinds_of_programs_are_there() -> None:
    operands = [operand for spec in model.PROGRAMS.values() for operand in spec.operands.values()]
    assert {kind for kind, *_ in operands} == {"S", "P", "K"}
    assert 20 <= len(model.PROGRAMS) <= 30


def test_summary() -> None:
    rows = [{"ratios": {"run": ratio}} for ratio in (0.5, 0.8, 1.0, *[1.1] * 7)]
    seconds, run = model.summary(rows, 1)
    assert (seconds["case"], run["case"]) == ("seconds", "run")
    assert (run["ratio_median"], run["ratio_least"], run["ratio_largest"]) == (1.1, 0.5, 1.1)
    assert (run["factor_median"], run["factor_of_nine_in_ten"], run["measured_cases"]) == (1.1, 1.25, 10)


@pytest.mark.usefixtures("small")
def test_an_error_beyond_its_bound_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_run", lambda *_: ({}, {"error": 1.0}))
    with pytest.raises(MeasurementError, match="the error is 1, predicted were"):
        model.measured("secret 16x16 · 16x16", _core.threads(), 0.0, {"machine": Machine.usual().to_dict()})


def test_unknown_programs() -> None:
    with pytest.raises(ValueError, match="got none such"):
        list(bench.run_model(["none such"]))
