"""Iterative multiply-rotate-accumulate (MetaKernel, Algorithms 1, 2): the pattern of products W·x and convolutions.

A layer maps k input units to n output units, a unit being as many slots as a channel has (one for a vector). With
A_rep the input repeated, T the taps of a filter (T = 1 for a product W·x) and B[u, v] the weights of input unit v in
output unit u, diagonal d of B is B[u mod n, (u + d) mod k] at unit u, for u < max(n, k) and d < min(n, k); then

    Z[u] = Σ_d Σ_t A_rep[u + d, shifted by t] · B_t[u mod n, (u + d) mod k]
    C[u] = Σ_q Z[u + q·n]                                                    (q < k/n; one term where n ≥ k)

Diagonal d = p·rows + r belongs to superblock p. P_s superblocks lie side by side in a ciphertext, each followed by a
shift buffer, so that superblock p = j·groups + g starts at unit j·(k_d + buffer) of group g: the rows r of all groups
multiply the same rotations of the input (baby steps, hoisted), each group is rotated once (giant step), and the P_s
blocks are summed in the end. Because block j starts j·buffer units late in the repeated input, the rotation by
j·groups·rows units that its superblocks would need has happened already.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cipherblas.common.errors import FitError, ShapeError
from cipherblas.methods.doubling import doublings


def gamma(copies: int) -> int:
    """Rotations that repeat a vector so many times (MetaKernel, Eq. 11): γ(9) = 4."""
    if copies < 1:
        raise ShapeError(
            "The number of copies of a vector must be at least 1.", expected="at least 1", got=copies
        )
    ones = [bit for bit in range(copies.bit_length()) if copies >> bit & 1]
    return sum(ones) + len(ones) - 1


@dataclass(frozen=True)
class Pattern:
    """One way to lay out the weights of a layer.

    Attributes:
        n, k: output and input units, padded so that one divides the other.
        unit: slots of a unit.
        slots: S.
        p_b: superblocks.
        p_s: superblocks side by side in one ciphertext.
        n_d, k_d: diagonals, and units of each.
        rows: diagonals of a superblock (bs_opt).
        groups: giant steps (gs).
        buffer: units of the shift buffer behind each superblock (s_f); none where the ciphertext wraps around by
            itself.
        cyclic: one diagonal fills the ciphertext, so that a rotation of slots is one of units.
        wide: results of partial sums along k that the end adds up.
    """

    n: int
    k: int
    unit: int
    slots: int
    p_b: int
    p_s: int
    n_d: int = field(init=False, repr=False, compare=False)
    k_d: int = field(init=False, repr=False, compare=False)
    rows: int = field(init=False, repr=False, compare=False)
    groups: int = field(init=False, repr=False, compare=False)
    buffer: int = field(init=False, repr=False, compare=False)
    cyclic: bool = field(init=False, repr=False, compare=False)
    wide: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if min(self.n, self.k, self.unit, self.p_b, self.p_s) < 1:
            raise ShapeError(
                "A MetaKernel pattern needs positive numbers.", expected="positive numbers", got=self
            )
        n_d, k_d = min(self.n, self.k), max(self.n, self.k)
        if k_d % n_d or n_d % self.p_b or self.p_b % self.p_s:
            raise ShapeError(
                "The numbers of a MetaKernel pattern must divide each other.",
                expected="n | k or k | n, p_b | min(n, k), p_s | p_b",
                got=self,
            )
        rows, groups, cyclic = n_d // self.p_b, self.p_b // self.p_s, k_d * self.unit == self.slots
        # Computed once: a search looks at them again and again.
        vars(self).update(n_d=n_d, k_d=k_d, rows=rows, groups=groups, cyclic=cyclic)
        vars(self).update(buffer=0 if cyclic else groups * rows, wide=k_d // self.n)
        if cyclic and self.p_s > 1:
            raise FitError(
                "A superblock that fills the ciphertext must stand alone in it.", expected=1, got=self.p_s
            )
        if max(self.span, self.copies * self.k) * self.unit > self.slots:
            raise FitError(
                "A MetaKernel pattern does not fit a ciphertext.",
                expected=f"at most {self.slots} slots",
                got=self,
            )

    @property
    def span(self) -> int:
        """Units that the weights of a group reach over."""
        return self.k_d if self.cyclic else self.p_s * (self.k_d + self.buffer) - self.rows

    @property
    def copies(self) -> int:
        """How often the k units of the input must stand there."""
        if self.cyclic:
            return self.k_d // self.k
        return -(-(self.p_s * (self.k_d + self.buffer) - 1) // self.k)

    @functools.cached_property
    def replications(self) -> int:
        """How often the input is repeated: `copies`, or more where that takes fewer rotations."""
        rounded = 1 << (self.copies - 1).bit_length()
        return rounded if rounded * self.k * self.unit <= self.slots else self.copies

    @property
    def zero_padded(self) -> bool:
        """Whether slots beyond the n units of the result are zero where the weights there are."""
        return self.p_s == 1 and self.wide == 1

    def rotations(self, taps: int = 1, inputs: int = 1, outputs: int = 1) -> int:
        """Rotations of a layer with so many taps, input and output ciphertexts."""
        ending = doublings(self.p_s) + doublings(self.wide)
        babies = self.rows * taps - 1
        return inputs * (doublings(self.replications) + babies) + outputs * (self.groups - 1 + ending)

    def published_cost(self, taps: int = 1) -> int:
        """The objective of MetaKernel, Eq. 11, one ciphertext each way, with the sum of a wide layer."""
        repeated = gamma(self.copies)
        return repeated + self.rows * taps - 1 + self.groups - 1 + self.p_s - 1 + self.wide - 1

    def plaintexts(self, taps: int = 1, inputs: int = 1, outputs: int = 1) -> int:
        """Encoded weights of a layer in which no diagonal is zero."""
        return self.groups * self.rows * taps * inputs * outputs

    def blocks(self, group: int) -> Iterator[tuple[int, int]]:
        """First unit and first diagonal of every superblock of a group; its outputs start at group · rows behind."""
        for j in range(self.p_s):
            yield j * (self.k_d + self.buffer), (j * self.groups + group) * self.rows


@functools.lru_cache(maxsize=256)
def patterns(n: int, k: int, unit: int, slots: int) -> tuple[Pattern, ...]:
    """Every pattern that fits, over paddings of n and k that may pay."""
    return tuple(_patterns(n, k, unit, slots))


def _patterns(n: int, k: int, unit: int, slots: int) -> Iterator[Pattern]:
    for wide_n, wide_k in _paddings(n, k, unit, slots):
        n_d = min(wide_n, wide_k)
        for p_b in divisors(n_d):
            for p_s in divisors(p_b):
                if p_s * max(wide_n, wide_k) * unit > slots:
                    break
                try:
                    yield Pattern(wide_n, wide_k, unit, slots, p_b, p_s)
                except FitError:
                    continue


def optimise(n: int, k: int, unit: int, slots: int, cost: Callable[[Pattern], float]) -> Pattern:
    """The pattern of least cost (MetaKernel, Algorithm 2 and Eq. 11); of equal ones, that with fewest plaintexts.

    Raises:
        ShapeError: not even one diagonal fits the slots.
    """
    return cheapest(n, k, unit, slots, cost, 1)[0]


def cheapest(
    n: int, k: int, unit: int, slots: int, cost: Callable[[Pattern], float], number: int
) -> list[Pattern]:
    """So many patterns of least cost, as far as there are so many.

    Raises:
        ShapeError: not even one diagonal fits the slots.
    """
    every = patterns(n, k, unit, slots)
    found = heapq.nsmallest(number, every, key=lambda p: (cost(p), p.plaintexts(), p.k_d))
    if not found:
        raise FitError(
            f"A layer of {n} by {k} units of {unit} slots does not fit a ciphertext.",
            expected=f"at most {slots} slots",
            got=max(n, k) * unit,
        )
    return found


def divisors(number: int) -> list[int]:
    """Ascending."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def _paddings(n: int, k: int, unit: int, slots: int) -> list[tuple[int, int]]:
    """Pairs (n', k') of which one divides the other, n' ≥ n, k' ≥ k: rounded lengths that have many divisors."""
    limit = slots // unit
    small, large = min(n, k), max(n, k)
    pairs = set()
    for base in _rounded(small):
        for top in {-(-large // base) * base, limit // base * base, 1 << (large - 1).bit_length()}:
            if base <= top <= limit and top >= large and top % base == 0:
                pairs.add((base, top) if n <= k else (top, base))
    return sorted(pairs)


def _rounded(length: int) -> list[int]:
    """The length rounded up to multiples of 1, 2, 4, … up to the next power of two."""
    return sorted(
        {-(-length // step) * step for step in (1 << bit for bit in range(length.bit_length() + 1))}
    )
