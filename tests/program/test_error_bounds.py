"""Predicted errors are bounds: for entries at ±bound, for all entries alike, for factors that have the same errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import run, toy_rows

Fill = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
FILLS: dict[str, Fill] = {
    "ones": lambda rng, shape: np.ones(shape),
    "signs": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "columns": lambda rng, shape: np.broadcast_to(rng.choice([-1.0, 1.0], (*shape[:-1], 1)), shape).copy(),
}
SIZE = 12
WEIGHTS = np.full((SIZE, SIZE), 0.3)
MATRICES: dict[str, Callable[..., Any]] = {
    "sum": lambda a, b: a + b + a - 0.25 * b,
    "elementwise": lambda a, b: a * b,
    "square": lambda a, b: a * a + b,
    "elementwise, clear": lambda a, b: a * WEIGHTS + b,
    "product": lambda a, b: a @ b,
    "with its transpose": lambda a, b: a @ a.T + b,
    "clear product": lambda a, b: WEIGHTS @ a + b,
    "chain": lambda a, b: (a @ b) @ a,
    "chain with clear": lambda a, b: WEIGHTS @ (a @ b),
    "square of a product": lambda a, b: (a @ b) * (a @ b),
    "product of a square": lambda a, b: (a * a) @ b,
    "product of sums": lambda a, b: (a + b) @ (a - b),
}


def check(function: Callable[..., Any], fill: str, bound: float = 1.0, **options: Any) -> None:
    operands = {name: cb.secret(SIZE, SIZE, bound=bound) for name in ("a", "b")}
    program = cb.compile(function, operands, **options)
    rng = np.random.default_rng(3)
    run(program, {name: bound * FILLS[fill](rng, (SIZE, SIZE)) for name in operands}).check()


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("name", MATRICES)
def test_every_operation_on_matrices(name: str, fill: str) -> None:
    check(MATRICES[name], fill)


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("algorithm", ["outer-product", "skewed", "bicyclic", "fame", "e2dm", "halevi-shoup"])
def test_every_product(algorithm: str, fill: str) -> None:
    check(lambda a, b: a @ b, fill, bound=3.0, algorithm=algorithm)


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("n", [256, 1024])
def test_products_by_gemm(n: int, fill: str) -> None:
    operands = {name: cb.secret(SIZE, SIZE, bound=3.0) for name in ("a", "b")}
    rng = np.random.default_rng(3)
    values = {name: 3.0 * FILLS[fill](rng, (SIZE, SIZE)) for name in operands}
    run(toy_rows(lambda a, b: a @ b, n=n, **operands), values).check()


@pytest.mark.slow
def test_a_product_by_gemm_in_a_secure_ring() -> None:
    check(lambda a, b: a @ b, "ones", bound=3.0, algorithm="gemm")


@pytest.mark.parametrize("fill", FILLS)
def test_layers(fill: str) -> None:
    rng = np.random.default_rng(5)
    filters, weights = FILLS[fill](rng, (3, 2, 3, 3)), FILLS[fill](rng, (4, 27))
    program = cb.compile(
        lambda x: weights @ cb.flatten(cb.square(cb.avg_pool2d(cb.conv2d(x, filters), 2))),
        {"x": cb.secret(2, 8, 8)},
    )
    run(program, {"x": FILLS[fill](rng, (2, 8, 8))}).check()


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_repeated_squares(depth: int) -> None:
    """Both factors are one value, but not one object: they were once taken as independent."""

    def squared(y: Any) -> Any:
        for _ in range(depth):
            y = y * y
        return y

    program = cb.compile(squared, {"y": cb.secret(16, 16)})
    run(program, {"y": FILLS["signs"](np.random.default_rng(depth), (16, 16))}).check()


def test_columns_that_are_alike() -> None:
    """Rounding the same column twice to the nearest gives the same error twice, which was not counted."""
    program = cb.compile(
        lambda a, b: a @ b, {"a": cb.secret(100, 100), "b": cb.secret(100, 100)}, algorithm="outer-product"
    )
    for _ in range(3):
        run(program, {"a": np.ones((100, 100)), "b": np.ones((100, 100))}).check()


def test_integers_at_their_bound() -> None:
    program = cb.compile(
        lambda a, b: a @ b,
        {"a": cb.secret(100, 300, bound=127), "b": cb.secret(300, 100, bound=127)},
        precision=0.4 / (127**2 * 300),
    )
    found = run(program, {"a": np.full((100, 300), 127.0), "b": np.full((300, 100), 127.0)}).check()
    np.testing.assert_array_equal(np.rint(found.decrypted), found.expected)


def test_the_probability_of_failure_is_stated() -> None:
    program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)})
    (line,) = [line for line in program.explain().splitlines() if line.startswith("promise")]
    assert "2^-40" in line
