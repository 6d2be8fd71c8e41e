"""Computed matrices beside one another as one value, and parts of one: what is done to them is done once for all.

`concatenate` and slices are pushed towards the operands, so that each part is computed alone. A value that is joined
here stays one: twelve small matrices that share ciphertexts are refreshed, and go through a polynomial, together. By
rows, joins and parts are free where they are rows of encryptions: along the columns of a matrix that is encrypted by
columns.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import DTypeError, ParameterError, ShapeError
from cipherblas.lang.arguments import axis_of, node_of
from cipherblas.lang.arrangements import Arrange
from cipherblas.lang.array_functions import concatenate
from cipherblas.lang.bounds import is_known, moved, of_entries, of_joined
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression, matrix_shape, operation, ordered
from cipherblas.lang.steps import Step

__all__ = ["joined", "split"]

JOINED, PART = "joined", "part"
MAX_PARTS = 1024
MAX_LENGTH = 1 << 31


class _Moved(Expression):
    """Entries as they were, at other places; rows and columns are axes of their own."""

    axis: int

    def gain(self, position: int) -> float:
        return 1.0

    def log_unit(self, parts: Sequence[float]) -> float:
        return max(parts)

    def axes(self, parts: Sequence[tuple[str, str]], join: Callable[[str, str], None]) -> None:
        return None


@operation
class Joined(_Moved):
    """Computed matrices one after another along an axis, as one value."""

    op = JOINED
    most_inputs = MAX_PARTS
    fields: ClassVar = {"axis": schema.integer(0, 1)}

    def __init__(self, *children: Expression, axis: int) -> None:
        self.axis = axis
        if not 1 <= len(children) <= MAX_PARTS:
            raise ParameterError(
                "The number of joined matrices is out of range.",
                got=len(children),
                advice=f"a list of 1 to {MAX_PARTS} matrices",
            )
        shapes = [matrix_shape(child) for child in children]
        if len({shape[1 - axis] for shape in shapes}) > 1:
            raise ShapeError(
                "Matrices that are joined need equal lengths along the other axis.",
                got=", ".join(map(shape_text, shapes)),
                advice=f"matrices of one {'height' if axis else 'width'}",
            )
        if not all(child.secret and not child.packable for child in children):
            raise ParameterError(
                "Only computed matrices are joined to one value; `concatenate` takes operands and constants.",
                got=", ".join(child.title for child in children if not child.secret or child.packable),
                advice=f"cb.concatenate(parts, axis={axis})",
            )
        shape = list(shapes[0])
        shape[axis] = sum(one[axis] for one in shapes)
        super().__init__((shape[0], shape[1]), True, max(child.bound for child in children), *children)
        self._bounds = of_joined(children, axis)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"axis": self.axis}

    def _transpose(self) -> Expression:
        return Joined(*(child.T for child in self.children), axis=1 - self.axis)

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.concatenate(parts, axis=self.axis)

    def text(self, parts: Sequence[str]) -> str:
        return f"{JOINED}([{', '.join(parts)}], axis={self.axis})"

    @property
    def title(self) -> str:
        return f"{len(self.children)} matrices as one {shape_text(self.shape)}"


@operation
class Part(_Moved):
    """Rows, or columns, of a computed matrix, which is computed as a whole."""

    op = PART
    fields: ClassVar = {
        "axis": schema.integer(0, 1),
        "start": schema.integer(0, MAX_LENGTH),
        "stop": schema.integer(1, MAX_LENGTH),
    }

    def __init__(self, x: Expression, axis: int, start: int, stop: int) -> None:
        self.x, self.axis, self.start, self.stop = x, axis, start, stop
        shape = list(matrix_shape(x))
        if not 0 <= start < stop <= shape[axis]:
            raise ShapeError(
                "A part must be of rows or columns that there are.",
                expected=f"a range within {shape[axis]}",
                got=f"{start} to {stop}",
            )
        if not x.secret or x.packable:
            raise ParameterError(
                "Only a computed matrix has parts of its own; operands are sliced.",
                got=x.title,
            )
        shape[axis] = stop - start
        super().__init__((shape[0], shape[1]), True, x.bound, x)
        whole = [(0, length, 1) for length in x.shape]
        whole[axis] = (start, stop, 1)
        if is_known(x):
            self._bounds = moved(of_entries(x), [Step("slice", tuple(whole))], x.bound)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"axis": self.axis, "start": self.start, "stop": self.stop}

    def _transpose(self) -> Expression:
        return Part(self.x.T, 1 - self.axis, self.start, self.stop)

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        own = slice(self.start, self.stop)
        return parts[0][own] if self.axis == 0 else parts[0][:, own]

    def text(self, parts: Sequence[str]) -> str:
        own = f"{self.start}:{self.stop}"
        return f"{self.wrapped(parts)[0]}[{own if self.axis == 0 else ':, ' + own}]"

    @property
    def title(self) -> str:
        what = ("rows", "columns")[self.axis]
        return f"{what} {self.start} to {self.stop} of {shape_text(self.x.shape)}"


def joined(parts: Sequence[Expression], axis: int = 0) -> Expression:
    """Return `np.concatenate` of computed matrices as one value: later operations are computed once for all of them.

    Beside `concatenate`, which computes every part alone, this saves refreshes and entrywise operations where matrices
    are small beside a ciphertext. Take parts out again by `split`.

    Levels: none. Keys: none if the parts are already encrypted in the needed orientation (by columns for axis 1, by
    rows for axis 0); else those of a transposition. Such programs have products by GEMM. Integers modulo t are joined
    as by `concatenate`.

    Args:
        parts: secret matrices that are computed, of equal lengths along the other axis.

    Raises:
        DTypeError: a part is no node of the program. ShapeError: lengths differ, or there is no such axis.
        ParameterError: no parts or too many; an operand or a constant.
    """
    nodes = [node_of(part, "Each part that is joined") for part in parts]
    if nodes and nodes[0].modulus is not None:  # which no product by GEMM computes
        return concatenate(nodes, axis_of(axis, 2))
    return Joined(*nodes, axis=axis_of(axis, 2))


def split(x: Expression, sections: int | Sequence[int], axis: int = 0) -> list[Expression]:
    """Return `np.split` of a matrix that is computed as one value: its operations are computed once for all parts.

    Beside slices, which compute every part alone, this saves products with parts of one matrix. Operands are sliced
    by the client. Levels: none. Keys: see `joined`.

    Args:
        sections: a number of equal parts, or the indices at which the matrix is cut.

    Raises:
        DTypeError: no node of the program, or no such sections. ShapeError: no matrix, or it cannot be cut so.
    """
    shape = matrix_shape(node_of(x, "What is split"))
    axis = axis_of(axis, 2)
    length = shape[axis]
    try:
        cuts = [operator.index(sections)] if not isinstance(sections, Sequence) else None
        inner = [] if cuts is not None else [operator.index(one) for one in sections]  # type: ignore[union-attr]
    except TypeError:
        raise DTypeError(
            "A matrix is split in a number of parts, or at indices.",
            got=repr(sections),
            advice="an integer, or a list of integers",
        ) from None
    if cuts is not None:
        if cuts[0] < 1 or length % cuts[0]:
            raise ShapeError(
                f"{length} {'columns' if axis else 'rows'} cannot be split in {cuts[0]} equal parts.",
                advice=(f"a divisor of {length}", "a list of the indices at which parts begin"),
            )
        inner = list(range(length // cuts[0], length, length // cuts[0]))
    bounds = [0, *inner, length]
    if any(start >= stop for start, stop in itertools.pairwise(bounds)):
        raise ShapeError(
            "The indices at which a matrix is split must grow.",
            got=inner,
            advice=f"increasing indices from 1 to {length - 1}",
        )
    ranges = list(itertools.pairwise(bounds))
    if x.secret and not x.packable and x.modulus is None:
        return [x] if len(ranges) == 1 else [Part(x, axis, *one) for one in ranges]
    own = [[(0, shape[0], 1), (0, shape[1], 1)] for _ in ranges]
    for sides, (start, stop) in zip(own, ranges, strict=True):
        sides[axis] = (start, stop, 1)
    return [Arrange.of(x, Step("slice", tuple(sides))) for sides in own]


def without_joins(node: Expression) -> Expression:
    """The same program whose joined matrices are sums, as those of `concatenate`, and whose parts are slices."""
    if not facts_of(node).operations & {JOINED, PART}:
        return node
    made: dict[int, Expression] = {}
    for current in ordered(node):
        children = [made[id(child)] for child in current.children]
        found = current.rebuilt(children) if children else current
        if isinstance(current, Joined):
            found = concatenate(children, current.axis)
        elif isinstance(current, Part):
            whole = [(0, length, 1) for length in current.x.shape]
            whole[current.axis] = (current.start, current.stop, 1)
            found = Arrange.of(children[0], Step("slice", tuple(whole)))
        made[id(current)] = found
    return made[id(node)]
