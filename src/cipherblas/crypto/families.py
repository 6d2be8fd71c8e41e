"""The rings of one program: that of its slots, and those that are derived from it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Literal, Protocol, TypeVar

from cipherblas.common.errors import ParameterError
from cipherblas.crypto.fields import MAX_PRIME_BITS

# The ring of the ciphertexts that a key is for: that of slots, or that of rows, where this is another one.
KeyRing = Literal["slots", "rows"]
# The modulus at which a key switches: that of its ring, the small ones of switches to the sparse secret and to the
# secret of the ring of rows, or that of switches back from the sparse secret.
KeyModulus = Literal["own", "sparse", "raising", "descending"]

# Bits by which P should exceed the largest digit: the key term of a key switch, about
# 1.2·sqrt(digits)·σ·(digit / P) times the rounding term of ModDown, then falls below that rounding term. Less than 3:
# where P is one prime, ModDown need not count the overflow of a conversion to primes above P / 8.
SPECIAL_MARGIN_BITS = 2.9
# Bits of the special primes at which a ciphertext is switched to the sparse secret, beyond those of q_0.
ENCAPSULATION_MARGIN_BITS = 4.0
MIN_ENCAPSULATING_BITS = 25.0  # of one of them: smaller primes = 1 mod 2N are few


class HasRows(Protocol):
    """A ring that a family can be derived from."""

    @property
    def row_degree(self) -> int | None: ...


R = TypeVar("R", bound=HasRows)


class RingFamily(ABC, Generic[R]):
    """The rings of one program.

    Attributes:
        slots: that of its slots, from which the others are derived.

    Raises:
        SecurityError: a ring of primes is too small.
        ParameterError: there are no such primes.
    """

    def __init__(self, slots: R) -> None:
        self.slots = slots

    @property
    def rows(self) -> R:
        """Of matrices that are encrypted by rows: a ring of their own, with the first limbs of that of slots and a
        special prime of its own; the same where they have none."""
        return self.slots if self.slots.row_degree is None else self._with_row_limbs(self.slots.row_degree)

    @property
    def descending(self) -> R:
        """Where ciphertexts are switched to the secret of the ring of rows: the ring of slots, the limbs and the
        special prime of rows.

        That secret is a polynomial of X^(N/n), n the degree of rows: a key for it is N/n samples of the ring of rows,
        and as secure as that.
        """
        return self._with_row_limbs(None)

    @property
    @abstractmethod
    def sparse(self) -> R:
        """Where ciphertexts of one limb are switched to a sparse secret (sparse-secret encapsulation): the ring of
        slots, q_0 alone, and two small special primes of its own."""

    @property
    @abstractmethod
    def raising(self) -> R:
        """Where ciphertexts whose modulus was raised are switched from the sparse secret: all primes of the ring of
        slots, and as few of its special ones as are needed. Coefficients are below q_0 still: they are one digit."""

    def at(self, ring: KeyRing, modulus: KeyModulus) -> R:
        """The ring of keys that switch at a modulus.

        Raises:
            ParameterError: rows have no ring of their own.
        """
        if (ring == "rows" or modulus == "descending") and self.slots.row_degree is None:
            raise ParameterError(
                "There is no ring of rows for these keys.", expected="its degree", got="none"
            )
        own = type(self)(self.rows) if ring == "rows" else self
        if modulus == "own":
            return own.slots
        if modulus == "raising":
            return own.raising
        return own.sparse if modulus == "sparse" else own.descending

    @abstractmethod
    def _with_row_limbs(self, degree: int | None) -> R:
        """The limbs and the special prime of rows, in a ring of this degree; None: of that of slots."""


def encapsulating_bits(first: float) -> float:
    """log2 of each of the two special primes beside a q_0."""
    return max(MIN_ENCAPSULATING_BITS, (math.log2(first) + ENCAPSULATION_MARGIN_BITS) / 2)


def raising_special(first: float, special: Sequence[float]) -> int:
    """How many special primes there are beside coefficients below q_0."""
    needed, found = math.log2(first) + SPECIAL_MARGIN_BITS, 0.0
    for count, prime in enumerate(special, 1):
        found += math.log2(prime)
        if found >= needed:
            return count
    return len(special)


def row_special_bits(first: float) -> float:
    """log2 of the special prime of the ring of rows, whose largest digit is q_0."""
    return min(float(MAX_PRIME_BITS), math.log2(first) + SPECIAL_MARGIN_BITS)
