"""Errors of all entries of a matrix together."""

from __future__ import annotations

import math
from typing import NamedTuple


class Spread(NamedTuple):
    """Bounds on a matrix's errors together, in units of the message.

    Attributes:
        noise: deviation of any combination of the entries' errors, of squares that add up to one.
        bias: root of the sum of squares of their systematic errors.
    """

    noise: float
    bias: float

    def times(self, factor: float) -> Spread:
        """Return the errors of a product by a number, or by a matrix of that norm."""
        return Spread(self.noise * factor, self.bias * factor)

    def plus(self, other: Spread) -> Spread:
        """Of a sum, whose terms may have the same errors."""
        return Spread(self.noise + other.noise, self.bias + other.bias)


UNKNOWN = Spread(math.inf, math.inf)


def spread_over(shape: tuple[int, int], noise: float, bias: float) -> Spread:
    """Of errors of every entry of a matrix, of which nothing else is known."""
    root = math.sqrt(math.prod(shape))
    return Spread(root * noise, root * bias)
