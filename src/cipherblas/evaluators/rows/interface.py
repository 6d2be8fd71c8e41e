"""Matrices encrypted row by row in coefficients: the interface against which products by GEMM are written.

A matrix M of r rows and c columns (c <= N) is a pair of residue matrices with A·S + B = Δ·M + E modulo Q, A of
shape r × N, B of shape r × c, S the columns of the secret's negacyclic matrix that the row's entries stand at; for
rows longer than N, one secret after the other (shared-a rows, which know only clear products and sums). A
matrix that is encrypted by columns is the row encryption of its transpose. Products are GEMMs on A and B modulo Q
(Bae et al. 2024; `docs/algorithms.md`).

As for slots, all bookkeeping is here and in `bookkeeping`, and subclasses only compute: `RowsSymbolic` nothing,
`RowsClear` on NumPy matrices with a toy secret, `RowsNative` on residues.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import FitError, LevelError, ShapeError
from cipherblas.common.words import WORD_BYTES
from cipherblas.crypto.keys.key_id import RELINEARISATION
from cipherblas.evaluators.policy.interface import Scale
from cipherblas.evaluators.rows.bookkeeping import (
    KEYS_PER_STEP,
    TRANSPOSE_POLICIES,
    RowsBookkeeper,
    weight_keys,
)
from cipherblas.evaluators.rows.values import (
    EncryptedMatrix,
    MultiSecretRows,
    PendingElements,
    Rows,
    TransposedHalf,
)
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.rlwe.basis import Basis, FirstLimbs
from cipherblas.rlwe.matrices.transposition import gathered_switches, transpose_plan
from cipherblas.rlwe.noise import TAIL, UNKNOWN, Spread, rounded_product, spread_over
from cipherblas.rlwe.working_memory import CLEAR_COPIES, clear_gemm_bytes, gemm_bytes, spread_bytes

MAX_REDUCED = 1 << 15  # weights whose residues modulo the moduli of operands are multiplied


class RowsEvaluator(RowsBookkeeper):
    """Homomorphic operations on matrices that are encrypted by rows, with counts, keys, noise and memory."""

    # ---- products ----

    def clear_product(self, factor: ClearFactor, x: Rows, most: float = math.inf) -> Rows:
        """factor @ x: two GEMMs per limb. Levels: none; the modulus must hold the product. Keys: none.

        Args:
            most: what the caller knows that no entry exceeds.

        Where the sums of a float64 GEMM exceed its significand the result is rounded, if the error stays below the
        noise that the factor amplifies; else it is computed exactly from parts. Of an operand with moduli of its own it
        is the product of residues of whole weights, switched to Q: divided by what these are larger, and rounded.

        Raises:
            ShapeError: inner dimensions differ. LevelError: the product does not fit the modulus, or weights that are
            no whole numbers of 16 bits meet an operand with moduli of its own.
        """
        x = self.extracted(x)
        m, k = factor.shape
        if k != x.shape[0]:
            raise ShapeError(
                "The inner dimensions of the product differ.", expected=f"{k} rows", got=x.shape[0]
            )
        if x.basis.of_operands:
            return self._reduced_product(factor, x, most)
        noise, bias, spread, exact = self._amplified(factor, x, math.sqrt(1 + self._weight))
        for width in (self.n, x.shape[1]):
            self.costs.multiply_integers(self.counts, m, k, width, x.limbs, factor.largest, exact)
        bound, scale = min(factor.gain * x.bound, most), self.policy.absorbed(x.scale, factor.unit)
        result = self.make((m, x.shape[1]), x.basis, scale, bound, noise, bias, None, spread=spread)
        self.ledger.touch(clear_gemm_bytes(m, k, max(self.n, x.shape[1])))
        result.data = self._clear_product_data(factor, x, exact)
        return result

    def _reduced_product(self, factor: ClearFactor, x: Rows, most: float) -> Rows:
        """The product with an operand that has moduli of its own."""
        if not factor.exact or factor.largest > MAX_REDUCED:
            self.check_switched(x, "multiplied by weights that are no whole numbers of 16 bits")
        m, k = factor.shape
        dropped = self.dropped(x.basis, self.whole)
        noise, bias = x.weighed_noise(factor) / dropped, factor.largest_sum * x.bias / dropped
        noise = math.hypot(noise, math.sqrt(self._variance.rounding()) * self.switch_rounding(x))
        for width in (self.n, x.shape[1]):
            self.costs.multiply_operands(self.counts, m, k, width)
        self.counts.rescales += 1
        bound = min(factor.gain * x.bound, most)
        scale = self.policy.switched(self.policy.absorbed(x.scale, factor.unit), x.basis, self.whole)
        result = self.make((m, x.shape[1]), self.whole, scale, bound, noise, bias, None)
        packed = self.costs.operand_bytes(m, k, max(self.n, x.shape[1]))
        self.ledger.touch(packed + (x.basis.words(self.params) + 1) * m * k * WORD_BYTES)
        result.data = self._reduced_product_data(factor, x)
        return result

    def fixed_product(
        self, factor: ClearFactor, number: int, x: MultiSecretRows, most: float = math.inf
    ) -> list[Rows]:
        """factor @ x for a factor known when keys are made: one GEMM per limb, on the b part, and one key switch.

        The a parts stay as they are and the secrets become factor · s_j: each a is decomposed once and switched with
        a key for each row of the factor (Bae et al. 2024, "precomputed" products). Levels: none. Keys: one per row,
        of `number`. The result has one piece for every N columns.

        Args:
            most: as of `clear_product`.

        Raises:
            ShapeError: inner dimensions differ. LevelError: the product does not fit the modulus.
        """
        m, k = factor.shape
        if k != x.shape[0]:
            raise ShapeError(
                "The inner dimensions of the product differ.", expected=f"{k} rows", got=x.shape[0]
            )
        self.spend(m // KEYS_PER_STEP, "keys of fixed weights")
        self._use_keys(("weights", number), weight_keys(number, m), x.limbs)
        noise, bias, _, exact = self._amplified(factor, x, 1.0)
        self.costs.multiply_integers(self.counts, m, k, x.shape[1], x.limbs, factor.largest, exact)
        bound, scale = min(factor.gain * x.bound, most), self.policy.absorbed(x.scale, factor.unit)
        noise = math.hypot(noise, math.sqrt(self._variance.switch(x.limbs)))
        pieces = []
        for start in range(0, x.shape[1], self.n):
            self.costs.switch_rows(self.counts, m, x.limbs)
            cols = min(self.n, x.shape[1] - start)
            pieces.append(self.make((m, cols), x.basis, scale, bound, noise, bias, None))
        product = x.limbs * m * x.shape[1] * WORD_BYTES
        # What the keys add to b, and copies of it and of its part of the product.
        switched = x.limbs * m * (self.n + 2 * min(self.n, x.shape[1])) * WORD_BYTES
        self.ledger.touch(max(clear_gemm_bytes(m, k, x.shape[1]), switched) + product)
        for piece, data in zip(pieces, self._fixed_product_data(factor, number, x, exact), strict=True):
            piece.data = data
        return pieces

    def _amplified(
        self, factor: ClearFactor, x: EncryptedMatrix, secret: float
    ) -> tuple[float, float, Spread, bool]:
        """Noise and bias of factor @ x, what is known of these errors together, and whether it must be exact.

        Args:
            secret: what the error of a rounded GEMM of one part grows by.
        """
        (m, k), largest = factor.shape, factor.largest
        noise, bias = x.weighed_noise(factor), factor.largest_sum * x.bias
        spread = UNKNOWN
        if math.isfinite(factor.norm):
            spread = x.together.times(factor.largest_norm)
            noise, bias = min(noise, spread.noise), min(bias, spread.bias)
        if not factor.exact:  # each weight is off by one half
            largest_column = min(k * x.bound, math.sqrt(k) * x.norm)
            bias += 0.5 * self.policy.magnitude(x.scale, largest_column)
            together = self.policy.magnitude(x.scale, math.sqrt(m * k)) * x.length
            spread = spread.plus(Spread(0.0, 0.5 * together))
        rounding = secret * rounded_product(k, largest, self.params.q[: x.limbs])
        # Residues of several limbs must belong together.
        exact = x.limbs > 1 or rounding > factor.rounding * noise
        added = 0.0 if exact else rounding
        spread = spread.plus(spread_over((m, x.shape[1]), added, 0.0))
        return math.hypot(noise, added), bias, spread, exact

    def _check_length(self, x: Rows) -> None:
        """Rows that are longer than N are under several secrets: there are no keys for them."""
        if x.shape[1] > self.n:
            raise ShapeError(
                "An encrypted row is longer than the ring degree.",
                expected=f"at most N = {self.n}",
                got=x.shape[1],
            )

    def parts(self, x: Rows) -> tuple[TransposedHalf, TransposedHalf]:
        """The transposed a part (N × rows) and b part (columns × rows) of an encryption."""
        x = self.extracted(x)
        self._check_length(x)
        a, b = self._parts_data(x)
        return TransposedHalf((self.n, x.shape[0]), x.basis, a), TransposedHalf(
            (x.shape[1], x.shape[0]), x.basis, b
        )

    def part_product(self, part: TransposedHalf, x: Rows) -> Rows:
        """part @ x modulo Q: two exact GEMMs per limb. The message fills the modulus, and no noise is added to it. Of
        operands with moduli of their own it is switched to Q: divided by what these are larger, and rounded."""
        x = self.extracted(x)
        self._check_length(x)
        m, k = part.shape
        if k != x.shape[0] or part.basis != x.basis:
            raise ShapeError(
                "The factors of a product differ in inner dimension or limbs.",
                expected=(k, str(part.basis)),
                got=(x.shape[0], str(x.basis)),
            )
        for width in (self.n, x.shape[1]):
            self._book_product(m, k, width, x.basis)
        if x.basis.of_operands:
            result = self._switched_rows((m, x.shape[1]), x)
            result.data = self._switched_product_data(part, x)
            return result
        result = self.make((m, x.shape[1]), x.basis, x.scale, math.inf, 0.0, 0.0, None)
        self.ledger.touch(gemm_bytes(m, k, max(self.n, x.shape[1])))
        result.data = self._part_product_data(part, x)
        return result

    def _book_product(self, m: int, k: int, width: int, basis: Basis) -> None:
        """The costs of an m × k matrix of residues times `width` columns of residues."""
        if basis.of_operands:
            self.costs.multiply_operands(self.counts, m, k, width)
        else:
            self.costs.multiply_matrices(self.counts, m, k, width, basis.limbs)

    def _switched_rows(self, shape: tuple[int, int], x: Rows) -> Rows:
        """A product of so many rows with x, switched from the moduli of operands to Q."""
        self.counts.rescales += 1
        scale = self.policy.switched(x.scale, x.basis, self.whole)
        noise = math.sqrt(self._variance.rounding()) * self.switch_rounding(x)
        self.ledger.touch(self.costs.operand_bytes(shape[0], x.shape[0], max(self.n, x.shape[1])))
        return self.make(shape, self.whole, scale, math.inf, noise, 0.0, None)

    def gram_products(self, x: Rows) -> tuple[Rows, Rows]:
        """`part_product` of both parts of x with x itself: two symmetric matrices, of which a half is computed, and two
        that are each other's transpose."""
        x = self.extracted(x)
        self._check_length(x)
        k, cols = x.shape
        for width in (self.n, cols):
            if x.basis.of_operands:
                self.costs.gram_operands(self.counts, k, width)
            else:
                self.costs.gram(self.counts, k, width, x.limbs)
        self._book_product(self.n, k, cols, x.basis)
        if x.basis.of_operands:
            switched = [self._switched_rows((rows, cols), x) for rows in (self.n, cols)]
            for one, data in zip(switched, self._switched_gram_data(x), strict=True):
                one.data = data
            return switched[0], switched[1]
        found = [
            self.make((rows, cols), x.basis, x.scale, math.inf, 0.0, 0.0, None) for rows in (self.n, cols)
        ]
        self.ledger.touch(gemm_bytes(self.n, k, self.n))
        for one, data in zip(found, self._gram_data(x), strict=True):
            one.data = data
        return found[0], found[1]

    # ---- key switching ----

    def transpose(self, x: Rows, *, last_use: bool = False) -> Rows:
        """The encrypted transpose (C-MT): two FFTs over the rows and N key switches, or more of them with fewer keys.

        Args:
            last_use: nothing else uses x, or what it is made of: its memory may be overwritten.

        Levels: none. Keys: those of `transpose_plan` for N rows. The result has N rows of length N; those beyond
        the columns of x, and entries beyond its rows, mean nothing (`take` cuts them off).
        """
        x = self.extracted(x)
        self._check_length(x)
        policy = TRANSPOSE_POLICIES[self.key_policy]
        keys, switches = transpose_plan(self.n, policy)
        self.spend(len(keys) // KEYS_PER_STEP, "keys of a transposition")
        self._use_keys("transposition", keys, x.limbs)
        self.costs.filled_up(self.counts, x.shape, x.limbs)
        self.costs.transpose_rows(self.counts, self.n, x.limbs, switches, len(keys))
        gathered = gathered_switches(self.n, policy, x.shape[0])
        noise = math.hypot(x.noise, math.sqrt(gathered * self._variance.switch(x.limbs)))
        result = self.make((self.n, self.n), x.basis, x.scale, x.bound, noise, x.bias, None)
        self.ledger.touch(spread_bytes(x.shape, self.n, x.limbs))
        result.data = self._transpose_spent_data(x) if last_use else self._transpose_data(x)
        return result

    def relinearise(self, x: Rows) -> Rows:
        """Every row times the secret: a·s² is switched, b·s has the a part b. Levels: none. Key: that of s²."""
        x = self.extracted(x)
        if x.shape[1] != self.n:
            raise ShapeError(
                "Rows that are multiplied by the secret must be as long as the ring degree.",
                expected=self.n,
                got=x.shape[1],
            )
        self._use_keys("relinearisation", (RELINEARISATION,), x.limbs)
        self.costs.relinearise_rows(self.counts, x.shape[0], x.limbs)
        noise = math.hypot(math.sqrt(self._weight) * x.noise, math.sqrt(self._variance.switch(x.limbs)))
        result = self.make(x.shape, x.basis, x.scale, math.inf, noise, 0.0, None)
        result.data = self._relinearise_data(x)
        return result

    # ---- division ----

    def rescale(self, x: Rows) -> Rows:
        """Division of both parts by the last limb, rounded: scale and error become so much smaller. Levels: one.
        Keys: none.

        Raises:
            LevelError: there is one limb alone.
        """
        x = self.extracted(x)
        self.check_switched(x, "rescaled")
        if x.limbs < 2:
            raise LevelError("Rows of one limb cannot be rescaled.", expected="at least 2", got=x.limbs)
        dropped = float(self.params.q[x.limbs - 1])
        self.counts.rescales += 1
        self._for_parts(self.costs.rescale_matrix, x.shape, x.limbs)
        noise = math.hypot(x.noise / dropped, math.sqrt(self._variance.rounding()))
        scale = self.policy.divided(x.scale, x.limbs, x.limbs - 1)
        result = self.make(x.shape, FirstLimbs(x.limbs - 1), scale, x.bound, noise, x.bias / dropped, None)
        result.data = self._rescale_data(x)
        return result

    def at_key_limbs(self, x: Rows) -> Rows:
        """Rescaled as far as is needed for keys to serve it."""
        while x.limbs > self.key_limbs:
            x = self.rescale(x)
        return x

    # ---- between rows and ring elements ----

    def elements(self, x: Rows, start: int, stop: int) -> list[Any]:
        """Data for `Evaluator.of_element`: rows start to stop - 1 as ciphertexts whose coefficients at the multiples of
        X^(N/d) are the message, the others being anything modulo Q.

        Raises:
            ShapeError: a row does not fill its subring: its degree d is more than its columns.
        """
        cols = x.shape[1]
        if not 2 <= cols <= self.n or cols & (cols - 1):
            raise ShapeError(
                "Rows that become slots must have a power of two of columns.",
                expected=f"a power of two from 2 to N = {self.n}",
                got=cols,
            )
        if x.pending is not None:
            return list(x.pending.elements[start:stop])
        return self._elements_data(x, start, stop)

    def of_elements(
        self,
        datas: Sequence[Any],
        shape: tuple[int, int],
        *,
        limbs: int,
        scale: Scale,
        bound: float,
        noise: float,
        worst: float = 0.0,
        bias: float = 0.0,
        independent: bool = False,
        held: int | None = None,
    ) -> Rows:
        """Rows of d entries from the data of `Evaluator.element_of`: of an element, coefficient j·r + t, r = N/d, is
        entry j of its row of the bit-reversed number t. No key, no error: row t is X^-t times the element.

        Args:
            noise: standard deviation of the error of a coefficient.
            worst: the largest one, for the worst case.
            bias: systematic error of a coefficient.
            independent: errors of different entries are, the bias aside.
            held: rows of an element that mean something, the others being anything modulo Q; by default all.

        Raises:
            ShapeError: the columns are no power of two up to N, or the elements do not hold so many rows.
        """
        rows, cols = shape
        each = self.n // cols if held is None else held
        if not 2 <= cols <= self.n or cols & (cols - 1) or len(datas) != -(-rows // each):
            raise ShapeError(
                "The ring elements do not hold rows of this shape.",
                expected=f"columns a power of two up to {self.n}",
                got=(shape, len(datas)),
            )
        if each == 1:
            found = self.make(shape, FirstLimbs(limbs), scale, bound, noise, bias, None, independent)
            found.keep_elements(datas, limbs * rows * (self.n - cols) * WORD_BYTES)
            found.packed = datas if held is None else None
            return found
        self._for_parts(self.costs.copied, shape, limbs)
        data = self._of_elements_data(datas, shape, each, scale)
        found = self.make(shape, FirstLimbs(limbs), scale, bound, noise, bias, data, independent)
        if held is None:
            found.keep_packed(datas, len(datas) * 2 * limbs * self.n * WORD_BYTES)
        return found

    def extracted(self, x: Rows) -> Rows:
        """The same rows, whose coefficients are residues: of those that are ring elements these are made, once."""
        pending = x.pending
        if pending is None:
            return x
        if not pending.extracted:
            self.counts.encode_ntt_limbs += 2 * x.limbs * x.shape[0]
            self._for_parts(self.costs.copied, x.shape, x.limbs)
            pending.data = self._of_elements_data(pending.elements, x.shape, 1, x.scale)
            pending.extracted = True
            x.book(self.nbytes(x.shape, x.basis))
        if x.data is None:
            x.data = pending.data
        return x

    def worst_error(self, x: Rows) -> float:
        """The largest error of a coefficient, in units of the message, where that is followed (`RowsWorstCase`)."""
        return 0.0

    def switch_variance(self, limbs: int) -> float:
        """Variance of the error that one key switch adds to a coefficient."""
        return self._variance.switch(limbs)

    def worst_switch(self, limbs: int) -> float:
        """The largest error of one key switch, where that is followed."""
        return 0.0

    # ---- additions and changes of meaning ----

    def drop(self, x: Rows, limbs: int) -> Rows:
        """Forget limbs beyond the first `limbs`; values and scale stay. Free.

        Raises:
            LevelError: there are not so many.
        """
        self.check_switched(x, "taken to fewer limbs")
        if limbs == x.limbs:
            return x
        if not 1 <= limbs < x.limbs:
            raise LevelError("The rows cannot keep so many limbs.", expected=f"1 to {x.limbs}", got=limbs)
        data = self._drop_data(self.extracted(x), limbs)
        return self._another(x, data, basis=FirstLimbs(limbs))

    def take(self, x: Rows, rows: int, cols: int) -> Rows:
        """The first rows and columns: a copy."""
        x = self.extracted(x)
        self._for_parts(self.costs.copied, (rows, cols), x.limbs)
        data = self._take_data(x, rows, cols)
        return self.make((rows, cols), x.basis, x.scale, x.bound, x.noise, x.bias, data)

    def rows_of(self, x: Rows, start: int, stop: int) -> Rows:
        """Rows start to stop - 1, and the ring elements that they came from, where they did. Free."""
        if (start, stop) == (0, x.shape[0]):
            return x
        extracted = x.pending is not None and x.pending.extracted
        x = self.extracted(x) if extracted else x
        data = None if x.data is None else self._rows_data(x, start, stop)
        shape = (stop - start, x.shape[1])
        found = self.make(
            *(shape, x.basis, x.scale, x.bound, x.noise, x.bias, data), source=x, spread=x.spread
        )
        if x.pending is not None:
            found.pending = PendingElements(x.pending.elements[start:stop], extracted, data)
        if x.packed is not None:
            each = self.n // x.shape[1]
            begin, end = x.first + start, x.first + stop
            found.packed, found.first = x.packed[begin // each : -(-end // each)], begin % each
            found.others = max(x.others, self.policy.magnitude(x.scale, x.bound))
        return found

    def stack(self, xs: Sequence[Rows]) -> Rows:
        """The rows of several encryptions, one below the other; scales must agree."""
        if len(xs) == 1:
            return xs[0]
        first = xs[0]
        for x in xs[1:]:
            self._check_same_shape(first, x, (x.shape[0], first.shape[1]))
        rows = sum(x.shape[0] for x in xs)
        bound, noise, bias = (max(getattr(x, name) for x in xs) for name in ("bound", "noise", "bias"))
        shape = (rows, first.shape[1])
        if all(x.pending is not None for x in xs):
            return self._stacked_elements(xs, shape, bound, noise, bias)
        data = self._stack_data([self.extracted(x) for x in xs])
        spread = Spread(math.hypot(*(x.spread.noise for x in xs)), math.hypot(*(x.spread.bias for x in xs)))
        return self.make(shape, first.basis, first.scale, bound, noise, bias, data, spread=spread)

    def _stacked_elements(
        self, xs: Sequence[Rows], shape: tuple[int, int], bound: float, noise: float, bias: float
    ) -> Rows:
        """Of rows that are ring elements: theirs, one after the other."""
        extracted = all(x.pending is not None and x.pending.extracted for x in xs)
        xs = [self.extracted(x) for x in xs] if extracted else xs
        data = None if any(x.data is None for x in xs) else self._stack_data(xs)
        found = self.make(shape, xs[0].basis, xs[0].scale, bound, noise, bias, data)
        elements = [one for x in xs if x.pending is not None for one in x.pending.elements]
        found.keep_elements(elements, found.limbs * shape[0] * (self.n - shape[1]) * WORD_BYTES, extracted)
        return found

    def add(self, x: Rows, y: Rows) -> Rows:
        """x + y; scales must agree."""
        return self._sum(x, y, self._add_data)

    def sub(self, x: Rows, y: Rows) -> Rows:
        """x - y; scales must agree."""
        return self._sum(x, y, self._sub_data)

    def _sum(self, x: Rows, y: Rows, combine: Callable[[Rows, Rows], Any]) -> Rows:
        x, y = self.extracted(x), self.extracted(y)
        self.check_switched(x, "added")
        self._check_same_shape(x, y, x.shape)
        self.counts.adds += 1
        self._for_parts(self.costs.add_matrices, x.shape, x.limbs)
        noise, bias = x.noise + y.noise, x.bias + y.bias  # both may come from one operand
        independent = x.independent and y.independent
        result = self.make(
            *(x.shape, x.basis, x.scale, x.bound + y.bound, noise, bias, None, independent),
            spread=x.spread.plus(y.spread),
        )
        result.data = combine(x, y)
        return result

    def _check_same_shape(self, x: Rows, y: Rows, shape: tuple[int, int]) -> None:
        if y.shape != shape or x.basis != y.basis:
            raise FitError(
                "Encryptions that are combined must have equal shapes and limbs.",
                expected=(shape, str(x.basis)),
                got=(y.shape, str(y.basis)),
            )
        self.policy.check_same(y.scale, x.scale)

    def add_clear(self, x: Rows, values: Callable[[], NDArray[np.float64]], bound: float) -> Rows:
        """x plus a clear matrix of the same shape with entries up to `bound`."""
        x = self.extracted(x)
        self.check_switched(x, "added")
        self.counts.adds += 1
        bias = x.bias + 0.5  # equal values have equal errors
        result = self.make(
            *(x.shape, x.basis, x.scale, x.bound + bound, x.noise, bias, None, x.independent),
            spread=x.spread.plus(spread_over(x.shape, 0.0, 0.5)),
        )
        entries = x.shape[0] * x.shape[1]
        self.ledger.touch(entries * (x.limbs + CLEAR_COPIES) * WORD_BYTES)
        result.data = self._add_clear_data(x, values)
        return result

    def bounded(self, x: Rows, bound: float) -> Rows:
        """The same matrix; no entry exceeds `bound`, as the caller knows. Free."""
        return self._another(x, x.data, bound=min(x.bound, bound))

    def as_message(self, x: Rows) -> Rows:
        """The same matrix, whose errors count as a part of its message: the caller keeps them. Free."""
        x = self.extracted(x)
        bound = x.bound + self.policy.in_values(x.scale, TAIL * x.noise + x.bias)
        return self.make(x.shape, x.basis, x.scale, bound, 0.0, 0.0, x.data, x.independent, source=x)

    def fold_into_scale(self, x: Rows, factor: float, wanted: Scale | None = None) -> Rows:
        """Return the matrix times a number by reinterpretation of the scale. It is exact and free.

        Args:
            wanted: the scale that was wanted of it.
        """
        scale = self.policy.folded(x.scale, factor, wanted)
        return self._another(x, x.data, bound=x.bound * abs(factor), scale=scale)

    def _another(
        self,
        x: Rows,
        data: Any,
        *,
        basis: Basis | None = None,
        bound: float | None = None,
        scale: Scale | None = None,
    ) -> Rows:
        """Another handle on the same message and errors."""
        return self.make(
            *(x.shape, basis or x.basis, scale or x.scale, x.bound if bound is None else bound),
            *(x.noise, x.bias, data, x.independent),
            source=x,
            spread=x.spread,
        )

    def read_as(
        self,
        x: Rows,
        *,
        scale: Scale,
        bound: float,
        noise: float,
        bias: float = 0.0,
        spread: Spread = UNKNOWN,
    ) -> Rows:
        """Return a sum of parts as a message scale · entry, with this error on top of its own."""
        x = self.extracted(x)
        spread = spread.plus(spread_over(x.shape, x.noise, 0.0))
        noise = math.hypot(x.noise, noise)
        return self.make(x.shape, x.basis, scale, bound, noise, bias, x.data, source=x, spread=spread)
