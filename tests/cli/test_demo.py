"""The demonstration, small."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

from cipherblas.cli.demo import flow
from cipherblas.cli.demo.data import PIXEL_BOUND, load_digits

SMALL = ["demo", "--queries", "20", "--gallery", "30"]


def test_digits() -> None:
    digits = load_digits(20, 30)
    assert digits.queries.shape == (20, 64) and digits.gallery.shape == (30, 64)
    np.testing.assert_allclose(np.linalg.norm(digits.queries, axis=1), 1)
    assert digits.pixels.min() == 0 and digits.pixels.max() <= PIXEL_BOUND
    assert (np.diff(digits.query_digits) >= 0).all()
    found = (digits.weights @ digits.pixels).argmax(axis=0)
    assert np.mean(found == digits.query_digits) > 0.7


def test_demo_prints_plan_times_memory_error(invoke: Any, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    result = invoke(*SMALL, "-o", picture)
    assert result.exit_code == 0, result.stderr
    words = [
        "queries @ gallery.T",
        "weights @ pixels",
        "algorithm",
        "server computes",
        "server's peak memory",
    ]
    for word in [*words, "largest error", "recognised", "Picture:"]:
        assert word in result.stdout
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[0] > 500 and pixels.shape[1] > 1000 and pixels[..., :3].std() > 0.1


def test_demo_as_json_with_a_server_that_gets_public_files_only(
    invoke: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    serve = flow.Job._serve

    def watched(job: Any, folder: Path, *arguments: Any) -> None:
        files = [path for path in folder.rglob("*") if path.is_file()]
        seen.append(sorted(path.relative_to(folder).parts[0] for path in files))
        assert not any(b'"kind":"secret-key"' in path.read_bytes() for path in files)
        serve(job, folder, *arguments)

    monkeypatch.setattr(flow.Job, "_serve", watched)
    result = invoke(*SMALL, "-o", tmp_path / "picture.png", "--json", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert [job["title"] for job in found["jobs"]] == ["encrypted × encrypted", "clear × encrypted"]
    for job in found["jobs"]:
        assert 0 < job["error"] <= job["plan"]["expected_error"] <= job["error_target"]
        assert job["server"]["counts"] == job["plan"]["counts"]
    assert [sorted(set(names)) for names in seen] == [
        ["evaluation", "gallery.ct", "plan.cb", "queries.ct"],
        ["evaluation", "pixels.ct", "plan.cb", "weights.npy"],
    ]


def test_demo_without_scikit_learn(invoke: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    result = invoke(*SMALL, "-o", tmp_path / "picture.png")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Write: pip install scikit-learn" in result.stderr and list(tmp_path.iterdir()) == []


def test_demo_without_matplotlib(invoke: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = invoke(*SMALL, "-o", tmp_path / "picture.png")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        "cipherblas: error: The package matplotlib, which draws pictures, is not installed.\n  Write: pip install "
    )
    assert len(result.stderr.splitlines()) == 3 and list(tmp_path.iterdir()) == []


def test_demo_reports_a_failing_server(invoke: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow.sys, "executable", "/bin/false")
    result = invoke(*SMALL, "-o", tmp_path / "picture.png", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "The server's process failed" in result.stderr and "got 1" in result.stderr
    assert list(tmp_path.iterdir()) == []
