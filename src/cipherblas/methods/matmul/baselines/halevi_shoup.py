"""Products with one ciphertext per generalised diagonal (Halevi-Shoup), a named baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.layouts import EMPTY, Layout, SlotIndex, entry_index
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand, accumulate


class HaleviShoup(Algorithm):
    """Diagonal l of C is Σ_i A_i ⊙ Rot_i(B_{l-i}), with A_i[r] = A[r, r+i], B_j[t] = B[t, t+j], C_l[r] = C[r, r+l].

    Column indices are taken mod k for A and mod n for B and C; the diagonals of B are continued beyond row k
    (indices mod k), so that rotations need no masks and any shape works without padding. Depth 1; k·n products,
    n relinearisations, (k - 1)·n rotations. The published form is used: a ciphertext holds one diagonal of
    m + k - 1 slots and the rest stays empty; other data could share it (batches), which is not done here.
    """

    name = "halevi-shoup"
    title = "Halevi-Shoup: one ciphertext per diagonal"
    source = "Halevi, Shoup 2014 (Algorithms in HElib), as compared by Jiang et al. 2018"
    summary = "published baseline: k + n ciphertexts, k·n products, depth 1"
    baseline = True

    def __init__(self, m: int, k: int, n: int, slots: int) -> None:
        super().__init__(m, k, n, slots)
        if m + k - 1 > slots:
            raise self._refuse(m + k - 1)
        identity = (m, k, n, slots)
        names = "halevi-shoup left", "halevi-shoup right", "halevi-shoup out"
        self.left_layout = Layout(names[0], (names[0], *identity), m, k, slots, k, self._left)
        self.right_layout = Layout(names[1], (names[1], *identity), k, n, slots, n, self._right)
        self.out_layout = Layout(names[2], (names[2], *identity), m, n, slots, n, self._out)

    @property
    def options(self) -> dict[str, Any]:
        return {}

    def _left(self, diagonal: int) -> SlotIndex:
        row = self._rows(self.m)
        return SlotIndex(entry_index(row, (row + diagonal) % self.k, (self.m, self.k)))

    def _right(self, diagonal: int) -> SlotIndex:
        position = self._rows(self.m + self.k - 1)
        row = np.where(position == EMPTY, EMPTY, position % self.k)
        return SlotIndex(entry_index(row, (position + diagonal) % self.n, (self.k, self.n)))

    def _out(self, diagonal: int) -> SlotIndex:
        row = self._rows(self.m)
        return SlotIndex(entry_index(row, (row + diagonal) % self.n, (self.m, self.n)))

    def _rows(self, count: int) -> Any:
        slot = np.arange(self.slots, dtype=np.int64)
        return np.where(slot < count, slot, EMPTY)

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Nothing to do."""
        return [ev.rescaled(ct) for ct in cts]

    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Every diagonal rotated by 0 … k - 1. Keys: those rotations. Levels: none."""
        return [ev.rotate_many(ev.rescaled(ct), range(self.k)) for ct in cts]

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """One sum of k products per diagonal of the result."""
        return [
            accumulate(ev, accumulator, out, left, [right[(out - i) % self.n][i] for i in range(self.k)])
            for out in range(self.n)
        ]

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Relinearise every diagonal."""
        return [ev.relinearise(ct) for ct in accumulator]

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """There are no options."""
        if cls.fits(m, k, n, slots):
            yield {}
