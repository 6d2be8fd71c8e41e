"""Notes and progress bars on stderr: results alone go to stdout, so that they can be piped."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    ProgressColumn,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import (
    Progress as Bars,
)

from cipherblas.common.errors import printable
from cipherblas.common.progress import Progress, Tell


class Display:
    """The output of commands. `quiet` silences it; without a terminal it shows no bars."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """One line for people."""
        if not self.quiet:
            self.console.print(printable(text), markup=False)

    @contextmanager
    def progress(self, title: str, *, printing: bool = False) -> Iterator[Progress]:
        """Show a bar while the block runs. The bar pulses until the first call of the yielded function names a total.

        Args:
            title: what the block does.
            printing: it prints to stdout; where that is a terminal, there is no bar, which it would run through.
        """
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        with self._shown(columns, printing) as bars:
            task = bars.add_task(printable(title), total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total)

    @contextmanager
    def telling(self, title: str, *, printing: bool = False) -> Iterator[Tell]:
        """A line while the block runs, which ends with what it is at: what is yielded is told that. See `progress`."""
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with self._shown(columns, printing) as lines:
            task = lines.add_task(printable(title), total=None)
            yield lambda what: lines.update(task, description=printable(f"{title}: {what}"))

    def _shown(self, columns: Sequence[ProgressColumn], printing: bool) -> Bars:
        """Bars that are drawn on a terminal alone, and leave stdout as it is."""
        shown = self.console.is_terminal and not self.quiet and not (printing and sys.stdout.isatty())
        return Bars(*columns, console=self.console, transient=True, disable=not shown, redirect_stdout=False)
