"""Random programs, blocks, algorithms and key policies on the `Clear` evaluator, against NumPy.

At the end, random programs of all operations and functions: compiled, some of them run encrypted. RANDOM_PROGRAMS=3000
tries more of them.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.lang.facts import products
from cipherblas.lang.graph import Axes, constants, deduplicated, from_json, to_json
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import Operand, public, secret
from cipherblas.lang.operations import Constant, Leaf
from cipherblas.lang.polynomials import Polynomial
from cipherblas.methods.products import ALGORITHMS, find
from cipherblas.rlwe.rings import RingShape
from cipherblas.runtime.values import MethodChoice
from tests.support import random_programs
from tests.support.clear_runs import in_clear
from tests.support.runs import matrix

SLOTS = 512
RING = RingShape.from_bits(2 * SLOTS, [50.0] * 6 + [30.0] * 30, [50.0], 1, 30.0)
MAX_LENGTH = 7
FACTORS = (-1.0, 2.0, -3.0, 0.5, 1 / 3, 1e-6, 1e5, 0.7)
BOUNDS = (1.0, 1.0, 0.01, 16.0, 1e6)


class Builder:
    """Draws an expression of a given shape; nodes and operands of fitting shape are used again."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.operands: dict[str, Operand] = {}
        self.nodes: list[Expression] = []
        self.left = 12  # operations still to be drawn

    def build(self, shape: tuple[int, int], depth: int) -> Expression:
        """Depth counts multiplications of secrets along a path."""
        shared = [node for node in self.nodes if node.shape == shape]
        if shared and self.random.random() < 0.2:
            return self.random.choice(shared)
        self.left -= 1
        kinds = ["leaf"] * 2
        if self.left > 0:
            kinds += ["add", "sub", "scale", "transpose"]
        if self.left > 0 and depth:
            kinds = ["matmul"] * 3 + ["multiply", "add", "sub", "scale", "transpose", "polynomial"]
        node = self.make(self.random.choice(kinds), shape, depth)
        self.nodes.append(node)
        return node

    def make(self, kind: str, shape: tuple[int, int], depth: int) -> Expression:
        if kind == "add":
            return self.build(shape, depth) + self.build(shape, self.random.randint(0, depth))
        if kind == "sub":
            return self.build(shape, self.random.randint(0, depth)) - self.build(shape, depth)
        if kind == "scale":
            return self.random.choice(FACTORS) * self.build(shape, depth)
        if kind == "transpose":
            return self.build(shape[::-1], depth).T
        if kind == "multiply":
            return self.build(shape, depth - 1) * self.build(shape, self.random.randint(0, depth - 1))
        if kind == "matmul":
            inner = self.random.randint(1, MAX_LENGTH)
            left = self.build((shape[0], inner), self.random.randint(0, depth - 1))
            return left @ self.build((inner, shape[1]), self.random.randint(0, depth - 1))
        if kind == "polynomial":
            x = self.build(shape, depth - 1)
            numbers = [self.random.choice((0.0, 1.0, -0.3)) for _ in range(self.random.randint(2, 12))]
            return Polynomial(x, [*numbers, 0.5], x.bound * self.random.choice((1.0, 1.0, 7.0)))
        return self.leaf(shape)

    def leaf(self, shape: tuple[int, int]) -> Expression:
        for name, operand in self.operands.items():
            if operand.shape == shape and self.random.random() < 0.5:
                return Leaf(name, operand)
            if operand.shape[::-1] == shape and self.random.random() < 0.5:
                return Leaf(name, operand, transposed=True)
        if self.operands and self.random.random() < 0.15:
            signs = [self.random.choice([-1.0, 0.01, 1.0]) for _ in range(shape[0] * shape[1])]
            return Constant(np.array(signs).reshape(shape) * self.random.choice(BOUNDS))
        make = public if self.operands and self.random.random() < 0.25 else secret
        name = f"x{len(self.operands)}"
        self.operands[name] = make(*shape, bound=self.random.choice(BOUNDS))
        return Leaf(name, self.operands[name])


@st.composite
def programs(draw: Any) -> tuple[Expression, dict[str, Operand]]:
    random = Random(draw(st.integers(0, 2**64)))
    builder = Builder(random)
    shape = (random.randint(1, MAX_LENGTH), random.randint(1, MAX_LENGTH))
    expression = builder.build(shape, random.randint(1, 3))
    if not expression.secret:
        builder.operands["extra"] = extra = secret(*shape)
        expression = expression + Leaf("extra", extra)
    return deduplicated(expression), builder.operands


@st.composite
def runs(draw: Any) -> tuple[Expression, dict[str, Operand], list[MethodChoice], dict[str, int], str]:
    """A program with blocks, and an algorithm with options for each of its products."""
    expression, operands = draw(programs())
    random = Random(draw(st.integers(0, 2**64)))
    axes = Axes(expression)
    blocks = {axis: random.randint(max(1, length // 3), length) for axis, length in axes.lengths.items()}
    choices = []
    for node in products(expression):
        rows, inner = axes.of(node.left)
        block = (blocks[rows], blocks[inner], blocks[axes.of(node)[1]])
        name = random.choice(sorted(ALGORITHMS))
        choices.append(MethodChoice(name, random.choice(list(find(name).candidates(*block, SLOTS)))))
    policy = random.choice(["direct", "composed", "binary"])
    return expression, operands, choices, blocks, policy


def polynomials_of_a_matrix_and_its_transpose() -> Any:
    """The last blocks of one have fewer columns, those of the other one fewer rows; the same number is added."""
    operand = secret(2, 5)
    sides = [Leaf("x0", operand), Leaf("x0", operand, transposed=True)]
    left, right = (Polynomial(x, [0.0, 1.0, 0.5], 1.0) for x in sides)
    choices, blocks = [MethodChoice("huang-zong", {})], {"x0.rows": 2, "x0.cols": 2}
    return deduplicated(left @ right), {"x0": operand}, choices, blocks, "composed"


@given(runs(), st.integers(0, 2**32))
@example(polynomials_of_a_matrix_and_its_transpose(), 0)
@settings(max_examples=75)
def test_any_program_is_numpys(run: Any, seed: int) -> None:
    expression, operands, choices, blocks, policy = run
    rng = np.random.default_rng(seed)
    values = {name: matrix(operand, rng) for name, operand in operands.items()}
    found = in_clear(RING, expression, values, choices, blocks, policy)
    expected = evaluate(expression, values)
    assert np.abs(expected).max() <= expression.bound * (1 + 1e-9)
    np.testing.assert_allclose(found.result, expected, rtol=0, atol=1e-9 * expression.bound)
    assert found.counts == found.trace.counts


@given(programs())
@settings(max_examples=40)
def test_a_graph_survives_its_json(program: Any) -> None:
    expression, operands = program
    values = {name: constant.values for name, constant in constants(expression).items()}
    again = from_json(to_json(expression), operands, values)
    assert to_json(again) == to_json(expression)
    assert (again.shape, again.secret, again.bound) == (
        expression.shape,
        expression.secret,
        expression.bound,
    )


def evaluate(expression: Expression, values: dict[str, Any]) -> Any:
    """NumPy by plain recursion: not the code under test."""
    kind = type(expression).__name__
    if isinstance(expression, Leaf):
        return values[expression.name].T if expression.transposed else values[expression.name]
    if isinstance(expression, Constant):
        return expression.values
    parts = [evaluate(child, values) for child in expression.children]
    if kind == "Scale":
        return parts[0] * expression.factor  # type: ignore[attr-defined]
    if isinstance(expression, Polynomial):
        angles = np.arccos(np.clip(parts[0] / expression.reach, -1, 1))
        return sum(c * np.cos(i * angles) for i, c in enumerate(expression.coefficients))
    return {"MatMul": np.matmul, "Add": np.add, "Multiply": np.multiply}[kind](*parts)


# --- all operations and functions ---

COUNT, REFRESH_BATCH, ENCRYPTED = int(os.environ.get("RANDOM_PROGRAMS", "36")), 12, 6
DOCUMENTED = {
    kind.__name__
    for kind in vars(cb).values()
    if isinstance(kind, type) and issubclass(kind, cb.CipherblasError)
}


@pytest.mark.encrypted
@pytest.mark.parametrize("first", range(0, COUNT, REFRESH_BATCH))
def test_programs_of_everything(first: int) -> None:
    """Each is refused by a documented error, or compiles and comes back from a pickle; one of six is run encrypted, and
    is as near to NumPy as its plan promises."""
    outcomes = [
        random_programs.checked(seed, seed % ENCRYPTED == 0) for seed in range(first, first + REFRESH_BATCH)
    ]
    assert set(outcomes) <= DOCUMENTED | {"runs", "compiles"}
    assert sum(outcome in ("runs", "compiles") for outcome in outcomes) >= REFRESH_BATCH // 3
