"""The picture of a program: its nodes from operands to results, with form, method, limbs and seconds of each."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cipherblas.report.figures import new_figure, save_png

WIDTH, HEIGHT = 2.5, 0.95  # inches from box to box
MAX_INCHES = 60.0  # of a picture, along each side; of larger ones boxes overlap less if it is enlarged
REACH = 0.34  # of a box to either side, in columns
LETTERS = 27  # in a line of a box
COLOURS = {"blocks": "#cfe3f5", "tensors": "#d8f0d3", "rows": "#fde6c4", "clear": "#eeeeee"}
CONVERSION = "#f5d4e0"


@dataclass(frozen=True)
class Box:
    """One node, or a conversion of its value.

    Attributes:
        lines: what is written in it, the first in bold.
        form: which gives its colour: "clear", the name of a form, or of a conversion.
        children: the places of the boxes it is made of, each before it.
        result: it is sent back.
    """

    lines: tuple[str, ...]
    form: str
    children: tuple[int, ...] = ()
    result: bool = False


def draw(path: Path, title: str, boxes: Sequence[Box]) -> None:
    """Write the picture as PNG, whole or not at all.

    Raises:
        StorageError: matplotlib is not installed, or the system refuses.
    """
    columns = _columns(boxes)
    places = _places(boxes, columns)
    rows = 1 + max(y for _, y in places)
    width, height = (1 + max(columns)) * WIDTH + 0.4, rows * HEIGHT + 0.9
    figure = new_figure(min(width, MAX_INCHES), min(height, MAX_INCHES))
    axis = figure.subplots()
    axis.set_axis_off()
    axis.set_xlim(-0.55, max(columns) + 0.55)
    axis.set_ylim(rows - 0.4, -0.6)
    axis.set_title(textwrap.shorten(title, 110, placeholder=" …"), fontsize=11)
    for box, place in zip(boxes, places, strict=True):
        for child in box.children:
            _arrow(axis, places[child], place)
    for box, place in zip(boxes, places, strict=True):
        _box(axis, box, place)
    forms = dict.fromkeys(box.form for box in boxes)
    handles = [axis.scatter([], [], marker="s", s=90, color=_colour(form), label=form) for form in forms]
    axis.legend(
        handles=handles, loc="lower center", ncols=len(handles), frameon=False, bbox_to_anchor=(0.5, -0.05)
    )
    save_png(path, figure)


def _columns(boxes: Sequence[Box]) -> list[int]:
    """Each box stands right of all that it is made of; what has no children, just left of what is made of it."""
    columns: list[int] = []
    for box in boxes:
        columns.append(1 + max((columns[child] for child in box.children), default=-1))
    for place in reversed(range(len(boxes))):
        parents = [columns[one] for one, box in enumerate(boxes) if place in box.children]
        if not boxes[place].children and parents:
            columns[place] = min(parents) - 1
    return columns


def _places(boxes: Sequence[Box], columns: Sequence[int]) -> list[tuple[int, float]]:
    """Column and row: near the middle of its children, one below another."""
    rows: dict[int, float] = {}
    for column in range(1 + max(columns)):
        inside = [place for place, one in enumerate(columns) if one == column]

        def middle(place: int) -> float:
            known = [rows[child] for child in boxes[place].children if child in rows]
            return sum(known) / len(known) if known else float(place)

        following = 0.0
        for place in sorted(inside, key=middle):
            wanted = middle(place) if boxes[place].children else following
            rows[place] = max(following, wanted)
            following = rows[place] + 1
    return [(column, rows[place]) for place, column in enumerate(columns)]


def _arrow(axis: Any, source: tuple[int, float], target: tuple[int, float]) -> None:
    axis.annotate(
        "",
        xy=(target[0] - REACH, target[1]),
        xytext=(source[0] + REACH, source[1]),
        arrowprops={
            "arrowstyle": "-|>",
            "color": "#777777",
            "linewidth": 0.9,
            "connectionstyle": "arc3,rad=0.03",
            "shrinkA": 0,
            "shrinkB": 0,
        },
    )


def _box(axis: Any, box: Box, place: tuple[int, float]) -> None:
    head, *rest = (textwrap.shorten(line, LETTERS, placeholder="…") for line in box.lines)
    style = {"boxstyle": "round,pad=0.35", "facecolor": _colour(box.form), "edgecolor": "#444444"}
    style["linewidth"] = 2.2 if box.result else 0.8  # type: ignore[assignment]
    text = "\n".join([head, *rest])
    axis.text(*place, text, ha="center", va="center", fontsize=7.5, linespacing=1.35, bbox=style)


def _colour(form: str) -> str:
    return COLOURS.get(form, CONVERSION)
