"""What compiling a small program takes: dry runs, and walks of its graph."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.lang import nodes
from cipherblas.planner.predict import dry_run
from cipherblas.roles import program as _  # noqa: F401  (all modules are there before one is watched)
from tests.corpus.machine import MACHINE

MAX_RUNS, MAX_WALKS = 32, 30
WEIGHTS = np.random.default_rng(1).normal(size=(64, 64))
THREE_NODES: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (lambda a, b: a @ b, {"a": cb.secret(64, 64), "b": cb.secret(64, 64)}),
    (lambda a, b: a @ b, {"a": cb.secret(9, 300), "b": cb.secret(300, 20)}),
    (lambda a, b: a @ b, {"a": cb.public(100, 100), "b": cb.secret(100, 100)}),
    (lambda x: WEIGHTS @ x, {"x": cb.secret(64, 20)}),
    (lambda x: WEIGHTS @ x, {"x": cb.secret(64)}),
    (lambda x, y: x * y, {"x": cb.secret(40, 40), "y": cb.secret(40, 40)}),
]


def counted(monkeypatch: pytest.MonkeyPatch, real: Callable[..., Any]) -> list[None]:
    """An entry for each call of a function, by whatever module."""
    calls: list[None] = []

    def counting(*arguments: Any, **options: Any) -> Any:
        calls.append(None)
        return real(*arguments, **options)

    for module in [*sys.modules.values()]:
        if module.__name__.startswith("cipherblas"):
            for name, value in vars(module).copy().items():
                if value is real:
                    monkeypatch.setattr(module, name, counting)
    return calls


@pytest.mark.parametrize("number", range(len(THREE_NODES)))
def test_a_program_of_three_nodes_takes_few_dry_runs_and_walks(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    runs, walks = counted(monkeypatch, dry_run.dry_run), counted(monkeypatch, nodes.ordered)
    program = cb.compile(*THREE_NODES[number], machine=MACHINE)
    assert 0 < len(runs) <= MAX_RUNS
    assert 0 < len(walks) <= MAX_WALKS
    assert program.plan.rejected  # other ways were looked at
