"""Networks: random ones on `Clear` against NumPy, encrypted ones within the promises of their plans."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import correlate2d

import cipherblas as cb
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.forms.tensors import contiguous
from cipherblas.lang.analysis import evaluate_clear
from cipherblas.lang.graph import constants, deduplicated, from_json, to_json
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand
from cipherblas.lang.operations import Constant, Leaf
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.executor import Executor
from cipherblas.runtime.inputs import SymbolicInputs
from cipherblas.runtime.tensors import TensorRun
from cipherblas.runtime.values import Decisions
from tests.support.clear_runs import Rotations, evaluators_of, network_in_clear
from tests.support.runs import Run, matrix, run, toy, values_of

SLOTS = 256
RING = RingShape.from_bits(2 * SLOTS, [50.0] * 6 + [30.0] * 40, [50.0], 1, 30.0)
FACTORS = (-1.0, 2.0, -3.0, 0.5, 1 / 3, 1e-6, 1e5, 0.7)
BOUNDS = (1.0, 1.0, 0.01, 16.0, 1e6)


class Builder:
    """Draws a network of one or two inputs, layer after layer, from what it has so far."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.rng = np.random.default_rng(random.getrandbits(32))
        self.operands: dict[str, Operand] = {}
        self.nodes: list[Expression] = []

    def build(self, layers: int) -> Expression:
        shape = tuple(self.random.randint(1, 6) for _ in range(self.random.choice([1, 3, 3, 3])))
        self.nodes.append(self.leaf(shape if len(shape) == 3 else (self.random.randint(1, 40),)))
        for _ in range(layers):
            self.nodes.append(self.layer(self.random.choice(self.nodes[-2:])))
        return self.nodes[-1]

    def leaf(self, shape: tuple[int, ...], make: Any = cb.secret) -> Leaf:
        name = f"x{len(self.operands)}"
        self.operands[name] = make(*shape, bound=self.random.choice(BOUNDS))
        return Leaf(name, self.operands[name])

    def array(self, *shape: int) -> Any:
        """Of a constant, or the node of a public operand; one in eight constants is zero."""
        if self.random.random() < 0.2:
            return self.leaf(shape, cb.public)
        scale = self.random.choice((0.0, 1.0, 1.0, 1.0, 1.0, 0.01, 30.0, 1e4))
        return self.rng.uniform(-scale, scale, shape)

    def layer(self, x: Expression) -> Expression:
        kinds = ["add", "multiply", "scale", "residual", "polynomial"]
        if len(x.shape) == 1:
            kinds += ["matvec"] * 4
        else:
            kinds += ["conv"] * 5 + ["pool"] * 2 + ["flatten"]
        return getattr(self, self.random.choice(kinds))(x)

    def matvec(self, x: Expression) -> Expression:
        return cb.matvec(self.array(self.random.randint(1, 40), x.shape[0]), x)

    def conv(self, x: Expression) -> Expression:
        channels, height, width = x.shape
        padding = tuple(self.random.randint(0, min(2, size)) for size in (height, width))
        sizes = [size + 2 * pad for size, pad in zip((height, width), padding, strict=True)]
        kernel = [self.random.randint(1, min(4, size)) for size in sizes]
        groups = self.random.choice([g for g in range(1, channels + 1) if channels % g == 0])
        outputs = groups * self.random.randint(1, 2)
        stride = (self.random.choice((1, 1, 2, 3)), self.random.choice((1, 1, 2)))
        weights = self.array(outputs, channels // groups, *kernel)
        bias = self.rng.uniform(-1, 1, outputs) if self.random.random() < 0.3 else None
        return cb.conv2d(x, weights, bias, stride, padding, groups)

    def pool(self, x: Expression) -> Expression:
        kernel = tuple(self.random.randint(1, min(3, size)) for size in x.shape[1:])
        stride = self.random.choice([None, 1, 2, (2, 3)])
        padding = tuple(self.random.choice([0, 0, taps // 2]) for taps in kernel)
        return cb.avg_pool2d(x, kernel, stride, padding)

    def flatten(self, x: Expression) -> Expression:
        return cb.flatten(x)

    def add(self, x: Expression) -> Expression:
        return x + self.array(*x.shape)

    def multiply(self, x: Expression) -> Expression:
        return x * self.array(*x.shape)

    def scale(self, x: Expression) -> Expression:
        return self.random.choice(FACTORS) * x

    def residual(self, x: Expression) -> Expression:
        """With another node of this shape, or a new input."""
        others = [node for node in self.nodes if node.shape == x.shape]
        other = self.random.choice(others) if self.random.random() < 0.7 else self.leaf(x.shape)
        if self.random.random() < 0.3:
            return x * other
        return x + other if self.random.random() < 0.5 else other - x

    def polynomial(self, x: Expression) -> Expression:
        if x.bound > 1e4:
            return x
        values = [self.random.choice((0.0, 1.0, -0.5)) for _ in range(self.random.randint(0, 3))]
        return cb.polynomial(x, [*values, self.random.choice((1.0, 0.25))]) if values else cb.square(x)


@st.composite
def networks(draw: Any) -> tuple[Expression, dict[str, Operand]]:
    builder = Builder(Random(draw(st.integers(0, 2**64))))
    expression = deduplicated(builder.build(draw(st.integers(1, 5))))
    return expression, builder.operands


@given(networks(), st.sampled_from(["direct", "composed", "binary"]), st.integers(0, 2**32))
@settings(max_examples=120)
def test_any_network_is_numpys(network: Any, policy: str, seed: int) -> None:
    expression, operands = network
    rng = np.random.default_rng(seed)
    values = {name: matrix(operand, rng) for name, operand in operands.items()}
    found = network_in_clear(RING, expression, values, Rotations(), policy)
    expected = evaluate(expression, values)
    assert np.abs(expected).max() <= expression.bound * (1 + 1e-9)
    np.testing.assert_allclose(found.result, expected, rtol=0, atol=1e-9 * expression.bound)
    assert found.counts == found.trace.counts


@given(networks())
@settings(max_examples=40)
def test_a_network_survives_its_json(network: Any) -> None:
    expression, operands = network
    values = {name: constant.values for name, constant in constants(expression).items()}
    again = from_json(to_json(expression), operands, values)
    assert to_json(again) == to_json(expression)
    assert (again.shape, again.secret, again.bound) == (
        expression.shape,
        expression.secret,
        expression.bound,
    )


def evaluate(expression: Expression, values: dict[str, Any]) -> Any:
    """NumPy by plain recursion and the definitions of the layers: not the code under test."""
    kind = type(expression).__name__
    if isinstance(expression, Leaf):
        return values[expression.name].T if expression.transposed else values[expression.name]
    if isinstance(expression, Constant):
        return expression.values
    parts = [evaluate(child, values) for child in expression.children]
    if kind == "Scale":
        return parts[0] * expression.factor  # type: ignore[attr-defined]
    if kind == "Polynomial":
        degrees = range(len(expression.coefficients))  # type: ignore[attr-defined]
        angles = np.arccos(np.clip(parts[0] / expression.reach, -1, 1))  # type: ignore[attr-defined]
        cosines = np.cos([i * angles for i in degrees])
        return np.tensordot(expression.coefficients, cosines, axes=1)  # type: ignore[attr-defined]
    if kind == "Flatten":
        return parts[0].reshape(-1)
    if kind in ("Conv2d", "AvgPool2d"):
        options = expression.parameters  # type: ignore[attr-defined]
        filters = parts[1] if kind == "Conv2d" else None
        return windows(parts[0], filters, expression.shape, options)
    return {"MatMul": np.matmul, "Add": np.add, "Multiply": np.multiply}[kind](*parts)


def windows(x: Any, filters: Any, shape: tuple[int, ...], options: dict[str, Any]) -> Any:
    """A convolution, or means where there are no filters, window by window."""
    padded = np.pad(x, ((0, 0), *((pad, pad) for pad in options["padding"])))
    kernel = options["kernel"] if filters is None else filters.shape[2:]
    result = np.zeros(shape)
    for output, row, column in np.ndindex(*shape):
        top, left = row * options["stride"][0], column * options["stride"][1]
        window = padded[:, top : top + kernel[0], left : left + kernel[1]]
        if filters is None:
            result[output, row, column] = window[output].mean()
        else:
            depth = filters.shape[1]
            first = output * options["groups"] // shape[0] * depth
            result[output, row, column] = (filters[output] * window[first : first + depth]).sum()
    return result


# --- cases that went wrong once, or nearly -----------------------------------------------------------------


def encrypted(function: Any, **arguments: Any) -> Run:
    """One run on an INSECURE ring, within all promises of its plan."""
    program = toy(function, **arguments)
    return run(program, values_of(program)).check()


def in_slots(slots: int, expression: Expression, operands: dict[str, Operand]) -> None:
    """On `Clear` with so many slots."""
    ring = RingShape.from_bits(2 * slots, [50.0] * 6 + [30.0] * 20, [50.0], 1, 30.0)
    rng = np.random.default_rng(0)
    values = {name: matrix(operand, rng) for name, operand in operands.items()}
    found = network_in_clear(ring, expression, values, Rotations(), "direct")
    np.testing.assert_allclose(
        found.result, evaluate(expression, values), rtol=0, atol=1e-9 * expression.bound
    )


def image(*shape: int, **options: Any) -> tuple[Leaf, dict[str, Operand]]:
    operand = cb.secret(*shape, **options)
    return Leaf("x", operand), {"x": operand}


def array(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape)


def test_filters_of_two_layers():
    """Encoded weights of one constant in layers that differ in their padding, or in their stride."""
    filters, sums = array(2, 2, 3, 3), np.ones((2, 2 * 6 * 6))

    def function(x: Any) -> Any:
        wide, narrow, strided = (
            cb.flatten(cb.conv2d(x, filters, padding=padding, stride=stride))
            for padding, stride in ((1, 1), (0, 1), (1, 2))
        )
        return sums @ wide + sums[:, :32] @ narrow + sums[:, :18] @ strided

    encrypted(function, x=cb.secret(2, 6, 6))


def test_values_of_an_earlier_run_are_not_taken_for_those_of_this_run():
    """Keys in the caches of encoded plaintexts: an object that is gone may have the address of a new one."""
    x, _ = image(4)
    addend = Leaf("b", cb.public(4))
    keys = set()
    for _ in range(20):
        evaluators, inputs = evaluators_of(Symbolic(RING)), SymbolicInputs()
        run = Executor(evaluators, x + addend, Decisions("tensors"), inputs).form_run("tensors")
        assert isinstance(run, TensorRun)
        keys.add(run.plains(contiguous((4,), SLOTS), addend, 1.0)(inputs)[0].key)
        keys.add(run.weights_of(addend)(inputs).key)
    assert len(keys) == 40


def test_pooling_of_segments_without_windows():
    """The last segment of an image begins no window, in every channel."""
    x, operands = image(3, 13, 4)
    in_slots(32, cb.avg_pool2d(x, (2, 2), (6, 2)), operands)
    encrypted(lambda x: cb.avg_pool2d(x, (2, 2), (20, 2)), x=cb.secret(2, 41, 64))


def test_channels_that_cannot_be_shifted():
    """Computed channels that fill their ciphertext but for one slot are moved apart."""
    x, operands = image(6, 5, 1)
    in_slots(16, cb.conv2d(cb.square(x), array(6, 2, 2, 1), stride=2, groups=3), operands)


@pytest.mark.parametrize("degree", [4096, 8192])
@pytest.mark.parametrize("sign", [1.0, -2.0])
def test_a_value_and_its_square(degree, sign):
    """Scales that are matched by a factor or by a level, which depends on the ring."""
    encrypted(lambda x: sign * cb.square(x) - x, x=cb.secret(6, bound=3.0), ring_degree=degree)


def test_powers_whose_scales_are_nearly_equal():
    """Which of two powers has the larger scale is chance: the primes decide it."""
    encrypted(lambda x: cb.polynomial(x + array(50), [0.0, 0.0, -0.5, 0.25]), x=cb.secret(50, bound=16.0))


@pytest.mark.parametrize("bound", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("constant", [1e-4, 1e5])
def test_sums_of_different_ranges(bound, constant):
    encrypted(
        lambda x: cb.square(x) + constant * np.arange(1.0, 9.0), x=cb.secret(8, bound=bound), form="tensors"
    )
    encrypted(lambda x: cb.square(x + constant * np.ones(8)), x=cb.secret(8, bound=bound), precision=1e-2)


def test_zeros():
    encrypted(lambda x: x * np.zeros(7) + np.arange(7.0), x=cb.secret(7))
    encrypted(lambda x: cb.conv2d(x, np.zeros((2, 1, 3, 3)), np.ones(2), padding=1), x=cb.secret(1, 3, 3))


def test_a_deep_network():
    factor = np.linspace(-1, 1, 8)

    def function(x: Any) -> Any:
        for _ in range(16):
            x = x * factor
        return x

    encrypted(function, x=cb.secret(8), precision=1e-3)


@given(st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_convolutions_are_scipys(random: Random) -> None:
    """The clear convolution, which every encrypted one is compared with, against scipy's correlation."""
    groups, depth, each = random.randint(1, 2), random.randint(1, 3), random.randint(1, 3)
    height, width, down, across = (random.randint(1, 9) for _ in range(4))
    pads = (random.randint(0, height), random.randint(0, width))
    if height + 2 * pads[0] < down or width + 2 * pads[1] < across:
        return
    stride = (random.randint(1, 3), random.randint(1, 3))
    rng = np.random.default_rng(random.getrandbits(32))
    image = rng.normal(size=(groups * depth, height, width))
    filters = rng.normal(size=(groups * each, depth, down, across))
    node = cb.conv2d(Leaf("x", cb.secret(*image.shape)), filters, stride=stride, padding=pads, groups=groups)
    padded = np.pad(image, ((0, 0), (pads[0],) * 2, (pads[1],) * 2))
    for output, taps in enumerate(filters):
        first = output // each * depth
        maps = [correlate2d(padded[first + channel], taps[channel], "valid") for channel in range(depth)]
        expected = sum(maps)[:: stride[0], :: stride[1]]
        np.testing.assert_allclose(evaluate_clear(node, {"x": image})[output], expected, atol=1e-12)
