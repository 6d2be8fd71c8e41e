"""Recognise digits on thousands of encrypted images with a network whose weights are encrypted too.

Trains a convolution, a square, a layer, a square and a layer in the clear, encrypts the images and the weights, and
compares every score, as a whole number, with that of the network in fixed point (10 bits) in the clear. `--approximate`
computes real numbers in CKKS. Without `--data` the images are scikit-learn's digits; with it, those of a folder of IDX
files (MNIST's names); with `--cifar`, photographs of a folder of train50000.npz and test10000.npz, which a larger
network of the same kind tells apart.

    python examples/secret_network.py --data FOLDER --size 8192 --threads 1
    python examples/secret_network.py --cifar FOLDER --size 1024 --threads 1
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

import cipherblas as cb
from classification import command, images
from classification.command import positive
from secret import encrypted, network, pictures
from secret.encrypted import BITS, Outcome
from secret.network import Array, Network


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status is 1 where something was refused."""
    return command.run("secret_network", _classify, _parser().parse_args(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = command.parser(__doc__)
    parser.add_argument(
        "--size", type=positive, default=1024, metavar="N", help="images that are encrypted together (1024)"
    )
    parser.add_argument(
        "--link",
        type=positive,
        default=100,
        metavar="MBIT",
        help="of the client, a second (100); weights are packed for slow ones",
    )
    parser.add_argument(
        "--cifar", type=Path, metavar="FOLDER", help="CIFAR-10's photographs in place of digits"
    )
    parser.add_argument(
        "--epochs", type=positive, default=pictures.EPOCHS, help=f"of their training ({pictures.EPOCHS})"
    )
    parser.add_argument("--approximate", action="store_true", help="real numbers, in CKKS")
    return parser


def _of_digits(options: argparse.Namespace) -> tuple[Network, Array, Array]:
    """The network, the windows of the images that are encrypted, and what is on these."""
    everything = command.load(options)
    known, held_out = images.split(everything, None)
    command.announce(known, held_out)
    trained = network.train(known)
    _tell(trained.clear_scores(network.windows(held_out)), held_out.digits)
    chosen = np.resize(np.arange(len(everything.digits))[::-1], options.size)  # those held out first
    return trained, network.windows(everything)[:, chosen], everything.digits[chosen]


def _of_pictures(options: argparse.Namespace) -> tuple[Network, Array, Array]:
    """The same of CIFAR-10."""
    known, held_out = (pictures.load(options.cifar, name) for name in pictures.FILES)
    print(f"{len(known.classes)} images to train with, {len(held_out.classes)} held out, 32x32 pixels")
    trained = pictures.train(known, options.epochs)
    _tell(pictures.clear_scores(trained, held_out), held_out.classes)
    chosen = np.resize(np.arange(len(held_out.classes)), options.size)
    return trained, pictures.patches(held_out.pixels[chosen]), held_out.classes[chosen]


def _tell(scores: Array, digits: Array) -> None:
    right = np.mean(scores.argmax(axis=1) == digits)
    print(f"in the clear, {100 * right:.2f} % of the images held out are recognised")


def _classify(options: argparse.Namespace) -> None:
    if options.cifar is None:
        trained, x, digits = _of_digits(options)
    else:
        trained, x, digits = _of_pictures(options)
    begun = time.perf_counter()
    program = encrypted.compiled(trained, x, options.approximate, options.link * 1e6)
    planned = time.perf_counter() - begun
    outcome = encrypted.run(program, trained, x, options.approximate)
    _report(program, planned, outcome)
    if options.approximate:
        _compare_digits(outcome, trained.clear_scores(x), digits)
    else:
        _compare_integers(outcome, encrypted.exact_scores(x, trained), digits)


def _report(program: cb.Program, planned: float, outcome: Outcome) -> None:
    plan, count = program.plan, len(outcome.scores)
    params, moduli = plan.parameters, plan.moduli
    kind = f"{len(moduli)} t of {max(moduli).bit_length()} bits" if moduli else "CKKS"
    print(f"\n{count} images at once")
    print(f"  plan       {kind}, N = {params.n}, {params.security} bits, {planned:.1f} s to plan")
    seconds, mib = outcome.seconds, 2**20
    print(
        f"  server     {seconds['server']:.2f} s, {1e3 * seconds['server'] / count:.2f} ms an image", end=""
    )
    print(f" (predicted {plan.stages.evaluate:.2f} s); with seeds {seconds['server, seeds expanded']:.2f} s")
    print(f"  of it      {', '.join(f'{name} {took:.2f} s' for name, took in outcome.layers.items())}")
    print(f"  client     {seconds['encrypt']:.2f} s to encrypt, {seconds['decrypt']:.3f} s to decrypt")
    runs, sizes = max(1, len(moduli)), {True: 0.0, False: 0.0}
    for name in program.operands:
        for one in program.inputs_of(name):
            traffic = one.form.upload(one.basis.words(params), params.n, one.public_key)
            sizes[name == "x"] += traffic.upload_bytes / mib / runs  # one for each t
    each = " for each t" if runs > 1 else ""
    print(f"  transfer   images {sizes[True]:.1f} MiB, weights {sizes[False]:.1f} MiB{each}", end="")
    print(f"; {plan.result_bytes / mib:.1f} MiB down, {plan.key_bytes / mib:.1f} MiB of keys")


def _compare_integers(outcome: Outcome, exact: Array, digits: Array) -> None:
    count, same = len(digits), np.all(outcome.scores == exact, axis=1)
    print(
        f"  exact      all scores of {np.sum(same)} of {count} images are those of the network in fixed point,"
    )
    print(
        f"             as whole numbers of up to {int(np.abs(exact).max()).bit_length()} bits ({BITS} behind the point)"
    )
    found = outcome.scores.argmax(axis=1)
    print(f"  digits     right for {np.sum(found == digits)} of {count}, in fixed point in the clear", end="")
    print(f" for {np.sum(exact.argmax(axis=1) == digits)}")


def _compare_digits(outcome: Outcome, clear: Array, digits: Array) -> None:
    count, found = len(digits), outcome.scores.argmax(axis=1)
    print(f"  agreement  the same digit for {np.sum(found == clear.argmax(axis=1))} of {count}", end="")
    print(f", right for {np.sum(found == digits)}, in the clear for {np.sum(clear.argmax(axis=1) == digits)}")
    print(
        f"  error      {np.abs(outcome.scores - clear).max():.2g}, of scores up to {np.abs(clear).max():.3g}"
    )


if __name__ == "__main__":
    sys.exit(main())
