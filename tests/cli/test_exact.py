"""Exact integers on the command line: planned by --exact, decrypted into int64 files and whole numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, invoke: Any) -> Path:
    """The files of a @ b with a of int16 clear and b exact, carried to the encrypted result."""
    here = tmp_path_factory.mktemp("exact")
    np.save(here / "A.npy", np.full((3, 4), -(1 << 15), np.int16))
    np.save(here / "B.npy", np.full((4, 2), -(1 << 15), np.int64))
    steps: list[list[Any]] = [
        [
            "plan",
            "--a",
            "3x4",
            "--a-public",
            "--b",
            "4x2",
            "--exact",
            "--dtype",
            "int16",
            "-o",
            here / "plan",
        ],
        ["keygen", here / "plan", "-o", here / "keys"],
        ["encrypt", here / "keys", here / "B.npy", "-o", here / "B.ct"],
        ["run", here / "plan", here / "keys/evaluation", "--a", here / "A.npy", "--b", here / "B.ct"],
    ]
    steps[-1] += ["-o", here / "C.ct"]
    for step in steps:
        done = invoke(*step)
        assert done.exit_code == 0, done.stderr
    return here


def test_results_are_int64_files(folder: Path, invoke: Any, tmp_path: Path) -> None:
    done = invoke("decrypt", folder / "keys", folder / "C.ct", "-o", tmp_path / "C.npy")
    assert done.exit_code == 0, done.stderr
    found = np.load(tmp_path / "C.npy")
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.full((3, 2), 1 << 32))


def test_results_are_printed_with_all_digits(folder: Path, invoke: Any) -> None:
    done = invoke("decrypt", folder / "keys", folder / "C.ct")
    assert done.stdout.splitlines() == ["4294967296,4294967296"] * 3
    values = json.loads(invoke("decrypt", folder / "keys", folder / "C.ct", "--json").stdout)["values"]
    assert values == [[1 << 32] * 2] * 3


def test_the_plan_says_so(folder: Path, invoke: Any) -> None:
    assert "exact integers, int64" in invoke("explain", folder / "plan").stdout
    planned = json.loads(invoke("explain", folder / "plan", "--json").stdout)
    assert planned["operands"]["b"]["exact"] and "exact" not in planned["operands"]["a"]
    assert planned["exact"] and planned["expected_error"] < 0.5


def test_fractions_are_refused(folder: Path, invoke: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "B.npy", np.full((4, 2), 0.5))
    done = invoke("encrypt", folder / "keys", tmp_path / "B.npy", "-o", tmp_path / "B.ct")
    assert done.exit_code == 1 and "has fractions" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--a", "3x4", "--b", "4x2", "--exact", "--program", "a @ b / 2"], "may have fractions"),
        (["--a", "3x4", "--b", "4x2", "--exact", "--dtype", "float32"], "can be exact"),
        (["--a", "3x4", "--b", "4x2", "--exact", "--precision", "1e-2"], "err by less than one half"),
        (
            ["--a", "3x4", "--b", "4x2", "--dtype", "int8", "--bound-a", "200"],
            "exceeds what its type, int8, holds",
        ),
    ],
)
def test_refusals(arguments: list[str], says: str, invoke: Any) -> None:
    done = invoke("plan", *arguments)
    assert done.exit_code == 1 and says in done.stderr


@pytest.mark.encrypted
def test_integers_beyond_64_bits_are_printed_with_all_digits(invoke: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "A.npy", np.array([[2**62, -(2**62)], [0, 3]]))
    steps: list[list[Any]] = [
        ["plan", "--a", "2x2", "--program", "a * a", "--exact", "--dtype", "int64", "-o", tmp_path / "plan"],
        ["keygen", tmp_path / "plan", "-o", tmp_path / "keys"],
        ["encrypt", tmp_path / "keys", tmp_path / "A.npy", "-o", tmp_path / "A.ct"],
        [
            "run",
            tmp_path / "plan",
            tmp_path / "keys/evaluation",
            "--a",
            tmp_path / "A.ct",
            "-o",
            tmp_path / "C.ct",
        ],
    ]
    for step in steps:
        done = invoke(*step)
        assert done.exit_code == 0, done.stderr
    text = invoke("explain", tmp_path / "plan").stdout
    assert "exact integers, by residues modulo" in text and "Python's integers" in text
    done = invoke("decrypt", tmp_path / "keys", tmp_path / "C.ct")
    assert done.stdout.splitlines() == [f"{2**124},{2**124}", "0,9"]
    values = json.loads(invoke("decrypt", tmp_path / "keys", tmp_path / "C.ct", "--json").stdout)["values"]
    assert values == [[2**124, 2**124], [0, 9]]
    done = invoke("decrypt", tmp_path / "keys", tmp_path / "C.ct", "-o", tmp_path / "C.npy")
    assert done.exit_code == 1 and "no NumPy file holds" in done.stderr


def test_fixed_point(invoke: Any) -> None:
    done = invoke("plan", "--operand", "x=4x2:bound=1e5:fixed_point=20", "--program", "x.T @ x / 4")
    assert done.exit_code == 0 and "in fixed point: multiples of 2^-20 up to 100000" in done.stdout
    done = invoke("plan", "--operand", "x=4x2:fixed_point=half", "--program", "x * x")
    assert done.exit_code == 2 and "bits after fixed_point=" in done.stderr
