"""Which evaluation keys a program needs: declared before any key exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cipherblas.common.errors import FormatError, ParameterError
from cipherblas.crypto.params import Parameters, encapsulating

# Numbers of the keys of sparse-secret encapsulation, above every Galois element.
TO_SPARSE, FROM_SPARSE = 1 << 31, (1 << 31) + 1
# Numbers of keys for the secrets of fixed weights, above these: the factor, then its row.
WEIGHTS = 1 << 32
_ROWS = 1 << 24


def weight_key(factor: int, row: int) -> int:
    """The number of the key from row `row` of (integer factor) · (secrets of a shared-a batch) to the secret."""
    return WEIGHTS + factor * _ROWS + row


def weight_row(number: int) -> tuple[int, int]:
    """(factor, row) of a number of `weight_key`."""
    return divmod(number - WEIGHTS, _ROWS)


def describe_galois(galois: int, n: int) -> str:
    """A Galois element in words: the rotation step, conjugation, or both."""
    if galois >= WEIGHTS:
        factor, row = weight_row(galois)
        return f"row {row} of fixed factor {factor}"
    if galois in (TO_SPARSE, FROM_SPARSE):
        return f"the switch {'to' if galois == TO_SPARSE else 'from'} the sparse secret"
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
    """

    galois: dict[int, int] = field(default_factory=dict)
    relinearise: int | None = None
    weights: dict[int, int] = field(default_factory=dict)
    encapsulation: int | None = None

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
        return KeyRequest(galois, most(self.relinearise, other.relinearise), weights, raised)

    @classmethod
    def of_limbs(cls, limbs: Mapping[int, int], relinearise: int) -> KeyRequest:
        """The request of keys by number, `relinearise` being that of the relinearisation key."""
        others = (TO_SPARSE, FROM_SPARSE)
        galois = {n: count for n, count in sorted(limbs.items()) if n < WEIGHTS and n not in others}
        weights = {number: count for number, count in sorted(limbs.items()) if number >= WEIGHTS}
        return cls(galois, galois.pop(relinearise, None), weights, limbs.get(FROM_SPARSE))

    def limbs_by_number(self, relinearise: int) -> dict[int, int]:
        """All keys by number, in the order in which they are made; the inverse of `of_limbs`."""
        first = {} if self.relinearise is None else {relinearise: self.relinearise}
        raised = self.encapsulation
        last = {} if raised is None else {TO_SPARSE: 1, FROM_SPARSE: raised}
        return {**first, **dict(sorted(self.galois.items())), **dict(sorted(self.weights.items())), **last}

    def numbers_by_limbs(self) -> Counter[int]:
        """Limbs → how many keys serve so many."""
        alone = [limbs for limbs in (self.relinearise, self.encapsulation) if limbs is not None]
        return Counter((*self.galois.values(), *self.weights.values(), *alone))

    def __len__(self) -> int:
        alone = (self.relinearise is not None) + 2 * (self.encapsulation is not None)
        return len(self.galois) + len(self.weights) + alone

    def nbytes(self, params: Parameters) -> int:
        """Bytes of these keys in memory, packed where the primes allow it; a file holds the b parts alone."""
        main = sum(number * params.key_bytes(limbs) for limbs, number in self.numbers_by_limbs().items())
        return main + (0 if self.encapsulation is None else encapsulating(params).key_bytes(1))

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
        return values if self.encapsulation is None else {**values, "encapsulation": self.encapsulation}

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
        if not isinstance(values, Mapping) or set(values) - {"encapsulation"} != fields:
            raise FormatError(
                "A key request has the wrong fields.", expected="galois, relinearise and weights", got=values
            )
        relinearise, raised = values["relinearise"], values.get("encapsulation")
        return cls(
            by_number(values["galois"]),
            None if relinearise is None else count(relinearise),
            by_number(values["weights"]),
            None if raised is None else count(raised),
        )
