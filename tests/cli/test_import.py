"""`cipherblas import`: a network's file becomes a program file; its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.onnx_models import Model, fire

TOY = ["--security", "0", "--insecure", "--ring-degree", "4096"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a network and samples."""
    (tmp_path / "network.onnx").write_bytes(fire())
    np.save(tmp_path / "samples.npy", np.random.default_rng(1).uniform(-1, 1, (20, 3, 8, 8)))
    return tmp_path


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_a_program_file(invoke: Any, folder: Path) -> None:
    given = [
        folder / "network.onnx",
        "--samples",
        folder / "samples.npy",
        "--error",
        "1",
        "--degree",
        "7",
        *TOY,
    ]
    found = invoke("import", *given, "-o", folder / "network.cb")
    assert found.exit_code == 0 and found.stdout.startswith("program"), found.stderr
    program = cb.Program.load(folder / "network.cb", security=0, insecure=True)
    assert list(program.operands) == ["x"] and program.shape == (4,) and program.plan.error <= 1
    printed = invoke("import", *given)
    assert printed.stdout.startswith("input") and "left to the client: Softmax" in printed.stdout
    assert json.loads(invoke("import", *given, "--json").stdout)["operands"]


def test_errors_come_before_work(invoke: Any, folder: Path) -> None:
    m = Model((2, 4, 4))
    (folder / "pool.onnx").write_bytes(m.file(m.node("MaxPool", "x", kernel_shape=[2, 2])))
    for model, samples, message in (
        ("pool.onnx", "samples.npy", "node1 (MaxPool): maxima"),
        ("samples.npy", "samples.npy", "is no file of ONNX"),
        ("missing.onnx", "samples.npy", "cannot be read"),
        ("network.onnx", "network.onnx", "is not a NumPy file"),
    ):
        found = invoke("import", folder / model, "--samples", folder / samples, *TOY)
        assert found.exit_code == 1 and message in found.stderr, found.stderr
    np.save(folder / "wrong.npy", np.zeros((5, 3, 7, 8)))
    found = invoke("import", folder / "network.onnx", "--samples", folder / "wrong.npy", *TOY)
    assert found.exit_code == 1 and "no inputs of the network" in found.stderr
