"""A residual network labels encrypted colour images, with ReLU and bootstrapping, promised by samples.

The weights are those of a ResNet for CIFAR-10 (ResNet-20 and its kin), as a .npz file of PyTorch's state dictionary;
the images are .npz files with `images` (bytes, N×32×32×3) and `labels`. The program is planned on calibration images:
ranges of all layers and errors of the scores are those that they give.

    python examples/encrypted_resnet.py --weights resnet20.npz --calibration train.npz --images test.npz --count 3
"""

from __future__ import annotations

import argparse
import functools
import resource
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress, TaskID

import cipherblas as cb
from residual.network import DEGREE, ResNet

MEAN, DEVIATION = np.array((0.485, 0.456, 0.406)), np.array((0.229, 0.224, 0.225))  # of ImageNet's pixels
BOUND = 2.7  # of a pixel, with mean and deviation taken out
WEIGHT_BUDGET = 512 << 20  # bytes of encoded weights in memory; the others are in a file
MEMORY_BUDGET = 8 << 30  # bytes that the plan may take beside weights: a quarter for what refreshes read
RING_DEGREE = 1 << 15  # an image of any stage fills its slots once, twice or four times


class Images(NamedTuple):
    """Images as the network takes them, (count, 3, height, width), and their labels."""

    pixels: NDArray[np.float64]
    labels: NDArray[np.int64]


def main(arguments: list[str] | None = None) -> int:
    """The command; the exit status is 1 where something was refused, or a label differs."""
    options = _parser().parse_args(arguments)
    try:
        if options.threads is not None:
            cb.set_threads(options.threads)
        return 0 if _labelled(options) else 1
    except (cb.CipherblasError, OSError, KeyError, ValueError) as error:
        print(f"encrypted_resnet: error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--weights", type=Path, required=True, metavar="FILE.npz", help="trained weights")
    parser.add_argument("--images", type=Path, required=True, metavar="FILE.npz", help="images to label")
    parser.add_argument(
        "--calibration", type=Path, required=True, metavar="FILE.npz", help="other images, to plan by"
    )
    parser.add_argument("--samples", type=int, default=20, metavar="N", help="calibration images (20)")
    parser.add_argument("--count", type=int, default=1, metavar="N", help="images to label (1)")
    parser.add_argument("--degree", type=int, default=DEGREE, metavar="D", help=f"of ReLU ({DEGREE})")
    parser.add_argument("--error", type=float, default=1.0, metavar="E", help="of a score, at most (1)")
    parser.add_argument("--threads", type=int, metavar="T", help="all cores by default")
    parser.add_argument(
        "--plan", type=Path, metavar="FILE", help="write the plan there; take it if it is there"
    )
    parser.add_argument("--toy", action="store_true", help="a small ring without security, for tests")
    return parser


def load_images(path: Path, count: int) -> Images:
    """The first images of a file."""
    with np.load(path) as found:
        pixels, labels = found["images"][:count], found["labels"][:count]
    scaled = (pixels.astype(np.float64) / 255 - MEAN) / DEVIATION
    return Images(np.ascontiguousarray(scaled.transpose(0, 3, 1, 2)).clip(-BOUND, BOUND), labels)


def compiled(network: ResNet, samples: NDArray[np.float64], options: argparse.Namespace) -> cb.Program:
    """The program for images like the samples."""
    ring: dict[str, Any] = {"ring_degree": RING_DEGREE}
    if options.toy:
        ring = {"ring_degree": 1 << 12, "security": 0, "insecure": True}
    return cb.compile(
        network,
        {"x": cb.secret(*samples.shape[1:], bound=BOUND)},
        samples={"x": samples},
        error=options.error,
        form="tensors",
        memory_budget=MEMORY_BUDGET,
        **ring,
    )


def _program(options: argparse.Namespace) -> cb.Program:
    if options.plan is not None and options.plan.exists():
        return cb.Program.load(options.plan, insecure=options.toy, work_budget=1 << 24)
    with np.load(options.weights) as weights:
        network = ResNet(dict(weights), options.degree)
    samples = load_images(options.calibration, options.samples).pixels
    started = time.perf_counter()
    program = compiled(network, samples, options)
    print(f"planned on {len(samples)} images in {time.perf_counter() - started:.0f} s")
    if options.plan is not None:
        program.save(options.plan)
    return program


def _labelled(options: argparse.Namespace) -> bool:
    """Whether the encrypted network labels all images as the clear one does."""
    program = _program(options)
    print(program.explain())
    network = ResNet(dict(np.load(options.weights)), options.degree)
    images = load_images(options.images, options.count)
    client = program.client()
    server = program.server(client.evaluation_keys(), weight_budget=WEIGHT_BUDGET)
    same = 0
    for number, (image, label) in enumerate(zip(*images, strict=True)):
        encrypted = client.encrypt({"x": image})
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(f"image {number}")
            result = server.run(encrypted, progress=functools.partial(_advance, bar, task))
        scores, clear = client.decrypt(result), clear_scores(network, image)
        same += int(np.argmax(scores) == np.argmax(clear))
        print(
            f"image {number}: label {label}, encrypted {np.argmax(scores)}, clear {np.argmax(clear)}, largest error "
            f"{np.abs(scores - clear).max():.3f} (promised {program.plan.error:.3f}), {server.last.seconds:.1f} s",
            flush=True,
        )
    for kind, seconds in _by_kind(server).items():
        print(f"  {kind:<12} {seconds:7.2f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{same} of {len(images.labels)} labelled as in the clear; peak memory of the process {peak:.1f} GiB"
    )
    return same == len(images.labels)


def _advance(bar: Progress, task: TaskID, done: int, total: int) -> None:
    bar.update(task, completed=done, total=total)


def clear_scores(network: ResNet, image: NDArray[np.float64]) -> NDArray[np.float64]:
    """The scores by NumPy, with ReLU itself."""
    x = _relu(_convolved(image, network.first.weights, network.first.bias, 1))
    for block in network.blocks:
        y = _relu(_convolved(x, block.first.weights, block.first.bias, block.stride))
        y = _convolved(y, block.second.weights, block.second.bias, 1)
        shortcut = x[:, :: block.stride, :: block.stride]
        around = (len(y) - len(x)) // 2
        x = _relu(y + np.pad(shortcut, ((around, around), (0, 0), (0, 0))))
    return np.asarray(network.linear @ x.mean(axis=(1, 2)) + network.bias)


def _relu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(x, 0.0)


def _convolved(
    x: NDArray[np.float64], weights: NDArray[np.float64], bias: NDArray[np.float64], stride: int
) -> NDArray[np.float64]:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], axis=(1, 2))
    found = np.einsum("chwij,ocij->ohw", windows[:, ::stride, ::stride], weights, optimize=True)
    return np.asarray(found + bias[:, None, None])


def _by_kind(server: cb.Server) -> dict[str, float]:
    """Seconds of the last run by kind of layer."""
    found: dict[str, float] = defaultdict(float)
    for node in server.last.node_seconds:
        found[node.title.split()[0]] += node.seconds
    return dict(sorted(found.items(), key=lambda one: -one[1]))


if __name__ == "__main__":
    sys.exit(main())
