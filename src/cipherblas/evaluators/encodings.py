"""Caches of encoded plaintexts: the least recently used go when the byte budget is full."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from numpy.typing import NDArray

DEFAULT_BYTES = 512 << 20


class EncodeCache:
    """Arrays by key, at most `budget` bytes of them; safe in threads. Equal keys must stand for equal arrays."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.nbytes = 0
        self._lock = threading.Lock()
        self._arrays: OrderedDict[Hashable, NDArray[Any]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._arrays

    def get(self, key: Hashable, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The array of a key, made if it is not there."""
        with self._lock:
            found = self._arrays.get(key)
            if found is not None:
                self._arrays.move_to_end(key)
                return found
        made = make()
        with self._lock:
            if made.nbytes <= self.budget and key not in self._arrays:
                self._arrays[key] = made
                self.nbytes += made.nbytes
            while self.nbytes > self.budget:
                _, dropped = self._arrays.popitem(last=False)
                self.nbytes -= dropped.nbytes
        return made

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._arrays.clear()
            self.nbytes = 0


class Encodings:
    """What a server keeps from run to run: plaintexts as coefficients (8·N bytes each), and in NTT form.

    Args:
        budget: bytes of both together.
    """

    def __init__(self, budget: int = DEFAULT_BYTES) -> None:
        self.coefficients = EncodeCache(budget // 2)
        self.rows = EncodeCache(budget // 2)

    def clear(self) -> None:
        """Forget everything."""
        self.coefficients.clear()
        self.rows.clear()
