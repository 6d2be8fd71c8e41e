"""The accelerator itself, simulated: a program runs on the SystemVerilog of the folder `rtl`, cycle by cycle."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

import numpy as np

from cipherblas.common.errors import MismatchError, ParameterError
from cipherblas_hardware.accelerator import verilated
from cipherblas_hardware.accelerator.isa import (
    Event,
    Modulus,
    Outcome,
    Pass,
    ReadRows,
    SetGalois,
    SetScalar,
    Words,
    WriteRows,
    encoded,
)
from cipherblas_hardware.accelerator.timing import Timing
from cipherblas_hardware.model.configuration import WORD_BITS

MAX_LOG_N = 16  # whose stages an instruction can name

EVERY_PASS = 1 << 62
EVENT_WORDS = 6  # cycle, kind, bank, row, rows, address of the words
KINDS = (WriteRows, ReadRows, SetScalar, SetGalois)  # in the order of `sim/element.cpp`


class SimulatedElement:
    """An element in Verilator.

    Args:
        timing: of lanes, ring degree, and registers of the multipliers.
        bank_rows: rows of each bank.
        width: bits of a word.
        largest_log_n: of the largest ring of the same hardware, which serves all that are no larger. None: 12, or that
            of `timing` where it is larger; with buffers an element has that one ring.
        folder: where built libraries are kept; None: the default one.
        trace: a file for the element's signals, in VCD; None: no such file.
        traced: number of the first pass whose cycles it has, of all programs, and how many passes it has.

    Raises:
        ParameterError: the ring is larger than the largest one.
        StorageError: Verilator or g++ is not installed.
    """

    def __init__(
        self,
        timing: Timing,
        bank_rows: int = 1 << 13,
        width: int = WORD_BITS,
        largest_log_n: int | None = None,
        folder: Path | None = None,
        trace: Path | None = None,
        traced: tuple[int, int] = (0, EVERY_PASS),
    ) -> None:
        if largest_log_n is None:
            largest_log_n = timing.log_n if timing.buffered else max(12, timing.log_n)
        if not timing.log_n <= largest_log_n <= MAX_LOG_N:
            raise ParameterError(
                "An element has no such ring.",
                expected=f"N of 2^{min(largest_log_n, MAX_LOG_N)} at most",
                got=timing.n,
            )
        self.timing, self.bank_rows, self.width = timing, bank_rows, width
        parameters = {
            "Dp": timing.lanes,
            "LogN": largest_log_n,
            "Width": width,
            "Stages": timing.stages,
            "BankRows": bank_rows,
            "Buffered": int(timing.buffered),
        }
        self._library = verilated.library("element", "element", parameters, folder, trace is not None)
        for name, result in {
            "create": ctypes.c_void_p,
            "take_said": ctypes.c_char_p,
            "run": ctypes.c_int64,
            "issued": ctypes.c_uint32,
        }.items():
            getattr(self._library, name).restype = result
        self._handle = ctypes.c_void_p(self._library.create(timing.log_n - timing.lane_bits))
        weakref.finalize(self, self._library.destroy, self._handle)
        if trace is not None:
            window = [ctypes.c_uint64(number) for number in (*traced, timing.to_bank + 2)]
            self._library.trace(self._handle, str(trace).encode(), *window)

    @property
    def issued(self) -> int:
        """Rows that passes have issued, of all programs that were run."""
        return int(self._library.issued(self._handle))

    def set_moduli(self, moduli: Sequence[Modulus]) -> None:
        """See `Element.set_moduli`."""
        for number, modulus in enumerate(moduli):
            entry = np.array(astuple(modulus), np.uint64)
            self._library.set_modulus(self._handle, number, _pointer(entry))

    def run(self, passes: Sequence[Pass], events: Sequence[Event], stream: Words) -> Outcome:
        """See `Element.run`.

        Raises:
            MismatchError: an assertion of the hardware fails: the program reads rows before they are written, takes
                more rows of the stream than there are, reads a bank twice in a cycle, or its results are no residues.
        """
        table = np.zeros((len(events), EVENT_WORDS), np.uint64)
        lanes, buffers = self.timing.lanes, list[Words]()
        for entry, event in zip(table, events, strict=True):
            if isinstance(event, WriteRows):
                words = np.ascontiguousarray(event.words, np.uint64).ravel()
                place = (event.bank, event.row, len(words) // lanes)
            elif isinstance(event, ReadRows):
                words = np.zeros(event.rows * lanes, np.uint64)
                place = (event.bank, event.row, event.rows)
            else:
                words, place = np.array([event.value], np.uint64), (0, event.number, 0)
            if place[1] + place[2] > self.bank_rows:
                raise MismatchError(
                    "An event is outside of its bank.", expected=self.bank_rows, got=str(event)
                )
            buffers.append(words)
            entry[:] = (event.cycle, KINDS.index(type(event)), *place, words.ctypes.data)
        program = encoded(passes)
        streamed = np.ascontiguousarray(stream, np.uint64).ravel()
        cycles = self._library.run(
            self._handle,
            _pointer(program),
            ctypes.c_uint64(len(passes)),
            _pointer(table),
            ctypes.c_uint64(len(table)),
            _pointer(streamed),
            ctypes.c_uint64(len(streamed) // lanes),
        )
        said = self._library.take_said().decode(errors="replace")
        if cycles < 0:
            raise MismatchError("The hardware refuses a program.", cause=said.strip())
        read = [buffer for buffer, event in zip(buffers, events, strict=True) if isinstance(event, ReadRows)]
        return Outcome(read, cycles)


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
