"""What this process used of its machine."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


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
