"""Where in the user's function a node of a program was written: errors name it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

_PACKAGE = __name__.partition(".")[0] + "."
_traced: ContextVar[bool] = ContextVar("traced", default=False)


class Place(NamedTuple):
    """A line of a file, and the function of this package that is called there, if one is."""

    file: str
    line: int
    function: str | None = None

    def __str__(self) -> str:
        file = "" if self.file.startswith("<") else f"{Path(self.file).name}, "
        called = "" if self.function is None else f"cb.{self.function} "
        return f"{called}({file}line {self.line})"


@contextmanager
def tracing() -> Iterator[None]:
    """While the user's function runs: nodes that are made know their places."""
    token = _traced.set(True)
    try:
        yield
    finally:
        _traced.reset(token)


def place_of_caller() -> Place | None:
    """The line outside of this package that is being run; None unless a program is traced, and for a formula."""
    if not _traced.get():
        return None
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        if (
            frame.f_globals.get("__name__") == f"{_PACKAGE}lang.analysis"
        ):  # the function is one of this package
            return None
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
