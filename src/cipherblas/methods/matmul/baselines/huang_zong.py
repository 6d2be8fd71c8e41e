"""Products of any shape with replicated diagonals (Huang, Zong 2023), a named baseline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Transform
from cipherblas.methods.doubling import folded
from cipherblas.methods.matmul.base import Operand
from cipherblas.methods.matmul.fame import Fame


class HuangZong(Fame):
    """A·B = Σ_{i<k} (diagonal i of A, in every column) ⊙ (B, its rows shifted up by i), indices mod k.

    σ(A)[r, i] = A[r, r+i] has diagonal i in its column i. One masked rotation takes that to column 0, and rotations by
    doubling repeat it n times; ω^i (FAME, Eq. 5) shifts the rows of B, whose column stride is that of A. σ has
    2·min(m,k) - 1 diagonals, a column takes 1 and then ⌊log2 n⌋ rotations, one more for each further 1 in the binary
    form of n, ω^i one diagonal for each time that the rows i … i+m-1 wrap around k. k products, as published, and not
    as few as the smallest dimension. Depth 3 (σ, column, product).

    Published on the hypercube of HElib, where lines of slots are cycles. On a ring whose degree is a power of two
    they are not: σ brings the diagonals into columns, as in the implementation that HEGMM was compared with (there by
    the client). One relinearisation.
    """

    name = "huang-zong"
    title = "Huang-Zong: general product by replicated diagonals"
    source = "Huang, Zong 2023: Secure matrix multiplication based on fully homomorphic encryption"
    summary = "published baseline for any shape, best for short inner dimensions, one ciphertext per operand, depth 3"
    baseline = True

    def __init__(self, m: int, k: int, n: int, slots: int) -> None:
        super().__init__(m, k, n, slots)

    @property
    def options(self) -> dict[str, Any]:
        return {}

    def column(self, i: int, copies: int) -> Transform:
        """Column i of σ(A) as columns 0 to copies - 1 of a matrix that is zero elsewhere: as many diagonals."""
        step = i * self.left_stride
        steps = [step - copy * self.left_stride for copy in range(copies)]
        shape = self.m, copies
        return self._transform(
            ("column", i, copies), steps, shape, self.left_stride, lambda row, col: row + step
        )

    def _shifted_left(self, ev: Evaluator, cts: Operand) -> Iterator[Any]:
        skewed = self._skewed(ev, cts, self.sigma())
        if not isinstance(skewed, Ct):
            return ev.linear_transforms(skewed, [self.column(i, self.n) for i in range(self.terms)])
        columns = ev.linear_transforms(skewed, [self.column(i, 1) for i in range(self.terms)])
        return (self._replicated(ev, column) for column in columns)

    def _replicated(self, ev: Evaluator, column: Ct) -> Ct:
        """Column 0 in n columns."""
        return ev.bounded(folded(ev, column, self.n, -self.left_stride), column.bound)

    def _shifted_right(self, ev: Evaluator, cts: Operand) -> Iterator[Any]:
        ct = self._skewed(ev, cts, [])
        if isinstance(ct, Ct):
            ct = ev.drop(ct, ev.below(ct.limbs))  # σ spends a level on the other side
        return ev.linear_transforms(ct, [self.omega(i) for i in range(self.terms)])

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """There are no options."""
        if cls.fits(m, k, n, slots):
            yield {}
