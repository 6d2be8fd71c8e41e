"""Expression graphs: shared nodes, dimensions that belong together, formulas for people, JSON for files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.arrays import finite_array, shape_text
from cipherblas.common.errors import CipherblasError, FormatError
from cipherblas.common.work import ENTRIES_PER_STEP, MACS_PER_STEP, Work, check_nodes
from cipherblas.lang.expressions import (
    Add,
    Constant,
    Expression,
    Layer,
    Leaf,
    MatMul,
    Multiply,
    Operand,
    Scale,
    ordered,
)
from cipherblas.lang.networks import LAYERS, Assume, Truncated

LONGEST_FORMULA = 200
LONGEST_PART = 60  # of one that is too long


def _operation(inputs: int, fields: Mapping[str, schema.Check]) -> schema.Check:
    references = schema.listed(schema.whole(), inputs, inputs)
    return schema.record({"op": schema.text, "of": references, **fields})


_BINARY: dict[str, type[MatMul] | type[Add] | type[Multiply]] = {
    "matmul": MatMul,
    "add": Add,
    "multiply": Multiply,
}
# What each operation has in a file.
_OPERATIONS: dict[str, schema.Check] = {
    "operand": schema.record({"op": schema.text, "name": schema.text, "transposed": schema.flag}),
    "constant": schema.record({"op": schema.text, "name": schema.text}),
    "scale": _operation(1, {"factor": schema.number()}),
    **{name: _operation(2, {}) for name in _BINARY},
    **{name: _operation(layer.inputs, layer.fields) for name, layer in LAYERS.items()},
}
_ROW = schema.record({"op": schema.one_of(*_OPERATIONS)}, others=True)
_SYMBOLS: dict[type[Expression], str] = {MatMul: "@", Add: "+", Multiply: "*"}


def formula(node: Expression) -> str:
    """The graph as a formula; parts of a very long one are left out."""
    texts: dict[int, str] = {}
    for current in ordered(node):
        parts = [texts[id(child)] for child in current.children]
        text = _formula(current, parts)
        if len(text) > LONGEST_FORMULA:
            text = _formula(current, [part if len(part) <= LONGEST_PART else "…" for part in parts])
        texts[id(current)] = text
    return texts[id(node)]


def _formula(node: Expression, parts: Sequence[str]) -> str:
    """A node as a formula of the texts of its children."""
    if isinstance(node, Leaf):
        return f"{node.name}.T" if node.transposed else node.name
    if isinstance(node, Constant):
        return f"constant[{shape_text(node.shape)}]"
    if isinstance(node, Layer):
        named = [f"{name}={_short(value)}" for name, value in node.parameters.items()]
        return f"{node.op}({', '.join([*parts, *named])})"
    wrapped = [
        text if isinstance(child, (Leaf, Constant)) or text == "…" else f"({text})"
        for child, text in zip(node.children, parts, strict=True)
    ]
    if isinstance(node, Scale):
        return f"-{wrapped[0]}" if node.factor == -1.0 else f"{node.factor!r} * {wrapped[0]}"
    symbol = _SYMBOLS[type(node)]
    right = node.children[1]
    if isinstance(node, Add) and isinstance(right, Scale) and right.factor == -1.0 and parts[1] != "…":
        symbol = "-"
        wrapped[1] = parts[1][1:]  # the text of the negated node begins with its sign
    return f"{wrapped[0]} {symbol} {wrapped[1]}"


def _short(value: Any) -> str:
    """A parameter of a layer; two equal numbers are one."""
    return str(value[0]) if isinstance(value, list) and len(set(value)) == 1 else str(value)


def is_network(node: Expression) -> bool:
    """Whether a graph has vectors, images or layers: then it runs in slots, layer by layer."""
    return any(
        (isinstance(current, Layer) and not isinstance(current, (Assume, Truncated)))
        or len(current.shape) != 2
        for current in ordered(node)
        if current.secret
    )


def as_matrices(node: Expression) -> Expression | None:
    """A network of products with vectors alone as one of matrices with one column; None where it has other layers."""
    found: dict[int, Expression] = {}
    for current in ordered(node):
        parts = [found.get(id(child), child) for child in current.children]
        if len(current.shape) == 2:
            found[id(current)] = current
        elif len(current.shape) != 1 or isinstance(current, (Layer, Multiply)):
            return None
        elif isinstance(current, Leaf):
            operand = dataclasses.replace(current.operand, shape=(*current.shape, 1))
            found[id(current)] = Leaf(current.name, operand)
        elif isinstance(current, Constant):
            found[id(current)] = Constant(current.values[:, None], current.replaces)
        else:
            found[id(current)] = rebuilt(current, parts)
    return found[id(node)]


def deduplicated(node: Expression) -> Expression:
    """The same graph with equal parts made one node, so that nothing is computed twice."""
    known: dict[Any, Expression] = {}
    replaced: dict[int, Expression] = {}
    for current in ordered(node):
        children = tuple(replaced[id(child)] for child in current.children)
        key: tuple[Any, ...] = (type(current), *map(id, children))
        if isinstance(current, Leaf):
            key += (current.name, current.transposed)
        elif isinstance(current, Constant):
            key += (current.shape, current.digest, current.replaces)
        elif isinstance(current, Scale):
            key += (current.factor,)
        elif isinstance(current, Layer):
            key += (json.dumps(current.parameters),)
        if key not in known:
            changed = any(a is not b for a, b in zip(children, current.children, strict=True))
            known[key] = rebuilt(current, children) if changed else current
        replaced[id(current)] = known[key]
    return replaced[id(node)]


def rebuilt(node: Expression, children: Sequence[Expression]) -> Expression:
    """The same operation on other nodes."""
    if isinstance(node, Scale):
        return Scale(children[0], node.factor)
    if isinstance(node, Layer):
        return node.rebuilt(children)
    return _BINARY[_name(node)](*children)


def _name(node: Expression) -> str:
    return next(key for key, kind in _BINARY.items() if type(node) is kind)


def products(node: Expression) -> list[MatMul]:
    """Every distinct matrix product that depends on secret data, operands first."""
    return [current for current in ordered(node) if isinstance(current, MatMul) and current.secret]


class Axes:
    """Names for the dimensions of a program, equal where the program forces equal lengths and blocks.

    `a.rows` is the row axis of operand `a`; `a @ b` makes `a.cols` and `b.rows` one axis, an elementwise
    operation makes both axes of its operands one. A part without secrets is one clear matrix.
    """

    def __init__(self, node: Expression) -> None:
        self._parent: dict[str, str] = {}
        self._names: dict[int, tuple[str, str]] = {}
        self.lengths: dict[str, int] = {}
        self._clear = 0
        self._visit(node)
        for child_id, (rows, cols) in list(self._names.items()):
            self._names[child_id] = (self._root(rows), self._root(cols))
        self.lengths = {self._root(name): length for name, length in self.lengths.items()}

    def of(self, node: Expression) -> tuple[str, str]:
        """The names of the row and the column axis of `node`."""
        return self._names[id(node)]

    def _root(self, name: str) -> str:
        while self._parent.get(name, name) != name:
            name = self._parent[name]
        return name

    def _join(self, x: str, y: str) -> None:
        first, second = sorted((self._root(x), self._root(y)))
        self._parent[second] = first

    def _visit(self, node: Expression) -> tuple[str, str]:
        if id(node) in self._names:
            return self._names[id(node)]
        if isinstance(node, Leaf) or not node.secret:
            names = self._matrix(node)
        else:
            parts = [self._visit(child) for child in node.children]
            if isinstance(node, MatMul):
                self._join(parts[0][1], parts[1][0])
                names = (parts[0][0], parts[1][1])
            else:
                for other in parts[1:]:
                    self._join(parts[0][0], other[0])
                    self._join(parts[0][1], other[1])
                names = parts[0]
        self._names[id(node)] = names
        return names

    def _matrix(self, node: Expression) -> tuple[str, str]:
        if isinstance(node, Leaf):
            label = node.name
        else:
            label = f"clear {self._clear}"  # not the name of any operand
            self._clear += 1
        names = (f"{label}.rows", f"{label}.cols")
        if isinstance(node, Leaf) and node.transposed:
            names = (names[1], names[0])
        for name, length in zip(names, node.shape, strict=True):
            self.lengths[name] = length
        return names


def constants(node: Expression) -> dict[str, Constant]:
    """The clear values that are part of the program, named in the order of `to_json`."""
    found = [current for current in ordered(node) if isinstance(current, Constant)]
    return {f"constant{index}": constant for index, constant in enumerate(found)}


def to_json(node: Expression) -> list[dict[str, Any]]:
    """The nodes, children before parents; children are given by their position in the list."""
    order = ordered(node)
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
        elif isinstance(current, Layer):
            rows.append({"op": current.op, **current.parameters, "of": children})
        else:
            rows.append({"op": _name(current), "of": children})
    return rows


def content_digest(node: Expression) -> str:
    """SHA-256 of a part of a graph and of its constants: parts without operands that have the same are equal."""
    content = [to_json(node), [constant.digest for constant in constants(node).values()]]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def from_json(
    rows: Sequence[Mapping[str, Any]], operands: Mapping[str, Operand], tensors: Mapping[str, NDArray[Any]]
) -> Expression:
    """The graph of `to_json`.

    Raises:
        FormatError: an operation is unknown, or does not fit its operands, or a reference points nowhere.
        WorkBudgetError: it has too many nodes.
    """
    check_nodes(len(rows))
    nodes: list[Expression] = []
    for row in rows:
        try:
            _ROW(row, "a node")
            _OPERATIONS[row["op"]](row, "a node")
            children = [nodes[_reference(index, len(nodes))] for index in row.get("of", [])]
            nodes.append(_node(row, children, operands, tensors))
        except CipherblasError as error:
            raise FormatError(  # not `from error`: its text may hold control characters of the file
                f"node of a program's graph ({error})", expected="a known operation", got=str(row)
            ) from None
    if not nodes:
        raise FormatError("graph of a program", expected="at least one node", got="none")
    return nodes[-1]


def check_constants(node: Expression) -> None:
    """Raise WorkBudgetError where what a graph computes from its constants alone takes too much work."""
    work, known = Work(), set()
    for current in ordered(node):
        if isinstance(current, Leaf) or not all(id(child) in known for child in current.children):
            continue
        known.add(id(current))
        if not isinstance(current, Constant):
            entries = math.prod(current.shape)
            inner = current.left.shape[1] if isinstance(current, MatMul) else 1
            work.spend(entries // ENTRIES_PER_STEP + entries * inner // MACS_PER_STEP, "constants")


def _reference(index: int, count: int) -> int:
    if not 0 <= index < count:
        raise FormatError("reference", expected=f"0 to {count - 1}", got=index)
    return index


def _node(
    row: Mapping[str, Any],
    children: list[Expression],
    operands: Mapping[str, Operand],
    tensors: Mapping[str, Any],
) -> Expression:
    kind = row["op"]
    if kind in LAYERS:
        parameters = {name: value for name, value in row.items() if name not in ("op", "of")}
        make: Callable[..., Expression] = LAYERS[kind]
        return make(*children, **parameters)
    known = {"operand": operands, "constant": tensors}.get(kind)
    if known is not None and row["name"] not in known:
        raise FormatError(f"name of {kind}", expected=", ".join(known), got=row["name"])
    if kind == "operand":
        return Leaf(row["name"], operands[row["name"]], row["transposed"])
    if kind == "constant":
        return Constant(finite_array(tensors[row["name"]], "a constant", (1, 2, 3, 4)))
    if kind == "scale":
        return Scale(children[0], float(row["factor"]))
    return _BINARY[kind](children[0], children[1])
