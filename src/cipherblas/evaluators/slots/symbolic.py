"""`Symbolic`: runs an algorithm without data, for counts, levels, keys, memory and noise."""

from __future__ import annotations

import functools
import math
from collections import Counter as Tally
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cipherblas.common.work import Work
from cipherblas.evaluators.slots.bookkeeping import Properties, Term
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import (
    ClearFactor,
    Ct,
    GiantStep,
    Plain,
    Polynomials,
    Transform,
    WeightGroup,
    handles_in,
)
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.key_policies import Step
from cipherblas.rlwe.noise import SlotErrors


@dataclass(frozen=True)
class _Known:
    """The counts of a transform that was counted before.

    Attributes:
        counts: without the encodings of masks, which are kept.
        peak: bytes that it needs beyond those that are alive before.
        results: their properties.
        calls: see `Symbolic.calls`.
    """

    counts: Counts
    peak: int
    results: Sequence[Properties]
    calls: Mapping[Any, int] | None


class Symbolic(Evaluator):
    """The evaluator without data: it only keeps books, and evaluates no clear vector.

    Tasks on many blocks are not run one by one: one of each kind is counted and multiplied, and its handles stand for
    those of all blocks. Counts, keys and memory are those of all, bounds and errors but for rounding.

    Every handle and every term of a sum is a step of the budget of `cipherblas.common.work`.
    """

    schedule = "counted"
    calls: Tally[Any] | None = None  # of costs, where a subclass keeps them

    def __init__(self, *args: Any, **options: Any) -> None:
        self.work: Work = Work()
        self._whole = (0, 0)  # encodings that were counted for all blocks at once: masks, those of every run
        self._transforms_known: dict[Hashable, _Known] = {}
        super().__init__(*args, **options)

    # ---- tasks on many blocks ----

    def repeated(self, number: int, work: Callable[[], None]) -> None:
        """Do `work` and count it so often, on different blocks; the ledger's peak is that of this one time."""
        before, whole, repeats = vars(self.counts).copy(), self._whole, self._repeats
        self.ledger.peak = self.ledger.live
        self._repeats *= number
        work()
        self._repeats = repeats
        self.counts.multiply_since(before, number)
        self.counts.mask_encodings -= (self._whole[0] - whole[0]) * (number - 1)
        self.counts.operand_encodings -= (self._whole[1] - whole[1]) * (number - 1)

    def repeat(
        self,
        number: int,
        work: Callable[[int], Any],
        ended: Callable[[], int] = lambda: 0,
        beside: Evaluator | None = None,
    ) -> list[Any]:
        """Run `work` for the first number, and let its result stand for all. Memory grows by the remainder of each."""
        if not number:
            return []
        ledger, found = self.ledger, []
        peak, live, handles = ledger.peak, ledger.live, ledger.handles
        encodings = self.run_bytes
        self._both_repeated(beside, number, lambda: found.append(work(0)))
        new_encodings = self.run_bytes - encodings
        kept = ledger.live - live - new_encodings - ended()
        most = max(peak, ledger.peak)
        if new_encodings and number > 1:  # the others find them there, and begin with less memory
            self._both_repeated(beside, 0, lambda: work(1))  # only that is looked at
            most = max(most, ledger.peak + (number - 2) * kept)
        else:
            most = max(most, ledger.peak + (number - 1) * kept)
        for ct in handles_in(found):
            ct.stand_for(number, handles)
        ledger.peak = most
        return found * number

    def one_for_all(self, cts: list[Ct]) -> list[Ct]:
        """As `Evaluator.one_for_all`."""
        first = cts[0]
        first.stand_for(len(cts), -1)
        return [first] * len(cts)

    def _both_repeated(self, beside: Evaluator | None, number: int, work: Callable[[], None]) -> None:
        if isinstance(beside, Symbolic) and beside is not self:
            self.repeated(number, lambda: beside.repeated(number, work))
        else:
            self.repeated(number, work)

    def _count_encodings(self, masks: int, anew: int) -> None:
        super()._count_encodings(masks, anew)
        self._whole = self._whole[0] + masks, self._whole[1] + anew

    # ---- what was counted before ----

    def linear_transform(
        self,
        x: Any,
        diagonals: Transform | Mapping[Step, Plain | None],
        *,
        baby_steps: int | None = None,
        order: str | None = None,
        most: float = math.inf,
        double: bool = False,
    ) -> Any:
        """As `Evaluator.linear_transform`; ciphertexts with equal properties are counted once."""
        transform = Transform.of(diagonals)
        options: dict[str, Any] = {"order": order, "most": most, "double": double}
        work = functools.partial(super().linear_transform, x, transform, baby_steps=baby_steps, **options)
        if isinstance(x, Plain) or transform.key is None:  # without a key it is like no other
            return work()
        return self._remembered((transform.key, baby_steps, order, most, double), [x], lambda: [work()])[0]

    def linear_transform_of_each(
        self,
        xs: Sequence[Ct],
        diagonals: Transform | Mapping[Step, Plain | None],
        *,
        baby_steps: int,
        most: float = math.inf,
    ) -> list[Ct]:
        """As `Evaluator.linear_transform_of_each`; ciphertexts with equal properties are counted once."""
        transform = Transform.of(diagonals)
        work = functools.partial(
            super().linear_transform_of_each, xs, transform, baby_steps=baby_steps, most=most
        )
        if transform.key is None:
            return work()
        return self._remembered((transform.key, baby_steps, most), list(xs), work)

    def counted_once(self, kind: Hashable, given: list[Ct], work: Callable[[], Ct]) -> Ct:
        """As `Evaluator.counted_once`."""
        return self._remembered((kind,), given, lambda: [work()])[0]

    def _remembered(self, kind: tuple[Any, ...], xs: list[Ct], work: Callable[[], list[Ct]]) -> list[Ct]:
        """work(), or what it was for others of the same kind and equal properties; either takes what is in `xs`."""
        key = (*kind, self._repeats, *((x.limbs, x.scale, x.bound, x.errors, x.components) for x in xs))
        known = self._transforms_known.get(key)
        if known is not None:
            self.counts += known.counts
            if self.calls is not None and known.calls is not None:
                for call, times in known.calls.items():
                    self.calls[call] += times
            self._whole = self._whole[0], self._whole[1] + known.counts.operand_encodings
            self.ledger.touch(known.peak)
            xs.clear()
            return [self.make(*result, None) for result in known.results]
        counts, ledger = self.counts.copy(), self.ledger
        calls = None if self.calls is None else dict(self.calls)
        peak, live = ledger.peak, ledger.live
        ledger.peak = live
        found = work()
        taken = self.counts - counts
        taken.mask_encodings = 0
        results = [(ct.limbs, ct.scale, ct.bound, ct.errors, ct.components) for ct in found]
        more = None
        if self.calls is not None and calls is not None:
            counted = ((call, times - calls.get(call, 0)) for call, times in self.calls.items())
            more = {call: times for call, times in counted if times}
        self._transforms_known[key] = _Known(taken, ledger.peak - live, results, more)
        ledger.peak = max(peak, ledger.peak)
        return found

    def baby_sums(
        self, rotated: Mapping[int, Ct], groups: Sequence[GiantStep], transform: Transform, most: float
    ) -> list[Ct]:
        """As `Evaluator.baby_sums`; sums of as many ciphertexts that are alike differ in their masks alone."""
        if self.key_policy != "direct" or self.level_limbs > 1:
            return super().baby_sums(rotated, groups, transform, most)
        limbs = next(iter(rotated.values())).limbs
        scale, each = self.mask_scale(limbs), self.costs.factor_bytes(limbs)
        found: list[Ct] = []
        made: dict[tuple[int, bool], Ct] = {}
        for group in groups:
            number = len(group.babies)
            kind = number, 0 in group.babies  # what is not rotated has another error
            if kind not in made:
                (made[kind],) = super().baby_sums(rotated, [group], transform, most)
                found.append(made[kind])
                continue
            one = made[kind]
            self.costs.encode(self.counts, number, number * limbs)
            self.costs.multiply_plain_sum(self.counts, number, limbs)
            found.append(self.make(one.limbs, one.scale, one.bound, one.errors, 2, None))
            passing = self._book_encodings(group.plains, scale, limbs, each)
            self.ledger.touch(min(passing, self.working_bytes))
            self._plain_product_data(group.plains, scale, (), None, limbs)
        return found

    # ---- hooks ----

    def make(
        self,
        limbs: int,
        scale: float,
        bound: float,
        errors: SlotErrors,
        components: int,
        data: Any,
        booked: bool = True,
    ) -> Ct:
        work = self.work
        work.steps += 1
        if work.steps > work.budget:
            work.spend(0)
        return super().make(limbs, scale, bound, errors, components, data, booked)

    def make_all(self, data: Sequence[Any], properties: Properties) -> list[Ct]:
        """As `Evaluator.make_all`; what one handle was checked for holds for all."""
        first = self.make(*properties, data[0])
        self.work.spend(len(data) - 1)
        nbytes = self.ct_bytes(first)
        return [first, *[Ct(*properties, one, self.ledger, nbytes) for one in data[1:]]]

    def _joined_data(self, parts: Sequence[Any], inner: Any, limbs: int) -> Any:
        return None

    def _parted_data(self, data: Any, inner: Any, limbs: int) -> Sequence[Any]:
        return [None] * (self.n // inner.n)

    def _raise_data(self, data: Any, limbs: int) -> Any:
        return None

    def _rotate_data(self, data: Any, steps: Sequence[int], limbs: int) -> list[Any]:
        return [None] * len(steps)

    def _coefficient_parts_data(
        self, datas: Sequence[Any], level: int, steps: Sequence[int], outputs: int, limbs: int
    ) -> list[Any]:
        return [None] * (len(datas) * outputs)

    def _transform_data(
        self,
        sources: Sequence[Any],
        terms: Sequence[Term],
        outputs: int,
        limbs: int,
        rescale: bool,
        order: str | None,
    ) -> list[Any]:
        self.work.spend(len(terms))
        return [None] * outputs

    def _product_data(self, lefts: Sequence[Any], rights: Sequence[Any], accumulator: Any) -> Any:
        self.work.spend(len(lefts))
        return None

    def _plain_product_data(
        self, plains: Sequence[Plain], scale: float, cts: Sequence[Any], accumulator: Any, limbs: int
    ) -> Any:
        self.work.spend(len(plains))
        return None

    def _weighted_sums_data(
        self, groups: Sequence[WeightGroup], scale: float, cts: Sequence[Any], limbs: int
    ) -> list[Any]:
        self.work.spend(sum(len(group.sources) for group in groups))
        return [None] * len(groups)

    def _polynomial_sums_data(self, polynomials: Polynomials, cts: Sequence[Any]) -> list[Any]:
        self.work.spend(polynomials.shape[0])
        return [None] * polynomials.shape[0]

    def _matrix_product_data(self, factor: ClearFactor, cts: Sequence[Ct], limbs: int) -> list[Any]:
        self.work.spend(factor.shape[1])
        return [None] * factor.shape[0]

    def _relinearise_data(self, data: Any, limbs: int) -> Any:
        return None

    def _rescale_data(self, data: Any) -> Any:
        return None

    def _drop_data(self, data: Any, limbs: int) -> Any:
        return None

    def _add_data(self, x: Any, y: Any) -> Any:
        return None

    def _sub_data(self, x: Any, y: Any) -> Any:
        return None

    def _negate_data(self, x: Any) -> Any:
        return None

    def _add_plain_data(self, x: Any, plain: Plain, scale: float, factor: int, limbs: int) -> Any:
        return None

    def _times_monomial_data(self, x: Any, power: int, limbs: int) -> Any:
        return None

    def _scale_data(self, x: Any, factor: int, value: float) -> Any:
        return None
