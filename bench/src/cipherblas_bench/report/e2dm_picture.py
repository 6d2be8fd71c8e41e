"""The pictures of `bench e2dm-study`: totals over d with their cubics, and the stages at one d; every stage over d."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cipherblas.report.figures import new_figure, save_png
from cipherblas_bench.report.e2dm_study import FIGURES, FITTED, STAGES, Row, Study

OURS = ("tab:blue", "tab:cyan", "0.55")  # instruction sets, the best one first
PEERS = {"seal": "tab:orange", "openfhe": "tab:red"}


def draw_e2dm_study(path: Path, rows: Iterable[Row]) -> None:
    """Write the picture as PNG, whole or not at all.

    Raises:
        StorageError: the system refuses, or matplotlib is not installed.
    """
    save_png(path, e2dm_figure(Study.of(rows)))


def e2dm_figure(study: Study) -> Any:
    """The figure itself."""
    figure = new_figure(12.5, 5.4)
    left, right = figure.subplots(1, 2, width_ratios=[1.25, 1])
    colours = _colours(study)
    _totals(left, study, colours)
    _stages(right, study, colours)
    row = next(iter(next(iter(study.rows.values())).values()))
    figure.suptitle(
        "E2DM stage by stage: the same encoding and rotations on all libraries", fontweight="bold"
    )
    threads = row["threads"]
    left.set_title(
        f"{row['machine']}; {threads} thread{'s' if threads > 1 else ''}", fontsize=8, color="0.35"
    )
    return figure


def _colours(study: Study) -> dict[str, str]:
    ours = dict(zip([name for name in study.names if name not in PEERS], OURS, strict=False))
    return {name: PEERS.get(name, ours.get(name, "tab:green")) for name in study.names}


def stages_figure(study: Study) -> Any:
    """The study's 22 panels: of each of its figures milliseconds over d, and how many times those of the reference."""
    figure = new_figure(12.5, 14.5)
    axes = figure.subplots(6, 4).ravel()
    colours, reference = _colours(study), study.reference
    for number, (title, stages) in enumerate(FIGURES.items()):
        seconds, times = axes[2 * number : 2 * number + 2]
        found = {name: study.within(study.together(name, stages)) for name in study.names}
        for name, by_d in found.items():
            seconds.plot(list(by_d), [1e3 * s for s in by_d.values()], "-", color=colours[name], label=name)
            if reference is not None and name != reference:
                ratios = {d: s / found[reference][d] for d, s in by_d.items() if d in found[reference]}
                times.plot(list(ratios), list(ratios.values()), "-", color=colours[name])
        seconds.set_title(f"{title}, ms", fontsize=9)
        times.set_title(
            f"times {reference}" if reference else "", fontsize=9, color=PEERS.get(reference or "")
        )
        for axis in (seconds, times):
            axis.set_yscale("log")
            axis.grid(True, color="0.9")
            axis.spines[["top", "right"]].set_visible(False)
        times.axhline(1, color="0.5", linewidth=0.8)
    for axis in axes[2 * len(FIGURES) :]:
        axis.remove()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="lower right", frameon=False, fontsize=9)
    figure.suptitle(f"E2DM stage by stage over d, up to {FITTED}", fontweight="bold")
    return figure


def _totals(axis: Any, study: Study, colours: dict[str, str]) -> None:
    """Points that were measured, filled where the cubic was fitted to them, and the cubic throughout."""
    curves = study.curves()
    d = np.linspace(min(study.sizes), max(study.sizes), 200)
    for name in study.names:
        for kept, face in ((True, colours[name]), (False, "white")):
            points = {d: s for d, s in study.seconds(name).items() if (d <= FITTED) == kept}
            axis.plot(
                list(points), [1e3 * s for s in points.values()], "o", color=colours[name],
                markerfacecolor=face, markersize=4.5, label=name if kept else None,
            )  # fmt: skip
        if 3 in curves[name]:
            said = 1e3 * curves[name][3].polynomial(d)
            axis.plot(d[said > 0], said[said > 0], "-", color=colours[name], linewidth=1)
    axis.plot([], [], "-", color="0.4", linewidth=1, label=f"cubic fitted to d ≤ {FITTED}")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    ticks = [size for size in (2, 4, 8, 16, 19, 24, 32, 45, 64) if size in study.sizes] or study.sizes
    axis.set_xticks(ticks, [str(size) for size in ticks])
    axis.minorticks_off()
    axis.grid(True, color="0.9")
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlabel("d, of products d × d × d")
    axis.set_ylabel("milliseconds, total")
    axis.legend(frameon=False, fontsize=8.5)


def _stages(axis: Any, study: Study, colours: dict[str, str]) -> None:
    """Medians of all stages at the largest d of the study."""
    size = max((d for d in study.sizes if d <= FITTED), default=study.sizes[-1])
    names = [name for name in study.names if size in study.rows[name]]
    height = 0.8 / len(names)
    places = np.arange(len(STAGES))
    for index, name in enumerate(names):
        stages = study.rows[name][size]["stages"]
        values = [1e3 * stages[stage]["seconds"] for stage in STAGES]
        axis.barh(places + index * height, values, height, color=colours[name])
    axis.set_xscale("log")
    axis.set_yticks(places + 0.4 - height / 2, list(STAGES.values()), fontsize=8.5)
    axis.invert_yaxis()
    axis.grid(True, axis="x", color="0.9")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlabel("milliseconds")
    axis.set_title(f"d = {size}, by stage", fontsize=9, color="0.35")
