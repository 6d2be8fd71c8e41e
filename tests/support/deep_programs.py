"""Random deep programs of the kinds that people write, with a distribution of their inputs: networks, iterations,
functions of functions. For promises by samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cipherblas as cb

Inputs = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class DeepProgram:
    """A program, the same in NumPy, its operands, and inputs of one distribution."""

    name: str
    function: Callable[..., Any]
    clear: Callable[..., Any]
    operands: Mapping[str, cb.Operand]
    inputs: Callable[[np.random.Generator], Inputs]

    def samples(self, random: np.random.Generator, count: int) -> Inputs:
        """So many inputs, stacked."""
        drawn = [self.inputs(random) for _ in range(count)]
        return {name: np.stack([one[name] for one in drawn]) for name in self.operands}


def _relu(x: Any) -> Any:
    return np.maximum(x, 0.0)


def _square(x: Any) -> Any:
    return x * x


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = (
    (lambda x: cb.chebyshev(_relu, x, degree=15), _relu),
    (lambda x: cb.chebyshev(_relu, x, degree=31), _relu),
    (lambda x: cb.relu(x, precision=1e-2), _relu),
    (lambda x: cb.tanh(x, precision=1e-3), np.tanh),
    (lambda x: cb.sigmoid(x, precision=1e-3), _sigmoid),
    (_square, _square),
)


def network(random: np.random.Generator) -> DeepProgram:
    """Some full layers on a vector, or on a batch of columns, with activations between them."""
    lengths = [int(random.integers(4, 33)) for _ in range(int(random.integers(3, 5)))]
    weights = [random.normal(size=(m, k)) / np.sqrt(k) for k, m in itertools.pairwise(lengths)]
    biases = [random.normal(size=len(one)) * 0.2 for one in weights]
    chosen = [ACTIVATIONS[int(random.integers(len(ACTIVATIONS)))] for _ in weights[1:]]
    batch = int(random.integers(2, 9)) if random.random() < 0.3 else 0
    shape = (lengths[0], batch) if batch else (lengths[0],)

    def build(part: int) -> Callable[[Any], Any]:
        def function(x: Any) -> Any:
            for place, (layer, bias) in enumerate(zip(weights, biases, strict=True)):
                x = layer @ x + (np.repeat(bias[:, None], batch, axis=1) if batch else bias)
                x = chosen[place][part](x) if place < len(chosen) else x
            return x

        return function

    return DeepProgram(
        f"network {lengths}",
        build(0),
        build(1),
        {"x": cb.secret(*shape, bound=4.0)},
        lambda draws: {"x": draws.normal(size=shape).clip(-4, 4)},
    )


def newton(random: np.random.Generator) -> DeepProgram:
    """Newton's steps to the inverses of numbers, or of a matrix near the identity."""
    steps, size = int(random.integers(2, 5)), int(random.integers(2, 7))
    matrix = random.random() < 0.5

    def numbers(a: Any) -> Any:
        y = 1.0 - (a - 1.0)
        for _ in range(steps):
            y = y * (2.0 - a * y)
        return y

    def matrices(a: Any) -> Any:
        y = 2 * np.eye(size) - a
        for _ in range(steps):
            y = y @ (2 * np.eye(size) - a @ y)
        return y

    def inputs(draws: np.random.Generator) -> Inputs:
        if matrix:
            return {"a": np.eye(size) + draws.uniform(-0.3, 0.3, (size, size)) / np.sqrt(size)}
        return {"a": draws.uniform(0.5, 1.5, size)}

    shape = (size, size) if matrix else (size,)
    function = matrices if matrix else numbers
    return DeepProgram(f"newton {steps}", function, function, {"a": cb.secret(*shape, bound=1.6)}, inputs)


def iteration(random: np.random.Generator) -> DeepProgram:
    """A map that is iterated: logistic, an epidemic, or products by a stochastic matrix."""
    steps, size = int(random.integers(2, 7)), int(random.integers(2, 9))
    stochastic = random.random((size, size))
    stochastic /= stochastic.sum(axis=1, keepdims=True)
    kind = int(random.integers(3))

    def logistic(x: Any, y: Any) -> Any:
        for _ in range(steps):
            x = 3.0 * x * (1.0 - x) + 0.01 * y
        return x

    def epidemic(x: Any, y: Any) -> Any:
        for _ in range(steps):
            infected = 0.5 * x * y
            x, y = x - infected, y + infected - 0.1 * y
        return {"healthy": x, "ill": y}

    def mixing(x: Any, y: Any) -> Any:
        for _ in range(steps):
            x = stochastic @ x + 0.1 * (x * y)
        return x

    def inputs(draws: np.random.Generator) -> Inputs:
        return {"x": draws.uniform(0.1, 0.9, (size, size)), "y": draws.uniform(0, 0.3, (size, size))}

    function = (logistic, epidemic, mixing)[kind]
    operands = {"x": cb.secret(size, size), "y": cb.secret(size, size)}
    return DeepProgram(f"{function.__name__} {steps}", function, function, operands, inputs)


def functions(random: np.random.Generator) -> DeepProgram:
    """Functions of sums and products of functions."""
    size = int(random.integers(1, 17))
    a, b = random.uniform(0.5, 2.0, 2)
    kind = int(random.integers(3))

    def build(exp: Any, tanh: Any, root: Any) -> Callable[..., Any]:
        def function(x: Any, y: Any) -> Any:
            if kind == 0:
                return tanh(a * x * y + exp(-1.0 * (x * x)))
            if kind == 1:
                u = exp(0.5 * x)
                return root(u * u + b * y * y) * tanh(y)
            return tanh(b * tanh(a * tanh(x + y) - y) + x)

        return function

    def inputs(draws: np.random.Generator) -> Inputs:
        return {"x": draws.normal(size=size).clip(-3, 3) * 0.5, "y": draws.uniform(-1, 1, size)}

    return DeepProgram(
        f"functions {kind}",
        build(
            lambda t: cb.exp(t, precision=1e-4),
            lambda t: cb.tanh(t, precision=1e-3),
            lambda t: cb.sqrt(t, lower=0.15, precision=1e-3),
        ),
        build(np.exp, np.tanh, np.sqrt),
        {"x": cb.secret(size, bound=1.5), "y": cb.secret(size)},
        inputs,
    )


KINDS = (network, network, newton, iteration, functions)


def deep_program(seed: int) -> DeepProgram:
    """The program of a number."""
    random = np.random.default_rng(seed)
    return KINDS[seed % len(KINDS)](random)
