"""The first of some sizes that will do, looked for from where others were found."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

One = TypeVar("One")


class First:
    """Looks for the first of some sizes that will do, from where the last one of its kind, or of any, was found."""

    def __init__(self) -> None:
        self._found: dict[Hashable, Any] = {}
        self._last: Any = None

    def since(self, kind: Hashable, tried: Sequence[One]) -> Sequence[One]:
        """Return the sizes from the one that was kept of a kind on, all where none was."""
        return tried[tried.index(self._found[kind]) :] if kind in self._found else tried

    def keep(self, kind: Hashable, one: Any) -> None:
        """Remember what did, for `since`."""
        self._found[kind] = one

    def __call__(self, kind: Hashable, tried: Sequence[One], holds: Callable[[One], bool]) -> One | None:
        """The first for which it holds, as it does for all that follow; None where it holds for none."""
        start = next((one for one in (self._found.get(kind), self._last) if one in tried), None)
        low, high = 0, len(tried) - 1
        if start is not None:
            low, high = _around(tried.index(start), high, lambda place: holds(tried[place]))
        elif not tried or not holds(tried[high]):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(tried[middle]) else (middle + 1, high)
        if low == len(tried):
            return None
        self._found[kind] = self._last = tried[low]
        return tried[low]


def _around(start: int, last: int, holds: Callable[[int], bool]) -> tuple[int, int]:
    """The first and the last place where the first one may be for which it holds, by growing steps from a place; beyond
    the last one where it holds for none."""
    low, high, step = 0, last, 1
    down = holds(start)
    low, high = (0, start) if down else (start + 1, last)
    while low <= high - down:
        place = max(low, high - step) if down else min(high, low + step - 1)
        if holds(place) != down:
            return (place + 1, high) if down else (low, place)
        low, high, step = *((low, place) if down else (place + 1, high)), 2 * step
    return low, high
