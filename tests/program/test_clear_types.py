"""Clear operands of narrow types: computed with as if they were float64, and kept as they are."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.arrays import NARROW_TYPES

ROUTES = ("slots", "rows")


def extremes(dtype: str, rows: int, cols: int) -> np.ndarray:
    """Whole numbers that overflow the type as soon as they are added, multiplied or negated in it."""
    kind = np.dtype(dtype)
    largest = np.iinfo(kind).min if kind.kind == "i" else 2048.0
    values = np.full((rows, cols), largest, dtype=kind)
    values[::2] = 100
    return values


@pytest.mark.parametrize("dtype", [*NARROW_TYPES, "uint8", "bool"])
@pytest.mark.parametrize("route", ROUTES)
def test_nothing_is_computed_in_a_narrow_type(dtype: str, route: Any) -> None:
    """Products, sums of clear parts, transposition, a negated sum."""
    w = np.ones((4, 4), dtype) if dtype in ("uint8", "bool") else extremes(dtype, 4, 4)
    bound = float(np.abs(w.astype(np.float64)).max())
    declared = {"w": cb.public(4, 4, bound=bound), "x": cb.secret(4, 4)}
    x = np.random.default_rng(1).uniform(-1, 1, (4, 4))
    for function in (lambda w, x: w @ x - w, lambda w, x: (w + w) @ x, lambda w, x: -(x @ w.T) + w.T):
        program = cb.compile(function, route=route, **declared)
        client = program.client()
        server = program.server(client.evaluation_keys())
        found = client.decrypt(server.run(w=w, x=client.encrypt(x=x)))
        expected = program.evaluate(w=w.astype(np.float64), x=x)
        assert np.abs(found - expected).max() <= program.plan.error


@pytest.mark.parametrize("declared", ["int8", None])
def test_the_memory_of_a_run_has_no_float64_copy_of_a_narrow_operand(declared: str | None) -> None:
    """A float64 operand is used as it is: what a narrow one takes beyond that is conversion."""
    d = 1024
    program = cb.compile(
        lambda w, x: w @ x,
        w=cb.public(d, d, dtype=declared, bound=None if declared else 100.0),
        x=cb.secret(d, 1),
        route="rows",
    )
    client = program.client()
    server = program.server(client.evaluation_keys())
    x = client.encrypt(x=np.ones((d, 1)))
    w = np.random.default_rng(2).integers(-100, 101, (d, d)).astype(np.int8)

    def peak(matrix: np.ndarray) -> int:
        server.run(w=matrix, x=x)
        tracemalloc.start()
        server.run(w=matrix, x=x)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    full = peak(w.astype(np.float64))
    for dtype in ("int8", "float16", "float32") if declared is None else ("int8", "int32"):
        assert peak(w.astype(dtype)) <= full + 8 * w.size // 4
