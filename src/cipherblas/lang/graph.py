"""Expression graphs: shared nodes, dimensions that belong together, formulas for people, JSON for files."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.errors import CipherblasError, FormatError, brief
from cipherblas.common.nested import result_of
from cipherblas.common.work import ENTRIES_PER_STEP, MACS_PER_STEP, Work, check_nodes
from cipherblas.lang.arrangements import Arrange
from cipherblas.lang.curves import Gated  # noqa: F401  (enters it)
from cipherblas.lang.facts import facts_of
from cipherblas.lang.joins import Joined  # noqa: F401  (enters it)
from cipherblas.lang.nodes import OPERATIONS, Expression, ordered
from cipherblas.lang.operands import Operand
from cipherblas.lang.operations import Constant
from cipherblas.lang.results import Results  # noqa: F401  (enters it)

MAX_FORMULA_LENGTH = 200
MAX_PART_LENGTH = 60  # of one that is too long


_NODE = schema.record({"op": schema.text}, others=True)


def formula(node: Expression) -> str:
    """The graph as a formula; parts of a very long one are left out."""
    texts: dict[int, str] = {}
    for current in ordered(node):
        parts = [texts[id(child)] for child in current.children]
        text = current.text(parts)
        if len(text) > MAX_FORMULA_LENGTH:
            text = current.text([part if len(part) <= MAX_PART_LENGTH else "…" for part in parts])
        texts[id(current)] = text
    return texts[id(node)]


def is_network(node: Expression) -> bool:
    """Whether a graph has vectors, images or layers: then it runs in slots, layer by layer."""
    nodes = (current for current in ordered(node) if current.secret and not current.root)
    return any(current.layer or len(current.shape) != 2 for current in nodes)


def as_matrices(node: Expression) -> Expression | None:
    """A program of arrays as one of matrices (`nodes.column_shape`); None where it has images."""
    found = columns(node)
    return None if found is None else found[id(node)]


def columns(node: Expression) -> dict[int, Expression] | None:
    """By the id of a node, what stands for it, or for its transpose, among matrices; see `as_matrices`.

    Clear vectors that are only multiplied as rows are left out. Equal matrices are one, and what transposes nodes
    remember is forgotten, so that a graph and the same one read from a file become the same matrices.
    """
    forgetful = _forgetful(node)
    found = _columns(forgetful[id(node)])
    return found and {key: found[id(current)] for key, current in forgetful.items() if id(current) in found}


def _forgetful(node: Expression) -> dict[int, Expression]:
    """By the id of a node of a graph, one like it that remembers neither its transpose nor other arrangements."""
    made: dict[int, Expression] = {}
    for current in ordered(node):
        children = [made[id(child)] for child in current.children]
        made[id(current)] = current.rebuilt(children) if children else current
    return made


def _columns(node: Expression) -> dict[int, Expression] | None:
    found: dict[int, Expression] = {}
    order = ordered(node)
    images = not any(map(_is_no_image, order)) and all(current.modulus is None for current in order)
    for current in order:
        parts = [found.get(id(child), child) for child in current.children]
        column: Expression | None = current
        if images and len(current.shape) > 2:
            column = None
        elif len(current.shape) != 2 or current.layer or parts != list(current.children):
            column = current.as_column(parts)
        if column is None:
            return None
        found[id(current)] = column
    one = merged(found[id(node)])
    used = {key: column if id(column) in one else column.T for key, column in found.items()}
    return {key: one[id(column)] for key, column in used.items() if id(column) in one}


def _is_no_image(node: Expression) -> bool:
    """Whether entries of a computed value move into or out of three dimensions, as they do in no layer, or a value has
    four."""
    moved = node.op == Arrange.op and max(len(node.shape), len(node.children[0].shape)) > 2
    return node.secret and (moved or len(node.shape) > 3)


def deduplicated(node: Expression, origins: bool = False) -> Expression:
    """The same graph with equal parts made one node, so that nothing is computed twice; see `merged`."""
    return merged(node, origins)[id(node)]


def merged(node: Expression, origins: bool = False) -> dict[int, Expression]:
    """By the id of a node of a graph, the one that stands for it and all that are equal.

    Args:
        origins: of the values that nodes are arrangements of too, which are remembered.
    """
    known: dict[Any, Expression] = {}
    replaced: dict[int, Expression] = {}
    order = ordered(node, origins)
    for current in order:
        children = tuple(replaced[id(child)] for child in current.children)
        key = (type(current), current.identity, *map(id, children))
        if key not in known:
            changed = any(a is not b for a, b in zip(children, current.children, strict=True))
            known[key] = current.rebuilt(children) if changed else current
        replaced[id(current)] = known[key]
    for current in order if origins else ():
        one = replaced[id(current)]
        if current.arranged_of is not None:
            value, step = current.arranged_of
            if one.arranged_of is None or (one is current and replaced[id(value)] is not value):
                one.arranged_of = None
                one.is_arranged(replaced[id(value)], step)
    return replaced


def same(x: Expression, y: Expression) -> bool:
    """Whether two graphs compute the same from the same operands, by the same operations."""

    def described(node: Expression) -> list[Any]:
        order = facts_of(node).order  # each node once, however often it is used
        place = {id(current): number for number, current in enumerate(order)}
        return [
            (type(one), one.shape, one.identity, [place[id(child)] for child in one.children])
            for one in order
        ]

    return x is y or described(x) == described(y)


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
        result_of(node, self._visit)
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

    def _visit(self, node: Expression) -> Generator[Expression, tuple[str, str], tuple[str, str]]:
        if id(node) in self._names:
            return self._names[id(node)]
        if node.operand is not None or not node.secret:
            names = self._matrix(node)
        else:
            parts = []
            for child in node.children:
                parts.append((yield child))
            names = node.axes(parts, self._join) or self._matrix(node)
        self._names[id(node)] = names
        return names

    def _matrix(self, node: Expression) -> tuple[str, str]:
        if node.operand is not None:
            label = node.label
        else:
            kind = "arranged" if node.secret else "clear"
            label = f"{kind} {self._clear}"  # not the name of any operand
            self._clear += 1
        names = (f"{label}.rows", f"{label}.cols")
        if node.operand is not None and node.transposed:
            names = (names[1], names[0])
        for name, length in zip(names, node.shape, strict=True):
            self.lengths[name] = length
        return names


@functools.lru_cache(maxsize=16)
def axes_of(node: Expression) -> Axes:
    """The axes of a program."""
    return Axes(node)


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
        row = {"op": current.op, **current.parameters}
        if current.tensor is not None:
            row["name"] = f"constant{next(numbered)}"
        if current.inputs:
            row["of"] = children
        rows.append(row)
    return rows


def content_digest(node: Expression) -> str:
    """SHA-256 of a part of a graph and of its constants: parts without operands that have the same are equal."""
    facts = facts_of(node)
    if facts.digest is None:
        content = [to_json(node), [constant.digest for constant in constants(node).values()]]
        facts.digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
    return facts.digest


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
            kind = _kind(row)
            if kind.root and len(nodes) + 1 < len(rows):
                raise FormatError(
                    "The results of a program must be its last node.",
                    expected="as the last node",
                    got=len(nodes),
                )
            children = [nodes[_reference(index, len(nodes))] for index in row.get("of", [])]
            nodes.append(kind.read(row, children, operands, tensors))
        except CipherblasError as error:
            raise FormatError(  # not `from error`: its text may hold control characters of the file
                f"A node of a program's graph cannot be read: {brief(error)}",
                expected="a known operation",
                got=str(row),
            ) from None
    if not nodes:
        raise FormatError(
            "The graph of a program needs at least one node.", expected="at least one node", got="none"
        )
    return nodes[-1]


def check_constants(node: Expression) -> None:
    """Raise WorkBudgetError where what a graph computes from its constants alone takes too much work."""
    work, known = Work(), set()
    for current in ordered(node):
        if current.operand is not None or not all(id(child) in known for child in current.children):
            continue
        known.add(id(current))
        if current.children:
            entries = math.prod(current.shape)
            inner = current.children[0].shape[-1] if current.product else 1
            work.spend(entries // ENTRIES_PER_STEP + entries * inner // MACS_PER_STEP, "constants")


def _reference(index: int, count: int) -> int:
    if not 0 <= index < count:
        raise FormatError(
            "A reference in the graph names no earlier node.", expected=f"0 to {count - 1}", got=index
        )
    return index


def _kind(row: Mapping[str, Any]) -> type[Expression]:
    """The operation of a row, whose fields are checked."""
    _NODE(row, "a node")
    schema.one_of(*OPERATIONS)(row["op"], "the operation of a node")
    kind = OPERATIONS[row["op"]]
    children = schema.listed(schema.integer(), kind.inputs, kind.most_inputs or kind.inputs)
    references = {"of": children} if kind.inputs else {}
    schema.record({"op": schema.text, **references, **kind.fields}, kind.optional)(row, "a node")
    return kind
