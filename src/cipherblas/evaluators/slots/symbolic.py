"""`Symbolic`: runs an algorithm without data, for counts, levels, keys, memory and noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from typing import Any

from cipherblas.common.work import Work
from cipherblas.evaluators.slots.bookkeeping import T, Term
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Plain, WeightGroup
from cipherblas.rlwe.noise import SlotErrors


class Symbolic(Evaluator):
    """Bookkeeping alone: every piece of data is None, and no clear vector is ever evaluated.

    Loops over blocks (`each`, `fold`) are not walked: one block is counted and multiplied, and its handles stand for
    those of all blocks. Counts, keys and memory are those of the whole loop, bounds and errors but for rounding.

    Every handle and every term of a sum is a step of the budget of `cipherblas.common.work`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self.work: Work = Work()
        self._whole = (0, 0)  # encodings that were counted for all blocks at once: masks, those of every run
        super().__init__(*args, **options)

    # ---- loops over blocks ----

    def each(
        self, number: int, work: Callable[[int], T], replaced: MutableSequence[Any] | None = None
    ) -> list[T]:
        if number == 1:
            return [work(0)]
        ledger, kept_encodings = self.ledger, self.run_bytes + self.mask_bytes
        peak, live, handles = ledger.peak, ledger.live, ledger.handles
        result = self._counted(number, lambda: work(0))
        new_encodings = self.run_bytes + self.mask_bytes - kept_encodings
        kept = ledger.live - live - new_encodings  # by each of them
        if replaced is not None:
            kept -= self._bytes(replaced[0], {})
        most = max(peak, ledger.peak)
        if new_encodings:  # the others find them there, and begin with less memory: only that is looked at
            self._counted(0, lambda: work(1))
            most = max(most, ledger.peak + (number - 2) * kept)
        else:
            most = max(most, ledger.peak + (number - 1) * kept)
        for ct in _handles(result, set()):
            ct.stand_for(number, handles)
        ledger.peak = most
        return [result] * number

    def fold(self, number: int, work: Callable[[int, T | None], T]) -> T:
        total = work(0, None)
        if number == 1:
            return total
        first = [(ct, ct.bound, ct.errors) for ct in _handles(total, set())]
        peak = self.ledger.peak
        self._counted(number - 1, lambda: work(1, total))
        self.ledger.peak = max(peak, self.ledger.peak)
        for ct, bound, errors in first:
            own_and_mixed = math.hypot(errors.own, errors.mixed) * math.sqrt(number)
            ct.bound, ct.errors = bound * number, SlotErrors(0.0, own_and_mixed, errors.common * number)
            self.check_room(ct.limbs, ct.scale, ct.bound, ct.noise)
        return total

    def _counted(self, number: int, work: Callable[[], T]) -> T:
        """What `work` gives, counted so often; the ledger's peak is that of this one time."""
        counts, whole, repeats = self.counts.copy(), self._whole, self._repeats
        self.ledger.peak = self.ledger.live
        self._repeats *= number
        result = work()
        self._repeats = repeats
        more = self.counts - counts
        more.mask_encodings -= self._whole[0] - whole[0]
        more.operand_encodings -= self._whole[1] - whole[1]
        self.counts += more * (number - 1)
        return result

    def _bytes(self, item: Any, known: dict[int, int]) -> int:
        """Bytes of the ciphertexts in nested lists, of each as often as it stands there."""
        if id(item) not in known:
            known[id(item)] = (
                self.ct_bytes(item)
                if isinstance(item, Ct)
                else sum(self._bytes(part, known) for part in item)
            )
        return known[id(item)]

    def _count_encodings(self, masks: int, anew: int) -> None:
        super()._count_encodings(masks, anew)
        self._whole = self._whole[0] + masks, self._whole[1] + anew

    # ---- hooks ----

    def make(self, *args: Any, **options: Any) -> Ct:
        self.work.spend(1)
        return super().make(*args, **options)

    def _rotate_data(self, data: Any, steps: Sequence[int], limbs: int) -> list[Any]:
        return [None] * len(steps)

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

    def _times_monomial_data(self, x: Any, power: int) -> Any:
        return None

    def _scale_data(self, x: Any, factor: int, value: float) -> Any:
        return None


def _handles(item: Any, seen: set[int]) -> Iterator[Ct]:
    """The different ciphertexts in nested lists."""
    if isinstance(item, Ct):
        yield item
    elif isinstance(item, (list, tuple)):
        parts = {id(part): part for part in item}
        for new in parts.keys() - seen:
            seen.add(new)
            yield from _handles(parts[new], seen)
