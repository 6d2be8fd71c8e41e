"""What Yosys makes of the hardware for an UltraScale+ FPGA."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from cipherblas.crypto.digits import digit_ranges
from cipherblas_bench.sets import FAME_SETS
from cipherblas_hardware.accelerator.isa import Arithmetic, Permutation
from cipherblas_hardware.accelerator.synthesis import Cells, synthesised
from cipherblas_hardware.accelerator.timing import Timing
from cipherblas_hardware.model.configuration import CONFIGURATIONS, DSP_PER_LANE
from tests.support.scripts import script

PAGES = script("measured_pages")  # which the next ones import
DRAWN, MEASURING = script("draw_rtl"), script("measure_rtl")
TRACING = script("trace_rtl")  # which imports measure_rtl
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


@pytest.mark.parametrize("name", ["S", "M", "L"])
def test_slices_of_the_published_configurations(name: str) -> None:
    """256 lanes of 21, and none for anything else."""
    elements, lanes, _, printed = DRAWN.PUBLISHED[name]
    for buffered in (False, True):
        assert DRAWN.whole(DRAWN.measured(), name, buffered).dsp == printed["dsp"]
    assert printed["dsp"] == elements * lanes * DSP_PER_LANE


@pytest.mark.parametrize(("name", "letter"), [("S", "A"), ("M", "B"), ("L", "C")])
def test_banks_hold_what_the_order_of_limbs_needs(name: str, letter: str) -> None:
    """Eq. 24, for the parameter set of each configuration, in the lanes and the ring that the modules have."""
    machine, parameters = CONFIGURATIONS[letter], FAME_SETS[letter].parameters()
    digits = len(digit_ranges(len(parameters.q), parameters.alpha, parameters.digit_limbs))
    assert (machine.pes, machine.lanes) == DRAWN.PUBLISHED[name][:2]
    assert parameters.n == 1 << DRAWN.LOG_N[name]
    assert DRAWN.held(name) >= machine.scratchpad_of(parameters.n, len(parameters.q), digits)


def test_blocks_of_a_bank_are_those_of_its_rows() -> None:
    """At most twice as many as its bits fill."""
    for banks in DRAWN.BANKS.values():
        for one in banks:
            found = DRAWN.cells(DRAWN.measured(), "bank", **one)
            bits = one["Depth"] * one["Dp"] * 54
            assert bits <= found.bram18 * DRAWN.BRAM18_BITS + found.uram * DRAWN.URAM_BITS < 2 * bits


def test_the_floor_is_that_of_the_rows() -> None:
    """Areas of each kind add up to the part of the device that the modules take, and stay on it."""
    pytest.importorskip("matplotlib").use("agg")
    for axes, name in zip(DRAWN.floor_figure().axes, DRAWN.PUBLISHED, strict=True):
        drawn = [patch for patch in axes.patches if patch.get_facecolor()[3]]
        for column, (kind, whole) in enumerate(DRAWN.DEVICE.items()):
            area = sum(patch.get_width() * patch.get_height() for patch in drawn if patch.get_x() == column)
            wanted = getattr(DRAWN.whole(DRAWN.measured(), name, True), kind) / whole
            assert area / DRAWN.DIES == pytest.approx(wanted) and wanted < 1


def test_pictures_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("agg")
    PAGES.draw(DRAWN.figures, tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {path.name for path in PAGES.PICTURES.glob("fame-rtl-*.svg")}
    assert all((tmp_path / name).read_text(encoding="utf-8").endswith("</svg>\n") for name in drawn)


# --- traces ---


@pytest.mark.parametrize("name", ["transform", "rotation"])
def test_words_of_a_trace_are_those_of_its_passes(name: str) -> None:
    """What leaves the lanes is what the pass says of the words that came, 21 cycles before."""
    trace = DRAWN.Trace.of(name)
    timing = Timing(trace.about["lanes"], trace.about["log_n"])
    later, signals, checked = timing.to_bank - timing.to_lanes, trace.signals, 0
    for cycle, number in enumerate(signals["in_lanes"][:-later]):
        assert signals["written"][cycle + later] == number
        if number is None:
            continue
        one = trace.passes[number]
        q = trace.about["moduli"][one.modulus]
        a, b, c = ([signals[f"{operand}{lane}"][cycle] for lane in range(2)] for operand in "abc")
        wanted = {
            Arithmetic.MUL: lambda a=a, b=b: [a[0] * b[0], a[1] * b[1]],
            Arithmetic.MAC: lambda a=a, b=b, c=c: [c[0] + a[0] * b[0], c[1] + a[1] * b[1]],
            Arithmetic.FORWARD: lambda a=a, b=b: [a[0] + a[1] * b[1], a[0] - a[1] * b[1]],
        }[one.arithmetic]()
        assert [signals[f"r{lane}"][cycle + later] for lane in range(2)] == [word % q for word in wanted]
        checked += 1
    assert checked >= 64


@pytest.mark.parametrize("name", ["transform", "rotation"])
def test_rows_of_a_trace_are_those_of_the_clock(name: str) -> None:
    """The order in which operand a is read, and no bank that two operands read at once."""
    trace = DRAWN.Trace.of(name)
    timing, signals = Timing(trace.about["lanes"], trace.about["log_n"]), trace.signals
    for number, row, place in zip(signals["issued"], signals["row"], signals["a_row"], strict=True):
        if number is None:
            continue
        one = trace.passes[number]
        order = timing.straight
        if one.permutation is Permutation.LEFT:
            order = timing.halves
        elif one.permutation is Permutation.AUTOMORPHISM:
            words = timing.automorphism(trace.about["galois"][one.galois])
            order = words.reshape(-1, timing.lanes)[:, 0] // timing.lanes
        assert place == one.a_row + order[row]
    for cycle in range(len(signals["issued"])):
        read = [
            getattr(trace.passes[signals[signal][cycle]], field)
            for signal, field in (("issued", "a_bank"), ("b_read", "b_bank"), ("c_read", "c_bank"))
            if signals[signal][cycle] is not None
        ]
        assert len(read) == len(set(read))


def test_a_trace_has_a_stage_and_a_rotation() -> None:
    stages = [one.stage for one in DRAWN.Trace.of("transform").passes]
    assert stages == [2, 3, 4]
    trace = DRAWN.Trace.of("rotation")
    issued = [one for start, _, one in trace.spans("issued") if start >= 0][
        :-1
    ]  # the last one begins the next rotation
    kinds = Counter(DRAWN.work(trace.passes[one]) for one in issued)
    assert kinds == {"key": 4, "times P": 1, "diagonal": 2}  # two digits: 2β + 3


def test_stored_traces_are_of_these_sources(kept: Path) -> None:
    """The simulation has the same signals again, in every cycle."""
    stored = DRAWN.rows(TRACING.STORED)
    found = TRACING.simulated(kept)
    for one in (*stored, *found):
        one.pop("verilator", None)
    assert found == stored
