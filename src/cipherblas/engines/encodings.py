"""Encoded plaintexts: what a program keeps from run to run (masks, constants, weights), and what one run reuses.

Masks, constants and weights are the same in every run, and for every server of the program; clear operands are new in
every run, and what they became goes with it.
"""

from __future__ import annotations

import math
import mmap
import os
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.limits import MASK_BYTES, default_weight_budget
from cipherblas.common.memory import ResidentParts, aligned_empty, mapped_file

SEGMENT_BYTES = 256 << 20  # of the file of a store of weights
RESIDENT_BYTES = 256 << 20  # of such files that stay in memory: no call should read much more than half of it
PAGE_BYTES = 4096
# Of what is free on the disk when the first of them come, that such files may take: what does not fit is encoded anew
# in every run, which takes about as long as reading it would.
DISK_SHARE = 0.5


class _Makers:
    """Who is making the array of which key: of several threads that ask for one, one makes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Event] = {}

    def get(
        self,
        key: Hashable,
        find: Callable[[], NDArray[Any] | None],
        make: Callable[[], NDArray[Any]],
    ) -> NDArray[Any]:
        """Return the kept encoding, or make one and keep it if there is room."""
        found = find()
        if found is not None:
            return found
        with self._lock:
            others = self._making.get(key)
            if others is None:
                ready = self._making[key] = threading.Event()
        if others is not None:
            others.wait()
            found = find()  # None: there was no room, or the other thread failed
            return make() if found is None else found
        try:
            found = find()  # another thread may have been done in between
            return make() if found is None else found
        finally:
            with self._lock:
                del self._making[key]
            ready.set()


class EncodeCache:
    """Arrays by key, at most `budget` bytes of them; safe in threads, of which one makes what several ask for. Equal
    keys must stand for equal arrays."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.nbytes = 0
        self._lock = threading.Lock()
        self._makers = _Makers()
        self._arrays: OrderedDict[Hashable, NDArray[Any]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._arrays

    def get(self, key: Hashable, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The array of a key, made if it is not there."""
        return self._makers.get(key, lambda: self._found(key), lambda: self._kept(key, make()))

    def _found(self, key: Hashable) -> NDArray[Any] | None:
        with self._lock:
            found = self._arrays.get(key)
            if found is not None:
                self._arrays.move_to_end(key)
            return found

    def _kept(self, key: Hashable, made: NDArray[Any]) -> NDArray[Any]:
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
    """Encoded masks and constants of a program: the first that come, as many as fit; safe in threads.

    Of several threads that ask for one, one makes it. Every run asks for the same ones in the same order. Beyond the
    budget, giving up what was used longest ago would give up each one before it is asked for again; those that came
    first are as good as any. Equal keys must stand for equal arrays in all runs.

    Args:
        budget: bytes of all together.
    """

    def __init__(self, budget: int = MASK_BYTES) -> None:
        self.budget = budget
        self.nbytes = 0
        self._lock = threading.Lock()
        self._makers = _Makers()
        self._arrays: dict[Hashable, NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._arrays

    def get(self, key: Hashable, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """The array of a key, made if it is not there."""
        return self._makers.get(key, lambda: self._arrays.get(key), lambda: self._kept(key, make()))

    def _kept(self, key: Hashable, made: NDArray[Any]) -> NDArray[Any]:
        with self._lock:
            if self.nbytes + made.nbytes > self.budget:
                return made
            kept = self._arrays.setdefault(key, made)  # another thread may have been faster
            self.nbytes += made.nbytes if kept is made else 0
            return kept

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._arrays.clear()
            self.nbytes = 0


_Place = tuple[mmap.mmap, int, int]  # of an array in a file: the mapped segment, the first byte, bytes
_Room = tuple[NDArray[np.uint64], "_Place | None"]


class WeightStore:
    """Encoded weights of a program: in memory up to a budget, the rest in files that are mapped into memory.

    What the disk has no room for either is encoded anew whenever it is asked for.

    Both grow by segments; those in memory ask for huge pages. A file has no name, so that it cannot be changed and
    goes with its segment; what is read from it again and again streams through the page cache, and leaves the memory of
    the process behind it. Equal keys must stand for equal arrays. Safe in threads, of which one encodes what several
    ask for.

    Args:
        budget: bytes in memory; by default half of what is available when the first weights come.
        folder: where the files go; by default the system's folder for temporary files.
    """

    def __init__(self, budget: int | None = None, folder: str | Path | None = None) -> None:
        self.budget = budget
        self.folder = folder
        self.memory_bytes = 0
        self.file_bytes = 0
        self._arrays: dict[Hashable, NDArray[np.uint64]] = {}
        self._making: dict[Hashable, threading.Event] = {}
        # Room of arrays that were not filled, by shape.
        self._spare: dict[tuple[int, ...], list[_Room]] = {}
        self._lock = threading.Lock()
        self._segments: dict[bool, mmap.mmap] = {}  # the last one in memory (True) and in the file
        self._used = {True: 0, False: 0}
        self._places: dict[Hashable, _Place] = {}  # of arrays in the file, by key
        self._resident = ResidentParts(RESIDENT_BYTES)
        self._disk: float | None = None  # bytes that files may take

    def __len__(self) -> int:
        return len(self._arrays)

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._arrays

    def get(self, key: Hashable) -> NDArray[np.uint64] | None:
        """The array of a key, or None."""
        with self._lock:
            self._read(key)
            return self._arrays.get(key)

    def _read(self, key: Hashable) -> None:
        if key in self._places:
            self._resident.use(key, *self._places[key])

    def make(
        self, key: Hashable, shape: Sequence[int], fill: Callable[[NDArray[np.uint64]], object]
    ) -> NDArray[np.uint64]:
        """The array of a key; the first thread that asks has `fill` write it, the others wait. Where there is no room
        for it, whoever asks gets an array of its own, and none is kept.

        Raises:
            StorageError: the file cannot be made or lengthened.
        """
        while True:
            with self._lock:
                if key in self._arrays:
                    self._read(key)
                    return self._arrays[key]
                others = self._making.get(key)
                if others is None:
                    ready = self._making[key] = threading.Event()
                    break
            others.wait()  # then it is there, or the other thread failed
        try:
            found = self._allocate(tuple(shape))
            if found is None:
                array = aligned_empty(tuple(shape))
                fill(array)
                return array
            array, place = room = found
            try:
                fill(array)
            except BaseException:
                with self._lock:
                    self._spare.setdefault(array.shape, []).append(room)
                raise
            array.flags.writeable = False
            with self._lock:
                self._arrays[key] = array
                if place is not None:
                    self._places[key] = place
                self._read(key)
            return array
        finally:
            with self._lock:
                self._making.pop(key, None)
            ready.set()

    def _allocate(self, shape: tuple[int, ...]) -> _Room | None:
        """Room for an array, aligned to pages, and where in the file it is, if it is there; None where neither memory
        nor disk has any."""
        nbytes = 8 * math.prod(shape)
        room = -(-nbytes // PAGE_BYTES) * PAGE_BYTES
        with self._lock:
            if self._spare.get(shape):
                return self._spare[shape].pop()
            if self.budget is None:
                self.budget = default_weight_budget()
            in_memory = self.memory_bytes + room <= self.budget
            if not in_memory and self.file_bytes + room > self._disk_room():
                return None
            segment = self._segments.get(in_memory)
            if segment is None or self._used[in_memory] + room > len(segment):
                segment = self._next_segment(max(SEGMENT_BYTES, room), in_memory)
                self._segments[in_memory], self._used[in_memory] = segment, 0
            start = self._used[in_memory]
            self._used[in_memory] += room
            if in_memory:
                self.memory_bytes += room
            else:
                self.file_bytes += room
        flat = np.frombuffer(segment, dtype=np.uint64, count=math.prod(shape), offset=start)
        return flat.reshape(shape), None if in_memory else (segment, start, nbytes)

    def _disk_room(self) -> float:
        """Bytes that files may take."""
        if self._disk is None:
            try:
                self._disk = DISK_SHARE * shutil.disk_usage(self.folder or tempfile.gettempdir()).free
            except OSError:
                return math.inf  # there is no such folder: whoever makes a file there says so
        return self._disk

    def _next_segment(self, length: int, in_memory: bool) -> mmap.mmap:
        if in_memory:
            segment = mmap.mmap(-1, length)
            if hasattr(mmap, "MADV_HUGEPAGE"):
                segment.madvise(mmap.MADV_HUGEPAGE)
            return segment
        return mapped_file(length, "Encoded weights", self.folder, "weight_folder")

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._arrays.clear()
            self._places.clear()
            self._resident = ResidentParts(RESIDENT_BYTES)
            self._spare.clear()
            self._segments.clear()
            self._used = {True: 0, False: 0}
            self.memory_bytes = self.file_bytes = 0


@dataclass(frozen=True)
class ProgramEncodings:
    """The encodings that all servers of one program share."""

    masks: Encodings
    weights: WeightStore

    @classmethod
    def of(
        cls,
        program_id: str,
        mask_budget: int,
        weight_budget: int | None,
        weight_folder: str | Path | None,
        engine: str,
    ) -> ProgramEncodings:
        """Return the encodings of a program in this process: the same object for equal budgets, folder and engine while
        anybody holds it.

        They live as long as somebody holds them. The identity of a program covers its graph and its constants, so that
        equal keys mean equal values in all that have it.
        """
        folder = None if weight_folder is None else os.path.abspath(weight_folder)
        with _shared_lock:
            return cls(
                _shared(("masks", engine, program_id, mask_budget), lambda: Encodings(mask_budget)),
                _shared(
                    ("weights", engine, program_id, weight_budget, folder),
                    lambda: WeightStore(weight_budget, folder),
                ),
            )


Kept = TypeVar("Kept", Encodings, WeightStore)

_shared_lock = threading.Lock()
_held: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()


def _shared(key: Hashable, make: Callable[[], Kept]) -> Kept:
    found: Kept | None = _held.get(key)
    if found is None:
        found = _held[key] = make()
    return found
