"""Timing, memory and rows of the benchmarks. No test here depends on how fast anything is."""

from __future__ import annotations

import io
import json
import mmap
from pathlib import Path

import pytest
from rich.console import Console

from cipherblas_bench import harness
from cipherblas_bench.harness import Timing, in_turns, peak_memory, repeats_for, row


class Clock:
    """A side whose runs take the seconds that it is told."""

    def __init__(self, name: str, seconds: float, log: list[str]) -> None:
        self.name, self.seconds, self.log = name, seconds, log

    def __call__(self, repeats: int) -> list[float]:
        self.log += [self.name] * repeats
        return [self.seconds] * repeats


def test_timing_is_the_median_per_operation_with_its_spread() -> None:
    timing = Timing.of([4.0, 2.0, 12.0], operations=2)
    assert timing == Timing(2.0, 1.0, 6.0, 3)
    assert timing.fields("peer_") == {"peer_seconds": 2.0, "peer_seconds_min": 1.0, "peer_seconds_max": 6.0}
    assert timing.fields()["runs"] == 3


def test_repeats_fill_the_budget_within_bounds() -> None:
    assert repeats_for(0.01, 1.0, 3, 200) == 100
    assert repeats_for(0.6, 1.0, 3, 200) == 3
    assert repeats_for(0.0, 1.0, 3, 200) == 200


def test_sides_alternate_round_by_round_after_a_warm_up() -> None:
    log: list[str] = []
    ours, theirs = in_turns([Clock("a", 0.1, log), Clock("b", 0.2, log)], budget=1.0)
    assert ours == [0.1] * 10  # five rounds of two
    assert theirs == [0.2] * 5
    assert log == ["a", "b", "a", "b"] + ["a", "a", "b"] * harness.ROUNDS


@pytest.mark.parametrize(("seconds", "runs"), [(harness.SLOW + 1, 3), (harness.VERY_SLOW + 1, 1)])
def test_slow_work_is_run_less_often(seconds: float, runs: int) -> None:
    log: list[str] = []
    assert in_turns([Clock("a", seconds, log)], budget=1.0) == [[seconds] * runs]
    assert len(log) == runs


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_peak_memory_sees_what_was_freed_and_forgets_what_came_before() -> None:
    def touch(mebibytes: int) -> None:
        with mmap.mmap(-1, mebibytes << 20) as block:  # goes back to the system at once
            for page in range(0, mebibytes << 20, 4096):
                block[page] = 1

    before = harness.resident_bytes()
    with peak_memory() as large:
        touch(192)
    with peak_memory() as small:
        touch(16)
    assert large.bytes >= before + (180 << 20)
    assert small.bytes <= large.bytes - (100 << 20)


def test_row_orders_fields_and_derives_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "machine_line", lambda: "a machine")
    found = row(
        "cc", "8x8x8", note="last", timing=Timing(0.5, 0.4, 0.6, 3), peer_timing=Timing(2.0, 1.5, 2.5, 3),
        gemm_seconds=0.25, error=None, peer="another library",
    )  # fmt: skip
    assert found["speedup"] == 4.0
    assert found["speedup_of_least"] == 1.5 / 0.4
    assert found["times_gemm"] == 2.0
    assert "error" not in found
    known = [name for name in found if name in harness.FIELDS]
    assert known == [name for name in harness.FIELDS if name in found]
    assert list(found)[-1] == "note"
    printed = json.loads(harness.to_json(found))
    assert printed == found | {name: None for name in harness.REQUIRED if name not in found}
    assert printed["error"] is None and printed["peak_bytes"] is None
    with pytest.raises(ValueError, match="JSON"):
        harness.to_json({"error": float("nan")})


def test_render_leaves_empty_columns_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "machine_line", lambda: "a machine")
    rows = [row("cc", "8x8x8", timing=Timing(0.0123, 0.012, 0.013, 3), error=1.5e-6)]
    text = io.StringIO()
    harness.render(rows, console=Console(file=text, width=160))
    shown = text.getvalue()
    assert "8x8x8" in shown
    assert "12.3 ms (12 ms to 13 ms)" in shown
    assert "1.5e-06" in shown
    assert "a machine" in shown
    assert "peer" not in shown


def test_render_warns_when_the_machine_was_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "machine_line", lambda: "a machine")
    monkeypatch.setattr(harness.os, "cpu_count", lambda: 2)
    for load, warned in ((2.9, False), (3.1, True)):
        monkeypatch.setattr(harness.os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        text = io.StringIO()
        rows = [row("cc", "8x8x8", timing=Timing(1.0, 1.0, 1.0, 1))]
        harness.render(rows, console=Console(file=text, width=160))
        assert ("Ratios mislead" in text.getvalue()) == warned


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.34, "12.3 s"), (0.0123, "12.3 ms"), (4.5e-5, "45 µs"), (2e-8, "20 ns")]
)
def test_seconds_text(seconds: float, text: str) -> None:
    assert harness.seconds_text(seconds) == text
