"""`bench crossover`: both forms, what is not run, and what the planner would take."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import cipherblas as cb
import cipherblas_bench as bench
from cipherblas_bench import own_process

pytestmark = pytest.mark.usefixtures("fewest_runs")


def plan(kind: str, d: int, **options: Any) -> Any:
    """As benchmarks plan, which measure the evaluation."""
    left = cb.secret(d, d) if kind == "cc" else cb.public(d, d, dtype="int8")
    options = {"threads": 1, "minimise": "server", **options}
    return cb.compile(lambda a, b: a @ b, {"a": left, "b": cb.secret(d, d)}, **options).plan


def test_rows_of_both_forms_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of secrets by rows, which take seconds, are run where memory decides below."""
    # A process of its own would not know of the fewest runs.
    monkeypatch.setattr(own_process, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    rows = list(bench.run_crossover([6], kinds=["pc"], limit=math.inf, budget=0.0))
    assert [(row["kind"], row["d"], row["form"]) for row in rows] == [
        ("pc", 6, form) for form in ("blocks", "rows")
    ]
    for row in rows:
        assert json.loads(bench.to_json(row)) == row
        assert (row["bench"], row["case"]) == ("crossover", "x".join([str(row["d"])] * 3))
        assert (row["algorithm"] == "gemm") == (row["form"] == "rows")
        assert row["times_gemm"] == row["seconds"] / row["gemm_seconds"] > 0
        assert 0 < row["relative_error"] <= 1e-4
        largest = 128 if row["kind"] == "pc" else 1
        assert row["relative_error"] >= row["error"] / (largest * row["d"])
        assert "skipped" not in row and "estimate" not in row


@pytest.mark.parametrize("kind", ["cc", "pc"])
def test_chosen_is_what_the_planner_takes(kind: str) -> None:
    for row in bench.run_crossover([4, 100], kinds=[kind], limit=0.0, budget=0.0):
        assert row["chosen"] == plan(kind, row["d"]).form


def test_what_takes_too_long_is_an_estimate() -> None:
    rows = list(bench.run_crossover([5], limit=0.0, budget=0.0))
    assert len(rows) == 4
    for row in rows:
        expected = plan(row["kind"], 5, form=row["form"])
        assert not {"seconds", "error", "peak_bytes", "times_gemm"} & set(row)
        assert row["estimate"] and "longer than" in row["skipped"] and "estimated" in row["note"]
        assert row["predicted_error"] == expected.error
        assert row["predicted_peak_bytes"] == expected.peak_bytes
        assert row["key_bytes"] == expected.key_bytes
        assert row["predicted_seconds"] > 0 and row["gemm_seconds"] > 0


def test_what_does_not_fit_the_memory_is_an_estimate_and_is_not_chosen() -> None:
    # 512 MiB of keys for the transpositions of N = 2^12; other policies of keys would fit.
    rows = list(
        bench.run_crossover([5], kinds=["cc"], memory_budget=300 << 20, key_policy="direct", budget=0.0)
    )
    slots, gemm = rows
    assert slots["seconds"] > 0 and slots["chosen"] == gemm["chosen"] == "blocks"
    assert gemm["estimate"] and "key_budget is 200.0 MiB" in gemm["skipped"]
    assert gemm["key_bytes"] > 300 << 20 and gemm["predicted_seconds"] > 0 and "seconds" not in gemm


def test_what_no_plan_reaches_has_no_estimate() -> None:
    for row in bench.run_crossover([3], kinds=["cc"], precision=1e-40, budget=0.0):
        assert row["estimate"] is False and row["skipped"] and "no estimate" in row["note"]
        assert not {"seconds", "predicted_seconds", "algorithm", "chosen"} & set(row)


def test_unknown_kinds_and_empty_products_are_refused() -> None:
    with pytest.raises(ValueError, match="kind: expected cc or pc, got pp"):
        next(bench.run_crossover([4], kinds=["pp"]))
    with pytest.raises(ValueError, match="sizes: expected at least 1, got 0"):
        next(bench.run_crossover([4, 0]))
