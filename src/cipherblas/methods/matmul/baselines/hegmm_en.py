"""General product with the smaller operand repeated (HEGMM-En), a named baseline."""

from __future__ import annotations

from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.layouts import column_major, stacked, with_garbage
from cipherblas.methods.doubling import folded
from cipherblas.methods.matmul.base import Accumulator, Algorithm
from cipherblas.methods.matmul.baselines.hegmm import Hegmm
from cipherblas.methods.matmul.fame import Fame


class HegmmEn(Hegmm):
    """HEGMM with A repeated t = ⌈k/m⌉ times, one copy below the other: m products instead of k, for small m.

    Row r + j·m of the maps of HEGMM for t·m rows lines up the terms j·m, …, j·m + m - 1 of row r:
    Σ_{i<m} (ε^i∘σ(Ā)) ⊙ (ω^i∘τ(B)) has the sum of these terms in row r + j·m, and the rows of all copies are added by
    rotations by m·2^j. Where m does not divide k, the masks of ε leave out the rows of the last copy that would count
    terms twice. B takes the column stride t·m of Ā, so that ω^i needs no rotation per column.

    For k = t·m: 2·k - 1 diagonals of σ, 2·min(n,k) - 1 of τ, of each of m maps ε^i and ω^i about ⌊n/k⌋ + 1 and 2, and
    log2(t) rotations for the sum; if t is no power of two, one more for each further 1 in its binary form.

    The client repeats the operand. Where m ≥ k this is HEGMM. Depth 3; one relinearisation.

    Args:
        mirrored: repeat B beside itself instead, for small n: n products.
    """

    name = "hegmm-en"
    title = "HEGMM-En: general product, the smaller operand repeated"
    summary = (
        "published baseline for products whose rows or columns are few, one ciphertext per operand, depth 3"
    )

    def _oriented(self, m: int, k: int, n: int) -> Algorithm:
        return _Stacked(m, k, n, self.slots) if m < k else super()._oriented(m, k, n)


class _Stacked(Fame):
    """The product of ⌈k/m⌉ copies of A, m < k, whose rows are added up."""

    name = HegmmEn.name
    title = HegmmEn.title

    def __init__(self, m: int, k: int, n: int, slots: int) -> None:
        self.copies = -(-k // m)
        super().__init__(self.copies * m, k, n, slots)
        self.height = self.terms = m  # rows of A, and terms that are left
        self._key = (self.name, m, k, n, slots)
        self.left_layout = stacked(self.left_layout, m)
        self.out_layout = with_garbage(column_major(m, n, slots, self.period, self.left_stride))

    def _rows_shifted(self, i: int) -> int:
        """All but those of the last copy whose terms the first one has."""
        complete = self.m - self.height
        return self.m if complete + i < self.inner else complete

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Relinearise, add the copies. Keys: relinearisation, rotations by m·2^j."""
        (total,) = super().finish(ev, accumulator)
        return [folded(ev, total, self.copies, self.height)]
