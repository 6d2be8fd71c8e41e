"""The clock of an element: how long a row is on its way, and which row of a limb is where at which time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ParameterError

STAGES = 4  # registers of each of the three products of a multiplier
Order = NDArray[np.intp]


def bit_reversed(values: NDArray[np.intp], bits: int) -> NDArray[np.intp]:
    """The numbers below 2^bits that have the bits of these in reverse."""
    found = np.zeros_like(values)
    for bit in range(bits):
        found |= (values >> bit & 1) << bits - 1 - bit
    return found


@dataclass(frozen=True)
class Timing:
    """The cycles of passes, and the order of rows.

    A row whose address goes out in cycle t is in the lanes at t + `to_lanes`, is written at t + `to_bank`, and can be
    read from the next cycle on. Addresses of operands b and c go out `skew` cycles after those of a.

    Attributes:
        lanes: dp, a power of two.
        log_n: log2(N).
        stages: of a product.
        buffered: the permutation circuit has buffers, as Fig. 4 of the paper; else rotations take the rows of a limb in
            another order, and neighbouring rows exchange halves.

    Raises:
        ParameterError: there is no such element.
    """

    lanes: int
    log_n: int
    stages: int = STAGES
    buffered: bool = False

    def __post_init__(self) -> None:
        if self.lanes < 4 or self.lanes & self.lanes - 1 or 1 << self.log_n < 4 * self.lanes:
            raise ParameterError(
                "An element has no such lanes.",
                expected=f"a power of two from 4 to N/4 = {(1 << self.log_n) // 4}",
                got=self.lanes,
            )

    @property
    def n(self) -> int:
        """The ring degree."""
        return 1 << self.log_n

    @property
    def lane_bits(self) -> int:
        """log2(dp)."""
        return self.lanes.bit_length() - 1

    @property
    def rows(self) -> int:
        """N/dp, of a limb: the cycles of a pass."""
        return self.n // self.lanes

    @property
    def to_lanes(self) -> int:
        """Two cycles of a bank, two of the corner, one per stage of the network; with buffers half a limb more."""
        return 4 + self.lane_bits + (self.rows // 2 + 2) * self.buffered

    @property
    def skew(self) -> int:
        """Cycles between the addresses of operand a and those of b and c."""
        return self.to_lanes - 2

    @property
    def to_bank(self) -> int:
        """Two adders of two cycles, and a multiplier."""
        return self.to_lanes + 3 * self.stages + 9

    @property
    def twiddle_rows(self) -> int:
        """Rows of a table of twiddle factors: half a row for each of the first stages, then 2^s words of stage s."""
        words = self.lanes // 2 * self.lane_bits + self.n - self.lanes
        return -(-words // self.lanes)

    @cached_property
    def straight(self) -> Order:
        """The rows of a limb one after the other."""
        return np.arange(self.rows)

    @cached_property
    def halves(self) -> Order:
        """The rows in the order 0, R/2, 1, R/2 + 1, …, in which rotations take or leave them; with buffers in order."""
        if self.buffered:
            return self.straight
        return (self.straight >> 1) + (self.straight & 1) * (self.rows // 2)

    def automorphism(self, galois: int) -> Order:
        """The position that each word of an automorphism's image comes from; evaluations lie in bit-reversed order."""
        natural = bit_reversed(np.arange(self.n), self.log_n)
        return bit_reversed((galois * natural + (galois - 1) // 2) % self.n, self.log_n)

    @cached_property
    def rotated_left(self) -> Order:
        """The position that each word comes from, where word i goes to position i rotated left by one bit."""
        i = np.arange(self.n)
        return i >> 1 | (i & 1) << self.log_n - 1

    @cached_property
    def rotated_right(self) -> Order:
        """The opposite."""
        i = np.arange(self.n)
        return i << 1 & self.n - 1 | i >> self.log_n - 1
