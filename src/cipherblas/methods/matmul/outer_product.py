"""Outer products of operands that the client expands: no rotations, depth 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cipherblas.common.errors import UnsuitedError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.layouts import EMPTY, Layout, SlotIndex, column_major, entry_index
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand, accumulate


class OuterProduct(Algorithm):
    """C = Σ_t (column t of A, repeated along the rows) ⊙ (row t of B, repeated along the columns).

    Output entry (r, c) is slot r + m·c. Every term is a ciphertext per operand; with complex packing two terms
    share one (the real part of (a - j·a')(b + j·b') is a·b + a'·b'), and `copies` terms lie side by side in one
    ciphertext where slots allow, added at the end by log2(copies) rotations.

    Args:
        complex_packing: two terms per ciphertext, in real and imaginary part.
        copies: blocks of m·n slots per ciphertext, a power of two; by default 1.
    """

    name = "outer-product"
    title = "outer products, operands expanded by the client"
    source = "folklore (outer-product form of a matrix product)"
    summary = "the fastest on the server for small blocks: k/2 products, no rotation keys, k/2 ciphertexts per operand"

    blocks_inner = False

    def __init__(
        self, m: int, k: int, n: int, slots: int, *, complex_packing: bool = True, copies: int = 1
    ) -> None:
        super().__init__(m, k, n, slots)
        if copies < 1 or copies & (copies - 1):
            raise UnsuitedError(
                "The number of copies must be a power of two.", expected="a power of two", got=copies
            )
        if m * n * copies > slots:
            raise self._refuse(m * n * copies)
        self.complex_packing = complex_packing
        self.copies = copies
        self.pairs = -(-k // 2) if complex_packing else k  # slots blocks that hold terms
        self.ciphertexts = -(-self.pairs // copies)
        identity = (m, k, n, slots, complex_packing, copies)
        left = ("outer-product left", *identity)
        right = ("outer-product right", *identity)
        packing = {"complex_packing": complex_packing}
        self.left_layout = Layout(left[0], left, m, k, slots, self.ciphertexts, self._left, **packing)
        self.right_layout = Layout(right[0], right, k, n, slots, self.ciphertexts, self._right, **packing)
        garbage = {"imaginary_garbage": complex_packing, "empty_garbage": copies > 1}
        dense, out = column_major(m, n, slots), ("outer-product out", *identity)
        self.out_layout = Layout(dense.name, out, m, n, slots, 1, dense.indexer, **garbage)

    @property
    def options(self) -> dict[str, Any]:
        return {"complex_packing": self.complex_packing, "copies": self.copies}

    def _left(self, ciphertext: int) -> SlotIndex:
        row, _, term = self._places(ciphertext)
        return self._pair(lambda t: entry_index(row, t, (self.m, self.k)), term, -1)

    def _right(self, ciphertext: int) -> SlotIndex:
        _, col, term = self._places(ciphertext)
        return self._pair(lambda t: entry_index(t, col, (self.k, self.n)), term, 1)

    def _places(self, ciphertext: int) -> tuple[Any, Any, Any]:
        """Row, column and term of every slot; the term is EMPTY outside the used blocks."""
        slot = np.arange(self.slots, dtype=np.int64)
        block, inside = slot // (self.m * self.n), slot % (self.m * self.n)
        term = ciphertext * self.copies + block
        term = np.where((block < self.copies) & (term < self.pairs), term, EMPTY)
        return inside % self.m, inside // self.m, term

    def _pair(self, entry: Any, term: Any, sign: int) -> SlotIndex:
        if not self.complex_packing:
            return SlotIndex(entry(term))
        second = np.where(term == EMPTY, EMPTY, term + self.pairs)  # beyond k where k is odd: empty
        return SlotIndex(entry(term), entry(second), sign)

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Nothing to do. Levels: none. Keys: none."""
        return [ev.rescaled(ct) for ct in cts]

    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Nothing to do. Levels: none. Keys: none."""
        return [ev.rescaled(ct) for ct in cts]

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """One sum of products."""
        return [accumulate(ev, accumulator, 0, left, right)]

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Relinearise, then add the copies. Keys: relinearisation, rotations by m·n·2^j."""
        total = ev.relinearise(accumulator[0])
        shift = self.m * self.n * self.copies // 2
        while shift >= self.m * self.n and self.copies > 1:
            total = ev.add(total, ev.rotate(total, shift))
            shift //= 2
        return [total]

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """From one term per ciphertext to as many as fit."""
        copies = 1
        while m * n * copies <= slots and copies < 2 * -(-k // 2):
            yield {"copies": copies}
            copies *= 2
