"""VGG-11, AlexNet and MobileNet for images of 32×32 pixels, as modules of PyTorch.

ReLU after each convolution, with a batch norm between the two; means in place of maxima, which are no polynomials; no
layer that is there for training alone. Widths are multiples of a base width, so that tests can make them small. Last
means leave as many pixels of smaller images as of whole ones, so that these can be trained with too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

CLASSES = 10
SMALL = 4  # pixels in each direction, up to which images are convolved by products of matrices

# Means of 2×2 pixels stand between numbers of channels: Simonyan and Zisserman 2015, column A, with one full layer.
VGG11 = (64, "mean", 128, "mean", 256, 256, "mean", 512, 512, "mean", 512, 512)
# Krizhevsky et al. 2012 with windows for small images. The stride of the first layer makes its result one ciphertext.
ALEXNET = (64, "mean", 192, "mean", 384, 256, 256)
ALEXNET_PIXELS = 2  # of what the full layers see, in each direction
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
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


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
    layers += [nn.AdaptiveAvgPool2d(ALEXNET_PIXELS), nn.Flatten()]
    for inputs in (ALEXNET_PIXELS**2 * channels, hidden):
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
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))


def _convolution(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """With zeros around the image, so that its size is divided by the stride; a batch norm takes the part of a bias."""
    filters = _Convolution(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [filters, nn.BatchNorm2d(outputs), nn.ReLU()]


class _Convolution(nn.Conv2d):  # type: ignore[misc]  # PyTorch is there for examples alone
    """The same, computed otherwise in training where processors' convolutions in bfloat16 are slow: of small images as
    products of the filters with all that they see; channel by channel with a stride, or of tiny images, in float32."""

    def forward(self, x: Any) -> Any:
        (rows, columns), (height, width) = x.shape[2:], self.kernel_size
        alone, strided = self.groups > 1, self.stride != (1, 1)
        if not self.training or (max(rows, columns) > SMALL and not (alone and strided)):
            return super().forward(x)
        if alone:
            with torch.autocast("cpu", enabled=False):
                return super().forward(x.float()).to(x.dtype)
        if strided:
            return super().forward(x)
        margins = (0, 0, width // 2, width // 2, height // 2, height // 2)
        wide = functional.pad(x.permute(0, 2, 3, 1), margins)
        taps = [wide[:, i : i + rows, j : j + columns] for i in range(height) for j in range(width)]
        filters = self.weight.permute(2, 3, 1, 0).flatten(0, 2)
        return (torch.cat(taps, 3) @ filters).permute(0, 3, 1, 2)


MODELS: dict[str, Callable[[int], Any]] = {"vgg11": vgg11, "alexnet": alexnet, "mobilenet": mobilenet}
