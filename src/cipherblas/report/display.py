"""Notes and progress bars on stderr: results alone go to stdout, so that they can be piped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import (
    Progress as Bars,
)

from cipherblas.common.errors import printable

Progress = Callable[[int, int], None]  # called with (done, total)


class Display:
    """Where commands tell what they do; silent when `quiet`, without bars when stderr is no terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """One line for people."""
        if not self.quiet:
            self.console.print(printable(text), markup=False)

    @contextmanager
    def progress(self, title: str) -> Iterator[Progress]:
        """A bar while the block runs; it pulses until the first call of what is yielded names a total."""
        shown = self.console.is_terminal and not self.quiet
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        with Bars(*columns, console=self.console, transient=True, disable=not shown) as bars:
            task = bars.add_task(printable(title), total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total)

    @contextmanager
    def telling(self, title: str) -> Iterator[Callable[[str], None]]:
        """A line while the block runs, which ends with what it is at: what is yielded is told that."""
        shown = self.console.is_terminal and not self.quiet
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Bars(*columns, console=self.console, transient=True, disable=not shown) as lines:
            task = lines.add_task(printable(title), total=None)
            yield lambda what: lines.update(task, description=printable(f"{title}: {what}"))
