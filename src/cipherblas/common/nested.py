"""Recursion that takes no stack: graphs may be deeper than Python's stack."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

Wanted = TypeVar("Wanted")
Result = TypeVar("Result")


def result_of(wanted: Wanted, steps: Callable[[Wanted], Generator[Wanted, Result, Result]]) -> Result:
    """The result of a recursive function that is written as a generator: it yields every argument that it calls itself
    with, and is sent the result. An error leaves all calls, the innermost first.

    >>> def length(number):
    ...     return 0 if number == 0 else 1 + (yield number - 1)
    >>> result_of(100_000, length)
    100000
    """
    calls = [steps(wanted)]
    try:
        found = None
        while calls:
            try:
                another = calls[-1].send(found)  # type: ignore[arg-type]  # None begins a call
            except StopIteration as end:
                calls.pop()
                found = end.value
            else:
                calls.append(steps(another))
                found = None
    finally:
        while calls:
            calls.pop().close()
    return found  # type: ignore[return-value]  # of the last call
