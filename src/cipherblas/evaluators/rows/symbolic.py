"""`RowsSymbolic`: runs an algorithm on encrypted rows without data: counts, keys, noise and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.work import Work
from cipherblas.evaluators.policy.interface import Scale
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.rows.values import MultiSecretRows, Rows, TransposedHalf
from cipherblas.evaluators.slots.values import ClearFactor


class RowsSymbolic(RowsEvaluator):
    """No arithmetic. Every handle is a step of the budget of `cipherblas.common.work`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.work: Work = Work()
        super().__init__(*args, **options)

    def make(self, *args: Any, **options: Any) -> Rows:
        self.work.spend(1)
        return super().make(*args, **options)

    def _clear_product_data(self, factor: ClearFactor, x: Rows, exact: bool) -> None:
        return None

    def _fixed_product_data(
        self, factor: ClearFactor, number: int, x: MultiSecretRows, exact: bool
    ) -> Sequence[None]:
        return [None] * -(-x.shape[1] // self.n)

    def _parts_data(self, x: Rows) -> tuple[None, None]:
        return None, None

    def _part_product_data(self, part: TransposedHalf, x: Rows) -> None:
        return None

    def _gram_data(self, x: Rows) -> tuple[None, None]:
        return None, None

    def _switched_product_data(self, part: TransposedHalf, x: Rows) -> None:
        return None

    def _reduced_product_data(self, factor: ClearFactor, x: Rows) -> None:
        return None

    def _switched_gram_data(self, x: Rows) -> tuple[None, None]:
        return None, None

    def _transpose_data(self, x: Rows) -> None:
        return None

    def _relinearise_data(self, x: Rows) -> None:
        return None

    def _take_data(self, x: Rows, rows: int, cols: int) -> None:
        return None

    def _rows_data(self, x: Rows, start: int, stop: int) -> None:
        return None

    def _stack_data(self, xs: Sequence[Rows]) -> None:
        return None

    def _add_data(self, x: Rows, y: Rows) -> None:
        return None

    def _sub_data(self, x: Rows, y: Rows) -> None:
        return None

    def _rescale_data(self, x: Rows) -> None:
        return None

    def _drop_data(self, x: Rows, limbs: int) -> None:
        return None

    def _elements_data(self, x: Rows, start: int, stop: int) -> list[Any]:
        return [None] * (stop - start)

    def _of_elements_data(
        self, datas: Sequence[Any], shape: tuple[int, int], held: int, scale: Scale
    ) -> None:
        return None

    def _add_clear_data(self, x: Rows, values: Callable[[], NDArray[np.float64]]) -> Any:
        return None
