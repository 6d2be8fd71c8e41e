"""Residual networks for small images (He et al. 2016, section 4.2), of weights that PyTorch names.

Batch norms are folded into the convolutions before them. Shortcuts between stages are those of option A: every second
pixel, and channels of zeros around those that there are. ReLU is a Chebyshev series on the range that its argument has
on samples. Nothing says where values are refreshed: the planner finds that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas as cb

Array = NDArray[np.float64]
STAGES = (1, 2, 3)
EPSILON = 1e-5  # of PyTorch's batch norms
DEGREE = 62  # of the polynomial that stands for ReLU: six levels


@dataclass(frozen=True)
class Convolution:
    """Filters with the batch norm behind them folded in."""

    weights: Array
    bias: Array


@dataclass(frozen=True)
class Block:
    """Two convolutions beside a shortcut."""

    first: Convolution
    second: Convolution
    stride: int


class ResNet:
    """A network, as encrypted programs compute it.

    Args:
        weights: by PyTorch's names: `conv1.weight`, `bn1.running_mean`, `layer1.0.conv1.weight`, …, `linear.bias`.
        degree: of the polynomial that stands for ReLU.
    """

    def __init__(self, weights: Mapping[str, Any], degree: int = DEGREE) -> None:
        self._weights = {name: np.asarray(value, np.float64) for name, value in weights.items()}
        self.degree = degree
        self.first = self._convolution("conv1", "bn1")
        self.blocks = [block for stage in STAGES for block in self._stage(stage)]
        self.linear, self.bias = self._weights["linear.weight"], self._weights["linear.bias"]

    def __call__(self, x: cb.Expression) -> cb.Expression:
        """The scores of an image of shape (3, H, W)."""
        x = self._relu(cb.conv2d(x, self.first.weights, self.first.bias, padding=1))
        for block in self.blocks:
            y = cb.conv2d(x, block.first.weights, block.first.bias, stride=block.stride, padding=1)
            y = self._relu(y)
            y = cb.conv2d(y, block.second.weights, block.second.bias, padding=1)
            x = self._relu(y + self._shortcut(x, y.shape[0], block.stride))
        return self.linear @ cb.flatten(cb.avg_pool2d(x, x.shape[1:])) + self.bias

    def _relu(self, x: cb.Expression) -> cb.Expression:
        return cb.chebyshev(relu, x, degree=self.degree)

    @staticmethod
    def _shortcut(x: cb.Expression, channels: int, stride: int) -> cb.Expression:
        known = x.shape[0]
        if stride == 1 and channels == known:
            return x
        kept = np.zeros((channels, known, 1, 1))
        kept[np.arange(known) + (channels - known) // 2, np.arange(known)] = 1.0
        return cb.conv2d(x, kept, stride=stride)

    def _stage(self, stage: int) -> list[Block]:
        count = 0
        while f"layer{stage}.{count}.conv1.weight" in self._weights:
            count += 1
        names = [f"layer{stage}.{number}" for number in range(count)]
        return [
            Block(
                self._convolution(f"{name}.conv1", f"{name}.bn1"),
                self._convolution(f"{name}.conv2", f"{name}.bn2"),
                2 if stage > 1 and number == 0 else 1,
            )
            for number, name in enumerate(names)
        ]

    def _convolution(self, name: str, norm: str) -> Convolution:
        found = self._weights
        scale = found[f"{norm}.weight"] / np.sqrt(found[f"{norm}.running_var"] + EPSILON)
        bias = found[f"{norm}.bias"] - found[f"{norm}.running_mean"] * scale
        return Convolution(found[f"{name}.weight"] * scale[:, None, None, None], bias)


def relu(x: Any) -> Any:
    """The larger one of a number and zero."""
    return np.maximum(x, 0.0)
