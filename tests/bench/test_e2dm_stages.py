"""The description of E2DM that all libraries of the study run: right in the clear, and as many operations as
published."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np
import pytest

import cipherblas_bench as bench
from cipherblas import _core
from cipherblas_bench import e2dm_study
from cipherblas_bench.peers import PeerError, build_of
from cipherblas_bench.peers.build import instruction_sets
from cipherblas_bench.peers.e2dm_stages import BESIDE, DIAGONAL_STAGES, STAGES, Layout, Stages, counts
from cipherblas_bench.peers.library import Slots
from tests.support.bench_fields import check_fields

N = e2dm_study.N
ALL = (*e2dm_study.SIZES, *e2dm_study.BEYOND)
OPENFHE = os.environ.get("CIPHERBLAS_OPENFHE_PYTHON")
HAVE_SEAL = importlib.util.find_spec("seal") is not None


def in_the_clear(d: int) -> Stages:
    return Stages({"d": d, "n": N}, lambda request, steps: Slots(N // 2, steps))


@pytest.mark.parametrize("d", ALL)
def test_products_are_right_with_the_keys_of_the_layout(d: int) -> None:
    """In the clear nothing is rounded: no more than the rounding of float64 over d products."""
    assert in_the_clear(d).error <= 4 * d * np.finfo(float).eps


def test_the_product_by_diagonals_is_right_and_has_the_published_counts() -> None:
    """Halevi and Shoup: d (d - 1) rotations and d^2 products, whose error is kept like that of E2DM."""
    for d in (2, 3, 8):
        both, alone = in_the_clear(d), counts(d, N)
        found = both.describe()
        assert found["rotations"] - alone["rotations"] == d * (d - 1)
        assert found["products"] - alone["products"] == d * d
        (lap,) = both.laps(1)
        assert set(lap) == {*STAGES, *BESIDE}
        both.B[0, 0] += 1  # both products see it, whatever was packed before
        assert both.laps(1) and both.error <= 4 * d * np.finfo(float).eps
        both.laps(2)
        assert set(both.laps(1)[0]).isdisjoint(DIAGONAL_STAGES)  # a few runs have it


@pytest.mark.parametrize("d", ALL)
def test_counts_are_the_published_ones(d: int) -> None:
    """Step 1.1: 2d - 1 diagonals, 1.2: d; step 2: 2 for each k and a rotation more; step 3: d products.

    A rotation by 0 is none, and where the slots are no cycle U_τ b takes one rotation more.
    """
    found = counts(d, N)
    repeated = (N // 2) % (d * d) != 0
    assert found["plain_products"] == (2 * d - 1) + d + 2 * (d - 1)
    assert found["rotations"] == (2 * d - 2) + (d - 1) + 2 * (d - 1) + (d - 1) + repeated
    assert found["products"] == d
    assert found["encoded"] == (2 * d - 1) + d + 2 * (d - 1) + (d - 1)


@pytest.mark.parametrize("d", [3, 4, 45])
def test_diagonals_are_those_of_the_matrices(d: int) -> None:
    """Eq. 5 to 8 entry by entry, of the slots that hold the result."""
    layout = Layout(d, N // 2)
    i, j = np.divmod(np.arange(d * d), d)
    wanted = {
        "sigma": (layout.sigma(), d * i + (i + j) % d),
        "tau": (layout.tau(), d * ((i + j) % d) + j),
        "v": (layout.shift_columns(2 % d), d * i + (j + 2 % d) % d),
    }
    for diagonals, source in wanted.values():
        ones = sum(mask[: d * d] for mask in diagonals.values())
        assert np.array_equal(ones, np.ones(d * d))
        for step, mask in diagonals.items():
            place = np.flatnonzero(mask[: d * d])
            assert np.array_equal((place + step) % (d * d), source[place])


def test_what_does_not_fit_is_refused() -> None:
    for d in (46, 65):
        with pytest.raises(ValueError, match=f"got {d}"):
            Layout(d, N // 2)
    Layout(64, N // 2)


def rows(**options: Any) -> list[dict[str, Any]]:
    return list(bench.run_e2dm_study((2, 4), limit=0.0, **options))


@pytest.mark.encrypted
def test_rows_of_ours_on_every_instruction_set() -> None:
    found = rows()
    check_fields(found)
    isas = list(reversed(_core.isas()))
    assert [(row["d"], row["isa"]) for row in found] == [(d, isa) for d in (2, 4) for isa in isas]
    for row in found:
        assert row["params"]["n"] == N and row["params"]["security"] == 128 and row["runs"] == 3
        assert 210 < row["params"]["logq"] + row["params"]["logp"] <= 214
        assert list(row["stages"]) == [*STAGES, *BESIDE]
        assert all(0 < of["min"] <= of["seconds"] <= of["max"] for of in row["stages"].values())
        # The total of a run is the sum of its stages, so that the least total is no less than the sum of the least
        # stages.
        least = sum(row["stages"][stage]["min"] for stage in STAGES)
        assert least * (1 - 1e-9) <= row["seconds_min"] <= row["seconds_mean"] <= row["seconds_max"]
        # Scale 2^38: a fresh error of about 2^9 in a coefficient, 2^15 in a slot, and the roundings of three levels.
        assert row["error"] < 1e-5 * row["d"]


def test_unknown_peers_and_instruction_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="peer: expected some of seal, openfhe, got palisade"):
        rows(peers=["palisade"])
    with pytest.raises(ValueError, match="instruction set: expected some of"):
        rows(isas=["mmx"])
    with pytest.raises(ValueError, match="got 46"):
        next(bench.run_e2dm_study((46,)))


@pytest.mark.encrypted
@pytest.mark.parametrize(
    ("peer", "python"),
    [
        pytest.param(
            "seal", None, marks=pytest.mark.skipif(not HAVE_SEAL, reason="seal-python is not installed")
        ),
        pytest.param("openfhe", OPENFHE, marks=pytest.mark.skipif(OPENFHE is None, reason="no openfhe")),
    ],
)
def test_rows_of_a_peer(peer: str, python: str | None) -> None:
    """One d of a cycle, one of none; what was built is read back, and near the published 220 bits."""
    pythons = {} if python is None else {peer: python}
    for row in bench.run_e2dm_study((3, 4), peers=[peer], pythons=pythons, isas=_core.isas()[-1:], limit=0.0):
        assert row["error"] < 1e-4 * row["d"]
        assert 210 < row["params"]["logq"] + row["params"]["logp"] <= 218
        if row["algorithm"] == peer:
            assert row["library"].startswith(peer) and row["build"]["wheel"]


def test_a_library_that_computes_something_wrong_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e2dm_study, "TOLERANCE", 1e-12)
    with pytest.raises(PeerError, match="expected an error of at most"):
        rows(isas=_core.isas()[-1:])


def test_a_library_that_is_not_there_has_no_build() -> None:
    with pytest.raises(PeerError, match="does not tell what it has of nothing_of_the_kind"):
        build_of("nothing_of_the_kind")
    with pytest.raises(PeerError, match="cannot run the interpreter"):
        build_of("numpy", python="/nowhere/python")


def test_instruction_sets_are_read_from_machine_code() -> None:
    """Our core holds code for all sets that it was built for; a distribution without any is described in no time."""
    found = instruction_sets([__import__("pathlib").Path(_core.__file__)])
    if found is None:
        pytest.skip("no objdump")
    if "avx512ifma" in _core.isas():
        assert "AVX-512 IFMA" in found
    assert build_of("typer")["distribution"].startswith("typer ")
