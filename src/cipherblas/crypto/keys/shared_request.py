"""Which keys ciphertexts that share their a part need: (b_1, …, b_r, a) with a·s_j + b_j = m_j.

A key from s'_j to s_j for all j at once is, for every digit d, (b'_1, …, b'_r, a') with b'_j + a'·s_j = P·g_d·s'_j + e:
r ordinary keys with one a part. Where s'_j is s_j after an automorphism it rotates, where it is s for one j and 0 for
all others it takes an ordinary ciphertext into place j. Security: `crypto.security`.

Source: Bae, Cheon, Hanrot, Park, Stehlé, "Plaintext-ciphertext matrix multiplication and FHE bootstrapping: fast and
fused" (CRYPTO 2024).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from cipherblas.common.errors import ParameterError
from cipherblas.crypto.keys.numbers import (
    FROM_SHARED,
    FROM_SPARSE,
    SHARED_KEYS,
    TO_SHARED,
    TO_SPARSE,
    place_of,
    shared_by,
    shared_number,
)
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

    @property
    def pairs(self) -> int:
        """Ordinary keys that one for all places is as large as."""
        return (self.secrets + 1) // 2

    def joined(self, other: SharedRequest) -> SharedRequest:
        """The keys of both, each for the larger number of limbs.

        Raises:
            ParameterError: they are for other numbers of ciphertexts.
        """
        if other.secrets != self.secrets:
            raise ParameterError(
                "A program has keys for one number of ciphertexts that share their a part.",
                expected=self.secrets,
                got=other.secrets,
            )
        mine, theirs = self.limbs_by_number(), other.limbs_by_number()
        both = {**mine, **{key: max(limbs, mine.get(key, 0)) for key, limbs in theirs.items()}}
        return self.of_limbs(both) or self

    def limbs_by_number(self) -> dict[int, int]:
        """All keys by number, in the order in which they are made; the inverse of `of_limbs`."""
        found = dict(sorted(self.galois.items()))
        if self.encapsulation is not None:
            found |= {TO_SPARSE: 1, FROM_SPARSE: self.encapsulation}
        for first, limbs in ((TO_SHARED, self.joining), (FROM_SHARED, self.parting)):
            if limbs is not None:
                found |= {first + place: limbs for place in range(self.secrets)}
        return {self.secrets * SHARED_KEYS + number: limbs for number, limbs in found.items()}

    @classmethod
    def of_limbs(cls, limbs: Mapping[int, int]) -> SharedRequest | None:
        """The request of keys by number; None of none.

        Raises:
            ParameterError: they are for several numbers of ciphertexts, or one of a set for all places is missing.
        """
        if not limbs:
            return None
        (secrets, *others) = {shared_by(number) for number in limbs}
        own = {shared_number(number): count for number, count in limbs.items()}
        if not others:
            galois = {number: count for number, count in own.items() if number < TO_SHARED}
            ends = own.get(FROM_SPARSE), own.get(TO_SHARED), own.get(FROM_SHARED)
            found = cls(secrets, galois, *ends)
            if found.limbs_by_number() == dict(limbs):
                return found
        raise ParameterError(
            "Keys of ciphertexts that share their a part are missing, or others are among them.",
            expected="those of all places, of as many limbs",
            got=sorted(own),
        )

    def numbers_by_limbs(self) -> Counter[int]:
        """Limbs → as many ordinary keys as those that serve so many are as large as; those to sparse secrets apart."""
        found: Counter[int] = Counter()
        for number, limbs in self.limbs_by_number().items():
            own = shared_number(number)
            if own != TO_SPARSE:
                found[limbs] += 1 if place_of(own, FROM_SHARED) is not None else self.pairs
        return found

    def __len__(self) -> int:
        return len(self.limbs_by_number())

    def nbytes(self, params: Parameters) -> int:
        """Bytes of these keys."""
        total = sum(number * params.key_bytes(limbs) for limbs, number in self.numbers_by_limbs().items())
        return total + (0 if self.encapsulation is None else self.pairs * encapsulating(params).key_bytes(1))

    def check(self, params: Parameters) -> None:
        """Raise ParameterError unless these keys exist for `params`; those of Galois elements apart."""
        check_secrets(self.secrets)
        for limbs in (self.encapsulation, self.joining, self.parting):
            if limbs is not None:
                params.check_key_limbs(limbs)
        if self.encapsulation is not None:
            encapsulating(params)
