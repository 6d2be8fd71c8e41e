"""Hardware counters of this process, where the system has some: what goes from and to memory.

Linux's perf_event_open, one counter for each thread that is there and for those that they start. Virtual machines often
have none.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

LINE_BYTES = 64
CACHE_MISSES = 0, 3  # type and number: misses of the last cache
TASK_CLOCK = 1, 1  # nanoseconds of computing, which every system counts
_CALLS = {"x86_64": 298, "aarch64": 241}
_ATTRIBUTES = struct.Struct("=IIQQQQQ72x")
_INHERIT, _NO_KERNEL, _NO_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6


@dataclass
class Counted:
    """The count between entry and exit; None where there is no such counter."""

    number: int | None = None

    @property
    def nbytes(self) -> int | None:
        """Of the cache lines that were missed."""
        return None if self.number is None else self.number * LINE_BYTES


@contextmanager
def counting(event: tuple[int, int] = CACHE_MISSES) -> Iterator[Counted]:
    """Count an event in all threads of this process, the kernel's part left out."""
    counted, opened = Counted(), _opened(event)
    try:
        before = [_read(one) for one in opened]
        yield counted
        if opened:
            counted.number = sum(map(_read, opened)) - sum(before)
    finally:
        for one in opened:
            os.close(one)


def _read(descriptor: int) -> int:
    return int.from_bytes(os.read(descriptor, 8), sys.byteorder)


def _opened(event: tuple[int, int]) -> list[int]:
    """A counter for each thread, or none at all where one is refused."""
    call = _CALLS.get(platform.machine())
    if not sys.platform.startswith("linux") or call is None:
        return []
    kind, number = event
    flags = _INHERIT | _NO_KERNEL | _NO_HYPERVISOR
    attributes = ctypes.create_string_buffer(
        _ATTRIBUTES.pack(kind, _ATTRIBUTES.size, number, 0, 0, 0, flags), _ATTRIBUTES.size
    )
    system = ctypes.CDLL(None).syscall
    opened: list[int] = []
    for thread in Path("/proc/self/task").iterdir():
        found = system(call, attributes, int(thread.name), -1, -1, 0)
        if found < 0:
            for one in opened:
                with suppress(OSError):
                    os.close(one)
            return []
        opened.append(found)
    return opened
