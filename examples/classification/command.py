"""What the commands of the examples have in common: options, the images, how a refusal ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import cipherblas as cb
from cipherblas.crypto import files
from cipherblas.report.figures import check_drawing
from classification import images
from classification.images import LabelledImages


def parser(description: str | None) -> argparse.ArgumentParser:
    """With `--data`, `--threads` and `--plot`; the first line of the description is shown."""
    found = argparse.ArgumentParser(description=description.splitlines()[0] if description else None)
    found.add_argument(
        "--data", type=Path, metavar="FOLDER", help="IDX files; scikit-learn's digits without it"
    )
    found.add_argument("--threads", type=positive, metavar="T", help="all cores by default")
    found.add_argument("--plot", type=Path, metavar="FILE.png", help="draw some images with their digits")
    return found


def positive(text: str) -> int:
    """A whole number above 0, as `argparse` takes types."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {value}")
    return value


def run(name: str, work: Callable[[argparse.Namespace], None], options: argparse.Namespace) -> int:
    """The exit status of `work`: 1, and one line on the standard error, where something was refused."""
    try:
        if options.threads is not None:
            cb.set_threads(options.threads)
        if options.plot is not None:
            files.check_writable(options.plot)
            check_drawing()
        work(options)
    except cb.CipherblasError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 1
    return 0


def load(options: argparse.Namespace) -> LabelledImages:
    """The images of `--data`, or the digits."""
    return images.load_digits() if options.data is None else images.load_folder(options.data)


def announce(training: LabelledImages, testing: LabelledImages) -> None:
    """Print how many images there are, and what computes."""
    rows, cols = testing.side
    print(
        f"{len(training.digits)} images to train with, {len(testing.digits)} to classify, {rows}x{cols} pixels"
    )
    print(f"threads {cb.threads()}, instruction set {cb.isa()}")
