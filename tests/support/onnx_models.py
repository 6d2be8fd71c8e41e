"""Small networks as files of ONNX, with random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Model:
    """A graph that grows node by node; every method returns the name of what the node makes."""

    def __init__(self, shape: Sequence[int], seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.shape, self.nodes, self.constants, self.count = ("n", *shape), [], [], 0  # type: ignore[var-annotated]

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """An array of the file."""
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A node; of several results the first one's name."""
        self.count += 1
        names = [f"{operator.lower()}{self.count}" + (f"_{one}" if one else "") for one in range(outputs)]
        self.nodes.append(
            helper.make_node(operator, list(inputs), names, name=f"node{self.count}", **attributes)
        )
        return names[0]

    def normal(self, *shape: int) -> np.ndarray:
        """Weights."""
        return self.random.normal(0, 1 / np.sqrt(np.prod(shape[1:]) or 1), shape)

    def conv(
        self, x: str, inputs: int, outputs: int, kernel: int = 3, groups: int = 1, **attributes: Any
    ) -> str:
        """A convolution with a bias."""
        weights = self.constant(self.normal(outputs, inputs // groups, kernel, kernel))
        attributes = {"pads": [kernel // 2] * 4, **attributes} if "auto_pad" not in attributes else attributes
        return self.node("Conv", x, weights, self.constant(self.normal(outputs)), group=groups, **attributes)

    def norm(self, x: str, channels: int) -> str:
        """A batch norm."""
        given = [self.constant(self.random.uniform(0.5, 1.5, channels)) for _ in range(4)]
        return self.node("BatchNormalization", x, *given, epsilon=1e-3)

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        """A matrix product with a bias."""
        weights = self.constant(self.normal(outputs, inputs))
        return self.node("Gemm", x, weights, self.constant(self.normal(outputs)), transB=1)

    def file(self, result: str, opset: int = 17, **options: Any) -> bytes:
        """The content of the file."""
        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        made = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "network", [given], [made], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        found: bytes = model.SerializeToString()
        return found


def residual() -> bytes:
    """Two stages with a shortcut of slices and zeros, as ResNets for CIFAR-10 have."""
    m = Model((3, 8, 8), 1)
    x = m.node("Relu", m.norm(m.conv("x", 3, 4), 4))
    y = m.node("Relu", m.norm(m.conv(x, 4, 8, strides=[2, 2]), 8))
    y = m.norm(m.conv(y, 8, 8), 8)
    ends = [m.constant(one, np.int64) for one in ([0, 0], [100, 100], [2, 3], [2, 2])]
    short = m.node("Slice", x, *ends)
    short = m.node("Pad", short, m.constant([0, 2, 0, 0, 0, 2, 0, 0], np.int64), m.constant(0.0))
    x = m.node("Relu", m.node("Add", y, short))
    return m.file(m.dense(m.node("Flatten", m.node("GlobalAveragePool", x)), 8, 5))


def fire() -> bytes:
    """Two branches that are joined, as in SqueezeNet; a softmax at the end."""
    m = Model((3, 8, 8), 2)
    x = m.node("Relu", m.conv("x", 3, 4, 1))
    branches = [m.node("Relu", m.conv(x, 4, count, kernel)) for count, kernel in ((3, 1), (5, 3))]
    x = m.node("AveragePool", m.node("Concat", *branches, axis=1), kernel_shape=[2, 2], strides=[2, 2])
    return m.file(m.node("Softmax", m.dense(m.node("Flatten", x), 8 * 16, 4)))


def depthwise() -> bytes:
    """Groups, padding on one side alone, x·sigmoid(x), a clipped function, a batch norm without a convolution."""
    m = Model((4, 9, 9), 3)
    x = m.norm("x", 4)
    x = m.conv(x, 4, 4, groups=4, auto_pad="SAME_UPPER", strides=[2, 2])
    x = m.node("Mul", x, m.node("Sigmoid", x))
    x = m.conv(x, 4, 6, 1)
    x = m.node("Clip", x, m.constant(0.0), m.constant(6.0))
    x = m.conv(x, 6, 6, 2, groups=2, pads=[1, 0, 0, 1], dilations=[2, 2])
    x = m.node("ReduceMean", x, axes=[2, 3], keepdims=0)
    return m.file(m.node("Mul", m.dense(x, 6, 3), m.constant(2.0)))


def shapes() -> bytes:
    """A reshape by the arithmetic of shapes, splits, and sums with constants."""
    m = Model((4, 4, 4), 4)
    x = m.node("Split", "x", m.constant([1, 3], np.int64), outputs=2, axis=1)
    x = m.node("Concat", f"{x}_1", x, axis=1)
    x = m.node("Sub", m.constant(m.normal(4, 1, 1)), m.node("Tanh", x))
    x = m.node("Add", x, m.constant(m.normal(4, 4, 4)))
    size = m.node("Gather", m.node("Shape", x), m.constant(0, np.int64))
    size = m.node("Unsqueeze", size, m.constant([0], np.int64))
    wanted = m.node("Concat", size, m.constant([-1], np.int64), axis=0)
    x = m.node("Reshape", x, wanted)
    x = m.node("MatMul", x, m.constant(m.normal(64, 6)))
    return m.file(m.node("Neg", m.node("Pow", x, m.constant(2.0))))


def line() -> bytes:
    """Convolutions of one dimension: strides, dilations, groups, padding on one side; joins, slices, sums, means."""
    m = Model((3, 20), 5)

    def conv(x: str, inputs: int, outputs: int, kernel: int, groups: int = 1, **attributes: Any) -> str:
        weights = m.constant(m.normal(outputs, inputs // groups, kernel))
        return m.node("Conv", x, weights, m.constant(m.normal(outputs)), group=groups, **attributes)

    x = m.node("Relu", m.norm(conv("x", 3, 4, 5, pads=[2, 1], strides=[2]), 4))
    y = conv(x, 4, 4, 3, groups=2, dilations=[2], pads=[2, 2])
    y = m.node("Add", m.node("Sub", y, m.constant(m.normal(4, 1))), m.constant(m.normal(4, 10)))
    ends = [m.constant(one, np.int64) for one in ([0, 0], [2, 10], [1, 2], [1, 2])]
    z = m.node("Pad", m.node("Slice", y, *ends), m.constant([0, 2, 1, 0, 0, 1], np.int64))
    y = m.node("Concat", m.node("AveragePool", y, kernel_shape=[4], strides=[1]), z, axis=1)
    y = conv(y, 8, 4, 2, auto_pad="SAME_LOWER")
    y = m.node("Squeeze", m.node("GlobalAveragePool", y), m.constant([2], np.int64))
    shape = m.node("Shape", x)
    x = m.node("Reshape", m.node("Reshape", x, shape), m.constant([0, -1], np.int64))
    return m.file(m.node("Add", m.dense(x, 40, 3), m.dense(y, 4, 3)))


def deep() -> bytes:
    """Convolutions and functions one after another, as many as need refreshes; an image of the CIFAR networks."""
    m = Model((3, 32, 32), 6)
    x, channels = "x", 3
    for _ in range(3):
        x, channels = m.node("Relu", m.conv(x, channels, 4, strides=[2, 2])), 4
    x = m.node("Mul", x, x)
    return m.file(m.dense(m.node("Flatten", m.node("GlobalAveragePool", x)), 4, 10))


MODELS = {"residual": residual, "fire": fire, "depthwise": depthwise, "shapes": shapes, "line": line}


def loaded(content: bytes) -> Any:
    """The model of a file."""
    return onnx.load_model_from_string(content)
