"""What a task needs of a library, so that one description runs on all of them; and the description's run in the clear.

Like the other workers this file needs nothing of cipherblas (see protocol.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy

Diagonals = dict[int, Any]


class Library(ABC):
    """A library with keys for the rotations of one task. Levels: 0 at the top, each mask spends one."""

    slots: int

    @abstractmethod
    def encode(self, vectors: Sequence[Any], level: int) -> list[Any]:
        """Masks, ready to be multiplied with at this level."""

    @abstractmethod
    def encode_input(self, vector: Any) -> Any:
        """The plaintext that encryption takes."""

    @abstractmethod
    def encrypt(self, plain: Any) -> Any:
        """A ciphertext, made with the public key, ready to be computed with."""

    @abstractmethod
    def decrypt(self, ciphertext: Any) -> Any: ...

    @abstractmethod
    def decode(self, plain: Any) -> Any:
        """Slots, real."""

    @abstractmethod
    def rotations(self, x: Any, steps: Sequence[int]) -> list[Any]: ...

    @abstractmethod
    def add(self, x: Any, y: Any) -> Any: ...

    @abstractmethod
    def times_plain(self, x: Any, plain: Any) -> Any: ...

    @abstractmethod
    def rescale(self, x: Any) -> Any: ...

    @abstractmethod
    def drop(self, x: Any) -> Any:
        """One limb fewer, the scale unchanged."""

    @abstractmethod
    def products(self, lefts: Sequence[Any], rights: Sequence[Any]) -> Any:
        """The sum of products of ciphertexts, relinearised once."""

    def transforms(self, x: Any, maps: Sequence[Diagonals]) -> list[Any]:
        """Of each map the sum of diagonals times rotations of x, rescaled. Rotations of all maps are made
        together."""
        steps = list(dict.fromkeys(step for diagonals in maps for step in diagonals))
        rotated = dict(zip(steps, self.rotations(x, steps), strict=True))
        results = []
        for diagonals in maps:
            total = None
            for step, plain in diagonals.items():
                term = self.times_plain(rotated[step], plain)
                total = term if total is None else self.add(total, term)
            results.append(self.rescale(total))
        return results

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The library, its build, and the parameters that it has made."""


class Slots(Library):
    """A description in the clear: slots are a vector. Counts what it does, and the levels that a value has
    spent."""

    def __init__(self, slots: int, steps: Iterable[int]) -> None:
        self.slots, self.steps = slots, {step % slots for step in steps}
        self.counts = dict.fromkeys(("rotations", "plain_products", "products", "encoded"), 0)

    def encode(self, vectors: Sequence[Any], level: int) -> list[Any]:
        self.counts["encoded"] += len(vectors)
        return [(vector, level) for vector in vectors]

    def encode_input(self, vector: Any) -> Any:
        return vector

    def encrypt(self, plain: Any) -> Any:
        return plain, 0

    def decrypt(self, ciphertext: Any) -> Any:
        return ciphertext[0]

    def decode(self, plain: Any) -> Any:
        return plain

    def rotations(self, x: Any, steps: Sequence[int]) -> list[Any]:
        moved = [step for step in steps if step % self.slots]
        if not {step % self.slots for step in moved} <= self.steps:
            raise ValueError(f"rotations: expected steps that have keys, got {steps}")
        self.counts["rotations"] += len(moved)
        return [(numpy.roll(x[0], -step), x[1]) for step in steps]

    def add(self, x: Any, y: Any) -> Any:
        self._check(x, y)
        return x[0] + y[0], x[1]

    def times_plain(self, x: Any, plain: Any) -> Any:
        self._check(x, plain)
        self.counts["plain_products"] += 1
        return x[0] * plain[0], x[1]

    def rescale(self, x: Any) -> Any:
        return x[0], x[1] + 1

    drop = rescale

    def products(self, lefts: Sequence[Any], rights: Sequence[Any]) -> Any:
        for x, y in zip(lefts, rights, strict=True):
            self._check(x, y)
        self.counts["products"] += len(lefts)
        return sum(x[0] * y[0] for x, y in zip(lefts, rights, strict=True)), lefts[0][1]

    def _check(self, x: Any, y: Any) -> None:
        if x[1] != y[1]:
            raise ValueError(f"levels: expected equal ones, got {x[1]} and {y[1]}")

    def describe(self) -> dict[str, Any]:
        return dict(self.counts)
