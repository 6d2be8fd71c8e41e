"""Which calls of the core the engine of the processor makes for its own: of every function the shortest valid one.

They come from the cases of `engine_calls`, so that what an engine passes on is tried at the border of the core without
being written again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import cipherblas
import cipherblas._core as _core
from cipherblas.common import openblas
from cipherblas.crypto.params import Parameters
from cipherblas.engines import cpu
from cipherblas.engines.cpu import CpuEngine
from tests.support.engine_calls import CASES
from tests.support.engine_draws import RINGS, Draw


def arguments_of_functions() -> dict[str, list[str]]:
    """The names of their arguments, as the stub has them."""
    stub = ast.parse((Path(cipherblas.__file__).parent / "_core.pyi").read_text(encoding="utf-8"))
    return {
        node.name: [argument.arg for argument in node.args.args if argument.arg != "self"]
        for node in ast.walk(stub)
        if isinstance(node, ast.FunctionDef)
    }


class _Noted:
    """A context, or the core, whose calls are noted."""

    def __init__(self, of: Any, calls: list[tuple[str, dict[str, Any]]]) -> None:
        self._of, self._calls, self._names = of, calls, arguments_of_functions()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if name not in self._names or not callable(found):
            return found

        def noted(*args: Any, **options: Any) -> Any:
            given = {**dict(zip(self._names[name], args, strict=False)), **options}
            self._calls.append((name, _kept(given)))
            return found(*args, **options)

        return noted


def _kept(value: Any) -> Any:
    """A copy: accumulators are overwritten."""
    if isinstance(value, dict):
        return {name: _kept(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_kept, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)
    else:
        yield value


def core_calls(params: Parameters) -> dict[str, dict[str, Any]]:
    """Arguments by name, of every function of the core that an engine's calls reach in a ring: those with the most
    arguments, and of these the fewest arrays and numbers."""
    openblas.load()
    calls: list[tuple[str, dict[str, Any]]] = []
    draw, engine = Draw(params, False, np.random.default_rng(1)), CpuEngine(params)
    engine._context = _Noted(engine._context, calls)  # type: ignore[assignment]
    with mock.patch.object(cpu, "_core", _Noted(_core, calls)):
        for cases in CASES:
            if cases.rings is RINGS:
                for call in cases.calls(draw):
                    call(engine)
    found: dict[str, dict[str, Any]] = {}

    def rank(given: dict[str, Any]) -> tuple[int, int]:
        empty = sum(one is None or (isinstance(one, (list, tuple)) and not one) for one in given.values())
        return empty - len(given), sum(1 for _ in _leaves(given))

    for name, given in calls:
        if name not in found or rank(given) < rank(found[name]):
            found[name] = given
    return found
