"""What this process used of its machine."""

from __future__ import annotations

import resource
import sys


def peak_bytes() -> int:
    """Largest resident set of this process since it started."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
