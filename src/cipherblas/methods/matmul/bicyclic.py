"""Bicyclic packing for pairwise coprime dimensions: depth 1 without masks."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cipherblas.common.errors import UnsuitedError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.layouts import EMPTY, Layout, SlotIndex, entry_index
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand, accumulate, split_path

SEARCH = 12  # how far above the dimensions the padding is looked for


class Bicyclic(Algorithm):
    """c[i] = Σ_t a[i + t·m] · b[i + t'·n] with t'·n ≡ t·m (mod k).

    For pairwise coprime m, k, n slot i holds A[i mod m, i mod k], B[i mod k, i mod n] or C[i mod m, i mod n]
    (Chinese remainder: every entry occurs once per period). Other dimensions are padded with zeros to the cheapest
    coprime ones. The client packs the periodic continuation, so rotations need no masks: with h terms
    m·n + (h-1)·m slots on the left and m·n + (k-1)·n on the right. Slots beyond m·n of the result hold garbage.

    Complex packing puts the term t + h (h = k/2, k padded to even) into the imaginary parts, with opposite
    signs: the real part of the product is the sum of both terms, the imaginary part garbage.

    Args:
        complex_packing: two terms per rotation (not in the paper).
        key_baby_steps: paths (giant, baby) for the key policies that walk them.
    """

    name = "bicyclic"
    title = "bicyclic packing, depth 1"
    source = "Chen et al., eprint 2024/1762"
    summary = "one ciphertext per operand, no masks, one product level; dimensions padded to coprime ones"

    def __init__(
        self,
        m: int,
        k: int,
        n: int,
        slots: int,
        *,
        complex_packing: bool = True,
        key_baby_steps: int | None = None,
    ) -> None:
        super().__init__(m, k, n, slots)
        if key_baby_steps is not None and key_baby_steps < 1:
            raise UnsuitedError(
                "The number of baby steps must be at least 1.", expected="at least 1", got=key_baby_steps
            )
        self.complex_packing = complex_packing
        self.key_baby_steps = key_baby_steps
        found = _padding(m, k, n, slots, complex_packing)
        if found is None:
            raise self._refuse(m * n + (k - 1) * n)
        self.rows, self.inner, self.cols = found
        self.terms = self.inner // 2 if complex_packing else self.inner
        # t' for every t: t·m / n mod k.
        ratio = self.rows * pow(self.cols, -1, self.inner) % self.inner if self.inner > 1 else 0
        self.right_counts = [t * ratio % self.inner for t in range(self.inner)]
        identity = (m, k, n, slots, complex_packing, *found)
        names = "bicyclic left", "bicyclic right", "bicyclic out"
        packing = {"complex_packing": complex_packing}
        self.left_layout = Layout(names[0], (names[0], *identity), m, k, slots, 1, self._left, **packing)
        self.right_layout = Layout(names[1], (names[1], *identity), k, n, slots, 1, self._right, **packing)
        garbage = {"imaginary_garbage": complex_packing, "empty_garbage": True}
        self.out_layout = Layout(names[2], (names[2], *identity), m, n, slots, 1, self._out, **garbage)

    @property
    def options(self) -> dict[str, Any]:
        return {"complex_packing": self.complex_packing, "key_baby_steps": self.key_baby_steps}

    def _left(self, _: int) -> SlotIndex:
        def at(shift: int) -> Any:
            slot = self._slot(self.rows * self.cols + (self.terms - 1) * self.rows)
            moved = slot + shift * self.rows
            return _entries(slot, moved % self.rows, moved % self.inner, (self.m, self.k))

        return SlotIndex(at(0), at(self.terms) if self.complex_packing else None, -1)

    def _right(self, _: int) -> SlotIndex:
        reach = max(self.right_counts[: self.terms])

        def at(shift: int) -> Any:
            slot = self._slot(self.rows * self.cols + reach * self.cols)
            moved = slot + self.right_counts[shift] * self.cols
            return _entries(slot, moved % self.inner, moved % self.cols, (self.k, self.n))

        return SlotIndex(at(0), at(self.terms) if self.complex_packing else None, 1)

    def _out(self, _: int) -> SlotIndex:
        slot = self._slot(self.rows * self.cols)
        return SlotIndex(_entries(slot, slot % self.rows, slot % self.cols, (self.m, self.n)))

    def _slot(self, used: int) -> Any:
        slot = np.arange(self.slots, dtype=np.int64)
        return np.where(slot < used, slot, EMPTY)

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Rotations by t·m. Keys: those rotations. Levels: none."""
        steps = [split_path(t, self.rows, self.key_baby_steps) for t in range(self.terms)]
        return ev.rotate_many(ev.rescaled(cts[0]), steps)

    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Rotations by t'·n. Keys: those rotations. Levels: none."""
        steps = [split_path(t, self.cols, self.key_baby_steps) for t in self.right_counts[: self.terms]]
        return ev.rotate_many(ev.rescaled(cts[0]), steps)

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """One sum of products."""
        return [accumulate(ev, accumulator, 0, left, right)]

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Relinearise."""
        return [ev.relinearise(accumulator[0])]

    @classmethod
    def fits(cls, m: int, k: int, n: int, slots: int, **options: Any) -> bool:
        """As `Algorithm.fits`: planning asks for thousands of sizes, and needs no object for the usual options."""
        if options:
            return super().fits(m, k, n, slots, **options)
        return _padding(m, k, n, slots, True) is not None

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """Full hoisting; paths cost nothing where the key policy does not walk them."""
        if cls.fits(m, k, n, slots):
            yield {"key_baby_steps": max(1, math.isqrt(cls(m, k, n, slots).terms))}


def _entries(slot: Any, row: Any, col: Any, shape: tuple[int, int]) -> Any:
    return entry_index(np.where(slot == EMPTY, EMPTY, row), col, shape)


@functools.lru_cache(maxsize=1 << 12)
def _padding(m: int, k: int, n: int, slots: int, complex_packing: bool) -> tuple[int, int, int] | None:
    """Pairwise coprime dimensions that fit, fewest terms first, then fewest slots; None when nothing fits."""
    for inner in range(k, k + SEARCH):
        if complex_packing and inner % 2:
            continue
        terms = inner // 2 if complex_packing else inner
        if _slots_used(m, inner, n, terms) > slots:  # and more so with larger dimensions
            return None
        best: tuple[int, int, int] | None = None
        for rows in range(m, m + SEARCH):
            if math.gcd(rows, inner) > 1:
                continue
            for cols in range(n, n + SEARCH):
                if math.gcd(cols, inner) > 1 or math.gcd(cols, rows) > 1:
                    continue
                used = _slots_used(rows, inner, cols, terms)
                if used <= slots and (best is None or used < best[0]):
                    best = (used, rows, cols)
        if best is not None:
            return best[1], inner, best[2]
    return None


def _slots_used(rows: int, inner: int, cols: int, terms: int) -> int:
    return rows * cols + max((terms - 1) * rows, (inner - 1) * cols)
