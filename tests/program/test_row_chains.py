"""Chains of products by GEMM, encrypted: their moduli grow to many limbs, all of which decryption must read."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.planner.plan.plan import Plan
from tests.support.runs import run, toy_rows

CHAINS = 14


def extreme(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Entries at ±1, all alike, or anywhere: each of them finds other mistakes."""
    kind = rng.integers(3)
    if kind == 0:
        return np.where(rng.random(shape) < 0.5, -1.0, 1.0)
    return np.full(shape, -1.0) if kind == 1 else rng.uniform(-1, 1, shape)


def clear_chain(rng: np.random.Generator, factors: int, precision: float) -> Plan:
    """W_k … W_1 @ x (or x @ W_1 … W_k) with so many clear factors, run and compared."""
    sizes = [int(size) for size in rng.integers(1, 24, factors + 1)]
    vector, left = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    scales = 10.0 ** rng.uniform(-2, 2, factors)
    weights = [
        scale * extreme(rng, (rows, cols))
        for scale, cols, rows in zip(scales, sizes, sizes[1:], strict=False)
    ]
    cols = int(rng.integers(1, 40))
    if vector:
        program = cb.compile(
            lambda x: functools.reduce(lambda y, w: w @ y, weights, x),
            {"x": cb.secret(sizes[0])},
            form="rows",
            precision=precision,
        )
    elif left:
        program = cb.compile(
            lambda x: functools.reduce(lambda y, w: w @ y, weights, x),
            {"x": cb.secret(sizes[0], cols)},
            form="rows",
            precision=precision,
        )
    else:
        program = cb.compile(
            lambda x: functools.reduce(lambda y, w: y @ w.T, weights, x),
            {"x": cb.secret(cols, sizes[0])},
            form="rows",
            precision=precision,
        )
    operand = program.operands["x"]
    return run(program, {"x": extreme(rng, operand.shape)}).check().program.plan


def test_four_clear_factors_with_all_defaults() -> None:
    """Once decrypted to garbage: the message fills three limbs, and two were read."""
    rng = np.random.default_rng(0)
    weights = [rng.uniform(-1, 1, (64, 64)) for _ in range(4)]
    program = cb.compile(lambda x: functools.reduce(lambda y, w: w @ y, weights, x), {"x": cb.secret(64)})
    run(program, {"x": rng.uniform(-1, 1, 64)}).check()


@pytest.mark.parametrize("seed", range(CHAINS))
def test_chains_of_clear_factors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = 1 + seed % 6
    clear_chain(rng, factors, float(10.0 ** rng.uniform(-6, -2)))


def test_the_sweep_reaches_moduli_of_many_limbs() -> None:
    assert {clear_chain(np.random.default_rng(7), count, 1e-7).parameters.limbs for count in (2, 4, 6)} >= {
        2,
        4,
    }


@pytest.mark.parametrize("factors", [0, 1, 2, 3])
def test_products_of_secrets_with_clear_factors(factors: int) -> None:
    rng = np.random.default_rng(factors)
    weights = [extreme(rng, (9, 9)) for _ in range(factors)]
    program = toy_rows(
        lambda x, y: functools.reduce(lambda z, w: w @ z, weights, x @ y),
        x=cb.secret(9, 5),
        y=cb.secret(5, 7),
        precision=1e-2,
    )
    run(program, {"x": extreme(rng, (9, 5)), "y": extreme(rng, (5, 7))}).check()
