"""`cipherblas bench e2dm-study` on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import cipherblas._core as _core
from cipherblas_bench.cli.bench_options import interpreters, parse_sizes


@pytest.fixture(scope="session")
def study_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows that the command printed: ours alone, at two d, on one instruction set."""
    from typer.testing import CliRunner

    from cipherblas.cli.app import app

    arguments = [
        "bench",
        "e2dm-study",
        "--sizes",
        "2:3",
        "--limit",
        "0",
        "--isa",
        _core.isas()[-1],
        "--json",
        "-q",
    ]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    path = tmp_path_factory.mktemp("study") / "rows.jsonl"
    path.write_text(done.stdout, encoding="utf-8")
    return path


@pytest.mark.encrypted
def test_rows_are_measured_read_tabled_and_drawn(invoke: Any, study_rows: Path, tmp_path: Path) -> None:
    stored = study_rows.read_text(encoding="utf-8")
    assert [json.loads(line)["d"] for line in stored.splitlines()] == [2, 3]
    given = ("bench", "e2dm-study", "--rows", study_rows)
    text = invoke(*given, "--markdown", "--plot", tmp_path / "picture.png")
    assert text.exit_code == 0 and "### Total" in text.stdout and "### Seconds: step 1.1, U_σ" in text.stdout
    assert "| in the study | published | here |" in text.stdout and "wrote" in text.stderr
    assert (tmp_path / "picture.png").read_bytes()[:4] == b"\x89PNG"
    assert invoke(*given, "--json", "-q").stdout == stored
    plain = invoke(*given).stdout
    assert "Total" in plain and "| --- |" not in plain


@pytest.mark.encrypted
def test_rows_that_lack_a_stage_are_refused(invoke: Any, study_rows: Path, tmp_path: Path) -> None:
    row = json.loads(study_rows.read_text(encoding="utf-8").splitlines()[0])
    del row["stages"]["step_2"]
    (tmp_path / "rows").write_text(json.dumps(row), encoding="utf-8")
    result = invoke("bench", "e2dm-study", "--rows", tmp_path / "rows")
    assert result.exit_code == 1 and "lacks a stage" in result.stderr and "step_2" in result.stderr
    (tmp_path / "rows").write_text('{"bench": "cc"}', encoding="utf-8")
    result = invoke("bench", "e2dm-study", "--rows", tmp_path / "rows")
    assert result.exit_code == 1 and "a row of bench e2dm-study" in result.stderr


def test_a_peer_without_its_library_is_refused_before_anything_is_measured(
    invoke: Any, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')  # no packages
    python.chmod(0o755)
    arguments = ("bench", "e2dm-study", "--sizes", "2", "--peer", "seal", "--peer-python", f"seal={python}")
    result = invoke(*arguments, "--json")
    assert result.exit_code == 1 and result.stdout == ""
    assert "does not tell what it has of seal" in " ".join(result.stderr.split())


def test_ranges_of_sizes_are_read() -> None:
    assert parse_sizes("2:5") == (2, 3, 4, 5)
    assert parse_sizes("64,2:4,3,24:24") == (2, 3, 4, 24, 64)


@pytest.mark.parametrize("text", ["5:2", "2:", ":3", "1:2:3", "2;3"])
def test_other_ranges_are_refused(invoke: Any, text: str) -> None:
    result = invoke("bench", "e2dm-study", "--sizes", text)
    assert result.exit_code == 2 and "expected dimensions" in " ".join(result.stderr.split())


def test_interpreters_are_for_one_peer_or_for_all(invoke: Any) -> None:
    peers = ["seal", "openfhe"]
    assert interpreters(["/a", "openfhe=/b"], peers) == {"seal": "/a", "openfhe": "/b"}
    assert interpreters(None, peers) == {}
    result = invoke("bench", "e2dm-study", "--peer", "seal", "--peer-python", "openfhe=/b")
    assert result.exit_code == 2 and "expected an interpreter" in " ".join(result.stderr.split())
