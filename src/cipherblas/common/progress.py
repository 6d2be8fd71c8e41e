"""How calls tell what they have done: to a function of the caller, since the library shows nothing by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

Progress = Callable[[int, int], object]  # called with (done, total); ends the call by what it raises
Tell = Callable[[str], object]  # called with a few words on what is done now; likewise


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
