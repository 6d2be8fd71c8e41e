"""`RowsNative`: runs an algorithm on matrices that are encrypted by rows, with public keys alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import MismatchError, MissingKeyError
from cipherblas.crypto.keys.key_id import RELINEARISATION, KeyId
from cipherblas.crypto.params import Parameters
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.handles import Ciphertext, Key, Matrix
from cipherblas.engines.protocol import Engine
from cipherblas.evaluators.policy.interface import Scale
from cipherblas.evaluators.rows.bookkeeping import TRANSPOSE_POLICIES, weight_keys
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.rows.values import MultiSecretRows, Rows, TransposedHalf
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.matrices.matrix import stride_of
from cipherblas.rlwe.matrices.transposition import transpose_plan
from cipherblas.rlwe.noise import rounded_product

Pair: TypeAlias = tuple[Matrix, Matrix]


class KeySource(Protocol):
    """Where switching keys come from: `EvaluationKeys`, or what notes which are asked for."""

    @property
    def params(self) -> Parameters:
        """The parameters that they were made with."""
        ...

    def get(self, key: KeyId, limbs: int) -> Any:
        """The words of a key for so many limbs."""
        ...


class RowsNative(RowsEvaluator):
    """Homomorphic arithmetic by an engine. Data: (A, B), its handles of matrices of residues, limbs × rows × N and
    limbs × rows × columns; `fresh` takes two uint64 arrays.

    Entry j of a row of c entries is the coefficient of X^(j·N/d), d the least power of two that is at least c.

    Args:
        params: the parameters of ciphertexts and keys.
        keys: evaluation keys, or None where nothing is switched.
        engine: who computes; by default this processor.

    Raises:
        MismatchError: the keys belong to other parameters.
    """

    def __init__(
        self,
        params: Parameters,
        keys: KeySource | None,
        *,
        engine: Engine | None = None,
        key_policy: KeyPolicy = "direct",
    ) -> None:
        super().__init__(params, key_policy=key_policy)
        if keys is not None and keys.params != params:
            raise MismatchError(
                "The evaluation keys belong to other parameters.",
                expected=params.fingerprint()[:12],
                got=keys.params.fingerprint()[:12],
            )
        self.engine: Engine = engine if engine is not None else CpuEngine(params)
        self._keys = keys
        self._moduli = params.q

    @property
    def copying_seconds(self) -> float:
        """In which rows were copied to where they are needed, on ranks."""
        return 0.0

    def downloaded(self, data: Any) -> tuple[Any, ...]:
        """The words of the a and the b part of a result; none on ranks that tell no results."""
        return tuple(np.ascontiguousarray(self.engine.download_matrix(part)) for part in data)

    def _fresh_data(self, data: Any) -> Any:
        a, b = data
        return self.engine.upload_matrix(a), self.engine.upload_matrix(b)

    def _key(self, key: KeyId, limbs: int) -> Key:
        return self.engine.upload_key(self._evaluation_keys().get(key, limbs))

    def _evaluation_keys(self) -> KeySource:
        if self._keys is None:
            raise MissingKeyError("No evaluation keys were given.", expected="EvaluationKeys", got="none")
        return self._keys

    # ---- products ----

    def _integers(self, factor: ClearFactor) -> Any:
        """The integers that the engine multiplies by."""
        return factor.integers()

    def _exactly(self, factor: ClearFactor, limbs: int, exact: bool) -> bool:
        """Whether a product must be exact: also where the engine would be off by more than was counted."""
        if exact:
            return True
        k, moduli = factor.shape[1], self._moduli[:limbs]
        stated = max(self.engine.gemm_error(k, factor.largest, q) for q in moduli)
        return stated > rounded_product(k, factor.largest, moduli)

    def _clear_product_data(self, factor: ClearFactor, x: Rows, exact: bool) -> Any:
        integers, exact = self._integers(factor), self._exactly(factor, x.limbs, exact)
        a, b = x.data
        engine = self.engine
        return engine.multiply_integers(integers, a, exact), engine.multiply_integers(integers, b, exact)

    def _fixed_product_data(
        self, factor: ClearFactor, number: int, x: MultiSecretRows, exact: bool
    ) -> Sequence[Any]:
        engine = self.engine
        a, b = x.data
        keys = [self._key(key, x.limbs) for key in weight_keys(number, factor.shape[0])]
        exact = self._exactly(factor, x.limbs, exact)
        product = engine.multiply_integers(self._integers(factor), b, exact)
        pieces = []
        for segment, start in enumerate(range(0, x.shape[1], self.n)):
            cols = min(self.n, x.shape[1] - start)
            stride = stride_of(cols, self.n)
            switched, correction = engine.switch_rows(a, segment, keys, self.n if stride > 1 else cols)
            correction = engine.cut(correction, columns=slice(0, cols * stride, stride))
            part = engine.cut(product, columns=slice(start, start + cols))
            pieces.append((switched, engine.add_matrices(part, correction)))
        return pieces

    def _parts_data(self, x: Rows) -> Any:
        a, b = x.data
        return self.engine.transposed(a), self.engine.transposed(b)

    def _part_product_data(self, part: TransposedHalf, x: Rows) -> Any:
        a, b = x.data
        engine = self.engine
        return engine.multiply_matrices(part.data, a), engine.multiply_matrices(part.data, b)

    def _gram_data(self, x: Rows) -> tuple[Any, Any]:
        return self._gram(x, self.engine.multiply_matrices, self.engine.gram)

    def _gram(
        self, x: Rows, multiply: Callable[[Matrix, Matrix], Matrix], gram: Callable[[Matrix], Matrix]
    ) -> tuple[Any, Any]:
        a, b = x.data
        mixed = multiply(self.engine.transposed(a), b)
        transposed = self.engine.copied(self.engine.transposed(mixed))
        return (gram(a), mixed), (transposed, gram(b))

    def _switched_product_data(self, part: TransposedHalf, x: Rows) -> Any:
        a, b = x.data
        engine = self.engine
        return engine.multiply_operands(part.data, a), engine.multiply_operands(part.data, b)

    def _reduced_product_data(self, factor: ClearFactor, x: Rows) -> Any:
        a, b = x.data
        engine = self.engine
        weights = engine.operand_integers(self._integers(factor))
        return engine.multiply_operands(weights, a), engine.multiply_operands(weights, b)

    def _switched_gram_data(self, x: Rows) -> tuple[Any, Any]:
        return self._gram(x, self.engine.multiply_operands, self.engine.gram_operands)

    # ---- key switching ----

    def _transpose_data(self, x: Rows) -> Any:
        policy = TRANSPOSE_POLICIES[self.key_policy]
        keys = [self._key(key, x.limbs) for key in transpose_plan(self.n, policy).keys]
        engine, square = self.engine, (self.n, self.n)
        down, across = (stride_of(length, self.n) for length in x.shape)
        a, b = x.data
        return engine.transpose_rows(
            engine.spread(a, square, (down, 1)), engine.spread(b, square, (down, across)), keys, policy
        )

    def _relinearise_data(self, x: Rows) -> Any:
        key = self._key(RELINEARISATION, x.limbs)
        a, b = x.data
        return self.engine.relinearise_rows(a, b, key)

    # ---- the rest ----

    def _take_data(self, x: Rows, rows: int, cols: int) -> Any:
        """Of N rows of N entries, those at the coefficients of `rows` and of `cols` entries."""
        a, b = x.data
        engine = self.engine
        if x.shape[0] == self.n:
            stride = stride_of(rows, self.n)
            down = slice(0, rows * stride, stride)
            a, b = engine.cut(a, rows=down), engine.cut(b, rows=down)
        if x.shape[1] == self.n:
            stride = stride_of(cols, self.n)
            b = engine.cut(b, columns=slice(0, cols * stride, stride))
        return engine.copied(a), engine.copied(b)

    def _rows_data(self, x: Rows, start: int, stop: int) -> Any:
        a, b = (self.engine.cut(part, rows=slice(start, stop)) for part in x.data)
        return a, b

    def _stack_data(self, xs: Sequence[Rows]) -> Any:
        a, b = (self.engine.stack([x.data[part] for x in xs]) for part in (0, 1))
        return a, b

    def _add_data(self, x: Rows, y: Rows) -> Any:
        return self._combined(self.engine.add_matrices, x, y)

    def _sub_data(self, x: Rows, y: Rows) -> Any:
        return self._combined(self.engine.sub_matrices, x, y)

    def _combined(self, combine: Callable[[Matrix, Matrix], Matrix], x: Rows, y: Rows) -> Any:
        return combine(x.data[0], y.data[0]), combine(x.data[1], y.data[1])

    def _rescale_data(self, x: Rows) -> Any:
        a, b = (self.engine.rescale_matrix(part) for part in x.data)
        return a, b

    def _drop_data(self, x: Rows, limbs: int) -> Any:
        a, b = (self.engine.drop_limbs(part, limbs) for part in x.data)
        return a, b

    def _elements_data(self, x: Rows, start: int, stop: int) -> list[Ciphertext]:
        a, b = self._rows_data(x, start, stop)
        return self.engine.rows_as_ciphertexts(a, b)

    def _of_elements_data(self, datas: Sequence[Any], shape: tuple[int, int], held: int, scale: Scale) -> Any:
        return self.engine.rows_of_ciphertexts(datas, *shape, held)

    def _add_clear_data(self, x: Rows, values: Callable[[], NDArray[np.float64]]) -> Any:
        a, b = x.data
        return a, self._plus_message(b, values(), x)

    def _plus_message(self, b: Matrix, values: NDArray[np.float64], x: Rows) -> Matrix:
        """A b part, or some of it, with the entries of a clear matrix that stand there."""
        residues = self.policy.residues(values, x.scale, x.limbs)
        return self.engine.add_matrices(b, self.engine.upload_matrix(residues))
