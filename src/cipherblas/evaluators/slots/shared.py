"""Ciphertexts that share their a part: (b_1, …, b_r, a) with a·s_j + b_j = m_j, as one handle of an evaluator.

What is written against `Evaluator` runs on all r messages at once: sums, products with clear vectors, rotations, linear
transforms, a raised modulus. One decomposition of a serves all of them, and r + 1 products with keys take the place of
2·r. There is no product of two such ciphertexts. `shared` makes one of ordinary ciphertexts, `parts` the ordinary ones
of it. r is odd: components are computed two by two.

Source: Bae, Cheon, Hanrot, Park, Stehlé, "Plaintext-ciphertext matrix multiplication and FHE bootstrapping: fast and
fused" (CRYPTO 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cipherblas.common.errors import MismatchError, ShapeError
from cipherblas.crypto.keys.key_id import FromPlace, ToPlace, check_secrets
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct
from cipherblas.evaluators.slots.worst_case import Worst, WorstCase
from cipherblas.rlwe.costs import costs_of
from cipherblas.rlwe.noise import worst
from cipherblas.rlwe.rings import Ring


class Shared(Evaluator):
    """Bookkeeping of an evaluator whose handles hold r messages: bounds and errors are those of any of them."""

    def _share(self, secrets: int) -> None:
        check_secrets(secrets)
        self.shared_by, self.costs = secrets, costs_of(self.params, secrets)

    @property
    def secrets(self) -> int:
        """How many messages a handle holds, each under a secret of its own."""
        return self.shared_by

    def _handle_bytes(self, components: int, limbs: int) -> int:
        return super()._handle_bytes(components, limbs) * (self.secrets + 1) // 2

    # ---- conversions ----

    def _use_places(self, kind: type[ToPlace] | type[FromPlace], limbs: int) -> None:
        """Keys of all places, whichever are taken."""
        for place in range(self.secrets):
            self._use_key(kind(place, shared=self.secrets), limbs)

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
            self.policy.check_same(ct.scale, first.scale)
            if ct.limbs != first.limbs or ct.components != 2:
                raise MismatchError(
                    "Ciphertexts that come to share an a part differ in limbs.",
                    expected=f"2 components of {first.limbs} limbs",
                    got=f"{ct.components} of {ct.limbs}",
                )
        limbs, place = first.limbs, (first.limbs, first.scale)
        self._use_places(ToPlace, limbs)
        self.costs.linear_transform(self.counts, limbs, decomposed=len(cts), switched=len(cts))
        errors = self.policy.key_switched(worst(ct.errors for ct in cts), place, place, len(cts))
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
        self._use_places(FromPlace, x.limbs)
        ordinary = self.costs.of_components(2)
        ordinary.linear_transform(self.counts, x.limbs, decomposed=1, switched=number, outputs=number)
        errors = self.policy.key_switched(x.errors, (x.limbs, x.scale), (x.limbs, x.scale))
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


class SharedClear(Shared, Clear):
    """The slots of all messages in the clear: data are complex (r, S)."""

    def __init__(self, ring: Ring, secrets: int, **options: Any) -> None:
        super().__init__(ring, **options)
        self._share(secrets)

    def _shared_data(self, datas: Sequence[Any], limbs: int) -> Any:
        found = np.zeros((self.secrets, self.slots), np.complex128)
        found[: len(datas)] = datas
        return found

    def _parts_data(self, data: Any, number: int, limbs: int) -> Sequence[Any]:
        return list(data[:number])


class SharedWorstCase(Shared, WorstCase):
    """Bounds that hold for any of the messages."""

    def __init__(self, ring: Ring, secrets: int, **options: Any) -> None:
        super().__init__(ring, **options)
        self._share(secrets)

    def _shared_data(self, datas: Sequence[Any], limbs: int) -> Any:
        switched = len(datas) * self.worst.key_switch(limbs) + self.worst.rounding()
        message, error = (max(getattr(data, name) for data in datas) for name in ("message", "error"))
        return Worst(limbs, 2, datas[0].scale, message, error + switched)

    def _parts_data(self, data: Any, number: int, limbs: int) -> Sequence[Any]:
        error = data.error + self.worst.key_switch(limbs) + self.worst.rounding()
        return [replace(data, error=error, amplified=0.0, added=0.0)] * number
