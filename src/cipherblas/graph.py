"""Expression graphs as formulas for people and as JSON for files; shared nodes stay shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.errors import FormatError, ShapeError
from cipherblas.expressions import (
    Add,
    Constant,
    Expression,
    Leaf,
    MatMul,
    Multiply,
    Operand,
    Scale,
    finite_matrix,
)

_BINARY: dict[str, type[MatMul] | type[Add] | type[Multiply]] = {
    "matmul": MatMul,
    "add": Add,
    "multiply": Multiply,
}
_SYMBOLS: dict[type[Expression], str] = {MatMul: "@", Add: "+", Multiply: "*"}


def formula(node: Expression) -> str:
    """The graph as a formula."""
    if isinstance(node, Leaf):
        return f"{node.name}.T" if node.transposed else node.name
    if isinstance(node, Constant):
        return f"constant[{node.shape[0]}x{node.shape[1]}]"
    if isinstance(node, Scale):
        inner = _wrapped(node.child)
        return f"-{inner}" if node.factor == -1.0 else f"{node.factor!r} * {inner}"
    left, right = node.children
    return f"{_wrapped(left)} {_SYMBOLS[type(node)]} {_wrapped(right)}"


def _wrapped(node: Expression) -> str:
    text = formula(node)
    return text if isinstance(node, (Leaf, Constant)) else f"({text})"


def _ordered(node: Expression) -> list[Expression]:
    """Distinct nodes, children before parents."""
    found: dict[int, Expression] = {}

    def visit(current: Expression) -> None:
        if id(current) not in found:
            for child in current.children:
                visit(child)
            found[id(current)] = current

    visit(node)
    return list(found.values())


def constants(node: Expression) -> dict[str, NDArray[np.float64]]:
    """The clear matrices that are part of the program, named in the order of `to_json`."""
    matrices = [current for current in _ordered(node) if isinstance(current, Constant)]
    return {f"constant{index}": constant.values for index, constant in enumerate(matrices)}


def to_json(node: Expression) -> list[dict[str, Any]]:
    """The nodes, children before parents; children are given by their position in the list."""
    order = _ordered(node)
    position = {id(current): index for index, current in enumerate(order)}
    numbered = iter(range(len(order)))
    rows: list[dict[str, Any]] = []
    for current in order:
        children = [position[id(child)] for child in current.children]
        if isinstance(current, Leaf):
            rows.append({"op": "operand", "name": current.name, "transposed": current.transposed})
        elif isinstance(current, Constant):
            rows.append({"op": "constant", "name": f"constant{next(numbered)}"})
        elif isinstance(current, Scale):
            rows.append({"op": "scale", "factor": current.factor, "of": children})
        else:
            name = next(key for key, kind in _BINARY.items() if type(current) is kind)
            rows.append({"op": name, "of": children})
    return rows


def from_json(
    rows: Sequence[Mapping[str, Any]], operands: Mapping[str, Operand], tensors: Mapping[str, NDArray[Any]]
) -> Expression:
    """The graph of `to_json`.

    Raises:
        FormatError: an operation is unknown or a reference points nowhere.
    """
    nodes: list[Expression] = []
    for row in rows:
        children = []
        for index in row.get("of", []):
            if not isinstance(index, int) or not 0 <= index < len(nodes):
                raise FormatError(
                    "reference in a program's graph", expected=f"0 to {len(nodes) - 1}", got=index
                )
            children.append(nodes[index])
        try:
            nodes.append(_node(row, children, operands, tensors))
        except (KeyError, TypeError, ShapeError, IndexError) as error:
            raise FormatError(
                "node of a program's graph", expected="a known operation", got=str(row)
            ) from error
    if not nodes:
        raise FormatError("graph of a program", expected="at least one node", got="none")
    return nodes[-1]


def _node(
    row: Mapping[str, Any],
    children: list[Expression],
    operands: Mapping[str, Operand],
    tensors: Mapping[str, Any],
) -> Expression:
    kind = row["op"]
    if kind == "operand":
        return Leaf(row["name"], operands[row["name"]], bool(row["transposed"]))
    if kind == "constant":
        return Constant(finite_matrix(tensors[row["name"]], "a constant"))
    if kind == "scale":
        return Scale(children[0], float(row["factor"]))
    return _BINARY[kind](children[0], children[1])
