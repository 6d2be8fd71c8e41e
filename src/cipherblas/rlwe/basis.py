"""The moduli by which the residues of an encrypted matrix are taken."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from cipherblas.common.errors import LevelError
from cipherblas.crypto.fields import MODULI_OF_WORD
from cipherblas.rlwe.rings import Ring


class Basis(ABC):
    """Equal ones have equal moduli in every ring.

    Attributes:
        of_operands: there are only products of two matrices of this basis, or of one and whole numbers; each is divided
            by what its moduli exceed Q by, and so switched to all limbs of Q.
    """

    of_operands: ClassVar[bool] = False

    @abstractmethod
    def moduli(self, ring: Ring) -> Sequence[float]:
        """The moduli, in the order of residues."""

    @property
    @abstractmethod
    def primes(self) -> int:
        """The number of its moduli that are primes of Q."""

    @property
    def limbs(self) -> int:
        """The number of limbs.

        Raises:
            LevelError: its moduli are no primes of Q.
        """
        if not self.primes:
            raise LevelError(f"Rows modulo {self} have no limbs.", expected="rows modulo primes of Q")
        return self.primes

    def words(self, ring: Ring) -> int:
        """Words of an entry."""
        return len(self.moduli(ring))

    def levels_above(self, limbs: int, ring: Ring) -> int:
        """Rescales after which so many limbs are left."""
        return -(-(self.limbs - limbs) // (ring.level_limbs or 1))


@dataclass(frozen=True)
class FirstLimbs(Basis):
    """The first primes of Q, a word of an entry for each."""

    primes: int = 0

    def moduli(self, ring: Ring) -> Sequence[float]:
        return ring.q[: self.primes]

    def __str__(self) -> str:
        return f"{self.primes} limb{'s' if self.primes != 1 else ''}"


@dataclass(frozen=True)
class OperandModuli(Basis):
    """The moduli of operands, which are bytes: a word of an entry for every eight of them."""

    of_operands: ClassVar[bool] = True

    @property
    def primes(self) -> int:
        return 0

    def moduli(self, ring: Ring) -> Sequence[float]:
        return ring.operand_moduli or ()

    def words(self, ring: Ring) -> int:
        return -(-len(self.moduli(ring)) // MODULI_OF_WORD)

    def levels_above(self, limbs: int, ring: Ring) -> int:
        """As from one limb more than there are: products are switched to all limbs."""
        return FirstLimbs(len(ring.q) + 1).levels_above(limbs, ring)

    def __str__(self) -> str:
        return "the moduli of operands"


OPERAND_BASIS = OperandModuli()
