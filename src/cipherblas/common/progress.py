"""How calls tell what they have done: to a function of the caller, or to stderr where the caller says True."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import cipherblas._core as _core
from cipherblas.common.errors import DTypeError

Progress = Callable[[int, int], object]  # called with (done, total); ends the call by what it raises
Tell = Callable[[str], object]  # called with a few words on what is done now; likewise
Told = TypeVar("Told", bound=Callable[..., object])
SECONDS = 0.5  # between two lines on stderr


class Printed:
    """Prints lines to stderr, the last step always, others if some time has passed: progress=True.

    Args:
        what: is done, as "encrypting".
    """

    def __init__(self, what: str) -> None:
        self._what, self._next = what, time.monotonic() + SECONDS

    def __call__(self, done: int | str, total: int = 0) -> None:
        last, now = done == total, time.monotonic()
        if last or now >= self._next:
            self._next = now + SECONDS
            step = done if isinstance(done, str) else f"{done} of {total}"
            print(f"{self._what}: {step}", file=sys.stderr, flush=True)


def shown(progress: Told | bool | None, what: str) -> Told | None:
    """Return whom a call tells what it has done: the caller's function, stderr for True, nobody for None and False.

    Raises:
        DTypeError: anything else.
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        printed: Any = Printed(what)
        return printed  # type: ignore[no-any-return]
    if not callable(progress):
        raise DTypeError(
            "The progress of a call is told to a function.",
            got=type(progress).__name__,
            advice="progress=True, which prints it to stderr, or progress=lambda done, total: …",
        )
    return progress


@contextlib.contextmanager
def asked(ask: Callable[[], object]) -> Iterator[None]:
    """Call `ask` ten times a second while the core computes for this thread; what it raises ends the call."""
    _core.set_ask(ask)
    try:
        yield
    finally:
        _core.set_ask(None)


class Steps:
    """Counts what several threads do, and tells it: one call at a time, with more done than in the one before.

    Args:
        progress: whom it is told, or None.
        total: of the steps.
    """

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._done, self._total = progress, 0, total
        self._lock = threading.Lock()

    def tick(self, done: int = 1) -> None:
        """So many more steps are done."""
        if self._progress is None or done <= 0:
            return
        with self._lock:
            self._done += done
            self._progress(self._done, self._total)
