"""Which evaluation keys a program needs: declared before any key exists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cipherblas.common.errors import FormatError, ParameterError
from cipherblas.crypto.params import Parameters

# Numbers of keys for the secrets of fixed weights, above every Galois element: the factor, then its row.
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
    """

    galois: dict[int, int] = field(default_factory=dict)
    relinearise: int | None = None
    weights: dict[int, int] = field(default_factory=dict)

    def need_relinearise(self, limbs: int) -> None:
        """Ask for a relinearisation key that serves `limbs` limbs."""
        self.relinearise = max(limbs, self.relinearise or 0)

    def joined(self, other: KeyRequest) -> KeyRequest:
        """The keys of both, each for the larger number of limbs."""

        def larger(mine: dict[int, int], theirs: dict[int, int]) -> dict[int, int]:
            return {**mine, **{key: max(limbs, mine.get(key, 0)) for key, limbs in theirs.items()}}

        limbs = [count for count in (self.relinearise, other.relinearise) if count is not None]
        galois, weights = larger(self.galois, other.galois), larger(self.weights, other.weights)
        return KeyRequest(galois, max(limbs, default=None), weights)

    @classmethod
    def of_limbs(cls, limbs: Mapping[int, int], relinearise: int) -> KeyRequest:
        """The request of keys by number, `relinearise` being that of the relinearisation key."""
        galois = {number: count for number, count in sorted(limbs.items()) if number < WEIGHTS}
        weights = {number: count for number, count in sorted(limbs.items()) if number >= WEIGHTS}
        return cls(galois, galois.pop(relinearise, None), weights)

    def limbs_by_number(self, relinearise: int) -> dict[int, int]:
        """All keys by number, in the order in which they are made; the inverse of `of_limbs`."""
        first = {} if self.relinearise is None else {relinearise: self.relinearise}
        return {**first, **dict(sorted(self.galois.items())), **dict(sorted(self.weights.items()))}

    def numbers_by_limbs(self) -> Counter[int]:
        """Limbs → how many keys serve so many."""
        alone = () if self.relinearise is None else (self.relinearise,)
        return Counter((*self.galois.values(), *self.weights.values(), *alone))

    def __len__(self) -> int:
        return len(self.galois) + (self.relinearise is not None) + len(self.weights)

    def nbytes(self, params: Parameters) -> int:
        """Bytes of these keys in memory, packed where the primes allow it; a file holds the b parts alone."""
        return sum(number * params.key_bytes(limbs) for limbs, number in self.numbers_by_limbs().items())

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
            params.check_limbs(limbs)
        if self.relinearise is not None:
            params.check_limbs(self.relinearise)
        for number, limbs in self.weights.items():
            if not WEIGHTS <= number < 2 * WEIGHTS:
                raise ParameterError(
                    "A key of fixed weights has a number out of its range.",
                    expected=f"a number from {WEIGHTS} to {2 * WEIGHTS - 1}",
                    got=number,
                )
            params.check_limbs(limbs)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; `from_dict` is the inverse."""
        return {
            "galois": [list(item) for item in sorted(self.galois.items())],
            "relinearise": self.relinearise,
            "weights": [list(item) for item in sorted(self.weights.items())],
        }

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

        if not isinstance(values, Mapping) or set(values) != {"galois", "relinearise", "weights"}:
            raise FormatError(
                "A key request has the wrong fields.", expected="galois, relinearise and weights", got=values
            )
        relinearise = values["relinearise"]
        return cls(
            by_number(values["galois"]),
            None if relinearise is None else count(relinearise),
            by_number(values["weights"]),
        )
