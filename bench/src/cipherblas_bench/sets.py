"""Published parameter sets that benchmarks refer to."""

from __future__ import annotations

from dataclasses import dataclass

from cipherblas.crypto.params import Parameters, make_parameters

Shape = tuple[int, int, int]  # m, k, n
MODULUS_31_BITS = 2147352577  # of integers modulo t: the largest prime below 2^31 that is 1 mod 2^16


@dataclass(frozen=True)
class FameSet:
    """One of FAME's parameter sets (Table II) at 128-bit security, and its shapes (Table III).

    Ring degree, L + 1 limbs, k special limbs, limbs of a digit, and log2(QP), for which we take the paper's
    logQ (214 in place of 218 bits in set A, the largest at N = 2^13): all limbs are of one size.
    `diagonals` is the size of the transform that `bench linear-transform` times. `digits` is β of the table; set A runs
    with a digit for each limb, since one special limb divides no more than one.
    """

    n: int
    limbs: int
    special_limbs: int
    alpha: int
    digits: int
    log_qp: float
    diagonals: int
    shapes: tuple[Shape, ...]

    def parameters(self) -> Parameters:
        """The parameters; a scale 5 bits below the limbs leaves two of them room for a product of two scales."""
        bits = (self.log_qp - 0.01) / (self.limbs + self.special_limbs)
        return make_parameters(
            self.n,
            [bits] * self.limbs,
            special_bits=bits,
            special_limbs=self.special_limbs,
            alpha=self.alpha,
            scale_bits=bits - 5,
        )


def _shapes(size: int) -> tuple[Shape, ...]:
    return (size, size, 16), (size, 16, size), (16, size, size), (size, size, size)


FAME_SETS = {
    "A": FameSet(1 << 13, 5, 1, 1, 1, 214, 64, _shapes(64)),
    "B": FameSet(1 << 15, 16, 8, 8, 2, 855, 32, _shapes(128)),
    "C": FameSet(1 << 16, 32, 12, 11, 3, 1693, 16, _shapes(160)),
}
