"""Where a run gets its operands from."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.slots.values import Plain
from cipherblas.forms.blocks import block_of
from cipherblas.forms.layouts import Layout
from cipherblas.lang.analysis import evaluate_clear, is_constant
from cipherblas.lang.graph import content_digest
from cipherblas.lang.nodes import Expression
from cipherblas.runtime.values import Handles, Input

T = TypeVar("T")


class _Run:
    """In the keys of values that change from run to run. Its text does not: equal runs round alike (`dither`)."""

    def __repr__(self) -> str:
        return "run"


class _Doubles(Mapping[str, NDArray[np.float64]]):
    """Clear operands in float64, each converted when it is first asked for."""

    def __init__(self, given: Mapping[str, NDArray[Any]]) -> None:
        self._given = given
        self._made: dict[str, NDArray[np.float64]] = {}

    def __getitem__(self, name: str) -> NDArray[np.float64]:
        if name not in self._made:
            self._made[name] = self._given[name].astype(np.float64, copy=False)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


class Inputs(ABC):
    """Secret operands, and the values of parts of a program without secrets.

    Args:
        clear: name → array of each public operand.
    """

    def __init__(self, clear: Mapping[str, NDArray[Any]]) -> None:
        self._clear = clear
        self.run = _Run()
        self._doubles = _Doubles(clear)
        self._found: dict[tuple[int, bool], tuple[Expression, NDArray[Any]]] = {}
        self._kept: dict[Hashable, Any] = {}
        self._constants: dict[int, str] = {}
        self._numbers: dict[int, tuple[Expression, int]] = {}  # of parts with operands, as they are asked for

    @abstractmethod
    def secret(self, wanted: Input, bound: float, evaluators: Evaluators) -> list[list[Handles]]:
        """The encrypted blocks or pieces of a secret operand, in its unit; no slot or entry exceeds `bound`."""

    def values(self, node: Expression) -> NDArray[np.float64]:
        """Return the values of a part without secrets, C-contiguous. They are computed once, and converted once per
        operand."""
        return self._once(node, narrow=False)

    def given(self, node: Expression) -> NDArray[Any]:
        """The same, of an operand in the type and the order in memory that it was given in, so that large ones need no
        copy: for what reads every entry once. Nothing may be computed in that type."""
        return self._once(node, narrow=node.operand is not None)

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return an object that is made once from the inputs of a run."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def _once(self, node: Expression, narrow: bool) -> NDArray[Any]:
        key = id(node), narrow
        if key not in self._found:
            found = self._evaluated(node, narrow)
            self._found[key] = node, found if narrow else np.asarray(found, order="C")
        return self._found[key][1]

    def _evaluated(self, node: Expression, narrow: bool) -> NDArray[Any]:
        return evaluate_clear(node, self._clear if narrow else self._doubles, narrow)

    def blocks(
        self, node: Expression, layout: Layout, grid: tuple[int, int], unit: float
    ) -> list[list[list[Plain]]]:
        """The packed blocks of a part without secrets, in this unit."""
        return [[self._block(node, layout, i, j, unit) for j in range(grid[1])] for i in range(grid[0])]

    def _block(self, node: Expression, layout: Layout, i: int, j: int, unit: float) -> list[Plain]:
        constant = is_constant(node)
        name = ("constant", self._content(node)) if constant else ("clear", self.run, self._number(node))

        def vector(index: int) -> NDArray[np.complex128]:
            cell = block_of(self.given(node), layout.rows, layout.cols, i, j)
            return layout.pack_one(cell, index, unit)

        bound = layout.slot_bound(node.bound / unit)
        return [
            Plain((name, layout.key, i, j, index), functools.partial(vector, index), bound, constant=constant)
            for index in range(layout.ciphertexts)
        ]

    def _number(self, node: Expression) -> int:
        return self._numbers.setdefault(id(node), (node, len(self._numbers)))[1]

    def filled(
        self, number: float, shape: tuple[int, int], layout: Layout, grid: tuple[int, int]
    ) -> list[list[list[Plain]]]:
        """The packed blocks of a matrix that holds one number. Blocks with as many rows and columns in it are
        one: there are four kinds at most. A matrix with other kinds shares none of them: where one stands for all,
        they are encoded together."""
        rows, cols = (
            _filled_lengths(*lengths) for lengths in zip(shape, (layout.rows, layout.cols), grid, strict=True)
        )
        key = "filled", number, tuple(sorted(set(rows))), tuple(sorted(set(cols)))
        kinds = {(r, c): _filled_block(number, layout, r, c, key) for r in set(rows) for c in set(cols)}
        return [[kinds[r, c] for c in cols] for r in rows]

    def _content(self, node: Expression) -> str:
        """A key of the values of a part without operands, the same in every run."""
        if id(node) not in self._constants:
            self._constants[id(node)] = content_digest(node)
        return self._constants[id(node)]


class SymbolicInputs(Inputs):
    """For a symbolic run: records what the client must send, and answers with handles without data."""

    def __init__(self) -> None:
        super().__init__({})
        self.wanted: dict[Any, Input] = {}

    def secret(self, wanted: Input, bound: float, evaluators: Evaluators) -> list[list[Handles]]:
        """Fresh handles."""
        self.wanted.setdefault(wanted.key, wanted)
        return fresh(wanted, bound, evaluators, None)

    def _evaluated(self, node: Expression, narrow: bool) -> NDArray[Any]:
        """Of constants their values, which keys of fixed weights are made from."""
        return super()._evaluated(node, narrow) if is_constant(node) else np.zeros(node.shape)

    def blocks(
        self, node: Expression, layout: Layout, grid: tuple[int, int], unit: float
    ) -> list[list[list[Plain]]]:
        """The first block, which stands for all."""
        rows, cols = grid
        first = self._block(node, layout, 0, 0, unit)
        for plain in first:
            plain.blocks = rows * cols
        return [[first] * cols] * rows

    def filled(
        self, number: float, shape: tuple[int, int], layout: Layout, grid: tuple[int, int]
    ) -> list[list[list[Plain]]]:
        """The first block, which stands for all."""
        found = super().filled(number, shape, layout, grid)
        kinds = {plain.key for row in found for block in row for plain in block[:1]}
        for plain in found[0][0]:
            plain.blocks = len(kinds)
        return [[found[0][0]] * grid[1]] * grid[0]


def _filled_lengths(length: int, block: int, count: int) -> list[int]:
    """How much of each block along an axis is in the matrix."""
    return [min(block, length - index * block) for index in range(count)]


def _filled_block(number: float, layout: Layout, rows: int, cols: int, key: Hashable) -> list[Plain]:
    """A block with a number in its first rows and columns, zero elsewhere; `key` is that of the matrix."""

    def vector(index: int) -> NDArray[np.complex128]:
        cell = np.zeros((layout.rows, layout.cols))
        cell[:rows, :cols] = number
        return layout.pack_one(cell, index)

    bound = layout.slot_bound(abs(number))
    return [
        Plain(
            *((key, rows, cols, layout.key, index), functools.partial(vector, index), bound),
            constant=True,
        )
        for index in range(layout.ciphertexts)
    ]


def fresh(wanted: Input, bound: float, evaluators: Evaluators, data: Any) -> list[list[Handles]]:
    """Handles on the ciphertexts of an operand.

    Args:
        data: an iterator over the evaluator's representation of each, block by block; None where there are none, and
            one block stands for all.
    """
    return wanted.form.fresh(evaluators, data, wanted.public_key, bound, wanted.basis, wanted.scale)
