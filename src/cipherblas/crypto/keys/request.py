"""Which evaluation keys a program needs: declared before any key exists."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeVar

from cipherblas.common.errors import MissingKeyError, ParameterError
from cipherblas.crypto.families import KeyModulus, KeyRing
from cipherblas.crypto.keys.key_id import (
    KINDS,
    RELINEARISATION,
    FixedWeights,
    FromRows,
    FromSparse,
    Galois,
    KeyId,
    Raising,
    ToSparse,
)
from cipherblas.crypto.params import Parameters

Named = TypeVar("Named", bound=KeyId)


@dataclass(frozen=True)
class KeyRequest:
    """The evaluation keys that a program needs: their names and numbers of limbs.

    Attributes:
        limbs: key → number of limbs up to which it must serve.
    """

    limbs: Mapping[KeyId, int] = field(default_factory=dict)

    @classmethod
    def of_galois(cls, limbs: Mapping[int, int], relinearise: int | None = None) -> KeyRequest:
        """Keys of the ring of slots: Galois element → limbs, and the limbs of the relinearisation key, if any."""
        found: dict[KeyId, int] = {Galois(element): count for element, count in limbs.items()}
        return cls(found if relinearise is None else {RELINEARISATION: relinearise, **found})

    def joined(self, other: KeyRequest) -> KeyRequest:
        """The keys of both, each for the larger number of limbs."""
        mine = self.limbs
        more = {key: max(limbs, mine.get(key, 0)) for key, limbs in other.limbs.items()}
        return KeyRequest({**mine, **more})

    def in_rows(self) -> KeyRequest:
        """The same keys of the ring of rows, where that is another one."""
        return KeyRequest({key.in_rows(): limbs for key, limbs in self.limbs.items()})

    def in_order(self) -> dict[KeyId, int]:
        """Key → limbs, in the order in which they are made: ordinary ones first, by kind."""
        kinds = {kind: place for place, kind in enumerate(KINDS)}
        order = sorted(self.limbs, key=lambda key: (key.shared, key.ring != "slots", kinds[type(key)], key))
        return {key: self.limbs[key] for key in order}

    # ---- those of a kind ----

    def of(self, kind: type[Named]) -> dict[Named, int]:
        """Key → limbs, of the keys of a kind for ordinary ciphertexts of the ring of slots."""
        return {
            key: limbs
            for key, limbs in self.limbs.items()
            if isinstance(key, kind) and not key.shared and key.ring == "slots"
        }

    @property
    def galois(self) -> dict[int, int]:
        """Galois element → limbs, of ordinary ciphertexts in the ring of slots."""
        return {key.element: limbs for key, limbs in self.of(Galois).items()}

    @property
    def relinearise(self) -> int | None:
        """Limbs of the relinearisation key in the ring of slots, or None for no such key."""
        return self.limbs.get(RELINEARISATION)

    @property
    def weights(self) -> dict[FixedWeights, int]:
        """The keys of fixed weights."""
        return self.of(FixedWeights)

    @property
    def encapsulation(self) -> int | None:
        """Limbs to which a modulus is raised under the sparse secret, or None for no such keys."""
        found = (self.limbs.get(FromSparse()), *self.of(Raising).values())
        return max((limbs for limbs in found if limbs is not None), default=None)

    @property
    def of_sparse_secret(self) -> int:
        """How many keys to and from the sparse secret there are, of ordinary ciphertexts in the ring of slots."""
        return sum(len(self.of(kind)) for kind in (ToSparse, FromSparse, Raising))

    @property
    def switches_rings(self) -> bool:
        """Whether there are keys between the ring of rows and that of slots."""
        return FromRows() in self.limbs

    @property
    def shared(self) -> int:
        """How many ciphertexts share their a part, for which there are keys; 0 for no such keys."""
        return max((key.shared for key in self.limbs), default=0)

    # ---- sizes ----

    @functools.cached_property
    def sizes(self) -> Counter[tuple[KeyRing, KeyModulus, int]]:
        """(ring, modulus, limbs) → as many ordinary keys as these are as large as."""
        found: Counter[tuple[KeyRing, KeyModulus, int]] = Counter()
        # Alike ones stand together: thousands of automorphisms are one group.
        sized = zip(map(attrgetter("size"), self.limbs), self.limbs.values(), strict=True)
        for ((ring, modulus, components), limbs), group in itertools.groupby(sized):
            found[ring, modulus, limbs] += components * len(list(group))
        return found

    def __len__(self) -> int:
        return len(self.limbs)

    def nbytes(self, params: Parameters) -> int:
        """Bytes of these keys in memory, packed where the primes allow it; a file holds the b parts alone."""
        return sum(
            number * params.family.at(ring, modulus).key_bytes(limbs)
            for (ring, modulus, limbs), number in self.sizes.items()
        )

    def expect(self, key: KeyId, limbs: int, n: int) -> None:
        """Raise MissingKeyError unless a key was asked for, and for so many limbs; n: the ring degree."""
        declared = self.limbs.get(key, 0)
        if declared < limbs:
            few = " for so many limbs" if declared else ""
            raise MissingKeyError(
                f"No key for {key.describe(n)} was declared{few}.",
                expected=f"one for {limbs} limbs or more",
                got=f"{declared} limbs for it; {len(self)} keys",
            )

    def check(self, params: Parameters) -> None:
        """Raise ParameterError unless these keys exist for `params`, and none is missing that others need."""
        numbers = {key.shared for key in self.limbs} - {0}
        if len(numbers) > 1:
            raise ParameterError(
                "A program has keys for one number of ciphertexts that share their a part.",
                expected="one number",
                got=sorted(numbers),
            )
        for key, limbs in self.limbs.items():
            key.check(params, limbs)
            for other in key.companions():
                there = self.limbs.get(other)
                if there is None or (type(other) is type(key) and there != limbs):
                    raise ParameterError(
                        "Keys that are of use together are missing, or have other numbers of limbs.",
                        expected=f"{other.describe(params.n)} beside {key.describe(params.n)}",
                        got="none" if there is None else f"{there} limbs and {limbs}",
                    )
