"""What OpenFHE made of a request for parameters, which its interface does not tell: read from a serialised
context."""

from __future__ import annotations

import importlib.metadata
import json
import math
from typing import Any

import numpy
import openfhe

SPECIAL_BITS = 60  # of the special primes that OpenFHE chooses, as many as the largest digit needs


def version() -> str:
    """Name and version; those of the distribution, since older wheels do not say."""
    return f"openfhe {getattr(openfhe, '__version__', None) or importlib.metadata.version('openfhe')}"


def real_values(plain: Any) -> Any:
    """The real parts of a decrypted plaintext; older wheels know lists alone."""
    read = getattr(plain, "GetRealPackedValueArray", None)
    return read() if read is not None else numpy.array(plain.GetRealPackedValue())


class Built:
    """Ring degree, limbs, digits and log2 of the moduli of a context of CKKS with hybrid key switching."""

    def __init__(self, context: Any) -> None:
        built = json.loads(openfhe.Serialize(context, openfhe.JSON))["value0"]["ptr_wrapper"]["data"]["cc"]
        built = built["ptr_wrapper"]["data"]["value0"]
        ring = built["value0"]["value0"]["elp"]["ptr_wrapper"]["data"]
        moduli = [limb["ptr_wrapper"]["data"]["value0"]["cm"]["v"] for limb in ring["p"]]
        self.n: int = ring["value0"]["rd"]
        self.limbs, self.digits = len(moduli), int(built["dnum"])
        self.logq = sum(map(math.log2, moduli))

    def special_limbs(self, first_bits: int, scaling_bits: int) -> int:
        """Special primes for the sizes of the first prime and of the others that were asked for."""
        # The widest digit is the one with the first limb in it where that is longer.
        others = -(-self.limbs // self.digits) - 1
        return -(-(max(first_bits, scaling_bits) + others * scaling_bits) // SPECIAL_BITS)

    def key_bytes(self, first_bits: int, scaling_bits: int) -> int:
        """Of one switching key in memory: two ring elements for each digit, at all limbs and special ones."""
        return 2 * self.digits * (self.limbs + self.special_limbs(first_bits, scaling_bits)) * self.n * 8

    def describe(self, first_bits: int, scaling_bits: int) -> dict[str, Any]:
        """Fields of an answer."""
        return {
            "n": self.n,
            "logq": round(self.logq, 1),
            "logp": SPECIAL_BITS * self.special_limbs(first_bits, scaling_bits),
            "limbs": self.limbs,
            "digits": self.digits,
        }
