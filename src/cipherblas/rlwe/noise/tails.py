"""How many deviations an error may have: one rule, of a probability to fail and a number of entries."""

from __future__ import annotations

import math

FAILURE_BITS = (
    40  # a prediction fails with a probability of at most 2^-40 for all entries of a result together
)


def tail(samples: float, bits: float = FAILURE_BITS) -> float:
    """Return t such that the largest of `samples` Gaussian (or sub-Gaussian) samples exceeds t deviations with a
    probability of at most 2^-bits. Each sample exceeds them with a probability of at most 2·exp(-t²/2)."""
    return math.sqrt(2 * math.log(2) * (bits + 1 + math.log2(max(samples, 1.0))))


def slot_tail(samples: float, bits: float = FAILURE_BITS) -> float:
    """The same of complex slots of polynomials with independent coefficients, in units of sqrt(N) deviations of one of
    them: the absolute value of a slot exceeds t of them with 8·exp(-(t·cos(π/8))²) at most, by the union over eight
    directions."""
    return math.sqrt(math.log(2) * (bits + 3 + math.log2(max(samples, 1.0)))) / math.cos(math.pi / 8)


TAIL = tail(2.0**50)  # of the messages of a whole run, which must not wrap around
# A slot's value of a product with the secret or with a key's noise is a product of two nearly Gaussian numbers, with
# P(|x·y| > t) ≈ sqrt(π·t)·exp(-2t) in units of its rms. For n samples that is below 2^-FAILURE_BITS at 3.1 (n = 2^12)
# to 3.7 (n = 2^30) times as many deviations of its real part as a Gaussian needs.
PRODUCT_TAIL = 3.7


def hamming_weight(n: int) -> float:
    """Bound on the Hamming weight of a uniform ternary secret; it fails with a chance of at most 2^-FAILURE_BITS."""
    return min(float(n), 2 * n / 3 + math.sqrt(math.log(2) * FAILURE_BITS * n / 2))


def concentration(n: int) -> float:
    """Return the excess of the squared norm of N errors over its mean, but for a chance of 2^-FAILURE_BITS (Laurent,
    Massart)."""
    x = math.log(2) * FAILURE_BITS / n
    return 1 + 2 * math.sqrt(x) + 2 * x
