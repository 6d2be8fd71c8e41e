"""Cells of an UltraScale+ FPGA that modules of the hardware take, as Yosys estimates them: neither placed nor timed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cipherblas.common.errors import StorageError
from cipherblas_hardware.accelerator import verilated


@dataclass(frozen=True)
class Cells:
    """Cells of a module.

    Attributes:
        dsp: DSP48E2.
        lut: look-up tables, and shift registers and memories made of them; each counts by itself, where Vivado puts two
            small ones into one.
        ff: flip-flops.
        bram18: halves of a RAMB36E2, as the paper counts; a RAMB36E2 is two.
        uram: URAM288.
    """

    dsp: int = 0
    lut: int = 0
    ff: int = 0
    bram18: int = 0
    uram: int = 0

    def __add__(self, other: Cells) -> Cells:
        return Cells(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def __mul__(self, times: int) -> Cells:
        return Cells(*(getattr(self, name) * times for name in self.__dataclass_fields__))


def check_yosys() -> None:
    """Raise StorageError where Yosys is missing.

    Raises:
        StorageError: pyosys is not installed.
    """
    if importlib.util.find_spec("pyosys") is None:
        raise StorageError(
            "The package pyosys, which synthesises hardware, is not installed.",
            advice="pip install 'cipherblas-hardware[rtl]'",
        )


def synthesised(top: str, parameters: Mapping[str, int]) -> Cells:
    """The cells of one module, flattened.

    Args:
        top: its name.
        parameters: of the module.

    Raises:
        StorageError: pyosys is not installed.
    """
    check_yosys()
    given = " ".join(f"-G {name}={value}" for name, value in parameters.items())
    files = " ".join(str(path) for path in verilated.sources())
    with _design() as run, tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "stat"
        run(f"read_slang -D SYNTHESIS --top {top} {given} {files}")
        run(f"synth_xilinx -family xcup -top {top} -flatten -noiopad -noclkbuf")
        run(f"tee -q -o {report} stat", quiet=False)
        lines = [line.split() for line in report.read_text().splitlines()]
    kinds = {words[1]: int(words[0]) for words in lines if len(words) == 2 and words[0].isdigit()}

    def count(*prefixes: str) -> int:
        return sum(number for kind, number in kinds.items() if kind.startswith(prefixes))

    return Cells(
        dsp=count("DSP48"),
        lut=count("LUT", "SRL", "RAM32", "RAM64", "RAM128", "RAM256", "RAM512"),
        ff=count("FD"),
        bram18=2 * count("RAMB36") + count("RAMB18"),
        uram=count("URAM"),
    )


@contextmanager
def _design() -> Iterator[Any]:
    """A function that runs a command of Yosys on a design of its own."""
    flags = (
        sys.getdlopenflags()
    )  # pyosys opens every library after it for all others, unless they are set back
    try:
        yosys = importlib.import_module("pyosys.libyosys")
    finally:
        sys.setdlopenflags(flags)
    design = yosys.Design()

    def run(command: str, quiet: bool = True) -> None:
        yosys.run_pass(f"tee -q {command}" if quiet else command, design)

    yield run
