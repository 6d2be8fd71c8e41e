"""Where the source makes errors, and whether each says there what to write."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import cipherblas as cb
from cipherblas.common import errors

ROOT = Path(cb.__file__).parent
ERRORS = {name for name, kind in vars(errors).items() if isinstance(kind, type) and name.endswith("Error")}


class Site(NamedTuple):
    """An error that is made: its class, the file and line, the file and function, whether it has advice there."""

    error: str
    line: str
    function: str
    advised: bool


def sites(rooms: Iterable[str]) -> Iterator[Site]:
    """All of modules and folders of the package; what passes on all parts of another error has its advice."""
    for room in rooms:
        path = ROOT / room
        for module in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            yield from _of_module(module)


def _of_module(module: Path) -> Iterator[Site]:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in ast.walk(tree):
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Name)
            or node.func.id not in ERRORS
        ):
            continue
        around = [one for one in functions if one.lineno <= node.lineno <= (one.end_lineno or 0)]
        name = max(around, key=lambda one: one.lineno).name
        advised = any(keyword.arg in ("advice", None) for keyword in node.keywords)
        yield Site(node.func.id, f"{module.stem}:{node.lineno}", f"{module.stem}.{name}", advised)
