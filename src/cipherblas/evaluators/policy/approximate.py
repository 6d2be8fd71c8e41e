"""Approximate plaintexts, those of CKKS: real and complex numbers times a scale, rounded to integers.

A scale is a float, and scales that differ by less than an error count as equal. Errors are those of slots, in units of
their values; they are rounded into the same coefficients as the message.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import LevelError, RangeError, UnmatchedError
from cipherblas.common.memory import aligned_empty
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
from cipherblas.rlwe.noise import TAIL, UNKNOWN, CoefficientNoise, NoiseModel, SlotErrors, Spread, spread_over
from cipherblas.rlwe.rings import Ring

# Relative difference of two scales below which they count as equal: the error of an addition is as small. Where a level
# has several limbs, no more than what a few operations in double precision make of one scale.
SCALE_TOLERANCE, FINE_SCALE_TOLERANCE = 2.0**-40, 2.0**-50
# An integer factor of at least this size matches two scales to a relative error of half its inverse.
MIN_MATCH_FACTOR = 2.0**24
# Scales whose ratio is smaller were meant to be equal.
MAX_DEVIATION = 2.0
FLOAT_ERROR = 2.0**-50  # relative, of a few operations
MAX_ENCODED_BITS = 60  # coefficients are encoded as int64
MAX_ENCODED = 0.9 * 2.0**62
MAX_MASK_BITS = 61  # of the scale of clear vectors, where a level is larger: they are encoded as int64
MAX_BITS = 1000.0  # of numbers that are compared as float64, not by their logarithms


class ApproximatePolicy(PlaintextPolicy):
    """The rules of CKKS."""

    def __init__(self, ring: Ring, level_limbs: int | None = None) -> None:
        super().__init__(ring, level_limbs)
        fine = self.level_limbs > 1
        self.usual = 2.0**ring.scale_bits
        self.mask_bits = max(0, math.ceil(ring.scale_bits - MAX_MASK_BITS)) if fine else 0
        self._tolerance = FINE_SCALE_TOLERANCE if fine else SCALE_TOLERANCE
        self._rescaled: float = 2.0 ** (1.5 * ring.scale_bits)
        self._model = NoiseModel(ring)
        self._room = list(itertools.accumulate((math.log2(q) for q in ring.q), initial=0.0))
        self._surely_fits = [2.0 ** min(room - 1.5, MAX_BITS) for room in self._room]

    # ---- the algebra of scales ----

    def product(self, x: float, y: float) -> float:
        return x * y

    def divided(self, scale: float, before: int, after: int) -> float:
        return scale / self.size(before, after)

    def switched(self, scale: float, before: Basis, after: Basis) -> float:
        return scale / self.divisor(before, after)

    def before_switch(self, scale: float, before: Basis, after: Basis) -> float:
        return scale * self.divisor(before, after)

    def row_product(self, x: float, y: float) -> float:
        return x * y

    def scaled(self, scale: float, factor: float) -> float:
        return scale * factor

    def folded(self, scale: float, factor: float, wanted: float | None) -> float:
        return scale / factor

    def in_scale(self, factor: float) -> tuple[float, float]:
        """All but the sign."""
        return abs(factor), math.copysign(1.0, factor)

    def row_factors(
        self, scale: float, bounds: tuple[float, float], unswitched: tuple[bool, bool]
    ) -> tuple[float, float]:
        """Messages are as large as one another."""
        left = math.sqrt(scale) * math.sqrt(bounds[1]) / math.sqrt(bounds[0])
        return left, scale / left

    def row_root(self, scale: float) -> float:
        return math.sqrt(scale)

    def widest(self, room: float, bound: float) -> float:
        return float(2.0**room / bound)

    def readable(self, scale: float) -> bool:
        return True

    def absorbed(self, scale: float, factor: float) -> float:
        return scale / factor

    def mask(self, limbs: int) -> float:
        return self.size(limbs, max(0, limbs - self.level_limbs)) / 2.0**self.mask_bits

    def masked(self, scale: float) -> float:
        return scale / 2.0**self.mask_bits

    def same(self, x: float, y: float) -> bool:
        return abs(x / y - 1) <= self._tolerance

    def check_same(self, got: float, expected: float) -> None:
        if got != expected and not self.same(got, expected):
            raise UnmatchedError(
                "The terms of a sum differ in scale.",
                expected=f"2^{math.log2(expected):.6f}",
                got=f"2^{math.log2(got):.6f}",
            )

    def match(self, scale: float, wanted: float, limbs: int, most: int) -> Match:
        """A scale that is larger by at least 2^24 is reached by an integer factor (relative error 2^-25 or less, no
        level); any other difference costs one level: the factor is made large enough by the limb that is rescaled
        away."""
        ratio = wanted / scale
        if self.same(wanted, scale):
            return Match(limbs, 1, scale)
        if ratio >= MIN_MATCH_FACTOR:
            return Match(limbs, round(ratio), wanted)
        above = limbs + self.level_limbs
        if most < above:
            raise LevelError(
                f"Changing the scale by a factor of {ratio:.9g} costs a level.",
                expected=f"at least {above} limbs",
                got=most,
            )
        last = self.size(above, limbs)
        factor = round(ratio * last)
        if factor < MIN_MATCH_FACTOR:
            raise UnmatchedError(
                "The scales are too far apart to match.", expected=f"ratio above {1 / last:.3g}", got=ratio
            )
        return Match(above, factor, wanted * last)

    def meeting(self, x: Place, y: Place) -> Place:
        """The larger scale wins. Scales that differ by the deviation of primes alone become that of the ciphertext with
        fewer limbs: the other one has the level that matching costs. Which of them is larger is chance."""
        limbs = min(x[0], y[0])
        (limbs_of_low, low), (limbs_of_high, high) = (x, y) if x[1] < y[1] else (y, x)
        ratio = high / low
        mismatched = self._tolerance < ratio - 1 < MIN_MATCH_FACTOR - 1
        if mismatched and limbs_of_low - self.level_limbs < limbs:
            if ratio < MAX_DEVIATION and limbs_of_high - self.level_limbs >= limbs:
                return limbs, low
            return limbs - self.level_limbs, high
        return limbs, high

    def enlargement(self, scale: float, wanted: float) -> int:
        return max(1, int(wanted / scale))

    def is_rescaled(self, scale: float) -> bool:
        """Whether it is at most 2^(1.5·scale_bits)."""
        return scale <= self._rescaled

    # ---- errors of ciphertexts of slots ----

    def encrypted(self, scale: float, bound: float, public_key: bool = False) -> SlotErrors:
        return self._model.encrypted(scale, bound, public_key)

    def rounded(self, errors: SlotErrors, before: Place, after: Place, components: int = 2) -> SlotErrors:
        return errors.with_own(self._model.rounding(after[1], components))

    def key_switched(
        self, errors: SlotErrors, before: Place, after: Place | None = None, number: int = 1
    ) -> SlotErrors:
        switched = math.sqrt(number) * self._model.key_switch(*before)
        rounding = 0.0 if after is None else self._model.rounding(after[1])
        return errors.with_own(switched, rounding)

    def raised(self, errors: SlotErrors, limbs: int, scale: float) -> SlotErrors:
        model = self._model
        return errors.with_own(
            model.encapsulation(scale), model.key_switch(limbs, scale), model.rounding(scale)
        )

    def raised_anew(self, errors: SlotErrors, scale: float) -> SlotErrors:
        return errors.with_own(self._model.encapsulation(scale), self._model.raising(scale))

    def products(self, lefts: Sequence[Handle], rights: Sequence[Handle]) -> Found:
        scale = lefts[0].scale * rights[0].scale
        bound = both = 0.0
        deviations = _deviations(lefts), _deviations(rights)
        for x, y, of_x, of_y in zip(lefts, rights, *deviations, strict=True):
            if x.scale * y.scale != scale:
                self.check_same(x.scale * y.scale, scale)
            bound += x.bound * y.bound
            both += of_x * of_y
        left = self.weighted(lefts, [y.bound for y in rights])
        right = self.weighted(rights, [x.bound for x in lefts])
        common = left.common + right.common + TAIL * both
        return scale, bound, SlotErrors(left.own + right.own, left.mixed + right.mixed, common)

    def equal_products(self, x: Handle, y: Handle, number: int) -> Found:
        scale, bound, _ = self.products([x], [y])
        own_x, own_y = x.errors.own * y.bound, y.errors.own * x.bound
        common = x.errors.dependent * y.bound + y.errors.dependent * x.bound
        common += TAIL * x.errors.deviation * y.errors.deviation
        return scale, number * bound, SlotErrors(0.0, math.sqrt(number) * (own_x + own_y), number * common)

    def weighted(self, cts: Sequence[Handle], weights: Sequence[float]) -> SlotErrors:
        if len(cts) == 1:
            errors, weight = cts[0].errors, weights[0]
            if errors.aligned:
                return errors.times(weight)
            return SlotErrors(0.0, errors.own * weight, errors.dependent * weight)
        if len({id(ct) for ct in cts}) < len(cts):
            totals: dict[int, float] = {}
            for ct, weight in zip(cts, weights, strict=True):
                totals[id(ct)] = totals.get(id(ct), 0.0) + weight
            cts, weights = list({id(ct): ct for ct in cts}.values()), list(totals.values())
        if len({id(ct.errors) for ct in cts}) == 1:
            first = cts[0].errors
            dependent = first.dependent
            return SlotErrors(
                0.0, math.hypot(*[first.own * w for w in weights]), sum([dependent * w for w in weights])
            )
        each = [ct.errors for ct in cts]
        own = math.hypot(*[errors.own * weight for errors, weight in zip(each, weights, strict=True)])
        common = sum([errors.dependent * weight for errors, weight in zip(each, weights, strict=True)])
        return SlotErrors(0.0, own, common)

    def mapped(
        self, errors: SlotErrors, rows: tuple[float, float], terms: int, encoded: bool = True
    ) -> SlotErrors:
        return errors.mapped(*rows)

    def times(self, x: Handle, factor: int, size: float, scale: float) -> SlotErrors:
        errors = x.errors.times(size)
        if scale == x.scale:
            return errors
        # The integer misses the exact factor by at most 1/2, or as float64 does.
        return errors.with_common(x.bound * size * max(0.5 / max(abs(factor), 1), FLOAT_ERROR))

    # ---- errors of rows, in units of the message ----

    def row_steps(self) -> CoefficientNoise:
        return CoefficientNoise(self.ring)

    def message_share(self, scale: float, bound: float) -> float:
        return 0.0

    def row_product_errors(self, left: RowsHandle, right: RowsHandle, independent: bool) -> RowErrors:
        """Of (Δ1 M1 + E1)(Δ2 M2 + E2), entries as large as their bounds, and sums of them as far as they are known.
        Errors of one factor meet the other one; where its norm is known, all of them together grow by that."""
        (k, m), n = left.shape, right.shape[1]
        both, (of_right, from_right) = TAIL * left.noise * right.noise * k, _met(right, left)
        of_left, from_left = _met(left, right)
        independent = independent and left.independent and right.independent
        noise = math.hypot(of_right, of_left) if independent else of_right + of_left
        noise += both
        bias = left.scale * left.total * right.bias + (right.scale * right.total + k * right.bias) * left.bias
        more = spread_over((m, n), both, k * right.bias * left.bias)
        return RowErrors(noise, bias, from_right.plus(from_left).plus(more))

    def row_error(self, scale: float, message: float, rounding: float) -> float:
        return message / scale + rounding

    def clear_bound(self, bound: float) -> float:
        return bound

    def clear_entries(self, values: NDArray[Any]) -> NDArray[Any]:
        return values

    # ---- the room of a modulus ----

    def magnitude(self, scale: float, value: Real) -> Real:
        return scale * value

    def in_values(self, scale: float, message: Real) -> Real:
        return message / scale

    def message_bound(self, bound: float, noise: float) -> float:
        return bound + TAIL * noise

    def fits(self, limbs: int, scale: float, bound: float, noise: float) -> bool:
        return math.log2(scale * (bound + TAIL * noise)) + 1 <= self._room[limbs]

    def check_room(self, limbs: int, scale: float, bound: float, noise: float) -> None:
        """Coefficients are at most scale · max|slot|: they must stay below Q/2."""
        magnitude = scale * (bound + TAIL * noise)
        if magnitude <= self._surely_fits[limbs]:
            return
        if magnitude > 0:
            _check_bits(math.log2(magnitude), self._room[limbs], f"{limbs} limbs")

    def check_rows(self, basis: Basis, scale: float, bound: float, noise: float, bias: float) -> None:
        magnitude = scale * bound + TAIL * noise + bias
        _check_bits(math.log2(magnitude), self.log_modulus(basis), str(basis))

    # ---- clear vectors and numbers ----

    def clear_scale(self, bound: float, scale: float, total: float | None) -> float:
        usual = float(2.0 ** (self.ring.scale_bits - self.mask_bits) / (bound if bound > 0 else 1.0))
        if total is None or total == scale * usual:  # the same whichever term comes first
            return usual
        return total / scale

    def addend(self, scale: float, bound: float) -> tuple[float, int]:
        """The integer is a power of two: coefficients have 62 bits at most."""
        bits = math.log2(scale * max(bound, 1.0))
        if bits == math.inf:
            _check_bits(bits, self._room[-1], "all limbs")
        factor = 1 << max(0, math.ceil(bits) - MAX_ENCODED_BITS)
        return scale / factor, factor

    def addend_error(self, scale: float, bound: float) -> float:
        return self.encoding_error(scale, 1.0, 1.0, bound)

    def check_encoded(self, scale: float, bounds: Iterable[float]) -> None:
        """Clear vectors are 62-bit integers; at the scale of one limb they always are."""
        if self.level_limbs == 1:
            return
        bound = max(bounds)
        if scale * bound > MAX_ENCODED:
            raise UnmatchedError(
                "Clear vectors are too large for the scale of a level of several limbs.",
                expected=f"2^{math.log2(MAX_ENCODED):.1f} at most",
                got=f"2^{math.log2(scale * bound):.1f}",
            )

    def encoding_error(self, scale: float, bound: float, norm: float, largest: float) -> float:
        return self._model.encoding(scale) * bound * norm + self._model.embedding(largest)

    def integer(self, value: float) -> int | None:
        """Integers up to 2^20 in absolute value."""
        return int(value) if value == int(value) and abs(value) <= MAX_SMALL_INTEGER else None

    def numbers(
        self, cts: Sequence[Handle], values: Sequence[float], scale: float, constant: float
    ) -> Numbers:
        factors: list[int] = []
        misses: list[float] = []
        bound, total, missed = abs(constant), SlotErrors(), 0.0
        for ct, value in zip(cts, values, strict=True):
            exact = value * scale / ct.scale
            factors.append(round(exact))
            floating = abs(exact) * FLOAT_ERROR
            misses.append(max(min(0.5, abs(exact - factors[-1]) + floating), floating))
            missed += misses[-1] * ct.bound * ct.scale / scale
            bound += ct.bound * abs(value)
            errors = ct.errors.times(abs(value))
            total = total.plus(errors) if len(factors) > 1 else errors
        if constant:
            missed += 0.5 / scale + abs(constant) * FLOAT_ERROR
        return Numbers(factors, misses, constant, bound, total.with_common(missed))

    def constant(self, value: float, scale: float, limbs: int) -> int:
        return round(value * scale)

    def residues(self, values: NDArray[np.float64], scale: float, limbs: int) -> NDArray[np.uint64]:
        message = np.rint(values * scale)
        if not np.isfinite(message).all():
            raise RangeError(
                "A clear matrix that is added must be finite, also times the scale.",
                expected="finite entries, also times the scale",
                got="NaN or infinity",
            )
        found = aligned_empty((limbs, *message.shape))
        for limb, q in enumerate(self.ring.q[:limbs]):
            signed = np.fmod(message, float(q)).astype(np.int64)  # exact: fmod does not round
            found[limb] = np.where(signed < 0, signed + int(q), signed).view(np.uint64)
        return found


def _met(x: RowsHandle, other: RowsHandle) -> tuple[float, Spread]:
    """Noise of the sums of errors of x that entries of another matrix weigh, and what is known of these together."""
    noise = other.scale * x.weighed_by(other)
    if math.isinf(other.norm):
        return noise, UNKNOWN
    spread = x.together.times(other.scale * other.norm)
    return min(noise, spread.noise), spread


def mismatch(scale: float, expected: float) -> float:
    """The relative difference of two scales."""
    return abs(scale / expected - 1)


def _check_bits(magnitude: float, room: float, where: str) -> None:
    if magnitude + 1 > room:
        raise LevelError(
            "The message does not fit the modulus.",
            expected=f"log2(scale · bound) below {room - 1:.1f} at {where}",
            got=f"{magnitude:.1f}",
        )


def _deviations(cts: Sequence[Handle]) -> list[float]:
    """Of each; those of fresh ciphertexts are one object."""
    if len({id(ct.errors) for ct in cts}) == 1:
        return [cts[0].errors.deviation] * len(cts)
    return [ct.errors.deviation for ct in cts]


# ---- how clear vectors are rounded ----


def dither(key: Hashable) -> int:
    """The seed of the rounding of a vector's coefficients, up or down by chance: the same for the same text of its key.
    Vectors of different keys have independent errors, whatever their values."""
    return int.from_bytes(hashlib.blake2b(repr(key).encode(), digest_size=8).digest(), "little") | 1


def rounding_norm(bounds: Sequence[float], keys: Sequence[Hashable] | None) -> float:
    """Norm of the errors that rounding clear vectors makes in a sum of products, in units of that of one slot.

    They are rounded up or down by chance (`dither`): those of different vectors are independent, those of equal ones
    are the same.

    Args:
        bounds: of the slots that each is multiplied by.
        keys: of the vectors; None: all different.
    """
    if keys is None:
        return math.sqrt(sum([bound * bound for bound in bounds]))
    together: dict[Hashable, float] = {}
    for bound, key in zip(bounds, keys, strict=True):
        together[key] = together.get(key, 0.0) + bound
    return math.sqrt(sum([bound * bound for bound in together.values()]))
