"""The largest errors that single steps add, whatever the operands: for results that are shared.

What stays random is what the honest client draws and what no operand can steer: the errors of encryptions and keys, the
secret, and residues modulo the primes of ciphertexts, as far as they are rounded or cut into digits. A bound on one of
them fails with a probability of 2^-WORST_BITS at most.
"""

from __future__ import annotations

import math

from cipherblas.crypto.families import ENCAPSULATION_MARGIN_BITS
from cipherblas.crypto.security import SPARSE_WEIGHT
from cipherblas.rlwe.noise.coefficients import MAX_ERROR, SIGMA, UNIFORM_VARIANCE, CoefficientNoise
from cipherblas.rlwe.noise.tails import slot_tail, tail
from cipherblas.rlwe.rings import Ring

WORST_BITS = 104
# ‖e‖² of N errors exceeds its mean N·σ² by less than itself, and so do the rounding errors of N float64 sums.
NORM = math.sqrt(2)


class WorstSlots:
    """Of complex slots, in units of the integer message."""

    def __init__(self, ring: Ring) -> None:
        n, self._coefficients = ring.n, CoefficientNoise(ring)
        most = slot_tail(1.0, WORST_BITS)
        self.secret = most * math.sqrt(2 / 3 * n)
        self.error = most * SIGMA * math.sqrt(n)  # of an encryption or a key
        self.encoding = float(n)  # every coefficient is rounded by less than 1, in whichever direction
        self._residues = most * math.sqrt(n * UNIFORM_VARIANCE)  # uniform in [-1/2, 1/2]
        # A switch to the sparse secret: one digit, and the rounding of both components.
        self.encapsulation = self._residues * (
            1 + SPARSE_WEIGHT + 2.0**-ENCAPSULATION_MARGIN_BITS * self.error
        )
        # One back, of coefficients below q_0.
        self.raising = self._coefficients.raised_digit * self._residues * self.error
        # Fourier transforms and sums in double precision, of vectors of up to 1 in absolute value.
        self.float = 2.0**-53 * math.sqrt(n) * (4 * math.log2(n) + 4)

    def fresh(self, message: float, public_key: bool) -> float:
        """Encryption, and the rounding of the encoding."""
        error = self.error + self.encoding + self.float * message
        if public_key:  # v·e + e0 + e1·s
            error += 2 * self.secret * self.error
        return error

    def plain(self, message: float) -> float:
        """The rounding of a plaintext."""
        return self.encoding + self.float * message

    def rounding(self, components: int = 2) -> float:
        """Division of every component."""
        return self._residues * sum(self.secret**power for power in range(components))

    def key_switch(self, limbs: int) -> float:
        """Σ_d digit_d · e_d / P, before the rounding of ModDown."""
        return sum(self._coefficients.digits(limbs)) * self._residues * self.error


class WorstCoefficients:
    """Of one coefficient, in units of the integer message."""

    def __init__(self, ring: Ring) -> None:
        self._n, self._coefficients = ring.n, CoefficientNoise(ring, weight=float(ring.n))
        self._most = tail(1.0, WORST_BITS)

    def fresh(self, public_key: bool) -> float:
        """Encryption. With the public key v·e + e0 + e1·s, of which v·e has an error of the key, see `NORM`."""
        if not public_key:
            return MAX_ERROR
        return self._most * SIGMA * math.sqrt((1 + NORM**2) * self._n + 1)

    def sums(self, deviation: float) -> float:
        """Rounding errors of float64 sums of this deviation."""
        return self._most * NORM * deviation

    def rounding(self) -> float:
        """The rounding of both components to integers after a division."""
        return self._most * math.sqrt(self._coefficients.rounding())

    def switch(self, limbs: int) -> float:
        """One key switch: digits uniform below half their moduli times errors, and the rounding of both components."""
        digits = sum(self._coefficients.digits(limbs))
        products = digits * NORM * SIGMA * math.sqrt(self._n * UNIFORM_VARIANCE)
        return self._most * (products + math.sqrt(self._coefficients.rounding()))
