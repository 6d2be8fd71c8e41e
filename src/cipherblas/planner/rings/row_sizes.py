"""Rings for programs by rows: the smallest moduli that reach the precision, of every kind that is worth a look."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cipherblas._core as _core
from cipherblas.common.errors import LevelError, PrecisionError, UnmatchedError
from cipherblas.common.gemm_paths import are_bytes
from cipherblas.crypto.families import SPECIAL_MARGIN_BITS
from cipherblas.crypto.params import (
    MAX_OPERAND_MESSAGE,
    MAX_PRIME_BITS,
    OPERAND_LIMBS,
    OPERAND_MODULI,
    Parameters,
    make_parameters,
)
from cipherblas.lang.exact import is_exact
from cipherblas.lang.modular import modulus_of
from cipherblas.lang.nodes import Expression
from cipherblas.planner.predict.dry_run import DryRun
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.planner.rings.first import First
from cipherblas.planner.rings.sizing import PRIME_SPREAD_BITS, ModulusError
from cipherblas.rlwe.rings import Ring, RingShape

MIN_MODULUS_BITS, MAX_MODULUS_BITS = 24, 400
# As large as a prime can be: the larger P, the smaller the noise. Where security leaves less, what it leaves.
SPECIAL_BITS = float(MAX_PRIME_BITS)
PRIME_BELOW = 2.0**-6  # bits by which a prime is smaller that fills whole bytes
PRIME_BITS = 0.6  # by which a prime may be smaller than asked for
# A modulus is so much larger where the special prime must be smaller: the noise of key switches is larger then.
SPARE_BITS = 2
# Of primes by which products are divided before keys are switched: that many bits, which there are primes of, up to
# those of which a float64 GEMM of a thousand terms is exact (and `byte_bits`); so many primes; and limbs that keys have
# beside.
NARROW_BITS = tuple(16.0 + 0.5 * step for step in range(12))
NARROW_PRIMES = (1, 2)
BYTE_BITS = 16
NARROWED_KEY_LIMBS = (1, 2)
# Of the error that is asked for, where results may be shared: what switches add at so small a scale is a thousand times
# as large at worst (`worst_error`), beside 8 to 100 times elsewhere.
NARROWED_EXCESS = 2.0**-6
MAX_SEARCHED_BITS = MAX_PRIME_BITS - 0.1  # of a prime that is to be found, one or two of its size
NOMINAL_SCALE_BITS = 20.0  # of parameters whose scales come from the modulus


@functools.cache
def byte_bits(n: int) -> float | None:
    """log2 of the largest prime of a ring whose residues are multiplied as two bytes; None where it has none of so many
    bits."""
    try:
        (found,) = _core.primes(n, BYTE_BITS, 1)
    except ValueError:
        return None
    return math.log2(found) if are_bytes(found) else None


def coprime_operand_moduli(modulus: int | None) -> tuple[int, ...]:
    """The moduli that operands may have beside integers modulo t."""
    return tuple(one for one in OPERAND_MODULI if math.gcd(one, modulus or 1) == 1)


@dataclass(frozen=True)
class RowSize:
    """A modulus of so many bits, in as few primes as possible, and a special prime where keys are switched.

    Attributes:
        special_bits: of the special prime; 0 for none.
        more: primes beyond the fewest.
        aligned: the first prime of two fills whole bytes, so that both together have the fewest.
        narrow: bits of primes beyond these, by which products are divided before keys are switched.
        operand_moduli: of operands of products; None for the same as keys have.
        plain_modulus: t of integers modulo t.
    """

    n: int
    bits: float
    special_bits: float
    alpha: int = 1
    more: int = 0
    narrow: tuple[float, ...] = ()
    aligned: bool = False
    operand_moduli: tuple[int, ...] | None = None
    plain_modulus: int | None = None

    @property
    def limbs(self) -> int:
        """Primes of the modulus, but for narrow ones."""
        largest = MAX_SEARCHED_BITS if self.narrow else MAX_PRIME_BITS - PRIME_BITS
        return max(1, math.ceil(self.bits / largest)) + self.more

    @property
    def key_limbs(self) -> int | None:
        """Primes of the modulus of keys; None for all."""
        return self.limbs if self.narrow else None

    def shape(self) -> RingShape:
        """For a dry run, before primes are searched."""
        limbs = self.limbs
        each = self.bits / limbs
        first = 8 * (each // 8) - PRIME_BELOW if self.aligned else each
        q_bits = [first, *[(self.bits - first) / (limbs - 1) for _ in range(limbs - 1)], *self.narrow]
        special = [self.special_bits] * bool(self.special_bits)
        optional: Any = {"key_limbs": self.key_limbs, "operand_moduli": self.operand_moduli}
        optional["plain_modulus"] = self.plain_modulus
        return RingShape.from_bits(self.n, q_bits, special, 1, NOMINAL_SCALE_BITS, **optional)

    def parameters(self, security: int, insecure: bool) -> Parameters:
        """Real primes, checked against the security table."""
        return make_parameters(
            self.n,
            [math.log2(q) for q in self.shape().q],
            self.special_bits or None,
            int(self.special_bits > 0),
            scale_bits=NOMINAL_SCALE_BITS,
            security=security,
            insecure=insecure,
            key_limbs=self.key_limbs,
            operand_moduli=self.operand_moduli,
            plain_modulus=self.plain_modulus,
        )


class RowSizes:
    """The search for the rings of one program by rows in one degree: what kinds of products ask (`RingSearch`).

    Args:
        expression: the program.
        kind: of the candidate: where its ring was found is looked at first.
        run: counts it on a ring.
        excess: how many times what is asked its error is in a run.
        allowed: the largest log2(QP), beside a special prime of so many bits.
        first: looks for the smallest of some sizes.
        extra: bits beyond those that reach the precision (after a first choice missed the target).
        operands: the machine has products modulo the moduli of operands.
        unreachable: why no modulus reaches the precision.
    """

    def __init__(
        self,
        expression: Expression,
        n: int,
        kind: Hashable,
        run: Callable[[Ring], DryRun],
        excess: Callable[[DryRun], float],
        allowed: Callable[[float], float],
        first: First,
        extra: int,
        *,
        operands: bool,
        unreachable: Callable[[Ring], PrecisionError],
    ) -> None:
        self._n, self._kind, self._run, self._excess = n, kind, run, excess
        self._first, self._extra, self._operands, self._unreachable = first, extra, operands, unreachable
        self._modulus = modulus_of(expression)
        # Errors of either are taken away, and nothing is to be hidden in them.
        self._exact = is_exact(expression) or self._modulus is not None
        self._operand_moduli = coprime_operand_moduli(self._modulus)
        largest = self._sized(MAX_MODULUS_BITS, SPECIAL_BITS)
        self.switched = len(run(largest.shape()).keys) > 0
        self._special = SPECIAL_BITS if self.switched else 0.0
        self._allowed = allowed(self._special)
        self._limit = self._allowed - self._special

    def _sized(self, bits: float, special_bits: float, **rest: Any) -> RowSize:
        return RowSize(self._n, bits, special_bits, plain_modulus=self._modulus, **rest)

    def without_keys(self) -> Sequence[RowSize]:
        """The smallest modulus. Of several primes one more is worth a look: residues of smaller primes have fewer
        digits, each of which is a GEMM. So are two primes, one of which fills whole bytes."""
        found = self._usual()
        if found is None:
            raise self._too_small(self._needed())
        size = self._sized(found + self._extra, self._special)
        if size.limbs == 1:
            return [size]
        aligned = replace(size, aligned=True)
        fits = size.limbs == 2 and max(aligned.shape().q) < 2.0**MAX_SEARCHED_BITS
        return [size, *([aligned] if fits else []), replace(size, more=1)]

    def with_keys(self) -> Sequence[RowSize]:
        """The smallest modulus, those with narrow primes, and the one beside operands with moduli of their own. Where
        it leaves too little for the special prime that is smaller, and the modulus is larger."""
        found = self._usual()
        if found is not None:
            size = self._sized(found + self._extra, self._special)
            narrowed = [] if size.limbs == 1 else self._narrowed()
            return [size, *narrowed, *self._with_operand_moduli(found)]
        others = [*self._narrowed(), *self._with_operand_moduli(None)]
        needed = self._needed()
        for bits in range(needed + self._extra, needed + self._extra + SPARE_BITS + 1):
            size = self._sized(bits, min(self._special, self._allowed - PRIME_SPREAD_BITS - bits))
            if size.special_bits >= bits / size.limbs + SPECIAL_MARGIN_BITS and self._reaches(size):
                return [size, *others]
        if others:
            return others
        raise self._too_small(needed)

    def of_operands(self) -> Sequence[RowSize]:
        """The smallest modulus beside operands with moduli of their own, as many as leave their messages words."""
        return self._with_operand_moduli(None, most_moduli=True)

    def _reaches(self, size: RowSize, most: float = 1.0) -> bool:
        found = attempted(functools.partial(self._run, size.shape()), only=(LevelError, UnmatchedError))
        # Else what is added to a product may have more limbs than keys serve.
        return not isinstance(found, Infeasible) and self._excess(found) <= most

    def _smallest(self, most: int) -> int | None:
        """Bits of the smallest modulus that reaches the precision."""
        tried = range(MIN_MODULUS_BITS, most + 1)
        return self._first(self._kind, tried, lambda bits: self._reaches(self._sized(bits, self._special)))

    def _usual(self) -> int | None:
        """The same, where security allows it."""
        found = self._smallest(math.floor(self._limit))
        return found if found is not None and found + self._extra <= self._limit else None

    def _needed(self) -> int:
        """The same, whatever security allows."""
        found = self._smallest(MAX_MODULUS_BITS)
        if found is None:
            raise self._unreachable(self._sized(MAX_MODULUS_BITS, self._special).shape())
        return found

    def _too_small(self, needed: int) -> ModulusError:
        return ModulusError(
            f"The modulus that security allows products by GEMM at N = {self._n} is too small.",
            needed,
            max(self._limit, 0.0),
        )

    def _narrowed(self) -> list[RowSize]:
        """The smallest moduli with narrow primes, of those whose keys have one limb or two: products fill the modulus
        before their scale is divided, and what keys serve holds the result."""
        n, extra, allowed = self._n, self._extra, self._allowed - PRIME_SPREAD_BITS
        most = 1.0 if self._exact else NARROWED_EXCESS
        found = []
        short = byte_bits(n)
        shorts = ((),) if short is None else ((), (short,))
        for limbs, count, last in itertools.product(NARROWED_KEY_LIMBS, (0, *NARROW_PRIMES), shorts):
            if not 1 <= count + len(last) <= max(NARROW_PRIMES) or (extra and not count):
                continue
            each = min(MAX_SEARCHED_BITS, (allowed - SPECIAL_MARGIN_BITS) / (limbs + 1))
            special = min(SPECIAL_BITS, allowed - limbs * each)
            sizes = (
                self._sized(limbs * each, special, narrow=(*(bits + extra,) * count, *last))
                for bits in (NARROW_BITS if count else NARROW_BITS[:1])
            )
            tried = [size for size in sizes if size.bits + math.fsum(size.narrow) <= allowed]
            if tried and tried[0].limbs == limbs:
                size = self._first(
                    ("narrow", n, limbs, count, last), tried, lambda size: self._reaches(size, most)
                )
                found += [] if size is None else [size]
        return found

    def _with_operand_moduli(self, usual: int | None, most_moduli: bool = False) -> list[RowSize]:
        """The smallest modulus of keys beside operands that have moduli of their own, as few as reach the precision:
        products fill these, and what keys serve, in as few limbs as can be, holds the result.

        Args:
            usual: bits of the modulus without. Where results may be shared the one of keys is no smaller, as far
                as its limbs hold so many, so that what switches add is no larger either.
            most_moduli: messages may not be words any more where moduli are many: of products of one operand.
        """
        if not self._operands:
            return []
        allowed, most_special, exact = self._allowed, self._special, self._exact
        excess = 1.0 if exact or usual is not None else NARROWED_EXCESS
        least_of_keys = MIN_MODULUS_BITS if exact or usual is None else usual
        sizes = itertools.accumulate(map(math.log2, self._operand_moduli))
        # The messages of two operands fill the modulus together.
        largest = min(allowed, 2 * math.log2(MAX_OPERAND_MESSAGE))
        counts = range(1, sum(size <= largest for size in sizes) + 1)
        free = allowed - PRIME_SPREAD_BITS

        def size(bits: int, moduli: int) -> RowSize:
            special = min(most_special, free - bits)
            return self._sized(bits, special, operand_moduli=self._operand_moduli[:moduli])

        for limbs in range(1, OPERAND_LIMBS + 1):
            # Beside one limb the special prime is as large as it can be, beside two as large as security leaves it.
            each = free - most_special if limbs == 1 else (free - SPECIAL_MARGIN_BITS) / (limbs + 1)
            each = each if most_special else free / limbs
            most = math.floor(limbs * min(each, MAX_SEARCHED_BITS - PRIME_BITS))
            fewer = (limbs - 1) * math.ceil(MAX_PRIME_BITS - PRIME_BITS)  # that so few limbs do not take
            least = max(least_of_keys, fewer)
            tried = [(most, number) for number in counts]
            while most_moduli and tried and not self._reaches(size(*tried[-1]), excess):
                tried.pop()
            if most < max(MIN_MODULUS_BITS, fewer):
                continue
            found = self._first("moduli", tried, lambda one: self._reaches(size(*one), excess))
            if found is None:
                continue
            tried = [(bits, found[1]) for bits in range(min(least, most), most + 1)]
            found = (
                self._first("bits beside moduli", tried, lambda one: self._reaches(size(*one), excess))
                or found
            )
            return [size(min(found[0] + self._extra, most), found[1])]
        return []
