"""`cipherblas bench crossover` on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest


def test_rows_are_printed(crossover_rows: str) -> None:
    rows = [json.loads(line) for line in crossover_rows.splitlines()]
    assert [(row["d"], row["form"]) for row in rows] == [(4, "blocks"), (4, "rows")]
    assert all(row["estimate"] for row in rows)


def test_rows_are_read_tabled_and_drawn(invoke: Any, crossover_rows: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(crossover_rows, encoding="utf-8")
    given = ("bench", "crossover", "--rows", tmp_path / "rows.jsonl")
    table = invoke(*given, "--markdown", "--plot", tmp_path / "picture.png")
    assert table.exit_code == 0 and table.stdout.startswith("| secret × secret, d |")
    assert "| 4 | GEMM | ~" in table.stdout and "wrote" in table.stderr
    assert (tmp_path / "picture.png").stat().st_size > 1000
    assert invoke(*given, "--json", "-q").stdout == crossover_rows
    assert "bench crossover" in invoke(*given).stdout


def test_a_picture_without_matplotlib_is_refused_before_the_work(
    invoke: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = invoke("bench", "crossover", "--rows", tmp_path / "none", "--plot", tmp_path / "picture.png")
    assert result.exit_code == 1 and "pip install matplotlib" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_read(invoke: Any) -> None:
    for text in ("0", "64,", "64;128", "x"):
        result = invoke("bench", "crossover", "--sizes", text)
        assert result.exit_code == 2 and "expected dimensions" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an empty file"),
        ("{", "expected a JSON object"),
        ('{"bench": "cc"}', "a row of bench crossover"),
        ('{"bench": "crossover", "kind": "cc", "d": "4"}', "field 'd' (expected int, got '4')"),
    ],
)
def test_other_files_are_refused(invoke: Any, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "rows").write_text(text, encoding="utf-8")
    result = invoke("bench", "crossover", "--rows", tmp_path / "rows")
    assert result.exit_code == 1 and said in result.stderr
    result = invoke("bench", "crossover", "--rows", tmp_path / "none")
    assert result.exit_code == 1 and "Cannot read" in result.stderr


def test_one_form_of_output(invoke: Any) -> None:
    assert invoke("bench", "crossover", "--json", "--markdown").exit_code == 2
