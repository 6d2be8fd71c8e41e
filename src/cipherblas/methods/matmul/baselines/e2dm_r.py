"""Rectangular product of one ciphertext by one ciphertext, the smaller operand repeated (E2DM-R), a named baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from cipherblas.common.errors import UnsuitedError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.layouts import row_major, stacked, with_garbage
from cipherblas.methods.doubling import folded
from cipherblas.methods.matmul.base import Accumulator, Algorithm
from cipherblas.methods.matmul.baselines.e2dm import E2dm
from cipherblas.methods.matmul.baselines.mirrored import Mirrored


class E2dmR(Mirrored):
    """m×s · s×s with m | s: A repeated t = s/m times, one copy below the other, m iterations of E2DM-S instead of s.

    Row r + j·m of Σ_{i<m} φ^i(σ(Ā)) ⊙ ψ^i(τ(B)) has the terms j·m, …, j·m + m - 1 of row r, and the rows of all
    copies are added by rotations by m·s·2^j: log2(t) of them, and if t is no power of two one more for each further 1
    in its binary form. Other shapes are padded to the next multiple s of m that is at least max(k, n); with m = s this
    is E2DM-S. Mirrored: s×s · s×n with n | s, n iterations.

    σ and τ as in E2DM-S, then m column shifts φ^i of two diagonals and m row shifts ψ^i, without masks where the s²
    slots are a cycle. The client repeats the operand. Depth 3; one relinearisation.

    Args:
        size: s, a multiple of the repeated dimension; by default the least one.
        baby_steps: of σ and τ; by default about sqrt(s), as published.
        mirrored: repeat B beside itself instead.
    """

    name = "e2dm-r"
    title = "E2DM-R: rectangular product by diagonal permutations"
    source = "Jiang, Kim, Lauter, Song 2018 (E2DM), Algorithm 3"
    summary = "published baseline for m×s · s×s and s×s · s×n, one ciphertext per operand, depth 3"
    min_levels = 2
    baseline = True

    def __init__(
        self,
        m: int,
        k: int,
        n: int,
        slots: int,
        *,
        size: int | None = None,
        baby_steps: int | None = None,
        mirrored: bool = False,
    ) -> None:
        self._size, self._baby_steps = size, baby_steps
        super().__init__(m, k, n, slots, mirrored=mirrored)

    @property
    def options(self) -> dict[str, Any]:
        return {"size": self._size, "baby_steps": self._baby_steps, **super().options}

    def _oriented(self, m: int, k: int, n: int) -> Algorithm:
        size = multiple_of(m, max(k, n)) if self._size is None else self._size
        if size < max(k, n) or size % m:
            raise UnsuitedError(
                "The size of the padded square does not suit the blocks.",
                expected=f"a multiple of {m}, at least {max(k, n)}",
                got=size,
            )
        return _Stacked(m, k, n, self.slots, size, self._baby_steps)

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """Both forms, with the least s, and with the next power of two where that is possible: it makes a cycle."""
        for form in super().candidates(m, k, n, slots):
            lines, other = (n, m) if form["mirrored"] else (m, n)
            size = multiple_of(lines, max(k, other))
            for padded in dict.fromkeys((size, 1 << (size - 1).bit_length())):
                if padded % lines == 0 and padded**2 <= slots:
                    yield {"size": padded, **form}


def multiple_of(length: int, least: int) -> int:
    """The least multiple of a length that is at least so much."""
    return math.ceil(least / length) * length


class _Stacked(E2dm):
    """The product of s/m copies of A, whose rows are added up."""

    name = E2dmR.name
    title = E2dmR.title

    def __init__(self, m: int, k: int, n: int, slots: int, size: int, baby_steps: int | None) -> None:
        super().__init__(size, k, n, slots, size=size, baby_steps=baby_steps)
        self.terms = m
        self.copies, self.step = size // m, m * size
        self.left_layout = stacked(self.left_layout, m)
        if self.cyclic:  # all copies get the same sum
            self.out_layout = row_major(m, n, slots, self.step, size)
        elif self.copies > 1:
            self.out_layout = with_garbage(row_major(m, n, slots, self.period, size))

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Relinearise, add the copies. Keys: relinearisation, rotations by m·s·2^j."""
        (total,) = super().finish(ev, accumulator)
        return [folded(ev, total, self.copies, self.step)]
