"""What this process used of its machine."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

LOOKS = 0.01  # seconds between two looks at the memory in use


def peak_bytes() -> int:
    """Largest resident set of this process since it started."""
    try:
        # Linux hands ru_maxrss on from the process that started this one; VmHWM is this program's own.
        status = Path("/proc/self/status").read_bytes()
        return int(status[status.index(b"VmHWM:") :].split(maxsplit=2)[1]) * 1024
    except (OSError, ValueError):
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def resident_bytes() -> int:
    """Resident set of this process now; where the system does not tell, the largest since it started."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return peak_bytes()


class PeakMemory:
    """The largest resident set of this process from now on, whatever it does: at `look`, and exactly where it is the
    largest since the process started."""

    def __init__(self) -> None:
        self._before, self._most, self._next = peak_bytes(), resident_bytes(), time.monotonic() + LOOKS

    def look(self) -> None:
        """Look, if some time has passed."""
        if time.monotonic() >= self._next:
            self._most, self._next = max(self._most, resident_bytes()), time.monotonic() + LOOKS

    def peak(self) -> int:
        """The largest so far, in bytes."""
        found = peak_bytes()
        return found if found > self._before else max(self._most, resident_bytes())
