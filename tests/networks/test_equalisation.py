"""Channels are made as large as each other where functions read them; scores stay what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.networks.choices import Choices
from cipherblas.networks.layers import Activation, Flattened, NetworkStep
from tests.support.onnx_models import Model, deep, depthwise, fire, line, residual, shapes

TOY: dict[str, Any] = {"security": 0, "insecure": True, "ring_degree": 4096}
pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")


def uneven(function: str = "Relu", seed: int = 3) -> cb.networks.TrainedNetwork:
    """Channels of very different sizes, one of which is always zero, a mean, a vector and a dense layer."""
    m = Model((3, 8, 8), seed)
    weights = m.normal(8, 3, 3, 3) * np.geomspace(1, 1e-2, 8)[:, None, None, None]
    weights[5] = 0.0
    x = m.node("Conv", "x", m.constant(weights), m.constant(np.zeros(8)), pads=[1] * 4)
    x = m.node("AveragePool", m.node(function, x), kernel_shape=[2, 2], strides=[2, 2])
    x = m.node("Flatten", m.node(function, m.conv(x, 8, 8)))
    return cb.networks.from_onnx(m.file(m.dense(m.node("Relu", m.dense(x, 128, 6)), 6, 3)))


def read_by_functions(network: cb.networks.TrainedNetwork, values: np.ndarray) -> dict[str, np.ndarray]:
    """By names of nodes with functions, the largest number of each channel that they read."""
    found: dict[str, np.ndarray] = {}

    def computed(step: NetworkStep, inputs: Any) -> Any:
        if isinstance(step.layer, Activation):
            found[step.name] = np.abs(inputs[0]).max(axis=(0, *range(2, inputs[0].ndim)))
        return step.layer.clear(*inputs)

    network._computed(values, computed)
    return found


def equalised(network: cb.networks.TrainedNetwork, values: np.ndarray, **ranges: float) -> Any:
    return network._equalised(values, Choices(network.steps, 7, ranges=ranges))


@pytest.mark.parametrize("file", [residual, fire, depthwise, shapes, line, deep])
def test_scores_stay_what_they_are(file: Callable[[], bytes]) -> None:
    network = cb.networks.from_onnx(file())
    values = np.random.default_rng(0).uniform(-1, 1, (20, *network.shape))
    other = equalised(network, values)
    assert [step.name for step in other.steps] == [step.name for step in network.steps]
    np.testing.assert_allclose(other(values), network(values), rtol=1e-9, atol=1e-12)
    before, after = read_by_functions(network, values), read_by_functions(other, values)
    for name, own in after.items():  # no range grows
        assert own.max() <= before[name].max() * (1 + 1e-12)
        assert np.all(own >= before[name] * (1 - 1e-12))


def test_channels_that_functions_read_come_together() -> None:
    network, values = uneven(), np.random.default_rng(0).uniform(-1, 1, (20, 3, 8, 8))
    other = equalised(network, values)
    np.testing.assert_allclose(other(values), network(values), rtol=1e-9, atol=1e-12)
    (name, before), *_ = read_by_functions(network, values).items()
    after = read_by_functions(other, values)[name]
    living = before > 0
    assert not before[5] and not after[5] and living.sum() == 7
    assert before[living].min() < 0.02 * before.max() and after[living].min() > 0.03 * after.max()


def test_functions_that_do_not_commute_and_ranges_that_are_promised_leave_channels_as_they_are() -> None:
    values = np.random.default_rng(0).uniform(-1, 1, (20, 3, 8, 8))
    for network, promised in ((uneven("Sigmoid"), False), (uneven(), True)):
        functions = [step for step in network.steps if isinstance(step.layer, Activation)]
        named = {step.name: 3.0 for step in functions[:2]} if promised else {}
        other = equalised(network, values, **named)
        before, after = read_by_functions(network, values), read_by_functions(other, values)
        for step in functions[:2]:
            np.testing.assert_array_equal(after[step.name], before[step.name])
        assert any(isinstance(step.layer, Flattened) for step in other.steps)


def test_polynomials_of_one_degree_err_less() -> None:
    """By the largest error of a score on other inputs than those of the plan."""
    network, random = uneven(), np.random.default_rng(1)
    values = random.uniform(-1, 1, (60, 3, 8, 8))
    errors = []
    for one in (network, equalised(network, values[:40])):
        program = cb.compile(
            lambda x, one=one: one.encrypted(x, degree=15),
            {"x": one.operand(1.5)},
            samples={"x": values[:40]},
            error=1.0,
            **TOY,
        )
        errors.append(network.check(program, values[40:]).approximated.rms)
    assert errors[1] < 0.7 * errors[0]
