"""W·x by diagonals with baby steps and giant steps, as HElib computes it: a named baseline.

Source: S. Halevi, V. Shoup: Faster Homomorphic Linear Transformations in HElib, CRYPTO 2018.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, WeightGroup
from cipherblas.forms.tensors import TensorLayout
from cipherblas.methods.matvec_conv.base import OneVectorMethod, Weights


class _Giant(NamedTuple):
    """The diagonals that one giant step turns: `babies` of them; wrapped ones read beyond the end of the vector."""

    wrapped: bool
    step: int
    babies: tuple[int, ...]


class MatVecHelib(OneVectorMethod):
    """W·x, W rows × columns, as the product of a D×D matrix, D a power of two. Levels: 1.

    With ρ the rotation of the D entries and diagonals κ_i[j] = W[j, j + i mod D], W·x = Σ_i κ_i ⊙ ρ^i(x), in n1 baby
    steps and n2 giant steps, n1·n2 = D. Where the entries fill the slots (a good dimension), ρ is a rotation of slots:
    n1 + n2 rotations. Where they do not (a bad one), ρ^i is two of them, by i and by i - D: each giant step is done
    twice, for the parts of the diagonals that do not wrap around and for those that do, and the sum of the latter is
    rotated by -D: n1 + 2·n2 + 1. Rotations by zero and steps in which only zeros were padded are counted there.

    Args:
        x: the entries in the first slots of one ciphertext, anything elsewhere.
        rows: of W.

    Raises:
        ShapeError: rows or columns exceed the slots, or x lies elsewhere.
    """

    name = "helib-bsgs"
    title = "HElib's diagonals with baby steps and giant steps"
    source = "Halevi, Shoup, CRYPTO 2018"

    def __init__(self, x: TensorLayout, rows: int) -> None:
        super().__init__(x, rows)
        bits = (max(rows, self.columns) - 1).bit_length()
        self.dimension = 1 << bits
        self.babies = 1 << (bits + 1) // 2

    @property
    def bad(self) -> bool:
        """Whether a rotation of the D entries is not one of the slots."""
        return self.dimension < self.x.slots

    @property
    def formula(self) -> int:
        """Rotations as published, by zero and of zeros included."""
        giants = self.dimension // self.babies
        return self.babies + (2 * giants + 1 if self.bad else giants)

    @property
    def trivial_rotations(self) -> int:
        done = len(self._baby_steps - {0}) + sum(giant.step > 0 for giant in self._giants)
        return self.formula - done - any(giant.wrapped for giant in self._giants)

    @property
    def plaintexts(self) -> int:
        return sum(len(giant.babies) for giant in self._giants)

    @property
    def padded_weights(self) -> int:
        return self.rows * self.columns

    @property
    def _baby_steps(self) -> set[int]:
        return {baby for giant in self._giants for baby in giant.babies}

    @functools.cached_property
    def _giants(self) -> list[_Giant]:
        """Giant steps that turn a diagonal with a weight on it."""
        found = []
        for wrapped in (False, True) if self.bad else (False,):
            for step in range(0, self.dimension, self.babies):
                babies = tuple(b for b in range(self.babies) if self._weighted(step + b, wrapped))
                if babies:
                    found.append(_Giant(wrapped, step, babies))
        return found

    def _weighted(self, diagonal: int, wrapped: bool) -> bool:
        """Whether a part of a diagonal meets the matrix."""
        direct = diagonal < self.columns
        around = diagonal > self.dimension - self.rows  # row D - diagonal exists, its column is 0
        if not self.bad:
            return direct or around
        return around if wrapped else direct

    def run(self, ev: Evaluator, cts: Sequence[Ct], weights: Weights) -> list[Ct]:
        ev.require_levels(cts[0], self.levels, self.title)
        babies = sorted(self._baby_steps)
        rotated = ev.rotate_many(cts[0], babies)
        position = {baby: number for number, baby in enumerate(babies)}
        groups = [self._group(weights, giant, position) for giant in self._giants]
        scale = ev.mask_scale(cts[0].limbs)
        sums = ev.weighted_sums(rotated, groups, scale, rows=weights.rows)
        bound = cts[0].bound * weights.rows[0]
        total = self._rotated(ev, sums, bound, wrapped=False)
        if any(giant.wrapped for giant in self._giants):
            wrapped = self._rotated(ev, sums, bound, wrapped=True)
            total = ev.add(total, ev.rotate(wrapped, -self.dimension))
        return [ev.bounded(total, bound)]

    def _rotated(self, ev: Evaluator, sums: Sequence[Ct], bound: float, *, wrapped: bool) -> Ct:
        """The giant steps of one part of the diagonals."""
        own = [(ct, giant) for ct, giant in zip(sums, self._giants, strict=True) if giant.wrapped == wrapped]
        steps = [giant.step for _, giant in own]
        return ev.rotate_sum([ct for ct, _ in own], steps, rescale=True, bound=bound)

    def _group(self, weights: Weights, giant: _Giant, position: dict[int, int]) -> WeightGroup:
        wrapped, step, babies = giant

        def build(term: int) -> NDArray[np.float64]:
            diagonal = step + babies[term]
            values = weights.values()
            rows = np.arange(self.rows)
            reads = rows + diagonal
            around = reads >= self.dimension
            chosen = reads % self.dimension < self.columns
            if self.bad:
                chosen &= around == wrapped
            slots = np.zeros(self.x.slots)
            places = rows[chosen] + step - (self.dimension if wrapped else 0)
            slots[places % self.x.slots] = values[rows[chosen], reads[chosen] % self.dimension]
            return slots

        key = (self.name, self.x.key, self.rows, step, wrapped)
        return weights.group(key, [position[baby] for baby in babies], build)
