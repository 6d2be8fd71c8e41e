"""Tables and statements of `bench e2dm-study`, from rows whose seconds are known polynomials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cipherblas_bench.peers.e2dm_stages import DIAGONAL_STAGES
from cipherblas_bench.report import e2dm_statements, e2dm_study
from cipherblas_bench.report.e2dm_picture import stages_figure
from cipherblas_bench.report.e2dm_study import STAGES, Study

SIZES = (*range(2, 20), 24, 64)


def row(name: str, d: int, seconds: float) -> dict[str, Any]:
    """One whose stages take equal parts."""
    part = seconds / (len(STAGES) - 1)
    stage = {"seconds": part, "mean": part, "min": part, "max": part, "deviation": 0.0}
    return {
        "bench": "e2dm-study", "algorithm": name, "d": d, "seconds": seconds, "seconds_mean": seconds,
        "seconds_deviation": 0.0, "runs": 3, "error": 1e-6, "stages": dict.fromkeys(STAGES, stage),
        "threads": 1, "machine": "none",
    }  # fmt: skip


def rows(**of: Callable[[int], float]) -> list[dict[str, Any]]:
    return [row(name.replace("_", " "), d, seconds(d)) for name, seconds in of.items() for d in SIZES]


LINES = rows(ours_best=lambda d: 0.01 * d, seal=lambda d: 0.12 * d, openfhe=lambda d: 0.1 * d + 0.02)


def found(given: list[dict[str, Any]], word: str) -> e2dm_statements.Statement:
    (one,) = [each for each in e2dm_statements.statements(Study.of(given)) if word in each.said]
    return one


def test_ratios_are_of_the_study_alone() -> None:
    study = Study.of(LINES)
    assert (study.ours, study.reference, study.sizes) == ("ours best", "openfhe", sorted(SIZES))
    assert study.ratios("seal", "ours best") == pytest.approx(dict.fromkeys(SIZES, 12.0))
    assert max(study.within(study.ratios("seal", "openfhe"))) == 19
    assert "12" in e2dm_study.totals(study)


def test_lines_need_no_cubic_and_are_extrapolated() -> None:
    study = Study.of(LINES)
    assert found(LINES, "from degree 3 on").holds is False
    assert "from degree 1 on" in found(LINES, "from degree 3 on").found
    assert found(LINES, "high precision").holds is True
    assert "| seal | 64 | 7680 | 7680 (+0 %) | 7680 (+0 %) |" in e2dm_study.extrapolated(study).replace(
        "-0 %", "+0 %"
    )
    assert "Degree 1 is the least" in e2dm_study.fitted(study)


def test_every_figure_of_the_study_has_two_panels() -> None:
    pytest.importorskip("matplotlib")
    figure = stages_figure(Study.of(LINES))
    assert len(figure.axes) == 22
    assert [axis.get_title() for axis in figure.axes[:2]] == ["encode U_σ, ms", "times openfhe"]
    times = {line.get_color(): line.get_ydata()[0] for line in figure.axes[21].lines[:2]}
    assert min(times.values()) == pytest.approx(0.02 / 0.22)  # the total, at d = 2


def test_the_product_by_diagonals_stands_beside() -> None:
    """Of the rows that have it: counts by their formulas, and ratios of medians."""
    assert e2dm_study.by_diagonals(Study.of(LINES)) == ""
    one = row("seal", 4, 12.0)
    half = {name: {**one["stages"]["step_3"], "seconds": 0.5} for name in DIAGONAL_STAGES}
    text = e2dm_study.by_diagonals(Study.of([{**one, "rotations": 18, "stages": {**one["stages"], **half}}]))
    assert "| 4 | seal | 2 : 8 | 18 : 12 | 4 : 16 | 2000 : 500 (0.25) | 4000 : 1000 (0.25) |" in text


def test_cubics_that_end_are_found_out() -> None:
    """Cubic up to 19 and a line from there on: the fit is good, and what it says of 64 is not."""
    bent = rows(seal=lambda d: 0.001 * d**3 if d < 20 else 0.3 * d, openfhe=lambda d: 0.002 * d**3)
    assert found(bent, "from degree 3 on").holds is False  # R² of a parabola is above 0.99 already
    assert found(bent, "high precision").holds is False
    assert "at d = 64" in found(bent, "high precision").found
    assert found(bent, "2.741").found == "of the cubics: 0.5"
    assert found(bent, "as long in all").holds is False


def test_verdicts_follow_the_rows() -> None:
    assert found(LINES, "asked for").holds is True
    assert found(LINES, "as long in all").holds is True and found(LINES, "0.934").holds is False
    assert found(LINES, "69.6").holds is False
    slow = rows(ours_best=lambda d: 0.01 * d + 0.01, seal=lambda d: 0.12 * d)
    assert found(slow, "asked for").holds is False
    assert "at 4" in found(slow, "asked for").found


def test_the_printed_averages_are_not_those_of_the_printed_cubics() -> None:
    one = found([], "on average")
    assert one.holds is False
    assert "PALISADE-Windows 1.71, SEAL-Linux 1.67, SEAL-Windows 1.32" in one.found


def test_rows_of_one_library_give_what_they_can() -> None:
    alone = rows(ours_best=lambda d: 0.01 * d)
    text = e2dm_study.e2dm_markdown(alone)
    assert "### Total" in text and "Ratios by stage" not in text
    assert [one.said for one in e2dm_statements.statements(Study.of(alone))]
    few = [row("ours best", 2, 0.1)]
    assert "### Fits" not in e2dm_study.e2dm_markdown(few)
