"""Maxima over windows: windows at the border, in the clear, as expressions, and encrypted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang.analysis import evaluate_results
from cipherblas.lang.operations import Leaf
from cipherblas.networks import TrainedNetwork
from cipherblas.networks.maxima import MaxPooling
from tests.networks.test_onnx import by_runtime
from tests.support.onnx_models import Model
from tests.support.runs import Parties

TOY: dict[str, Any] = {"security": 0, "insecure": True, "ring_degree": 4096}
SIZE = (2, 7, 8)
WINDOWS: dict[str, dict[str, Any]] = {
    "2x2 by 2": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "2x2 by 1, one side": {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1]},
    "same lower": {"kernel_shape": [2, 3], "auto_pad": "SAME_LOWER"},
    "3x3 by 2": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    "3x3 by 2, rounded up": {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    "3x2 by 3": {"kernel_shape": [3, 2], "strides": [3, 3], "pads": [1, 0, 0, 1]},
    "5x4": {"kernel_shape": [5, 4], "pads": [2, 3, 2, 0]},
    "1x1 by 2": {"kernel_shape": [1, 1], "strides": [2, 2]},
}


def pooled(**attributes: Any) -> bytes:
    m = Model(SIZE)
    return m.file(m.node("MaxPool", "x", **attributes))


def exact(content: bytes) -> TrainedNetwork:
    return cb.networks.from_onnx(content, maxpool="exact")


@pytest.mark.parametrize("name", WINDOWS)
def test_against_onnxruntime(name: str) -> None:
    """Of negative entries, whose maximum no zero may be: in the clear, and as an expression of ReLUs."""
    content = pooled(**WINDOWS[name])
    values = np.random.default_rng(0).uniform(-2, -1, (3, *SIZE)).astype(np.float32).astype(np.float64)
    wanted, network = by_runtime(content, values), exact(content)
    np.testing.assert_array_equal(network(values), wanted)
    written = network.encrypted(Leaf("x", cb.secret(*SIZE)), degree=3)
    for value, one in zip(values, wanted, strict=True):
        (found,) = evaluate_results(written, {"x": value}, as_written=True)
        np.testing.assert_allclose(found, one, rtol=1e-12)


@pytest.mark.parametrize("padded", [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1)])
def test_all_windows_of_an_axis(padded: tuple[int, int]) -> None:
    """Of every length up to 9, whose windows begin in the image."""
    random, count = np.random.default_rng(2), 0
    for size in range(1, 10):
        for kernel in range(max(padded) + 1, size + sum(padded) + 1):
            for stride in (1, 2, 3):
                layer = MaxPooling((1, kernel), (1, stride), ((0, 0), padded), degree=3)
                shape = layer.shape((1, 1, size))
                if (shape[2] - 1) * stride >= size:
                    continue
                values = random.uniform(-2, -1, (1, 1, 1, size))
                found = values
                for axis, step in layer.steps((1, 1, size)):
                    one = np.moveaxis(found, axis + 2, 0)
                    assert len(one) == step.read
                    both = [
                        np.maximum(one[t * step.stride], one[t * step.stride + step.offset])
                        if t in step.pairs
                        else one[t * step.stride]
                        for t in range(step.made)
                    ]
                    found = np.moveaxis(np.stack(both), 0, axis + 2)
                np.testing.assert_array_equal(found, layer.clear(values), err_msg=f"{size} {kernel} {stride}")
                count += 1
    assert count > 50


@pytest.mark.parametrize(
    ("kernel", "functions"), [((2, 2), 2), ((3, 3), 4), ((1, 2), 1), ((4, 4), 4), ((7, 8), 6), ((1, 1), 0)]
)
def test_functions_that_follow_one_another(kernel: tuple[int, int], functions: int) -> None:
    assert MaxPooling(kernel, (1, 1)).functions(SIZE) == functions


def test_the_whole_image() -> None:
    m = Model(SIZE)
    network = exact(m.file(m.node("GlobalMaxPool", "x")))
    values = np.random.default_rng(0).uniform(-2, -1, SIZE)
    np.testing.assert_array_equal(network(values)[:, 0, 0], values.max(axis=(1, 2)))


def convolutions(**window: Any) -> bytes:
    """A convolution, maxima, a dense layer."""
    m = Model((1, 6, 6), 4)
    x = m.node("MaxPool", m.conv("x", 1, 2), **window)
    x = m.node("Flatten", x)
    return m.file(m.dense(x, 2 * 9, 3))


@pytest.mark.encrypted
@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
@pytest.mark.parametrize("name", ["2x2 by 2", "3x3 by 2"])
def test_encrypted(name: str) -> None:
    network = exact(convolutions(**WINDOWS[name]))
    samples = np.random.default_rng(1).uniform(-1, 1, (20, 1, 6, 6))
    program = network.compile(samples, activation={"MaxPool": 15}, error=0.6, **TOY)
    parties = Parties(program)
    for image in (samples[0], np.zeros((1, 6, 6))):
        found = parties.client.decrypt(parties.server.run(parties.inputs({"x": image})))
        assert np.abs(found - network(image)).max() <= program.plan.error
        assert np.abs(found - program.evaluate({"x": image})).max() <= program.plan.promise.figures[0].noise
    assert network.check(program, samples).outside == 0
    assert list(network.ranges(samples)) == ["node2"]


def test_it_is_refused_unless_it_is_asked_for() -> None:
    content = convolutions(**WINDOWS["3x3 by 2"])
    with pytest.raises(cb.UnsupportedNodeError) as caught:
        cb.networks.from_onnx(content)
    message = str(caught.value)
    assert (
        "node2 (MaxPool): maxima of encrypted values, here 3x3, take 4 functions one after the other"
        in message
    )
    assert 'Write: maxpool="exact" (import --maxpool exact), or AveragePool' in message
    assert "node2  maxima of 3x3, stride 2x2" in str(exact(content))
    with pytest.raises(cb.ParameterError, match="no such way to compute maxima"):
        cb.networks.from_onnx(content, maxpool="fast")


@pytest.mark.parametrize(
    ("window", "why"),
    [
        ({"kernel_shape": [2, 2], "dilations": [2, 2]}, "without dilations"),
        ({"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}, "begin beyond the image"),
        ({"kernel_shape": [9, 9]}, "nothing is left of the image"),
        ({"kernel_shape": [2, 2], "outputs": 2}, "without its second result"),
    ],
)
def test_windows_that_are_refused(window: dict[str, Any], why: str) -> None:
    with pytest.raises(cb.UnsupportedNodeError, match=why):
        exact(pooled(**window))
