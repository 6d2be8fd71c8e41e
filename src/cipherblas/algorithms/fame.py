"""The general product of one ciphertext by one ciphertext, for any shape (FAME, Algorithm 2)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cipherblas.algorithms.base import Accumulator, Algorithm, Operand, accumulate, split_path
from cipherblas.errors import ParameterError
from cipherblas.evaluators.base import Evaluator
from cipherblas.evaluators.values import Ct, Step, Transform
from cipherblas.layouts.base import EMPTY, column_major
from cipherblas.layouts.maps import SlotMap, masked_map, pure_rotation

PRODUCTS_PER_SUM = 8  # products formed before the shifted operands are dropped, in `multiply_once`


class Fame(Algorithm):
    """A·B = Σ_{i<k} (ε^i∘σ(A)) ⊙ (ω^i∘τ(B)), every map a homomorphic linear transform (FAME, Eq. 1-9).

    Column-major operands. σ(A)[r,c] = A[r, r+c], τ(B)[r,c] = B[r+c, c] (indices mod k), ε^i shifts columns to m×n,
    ω^i shifts rows to m×n. Rotations per map: σ 2·min(m,k) - 1, τ 2·min(n,k) - 1; ε^i one for each time
    that the columns i … i+n-1 wrap around k; ω^i likewise for the rows i … i+m-1, times n where the column strides
    of B and of the result differ. Where the shifts of ε close a cycle (k columns fill the slots, or a square
    that is repeated with period m²) it is a rotation without mask.

    Depth 3: σ or τ, ε or ω, and the product, whose rescale is left to whoever needs it. Inputs may have any
    number of limbs from 3 up. All k products are summed before one relinearisation.

    Args:
        aligned: give the columns of A, B and the result a common stride max(m, k): ω^i then needs no rotation per
            column. The published layout is compact: strides m and k. By default aligned.
        baby_steps: baby-step/giant-step for σ and τ.
        key_baby_steps: paths (giant, baby) for ε and ω, for the key policies that walk paths: together with
            `baby_steps` of the same number about 4·sqrt(k) keys serve everything.
    """

    name = "fame"
    title = "general product by four linear transforms"
    source = "Xu, Kannan, Prasanna: FAME, Algorithms 2 and 3; maps after Gao et al. 2024 (HEGMM)"
    summary = "any shape in one plainly packed ciphertext per operand, result packed alike: chains of products; depth 3"
    min_levels = 2

    def __init__(
        self,
        m: int,
        k: int,
        n: int,
        slots: int,
        *,
        aligned: bool = True,
        baby_steps: int | None = None,
        key_baby_steps: int | None = None,
    ) -> None:
        super().__init__(m, k, n, slots)
        if min(baby_steps or 1, key_baby_steps or 1) < 1:
            raise ParameterError("baby steps", expected="at least 1", got=(baby_steps, key_baby_steps))
        self.aligned = aligned
        self.baby_steps = baby_steps
        self.key_baby_steps = key_baby_steps
        self.left_stride = max(m, k) if aligned else m
        self.right_stride = max(m, k) if aligned else k
        needed = max(
            self.left_stride * (k - 1) + m, self.right_stride * (n - 1) + k, self.left_stride * (n - 1) + m
        )
        if needed > slots:
            raise self._refuse(needed)
        square = m == k == n and slots % (m * m) == 0
        self.period = m * m if square else slots
        self.left_layout = column_major(m, k, slots, self.period, self.left_stride)
        self.right_layout = column_major(k, n, slots, self.period, self.right_stride)
        self.out_layout = column_major(m, n, slots, self.period, self.left_stride)
        # ε^i rotates by i·stride and (i - k)·stride: the same where k columns fill a period.
        self.rotates_columns = self.left_stride * k == self.period
        self._key = ("fame", m, k, n, slots, aligned)

    @property
    def options(self) -> dict[str, Any]:
        return {"aligned": self.aligned, "baby_steps": self.baby_steps, "key_baby_steps": self.key_baby_steps}

    # ---- the four maps ----

    def sigma(self) -> Transform:
        """σ as a transform (Eq. 2, 6)."""
        steps = self._paths(_skew_steps(self.m, self.k), self.left_stride)
        return self._map(("sigma",), steps, self.m, self.k, self.left_stride, self._sigma_entry)

    def tau(self) -> Transform:
        """τ as a transform (Eq. 3, 7)."""
        steps = self._paths(_skew_steps(self.n, self.k), 1)
        return self._map(("tau",), steps, self.k, self.n, self.right_stride, self._tau_entry)

    def epsilon(self, i: int) -> Transform:
        """ε^i as a transform (Eq. 4, 8)."""
        if self.rotates_columns:
            return pure_rotation(
                split_path(i, self.left_stride, self.key_baby_steps), (self._key, "epsilon", i)
            )
        steps = self._paths(_shift_steps(i, self.n, self.k), self.left_stride)
        entry = self._epsilon_entry
        return self._map(("epsilon", i), steps, self.m, self.n, self.left_stride, lambda r, c: entry(r, c, i))

    def omega(self, i: int) -> Transform:
        """ω^i as a transform (Eq. 5, 9)."""
        rows = _shift_steps(i, self.m, self.k)
        skew = self.right_stride - self.left_stride
        columns = range(self.n) if skew else range(1)
        steps = self._paths([step + column * skew for column in columns for step in rows], 1)
        entry = self._omega_entry
        return self._map(("omega", i), steps, self.m, self.n, self.left_stride, lambda r, c: entry(r, c, i))

    def _sigma_entry(self, row: SlotMap, col: SlotMap) -> SlotMap:
        return row + (row + col) % self.k * self.left_stride

    def _tau_entry(self, row: SlotMap, col: SlotMap) -> SlotMap:
        return (row + col) % self.k + col * self.right_stride

    def _epsilon_entry(self, row: SlotMap, col: SlotMap, i: int) -> SlotMap:
        return row + (col + i) % self.k * self.left_stride

    def _omega_entry(self, row: SlotMap, col: SlotMap, i: int) -> SlotMap:
        return (row + i) % self.k + col * self.right_stride

    def _paths(self, counts: Sequence[int], unit: int) -> list[Step]:
        return [split_path(count, unit, self.key_baby_steps) for count in counts]

    def _map(
        self,
        name: tuple[Any, ...],
        steps: Sequence[Step],
        rows: int,
        cols: int,
        stride: int,
        entry: Callable[[SlotMap, SlotMap], SlotMap],
    ) -> Transform:
        """The transform to a rows × cols matrix whose slot (r, c) takes the slot entry(r, c) of the input."""

        def source() -> SlotMap:
            slot = np.arange(self.slots, dtype=np.int64)
            inside = slot % self.period
            row, col = inside % stride, inside // stride
            return np.where((row < rows) & (col < cols), slot - inside + entry(row, col), EMPTY)

        return masked_map((self._key, *name), self.slots, steps, source, self.period)

    # ---- the product ----

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """ε^i∘σ(A) for all i. Levels: 2. Keys: rotations of σ and ε."""
        return list(self._shifted_left(ev, cts))

    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """ω^i∘τ(B) for all i. Levels: 2. Keys: rotations of τ and ω."""
        return list(self._shifted_right(ev, cts))

    def _shifted_left(self, ev: Evaluator, cts: Operand) -> Iterator[Any]:
        skewed = ev.linear_transform(self._input(ev, cts), self.sigma(), baby_steps=self.baby_steps)
        if self.rotates_columns and isinstance(skewed, Ct):
            skewed = ev.drop(skewed, skewed.limbs - 1)  # ω spends a level on the other side
        return ev.linear_transforms(skewed, [self.epsilon(i) for i in range(self.k)])

    def _shifted_right(self, ev: Evaluator, cts: Operand) -> Iterator[Any]:
        skewed = ev.linear_transform(self._input(ev, cts), self.tau(), baby_steps=self.baby_steps)
        return ev.linear_transforms(skewed, [self.omega(i) for i in range(self.k)])

    def _input(self, ev: Evaluator, cts: Operand) -> Any:
        ct = ev.ready(cts[0])
        ev.require_levels(ct, self.min_levels, self.title)
        return ct

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """One sum of k products."""
        return [accumulate(ev, accumulator, 0, left, right)]

    def multiply_once(
        self, ev: Evaluator, left: Operand, right: Operand, accumulator: Accumulator | None
    ) -> Accumulator:
        """Shifts and products in step: only a few shifted operands are held at a time."""
        pairs = zip(self._shifted_left(ev, left), self._shifted_right(ev, right), strict=True)
        while batch := list(itertools.islice(pairs, PRODUCTS_PER_SUM)):
            accumulator = [accumulate(ev, accumulator, 0, [a for a, _ in batch], [b for _, b in batch])]
        assert accumulator is not None  # k >= 1
        return accumulator

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Relinearise."""
        return [ev.relinearise(accumulator[0])]

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """Aligned before compact; with and without baby steps; the last for policies with few keys."""
        root = max(2, math.isqrt(2 * max(min(m, k), min(n, k))))
        for aligned in (True, False):
            if not cls.fits(m, k, n, slots, aligned=aligned):
                continue
            if not aligned and m == k:
                continue  # the same layout
            yield {"aligned": aligned}
            if k > 2:
                yield {"aligned": aligned, "baby_steps": root}
                yield {"aligned": aligned, "baby_steps": root, "key_baby_steps": root}


def _skew_steps(outer: int, inner: int) -> list[int]:
    """(x + t) mod k - t for x < outer and all t < k: x mod k, and that minus k."""
    offsets = range(min(outer, inner))
    return [*offsets, *(offset - inner for offset in offsets if offset)]


def _shift_steps(i: int, outer: int, inner: int) -> list[int]:
    """(x + i) mod k - x for x < outer: i minus a multiple of k for each wrap."""
    return [i - wrap * inner for wrap in range(i // inner, (outer - 1 + i) // inner + 1)]
