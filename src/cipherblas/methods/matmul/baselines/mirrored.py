"""Products that are computed as they are or as (Bᵀ·Aᵀ)ᵀ, by the same algorithm."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.layouts import transposed
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand


class Mirrored(Algorithm):
    """An algorithm for both forms of a product that is better where the left (or the right) operand is the smaller one.

    The mirrored form is the product of the transposes: (A·B)ᵀ = Bᵀ·Aᵀ. Transposing is free, since the client packs
    and unpacks: what was column-major becomes row-major.

    Args:
        mirrored: compute Bᵀ·Aᵀ.

    Attributes:
        inner: the algorithm that runs, of m×k · k×n or of n×k · k×m.
    """

    def __init__(self, m: int, k: int, n: int, slots: int, *, mirrored: bool = False) -> None:
        super().__init__(m, k, n, slots)
        self.mirrored = mirrored
        self.inner = self._oriented(n, k, m) if mirrored else self._oriented(m, k, n)
        self.min_levels = self.inner.min_levels
        layouts = [self.inner.left_layout, self.inner.right_layout, self.inner.out_layout]
        if mirrored:
            right, left, out = (transposed(layout) for layout in layouts)
        else:
            left, right, out = layouts
        self.left_layout, self.right_layout, self.out_layout = left, right, out

    @abstractmethod
    def _oriented(self, m: int, k: int, n: int) -> Algorithm:
        """The algorithm for m×k · k×n."""

    @property
    def options(self) -> dict[str, Any]:
        return {"mirrored": self.mirrored}

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """As `inner` prepares its left operand; mirrored, its right one."""
        return (self.inner.prepare_right if self.mirrored else self.inner.prepare_left)(ev, cts)

    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """As `inner` prepares its right operand; mirrored, its left one."""
        return (self.inner.prepare_left if self.mirrored else self.inner.prepare_right)(ev, cts)

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """As `inner`."""
        return self.inner.multiply(ev, *self._in_order(left, right), accumulator)

    def multiply_once(
        self, ev: Evaluator, left: Operand, right: Operand, accumulator: Accumulator | None
    ) -> Accumulator:
        """As `inner`."""
        return self.inner.multiply_once(ev, *self._in_order(left, right), accumulator)

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """As `inner`."""
        return self.inner.finish(ev, accumulator)

    def _in_order(self, left: Any, right: Any) -> tuple[Any, Any]:
        return (right, left) if self.mirrored else (left, right)

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """Both forms; one where they are the same."""
        for mirrored in (False, True)[: 1 + (m != n)]:
            if cls.fits(m, k, n, slots, mirrored=mirrored):
                yield {"mirrored": mirrored}
