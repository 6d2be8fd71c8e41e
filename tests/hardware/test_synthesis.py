"""What Yosys makes of the hardware for an UltraScale+ FPGA."""

from __future__ import annotations

import importlib.util

import pytest

from cipherblas_hardware.accelerator.synthesis import Cells, synthesised
from cipherblas_hardware.model.configuration import DSP_PER_LANE
from tests.support.scripts import script

PAGES = script("measured_pages")  # which the next ones import
DRAWN, MEASURING = script("draw_rtl"), script("measure_rtl")
SYNTHESISED = pytest.mark.skipif(
    importlib.util.find_spec("pyosys") is None,
    reason="pyosys is not installed: pip install './hardware[rtl]'",
)


@SYNTHESISED
@pytest.mark.parametrize(("width", "slices"), [(54, DSP_PER_LANE), (50, 17)])
def test_slices_of_a_multiplier(width: int, slices: int) -> None:
    """Table V counts 21 for each modular ALU: 8 + 8 + 5 tiles of 26×17 bits."""
    found = synthesised("mod_mul", {"Width": width, "Tiled": 1})
    assert found.dsp == slices
    assert found.bram18 == found.uram == 0 and found.lut > 0 and found.ff > 0


@SYNTHESISED
def test_an_adder_takes_no_slice() -> None:
    found = synthesised("mod_add", {"Width": 54})
    assert found.dsp == 0 and 0 < found.ff <= 2 * 54 + 3


def test_cells_add_up() -> None:
    one = Cells(dsp=21, lut=7)
    assert one * 2 + Cells(lut=1, uram=3) == Cells(dsp=42, lut=15, uram=3)


def test_the_page_is_what_was_measured() -> None:
    for (page, name), text in DRAWN.tables().items():
        assert PAGES.stored("draw_rtl", page, name) == text


def test_rows_are_of_these_sources() -> None:
    """A module that was changed is synthesised anew: scripts/measure_rtl.py."""
    rows = DRAWN.measured()
    assert [(row["module"], row["parameters"]) for row in rows] == MEASURING.MODULES
    stale = {row["module"] for row in rows if row["sources"] != MEASURING.digest(row["module"])}
    assert not stale


def test_slices_of_the_published_configuration() -> None:
    """256 lanes of 21, and none for anything else."""
    elements, lanes, _, printed = DRAWN.PUBLISHED["S"]
    rows = DRAWN.measured()
    for buffered in (False, True):
        assert DRAWN.element(rows, 54, buffered).dsp * elements == printed["dsp"]
    assert printed["dsp"] == elements * lanes * DSP_PER_LANE
