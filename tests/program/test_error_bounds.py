"""Predicted errors are bounds: for entries at ±bound, for all entries alike, for factors that have the same errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import Parties, run, toy_rows

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


def check(program: cb.Program, fills: Iterable[str] = FILLS) -> None:
    """Matrices of each kind, all under one key."""
    parties = Parties(program)
    for fill in fills:
        rng = np.random.default_rng(3)
        parties.run(
            {
                name: operand.bound * FILLS[fill](rng, operand.shape)
                for name, operand in program.operands.items()
            }
        ).check()


def compiled(function: Callable[..., Any], bound: float = 1.0, **options: Any) -> cb.Program:
    return cb.compile(function, {name: cb.secret(SIZE, SIZE, bound=bound) for name in ("a", "b")}, **options)


@pytest.mark.parametrize("name", MATRICES)
def test_every_operation_on_matrices(name: str) -> None:
    check(compiled(MATRICES[name]))


@pytest.mark.parametrize("algorithm", ["outer-product", "skewed", "bicyclic", "fame", "e2dm", "halevi-shoup"])
def test_every_product(algorithm: str) -> None:
    check(compiled(lambda a, b: a @ b, bound=3.0, algorithm=algorithm))


@pytest.mark.parametrize("n", [256, 1024])
def test_products_by_gemm(n: int) -> None:
    operands = {name: cb.secret(SIZE, SIZE, bound=3.0) for name in ("a", "b")}
    check(toy_rows(lambda a, b: a @ b, n=n, **operands))


@pytest.mark.slow
def test_a_product_by_gemm_in_a_secure_ring() -> None:
    check(compiled(lambda a, b: a @ b, bound=3.0, algorithm="gemm"), ["ones"])


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
