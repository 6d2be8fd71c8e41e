"""The convolutional network, small: trained, computed on encrypted images, and the command says what it found."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib.image
import numpy as np
import pytest

import cipherblas as cb
import encrypted_cnn
from classification.images import LabelledImages, load_digits, split
from convolutional import encrypted
from convolutional.encrypted import TOLERANCE
from convolutional.model import Network, patches, pictures, places
from convolutional.training import _Batches, train

TESTED = 3
SMALL = {"channels": 3, "hidden": 16}


class Trained(NamedTuple):
    network: Network
    known: LabelledImages
    held_out: LabelledImages


@pytest.fixture(scope="module")
def trained() -> Trained:
    known, held_out = split(load_digits(), None)
    return Trained(train(known, **SMALL, epochs=20), known, held_out)


def test_training_learns_and_reports(trained: Trained) -> None:
    scores = trained.network.layers(trained.held_out)[2]
    assert np.mean(scores.argmax(axis=1) == trained.held_out.digits) > 0.8
    seen: list[tuple[int, int]] = []
    few = trained.known.part(0, 250)
    train(few, **SMALL, epochs=2, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(step, 6) for step in range(1, 7)]


def test_training_is_repeatable(trained: Trained) -> None:
    few = trained.known.part(0, 200)
    first, second = (train(few, **SMALL, epochs=1) for _ in range(2))
    for one, other in zip(first.parameters, second.parameters, strict=True):
        np.testing.assert_array_equal(one, other)


def test_batches_show_every_image_once_an_epoch() -> None:
    pixels = np.arange(205, dtype=float) / 410
    known = LabelledImages(np.repeat(pixels[None], 16, axis=0), np.arange(205) % 10, (4, 4))
    batches = _Batches(known, np.random.default_rng(3))
    assert batches.count == 3
    for _ in range(2):
        found = [batches.next() for _ in range(batches.count)]
        centres = np.concatenate([windows[:, 0, 12] for windows, _ in found])
        np.testing.assert_allclose(np.sort(centres), pixels, rtol=1e-6)
        assert [len(targets) for _, targets in found] == [100, 100, 5]


def test_large_images_are_shifted() -> None:
    """A white image with one black pixel: it moves by two pixels at most, and stays whole."""
    picture = np.full((28, 28), -0.5)
    picture[14, 14] = 0.5
    known = LabelledImages(np.repeat(picture.reshape(-1, 1), 100, axis=1), np.zeros(100, np.int64), (28, 28))
    batches = _Batches(known, np.random.default_rng(3))
    moved = batches._shifted(pictures(known).astype(np.float32))
    found = np.argwhere(moved == 0.5)
    assert len(found) == 100
    assert {*np.unique(found[:, 1:])} == {12, 13, 14, 15, 16}


def test_the_program_is_the_network(trained: Trained) -> None:
    """Two descriptions of one network: rows of windows (training), and the library's layers."""
    network = trained.network
    assert len(network.parameters[2]) == places((8, 8)) * network.channels == 48
    assert patches(pictures(trained.held_out.part(0, 5))).shape == (5, 16, 25)
    program = encrypted.compiled(network, (8, 8), TOLERANCE, None)
    expected = network.layers(trained.held_out)[2]
    for index in range(20):
        found = program.evaluate({"x": trained.held_out.pixels[:, index].reshape(1, 8, 8)})
        np.testing.assert_allclose(found, expected[index], rtol=0, atol=1e-9)


def test_measured_bounds_have_a_margin(trained: Trained) -> None:
    for held in (trained.known, trained.held_out):
        bounds = encrypted.measured_bounds(trained.network, trained.known)
        for bound, values in zip(bounds, trained.network.layers(held), strict=True):
            assert np.abs(values).max() < bound < 10 * np.abs(values).max()


def test_both_bounds_are_planned(trained: Trained) -> None:
    bounds = encrypted.measured_bounds(trained.network, trained.known)
    programs = [encrypted.compiled(trained.network, (8, 8), TOLERANCE, found) for found in (None, bounds)]
    for program in programs:
        assert program.plan.error <= program.plan.error_target <= TOLERANCE * 1.001
        assert program.plan.parameters.security == 128
    assert programs[1].expression.bound == bounds[-1] < programs[0].expression.bound / 4


@pytest.mark.slow
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "digits.png"
    small = ["--images", str(TESTED), "--channels", "3", "--hidden", "16", "--epochs", "8"]
    assert encrypted_cnn.main([*small, "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    clear, private = re.findall(r"accuracy +([\d.]+) % in the clear, ([\d.]+) % encrypted", printed)[0]
    assert clear == private
    assert f"the same digit for {TESTED} of {TESTED} images" in printed
    error, predicted = re.findall(r"error +of a score: ([\d.e-]+), predicted at most ([\d.e-]+)", printed)[0]
    assert 0 < float(error) < float(predicted) <= TOLERANCE
    assert "assume(" in printed and "128 bits" in printed and "MiB of evaluation keys" in printed
    assert re.search(r"seconds +of an image \(median\): client [\d.]+, server [\d.]+", printed)
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[0] > 300 and pixels[..., :3].std() > 0.03


def test_command_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert encrypted_cnn.main(["--data", str(tmp_path)]) == 1
    assert "encrypted_cnn: error: There are no images in" in capsys.readouterr().err
    assert encrypted_cnn.main(["--images", "1700"]) == 1
    assert "expected 1 to half of the 1797 images, got 1700" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "autograd", None)
    assert encrypted_cnn.main([]) == 1
    found = capsys.readouterr().err
    assert "Training needs autograd." in found and "Write: pip install autograd" in found


def test_an_impossible_tolerance_is_refused(trained: Trained) -> None:
    with pytest.raises(cb.PrecisionError):
        encrypted.compiled(trained.network, (8, 8), 1e-15, None)
