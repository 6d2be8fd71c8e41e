"""Skewed packing: depth 1 without masks, two terms of the sum per rotation (complex packing)."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from cipherblas.common.errors import UnsuitedError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.layouts import Layout, SlotIndex, column_major, entry_index, with_imaginary_garbage
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand, accumulate, made_once, split_path
from cipherblas.rlwe.key_policies import Step


class _Shape(NamedTuple):
    """Padded inner dimension, number of terms, column stride, and whether the columns wrap around."""

    inner: int
    terms: int
    stride: int
    cyclic: bool


class Skewed(Algorithm):
    """The client skews both operands, so that rotations alone line up every product.

    Output entry (r, c) is slot r + R·c. With h terms and indices mod k,
    Ã[r, c] = A[r, r + c] for r < m and columns up to n + h - 2, B̃[x, c] = B[x + c, c] for x up to m + h - 2
    and c < n, zero elsewhere. Then C = Σ_{i<h} Rot_{i·R}(Ã) ⊙ Rot_i(B̃): the zeros of one operand cancel what
    the other leaves outside the block. Complex packing adds -j·(entry at t + h) to Ã and +j·(…) to B̃, whose
    product has the real part A[r,t]·B[t,c] + A[r,t+h]·B[t+h,c]: h = k/2 terms (k padded to even) instead of k. The
    imaginary part of the result is garbage.

    Slots: R·(n + h - 1) with R >= m + h - 1; where R times a number of columns that k divides is exactly S, the
    columns of Ã wrap around and max(n, k) columns suffice.

    Baby steps on the left (i = g·b + j): Ã is rotated by j·R only, B̃ by i - g·b·R, and the partial sum of each g by
    g·b·R after relinearisation, with one key.

    Args:
        complex_packing: two terms per rotation.
        baby_steps: left rotations kept; by default all (no partial sums).
        key_baby_steps: under the policies that walk paths, the number of baby steps of a rotation's path.
    """

    name = "skewed"
    title = "skewed packing, depth 1"
    source = "cipherblas; packing after Jiang et al. 2018 (E2DM), its permutations moved to the client"
    summary = (
        "secret × secret in one ciphertext per operand: no masks, one product level, about k/2 rotations"
    )

    def __init__(
        self,
        m: int,
        k: int,
        n: int,
        slots: int,
        *,
        complex_packing: bool = True,
        baby_steps: int | None = None,
        key_baby_steps: int | None = None,
    ) -> None:
        super().__init__(m, k, n, slots)
        self.complex_packing = complex_packing
        found = _shape(m, k, n, slots, complex_packing)
        if found is None:
            terms = -(-k // 2) if complex_packing else k
            raise self._refuse((m + terms - 1) * (n + terms - 1))
        self.inner, self.terms, self.stride, self.cyclic = found
        self.baby_steps = self.terms if baby_steps is None else min(baby_steps, self.terms)
        if self.baby_steps < 1 or (key_baby_steps is not None and key_baby_steps < 1):
            raise UnsuitedError(
                "The numbers of baby steps must be at least 1.",
                expected="at least 1",
                got=(baby_steps, key_baby_steps),
            )
        self.key_baby_steps = key_baby_steps
        self.giants = -(-self.terms // self.baby_steps)
        shape = (m, k, n, slots, self.inner, self.terms, self.stride, self.cyclic, complex_packing)
        packing = {"complex_packing": complex_packing}
        self.left_layout = Layout(
            "skewed left", ("skewed left", *shape), m, k, slots, 1, self._left, **packing
        )
        self.right_layout = Layout(
            "skewed right", ("skewed right", *shape), k, n, slots, 1, self._right, **packing
        )
        self.out_layout = column_major(m, n, slots, stride=self.stride)
        if complex_packing:
            self.out_layout = with_imaginary_garbage(self.out_layout, ("skewed out", *shape))

    @property
    def options(self) -> dict[str, Any]:
        return {
            "complex_packing": self.complex_packing,
            "baby_steps": self.baby_steps,
            "key_baby_steps": self.key_baby_steps,
        }

    def _left(self, _: int) -> SlotIndex:
        slot = np.arange(self.slots, dtype=np.int64)
        row, col = slot % self.stride, slot // self.stride
        used = (row < self.m) & (self.cyclic | (col <= self.n + self.terms - 2))
        return self._pair(np.where(used, row, -1), row + col, (self.m, self.k), sign=-1, inner_is_row=False)

    def _right(self, _: int) -> SlotIndex:
        slot = np.arange(self.slots, dtype=np.int64)
        row, col = slot % self.stride, slot // self.stride
        used = (row <= self.m + self.terms - 2) & (col < self.n)
        return self._pair(np.where(used, col, -1), row + col, (self.k, self.n), sign=1, inner_is_row=True)

    def _pair(
        self, outer: Any, inner: Any, shape: tuple[int, int], sign: int, inner_is_row: bool
    ) -> SlotIndex:
        def at(shift: int) -> Any:
            index = (inner + shift) % self.inner
            return entry_index(index, outer, shape) if inner_is_row else entry_index(outer, index, shape)

        return SlotIndex(at(0), at(self.terms) if self.complex_packing else None, sign)

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Rotations by j·R, j < baby_steps. Keys: those rotations. Levels: none."""
        return ev.rotate_many(ev.rescaled(cts[0]), self._left_steps())

    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Rotations by i - g·b·R, i < terms. Keys: those rotations. Levels: none."""
        return ev.rotate_many(ev.rescaled(cts[0]), self._right_steps())

    @made_once
    def _left_steps(self) -> list[Step]:
        return [split_path(j, self.stride, self.key_baby_steps) for j in range(self.baby_steps)]

    @made_once
    def _right_steps(self) -> list[Step]:
        steps: list[Step] = []
        for i in range(self.terms):
            giant, baby = divmod(i, self.baby_steps)
            fine = split_path(baby, 1, self.key_baby_steps)
            coarse = giant * self.baby_steps * (1 - self.stride)
            steps.append((coarse, *fine) if isinstance(fine, tuple) else (coarse, fine))
        return steps

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """One sum of products per giant step."""
        partial = []
        for giant in range(self.giants):
            rights = right[giant * self.baby_steps : (giant + 1) * self.baby_steps]
            partial.append(accumulate(ev, accumulator, giant, left[: len(rights)], rights))
        return partial

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Relinearise; giant rotations by Horner's rule, all with the key of b·R."""
        total = ev.relinearise(accumulator[-1])
        for partial in reversed(accumulator[:-1]):
            total = ev.add(ev.rotate(total, self.baby_steps * self.stride), ev.relinearise(partial))
        return [total]

    @classmethod
    def fits(cls, m: int, k: int, n: int, slots: int, **options: Any) -> bool:
        """As `Algorithm.fits`: planning asks for thousands of sizes, and needs no object for the usual options."""
        if options:
            return super().fits(m, k, n, slots, **options)
        return _shape(m, k, n, slots, True) is not None

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """Full hoisting, then fewer left rotations; paths cost nothing where the key policy does not walk them."""
        if not cls.fits(m, k, n, slots):
            return
        terms = cls(m, k, n, slots).terms
        sizes = {terms} | {-(-terms // giants) for giants in (2, 3, 4, 8) if giants <= terms}
        for baby_steps in sorted(sizes, reverse=True):
            yield {"baby_steps": baby_steps, "key_baby_steps": max(1, math.isqrt(baby_steps))}


@functools.lru_cache(maxsize=1 << 12)
def _shape(m: int, k: int, n: int, slots: int, complex_packing: bool) -> _Shape | None:
    """Of those that fit, the one with the fewest terms; None where nothing fits."""
    shapes = _shapes(m, k, n, slots, complex_packing)
    return min(shapes, key=lambda shape: (shape.terms, shape.cyclic), default=None)


def _shapes(m: int, k: int, n: int, slots: int, complex_packing: bool) -> Iterator[_Shape]:
    """Ways to fit: with columns to spare, or with columns that wrap around."""
    inner = k + k % 2 if complex_packing else k
    terms = inner // 2 if complex_packing else inner
    stride = m + terms - 1
    if max(stride * (n + terms - 2) + m, stride * n) <= slots:
        yield _Shape(inner, terms, stride, False)
    inner = 1 << (k - 1).bit_length()
    if complex_packing:
        inner = max(inner, 2)
    terms = inner // 2 if complex_packing else inner
    columns = max(inner, 1 << (n - 1).bit_length())
    if columns * (m + terms - 1) <= slots:
        yield _Shape(inner, terms, slots // columns, True)
