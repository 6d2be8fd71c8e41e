"""Draws the rows of `bench e2dm-study` and `bench peers`, and writes their tables into two pages.

usage: draw_peers.py [--write] [--pictures FOLDER]

The pages are docs/e2dm-study.md and docs/peers.md. Without arguments it prints the tables. The rows, in docs/measured,
are those of `scripts/measure_performance.py --suite e2dm-study`, `--suite diagonals` and `--suite peers`. Pictures need
matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from cipherblas_bench.report import e2dm_study, peers
from cipherblas_bench.report.e2dm_picture import e2dm_figure, stages_figure
from cipherblas_bench.report.e2dm_statements import statements_markdown
from measured_pages import MEASURED, ROOT, Row, conditions, main, rows

STUDY, DIAGONALS, PEERS = (MEASURED / f"{name}.jsonl" for name in ("e2dm-study", "diagonals", "peers"))
BUSY = 0.3  # cores of others, beyond which ratios mislead
STUDY_PAGE, PEERS_PAGE = ROOT / "docs" / "e2dm-study.md", ROOT / "docs" / "peers.md"


def measured(file: Path) -> list[Row]:
    """What was measured; without what is null."""
    return [{name: value for name, value in row.items() if value is not None} for row in rows(file)]


def busy(found: list[Row]) -> str:
    """Where and how it was measured, with a warning where other processes had a part of the machine."""
    most = max(row["others"] for row in found)
    said = conditions(found)
    if most <= BUSY:
        return said
    warning = (
        f"**To be measured again.** Other processes kept {most:.1f} cores busy, so that a long run waited for a "
        "processor and a short one did not: no ratio between a long one and a short one on this page means much."
    )
    return f"{warning}\n\n{said}"


def tables() -> dict[tuple[Path, str], str]:
    """Page and name → text."""
    found, side, beside = measured(STUDY), measured(PEERS), measured(DIAGONALS)
    study = e2dm_study.Study.of(found)
    largest = max(d for d in study.sizes if d <= e2dm_study.FITTED)
    return {
        (STUDY_PAGE, "conditions"): busy(found),
        (STUDY_PAGE, "statements"): statements_markdown(found),
        (STUDY_PAGE, "totals"): e2dm_study.totals(study),
        (STUDY_PAGE, "stages"): e2dm_study.stages_at(study, largest),
        (STUDY_PAGE, "ratios"): e2dm_study.degradation(study),
        (STUDY_PAGE, "fits"): e2dm_study.fitted(study),
        (STUDY_PAGE, "extrapolation"): e2dm_study.extrapolated(study),
        (STUDY_PAGE, "diagonals"): e2dm_study.by_diagonals(e2dm_study.Study.of(beside)),
        (STUDY_PAGE, "conditions of diagonals"): busy(beside),
        (PEERS_PAGE, "conditions"): busy(side),
        (PEERS_PAGE, "seconds"): peers.seconds_table(side),
        (PEERS_PAGE, "installed"): peers.installed_table(side),
    }


def figures() -> dict[str, Any]:
    """Name → picture."""
    study = e2dm_study.Study.of(measured(STUDY))
    return {
        "e2dm-study": e2dm_figure(study),
        "e2dm-stages": stages_figure(study),
        "peers": peers.peers_figure(measured(PEERS)),
    }


if __name__ == "__main__":
    sys.exit(main("draw_peers", __doc__, tables, figures))
