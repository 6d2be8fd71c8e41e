"""`bench nn --models`: files in, a line of JSON for each network; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.networks import TrainedNetwork
from tests.support.onnx_models import Model

MEAN, DEVIATION = (120.0, 110.0, 100.0), (60.0, 55.0, 50.0)
NORMALISE = ["--normalise", "120,110,100:60,55,50"]


def small() -> bytes:
    """One convolution, a function, a product."""
    m = Model((3, 8, 8), 7)
    x = m.node("Relu", m.conv("x", 3, 2, strides=[2, 2]))
    return m.file(m.dense(m.node("Flatten", x), 32, 4))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With networks, images of bytes with labels, and images as the network takes them without."""
    for name in ("small", "other"):
        (tmp_path / f"{name}.onnx").write_bytes(small())
    random = np.random.default_rng(5)
    images = random.integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    network = cb.networks.from_onnx(small())
    labels = network(normalised(images)).argmax(axis=1)
    labels[1] = (labels[1] + 1) % 4
    np.savez(tmp_path / "images.npz", images=images, labels=labels)
    np.savez(tmp_path / "few.npz", images=images, labels=labels[:4])
    np.savez(tmp_path / "other.npz", pixels=images)
    np.savez(tmp_path / "planes.npz", images=normalised(images), labels=labels)
    far = normalised(images)
    far[0, 1, 2, 3] = np.nan
    np.save(tmp_path / "nan.npy", far)
    np.save(tmp_path / "wide.npy", np.zeros((2, 3, 8, 9)))
    np.save(tmp_path / "none.npy", np.zeros((0, 3, 8, 8)))
    return tmp_path


def normalised(pixels: np.ndarray) -> np.ndarray:
    return ((pixels - np.array(MEAN)) / np.array(DEVIATION)).transpose(0, 3, 1, 2)


def test_a_line_for_each_network(invoke: Any, folder: Path) -> None:
    """Of bytes and of numbers in the network's order the same, for real rings."""
    models = ["--models", folder / "small.onnx", "--models", folder / "other.onnx"]
    options = ["--image-count", 3, "--error", 1, "--degree", 7, "--json", "--quiet"]
    files = ["--images", folder / "images.npz", "--samples", folder / "images.npz", *NORMALISE]
    more = ["--sample-count", 5, "--weight-budget", "1MiB", "--memory-budget", "1GiB"]
    found = invoke("bench", "nn", *models, *files, *more, *options)
    assert found.exit_code == 0, found.stderr
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert [row["case"] for row in rows] == ["small", "other"]
    for row in rows:
        assert (row["images"], row["samples"], row["degree"], row["asked_error"]) == (3, 5, 7, 1.0)
        assert row["params"]["security"] >= 128 and row["clear_accuracy"] == 2 / 3
        assert row["error"] <= row["predicted_error"] <= 1 and row["refreshed_ciphertexts"] == 0
    planes = ["--images", folder / "planes.npz", "--samples", folder / "planes.npz"]
    found = invoke("bench", "nn", *models[:2], *planes, *options[:-2], "-q")
    assert found.exit_code == 0 and found.stdout.startswith("bench nn --models")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--images", "missing.npz"), "Cannot read missing.npz"),
        (("--images", "other.npz"), "has no array 'images'"),
        (("--images", "few.npz"), "one label for each image"),
        (("--images", "nan.npy"), "NaN at [0, 1, 2, 3]"),
        (("--images", "wide.npy"), "no inputs of the network, 3x8x8"),
        (("--images", "none.npy"), "none of them 0"),
        (("--images", "small.onnx"), "is not a NumPy file"),
        (("--images", "planes.npz", "--samples", "wide.npy"), "wide.npy are no inputs"),
        (("--images", "planes.npz", "--samples", "nan.npy"), "NaN at"),
        (("--images", "images.npz", "--normalise", "1,2:3,4"), "than the operand has channels"),
    ],
)
def test_files_that_are_refused(
    invoke: Any, folder: Path, options: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is planned."""
    monkeypatch.setattr(TrainedNetwork, "compile", None)
    monkeypatch.chdir(folder)
    found = invoke("bench", "nn", "--models", "small.onnx", "--error", 1, *options, "--json", "-q")
    assert (found.exit_code, found.stdout) == (1, "") and message in found.stderr
    assert found.stderr.startswith("cipherblas: error: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "needs --images"),
        (("--images", "images.npz", "--case", "MVM1"), "takes none of --case"),
        (("--images", "images.npz", "--counts"), "takes none of --case"),
        (("--images", "images.npz", "--models", "small.onnx"), "files of different names"),
        (("--images", "images.npz", "--normalise", "1:0"), "got '1:0'"),
    ],
)
def test_options_that_are_refused(
    invoke: Any, folder: Path, options: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    found = invoke("bench", "nn", "--models", "small.onnx", "--error", 1, *options, "--json", "-q")
    assert (found.exit_code, found.stdout) == (2, "")
    assert message in " ".join(found.stderr.replace("│", " ").split())


@pytest.mark.parametrize("option", [("--images", "x.npz"), ("--sample-count", "3"), ("--error", "1")])
def test_options_of_networks_need_one(invoke: Any, option: tuple[str, str]) -> None:
    found = invoke("bench", "nn", *option, "--json", "-q")
    assert (found.exit_code, found.stdout) == (2, "") and "needs --models" in found.stderr
