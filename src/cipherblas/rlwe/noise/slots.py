"""Standard deviations of slot errors, one real part, in units of the slot values.

An error polynomial with independent coefficients of standard deviation s has slot values of variance N·s², hence
s·sqrt(N/2) per real part; dividing by the scale gives value units.

Independent errors add up in squares, errors that may depend on each other by their absolute values: `SlotErrors` keeps
them apart. A result's error is read as at most `tail(entries)` times its deviation.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import NamedTuple

from cipherblas.crypto.security import SPARSE_WEIGHT
from cipherblas.rlwe.noise.coefficients import CHANCE_VARIANCE, CoefficientNoise
from cipherblas.rlwe.noise.tails import PRODUCT_TAIL, tail
from cipherblas.rlwe.rings import NominalFamily, Ring, limbs_of_level

# Of float64 transforms between slots and coefficients, relative to the largest value: log2(N) roundings.
TRANSFORM_ERROR = 2.0**-49
# One of their roundings. Their standard deviation is that of log2(N) of them, of values whose root mean square is the
# largest value. Equal values have equal errors, wherever they lie. Scales of one limb take all of `TRANSFORM_ERROR` for
# it, which is far less than what they round; those of several do not.
TRANSFORM_ROUNDING = 2.0**-53


class SlotErrors(NamedTuple):
    """Standard deviations of the error of one slot, by the quantities that they depend on.

    Attributes:
        own: independent from slot to slot and from ciphertext to ciphertext: encryption, key switches, rounding.
        mixed: sums of such errors. Different slots may have the same ones: only sums over other terms of the same rows
            (`plus_distinct`) add them up in squares.
        common: may depend on each other in any way.
        aligned: `own` has not been moved to other slots: slot j of another ciphertext depends at most on slot j.
        covered: the part of `common` that `spread` is about.
        spread: deviation of any combination of these errors of the ciphertext's entries, of squares that add up to one.
    """

    own: float = 0.0
    mixed: float = 0.0
    common: float = 0.0
    aligned: bool = True
    covered: float = 0.0
    spread: float = 0.0

    @property
    def deviation(self) -> float:
        """Of all together."""
        return math.hypot(self.own, self.mixed, self.common)

    @property
    def dependent(self) -> float:
        """The errors that a sum over other slots or ciphertexts adds by their absolute values."""
        return self.covered + math.hypot(self.mixed, self.common - self.covered)

    def largest(self, entries: int, bound: float) -> float:
        """Bound on the errors of so many slots up to a bound together, but for a chance of 2^-FAILURE_BITS."""
        return tail(entries) * self.deviation + TRANSFORM_ERROR * bound

    def with_own(self, *more: float) -> SlotErrors:
        """Return these errors with further independent errors added."""
        return SlotErrors(math.hypot(self.own, *more), *self[1:])

    def with_common(self, more: float) -> SlotErrors:
        """With a further error that may be the same everywhere."""
        return SlotErrors(self.own, self.mixed, self.common + more, *self[3:])

    def with_spread(self, other: SlotErrors) -> SlotErrors:
        """With further errors, of which a combination of entries is known."""
        covered, spread = self.covered + other.covered, self.spread + other.spread
        return self._replace(common=self.common + other.dependent, covered=covered, spread=spread)

    def everywhere(self) -> SlotErrors:
        """The same errors, which may be those of other ciphertexts too."""
        return SlotErrors(common=self.deviation, aligned=self.aligned)

    def share(self, parts: int) -> SlotErrors:
        """Of one of so many parts that are slots of their own: added up by `plus_distinct`, they have these errors."""
        root = math.sqrt(parts)
        return SlotErrors(self.own / root, self.mixed / root, self.common / parts, self.aligned)

    def rotated(self) -> SlotErrors:
        """In other slots."""
        return SlotErrors(self.own, self.mixed, self.common, aligned=False)

    def times(self, factor: float) -> SlotErrors:
        """Of the slots times a number."""
        own, mixed, common, aligned, covered, spread = self
        return SlotErrors(
            own * factor, mixed * factor, common * factor, aligned, covered * factor, spread * factor
        )

    def plus(self, other: SlotErrors) -> SlotErrors:
        """Of a sum of two ciphertexts, which may be the same one."""
        dependent = self.dependent + other.dependent
        known = self.covered + other.covered, self.spread + other.spread
        if self.aligned and other.aligned:
            return SlotErrors(self.own + other.own, 0.0, dependent, True, *known)
        return SlotErrors(0.0, 0.0, dependent + self.own + other.own, True, *known)

    def plus_distinct(self, other: SlotErrors) -> SlotErrors:
        """Of a sum in which no slot's own errors occur twice."""
        mixed = math.hypot(self.own, other.own, self.mixed, other.mixed)
        known = self.covered + other.covered, self.spread + other.spread
        return SlotErrors(0.0, mixed, self.common + other.common, True, *known)

    def repeated(self, number: int) -> SlotErrors:
        """Of a sum of so many with these errors, in which no slot's own errors occur twice."""
        own_and_mixed = math.hypot(self.own, self.mixed) * math.sqrt(number)
        return SlotErrors(0.0, own_and_mixed, self.common * number)

    def seen_once(self) -> SlotErrors:
        """Where the caller knows that rows of what follows see every mixed error once: they are own errors then."""
        return SlotErrors(math.hypot(self.own, self.mixed), 0.0, self.common, aligned=False)

    def mapped(self, row_sum: float, row_norm: float) -> SlotErrors:
        """Of Σ_z u_z·x_z with Σ|u_z| and sqrt(Σ|u_z|²) as given, x_z being slots or ciphertexts with these errors."""
        dependent = row_sum * self.dependent
        if row_sum <= row_norm * (1 + 1e-9):  # every slot of the result sees one of x
            return SlotErrors(row_norm * self.own, 0.0, dependent, aligned=False)
        return SlotErrors(0.0, row_norm * self.own, dependent)

    def multiplied(self, sums: MatrixSums, entries: int, parts: int) -> SlotErrors:
        """Of a product of a matrix and one of so many entries in so many ciphertexts that have these errors: by the
        largest error and the sums of rows, and by combinations of errors and the norm, whichever is less."""
        alone, moved = (self.own, 0.0) if self.aligned else (0.0, self.own)
        others = math.sqrt(entries) * math.hypot(moved, self.mixed, self.common - self.covered)
        spread = sums.norm * (math.hypot(alone, others) + math.sqrt(parts) * self.spread)
        largest = min(math.hypot(sums.row_norm * self.own, sums.row_sum * self.dependent), spread)
        return SlotErrors(common=largest, covered=largest, spread=spread)


class MatrixSums(NamedTuple):
    """Bounds on a matrix: the largest sum of absolute values in a row, root of a sum of squares in a row, and singular
    value."""

    row_sum: float
    row_norm: float
    norm: float


def worst(errors: Iterable[SlotErrors]) -> SlotErrors:
    """Return the largest deviation of each kind; errors of one kind of plaintexts."""
    every = list(errors)
    kind = type(every[0])
    own, mixed, common, aligned, covered, spread = zip(*every, strict=True)
    if not any(covered):
        return kind(max(own), max(mixed), max(common), all(aligned))
    largest, rest = max(covered), max(map(operator.sub, common, covered))
    return kind(max(own), max(mixed), rest + largest, all(aligned), largest, max(spread))


class NoiseModel:
    """Errors added by each operation, for one set of parameters."""

    def __init__(self, ring: Ring) -> None:
        self._slot = math.sqrt(ring.n / 2)
        self._coefficients = CoefficientNoise(ring)
        self._ring = ring
        self._fine = limbs_of_level(ring) > 1
        deviation = TRANSFORM_ROUNDING * math.sqrt(math.log2(ring.n))
        self._transform = deviation if self._fine else TRANSFORM_ERROR
        self._switch: dict[int, float] = {}
        self._rounding: dict[int, float] = {}  # by components
        self._encrypted: dict[tuple[float, float, bool], SlotErrors] = {}

    def fresh(self, scale: float, public_key: bool = False) -> float:
        """Encryption and the rounding of the encoding, up or down by chance."""
        # What a squared norm exceeds its mean by is part of the tail of products.
        variance = self._coefficients.fresh(public_key, gain=PRODUCT_TAIL, excess=1.0)
        return math.sqrt(variance) * self._slot / scale

    def encrypted(self, scale: float, bound: float, public_key: bool = False) -> SlotErrors:
        """Of a fresh ciphertext with slots up to a bound; the same object for like ciphertexts."""
        key = (scale, bound, public_key)
        if key not in self._encrypted:
            self._encrypted[key] = SlotErrors(self.fresh(scale, public_key), common=bound * self._transform)
        return self._encrypted[key]

    def encoding(self, scale: float) -> float:
        """Rounding of a clear vector's coefficients, up or down by chance: vectors of one key have equal errors, those
        of different keys independent ones."""
        return math.sqrt(CHANCE_VARIANCE) * self._slot / scale

    def embedding(self, bound: float) -> float:
        """Return the error of a sum of products up to `bound` by the transforms of clear vectors in double precision.
        Equal vectors have equal errors. Where levels have one limb, coefficients are rounded far more coarsely, and
        this error is not counted."""
        return bound * self._transform if self._fine else 0.0

    def rounding(self, scale: float, components: int = 2) -> float:
        """Rounding of every component to integers after a division (rescale, ModDown)."""
        coefficient = self._rounding.get(components)
        if coefficient is None:
            coefficient = PRODUCT_TAIL * math.sqrt(self._coefficients.rounding(components))
            self._rounding[components] = coefficient
        return coefficient * self._slot / scale

    def encapsulation(self, scale: float) -> float:
        """A switch to the sparse secret at q_0."""
        variance = CoefficientNoise(NominalFamily(self._ring).sparse, SPARSE_WEIGHT).switch(1)
        return PRODUCT_TAIL * math.sqrt(variance) * self._slot / scale

    def raising(self, scale: float) -> float:
        """A switch from the sparse secret of coefficients below q_0, before the rounding of ModDown."""
        variance = self._coefficients.raising(excess=1.0)
        return PRODUCT_TAIL * math.sqrt(variance) * self._slot / scale

    def key_switch(self, limbs: int, scale: float) -> float:
        """Σ_d digit_d · e_d / P, before the rounding of ModDown."""
        coefficient = self._switch.get(limbs)
        if coefficient is None:
            coefficient = PRODUCT_TAIL * math.sqrt(self._coefficients.key_products(limbs, excess=1.0))
            self._switch[limbs] = coefficient
        return coefficient * self._slot / scale
