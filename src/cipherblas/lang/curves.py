"""Functions of one number that take several nodes: what an error of the number does to the whole of them.

A composition of steep polynomials times its argument, such as `relu`, is not steep: errors that are followed node by
node are multiplied by the largest slope of each, which the curve as a whole never has.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.lang.nodes import Expression, operation, ordered
from cipherblas.lang.operands import BOUND_RANGE
from cipherblas.lang.operations import Constant, Multiply
from cipherblas.lang.polynomials import Polynomial

GATED = "gated"
BEYOND = 2.0**-7  # of the bound of an argument, that errors may take it beyond
# Points at which a polynomial of degree d is looked at: at m zeros of T_m it comes within 1/cos(πd/2m) of its largest
# value (Ehlich and Zeller 1964).
MIN_POINTS, POINTS_PER_DEGREE = 1 << 14, 4
MAX_POINTS = 1 << 20
Array = NDArray[np.float64]
Row = tuple[Hashable, ...]  # a node of a curve: what it does, and to which ones before it


@operation
class Gated(Multiply):
    """x·g, g being computed of x alone: a function f of every entry of x, but for an error.

    Args:
        x, factor: its factors.
        error: no value differs from f by more, for entries of x within their bound.
        slope: f changes by at most so much, per change of an entry.
        name: of f.
    """

    op = GATED
    fields: ClassVar = {
        "error": schema.number(0.0, BOUND_RANGE[1]),
        "slope": schema.number(0.0, BOUND_RANGE[1]),
        "name": schema.plain_text,
    }

    sheds = True  # nothing of the factor: what it is off is stated

    def __init__(
        self, x: Expression, factor: Expression, error: float = 0.0, slope: float = 0.0, name: str = GATED
    ) -> None:
        self.error, self.slope, self.function = float(error), float(slope), name
        super().__init__(x, factor)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"error": self.error, "slope": self.slope, "name": self.function}

    def _transpose(self) -> Expression:
        return self.rebuilt((self.left.T, self.right.T))

    def steepness(self, position: int) -> float:
        """The steepness of f: its error already counts that of the factor."""
        return 0.0 if position else self.slope

    def text(self, parts: Sequence[str]) -> str:
        return f"{self.function}({parts[0]})"

    @property
    def title(self) -> str:
        return f"{self.function}: {super().title}"


class Curve(NamedTuple):
    """Facts about the nodes between the argument of a function of one number and its value.

    Attributes:
        slopes: by the id of a node: what it changes by at most, per change of the argument, which exceeds its bound by
            no more than `BEYOND` of it.
    """

    slopes: Mapping[int, float]


def curve_of(node: Gated) -> Curve | None:
    """None where some node is none of a single number, or the degree of the whole is too high to be looked at."""
    x = node.left
    places = {id(x): 0}
    rows: list[Row] = []
    for current in ordered(node):
        if current is x or not any(id(child) in places for child in current.children):
            continue
        row = _row(current, places)
        if row is None:
            return None
        places[id(current)] = len(places)
        rows.append(row)
    found = _slopes(tuple(rows), x.bound * (1 + BEYOND))
    if found is None:
        return None
    return Curve({key: found[place] for key, place in places.items()})


def _row(node: Expression, places: Mapping[int, int]) -> Row | None:
    """The formula of a node by those before it; None where its entries are not of single numbers."""
    known = [places.get(id(child)) for child in node.children]
    if isinstance(node, Polynomial):
        return "polynomial", known[0], node.coefficients, node.reach
    if node.op == "scale":
        return "scale", known[0], node.parameters["factor"]
    if node.op in ("assume", "truncated", "refresh"):
        return "scale", known[0], 1.0
    if node.op not in ("add", "multiply", GATED):
        return None
    kind = "add" if node.op == "add" else "multiply"
    if None not in known:
        return kind, *known
    (other,) = (child for child, place in zip(node.children, known, strict=True) if place is None)
    place = next(place for place in known if place is not None)
    if not isinstance(other, Constant) or np.ptp(other.values):
        return None
    number = float(other.values.flat[0])
    return ("scale", place, number) if kind == "multiply" else ("shift", place, number)


@functools.lru_cache(maxsize=256)
def _slopes(rows: tuple[Row, ...], reach: float) -> tuple[float, ...] | None:
    """Of the argument, and of each row, largest slopes for arguments in [-reach, reach]."""
    degrees = [1]
    for kind, *of in rows:
        degrees.append(_degree(kind, of, degrees))
    points = max(MIN_POINTS, POINTS_PER_DEGREE * max(degrees))
    if points > MAX_POINTS:
        return None
    x = reach * np.cos((2 * np.arange(points) + 1) * math.pi / (2 * points))
    values, slopes = [x], [np.ones(points)]
    for kind, *of in rows:
        value, slope = _step(kind, of, values, slopes)
        values.append(value)
        slopes.append(slope)
    above = [1 / math.cos(degree * math.pi / (2 * points)) for degree in degrees]
    found = tuple(float(np.abs(slope).max()) * more for slope, more in zip(slopes, above, strict=True))
    return found if all(map(math.isfinite, found)) else None


def _degree(kind: Any, of: Sequence[Any], degrees: Sequence[int]) -> int:
    first: int = degrees[of[0]]
    if kind == "polynomial":
        power: int = len(of[1]) - 1
        return power * first
    other: int = degrees[of[1]] if kind in ("multiply", "add") else 0
    return first + other if kind == "multiply" else max(first, other)


def _step(
    kind: Any, of: Sequence[Any], values: Sequence[Array], slopes: Sequence[Array]
) -> tuple[Array, Array]:
    """Values and slopes of a row, of those before it."""
    value, slope = values[of[0]], slopes[of[0]]
    if kind == "polynomial":
        coefficients, reach = np.asarray(of[1]), of[2]
        with np.errstate(over="ignore", invalid="ignore"):
            return (
                np.asarray(chebyshev.chebval(value / reach, coefficients)),
                np.asarray(chebyshev.chebval(value / reach, chebyshev.chebder(coefficients)) * slope / reach),
            )
    if kind == "scale":
        return value * of[1], slope * of[1]
    if kind == "shift":
        return value + of[1], slope
    other, others = values[of[1]], slopes[of[1]]
    if kind == "add":
        return value + other, slope + others
    return value * other, slope * other + value * others
