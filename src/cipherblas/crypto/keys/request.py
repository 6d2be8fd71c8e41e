"""Which evaluation keys a program needs: declared before any key exists."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from cipherblas.common.errors import ParameterError
from cipherblas.crypto.keys.numbers import (
    FROM_ROWS,
    FROM_SPARSE,
    ROW_KEYS,
    TO_ROWS,
    TO_SPARSE,
    WEIGHTS,
    is_of_rows,
    is_of_weights,
    is_secrets,
    shared_by,
)
from cipherblas.crypto.keys.shared_request import SharedRequest
from cipherblas.crypto.params import ROW_LIMBS, Parameters, descending, encapsulating, row_parameters


@dataclass
class KeyRequest:
    """The evaluation keys to make, each with the number of limbs up to which it must serve.

    Attributes:
        galois: Galois element → limbs.
        relinearise: limbs of the relinearisation key, or None for no such key.
        weights: number of `weight_key` → limbs, of the secrets of fixed weights.
        encapsulation: limbs to which a modulus is raised under the sparse secret, or None for no such keys.
        crossing: keys between the ring of rows and that of slots, in both directions.
        rows: the keys of the ring of rows, where that is another one.
        shared: those of ciphertexts that share their a part.
    """

    galois: dict[int, int] = field(default_factory=dict)
    relinearise: int | None = None
    weights: dict[int, int] = field(default_factory=dict)
    encapsulation: int | None = None
    crossing: bool = False
    rows: KeyRequest | None = None
    shared: SharedRequest | None = None

    def need_relinearise(self, limbs: int) -> None:
        """Ask for a relinearisation key that serves `limbs` limbs."""
        self.relinearise = max(limbs, self.relinearise or 0)

    def joined(self, other: KeyRequest) -> KeyRequest:
        """The keys of both, each for the larger number of limbs."""

        def larger(mine: dict[int, int], theirs: dict[int, int]) -> dict[int, int]:
            return {**mine, **{key: max(limbs, mine.get(key, 0)) for key, limbs in theirs.items()}}

        def most(*counts: int | None) -> int | None:
            return max((count for count in counts if count is not None), default=None)

        galois, weights = larger(self.galois, other.galois), larger(self.weights, other.weights)
        raised = most(self.encapsulation, other.encapsulation)
        rows = [one for one in (self.rows, other.rows) if one is not None]
        shared = [one for one in (self.shared, other.shared) if one is not None]
        return KeyRequest(
            *(galois, most(self.relinearise, other.relinearise), weights, raised),
            *(self.crossing or other.crossing, functools.reduce(KeyRequest.joined, rows) if rows else None),
            functools.reduce(SharedRequest.joined, shared) if shared else None,
        )

    @classmethod
    def of_limbs(cls, limbs: Mapping[int, int], relinearise: int) -> KeyRequest:
        """The request of keys by number, `relinearise` being that of the relinearisation key."""
        shared = {number: count for number, count in limbs.items() if shared_by(number)}
        rows = {number - ROW_KEYS: count for number, count in limbs.items() if is_of_rows(number)}
        own = {number: count for number, count in sorted(limbs.items()) if number < ROW_KEYS}
        weights = {number: count for number, count in own.items() if is_of_weights(number)}
        galois = {n: count for n, count in own.items() if n not in weights and not is_secrets(n)}
        return cls(
            *(galois, galois.pop(relinearise, None), weights, own.get(FROM_SPARSE), FROM_ROWS in own),
            cls.of_limbs(rows, relinearise) if rows else None,
            SharedRequest.of_limbs(shared),
        )

    def limbs_by_number(self, relinearise: int) -> dict[int, int]:
        """All keys by number, in the order in which they are made; the inverse of `of_limbs`."""
        first = {} if self.relinearise is None else {relinearise: self.relinearise}
        raised = self.encapsulation
        last = {} if raised is None else {TO_SPARSE: 1, FROM_SPARSE: raised}
        last |= {TO_ROWS: ROW_LIMBS, FROM_ROWS: ROW_LIMBS} if self.crossing else {}
        rows = {} if self.rows is None else self.rows.limbs_by_number(relinearise)
        last |= {ROW_KEYS + number: limbs for number, limbs in rows.items()}
        last |= {} if self.shared is None else self.shared.limbs_by_number()
        return {**first, **dict(sorted(self.galois.items())), **dict(sorted(self.weights.items())), **last}

    def numbers_by_limbs(self) -> Counter[int]:
        """Limbs → how many keys of these parameters serve so many."""
        alone = [limbs for limbs in (self.relinearise, self.encapsulation) if limbs is not None]
        alone += [ROW_LIMBS] * self.crossing
        return Counter((*self.galois.values(), *self.weights.values(), *alone))

    def __len__(self) -> int:
        alone = (self.relinearise is not None) + 2 * (self.encapsulation is not None) + 2 * self.crossing
        return len(self.galois) + len(self.weights) + alone + len(self.rows or ()) + len(self.shared or ())

    def nbytes(self, params: Parameters) -> int:
        """Bytes of these keys in memory, packed where the primes allow it; a file holds the b parts alone."""
        main = sum(number * params.key_bytes(limbs) for limbs, number in self.numbers_by_limbs().items())
        main += 0 if self.encapsulation is None else encapsulating(params).key_bytes(1)
        main += descending(params).key_bytes(ROW_LIMBS) if self.crossing else 0
        main += 0 if self.shared is None else self.shared.nbytes(params)
        return main + (0 if self.rows is None else self.rows.nbytes(row_parameters(params)))

    def check(self, params: Parameters) -> None:
        """Raise ParameterError unless these keys exist for `params`."""
        if len(self) and not params.special_limbs:
            raise ParameterError("Key switching needs special primes.", expected="at least one", got=0)
        shared = () if self.shared is None else self.shared.galois.items()
        for element, limbs in (*self.galois.items(), *shared):
            if not 1 < element < 2 * params.n or element % 2 == 0:
                raise ParameterError(
                    "There is no such Galois element.",
                    expected=f"odd, above 1, below {2 * params.n}",
                    got=element,
                )
            params.check_key_limbs(limbs)
        if self.relinearise is not None:
            params.check_key_limbs(self.relinearise)
        if self.encapsulation is not None:
            params.check_key_limbs(self.encapsulation)
            encapsulating(params)
        if self.crossing or self.rows is not None:
            if params.row_degree is None:
                raise ParameterError(
                    "There is no ring of rows for these keys.", expected="its degree", got="none"
                )
            descending(params)
        if self.rows is not None:
            self.rows.check(row_parameters(params))
        if self.shared is not None:
            self.shared.check(params)
        for number, limbs in self.weights.items():
            if not WEIGHTS <= number < 2 * WEIGHTS:
                raise ParameterError(
                    "A key of fixed weights has a number out of its range.",
                    expected=f"a number from {WEIGHTS} to {2 * WEIGHTS - 1}",
                    got=number,
                )
            params.check_key_limbs(limbs)
