"""docs/bench.md lists every field that benchmarks print: here those of rows that their own tests do not check."""

from __future__ import annotations

from typing import Any

import pytest

import cipherblas_bench as bench
from cipherblas_bench import harness
from cipherblas_bench.primitives import CASES
from tests.support import documents
from tests.support.bench_fields import OTHERS, PAGE, REQUIRED, check_fields, listed

pytestmark = [
    pytest.mark.encrypted,
    pytest.mark.usefixtures("fewest_runs"),
    pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning"),
]
BRIEF = 1e-4  # seconds per side: the least number of runs


def test_no_field_is_listed_twice() -> None:
    found = listed("field")
    assert len(found) == len(set(found))


def test_common_fields_are_listed() -> None:
    assert set(harness.REQUIRED) == REQUIRED
    assert set(harness.FIELDS) - REQUIRED <= OTHERS
    assert not REQUIRED & OTHERS


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(lambda: bench.run_crossover([4], kinds=["pc"], budget=BRIEF), id="crossover"),
        pytest.param(lambda: bench.run_crossover([4], limit=0.0, budget=BRIEF), id="crossover estimate"),
        pytest.param(lambda: bench.run_masks(sizes=[4], budget=BRIEF), id="masks"),
        pytest.param(lambda: bench.run_nn_counts(["8x4", "8x8"]), id="nn counts"),
        pytest.param(lambda: bench.run_nn(["Conv1"], budget=BRIEF, limit=0.0), id="nn"),
        pytest.param(lambda: bench.run_distributed([(8, 9, 10)], [2], rounds=1, algorithm="e2dm"), id="distributed"),
        pytest.param(lambda: bench.run_fhe4dmm(["Slim"], [2], slots=256, rounds=1, sharings=["4d"]), id="fhe4dmm"),
    ],
)  # fmt: skip
def test_fields_of_rows_are_listed(rows: Any) -> None:
    check_fields(rows())


def test_cases_are_named() -> None:
    text = documents.prose(PAGE)
    assert all(f"`{case}`" in text for case in CASES)
