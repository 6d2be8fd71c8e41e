"""Recognise digits on one encrypted image, on a hundred, on thousands at once.

Trains a network with two hidden layers of ReLU in the clear, then computes its scores for encrypted images, in programs
of several sizes: for few images the planner packs pixels into slots, for many it takes a ciphertext for each pixel,
whose slots are images. Without `--data` the images are scikit-learn's digits; with it, those of a folder of IDX files
(MNIST's names).

    python examples/batch_classification.py --data FOLDER --sizes 1 100 1000 10000 --threads 1
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import cipherblas as cb
from classification import command, images, relu
from classification.command import positive
from classification.images import LabelledImages
from classification.relu import BatchOutcome, ReluModel

# Of the public scoreboard of homomorphic encryption, for one and for a hundred images of MNIST.
PUBLISHED = {1: "7.63 s, 1 GB of keys", 100: "10.8 min"}
PUBLISHED_PIXELS = 28 * 28


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status is 1 where something was refused."""
    return command.run("batch_classification", _classify, _parser().parse_args(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = command.parser(__doc__)
    parser.add_argument(
        "--sizes",
        nargs="+",
        type=positive,
        default=[1, 100],
        metavar="N",
        help="numbers of images that are encrypted together (1 100)",
    )
    parser.add_argument(
        "--hidden", nargs="+", type=positive, default=[128, 64], metavar="H", help="hidden units (128 64)"
    )
    parser.add_argument(
        "--degree", type=positive, default=15, metavar="D", help="of the polynomials for ReLU (15)"
    )
    return parser


def _classify(options: argparse.Namespace) -> None:
    everything = command.load(options)
    known, held_out = images.split(everything, None)
    command.announce(known, held_out)
    model = relu.train(known, options.hidden)
    clear = model.scores(held_out.pixels.T).argmax(axis=1)
    print(
        f"in the clear, {100 * np.mean(clear == held_out.digits):.2f} % of the images held out are recognised"
    )
    for size in options.sizes:
        _one_size(model, everything, known, size, options.degree)


def _one_size(
    model: ReluModel, everything: LabelledImages, known: LabelledImages, size: int, degree: int
) -> None:
    """A program for so many images: the last ones first, which are held out."""
    chosen = np.resize(np.arange(len(everything.digits))[::-1], size)
    pixels, digits = everything.pixels.T[chosen], everything.digits[chosen]
    begun = time.perf_counter()
    program = relu.compiled(model, known, size, degree)
    planned = time.perf_counter() - begun
    first, later = relu.classified(program, pixels)
    _report(program, planned, first, later, model.scores(pixels), digits)


def _report(
    program: cb.Program,
    planned: float,
    first: BatchOutcome,
    later: BatchOutcome,
    clear: np.ndarray,
    digits: np.ndarray,
) -> None:
    plan, count = program.plan, len(digits)
    by_clear, by_encrypted = clear.argmax(axis=1), later.scores.argmax(axis=1)
    params = plan.parameters
    print(f"\n{count} image{'s' if count > 1 else ''} at once")
    print(f"  plan       {plan.algorithm}, N = {params.n}, {params.security} bits, {planned:.1f} s to plan")
    print(f"  server     {later.server:.2f} s, {1e3 * later.server / count:.2f} ms an image", end="")
    print(f" (first run {first.server:.2f} s, predicted {plan.stages.evaluate:.2f} s)")
    if count in PUBLISHED and program.operands["x"].shape[1] == PUBLISHED_PIXELS:
        print(f"  published  {PUBLISHED[count]}")
    print(f"  client     {later.encrypt:.2f} s to encrypt, {later.decrypt:.3f} s to decrypt")
    up, down, keys = (size / 2**20 for size in (plan.upload_bytes, plan.result_bytes, plan.key_bytes))
    print(f"  transfer   {up:.1f} MiB up, {down:.1f} MiB down, {keys:.1f} MiB of keys on the server")
    print(f"  agreement  the same digit for {np.sum(by_clear == by_encrypted)} of {count}", end="")
    print(f", right for {np.sum(by_encrypted == digits)}, in the clear for {np.sum(by_clear == digits)}")


if __name__ == "__main__":
    sys.exit(main())
