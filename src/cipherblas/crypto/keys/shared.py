"""The keys of ciphertexts that share their a part, among those of a program; what they are, `shared_request` says."""

from __future__ import annotations

from collections.abc import Sequence

from cipherblas.common.memory import Array
from cipherblas.crypto.keys.evaluation import EvaluationKeys
from cipherblas.crypto.keys.numbers import FROM_SHARED, SHARED_KEYS, TO_SHARED
from cipherblas.crypto.keys.shared_request import check_secrets


class SharedKeys:
    """The keys of a set that are for so many ciphertexts which share their a part, by their own numbers.

    Attributes:
        params: their parameters.
        secrets: how many ciphertexts.

    Raises:
        ParameterError: so many cannot share one.
    """

    def __init__(self, keys: EvaluationKeys, secrets: int) -> None:
        check_secrets(secrets)
        self.params, self.secrets, self._keys = keys.params, secrets, keys

    def get(self, number: int, limbs: int) -> Array:
        """The key of a Galois element, or to or from sparse secrets: uint64 (⌈(r + 1)/2⌉, *key_shape), each two
        components of (b'_1, …, b'_r, a') as the components of an ordinary key. Errors as `EvaluationKeys.get`."""
        return self._keys.get(self.secrets * SHARED_KEYS + number, limbs)

    def to_join(self, limbs: int, number: int) -> Sequence[Array]:
        """Of the first places the keys for ordinary ciphertexts of so many limbs, which go there; as `get`."""
        return [self.get(TO_SHARED + place, limbs) for place in range(number)]

    def to_part(self, limbs: int, number: int) -> Sequence[Array]:
        """Of the first places the keys from the secret there to the secret, ordinary ones; as `get`."""
        return [self.get(FROM_SHARED + place, limbs) for place in range(number)]
