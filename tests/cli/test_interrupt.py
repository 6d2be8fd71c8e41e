"""Ctrl-C and SIGTERM in real processes: exit code, one line, and no file left, whole or half."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

# The signal arrives while the file `out`, or one in it, is being written: just before its bytes are forced to the disk.
DURING_A_WRITE = """
import os, signal, sys
fsync = os.fsync
def interrupted(descriptor):
    if "/.out." in os.readlink(f"/proc/self/fd/{{descriptor}}"):
        signal.raise_signal(signal.Signals({number}))
    fsync(descriptor)
os.fsync = interrupted
from cipherblas.cli import main
sys.argv[0] = "cipherblas"
main()
"""

# … or between the evaluation keys of `keygen`.
DURING_KEYGEN = """
import signal, sys
from cipherblas.crypto.keys import generation
make = generation.make_switching_key
def interrupted(*arguments):
    made = make(*arguments)
    signal.raise_signal(signal.Signals({number}))
    return made
generation.make_switching_key = interrupted
from cipherblas.cli import main
main()
"""


def default_signals() -> None:
    """A background job of a shell ignores SIGINT, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run(script: str, number: int, arguments: list[Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script.format(number=number), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=default_signals,
    )


def commands(flow: Any, out: Path) -> dict[str, list[Any]]:
    return {
        "plan": ["plan", "--a", "2x3", "--b", "3x2", "-o", out],
        "keygen": ["keygen", flow.plan, "-o", out],
        "encrypt": ["encrypt", flow.keys, flow.a_npy, "-o", out],
        "run": ["run", flow.plan, flow.evaluation, "--a", flow.a, "--b", flow.b, "-o", out],
        "decrypt": ["decrypt", flow.keys, flow.c, "-o", out],
    }


@pytest.mark.parametrize("command", ["plan", "keygen", "encrypt", "run", "decrypt"])
def test_interrupted_write_leaves_nothing(flow: Any, tmp_path: Path, command: str) -> None:
    done = run(DURING_A_WRITE, signal.SIGINT, commands(flow, tmp_path / "out")[command])
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "cipherblas: stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_interrupted_picture_of_measurements_leaves_nothing(tmp_path: Path, crossover_rows: str) -> None:
    rows = tmp_path / "rows"
    rows.write_text(crossover_rows, encoding="utf-8")
    given = ["bench", "crossover", "--rows", rows, "--json", "-q", "--plot", tmp_path / "out"]
    done = run(DURING_A_WRITE, signal.SIGINT, given)
    assert (done.returncode, done.stdout, done.stderr) == (130, crossover_rows, "cipherblas: stopped\n")
    assert list(tmp_path.iterdir()) == [rows]


def test_interrupted_write_keeps_the_earlier_file(flow: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("earlier")
    assert run(DURING_A_WRITE, signal.SIGINT, commands(flow, out)["run"]).returncode == 130
    assert out.read_text() == "earlier" and list(tmp_path.iterdir()) == [out]


def test_interrupted_keygen_leaves_no_folder(flow: Any, tmp_path: Path) -> None:
    done = run(DURING_KEYGEN, signal.SIGINT, commands(flow, tmp_path / "out")["keygen"])
    assert (done.returncode, done.stderr) == (130, "cipherblas: stopped\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", [DURING_A_WRITE, DURING_KEYGEN])
def test_terminated_keygen_leaves_no_folder(flow: Any, tmp_path: Path, script: str) -> None:
    done = run(script, signal.SIGTERM, commands(flow, tmp_path / "out")["keygen"])
    assert (done.returncode, done.stderr) == (143, "")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_from_outside(flow: Any, tmp_path: Path) -> None:
    """The signal of a terminal, sent to a process that makes many keys."""
    plan, keys = tmp_path / "plan.cb", tmp_path / "keys"
    command = [sys.executable, "-m", "cipherblas"]
    planned = ["plan", "--a", "24x24", "--b", "24x24", "--algorithm", "fame", "-o", str(plan)]
    subprocess.run([*command, *planned], check=True, capture_output=True, timeout=300)
    environment = {**os.environ, "CIPHERBLAS_ISA": "scalar", "CIPHERBLAS_THREADS": "1"}  # takes seconds
    process = subprocess.Popen(
        [*command, "keygen", str(plan), "-o", str(keys)],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=default_signals,
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(".keys.*.partial/evaluation")):  # it has begun
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=120)
    assert (process.returncode, text) == (130, "cipherblas: stopped\n")
    assert list(tmp_path.iterdir()) == [plan]


def test_missing_file_from_outside(tmp_path: Path) -> None:
    """The exit code and the message that a script sees."""
    command = [sys.executable, "-m", "cipherblas", "keygen", "absent.json", "-o", "keys"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    line, advice = done.stderr.splitlines()
    assert line.startswith("cipherblas: error: Cannot read absent.json") and "No such file" in line
    assert advice.startswith("  Write: the file that cipherblas plan -o FILE")
    assert list(tmp_path.iterdir()) == []
