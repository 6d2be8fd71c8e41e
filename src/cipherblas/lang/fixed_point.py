"""Real numbers in fixed point: a program of these as one of exact integers, each the multiple of a unit.

A secret operand that is declared with `fixed_point=f` is rounded to multiples of 2^-f, and everything else is exact.
The unit of a value is a fraction that is known before anything runs: products multiply units, a constant factor is
taken into the unit, and terms of a sum are multiplied by integers until they have one unit. Results are integers times
their units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import finite_array, shape_text
from cipherblas.common.errors import ParameterError, RangeError, ShapeError
from cipherblas.lang import graph
from cipherblas.lang.facts import facts_of
from cipherblas.lang.modular import COMPUTED
from cipherblas.lang.nodes import Expression
from cipherblas.lang.operands import CLEAR_BITS, Operand

MAX_DENOMINATOR = (
    1 << 20
)  # of factors that are taken for fractions: 1/3 is one, and not the double nearest to it
PLACED = ("arrange", "flatten")  # which keep units

Row = dict[str, Any]


def bits_of(operands: Mapping[str, Operand]) -> int | None:
    """The most bits that an operand has behind the point; None where none is in fixed point."""
    found = [one.fixed_point for one in operands.values() if one.fixed_point is not None]
    return max(found, default=None)


def in_integers(
    expression: Expression, operands: Mapping[str, Operand]
) -> tuple[Expression, dict[str, Operand], tuple[Fraction, ...]]:
    """A program of real numbers as one of exact integers, its operands, and the units of its results.

    Raises:
        ParameterError: a secret operand is neither in fixed point nor of whole numbers, or an operation is no sum and
            no product. RangeError: a constant is too large.
    """
    bits = bits_of(operands)
    assert bits is not None
    whole = {name: _in_integers(name, one, bits) for name, one in operands.items()}
    rewritten = _Rewritten(
        whole, {name: one.values for name, one in graph.constants(expression).items()}, bits
    )
    for node in facts_of(expression).order:
        if node.op not in COMPUTED:
            raise ParameterError(
                "Numbers in fixed point are added, subtracted and multiplied, and "
                f"{graph.formula(node)} is something else.",
                got=node.op,
                advice="cb.polynomial, or operands without fixed_point=…: real numbers have functions",
            )
    for row in graph.to_json(expression):
        rewritten.take(row)
    last, units = rewritten.places[-1], rewritten.results
    return graph.from_json(rewritten.rows[: last + 1], whole, rewritten.tensors), whole, tuple(units)


def _in_integers(name: str, operand: Operand, bits: int) -> Operand:
    """An operand as one of integers."""
    fixed = operand.fixed_point
    if fixed is None:
        if operand.whole:
            return replace(operand, exact=operand.secret)
        if operand.secret:
            raise ParameterError(
                "The secret operands of a program in fixed point are in fixed point, or of whole numbers.",
                got=f"{name!r}, of real numbers",
                advice=f"cb.secret(…, fixed_point={bits}) for {name!r}",
            )
        fixed = bits
    bound = max(1.0, math.ceil(operand.bound * 2.0**fixed))
    if not operand.secret and bound >= 2.0**CLEAR_BITS:
        raise RangeError(
            f"Clear operand {name!r} has more bits in fixed point than float64 holds.",
            expected=f"a bound below 2^{CLEAR_BITS - fixed}",
            got=f"{operand.bound:g}",
            advice="a smaller bound=…, or fewer bits",
        )
    return Operand(
        operand.shape, operand.secret, bound, True, operand.encryption, operand.secret, fixed_point=fixed
    )


class _Rewritten:
    """The rows of a graph of integers, made row by row of those of real numbers.

    Attributes:
        rows, tensors: of the graph.
        places, units: of each row that was taken, its row there, and the unit of its value.
        results: units of the results.
    """

    def __init__(
        self, operands: Mapping[str, Operand], constants: Mapping[str, NDArray[Any]], bits: int
    ) -> None:
        self._operands, self._constants, self._bits = operands, constants, bits
        self.rows: list[Row] = []
        self.tensors: dict[str, NDArray[Any]] = {}
        self.places: list[int] = []
        self.units: list[Fraction] = []
        self.results: list[Fraction] = []

    def take(self, row: Mapping[str, Any]) -> None:
        """Take the next row."""
        of: Sequence[int] = row.get("of", ())
        places, units = [self.places[one] for one in of], [self.units[one] for one in of]
        op = row["op"]
        if op in ("operand", "view"):
            place, unit = self._row(row), self._unit_of(row["name"])
        elif op == "constant":
            place, unit = self._constant(row)
        elif op == "scale" and row["factor"]:
            place, unit = places[0], units[0] * _fraction(row["factor"])
        elif op == "add":
            unit = _common(units)
            scaled = [self._times(one, own / unit) for one, own in zip(places, units, strict=True)]
            place = self._row({**row, "of": scaled})
        elif op in ("matmul", "multiply", "conv2d"):
            place, unit = self._row({**row, "of": places}), math.prod(units, start=Fraction(1))
        elif op == "avg_pool2d":
            divisor = row.get("divisor", math.prod(row["kernel"]))
            place, unit = self._row({**row, "divisor": 1, "of": places}), units[0] / divisor
        else:  # entries at other places, results, zero times a value
            place, unit = self._row({**row, "of": places}), units[0]
        self.places.append(place)
        self.units.append(unit)
        self.results = list(units) if op == "results" else [unit]

    def _row(self, row: Mapping[str, Any]) -> int:
        self.rows.append(dict(row))
        return len(self.rows) - 1

    def _times(self, place: int, factor: Fraction) -> int:
        """A value times an integer."""
        assert factor.denominator == 1
        for piece in _pieces(factor.numerator):
            place = self._row({"op": "scale", "factor": float(piece), "of": [place]})
        return place

    def _unit_of(self, name: str) -> Fraction:
        return Fraction(1, 1 << (self._operands[name].fixed_point or 0))

    def _constant(self, row: Mapping[str, Any]) -> tuple[int, Fraction]:
        """A constant, rounded to as many bits behind the point as operands have."""
        values = self._constants[row["name"]]
        bits = next((n for n in range(self._bits) if _is_whole(values * 2.0**n)), self._bits)
        name = f"constant{len(self.rows)}"
        self.tensors[name] = np.rint(values * 2.0**bits)
        return self._row({**row, "name": name}), Fraction(1, 1 << bits)


def _pieces(number: int) -> list[int]:
    """Integers that float64 holds, whose product is a number; nothing of 1.

    Raises:
        RangeError: it has a factor that is larger, and no double.
    """
    twos = (number & -number).bit_length() - 1
    found, rest = (
        [1 << min(CLEAR_BITS - 1, twos - done) for done in range(0, twos, CLEAR_BITS - 1)],
        number >> twos,
    )
    for prime in (one for one in range(3, MAX_DENOMINATOR, 2)):
        while abs(rest) >= 1 << CLEAR_BITS and rest % prime == 0:
            found.append(prime)
            rest //= prime
        if abs(rest) < 1 << CLEAR_BITS:
            break
    if abs(rest) >= 1 << CLEAR_BITS:
        raise RangeError(
            "Terms of a sum in fixed point have units of which no float64 is the ratio.",
            expected=f"a number below 2^{CLEAR_BITS}",
            got=f"one of {rest.bit_length()} bits",
            advice="factors that are simple fractions, as 1/3 or 0.1, or fewer bits behind the point",
        )
    return found if rest == 1 else [*found, rest]


def _is_whole(values: NDArray[Any]) -> bool:
    return bool((np.rint(values) == values).all())


def _fraction(factor: float) -> Fraction:
    """A factor as the simplest fraction that is this double, where there is one."""
    found = Fraction(factor).limit_denominator(MAX_DENOMINATOR)
    return found if float(found) == factor else Fraction(factor)


def _common(units: Sequence[Fraction]) -> Fraction:
    """The largest unit that all are multiples of."""
    numerators = [
        one.numerator * math.prod(other.denominator for other in units) // one.denominator for one in units
    ]
    return Fraction(math.gcd(*numerators), math.prod(one.denominator for one in units))


def fixed_numbers(values: object, name: str, operand: Operand) -> NDArray[Any]:
    """An array of real numbers as integers in units of 2^-f, the nearest ones: int64, or Python's integers; it names no
    entry.

    Raises:
        DTypeError, ShapeError, RangeError: not real numbers of the operand's shape within its bound.
    """
    assert operand.fixed_point is not None
    array = finite_array(values, f"operand {name!r}", (len(operand.shape),))
    if array.shape != operand.shape:
        raise ShapeError(
            f"Operand {name!r} has another shape than it was declared with.",
            expected=shape_text(operand.shape),
            got=shape_text(array.shape),
            advice="an array of the declared shape",
        )
    scaled = np.rint(array * 2.0**operand.fixed_point)
    if max(float(scaled.max()), -float(scaled.min())) > operand.bound:
        real = operand.bound / 2.0**operand.fixed_point
        raise RangeError(
            f"Operand {name!r} has an entry beyond the planned range, which is {real:g} in absolute value.",
            advice=(
                "bound=… where the operand is declared, the largest absolute value that an entry may have",
                f"np.clip({name}, {-real:g}, {real:g}) in place of {name}",
            ),
        )
    if operand.bound < 2.0**62:
        return np.asarray(scaled).astype(np.int64)
    whole: Callable[..., Any] = np.vectorize(int, otypes=[object])
    return np.asarray(whole(scaled))


def real_numbers(values: NDArray[Any], unit: Fraction) -> NDArray[np.float64]:
    """Integers in a unit as the nearest doubles."""
    each: Callable[..., Any] = np.vectorize(lambda one: float(int(one) * unit), otypes=[np.float64])
    return np.asarray(each(values))
