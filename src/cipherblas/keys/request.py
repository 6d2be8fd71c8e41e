"""Which evaluation keys a program needs: declared before any key exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cipherblas.errors import FormatError, ParameterError
from cipherblas.params import Parameters


def describe_galois(galois: int, n: int) -> str:
    """A Galois element in words: the rotation step, conjugation, or both."""
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
    """

    galois: dict[int, int] = field(default_factory=dict)
    relinearise: int | None = None

    def need_galois(self, galois: int, limbs: int) -> None:
        """Ask for a key of this Galois element that serves `limbs` limbs."""
        self.galois[galois] = max(limbs, self.galois.get(galois, 0))

    def need_relinearise(self, limbs: int) -> None:
        """Ask for a relinearisation key that serves `limbs` limbs."""
        self.relinearise = max(limbs, self.relinearise or 0)

    def __len__(self) -> int:
        return len(self.galois) + (self.relinearise is not None)

    def nbytes(self, params: Parameters) -> int:
        """Bytes of these keys in memory; in a file they take half."""
        limbs = [*self.galois.values(), *([] if self.relinearise is None else [self.relinearise])]
        return sum(params.key_bytes(count) for count in limbs)

    def check(self, params: Parameters) -> None:
        """Raise ParameterError unless these keys exist for `params`."""
        if len(self) and not params.special_limbs:
            raise ParameterError("key switching needs special primes", expected="at least one", got=0)
        for element, limbs in self.galois.items():
            if not 1 < element < 2 * params.n or element % 2 == 0:
                raise ParameterError(
                    "Galois element", expected=f"odd, above 1, below {2 * params.n}", got=element
                )
            params.check_limbs(limbs)
        if self.relinearise is not None:
            params.check_limbs(self.relinearise)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dictionary; `from_dict` is the inverse."""
        return {
            "galois": [list(item) for item in sorted(self.galois.items())],
            "relinearise": self.relinearise,
        }

    @classmethod
    def from_dict(cls, values: Any) -> KeyRequest:
        """Rebuild from `to_dict`; FormatError for anything else."""

        def count(value: Any) -> int:
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise FormatError("key request", expected="whole numbers", got=value)
            return value

        if not isinstance(values, Mapping) or set(values) != {"galois", "relinearise"}:
            raise FormatError("key request", expected="galois and relinearise", got=values)
        pairs = values["galois"]
        if not isinstance(pairs, list) or not all(
            isinstance(pair, list) and len(pair) == 2 for pair in pairs
        ):
            raise FormatError("key request", expected="pairs of Galois element and limbs", got=pairs)
        galois = {count(element): count(limbs) for element, limbs in pairs}
        relinearise = values["relinearise"]
        return cls(galois, None if relinearise is None else count(relinearise))
