"""A small network whose weights are encrypted: every score is that of the network in fixed point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import secret_network
from classification.images import load_digits, split
from secret import encrypted, network, pictures
from secret.network import Network

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("GRID", 2), ("CHANNELS", 1), ("HIDDEN", 2), ("EPOCHS", 3)):
        monkeypatch.setattr(network, name, value)


def test_training() -> None:
    training, held_out = split(load_digits(), None)
    trained = network.train(training)
    found = trained.clear_scores(network.windows(held_out)).argmax(axis=1)
    assert (found == held_out.digits).mean() > 0.85
    assert max(np.abs(one).max() for one in trained.weights) <= network.LARGEST


def test_windows_are_those_of_a_convolution() -> None:
    images = load_digits().part(0, 3)
    x = network.windows(images)
    pictures = images.pixels.T.reshape(3, 8, 8)
    assert x.shape == (16, 3, 4)
    assert np.array_equal(x[4 * 1 + 2, 0].reshape(2, 2), pictures[0, 2:4, 4:6])


def test_gradients() -> None:
    """As differences have them."""
    random = np.random.default_rng(1)
    parameters = [random.normal(size=shape) / 2 for shape in ((5, 2), (3, 2, 4), (4, 10))]
    x, targets = random.normal(size=(3, 6, 5)), np.eye(10)[random.integers(0, 10, 6)]

    def loss() -> float:
        scores = Network(*parameters, network.hidden_layer).clear_scores(x)
        entropy = np.log(np.exp(scores).sum(axis=1)) - (scores * targets).sum(axis=1)
        return float(entropy.mean() + network.DECAY / 2 * sum((one**2).sum() for one in parameters))

    for values, gradient in zip(parameters, network.gradients(parameters, x, targets), strict=True):
        place = tuple(random.integers(0, length) for length in values.shape)
        before, step = values[place], 1e-6
        values[place] = before + step
        above = loss()
        values[place] = before - step
        below = loss()
        values[place] = before
        assert abs((above - below) / (2 * step) - gradient[place]) < 1e-5


def test_fixed_point_in_the_clear() -> None:
    random = np.random.default_rng(2)
    shapes = (4, 2), (16, 2, 3), (3, 10)
    weights = Network(*(random.uniform(-1, 1, shape) for shape in shapes), network.hidden_layer)
    x = random.uniform(-0.5, 0.5, (16, 5, 4))
    rounded = [np.rint(one * 1024) / 1024 for one in (x, *weights.weights)]
    exact = encrypted.exact_scores(x, weights)
    assert exact.dtype == object
    assert np.allclose((exact / 2**110).astype(float), weights.scores(*rounded))


@pytest.fixture
def photographs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of few images in two of the classes, one of them bright at the top."""
    random = np.random.default_rng(0)
    for name, value in (("CHANNELS", 2), ("HIDDEN", 3), ("BATCH", 16)):
        monkeypatch.setattr(pictures, name, value)
    for name, count in zip(pictures.FILES, (200, 40), strict=True):
        labels = random.integers(0, 2, count)
        values = random.integers(96, 160, (count, 32, 32, 3))
        values[:, :16] += 95 * labels[:, None, None, None]
        np.savez(tmp_path / name, images=values.astype(np.uint8), labels=labels)
    return tmp_path


def test_photographs(photographs: Path) -> None:
    known, held_out = (pictures.load(photographs, name) for name in pictures.FILES)
    trained = pictures.train(known, 40)
    assert (pictures.clear_scores(trained, held_out, 15).argmax(axis=1) == held_out.classes).mean() > 0.9
    for weights, most in zip(trained.weights, trained.sums, strict=True):
        assert np.abs(weights).max() <= 1 and np.abs(weights).sum(axis=0).max() <= most * (1 + 1e-6)
    x = pictures.patches(known.pixels[:2]).reshape(2, 128, 3, 5, 5)
    window = known.pixels[1, 6:11, 27:32].transpose(2, 0, 1) / 255 - 0.5
    assert np.allclose(x[1, 2 * 10 + 9], window) and not x[:, 100:].any()


def test_gradients_of_photographs() -> None:
    """As differences have them."""
    random = np.random.default_rng(1)
    shapes = (5, 2), (2 * 128, 4), (4, 10)
    parameters = [random.normal(size=shape) / 4 for shape in shapes]
    x, targets = random.normal(size=(3, 128, 5)), np.eye(10)[random.integers(0, 10, 3)]

    def loss() -> float:
        scores = Network(*parameters, pictures.layer).clear_scores(x.reshape(-1, 5))
        entropy = np.log(np.exp(scores).sum(axis=1)) - (scores * targets).sum(axis=1)
        return float(entropy.mean() + pictures.DECAY / 2 * sum((one**2).sum() for one in parameters))

    for values, gradient in zip(parameters, pictures.gradients(parameters, x, targets), strict=True):
        place = tuple(random.integers(0, length) for length in values.shape)
        before, step = values[place], 1e-6
        values[place] = before + step
        above = loss()
        values[place] = before - step
        below = loss()
        values[place] = before
        assert abs((above - below) / (2 * step) - gradient[place]) < 1e-5


@pytest.mark.encrypted
@pytest.mark.parametrize("approximate", [False, True])
def test_the_command_on_photographs(
    approximate: bool, photographs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--cifar", str(photographs), "--size", "3", "--epochs", "40", "--threads", "1"]
    assert secret_network.main([*arguments, *["--approximate"][: int(approximate)]]) == 0
    printed = capsys.readouterr().out
    assert "200 images to train with, 40 held out" in printed
    assert ("same digit for 3 of 3" if approximate else "all scores of 3 of 3 images") in printed


@pytest.mark.usefixtures("small")
@pytest.mark.encrypted
@pytest.mark.parametrize("approximate", [False, True])
def test_the_command(approximate: bool, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--threads", "1", "--size", "40", *["--approximate"][: int(approximate)]]
    assert secret_network.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "40 images at once" in printed and "ms an image" in printed
    if approximate:
        assert "CKKS" in printed and int(printed.split("the same digit for ")[-1].split()[0]) > 35
    else:
        assert "all scores of 40 of 40 images" in printed


def test_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    assert secret_network.main(["--cifar", "no such folder"]) == 1
    assert "secret_network: error: There are no images in" in capsys.readouterr().err
    assert secret_network.main(["--data", "no such folder"]) == 1
    assert "secret_network: error: There are no images in" in capsys.readouterr().err
