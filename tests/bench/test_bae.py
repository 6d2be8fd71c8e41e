"""`bench pc --suite bae`: every form, what is run and what is predicted, and whether the published claims hold."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas_bench as bench
from cipherblas import _core
from cipherblas.common.errors import ParameterError
from cipherblas.planner.predict.machine import Machine
from cipherblas_bench import bae, own_process, products
from tests.support.bench_fields import check_fields

pytestmark = pytest.mark.usefixtures("fewest_runs")
UNLIMITED = {"memory_budget": bae.UNLIMITED, "key_budget": bae.UNLIMITED, "upload_budget": bae.UNLIMITED}


def predicted(d: int, **options: Any) -> dict[str, dict[str, Any]]:
    """Rows of all forms, none of which is run."""
    return {row["form"]: row for row in bench.run_bae([d], limit=0.0, budget=0.0, **options)}


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    return predicted(256, **UNLIMITED)


@pytest.mark.encrypted
def test_every_form_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    # A process of its own would not know of the fewest runs.
    monkeypatch.setattr(own_process, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    found = list(bench.run_bae([10], limit=math.inf, budget=0.0))
    assert [row["form"] for row in found] == list(bae.FORMS)
    check_fields(found)
    measured = [row for row in found if "seconds" in row]
    assert {row["form"] for row in measured} == set(bae.FORMS) - {"shared rows", "shared batch"}
    for row in measured:
        assert json.loads(bench.to_json(row)) == row
        assert 0 < row["error"] < row["predicted_error"] <= 1e-4 * 128 * 10 * 1.01
        assert row["times_gemm"] == row["seconds"] / row["gemm_seconds"]
        assert row["peak_bytes"] > 0 and "estimated" not in row
    plain = measured[0]
    for row in measured:
        if row["form"].endswith("slots"):
            assert row["times_unconverted"] == row["seconds"] / plain["seconds"]
        assert ("meets_times_gemm" in row) == row["form"].startswith(("rlwe", "shared"))


@pytest.mark.parametrize("kind", [bae.FromSlots, bae.ToSlots])
def test_what_conversions_are_compared_with(kind: type[bae.BaeCase]) -> None:
    """The formula in NumPy, by strips."""
    case = object.__new__(kind)
    case.shape, random = (5, 6, 7), np.random.default_rng(0)
    case.left, case.right = kind.factors(case.shape, random)
    case.clear = random.uniform(-1, 1, kind.entries(case.shape))  # type: ignore[attr-defined]
    whole = kind.formula(case.left, case.right, case.clear)  # type: ignore[attr-defined]
    np.testing.assert_allclose(case.expected(slice(1, 4)), whole[1:4])


def test_what_takes_too_long_is_predicted(rows: dict[str, dict[str, Any]]) -> None:
    assert list(rows) == list(bae.FORMS)
    check_fields(rows.values())
    assert {name for name, row in rows.items() if "estimated" not in row} == {"shared rows", "shared batch"}
    for row in rows.values():
        assert (row["bench"], row["case"], row["d"]) == ("pc", "256x256x256", 256)
        assert not {"seconds", "error", "peak_bytes", "times_gemm"} & set(row)
        if "estimated" not in row:
            assert row["note"].startswith("no plan: The planner ")
            assert not {"predicted_seconds", "meets_times_gemm"} & set(row)
            continue
        assert "longer than 0" in row["note"]
        assert row["predicted_times_gemm"] == row["predicted_seconds"] / row["predicted_gemm_seconds"]
        assert "gemm_seconds" not in row
    assert (
        rows["rlwe rows"]["predicted_times_gemm"] > 1 + 2048 / 256
    )  # the products of the a part and of the b part


def test_claims_are_those_of_the_paper(rows: dict[str, dict[str, Any]]) -> None:
    """0.31 s at 256 alone, 3.5 GEMMs everywhere, of the forms that are products of matrices."""
    row = rows["rlwe rows"]
    assert (row["published_seconds"], row["published_times_gemm"]) == (0.31, 3.5)
    assert row["meets_seconds"] is (row["predicted_seconds"] <= 0.31)
    assert row["meets_times_gemm"] is (row["predicted_times_gemm"] <= 3.5)
    assert "published_times_gemm" not in rows["jkls18"] and "meets_seconds" not in rows["to slots"]
    assert all("published_seconds" not in one for one in predicted(128).values())
    assert rows["to slots"]["times_unconverted"] == pytest.approx(
        rows["to slots"]["predicted_seconds"] / row["predicted_seconds"]
    )


@pytest.mark.parametrize(("seconds", "met"), [(3.0, True), (4.0, False)])
def test_a_claim_is_met_or_not(seconds: float, met: bool) -> None:
    row = {"form": "rlwe rows", "d": 256, "seconds": seconds, "times_gemm": seconds, "predicted_seconds": 9.0}
    bae._claims([row])
    assert (row["meets_times_gemm"], row["meets_seconds"]) == (met, False)


def test_forms_are_what_they_are_called() -> None:
    """Rows that fit N, segments that share an a part, and keys of fixed weights."""
    shape, options = (4096, 4096, 4096), {"machine": Machine.usual(), "threads": 1, **UNLIMITED}
    assert bae.RlweRows.compile(shape, options).plan.parameters.n >= 4096
    shared = bae.SharedRows.compile(shape, options).plan
    assert shared.parameters.n < 4096 and shared.key_bytes == 0
    with pytest.raises(ParameterError, match="smaller than a row"):
        bae.SharedRows.compile((8, 8, 8), options)
    batch = bae.SharedBatch.compile((1024, 1024, 1024), options).plan
    assert batch.key_bytes > 0 and any(one.options.get("fixed") for one in batch.decided.choices.values())
    assert bae.Slots.compile((64, 64, 64), options).plan.algorithm == "e2dm"


def test_what_does_not_fit_the_memory_is_predicted() -> None:
    found = predicted(256, memory_budget=250 << 20, forms=["rlwe rows", "jkls18"])
    assert "memory" in found["jkls18"]["note"] and found["jkls18"]["predicted_peak_bytes"] > 250 << 20
    assert "longer than" in found["rlwe rows"]["note"]


def test_products_of_gigabytes_are_refused_where_they_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Client, server and yardstick are one process."""
    monkeypatch.setattr(bae, "available_memory", lambda: 200 << 20)
    options = {"machine": Machine.usual(), "threads": 1, **UNLIMITED}
    plan, reason = bae._planned(bae.RlweRows, (512, 512, 512), math.inf, options)
    assert plan is not None and "together" in reason


def test_unknown_forms_and_empty_products_are_refused() -> None:
    with pytest.raises(ValueError, match="form: expected rlwe rows"):
        next(bench.run_bae([4], forms=["mlwe"]))
    with pytest.raises(ValueError, match="sizes: expected at least 1, got 0"):
        next(bench.run_bae([4, 0]))


def test_the_yardstick_multiplies_all_rows_in_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    left = random.integers(-128, 128, (products.YARDSTICK_ROWS + 5, 3)).astype(np.int8)
    right, found = random.uniform(-1, 1, (3, 7)), []

    def multiplied(a: NDArray[np.float64], b: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        found.append(a @ b)
        assert out.shape == found[-1].shape

    monkeypatch.setattr(_core, "double_gemm", multiplied)
    seconds = products.gemm_side(left, right)(1)
    assert len(seconds) == 1 and len(found) == 2
    assert np.allclose(np.concatenate(found), left @ right)
