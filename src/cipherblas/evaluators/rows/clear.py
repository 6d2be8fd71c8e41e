"""`RowsClear`: runs an algorithm on encrypted rows in real numbers, with a toy secret and without noise.

Encryptions are what they are in the real thing, A·S + B = M with a random A, so that an algorithm that forgets a term
with the secret, or a transposition, gives a wrong matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import bit_reversed
from cipherblas.evaluators.policy.interface import Scale, check_approximate
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.rows.values import MultiSecretRows, Rows, TransposedHalf
from cipherblas.evaluators.slots.clear import coefficients_of, embedded
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.rlwe.rings import Ring

Matrix: TypeAlias = NDArray[np.float64]
Pair: TypeAlias = tuple[Matrix, Matrix]


def negacyclic(s: Matrix) -> Matrix:
    """The matrix with row i = coefficients of X^i·s modulo X^N + 1."""
    n = len(s)
    rows = np.concatenate([-s, s])
    return np.stack([rows[n - i : 2 * n - i] for i in range(n)])


class RowsClear(RowsEvaluator):
    """Data: (A, B), real matrices, with A·S + B = scale · M in the columns that are kept."""

    def __init__(self, params: Ring, seed: int = 0) -> None:
        super().__init__(params)
        check_approximate(self.policy, "rows in real numbers")
        self._random = np.random.default_rng(seed)
        self._secret = self._new_secret()
        self._segments = self._secret  # the secrets of rows that are longer than N, side by side

    def _new_secret(self) -> Matrix:
        return negacyclic(self._random.integers(-1, 2, self.n).astype(np.float64))

    def _masked(self, a: Matrix, length: int) -> Matrix:
        """a·s for rows of so many entries."""
        while self._segments.shape[1] < length:
            self._segments = np.concatenate([self._segments, self._new_secret()], axis=1)
        return np.asarray(a @ self._segments[:, :length])

    def encrypt(self, matrix: Matrix, scale: Scale) -> Pair:
        """An encryption of scale · matrix."""
        a = self._random.integers(-1, 2, (len(matrix), self.n)).astype(np.float64)
        return a, self.policy.magnitude(scale, matrix) - self._masked(a, matrix.shape[1])

    def decrypt(self, x: Rows) -> Matrix:
        """The matrix of a handle."""
        a, b = x.data
        return self.policy.in_values(x.scale, self._masked(a, b.shape[1]) + b)

    def _clear_product_data(self, factor: ClearFactor, x: Rows, exact: bool) -> Pair:
        integers = np.asarray(factor.integers(), dtype=np.float64)
        a, b = x.data
        return integers @ a, integers @ b

    def encrypt_batch(self, matrix: Matrix, scale: Scale) -> tuple[Matrix, Matrix, Matrix]:
        """An encryption of scale · matrix whose rows share their a parts: (a, b, secrets)."""
        a = self._random.integers(-1, 2, (-(-matrix.shape[1] // self.n), self.n)).astype(np.float64)
        secrets = self._random.integers(-1, 2, (len(matrix), self.n)).astype(np.float64)
        message = self.policy.magnitude(scale, matrix)
        return a, message - self._masks(a, secrets)[:, : matrix.shape[1]], secrets

    @staticmethod
    def _masks(a: Matrix, secrets: Matrix) -> Matrix:
        """a·s_j for every row j and segment."""
        return np.concatenate([secrets @ negacyclic(segment) for segment in a], axis=1)

    def _fixed_product_data(
        self, factor: ClearFactor, number: int, x: MultiSecretRows, exact: bool
    ) -> Sequence[Pair]:
        a, b, secrets = x.data
        integers = np.asarray(factor.integers(), dtype=np.float64)
        message = integers @ b + self._masks(a, integers @ secrets)[:, : b.shape[1]]
        starts = range(0, b.shape[1], self.n)
        return [self.encrypt(message[:, start : start + self.n], 1.0) for start in starts]

    def _parts_data(self, x: Rows) -> tuple[Matrix, Matrix]:
        a, b = x.data
        return a.T, b.T

    def _part_product_data(self, part: TransposedHalf, x: Rows) -> Pair:
        a, b = x.data
        return part.data @ a, part.data @ b

    def _gram_data(self, x: Rows) -> tuple[Pair, Pair]:
        a, b = x.data
        return (a.T @ a, a.T @ b), (b.T @ a, b.T @ b)

    def _switched_product_data(self, part: TransposedHalf, x: Rows) -> Pair:
        return self._divided(self._part_product_data(part, x), x)

    def _reduced_product_data(self, factor: ClearFactor, x: Rows) -> Pair:
        return self._divided(self._clear_product_data(factor, x, True), x)

    def _switched_gram_data(self, x: Rows) -> tuple[Pair, Pair]:
        first, second = self._gram_data(x)
        return self._divided(first, x), self._divided(second, x)

    def _divided(self, product: Pair, x: Rows) -> Pair:
        dropped = self.dropped(x.basis, self.whole)
        return product[0] / dropped, product[1] / dropped

    def _transpose_data(self, x: Rows) -> Pair:
        a, b = x.data
        full = a @ self._secret
        full[:, : b.shape[1]] += b
        transposed = np.zeros((self.n, self.n))
        transposed[:, : len(full)] = full.T
        return self.encrypt(transposed, 1.0)

    def _relinearise_data(self, x: Rows) -> Pair:
        a, b = x.data
        return self.encrypt((a @ self._secret + b) @ self._secret, 1.0)

    def _take_data(self, x: Rows, rows: int, cols: int) -> Pair:
        a, b = x.data
        return a[:rows], b[:rows, :cols]

    def _rows_data(self, x: Rows, start: int, stop: int) -> Pair:
        a, b = x.data
        return a[start:stop], b[start:stop]

    def _stack_data(self, xs: Sequence[Rows]) -> Pair:
        return np.concatenate([x.data[0] for x in xs]), np.concatenate([x.data[1] for x in xs])

    def _add_data(self, x: Rows, y: Rows) -> Pair:
        return x.data[0] + y.data[0], x.data[1] + y.data[1]

    def _sub_data(self, x: Rows, y: Rows) -> Pair:
        return x.data[0] - y.data[0], x.data[1] - y.data[1]

    def _rescale_data(self, x: Rows) -> Pair:
        dropped = float(self.params.q[x.limbs - 1])
        return x.data[0] / dropped, x.data[1] / dropped

    def _drop_data(self, x: Rows, limbs: int) -> Pair:
        return x.data  # type: ignore[no-any-return]

    def _elements_data(self, x: Rows, start: int, stop: int) -> list[Any]:
        return [self._element(x, row) for row in range(start, stop)]

    def _element(self, x: Rows, row: int) -> Any:
        """Entries stand at the first coefficients here; the others mean nothing, and stay."""
        (a, b), cols = x.data, x.shape[1]
        full = a[row] @ self._secret
        full[:cols] += b[row]
        spread = np.empty((cols, self.n // cols))
        spread[:, 0], spread[:, 1:] = full[:cols], full[cols:].reshape(cols, -1)
        return embedded(self.policy.in_values(x.scale, spread.ravel()))

    def _of_elements_data(
        self, datas: Sequence[Any], shape: tuple[int, int], held: int, scale: Scale
    ) -> Pair:
        count, cols = shape
        each = self.n // cols
        order = bit_reversed(each)[:held]
        rows = [coefficients_of(slots).reshape(cols, each).T[order] for slots in datas]
        return self.encrypt(np.concatenate(rows)[:count], scale)

    def _add_clear_data(self, x: Rows, values: Callable[[], Matrix]) -> Pair:
        return x.data[0], x.data[1] + self.policy.magnitude(x.scale, values())
