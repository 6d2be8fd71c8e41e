"""The picture of `bench crossover`: seconds of both forms over the dimension."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cipherblas.report.figures import new_figure, save_png
from cipherblas_bench.report.markdown import FORM_NAMES, KIND_NAMES, choices, switches

Row = Mapping[str, Any]
COLOURS = {"cc": "tab:blue", "pc": "tab:orange"}
STYLES = {"blocks": ("--", "o"), "rows": ("-", "s")}


def draw_crossover(path: Path, rows: Sequence[Row]) -> None:
    """Write the picture as PNG, whole or not at all.

    Raises:
        StorageError: the system refuses.
    """
    save_png(path, crossover_figure(rows))


def crossover_figure(rows: Sequence[Row]) -> Any:
    """The figure itself; filled points were measured, hollow ones are estimates."""
    figure = new_figure(8.4, 5.6)
    axis = figure.subplots()
    for kind in KIND_NAMES:
        for form in STYLES:
            _line(axis, kind, form, [r for r in rows if (r["kind"], r["form"]) == (kind, form)])
    _yardstick(axis, rows)
    _switches(axis, rows)
    _decorate(figure, axis, rows)
    return figure


def _line(axis: Any, kind: str, form: str, rows: Sequence[Row]) -> None:
    """One form of one kind: a line through all points, those that were measured filled."""
    points = {r["d"]: r.get("seconds", r.get("predicted_seconds")) for r in rows}
    kept = [(d, seconds) for d, seconds in sorted(points.items()) if seconds is not None]
    if not kept:
        return
    measured = {r["d"] for r in rows if "seconds" in r}
    dash, marker = STYLES[form]
    colour = COLOURS[kind]
    axis.plot(*zip(*kept, strict=True), dash, color=colour, linewidth=1.8, zorder=2)
    for filled in (True, False):
        some = [point for point in kept if (point[0] in measured) == filled]
        if some:
            face = colour if filled else "white"
            axis.plot(
                *zip(*some, strict=True), marker, color=colour, markerfacecolor=face, markersize=7, zorder=3
            )
    label = f"{KIND_NAMES[kind]}, {FORM_NAMES[form]}"
    axis.plot([], [], dash, marker=marker, color=colour, linewidth=1.8, label=label)


def _yardstick(axis: Any, rows: Sequence[Row]) -> None:
    sizes = sorted({r["d"] for r in rows})
    seconds = [statistics.median(r["gemm_seconds"] for r in rows if r["d"] == d) for d in sizes]
    axis.plot(sizes, seconds, ":", color="0.35", linewidth=2, label="plain float64 GEMM")


def _switches(axis: Any, rows: Sequence[Row]) -> None:
    """A vertical line where the planner changes its mind, halfway between two dimensions."""
    for kind, name in KIND_NAMES.items():
        for low, high in switches(choices(row for row in rows if row["kind"] == kind)):
            place = math.sqrt(low * high)
            axis.axvline(place, color=COLOURS[kind], linewidth=1, alpha=0.6, zorder=1)
            axis.annotate(
                f" the planner switches\n ({name})",
                (place, 0.02),
                xycoords=("data", "axes fraction"),
                fontsize=8.5,
                color=COLOURS[kind],
            )


def _decorate(figure: Any, axis: Any, rows: Sequence[Row]) -> None:
    sizes = sorted({r["d"] for r in rows})
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(sizes, [str(d) for d in sizes])
    axis.minorticks_off()
    axis.grid(True, color="0.9")
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlabel("d, of products d × d × d")
    axis.set_ylabel("seconds on the server")
    if any("seconds" not in r and "predicted_seconds" in r for r in rows):
        axis.plot([], [], "o", color="0.4", markerfacecolor="white", label="hollow: estimated, not run")
    axis.legend(frameon=False, fontsize=9.5, loc="upper left")
    threads = max(r["threads"] for r in rows)
    machines = "; ".join(sorted({r["machine"].rsplit(", ", 1)[0] for r in rows}))
    figure.suptitle("Slots or GEMM: one encrypted product by both forms", fontweight="bold")
    axis.set_title(f"{machines}; {threads} thread{'s' if threads > 1 else ''}", fontsize=9, color="0.35")
