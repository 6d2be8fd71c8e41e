"""Writes what `cipherblas fame-model --what-if` predicts into docs/fame-accelerator.md, and draws it.

usage: draw_accelerator.py [--write] [--pictures FOLDER]

Without arguments it prints the table. Seconds on a CPU are those of docs/measured/fame.jsonl. Pictures need matplotlib.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cipherblas.bench import run_fame_model
from cipherblas.report import accelerator_figure
from draw_performance import END, FAME, ROOT, SETTINGS, Row, number, rows, table

PAGE, PICTURES = ROOT / "docs" / "fame-accelerator.md", ROOT / "docs" / "pictures"
BEGIN = "<!-- begin: scripts/draw_accelerator.py --write -->"
SHOWN = ("twice the HBM", "half the HBM", "four PEs", "one relinearisation")


def predicted() -> list[Row]:
    """Rows of all products and variants."""
    return list(run_fame_model(what_if=True, cpu=[row for row in rows(FAME) if "set" in row]))


def text(found: list[Row]) -> str:
    """A line per product: as published, and the seconds of some variants."""
    header = (
        *("set", "m×k×n", "rotations", "HLTs", "Mcycles", "HBM, GB", "seconds", "published"),
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
                f"about {number(first['published_seconds'])}" if "published_seconds" in first else "",
                *(number(variants[name]["predicted_seconds"], 3) for name in SHOWN),
                f"{first['cpu_algorithm']} {'~' * first['cpu_estimated']}{number(first['cpu_seconds'], 3)}",
                number(first["speedup"]),
            ]
        )
    return table(header, body)


def stored() -> str:
    """What stands on the page."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip("\n")


def write(found: list[Row]) -> None:
    """Put the table on the page."""
    before, mark, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    if not mark:
        raise SystemExit(f"{PAGE.name} has no mark {BEGIN}")
    PAGE.write_text(f"{before}{mark}\n\n{text(found)}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def draw(found: list[Row], folder: Path) -> None:
    """Every product on every variant."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(SETTINGS):
        accelerator_figure(found).savefig(folder / "fame-accelerator.svg", metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw the picture into this folder")
    given = parser.parse_args()
    found = predicted()
    if given.write:
        write(found)
        draw(found, given.pictures or PICTURES)
    elif given.pictures:
        draw(found, given.pictures)
    else:
        print(text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
