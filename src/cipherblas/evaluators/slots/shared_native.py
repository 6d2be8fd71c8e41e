"""`SharedNative`: runs an algorithm on ciphertexts that share their a part, with public keys alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cipherblas.common.errors import MismatchError, MissingKeyError
from cipherblas.common.memory import aligned_empty
from cipherblas.crypto.keys.evaluation import EvaluationKeys
from cipherblas.crypto.keys.key_id import FromPlace, KeyId, ToPlace
from cipherblas.crypto.params import Parameters
from cipherblas.engines.handles import Words
from cipherblas.engines.protocol import Engine
from cipherblas.evaluators.policy.interface import Numbers
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.products import Products
from cipherblas.evaluators.slots.scales import NumberSumData
from cipherblas.evaluators.slots.shared import Shared
from cipherblas.evaluators.slots.values import Plain


class SharedNative(Shared, Native):
    """The real run: data are uint64 (r + 1, limbs, N), b_1, …, b_r, a.

    Args:
        keys: evaluation keys, those of so many ciphertexts among them.
        secrets: how many ciphertexts share their a part.
        **options: of `Native`; the engine is that of the ordinary evaluator whose ciphertexts are converted.

    Raises:
        MismatchError: the keys belong to other parameters. ParameterError: so many cannot share one.
    """

    def __init__(self, params: Parameters, keys: EvaluationKeys, secrets: int, **options: Any) -> None:
        super().__init__(params, keys, **options)
        self._share(secrets)

    def _use_ring_switching_keys(self) -> None:
        raise MissingKeyError(
            "Ciphertexts that share their a part have no way to the ring of rows.",
            expected="ordinary ciphertexts",
            got="shared",
        )

    # ---- data ----

    def _switched(self, engine: Engine, data: Any, key: KeyId, limbs: int) -> Any:
        """Under the secrets that a shared key switches to."""
        uploaded = engine.upload_key(self._evaluation_keys().get(key, limbs))
        return engine.linear_transform([data], [(0, 0, 1, 0, -1)], [uploaded], [], 1, False, "limb")[0]

    def _shared_data(self, datas: Sequence[Any], limbs: int) -> Any:
        sources = []
        for place, data in enumerate(datas):
            chosen = [-1] * self.secrets + [1]
            chosen[place] = 0
            sources.append(self.engine.components(data, chosen))
        keys = [self._key(ToPlace(place, shared=self.secrets), limbs) for place in range(len(datas))]
        terms = [(0, place, 1, place, -1) for place in range(len(datas))]
        return self.engine.linear_transform(sources, terms, keys, [], 1, False, "limb")[0]

    def _parts_data(self, data: Any, number: int, limbs: int) -> Sequence[Any]:
        sources = [self.engine.components(data, (place, self.secrets)) for place in range(number)]
        keys = [self._key(FromPlace(place, shared=self.secrets), limbs) for place in range(number)]
        terms = [
            (place, place, 1, place, -1) for place in range(number)
        ]  # one decomposition, of the a part of all
        return self.engine.linear_transform(sources, terms, keys, [], number, False, "limb")

    def _plain_product_data(
        self, plains: Sequence[Plain], scale: float, cts: Sequence[Any], accumulator: Any, limbs: int
    ) -> Any:
        return self._by_pairs([self._factor(plain, scale, limbs) for plain in plains], cts, accumulator)

    def _by_pairs(self, factors: Sequence[Any], cts: Sequence[Any], accumulator: Any) -> Any:
        """accumulator + Σ factor_t·ct_t, two components at a time."""
        pairs = []
        for start in range(0, self.secrets + 1, 2):
            pair = start, start + 1
            sources = [self.engine.components(one, pair) for one in cts]
            before = None if accumulator is None else self.engine.components(accumulator, pair)
            pairs.append(self.engine.download(self.engine.multiply_plain_sum(factors, sources, before)))
        found = aligned_empty((self.secrets + 1, *pairs[0].shape[1:]))
        return self.engine.upload(np.concatenate(pairs, out=found))

    _coefficient_parts_data = Products._coefficient_parts_data

    def _times_monomial_data(self, x: Any, power: int, limbs: int) -> Any:
        return self._by_pairs([self._monomial(power, limbs)], [x], None)

    def _add_plain_data(self, x: Any, plain: Plain, scale: float, factor: int, limbs: int) -> Any:
        message = self.coefficients(plain, scale)
        addend = self.engine.download(self.engine.encryption(self.engine.addend(message, limbs)))[0]
        words = self._nothing(x)
        words[: self.secrets] = addend
        return self.engine.add(x, self.engine.multiply_scalar(self.engine.upload(words), factor))

    def _number_sum_data(
        self, datas: Sequence[Any], values: Sequence[float], numbers: Numbers, scale: float, limbs: int
    ) -> Any:
        (total,) = self.engine.scaled_sums([(datas, numbers.factors, 0)])
        if not numbers.constant:
            return total
        constant, words = self.policy.constant(numbers.constant, scale, limbs), self._nothing(total)
        words[: self.secrets] = np.array([constant % q for q in self._parameters.q[:limbs]], np.uint64)[
            :, None
        ]
        return self.engine.add(total, self.engine.upload(words))

    def _number_sums_data(self, sums: Sequence[NumberSumData]) -> list[Any]:
        return [self._number_sum_data(*one) for one in sums]

    def _nothing(self, like: Any) -> Words:
        """Zeros of the same shape."""
        found = aligned_empty(self.engine.download(like).shape)
        found.fill(0)
        return found

    def _weighted_sums_data(self, *args: Any) -> Any:
        raise MismatchError(
            "Ciphertexts that share their a part take no stored weights.",
            expected="clear vectors",
            got="weights",
        )
