"""The functional model of an element: what every instruction computes, on NumPy, without a clock.

It applies the effects of passes and events in the order of their cycles, and reads nothing that was not written.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from cipherblas.common.errors import MismatchError
from cipherblas_hardware.accelerator.isa import (
    FLOOR_BITS,
    GALOIS_ELEMENTS,
    SCALARS,
    Arithmetic,
    Event,
    Factors,
    Modulus,
    Outcome,
    Pass,
    Permutation,
    ReadRows,
    SetGalois,
    SetScalar,
    Words,
    WriteRows,
)
from cipherblas_hardware.accelerator.residues import high_product, product, twiddle_offsets
from cipherblas_hardware.accelerator.timing import Timing
from cipherblas_hardware.model.configuration import BANKS, WORD_BITS

BANK_ROWS = 1 << 13  # as many as instructions can name


class Machine:
    """An element as a program sees it.

    Args:
        timing: of lanes and ring degree; what a program computes depends on no other numbers of it.
        bank_rows: of each bank.
        width: bits of a word.
    """

    def __init__(self, timing: Timing, bank_rows: int = BANK_ROWS, width: int = WORD_BITS) -> None:
        self.timing, self.bank_rows, self.width = timing, bank_rows, width
        self._banks = np.zeros((BANKS, bank_rows, timing.lanes), np.uint64)
        self._known = np.zeros((BANKS, bank_rows), bool)
        self._moduli: Sequence[Modulus] = ()
        self._scalars = np.zeros(SCALARS, np.uint64)
        self._galois = np.ones(GALOIS_ELEMENTS, int)

    def set_moduli(self, moduli: Sequence[Modulus]) -> None:
        """See `Element.set_moduli`."""
        self._moduli = moduli

    def run(self, passes: Sequence[Pass], events: Sequence[Event], stream: Words) -> Outcome:
        """See `Element.run`.

        Raises:
            MismatchError: a pass reads rows that nothing has written, or its result is no residue.
        """
        timing, found = self.timing, list[Words]()
        waits = itertools.accumulate(one.wait for one in passes)
        starts = [wait + number * timing.rows for number, wait in enumerate(waits)]
        # An event comes before the first pass that begins no earlier; rows leave before the first that writes later.
        writes = [start + timing.to_bank for start in starts]
        order = sorted(
            [
                (int(np.searchsorted(writes if isinstance(event, ReadRows) else starts, event.cycle)), number)
                for number, event in enumerate(events)
            ]
        )
        streamed = iter(stream.reshape(-1, timing.rows, timing.lanes))
        turn = iter(order)
        event = next(turn, None)
        for number, one in enumerate(passes):
            while event is not None and event[0] <= number:
                self._apply(events[event[1]], found)
                event = next(turn, None)
            own = next(streamed) if one.factors is Factors.STREAM else None
            self._compute(one, own)
        for _, left in [event, *turn] if event is not None else []:
            self._apply(events[left], found)
        return Outcome(found, starts[-1] + timing.rows + timing.to_bank + 1 if starts else 0)

    def _apply(self, event: Event, found: list[Words]) -> None:
        if isinstance(event, WriteRows):
            rows = event.words.reshape(-1, self.timing.lanes)
            self._banks[event.bank, event.row : event.row + len(rows)] = rows
            self._known[event.bank, event.row : event.row + len(rows)] = True
        elif isinstance(event, ReadRows):
            found.append(self._read(event.bank, event.row, event.rows).copy().ravel())
        elif isinstance(event, SetScalar):
            self._scalars[event.number] = event.value
        elif isinstance(event, SetGalois):
            self._galois[event.number] = event.value

    def _read(self, bank: int, row: int, rows: int) -> Words:
        if not self._known[bank, row : row + rows].all():
            raise MismatchError(
                "A program reads rows that it has not written.",
                expected="rows that were loaded, or are results of passes",
                got=f"bank {bank}, rows {row} to {row + rows - 1}",
            )
        found: Words = self._banks[bank, row : row + rows]
        return found

    def _operand(self, one: Pass) -> Words:
        """Operand a, permuted."""
        a = self._read(one.a_bank, one.a_row, self.timing.rows).reshape(-1)
        if one.permutation is Permutation.LEFT:
            a = a[self.timing.rotated_left]
        elif one.permutation is Permutation.RIGHT:
            a = a[self.timing.rotated_right]
        elif one.permutation is Permutation.AUTOMORPHISM:
            a = a[self.timing.automorphism(int(self._galois[one.galois]))]
        return a >> np.uint64(self.width - FLOOR_BITS) if one.floor else a

    def _factors(self, one: Pass, streamed: Words | None) -> Words:
        """Operand b, of every word."""
        timing = self.timing
        if one.factors is Factors.STREAM:
            assert streamed is not None
            return streamed.reshape(-1)
        if one.factors is Factors.ROWS:
            return self._read(one.b_bank, one.b_row, timing.rows).reshape(-1)
        if one.factors is Factors.TWIDDLES:
            offsets = twiddle_offsets(timing, one.stage)
            first, last = int(offsets.min()) // timing.lanes, int(offsets.max()) // timing.lanes
            rows = self._read(one.b_bank, one.b_row + first, last + 1 - first).reshape(-1)
            return np.repeat(rows[offsets - first * timing.lanes], 2)
        pair = self._scalars[[one.scalar, one.scalar + (one.factors is Factors.SCALAR_PAIR)]]
        return np.tile(pair, timing.n // 2)

    def _compute(self, one: Pass, streamed: Words | None) -> None:
        timing, modulus, kind = self.timing, self._moduli[one.modulus], one.arithmetic
        q = np.uint64(modulus.q)

        def add(x: Words, y: Words) -> Words:
            total: Words = x + y
            total -= q * (total >= q)
            return total

        def subtract(x: Words, y: Words) -> Words:
            difference: Words = x - y + q * (x < y)
            return difference

        def times(x: Words, y: Words) -> Words:
            return high_product(x, y, modulus.shift) if one.high else product(x, y, modulus.q)

        a = self._operand(one)
        b = a if kind is Arithmetic.ADD else self._factors(one, streamed)
        if one.constant:
            c = np.full(timing.n, self._scalars[one.c_scalar])
        else:
            c = self._read(one.c_bank, one.c_row, timing.rows).reshape(-1) if one.reads_c else a
        even, odd, found = a[::2], a[1::2], np.empty(timing.n, np.uint64)
        if kind is Arithmetic.MUL:
            found = times(a, b)
        elif kind is Arithmetic.MAC:
            found = add(c, times(a, b))
        elif kind is Arithmetic.ADD:
            found = add(a, c)
        elif kind is Arithmetic.ADDMUL:
            found = times(add(a, c), b)
        elif kind is Arithmetic.FORWARD:
            turned = times(odd, b[1::2])
            found[::2], found[1::2] = add(even, turned), subtract(even, turned)
        elif kind is Arithmetic.INVERSE:
            found[::2], found[1::2] = add(even, odd), times(subtract(even, odd), b[1::2])
        else:
            found[::2] = add(c[::2], times(add(even, odd), b[::2]))
            found[1::2] = add(c[1::2], times(subtract(even, odd), b[1::2]))
        if not (found < q).all():
            raise MismatchError(
                "The result of a pass is no residue.", expected=f"words below {modulus.q}", got=str(one)
            )
        self._banks[one.d_bank, one.d_row : one.d_row + timing.rows] = found.reshape(-1, self.timing.lanes)
        self._known[one.d_bank, one.d_row : one.d_row + timing.rows] = True
