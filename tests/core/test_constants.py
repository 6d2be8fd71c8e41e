"""What Python and C++ both know has one value: the core tells it, or the text of its constant is compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cipherblas._core as _core
from cipherblas.common import gemm_paths, memory
from cipherblas.crypto import fields
from cipherblas.evaluators.rows import bookkeeping
from cipherblas.evaluators.slots import native
from cipherblas.rlwe import working_memory
from tests.support import reference_engine
from tests.support.core_constants import constant
from tests.support.ring_oracle import Ring

# Value in Python → file below cpp/, its constant there, and what is done to that.
PAIRS: dict[str, tuple[Any, str, str, Any]] = {
    "integers of narrow products": (gemm_paths.NARROW_LARGEST, "gemm/kernels.h", "kNarrowOffset", 0),
    "moduli of narrow products": (gemm_paths.NARROW_BITS, "gemm/kernels.h", "kNarrowBits", 0),
    "cost of bytes": (gemm_paths.BYTE_COST, "gemm/gemm.cpp", "kByteCost", 0),
    "integers of one byte": (gemm_paths.MAX_BYTE_VALUE, "gemm/byte_gemm.h", "kOneByte", 1),
    "residues of two bytes": ((gemm_paths.BYTE_MODULI[1] - 1) / 2, "gemm/byte_gemm.h", "kTwoBytes", 0),
    "bits of primes": (fields.MAX_PRIME_BITS, "arith/modulus.h", "kMaxModulusBits", 0),
    "bits of words": (reference_engine.MONTGOMERY_BITS, "arith/modulus.h", "kWordBits", 0),
    "moduli of a word": (fields.MODULI_OF_WORD, "gemm/operand_gemm.h", "kModuliOfWord", 0),
    "limbs beside operands": (fields.OPERAND_LIMBS, "gemm/operand_gemm.h", "kMostFractions", 0),
    "bits of a fraction": (
        *(bookkeeping.FRACTION_BITS[1], "gemm/operand_gemm.h", "kSecondFractionBits"),
        bookkeeping.FRACTION_BITS[0],
    ),
    "messages of operands": (fields.MAX_OPERAND_MESSAGE, "rlwe/row_segments.h", "kLargest", -1),
    "digits": (fields.MAX_LIMBS, "rlwe/context.h", "kMaxDigits", 0),
    "limbs of a digit": (fields.MAX_ALPHA, "ring/base_conversion.h", "kMaxSources", 0),
    "special limbs": (fields.MAX_SPECIAL_LIMBS, "ring/base_conversion.h", "kMaxSources", -1),
    "padding of lines": (working_memory.LINE_WORDS, "gemm/blocked.cpp", "kLineWords", 0),
    "alignment": (memory.ALIGNMENT, "ring/aligned.h", "kAlignment", 0),
}


@pytest.mark.parametrize("name", PAIRS)
def test_constants_are_those_of_the_core(name: str) -> None:
    value, file, constant_name, added = PAIRS[name]
    assert value == constant(file, constant_name) + added


def test_constants_that_the_core_tells_are_those_of_its_text() -> None:
    """So the reader of the text reads what it should."""
    assert constant("gemm/operand_gemm.h", "kOperandDepth") == _core.OPERAND_DEPTH
    assert constant("rlwe/transform.h", "kDroppedBytes") == _core.DROPPED_BYTES
    assert constant("ring/packing.h", "kHalfBits") == _core.HALF_WORD_BITS
    assert len(fields.OPERAND_MODULI) == _core.MOST_OPERAND_MODULI


def test_the_least_number_of_coefficients_is_what_the_core_takes() -> None:
    ring = Ring(n=64)
    ct = ring.random_ciphertext(1)
    for count, taken in ((native.MIN_COEFFICIENTS, True), (native.MIN_COEFFICIENTS // 2, False)):
        polynomials = np.ones((1, 1, count), np.int64)
        if taken:
            ring.context.polynomial_sums(polynomials, [ct])
        else:
            with pytest.raises(ValueError, match="polynomials"):
                ring.context.polynomial_sums(polynomials, [ct])


@pytest.mark.parametrize("log_n", [fields.MIN_LOG_N, fields.MAX_LOG_N])
def test_ring_degrees_are_what_the_core_takes(log_n: int) -> None:
    assert _core.primes(1 << log_n, 50, 1)
    beyond = log_n - 1 if log_n == fields.MIN_LOG_N else log_n + 1
    with pytest.raises(ValueError, match="ring degree"):
        _core.primes(1 << beyond, 50, 1)
