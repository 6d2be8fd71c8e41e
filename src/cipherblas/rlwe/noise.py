"""The noise model: standard deviations of slot errors, one real part, in units of the slot values.

An error polynomial with independent coefficients of standard deviation s has slot values of variance N·s², hence
s·sqrt(N/2) per real part; dividing by the scale gives value units.

Independent errors add up in squares, errors that may depend on each other by their absolute values: `SlotErrors` keeps
them apart. A result's error is read as at most `tail(entries)` times its deviation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from cipherblas.rlwe.rings import Ring

SIGMA = 3.2  # discrete Gaussian of fresh encryptions and keys
ROUNDING_VARIANCE = (
    1 / 4
)  # of rounding up or down by chance, so that equal values have unlike errors; at most
FAILURE_BITS = (
    40  # a prediction fails with a probability of at most 2^-40 for all entries of a result together
)


def tail(samples: float) -> float:
    """Deviations that the largest of so many Gaussian samples exceeds with a probability of 2^-FAILURE_BITS at most."""
    return math.sqrt(2 * math.log(2) * (FAILURE_BITS + 1 + math.log2(max(samples, 1.0))))


TAIL = tail(2.0**50)  # of the messages of a whole run, which must not wrap around
# A slot's value of a product with the secret or with a key's noise is a product of two nearly Gaussian numbers, with
# P(|x·y| > t) ≈ sqrt(π·t)·exp(-2t) in units of its rms. For n samples that is below 2^-FAILURE_BITS at 3.1 (n = 2^12)
# to 3.7 (n = 2^30) times as many deviations of its real part as a Gaussian needs.
PRODUCT_TAIL = 3.7
# Of float64 transforms between slots and coefficients, relative to the largest value: log2(N) roundings.
TRANSFORM_ERROR = 2.0**-49


def hamming_weight(n: int) -> float:
    """What the Hamming weight of a uniform ternary secret exceeds with a chance of 2^-FAILURE_BITS at most."""
    return min(float(n), 2 * n / 3 + math.sqrt(math.log(2) * FAILURE_BITS * n / 2))


def concentration(n: int) -> float:
    """What the squared norm of N errors exceeds its mean by, but for a chance of 2^-FAILURE_BITS (Laurent, Massart)."""
    x = math.log(2) * FAILURE_BITS / n
    return 1 + 2 * math.sqrt(x) + 2 * x


class SlotErrors(NamedTuple):
    """Standard deviations of the error of one slot, by what they depend on.

    Attributes:
        own: independent from slot to slot and from ciphertext to ciphertext: encryption, key switches, rounding.
        mixed: sums of such errors. Different slots may have the same ones: only sums over other terms of the same rows
            (`plus_distinct`) add them up in squares.
        common: may depend on each other in any way.
        aligned: `own` has not been moved to other slots: slot j of another ciphertext depends at most on slot j.
    """

    own: float = 0.0
    mixed: float = 0.0
    common: float = 0.0
    aligned: bool = True

    @property
    def deviation(self) -> float:
        """Of all together."""
        return math.hypot(self.own, self.mixed, self.common)

    @property
    def dependent(self) -> float:
        """What a sum over other slots or ciphertexts adds up by its absolute values."""
        return math.hypot(self.mixed, self.common)

    def with_own(self, *more: float) -> SlotErrors:
        """With further independent errors."""
        return self._replace(own=math.hypot(self.own, *more))

    def with_common(self, more: float) -> SlotErrors:
        """With a further error that may be the same everywhere."""
        return self._replace(common=self.common + more)

    def rotated(self) -> SlotErrors:
        """In other slots."""
        return self._replace(aligned=False)

    def times(self, factor: float) -> SlotErrors:
        """Of the slots times a number."""
        return self._replace(own=self.own * factor, mixed=self.mixed * factor, common=self.common * factor)

    def plus(self, other: SlotErrors) -> SlotErrors:
        """Of a sum of two ciphertexts, which may be the same one."""
        dependent = self.dependent + other.dependent
        if self.aligned and other.aligned:
            return SlotErrors(self.own + other.own, 0.0, dependent)
        return SlotErrors(0.0, 0.0, dependent + self.own + other.own)

    def plus_distinct(self, other: SlotErrors) -> SlotErrors:
        """Of a sum in which no slot's own errors occur twice."""
        mixed = math.hypot(self.own, other.own, self.mixed, other.mixed)
        return SlotErrors(0.0, mixed, self.common + other.common)

    def seen_once(self) -> SlotErrors:
        """Where the caller knows that rows of what follows see every mixed error once: they are own errors then."""
        return SlotErrors(math.hypot(self.own, self.mixed), 0.0, self.common, aligned=False)

    def mapped(self, row_sum: float, row_norm: float) -> SlotErrors:
        """Of Σ_z u_z·x_z with Σ|u_z| and sqrt(Σ|u_z|²) as given, x_z being slots or ciphertexts with these errors."""
        dependent = row_sum * self.dependent
        if row_sum <= row_norm * (1 + 1e-9):  # every slot of the result sees one of x
            return SlotErrors(row_norm * self.own, 0.0, dependent, aligned=False)
        return SlotErrors(0.0, row_norm * self.own, dependent)


def worst(errors: Iterable[SlotErrors]) -> SlotErrors:
    """The largest of each kind."""
    own, mixed, common, aligned = zip(*errors, strict=True)
    return SlotErrors(max(own), max(mixed), max(common), all(aligned))


class NoiseModel:
    """Errors added by each operation, for one set of parameters."""

    def __init__(self, ring: Ring) -> None:
        n = ring.n
        self._slot = math.sqrt(n / 2)
        self._weight = hamming_weight(n)
        self._n = n
        self._log_q = [math.log2(q) for q in ring.q]
        self._log_p = math.fsum(math.log2(p) for p in ring.p)
        self._alpha = ring.alpha
        self._switch: dict[int, float] = {}

    def fresh(self, scale: float, public_key: bool = False) -> float:
        """Encryption and the rounding of the encoding, up or down by chance."""
        variance = SIGMA**2 + ROUNDING_VARIANCE
        if public_key:  # v·e + e0 + e1·s
            variance += 2 * self._weight * SIGMA**2 * PRODUCT_TAIL**2
        return math.sqrt(variance) * self._slot / scale

    def encoding(self, scale: float) -> float:
        """Rounding of a plaintext's coefficients; equal plaintexts have equal errors."""
        return self._slot / math.sqrt(12) / scale

    def rounding(self, scale: float, components: int = 2) -> float:
        """Rounding of every component to integers after a division (rescale, ModDown)."""
        weight = self._weight
        if components == 3:
            weight += self._weight**2
        return PRODUCT_TAIL * math.sqrt((1 + weight) / 12) * self._slot / scale

    def key_switch(self, limbs: int, scale: float) -> float:
        """Σ_d digit_d · e_d / P, before the rounding of ModDown."""
        coefficient = self._switch.get(limbs)
        if coefficient is None:
            squares = 0.0
            for start in range(0, limbs, self._alpha):
                digit = math.fsum(self._log_q[start : min(start + self._alpha, limbs)])
                squares += 4.0 ** (digit - self._log_p)
            coefficient = PRODUCT_TAIL * SIGMA * math.sqrt(self._n / 12 * squares)
            self._switch[limbs] = coefficient
        return coefficient * self._slot / scale
