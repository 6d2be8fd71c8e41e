"""Errors of ciphertexts whose messages are integers modulo t: bounds on coefficients, which hold for whatever messages.

Such a ciphertext decrypts exactly while no coefficient of ω = t·phase/t reaches Q/2t, and not at all beyond. What is
followed is two bounds on ω, the message's own part [γ·m]_t/t included: its largest coefficient, and its norm over √N.
Sums add both up, automorphisms keep both, and a product obeys |x·y|_∞ ≤ |x|_2·|y|_2: no two errors are taken for
independent, so no choice of messages, nor one ciphertext in the place of several, makes a result wrong. Chance is in
the errors of single steps alone: each exceeds its bounds with a probability of 2^-EVENT_BITS, and so a result is wrong
with one of 2^-WRONG_BITS, of programs of up to 2^40 steps.
"""

from __future__ import annotations

import math

from cipherblas.rlwe.noise.coefficients import MAX_ERROR, SIGMA, CoefficientNoise
from cipherblas.rlwe.noise.slots import SlotErrors
from cipherblas.rlwe.noise.tails import tail
from cipherblas.rlwe.rings import Ring

WRONG_BITS = 128
EVENT_BITS = WRONG_BITS + 40
_NATS = EVENT_BITS * math.log(2)
# Of the mean of |s(ζ)|⁴ over that of |s(ζ)|², squared: 2 for a uniform ternary secret.
FOURTH_MOMENT = 3.0
MESSAGE = 0.5  # of [γ·m]_t/t, at most


class CoefficientErrors(SlotErrors):
    """Bounds on ω, with the algebra of `SlotErrors`: `own` is that of its norm over √N, `common` that of its largest
    coefficient."""

    __slots__ = ()

    @classmethod
    def of(cls, rms: float, largest: float) -> CoefficientErrors:
        """With these bounds; the first is never more than the second."""
        return cls(min(rms, largest), 0.0, largest)

    @property
    def deviation(self) -> float:
        """The largest coefficient: what must have room."""
        return self.common

    def largest(self, entries: int, bound: float) -> float:
        """None: what has room is decrypted exactly."""
        return 0.0

    def with_own(self, *more: float) -> CoefficientErrors:
        """With further errors, of coefficients up to so much."""
        return self.of(self.own + sum(more), self.common + sum(more))

    def with_common(self, more: float) -> CoefficientErrors:
        """As `with_own`."""
        return self.with_own(more)

    def everywhere(self) -> CoefficientErrors:
        """The same: nothing is independent of anything."""
        return self

    def share(self, parts: int) -> CoefficientErrors:
        """The same, at most."""
        return self

    def rotated(self) -> CoefficientErrors:
        """The same: an automorphism permutes coefficients, and changes signs."""
        return self

    def seen_once(self) -> CoefficientErrors:
        """The same."""
        return self

    def times(self, factor: float) -> CoefficientErrors:
        """Of ω times an integer."""
        return self.of(self.own * abs(factor), self.common * abs(factor))

    def plus(self, other: SlotErrors) -> CoefficientErrors:
        """Of a sum."""
        return self.of(self.own + other.own, self.common + other.common)

    def plus_distinct(self, other: SlotErrors) -> CoefficientErrors:
        """As `plus`."""
        return self.plus(other)

    def repeated(self, number: int) -> CoefficientErrors:
        """Of a sum of so many with these errors."""
        return self.times(number)

    def mapped(self, row_sum: float, row_norm: float) -> CoefficientErrors:
        """Of a sum of ciphertexts with these errors, times integers whose absolute values add up to `row_sum`."""
        return self.times(row_sum)


class ModularNoise:
    """Bounds on the errors that single steps add to ω, for one ring."""

    def __init__(self, ring: Ring) -> None:
        self.n = ring.n
        self.tail = tail(ring.n, EVENT_BITS)
        self._norm = math.sqrt(self._excess())
        self._errors_norm = 1 + 2 * math.sqrt(_NATS / ring.n) + 2 * _NATS / ring.n
        self._steps = CoefficientNoise(ring, float(ring.n), self._errors_norm)  # of any secret

    def of_rows(self, ring: Ring) -> CoefficientNoise:
        """Variances of steps by rows, whose errors meet the secret, and its square where it is multiplied twice:
        |s²|_2 is at most √`FOURTH_MOMENT` times the mean of |s|_2²."""
        return CoefficientNoise(ring, math.sqrt(FOURTH_MOMENT) * 2 / 3 * ring.n, self._errors_norm)

    def norm_excess(self, entries: int) -> float:
        """Of the norm of so many independent errors over its mean."""
        return math.sqrt(1 + 2 * math.sqrt(_NATS / entries) + 2 * _NATS / entries)

    def _excess(self) -> float:
        """Of the squared norm of r·s over its mean, r of independent coefficients: it is Σ|s(ζ)|²·|r(ζ)|²/N, a sum of
        squares with weights, which exceeds its mean by 2·|weights|_2·√x + 2·max(weights)·x with a probability of e^-x
        (Laurent, Massart). No |s(ζ)|² is more than `largest` times its mean (`tails.slot_tail`)."""
        x, n = _NATS, self.n
        largest = (x + math.log(4 * n)) / math.cos(math.pi / 8) ** 2
        return 1 + 2 * math.sqrt(min(FOURTH_MOMENT, largest) * 2 * x / n) + 2 * largest * x / n

    def _gaussian(self, variance: float) -> CoefficientErrors:
        deviation = math.sqrt(variance)
        return CoefficientErrors.of(self._norm * deviation, self.tail * deviation)

    def fresh(self, public_key: bool = False) -> CoefficientErrors:
        """A fresh ciphertext, its message included."""
        if not public_key:
            return CoefficientErrors.of(
                MESSAGE + SIGMA * math.sqrt(self._errors_norm), MESSAGE + float(MAX_ERROR)
            )
        found = self._gaussian(SIGMA**2 * (1 + 2 * self._steps.weight * self._errors_norm))
        return CoefficientErrors.of(MESSAGE + found.own, MESSAGE + found.common)

    def rounding(self, components: int = 2) -> CoefficientErrors:
        """Rounding of every component to integers after a division."""
        found = self._gaussian(self._steps.rounding(components))
        if components == 2:
            return found
        return CoefficientErrors.of(found.common, found.common)  # s² has a spectrum of its own

    def key_products(self, limbs: int) -> CoefficientErrors:
        """Σ_d digit_d · e_d / P, before the rounding of ModDown."""
        return self._gaussian(self._steps.key_products(limbs))
