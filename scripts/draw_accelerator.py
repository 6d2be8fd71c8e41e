"""Writes what `cipherblas fame-model --what-if` predicts into docs/fame-accelerator.md, and draws it.

usage: draw_accelerator.py [--write] [--pictures FOLDER]

Without arguments it prints the table. Seconds on a CPU are those of docs/measured/fame.jsonl. Pictures need matplotlib.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from cipherblas_hardware import run_fame_model
from cipherblas_hardware.model.report import accelerator_figure
from measured_pages import MEASURED, ROOT, Row, main, number, rows, table

PAGE = ROOT / "docs" / "fame-accelerator.md"
SHOWN = ("twice the HBM", "half the HBM", "four PEs", "one relinearisation")


@functools.cache
def predicted() -> list[Row]:
    """Rows of all products and variants."""
    return list(
        run_fame_model(what_if=True, cpu=[row for row in rows(MEASURED / "fame.jsonl") if "set" in row])
    )


def text(found: list[Row]) -> str:
    """A line per product: as published, and the seconds of some variants."""
    header = (
        *("set", "m×k×n", "rotations", "HLTs", "Mcycles", "HBM, GB", "seconds", "as simulated", "published"),
        *SHOWN,
        *("best on a CPU", "its time ÷ this"),
    )
    by: dict[str, dict[str, Row]] = {}
    for row in found:
        by.setdefault(row["case"], {})[row["variant"]] = row
    body = []
    for case, variants in by.items():
        first = variants["as published"]
        body.append(
            [
                first["set"],
                case.replace("x", "×"),
                first["rotations"],
                first["transforms"],
                number(first["cycles"] / 1e6, 3),
                number(first["hbm_bytes"] / 1e9, 3),
                f"**{number(first['predicted_seconds'], 3)}**",
                number(variants["as simulated"]["predicted_seconds"], 3),
                f"about {number(first['published_seconds'])}" if "published_seconds" in first else "",
                *(number(variants[name]["predicted_seconds"], 3) for name in SHOWN),
                f"{first['cpu_algorithm']} {'~' * first['cpu_estimated']}{number(first['cpu_seconds'], 3)}",
                number(first["speedup"]),
            ]
        )
    return table(header, body)


def tables() -> dict[tuple[Path, str], str]:
    """Page and name → text."""
    return {(PAGE, "products"): text(predicted())}


def figures() -> dict[str, Any]:
    """Every product on every variant."""
    return {"fame-accelerator": accelerator_figure(predicted())}


if __name__ == "__main__":
    sys.exit(main("draw_accelerator", __doc__, tables, figures))
