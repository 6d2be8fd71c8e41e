"""Products of a matrix and a few vectors, all of which may be secret, by the diagonals of the matrix: depth 1."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import UnsuitedError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct
from cipherblas.forms.layouts import EMPTY, Layout, SlotIndex, entry_index
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand, accumulate, split_path

GIANT_STEPS = (1, 2, 4, 8)  # numbers of them that are compared
MAX_VECTORS = 2  # with more of them other ways are faster
FEW_DIAGONALS = 2  # of a group, which gain little by complex packing


class Diagonals(Algorithm):
    """y[r] = Σ_p A[r, (r + p) mod k] · x[(r + p) mod k], for an m×k matrix and each column x of a k×n one with n ≤ m.

    Where m < n the vectors are the rows of the left factor, and the diagonals those of the right one.

    The slots are G groups of W = S/G. Slot u of group h holds x[(u + h·D) mod k], with G·D ≥ k: a rotation of x by d
    meets there the diagonal p = h·D + d of A, of which ciphertext d holds one in each group. D rotations of x, the
    sums of products, and log2(G) rotations that add the groups; afterwards each of them holds the whole product. A
    rotation must not leave its group where there are rows, or k divides W and G·D = k, where the next group goes on as
    this one does.

    Each vector is a ciphertext of its own, and so is each vector of the product.

    With g giant steps d is split into i·B + b: x is rotated by b alone, the diagonals were rotated back by i·B, and
    each sum is rotated by it at the end. Blocks of rows share the rotations of x.

    Complex packing puts the diagonal p + D/2 into the imaginary part, with opposite signs: half as many ciphertexts,
    rotations and products, and garbage in the imaginary part of the product.

    Args:
        complex_packing: two diagonals per ciphertext, in real and imaginary part.
        giant_steps: of the rotations.
    """

    name = "diagonals"
    title = "diagonals of a matrix times vectors, depth 1"
    source = "Halevi, Shoup 2014; groups of diagonals: Juvekar, Vaikuntanathan, Chandrakasan 2018 (GAZELLE)"
    summary = "matrix × few vectors, of any secret factors: k/2 diagonals, rotations of the vectors alone"

    def __init__(
        self, m: int, k: int, n: int, slots: int, *, complex_packing: bool = True, giant_steps: int = 1
    ) -> None:
        super().__init__(m, k, n, slots)
        if giant_steps < 1:
            raise UnsuitedError(
                "The number of giant steps must be at least 1.", expected="at least 1", got=giant_steps
            )
        self.complex_packing, self.giant_steps = complex_packing, giant_steps
        self.by_rows = n <= m  # the matrix is the left factor
        self.length, self.vectors = max(m, n), min(m, n)  # of the product
        groups = _most_groups(self.length, k, slots, complex_packing)
        if groups is None:
            raise self._refuse(self.length + _steps(k, complex_packing) - 1)
        self.groups = groups
        self.width = slots // self.groups
        self.each = -(-k // self.groups)  # D: diagonals per group
        self.steps = _steps(self.each, complex_packing)
        self.babies = -(-self.steps // giant_steps)
        once = self.vectors == 1
        self.streamed = (once and self.by_rows, once and not self.by_rows)
        identity = (m, k, n, slots, complex_packing)
        matrix, vector = ("diagonals", *identity, self.babies), ("diagonals, vector", *identity)
        packing = {"complex_packing": complex_packing}
        shape = (m, k) if self.by_rows else (k, n)
        matrices = Layout(matrix[0], matrix, *shape, slots, self.steps, self._diagonal, **packing)
        shape = (k, n) if self.by_rows else (m, k)
        vectors = Layout(vector[0], vector, *shape, slots, self.vectors, self._vector, **packing)
        self.left_layout, self.right_layout = (matrices, vectors) if self.by_rows else (vectors, matrices)
        out = ("diagonals, product", *identity)
        self.out_layout = Layout(
            *(out[0], out, m, n, slots, self.vectors, self._product), imaginary_garbage=complex_packing
        )

    @property
    def options(self) -> dict[str, Any]:
        return {"complex_packing": self.complex_packing, "giant_steps": self.giant_steps}

    def _places(self, slot: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Group, and place in it."""
        return slot // self.width, slot % self.width

    def _columns(self, slot: NDArray[np.int64]) -> NDArray[np.int64]:
        """The entry of x in the real part."""
        group, place = self._places(slot)
        return (place + group * self.each) % self.k

    def _diagonal(self, step: int) -> SlotIndex:
        giant = step // self.babies * self.babies
        slot = (np.arange(self.slots, dtype=np.int64) - giant) % self.slots
        _, row = self._places(slot)
        column = self._columns((slot + step) % self.slots)

        def entries(more: int) -> NDArray[np.int64]:
            there = self._counted(slot, step, more)
            return self._entry(np.where(there, row, EMPTY), (column + more) % self.k)

        if not self.complex_packing:
            return SlotIndex(entries(0))
        return SlotIndex(entries(0), entries(self.steps), -1)

    def _counted(self, slot: NDArray[np.int64], step: int, more: int) -> NDArray[np.bool_]:
        """Whether a slot holds an entry of the diagonal: groups may have more diagonals than there are."""
        group, row = self._places(slot)
        inside = (group * self.each + step + more < self.k) | (row + step >= self.width)
        return inside & (row < self.length) & (step + more < self.each)

    def _entry(self, line: NDArray[np.int64], inner: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.by_rows:
            return entry_index(line, inner, (self.m, self.k))
        return entry_index(np.where(line == EMPTY, EMPTY, inner), line, (self.k, self.n))

    def _vector(self, number: int) -> SlotIndex:
        slot = np.arange(self.slots, dtype=np.int64)

        def entries(more: int) -> NDArray[np.int64]:
            met = np.zeros(self.slots, dtype=bool)  # by an entry of the matrix
            for step in range(self.steps):
                met |= np.roll(self._counted(slot, step, more), step)
            inner = (self._columns(slot) + more) % self.k
            entry = inner * self.n + number if self.by_rows else number * self.k + inner
            return np.where(met, entry, EMPTY)

        if not self.complex_packing:
            return SlotIndex(entries(0))
        return SlotIndex(entries(0), entries(self.steps), 1)

    def _product(self, number: int) -> SlotIndex:
        _, row = self._places(np.arange(self.slots, dtype=np.int64))
        entry = row * self.n + number if self.by_rows else number * self.n + row
        return SlotIndex(np.where(row < self.length, entry, EMPTY))

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Rotations of a vector. Keys: those rotations. Levels: none."""
        return [ev.rescaled(ct) for ct in cts] if self.by_rows else self._rotated(ev, cts)

    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """Rotations of a vector. Keys: those rotations. Levels: none."""
        return self._rotated(ev, cts) if self.by_rows else [ev.rescaled(ct) for ct in cts]

    def _rotated(self, ev: Evaluator, cts: Operand) -> list[Any]:
        unit = max(1, math.isqrt(self.babies))
        steps = [split_path(step, 1, unit) for step in range(self.babies)]
        return [rotated for ct in cts for rotated in ev.rotate_many(ev.rescaled(ct), steps)]

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """One sum of products per vector and giant step."""
        diagonals, vectors = (left, right) if self.by_rows else (right, left)
        sums: Accumulator = []
        for first in range(0, len(vectors), self.babies):
            for start in range(0, self.steps, self.babies):
                some = diagonals[start : start + self.babies]
                rotated = vectors[first : first + len(some)]
                sums.append(accumulate(ev, accumulator, len(sums), some, rotated))
        return sums

    def finish(self, ev: Evaluator, accumulator: Accumulator) -> list[Ct]:
        """Relinearise, rotate by the giant steps with one ModDown, add the groups. Keys: relinearisation, rotations by
        multiples of the baby steps, and by S/2, S/4, … S/G."""
        giants = len(accumulator) // self.vectors
        results = []
        for first in range(0, len(accumulator), giants):
            sums = [ev.relinearise(ct) for ct in accumulator[first : first + giants]]
            total = ev.rotate_sum(sums, [number * self.babies for number in range(giants)])
            shift = self.slots // 2
            while shift >= self.width:
                total = ev.add(total, ev.rotate(total, shift))
                shift //= 2
            results.append(total)
        return results

    @classmethod
    def worthwhile(cls, m: int, k: int, n: int) -> bool:
        """Of few vectors."""
        return min(m, n) <= MAX_VECTORS

    @classmethod
    def fits(cls, m: int, k: int, n: int, slots: int, **options: Any) -> bool:
        """As `Algorithm.fits`: planning asks for thousands of sizes, and needs no object for the usual options."""
        if options:
            return super().fits(m, k, n, slots, **options)
        return _most_groups(max(m, n), k, slots, True) is not None

    @classmethod
    def candidates(cls, m: int, k: int, n: int, slots: int) -> Iterator[dict[str, Any]]:
        """More giant steps take fewer rotations of a vector, and more of every block of rows."""
        if not cls.fits(m, k, n, slots):
            return
        method = cls(m, k, n, slots)
        steps = method.steps
        if method.each <= FEW_DIAGONALS:  # a vector that lies as computed ones do
            yield {"complex_packing": False}
        for giant_steps in GIANT_STEPS:
            if giant_steps * giant_steps <= steps:
                yield {"giant_steps": giant_steps}


def _steps(each: int, complex_packing: bool) -> int:
    """Rotations of x, of which the first is none."""
    return -(-each // 2) if complex_packing else each


def _most_groups(length: int, k: int, slots: int, complex_packing: bool) -> int | None:
    """The largest number of groups of diagonals; None where the product does not fit."""
    groups = min(1 << (k.bit_length() - 1), slots)
    while groups >= 1:
        width, each = slots // groups, -(-k // groups)
        inside = length + _steps(each, complex_packing) - 1 <= width
        goes_on = width % k == 0 and groups * each == k  # each group in the next one, the last in the first
        if inside or (length <= width and goes_on):
            return groups
        groups //= 2
    return None
