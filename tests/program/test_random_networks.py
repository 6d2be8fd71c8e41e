"""Random networks with activations behind refreshes, encrypted: strides, groups, paddings, residual sums, results,
promised by bounds and by samples, against the clear evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.lang.facts import facts_of
from cipherblas.lang.refreshing import SINE
from tests.support.runs import toy

Array = NDArray[np.float64]
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda t: np.maximum(t, 0.0),
    "tanh": np.tanh,
    "silu": lambda t: t / (1 + np.exp(-t)),
    "cos": np.cos,
    "abs": np.abs,
}


class Layer(NamedTuple):
    """A convolution and the function behind it."""

    weights: Array
    bias: Array | None
    stride: int
    padding: int
    groups: int
    function: str
    degree: int
    refreshed: bool
    residual: bool


def layers_of(random: np.random.Generator, channels: int, height: int) -> list[Layer]:
    found = []
    for _ in range(random.integers(1, 4)):
        kernel, stride = int(random.choice([1, 3, 3, 5])), int(random.choice([1, 1, 2]))
        padding = int(random.choice([kernel // 2, kernel // 2, 0]))
        if height + 2 * padding < kernel:
            kernel, padding = 1, 0
        groups = int(random.choice([1, 1, channels]))
        outputs = channels * int(random.choice([1, 2])) if groups > 1 else int(random.integers(1, 9))
        weights = random.normal(size=(outputs, channels // groups, kernel, kernel))
        weights *= random.uniform(0.5, 2) / np.abs(weights).sum((1, 2, 3)).max()
        bias = random.uniform(-0.3, 0.3, outputs) if random.random() < 0.5 else None
        function, degree = str(random.choice(list(FUNCTIONS))), int(random.choice([14, 30, 62]))
        refreshed, residual = random.random() < 0.85, random.random() < 0.4
        found.append(Layer(weights, bias, stride, padding, groups, function, degree, refreshed, residual))
        channels, height = outputs, (height + 2 * padding - kernel) // stride + 1
    return found


def network(layers: list[Layer], two: bool) -> Any:
    def computed(x: cb.Expression) -> Any:
        y = x
        for layer in layers:
            z = cb.conv2d(
                y, layer.weights, layer.bias, stride=layer.stride, padding=layer.padding, groups=layer.groups
            )
            z = cb.chebyshev(
                FUNCTIONS[layer.function], cb.refresh(z) if layer.refreshed else z, degree=layer.degree
            )
            y = z + y if layer.residual and z.shape == y.shape else z
        return {"all": y, "means": cb.avg_pool2d(y, y.shape[1:])} if two else y

    return computed


@pytest.mark.encrypted
def test_random_networks_keep_their_promises() -> None:
    wrong, computed, sines = [], 0, 0
    for seed in range(8):
        random = np.random.default_rng(seed)
        channels, height, two = (
            int(random.integers(1, 5)),
            int(random.choice([6, 8, 12])),
            random.random() < 0.25,
        )
        function = network(layers_of(random, channels, height), two)
        shape, options = (channels, height, height), dict[str, Any]()
        by_samples = random.random() < 0.5
        if by_samples:
            options["samples"] = {"x": random.uniform(-1, 1, (10, *shape))}
        try:
            program = toy(function, x=cb.secret(*shape), error=0.4, form="tensors", **options)
        except cb.PrecisionError:  # degrees that are too coarse for what follows
            continue
        computed, sines = computed + 1, sines + (SINE in facts_of(program.expression).operations)
        client = program.client()
        server = program.server(client.evaluation_keys())
        inputs = [random.uniform(-1, 1, shape) * (0.9 if by_samples else 1.0), np.zeros(shape)]
        if not by_samples:
            inputs.append(random.choice([-1.0, 1.0], shape))
        for x in inputs:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found, wanted = (
                    client.decrypt(server.run(client.encrypt({"x": x}))),
                    program.evaluate({"x": x}),
                )
            pairs = zip(found.values(), wanted.values(), strict=True) if two else [(found, wanted)]
            for (got, known), result in zip(pairs, program.plan.results, strict=True):
                error = float(np.abs(got - known).max())
                if not error <= result.error:
                    wrong.append((seed, result.label, error, result.error))
    assert not wrong
    assert computed >= 5 and sines >= 3
