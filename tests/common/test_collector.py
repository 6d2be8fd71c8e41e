"""Pauses of the garbage collector: nested, in threads, left by errors; never started where it was off."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

import cipherblas as cb
from cipherblas.common.collector import collector_paused


@pytest.fixture(autouse=True)
def running() -> Iterator[None]:
    before = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if before else gc.disable)()


def test_the_last_of_nested_pauses_starts_it_again() -> None:
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_a_pause() -> None:
    with pytest.raises(ValueError, match="left"), collector_paused():
        raise ValueError("left")
    assert gc.isenabled()


def test_pauses_of_threads_overlap() -> None:
    begun, ended = threading.Event(), threading.Event()

    def other() -> None:
        with collector_paused():
            begun.set()
            assert ended.wait(60)

    thread = threading.Thread(target=other)
    with collector_paused():
        thread.start()
        assert begun.wait(60)
    assert not gc.isenabled()  # the other thread's pause has not ended
    ended.set()
    thread.join()
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_compile_plans_in_a_pause_and_ends_it() -> None:
    operands = {"a": cb.secret(4, 4), "b": cb.secret(4, 4)}
    during: list[bool] = []
    cb.compile(lambda a, b: a @ b, operands, progress=lambda _: during.append(gc.isenabled()))
    assert during[1:] and not any(during[1:])  # the first is told before
    assert gc.isenabled()
    with pytest.raises(cb.CipherblasError):
        cb.compile(lambda a, b: a @ b, operands, precision=1e-30)
    assert gc.isenabled()
