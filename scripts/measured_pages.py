"""What the scripts that draw docs/measured share: rows, tables between marks of pages, pictures, the command line."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MEASURED, PICTURES = ROOT / "docs" / "measured", ROOT / "docs" / "pictures"
END = "<!-- end -->"
SETTINGS = {"svg.hashsalt": "cipherblas", "font.family": "DejaVu Sans", "font.size": 9.0}

Row = dict[str, Any]
Tables = Mapping[tuple[Path, str], str]
"""Page and name of a table → its text."""


def rows(file: Path) -> list[Row]:
    """What was measured."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def number(value: float, digits: int = 2) -> str:
    """With so many significant digits, and no exponent."""
    text = f"{value:.{digits}g}"
    return f"{float(text):f}".rstrip("0").rstrip(".") if "e" in text else text


def table(header: Sequence[str], body: Iterable[Sequence[object]]) -> str:
    """In Markdown."""
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def ring(row: Row) -> str:
    """Degree and limbs."""
    params = row["params"]
    return f"2^{params['n'].bit_length() - 1}, {params['limbs']}"


def packages(found: list[Row]) -> str:
    """The commits that the rows were measured with, and the days where the rows say them."""
    commits, days = (sorted({row[name] for row in found if name in row}) for name in ("commit", "date"))
    return f"commit {'; '.join(commits)}" + (f", on {'; '.join(days)}" if days else "")


def conditions(found: list[Row]) -> str:
    """Where, on what and how the rows were measured."""
    machines = "; ".join(sorted({row["machine"] for row in found}))
    others = [row["others"] for row in found]
    commands = list(dict.fromkeys(row["command"] for row in found))
    return "\n".join(
        [
            f"- Machine: {machines}. A virtual machine.",
            f"- The package is that of {packages(found)}.",
            f"- Other processes kept {number(statistics.median(others))} of a core busy at the median of all commands, "
            f"{number(max(others))} at the most.",
            "",
            "```sh",
            *commands,
            "```",
        ]
    )


def awaited(suite: str) -> str:
    """In the place of a table whose rows are not there yet."""
    return f"Not measured by this version yet: `scripts/measure_performance.py --suite {suite}` does it."


def begin(script: str, name: str) -> str:
    """The mark before a table of a page."""
    return f"<!-- begin: scripts/{script}.py --write, {name} -->"


def stored(script: str, page: Path, name: str) -> str:
    """What stands on the page."""
    return page.read_text(encoding="utf-8").partition(begin(script, name))[2].partition(END)[0].strip("\n")


def write(script: str, tables: Tables) -> None:
    """Put the tables on their pages."""
    for (page, name), text in tables.items():
        before, mark, rest = page.read_text(encoding="utf-8").partition(begin(script, name))
        if not mark:
            raise SystemExit(f"{page.name} has no mark {begin(script, name)}")
        page.write_text(f"{before}{mark}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def draw(figures: Callable[[], Mapping[str, Any]], folder: Path) -> None:
    """Save the pictures under their names; the same bytes in every run with the same matplotlib."""
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(SETTINGS):
        for name, figure in figures().items():
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def main(
    script: str, doc: str | None, tables: Callable[[], Tables], figures: Callable[[], Mapping[str, Any]]
) -> int:
    """Print the tables, or with options write them and draw the pictures."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables into the pages")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="draw the pictures into this folder")
    given = parser.parse_args()
    if given.write:
        write(script, tables())
        draw(figures, given.pictures or PICTURES)
    elif given.pictures:
        draw(figures, given.pictures)
    else:
        for (_, name), text in tables().items():
            print(f"{name}:\n{text}\n")
    return 0
