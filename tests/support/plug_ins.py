"""Distributions with commands and engines of their own: those of this repository where they are not installed, and
made-up ones."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("bench", "hardware")
GROUP, ENGINES = "cipherblas.commands", "cipherblas.engines"


def commands_of(folder: str, group: str = GROUP) -> dict[str, str]:
    """Command → what runs it, of the distribution in a folder of the repository; or engine → what makes it."""
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    tables = re.findall(rf'^\[project.entry-points."{group}"\]\n((?:.+\n)+)', text, re.MULTILINE)
    return dict(re.findall(r'^([\w-]+) = "(.+)"$', "".join(tables), re.MULTILINE))


def write_metadata(
    place: Path, name: str, commands: Mapping[str, str], engines: Mapping[str, str] | None = None
) -> None:
    """What an installation leaves in a folder of the path for a distribution to be found by."""
    folder = place / f"{name}-0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n", encoding="utf-8")
    lines = []
    for group, entries in ((GROUP, commands), (ENGINES, engines or {})):
        lines += [f"[{group}]", *(f"{entry} = {value}" for entry, value in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def show_those_of_the_tree(place: Path) -> None:
    """Their commands are found where they are not installed too, here and in processes that are started here."""
    known = {point.name for point in entry_points(group=GROUP)}
    for folder in FOLDERS:
        commands = commands_of(folder)
        if not known >= commands.keys():
            write_metadata(place, f"cipherblas_{folder}", commands, commands_of(folder, ENGINES))
            added = [str(place), str(ROOT / folder / "src")]
            sys.path += added
            before = os.environ.get("PYTHONPATH")
            os.environ["PYTHONPATH"] = os.pathsep.join([*([before] if before else []), *added])
