"""What a convolution slides over its input: filters, strides and padding, checked."""

from __future__ import annotations

from dataclasses import dataclass

from cipherblas.common.errors import ShapeError


@dataclass(frozen=True)
class Window:
    """A convolution (PyTorch's conventions): input (C, H, W), weights (O, C/groups, K1, K2).

    Attributes:
        outputs: output channels.
        kernel, stride, padding: along height and width.
    """

    shape: tuple[int, int, int]
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    groups: int = 1

    def __post_init__(self) -> None:
        channels = self.shape[0]
        if self.groups < 1 or channels % self.groups or self.outputs % self.groups:
            raise ShapeError(
                "The groups of a convolution must divide its channels.",
                expected=f"a divisor of {channels} input and {self.outputs} output channels",
                got=self.groups,
            )
        if min(self.kernel) < 1 or min(self.stride) < 1 or min(self.padding) < 0 or self.outputs < 1:
            raise ShapeError(
                "A convolution needs a positive filter and stride, and no negative padding.",
                expected="positive filter and stride, padding not negative",
                got=f"filter {self.kernel}, stride {self.stride}, padding {self.padding}",
            )
        for size, pad, taps in zip(self.shape[1:], self.padding, self.kernel, strict=True):
            if pad >= size + taps:
                raise ShapeError(
                    "The padding of a convolution is too large.", expected=f"less than {size + taps}", got=pad
                )
            if size + 2 * pad < taps:
                raise ShapeError(
                    "The filter is larger than the padded image.",
                    expected=f"at most {size + 2 * pad}",
                    got=taps,
                )

    @property
    def out_shape(self) -> tuple[int, int, int]:
        """Channels, height, width of the result."""
        height, width = (
            (size + 2 * pad - taps) // step + 1
            for size, pad, taps, step in zip(
                self.shape[1:], self.padding, self.kernel, self.stride, strict=True
            )
        )
        return self.outputs, height, width

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """Of the filters, OIHW."""
        return (self.outputs, self.shape[0] // self.groups, *self.kernel)

    @property
    def taps(self) -> list[tuple[int, int]]:
        """Filter positions, row by row."""
        return [(i, j) for i in range(self.kernel[0]) for j in range(self.kernel[1])]
