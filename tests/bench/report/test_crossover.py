"""Table and picture of `bench crossover`, from rows as they are printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from cipherblas.common.errors import StorageError
from cipherblas_bench import report
from cipherblas_bench.report import crossover


def row(kind: str, d: int, form: str, chosen: str, seconds: float, measured: bool = True) -> dict[str, Any]:
    found = {
        "bench": "crossover", "kind": kind, "d": d, "form": form, "chosen": chosen, "threads": 1,
        "machine": "A processor, 2 cores, scalar, 8 GiB, Linux 1", "gemm_seconds": d**3 * 1e-9,
        "algorithm": "skewed" if form == "blocks" else "gemm", "key_bytes": 1 << 20, "upload_bytes": 2048,
    }  # fmt: skip
    if measured:
        return found | {"seconds": seconds, "peak_bytes": 3 << 20, "relative_error": 1.24e-5}
    return found | {"predicted_seconds": seconds, "predicted_peak_bytes": 5 << 20, "estimate": True}


ROWS = [
    row("cc", 64, "blocks", "blocks", 0.01),
    row("cc", 64, "rows", "blocks", 0.5),
    row("cc", 1024, "blocks", "rows", 250.0, measured=False),
    row("cc", 1024, "rows", "rows", 2.0),
    row("pc", 64, "rows", "rows", 0.001),
]


def test_markdown_marks_estimates_and_choices() -> None:
    first, second = report.crossover_markdown(ROWS).split("\n\n| ")
    lines = first.splitlines()
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1
    assert lines[0].startswith("| secret × secret, d |")
    assert lines[2] == "| 64 | **slots (skewed)** | 0.010 | 38 | 1.0 MiB | 2.0 KiB | 3.0 MiB | 1.2e-05 |"
    assert lines[4] == "| 1024 | slots (skewed) | ~250 | ~233 | 1.0 MiB | 2.0 KiB | ~5.0 MiB |  |"
    assert lines[5].startswith("| 1024 | **GEMM** | 2.0 | 1.9 |")
    assert lines[-1] == "The planner switches from slots to GEMM between d = 64 and d = 1024."
    assert second.startswith("clear int8 × secret, d") and second.strip().endswith(
        "The planner takes GEMM throughout."
    )


def test_markdown_of_what_no_plan_reaches() -> None:
    kept = ("kind", "d", "form", "gemm_seconds", "threads", "machine")
    refused = {name: ROWS[0][name] for name in kept} | {"skipped": "no ring", "estimate": False}
    text = report.crossover_markdown([refused])
    assert "| 64 | slots | refused |" in text and "a plan for none of these" in text


def test_estimates_are_hollow_and_measurements_filled() -> None:
    axis = Figure().subplots()
    crossover._line(axis, "cc", "blocks", ROWS[:1] + ROWS[2:3])
    line, filled, hollow, _ = axis.get_lines()
    assert np.array_equal(line.get_xydata(), [[64, 0.01], [1024, 250.0]])
    assert np.array_equal(filled.get_xydata(), [[64, 0.01]])
    assert np.array_equal(hollow.get_xydata(), [[1024, 250.0]])
    assert to_rgba(filled.get_markerfacecolor()) == to_rgba(crossover.COLOURS["cc"])
    assert to_rgba(hollow.get_markerfacecolor()) == to_rgba("white")


def test_picture_is_written_whole(tmp_path: Path) -> None:
    report.draw_crossover(tmp_path / "picture.png", ROWS)
    content = (tmp_path / "picture.png").read_bytes()
    assert content.startswith(b"\x89PNG") and content.endswith(b"IEND\xaeB`\x82") and len(content) < 150_000
    with pytest.raises(StorageError):
        report.draw_crossover(tmp_path / "missing" / "picture.png", ROWS)
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]


def test_the_switch_is_drawn_halfway() -> None:
    axis = Figure().subplots()
    crossover._switches(axis, ROWS)
    (line,) = axis.get_lines()
    assert list(line.get_xdata()) == [256.0, 256.0] and "secret × secret" in axis.texts[0].get_text()
