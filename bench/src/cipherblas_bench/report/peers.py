"""Rows of `bench peers`: what is installed, one table of seconds, and the picture of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cipherblas.report.figures import new_figure, save_png
from cipherblas_bench.report.e2dm_study import number, table

Row = Mapping[str, Any]
OURS = "cipherblas"
ALONE = "cipherblas, one ciphertext each"
COLOURS = ("tab:blue", "tab:cyan", "tab:green", "tab:red", "tab:orange", "tab:purple")


def peers_markdown(rows: Iterable[Row]) -> str:
    """Both tables."""
    found = list(rows)
    return f"{seconds_table(found)}\n\n{installed_table(found)}\n"


def installed_table(rows: Iterable[Row]) -> str:
    """Version, interpreter, wheel and instruction sets of each library, or why it is not there."""
    body = []
    for row in rows:
        if row["case"] != "installed":
            continue
        build = row.get("build")
        if build is None:
            body.append([row["algorithm"], f"not installed: {escaped(row['skipped'])}", "", "", ""])
            continue
        sets = build["instruction_sets"]
        code = "unknown" if sets is None else ", ".join(sets) or "x86-64 baseline"
        wheel = ", ".join(f"`{tag}`" for tag in build["wheel"])
        body.append([row["algorithm"], build["distribution"], f"CPython {build['python']}", wheel, code])
    return table(["library", "distribution", "interpreter", "wheel", "instruction sets in its code"], body)


def seconds_table(rows: Sequence[Row]) -> str:
    """Milliseconds by case and library: median and range, how many times the fastest of ours; and the error."""
    libraries, cases = by_case(rows)
    body = [[case, *(_cell(members.get(name)) for name in libraries)] for case, members in cases.items()]
    return table(["ms", *libraries], body)


def by_case(rows: Iterable[Row]) -> tuple[list[str], dict[str, dict[str, Row]]]:
    """Libraries in their order, and case → library → row."""
    libraries: dict[str, None] = {}
    cases: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row["case"] == "installed":
            continue
        name = ALONE if row.get("one_ciphertext") else row["library"]
        libraries.setdefault(name)
        if name == ALONE:  # beside ours
            libraries = {OURS: None, ALONE: None, **libraries}
        cases.setdefault(row["case"], {})[name] = row
    return list(libraries), cases


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if "skipped" in row:
        return f"none: {escaped(row['skipped'])}"
    if "seconds" not in row:
        return f"~{number(1e3 * row['predicted_seconds'])}"
    text = number(1e3 * row["seconds"])
    text += f" ({number(1e3 * row['seconds_min'], 2)} … {number(1e3 * row['seconds_max'], 2)})"
    ratio = f", **{number(row['times_ours'], 2)} ×**" if "times_ours" in row else ""
    return f"{text}{ratio}, error {row['error']:.0e}"


def escaped(text: str) -> str:
    """A message within a cell."""
    return " ".join(text.replace("|", "\\|").split())


def draw_peers(path: Path, rows: Iterable[Row]) -> None:
    """Write the picture as PNG, whole or not at all.

    Raises:
        StorageError: the system refuses, or matplotlib is not installed.
    """
    save_png(path, peers_figure(list(rows)))


def peers_figure(rows: Sequence[Row]) -> Any:
    """Bars by case and library; hollow ones are predictions."""
    libraries, cases = by_case(rows)
    figure = new_figure(9.5, 0.62 * len(cases) + 1.6)
    axis = figure.subplots()
    height = 0.82 / len(libraries)
    for index, (name, colour) in enumerate(zip(libraries, COLOURS, strict=False)):
        for place, members in enumerate(cases.values()):
            row = members.get(name)
            seconds = None if row is None else row.get("seconds", row.get("predicted_seconds"))
            if row is None or seconds is None:
                continue
            face = colour if "seconds" in row else "white"
            axis.barh(place + index * height, 1e3 * seconds, 0.9 * height, color=face, edgecolor=colour)
        axis.barh([0], [0], color=colour, label=name)
    axis.set_xscale("log")
    axis.set_yticks([place + 0.41 - height / 2 for place in range(len(cases))], list(cases))
    axis.invert_yaxis()
    axis.grid(True, axis="x", color="0.9")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlabel("milliseconds; hollow: predicted")
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    machine = next((row["machine"] for row in rows if "machine" in row), "")
    axis.set_title(machine, fontsize=8, color="0.35")
    return figure
