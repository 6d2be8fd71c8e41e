"""Levels, scales, sums and factors of ciphertexts: the operations of an evaluator that need no key.

Limbs, scales, bounds and noise are kept here; a subclass adds rotations and products (`Evaluator`) and the hooks that
compute.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from cipherblas.common.errors import LevelError, RangeError, ShapeError, UnsuitedError, capitalized
from cipherblas.evaluators.policy.interface import MAX_SMALL_INTEGER, Numbers, Scale
from cipherblas.evaluators.slots.bookkeeping import Bookkeeper
from cipherblas.evaluators.slots.values import Ct, Plain

NumberSumData: TypeAlias = (
    "tuple[Sequence[Any], Sequence[float], Numbers, Scale, int]"  # of `_number_sum_data`
)


class Levels(Bookkeeper, ABC):
    """Ciphertexts of slot vectors brought to levels and scales, added, and multiplied by numbers."""

    # ---- hooks: data in, data out; no bookkeeping ----

    @abstractmethod
    def _rescale_data(self, data: Any) -> Any: ...

    @abstractmethod
    def _drop_data(self, data: Any, limbs: int) -> Any: ...

    @abstractmethod
    def _add_data(self, x: Any, y: Any) -> Any: ...

    @abstractmethod
    def _sub_data(self, x: Any, y: Any) -> Any: ...

    @abstractmethod
    def _negate_data(self, x: Any) -> Any: ...

    @abstractmethod
    def _add_plain_data(self, x: Any, plain: Plain, scale: Scale, factor: int, limbs: int) -> Any:
        """Add `plain`, encoded at `scale` and multiplied by the integer."""

    @abstractmethod
    def _times_monomial_data(self, x: Any, power: int, limbs: int) -> Any: ...

    @abstractmethod
    def _scale_data(self, x: Any, factor: int, value: float) -> Any:
        """Multiply by the integer `factor`, which stands for `value` (the rest of it goes into the scale)."""

    def _number_data(self, data: Any, factor: int, value: float, missed: float) -> Any:
        """Multiply by the integer that is nearest to a number at some scale, which it misses by so much; in the clear
        by `value`."""
        return self._scale_data(data, factor, value)

    def _number_sum_data(
        self,
        datas: Sequence[Any],
        values: Sequence[float],
        numbers: Numbers,
        scale: Scale,
        limbs: int,
    ) -> Any:
        """The sum of `_number_data` of each, and a constant at `scale`."""
        first, *others = map(self._number_data, datas, numbers.factors, values, numbers.missed)
        total = functools.reduce(self._add_data, others, first)
        if not numbers.constant:
            return total
        return self._add_plain_data(total, number(self.slots, numbers.constant), scale, 1, limbs)

    def _number_sums_data(self, sums: Sequence[NumberSumData]) -> list[Any]:
        """`_number_sum_data` of each."""
        return [self._number_sum_data(*one) for one in sums]

    # ---- levels and scales ----

    def rescale(self, ct: Ct) -> Ct:
        """Divide by the last limb, or by the limbs of a level. Levels: 1.

        Raises:
            LevelError: only one limb is left, or one level.
        """
        limbs = self.below(ct.limbs)
        if limbs < 1:
            expected = f"at least {self.level_limbs + 1} limbs"
            raise LevelError("No limb is left to rescale by.", expected=expected, got=ct.limbs)
        scale = self.policy.divided(ct.scale, ct.limbs, limbs)
        errors = self.policy.rounded(ct.errors, (ct.limbs, ct.scale), (limbs, scale), ct.components)
        data = self._divided_data(ct.data, ct.components, ct.limbs, limbs)
        return self.make(limbs, scale, ct.bound, errors, ct.components, data)

    def _divided_data(self, data: Any, components: int, limbs: int, left: int) -> Any:
        """Divided by its last limbs, one after the other, until `left` are left. What is rounded before the last of
        them is divided by that, and far below what that rounds."""
        for number in range(limbs, left, -1):
            self.costs.rescale(self.counts, components, number)
            data = self._rescale_data(data)
        return data

    def _level_done(self, data: Any, limbs: int) -> Any:
        """The rest of a rescale whose first limb, of `limbs` limbs, was divided by together with something else."""
        return self._divided_data(data, 2, limbs - 1, self.below(limbs))

    def rescaled(self, ct: Any) -> Any:
        """Rescale until the scale is one that products and transforms expect."""
        while not self.is_rescaled(ct):
            ct = self.rescale(ct)
        return ct

    def is_rescaled(self, ct: Any) -> bool:
        """Whether `rescaled` leaves it as it is."""
        return not isinstance(ct, Ct) or self.policy.is_rescaled(ct.scale)

    def require_levels(self, ct: Any, levels: int, what: str) -> None:
        """Raise LevelError, before any work, unless `levels` rescales are possible."""
        if isinstance(ct, Ct) and self.below(ct.limbs, levels) < 1:
            raise LevelError(
                f"{capitalized(what)} spends {levels} level{'s' if levels > 1 else ''}.",
                expected=f"at least {levels * self.level_limbs + 1} limbs",
                got=ct.limbs,
            )

    def drop(self, ct: Ct, limbs: int) -> Ct:
        """Forget limbs beyond the first `limbs`; value and scale stay."""
        if limbs == ct.limbs:
            return ct
        if not 1 <= limbs < ct.limbs:
            raise LevelError(
                "The ciphertext cannot keep so many limbs.", expected=f"1 to {ct.limbs}", got=limbs
            )
        return self.make(limbs, ct.scale, ct.bound, ct.errors, ct.components, self._drop_data(ct.data, limbs))

    def match(self, ct: Ct, limbs: int, scale: Scale) -> Ct:
        """Bring a ciphertext to given limbs and scale: by an integer factor, and a level where the policy needs one for
        it. Bound and noise are unchanged in value units.

        Raises:
            LevelError: there are not enough limbs.
        """
        if ct.limbs < limbs:
            raise LevelError(
                "A ciphertext cannot gain limbs.", expected=f"at least {limbs} limbs", got=ct.limbs
            )
        way = self.policy.match(ct.scale, scale, limbs, ct.limbs)
        ct = self.drop(ct, way.limbs)
        if way.factor != 1:
            ct = self._times_integer(ct, way.factor, 1.0, way.scale)
        return ct if way.limbs == limbs else self.rescale(ct)

    def check_encoded(self, plains: Sequence[Plain], scale: Scale) -> None:
        """Raise MismatchError where clear vectors cannot be encoded at their scale."""
        self.policy.check_encoded(scale, (plain.bound for plain in plains))

    def for_masks(self, ct: Ct) -> Ct:
        """The same slots at a scale 2^mask_bits larger: see `mask_scale`."""
        return self.scaled_up(ct, self.policy.mask_bits)

    def check_one_limb(self, what: str) -> None:
        """Raise ParameterError unless a level is one limb.

        Args:
            what: takes it for that.
        """
        if self.level_limbs > 1:
            raise UnsuitedError(
                f"{capitalized(what)} needs levels of one limb each.",
                expected="one limb",
                got=self.level_limbs,
            )

    def _dropped(self, cts: Sequence[Ct], limbs: int) -> list[Ct]:
        """All at `limbs` limbs; an object that occurs twice is dropped once."""
        if {ct.limbs for ct in cts} == {limbs}:
            return list(cts)
        done: dict[int, Ct] = {}
        for ct in cts:
            if id(ct) not in done:
                done[id(ct)] = self.drop(ct, limbs)
        return [done[id(ct)] for ct in cts]

    def _times_integer(self, ct: Ct, factor: int, value: float, scale: Scale) -> Ct:
        """Multiply by an integer that stands for `value` at the new scale."""
        self.counts.scalar_products += 1
        self.costs.multiply_scalar(self.counts, ct.components, ct.limbs)
        size = abs(value)
        errors = self.policy.times(ct, factor, size, scale)
        return self.make(
            ct.limbs, scale, ct.bound * size, errors, ct.components, self._scale_data(ct.data, factor, value)
        )

    # ---- sums and scalars ----

    def add(self, x: Any, y: Any) -> Any:
        """x + y; operands are brought to common limbs and one scale (see `match`)."""
        return self._sum(x, y, subtract=False)

    def add_distinct(self, x: Ct, y: Ct) -> Ct:
        """x + y where, as the caller knows, no slot's own error occurs twice in a slot of the sum, nor in that of sums
        that are made of it in this way (x and a rotation of what x is made of); see `add`."""
        return self._sum(x, y, subtract=False, distinct=True)

    def sub_distinct(self, x: Ct, y: Ct) -> Ct:
        """x - y; see `add_distinct`."""
        return self._sum(x, y, subtract=True, distinct=True)

    def sub(self, x: Any, y: Any) -> Any:
        """x - y; see `add`."""
        return self._sum(x, y, subtract=True)

    def _sum(self, x: Ct, y: Ct, subtract: bool, distinct: bool = False) -> Ct:
        x, y = self.align(x, y)
        components = max(x.components, y.components)
        self.costs.add(self.counts, components, x.limbs)
        data = self._sub_data(x.data, y.data) if subtract else self._add_data(x.data, y.data)
        errors = x.errors.plus_distinct(y.errors) if distinct else x.errors.plus(y.errors)
        return self.make(x.limbs, x.scale, x.bound + y.bound, errors, components, data)

    def align(self, x: Ct, y: Ct) -> tuple[Ct, Ct]:
        """Two ciphertexts at the same limbs and scale, those at which the policy lets them meet."""
        limbs, scale = self.policy.meeting((x.limbs, x.scale), (y.limbs, y.scale))
        return self.match(x, limbs, scale), self.match(y, limbs, scale)

    def add_all(self, cts: Iterable[Ct]) -> Ct:
        """The sum of several ciphertexts."""
        total: Ct | None = None
        for ct in cts:
            total = ct if total is None else self.add(total, ct)
        if total is None:
            raise ShapeError("A sum of ciphertexts needs at least one.", expected="at least one", got=0)
        return total

    def negate(self, x: Any) -> Any:
        """-x."""
        if isinstance(x, Plain):
            return x.times(-1)
        return self.make(x.limbs, x.scale, x.bound, x.errors, x.components, self._negate_data(x.data))

    def add_plain(self, x: Ct, plain: Plain) -> Ct:
        """x + a clear vector, encoded at the scale of x (in 62 bits at most). Levels: none."""
        self.counts.adds += 1
        self.costs.encode(self.counts, 1, x.limbs)
        self.counts.operand_encodings += not plain.constant
        scale, factor = self.policy.addend(x.scale, plain.bound)
        if factor > 1:
            self.costs.multiply_scalar(self.counts, 2, x.limbs)
        self.ledger.touch(self._book_encodings([plain], scale, 0, self.limb_bytes()))
        errors = x.errors.with_common(self.policy.addend_error(scale, plain.bound))
        data = self._add_plain_data(x.data, plain, scale, factor, x.limbs)
        return self.make(x.limbs, x.scale, x.bound + plain.bound, errors, x.components, data)

    def multiply_scalar(self, x: Any, value: float) -> Any:
        """x times a real number.

        Small integers (`PlaintextPolicy.integer`) multiply the ciphertext and keep its scale. For any other number the
        same ciphertext is read at a scale that absorbs its absolute value: exact and free, no level. (Adding
        results of different scales may then cost a level, see `align`.)
        """
        if not math.isfinite(value):
            raise RangeError(
                "A scalar factor must be a finite number.", expected="a finite number", got=value
            )
        if isinstance(x, Plain):
            return x.times(value)
        factor = self.policy.integer(value)
        if factor is not None:
            return self._times_integer(x, factor, value, x.scale)
        read = self.fold_into_scale(x, abs(value))
        return self.negate(read) if value < 0 else read

    def number_sum(self, terms: Sequence[tuple[Ct, float]], scale: Scale, constant: float = 0.0) -> Ct:
        """Σ value·x + constant, at exactly the scale that the caller wants, whatever those of the terms are; in one
        pass over the terms. Levels: none; limbs are the fewest of a term.

        The integer next to value · scale / (x's scale) multiplies each ciphertext. It misses by at most 1/2, which is
        an error of at most bound · (x's scale) / (2 · scale): scales should be apart by some 20 bits, or the quotient
        be a whole number.

        Raises:
            ShapeError: there are no terms, or their components differ.
        """
        return self.number_sums([(terms, scale, constant)])[0]

    def number_sums(self, sums: Sequence[tuple[Sequence[tuple[Ct, float]], Scale, float]]) -> list[Ct]:
        """`number_sum` of each (terms, scale, constant), in one pass over all terms: one that several sums have is read
        once."""
        asked: list[NumberSumData] = []
        components = []
        for terms, scale, constant in sums:
            if len({ct.components for ct, _ in terms}) != 1:
                raise ShapeError(
                    "A sum of ciphertexts needs terms of as many components.",
                    expected="one term at least, with equal components",
                    got=[ct.components for ct, _ in terms],
                )
            limbs = min(ct.limbs for ct, _ in terms)
            cts = self._dropped([ct for ct, _ in terms], limbs)
            values = [value for _, value in terms]
            components.append(cts[0].components)
            numbers = self.policy.numbers(cts, values, scale, constant)
            self.counts.scalar_products += len(cts)
            self.costs.scaled_sum(self.counts, len(cts), components[-1], limbs, bool(constant))
            asked.append(([ct.data for ct in cts], values, numbers, scale, limbs))
        return [
            self.make(limbs, scale, numbers.bound, numbers.errors, number, data)
            for (_, _, numbers, scale, limbs), number, data in zip(
                asked, components, self._number_sums_data(asked), strict=True
            )
        ]

    def add_number(self, x: Ct, value: float) -> Ct:
        """x plus a real number in every slot. Levels: none."""
        return self.number_sum([(x, 1.0)], x.scale, value)

    def times_monomial(self, x: Ct, power: int) -> Ct:
        """x times X^power, 0 <= power < N: exact, without noise. Slot j is multiplied by ζ^(power·5^j), ζ a primitive
        2N-th root of unity; every slot by the imaginary unit where power is N/2. Levels: none."""
        self.counts.sums += 1
        self.counts.mac_limbs += x.components * x.limbs
        self.counts.plain_bytes_read += self.costs.factor_bytes(x.limbs)
        data = self._times_monomial_data(x.data, power, x.limbs)
        return self.make(x.limbs, x.scale, x.bound, x.errors, x.components, data)

    def fold_into_scale(self, x: Ct, value: float) -> Ct:
        """Return x times a positive number by reinterpretation of the scale, which absorbs it. It is exact and
        free."""
        if not 0 < value < math.inf:
            raise RangeError(
                "A factor of the scale must be a positive finite number.",
                expected="a positive finite number",
                got=value,
            )
        bound, errors = x.bound * value, self.policy.absorbed_errors(x.errors, value)
        return self.make(
            *(x.limbs, self.policy.absorbed(x.scale, value), bound, errors, x.components),
            self._scale_data(x.data, 1, value),
        )

    def scaled_up(self, x: Ct, bits: int) -> Ct:
        """The same slots at a scale 2^bits larger: exact."""
        while bits > 0:
            factor = min(1 << bits, MAX_SMALL_INTEGER)
            x = self.fold_into_scale(self.multiply_scalar(x, factor), 1 / factor)
            bits -= factor.bit_length() - 1
        return x

    def scaled_up_to(self, x: Ct, scale: Scale) -> Ct:
        """The same slots at the largest multiple of x's scale that is at most `scale`, but for 20 bits of the factor:
        exact. A scale that is larger, or more than half as large, stays."""
        while (factor := self.policy.enlargement(x.scale, scale)) > 1:
            factor = min(factor, MAX_SMALL_INTEGER)
            x = self.fold_into_scale(self.multiply_scalar(x, factor), 1 / factor)
        return x


def number(slots: int, value: float) -> Plain:
    """One number in every slot."""
    return Plain(("number", value), lambda: np.full(slots, value), abs(value), constant=True)
