"""A convolutional network recognises digits on encrypted images, one image at a time.

Trains the network in the clear (a convolution, squares, a full layer, squares, a full layer), then computes its scores
for encrypted images and compares them with those in the clear. Without `--data` the images are scikit-learn's digits;
with it, those of a folder of IDX files (MNIST's names).

    python examples/encrypted_cnn.py --data FOLDER --plot digits.png
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from rich.console import Console
from rich.progress import Progress

import cipherblas as cb
from classification import command, images, picture
from classification.command import positive
from classification.images import LabelledImages
from convolutional import encrypted, training
from convolutional.encrypted import TOLERANCE, Outcome
from convolutional.model import KERNEL, STRIDE, Network


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status is 1 where something was refused."""
    return command.run("encrypted_cnn", _recognise, _parser().parse_args(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = command.parser(__doc__)
    parser.add_argument("--images", type=positive, default=100, metavar="N", help="encrypt the last N (100)")
    parser.add_argument(
        "--channels", type=positive, default=5, metavar="C", help="channels of the convolution (5)"
    )
    parser.add_argument(
        "--hidden",
        type=positive,
        default=100,
        metavar="H",
        help="units of the full layer between squares (100)",
    )
    parser.add_argument(
        "--epochs",
        type=positive,
        default=25,
        metavar="E",
        help="how often every image is seen in training (25)",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        metavar="T",
        help=f"largest error of a score ({TOLERANCE})",
    )
    parser.add_argument(
        "--bounds",
        choices=("measured", "every-image"),
        default="measured",
        help="how values between layers are bounded: by what training images give, or for every image",
    )
    return parser


def _recognise(options: argparse.Namespace) -> None:
    known, held_out = _split(command.load(options), options.images)
    count = len(held_out.digits)
    testing = held_out.part(count - options.images, count)
    command.announce(known, testing)
    network = _trained(known, options)
    print(
        f"in the clear, it recognises {_accuracy(network.layers(held_out)[2], held_out)} of {count} images held out"
    )
    bounds = encrypted.measured_bounds(network, known) if options.bounds == "measured" else None
    program = encrypted.compiled(network, testing.side, options.tolerance, bounds)
    print(f"\n{program.explain()}")
    with _progress() as bar:
        task = bar.add_task("encrypted images", total=options.images)
        outcome = encrypted.classify(program, testing, lambda done, _: bar.update(task, completed=done))
    _report(network, program, outcome, testing, options.tolerance)
    if options.plot is not None:
        title = "Digits recognised by an encrypted convolutional network (true → found)"
        picture.draw(options.plot, testing, outcome.scores.argmax(axis=1), title)
        print(f"\nPicture: {options.plot}")


def _split(found: LabelledImages, testing: int) -> tuple[LabelledImages, LabelledImages]:
    """Images to train with, and held out: at least as many as are to be encrypted."""
    known, held_out = images.split(found, None)
    return (known, held_out) if testing <= len(held_out.digits) else images.split(found, testing)


def _trained(known: LabelledImages, options: argparse.Namespace) -> Network:
    print(
        f"network: {options.channels} channels of {KERNEL}x{KERNEL}, stride {STRIDE}; squares; "
        f"{options.hidden} units; squares; 10 scores"
    )
    started = time.perf_counter()
    with _progress() as bar:
        task = bar.add_task("training", total=None)
        network = training.train(
            *(known, options.channels, options.hidden, options.epochs),
            lambda done, total: bar.update(task, completed=done, total=total),
        )
    print(f"trained in the clear: {options.epochs} epochs, {time.perf_counter() - started:.1f} s")
    return network


def _progress() -> Progress:
    return Progress(console=Console(stderr=True), transient=True)


def _accuracy(scores: np.ndarray, images: LabelledImages) -> str:
    return f"{100 * np.mean(scores.argmax(axis=1) == images.digits):.2f} %"


def _report(
    network: Network, program: cb.Program, outcome: Outcome, testing: LabelledImages, tolerance: float
) -> None:
    layers = network.layers(testing)
    clear, count, plan = layers[2], len(testing.digits), program.plan
    agreed = np.sum(clear.argmax(axis=1) == outcome.scores.argmax(axis=1))
    largest = ", ".join(f"{np.abs(values).max():.3g}" for values in layers)
    repeated = f"{outcome.median('server'):.3f}" if outcome.seconds["server"] else "-"
    ciphertexts = f"{plan.upload_bytes / 2**20:.2f} MiB up, {plan.result_bytes / 2**20:.2f} MiB down"
    print(
        f"\naccuracy   {_accuracy(clear, testing)} in the clear, {_accuracy(outcome.scores, testing)} encrypted"
    )
    print(f"agreement  the same digit for {agreed} of {count} images")
    print(
        f"error      of a score: {np.abs(outcome.scores - clear).max():.2g}, "
        f"predicted at most {plan.error:.2g}, allowed {tolerance:.2g}"
    )
    print(f"values     squared first, squared then, scores: at most {largest}")
    print(f"transfer   {ciphertexts} per image; once: {plan.key_bytes / 2**20:.1f} MiB of evaluation keys")
    print(
        f"seconds    of an image (median): client {outcome.median('encrypt') + outcome.median('decrypt'):.4f}, "
        f"server {repeated}"
    )
    print(f"           once: keys {outcome.median('keys'):.2f}, first image {outcome.median('first'):.2f}")


if __name__ == "__main__":
    sys.exit(main())
