"""Arrays that count what is done to whole of them: an operand in an inner loop is seen whatever the machine's speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray


@dataclass
class Tally:
    """Of the operands that are watched.

    Attributes:
        least: entries of a pass: reading fewer at a time, as a diagonal does, is none.
        passes: how often so many were read, computed with or copied at once.
        conversions: those that made another type of them.
    """

    least: int
    passes: int = 0
    conversions: int = 0

    def count(self, entries: int, converts: bool = False) -> None:
        """Something was done with so many entries."""
        if entries >= self.least:
            self.passes += 1
            self.conversions += converts


class Watched(np.ndarray):  # type: ignore[type-arg]
    """An operand, a view of one, or what was made of one."""

    tally: Tally | None = None

    def __array_finalize__(self, source: Any) -> None:
        """Copies count, views do not."""
        if not isinstance(source, Watched) or source.tally is None:
            return
        self.tally = source.tally
        if not np.may_share_memory(_plain(self), _plain(source)):
            self.tally.count(self.size, self.dtype != source.dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        watched = [one for one in inputs if isinstance(one, Watched)]
        tally = next((one.tally for one in watched if one.tally is not None), None)
        if tally is not None:
            tally.count(max(one.size for one in watched))
        if "out" in options:
            options["out"] = tuple(map(_plain, options["out"]))
        found = getattr(ufunc, method)(*map(_plain, inputs), **options)
        return watch(found, tally) if isinstance(found, np.ndarray) else found


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Watched) else value


def watch(array: NDArray[Any], tally: Tally | None) -> Watched:
    """The same array, watched."""
    found = np.asarray(array).view(Watched)
    found.tally = tally
    return found


def _watching(function: Callable[..., Any]) -> Callable[..., Any]:
    """`np.asarray` and its like, which give plain arrays, made to give watched ones of watched ones."""

    def wrapped(value: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(value, Watched) or value.tally is None:
            return function(value, *arguments, **options)
        found = function(_plain(value), *arguments, **options)
        if not np.may_share_memory(found, _plain(value)):
            value.tally.count(found.size, found.dtype != value.dtype)
        result = found.view(Watched)
        result.tally = value.tally
        return result

    return wrapped


@contextmanager
def conversions_counted() -> Iterator[None]:
    """While it lasts, NumPy's functions that convert arrays count those that are watched."""
    names = ("asarray", "ascontiguousarray", "array")
    with mock.patch.multiple(np, **{name: _watching(getattr(np, name)) for name in names}):
        yield
