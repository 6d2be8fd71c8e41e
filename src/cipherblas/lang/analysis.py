"""What is asked of whole graphs: the function that builds one, its parts without secrets, its value in the clear."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import DTypeError, MismatchError, capitalized
from cipherblas.common.progress import Progress, Steps
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.operands import Operand
from cipherblas.lang.operations import Leaf
from cipherblas.lang.places import tracing
from cipherblas.lang.results import results_of, returned


def trace(function: Callable[..., Any], operands: Mapping[str, Operand]) -> Expression:
    """Call `function` with one leaf per operand and return the node that it builds; of several, their `Results`.

    Raises:
        MismatchError: the function does not take these operands by name.
        DTypeError: it returns neither a node nor a tuple, a list or a dictionary of nodes.
        ParameterError: it returns no node at all, too many, or one under a name that is no Python identifier.
    """
    leaves = {name: Leaf(name, operand) for name, operand in operands.items()}
    if not callable(function):
        raise DTypeError(
            "Only a function of the operands can be compiled.",
            got=type(function).__name__,
            advice=f"lambda {', '.join(operands)}: …",
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin: it will say itself what it does not like
        signature = None
    if signature is not None:
        try:
            signature.bind(**leaves)
        except TypeError as error:
            names = ", ".join(operands)
            by_place = any(one.kind is one.POSITIONAL_ONLY for one in signature.parameters.values())
            wanted = ", ".join(f"{name!r}: …" for name in signature.parameters)
            raise MismatchError(
                f"The function takes {signature}, and the operands are named {names}.",
                advice=f"lambda {names}: f({names}) for the function f"
                if by_place
                else f"operands by the names of the parameters: {{{wanted}}}",
                cause=f"{capitalized(str(error))}.",
            ) from None
    with tracing():
        found = function(**leaves)
    return returned(found)


def is_constant(node: Expression) -> bool:
    """Whether a clear part of the graph is known before the operands are."""
    return facts_of(node).constant


def integral_nodes(node: Expression) -> dict[int, bool]:
    """By the id of a node of a graph, whether its entries are known to be whole numbers."""
    return facts_of(node).integral


def has_public_key(node: Expression) -> bool:
    """Whether the public key may encrypt an operand of a graph."""
    return facts_of(node).public_key


def evaluate_clear(
    node: Expression, values: Mapping[str, NDArray[Any]], narrow: bool = False
) -> NDArray[Any]:
    """The value of `node` in NumPy, in float64 whatever the types of operands.

    The oracle that encrypted results are compared with, and what a program computes of its parts without secrets.

    Args:
        narrow: the value of an operand itself in the type that it was given in, not to be computed with.
    """
    (value,) = evaluate_results(node, values, narrow)
    return value


def evaluate_results(
    node: Expression,
    values: Mapping[str, NDArray[Any]],
    narrow: bool = False,
    progress: Progress | None = None,
    through: Callable[[Expression, NDArray[Any]], NDArray[Any]] | None = None,
    as_written: bool = False,
) -> list[NDArray[Any]]:
    """The values of all results of a program in NumPy; see `evaluate_clear`.

    Args:
        progress: counted in nodes.
        through: of every node and its value, the value that others are computed from.
        as_written: by the functions that were written, where they are known, and not by their polynomials.
    """
    found: dict[int, NDArray[Any]] = {}
    order, results = ordered(node), results_of(node)
    steps = Steps(progress, len(order))
    last = _last_uses(order, as_written)
    for result in results:
        last.pop(id(result), None)
    for index, current in enumerate(order):
        written = current.written if as_written else None
        if current.operand is not None:
            given = values[current.name].reshape(current.operand.shape)
            for step in current.steps:
                given = step(given)
            given = given.T if current.transposed else given
            found[id(current)] = given if narrow and current is node else given.astype(np.float64, copy=False)
        elif not current.root and (written is None or written.within):
            found[id(current)] = current.evaluate([found[id(child)] for child in current.children])
        if written is not None:
            x = found[id(written.x)]
            found[id(current)] = written.evaluate(x, found.get(id(current), x))
        if through is not None and not current.root:
            found[id(current)] = through(current, found[id(current)])
        for used in (current, *_used_by(current, as_written)):
            if last.get(id(used)) == index:  # its memory is for values that follow
                found.pop(id(used), None)
        steps.tick()
    return [found[id(result)] for result in results]


def _used_by(node: Expression, as_written: bool) -> tuple[Expression, ...]:
    """The nodes whose values a node is computed from."""
    if as_written and node.written is not None:
        return *node.children, node.written.x
    return node.children


def _last_uses(order: Sequence[Expression], as_written: bool) -> dict[int, int]:
    """By the id of a node, the place of the last one that is computed from it, or its own."""
    last = {id(node): index for index, node in enumerate(order)}
    for index, node in enumerate(order):
        last.update(dict.fromkeys(map(id, _used_by(node, as_written)), index))
    return last
