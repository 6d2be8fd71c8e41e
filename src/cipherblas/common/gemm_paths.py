"""Which arithmetic a GEMM modulo q takes, by the sizes of its factors: float64, 52 bits, bytes."""

from __future__ import annotations

import math

GRAM_COLUMNS = 1024  # symmetric products modulo q are cut into halves until they have at most so many columns
FLOAT_BITS = 53  # up to which integers are exact in float64
# Integers, and moduli, whose products are below 2^52: `kNarrowOffset`, `kNarrowBits` of the core.
NARROW_LARGEST, NARROW_BITS = 1 << 15, 36
# Integers that are one signed byte; rows that products of bytes are worth it for; and moduli whose residues are two
# bytes each when they are multiplied by each other: above one byte, up to twice `kTwoBytes` of the core.
MAX_BYTE_VALUE, BYTE_ROWS = 128, 8
BYTE_COST = 0.14  # of a product of bytes, in products of float64: `kByteCost` of the core
BYTE_MODULI = (256.0, 2.0 * (127 * 2**8 + 127) + 1)


def float_passes(q: float, k: int, largest: float) -> int:
    """Exact float64 GEMMs of k products each of integers up to `largest` and residues modulo q: one for each digit."""
    spare = FLOAT_BITS - math.log2(largest * k)
    return max(1, math.ceil((math.log2(q) - 1) / max(spare, 1.0)))


def is_narrow(q: float, k: int, largest: float) -> bool:
    """Whether integers up to `largest` are multiplied with residues modulo q by one 52-bit multiply-add each, where the
    processor has that: float64 would take several."""
    return largest <= NARROW_LARGEST and q < 2**NARROW_BITS and float_passes(q, k, largest) > 1


def is_byte(q: float, k: int, largest: float) -> bool:
    """Whether the exact products of integers up to `largest` and residues modulo q are products of bytes, where the
    processor has that, and float64 would take longer."""
    return (
        largest <= MAX_BYTE_VALUE
        and q >= BYTE_MODULI[0]
        and BYTE_COST * bytes_of(q) < float_passes(q, k, largest)
    )


def bytes_of(q: float) -> int:
    """Bytes of a residue."""
    return math.ceil(math.log2(q) / 8)


def are_bytes(q: float) -> bool:
    """Whether residues modulo q are multiplied as two bytes each, where the processor has that: four products of bytes
    are half of a float64 one."""
    return BYTE_MODULI[0] <= q <= BYTE_MODULI[1]
