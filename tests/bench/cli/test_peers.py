"""`cipherblas bench peers` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cipherblas_bench.cli.peers import cache
from tests.support.bench_fields import check_fields

REASON = "No matching distribution"


def test_libraries_that_are_not_there_are_reported(invoke: Any, tmp_path: Path) -> None:
    arguments = ("bench", "peers", "--library", "openfhe", "--peer-python", "openfhe=/nowhere/python")
    nothing = ("--vector", "16", "--square", "4", "--case", "none", "--seconds", "0")
    done = invoke(*arguments, *nothing, "--json", "-q")
    assert done.exit_code == 0, done.stderr
    installed, *rows = (json.loads(line) for line in done.stdout.splitlines())
    assert "cannot run the interpreter /nowhere/python" in installed["skipped"]
    assert [row["library"] for row in rows] == ["cipherblas"] * 3
    check_fields([installed, *rows])
    (tmp_path / "rows").write_text(done.stdout, encoding="utf-8")
    text = invoke("bench", "peers", "--rows", tmp_path / "rows", "--markdown", "--plot", tmp_path / "a.png")
    assert "| openfhe | not installed: cannot run" in text.stdout and "| 4x4x4 |" in text.stdout
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_other_rows_are_refused(invoke: Any, tmp_path: Path) -> None:
    row = {
        "bench": "peers",
        "case": "rotate",
        "algorithm": "x",
        "machine": "none",
        "seconds": 1.0,
        "library": "x",
    }
    (tmp_path / "rows").write_text(json.dumps(row), encoding="utf-8")
    result = invoke("bench", "peers", "--rows", tmp_path / "rows")
    assert result.exit_code == 1 and "'seconds_min'" in result.stderr


def test_environments_are_kept_in_the_cache(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache() == tmp_path / "cipherblas" / "peers"
