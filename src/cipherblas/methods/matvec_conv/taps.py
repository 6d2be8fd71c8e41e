"""Where the taps of a filter read and where results stand, in slots: what methods of convolutions share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError
from cipherblas.forms.tensors import TensorLayout
from cipherblas.lang.windows import Window


def tap_step(x: TensorLayout, window: Window, tap: tuple[int, int], segments: int = 0) -> int:
    """Slots from a result's place to what a tap reads for it, so many segments further on."""
    (i, j), (pad_h, pad_w) = tap, window.padding
    return (i - pad_h - segments * x.segment) * x.row + (j - pad_w) * x.col


def covered(
    x: TensorLayout,
    out: TensorLayout,
    window: Window,
    tap: tuple[int, int],
    segment: int = 0,
    neighbour: int = 0,
) -> NDArray[np.int64]:
    """Slots, from the start of a channel, of the results of a segment for which a tap reads a segment of the image."""
    height, width = x.shape[1:]
    out_rows = np.arange(segment * out.segment, min((segment + 1) * out.segment, out.shape[1]))
    read = out_rows * window.stride[0] + tap[0] - window.padding[0]
    inside = (read >= max(0, neighbour * x.segment)) & (read < min(height, (neighbour + 1) * x.segment))
    out_cols = np.arange(out.shape[2])
    across = out_cols * window.stride[1] + tap[1] - window.padding[1]
    cols = out_cols[(across >= 0) & (across < width)]
    rows = out_rows[inside] - segment * out.segment
    return (rows[:, None] * out.row + cols[None, :] * out.col).ravel()


def pooled(x: TensorLayout, window: Window, *, zero_padded: bool) -> TensorLayout:
    """Where sums over windows of every channel stand: where their windows begin."""
    if x.places is None and x.copies == 1:
        return conv_output(x, window, x.channels, zero_padded=zero_padded)
    (step_h, step_w), shape = window.stride, window.out_shape
    segment = shape[1] if x.segments == 1 else x.segment // step_h
    return replace(
        x, shape=shape, row=x.row * step_h, col=x.col * step_w, segment=segment, zero_padded=zero_padded
    )


def needed_grid(window: Window) -> tuple[int, int]:
    """Rows and columns of slots that hold the image and its convolution's results at their windows' places."""
    _, height, width = window.shape
    _, out_h, out_w = window.out_shape
    return max(height, (out_h - 1) * window.stride[0] + 1), max(width, (out_w - 1) * window.stride[1] + 1)


def fits(window: Window, x: TensorLayout) -> bool:
    """Whether the slots of the windows have room for the results of a convolution."""
    _, out_h, out_w = window.out_shape
    across = (out_w - 1) * window.stride[1] * x.col + 1
    down = (out_h - 1) * window.stride[0] * x.row
    return (out_h == 1 or across <= x.row * window.stride[0]) and down + across <= x.pitch


def conv_output(x: TensorLayout, window: Window, each: int, *, zero_padded: bool) -> TensorLayout:
    """The layout of a convolution's result: every output stays at the slot where its window begins.

    Raises:
        ShapeError: the result is larger than the image's grid of slots, or a stride does not divide a segment.
    """
    (step_h, step_w), (channels, height, width) = window.stride, window.out_shape
    row, col = x.row * step_h, x.col * step_w
    if x.segments > 1:
        if x.segment % step_h or -(-height * step_h // x.segment) > x.segments:
            raise FitError(
                f"The rows of a segment must be a multiple of the stride {step_h}.",
                expected=f"a multiple of the stride {step_h}",
                got=x.segment,
            )
        segment, rows = x.segment // step_h, x.segment // step_h
    else:
        segment = rows = height
    across = (width - 1) * col + 1
    if (rows > 1 and across > row) or (rows - 1) * row + across > x.pitch:
        raise FitError(
            "The result of a convolution needs a wider image.",
            expected=f"{height}x{width} outputs in {x.pitch} slots a channel",
            got=f"rows {x.row} slots apart",
        )
    return TensorLayout(
        (channels, height, width), x.slots, each, x.pitch, row, col, segment, zero_padded=zero_padded
    )
