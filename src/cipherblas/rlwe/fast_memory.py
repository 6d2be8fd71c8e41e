"""What a product by linear transforms must keep in fast memory: FAME's cost model, Section III-B.

Bytes of ciphertexts; keys, diagonals and twiddle factors, which are read once and stream through, are not among them. A
product that finds less writes intermediate ciphertexts to memory and reads them again.
"""

from __future__ import annotations

from dataclasses import dataclass

from cipherblas.common.errors import ParameterError
from cipherblas.common.words import WORD_BYTES


def ring_degree(m: int, k: int, n: int) -> int:
    """The least N whose N/2 slots hold A (m × k), B (k × n) and the result: 2^⌈log2(2·max(m·k, k·n, m·n))⌉.

    Eq. 16 leaves out the result, and gives too small a ring where k is the least dimension.

    Raises:
        ParameterError: a dimension is below 1.
    """
    if min(m, k, n) < 1:
        raise ParameterError(
            "A product has no such dimensions.", expected="positive dimensions", got=(m, k, n)
        )
    return 1 << (2 * max(m * k, k * n, m * n) - 1).bit_length()


@dataclass(frozen=True)
class FastMemory:
    """Bytes that an operation needs at hand so that no intermediate ciphertext goes through memory (Eq. 17 to 24).

    Attributes:
        limb: N coefficients.
        limbs, extended, digits: ℓ + 1, ℓ + k + 1 and β.
        ciphertext: 2·(ℓ+1) limbs (Eq. 17).
        key: 2·β·(ℓ+k+1) limbs, which stream through (Eq. 18).
        key_switch: a ciphertext, and β digits of ℓ+k+1 limbs (Eq. 19).
        rotation: that, and one and a half ciphertexts (Eq. 20).
        first_transforms: of σ and τ, the coarse order: a rotation and three ciphertexts (Eq. 21).
        second_transforms: of ε^i and ω^i, likewise: a rotation and four (Eq. 22).
        product: that, and the sum of products (Eq. 23).
        by_limbs: a transform whose outer loop are limbs (MO-HLT): a ciphertext and β + 1 limbs (Eq. 24).
    """

    limb: float
    limbs: int
    extended: int
    digits: int
    ciphertext: float
    key: float
    key_switch: float
    rotation: float
    first_transforms: float
    second_transforms: float
    product: float
    by_limbs: float

    @classmethod
    def of(
        cls, n: int, limbs: int, special_limbs: int, digits: int, word_bytes: float = WORD_BYTES
    ) -> FastMemory:
        """The model of a ring.

        Args:
            n: ring degree N.
            limbs: ℓ + 1.
            special_limbs: k.
            digits: β.
            word_bytes: of one coefficient modulo one prime: eight in our memory, log2(q)/8 in the paper.
        """
        limb, extended = n * word_bytes, limbs + special_limbs
        ciphertext = 2 * limbs * limb
        key_switch = ciphertext + digits * extended * limb
        rotation = key_switch + 1.5 * ciphertext
        return cls(
            *(limb, limbs, extended, digits),
            ciphertext=ciphertext,
            key=2 * digits * extended * limb,
            key_switch=key_switch,
            rotation=rotation,
            first_transforms=rotation + 3 * ciphertext,
            second_transforms=rotation + 4 * ciphertext,
            product=rotation + 5 * ciphertext,
            by_limbs=ciphertext + (digits + 1) * limb,
        )

    def needed(self, order: str) -> float:
        """Of a transform, in the order of its loops: "limb" (MO-HLT) or "rotation" (coarse)."""
        return self.by_limbs if order == "limb" else self.first_transforms

    def spilled(self, fast: float, order: str, rotations: int) -> float:
        """Bytes of ciphertexts that a transform moves because there are but so many of fast memory.

        By limbs, every limb that ModUp makes reads all of its sources: what does not fit comes from memory each time.
        By rotations, every rotation reads the digits and a, and reads and writes the two sums.
        """
        lacking = max(0.0, self.needed(order) - fast)
        if order == "limb" or not lacking:
            return lacking * self.extended
        return rotations * (self.digits * self.extended + self.limbs + 4 * self.extended) * self.limb

    def passing(self, rotated: bool = True, rescaled: bool = True) -> int:
        """Limbs of ciphertexts that a transform moves in any order: its input, its output, and those that ModDown
        divides by, which are written and read."""
        divided = 2 * ((self.extended - self.limbs) * rotated + rescaled)
        return 2 * self.limbs + 2 * (self.limbs - rescaled) + 2 * divided

    def traffic(self, fast: float, order: str, rotations: int, plains: int) -> float:
        """Bytes that a transform moves: a key for each rotation, diagonals in NTT form, ciphertexts."""
        read = rotations * self.key + plains * self.extended * self.limb
        return read + self.passing(rotations > 0) * self.limb + self.spilled(fast, order, rotations)
