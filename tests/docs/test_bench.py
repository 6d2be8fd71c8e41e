"""docs/bench.md lists every field that the benchmarks print."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import cipherblas_bench as bench
from cipherblas.crypto.params import Parameters
from cipherblas.networks import from_onnx
from cipherblas.planner.rings.modulus_chains import chain
from cipherblas_bench import bootstrap, harness, mambo
from cipherblas_bench.networks import NetworkInputs
from cipherblas_bench.primitives import CASES
from tests.support import documents
from tests.support.onnx_models import deep

pytestmark = [
    pytest.mark.encrypted,
    pytest.mark.usefixtures("fewest_runs"),
    pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning"),
]
PAGE = documents.ROOT / "docs" / "bench.md"
BRIEF = 1e-4  # seconds per side: the least number of runs


def toy() -> Parameters:
    """For bootstrapping. INSECURE."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return chain(1 << 8, 2, 4).parameters(0, insecure=True)


def bootstraps() -> list[harness.Row]:
    """One by one, two together, and pairs that share an a part."""
    ours = bootstrap.Refreshes(toy(), real=True)
    single = bootstrap.measured(ours, 1, BRIEF, in_a_row=1)
    batches = [
        bootstrap.of_a_batch(ours, number, 1, BRIEF, single["seconds"], sharing)
        for number, sharing in ((2, None), (6, bootstrap.SharedRefreshes(ours, 6)))
    ]
    return [single, *batches]


def of_a_network() -> Iterable[harness.Row]:
    """With all that a row can have: labels, later images, and published figures."""
    network, values = from_onnx(deep()), np.random.default_rng(1).uniform(-1, 1, (20, 3, 32, 32))
    inputs = NetworkInputs(values[:2], network(values[:2]).argmax(axis=1), values)
    toy = {"security": 0, "insecure": True, "ring_degree": 4096}
    for options in ({"error": 2.0, "degree": 7}, {"agreement": 0.5, "degree": 7}):
        yield from bench.run_networks({"resnet20": network}, inputs, **options, **toy)


def listed(title: str) -> set[str]:
    return {field for row in documents.table(PAGE, title) for field in re.findall(r"`(\w+)`", row[title])}


REQUIRED, OTHERS = listed("field of every row"), listed("field")


def test_no_field_is_listed_twice() -> None:
    found = [
        field for row in documents.table(PAGE, "field") for field in re.findall(r"`(\w+)`", row["field"])
    ]
    assert len(found) == len(set(found))


def test_common_fields_are_listed() -> None:
    assert set(harness.REQUIRED) == REQUIRED
    assert set(harness.FIELDS) - REQUIRED <= OTHERS
    assert not REQUIRED & OTHERS


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(lambda: bench.run_cc([(4, 3, 2)], budget=BRIEF), id="cc"),
        pytest.param(lambda: bench.run_cc([(4, 3, 2)], budget=BRIEF, one_ciphertext=True), id="cc one ciphertext"),
        pytest.param(lambda: bench.run_cc([(4, 3, 2)], budget=BRIEF, exact="int8"), id="cc exact"),
        pytest.param(lambda: bench.run_pc([(4, 3, 2)], budget=BRIEF, exact=True), id="pc exact"),
        pytest.param(lambda: bench.run_bae([8], forms=["to slots"], budget=BRIEF), id="pc suite"),
        pytest.param(lambda: bench.run_bae([256], forms=["rlwe rows"], limit=0.0), id="pc suite predicted"),
        pytest.param(lambda: bench.run_linear_transform(sets=["A"], diagonals=4, budget=BRIEF), id="transform"),
        pytest.param(lambda: bench.run_primitives(ring_degrees=[8192], cases=["rescale"], budget=BRIEF), id="core"),
        pytest.param(lambda: bench.run_roofline(ring_degrees=[8192], cases=["rotate"], budget=BRIEF), id="roofline"),
        pytest.param(lambda: bench.run_transpose([(8, 8)], policies=["light"], budget=BRIEF), id="transpose"),
        pytest.param(lambda: bench.run_ntt(isas=["scalar"], ring_degrees=[4096], budget=BRIEF), id="ntt"),
        pytest.param(lambda: bench.run_crossover([4], kinds=["pc"], budget=BRIEF), id="crossover"),
        pytest.param(lambda: bench.run_crossover([4], limit=0.0, budget=BRIEF), id="crossover estimate"),
        pytest.param(lambda: bench.run_masks(sizes=[4], budget=BRIEF), id="masks"),
        pytest.param(lambda: bench.run_nn_counts(["8x4", "8x8"]), id="nn counts"),
        pytest.param(lambda: bench.run_nn_published(["MVM1"]), id="nn published"),
        pytest.param(lambda: bench.run_nn(["Conv1"], limit=0.0, published_ring=True), id="nn published ring"),
        pytest.param(lambda: bench.run_nn(["Conv1"], budget=BRIEF, limit=0.0), id="nn"),
        pytest.param(lambda: of_a_network(), id="nn models"),
        pytest.param(lambda: bench.run_model(["layer 10x784"], budget=BRIEF), id="model"),
        pytest.param(lambda: bootstraps(), id="bootstrap"),
        pytest.param(lambda: [mambo.measured(mambo.Fused(toy(), 2, 1), 4, 1, 1.0, 1.0)], id="mambo"),
        pytest.param(lambda: bench.run_e2dm_study([2], isas=["scalar"], limit=0.0), id="e2dm study"),
        pytest.param(
            lambda: bench.run_peers(
                libraries=["seal"], folder=documents.ROOT, pythons={"seal": "/nowhere"},
                vectors=[8], squares=[2], cases=["rescale"], budget=BRIEF,
            ),
            id="peers",
        ),
        pytest.param(lambda: bench.run_gemm([(8, 9, 10)], budget=BRIEF), id="gemm"),
        pytest.param(lambda: bench.run_distributed([(8, 9, 10)], [1, 2], rounds=1, algorithm="e2dm"), id="distributed"),
        pytest.param(lambda: bench.run_fhe4dmm(["Slim"], [1, 2], slots=256, rounds=1, sharings=["4d"]), id="fhe4dmm"),
    ],
)  # fmt: skip
def test_fields_of_rows_are_listed(rows: Any) -> None:
    found: Iterable[dict[str, Any]] = rows()
    names = {name for row in found for name in json.loads(bench.to_json(row))}
    assert REQUIRED <= names <= REQUIRED | OTHERS


def test_cases_are_named() -> None:
    text = documents.prose(PAGE)
    assert all(f"`{case}`" in text for case in CASES)
