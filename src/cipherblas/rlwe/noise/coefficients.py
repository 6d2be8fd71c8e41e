"""Variances of the errors of one coefficient, in units of the integer message.

A sum over coefficients of products with the secret, or with an error of a key, has N terms and is nearly Gaussian; the
secret has a weight and the error a squared norm that are known but for a small chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import cipherblas._core as _core
from cipherblas.crypto.digits import digit_ranges
from cipherblas.rlwe.noise.tails import concentration, hamming_weight, tail
from cipherblas.rlwe.rings import NominalFamily, Ring

SIGMA = _core.NOISE_SIGMA  # discrete Gaussian of fresh encryptions and keys
MAX_ERROR = _core.LARGEST_NOISE  # the sampler's table ends there
UNIFORM_VARIANCE = 1 / 12  # of what rounding to the nearest integer leaves
# Of rounding up or down by chance, so that equal values have unlike errors; at most.
ROUNDING_VARIANCE = 1 / 4
# The same of numbers whose fractions are uniform: coefficients of a clear vector are, or they are integers but for some
# roundings of float64, as many are of a vector with few different slots.
CHANCE_VARIANCE = 1 / 6


def rounded_product(k: int, largest: float, moduli: Iterable[float]) -> float:
    """Root mean square of the errors of sums of k products of integers up to `largest` and residues, where these may be
    rounded: what plans count, and engines may not exceed."""
    return max(_core.small_gemm_rms(k, largest, q) for q in moduli)


class CoefficientNoise:
    """Variances of what single steps add.

    Args:
        weight: of the secret; by default that of a uniform ternary one, at most.
        excess: of the squared norm of an error over its mean; by default `concentration`.
    """

    def __init__(self, ring: Ring, weight: float | None = None, excess: float | None = None) -> None:
        self._ring, self._n, self._alpha, self._digit_limbs = ring, ring.n, ring.alpha, ring.digit_limbs
        self.weight = hamming_weight(ring.n) if weight is None else weight
        self._excess = concentration(ring.n) if excess is None else excess
        self._log_q = [math.log2(q) for q in ring.q]
        self._log_p = math.fsum(math.log2(p) for p in ring.p)
        self._digits: dict[int, list[float]] = {}

    def digits(self, limbs: int) -> list[float]:
        """The moduli of the digits of key switching at so many limbs, each divided by P."""
        if limbs not in self._digits:
            log_digits = (
                math.fsum(self._log_q[digit.start : digit.stop])
                for digit in digit_ranges(limbs, self._alpha, self._digit_limbs)
            )
            self._digits[limbs] = [2.0 ** (log_digit - self._log_p) for log_digit in log_digits]
        return self._digits[limbs]

    def fresh(self, public_key: bool = False, gain: float = 1.0, excess: float | None = None) -> float:
        """Encryption, and the rounding of the message up or down by chance; with the public key v·e + e0 + e1·s.

        Args:
            gain: on the deviation of products, where they are no Gaussians (`PRODUCT_TAIL`).
            excess: in the place of the usual one.
        """
        variance = SIGMA**2 + ROUNDING_VARIANCE
        if public_key:
            excess = self._excess if excess is None else excess
            variance += 2 * self.weight * excess * SIGMA**2 * gain**2
        return variance

    def rounding(self, components: int = 2) -> float:
        """Rounding of every component to integers after a division (rescale, ModDown): one of them meets the secret, a
        third one its square."""
        weight = self.weight + (self.weight**2 if components == 3 else 0.0)
        return (1 + weight) * UNIFORM_VARIANCE

    def key_products(self, limbs: int, excess: float | None = None) -> float:
        """Σ_d digit_d · e_d / P, before the rounding of ModDown: digits uniform below half their moduli."""
        squares = sum(digit**2 for digit in self.digits(limbs))
        excess = self._excess if excess is None else excess
        return self._n * UNIFORM_VARIANCE * squares * SIGMA**2 * excess

    def raising(self, excess: float | None = None) -> float:
        """`key_products` of coefficients below q_0 whose modulus was raised: one digit, in a ring of its own."""
        excess = self._excess if excess is None else excess
        return self._n * UNIFORM_VARIANCE * self.raised_digit**2 * SIGMA**2 * excess

    @property
    def raised_digit(self) -> float:
        """q_0 over the special primes beside it there."""
        return float(self._ring.q[0]) / math.prod(NominalFamily(self._ring).raising.p)

    def switch(self, limbs: int, terms: int = 1) -> float:
        """A sum of `terms` key switches, divided by P once."""
        return terms * self.key_products(limbs) + self.rounding()


# Bounds on one coefficient of coefficient formats, whatever the weight of the secret: they fail with a probability of
# 2^-COEFFICIENT_BITS at most.
COEFFICIENT_BITS = 50


def _any_secret(ring: Ring) -> CoefficientNoise:
    return CoefficientNoise(ring, weight=float(ring.n))


def fresh_bound(ring: Ring, public_key: bool = False) -> float:
    """Encryption, and the rounding of the message; with the secret key the error is one sample."""
    if not public_key:
        return MAX_ERROR + 0.5
    return tail(1.0, COEFFICIENT_BITS) * math.sqrt(_any_secret(ring).fresh(public_key)) + 0.5


def switch_bound(ring: Ring, limbs: int) -> float:
    """Error of a key switch."""
    return tail(1.0, COEFFICIENT_BITS) * math.sqrt(_any_secret(ring).switch(limbs))
