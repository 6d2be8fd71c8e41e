"""The numbers of a CKKS instance that bookkeeping needs: `Parameters`, or nominal sizes before primes exist."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from cipherblas.crypto.params import ENCAPSULATION_MARGIN_BITS


class Ring(Protocol):
    """What an evaluator asks of its parameters; `cipherblas.crypto.params.Parameters` and `RingShape` both answer."""

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


@dataclass(frozen=True)
class RingShape:
    """Nominal parameters: moduli by size alone, for planning and for tests without arithmetic.

    Attributes:
        n: ring degree N; slots = N/2.
        q: sizes of q_0 … q_L (real numbers near the primes that will be chosen).
        p: sizes of the special primes.
        alpha: limbs per digit.
        scale_bits: log2 of the scale of fresh plaintexts.
        key_limbs: keys are made for so many limbs at most; None: for all.
    """

    n: int
    q: tuple[float, ...]
    p: tuple[float, ...]
    alpha: int
    scale_bits: float
    key_limbs: int | None = None

    @classmethod
    def from_bits(
        cls,
        n: int,
        q_bits: Sequence[float],
        special_bits: Sequence[float],
        alpha: int,
        scale_bits: float,
        key_limbs: int | None = None,
    ) -> RingShape:
        """The shape whose moduli are 2^bits."""
        q, p = (tuple(2.0**size for size in bits) for bits in (q_bits, special_bits))
        return cls(n, q, p, alpha, scale_bits, key_limbs)

    @classmethod
    def for_depth(cls, slots: int, depth: int, scale_bits: float = 40.0) -> RingShape:
        """A shape with `depth` rescales above two base limbs, one limb per digit."""
        return cls.from_bits(2 * slots, [scale_bits + 8] * 2 + [scale_bits] * depth, [50.0], 1, scale_bits)


def encapsulating_shape(ring: Ring) -> RingShape:
    """Nominal parameters of the switch to a sparse secret; see `cipherblas.crypto.params.encapsulating`."""
    each = math.sqrt(ring.q[0] * 2.0**ENCAPSULATION_MARGIN_BITS)
    return RingShape(ring.n, (float(ring.q[0]),), (each, each), 1, ring.scale_bits)
