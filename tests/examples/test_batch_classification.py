"""Classification of many images at once, small: encrypted scores are those of the clear model with polynomials."""

from __future__ import annotations

import numpy as np
import pytest

import batch_classification
from classification import relu
from classification.images import load_digits, split
from classification.relu import ReluModel

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def model() -> ReluModel:
    training, _ = split(load_digits(), None)
    return relu.train(training, (16, 8))


def test_training(model: ReluModel) -> None:
    _, held_out = split(load_digits(), None)
    assert (model.scores(held_out.pixels.T).argmax(axis=1) == held_out.digits).mean() > 0.85


def test_gradients() -> None:
    """As differences have them."""
    random = np.random.default_rng(1)
    parameters = [
        random.normal(size=(5, 4)),
        random.normal(size=4),
        random.normal(size=(4, 10)),
        np.zeros(10),
    ]
    pixels, targets = random.normal(size=(6, 5)), np.eye(10)[random.integers(0, 10, 6)]

    def loss() -> float:
        (inner, offset), (weights, biases) = zip(parameters[::2], parameters[1::2], strict=True)
        scores = np.maximum(pixels @ inner + offset, 0.0) @ weights + biases
        entropy = np.log(np.exp(scores).sum(axis=1)) - (scores * targets).sum(axis=1)
        decay = sum((one**2).sum() for one in parameters[::2])
        return float(entropy.mean() + relu.DECAY / 2 * decay)

    for values, gradient in zip(parameters, relu._gradients(parameters, pixels, targets), strict=True):
        place = tuple(random.integers(0, length) for length in values.shape)
        before, step = values[place], 1e-6
        values[place] = before + step
        above = loss()
        values[place] = before - step
        below = loss()
        values[place] = before
        assert abs((above - below) / (2 * step) - gradient[place]) < 1e-5


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--threads", "1", "--hidden", "16", "8"]
    assert batch_classification.main([*arguments, "--sizes", "300"]) == 0
    printed = capsys.readouterr().out
    assert "1438 images to train with, 359 to classify, 8x8 pixels" in printed
    assert "300 images at once" in printed and "published" not in printed
    agreement = int(printed.split("the same digit for ")[-1].split()[0])
    assert agreement > 240


def test_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    assert batch_classification.main(["--data", "no such folder"]) == 1
    assert "batch_classification: error: There are no images in" in capsys.readouterr().err
