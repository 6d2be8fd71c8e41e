"""Programs with several results on the command line: planned by a formula, decrypted into one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cipherblas.roles.program import Program
from cipherblas.roles.sharing import Sharing

NAMED, LISTED = "gram = x.T @ x; moment = x.T @ y", "x.T @ x, x.T @ y"


class Flow:
    """The files of a program of x and y, carried to its encrypted results."""

    def __init__(self, folder: Path, invoke: Any, formula: str) -> None:
        random = np.random.default_rng(3)
        self.x, self.y = random.uniform(-1, 1, (20, 3)), random.uniform(-1, 1, 20)
        self.expected = [self.x.T @ self.x, self.x.T @ self.y]
        self.folder, self.plan, self.keys, self.results = (
            folder,
            *(folder / name for name in ("plan.cb", "keys", "results.ct")),
        )
        for name in ("x", "y"):
            np.save(folder / f"{name}.npy", getattr(self, name))
        operands = ["--operand", "x=20x3", "--operand", "y=20"]
        sent = [word for name in "xy" for word in ("--operand", f"{name}={folder / name}.ct")]
        steps: list[list[Any]] = [
            ["plan", *operands, "--program", formula, "--precision", "1e-9", "-o", self.plan],
            ["keygen", self.plan, "-o", self.keys],
            ["encrypt", self.keys, folder / "x.npy", "-o", folder / "x.ct"],
            ["encrypt", self.keys, folder / "y.npy", "-o", folder / "y.ct"],
            ["run", self.plan, self.keys / "evaluation", *sent, "-o", self.results],
        ]
        for step in steps:
            done = invoke(*step)
            assert done.exit_code == 0, done.stderr
        self.program = Program.load(self.plan)

    def check(self, found: Any) -> None:
        for one, expected, figures in zip(found, self.expected, self.program.plan.results, strict=True):
            assert np.asarray(one).shape == expected.shape
            assert np.abs(one - expected).max() <= figures.error


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory, invoke: Any) -> Flow:
    return Flow(tmp_path_factory.mktemp("named"), invoke, NAMED)


@pytest.fixture(scope="module")
def unnamed(tmp_path_factory: pytest.TempPathFactory, invoke: Any) -> Flow:
    return Flow(tmp_path_factory.mktemp("unnamed"), invoke, LISTED)


def test_one_file_has_all_results(named: Flow, unnamed: Flow, invoke: Any, tmp_path: Path) -> None:
    for flow, names in ((named, ["gram", "moment"]), (unnamed, ["arr_0", "arr_1"])):
        done = invoke("decrypt", flow.keys, flow.results, "-o", tmp_path / "out.npz")
        assert (done.exit_code, done.stdout) == (0, "")
        assert f"{names[0]} 3x3, {names[1]} 3" in done.stderr
        with np.load(tmp_path / "out.npz") as found:
            assert list(found) == names
            flow.check([found[name] for name in names])


def test_a_file_for_one_array_is_refused(named: Flow, invoke: Any, tmp_path: Path) -> None:
    refused = invoke("decrypt", named.keys, named.results, "-o", tmp_path / "out.npy")
    assert refused.exit_code == 2 and ".npz" in refused.stderr
    assert not (tmp_path / "out.npy").exists()


def test_on_stdout(named: Flow, invoke: Any) -> None:
    lines = invoke("decrypt", named.keys, named.results).stdout.splitlines()
    assert lines[0] == "# gram" and lines[4] == "# moment" and len(lines) == 8
    gram = [[float(x) for x in line.split(",")] for line in lines[1:4]]
    named.check([np.array(gram), np.array([float(line) for line in lines[5:]])])


def test_as_json(named: Flow, invoke: Any, tmp_path: Path) -> None:
    found = json.loads(invoke("decrypt", named.keys, named.results, "--json").stdout)
    assert found["file"] is None and list(found["results"]) == ["gram", "moment"]
    named.check([np.array(one["values"]) for one in found["results"].values()])
    bounds = [one["expected_error"] for one in found["results"].values()]
    assert bounds == [one.error for one in named.program.plan.results]
    planned = json.loads(invoke("explain", named.plan, "--json").stdout)
    assert planned["shape"] == {"gram": [3, 3], "moment": [3]} and planned["program"] == NAMED
    assert [one["label"] for one in planned["results"]] == ["gram", "moment"]
    again = invoke(
        *("run", named.plan, named.keys / "evaluation", "--operand", f"x={named.folder / 'x.ct'}"),
        *("--operand", f"y={named.folder / 'y.ct'}", "-o", tmp_path / "again.ct", "--json"),
    )
    assert json.loads(again.stdout)["shape"] == {"gram": [3, 3], "moment": [3]}


def test_shared(named: Flow, invoke: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    done = invoke("decrypt", named.keys, named.results, "--share", "12", "-o", out, "--json")
    assert done.exit_code == 0, done.stderr
    sigma = Sharing(12).deviation(named.program)
    found = json.loads(done.stdout)["results"]
    assert {label: one["noise"] for label, one in found.items()} == pytest.approx(sigma)
    assert invoke("decrypt", named.keys, named.results, "--share", "12").exit_code == 1


@pytest.mark.parametrize("name", ["file", "allow_pickle", "arr_0"])
def test_names_that_numpy_uses_itself(name: str, invoke: Any, tmp_path: Path) -> None:
    from cipherblas.cli.arrays import save_arrays

    save_arrays(tmp_path / "out.npz", {name: np.eye(2), "other": np.array(3.0)})
    with np.load(tmp_path / "out.npz") as found:
        assert found[name].tolist() == [[1, 0], [0, 1]] and found["other"].shape == ()
