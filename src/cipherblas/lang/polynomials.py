"""Polynomials of every entry, in the Chebyshev basis on an interval that the entries do not leave."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import ParameterError, RangeError
from cipherblas.lang.facts import operands_of
from cipherblas.lang.layers import Truncated
from cipherblas.lang.nodes import Expression, operation
from cipherblas.lang.operands import BOUND_RANGE, checked_bound
from cipherblas.lang.operations import Add, Constant, Multiply, Scale, arranged
from cipherblas.lang.steps import Step

MAX_DEGREE = 255
RANGE_TOLERANCE = 2.0**-40  # relative, by which rounding may make a bound exceed the interval
NODES_PER_DEGREE = (
    32  # at which a polynomial is looked at: its largest value exceeds theirs by 0.13 % at most
)
MAX_NAME_LENGTH = 40
SERIES_WIDTH = 8  # of the matrix by which a series is computed: for degrees of 30 to 255
SERIES_ENTRIES = 1 << 12  # at a time: what is made of them stays in fast memory
POLYNOMIAL = "polynomial"


@operation
class Polynomial(Expression):
    """p(x) = Σ_i c_i·T_i(x / reach) of every entry, T_i being Chebyshev polynomials.

    Entries of x must stay within [-reach, reach]: beyond, polynomials of high degrees grow without bound. That is
    checked by the bound of x.

    `error` is what the polynomial is known to be off a function by, `name` says which, and `slope` is what the function
    changes by at most, per change of an entry, where that is known.
    """

    op = POLYNOMIAL
    fields: ClassVar = {
        "coefficients": schema.listed(schema.number(), 2, MAX_DEGREE + 1),
        "reach": schema.number(*BOUND_RANGE),
        "error": schema.number(0.0, BOUND_RANGE[1]),
        "name": schema.plain_text,
    }
    optional: ClassVar = {"slope": schema.number(0.0, BOUND_RANGE[1])}
    sheds = True

    def __init__(
        self,
        x: Expression,
        coefficients: Sequence[float],
        reach: float,
        error: float = 0.0,
        name: str = POLYNOMIAL,
        slope: float | None = None,
    ) -> None:
        self.x, self.reach, self.error = x, checked_bound(float(reach)), float(error)
        self.slope = None if slope is None else float(slope)
        self.coefficients = tuple(float(value) for value in coefficients)
        self.function = name
        _check(self)
        if x.bound > self.reach * (1 + RANGE_TOLERANCE):
            raise RangeError(
                f"The argument of {name} could leave the interval that it is approximated on.",
                expected=f"a bound of at most {self.reach:g}",
                got=x.bound,
                advice=f"cb.assume(x, {self.reach:g}) in place of its argument x, where its entries stay below",
            )
        self._part = min(1.0, x.bound / self.reach)  # of the interval, that values can reach
        bound = largest_value(self.coefficients, min(1.0, x.utmost / self.reach))
        super().__init__(x.shape, x.secret, max(bound, BOUND_RANGE[0]), x)

    @property
    def degree(self) -> int:
        return len(self.coefficients) - 1

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "coefficients": list(self.coefficients),
            "reach": self.reach,
            "error": self.error,
            "name": self.function,
            **({} if self.slope is None else {"slope": self.slope}),
        }

    @property
    def at_zero(self) -> float:
        """p(0), what slots that hold no entry would become."""
        even = self.coefficients[::2]
        return float(sum(-value if index % 2 else value for index, value in enumerate(even)))

    @property
    def slope_at_zero(self) -> float:
        """By how much the polynomial multiplies an error of a zero."""
        slopes = chebyshev.chebder(np.asarray(self.coefficients))
        return abs(float(chebyshev.chebval(0.0, slopes))) / self.reach

    def _transpose(self) -> Expression:
        return self._of(self.x.T)

    def arranged(self, step: Step) -> Expression | None:
        """Of arranged entries, but where there are new ones: they are zero, and p(0) need not be."""
        return None if step.fills else self._of(arranged(self.x, step))

    def rebuilt(self, children: Sequence[Expression]) -> Expression:
        """With what it is known to stand for, of the new argument."""
        found = super().rebuilt(children)
        if self.written is not None and self.written.x is self.x:
            found.written = self.written._replace(x=children[0])
        return found

    def _of(self, x: Expression) -> Expression:
        node = Polynomial(x, self.coefficients, self.reach, self.error, self.function, self.slope)
        if self.written is not None:
            node.written = self.written._replace(x=x)
        return node

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return series_values(self.coefficients, parts[0] / self.reach)

    def gain(self, position: int) -> float:
        slopes = chebyshev.chebder(np.asarray(self.coefficients))
        return largest_value(tuple(map(float, slopes)), self._part) / self.reach

    def steepness(self, position: int) -> float:
        """Bound on the slope of the polynomial, and of the function where that is smaller: with x' for x, |p(x') -
        f(x)| is at most |p(x') - f(x')| + |f(x') - f(x)|."""
        return self.gain(position) if self.slope is None else min(self.gain(position), self.slope)

    def integral(self, parts: Sequence[bool]) -> bool:
        return False

    def log_unit(self, parts: Sequence[float]) -> float:
        return math.log2(self.bound)

    def shortened(self, error: float) -> Expression:
        """Without its smallest terms, as many as change the value by at most `error` together."""
        kept, dropped = list(self.coefficients), 0.0
        largest = max(range(1, len(kept)), key=lambda index: abs(kept[index]))
        for index in sorted(set(range(len(kept))) - {largest}, key=lambda index: abs(kept[index])):
            if dropped + abs(kept[index]) > error:
                break
            dropped += abs(kept[index])
            kept[index] = 0.0
        if dropped == 0:
            return self
        found = simplest(self.x, kept, self.reach, self.error + dropped, self.function, self.slope)
        if isinstance(found, Polynomial):
            found.written = self.written
        return found

    def text(self, parts: Sequence[str]) -> str:
        return f"{self.function}[{self.degree}]({parts[0]})"

    @property
    def title(self) -> str:
        return f"{self.function} of degree {self.degree} {shape_text(self.shape)}"


def series_values(coefficients: Sequence[float], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_i c_i·T_i(x) of every entry of an array, as `chebval` but faster: for y = T_m(x) it is a sum of T_k(y) times
    polynomials of degree m - 1, which are one product of matrices.

    Args:
        coefficients: c_0, c_1, …
        x: at most 1 in absolute value.
    """
    width = SERIES_WIDTH
    rows = -(-len(coefficients) // width)
    if rows < 2:
        return np.asarray(chebyshev.chebval(x, coefficients))
    parts = np.zeros((rows + 1, width))
    parts.reshape(-1)[: len(coefficients)] = coefficients
    for row in range(rows, 0, -1):  # T_{km + j} = 2·T_{km}·T_j - T_{km - j}
        parts[row - 1, 1:] -= parts[row, :0:-1]
        parts[row, 1:] *= 2
    given, found = x.reshape(-1), np.empty(x.size)
    space = np.empty((width + 5 + rows, min(x.size, SERIES_ENTRIES)))  # made once: fresh memory is slow
    for start in range(0, x.size, SERIES_ENTRIES):
        some = slice(start, start + SERIES_ENTRIES)
        own = space[:, : len(given[some])]
        powers, (twice, high, higher, sums), terms = (
            own[: width + 1],
            own[width + 1 : width + 5],
            own[width + 5 :],
        )
        powers[0], powers[1] = 1.0, given[some]
        np.multiply(powers[1], 2, out=twice)
        for number in range(2, width + 1):
            np.multiply(powers[number - 1], twice, out=powers[number])
            powers[number] -= powers[number - 2]
        np.matmul(parts[:rows], powers[:width], out=terms)
        np.multiply(powers[width], 2, out=twice)
        high[:], higher[:] = terms[-1], 0.0
        for term in terms[-2:0:-1]:  # Clenshaw's recurrence
            np.multiply(twice, high, out=sums)
            sums -= higher
            sums += term
            high, higher, sums = sums, high, higher
        np.multiply(powers[width], high, out=sums)
        sums -= higher
        np.add(sums, terms[0], out=found[some])
    return found.reshape(x.shape)


def _check(node: Polynomial) -> None:
    """Raise ParameterError or RangeError unless the fields of a polynomial fit together."""
    if not 1 <= node.degree <= MAX_DEGREE:
        raise ParameterError(
            "The degree of a polynomial is out of range.", expected=f"1 to {MAX_DEGREE}", got=node.degree
        )
    numbers = (*node.coefficients, node.error, node.slope or 0.0)
    if not all(map(math.isfinite, numbers)) or node.error < 0:
        raise RangeError(
            "The coefficients and the error of a polynomial must be finite.",
            advice="a function of smaller values, multiplied by a number afterwards",
        )
    if not any(node.coefficients[1:]):
        raise ParameterError(
            "A polynomial needs a term beside its constant.",
            advice="the number that the function is everywhere, in place of it",
        )
    if not (
        node.function.isascii() and node.function.isidentifier() and len(node.function) <= MAX_NAME_LENGTH
    ):
        raise ParameterError(
            "The name of a function must be a Python identifier.",
            got=repr(node.function),
            advice=f"an identifier of at most {MAX_NAME_LENGTH} letters",
        )


def simplest(
    x: Expression,
    coefficients: Sequence[float],
    reach: float,
    error: float = 0.0,
    name: str = POLYNOMIAL,
    slope: float | None = None,
) -> Expression:
    """The polynomial as a node, or as one of the same value that takes less: of degree 1, or with one product of x
    beside the linear term."""
    values = [float(value) for value in coefficients]
    while len(values) > 1 and values[-1] == 0:
        values.pop()
    if len(values) == 1:
        return Constant(np.full(x.shape, values[0]), operands_of(x))
    values += [0.0] * (4 - len(values))
    c0, c1, c2, c3 = values[:4]
    lone = len(values) == 4 and not (c2 and c3)
    if not lone or (name != POLYNOMIAL and (c2 or c3)):
        while values[-1] == 0:
            values.pop()
        return Polynomial(x, values, reach, error, name, slope)
    # T_2 = 2t² - 1, T_3 = 4t³ - 3t
    powers = [c0 - c2, (c1 - 3 * c3) / reach, 2 * c2 / reach / reach, 4 * c3 / reach / reach / reach]
    node = sum_of_powers(x, powers)
    return Truncated(node, error) if error >= BOUND_RANGE[0] else node


def sum_of_powers(x: Expression, coefficients: Sequence[float]) -> Expression:
    """Σ_i c_i·x^i, powers by repeated squaring; some coefficient but the constant is not zero."""
    powers = {1: x}

    def power(exponent: int) -> Expression:
        if exponent not in powers:
            low = exponent // 2
            powers[exponent] = Multiply(power(exponent - low), power(low))
        return powers[exponent]

    total: Expression | None = None
    for exponent in range(len(coefficients) - 1, 0, -1):
        if coefficients[exponent]:
            term = Scale.of(power(exponent), coefficients[exponent])
            total = term if total is None else Add(total, term)
    assert total is not None
    return total + coefficients[0] if coefficients[0] else total


def of_integers(x: Expression, coefficients: Sequence[float]) -> Expression:
    """Σ_i c_i·x^i of integers modulo t, by some 2·sqrt(degree) products: x^g times the upper terms, and those below.

    Levels: log2(degree + 1), rounded up.
    """
    degree = len(coefficients) - 1
    small = 1 << max(1, math.isqrt(degree).bit_length() - 1)  # terms of lower degrees are sums of powers
    powers = {1: x}

    def power(exponent: int) -> Expression:
        if exponent not in powers:
            low = exponent // 2
            powers[exponent] = Multiply(power(exponent - low), power(low))
        return powers[exponent]

    def part(values: Sequence[float]) -> Expression | float:
        """Of these coefficients; a number where all but the first are zero."""
        last = max((index for index, value in enumerate(values) if value), default=0)
        if last < small:
            terms = [Scale.of(power(index), values[index]) for index in range(last, 0, -1) if values[index]]
            total: Expression | float = values[0]
            for term in reversed(terms):
                total = term + total
            return total
        giant = 1 << (last.bit_length() - 1)
        upper, below = part(values[giant : last + 1]), part(values[:giant])
        product = power(giant) * upper
        return product + below

    found = part(coefficients)
    assert isinstance(found, Expression)
    return found


def of_powers(coefficients: Sequence[float], reach: float) -> list[float]:
    """Chebyshev coefficients on [-reach, reach] of Σ_i a_i·x^i: exact, and then rounded to the nearest doubles.

    So the polynomial that is computed differs from the given one by at most 2^-53·Σ|c_i|.

    x^n = 2^(1-n)·Σ_k C(n, k)·T_{n-2k}, the term of T_0 halved.

    Raises:
        RangeError: a coefficient is too large for a double.
    """
    found = [Fraction(0)] * len(coefficients)
    scale, base = Fraction(1), Fraction(reach)
    for exponent, value in enumerate(coefficients):
        if value:
            term = Fraction(value) * scale * Fraction(2) ** (1 - exponent)
            for k in range(exponent // 2 + 1):
                index = exponent - 2 * k
                found[index] += term * math.comb(exponent, k) / (1 if index else 2)
        scale *= base
    try:
        return [float(value) for value in found]
    except OverflowError:
        raise RangeError(
            "The values of a polynomial are out of range for the bound of its argument.",
            got=f"degree {len(coefficients) - 1} of entries up to {reach:g}",
            advice="a polynomial of x / s, and coefficients times powers of s, with s the bound of x",
            cause="A coefficient times a power of the bound exceeds 1.8e308.",
        ) from None


@functools.lru_cache(maxsize=256)
def largest_value(coefficients: tuple[float, ...], part: float = 1.0) -> float:
    """A bound on |p(t)| for |t| <= part, at most 0.13 % above the largest value.

    A polynomial of degree n exceeds its values at the m zeros of T_m by a factor of at most 1/cos(nπ/2m) (Ehlich and
    Zeller 1964); up to 1 no term exceeds its coefficient.
    """
    degree = max(1, len(coefficients) - 1)
    m = NODES_PER_DEGREE * degree
    nodes = part * np.cos((2 * np.arange(m) + 1) * math.pi / (2 * m))
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(np.abs(chebyshev.chebval(nodes, coefficients)).max())
    above = 1 / math.cos(degree * math.pi / (2 * m))
    total = float(sum(map(abs, coefficients)))
    rounding = total * 2.0**-44  # of Clenshaw's sum, here and where values are compared with the bound
    return (min(largest * above, total) if part <= 1 else largest * above) + rounding
