"""`WorstCase`: runs an algorithm on bounds of messages and errors, all of which add up.

The noise model of a plan adds errors of different ciphertexts as independent ones, which holds for data
that nobody chose. Results that are shared need a bound that holds for every operand (`Sharing`): here no two errors
are independent and every message is as large as its bound; what stays random, and what steps add, is in
`rlwe.noise.worst_case`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cipherblas.evaluators.policy.approximate import FLOAT_ERROR, mismatch
from cipherblas.evaluators.policy.interface import Numbers, Scale, check_approximate
from cipherblas.evaluators.slots.bookkeeping import Term
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import (
    ClearFactor,
    Ct,
    GiantStep,
    Plain,
    Polynomials,
    Transform,
    WeightGroup,
)
from cipherblas.rlwe.key_policies import Step
from cipherblas.rlwe.noise import SlotErrors, WorstCoefficients, WorstSlots
from cipherblas.rlwe.rings import Ring


@dataclass(frozen=True)
class Worst:
    """Bounds for one ciphertext, on the absolute value of its complex slots in units of its integer message.

    Attributes:
        limbs, components: of the ciphertext.
        scale: as the handle's.
        message: of the exact scaled message.
        error: of what decryption finds beside it.
        amplified, added: of a linear transform or weighted sum, largest error before its weights, and what comes after
            them: with a bound g on the sum of the weights that a slot sees, `error` is at most g·amplified + added.
    """

    limbs: int
    components: int
    scale: Scale
    message: float
    error: float
    amplified: float = 0.0
    added: float = 0.0

    def weighted(self, gain: float) -> Worst:
        """The error bound where the weights that a slot sees add up to at most `gain`."""
        return replace(self, error=min(self.error, gain * self.amplified + self.added))


class WorstCase(Evaluator):
    """Bounds alone, as `Worst`; no clear vector is evaluated, those of the `Plain`s' bounds stand for all. So do the
    bounds of one block for those of all blocks."""

    schedule = "bounded"

    def __init__(self, ring: Ring, **options: Any) -> None:
        super().__init__(ring, **options)
        check_approximate(self.policy, "errors in results for a worst case")
        self.worst = WorstSlots(ring)

    def decrypted_error(self, ct: Ct) -> float:
        """Bound on the error of a slot once it is decrypted and decoded."""
        found: Worst = ct.data
        return self.policy.in_values(ct.scale, found.error + self.worst.float * (found.message + found.error))

    # ---- what is known beyond the hooks ----

    def make(
        self,
        limbs: int,
        scale: Scale,
        bound: float,
        errors: SlotErrors,
        components: int,
        data: Any,
        booked: bool = True,
    ) -> Ct:
        """A handle; its message is no larger than its bound says."""
        if data is not None:
            message = min(data.message, self.policy.magnitude(scale, bound))
            data = replace(data, scale=scale, message=message)
        return super().make(limbs, scale, bound, errors, components, data, booked)

    def fresh(
        self,
        data: Any,
        *,
        bound: float,
        limbs: int | None = None,
        scale: Scale | None = None,
        public_key: bool = False,
    ) -> Ct:
        """A handle on a freshly encrypted ciphertext; `data` is not looked at."""
        ct = super().fresh(None, bound=bound, limbs=limbs, scale=scale, public_key=public_key)
        message = self.policy.magnitude(ct.scale, bound)
        ct.data = Worst(ct.limbs, 2, ct.scale, message, self.worst.fresh(message, public_key))
        return ct

    def fresh_block(self, data: Sequence[Any], *, bound: float, **options: Any) -> list[Ct]:
        """`fresh` for each."""
        return [self.fresh(each, bound=bound, **options) for each in data]

    def of_element(
        self, data: Any, *, limbs: int, scale: Scale, bound: float, transformed: bool = False
    ) -> Ct:
        """A handle on a ring element; `data` is not looked at."""
        ct = super().of_element(None, limbs=limbs, scale=scale, bound=bound, transformed=transformed)
        ct.data = Worst(limbs, 2, scale, self.policy.magnitude(scale, bound), 0.0)
        return ct

    def of_parts(self, data: Any, like: Ct, bound: float) -> Ct:
        """As `of_element`."""
        ct = super().of_parts(None, like, bound)
        ct.data = Worst(like.limbs, 2, like.scale, self.policy.magnitude(like.scale, bound), 0.0)
        return ct

    def worst_joined(self, limbs: int) -> float:
        """As `Evaluator.worst_joined`."""
        return WorstCoefficients(self.params).switch(limbs)

    def worst_parted(self, limbs: int) -> float:
        """As `Evaluator.worst_parted`."""
        return WorstCoefficients(self.params.family.descending).switch(limbs)

    def _joined_data(self, parts: Sequence[Any], inner: Any, limbs: int) -> Any:
        return None

    def _parted_data(self, data: Any, inner: Any, limbs: int) -> Sequence[Any]:
        return [None] * (self.n // inner.n)

    def assume_errors(self, ct: Ct, errors: SlotErrors, worst: float = 0.0) -> Ct:
        """As `Evaluator.assume_errors`."""
        ct = super().assume_errors(ct, errors, worst)
        ct.data = replace(ct.data, error=worst, amplified=0.0, added=0.0)
        return ct

    def as_message(self, ct: Ct) -> Ct:
        """As `Evaluator.as_message`."""
        whole = ct.data.message + ct.data.error
        found = super().as_message(ct)
        found.data = replace(ct.data, message=whole, error=0.0, amplified=0.0, added=0.0)
        return found

    def message_bound(self, ct: Ct) -> float:
        """As `Evaluator.message_bound`."""
        whole = float(ct.data.message + ct.data.error)
        return max(super().message_bound(ct), self.policy.in_values(ct.scale, whole))

    def worst_error(self, ct: Ct) -> float:
        """The largest error of a slot, in units of the integer message."""
        return float(ct.data.error)

    def bounded(self, ct: Ct, bound: float) -> Ct:
        """The same ciphertext; what the caller knows about its slots is used."""
        ct = super().bounded(ct, bound)
        message = min(ct.data.message, self.policy.magnitude(ct.scale, ct.bound))
        ct.data = replace(ct.data, message=message)
        return ct

    def linear_transforms(
        self, x: Any, maps: Sequence[Transform | Mapping[Step, Plain | None]], **options: Any
    ) -> Iterator[Any]:
        """As `Evaluator.linear_transforms`; the sums of the rows bound the errors."""
        transforms = [Transform.of(diagonals) for diagonals in maps]
        for transform, ct in zip(
            transforms, super().linear_transforms(x, transforms, **options), strict=True
        ):
            if isinstance(ct, Ct):
                ct.data = ct.data.weighted(transform.row_sum)
            yield ct

    def weighted_sum(
        self,
        cts: Sequence[Ct],
        plains: Sequence[Plain],
        plain_scale: Scale,
        accumulator: Ct | None = None,
        *,
        rows: tuple[float, float] | None = None,
        most: float = math.inf,
    ) -> Ct:
        """As `Evaluator.weighted_sum`."""
        ct = super().weighted_sum(cts, plains, plain_scale, accumulator, rows=rows, most=most)
        if rows is not None and accumulator is None:
            ct.data = ct.data.weighted(self.policy.magnitude(plain_scale, rows[0]))
        return ct

    def weighted_sums(
        self,
        cts: Sequence[Ct],
        groups: Sequence[WeightGroup],
        plain_scale: Scale,
        *,
        rows: tuple[float, float],
        parts: int = 1,
    ) -> list[Ct]:
        """As `Evaluator.weighted_sums`."""
        found = super().weighted_sums(cts, groups, plain_scale, rows=rows, parts=parts)
        for ct in found:
            ct.data = ct.data.weighted(self.policy.magnitude(plain_scale, rows[0]))
        return found

    # ---- hooks ----

    def _switched(self, limbs: int) -> float:
        """A key switch with its ModDown."""
        return self.worst.key_switch(limbs) + self.worst.rounding()

    def _raise_data(self, data: Any, limbs: int) -> Any:
        error = data.error + self.worst.encapsulation + self._switched(limbs)
        return replace(data, limbs=limbs, message=math.inf, error=error)  # `make` takes the caller's bound

    def _raised_data(
        self,
        datas: Sequence[Any],
        bound: float,
        steps: Sequence[int],
        group: GiantStep,
        scale: float,
        limbs: int,
        repeats: int,
    ) -> list[Any]:
        raised = []
        for data in datas:
            ct = self._raise_data(data, limbs)
            message = self.policy.magnitude(ct.scale, bound)
            raised.append(replace(ct, message=message, error=ct.error + self.worst.raising))
        return self._giant_steps_data(raised, steps, [group], scale, limbs, repeats)

    def _rotate_data(self, data: Any, steps: Sequence[int], limbs: int) -> list[Any]:
        rotated = replace(data, limbs=limbs, error=data.error + self._switched(limbs))
        return [rotated] * len(steps)

    def _transform_data(
        self,
        sources: Sequence[Any],
        terms: Sequence[Term],
        outputs: int,
        limbs: int,
        rescale: bool,
        order: str | None,
    ) -> list[Any]:
        """Diagonals are encoded at the scale of the level that is dropped, the last limb here and the others by what
        follows; sums of plain rotations may drop one too."""
        last = float(self.params.q[limbs - 1]) if rescale else 1.0
        mask = self.policy.magnitude(self.mask_scale(limbs), 1.0)
        switch, rounding = self.worst.key_switch(limbs), self.worst.rounding()
        results = []
        for output in range(outputs):
            own = [term for term in terms if term.output == output]
            masked = any(term.plain is not None for term in own)
            message = error = amplified = added = 0.0
            for term in own:
                source = sources[term.source]
                switched = source.error + switch * bool(term.step)
                gain = 1.0 if term.plain is None else term.plain.bound
                message, error = message + gain * source.message, error + gain * switched
                amplified = max(amplified, switched)
                if term.plain is not None:
                    added += self.worst.plain(mask * gain) / last * (source.message + switched)
            divided = last / mask if masked else last  # what is left of it for the message itself
            message, error, amplified = message / divided, error / divided, amplified / divided
            added += rounding
            scale = self.policy.absorbed(sources[0].scale, divided)
            results.append(Worst(limbs - rescale, 2, scale, message, error + added, amplified, added))
        return results

    def _product_data(self, lefts: Sequence[Any], rights: Sequence[Any], accumulator: Any) -> Any:
        message = error = 0.0
        scale = self.policy.product(lefts[0].scale, rights[0].scale)
        for x, y in zip(lefts, rights, strict=True):
            message += x.message * y.message
            error += x.message * y.error + y.message * x.error + x.error * y.error
            error += mismatch(self.policy.product(x.scale, y.scale), scale) * x.message * y.message
        return _added(Worst(lefts[0].limbs, 3, scale, message, error), accumulator)

    def _plain_product_data(
        self, plains: Sequence[Plain], scale: Scale, cts: Sequence[Any], accumulator: Any, limbs: int
    ) -> Any:
        bounds = [plain.bound for plain in plains]
        return _added(self._weighted(bounds, scale, cts, limbs), accumulator)

    def _weighted_sums_data(
        self, groups: Sequence[WeightGroup], scale: Scale, cts: Sequence[Any], limbs: int
    ) -> list[Any]:
        return [
            self._weighted(
                [1.0] * len(group.sources), scale, [cts[source] for source in group.sources], limbs
            )
            for group in groups
        ]

    def _weighted(self, bounds: Sequence[float], scale: Scale, cts: Sequence[Any], limbs: int) -> Worst:
        message = error = added = 0.0
        for bound, ct in zip(bounds, cts, strict=True):
            weight = self.policy.magnitude(scale, bound)
            message += weight * ct.message
            error += weight * ct.error
            added += self.worst.plain(weight) * (ct.message + ct.error)
            added += self.policy.magnitude(scale, mismatch(ct.scale, cts[0].scale)) * bound * ct.message
        amplified, total = max(ct.error for ct in cts), self.policy.product(cts[0].scale, scale)
        return Worst(limbs, cts[0].components, total, message, error + added, amplified, added)

    def _polynomial_sums_data(self, polynomials: Polynomials, cts: Sequence[Any]) -> list[Any]:
        scale = self.policy.absorbed(cts[0].scale, polynomials.unit)
        return [Worst(cts[0].limbs, 2, scale, math.inf, 0.0)] * polynomials.shape[
            0
        ]  # `make` takes the caller's bound

    def _matrix_product_data(self, factor: ClearFactor, cts: Sequence[Ct], limbs: int) -> list[Any]:
        first, missed = cts[0].data, 0.0 if factor.exact else float(factor.shape[1])
        message, error = max(ct.data.message for ct in cts), max(ct.data.error for ct in cts)
        total = factor.gain / factor.unit
        scale = self.policy.absorbed(first.scale, factor.unit)
        found = Worst(
            limbs, first.components, scale, total * message, total * error + missed * (message + error)
        )
        return [found] * factor.shape[0]

    def _relinearise_data(self, data: Any, limbs: int) -> Any:
        return replace(data, limbs=limbs, components=2, error=data.error + self._switched(limbs))

    def _rescale_data(self, data: Any) -> Any:
        last = float(self.params.q[data.limbs - 1])
        rounding = self.worst.rounding(data.components)
        return replace(
            data,
            limbs=data.limbs - 1,
            scale=self.policy.divided(data.scale, data.limbs, data.limbs - 1),
            message=data.message / last,
            error=data.error / last + rounding,
            amplified=data.amplified / last,
            added=data.added / last + rounding,
        )

    def _drop_data(self, data: Any, limbs: int) -> Any:
        return replace(data, limbs=limbs)

    def _add_data(self, x: Any, y: Any) -> Any:
        return _added(x, y)

    def _sub_data(self, x: Any, y: Any) -> Any:
        return _added(x, y)

    def _negate_data(self, x: Any) -> Any:
        return x

    def _add_plain_data(self, x: Any, plain: Plain, scale: Scale, factor: int, limbs: int) -> Any:
        message = self.policy.magnitude(scale, plain.bound)
        error = x.error + factor * self.worst.plain(message)
        return replace(x, message=x.message + factor * message, error=error)

    def _times_monomial_data(self, x: Any, power: int, limbs: int) -> Any:
        return x

    def _scale_data(self, x: Any, factor: int, value: float) -> Any:
        size = abs(factor)
        # An integer in the place of a ratio of scales.
        missed = 0.0 if size in (1, abs(value)) else max(0.5, size * FLOAT_ERROR)
        return replace(x, message=x.message * size, error=x.error * size + missed * x.message)

    def _number_sum_data(
        self,
        datas: Sequence[Any],
        values: Sequence[float],
        numbers: Numbers,
        scale: Scale,
        limbs: int,
    ) -> Any:
        terms = [
            replace(data, scale=scale) for data in datas
        ]  # which all terms have once they are multiplied
        return super()._number_sum_data(terms, values, numbers, scale, limbs)

    def _number_data(self, data: Any, factor: int, value: float, missed: float) -> Any:
        size, missed = abs(factor), missed * data.message
        return replace(data, message=data.message * size + missed, error=data.error * size + missed)


def _added(x: Worst, y: Worst | None) -> Worst:
    """Bounds of a sum."""
    if y is None:
        return x
    error = x.error + y.error + mismatch(x.scale, y.scale) * x.message
    return Worst(
        min(x.limbs, y.limbs), max(x.components, y.components), y.scale, x.message + y.message, error
    )
