"""When each pass of a program starts, and what comes and leaves in which cycle: all known before it runs.

A bank is read once and written once in a cycle. Passes start in order, each as early as its rows are there and its
ports are free; what streams in and out takes the cycles that passes leave, one row per cycle each way, and keys besides
as fast as they are read. Memory is ideal: it has what is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError
from cipherblas_hardware.accelerator.assembler import Fetch, Item, Slot, Step, Store
from cipherblas_hardware.accelerator.isa import (
    FIELDS,
    GALOIS_ELEMENTS,
    SCALARS,
    Event,
    Factors,
    Pass,
    Permutation,
    ReadRows,
    SetScalar,
    Words,
    WriteRows,
)
from cipherblas_hardware.accelerator.residues import twiddle_offsets
from cipherblas_hardware.accelerator.timing import Order, Timing
from cipherblas_hardware.model.configuration import BANKS

Cycles = NDArray[np.int64]
MARGIN = 3  # cycles between the last use of an entry or a row and the event that replaces it
CAUSES = ("rows", "stream", "store", "ports")


@dataclass(frozen=True)
class Schedule:
    """A program that an element runs.

    Attributes:
        passes, events, stream: see `Element.run`.
        places: of the limbs that `Element.run` returns: output, component, limb.
        cycles: from the first pass to the last row that is written.
        waits: cycles without a pass, by cause: rows of earlier passes, limbs that stream in, limbs that have not left,
            ports of banks.
        kinds: passes of each kind.
        words_in, words_out: from and to memory.
    """

    passes: list[Pass]
    events: list[Event]
    stream: Words
    places: list[tuple[int, int, int]]
    cycles: int
    waits: dict[str, int]
    kinds: dict[str, int]
    words_in: int
    words_out: int


class _Ports:
    """The cycles in which banks are read or written."""

    def __init__(self, timing: Timing, items: int) -> None:
        self._rows = timing.rows
        self._busy = np.zeros((2 * BANKS + 2, (items + 8) * (timing.rows + timing.to_bank)), bool)

    def _until(self, end: int) -> None:
        if end > self._busy.shape[1]:
            self._busy = np.concatenate([self._busy, np.zeros_like(self._busy)], axis=1)

    def take(self, uses: Sequence[tuple[int, int]], start: int) -> int:
        """The first cycle from `start` on so that all ports are free, each `delay` cycles later, for a limb's rows."""
        while True:
            self._until(start + max(delay for _, delay in uses) + self._rows)
            later = start
            for port, delay in uses:
                busy = np.flatnonzero(self._busy[port, start + delay : start + delay + self._rows])
                if len(busy):
                    later = max(later, start + int(busy[-1]) + 1)
            if later == start:
                break
            start = later
        for port, delay in uses:
            self._busy[port, start + delay : start + delay + self._rows] = True
        return start

    def scattered(self, ports: tuple[int, int], earliest: int, rows: int) -> Cycles:
        """The first cycles, so many, in which both ports are free."""
        reach = 2 * rows
        while True:
            self._until(earliest + reach)
            busy = self._busy[list(ports), earliest : earliest + reach].any(axis=0)
            found = np.flatnonzero(~busy)[:rows]
            if len(found) == rows:
                break
            reach *= 2
        found = found + earliest
        for port in ports:
            self._busy[port, found] = True
        return found


READ, WRITE, IN, OUT = (
    0,
    BANKS,
    2 * BANKS,
    2 * BANKS + 1,
)  # of ports: the first of the banks' ones; the streams


class _Clock:
    """The state of a program's schedule: when rows can be read, when they are read last."""

    def __init__(self, timing: Timing, bank_rows: int, items: int) -> None:
        self.timing = timing
        self.ports = _Ports(timing, items)
        self.ready = np.zeros((BANKS, bank_rows), np.int64)  # from when on they can be read
        self.fetched = np.zeros((BANKS, bank_rows), bool)  # whether they streamed in
        self.read = np.full((BANKS, bank_rows), -MARGIN, np.int64)  # the last cycle in which they are
        self.left = np.full((BANKS, bank_rows), -MARGIN, np.int64)  # the last cycle in which they leave
        self.scalars = np.zeros((2, SCALARS), np.int64)  # set from, used until
        self.galois = np.zeros((2, GALOIS_ELEMENTS), np.int64)
        self.elements = np.ones(GALOIS_ELEMENTS, int)
        self.now = self.fetch_from = 0
        self.waits: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        self._orders: dict[tuple[Permutation, int], Order] = {}
        self._twiddles: dict[tuple[int, bool], Order] = {}

    def fetch(self, item: Fetch) -> WriteRows:
        """A limb streams in, in order, as soon as its slot is free."""
        bank, rows = item.slot.bank, len(item.words) // self.timing.lanes
        own = slice(item.slot.row, item.slot.row + rows)
        free = max(self.read[bank, own].max(), self.left[bank, own].max()) + MARGIN
        earliest = int(max(free, self.ready[bank, own].max(), self.fetch_from))
        cycles = self.ports.scattered((WRITE + bank, IN), earliest, rows)
        self.fetch_from = int(cycles[0])
        self.ready[bank, own] = cycles + 1
        self.fetched[bank, own] = True
        return WriteRows(int(cycles[0]), bank, item.slot.row, item.words)

    def store(self, slot: Slot) -> ReadRows:
        """A limb leaves as soon as it is there."""
        bank, rows = slot.bank, self.timing.rows
        own = slice(slot.row, slot.row + rows)
        cycles = self.ports.scattered((READ + bank, OUT), int(self.ready[bank, own].max()), rows)
        self.left[bank, own] = cycles[-1] + MARGIN
        return ReadRows(int(cycles[-1]), bank, slot.row, rows)

    def enter(self, table: Cycles, number: int) -> int:
        """The cycle in which an entry of a table changes."""
        cycle = int(table[1, number])
        table[0, number] = cycle
        return cycle

    def _order(self, one: Pass) -> Order:
        """Of the rows of operand a."""
        if one.permutation is Permutation.AUTOMORPHISM:
            galois = int(self.elements[one.galois])
            key = (one.permutation, galois)
            if key not in self._orders:
                words = self.timing.automorphism(galois).reshape(-1, self.timing.lanes)
                self._orders[key] = words[:, 0] // self.timing.lanes
            return self._orders[key]
        return self.timing.halves if one.permutation is Permutation.LEFT else self.timing.straight

    def _factor_rows(self, one: Pass, out: Order, right: bool) -> Order:
        """Of operand b."""
        if one.factors is Factors.ROWS:
            return out
        key = (one.stage, right)
        if key not in self._twiddles:
            offsets = twiddle_offsets(self.timing, one.stage).reshape(self.timing.rows, -1)
            self._twiddles[key] = offsets[out, 0] // self.timing.lanes
        return self._twiddles[key]

    def start(self, one: Pass) -> Pass:
        """The pass, with the cycles that it waits."""
        timing, i = self.timing, self.timing.straight
        right = one.permutation is Permutation.RIGHT
        out = timing.halves if right else i
        reads = [(one.a_bank, one.a_row + self._order(one), 0)]
        if one.reads_b:
            reads.append((one.b_bank, one.b_row + self._factor_rows(one, out, right), timing.skew))
        if one.reads_c:
            reads.append((one.c_bank, one.c_row + out, timing.skew))
        written = one.d_row + out
        scalars = [
            *range(one.scalar, one.scalar + 1 + (one.factors is Factors.SCALAR_PAIR)),
            *([one.c_scalar] if one.constant else []),
        ]
        by_rows = by_stream = self.now
        for bank, rows, delay in reads:
            ready, streamed = self.ready[bank, rows] - i, self.fetched[bank, rows]
            by_rows = max(by_rows, int(np.max(ready - delay, where=~streamed, initial=0)))
            by_stream = max(by_stream, int(np.max(ready, where=streamed, initial=0)))
        by_rows = max(by_rows, int((self.ready[one.d_bank, written] - i).max()) - timing.to_bank)
        by_rows = max(by_rows, int((self.read[one.d_bank, written] + 1 - i).max()) - timing.to_bank)
        by_rows = max(
            by_rows, *(int(self.scalars[0, number]) for number in scalars), int(self.galois[0, one.galois])
        )
        by_store = (
            int(self.left[one.d_bank, written].max()) + 1
        )  # a limb leaves as a whole, before the next one begins
        uses = [(READ + bank, delay) for bank, _, delay in reads] + [(WRITE + one.d_bank, timing.to_bank)]
        needed = max(by_rows, by_stream, by_store)
        start = self.ports.take(uses, needed)
        before = self.now
        for cause, until in zip(CAUSES, (by_rows, by_stream, by_store, start), strict=True):
            self.waits[cause] += max(0, until - before)
            before = max(before, until)
        for bank, rows, delay in reads:
            np.maximum.at(self.read[bank], rows, start + delay + i)
        self.ready[one.d_bank, written] = start + i + timing.to_bank + 1
        self.fetched[one.d_bank, written] = False
        end = start + timing.rows + timing.to_lanes + MARGIN
        self.scalars[1, scalars] = end
        self.galois[1, one.galois] = end
        wait = start - self.now
        if wait >= 1 << FIELDS["wait"]:
            raise FitError(
                "A pass would wait longer than an instruction can say.",
                expected=f"below {1 << FIELDS['wait']} cycles",
                got=wait,
                advice="more lanes",
            )
        self.now = start + timing.rows
        return replace(one, wait=wait)


def scheduled(timing: Timing, bank_rows: int, items: Iterable[Item]) -> Schedule:
    """The schedule of a program.

    Args:
        timing: of the element.
        bank_rows: of each of its banks.
        items: in an order in which they could be done one after the other.

    Raises:
        FitError: a pass would wait longer than its field can say.
    """
    items = list(items)
    clock = _Clock(timing, bank_rows, len(items))
    passes, events, stream = list[Pass](), list[Event](), list[Words]()
    places: list[tuple[ReadRows, tuple[int, int, int]]] = []
    kinds: Counter[str] = Counter()
    for item in items:
        if isinstance(item, Step):
            passes.append(clock.start(item.one))
            kinds[item.kind] += 1
            if item.stream is not None:
                stream.append(item.stream)
        elif isinstance(item, Fetch):
            events.append(clock.fetch(item))
        elif isinstance(item, Store):
            leaves = clock.store(item.slot)
            events.append(leaves)
            places.append((leaves, item.place))
        elif isinstance(item, SetScalar):
            events.append(replace(item, cycle=clock.enter(clock.scalars, item.number)))
        else:
            events.append(replace(item, cycle=clock.enter(clock.galois, item.number)))
            clock.elements[item.number] = item.value
    events.sort(key=lambda event: event.cycle)
    places.sort(key=lambda each: each[0].cycle)
    fetched = sum(len(event.words) for event in events if isinstance(event, WriteRows))
    return Schedule(
        passes=passes,
        events=events,
        stream=np.concatenate(stream) if stream else np.empty(0, np.uint64),
        places=[place for _, place in places],
        cycles=clock.now + timing.to_bank + 1 if passes else 0,
        waits=dict(clock.waits),
        kinds=dict(kinds),
        words_in=fetched + sum(map(len, stream)),
        words_out=len(places) * timing.n,
    )
