"""Tables and JSON on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_json(value: Any) -> None:
    """Print one JSON document (strict: no NaN) on stdout."""
    text = json.dumps(value, indent=2, allow_nan=False)  # escapes all control characters but one
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")


def print_markdown(text: str, raw: bool) -> None:
    """Markdown on stdout, as it is or laid out for people."""
    if raw:
        sys.stdout.write(text)
        return
    from rich.markdown import Markdown

    stdout_console().print(Markdown(text))


def plan_table(explanation: str, title: str) -> Table:
    """The lines of `Program.explain()`, "name  value", as a table of two columns."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_header=False
    )
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for line in explanation.splitlines():
        name, _, value = line.strip().partition("  ")
        table.add_row(Text(name), Text(value.strip()))
    return table


def comparison_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A name per row and one column per head, figures flush right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("", style="cyan", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def stdout_console() -> Console:
    """A console on stdout that breaks no figure in two where the output is piped."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=max(console.width, 180))
