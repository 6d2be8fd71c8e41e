"""The numbers of a CKKS instance that bookkeeping needs: `Parameters`, or nominal sizes before primes exist."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cipherblas.crypto.families import RingFamily, encapsulating_bits, raising_special, row_special_bits
from cipherblas.crypto.fields import ROW_LIMBS


class Ring(Protocol):
    """The properties of parameters that an evaluator reads. `cipherblas.crypto.params.Parameters` and `RingShape` have
    them."""

    def __hash__(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def q(self) -> Sequence[float]: ...
    @property
    def p(self) -> Sequence[float]: ...
    @property
    def alpha(self) -> int: ...
    @property
    def scale_bits(self) -> float: ...
    @property
    def key_limbs(self) -> int | None: ...
    @property
    def row_degree(self) -> int | None: ...
    @property
    def digit_limbs(self) -> tuple[int, ...] | None: ...
    @property
    def operand_moduli(self) -> Sequence[float] | None: ...
    @property
    def level_limbs(self) -> int | None: ...
    @property
    def plain_modulus(self) -> int | None: ...
    @property
    def family(self) -> RingFamily[Any]: ...


@dataclass(frozen=True)
class RingShape:
    """Nominal parameters: moduli known by their sizes alone, for planning and for tests without arithmetic.

    Attributes:
        n: ring degree N; slots = N/2.
        q: sizes of q_0 … q_L (real numbers near the primes that will be chosen).
        p: sizes of the special primes.
        alpha: limbs per digit, at most.
        scale_bits: log2 of the scale of fresh plaintexts.
        key_limbs: keys are made for so many limbs at most; None: for all.
        row_degree: of a ring of their own for rows; None: they have none.
        digit_limbs: limbs of each digit from q_0 on; None: `alpha` each.
        operand_moduli: of operands of products by rows, instead of Q; None: they have none.
        level_limbs: limbs that a rescale drops, where that is not one.
        plain_modulus: t of plaintexts that are integers modulo t; None: they are real numbers.
    """

    n: int
    q: tuple[float, ...]
    p: tuple[float, ...]
    alpha: int
    scale_bits: float
    key_limbs: int | None = None
    row_degree: int | None = None
    digit_limbs: tuple[int, ...] | None = None
    operand_moduli: tuple[float, ...] | None = None
    level_limbs: int | None = None
    plain_modulus: int | None = None

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:  # found once: what is counted on a ring is kept by it
        return hash((self.n, self.q, self.p, self.alpha, self.scale_bits, self.row_degree, self.digit_limbs))

    @classmethod
    def from_bits(
        cls,
        n: int,
        q_bits: Sequence[float],
        special_bits: Sequence[float],
        alpha: int,
        scale_bits: float,
        key_limbs: int | None = None,
        row_degree: int | None = None,
        digit_limbs: tuple[int, ...] | None = None,
        operand_moduli: tuple[float, ...] | None = None,
        level_limbs: int | None = None,
        plain_modulus: int | None = None,
    ) -> RingShape:
        """The shape whose moduli are 2^bits."""
        q, p = (tuple([2.0**size for size in bits]) for bits in (q_bits, special_bits))
        optional = key_limbs, row_degree, digit_limbs, operand_moduli, level_limbs, plain_modulus
        return cls(n, q, p, alpha, scale_bits, *optional)

    @property
    def family(self) -> NominalFamily:
        """The sizes of all rings of a program with this one."""
        return NominalFamily(self)

    @classmethod
    def for_depth(cls, slots: int, depth: int, scale_bits: float = 40.0) -> RingShape:
        """A shape with `depth` rescales above two base limbs, one limb per digit."""
        return cls.from_bits(2 * slots, [scale_bits + 8] * 2 + [scale_bits] * depth, [50.0], 1, scale_bits)


def limbs_of_level(ring: Ring) -> int:
    """Limbs that a rescale drops."""
    return ring.level_limbs or 1


# Of rows in a program that refreshes, where they have no ring of their own: what a refresh takes from their
# coefficients needs one, products another one.
LOW_LIMBS = 2


def low_limbs(ring: Ring) -> int:
    """Limbs of rows in a program that refreshes."""
    return LOW_LIMBS if ring.row_degree is None else ROW_LIMBS


class NominalFamily(RingFamily[Ring]):
    """The sizes of one program's rings."""

    @property
    def sparse(self) -> RingShape:
        q = float(self.slots.q[0])
        each = 2.0 ** encapsulating_bits(q)
        return RingShape(self.slots.n, (q,), (each, each), 1, self.slots.scale_bits)

    @property
    def raising(self) -> RingShape:
        q, p = tuple(map(float, self.slots.q)), tuple(map(float, self.slots.p))
        return RingShape(self.slots.n, q, p[: raising_special(q[0], p)], len(q), self.slots.scale_bits)

    def _with_row_limbs(self, degree: int | None) -> RingShape:
        q = tuple(map(float, self.slots.q[:ROW_LIMBS]))
        special = (2.0 ** row_special_bits(q[0]),)
        return RingShape(degree or self.slots.n, q, special, 1, self.slots.scale_bits)
