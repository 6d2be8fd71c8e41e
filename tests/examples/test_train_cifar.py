"""The networks for CIFAR-10: trained on a tiny set, read from the file, and planned."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import cipherblas as cb
import train_cifar

pytest.importorskip("torch")
pytest.importorskip("onnx")

ACTIVATIONS = {"vgg11": 8, "alexnet": 7, "mobilenet": 27}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Images of two classes that one look tells apart: light ones, and dark ones."""
    random = np.random.default_rng(3)
    found = {}
    for name, count in (("train", 64), ("test", 20)):
        labels = random.integers(0, 2, count)
        pixels = random.integers(0, 64, (count, 32, 32, 3)) + 160 * labels[:, None, None, None]
        found[name] = tmp_path / f"{name}.npz"
        np.savez(found[name], images=pixels.astype(np.uint8), labels=labels)
    return found


def arguments(network: str, files: dict[str, Path], output: Path, *more: str) -> list[str]:
    given = [network, "--images", str(files["train"]), "--test", str(files["test"]), "-o", str(output)]
    return [*given, "--width", "8", "--epochs", "2", "--threads", "1", *more]


@pytest.mark.parametrize("network", ACTIVATIONS)
def test_a_network_is_trained_and_read(
    network: str, files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it is in the file it labels images, of bytes, as often rightly as training says."""
    from cifar.training import DEVIATION, MEAN

    output = tmp_path / "network.onnx"
    assert train_cifar.main(arguments(network, files, output)) == 0
    shown = capsys.readouterr().out
    read = cb.networks.from_onnx(output, normalise=(MEAN, DEVIATION))
    assert (read.shape, read.scores, read.activations) == ((3, 32, 32), (10,), ACTIVATIONS[network])
    images, labels = train_cifar.load(files["test"])
    right = np.mean(read(images.transpose(0, 3, 1, 2)).argmax(axis=1) == labels)
    assert re.findall(r"epoch (\d): (\S+)%", shown)[-1] == ("2", f"{100 * right:.1f}")


def test_the_seed_decides_the_network(files: dict[str, Path], tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate("001"):
        output = tmp_path / f"{number}.onnx"
        assert train_cifar.main(arguments("vgg11", files, output, "--seed", seed)) == 0
        found.append(cb.networks.from_onnx(output)(np.ones((3, 32, 32))))
    assert np.array_equal(found[0], found[1]) and not np.array_equal(found[0], found[2])


def test_images_are_shifted_and_mirrored() -> None:
    from cifar import training

    columns = np.broadcast_to(np.arange(32, dtype=np.uint8)[None, None, :, None], (50, 32, 32, 3))
    changed = training.changed(columns, np.random.default_rng(0)).astype(int)
    steps = np.diff(changed[:, 0, :, 0], axis=1)
    assert np.unique(steps[:, 12]).tolist() == [-1, 1]  # mirrored ones fall
    assert np.ptp(changed[steps[:, 12] == 1, 0, 16, 0]) > 1  # and starts differ
    rows = training.changed(columns.transpose(0, 2, 1, 3).copy(), np.random.default_rng(0))
    assert not np.any(np.diff(rows.astype(int), axis=2))  # rows stay rows


def test_refusals(files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train_cifar.main(arguments("vgg11", {**files, "train": tmp_path / "no.npz"}, tmp_path / "o")) == 1
    np.savez(files["train"], images=np.zeros((2, 8, 8, 3), np.uint8), labels=np.zeros(2))
    assert train_cifar.main(arguments("vgg11", files, tmp_path / "o")) == 1
    np.savez(files["train"], images=np.zeros((2, 32, 32, 3), np.uint8), labels=np.array([0, 10]))
    assert train_cifar.main(arguments("vgg11", files, tmp_path / "o")) == 1
    assert train_cifar.main(arguments("vgg11", files, tmp_path / "no" / "o")) == 1  # before anything is read
    shown = capsys.readouterr().err
    assert shown.count("train_cifar: error:") == 4
    assert "(2, 8, 8, 3)" in shown and "got 0 to 10" in shown and not (tmp_path / "o").exists()
