"""Tests of the simulated hardware: skipped where Verilator is missing, built once for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cipherblas_hardware.accelerator import verilated
from cipherblas_hardware.accelerator.simulator import SimulatedElement
from cipherblas_hardware.accelerator.timing import Timing

KEPT = Path(__file__).resolve().parents[2] / "build" / "verilated"
WIDTHS = {4: 50}  # of the lanes' words, else 54


@pytest.fixture(scope="session")
def kept() -> Path:
    """The folder of built libraries, which later runs take again."""
    missing = verilated.missing_tools()
    if missing is not None:
        pytest.skip(f"{missing} is not installed: pip install './hardware[rtl]'")
    return KEPT


@pytest.fixture(scope="session")
def simulated(kept: Path) -> Callable[[Timing], SimulatedElement]:
    """An element in its initial state; elements of as many lanes are the same hardware."""
    return lambda timing: SimulatedElement(timing, width=WIDTHS.get(timing.lanes, 54), folder=kept)
