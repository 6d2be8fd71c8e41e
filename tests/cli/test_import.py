"""`cipherblas import` and `check`: a network's file becomes a program file, which is compared with it; errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.onnx_models import Model, fire

SECURITY = ["--security", "0", "--insecure"]
TOY = [*SECURITY, "--ring-degree", "4096"]


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
    for option, value, code, message in (
        ("--activation", "Relu", 2, "expected a name"),
        ("--activation", "Relu=x", 2, "expected a name"),
        ("--activation", "Selu=7", 1, "no function of the name 'Selu'"),
        ("--ranges", "node2=1e-9", 1, "The samples leave the range of node2"),
    ):
        refused = invoke("import", *given, option, value)
        assert refused.exit_code == code and message in refused.stderr.replace("\n", " "), refused.stderr
    printed = invoke("import", *given)
    assert printed.stdout.startswith("input") and "left to the client: Softmax" in printed.stdout
    named = invoke("import", *given, "--activation", "node2=15", "--ranges", "node7=9", "--json")
    assert json.loads(named.stdout)["levels"] > program.plan.levels, named.stderr


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
@pytest.mark.parametrize("batch", [[], ["--batch", "2"]], ids=["one image", "two images"])
def test_a_client_without_weights(invoke: Any, folder: Path, batch: list[str]) -> None:
    """The client has the file for clients alone, the server the whole program, and no use for the other file."""
    here = folder / "client"
    here.mkdir()
    given = [folder / "network.onnx", "--samples", folder / "samples.npy", "--error", "1", "--degree", "7"]
    plan = ["-o", folder / "network.cb", "--client-output", here / "program"]
    found = invoke("import", *given, *batch, *TOY, *plan)
    assert found.exit_code == 0, found.stderr
    samples = np.load(folder / "samples.npy")
    np.save(here / "image.npy", samples[:2] if batch else samples[0])

    def done(*arguments: Any) -> None:
        result = invoke(*arguments, *SECURITY)
        assert result.exit_code == 0, result.stderr

    done("keygen", here / "program", "-o", here / "keys")
    done("encrypt", here / "keys", here / "image.npy", "-o", here / "image.ct")
    operand = ["--operand", f"x={here / 'image.ct'}"]
    done("run", folder / "network.cb", here / "keys" / "evaluation", *operand, "-o", here / "scores.ct")
    done("decrypt", here / "keys", here / "scores.ct", "-o", here / "scores.npy")
    exact = cb.networks.from_onnx(folder / "network.onnx")(np.load(here / "image.npy"))
    scores = np.load(here / "scores.npy")
    assert scores.shape == exact.shape and np.abs(scores - exact).max() <= 1
    checked = invoke(
        "check", folder / "network.cb", folder / "network.onnx", folder / "samples.npy", *SECURITY
    )
    assert checked.exit_code == 0 and "inputs  20, 0 of them outside" in checked.stdout, checked.stderr
    evaluation = here / "keys" / "evaluation"
    refused = invoke("run", here / "program", evaluation, *operand, "-o", folder / "no.ct", *SECURITY)
    assert refused.exit_code == 1 and "another kind of file (got client-program)" in refused.stderr


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_pixels_as_they_are(invoke: Any, folder: Path) -> None:
    """Mean and deviation are part of both files: bytes are encrypted, checked and computed as the network has them."""
    pixels = np.random.default_rng(1).integers(0, 256, (20, 3, 8, 8)).astype(np.uint8)
    np.save(folder / "pixels.npy", pixels)
    np.save(folder / "image.npy", pixels[0])
    pair = "120,115,105:60,58.5,60"
    given = [folder / "network.onnx", "--samples", folder / "pixels.npy", "--normalise", pair, "--error", "1"]
    plan, client = folder / "network.cb", folder / "client.cb"
    found = invoke("import", *given, "--degree", "7", *TOY, "-o", plan, "--client-output", client)
    assert found.exit_code == 0, found.stderr
    described = "mean (120, 115, 105) and deviation (60, 58.5, 60) taken out"
    assert described in found.stdout
    operand = ["--operand", f"x={folder / 'image.ct'}"]
    for arguments in (
        ["keygen", client, "-o", folder / "keys"],
        ["encrypt", folder / "keys", folder / "image.npy", "-o", folder / "image.ct"],
        ["run", plan, folder / "keys" / "evaluation", *operand, "-o", folder / "scores.ct"],
        ["decrypt", folder / "keys", folder / "scores.ct", "-o", folder / "scores.npy"],
    ):
        done = invoke(*arguments, *SECURITY)
        assert done.exit_code == 0, done.stderr
    mean, deviation = np.array([120, 115, 105.0]), np.array([60, 58.5, 60])
    network = cb.networks.from_onnx(folder / "network.onnx")
    exact = network((pixels[0] - mean[:, None, None]) / deviation[:, None, None])
    assert np.abs(np.load(folder / "scores.npy") - exact).max() <= 1
    checked = invoke("check", plan, folder / "network.onnx", folder / "pixels.npy", "--json", *SECURITY)
    assert checked.exit_code == 0 and json.loads(checked.stdout)["outside"] == 0, checked.stderr
    np.save(folder / "beyond.npy", 4.0 * pixels[0])
    beyond = invoke("encrypt", folder / "keys", folder / "beyond.npy", "-o", folder / "no.ct", *SECURITY)
    assert beyond.exit_code == 1 and f"with {described}" in beyond.stderr
    wrong = invoke("import", *given[:3], "--normalise", "1:0", *TOY)
    assert wrong.exit_code == 2 and "MEAN:DEVIATION" in wrong.stderr


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_a_check(invoke: Any, folder: Path) -> None:
    network, samples, plan = folder / "network.onnx", folder / "samples.npy", folder / "network.cb"
    invoke("import", network, "--samples", samples, "--error", "1", "--degree", "7", *TOY, "-o", plan)
    images = np.random.default_rng(2).uniform(-1, 1, (10, 3, 8, 8))
    labels = cb.networks.from_onnx(network)(images).argmax(axis=1)
    labels[:5] = (labels[:5] + 1) % 4
    np.savez(folder / "images.npz", images=images, labels=labels)
    np.save(folder / "images.npy", images)
    np.save(folder / "labels.npy", labels)
    found = invoke("check", plan, network, folder / "images.npz", *SECURITY)
    assert found.exit_code == 0, found.stderr
    assert "approximated" in found.stdout and "50.0%" in found.stdout
    given = [folder / "images.npy", "--labels", folder / "labels.npy", "--json"]
    described = json.loads(invoke("check", plan, network, *given, *SECURITY).stdout)
    assert described["count"] == 10 and described["clear"]["accuracy"] == 0.5
    assert described["noisy"]["rms"] < 1
    without = json.loads(invoke("check", plan, network, samples, "--json", *SECURITY).stdout)
    assert without["approximated"]["accuracy"] is None
    np.savez(folder / "other.npz", x=images)
    (folder / "damaged.npz").write_bytes((folder / "images.npz").read_bytes()[:500])
    (folder / "array.npz").write_bytes((folder / "images.npy").read_bytes())
    np.save(folder / "fewer.npy", labels[:3])
    for arguments, message in (
        ([folder / "other.npz"], "has no array 'images'"),
        ([folder / "damaged.npz"], "is not a whole archive"),
        ([folder / "array.npz"], "is not a whole archive"),
        ([folder / "labels.npy"], "dimensions"),
        ([samples, "--labels", folder / "fewer.npy"], "one label for each input"),
    ):
        refused = invoke("check", plan, network, *arguments, *SECURITY)
        assert refused.exit_code == 1 and message in refused.stderr, refused.stderr


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_maxima(invoke: Any, tmp_path: Path) -> None:
    """Computed on request, and checked without one."""
    m = Model((2, 4, 4))
    (tmp_path / "pool.onnx").write_bytes(m.file(m.node("MaxPool", "x", kernel_shape=[1, 2], strides=[1, 2])))
    np.save(tmp_path / "samples.npy", np.random.default_rng(1).uniform(-1, 1, (20, 2, 4, 4)))
    given = ["import", tmp_path / "pool.onnx", "--samples", tmp_path / "samples.npy", "--error", "0.5"]
    given += ["--degree", "15", *TOY]
    refused = invoke(*given)
    assert refused.exit_code == 1 and "--maxpool exact" in refused.stderr
    found = invoke(*given, "--maxpool", "exact", "-o", tmp_path / "pool.cb")
    assert found.exit_code == 0, found.stderr
    checked = invoke(
        "check", tmp_path / "pool.cb", tmp_path / "pool.onnx", tmp_path / "samples.npy", *SECURITY
    )
    assert checked.exit_code == 0 and "approximated" in checked.stdout, checked.stderr
    assert invoke(*given, "--maxpool", "fast").exit_code == 2


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
