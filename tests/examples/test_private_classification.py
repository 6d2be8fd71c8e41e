"""Private classification, small: encrypted scores are those of the clear model, and the command says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import matplotlib.image
import numpy as np
import pytest

import cipherblas as cb
import private_classification
from classification import encrypted
from classification.encrypted import TOLERANCE, Outcome
from classification.images import LabelledImages, load_digits, split
from classification.models import LinearModel, SquareModel, _gradients, train_linear, train_square

TESTED = 37


class Trained(NamedTuple):
    linear: LinearModel
    square: SquareModel
    testing: LabelledImages


@pytest.fixture(scope="module")
def trained() -> Trained:
    training, testing = split(load_digits(), TESTED)
    return Trained(train_linear(training), train_square(training, 8), testing)


def check(model: LinearModel | SquareModel, outcome: Outcome, testing: LabelledImages) -> None:
    """Scores agree within the tolerance, and so does every digit that no tie within it leaves open."""
    clear = model.scores(testing.pixels)
    assert outcome.values.shape == clear.shape
    assert np.abs(clear).max() <= model.bound
    assert np.abs(outcome.values - clear).max() <= TOLERANCE
    second, first = np.sort(clear, axis=0)[-2:]
    decided = first - second > 2 * TOLERANCE
    assert decided.mean() > 0.9
    np.testing.assert_array_equal(outcome.values.argmax(axis=0)[decided], clear.argmax(axis=0)[decided])
    assert np.mean(clear.argmax(axis=0) == testing.digits) > 0.8


def test_linear(trained: Trained) -> None:
    for model in (trained.linear, trained.linear.quantised()):
        outcome = encrypted.linear(model, trained.testing.pixels)
        check(model, outcome, trained.testing)
        (program,) = outcome.programs
        assert program.plan.algorithm == "gemm" and program.plan.key_bytes == 0
        assert program.plan.error <= program.plan.error_target <= 1.001 * TOLERANCE


def test_the_planner_takes_gemm_for_the_linear_model_by_itself() -> None:
    program = cb.compile(
        lambda w, b, x: w @ x + b, {"w": cb.public(10, 64), "b": cb.public(10, 37), "x": cb.secret(64, 37)}
    )
    assert program.plan.algorithm == "gemm"


def test_quantised_weights_are_near(trained: Trained) -> None:
    exact, rounded = trained.linear, trained.linear.quantised()
    assert np.abs(rounded.weights).max() == 127
    np.testing.assert_array_equal(rounded.weights, np.rint(rounded.weights))
    assert np.abs(rounded.step * rounded.weights - exact.weights).max() <= rounded.step / 2 * (1 + 1e-12)


@pytest.mark.slow
def test_square_in_one_program(trained: Trained) -> None:
    """Two runs, the last of which is not full."""
    seen: list[tuple[int, int]] = []
    outcome = encrypted.square(
        trained.square, trained.testing.pixels, 20, lambda done, of: seen.append((done, of))
    )
    check(trained.square, outcome, trained.testing)
    assert seen == [(20, 37), (37, 37)]


def test_square_in_two_rounds(trained: Trained) -> None:
    outcome = encrypted.two_rounds(trained.square, trained.testing.pixels)
    check(trained.square, outcome, trained.testing)
    assert [program.plan.key_bytes for program in outcome.programs] == [0, 0]


def test_gradients_are_the_differences_of_the_loss() -> None:
    """Central differences; their error is of the order of the step squared."""
    random = np.random.default_rng(5)
    shapes = [(3, 4), (3, 1), (10, 3), (10, 1)]
    parameters = [random.normal(size=shape) for shape in shapes]
    pixels, targets = random.normal(size=(4, 6)), np.eye(10)[:, random.integers(0, 10, 6)]

    def loss() -> float:
        first, first_bias, second, second_bias = parameters
        scores = second @ (first @ pixels + first_bias) ** 2 + second_bias
        peak = scores.max(axis=0)
        logs = scores - peak - np.log(np.exp(scores - peak).sum(axis=0))
        decay = 1e-3 / 2 * ((first**2).sum() + (second**2).sum())
        return float(-(targets * logs).sum() / 6 + decay)

    step = 1e-5
    for values, gradient in zip(parameters, _gradients(parameters, pixels, targets), strict=True):
        for place in np.ndindex(values.shape):
            kept = values[place]
            values[place] = kept + step
            above = loss()
            values[place] = kept - step
            below = loss()
            values[place] = kept
            assert abs((above - below) / (2 * step) - gradient[place]) < 1e-6


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "digits.png"
    arguments = ["--images", "30", "--hidden", "8", "--ways", "linear", "int8", "two-rounds"]
    assert private_classification.main([*arguments, "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    accuracies = re.findall(r"accuracy +([\d.]+) % in the clear, ([\d.]+) % encrypted", printed)
    assert len(accuracies) == 3
    assert all(abs(float(clear) - float(private)) <= 0.1 for clear, private in accuracies)
    errors = [float(found) for found in re.findall(r"error +of a score: ([\d.e-]+)", printed)]
    assert len(errors) == 3 and min(errors) > 0 and max(errors) <= TOLERANCE
    assert len(re.findall(r"speed +\d+ images/s", printed)) == 3
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[0] > 300 and pixels[..., :3].std() > 0.1


def test_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert private_classification.main(["--data", str(tmp_path)]) == 1
    assert "error: There are no images in" in capsys.readouterr().err
    assert private_classification.main(["--images", "1700"]) == 1
    assert "expected 1 to half of the 1797 images, got 1700" in capsys.readouterr().err
    assert private_classification.main(["--plot", str(tmp_path)]) == 1
    assert "error: Cannot write" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        private_classification.main(["--images", "0"])
    assert "expected 1 or more, got 0" in capsys.readouterr().err
