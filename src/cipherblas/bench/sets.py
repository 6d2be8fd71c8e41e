"""Published parameter sets and cost models that benchmarks refer to."""

from __future__ import annotations

from dataclasses import dataclass

from cipherblas.crypto.params import Parameters, make_parameters

Shape = tuple[int, int, int]  # m, k, n


@dataclass(frozen=True)
class FameSet:
    """One of FAME's parameter sets (Table II) at 128-bit security, and its shapes (Table III).

    Ring degree, L + 1 limbs, k special limbs, limbs of a digit, and log2(QP), for which we take the paper's
    logQ (214 in place of 218 bits in set A, the largest at N = 2^13): all limbs are of one size.
    `diagonals` is the size of the transform that `bench linear-transform` times.
    """

    n: int
    limbs: int
    special_limbs: int
    alpha: int
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
    "A": FameSet(1 << 13, 5, 1, 1, 214, 64, _shapes(64)),
    "B": FameSet(1 << 15, 16, 8, 8, 855, 32, _shapes(128)),
    "C": FameSet(1 << 16, 32, 12, 11, 1693, 16, _shapes(160)),
}


def fast_memory(
    n: int, limbs: int, special_limbs: int, digits: int, word_bytes: float = 8.0
) -> dict[str, float]:
    """Bytes of ciphertext that must stay in fast memory, by FAME's cost model (Section III-B, Eq. 17 to 24).

    ct = 2·(ℓ+1)·N·w; KeySwitch = ct + 0.5·β·ct(L+k+1 limbs); Rot = KeySwitch + 1.5·ct; the transforms of the
    product's first step = Rot + 3·ct, of its second step = Rot + 4·ct, the whole product = that + ct; with
    MO-HLT ct + (β+1) limbs.
    """
    ct = 2 * limbs * n * word_bytes
    key_switch = ct + 0.5 * digits * 2 * (limbs + special_limbs) * n * word_bytes
    rotation = key_switch + 1.5 * ct
    return {
        "ciphertext": ct,
        "key_switch": key_switch,
        "rotation": rotation,
        "coarse_step_1": rotation + 3 * ct,
        "coarse_step_2": rotation + 4 * ct,
        "product": rotation + 5 * ct,
        "mo_hlt": ct + (digits + 1) * n * word_bytes,
    }
