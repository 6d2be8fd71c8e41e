"""Measurements in processes of their own: memory that an earlier case left behind would raise a peak."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

Found = TypeVar("Found")


def in_own_process(what: str, work: Callable[..., Found], *arguments: object) -> Found:
    """The result of `work(*arguments)` in a new process; both are sent there.

    Args:
        what: is measured, for the error.

    Raises:
        MemoryError: the process was killed.
    """
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        try:
            return processes.submit(work, *arguments).result()
        except BrokenProcessPool as error:
            raise MemoryError(f"the process of {what} was killed") from error
