"""Tests of the simulated hardware: skipped where Verilator is missing, built once for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cipherblas_hardware.accelerator import verilated

KEPT = Path(__file__).resolve().parents[2] / "build" / "verilated"


@pytest.fixture(scope="session")
def kept() -> Path:
    """The folder of built libraries, which later runs take again."""
    missing = verilated.missing_tools()
    if missing is not None:
        pytest.skip(f"{missing} is not installed: pip install './hardware[rtl]'")
    return KEPT
