"""`decrypt --of` and `decrypt --share`: what a result is of, and what others may see of it."""

from __future__ import annotations

import json
import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cipherblas.roles.program import Program
from cipherblas.roles.sharing import Sharing


@dataclass(frozen=True)
class Runs:
    """Two runs of w @ x with the same keys, for the x of `earlier` and of `later`."""

    folder: Path
    w: NDArray[np.float64]
    earlier: NDArray[np.float64]
    later: NDArray[np.float64]

    def path(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture
def runs(invoke: Any, tmp_path: Path) -> Runs:
    random = np.random.default_rng(3)
    made = Runs(tmp_path, *(random.uniform(-1, 1, shape) for shape in ((4, 6), (6, 3), (6, 3))))
    np.save(made.path("w.npy"), made.w)
    plan, keys = made.path("plan.cb"), made.path("keys")
    commands: list[list[Any]] = [
        [
            "plan",
            "--a",
            "4x6",
            "--a-public",
            "--b",
            "6x3",
            "--form",
            "rows",
            "--precision",
            "1e-10",
            "-o",
            plan,
        ],
        ["keygen", plan, "-o", keys],
    ]
    for name in ("earlier", "later"):
        np.save(made.path(f"{name}.npy"), getattr(made, name))
        x = made.path(f"{name}.x")
        evaluation = keys / "evaluation"
        commands += [
            ["encrypt", keys, made.path(f"{name}.npy"), "--as", "b", "-o", x],
            ["run", plan, evaluation, "--a", made.path("w.npy"), "--b", x, "-o", made.path(f"{name}.y")],
        ]
    for command in commands:
        result = invoke(*command, "--quiet")
        assert result.exit_code == 0, result.stderr
    return made


def test_a_stale_result_is_refused_unless_it_is_named(runs: Runs, invoke: Any) -> None:
    keys, out = runs.path("keys"), runs.path("y.npy")
    stale = invoke("decrypt", keys, runs.path("earlier.y"), "-o", out)
    assert stale.exit_code == 1
    assert "operand 'b'" in stale.stderr and "--of" in stale.stderr
    assert not out.exists()
    for name, options in (
        ("earlier", ["--of", runs.path("earlier.x")]),
        ("later", ["--of", runs.path("later.x")]),
        ("later", []),
    ):
        assert invoke("decrypt", keys, runs.path(f"{name}.y"), *options, "-o", out).exit_code == 0
        assert np.abs(np.load(out) - runs.w @ getattr(runs, name)).max() < 1e-8
    wrong = invoke("decrypt", keys, runs.path("later.y"), "--of", runs.path("earlier.x"), "-o", out)
    assert wrong.exit_code == 1 and "operand 'b'" in wrong.stderr
    other = invoke("decrypt", keys, runs.path("later.y"), "--of", runs.path("earlier.y"))
    assert other.exit_code == 1 and "expected operand, got result" in other.stderr


def test_shared_numbers_have_noise_and_a_budget(runs: Runs, invoke: Any) -> None:
    keys, out = runs.path("keys"), runs.path("y.npy")
    share = ["--share", "24", "--share-bits", "32"]
    result = invoke("decrypt", keys, runs.path("later.y"), *share, "-o", out, "--json")
    assert result.exit_code == 0, result.stderr
    sigma = Sharing(24, 32).deviation(Program.load(runs.path("plan.cb")))
    assert json.loads(result.stdout)["noise"] == pytest.approx(sigma)
    shared, step = np.load(out), 2.0 ** math.floor(math.log2(sigma))
    assert np.array_equal(shared, np.rint(shared / step) * step)
    assert sigma / 10 < np.abs(shared - runs.w @ runs.later).max() < 10 * sigma
    again = invoke("decrypt", keys, runs.path("later.y"), *share)
    assert again.exit_code == 1 and "shared before" in again.stderr and again.stdout == ""
    changed = invoke("decrypt", keys, runs.path("earlier.y"), "--of", runs.path("earlier.x"), "--share", "99")
    assert changed.exit_code == 1 and "budget of a key" in changed.stderr and changed.stdout == ""
    earlier = ["decrypt", keys, runs.path("earlier.y"), "--of", runs.path("earlier.x"), *share]
    assert invoke(*earlier).exit_code == 0
    assert invoke("decrypt", keys, runs.path("later.y"), "-o", out, "--json").exit_code == 0  # the owner may
    assert np.abs(np.load(out) - runs.w @ runs.later).max() < 1e-8


def test_only_the_owner_may_read_what_is_decrypted(runs: Runs, invoke: Any, tmp_path: Path) -> None:
    """But what was made to be shared."""
    keys, result = runs.path("keys"), runs.path("later.y")
    umask = os.umask(0o022)
    try:
        for options, mode in (([], 0o600), (["--share", "24"], 0o644)):
            out = tmp_path / "values.npy"
            out.unlink(missing_ok=True)
            assert invoke("decrypt", keys, result, *options, "-o", out).exit_code == 0
            assert stat.S_IMODE(out.stat().st_mode) == mode
    finally:
        os.umask(umask)


def test_the_budget_runs_out(runs: Runs, invoke: Any) -> None:
    keys = runs.path("keys")
    small = invoke("decrypt", keys, runs.path("later.y"), "--share", "11")
    assert small.exit_code == 1 and "at most 11 of 11 entries, got 12" in small.stderr and small.stdout == ""


def test_usage(runs: Runs, invoke: Any) -> None:
    keys, y = runs.path("keys"), runs.path("later.y")
    assert invoke("decrypt", keys, y, "--share-bits", "40").exit_code == 2
    for options in (["--share", "0"], ["--share", "10", "--share-bits", "8"]):
        result = invoke("decrypt", keys, y, *options)
        assert result.exit_code == 2 and "or equal to" in result.stderr and result.stdout == ""
    shown = " ".join(invoke("decrypt", "--help").stdout.split())
    assert "rounded to the precision" not in shown
    assert "--share" in shown
