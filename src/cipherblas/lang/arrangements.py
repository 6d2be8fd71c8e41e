"""Entries of an array at other places: what NumPy's slices, `reshape`, `pad`, `broadcast_to` and `diagonal` make.

Like a transpose, an arrangement is pushed towards the operands when it is written: the client packs an arranged operand
at no cost, an entrywise operation is one of arranged parts, and rows and columns of a product are those of its factors.
What cannot be pushed stays a node, `Arrange`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import FormatError, ShapeError
from cipherblas.lang.bounds import is_known, moved, of_entries
from cipherblas.lang.facts import operands_of
from cipherblas.lang.nodes import Expression, checkpoints, column_shape, operation
from cipherblas.lang.operands import Operand
from cipherblas.lang.operations import Constant, Leaf
from cipherblas.lang.steps import EMPTY, MAX_STEPS, STEPS, Step, simplified, steps_from_json, steps_to_json

# ---- operands that the client arranges ----


@operation
class View(Leaf):
    """An operand that the client arranges before it packs it, possibly transposed after that."""

    op = "view"
    fields: ClassVar = {**Leaf.fields, "steps": STEPS}

    def __init__(
        self, name: str, operand: Operand, transposed: bool = False, steps: Sequence[Any] = ()
    ) -> None:
        self.steps = simplified(steps_from_json(steps), operand.shape)
        if len(self.steps) > MAX_STEPS:
            raise ShapeError(
                "An operand is arranged too many times.",
                got=len(self.steps),
                advice=f"at most {MAX_STEPS} slices and indices one after another; one index x[rows] stands for many",
            )
        super().__init__(name, operand, transposed)
        self.label = name + "".join(step.text for step in self.steps)
        shape: tuple[int, ...] = operand.shape
        repeated = tuple(length == 1 for length in shape)
        for step in self.steps:
            shape, repeated = step.out_shape(shape), step.repeats(shape, repeated)
        self.shape, self.repeated = (shape[::-1], repeated[::-1]) if transposed else (shape, repeated)

    def _transpose(self) -> Expression:
        return viewed(self.name, self.operand, not self.transposed, self.steps)

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, "steps": steps_to_json(self.steps)}

    @classmethod
    def read(
        cls,
        row: Mapping[str, Any],
        children: Sequence[Expression],
        operands: Mapping[str, Operand],
        tensors: Mapping[str, NDArray[Any]],
    ) -> Expression:
        if row["name"] not in operands:
            raise FormatError(
                "The name of an operand is not known.", expected=", ".join(operands), got=row["name"]
            )
        return cls(row["name"], operands[row["name"]], row["transposed"], row["steps"])

    def __reduce__(self) -> tuple[Any, ...]:
        return View, (self.name, self.operand, self.transposed, self.steps)

    def as_column(self, parts: Sequence[Expression]) -> Expression:
        column = Step("reshape", column_shape(self.shape))
        return viewed(self.name, self.operand, False, (*self.steps, column))

    def text(self, parts: Sequence[str]) -> str:
        return self.label + (".T" if self.transposed else "")

    @property
    def title(self) -> str:
        return f"{self.label} {shape_text(self.shape)}"


def viewed(name: str, operand: Operand, transposed: bool, steps: Sequence[Step]) -> Expression:
    """An operand, arranged; itself where nothing is left to arrange."""
    view = View(name, operand, transposed, steps)
    return view if view.steps else Leaf(name, operand, transposed)


def first_of(leaf: Expression, axis: int) -> Expression:
    """The first row of an operand, a matrix, or its first column; of one that is broadcast, what it was before."""
    assert isinstance(leaf, Leaf)
    shape = tuple(1 if number == axis else length for number, length in enumerate(leaf.shape))
    if leaf.steps and leaf.steps[-1].kind == "broadcast" and leaf.repeated[axis]:
        found = viewed(leaf.name, leaf.operand, False, leaf.steps[:-1])
        one = shape[::-1] if leaf.transposed else shape
        same = math.prod(found.shape) == math.prod(one)
        found = Arrange.of(found, Step("reshape" if same else "broadcast", one))
        return found.T if leaf.transposed else found
    ranges = tuple((0, length, 1) for length in shape)
    return Arrange.of(leaf, Step("slice", ranges))


# ---- what is computed ----


@operation
class Arrange(Expression):
    """Entries of a computed value at other places; entries that nothing is put at are zero."""

    op = "arrange"
    fields: ClassVar = {"steps": STEPS}

    def __init__(self, x: Expression, steps: Sequence[Any]) -> None:
        self.steps = simplified(steps_from_json(steps), x.shape)
        shape = x.shape
        for step in self.steps:
            shape = step.out_shape(shape)
        super().__init__(shape, x.secret, x.bound, x)
        if is_known(x):
            self._bounds = moved(of_entries(x), self.steps, x.bound)

    @classmethod
    def of(cls, *parts: Any) -> Expression:
        """A node, arranged: by its parts where that is the same."""
        node: Expression
        node, step = parts
        shape = step.out_shape(node.shape)
        if step.keeps(node.shape):
            return node
        if step not in node.known_arranged:
            for one in checkpoints(node):
                cls.of(one, step)
            found = cls._made(node, step)
            assert found.shape == shape, f"{node.title}: {step.text}"
            found.is_arranged(node, step)
            node.known_arranged[step] = found
        return node.known_arranged[step]

    @classmethod
    def _made(cls, node: Expression, step: Step) -> Expression:
        if isinstance(node, Leaf):
            return _arranged_leaf(node, step)
        if isinstance(node, Constant):
            return Constant(step(node.values), node.replaces)
        found = node.arranged(step) if node.secret else None
        return rearranged(node, (step,)) if found is None else found

    def arranged(self, step: Step) -> Expression:
        return rearranged(self.children[0], (*self.steps, step))

    def _transpose(self) -> Expression:
        return rearranged(self.children[0], (*self.steps, Step("transpose", (1, 0))))

    @property
    def parameters(self) -> dict[str, Any]:
        return {"steps": steps_to_json(self.steps)}

    @property
    def identity(self) -> Hashable:
        return self.steps

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        found = parts[0]
        for step in self.steps:
            found = step(found)
        return np.array(found, dtype=np.float64, order="C")

    def as_column(self, parts: Sequence[Expression]) -> Expression:
        (part,), before, after = parts, self.children[0].shape, self.shape
        steps = list(self.steps)
        if part.shape != before:
            steps.insert(0, Step("reshape", before))
        if len(after) != 2:
            steps.append(Step("reshape", column_shape(after)))
        return rearranged(part, steps)

    def gain(self, position: int) -> float:
        return 1.0

    def log_unit(self, parts: Sequence[float]) -> float:
        return parts[0]

    def axes(self, parts: Sequence[tuple[str, str]], join: Callable[[str, str], None]) -> None:
        return None  # they are axes of their own

    @property
    def holds_nothing(self) -> bool:
        """Whether no entry of the child is left, but zeros alone."""
        if not any(step.fills for step in self.steps):
            return False
        there = np.broadcast_to(np.True_, self.children[0].shape)
        for step in self.steps:
            there = step(there, False)
        return not there.any()

    def index(self) -> NDArray[np.int64]:
        """Return, for every entry, the flat index of its entry in the child; `EMPTY` for a zero."""
        before = self.children[0].shape
        places = np.arange(math.prod(before), dtype=np.int64).reshape(before)
        for step in self.steps:
            places = step(places, EMPTY)
        return np.ascontiguousarray(places)

    def text(self, parts: Sequence[str]) -> str:
        (child,) = self.wrapped(parts)
        return child + "".join(step.text for step in self.steps)

    @property
    def title(self) -> str:
        return f"arrangement {shape_text(self.children[0].shape)} to {shape_text(self.shape)}"


def rearranged(x: Expression, steps: Sequence[Step]) -> Expression:
    """A computed node, arranged; itself where nothing moves, and zeros where nothing is left of it."""
    found = simplified(steps, x.shape)
    if not found:
        return x
    node = Arrange(x, found)
    return Constant(np.zeros(node.shape), operands_of(x)) if node.holds_nothing else node


def _arranged_leaf(leaf: Leaf, step: Step) -> Expression:
    steps = leaf.steps
    if not leaf.transposed:
        return viewed(leaf.name, leaf.operand, False, (*steps, step))
    mirrored = step.transposed()
    if mirrored is not None:
        return viewed(leaf.name, leaf.operand, True, (*steps, mirrored))
    return viewed(leaf.name, leaf.operand, False, (*steps, Step("transpose", (1, 0)), step))
