"""The text of a program with its options, by which a plan that was made of it before is found again."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import cipherblas._core as _core
from cipherblas.common.errors import CipherblasError
from cipherblas.lang.deferred import Deferred
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.operands import Operand
from cipherblas.lang.operations import Constant
from cipherblas.methods import registry
from cipherblas.planner.plan.plan import PlanOptions
from cipherblas.planner.predict.promises import Promise

POINTS = 4097  # at which a function is told from others
HOUSE = "cipherblas."  # of modules


def text_digest(expression: Expression, operands: Mapping[str, Operand], options: PlanOptions) -> str | None:
    """SHA-256 of a program as it was written, with its options, the planner, and the machine without its memory.

    Values of constants, samples and functions are part of it. None where it cannot be told from others: methods or
    nodes come from elsewhere, or a function raises an error.
    """
    nodes = ordered(expression, origins=True)
    if any(one.outside for one in registry.entries()) or not all(map(_is_of_the_house, nodes)):
        return None
    try:
        text = {
            "made by": _made_by(),
            "nodes": _nodes(nodes),
            "results": len(ordered(expression)),
            "operands": {name: operand.declared for name, operand in operands.items()},
            "options": _options(options),
        }
        content = json.dumps(text, sort_keys=True).encode()
    except (CipherblasError, ArithmeticError, TypeError, ValueError):  # of what no file could hold
        return None
    return hashlib.sha256(content).hexdigest()


@functools.lru_cache(maxsize=1)
def _made_by() -> list[Any]:
    """The planner: its version, and its files as they are."""
    package = Path(__file__).resolve().parents[2]  # the compiled module may lie elsewhere
    times = [path.stat().st_mtime_ns for path in package.rglob("*.py")]
    return [len(times), max(times), os.stat(_core.__file__).st_mtime_ns, np.__version__]


def _is_of_the_house(node: Expression) -> bool:
    return type(node).__module__.startswith(HOUSE)


def _nodes(nodes: list[Expression]) -> list[Any]:
    """Everything that tells nodes from others, without places."""
    position = {id(node): index for index, node in enumerate(nodes)}
    return [
        [
            type(node).__name__,
            [position[id(child)] for child in node.children],
            node.digest if isinstance(node, Constant) else _values(node),
            node.bound,
            None if node.written is None else _digest(node.written.function, node.written.x.bound),
            None
            if node.arranged_of is None
            else [position[id(node.arranged_of[0])], repr(node.arranged_of[1])],
        ]
        for node in nodes
    ]


def _values(node: Expression) -> Any:
    if isinstance(node, Deferred):  # the polynomial that is nearest has the interval
        return [
            node.function,
            node.named,
            node.within,
            _nodes(ordered(node.draft, origins=True)),
            _digest(node.exact, node.x.bound),
        ]
    return node.parameters


def _digest(function: Callable[..., Any], bound: float) -> str:
    """A function of numbers, by its values within a bound."""
    with np.errstate(all="ignore"):
        values = np.asarray(function(np.linspace(-bound, bound, POINTS)), np.float64)
    return hashlib.sha256(values.tobytes()).hexdigest()


def _options(options: PlanOptions) -> dict[str, Any]:
    found = {one.name: getattr(options, one.name) for one in fields(options)}
    machine = options.planned_for.to_dict()
    if options.machine is None:
        del machine["memory"]  # what is available just now
    found["machine"] = machine
    if options.parameters is not None:
        found["parameters"] = options.parameters.to_dict()
    if options.samples is not None:
        arrays = {name: np.ascontiguousarray(value) for name, value in options.samples.items()}
        found["samples"] = {
            name: [one.dtype.str, one.shape, hashlib.sha256(one.data).hexdigest()]
            for name, one in arrays.items()
        }
    if isinstance(options.promise, Promise):
        found["promise"] = options.promise.to_dict()
    return found
