"""Square product of one ciphertext by one ciphertext (E2DM-S), a named baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cipherblas.common.errors import UnsuitedError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Transform
from cipherblas.forms.index_maps import SlotMap, masked_map, pure_rotation
from cipherblas.forms.layouts import EMPTY, row_major
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand, accumulate, made_once


class E2dm(Algorithm):
    """A·B = Σ_{i<s} φ^i(σ(A)) ⊙ ψ^i(τ(B)) for square matrices, others padded to s = max(m, k, n).

    Row-major slots. σ(A)[r,c] = A[r, r+c] and τ(B)[r,c] = B[r+c, c] by baby-step/giant-step; the column shift φ^i
    is two masked rotations, the row shift ψ^i one rotation without mask, provided that the s² slots are a
    cycle: where s² divides the slots the matrix is repeated with that period, as the paper packs several
    matrices. Otherwise ψ^i takes two masks too.

    Depth 3 as published (σ, φ, product). Unlike the published algorithm the s products are summed before one
    relinearisation.

    Args:
        size: s, at least max(m, k, n), which is the default.
        baby_steps: of σ and τ; by default about sqrt(s), as published.
    """

    name = "e2dm"
    title = "E2DM-S: square product by diagonal permutations"
    source = "Jiang, Kim, Lauter, Song 2018 (E2DM), Algorithm 2"
    summary = "published baseline for square matrices, one ciphertext per operand, depth 3"
    min_levels = 2
    baseline = True

    def __init__(
        self, m: int, k: int, n: int, slots: int, *, size: int | None = None, baby_steps: int | None = None
    ) -> None:
        super().__init__(m, k, n, slots)
        self.size = max(m, k, n) if size is None else size
        if self.size < max(m, k, n):
            raise UnsuitedError(
                "The padded square is smaller than the blocks.", expected=f"at least {max(m, k, n)}", got=size
            )
        if self.size**2 > slots:
            raise self._refuse(self.size**2)
        self.baby_steps = max(1, math.isqrt(self.size)) if baby_steps is None else baby_steps
        if self.baby_steps < 1:
            raise UnsuitedError(
                "The number of baby steps must be at least 1.", expected="at least 1", got=baby_steps
            )
        self.terms = self.size
        self.cyclic = slots % self.size**2 == 0
        self.period = self.size**2 if self.cyclic else slots
        self.left_layout = row_major(m, k, slots, self.period, self.size)
        self.right_layout = row_major(k, n, slots, self.period, self.size)
        self.out_layout = row_major(m, n, slots, self.period, self.size)
        self._key = ("e2dm", self.size, slots)

    @property
    def options(self) -> dict[str, Any]:
        return {"size": self.size, "baby_steps": self.baby_steps}

    @made_once
    def sigma(self) -> Transform:
        """σ: 2s - 1 diagonals."""
        s = self.size
        steps = [*range(s), *range(1 - s, 0)]
        return self._map(("sigma",), steps, lambda row, col: row * s + (row + col) % s)

    @made_once
    def tau(self) -> Transform:
        """τ: s diagonals on a cycle, 2s - 1 otherwise."""
        s = self.size
        steps = [step * s for step in (*range(s), *range(1 - s, 0))]
        return self._map(("tau",), steps, lambda row, col: (row + col) % s * s + col)

    @made_once
    def phi(self, i: int) -> Transform:
        """φ^i, the column shift: 2 diagonals."""
        s = self.size
        steps = [i, i - s] if i else [0]
        return self._map(("phi", i), steps, lambda row, col: row * s + (col + i) % s)

    @made_once
    def psi(self, i: int) -> Transform:
        """ψ^i, the row shift: a rotation on a cycle, otherwise 2 diagonals."""
        s = self.size
        if self.cyclic:
            return pure_rotation(i * s, (self._key, "psi", i))
        steps = [i * s, (i - s) * s] if i else [0]
        return self._map(("psi", i), steps, lambda row, col: (row + i) % s * s + col)

    def _map(self, name: tuple[Any, ...], steps: Sequence[int], entry: Any) -> Transform:
        def source() -> SlotMap:
            slot = np.arange(self.slots, dtype=np.int64)
            inside = slot % self.period
            row, col = inside // self.size, inside % self.size
            return np.where(row < self.size, slot - inside + entry(row, col), EMPTY)

        return masked_map((self._key, *name), self.slots, steps, source, self.period)

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """φ^i∘σ(A) for every term. Levels: 2. Keys: rotations of σ (babies, giants), i and i - s."""
        skewed = ev.linear_transform(self._input(ev, cts), self.sigma(), baby_steps=self.baby_steps)
        return list(ev.linear_transforms(skewed, [self.phi(i) for i in range(self.terms)]))

    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """ψ^i∘τ(B) for every term. Levels: 2 (1 of them unused on a cycle). Keys: rotations by multiples of s."""
        skewed = ev.linear_transform(self._input(ev, cts), self.tau(), baby_steps=self.baby_steps)
        if self.cyclic and isinstance(skewed, Ct):
            skewed = ev.drop(skewed, ev.below(skewed.limbs))  # φ spends a level on the other side
        return list(ev.linear_transforms(skewed, [self.psi(i) for i in range(self.terms)]))

    def _input(self, ev: Evaluator, cts: Operand) -> Any:
        ct = ev.rescaled(cts[0])
        ev.require_levels(ct, self.min_levels, self.title)
        return ct

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """One sum of products."""
        return [accumulate(ev, accumulator, 0, left, right)]

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Relinearise."""
        return [ev.relinearise(accumulator[0])]

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """s = max(m, k, n), and the next power of two, which makes a cycle."""
        size = max(m, k, n)
        for padded in dict.fromkeys((size, 1 << (size - 1).bit_length())):
            if padded**2 <= slots:
                yield {"size": padded}
