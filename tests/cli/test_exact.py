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
