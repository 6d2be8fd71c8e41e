"""Vectors, images and networks through the commands: programs made in Python, and products W @ x by formula."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from tests.support.runs import lasting

RANDOM = np.random.default_rng(11)
IMAGE = RANDOM.uniform(-1, 1, (2, 6, 6))
FILTERS, MORE_VALUES = RANDOM.uniform(-1, 1, (3, 2, 3, 3)), RANDOM.uniform(-1, 1, (2, 3, 1, 1))


@dataclass(frozen=True)
class Network:
    """The files of a program of an image, with filters that are part of it and filters that are an operand."""

    program: cb.Program
    folder: Path

    @property
    def expected(self) -> NDArray[np.float64]:
        return self.program.evaluate({"x": IMAGE, "more": MORE_VALUES})

    def run(self, invoke: Any, output: Path, *options: object) -> Any:
        """The server's command."""
        files = (f"x={self.folder / 'x.ct'}", f"more={self.folder / 'more.npy'}")
        operands = [word for file in files for word in ("--operand", file)]
        keys = self.folder / "keys" / "evaluation"
        return invoke("run", self.folder / "plan", keys, *operands, "-o", output, *options)


@pytest.fixture(scope="module")
def network(invoke: Any, tmp_path_factory: pytest.TempPathFactory) -> Network:
    """Everything up to the encrypted image; tests must not change these files."""
    folder = tmp_path_factory.mktemp("network")
    program = cb.compile(
        lambda x, more: cb.conv2d(cb.conv2d(x, FILTERS), more),
        {"more": cb.public(*MORE_VALUES.shape), "x": cb.secret(*IMAGE.shape)},
        precision=1e-3,
    )
    program.save(folder / "plan")
    np.save(folder / "image.npy", IMAGE)
    np.save(folder / "more.npy", MORE_VALUES)
    for step in (
        ["keygen", folder / "plan", "-o", folder / "keys"],
        ["encrypt", folder / "keys", folder / "image.npy", "-o", folder / "x.ct"],
    ):
        result = invoke(*step)
        assert result.exit_code == 0, result.stderr
    return Network(program, folder)


def test_result_has_its_shape(network: Network, invoke: Any, tmp_path: Path) -> None:
    """In files, in JSON, and on stdout as the rows of one channel after the other."""
    assert network.run(invoke, tmp_path / "y.ct").exit_code == 0
    decrypt = ("decrypt", network.folder / "keys", tmp_path / "y.ct")
    written = invoke(*decrypt, "-o", tmp_path / "y.npy")
    assert "2x4x4" in written.stderr
    stated = json.loads(invoke(*decrypt, "--json").stdout)
    rows = np.array([[float(x) for x in line.split(",")] for line in invoke(*decrypt).stdout.splitlines()])
    assert stated["shape"] == [2, 4, 4] and rows.shape == (8, 4)
    for found in (np.load(tmp_path / "y.npy"), np.array(stated["values"]), rows.reshape(2, 4, 4)):
        assert found.shape == network.expected.shape
        assert np.abs(found - network.expected).max() <= network.program.plan.error_target


def test_weights_beyond_the_budget(network: Network, invoke: Any, tmp_path: Path) -> None:
    """The same result, encoded weights in a file; a folder that is not there is an error."""
    (tmp_path / "weights").mkdir()
    options = ("--weight-budget", "0", "--weight-folder", tmp_path / "weights", "--json", "-q")
    done = network.run(invoke, tmp_path / "y.ct", *options)
    assert json.loads(done.stdout)["encoding_seconds"] > 0
    invoke("decrypt", network.folder / "keys", tmp_path / "y.ct", "-o", tmp_path / "y.npy")
    errors = np.abs(np.load(tmp_path / "y.npy") - network.expected)
    assert errors.max() <= network.program.plan.error_target
    nowhere = ("--weight-budget", "0", "--weight-folder", tmp_path / "nowhere")
    refused = network.run(invoke, tmp_path / "z.ct", *nowhere)
    assert refused.exit_code == 1 and "Cannot write" in refused.stderr and "nowhere" in refused.stderr
    assert not (tmp_path / "z.ct").exists() and list((tmp_path / "weights").iterdir()) == []


def test_run_tells_of_its_weights(network: Network, invoke: Any, tmp_path: Path) -> None:
    assert "weights encoded in" in network.run(invoke, tmp_path / "y.ct").stderr


def test_explain_shows_a_program(network: Network, invoke: Any, tmp_path: Path) -> None:
    shown = invoke("explain", network.folder / "plan")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == lasting(network.program)
    stated = json.loads(invoke("explain", network.folder / "plan", "--json").stdout)
    assert (stated["id"], stated["form"]) == (network.program.id, "tensors")
    assert [found["title"] for found in stated["nodes"]] == [
        found.title for found in network.program.plan.nodes
    ]
    refused = invoke("explain", network.folder / "plan", "--plot", tmp_path / "nowhere" / "plan.png")
    assert refused.exit_code == 1 and "Cannot write" in refused.stderr and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (IMAGE[0], ["Operand 'x' must be an image", "3 dimensions"]),
        (IMAGE[:, :5], ["expected 2x6x6", "got 2x5x6"]),
        (IMAGE[None], ["image", "(1, 2, 6, 6)"]),
    ],
)
def test_wrong_images(network: Network, invoke: Any, tmp_path: Path, values: Any, words: list[str]) -> None:
    np.save(tmp_path / "x.npy", values)
    result = invoke("encrypt", network.folder / "keys", tmp_path / "x.npy", "-o", tmp_path / "x.ct")
    assert result.exit_code == 1 and all(word in result.stderr for word in words), result.stderr
    assert not (tmp_path / "x.ct").exists()


def test_wrong_filters(network: Network, invoke: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "more.npy", MORE_VALUES[:, :, 0, 0])
    files = (f"x={network.folder / 'x.ct'}", f"more={tmp_path / 'more.npy'}")
    operands = [word for file in files for word in ("--operand", file)]
    keys = network.folder / "keys" / "evaluation"
    result = invoke("run", network.folder / "plan", keys, *operands, "-o", tmp_path / "y.ct")
    assert result.exit_code == 1 and "must be an array of 4 dimensions" in result.stderr


@pytest.mark.parametrize("form", ["tensors", "rows"])
def test_product_with_a_vector(invoke: Any, tmp_path: Path, form: str) -> None:
    """By formula, on both forms; the result is a vector."""
    weights, x = RANDOM.uniform(-1, 1, (5, 12)), RANDOM.uniform(-1, 1, 12)
    np.save(tmp_path / "weights.npy", weights)
    np.save(tmp_path / "x.npy", x)
    plan, keys = tmp_path / "plan", tmp_path / "keys"
    operands = ["--operand", "weights=5x12:public", "--operand", "x=12", "--program", "weights @ x"]
    files = [f"weights={tmp_path / 'weights.npy'}", f"x={tmp_path / 'x.ct'}"]
    for step in (
        ["plan", *operands, "--form", form, "-o", plan],
        ["keygen", plan, "-o", keys],
        ["encrypt", keys, tmp_path / "x.npy", "-o", tmp_path / "x.ct"],
        ["run", plan, keys / "evaluation", "-o", tmp_path / "y.ct"]
        + [word for file in files for word in ("--operand", file)],
        ["decrypt", keys, tmp_path / "y.ct", "-o", tmp_path / "y.npy"],
    ):
        result = invoke(*step)
        assert result.exit_code == 0, result.stderr
    found = np.load(tmp_path / "y.npy")
    assert found.shape == (5,) and np.abs(found - weights @ x).max() <= 1e-4 * 12
    lines = invoke("decrypt", keys, tmp_path / "y.ct").stdout.splitlines()
    assert [float(line) for line in lines] == pytest.approx(found.tolist(), rel=1e-8)
