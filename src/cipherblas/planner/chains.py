"""Chains of primes for bootstrapping: their segments, and sets that reach 128 bits of security."""

from __future__ import annotations

from dataclasses import dataclass

from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.methods.bootstrapping.modular_reduction import ModularReduction
from cipherblas.methods.bootstrapping.refresh import Bootstrapping


@dataclass(frozen=True)
class Chain:
    """Sizes of the primes, in bits, by what spends them.

    Attributes:
        log_n: log2 N.
        method: how ciphertexts are refreshed.
        base_bits: of q_0.
        down_bits: of the limbs of slots to coefficients.
        scale_bits: of the working levels, and log2 of the scale.
        working: levels between a refresh and the next one.
        up_bits: of the limbs of EvalMod and of coefficients to slots.
        alpha: limbs per digit of key switching.
    """

    log_n: int
    method: Bootstrapping
    base_bits: float
    down_bits: float
    scale_bits: float
    working: int
    up_bits: float
    alpha: int

    @property
    def q_bits(self) -> tuple[float, ...]:
        """From q_0 on."""
        down, up = len(self.method.down), self.method.levels_after
        working = (self.scale_bits,) * self.working
        return (self.base_bits, *(self.down_bits,) * down, *working, *(self.up_bits,) * up)

    @property
    def limbs_before(self) -> int:
        """Of a ciphertext that is refreshed."""
        return 1 + self.method.levels_before

    @property
    def limbs_after(self) -> int:
        """Of a ciphertext that was refreshed."""
        return self.limbs_before + self.working

    def parameters(self, security: int = 128, insecure: bool = False) -> Parameters:
        """Real primes, checked against the security table."""
        return make_parameters(
            1 << self.log_n,
            self.q_bits,
            alpha=self.alpha,
            scale_bits=self.scale_bits,
            security=security,
            insecure=insecure,
        )


# The largest ring has 15 working levels, the smaller one is for up to 2^14 numbers and few levels.
CHAINS = {
    16: Chain(
        16,
        Bootstrapping((5, 5, 5), (4, 4, 4, 3), ModularReduction(14, 119, 0)),
        *(50.0, 34.0, 40.0, 15, 49.0, 8),
    ),
    15: Chain(
        15,
        Bootstrapping((7, 7), (5, 5, 4), ModularReduction(14, 119, 0), ratio_bits=12.0),
        *(50.0, 34.0, 38.0, 3, 47.0, 3),
    ),
}
