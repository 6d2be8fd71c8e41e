"""The general product of one ciphertext by one ciphertext, for any shape (FAME, Algorithm 2)."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from cipherblas.common.errors import UnsuitedError
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Transform
from cipherblas.forms.index_maps import SlotMap, masked_map, pure_rotation
from cipherblas.forms.layouts import EMPTY, column_major, with_imaginary_garbage
from cipherblas.methods.matmul.base import Accumulator, Algorithm, Operand, accumulate, made_once, split_path
from cipherblas.rlwe.key_policies import Step

Offset: TypeAlias = Callable[[SlotMap], SlotMap]  # line → by how much it is rotated
Entry: TypeAlias = Callable[[SlotMap, SlotMap], SlotMap]  # target row and column → source slot

MIN_WIDENED = 4  # shifts in a group, and rows and columns, that are worth the map it starts from
PRODUCTS_PER_SUM = 8  # products formed before the shifted operands are dropped, in `multiply_once`


class Fame(Algorithm):
    """A·B = Σ_{i<k} (ε^i∘σ(A)) ⊙ (ω^i∘τ(B)), every map a homomorphic linear transform (FAME, Eq. 1-9).

    Column-major operands. σ(A)[r,c] = A[r, r+c], τ(B)[r,c] = B[r+c, c] (indices mod k), ε^i shifts columns to m×n,
    ω^i shifts rows to m×n. Rotations per map: σ 2·min(m,k) - 1, τ 2·min(n,k) - 1; ε^i one for each time
    that the columns i … i+n-1 wrap around k; ω^i likewise for the rows i … i+m-1, times n where the column strides
    of B and of the result differ. Widened operands are rotated instead, as are columns where the shifts of ε close a
    cycle (k columns fill the slots, or a square that is repeated with period m²): without mask.

    Depth 3: σ or τ, ε or ω, and the product, whose rescale is left to whoever needs it (2 where `widened` makes one
    group). Inputs may have any number of limbs from there up. All k products are summed before one relinearisation.

    Args:
        aligned: give the columns of A, B and the result a common stride max(m, k): ω^i then needs no rotation per
            column. The published layout is compact: strides m and k. By default aligned.
        complex_packing: σ makes A[r, r+c] - j·A[r, r+c+h] and τ B[r+c, c] + j·B[r+c+h, c] by the same
            rotations with complex masks, h = k/2 (k padded to even): the real part of their product is the sum of
            two terms, so only h shifts and products are needed. The imaginary part of the result is garbage. Not in
            the paper.
        baby_steps: baby-step/giant-step for σ and τ.
        radix: σ and τ in two transforms, shifts by r mod radix and by the rest: about 4·sqrt(k) diagonals instead
            of 2·k, for one more level. Excludes `baby_steps`. Not in the paper.
        key_baby_steps: paths (giant, baby) for all maps, for the key policies that walk paths: together with
            `baby_steps` or `radix` of the same number about 4·sqrt(k) keys serve everything.
        widened: shifts i = q·g + j in groups of so many, g: ε^(q·g) makes g - 1 more columns, ω^(q·g) as many more
            rows, which repeat the first ones, and all the shifts of a group are rotations of that, by j columns and by
            j rows, without masks: two diagonals for each group instead of two for each shift. Takes as many more slots
            between columns, and aligned operands. One group needs no map but σ and τ, whose results are wide then:
            depth 2. Not in the paper.
    """

    name = "fame"
    title = "general product by four linear transforms"
    source = "Xu, Kannan, Prasanna: FAME, Algorithms 2 and 3; maps after Gao et al. 2024 (HEGMM)"
    summary = (
        "any shape in one plainly packed ciphertext per operand, result packed alike: chains; depth 2 or 3"
    )
    min_levels = 1  # of the fewest options; one more with a radix, and one with several groups or none

    def __init__(
        self,
        m: int,
        k: int,
        n: int,
        slots: int,
        *,
        aligned: bool = True,
        complex_packing: bool = False,
        baby_steps: int | None = None,
        radix: int | None = None,
        key_baby_steps: int | None = None,
        widened: int | None = None,
    ) -> None:
        super().__init__(m, k, n, slots)
        given = [number for number in (baby_steps, radix, key_baby_steps, widened) if number is not None]
        if given and min(given) < 1:
            raise UnsuitedError(
                "The numbers of baby steps and of shifts in a group, and the radix, must be at least 1.",
                expected="at least 1",
                got=min(given),
            )
        if baby_steps is not None and radix is not None:
            raise UnsuitedError(
                "The transforms σ and τ take baby steps or a radix, not both.",
                expected="baby steps or a radix",
                got="both",
            )
        if widened is not None and not aligned:
            raise UnsuitedError(
                "Widened operands have columns with a common stride.",
                expected="aligned=True",
                got="aligned=False",
            )
        self.aligned = aligned
        self.complex_packing = complex_packing
        self.baby_steps = baby_steps
        self.radix = radix
        self.key_baby_steps = key_baby_steps
        self.widened = widened
        self.inner = k + k % 2 if complex_packing else k
        self.terms = self.inner // 2 if complex_packing else k
        # How far the shifts of a group reach beyond the matrix.
        self.margin = 0 if widened is None else min(widened, self.terms) - 1
        self.min_levels = (1 if self._one_group else 2) + (radix is not None)
        self.left_stride = max(m + self.margin, self.inner) if aligned else m
        self.right_stride = self.left_stride if aligned else self.inner
        needed = max(
            self.left_stride * (self.inner - 1) + m,
            self.right_stride * (n - 1) + self.inner,
            self.left_stride * (n + self.margin - 1) + m,
        )
        if needed > slots:
            raise self._refuse(needed)
        square = m == self.inner == n and slots % (m * m) == 0 and widened is None
        self.period = m * m if square else slots
        self.left_layout = column_major(m, k, slots, self.period, self.left_stride)
        self.right_layout = column_major(k, n, slots, self.period, self.right_stride)
        self.out_layout = column_major(m, n, slots, self.period, self.left_stride)
        if complex_packing:
            out_key = ("imaginary garbage", self.out_layout.key)
            self.out_layout = with_imaginary_garbage(self.out_layout, out_key)
        # ε^i rotates by i·stride and (i - k)·stride: the same where k columns fill a period.
        self.rotates_columns = widened is None and self.left_stride * self.inner == self.period
        self._key: Hashable = ("fame", m, k, n, slots, aligned, complex_packing, radix, widened)

    @property
    def options(self) -> dict[str, Any]:
        return {
            "aligned": self.aligned,
            "complex_packing": self.complex_packing,
            "baby_steps": self.baby_steps,
            "radix": self.radix,
            "key_baby_steps": self.key_baby_steps,
            "widened": self.widened,
        }

    @property
    def _one_group(self) -> bool:
        """Whether σ and τ make all that the shifts are rotations of."""
        return self.widened is not None and self.widened >= self.terms

    # ---- the four maps ----

    @made_once
    def sigma(self) -> list[Transform]:
        """σ (Eq. 2, 6), in one transform or, with a radix, in two."""

        def entry(offset: Offset) -> Entry:
            return lambda row, col: row + (col + offset(row)) % self.inner * self.left_stride

        wide = (self.m, self.n + self.margin if self._one_group else self.inner)
        shapes = (self.m, self.inner), wide
        return self._skew("sigma", self.m, shapes, 1, self.left_stride, self.left_stride, -1, entry)

    @made_once
    def tau(self) -> list[Transform]:
        """τ (Eq. 3, 7), in one transform or, with a radix, in two."""

        def entry(offset: Offset) -> Entry:
            return lambda row, col: (row + offset(col)) % self.inner + col * self.right_stride

        wide = (self.m + self.margin if self._one_group else self.inner, self.n)
        return self._skew("tau", self.n, ((self.inner, self.n), wide), 0, self.right_stride, 1, 1, entry)

    def _skew(
        self,
        name: str,
        lines: int,
        shapes: tuple[tuple[int, int], tuple[int, int]],
        axis: int,
        stride: int,
        unit: int,
        sign: int,
        entry: Callable[[Offset], Entry],
    ) -> list[Transform]:
        """Rotate line x (a row for σ, a column for τ) of the matrix by x, and by x + h for the imaginary part.

        Args:
            shapes: of what is rotated, and of the result.
            axis: along which it is rotated: 1 in rows, 0 in columns.
        """
        radix, inner = self.radix, self.inner
        stages: list[Transform] = []

        def offset(line: SlotMap) -> SlotMap:
            return line % inner if radix is None else line % inner // radix * radix

        offsets = {line % inner for line in range(lines)}
        if radix is not None:
            fine = entry(lambda line: line % inner % radix)
            small = {x % radix for x in offsets}
            stages.append(self._map((name, "fine"), small, unit, shapes[0], axis, stride, fine))
            offsets = {x - x % radix for x in offsets}
        imaginary = None
        if self.complex_packing:
            imaginary = sign, entry(lambda line: offset(line) + self.terms)
            offsets |= {(x + self.terms) % inner for x in offsets}
        stages.append(self._map((name,), offsets, unit, shapes[1], axis, stride, entry(offset), imaginary))
        return stages

    @made_once
    def epsilon(self, i: int) -> Transform:
        """ε^i as a transform (Eq. 4, 8); widened operands have more columns."""
        if self.rotates_columns:
            return self._rotation("epsilon", i, self.left_stride)
        columns = self.n + self.margin
        steps = self._paths(_shift_steps(i, columns, self.inner), self.left_stride)

        def entry(row: SlotMap, col: SlotMap) -> SlotMap:
            return row + (col + i) % self.inner * self.left_stride

        shape = self._rows_shifted(i), columns
        return self._transform(("epsilon", i), steps, shape, self.left_stride, entry)

    def _rows_shifted(self, i: int) -> int:
        """Rows that ε^i keeps, from the first one on."""
        return self.m

    @made_once
    def omega(self, i: int) -> Transform:
        """ω^i as a transform (Eq. 5, 9); widened operands have more rows."""
        shape = self.m + self.margin, self.n
        rows = _shift_steps(i, shape[0], self.inner)
        skew = self.right_stride - self.left_stride
        columns = range(self.n) if skew else range(1)
        steps = self._paths([step + column * skew for column in columns for step in rows], 1)

        def entry(row: SlotMap, col: SlotMap) -> SlotMap:
            return (row + i) % self.inner + col * self.right_stride

        return self._transform(("omega", i), steps, shape, self.left_stride, entry)

    @made_once
    def _rotation(self, name: str, count: int, unit: int) -> Transform:
        return pure_rotation(split_path(count, unit, self.key_baby_steps), (self._key, name, count))

    def _paths(self, counts: Iterable[int], unit: int) -> list[Step]:
        return [split_path(count, unit, self.key_baby_steps) for count in counts]

    def _map(
        self,
        name: tuple[Any, ...],
        offsets: Iterable[int],
        unit: int,
        shape: tuple[int, int],
        axis: int,
        stride: int,
        entry: Entry,
        imaginary: tuple[int, Entry] | None = None,
    ) -> Transform:
        """Lines rotated by offsets mod k: each offset is two rotations, by itself and by itself minus k.

        Where the target is longer than k or shorter, it is one for each time that its entries wrap around k.
        """
        found = sorted(offsets)
        last, inner = shape[axis] - 1, self.inner
        wraps = range((last + found[-1]) // inner + 1)
        counts = [x - wrap * inner for wrap in wraps for x in found if wrap <= (last + x) // inner]
        return self._transform(name, self._paths(counts, unit), shape, stride, entry, imaginary)

    def _transform(
        self,
        name: tuple[Any, ...],
        steps: Sequence[Step],
        shape: tuple[int, int],
        stride: int,
        entry: Entry,
        imaginary: tuple[int, Entry] | None = None,
    ) -> Transform:
        """The transform to a matrix of this shape whose slot (r, c) takes the slot entry(r, c) of the input."""

        def source(entry: Entry) -> SlotMap:
            slot = np.arange(self.slots, dtype=np.int64)
            inside = slot % self.period
            row, col = inside % stride, inside // stride
            return np.where((row < shape[0]) & (col < shape[1]), slot - inside + entry(row, col), EMPTY)

        second = None if imaginary is None else (imaginary[0], functools.partial(source, imaginary[1]))
        key = (self._key, *name)
        return masked_map(key, self.slots, steps, functools.partial(source, entry), self.period, second)

    # ---- the product ----

    def prepare_left(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """ε^i∘σ(A) for all i. Levels: `min_levels`. Keys: rotations of σ and ε."""
        return list(self._shifted_left(ev, cts))

    def prepare_right(self, ev: Evaluator, cts: Operand) -> list[Any]:
        """ω^i∘τ(B) for all i. Levels: `min_levels`. Keys: rotations of τ and ω."""
        return list(self._shifted_right(ev, cts))

    def _shifted_left(self, ev: Evaluator, cts: Operand) -> Iterator[Any]:
        skewed = self._skewed(ev, cts, self.sigma())
        if self.widened is not None:
            return self._rotated(ev, skewed, self.epsilon, "columns", self.left_stride)
        if self.rotates_columns and isinstance(skewed, Ct):
            skewed = ev.drop(skewed, ev.below(skewed.limbs))  # ω spends a level on the other side
        return ev.linear_transforms(skewed, [self.epsilon(i) for i in range(self.terms)])

    def _shifted_right(self, ev: Evaluator, cts: Operand) -> Iterator[Any]:
        skewed = self._skewed(ev, cts, self.tau())
        if self.widened is not None:
            return self._rotated(ev, skewed, self.omega, "rows", 1)
        return ev.linear_transforms(skewed, [self.omega(i) for i in range(self.terms)])

    def _rotated(
        self, ev: Evaluator, skewed: Any, shift: Callable[[int], Transform], name: str, unit: int
    ) -> Iterator[Any]:
        """All shifts of a widened operand, by rotations of what each group of them starts from."""
        together = self.margin + 1
        starts = range(0, self.terms, together)
        wide = [skewed] if self._one_group else ev.linear_transforms(skewed, list(map(shift, starts)))
        for start, source in zip(starts, wide, strict=True):
            counts = range(min(together, self.terms - start))
            yield from ev.linear_transforms(source, [self._rotation(name, count, unit) for count in counts])

    def _skewed(self, ev: Evaluator, cts: Operand, stages: Sequence[Transform]) -> Any:
        ct = ev.rescaled(cts[0])
        ev.require_levels(ct, self.min_levels, self.title)
        for stage in stages:
            ct = ev.linear_transform(ct, stage, baby_steps=self.baby_steps)
        return ct

    def multiply(
        self, ev: Evaluator, left: Sequence[Any], right: Sequence[Any], accumulator: Accumulator | None
    ) -> Accumulator:
        """One sum of products."""
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
        """The first is a good choice for most shapes: aligned, two terms per product, widened, σ and τ by baby steps.

        Paths cost nothing where the key policy does not walk them, so all but the published form have them.
        """
        for aligned in (True, False):
            if not aligned and m == k:
                continue  # the same layout
            for packed in (True, False):
                base = {"aligned": aligned, "complex_packing": packed}
                if cls.fits(m, k, n, slots, **base):
                    if aligned and (widened := cls._widest(m, k, n, slots, base)) is not None:
                        yield from cls._skewings(m, k, n, {**base, "widened": widened})
                    yield from cls._skewings(m, k, n, base)

    @staticmethod
    def _skewings(m: int, k: int, n: int, base: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Ways to make σ and τ."""
        inner = k + k % 2 if base["complex_packing"] else k
        for radix in _radices(inner, max(min(m, k), min(n, k))) if k > 3 else ():
            yield {**base, "baby_steps": radix, "key_baby_steps": radix}
            yield {**base, "radix": radix, "key_baby_steps": radix}
        yield base

    @classmethod
    def _widest(cls, m: int, k: int, n: int, slots: int, base: dict[str, Any]) -> int | None:
        """Shifts in a group, of the fewest groups that fit the slots; None where rotations save no masks."""
        if min(m, n) < MIN_WIDENED:  # hardly a shift wraps around
            return None
        terms = cls(m, k, n, slots, **base).terms
        groups = range(1, terms // MIN_WIDENED + 1)
        sizes = (-(-terms // number) for number in groups)
        return next((size for size in sizes if cls.fits(m, k, n, slots, **base, widened=size)), None)


def _shift_steps(i: int, outer: int, inner: int) -> list[int]:
    """(x + i) mod k - x for x < outer: i minus a multiple of k for each wrap."""
    return [i - wrap * inner for wrap in range(i // inner, (outer - 1 + i) // inner + 1)]


def _radices(inner: int, shifts: int) -> list[int]:
    """Where to cut up to `shifts` shifts modulo `inner`: near the square root, the nearest first.

    With a divisor of `inner`, i and i - inner end with the same baby step, and share its key.
    """
    root = max(2, math.isqrt(shifts))
    below = [d for d in range(max(2, root // 2), root + 1) if inner % d == 0]
    above = [d for d in range(root + 1, 2 * root + 1) if inner % d == 0]
    found = below[-1:] + above[:1]
    return sorted(found, key=lambda d: abs(math.log(d / root))) or [root]
