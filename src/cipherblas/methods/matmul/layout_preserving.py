"""Products of a secret block and a clear one that leave the secret entries where they lie: one linear map of slots."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cipherblas.common.errors import FitError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.rotations import split_steps
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.convert.relayout import best_baby_steps
from cipherblas.forms.layouts import EMPTY, Layout, SlotIndex
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand
from cipherblas.rlwe.noise import worst

MAX_DIAGONALS = 2048  # of a block: more are slower than any other way, and slow to list


class LayoutPreserving(Algorithm):
    """X @ W or W @ X with a clear W, by the diagonals of the map of slots that it is.

    Slot s of the product takes u_δ[s] times slot s + δ of X, for every distance δ between two entries of X that one
    entry of the product sees: with stride 1 or d between them up to 2k - 1 distances, k where they wrap around. They
    are split into g + b: X is rotated by every b, the sums of each g are rotated together at the end, over all inner
    blocks. The layout of W is that of its diagonals, each rotated back by its g.

    Any layout does that has each entry once, in the real part of one ciphertext; the product lies as X does, and the
    blocks of W are square. A value that conversions or entrywise products left somewhere needs no re-arrangement.

    Args:
        lies: the layout of X.
        clear_left: W is the left factor.
        inner, outer: used rows and columns of W (columns and rows where it is the left factor), for fewer diagonals
            where it is smaller than its block.

    Raises:
        ShapeError: the layout is none of those, or needs more than `MAX_DIAGONALS`.
    """

    name = "in place"
    title = "diagonals, in place"
    source = "Halevi, Shoup 2014 (Algorithms in HElib); baby steps and giant steps: Halevi, Shoup 2018"
    summary = "secret × clear where the secret entries lie: one level, about 2·sqrt(k) rotations"
    min_levels = 1

    def __init__(
        self, lies: Layout, clear_left: bool, inner: int | None = None, outer: int | None = None
    ) -> None:
        k = lies.rows if clear_left else lies.cols
        super().__init__(lies.rows, k, lies.cols, lies.slots)
        if lies.ciphertexts != 1 or lies.complex_packing or lies.imaginary_garbage:
            raise FitError(
                "A product in place needs a block of real slots in one ciphertext.",
                expected="one ciphertext, real slots",
                got=lies.name,
            )
        self.clear_left, self._entries = clear_left, lies.index(0).real
        self.inner, self.outer = min(k, inner or k), min(k, outer or k)
        steps = self._steps()
        if len(steps) > MAX_DIAGONALS:
            raise self._refuse(len(steps), f"slots, and {MAX_DIAGONALS} diagonals")
        groups = split_steps(steps, best_baby_steps(steps))
        self._groups = {giant: [baby for baby, _ in members] for giant, members in groups.items()}
        self._babies = sorted({baby for members in self._groups.values() for baby in members})
        self._diagonals = [(giant, baby) for giant, members in self._groups.items() for baby in members]
        key = "in place, diagonals", lies.key, clear_left, self.inner, self.outer
        weights = Layout(key[0], key, k, k, lies.slots, len(self._diagonals), self._diagonal)
        self.left_layout, self.right_layout = (weights, lies) if clear_left else (lies, weights)
        self.out_layout = lies

    @property
    def options(self) -> dict[str, Any]:
        return {}

    def _steps(self) -> list[int]:
        """The distances from an entry of the product to those of X that it sees, from -S/2 to S/2."""
        places = np.full(self.m * self.n, EMPTY, dtype=np.int64)
        used = np.flatnonzero(self._entries >= 0)
        places[self._entries[used]] = used
        if len(used) != self.m * self.n or (places == EMPTY).any():
            raise FitError(
                "A product in place needs a layout that has each entry once.",
                expected=f"{self.m * self.n} entries",
                got=f"{len(used)} slots",
            )
        lines = places.reshape(self.m, self.n)
        lines = (
            lines.T if self.clear_left else lines
        )  # each holds what the entries of one line of the product see
        patterns = {line.tobytes(): line for line in (lines - lines[:, :1]) % self.slots}.values()
        seen = np.zeros(self.slots, dtype=bool)
        for pattern, entry in itertools.product(patterns, range(self.outer)):
            seen[(pattern[: self.inner] - pattern[entry]) % self.slots] = True
        steps = np.flatnonzero(seen)
        centred = np.where(steps > self.slots // 2, steps - self.slots, steps)
        return [int(step) for step in np.sort(centred)]

    def _diagonal(self, number: int) -> SlotIndex:
        giant, baby = self._diagonals[number]
        ahead = np.roll(self._entries, -(giant + baby))
        there = (self._entries >= 0) & (ahead >= 0)
        (row, col), (source_row, source_col) = (np.divmod(one, self.n) for one in (self._entries, ahead))
        if self.clear_left:
            there &= col == source_col
            entry = row * self.k + source_row
        else:
            there &= row == source_row
            entry = source_col * self.n + col
        return SlotIndex(np.roll(np.where(there, entry, EMPTY), giant))

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Baby steps of a secret block. Keys: those rotations. Levels: none."""
        return list(cts) if self.clear_left else self._rotated(ev, cts)

    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Baby steps of a secret block. Keys: those rotations. Levels: none."""
        return self._rotated(ev, cts) if self.clear_left else list(cts)

    def _rotated(self, ev: Evaluator, cts: Operand) -> list[Any]:
        ct = ev.rescaled(cts[0])
        ev.require_levels(ct, 1, "a product in place")
        return ev.rotate_many(ev.for_masks(ct), self._babies)

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """One sum of products per giant step, with diagonals at the scale of the limb that `finish` drops."""
        rotated, diagonals = (right, left) if self.clear_left else (left, right)
        by_step = dict(zip(self._babies, rotated, strict=True))
        scale = ev.mask_scale(rotated[0].limbs)
        largest = max(
            1.0, *(plain.bound for plain in diagonals)
        )  # at least 1: `finish` reads the bound of X from it
        rows = self.inner * largest, math.sqrt(self.inner) * largest
        sums, start = [], 0
        for number, babies in enumerate(self._groups.values()):
            before = None if accumulator is None else accumulator[number]
            plains = diagonals[start : start + len(babies)]
            start += len(babies)
            cts = [by_step[baby] for baby in babies]
            sums.append(ev.weighted_sum(cts, plains, scale, before, rows=rows))
        return sums

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Giant steps with one ModDown, merged with the rescale. Keys: those rotations. Levels: 1.

        A row of the map is spread over the sums: the errors of X count in each as if it were all there, so that
        those of the worst are enough for all; what rounding the diagonals adds is that of all of them.
        """
        limbs, bound = accumulator[0].limbs, accumulator[0].bound
        scale = ev.mask_scale(limbs)
        rounding = ev.encoding_error(scale, bound / self.inner, len(self._diagonals), self.inner)
        errors = worst(ct.errors for ct in accumulator).with_common(rounding)
        steps = list(self._groups)
        return [ev.rotate_sum(accumulator, steps, rescale=True, bound=bound, errors=errors)]

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """None: it follows from where a value lies."""
        return iter(())
