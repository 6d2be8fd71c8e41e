"""The noise model: standard deviations of slot errors, one real part, in units of the slot values.

An error polynomial with independent coefficients of standard deviation s has slot values of variance N·s², hence
s·sqrt(N/2) per real part; dividing by the scale gives value units. A result's error is read as at most
`TAIL` times the standard deviation.
"""

from __future__ import annotations

import math

from cipherblas.evaluators.shape import Ring

SIGMA = 3.2  # discrete Gaussian of fresh encryptions and keys
TAIL = 6.0
# A slot's value of a product with the secret or with a key's noise is a product of two nearly Gaussian numbers, with
# P(|x·y| > t) ≈ sqrt(π·t)·exp(-2t) in units of its rms: over 2^15 slots it reaches 9 deviations of its real part, and
# more over many ciphertexts. This factor brings that below TAIL.
PRODUCT_TAIL = 2.0


class NoiseModel:
    """Errors added by each operation, for one set of parameters."""

    def __init__(self, ring: Ring) -> None:
        n = ring.n
        self._slot = math.sqrt(n / 2)
        self._weight = 2 * n / 3  # expected Hamming weight of a uniform ternary secret
        self._n = n
        self._log_q = [math.log2(q) for q in ring.q]
        self._log_p = math.fsum(math.log2(p) for p in ring.p)
        self._alpha = ring.alpha
        self._switch: dict[int, float] = {}

    def fresh(self, scale: float, public_key: bool = False) -> float:
        """Encryption and the rounding of the encoding."""
        variance = SIGMA**2 + 1 / 12
        if public_key:  # v·e + e0 + e1·s
            variance += 2 * self._weight * SIGMA**2 * PRODUCT_TAIL**2
        return math.sqrt(variance) * self._slot / scale

    def encoding(self, scale: float) -> float:
        """Rounding of a plaintext's coefficients."""
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
