"""Switching keys of ciphertexts that share their a part: (b_1, …, b_r, a) with a·s_j + b_j = m_j.

A key from s'_j to s_j for all j at once is, for every digit d, (b'_1, …, b'_r, a') with b'_j + a'·s_j = P·g_d·s'_j + e:
r ordinary keys with one a part. Where s'_j is s_j after an automorphism it rotates, where it is s for one j and 0 for
all others it takes an ordinary ciphertext into place j. Security: `crypto.security.check_lattice`.

These keys stay in the memory of the process that made them: there is no file of them. `shared_generation` makes them.

Source: Bae, Cheon, Hanrot, Park, Stehlé, "Plaintext-ciphertext matrix multiplication and FHE bootstrapping: fast and
fused" (CRYPTO 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cipherblas.common.errors import MissingKeyError, ParameterError
from cipherblas.common.memory import Array
from cipherblas.crypto.keys.request import TO_SPARSE, describe_galois
from cipherblas.crypto.params import Parameters, encapsulating

MOST_SECRETS = 127


def check_secrets(secrets: int) -> None:
    """Raise ParameterError unless so many ciphertexts can share an a part: components are computed two by two."""
    if type(secrets) is not int or not 1 <= secrets <= MOST_SECRETS or secrets % 2 == 0:
        raise ParameterError(
            "An odd number of ciphertexts share their a part.",
            expected=f"1, 3, 5, … {MOST_SECRETS}",
            got=secrets,
        )


@dataclass(frozen=True)
class SharedRequest:
    """The keys to make, each with the number of limbs up to which it must serve.

    Attributes:
        secrets: r.
        galois: Galois element → limbs.
        encapsulation: limbs to which a modulus is raised under sparse secrets, or None for no such keys.
        joining: limbs of ordinary ciphertexts that become shared, or None.
        parting: limbs of shared ones that become ordinary, or None.
    """

    secrets: int
    galois: dict[int, int] = field(default_factory=dict)
    encapsulation: int | None = None
    joining: int | None = None
    parting: int | None = None

    def nbytes(self, params: Parameters) -> int:
        """Bytes of these keys."""
        pairs = (self.secrets + 1) // 2
        total = pairs * sum(params.key_bytes(limbs) for limbs in self.galois.values())
        if self.encapsulation is not None:
            total += pairs * (params.key_bytes(self.encapsulation) + encapsulating(params).key_bytes(1))
        if self.joining is not None:
            total += self.secrets * pairs * params.key_bytes(self.joining)
        return total + (0 if self.parting is None else self.secrets * params.key_bytes(self.parting))


@dataclass(frozen=True, eq=False)
class SharedKeys:
    """Keys of a `SharedRequest`: public material.

    Attributes:
        data: Galois element, TO_SPARSE or FROM_SPARSE → uint64 (⌈(r + 1)/2⌉, *key_shape): each two components of
            (b'_1, …, b'_r, a') as the components of an ordinary key.
        joining: for each place, the same of ordinary ciphertexts that go there.
        parting: for each place, an ordinary key from its secret to the secret.
    """

    params: Parameters
    request: SharedRequest
    data: dict[int, Array] = field(repr=False)
    joining: Sequence[Array] = field(repr=False)
    parting: Sequence[Array] = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all keys."""
        return sum(array.nbytes for array in (*self.data.values(), *self.joining, *self.parting))

    def get(self, number: int, limbs: int) -> Array:
        """The key of a Galois element, or to or from sparse secrets, for so many limbs.

        Raises:
            MissingKeyError: no such key, or it was made for fewer limbs.
        """
        found = self.data.get(number)
        made = 0 if found is None else _limbs(self._own(number), found)
        if found is None or made < limbs:
            raise MissingKeyError(
                f"There is no shared key for {describe_galois(number, self.params.n)} at so many limbs.",
                expected=f"at least {limbs} limbs",
                got=made or "no such key",
            )
        return found

    def _own(self, number: int) -> Parameters:
        return encapsulating(self.params) if number == TO_SPARSE else self.params

    def to_join(self, limbs: int) -> Sequence[Array]:
        """The keys of all places for ordinary ciphertexts of so many limbs; MissingKeyError as `get`."""
        return self._of_places(self.joining, limbs, "to shared ciphertexts")

    def to_part(self, limbs: int) -> Sequence[Array]:
        """The keys from all places for shared ciphertexts of so many limbs; MissingKeyError as `get`."""
        return self._of_places(self.parting, limbs, "from shared ciphertexts")

    def _of_places(self, keys: Sequence[Array], limbs: int, what: str) -> Sequence[Array]:
        made = _limbs(self.params, keys[0]) if keys else 0
        if made < limbs:
            raise MissingKeyError(
                f"There are no keys {what} at so many limbs.", expected=f"at least {limbs} limbs", got=made
            )
        return keys


def _limbs(params: Parameters, key: Array) -> int:
    return int(key.shape[-2]) - params.special_limbs
