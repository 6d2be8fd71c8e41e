"""Random networks as files of ONNX: up to eight nodes, any of which reads any value before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.onnx_models import Model

Image = tuple[int, int, int]
Grown = tuple[str, Image]
FUNCTIONS = ("Relu", "Tanh", "Sigmoid", "Elu", "LeakyRelu")


class RandomNetwork:
    """A model that grows by random nodes; `values` are the images in it."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.shape = self.between(1, 4), self.between(4, 9), self.between(4, 9)
        self.model, self.values = Model(self.shape, seed), [("x", self.shape)]

    def between(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def like(self, *fixed: Any) -> Grown:
        """One of the values whose last lengths are these."""
        same = [one for one in self.values if one[1][-len(fixed) :] == fixed]
        return same[self.between(0, len(same) - 1)]

    def grow(self, functions: bool) -> None:
        """One node more."""
        old = self.random.random() < 0.4
        x, shape = self.values[self.between(0, len(self.values) - 1)] if old else self.values[-1]
        kinds = [name for name in KINDS if functions or name not in ("function", "silu")]
        found = KINDS[str(self.random.choice(kinds))](self, x, *shape)
        if found is not None and min(found[1]) >= 1:
            self.values.append(found)

    def file(self) -> bytes:
        """The content of the file; of half of the networks scores by a matrix."""
        x, shape = self.values[-1]
        m = self.model
        if x == "x":
            x = m.norm(x, shape[0])
        if self.random.random() < 0.5:
            x = m.dense(m.node("Flatten", m.node("GlobalAveragePool", x)), shape[0], 3)
            x = m.node("Mul", x, m.constant(m.normal(3)))
        return m.file(x)


def _conv(n: RandomNetwork, x: str, c: int, h: int, w: int) -> Grown | None:
    kernel, outputs = n.between(1, 3), n.between(1, 4)
    strides, pads = [n.between(1, 2) for _ in range(2)], [n.between(0, 2) for _ in range(4)]
    sizes = h + pads[0] + pads[2] - kernel, w + pads[1] + pads[3] - kernel
    if min(sizes) < 0:
        return None
    made = n.model.conv(x, c, outputs, kernel, pads=pads, strides=strides)
    return made, (outputs, sizes[0] // strides[0] + 1, sizes[1] // strides[1] + 1)


def _same(n: RandomNetwork, x: str, c: int, h: int, w: int) -> Grown:
    strides, side = [n.between(1, 2) for _ in range(2)], str(n.random.choice(["SAME_UPPER", "SAME_LOWER"]))
    made = n.model.conv(x, c, 3, n.between(1, 3), auto_pad=side, strides=strides)
    return made, (3, -(-h // strides[0]), -(-w // strides[1]))


def _slice(n: RandomNetwork, x: str, c: int, h: int, w: int) -> Grown:
    ends = [n.model.constant(one, np.int64) for one in ([0, 0], [1000, 1000], [2, 3], [2, 2])]
    return n.model.node("Slice", x, *ends), (c, -(-h // 2), -(-w // 2))


def _pad(n: RandomNetwork, x: str, c: int, h: int, w: int) -> Grown:
    before, after, more = n.between(0, 2), n.between(0, 2), n.between(0, 1)
    pads = n.model.constant([0, before, more, 0, 0, after, 0, 0], np.int64)
    return n.model.node("Pad", x, pads), (c + before + after, h + more, w)


def _split(n: RandomNetwork, x: str, c: int, h: int, w: int) -> Grown | None:
    if c < 2:
        return None
    first = n.between(1, c - 1)
    made = n.model.node("Split", x, n.model.constant([first, c - first], np.int64), outputs=2, axis=1)
    n.values.append((f"{made}_1", (c - first, h, w)))
    return made, (first, h, w)


def _concat(n: RandomNetwork, x: str, c: int, h: int, w: int) -> Grown:
    others = [n.like(h, w) for _ in range(n.between(1, 2))]
    made = n.model.node("Concat", x, *(name for name, _ in others), axis=1)
    return made, (c + sum(shape[0] for _, shape in others), h, w)


def _pool(n: RandomNetwork, x: str, c: int, h: int, w: int) -> Grown | None:
    step = n.between(1, 2)
    made = n.model.node("AveragePool", x, kernel_shape=[2, 2], strides=[step, step])
    return made, (c, (h - 2) // step + 1, (w - 2) // step + 1)


def _entrywise(make: Callable[[RandomNetwork, str, Image], str]) -> Callable[..., Grown | None]:
    return lambda n, x, *shape: (make(n, x, shape), shape)


def _of_constant(
    operator: str, first: bool, lengths: Callable[[Image], tuple[int, ...]]
) -> Callable[..., Any]:
    def made(n: RandomNetwork, x: str, shape: Image) -> str:
        constant = n.model.constant(n.random.uniform(0.5, 2.0, lengths(shape)))
        return n.model.node(operator, *((constant, x) if first else (x, constant)))

    return _entrywise(made)


KINDS: dict[str, Callable[..., Grown | None]] = {
    "conv": _conv,
    "same": _same,
    "slice": _slice,
    "pad": _pad,
    "split": _split,
    "concat": _concat,
    "pool": _pool,
    "depthwise": _entrywise(lambda n, x, shape: n.model.conv(x, shape[0], shape[0], 3, groups=shape[0])),
    "norm": _entrywise(lambda n, x, shape: n.model.norm(x, shape[0])),
    "function": _entrywise(lambda n, x, shape: n.model.node(str(n.random.choice(FUNCTIONS)), x)),
    "silu": _entrywise(lambda n, x, shape: n.model.node("Mul", x, n.model.node("Sigmoid", x))),
    "identity": _entrywise(lambda n, x, shape: n.model.node("Identity", x)),
    "square": _entrywise(lambda n, x, shape: n.model.node("Pow", x, n.model.constant(2.0))),
    "add": _entrywise(lambda n, x, shape: n.model.node("Add", x, n.like(*shape)[0])),
    "subtract": _entrywise(lambda n, x, shape: n.model.node("Sub", x, n.like(*shape)[0])),
    "multiply": _entrywise(lambda n, x, shape: n.model.node("Mul", x, n.like(*shape)[0])),
    "times": _of_constant("Mul", False, lambda shape: (shape[0], 1, 1)),
    "over": _of_constant("Div", False, lambda shape: ()),
    "plus": _of_constant("Add", True, lambda shape: (1, shape[0], 1, 1)),
    "minus": _of_constant("Sub", True, lambda shape: (shape[0], 1, 1)),
    "plus all": _of_constant("Add", False, lambda shape: shape),
}


def random_network(seed: int, functions: bool = True) -> bytes:
    """The content of a file of a random network."""
    network = RandomNetwork(seed)
    for _ in range(network.between(2, 8)):
        network.grow(functions)
    return network.file()
