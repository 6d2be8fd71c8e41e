"""The noise model: every variance, every tail, and what is assumed of either, in one place.

`tails` says what a prediction "at most" means: with which probability it fails, for how many entries. `coefficients`
has the variances of encryption, key switching and division, per coefficient; `slots` turns them into errors of slots,
and follows how errors add up; `worst_case` bounds what nobody's choice of operands can exceed. `modular` bounds errors
of messages that are integers modulo t, which must not reach a limit, and do no harm below it.
"""

from cipherblas.crypto.security import SPARSE_WEIGHT
from cipherblas.rlwe.noise.coefficients import (
    MAX_ERROR,
    ROUNDING_VARIANCE,
    SIGMA,
    CoefficientNoise,
    fresh_bound,
    rounded_product,
    switch_bound,
)
from cipherblas.rlwe.noise.modular import WRONG_BITS, CoefficientErrors, ModularNoise
from cipherblas.rlwe.noise.slots import TRANSFORM_ERROR, MatrixSums, NoiseModel, SlotErrors, worst
from cipherblas.rlwe.noise.spread import UNKNOWN, Spread, spread_over
from cipherblas.rlwe.noise.tails import (
    FAILURE_BITS,
    PRODUCT_TAIL,
    TAIL,
    concentration,
    hamming_weight,
    slot_tail,
    tail,
)
from cipherblas.rlwe.noise.worst_case import WorstCoefficients, WorstSlots

__all__ = [
    "FAILURE_BITS",
    "MAX_ERROR",
    "PRODUCT_TAIL",
    "ROUNDING_VARIANCE",
    "SIGMA",
    "SPARSE_WEIGHT",
    "TAIL",
    "TRANSFORM_ERROR",
    "UNKNOWN",
    "WRONG_BITS",
    "CoefficientErrors",
    "CoefficientNoise",
    "MatrixSums",
    "ModularNoise",
    "NoiseModel",
    "SlotErrors",
    "Spread",
    "WorstCoefficients",
    "WorstSlots",
    "concentration",
    "fresh_bound",
    "hamming_weight",
    "rounded_product",
    "slot_tail",
    "spread_over",
    "switch_bound",
    "tail",
    "worst",
]
