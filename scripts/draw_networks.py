"""Draws docs/measured/networks.jsonl, and writes its tables into docs/networks.md.

usage: draw_networks.py [--write] [--pictures FOLDER]

Without arguments it prints the tables. The file holds the rows that `cipherblas bench nn --models … --json` printed,
one network a command, with the `command` and the `commit` of the package (`scripts/measure_performance.py --suite
networks --files FOLDER`). Pictures need matplotlib.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from measured_pages import MEASURED, ROOT, Row, conditions, main, number, rows, table

ROWS = MEASURED / "networks.jsonl"
PAGE = ROOT / "docs" / "networks.md"
GIB = 2**30
DEGREE = 62  # of polynomials, where nothing else is asked for
# Files → the networks in them.
NAMES = {
    "resnet8": "ResNet-8",
    "resnet20": "ResNet-20",
    "ace_resnet20_cifar10": "ResNet-20, ANT-ACE's",
    "ace_resnet32_cifar100": "ResNet-32, CIFAR-100",
    "resnet56": "ResNet-56",
    "ace_squeezenet_cifar10": "SqueezeNet",
    "vgg11": "VGG-11",
    "alexnet": "AlexNet",
    "mobilenet": "MobileNet",
}
KINDS = (
    ("refresh", "refreshes", "tab:blue"),
    ("activation", "functions", "tab:orange"),
    ("convolution", "convolutions", "tab:green"),
    ("linear", "products W·x", "tab:red"),
    ("other", "other", "0.6"),
)


def name(row: Row) -> str:
    """The name of a network for people, with what is unusual in its run."""
    said = [NAMES.get(row["case"], row["case"])]
    if row.get("degree", DEGREE) != DEGREE:
        said.append(f"degree {row['degree']}")
    if "batch" in row:
        said.append(f"batches of {row['batch']}")
    if row["threads"] > 1:
        said.append(f"{row['threads']} threads")
    return ", ".join(said)


def seconds(row: Row) -> str:
    """The median, with the least and the largest image."""
    return (
        f"**{number(row['seconds'], 3)}** ({number(row['seconds_min'], 3)} … {number(row['seconds_max'], 3)})"
    )


def published(found: list[Row]) -> str:
    """Ours beside MetaKernel's own figures."""
    header = (
        *("network", "N", "threads", "seconds of an image", "convolutions", "W·x", "first run"),
        *("MetaKernel, published", "its convolutions", "its W·x", "published ÷ ours"),
    )
    body = [
        [
            name(row),
            f"2^{row['params']['n'].bit_length() - 1}",
            row["threads"],
            seconds(row),
            *(number(row[f"{kind}_seconds"]) for kind in ("convolution", "linear")),
            number(row["first_run_seconds"]),
            *(
                number(row[field], 4) if field in row else ""
                for field in (
                    "published_seconds",
                    "published_convolution_seconds",
                    "published_linear_seconds",
                )
            ),
            f"**{number(1 / row['times_published'])}**" if "times_published" in row else "",
        ]
        for row in found
    ]
    return table(header, body)


def figures_of_plans(found: list[Row]) -> str:
    """Parameters, sizes, and the stages before the first image."""
    header = (
        *("network", "N, log2(QP)", "degree", "ciphertexts refreshed", "keys, GiB", "up, MiB", "down, KiB"),
        *("weights encoded, GiB", "peak, GiB", "planned, s", "keys made, s"),
    )
    body = [
        [
            name(row),
            f"2^{row['params']['n'].bit_length() - 1}, {row['params']['logq'] + row['params']['logp']:.0f}",
            row.get("degree", ""),
            row["refreshed_ciphertexts"],
            number(row["key_bytes"] / GIB),
            number(row["upload_bytes"] / 2**20),
            number(row["download_bytes"] / 2**10, 3),
            number(row["stored_bytes"] / GIB),
            f"{number(row['peak_bytes'] / GIB)} ({number(row['predicted_peak_bytes'] / GIB)} planned)",
            number(row["plan_seconds"]),
            number(row["keygen_seconds"]),
        ]
        for row in found
    ]
    return table(header, body)


def labels(found: list[Row]) -> str:
    """Labels and scores beside those of the networks in the clear."""
    header = (
        *("network", "images", "labels as in the clear", "right labels", "in the clear"),
        *("error of a score, rms", "largest", "promised"),
    )
    body = [
        [
            name(row),
            f"{row['images']}" + (f", {row['outside']} outside of the ranges" if row["outside"] else ""),
            *(
                f"{round(row[field] * row['images'])} of {row['images']}" if field in row else ""
                for field in ("agreement", "accuracy", "clear_accuracy")
            ),
            *(number(row[field]) for field in ("rms_error", "error", "predicted_error")),
        ]
        for row in found
    ]
    return table(header, body)


def tables() -> dict[tuple[Path, str], str]:
    """Page and name → text."""
    found = rows(ROWS)
    return {
        (PAGE, "whole networks"): published(found),
        (PAGE, "plans of networks"): figures_of_plans(found),
        (PAGE, "labels of networks"): labels(found),
        (PAGE, "conditions of networks"): conditions(found),
    }


def kinds(found: list[Row]) -> Any:
    """Seconds of an image by kind of layer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 0.45 * len(found) + 1.3), facecolor="white", layout="constrained")
    axis = figure.subplots()
    places, left = range(len(found)), [0.0] * len(found)
    for field, label, colour in KINDS:
        widths = [row[f"{field}_seconds"] for row in found]
        axis.barh(places, widths, 0.65, left=left, color=colour, label=label)
        left = [low + width for low, width in zip(left, widths, strict=True)]
    axis.set_yticks(places, [name(row) for row in found])
    axis.invert_yaxis()
    axis.set_xlabel("seconds of an image on the server")
    axis.grid(True, axis="x", color="0.9")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def scores(found: list[Row]) -> Any:
    """Every score of every image: in the clear, and decrypted."""
    from matplotlib.figure import Figure

    across = min(3, len(found))
    figure = Figure(
        figsize=(2.7 * across, 2.7 * math.ceil(len(found) / across)), facecolor="white", layout="constrained"
    )
    panels = list(figure.subplots(math.ceil(len(found) / across), across, squeeze=False).flat)
    for row, axis in zip(found, panels, strict=False):
        clear, ours = (
            [score for image in row[field] for score in image] for field in ("clear_scores", "scores")
        )
        ends = min(clear), max(clear)
        axis.plot(ends, ends, color="0.7", linewidth=1)
        axis.plot(clear, ours, ".", color="tab:blue", markersize=4)
        axis.set_title(f"{name(row)}, {row['images']} images", fontsize=9)
        axis.set_xlabel("scores in the clear")
        axis.set_ylabel("decrypted")
        axis.spines[["top", "right"]].set_visible(False)
    for axis in panels[len(found) :]:
        axis.set_axis_off()
    return figure


def figures() -> dict[str, Any]:
    """Name → picture."""
    found = rows(ROWS)
    scored = [row for row in found if "scores" in row]
    return {"networks-kinds": kinds(found), **({"networks-scores": scores(scored)} if scored else {})}


if __name__ == "__main__":
    sys.exit(main("draw_networks", __doc__, tables, figures))
