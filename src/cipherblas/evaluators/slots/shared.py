"""Ciphertexts that share their a part: (b_1, …, b_r, a) with a·s_j + b_j = m_j, as one handle of an evaluator.

What is written against `Evaluator` runs on all r messages at once: sums, products with clear vectors, rotations, linear
transforms, a raised modulus. One decomposition of a serves all of them, and r + 1 products with keys take the place of
2·r. There is no product of two such ciphertexts. `shared` makes one of ordinary ciphertexts, `parts` the ordinary ones
of it. r is odd: components are computed two by two.

Source: Bae, Cheon, Hanrot, Park, Stehlé, "Plaintext-ciphertext matrix multiplication and FHE bootstrapping: fast and
fused" (CRYPTO 2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cipherblas.common.errors import MismatchError, MissingKeyError, ShapeError
from cipherblas.common.memory import aligned_empty
from cipherblas.crypto.keys.request import FROM_SPARSE, TO_SPARSE
from cipherblas.crypto.keys.shared import SharedKeys, SharedRequest, check_secrets
from cipherblas.crypto.params import Parameters, encapsulating
from cipherblas.engines.encodings import Encodings
from cipherblas.engines.protocol import Engine, Words
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.native import Native, constant_at
from cipherblas.evaluators.slots.scales import Numbers, NumberSumData
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct, Plain
from cipherblas.rlwe.costs import Costs
from cipherblas.rlwe.counts import Counts
from cipherblas.rlwe.noise import worst
from cipherblas.rlwe.rings import Ring


class SharedCosts(Costs):
    """Costs of r messages together."""

    def __init__(self, ring: Ring, secrets: int) -> None:
        super().__init__(ring)
        self._secrets, self._pairs = secrets, (secrets + 1) // 2

    def key_products(self, counts: Counts, number: int, limbs: int, kept: int = 1) -> None:
        super().key_products(counts, number * self._pairs, limbs, 0)
        counts.mac_limbs += number * self._secrets * limbs

    def unrotated(self, counts: Counts, number: int, limbs: int) -> None:
        super().unrotated(counts, number * self._pairs, limbs)

    def _divide(self, counts: Counts, polynomials: int, dropped: int, kept: int) -> None:
        super()._divide(counts, polynomials * self._pairs, dropped, kept)

    def _plains(self, counts: Counts, number: int, limbs: int) -> None:
        super()._plains(counts, number, limbs)
        counts.mac_limbs += 2 * (self._pairs - 1) * limbs

    def baby_sum(self, counts: Counts, number: int, limbs: int, unrotated: int) -> None:
        super().baby_sum(counts, number, limbs, unrotated)
        counts.mac_limbs -= 2 * (self._pairs - 1) * unrotated * self._special

    def giant_steps(self, counts: Counts, number: int, rotated: int, limbs: int) -> None:
        super().giant_steps(counts, number, rotated, limbs)
        counts.mac_limbs += (self._secrets - 1) * number * (limbs + self._special)
        counts.mac_limbs -= rotated * self._secrets * limbs  # added modulo Q·P, not times P

    def raising(self, counts: Counts, limbs: int) -> None:
        super().raising(counts, limbs)
        counts.ntt_limbs += 2 * (self._pairs - 1) * (1 + limbs)

    def scaling(self, counts: Counts, components: int, limbs: int) -> None:
        super().scaling(counts, components * self._pairs, limbs)

    def sum(self, counts: Counts, components: int, limbs: int) -> None:
        super().sum(counts, components * self._pairs, limbs)

    def joining(self, counts: Counts, limbs: int, number: int = 1) -> None:
        """So many ordinary ciphertexts that become shared: a switch of each to all secrets, and one division."""
        for _ in range(number):
            self.hoisting(counts, limbs)
        self.key_products(counts, number, limbs)
        self.mod_down(counts, 1, limbs)

    def parting(self, counts: Counts, limbs: int, number: int = 1) -> None:
        """So many ordinary ones of a shared one: one decomposition, and an ordinary switch for each."""
        self.hoisting(counts, limbs)
        super().key_products(counts, number, limbs, 1)
        counts.moddowns += number
        super()._divide(counts, 2 * number, self._special, limbs)


class Shared(Evaluator):
    """Bookkeeping of an evaluator whose handles hold r messages: bounds and errors are those of any of them."""

    secrets = 1
    _joining = _parting = 0  # limbs at which ciphertexts were converted

    def _share(self, secrets: int) -> None:
        check_secrets(secrets)
        self.secrets, self.costs = secrets, SharedCosts(self.params, secrets)

    def _handle_bytes(self, components: int, limbs: int) -> int:
        return super()._handle_bytes(components, limbs) * (self.secrets + 1) // 2

    @property
    def shared_request(self) -> SharedRequest:
        """The keys that the operations so far needed."""
        own = self.request
        return SharedRequest(
            *(self.secrets, own.galois, own.encapsulation), self._joining or None, self._parting or None
        )

    # ---- conversions ----

    def _check_joining_keys(self, limbs: int) -> None:
        """Raise MissingKeyError where they are not there."""

    def _check_parting_keys(self, limbs: int) -> None:
        """The same of the other direction."""

    def _shared_data(self, datas: Sequence[Any], limbs: int) -> Any:
        return None

    def _parts_data(self, data: Any, number: int, limbs: int) -> Sequence[Any]:
        return [None] * number

    def shared(self, cts: Sequence[Ct]) -> Ct:
        """Ordinary ciphertexts as one that shares its a part; 0 at places for which there is none.

        Levels: none. Keys: one to all secrets for each place.

        Args:
            cts: of two components, at the same limbs and scale, r at most; handles of an ordinary evaluator.

        Raises:
            ShapeError: too many, or none. MismatchError: they differ. MissingKeyError: there are no such keys.
        """
        if not 1 <= len(cts) <= self.secrets:
            raise ShapeError(
                "So many ciphertexts cannot share an a part.", expected=f"1 to {self.secrets}", got=len(cts)
            )
        first = cts[0]
        for ct in cts:
            self._check_scales(ct.scale, first.scale)
            if ct.limbs != first.limbs or ct.components != 2:
                raise MismatchError(
                    "Ciphertexts that come to share an a part differ in limbs.",
                    expected=f"2 components of {first.limbs} limbs",
                    got=f"{ct.components} of {ct.limbs}",
                )
        limbs = first.limbs
        self._check_joining_keys(limbs)
        self._joining = max(self._joining, limbs)
        assert isinstance(self.costs, SharedCosts)
        self.costs.joining(self.counts, limbs, len(cts))
        model = self.noise_model
        switched = math.sqrt(len(cts)) * model.key_switch(limbs, first.scale)
        errors = worst(ct.errors for ct in cts).with_own(switched, model.rounding(first.scale))
        data = self._shared_data([ct.data for ct in cts], limbs)
        return self.make(limbs, first.scale, max(ct.bound for ct in cts), errors, 2, data)

    def parts(self, x: Ct, number: int, outer: Evaluator) -> list[Ct]:
        """The first messages of a shared ciphertext as ordinary ones.

        Levels: none. Keys: one from the secret of each place.

        Args:
            outer: the ordinary evaluator whose handles they become.

        Raises:
            ShapeError: fewer than one or more than r. MissingKeyError: there are no such keys.
        """
        if not 1 <= number <= self.secrets:
            raise ShapeError(
                "A shared ciphertext has not so many parts.", expected=f"1 to {self.secrets}", got=number
            )
        self._check_parting_keys(x.limbs)
        self._parting = max(self._parting, x.limbs)
        assert isinstance(self.costs, SharedCosts)
        self.costs.parting(self.counts, x.limbs, number)
        model = self.noise_model
        errors = x.errors.with_own(model.key_switch(x.limbs, x.scale), model.rounding(x.scale))
        data = self._parts_data(x.data, number, x.limbs)
        return outer.make_all(list(data), (x.limbs, x.scale, x.bound, errors, 2))

    # ---- what there is not ----

    def _use_relinearisation_key(self, limbs: int) -> None:
        self._no_product()

    def _product_data(self, lefts: Sequence[Any], rights: Sequence[Any], accumulator: Any) -> Any:
        self._no_product()

    def _no_product(self) -> None:
        raise MismatchError(
            "Ciphertexts that share their a part cannot be multiplied.",
            expected="ordinary ciphertexts, as `parts` gives them",
            got=f"{self.secrets} messages under as many secrets",
        )


class SharedSymbolic(Shared, Symbolic):
    """Counts, keys and errors of shared ciphertexts, before any key exists."""

    def __init__(self, ring: Ring, secrets: int, **options: Any) -> None:
        super().__init__(ring, **options)
        self._share(secrets)


class SharedNative(Shared, Native):
    """The real run: data are uint64 (r + 1, limbs, N), b_1, …, b_r, a.

    Args:
        keys: of a `SharedRequest`.
        engine: that of the ordinary evaluator whose ciphertexts are converted.

    Raises:
        MismatchError: the keys belong to other parameters.
    """

    def __init__(
        self,
        params: Parameters,
        keys: SharedKeys,
        *,
        engine: Engine | None = None,
        encodings: Encodings | None = None,
    ) -> None:
        super().__init__(params, None, engine=engine, encodings=encodings)
        if keys.params != params:
            raise MismatchError(
                "The shared keys belong to other parameters.",
                expected=params.fingerprint()[:12],
                got=keys.params.fingerprint()[:12],
            )
        self._share(keys.request.secrets)
        self._shared_keys = keys

    # ---- keys ----

    def _check_rotation_key(self, element: int, step: int, limbs: int) -> None:
        self._shared_keys.get(element, limbs)

    def _rotation_key(self, step: int, limbs: int) -> Any:
        return self.engine.upload_key(self._shared_keys.get(self.galois_element(step), limbs))

    def _check_encapsulation_keys(self, limbs: int) -> None:
        self._shared_keys.get(TO_SPARSE, 1)
        self._shared_keys.get(FROM_SPARSE, limbs)

    def _check_joining_keys(self, limbs: int) -> None:
        self._shared_keys.to_join(limbs)

    def _check_parting_keys(self, limbs: int) -> None:
        self._shared_keys.to_part(limbs)

    def _check_crossing_keys(self) -> None:
        raise MissingKeyError(
            "Ciphertexts that share their a part have no way to the ring of rows.",
            expected="ordinary ciphertexts",
            got="shared",
        )

    # ---- data ----

    def _switched(self, engine: Engine, x: Any, key: Words) -> Any:
        """Under the secrets that a shared key switches to."""
        uploaded = engine.upload_key(key)
        return engine.linear_transform([x], [(0, 0, 1, 0, -1)], [uploaded], [], 1, False, "limb")[0]

    def _raise_data(self, data: Any, limbs: int) -> Any:
        small = self.engine.beside(encapsulating(self._parameters))
        sparse = self._switched(small, data, self._shared_keys.get(TO_SPARSE, 1))
        return self._switched(
            self.engine, self.engine.raised(sparse, limbs), self._shared_keys.get(FROM_SPARSE, limbs)
        )

    def _shared_data(self, datas: Sequence[Any], limbs: int) -> Any:
        sources = []
        for place, data in enumerate(datas):
            words = aligned_empty((self.secrets + 1, limbs, self.n))
            words.fill(0)
            words[[place, -1]] = self.engine.download(data)
            sources.append(self.engine.upload(words))
        keys = [self.engine.upload_key(key) for key in self._shared_keys.to_join(limbs)[: len(datas)]]
        terms = [(0, place, 1, place, -1) for place in range(len(datas))]
        return self.engine.linear_transform(sources, terms, keys, [], 1, False, "limb")[0]

    def _parts_data(self, data: Any, number: int, limbs: int) -> Sequence[Any]:
        words, last = self.engine.download(data), self.secrets
        sources = [self.engine.upload(words[place :: last - place][:2]) for place in range(number)]
        keys = [self.engine.upload_key(key) for key in self._shared_keys.to_part(limbs)[:number]]
        terms = [
            (place, place, 1, place, -1) for place in range(number)
        ]  # one decomposition, of the a part of all
        return self.engine.linear_transform(sources, terms, keys, [], number, False, "limb")

    def _plain_product_data(
        self, plains: Sequence[Plain], scale: float, cts: Sequence[Any], accumulator: Any, limbs: int
    ) -> Any:
        factors = [self._factor(plain, scale, limbs) for plain in plains]
        total = None if accumulator is None else np.array(self.engine.download(accumulator))
        return self._by_pairs(factors, cts, total)

    def _by_pairs(self, factors: Sequence[Any], cts: Sequence[Any], total: Words | None) -> Any:
        """Σ factor_t·ct_t, two components at a time."""
        words = [self.engine.download(ct) for ct in cts]
        found = aligned_empty(words[0].shape) if total is None else total
        for start in range(0, self.secrets + 1, 2):
            pair = slice(start, start + 2)
            before = None if total is None else self.engine.upload(np.ascontiguousarray(total[pair]))
            sources = [self.engine.upload(one[pair]) for one in words]
            found[pair] = self.engine.download(self.engine.multiply_plain_sum(factors, sources, before))
        return self.engine.upload(found)

    def _times_monomial_data(self, x: Any, power: int, limbs: int) -> Any:
        return self._by_pairs([self._monomial(power, limbs)], [x], None)

    def _add_plain_data(self, x: Any, plain: Plain, scale: float, factor: int, limbs: int) -> Any:
        message = self.coefficients(plain, scale / factor)
        addend = self.engine.download(self.engine.encryption(self.engine.addend(message, limbs)))[0]
        words = self._nothing(x)
        words[: self.secrets] = addend
        return self.engine.add(x, self.engine.multiply_scalar(self.engine.upload(words), factor))

    def _number_sum_data(
        self, datas: Sequence[Any], values: Sequence[float], numbers: Numbers, scale: float, limbs: int
    ) -> Any:
        (total,) = self.engine.scaled_sums([(datas, numbers.factors, 0)])
        if numbers.constant is None:
            return total
        constant, words = constant_at(numbers.constant, scale), self._nothing(total)
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
