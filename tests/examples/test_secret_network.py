"""A small network whose weights are encrypted: every score is that of the network in fixed point."""

from __future__ import annotations

import numpy as np
import pytest

import secret_network
from classification.images import load_digits, split
from secret import encrypted, network
from secret.network import Network

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("GRID", 2), ("CHANNELS", 1), ("HIDDEN", 2), ("EPOCHS", 3)):
        monkeypatch.setattr(network, name, value)


def test_training() -> None:
    training, held_out = split(load_digits(), None)
    trained = network.train(training)
    found = network.scores(network.windows(held_out), *trained.weights).argmax(axis=1)
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
        scores = network.scores(x, *parameters)
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
    weights = Network(*(random.uniform(-1, 1, shape) for shape in ((4, 2), (16, 2, 3), (3, 10))))
    x = random.uniform(-0.5, 0.5, (16, 5, 4))
    rounded = [np.rint(one * 1024) / 1024 for one in (x, *weights.weights)]
    exact = encrypted.exact_scores(x, weights)
    assert exact.dtype == object
    assert np.allclose((exact / 2**110).astype(float), network.scores(*rounded))


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
    assert secret_network.main(["--data", "no such folder"]) == 1
    assert "secret_network: error: There are no images in" in capsys.readouterr().err
