"""Rows of `bench crossover` as Markdown: a table for each kind of product, ready for the documentation."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cipherblas.planner.plan.explain import size

KIND_NAMES = {"cc": "secret × secret", "pc": "clear int8 × secret"}
FORM_NAMES = {"blocks": "slots", "rows": "GEMM"}
_HEADS = ("form", "seconds", "times float64 GEMM", "keys", "upload", "peak", "error / bound")

Row = Mapping[str, Any]


def crossover_markdown(rows: Iterable[Row]) -> str:
    """The tables, each followed by where the planner switches.

    The form that the planner takes is bold. A row that was not measured has the prediction of its plan, marked ~.
    """
    found = list(rows)
    parts = []
    for kind, name in KIND_NAMES.items():
        members = [row for row in found if row["kind"] == kind]
        if members:
            parts.append(_table(name, members) + "\n\n" + _switches(members) + "\n")
    return "\n".join(parts)


def _table(name: str, rows: Sequence[Row]) -> str:
    lines = [_line([f"{name}, d", *_HEADS]), _line(["---"] * (len(_HEADS) + 1))]
    return "\n".join(lines + [_line(_cells(row)) for row in rows])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(row: Row) -> list[str]:
    form = FORM_NAMES[row["form"]]
    if row["form"] == "blocks" and "algorithm" in row:
        form += f" ({row['algorithm']})"
    if row["form"] == row.get("chosen"):
        form = f"**{form}**"
    measured = "seconds" in row
    mark = "" if measured else "~"
    seconds = row.get("seconds", row.get("predicted_seconds"))
    if seconds is None:
        return [str(row["d"]), form, "refused", "", "", "", "", ""]
    peak = row.get("peak_bytes", row.get("predicted_peak_bytes"))
    return [
        str(row["d"]),
        form,
        f"{mark}{seconds:#.2g}" if seconds < 10 else f"{mark}{seconds:.0f}",
        f"{mark}{_rounded(seconds / row['gemm_seconds'])}",
        size(row["key_bytes"]),
        size(row["upload_bytes"]),
        f"{mark}{size(peak)}",
        f"{row['relative_error']:.1e}" if measured else "",
    ]


def _rounded(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _switches(rows: Sequence[Row]) -> str:
    chosen = choices(rows)
    if not chosen:
        return "The planner has a plan for none of these."
    changes = [
        f"from {FORM_NAMES[chosen[low]]} to {FORM_NAMES[chosen[high]]} between d = {low} and d = {high}"
        for low, high in switches(chosen)
    ]
    if not changes:
        return f"The planner takes {FORM_NAMES[next(iter(chosen.values()))]} throughout."
    return f"The planner switches {', '.join(changes)}."


def choices(rows: Iterable[Row]) -> dict[int, str]:
    """The form that the planner takes, by dimension."""
    return dict(sorted({row["d"]: row["chosen"] for row in rows if "chosen" in row}.items()))


def switches(chosen: Mapping[int, str]) -> list[tuple[int, int]]:
    """Neighbouring dimensions between which the choice of the planner changes."""
    return [(low, high) for low, high in itertools.pairwise(chosen) if chosen[low] != chosen[high]]
