"""Programs that are nested deeper than Python's stack: planned, saved, run, decrypted.

The stack is made small, so that a few hundred operations are too many for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb

DEPTH = 450
W = np.random.default_rng(3).uniform(-1, 1, (16, 16)) / 16
MATRIX, VECTOR = cb.secret(16, 16), cb.secret(16)


def by_rows(x: Any) -> Any:
    total = W @ x
    for _ in range(DEPTH):
        total = total + x
    return total.T


def in_blocks(x: Any, y: Any) -> Any:
    total = x @ y
    for number in range(DEPTH):
        total = total + (y if number % 2 else x)
    return total[1:3], total.T


def in_a_network(v: Any) -> Any:
    total = W @ v
    for number in range(DEPTH):
        total = -1.0 * total + v if number % 2 else total - v
    return total * total


@pytest.fixture
def small_stack() -> Iterator[None]:
    """One that a call for each operation overflows."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(DEPTH)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("small_stack")
@pytest.mark.parametrize(
    ("function", "options"),
    [
        (by_rows, {"form": "rows"}),
        (in_blocks, {"form": "blocks", "algorithm": "skewed"}),
        (in_a_network, {"form": "tensors"}),
    ],
)
def test_deep_programs(function: Callable[..., Any], options: dict[str, Any], tmp_path: Path) -> None:
    assert sys.getrecursionlimit() <= DEPTH  # nothing raises it
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    operands = {name: VECTOR if name == "v" else MATRIX for name in names}
    program = cb.compile(function, operands, error=1.0, **options)
    program.save(tmp_path / "plan.json")
    program = cb.Program.load(tmp_path / "plan.json")
    random = np.random.default_rng(4)
    inputs = {name: random.uniform(-1, 1, operand.shape) for name, operand in operands.items()}
    client = program.client()
    server = program.server(client.evaluation_keys())
    found = client.decrypt(server.run(client.encrypt(inputs)))
    expected = function(*inputs.values())
    for one, other in zip(
        *((found, expected) if isinstance(expected, tuple) else ((found,), (expected,))), strict=True
    ):
        assert np.abs(one - other).max() <= program.plan.error
    assert program.worst_errors  # which runs it once more
    assert "error" in program.explain()
