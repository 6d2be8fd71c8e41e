"""Steps that put the entries of an array at other places: slices, reshapes, zeros around, repetitions, diagonals."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import ShapeError
from cipherblas.lang.operands import MAX_LENGTH

MAX_DIMENSIONS = 4
MAX_STEPS = 64  # one after the other
MAX_INDICES = 1 << 16  # that `take` names
MAX_ENTRIES = 1 << 28  # of what has more entries than before
MAX_SHOWN = 6  # of these indices, to people
EMPTY = -1  # the index of an entry that is zero
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One step of an arrangement: a kind and its arguments, integers in nested tuples.

    | kind | arguments |
    |---|---|
    | slice | (start, stop, step) for each axis; stop -1 with a negative step: to the first entry |
    | take | axis, and the index of each entry along it |
    | pad | (zeros before, zeros after) for each axis |
    | reshape | the new shape |
    | broadcast | the new shape; axes of one entry are repeated |
    | transpose | the order of the axes |
    | diagonal | offset |
    """

    kind: str
    arguments: tuple[Any, ...]

    def __call__(self, array: NDArray[Any], fill: Any = 0) -> NDArray[Any]:
        """The arranged array; new entries are `fill`."""
        return _KINDS[self.kind](array, fill, *self.arguments)

    def out_shape(self, shape: Shape) -> Shape:
        """The shape that it makes of one.

        Raises:
            ShapeError: it does not fit.
        """
        try:
            found: Shape = tuple(map(operator.index, _SHAPES[self.kind](shape, *self.arguments)))
        except (ValueError, IndexError, TypeError) as error:
            raise ShapeError(
                f"The arrangement {self.kind!r} does not fit an array of {shape_text(shape)} entries.",
                got=str(error),
                advice=_FITTING.get(self.kind, "one that fits"),
            ) from None
        most = max(MAX_ENTRIES, math.prod(shape))
        if min(found, default=1) < 1 or len(found) > MAX_DIMENSIONS or math.prod(found) > most:
            raise ShapeError(
                "An arrangement must leave at least one entry and not too many.",
                got=shape_text(found),
                advice=f"1 to {most} entries along at most {MAX_DIMENSIONS} axes",
            )
        return found

    def repeats(self, shape: Shape, repeated: Sequence[bool]) -> tuple[bool, ...]:
        """Along which axes of what it makes all entries are equal.

        Args:
            repeated: along which axes they are in an array of a shape.
        """
        found = _REPEATS[self.kind](shape, repeated, *self.arguments)
        return tuple(one or length == 1 for one, length in zip(found, self.out_shape(shape), strict=True))

    @property
    def fills(self) -> bool:
        """Whether it makes entries that are zero."""
        return self.kind == "pad"

    def keeps(self, shape: Shape) -> bool:
        """Whether it leaves arrays of a shape as they are."""
        if self.kind == "slice":
            return all(one == (0, length, 1) for one, length in zip(self.arguments, shape, strict=True))
        if self.kind == "pad":
            return not any(map(any, self.arguments))
        if self.kind == "transpose":
            return self.arguments == tuple(range(len(shape)))
        return self.kind in ("reshape", "broadcast") and self.arguments == shape

    @property
    def text(self) -> str:
        """For people."""
        if self.kind == "slice":
            return f"[{', '.join(_slice_text(*one) for one in self.arguments)}]"
        if self.kind == "take":
            axis, indices = self.arguments
            shown = ", ".join(map(str, indices[:MAX_SHOWN])) + (", …" if len(indices) > MAX_SHOWN else "")
            return f".take([{shown}], axis={axis})"
        return f".{self.kind}({', '.join(map(str, self.arguments))})"

    def transposed(self, twice: bool = False) -> Step | None:
        """The step s' with s(x.T) = s'(x).T of a matrix, if there is one of its kind."""
        if self.kind in ("slice", "pad") and len(self.arguments) == 2:
            return Step(self.kind, self.arguments[::-1])
        if self.kind == "take":
            return Step(self.kind, (1 - self.arguments[0], self.arguments[1]))
        return None


def _slice_text(start: int, stop: int, step: int) -> str:
    end = "" if stop < 0 else str(stop)
    return f"{start}:{end}" + (f":{step}" if step != 1 else "")


def _range(start: int, stop: int, step: int) -> range:
    return range(start, -1 if stop < 0 else stop, step)


def _slice_shape(shape: Shape, *ranges: tuple[int, int, int]) -> Iterator[int]:
    for (start, stop, step), length in zip(ranges, shape, strict=True):
        if not (0 <= start < length and -1 <= stop <= length):
            raise ValueError(f"a range from {start} to {stop} of {length} entries")
        yield len(_range(start, stop, step))


def _take_shape(shape: Shape, axis: int, indices: Sequence[int]) -> Shape:
    if not (0 <= axis < len(shape) and min(indices) >= 0 and max(indices) < shape[axis]):
        raise ValueError("an index beyond the axis")
    return *shape[:axis], len(indices), *shape[axis + 1 :]


def _pad_shape(shape: Shape, *sides: tuple[int, int]) -> Iterator[int]:
    for (before, after), length in zip(sides, shape, strict=True):
        if min(before, after) < 0:
            raise ValueError("a negative number of zeros")
        yield before + length + after


def _reshape_shape(shape: Shape, *after: int) -> Shape:
    if math.prod(after) != math.prod(shape) or min(after, default=1) < 1:
        raise ValueError(f"{shape_text(after)} has another number of entries")
    return after


def _broadcast_shape(shape: Shape, *after: int) -> Shape:
    added = len(after) - len(shape)
    if added < 0 or any(one not in (1, new) for one, new in zip(shape, after[added:], strict=True)):
        raise ValueError(f"no broadcast makes {shape_text(after)} of it")
    return after


def _transpose_shape(shape: Shape, *axes: int) -> Shape:
    if sorted(axes) != list(range(len(shape))):
        raise ValueError("not an order of its axes")
    return tuple(shape[axis] for axis in axes)


def _diagonal_shape(shape: Shape, offset: int) -> Shape:
    rows, cols = shape
    return (min(rows + min(offset, 0), cols - max(offset, 0)),)


_SHAPES: dict[str, Callable[..., Iterable[int]]] = {
    "slice": _slice_shape,
    "take": _take_shape,
    "pad": _pad_shape,
    "reshape": _reshape_shape,
    "broadcast": _broadcast_shape,
    "transpose": _transpose_shape,
    "diagonal": _diagonal_shape,
}
# (array, value of new entries, arguments) → array.
_KINDS: dict[str, Callable[..., NDArray[Any]]] = {
    "slice": lambda array, fill, *ranges: array[
        tuple(slice(a, None if b < 0 else b, s) for a, b, s in ranges)
    ],
    "take": lambda array, fill, axis, indices: np.take(array, np.asarray(indices, dtype=np.int64), axis=axis),
    "pad": lambda array, fill, *sides: np.pad(array, sides, constant_values=fill),
    "reshape": lambda array, fill, *shape: array.reshape(shape),
    "broadcast": lambda array, fill, *shape: np.broadcast_to(array, shape),
    "transpose": lambda array, fill, *axes: array.transpose(axes),
    "diagonal": lambda array, fill, offset: np.diagonal(array, offset),
}


def _reshaped(shape: Shape, repeated: Sequence[bool], *after: int) -> Iterator[bool]:
    """Axes of one entry come and go; of other new axes nothing is known, unless all entries are equal."""
    longer = [(length, one) for length, one in zip(shape, repeated, strict=True) if length > 1]
    if [length for length, _ in longer] != [length for length in after if length > 1]:
        longer = [(length, all(repeated)) for length in after if length > 1]
    flags = (one for _, one in longer)
    return (length == 1 or next(flags) for length in after)


# (shape, along which axes all entries are equal, arguments) → the same of the array that is made.
_REPEATS: dict[str, Callable[..., Iterable[bool]]] = {
    "slice": lambda shape, repeated, *ranges: repeated,
    "take": lambda shape, repeated, axis, indices: [
        one or (number == axis and len(set(indices)) == 1) for number, one in enumerate(repeated)
    ],
    "pad": lambda shape, repeated, *sides: [
        one and not any(zeros) for one, zeros in zip(repeated, sides, strict=True)
    ],
    "reshape": _reshaped,
    "broadcast": lambda shape, repeated, *after: [True] * (len(after) - len(shape)) + list(repeated),
    "transpose": lambda shape, repeated, *axes: [repeated[axis] for axis in axes],
    "diagonal": lambda shape, repeated, offset: [all(repeated)],
}

# What to write in place of one that does not fit, where users can ask for one.
_FITTING = {
    "broadcast": "a shape that ends with the lengths of the array; those of 1 may be others",
    "diagonal": "an offset between minus the number of rows and the number of columns",
}


# ---- in files ----

_NUMBER = schema.integer(-MAX_LENGTH, MAX_LENGTH)
_NUMBERS = schema.listed(_NUMBER, 0, MAX_INDICES)
_STEP = schema.pair(
    schema.one_of(*_KINDS), schema.listed(schema.either(_NUMBERS, _NUMBER), 0, MAX_DIMENSIONS)
)
STEPS = schema.listed(_STEP, 1, MAX_STEPS)


def steps_to_json(steps: Sequence[Step]) -> list[Any]:
    def listed(value: Any) -> Any:
        return [listed(one) for one in value] if isinstance(value, tuple) else value

    return [[step.kind, listed(step.arguments)] for step in steps]


def steps_from_json(rows: Sequence[Any]) -> tuple[Step, ...]:
    def tupled(value: Any) -> Any:
        return tuple(tupled(one) for one in value) if isinstance(value, (list, tuple)) else value

    return tuple(row if isinstance(row, Step) else Step(row[0], tupled(row[1])) for row in rows)


def simplified(steps: Sequence[Step], shape: Shape) -> tuple[Step, ...]:
    """The same without steps that change nothing, and those that the next one makes superfluous. What is simple stays
    as it is: a file holds it, and reads the same again."""
    kept: list[tuple[Step, Shape]] = []  # with the shape before
    current = shape
    for step in steps:
        while kept and (both := _merged(kept[-1][0], step)) is not None:
            step, current = both, kept.pop()[1]
        after = step.out_shape(current)
        if not step.keeps(current):
            kept.append((step, current))
            current = after
    return tuple(step for step, _ in kept)


def _merged(first: Step, second: Step) -> Step | None:
    """Two steps as one; None where it takes both."""
    if first.kind == second.kind == "reshape":
        return second
    if first.kind == second.kind == "transpose" and len(first.arguments) == len(second.arguments):
        return Step("transpose", tuple(first.arguments[axis] for axis in second.arguments))
    return None
