"""Which evaluation keys a program needs: declared before any key exists."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cipherblas.common.errors import FormatError, ParameterError
from cipherblas.crypto.params import ROW_LIMBS, Parameters, descending, encapsulating, row_parameters

# Numbers of the keys of sparse-secret encapsulation, and of those between the rings of rows and of slots, above every
# Galois element.
TO_SPARSE, FROM_SPARSE = 1 << 31, (1 << 31) + 1
TO_ROWS, FROM_ROWS = (1 << 31) + 2, (1 << 31) + 3
_SECRETS = {
    TO_SPARSE: "to the sparse secret",
    FROM_SPARSE: "from the sparse secret",
    TO_ROWS: "to the ring of rows",
    FROM_ROWS: "from the ring of rows",
}
_OPTIONAL = ("encapsulation", "crossing", "rows")  # fields of a file
# Numbers of keys for the secrets of fixed weights, above these: the factor, then its row.
WEIGHTS = 1 << 32
_ROWS = 1 << 24
# Numbers of the keys of the ring of rows, above these: their own numbers follow.
ROW_KEYS = 1 << 34


def weight_key(factor: int, row: int) -> int:
    """The number of the key from row `row` of (integer factor) · (secrets of a shared-a batch) to the secret."""
    return WEIGHTS + factor * _ROWS + row


def weight_row(number: int) -> tuple[int, int]:
    """(factor, row) of a number of `weight_key`."""
    return divmod(number - WEIGHTS, _ROWS)


def is_of_rows(number: int) -> bool:
    """Whether a key is one of the ring of rows, whose own number is what it has above `ROW_KEYS`."""
    return ROW_KEYS <= number < 2 * ROW_KEYS


def describe_galois(galois: int, n: int) -> str:
    """A Galois element in words: the rotation step, conjugation, or both."""
    if is_of_rows(galois):
        own = galois - ROW_KEYS
        return f"{describe_galois(own, n) if own else 'relinearisation'} in the ring of rows"
    if galois >= WEIGHTS:
        factor, row = weight_row(galois)
        return f"row {row} of fixed factor {factor}"
    if galois in _SECRETS:
        return f"the switch {_SECRETS[galois]}"
    order = 2 * n
    element = 1
    for step in range(n // 2):
        if element == galois:
            step = step if step <= n // 4 else step - n // 2
            return f"rotation by {step} (Galois element {galois})"
        if order - element == galois:
            after = f" after rotation by {step}" if step else ""
            return f"conjugation{after} (Galois element {galois})"
        element = element * 5 % order
    return f"Galois element {galois}"


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
    """

    galois: dict[int, int] = field(default_factory=dict)
    relinearise: int | None = None
    weights: dict[int, int] = field(default_factory=dict)
    encapsulation: int | None = None
    crossing: bool = False
    rows: KeyRequest | None = None

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
        return KeyRequest(
            *(galois, most(self.relinearise, other.relinearise), weights, raised),
            *(self.crossing or other.crossing, functools.reduce(KeyRequest.joined, rows) if rows else None),
        )

    @classmethod
    def of_limbs(cls, limbs: Mapping[int, int], relinearise: int) -> KeyRequest:
        """The request of keys by number, `relinearise` being that of the relinearisation key."""
        own = {number: count for number, count in sorted(limbs.items()) if not is_of_rows(number)}
        rows = {number - ROW_KEYS: count for number, count in limbs.items() if is_of_rows(number)}
        galois = {n: count for n, count in own.items() if n < WEIGHTS and n not in _SECRETS}
        weights = {number: count for number, count in own.items() if number >= WEIGHTS}
        return cls(
            *(galois, galois.pop(relinearise, None), weights, own.get(FROM_SPARSE), FROM_ROWS in own),
            cls.of_limbs(rows, relinearise) if rows else None,
        )

    def limbs_by_number(self, relinearise: int) -> dict[int, int]:
        """All keys by number, in the order in which they are made; the inverse of `of_limbs`."""
        first = {} if self.relinearise is None else {relinearise: self.relinearise}
        raised = self.encapsulation
        last = {} if raised is None else {TO_SPARSE: 1, FROM_SPARSE: raised}
        last |= {TO_ROWS: ROW_LIMBS, FROM_ROWS: ROW_LIMBS} if self.crossing else {}
        rows = {} if self.rows is None else self.rows.limbs_by_number(relinearise)
        last |= {ROW_KEYS + number: limbs for number, limbs in rows.items()}
        return {**first, **dict(sorted(self.galois.items())), **dict(sorted(self.weights.items())), **last}

    def numbers_by_limbs(self) -> Counter[int]:
        """Limbs → how many keys of these parameters serve so many."""
        alone = [limbs for limbs in (self.relinearise, self.encapsulation) if limbs is not None]
        alone += [ROW_LIMBS] * self.crossing
        return Counter((*self.galois.values(), *self.weights.values(), *alone))

    def __len__(self) -> int:
        alone = (self.relinearise is not None) + 2 * (self.encapsulation is not None) + 2 * self.crossing
        return len(self.galois) + len(self.weights) + alone + len(self.rows or ())

    def nbytes(self, params: Parameters) -> int:
        """Bytes of these keys in memory, packed where the primes allow it; a file holds the b parts alone."""
        main = sum(number * params.key_bytes(limbs) for limbs, number in self.numbers_by_limbs().items())
        main += 0 if self.encapsulation is None else encapsulating(params).key_bytes(1)
        main += descending(params).key_bytes(ROW_LIMBS) if self.crossing else 0
        return main + (0 if self.rows is None else self.rows.nbytes(row_parameters(params)))

    def check(self, params: Parameters) -> None:
        """Raise ParameterError unless these keys exist for `params`."""
        if len(self) and not params.special_limbs:
            raise ParameterError("Key switching needs special primes.", expected="at least one", got=0)
        for element, limbs in self.galois.items():
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
        for number, limbs in self.weights.items():
            if not WEIGHTS <= number < 2 * WEIGHTS:
                raise ParameterError(
                    "A key of fixed weights has a number out of its range.",
                    expected=f"a number from {WEIGHTS} to {2 * WEIGHTS - 1}",
                    got=number,
                )
            params.check_key_limbs(limbs)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; `from_dict` is the inverse."""
        values = {
            "galois": [list(item) for item in sorted(self.galois.items())],
            "relinearise": self.relinearise,
            "weights": [list(item) for item in sorted(self.weights.items())],
        }
        if self.encapsulation is not None:
            values["encapsulation"] = self.encapsulation
        if self.crossing:
            values["crossing"] = True
        return values if self.rows is None else {**values, "rows": self.rows.to_dict()}

    @classmethod
    def from_dict(cls, values: Any) -> KeyRequest:
        """Rebuild from `to_dict`; FormatError for anything else."""

        def count(value: Any) -> int:
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise FormatError(
                    "A key request must hold whole numbers from 0 on.", expected="whole numbers", got=value
                )
            return value

        def by_number(pairs: Any) -> dict[int, int]:
            if not isinstance(pairs, list) or not all(
                isinstance(pair, list) and len(pair) == 2 for pair in pairs
            ):
                raise FormatError(
                    "A key request must list pairs of a number and limbs.",
                    expected="pairs of a number and limbs",
                    got=pairs,
                )
            return {count(number): count(limbs) for number, limbs in pairs}

        fields = {"galois", "relinearise", "weights"}
        if not isinstance(values, Mapping) or set(values) - set(_OPTIONAL) != fields:
            raise FormatError(
                "A key request has the wrong fields.", expected="galois, relinearise and weights", got=values
            )
        relinearise, raised, crossing = (
            values["relinearise"],
            values.get("encapsulation"),
            values.get("crossing", False),
        )
        if not isinstance(crossing, bool):
            raise FormatError(
                "The field crossing must be true or false.", expected="true or false", got=crossing
            )
        return cls(
            by_number(values["galois"]),
            None if relinearise is None else count(relinearise),
            by_number(values["weights"]),
            None if raised is None else count(raised),
            crossing,
            cls.from_dict(values["rows"]) if "rows" in values else None,
        )
