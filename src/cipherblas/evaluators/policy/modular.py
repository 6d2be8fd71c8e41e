"""Plaintexts modulo t: integers, computed exactly.

A ciphertext of a message m in R_t with factor γ has the phase t^-1·w modulo Q, where w = [γ·m]_t + t·e: the message,
not the error, carries the factor t^-1 (Alperin-Sheriff, Peikert, eprint 2013/372, Appendix A). So keys, key switches
and divisions are those of approximate plaintexts, without a correction: a centred division by q leaves the phase
t^-1·(w - t·r)/q, of an integer that is γ·q^-1·m modulo t, whatever was rounded. γ is what a scale is here: sums need
equal ones, products multiply them. Decryption is exact while no coefficient of w reaches Q/2 (`rlwe.noise.modular`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import LevelError, ParameterError, UnmatchedError, UnsuitedError
from cipherblas.common.memory import aligned_empty
from cipherblas.crypto.fields import MAX_DECODED_BITS
from cipherblas.crypto.plain_residues import multiplied_residues, reduced
from cipherblas.evaluators.policy.interface import (
    MAX_SMALL_INTEGER,
    Found,
    Handle,
    Match,
    Numbers,
    Place,
    PlaintextPolicy,
    Real,
    RowErrors,
    RowsHandle,
)
from cipherblas.rlwe.basis import Basis
from cipherblas.rlwe.noise import UNKNOWN, CoefficientErrors, CoefficientNoise, ModularNoise, SlotErrors
from cipherblas.rlwe.noise.modular import MESSAGE
from cipherblas.rlwe.rings import Ring

MAX_DENOMINATOR = 1 << 8  # of numbers modulo t; others are roundings of fractions
DECODING_BITS = 0.25  # of the room: what the client's float64 phase is off by is far less
DECODED_ROOM = MAX_DECODED_BITS - 100.0  # bits of errors: less than a limb and 2t below what is decrypted


class PlainFactor(NamedTuple):
    """The factor γ of a message modulo t, and how many divisions its ciphertext waits for: a product waits for one more
    than its factors. Of rows in the low form the phase is w itself: a product of such rows and usual ones is a usual
    one, t^-1·w·w'."""

    value: int
    pending: int = 0
    low: bool = False


class ModularPolicy(PlaintextPolicy):
    """The rules of BGV.

    Raises:
        ParameterError: the ring has no plain modulus.
    """

    mask_bits = 0
    approximate = False
    errors_kind = CoefficientErrors
    usual: PlainFactor

    def __init__(self, ring: Ring, level_limbs: int | None = None) -> None:
        super().__init__(ring, level_limbs)
        if ring.plain_modulus is None:
            raise ParameterError("The ring has no plain modulus.", expected="plain_modulus=t", got=None)
        self.modulus = self.product_factor = ring.plain_modulus
        self.usual = PlainFactor(1)
        units = (unit for unit in range(2, self.modulus) if math.gcd(unit, self.modulus) == 1)
        self._unit = next(units, 1)  # in the place of a size that is none
        self._noise = ModularNoise(ring)
        self._worst_plain = ring.n * self.modulus / 2  # |p|_2·√N of a centred plaintext, at most
        self._room = [math.inf] * (len(ring.q) + 1)
        total = -math.log2(2.0 * self.modulus)
        for number, q in enumerate(ring.q, 1):
            total += math.log2(q)
            self._room[number] = min(total, DECODED_ROOM)
        # t^-1 modulo Q: of the prefixes of Q too. Sizes alone have none, and compute nothing.
        whole = all(isinstance(q, int) for q in ring.q)
        self._inverse = pow(self.modulus, -1, math.prod(map(int, ring.q))) if whole else self.modulus

    def in_modulus(self, value: float) -> int:
        """An integer modulo t; or a half, a quarter and so on, where t is odd.

        Raises:
            UnsuitedError: it is neither.
        """
        exact = Fraction(value)
        if exact.denominator > MAX_DENOMINATOR or math.gcd(exact.denominator, self.modulus) > 1:
            raise UnsuitedError(
                f"A number is no integer modulo {self.modulus}, nor a fraction that has a value there.",
                expected="integers",
                got=value,
            )
        return exact.numerator * pow(exact.denominator, -1, self.modulus) % self.modulus

    def _centred(self, value: int) -> int:
        value %= self.modulus
        return value - self.modulus if value > self.modulus // 2 else value

    def _size(self, before: int, after: int) -> int:
        """The product of limbs modulo t, a unit; of sizes alone any."""
        return self._product(self.ring.q[after:before])

    def _product(self, moduli: Iterable[float]) -> int:
        found = 1
        for one in moduli:
            size = int(one) % self.modulus
            found = found * (size if math.gcd(size, self.modulus) == 1 else self._unit) % self.modulus
        return found

    # ---- the algebra of factors ----

    def product(self, x: PlainFactor, y: PlainFactor) -> PlainFactor:
        return PlainFactor(x.value * y.value % self.modulus, x.pending + y.pending + 1)

    def divided(self, scale: PlainFactor, before: int, after: int) -> PlainFactor:
        inverse = pow(self._size(before, after), -1, self.modulus)
        levels = (before - after) // self.level_limbs
        return PlainFactor(scale.value * inverse % self.modulus, max(0, scale.pending - levels))

    def _ratio(self, before: Basis, after: Basis) -> int:
        """The moduli before a switch over those after it, modulo t: a unit; of sizes alone any."""
        if not before.of_operands:
            return self._size(before.limbs, after.limbs)
        above, below = (self._product(one.moduli(self.ring)) for one in (before, after))
        return above * pow(below, -1, self.modulus) % self.modulus

    def switched(self, scale: PlainFactor, before: Basis, after: Basis) -> PlainFactor:
        inverse = pow(self._ratio(before, after), -1, self.modulus)
        return scale._replace(value=scale.value * inverse % self.modulus)

    def before_switch(self, scale: PlainFactor, before: Basis, after: Basis) -> PlainFactor:
        return scale._replace(value=scale.value * self._ratio(before, after) % self.modulus)

    def row_product(self, x: PlainFactor, y: PlainFactor) -> PlainFactor:
        if x.low == y.low:
            raise UnmatchedError(
                "The factors of a product of rows modulo t are one in the low form and one in the usual one.",
                expected="one of each",
                got="both low" if x.low else "both usual",
            )
        return PlainFactor(x.value * y.value % self.modulus)

    def scaled(self, scale: PlainFactor, factor: float) -> PlainFactor:
        return scale._replace(value=scale.value * self.in_modulus(factor) % self.modulus)

    def folded(self, scale: PlainFactor, factor: float, wanted: PlainFactor | None) -> PlainFactor:
        """The wanted one, where that is what makes the integers: a factor without an inverse has several."""
        if wanted is None:
            return self.absorbed(scale, factor)
        self.check_same(self.scaled(wanted, factor), scale)
        return wanted

    def in_scale(self, factor: float) -> tuple[float, float]:
        """All of it: units are 1."""
        return factor, 1.0

    def row_factors(
        self, scale: PlainFactor, bounds: tuple[float, float], unswitched: tuple[bool, bool]
    ) -> tuple[PlainFactor, PlainFactor]:
        """One in the low form, whose errors are multiples of t: none is added to it before the product."""
        usual, low = PlainFactor(scale.value), PlainFactor(1, low=True)
        if unswitched[0]:
            return low, usual
        if unswitched[1]:
            return usual, low
        raise UnsuitedError(
            "Both factors of a product of rows modulo t are results of key switches.",
            expected="an encryption of an operand, or a sum or a multiple of some, as one factor",
            got="two computed matrices",
            advice="products one after another, each by an operand: ((a @ b) @ c) @ d",
        )

    def row_root(self, scale: PlainFactor) -> None:
        """None: one factor is in the low form."""

    def widest(self, room: float, bound: float) -> PlainFactor:
        return self.usual

    def readable(self, scale: PlainFactor) -> bool:
        """Units are."""
        return not scale.low and math.gcd(scale.value, self.modulus) == 1

    def absorbed(self, scale: PlainFactor, factor: float) -> PlainFactor:
        unit = self.in_modulus(factor)
        if math.gcd(unit, self.modulus) > 1:
            raise UnsuitedError(
                f"A number has no inverse modulo {self.modulus}.", expected="a unit", got=factor
            )
        return scale._replace(value=scale.value * pow(unit, -1, self.modulus) % self.modulus)

    def absorbed_errors(self, errors: SlotErrors, factor: float) -> SlotErrors:
        """ω stays as it is."""
        return errors

    def mask(self, limbs: int) -> PlainFactor:
        return PlainFactor(self._size(limbs, max(0, limbs - self.level_limbs)))

    def facts(self, scale: PlainFactor) -> tuple[float, ...]:
        return float(scale.value), float(scale.pending)

    def of_facts(self, facts: Sequence[float]) -> PlainFactor:
        value, pending = facts
        return PlainFactor(int(value), int(pending))

    def fresh(self, wanted: PlainFactor) -> PlainFactor:
        return PlainFactor(wanted.value, low=wanted.low)

    def masked(self, scale: PlainFactor) -> PlainFactor:
        return scale

    def same(self, x: PlainFactor, y: PlainFactor) -> bool:
        return x.value == y.value and x.low == y.low

    def check_same(self, got: PlainFactor, expected: PlainFactor) -> None:
        if not self.same(got, expected):
            raise UnmatchedError(
                "The terms of a sum differ in their factor modulo t.", expected=expected.value, got=got.value
            )

    def match(self, scale: PlainFactor, wanted: PlainFactor, limbs: int, most: int) -> Match:
        """By the centred integer wanted/scale: no level, but up to log2(t) - 1 bits of room."""
        if self.same(scale, wanted):
            return Match(limbs, 1, scale)
        return Match(limbs, self._centred(wanted.value * pow(scale.value, -1, self.modulus)), wanted)

    def meeting(self, x: Place, y: Place) -> Place:
        """That which waits for more divisions keeps its factor, or which has fewer limbs: it has the larger errors."""
        first = (x[1].pending, -x[0]) >= (y[1].pending, -y[0])
        return min(x[0], y[0]), x[1] if first else y[1]

    def enlargement(self, scale: PlainFactor, wanted: PlainFactor) -> int:
        return 1

    def is_rescaled(self, scale: PlainFactor) -> bool:
        """Whether it waits for no division."""
        return scale.pending == 0

    # ---- errors ----

    def encrypted(self, scale: PlainFactor, bound: float, public_key: bool = False) -> CoefficientErrors:
        return self._noise.fresh(public_key)

    def rounded(
        self, errors: SlotErrors, before: Place, after: Place, components: int = 2
    ) -> CoefficientErrors:
        divided = errors.times(1 / self.size(before[0], after[0]))
        return _added(divided, self._noise.rounding(components))

    def key_switched(
        self, errors: SlotErrors, before: Place, after: Place | None = None, number: int = 1
    ) -> CoefficientErrors:
        found = _added(errors, self._noise.key_products(before[0]).times(number))
        return found if after is None else self.rounded(found, before, after)

    def raised(self, errors: SlotErrors, limbs: int, scale: PlainFactor) -> NoReturn:
        _refuse_refreshes()

    def raised_anew(self, errors: SlotErrors, scale: PlainFactor) -> NoReturn:
        _refuse_refreshes()

    def products(self, lefts: Sequence[Handle], rights: Sequence[Handle]) -> Found:
        scale = self.product(lefts[0].scale, rights[0].scale)
        bound = total = 0.0
        numbers = Counter(zip(map(id, lefts), map(id, rights), strict=True))  # in a dry run most of them
        different = {(id(x), id(y)): (x, y) for x, y in zip(lefts, rights, strict=True)}
        for pair, (x, y) in different.items():
            self.check_same(self.product(x.scale, y.scale), scale)
            bound += numbers[pair] * x.bound * y.bound
            total += numbers[pair] * self.modulus * self.ring.n * x.errors.own * y.errors.own
        return scale, bound, CoefficientErrors.of(total, total)

    def equal_products(self, x: Handle, y: Handle, number: int) -> Found:
        scale, bound, errors = self.products([x], [y])
        return scale, number * bound, errors.times(number)

    def weighted(self, cts: Sequence[Handle], weights: Sequence[float]) -> CoefficientErrors:
        total = self._worst_plain * sum(ct.errors.own for ct in cts)
        return CoefficientErrors.of(total, total)

    def mapped(
        self, errors: SlotErrors, rows: tuple[float, float], terms: int, encoded: bool = True
    ) -> CoefficientErrors:
        if not encoded:
            return _added(errors.times(terms))
        total = self._worst_plain * terms * errors.own
        return CoefficientErrors.of(total, total)

    def times(self, x: Handle, factor: int, size: float, scale: PlainFactor) -> CoefficientErrors:
        return _added(x.errors.times(abs(factor)))

    # ---- errors of rows, in units of the message ----

    def row_steps(self) -> CoefficientNoise:
        return self._noise.of_rows(self.ring)

    def message_share(self, scale: PlainFactor, bound: float) -> float:
        """[γ·m]_t/t."""
        return min(MESSAGE, abs(self._centred(scale.value)) * bound / self.modulus)

    def row_product_errors(self, left: RowsHandle, right: RowsHandle, independent: bool) -> RowErrors:
        """Of t·ω·ω': the bias of each is what is chosen, messages, and the noise of each meets both. Rows of fresh
        encryptions have errors of their own each, whose sums, whatever weighs them, are sub-Gaussian."""
        k, t = left.shape[0], self.modulus
        of_left, of_right = left.noise * right.bias, right.noise * left.bias
        if independent and left.independent and right.independent:
            both = left.noise * right.noise * self._noise.norm_excess(k)
            noise = math.sqrt(k) * math.sqrt(of_left**2 + of_right**2 + both**2)
        else:
            noise = k * (of_left + of_right + self._noise.tail * left.noise * right.noise)
        return RowErrors(t * noise, t * k * left.bias * right.bias, UNKNOWN)

    def row_error(self, scale: PlainFactor, message: float, rounding: float) -> float:
        """None: what has room is decrypted exactly."""
        return 0.0

    def clear_bound(self, bound: float) -> float:
        return max(1.0, min(bound, float(self.modulus // 2)))

    def clear_entries(self, values: NDArray[Any]) -> NDArray[Any]:
        return reduced(values, self.modulus)

    # ---- the room of a modulus ----

    def magnitude(self, scale: PlainFactor, value: Real) -> Real:
        return value

    def in_values(self, scale: PlainFactor, message: Real) -> Real:
        return message

    def message_bound(self, bound: float, noise: float) -> float:
        return bound

    def fits(self, limbs: int, scale: PlainFactor, bound: float, noise: float) -> bool:
        return noise <= 0 or math.log2(noise) + DECODING_BITS <= self._room[limbs]

    def check_room(self, limbs: int, scale: PlainFactor, bound: float, noise: float) -> None:
        """No coefficient of ω reaches Q/2t."""
        if not self.fits(limbs, scale, bound, noise):
            raise LevelError(
                f"The errors of a ciphertext modulo {self.modulus} leave no room in its modulus.",
                expected=f"errors below 2^{self._room[limbs]:.1f} at {limbs} limbs",
                got=f"2^{math.log2(noise):.1f}",
            )

    def check_rows(self, basis: Basis, scale: PlainFactor, bound: float, noise: float, bias: float) -> None:
        """Likewise; in the low form it is the same ω."""
        largest, room = self._noise.tail * noise + bias, self.log_modulus(basis) - 1 - math.log2(self.modulus)
        if largest > 0 and math.log2(largest) + DECODING_BITS > room:
            raise LevelError(
                f"The errors of encrypted rows modulo {self.modulus} leave no room in their modulus.",
                expected=f"errors below 2^{room:.1f} at {basis}",
                got=f"2^{math.log2(largest):.1f}",
            )

    # ---- clear vectors and numbers ----

    def clear_scale(self, bound: float, scale: PlainFactor, total: PlainFactor | None) -> PlainFactor:
        if total is None:
            return self.usual
        return PlainFactor(total.value * pow(scale.value, -1, self.modulus) % self.modulus)

    def addend(self, scale: PlainFactor, bound: float) -> tuple[PlainFactor, int]:
        """The integer is t^-1 modulo Q."""
        return scale, self._inverse

    def addend_error(self, scale: PlainFactor, bound: float) -> float:
        """The message grows by a residue modulo t, in units of t."""
        return MESSAGE

    def check_encoded(self, scale: PlainFactor, bounds: Iterable[float]) -> None:
        """All residues are."""

    def encoding_error(self, scale: PlainFactor, bound: float, norm: float, largest: float) -> float:
        return 0.0

    def integer(self, value: float) -> int | None:
        """Integers that are small modulo t."""
        if value != int(value):
            return None
        found = self._centred(int(value))
        return found if abs(found) <= MAX_SMALL_INTEGER or math.gcd(found, self.modulus) > 1 else None

    def numbers(
        self, cts: Sequence[Handle], values: Sequence[float], scale: PlainFactor, constant: float
    ) -> Numbers:
        factors, bound, errors = [], abs(constant), CoefficientErrors()
        for ct, value in zip(cts, values, strict=True):
            ratio = scale.value * pow(ct.scale.value, -1, self.modulus)
            factors.append(self._centred(ratio * self.in_modulus(value)))
            bound += ct.bound * abs(value)
            errors = errors.plus(ct.errors.times(abs(factors[-1])))
        if constant:
            errors = errors.with_common(MESSAGE)
        return Numbers(factors, [0.0] * len(factors), constant, bound, errors)

    def constant(self, value: float, scale: PlainFactor, limbs: int) -> int:
        return self._inverse * self._centred(scale.value * self.in_modulus(value))

    def residues(self, values: NDArray[Any], scale: PlainFactor, limbs: int) -> NDArray[np.uint64]:
        message = reduced(values, self.modulus, scale.value)
        found = aligned_empty((limbs, *message.shape))
        for limb, q in enumerate(map(int, self.ring.q[:limbs])):
            found[limb] = multiplied_residues(message, pow(self.modulus, -1, q), q)
        return found


def _added(*errors: SlotErrors) -> CoefficientErrors:
    return CoefficientErrors.of(sum(one.own for one in errors), sum(one.common for one in errors))


def _refuse_refreshes() -> NoReturn:
    raise UnsuitedError(
        "Integers modulo t are not refreshed.", expected="fewer products in sequence", got="a refresh"
    )
