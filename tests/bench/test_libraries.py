"""`bench peers`: tasks in the clear, environments by pip, and rows that say why a library is not there."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas_bench as bench
from cipherblas_bench import libraries
from cipherblas_bench.peers import PeerError, environments, tasks
from cipherblas_bench.peers.environments import Environment, Package
from cipherblas_bench.peers.library import Slots

N = 8192
needs_seal = pytest.mark.skipif(
    importlib.util.find_spec("seal") is None, reason="seal-python is not installed"
)


def in_the_clear(kind: str, d: int) -> tuple[Any, Slots]:
    made: list[Slots] = []

    def make(request: dict[str, Any], steps: set[int]) -> Slots:
        made.append(Slots(N // 2, steps))
        return made[0]

    return tasks.task({"task": kind, "d": d, "n": N}, make), made[0]


@pytest.mark.parametrize("d", [1, 2, 8, 256, 1024])
def test_a_matrix_times_a_vector_by_diagonals(d: int) -> None:
    """d diagonals, about 2·√d rotations, keys for no others."""
    found, clear = in_the_clear("vector", d)
    assert found.error <= 8 * d * np.finfo(float).eps
    assert clear.counts["plain_products"] == d
    assert clear.counts["rotations"] == len(clear.steps) <= 3 * int(np.sqrt(d))


@pytest.mark.parametrize("d", [2, 4, 32, 64])
def test_two_matrices_by_baby_steps(d: int) -> None:
    """Right, of depth 2 (masks are refused at another level), and with fewer rotations than without baby steps."""
    found, clear = in_the_clear("square", d)
    plain, _ = in_the_clear("stages", d)
    assert found.error <= 8 * d * np.finfo(float).eps
    assert clear.counts["products"] == d
    assert d < 8 or clear.counts["rotations"] < plain.describe()["rotations"]


def test_what_a_task_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="got 3"):
        in_the_clear("vector", 3)
    with pytest.raises(ValueError, match="got 6"):
        in_the_clear("square", 6)


# --- environments ---


def packages(monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    package = Package(**{"requirements": (), "imports": "import json", "versions": (here,), **changed})
    monkeypatch.setattr(environments, "PACKAGES", {"it": package})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Environment]:
    """A folder with an environment that holds pip, which takes seconds to make."""
    folder = tmp_path_factory.mktemp("environments")
    with pytest.MonkeyPatch.context() as patched:
        packages(patched, requirements=("pip",))  # which is there already: nothing is fetched
        return folder, environments.environment("it", folder)


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch, made: tuple[Path, Environment]) -> None:
    """Where `venv` is called, that environment is copied."""
    failure = environments._failure

    def copy(command: list[str]) -> str | None:
        if command[1:3] != ["-m", "venv"]:
            return failure(command)
        shutil.copytree(made[0] / "it", command[-1], symlinks=True)
        return None

    monkeypatch.setattr(environments, "_failure", copy)


def test_an_environment_is_made_once(monkeypatch: pytest.MonkeyPatch, made: tuple[Path, Environment]) -> None:
    folder, first = made
    assert first.python is not None and first.reason == "" and Path(first.python).exists()
    packages(monkeypatch, requirements=("pip",))
    (folder / "it" / "kept").touch()
    assert environments.environment("it", folder) == first
    assert (folder / "it" / "kept").exists()


@pytest.mark.usefixtures("copied")
def test_the_reason_of_pip_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packages(monkeypatch, requirements=("./nothing-of-the-kind.whl",))
    found = environments.environment("it", tmp_path)
    assert found.python is None and "nothing-of-the-kind" in found.reason
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("copied")
def test_what_installs_and_cannot_be_imported_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    packages(monkeypatch, requirements=("pip",), imports="import nothing_of_the_kind")
    found = environments.environment("it", tmp_path)
    assert found.python is None and "No module named 'nothing_of_the_kind'" in found.reason


def test_interpreters_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packages(monkeypatch, versions=("3.99", "3.98"))
    found = environments.environment("it", tmp_path)
    assert found.python is None
    assert found.reason.count("not found on this machine") == 2 and "CPython 3.98" in found.reason


# --- rows ---


def rows(monkeypatch: pytest.MonkeyPatch, there: Mapping[str, Environment], **options: Any) -> list[Any]:
    monkeypatch.setattr(libraries, "environment", lambda name, folder: there[name])
    given = {"folder": Path("unused"), "vectors": (), "squares": (), "cases": (), "budget": 0.0, **options}
    return list(bench.run_peers(libraries=list(there), **given))


def test_a_library_that_does_not_install_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "CPython 3.10: No matching distribution found for openfhe"
    (row,) = rows(monkeypatch, {"openfhe": Environment(None, reason)})
    assert (row["case"], row["algorithm"], row["skipped"]) == ("installed", "openfhe", reason)
    assert "build" not in row


def test_unknown_libraries_and_primitives_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="library: expected some of tenseal, seal"):
        rows(monkeypatch, {"helib": Environment(None, "")})
    with pytest.raises(ValueError, match="primitive: expected some of encode"):
        rows(monkeypatch, {}, cases=["turn"])


@needs_seal
@pytest.mark.encrypted
@pytest.mark.usefixtures("fewest_runs")
def test_rows_beside_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"seal": Environment(sys.executable, "")}
    installed, *found = rows(monkeypatch, there, vectors=(16,), squares=(4,), cases=("rotate", "rescale"))
    assert installed["build"]["distribution"].startswith("seal-python ")
    assert [(row["case"], row["library"]) for row in found] == [
        *(("16x16 · vector of 16", name) for name in ("cipherblas", "seal")),
        *(("4x4x4", name) for name in ("cipherblas", "cipherblas", "seal")),
        *((case, name) for case in ("rotate", "rescale") for name in ("cipherblas", "seal")),
    ]
    for row in found:
        assert row["error"] < 1e-2 and row["seconds"] > 0 and row["params"]["n"] >= 1024
        if row["library"] == "seal":
            least = min(
                r["seconds"] for r in found if r["case"] == row["case"] and r["library"] == "cipherblas"
            )
            assert row["times_ours"] == row["seconds"] / least
            assert row["params"]["logq"] + row["params"]["logp"] <= 218


@needs_seal
@pytest.mark.encrypted
@pytest.mark.usefixtures("fewest_runs")
def test_what_takes_too_long_is_predicted_and_what_cannot_be_done_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = {"seal": Environment(sys.executable, "")}
    way = libraries.WAYS["seal"]["square"]
    probed = libraries.Way(way.worker, way.request, way.title, probe=(2, 3))
    monkeypatch.setattr(libraries, "WAYS", {"seal": {**libraries.WAYS["seal"], "square": probed}})
    predicted = rows(monkeypatch, there, squares=(8,), limit=1e-3)[-1]
    assert predicted["estimated"] and predicted["predicted_seconds"] > 1e-3 and "seconds" not in predicted
    refused = rows(monkeypatch, there, vectors=(12,))[-1]
    assert "got 12" in refused["skipped"] and "seconds" not in refused


@needs_seal
@pytest.mark.encrypted
@pytest.mark.usefixtures("fewest_runs")
def test_a_wrong_result_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "TOLERANCE", 1e-12)
    with pytest.raises(PeerError, match="expected an error of at most"):
        rows(monkeypatch, {"seal": Environment(sys.executable, "")}, vectors=(16,))
