"""Training in the clear by PyTorch: few epochs, one cycle of the learning rate.

Stochastic gradient descent with Nesterov's momentum; the rate rises to its peak and falls to nothing (Smith and Topin
2018). Images are mirrored and shifted at random, and smaller at first, which takes less. The seed decides first
weights, order and changes of the images.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

MEAN, DEVIATION = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)  # of ImageNet's pixels: what `normalise=` takes
BATCH = 256
WARM_UP = 0.25  # share of the steps before the peak
MOMENTUM = 0.9
DECAY = 5e-4  # of weights; not of biases and batch norms
SMOOTHING = 0.1  # of labels
SHIFT = 4  # pixels, at most


class Recipe(NamedTuple):
    """What differs between networks.

    Attributes:
        epochs: how often every image is seen.
        rate: of learning, at its peak.
        sizes: of images, in pixels, up to a share of the steps.
    """

    epochs: int = 9
    rate: float = 0.2
    sizes: tuple[tuple[int, float], ...] = ((16, 0.3), (24, 0.6), (32, 1.0))


# The full layers of an AlexNet take smaller steps, and its first stride leaves small images few pixels.
RECIPES = {
    "vgg11": Recipe(epochs=6),
    "alexnet": Recipe(11, 0.08, ((24, 0.6), (32, 1.0))),
    "mobilenet": Recipe(),
}

Bytes = NDArray[np.uint8]
Progress = Callable[[int, int], None]


def trained(
    model: Any,
    images: Bytes,
    labels: NDArray[Any],
    recipe: Recipe,
    *,
    seed: int = 0,
    bfloat16: bool = False,
    after: Callable[[int], None] | None = None,
    progress: Progress | None = None,
) -> None:
    """Train a module in place; it is left in evaluation mode.

    Args:
        model: with scores as its result.
        images: (count, height, width, 3).
        labels: (count,), whole numbers.
        recipe: of the network.
        seed: of the order of the images and of their changes.
        bfloat16: convolutions and products in this type: faster where the processor has it, slower elsewhere.
        after: called after each epoch with the number of epochs that are done, in evaluation mode.
        progress: called as progress(steps done, steps).
    """
    random = np.random.default_rng(seed)
    model.to(memory_format=torch.channels_last)
    groups: tuple[list[Any], list[Any]] = ([], [])
    for parameter in model.parameters():
        groups[parameter.ndim > 1].append(parameter)
    optimiser = torch.optim.SGD(
        [{"params": groups[False], "weight_decay": 0.0}, {"params": groups[True], "weight_decay": DECAY}],
        *(recipe.rate, MOMENTUM),
        nesterov=True,
        fused=True,
    )
    batch = min(BATCH, len(images))
    steps = recipe.epochs * (len(images) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.rate, total_steps=steps + 1, pct_start=WARM_UP, cycle_momentum=False
    )
    loss = nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
    targets = torch.from_numpy(np.asarray(labels, np.int64))
    done = 0
    for epoch in range(recipe.epochs):
        model.train()
        order = random.permutation(len(images))
        for start in range(0, len(images) - batch + 1, batch):
            chosen = order[start : start + batch]
            size = next(size for size, share in recipe.sizes if done < share * steps)
            seen = nn.functional.interpolate(pixels(changed(images[chosen], random)), size, mode="area")
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                off = loss(model(seen).float(), targets[chosen])
            optimiser.zero_grad()
            off.backward()
            optimiser.step()
            schedule.step()
            done += 1
            if progress is not None:
                progress(done, steps)
        model.eval()
        if after is not None:
            after(epoch + 1)


def changed(images: Bytes, random: np.random.Generator) -> Bytes:
    """Images shifted by up to SHIFT pixels, half of them mirrored; what is beside an edge moves in, mirrored."""
    count, height, width = images.shape[:3]
    wide = np.pad(images, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), "reflect")
    top, left = random.integers(0, 2 * SHIFT + 1, (2, count))
    rows = top[:, None] + np.arange(height)
    columns = left[:, None] + np.arange(width)
    mirrored = random.random(count) < 0.5
    columns[mirrored] = columns[mirrored, ::-1]
    return np.asarray(wide[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]])


def pixels(images: Bytes) -> Any:
    """Bytes as the networks take them, (count, 3, height, width), mean and deviation taken out."""
    scaled = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2).float()
    mean, deviation = (torch.tensor(one).reshape(3, 1, 1) for one in (MEAN, DEVIATION))
    return (scaled - mean) / deviation


def accuracy(model: Any, images: Bytes, labels: NDArray[Any]) -> float:
    """The share of images whose largest score is that of their label."""
    right = 0
    with torch.no_grad():
        for start in range(0, len(images), BATCH):
            part = slice(start, start + BATCH)
            right += int(np.sum(model(pixels(images[part])).argmax(1).numpy() == labels[part]))
    return right / len(images)
