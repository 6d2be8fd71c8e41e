"""What a product by linear transforms must keep in fast memory: FAME's cost model, Section III-B.

Bytes of ciphertexts; keys, diagonals and twiddle factors, which are read once and stream through, are not among them. A
product that finds less writes intermediate ciphertexts to memory and reads them again.
"""

from __future__ import annotations

from dataclasses import dataclass

from cipherblas.common.errors import ParameterError

WORD_BYTES = 8.0


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
        ciphertext: 2·(ℓ+1) limbs (Eq. 17).
        key: 2·β·(ℓ+k+1) limbs, which stream through (Eq. 18).
        key_switch: a ciphertext, and β digits of ℓ+k+1 limbs (Eq. 19).
        rotation: that, and one and a half ciphertexts (Eq. 20).
        first_transforms: of σ and τ, the coarse order: a rotation and three ciphertexts (Eq. 21).
        second_transforms: of ε^i and ω^i, likewise: a rotation and four (Eq. 22).
        product: that, and the sum of products (Eq. 23).
        by_limbs: a transform whose outer loop are limbs (MO-HLT): a ciphertext and β + 1 limbs (Eq. 24).
    """

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
        limb = n * word_bytes
        ciphertext, extended = 2 * limbs * limb, (limbs + special_limbs) * limb
        key_switch = ciphertext + digits * extended
        rotation = key_switch + 1.5 * ciphertext
        return cls(
            ciphertext=ciphertext,
            key=2 * digits * extended,
            key_switch=key_switch,
            rotation=rotation,
            first_transforms=rotation + 3 * ciphertext,
            second_transforms=rotation + 4 * ciphertext,
            product=rotation + 5 * ciphertext,
            by_limbs=ciphertext + (digits + 1) * limb,
        )
