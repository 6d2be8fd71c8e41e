"""Convolutions and sums over windows of Python's integers, of one image or of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas as cb

Array = NDArray[Any]


def conv2d(
    x: Array, weights: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, groups: int = 1
) -> Array:
    """As `cb.conv2d`, entry by entry."""
    weights = np.asarray(weights, object)
    outputs, each, rows, columns = weights.shape
    views = _windows(x, (rows, columns), _pair(stride), _pair(padding))
    found = []
    for output in range(outputs):
        first = output * groups // outputs * each
        seen = views[..., first : first + each, :, :, :, :]
        terms = seen * weights[output][:, None, None]
        total = terms.sum(axis=(-5, -2, -1))
        found.append(total if bias is None else total + int(bias[output]))
    return np.stack(found, axis=-3)


def sum_pool2d(x: Array, kernel: Any, stride: Any = None, padding: Any = 0) -> Array:
    """As `cb.avg_pool2d` with `divisor_override=1`."""
    steps = _pair(kernel) if stride is None else _pair(stride)
    return np.asarray(_windows(x, _pair(kernel), steps, _pair(padding)).sum(axis=(-2, -1)))


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _windows(x: Array, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> Array:
    """(…, channels, H', W', K1, K2)."""
    (down, across), (height, width) = padding, x.shape[-2:]
    padded = np.zeros((*x.shape[:-2], height + 2 * down, width + 2 * across), object)  # Python's zeros
    padded[..., down : down + height, across : across + width] = x
    views = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(-2, -1))
    return views[..., :: stride[0], :: stride[1], :, :]


def layer(name: str) -> Callable[..., Any]:
    """A layer of nodes, and of arrays of Python's integers."""
    ours = {
        "conv2d": cb.conv2d,
        "sum_pool2d": lambda x, *rest, **more: cb.avg_pool2d(x, *rest, **more, divisor_override=1),
        "flatten": cb.flatten,
    }[name]

    def flatten(x: Array) -> Array:
        return x.reshape(-1) if x.ndim == 3 else x.reshape(len(x), -1)

    integers = {"conv2d": conv2d, "sum_pool2d": sum_pool2d, "flatten": flatten}[name]

    def call(x: Any, *rest: Any, **more: Any) -> Any:
        return (integers if isinstance(x, np.ndarray) else ours)(x, *rest, **more)

    return call
