"""Train VGG-11, AlexNet or MobileNet for CIFAR-10 in the clear, as a file of ONNX that runs on encrypted images.

The images are .npz files with `images` (bytes, N×32×32×3) and `labels`. The networks have ReLU, batch norms and means
in place of maxima. Needs PyTorch (`pip install torch onnx`), and no more than a processor.

    python examples/train_cifar.py vgg11 --images train.npz --test test.npz -o vgg11.onnx
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

import cipherblas as cb
from cipherblas.crypto.files import check_writable
from classification.command import positive

NETWORKS = ("vgg11", "alexnet", "mobilenet")
CLASSES = 10
LOOKED_AT = 1000  # test images, between epochs
SHAPE = (1, 3, 32, 32)
OPSET = 17  # what the exporter that needs no further package knows best


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status is 1 where something was refused."""
    options = _parser().parse_args(arguments)
    try:
        _train(options)
    except (cb.CipherblasError, ImportError, OSError, KeyError, ValueError) as error:
        print(f"train_cifar: error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--images", type=Path, required=True, metavar="FILE.npz", help="images to train with")
    parser.add_argument(
        "--test", type=Path, required=True, metavar="FILE.npz", help="images to count right labels of"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.onnx")
    parser.add_argument(
        "--epochs", type=positive, metavar="E", help="passes over the images (those of the network's recipe)"
    )
    parser.add_argument("--width", type=positive, default=64, metavar="W", help="channels to count by (64)")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("--threads", type=positive, metavar="T", help="all cores by default")
    parser.add_argument("--bfloat16", action="store_true", help="faster where the processor multiplies it")
    return parser


def _train(options: argparse.Namespace) -> None:
    check_writable(options.output)
    import torch

    from cifar import training
    from cifar.models import MODELS

    if options.threads is not None:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    model, recipe = MODELS[options.network](options.width), training.RECIPES[options.network]
    if options.epochs is not None:
        recipe = recipe._replace(epochs=options.epochs)
    weights = sum(one.numel() for one in model.parameters())
    (images, labels), test = load(options.images), load(options.test)
    print(
        f"{options.network}: {weights:,} weights; {len(images)} images to train with, {len(test[0])} to test"
    )
    started = time.perf_counter()

    def after(epoch: int) -> None:
        export(model, options.output)
        images, labels = test if epoch == recipe.epochs else (one[:LOOKED_AT] for one in test)
        print(
            f"epoch {epoch}: {training.accuracy(model, images, labels):.1%} of {len(images)} test images have the "
            f"right label, {time.perf_counter() - started:.0f} s",
            flush=True,
        )

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(options.network)
        training.trained(
            *(model, images, labels, recipe),
            seed=options.seed,
            bfloat16=options.bfloat16,
            after=after,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def load(path: Path) -> tuple[Any, Any]:
    """Images and labels of a file."""
    with np.load(path) as found:
        images, labels = found["images"], found["labels"]
    if images.dtype != np.uint8 or images.shape[1:] != (32, 32, 3) or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{path}: expected images N×32×32×3 of bytes and N labels, got {images.shape} of {images.dtype} and "
            f"{labels.shape}"
        )
    if len(labels) and not 0 <= labels.min() <= labels.max() < CLASSES:
        raise ValueError(
            f"{path}: expected labels from 0 to {CLASSES - 1}, got {labels.min()} to {labels.max()}"
        )
    return images, labels


def export(model: Any, path: Path) -> None:
    """Write the network as a file of ONNX, with batch norms as they are."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the exporter's own, on itself
        torch.onnx.export(
            model,
            (torch.zeros(SHAPE),),
            str(path),
            opset_version=OPSET,
            dynamo=False,
            do_constant_folding=False,
            training=torch.onnx.TrainingMode.PRESERVE,
            input_names=["x"],
            dynamic_axes={"x": {0: "n"}},
        )


if __name__ == "__main__":
    sys.exit(main())
