"""Recognise digits on images that the server never sees.

Trains two models in the clear, a linear one and one with a hidden layer of squares, then classifies encrypted images
with clear weights and compares with the same models in the clear. Without `--data` the images are scikit-learn's
digits; with it, those of a folder of IDX files (MNIST's names).

    python examples/private_classification.py --data FOLDER --plot digits.png
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.progress import Progress

from classification import command, encrypted, images, models, picture
from classification.command import positive
from classification.encrypted import Outcome
from classification.images import LabelledImages
from classification.models import LinearModel, Matrix, SquareModel

WAYS = ("linear", "int8", "square", "two-rounds")
TITLES = {
    "linear": "linear model, one program by GEMM",
    "int8": "linear model, weights rounded to 8 bits, one program by GEMM",
    "square": "squares in a hidden layer, one program in slots",
    "two-rounds": "squares in a hidden layer, two programs by GEMM, the client squares",
}


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status is 1 where something was refused."""
    return command.run("private_classification", _classify, _parser().parse_args(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = command.parser(__doc__)
    parser.add_argument(
        "--images", type=positive, metavar="N", help="classify the last N; a fifth, at most 2000"
    )
    parser.add_argument(
        "--hidden", type=positive, default=64, metavar="H", help="units of the hidden layer (64)"
    )
    parser.add_argument(
        "--batch", type=positive, default=100, metavar="N", help="images per run of the model in slots (100)"
    )
    parser.add_argument(
        "--ways", nargs="+", choices=WAYS, default=list(WAYS), help="what to run; all by default"
    )
    return parser


def _classify(options: argparse.Namespace) -> None:
    training, testing = images.split(command.load(options), options.images)
    command.announce(training, testing)
    linear, square = _train(training, options)
    for way in options.ways:
        predicted = _run(way, linear, square, testing, options)
    if options.plot is not None:
        title = f"Decrypted digits (true → found), {TITLES[options.ways[-1]]}"
        picture.draw(options.plot, testing, predicted, title)
        print(f"\nPicture: {options.plot}")


def _train(training: LabelledImages, options: argparse.Namespace) -> tuple[LinearModel, SquareModel]:
    started = time.perf_counter()
    linear = models.train_linear(training)
    between = time.perf_counter()
    square = models.train_square(training, options.hidden)
    seconds = between - started, time.perf_counter() - between
    print(f"trained in the clear: linear {seconds[0]:.1f} s, {options.hidden} squares {seconds[1]:.1f} s")
    return linear, square


def _run(
    way: str, linear: LinearModel, square: SquareModel, testing: LabelledImages, options: argparse.Namespace
) -> np.ndarray:
    """One way of computing encrypted scores, reported; returns the decrypted digits."""
    pixels = testing.pixels
    if way in ("linear", "int8"):
        model: LinearModel | SquareModel = linear if way == "linear" else linear.quantised()
    else:
        model = square
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(way, total=pixels.shape[1])
        outcome = _ways(model, pixels, options.batch, lambda done, _: bar.update(task, completed=done))[way]()
    predicted: np.ndarray = outcome.values.argmax(axis=0)
    _report(way, model.scores(pixels), outcome, testing)
    return predicted


def _ways(
    model: LinearModel | SquareModel, pixels: Matrix, batch: int, progress: encrypted.Progress
) -> dict[str, Callable[[], Outcome]]:
    if isinstance(model, LinearModel):
        return dict.fromkeys(("linear", "int8"), lambda: encrypted.linear(model, pixels, progress))
    return {
        "square": lambda: encrypted.square(model, pixels, batch, progress),
        "two-rounds": lambda: encrypted.two_rounds(model, pixels, progress),
    }


def _report(way: str, clear: Matrix, outcome: Outcome, testing: LabelledImages) -> None:
    digits, count = testing.digits, len(testing.digits)
    by_clear, by_encrypted = clear.argmax(axis=0), outcome.values.argmax(axis=0)
    accuracies = [100 * np.mean(found == digits) for found in (by_clear, by_encrypted)]
    seconds = ", ".join(f"{stage} {value:.3f}" for stage, value in outcome.seconds.items())
    upload, keys = (
        sum(getattr(program.plan, name) for program in outcome.programs) / 2**20
        for name in ("upload_bytes", "key_bytes")
    )
    runs = -(-count // outcome.batch)
    allowed = encrypted.TOLERANCE
    plans = [
        f"{program.plan.algorithm}, N = {program.plan.parameters.n}, {program.plan.parameters.security} bits"
        for program in outcome.programs
    ]
    print(f"\n{TITLES[way]}")
    print(f"  plan       {'; then '.join(plans)}")
    print(f"  accuracy   {accuracies[0]:.2f} % in the clear, {accuracies[1]:.2f} % encrypted")
    print(f"  agreement  the same digit for {np.sum(by_clear == by_encrypted)} of {count} images")
    print(f"  error      of a score: {np.abs(outcome.values - clear).max():.2g}, allowed {allowed:.2g}")
    print(
        f"  transfer   {upload * runs:.1f} MiB of images up in {runs} runs, {keys:.1f} MiB of evaluation keys"
    )
    print(f"  seconds    {seconds}")
    print(
        f"  speed      {outcome.server_rate:.0f} images/s on the server, {outcome.rate:.0f} with the client's part"
    )


if __name__ == "__main__":
    sys.exit(main())
