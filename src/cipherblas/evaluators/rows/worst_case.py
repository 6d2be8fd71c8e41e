"""`RowsWorstCase`: runs an algorithm on encrypted rows on bounds of messages and errors; see `worst_case`.

An error here is that of one coefficient, a real number; what steps add is in `rlwe.noise.worst_case`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.evaluators.policy.interface import Scale, check_approximate
from cipherblas.evaluators.rows.bookkeeping import TRANSPOSE_POLICIES
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.rows.values import (
    EXACT_BITS,
    FLOAT_ERROR,
    MultiSecretRows,
    Rows,
    TransposedHalf,
)
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.matrices.transposition import gathered_switches
from cipherblas.rlwe.noise import UNKNOWN, Spread, WorstCoefficients, rounded_product
from cipherblas.rlwe.rings import Ring


@dataclass(frozen=True)
class WorstRows:
    """Bounds for one encryption, on the absolute value of a coefficient, in units of the integer message.

    Attributes:
        message: of scale · entry.
        error: of what decryption finds beside it.
        product: of a product of secrets whose halves are still apart: the error that the factors bring to it.
        total: of a half of an encryption, of the sum of absolute messages in a column.
    """

    message: float
    error: float
    product: float = 0.0
    total: float = math.inf


class RowsWorstCase(RowsEvaluator):
    """Bounds alone."""

    def __init__(
        self, params: Ring, *, key_policy: KeyPolicy = "direct", available: KeyRequest | None = None
    ) -> None:
        super().__init__(params, key_policy=key_policy, available=available)
        check_approximate(self.policy, "errors in results for a worst case")
        self._worst = WorstCoefficients(params)

    def decrypted_error(self, x: Rows) -> float:
        """Bound on the error of an entry once it is decrypted."""
        error = float(self.policy.in_values(x.scale, x.data.error))
        return error + FLOAT_ERROR * (x.bound + error)

    def fresh(
        self,
        data: Any,
        shape: tuple[int, int],
        *,
        bound: float,
        scale: Scale,
        basis: Basis,
        public_key: bool = False,
    ) -> Rows:
        """A handle on a fresh encryption; `data` is not looked at."""
        rows = super().fresh(None, shape, bound=bound, scale=scale, basis=basis, public_key=public_key)
        rows.data = self._encrypted(self.policy.magnitude(scale, bound), public_key)
        return rows

    def fresh_batch(
        self, data: Any, shape: tuple[int, int], *, bound: float, scale: Scale, basis: Basis
    ) -> MultiSecretRows:
        """A handle on a fresh encryption whose rows share their a parts."""
        batch = super().fresh_batch(None, shape, bound=bound, scale=scale, basis=basis)
        batch.data = self._encrypted(self.policy.magnitude(scale, bound), False)
        return batch

    def _encrypted(self, message: float, public_key: bool) -> WorstRows:
        """Errors, and rounding by less than 1 and to float64."""
        return WorstRows(message, self._worst.fresh(public_key) + 1 + message * 2.0**-EXACT_BITS)

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
        """Return a sum of parts as a message; its halves carry the error of the product."""
        rows = super().read_as(x, scale=scale, bound=bound, noise=noise, bias=bias, spread=spread)
        rows.data = WorstRows(self.policy.magnitude(scale, bound), x.data.error + x.data.product)
        return rows

    def as_message(self, x: Rows) -> Rows:
        """As `RowsEvaluator.as_message`."""
        rows = super().as_message(x)
        whole = x.data.message + x.data.error + x.data.product
        rows.bound = max(rows.bound, self.policy.in_values(x.scale, whole))
        rows.data = WorstRows(whole, 0.0)
        return rows

    def add_clear(self, x: Rows, values: Callable[[], NDArray[np.float64]], bound: float) -> Rows:
        """x plus a clear matrix, rounded by less than 1 and to float64."""
        rows, message = super().add_clear(x, values, bound), self.policy.magnitude(x.scale, bound)
        error = x.data.error + 1 + message * 2.0**-EXACT_BITS
        rows.data = WorstRows(x.data.message + message, error)
        return rows

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
        """Rows of ring elements, with the error that the caller knows."""
        options = {"limbs": limbs, "scale": scale, "bound": bound, "noise": noise, "bias": bias, "held": held}
        rows = super().of_elements(datas, shape, **options)
        rows.data = WorstRows(self.policy.magnitude(scale, bound), worst)
        return rows

    def worst_error(self, x: Rows) -> float:
        """The largest error of a coefficient, in units of the message."""
        return float(x.data.error)

    def worst_switch(self, limbs: int) -> float:
        """The largest error of one key switch."""
        return self._worst.switch(limbs)

    # ---- hooks ----

    def _clear_product_data(self, factor: ClearFactor, x: Rows, exact: bool) -> WorstRows:
        return self._amplified_data(factor, x.data, x.basis, exact, math.sqrt(1 + self._weight))

    def _fixed_product_data(
        self, factor: ClearFactor, number: int, x: MultiSecretRows, exact: bool
    ) -> Sequence[WorstRows]:
        product = self._amplified_data(factor, x.data, x.basis, exact, 1.0)
        switched = replace(product, error=product.error + self._worst.switch(x.limbs))
        return [switched] * -(-x.shape[1] // self.n)

    def _amplified_data(
        self, factor: ClearFactor, x: WorstRows, basis: Basis, exact: bool, secret: float
    ) -> WorstRows:
        k, largest = factor.shape[1], factor.largest
        error = factor.largest_sum * x.error
        if not factor.exact:
            error += k * 0.5 * x.message
        if not exact:
            rounding = rounded_product(k, largest, basis.moduli(self.params))
            error += self._worst.sums(secret * rounding)
        return WorstRows(factor.gain / factor.unit * x.message, error)

    def _parts_data(self, x: Rows) -> tuple[WorstRows, WorstRows]:
        half = replace(x.data, total=self.policy.magnitude(x.scale, x.column_sum))
        return half, half

    def _part_product_data(self, part: TransposedHalf, x: Rows) -> WorstRows:
        left, right, k = part.data, x.data, part.shape[1]
        of_left = min(left.total, k * left.message)
        of_right = min(self.policy.magnitude(x.scale, x.column_sum), k * right.message)
        product = of_left * right.error + of_right * left.error + k * left.error * right.error
        return WorstRows(math.inf, 0.0, product)

    def _gram_data(self, x: Rows) -> tuple[WorstRows, WorstRows]:
        found = self._part_product_data(self.parts(x)[0], x)
        return found, found

    def _switched_product_data(self, part: TransposedHalf, x: Rows) -> WorstRows:
        product, dropped = self._part_product_data(part, x), self.dropped(x.basis, self.whole)
        error = self._worst.rounding() * self.switch_rounding(x)
        return WorstRows(math.inf, error, product.product / dropped)

    def _reduced_product_data(self, factor: ClearFactor, x: Rows) -> WorstRows:
        product, dropped = (
            self._clear_product_data(factor, x, True),
            self.dropped(x.basis, self.whole),
        )
        rounding = self._worst.rounding() * self.switch_rounding(x)
        return WorstRows(product.message / dropped, product.error / dropped + rounding)

    def _switched_gram_data(self, x: Rows) -> tuple[WorstRows, WorstRows]:
        found = self._switched_product_data(self.parts(x)[0], x)
        return found, found

    def _transpose_data(self, x: Rows) -> WorstRows:
        switches = gathered_switches(self.n, TRANSPOSE_POLICIES[self.key_policy], x.shape[0])
        data: WorstRows = x.data
        return replace(data, error=data.error + switches * self._worst.switch(x.limbs))

    def _relinearise_data(self, x: Rows) -> WorstRows:
        data: WorstRows = x.data
        return replace(data, error=self.n * data.error + self._worst.switch(x.limbs))

    def _take_data(self, x: Rows, rows: int, cols: int) -> WorstRows:
        return x.data  # type: ignore[no-any-return]

    def _rows_data(self, x: Rows, start: int, stop: int) -> WorstRows:
        return x.data  # type: ignore[no-any-return]

    def _stack_data(self, xs: Sequence[Rows]) -> WorstRows:
        return WorstRows(
            *(max(getattr(x.data, name) for x in xs) for name in ("message", "error", "product"))
        )

    def _add_data(self, x: Rows, y: Rows) -> WorstRows:
        a, b = x.data, y.data
        return WorstRows(a.message + b.message, a.error + b.error, max(a.product, b.product))

    def _sub_data(self, x: Rows, y: Rows) -> WorstRows:
        return self._add_data(x, y)

    def _rescale_data(self, x: Rows) -> WorstRows:
        data, dropped = x.data, float(self.params.q[x.limbs - 1])
        error = data.error / dropped + self._worst.rounding()
        return WorstRows(data.message / dropped, error, data.product / dropped)

    def _drop_data(self, x: Rows, limbs: int) -> WorstRows:
        return x.data  # type: ignore[no-any-return]

    def _elements_data(self, x: Rows, start: int, stop: int) -> list[Any]:
        return [None] * (stop - start)

    def _of_elements_data(
        self, datas: Sequence[Any], shape: tuple[int, int], held: int, scale: Scale
    ) -> None:
        return None

    def _add_clear_data(self, x: Rows, values: Callable[[], NDArray[np.float64]]) -> WorstRows:
        return x.data  # type: ignore[no-any-return]
