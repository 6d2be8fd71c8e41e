"""What people see."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from rich.console import Console

import cipherblas._core as _core
from cipherblas.common.errors import StorageError
from cipherblas.common.process import peak_bytes
from cipherblas.report import Display, duration, machine_line, plan_table, print_json, size
from cipherblas.report.picture import DemoPicture, draw
from cipherblas.report.tables import comparison_table


def text_of(table: object) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_notes_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    Display().note("[bold]1 of 2[/]")  # shown as it is, not as markup
    Display(quiet=True).note("nothing")
    assert capsys.readouterr() == ("", "[bold]1 of 2[/]\n")


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Display().progress("working") as progress:
        progress(1, 2)
        progress(2, 2)
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal() -> None:
    display = Display()
    display.console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with display.progress("[working]") as progress:
        progress(1, 4)
    shown = display.console.file.getvalue()  # type: ignore[attr-defined]
    assert "[working]" in shown and "25%" in shown


class Stdout(io.StringIO):
    """Standard output, a terminal or not."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("show", [Display.progress, Display.telling])
def test_bars_leave_stdout_alone(show: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that are printed beneath a bar go where they would go without one; no bar runs through them."""
    for terminal in (True, False):
        for printing in (True, False):
            stdout = Stdout(terminal)
            monkeypatch.setattr("sys.stdout", stdout)
            display = Display()
            display.console = Console(file=io.StringIO(), force_terminal=True, width=80)
            with show(display, "working", printing=printing):
                print("a result")
            assert stdout.getvalue() == "a result\n"
            shown = display.console.file.getvalue()  # type: ignore[attr-defined]
            assert ("working" in shown) == (not (printing and terminal))


def test_plan_table_keeps_every_line() -> None:
    shown = text_of(
        plan_table("program    a @ [b]\nblocks     a.rows 4\nnot taken:\n  fame (3 s): slower", "Plan")
    )
    for word in ("program", "a @ [b]", "a.rows 4", "not taken:", "fame (3 s): slower"):
        assert word in shown


def test_comparison_table() -> None:
    shown = text_of(comparison_table("Measured", ["first", "second"], [["time", "1 s", "2 s"]]))
    assert [word in shown for word in ("Measured", "first", "second", "time", "1 s", "2 s")] == [True] * 6


def test_json_is_strict(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [1]})
    assert capsys.readouterr().out == '{\n  "a": [\n    1\n  ]\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        print_json(float("nan"))


def test_units() -> None:
    assert (size(1536), size(3 << 30), duration(0.25), duration(90)) == (
        "1.5 KiB",
        "3.0 GiB",
        "250.0 ms",
        "1.5 min",
    )


def test_peak_memory_grows_with_use() -> None:
    before = peak_bytes()
    block = np.ones(1 << 25)
    assert before > 1 << 20 and peak_bytes() >= min(before, block.nbytes)


def content(count: int, known: int) -> DemoPicture:
    random = np.random.default_rng(2)
    digits = np.sort(random.integers(0, 10, count))
    return DemoPicture(
        queries=random.random((count, 64)),
        gallery=random.random((known, 64)),
        query_digits=digits,
        gallery_digits=np.sort(random.integers(0, 10, known)),
        ciphertext=random.integers(0, 1 << 40, 4096, dtype=np.uint64),
        similarity=random.random((count, known)),
        similarity_errors=1e-7 * random.random((count, known)),
        weights=random.normal(size=(10, 64)),
        scores=np.eye(10)[digits].T,  # every image recognised
        scores_errors=np.zeros((10, count)),
        allowed=1e-4,
        captions=("first", "second"),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("count", "known"), [(1, 1), (12, 7), (200, 90)])
def test_picture(tmp_path: Path, count: int, known: int) -> None:
    draw(tmp_path / "picture.png", content(count, known))
    pixels = matplotlib.image.imread(tmp_path / "picture.png")
    assert pixels.shape[:2] == (946, 1760) and pixels[..., :3].std() > 0.1
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]


def test_picture_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Cannot write"):
        draw(tmp_path / "nowhere" / "picture.png", content(3, 3))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("quiet", [False, True])
def test_a_line_that_says_what_is_tried(quiet: bool) -> None:
    stream = io.StringIO()
    display = Display(quiet=quiet)
    display.console = Console(file=stream, force_terminal=True, width=80)
    with display.telling("planning") as tell:
        tell("skewed, \x1b[2J")
    shown = stream.getvalue()
    assert ("planning: skewed" in shown) is not quiet
    assert "\x1b[2J" not in shown


def test_the_machine_names_its_instruction_set() -> None:
    assert _core.isa() in machine_line()
    assert sys.platform[:5].lower() in machine_line().lower()
