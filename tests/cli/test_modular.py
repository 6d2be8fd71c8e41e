"""Integers modulo t on the command line: planned by --modulus, decrypted into int64 files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

T = 65537  # = 1 mod 2^16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, invoke: Any) -> Path:
    """The files of (w @ a) * a - 3 a with w clear, carried to the encrypted result."""
    here = tmp_path_factory.mktemp("modular")
    np.save(here / "A.npy", np.array([[0, 1], [T - 1, 2**62]]))
    np.save(here / "W.npy", np.array([[2**31 - 1, -1], [0, -(2**31)]]))
    formula = ["--program", "(w @ a) * a - 3 * a", "--modulus", str(T)]
    steps: list[list[Any]] = [
        ["plan", "--a", "2x2", "--operand", "w=2x2:public", *formula, "-o", here / "plan"],
        ["keygen", here / "plan", "-o", here / "keys"],
        ["encrypt", here / "keys", here / "A.npy", "-o", here / "A.ct"],
        ["run", here / "plan", here / "keys/evaluation", "--a", here / "A.ct"],
    ]
    steps[-1] += ["--operand", f"w={here / 'W.npy'}", "-o", here / "C.ct"]
    for step in steps:
        done = invoke(*step)
        assert done.exit_code == 0, done.stderr
    return here


@pytest.mark.encrypted
def test_results_are_reduced(folder: Path, invoke: Any, tmp_path: Path) -> None:
    done = invoke("decrypt", folder / "keys", folder / "C.ct", "-o", tmp_path / "C.npy")
    assert done.exit_code == 0, done.stderr
    a, w = (np.load(folder / f"{name}.npy").astype(object) for name in "AW")
    found = np.load(tmp_path / "C.npy")
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, ((w @ a) * a - 3 * a) % T)


@pytest.mark.encrypted
def test_the_plan_says_so(folder: Path, invoke: Any) -> None:
    text = invoke("explain", folder / "plan").stdout
    assert f"integers modulo {T}, exact" in text and "noise budget" in text
    planned = json.loads(invoke("explain", folder / "plan", "--json").stdout)
    assert planned["operands"]["a"]["modulus"] == T and "modulus" not in planned["operands"]["w"]
    assert [budget > 0 for budget in planned["noise_budgets"]] == [True]


@pytest.mark.encrypted
def test_fractions_are_refused(folder: Path, invoke: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "A.npy", np.full((2, 2), 0.5))
    done = invoke("encrypt", folder / "keys", tmp_path / "A.npy", "-o", tmp_path / "A.ct")
    assert done.exit_code == 1 and "has fractions" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--modulus", "2^65"], 1, "from 2 to"),
        (["--modulus", "half"], 2, "expected a whole number such as 65537 or 2^16"),
        (["--modulus", "65537", "--bound-a", "3"], 1, "and no bound"),
        (["--modulus", "65537", "--exact"], 2, "--modulus alone"),
        (["--modulus", "65537", "--precision", "1e-2"], 1, "precision= has no place"),
    ],
)
def test_refusals(arguments: list[str], code: int, says: str, invoke: Any) -> None:
    done = invoke("plan", "--a", "3x4", "--b", "3x4", "--program", "a * b", *arguments)
    assert done.exit_code == code and says in " ".join(done.stderr.replace("│", " ").split())
