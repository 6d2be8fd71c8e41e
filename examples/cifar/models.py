"""VGG-11, AlexNet and MobileNet for images of 32×32 pixels, as modules of PyTorch.

ReLU after each convolution, with a batch norm between the two; means in place of maxima, which are no polynomials; no
layer that is there for training alone. Widths are multiples of a base width, so that tests can make them small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

CLASSES = 10

# Means of 2×2 pixels stand between numbers of channels: Simonyan and Zisserman 2015, column A, with one full layer.
VGG11 = (64, "mean", 128, "mean", 256, 256, "mean", 512, 512, "mean", 512, 512, "mean")
# Krizhevsky et al. 2012 with windows for small images. The stride of the first layer makes its result one ciphertext.
ALEXNET = (64, "mean", 192, "mean", 384, 256, 256, "mean")
ALEXNET_HIDDEN = 4096
# Channels and stride of each block of Howard et al. 2017.
MOBILENET = (
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *((512, 1),) * 5,
    *((1024, 2), (1024, 1)),
)


def vgg11(width: int = 64) -> nn.Sequential:
    """Eight convolutions of 3×3 and one full layer.

    Args:
        width: channels of the first convolution.
    """
    layers: list[nn.Module] = []
    channels = 3
    for one in VGG11:
        if one == "mean":
            layers.append(nn.AvgPool2d(2))
        else:
            outputs = int(one) * width // 64
            layers += _convolution(channels, outputs, 3)
            channels = outputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, CLASSES))


def alexnet(width: int = 64) -> nn.Sequential:
    """Five convolutions and three full layers.

    Args:
        width: channels of the first convolution.
    """
    layers: list[nn.Module] = []
    channels, kernel, stride = 3, 5, 2
    for one in ALEXNET:
        if one == "mean":
            layers.append(nn.AvgPool2d(2))
        else:
            outputs = int(one) * width // 64
            layers += _convolution(channels, outputs, kernel, stride)
            channels, kernel, stride = outputs, 5 if channels == 3 else 3, 1
    hidden = ALEXNET_HIDDEN * width // 64
    layers.append(nn.Flatten())
    for inputs in (4 * channels, hidden):
        layers += [nn.Linear(inputs, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, CLASSES))


def mobilenet(width: int = 64) -> nn.Sequential:
    """A convolution, thirteen pairs of a depthwise and a pointwise one, a mean and a full layer.

    Args:
        width: channels of the first pointwise convolution; the convolution before it has half as many.
    """
    channels = width // 2
    layers = _convolution(3, channels, 3)
    for outputs, stride in MOBILENET:
        layers += _convolution(channels, channels, 3, stride, groups=channels)
        layers += _convolution(channels, outputs * width // 64, 1)
        channels = outputs * width // 64
    return nn.Sequential(*layers, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(channels, CLASSES))


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """With zeros around the image, so that its size is divided by the stride; a batch norm takes the part of a bias."""
    filters = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [filters, nn.BatchNorm2d(outputs), nn.ReLU()]


MODELS: dict[str, Callable[[int], Any]] = {"vgg11": vgg11, "alexnet": alexnet, "mobilenet": mobilenet}
