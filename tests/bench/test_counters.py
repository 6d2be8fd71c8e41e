"""Counters of the system: what is there is read, in all threads; what is not is None."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from cipherblas_bench import counters
from cipherblas_bench.counters import CACHE_MISSES, LINE_BYTES, TASK_CLOCK, counting


def work(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def counts_time() -> bool:
    with counting(TASK_CLOCK) as counted:
        pass
    return counted.number is not None


@pytest.mark.skipif(not counts_time(), reason="this system counts nothing")
def test_time_is_counted_in_all_threads() -> None:
    """Those that were there before, and those that are started meanwhile."""
    go, done = threading.Event(), threading.Event()

    def earlier() -> None:
        go.wait()
        work(0.05)
        done.set()

    thread = threading.Thread(target=earlier)
    thread.start()
    with counting(TASK_CLOCK) as counted:
        later = threading.Thread(target=work, args=(0.05,))
        later.start()
        go.set()
        done.wait()
        later.join()
        work(0.05)
    thread.join()
    assert counted.number is not None
    assert counted.number >= 0.14e9


def test_misses_are_bytes_or_nothing() -> None:
    with counting(CACHE_MISSES) as counted:
        work(0.01)
    assert counted.nbytes == (None if counted.number is None else counted.number * LINE_BYTES)
    assert counted.number is None or counted.number >= 0


def test_systems_without_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_CALLS", {}), ("_CALLS", {"x86_64": 9999, "aarch64": 9999})):
        monkeypatch.setattr(counters, name, value)
        with counting(TASK_CLOCK) as counted:
            pass
        assert counted.number is counted.nbytes is None
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "darwin")
    with counting(TASK_CLOCK) as counted:
        pass
    assert counted.number is None


def test_what_fails_is_closed() -> None:
    """An error within leaves no counter open."""
    with pytest.raises(RuntimeError), counting(TASK_CLOCK) as counted:
        raise RuntimeError
    assert counted.number is None
