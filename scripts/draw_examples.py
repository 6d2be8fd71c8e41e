"""Shows what examples printed, from docs/measured/examples.jsonl, on the pages of docs.

usage: draw_examples.py [--write] [--pictures FOLDER]

Without arguments it prints what goes on the pages. The rows are those of `scripts/measure_performance.py --suite
examples --files FOLDER`. There are no pictures.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from measured_pages import MEASURED, ROOT, Row, main, number, packages, rows

ROWS = MEASURED / "examples.jsonl"
PAGES = {
    "encrypted_table": "encrypted-tables",
    "recommender": "encrypted-tables",
    "encrypted_cnn": "encrypted-cnn",
    "batch_classification": "batch-classification",
    "attention": "attention",
}


def shown(output: str) -> str:
    """What was printed, without the nodes of a plan and what it does not take."""
    kept, inside = [], False
    for line in output.strip("\n").splitlines():
        inside = line.startswith(("nodes", "not taken:")) or (inside and line.startswith(" "))
        if not inside:
            kept.append(line)
    return "\n".join(kept)


def text(row: Row) -> str:
    """The command, where it ran, and what it printed; of a plan the nodes are left out."""
    return "\n".join(
        [
            f"`{row['command']}`, {packages([row])}, on {row['machine']};",
            f"other processes kept {number(row['others'])} of a core busy:",
            "",
            "```text",
            shown(row["output"]),
            "```",
        ]
    )


def tables() -> dict[tuple[Path, str], str]:
    """Page and name → text."""
    found = {Path(row["command"].split()[1]).stem: row for row in rows(ROWS)}
    return {(ROOT / "docs" / f"{page}.md", f"{name}.py"): text(found[name]) for name, page in PAGES.items()}


def figures() -> Mapping[str, object]:
    """None."""
    return {}


if __name__ == "__main__":
    sys.exit(main("draw_examples", __doc__, tables, figures))
