"""Products on a hypercube of slots, min(m, k, n) ciphertext products (FHE-MM), a named baseline."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ParameterError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.movements import Movements
from cipherblas.evaluators.slots.values import Ct, Parts, Plain, Transform
from cipherblas.forms.index_maps import pure_rotation
from cipherblas.forms.layouts import row_major, with_garbage
from cipherblas.methods.doubling import folded, repeated
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand, accumulate, made_once
from cipherblas.rlwe.key_policies import Step

ALL = slice(None)


class FheMm(Algorithm):
    """A·B on slots that are a grid of max(m,k) rows and max(k,n) columns, by RotateAlign and ShiftByStep.

    1. Copies of A and B, by doubling, fill the grid: log2 of so many rotations.
    2. RotateAlign: row i of A is rotated left by i mod k, column j of B up by j mod k. Each is k rotations and masks.
    3. ShiftByStep: for r < min(m,k,n) both are rotated by r and multiplied. Slot (i, j) adds up the terms
       i + j, …, i + j + min(m,k,n) - 1 of entry (i mod m, j mod n), indices mod k.
    4. Where min(m,k,n) < k, rows i, i + m, … have the other terms, or columns j, j + n, …; log2(k/min) rotations add
       them.

    In Table II of FHE4DMM, with d1 ≥ d2 ≥ d3 the sorted dimensions: 2k plain products, d3 products, 2k + 2·d3 rotations
    and the logarithms of 1 and 4. Dimensions are padded to powers of two.

    Published on the hypercube of HElib, whose lines are cycles. On a ring whose degree is a power of two columns are
    one (the client packs the grid as often as it fits the slots), rows are not: a rotation along rows is two rotations
    and two masks, of the grid and of the grid rotated down by a row, by one key. That is k more rotations and k - 1
    more plain products in RotateAlign, d3 more rotations and 2·(d3 - 1) plain products in ShiftByStep, and one more
    level. Rotations by 0 are none: four fewer. One relinearisation.

    Depth 3 (RotateAlign, ShiftByStep, product).

    Args:
        baby_steps: of RotateAlign, on each side; without, a rotation for each of its diagonals, which ranks can share.
    """

    name = "fhe-mm"
    title = "FHE-MM: product on a hypercube of slots"
    source = (
        "Zhu, Hua, Chen, Jin 2023: Secure outsourced matrix multiplication with fully homomorphic encryption "
        "(ESORICS); counts by FHE4DMM, Table II"
    )
    summary = "published baseline for any shape, as many products as the least dimension, depth 3"
    min_levels = 2
    baseline = True

    def __init__(self, m: int, k: int, n: int, slots: int, *, baby_steps: int | None = None) -> None:
        super().__init__(m, k, n, slots)
        if baby_steps is not None and (type(baby_steps) is not int or baby_steps < 1):
            raise ParameterError(
                "The number of baby steps must be at least 1.", expected="at least 1", got=baby_steps
            )
        self.baby_steps = baby_steps
        self.padded = tuple(1 << (length - 1).bit_length() for length in (m, k, n))
        pm, pk, pn = self.padded
        self.rows, self.cols = max(pm, pk), max(pk, pn)
        self.period = self.rows * self.cols
        if self.period > slots:
            raise self._refuse(self.period)
        self.terms = min(self.padded)
        self.sums = pk // self.terms  # slots that have the terms of one entry
        grid = slots, self.period, self.cols
        self.left_layout = row_major(m, k, *grid)
        self.right_layout = row_major(k, n, *grid)
        self.out_layout = row_major(m, n, *grid)
        if self.period > pm * pn or self.sums > 1:
            self.out_layout = with_garbage(self.out_layout)
        self._key = (self.name, *self.padded, slots)

    @property
    def options(self) -> dict[str, Any]:
        return {} if self.baby_steps is None else {"baby_steps": self.baby_steps}

    # ---- the maps ----

    @made_once
    def align_left(self) -> Transform:
        """RotateAlign of A: row i left by i mod k. 2k - 1 diagonals: what stays in the row, and what wraps around."""
        inner = self.padded[1]
        diagonals: dict[Step, Plain] = {}
        for i in range(inner):
            diagonals[i] = self._mask(slice(i, None, inner), slice(self.cols - i))
            if i:
                diagonals[self._row_back, i] = self._mask(slice(i, None, inner), slice(self.cols - i, None))
        return Transform(diagonals, 1.0, 1.0, (self._key, "align left"), walked=True)

    @made_once
    def align_right(self) -> Transform:
        """RotateAlign of B: column j up by j mod k. k diagonals."""
        inner = self.padded[1]
        diagonals: dict[Step, Plain] = {
            j * self.cols: self._mask(ALL, slice(j, None, inner)) for j in range(inner)
        }
        return Transform(diagonals, 1.0, 1.0, (self._key, "align right"))

    @made_once
    def shift_left(self, r: int) -> Transform:
        """ShiftByStep of A, r ≥ 1: all rows left by r. 2 diagonals: of columns that stay in the row, and of those that
        wrap around, the last r. Both are sums of columns, of which a step has one more than the step before."""
        first = self.cols - r
        stay = self._mask(ALL, slice(first), lambda: self._but_last[: r + 1])
        wrap = self._mask(ALL, slice(first, None), lambda: self._last[:r])
        diagonals: dict[Step, Plain] = {r: stay, (self._row_back, r): wrap}
        return Transform(diagonals, 1.0, 1.0, (self._key, "shift left", r), walked=True)

    @property
    def _row_back(self) -> int:
        """Down by a row, which is up by all others: what wraps around comes from there, rotated as what does not."""
        return self.period - self.cols

    @made_once
    def shift_right(self, r: int) -> Transform:
        """ShiftByStep of B: all columns up by r, a rotation."""
        return pure_rotation(r * self.cols, (self._key, "shift right", r))

    @functools.cached_property
    def _last(self) -> Parts:
        """Columns, from the last one on."""
        return tuple((1, self._mask(ALL, slice(j, j + 1))) for j in reversed(range(self.cols)))

    @functools.cached_property
    def _but_last(self) -> Parts:
        """All columns together, without the last one, the one before it, …."""
        return ((1, self._mask(ALL, ALL)), *((-1, column) for _, column in self._last))

    def _mask(self, rows: slice, columns: slice, parts: Callable[[], Parts] | None = None) -> Plain:
        """1 where these rows and columns meet, 0 elsewhere."""

        def values() -> NDArray[np.float64]:
            grid = np.zeros((self.rows, self.cols))
            grid[rows, columns] = 1.0
            return np.tile(grid.ravel(), self.slots // self.period)

        places = (rows.start, rows.stop, rows.step), (columns.start, columns.stop, columns.step)
        return Plain((self._key, places, parts is None), values, 1.0, constant=True, parts=parts)

    # ---- the product ----

    def movements(self) -> tuple[Movements, Movements]:
        """Of A, whose rotations along rows spend a level; of B, which leaves another one unused."""
        filled_left, filled_right = (
            functools.partial(self._filled, shape=shape) for shape in (self.padded[:2], self.padded[1:])
        )
        both = self.terms, self.baby_steps
        return (
            Movements(filled_left, self.align_left(), _as_it_is, _lower, self.shift_left, *both),
            Movements(filled_right, self.align_right(), _lower, _as_it_is, self.shift_right, *both),
        )

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """A rotated left by r for every r. Levels: 2. Keys: copies, i and r along rows, and up by all rows but one."""
        return self.movements()[0].prepared(ev, cts)

    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """B rotated up by r for every r. Levels: 1, another one left unused. Keys: copies, multiples of a row."""
        return self.movements()[1].prepared(ev, cts)

    def _filled(self, ev: Evaluator, cts: Operand, shape: tuple[int, ...]) -> Any:
        """Copies of a matrix in the whole grid."""
        ct = ev.rescaled(cts[0])
        ev.require_levels(ct, self.min_levels, self.title)
        down, across = self.rows // shape[0], self.cols // shape[1]
        if isinstance(ct, Plain):
            slot = np.arange(self.slots, dtype=np.int64)
            row, col = slot % self.period // self.cols % shape[0], slot % self.cols % shape[1]
            values = ct.values
            key = ("filled", self._key, shape, ct.key)
            return Plain(
                key,
                lambda: values()[row * self.cols + col],
                ct.bound,
                keep=True,
                constant=ct.constant,
                blocks=ct.blocks,
            )
        ct = repeated(ev, ct, down, shape[0] * self.cols)
        return repeated(ev, ct, across, shape[1])

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """One sum of products."""
        return [accumulate(ev, accumulator, 0, left, right)]

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Relinearise, add the terms of other rows or columns. Keys: relinearisation, their distances times 2^i."""
        total = ev.relinearise(accumulator[0])
        pm, _, pn = self.padded
        return [folded(ev, total, self.sums, pm * self.cols if self.terms == pm else pn)]

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """As published in FHE4DMM's counts, without baby steps: these are taken where they are asked for."""
        if cls.fits(m, k, n, slots):
            yield {}


def _as_it_is(ev: Evaluator, x: Any) -> Any:
    return x


def _lower(ev: Evaluator, x: Any) -> Any:
    """With one limb fewer."""
    return ev.drop(x, ev.below(x.limbs)) if isinstance(x, Ct) else x
