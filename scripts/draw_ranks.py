"""Draws docs/measured/ranks.jsonl, and writes its tables into docs/cluster.md.

usage: draw_ranks.py [--write] [--pictures FOLDER]

Without arguments it prints the tables. The file holds the rows that `cipherblas bench distributed --json` printed for
shapes and for `--suite fhe4dmm`, with the `command` and the `commit` of the package (`scripts/measure_performance.py
--suite ranks`). Pictures need matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from measured_pages import MEASURED, ROOT, Row, main, number, rows, table

ROWS = MEASURED / "ranks.jsonl"
PAGE = ROOT / "docs" / "cluster.md"
CLASSES = ("Square", "Flat", "LargeM", "Slim")
METHODS = {
    "baseline": ("baseline", "tab:red", "s"),
    "4d-s": ("4D-S", "tab:orange", "^"),
    "4d*": ("4D*", "tab:green", "D"),
    "4d": ("4D", "tab:blue", "o"),
    "4d-b": ("4D-B", "tab:purple", "v"),
}
PARTS = (
    ("rotate_align_part", "RotateAlign", "tab:blue"),
    ("shift_by_step_part", "ShiftByStep", "tab:cyan"),
    ("products_part", "MULT and what follows", "tab:orange"),
    ("mpi_part", "MPI", "tab:red"),
)


def of_model(found: list[Row], name: str) -> dict[tuple[str, int], Row]:
    """By method and ranks."""
    return {
        (row["algorithm"].split()[1], row["ranks"]): row for row in found if row["case"] == f"{name} model"
    }


def of_figure(found: list[Row], case: str) -> dict[str, Row]:
    """What the paper draws, by method."""
    return {row["algorithm"].split()[1]: row for row in found if row["case"] == case}


def real(found: list[Row]) -> list[Row]:
    """Rows of runs."""
    return [row for row in found if "user_seconds" in row]


def gemm(found: list[Row]) -> str:
    """Products by GEMM on ranks."""
    header = (
        *("shape", "ranks", "seconds", "planned", "times faster", "by processor time", "compute"),
        *("messages", "copies", "processor: user", "system", "MiB a rank"),
    )
    body = [
        [
            row["case"].replace("x", "×"),
            row["ranks"],
            f"**{number(row['seconds'], 3)}**",
            number(row["predicted_seconds"], 3),
            f"**{number(row['speedup'], 3)}**",
            number(row["processor_speedup"], 3),
            *(number(row[f"{name}_seconds"]) for name in ("compute", "communication", "copy")),
            *(number(row[f"{name}_seconds"]) for name in ("user", "system")),
            round(row["rank_peak_bytes"] / 2**20),
        ]
        for row in real(found)
        if row["algorithm"] == "gemm"
    ]
    return f"{conditions(found, 'gemm')}\n\n{table(header, body)}"


def conditions(found: list[Row], algorithm: str) -> str:
    """Where rows of runs come from."""
    some = [row for row in real(found) if row["algorithm"].split()[0] == algorithm]
    commands = dict.fromkeys(row["command"] for row in some)
    said = " and ".join(f"`{command}`" for command in commands)
    most = max(row["others"] for row in some)
    return (
        f"{said}, of commit {some[0]['commit']}, on {some[0]['machine']}; others kept at most {number(most)} "
        "cores busy."
    )


def runs(found: list[Row]) -> str:
    """The classes on real ranks."""
    header = (
        *(
            "class, m×k×n",
            "blocks",
            "sharing",
            "ranks",
            "grid",
            "rotations",
            "MiB sent",
            "seconds",
            "planned",
        ),
        *("times faster", "by processor time"),
    )
    body = []
    for row in real(found):
        kind, _, sharing = row["algorithm"].partition(" ")
        if kind != "fhe-mm":
            continue
        turns = row["oversubscribed"]
        body.append(
            [
                row["case"].replace("x", "×"),
                row["blocks"].replace("x", "×"),
                sharing if row["ranks"] > 1 else "",
                f"{row['ranks']}{', in turns' * turns}",
                row["grid"].replace("x", "×"),
                f"{row['rotations']:,}",
                number(row["sent_bytes"] / 2**20),
                number(row["seconds"]),
                "" if turns else number(row["predicted_seconds"]),
                number(row["speedup"]),
                number(row["processor_speedup"]),
            ]
        )
    return f"{conditions(found, 'fhe-mm')}\n\n{table(header, body)}"


def model(found: list[Row]) -> str:
    """Efficiency of 4D, and what the paper says."""
    first = of_model(found, CLASSES[0])
    counts = sorted({ranks for _, ranks in first})
    lines = [
        [
            name,
            *(
                f"{number(row['seconds'])} ({row['efficiency']:.3f})"
                for row in (of_model(found, name)["4d", count] for count in counts)
            ),
        ]
        for name in CLASSES
    ]
    said = []
    for name in CLASSES:
        row = of_figure(found, f"Fig. 7 {name}")["4d"]
        said.append(
            [
                f"Fig. 7, {name}: 4D over the baseline, most and mean of 8 to 128 ranks",
                f"{number(row['speedup_over_baseline'], 3)}, {number(row['mean_speedup_over_baseline'], 3)}",
                f"{row['published_speedup_over_baseline']}, {row['published_mean_speedup_over_baseline']}",
            ]
        )
    for name in ("Square", "Slim"):
        row = of_figure(found, f"Fig. 8 {name}")["4d"]
        said.append(
            [
                f"Fig. 8, {name}: least efficiency to {row['ranks']} ranks, at least 0.95",
                f"{row['efficiency']:.3f}: {'yes' if row['linear'] else '**no**'}",
                row["published_claim"],
            ]
        )
    (weak,) = of_figure(found, "Fig. 8 Square, weak scaling").values()
    said.append(
        [
            "2048³ on 8 ranks, 1024³ on one: seconds",
            f"{number(weak['seconds'], 3)}, {number(weak['alone_seconds'], 3)}",
            weak["published_claim"],
        ]
    )
    alone, several = (row for row in found if row["case"] == "Fig. 1(a)")
    (whole,) = (row for row in found if row["case"] == "Fig. 1(a), one block")
    said += [
        [
            f"Fig. 1(a): 512³ in 4³ blocks on one machine, seconds; on {several['ranks']}, times faster",
            f"{number(alone['seconds'], 3)}; {number(several['speedup'], 3)}",
            "401.42; 15.52 (on several)",
        ],
        [
            "Fig. 1(a): 512³ as one block product, GB",
            number(whole["peak_bytes"] / 1e9, 3),
            number(whole["published_peak_bytes"] / 1e9, 3),
        ],
    ]
    for grid in ("4x1x4", "1x1x16"):
        (row,) = of_figure(found, f"Fig. 1(b) {grid}").values()
        said.append(
            [
                f"Fig. 1(b), {grid.replace('x', '×')} ranks: ciphertexts passed on, rotations of a rank",
                f"{row['passed_ciphertexts']}, {row['rotations']}",
                "as much communication, the former computes more",
            ]
        )
    for name in ("Square", "Slim"):
        row = of_figure(found, f"Table VI {name}")["4d"]
        said.append(
            [
                f"Table VI, {name} on 256 ranks: seconds of computation, of MPI",
                f"{number(row['local_seconds'], 3)}, {number(row['mpi_seconds'])}",
                f"{row['published_local_seconds']}, {row['published_mpi_seconds']}",
            ]
        )
    row = first["4d", 1]
    return "\n\n".join(
        [
            f"`{row['command']}`, of commit {row['commit']}, by rates of {row['machine']}, measured while others kept "
            f"{number(row['others'])} cores busy.",
            table(("4D, seconds (efficiency)", *(f"{count}" for count in counts)), lines),
            table(("", "this model", "the paper, of itself"), said),
        ]
    )


def tables() -> dict[tuple[Path, str], str]:
    """Page and name → text."""
    found = rows(ROWS)
    return {
        (PAGE, "products by GEMM"): gemm(found),
        (PAGE, "real ranks"): runs(found),
        (PAGE, "model"): model(found),
    }


def scaling(found: list[Row]) -> Any:
    """Seconds of the four classes over ranks."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 5.6), facecolor="white", layout="constrained")
    for axis, name in zip(figure.subplots(2, 2, sharex=True).flat, CLASSES, strict=True):
        by = of_model(found, name)
        counts = sorted({ranks for _, ranks in by})
        for method, (label, colour, mark) in METHODS.items():
            seconds = [by[method, count]["seconds"] for count in counts]
            axis.plot(counts, seconds, f"{mark}-", color=colour, label=label, markersize=4, linewidth=1)
        alone = by["4d", 1]["seconds"]
        axis.plot(counts, [alone / count for count in counts], ":", color="gray", label="4D, linear")
        axis.set(xscale="log", yscale="log", title=name)
        axis.set_xticks(counts, [str(count) for count in counts])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    for axis in figure.axes[2:]:
        axis.set_xlabel("ranks")
    for axis in figure.axes[::2]:
        axis.set_ylabel("seconds")
    figure.axes[0].legend(fontsize=8)
    return figure


def breakdown(found: list[Row]) -> Any:
    """What 8 ranks spend their time with, over the baseline's."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.2), facecolor="white", layout="constrained")
    for axis, name in zip(figure.subplots(1, 4, sharey=True), CLASSES, strict=True):
        by = of_figure(found, f"Fig. 9 {name}")
        labels = [label for label, _, _ in METHODS.values()]
        bottom = [0.0] * len(by)
        for field, label, colour in PARTS:
            heights = [by[method][field] * by[method]["times_baseline"] for method in METHODS]
            axis.bar(labels, heights, bottom=bottom, color=colour, label=label)
            bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
        axis.set_title(name)
        axis.tick_params(axis="x", labelsize=7)
    figure.axes[0].set_ylabel("time over the baseline's")
    figure.axes[1].legend(fontsize=7)
    return figure


def figures() -> dict[str, Any]:
    """Name → picture."""
    found = rows(ROWS)
    return {"ranks-scaling": scaling(found), "ranks-breakdown": breakdown(found)}


if __name__ == "__main__":
    sys.exit(main("draw_ranks", __doc__, tables, figures))
