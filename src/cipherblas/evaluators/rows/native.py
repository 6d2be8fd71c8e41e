"""`RowsNative`: runs an algorithm on matrices that are encrypted by rows, with public keys alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherblas import _core
from cipherblas.common import openblas
from cipherblas.common.errors import MismatchError, MissingKeyError, RangeError
from cipherblas.common.memory import aligned_empty
from cipherblas.crypto.keys.evaluation import EvaluationKeys
from cipherblas.crypto.keys.request import weight_key
from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.rows.interface import (
    TRANSPOSE_POLICIES,
    Batch,
    ClearFactor,
    Part,
    Rows,
    RowsEvaluator,
)
from cipherblas.evaluators.slots.values import bit_reversed
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.matrices.matrix import stride_of
from cipherblas.rlwe.matrices.transposition import picked, transpose_keys, transposed

Words: TypeAlias = NDArray[np.uint64]
Pair: TypeAlias = tuple[Words, Words]


class RowsNative(RowsEvaluator):
    """Data: (A, B), uint64 (limbs, rows, N) and (limbs, rows, columns), residues in the coefficient domain.

    Entry j of a row of c entries is the coefficient of X^(j·N/d), d the least power of two that is at least c.

    Args:
        params: the parameters of ciphertexts and keys.
        keys: evaluation keys, or None where nothing is switched.

    Raises:
        MismatchError: the keys belong to other parameters.
    """

    def __init__(
        self, params: Parameters, keys: EvaluationKeys | None, *, key_policy: KeyPolicy = "direct"
    ) -> None:
        super().__init__(params, key_policy=key_policy)
        openblas.load()
        if keys is not None and keys.params != params:
            raise MismatchError(
                "evaluation keys belong to other parameters",
                expected=params.fingerprint()[:12],
                got=keys.params.fingerprint()[:12],
            )
        self._keys = keys
        self._parameters = params
        self._context = params.context()
        self._moduli = params.q

    def _evaluation_keys(self) -> EvaluationKeys:
        if self._keys is None:
            raise MissingKeyError("no evaluation keys were given", expected="EvaluationKeys", got="none")
        return self._keys

    # ---- products ----

    def _clear_product_data(self, factor: ClearFactor, x: Rows, exact: bool) -> Pair:
        integers = factor.integers()
        a, b = x.data
        return self._small_product(integers, a, exact), self._small_product(integers, b, exact)

    def _small_product(self, integers: NDArray[Any], part: Words, exact: bool) -> Words:
        out = aligned_empty((len(part), len(integers), part.shape[2]))
        for limb, residues in enumerate(part):
            path = "exact" if exact else "rounded"
            _core.small_gemm(integers, residues, self._moduli[limb], path, out[limb])
        return out

    def _fixed_product_data(self, factor: ClearFactor, number: int, x: Batch, exact: bool) -> Sequence[Pair]:
        a, b = x.data
        keys = self._evaluation_keys()
        arrays = [keys.get(weight_key(number, row), x.limbs) for row in range(factor.shape[0])]
        product = self._small_product(factor.integers(), b, exact)
        pieces = []
        for segment, start in enumerate(range(0, b.shape[2], self.n)):
            cols = min(self.n, b.shape[2] - start)
            stride = stride_of(cols, self.n)
            switched, correction = self._context.switch_rows(
                np.ascontiguousarray(a[:, segment]), arrays, self.n if stride > 1 else cols
            )
            correction = _contiguous(correction[:, :, : cols * stride : stride])
            part = _contiguous(product[:, :, start : start + cols])
            pieces.append((switched, self._context.add_limbs(part, correction)))
        return pieces

    def _parts_data(self, x: Rows) -> Pair:
        a, b = x.data
        return a.transpose(0, 2, 1), b.transpose(0, 2, 1)

    def _part_product_data(self, part: Part, x: Rows) -> Pair:
        def product(right: Words) -> Words:
            out = aligned_empty((x.limbs, part.shape[0], right.shape[2]))
            for limb in range(x.limbs):
                _core.modular_gemm(part.data[limb], right[limb], self._moduli[limb], "auto", out[limb])
            return out

        a, b = x.data
        return product(a), product(b)

    # ---- key switching ----

    def _transpose_data(self, x: Rows) -> Pair:
        policy = TRANSPOSE_POLICIES[self.key_policy]
        keys = transpose_keys(self._evaluation_keys(), self.n, policy, x.limbs)
        a, b = x.data
        return transposed(self._parameters, a, b, self.n, keys, policy)

    def _relinearise_data(self, x: Rows) -> Pair:
        key = self._evaluation_keys().relinearisation(x.limbs)
        a, b = x.data
        return self._context.relinearise_rows(a, b, key)

    # ---- the rest ----

    def _take_data(self, x: Rows, rows: int, cols: int) -> Pair:
        """Of N rows of N entries, those at the coefficients of `rows` and of `cols` entries."""
        a, b = x.data
        if x.shape[0] == self.n:
            a, b = picked(a, rows, 1), picked(b, rows, 1)
        if x.shape[1] == self.n:
            b = picked(b, cols, 2)
        return _contiguous(a), _contiguous(b)

    def _rows_data(self, x: Rows, start: int, stop: int) -> Pair:
        a, b = x.data
        return a[:, start:stop], b[:, start:stop]

    def _stack_data(self, xs: Sequence[Rows]) -> Pair:
        a, b = (_stacked([x.data[part] for x in xs]) for part in (0, 1))
        return a, b

    def _add_data(self, x: Rows, y: Rows) -> Pair:
        return self._combined(self._context.add_limbs, x, y)

    def _sub_data(self, x: Rows, y: Rows) -> Pair:
        return self._combined(self._context.sub_limbs, x, y)

    @staticmethod
    def _combined(combine: Callable[[Words, Words], Words], x: Rows, y: Rows) -> Pair:
        return combine(x.data[0], y.data[0]), combine(x.data[1], y.data[1])

    def _drop_data(self, x: Rows, limbs: int) -> Pair:
        a, b = x.data
        return a[:limbs], b[:limbs]

    def _element_data(self, x: Rows, row: int) -> Words:
        a, b = x.data
        parts = np.zeros((x.limbs, 2, self.n), np.uint64)
        parts[:, 0, :: self.n // x.shape[1]] = b[:, row]
        parts[:, 1] = a[:, row]
        return self._context.rows_to_ntt(parts)

    def _of_elements_data(self, datas: Sequence[Any], cols: int, count: int, scale: float) -> Pair:
        each = self.n // cols
        limbs = datas[0].shape[1]
        order = bit_reversed(each)
        a_part, b_part = aligned_empty((limbs, count, self.n)), aligned_empty((limbs, count, cols))
        moduli = np.array(self._moduli[:limbs], np.uint64)[:, None]
        for number, data in enumerate(datas):
            start, held = number * each, min(each, count - number * each)
            b, a = self._context.rows_from_ntt(np.ascontiguousarray(data)).transpose(1, 0, 2)
            negated = np.where(a == 0, a, moduli - a)
            shifted = np.concatenate([a, negated], axis=1)  # X^-t times a begins at its coefficient t
            for row in range(held):
                a_part[:, start + row] = shifted[:, order[row] : order[row] + self.n]
            b_part[:, start : start + held] = b.reshape(limbs, cols, each).transpose(0, 2, 1)[:, order[:held]]
        return a_part, b_part

    def _add_clear_data(self, x: Rows, values: Callable[[], NDArray[np.float64]]) -> Pair:
        a, b = x.data
        message = np.rint(values() * x.scale)
        if not np.isfinite(message).all():
            raise RangeError(
                "clear addend", expected="finite entries, also times the scale", got="NaN or infinity"
            )
        residues = aligned_empty(b.shape)
        for limb, q in enumerate(self._moduli[: x.limbs]):
            signed = np.fmod(message, float(q)).astype(np.int64)  # exact: fmod does not round
            residues[limb] = np.where(signed < 0, signed + q, signed).view(np.uint64)
        return a, self._context.add_limbs(b, residues)


def _contiguous(part: Words) -> Words:
    """The array itself where it is contiguous, else a copy that is."""
    if part.flags.c_contiguous:
        return part
    return _stacked([part])


def _stacked(parts: Sequence[Words]) -> Words:
    """The rows of (limbs, rows, columns) arrays, one below the other; `np.concatenate` would not use the pool."""
    limbs, _, columns = parts[0].shape
    out = aligned_empty((limbs, sum(part.shape[1] for part in parts), columns))
    start = 0
    for part in parts:
        out[:, start : start + part.shape[1]] = part
        start += part.shape[1]
    return out
