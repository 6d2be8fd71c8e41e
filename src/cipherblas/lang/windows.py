"""What a convolution slides over its input: filters, strides and padding, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import ShapeError


@dataclass(frozen=True)
class Window:
    """A convolution in PyTorch's conventions: input (C, H, W), weights (O, C/groups, K1, K2).

    Several images are one of all their channels, one image after the other, with groups of its own for each; then
    weights are those of one of them.

    Attributes:
        shape: channels, height, width of the input.
        outputs: output channels.
        kernel, stride, padding: along height and width.
        images: with the same filters.
    """

    shape: tuple[int, int, int]
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    groups: int = 1
    images: int = 1

    def __post_init__(self) -> None:
        channels = self.shape[0]
        if self.groups < 1 or channels % self.groups or self.outputs % self.groups:
            raise ShapeError(
                "The groups of a convolution must divide its channels.",
                got=self.groups,
                advice=f"a divisor of {channels} input and {self.outputs} output channels, or groups=1",
            )
        if min(self.kernel) < 1 or min(self.stride) < 1 or min(self.padding) < 0 or self.outputs < 1:
            raise ShapeError(
                "A convolution needs a positive filter and stride, and no negative padding.",
                got=f"filter {self.kernel}, stride {self.stride}, padding {self.padding}",
                advice="stride=1, padding=0, and a filter of one entry or more",
            )
        for size, pad, taps in zip(self.shape[1:], self.padding, self.kernel, strict=True):
            if pad >= size + taps:
                raise ShapeError(
                    "The padding of a convolution is too large.",
                    got=pad,
                    advice=f"padding={size} at most, the size of the image",
                )
            if size + 2 * pad < taps:
                raise ShapeError(
                    f"The filter, {shape_text(self.kernel)}, is larger than the padded image.",
                    got=f"{shape_text(self.shape[1:])} and a padding of {self.padding}",
                    advice=self._fitting,
                )

    @property
    def _fitting(self) -> str:
        """Return advice for a filter that is larger than the padded image."""
        sizes = self.shape[1:]
        least = tuple(max(0, (taps - size + 1) // 2) for taps, size in zip(self.kernel, sizes, strict=True))
        if all(pad <= size for pad, size in zip(least, sizes, strict=True)):
            return f"padding={least}"
        return f"a filter of at most {shape_text(sizes)}"

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
        return (self.outputs // self.images, self.shape[0] // self.groups, *self.kernel)

    @classmethod
    def of_images(
        cls,
        shape: tuple[int, ...],
        outputs: int,
        kernel: tuple[int, int],
        stride: tuple[int, int],
        padding: tuple[int, int],
        groups: int,
    ) -> Window:
        """The convolution of one image (C, H, W), or of several (n, C, H, W), by the outputs and groups of one."""
        one = cls((shape[-3], shape[-2], shape[-1]), outputs, kernel, stride, padding, groups)
        return one if len(shape) == len(one.shape) else one.repeated(shape[0])

    def repeated(self, images: int) -> Window:
        """The same for so many times as many images."""
        (channels, height, width), times = self.shape, images
        return replace(
            self,
            shape=(times * channels, height, width),
            outputs=times * self.outputs,
            groups=times * self.groups,
            images=times * self.images,
        )

    @property
    def taps(self) -> list[tuple[int, int]]:
        """Filter positions, row by row."""
        return [(i, j) for i in range(self.kernel[0]) for j in range(self.kernel[1])]
