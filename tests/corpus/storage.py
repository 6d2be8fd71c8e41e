"""The file of the corpus: a block per program, its name behind `==`, then a line per fact."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FILE = Path(__file__).with_name("plans.txt")
HEAD = "== "
WIDTH = 10  # of the names of facts


def block(name: str, facts: Iterable[tuple[str, str]]) -> list[str]:
    """The lines of a program."""
    return [HEAD + name, *(f"{what:<{WIDTH}} {text}" for what, text in facts)]


def written(blocks: Iterable[list[str]]) -> str:
    """The whole file."""
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def read(path: Path = FILE) -> dict[str, list[str]]:
    """The blocks by name, in their order."""
    if not path.exists():
        return {}
    found: dict[str, list[str]] = {}
    for text in path.read_text(encoding="utf-8").split("\n\n"):
        lines = text.strip().splitlines()
        if not lines or not lines[0].startswith(HEAD) or lines[0].removeprefix(HEAD) in found:
            raise ValueError(f"{path}: a block without a name of its own: {lines[:1]}")
        found[lines[0].removeprefix(HEAD)] = lines
    return found
