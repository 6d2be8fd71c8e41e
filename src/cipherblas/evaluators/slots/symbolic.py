"""`Counter`: runs an algorithm without data, for counts, levels, keys, memory and noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cipherblas.common.work import Work
from cipherblas.evaluators.slots.bookkeeping import Term
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Plain, WeightGroup


class Counter(Evaluator):
    """Bookkeeping alone: every piece of data is None, and no clear vector is ever evaluated.

    Every handle and every term of a sum is a step of the budget of `cipherblas.common.work`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self.work: Work = Work()
        super().__init__(*args, **options)

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

    def _scale_data(self, x: Any, factor: int, value: float) -> Any:
        return None
