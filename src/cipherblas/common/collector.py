"""Work without Python's garbage collector, which else looks at millions of living objects again and again."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_pauses = 0  # that are being kept, in all threads
_resumes = False  # whether the last one of them starts the collector again


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Nothing looks for garbage in cycles meanwhile, in any thread; what no reference holds is freed as ever.

    Pauses may lie in each other, and overlap in threads: the collector starts again when the last one ends, also by an
    error, if it ran before the first.

    >>> with collector_paused():
    ...     gc.isenabled()
    False
    """
    global _pauses, _resumes
    with _lock:
        if _pauses == 0:
            _resumes = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _resumes:
                gc.enable()
