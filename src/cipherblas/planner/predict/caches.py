"""The caches of this machine, as the system describes them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "": 1}


@dataclass(frozen=True)
class Cache:
    """A cache of data, or of data and instructions.

    Attributes:
        level: 1, 2, 3.
        nbytes: its size.
        processors: that share it.
    """

    level: int
    nbytes: int
    processors: int


@functools.lru_cache(maxsize=1)
def caches_here() -> tuple[Cache, ...]:
    """Return the caches of the first processor, the smallest level first; none if the system does not tell."""
    return caches_of(FOLDER)


def caches_of(folder: Path) -> tuple[Cache, ...]:
    """The caches that a folder of Linux's /sys describes; what cannot be read is left out."""
    found = []
    for entry in sorted(folder.glob("index*")):
        try:
            level, kind, size, shared = (
                (entry / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size", "shared_cpu_list")
            )
        except (OSError, UnicodeDecodeError):
            continue
        match = re.fullmatch(r"(\d{1,9})([KMG]?)", size, re.ASCII)
        if kind in ("Data", "Unified") and match and re.fullmatch(r"[1-9]", level, re.ASCII):
            found.append(Cache(int(level), int(match[1]) * UNITS[match[2]], _processors(shared)))
    return tuple(sorted(found, key=lambda cache: cache.level))


def _processors(text: str) -> int:
    """How many a list such as 0-3,8 has; 1 where it is none."""
    number = 0
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part, re.ASCII)
        if match is None:
            return 1
        number += int(match[2] or match[1]) - int(match[1]) + 1
    return max(1, number)
