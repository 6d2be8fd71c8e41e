"""What errors of parameters say to write is written, and makes parameters."""

from __future__ import annotations

from typing import Any

import pytest

from cipherblas.common.errors import CipherblasError
from cipherblas.crypto.params import Parameters, make_parameters

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")
Q, SECURE = (97, 193, 353), make_parameters(1 << 13, [50.0, 40.0, 40.0])
WIDE = make_parameters(1 << 12, [49.5, 17.0], 50.0, 1, key_limbs=1)


def of(**fields: Any) -> Parameters:
    """Three primes and a special one in a tiny ring, with other fields."""
    given = {"n": 16, "q": Q, "p": (257,), "alpha": 1, "scale_bits": 6.0, "security": 0, "insecure": True}
    return Parameters(**{**given, **fields})


def make(*q_bits: float, n: int = 1 << 13, **options: Any) -> Parameters:
    return make_parameters(n, q_bits or (40.0, 40.0), **options)


PRIMES = {
    "q and p that make_parameters(n, q_bits) chooses": "make_parameters(16, [7.0, 8.0], security=0, insecure=True)"
}
ALL_KEYS = {"key_limbs=None, for all limbs": "of(key_limbs=None)"}
DICTIONARY = {"the dictionary that to_dict() makes of parameters": "Parameters.from_dict(SECURE.to_dict())"}
NO_ROWS = {"row_degree=None, for none of their own": "of(row_degree=None)"}
AS_NEEDED = "the same without special_bits= and special_limbs=: as many and as large as are needed"
ONE_EACH = "digit_limbs=None, and alpha=…: as many in each"
# What is refused → its advice → that.
REFUSED: dict[str, dict[str, str]] = {
    "of(n=16.0)": {"an integer, as n=8192": "make(n=8192)"},
    "of(alpha=True)": {"an integer, as alpha=1": "of(alpha=1)"},
    "of(security=None)": {"an integer, as security=128": "make(security=128)"},
    "of(q=())": {"1 to 512 primes in q, and at most 63 in p": "of(q=Q)"},
    "of(alpha=4)": {"alpha=3": "of(alpha=3)"},
    "of(alpha=0)": {"alpha=1": "of(alpha=1)"},
    "of(scale_bits='6')": {"a number, as scale_bits=40.0": "of(scale_bits=40.0)"},
    "of(scale_bits=0.0)": {"scale_bits=1": "of(scale_bits=1)"},
    "of(scale_bits=1e9)": {"scale_bits=200": "of(scale_bits=200)"},
    "of(scale_bits=float('nan'))": {"scale_bits=1": "of(scale_bits=1)"},
    "of(q=(97.0,))": PRIMES,
    "of(q=(99,))": PRIMES,
    "of(q=(97, 97))": PRIMES,
    "of(key_limbs=3)": {"key_limbs=2, or fewer": "of(key_limbs=2)", **ALL_KEYS},
    "of(q=Q[:1], key_limbs=1)": ALL_KEYS,
    "of(row_degree=16)": {"row_degree=8, or a smaller power of two": "of(row_degree=8)", **NO_ROWS},
    "of(n=8, row_degree=8)": NO_ROWS,
    "of(q=Q[:2], row_degree=8)": {
        "q of 3 primes or more": "of(q=Q, row_degree=8)",
        "row_degree=None": "of(q=Q[:2], row_degree=None)",
    },
    "of(digit_limbs=(1, 2))": {"alpha=2": "of(digit_limbs=(1, 2), alpha=2)"},
    "of(digit_limbs=(1, 1))": {
        "digit_limbs=(1, 1, 1)": "of(digit_limbs=(1, 1, 1))",
        ONE_EACH: "of(digit_limbs=None, alpha=2)",
    },
    "of(q=Q[:1], operand_moduli=(2, 4))": {
        "operand_moduli=(255, 253)": "make(40.0, special_limbs=0, operand_moduli=(255, 253))"
    },
    "of(operand_moduli=(255,))": {"operand_moduli=None": "of(operand_moduli=None)"},
    "of(q=Q[:1], operand_moduli=(255,))": {
        "a prime of 15 bits or more in q or p": "make(15.0, n=16, operand_moduli=(255,), security=0, insecure=True)",
        "operand_moduli=None": "of(q=Q[:1], operand_moduli=None)",
    },
    "of(level_limbs=3)": {
        "level_limbs=2": "of(level_limbs=2)",
        "level_limbs=None, for one": "of(level_limbs=None)",
    },
    "of(level_limbs=2, row_degree=8)": {
        "row_degree=None": "of(level_limbs=2, row_degree=None)",
        "level_limbs=None": "of(level_limbs=None, row_degree=8)",
    },
    "of(security=128)": {"security=0, insecure=True, for tests alone": "of(security=0, insecure=True)"},
    "Parameters(1 << 13, SECURE.q, SECURE.p, 1, 40.0, 256)": {
        "security=128": "Parameters(1 << 13, SECURE.q, SECURE.p, 1, 40.0, 128)"
    },
    "Parameters.from_dict({'n': 16})": DICTIONARY,
    "Parameters.from_dict({**SECURE.to_dict(), 'q': 97})": DICTIONARY,
    "SECURE.digits(4)": {"limbs=3": "SECURE.digits(limbs=3)"},
    "SECURE.digits(0)": {"limbs=1": "SECURE.digits(limbs=1)"},
    "WIDE.check_key_limbs(2)": {"limbs=1": "WIDE.check_key_limbs(limbs=1)"},
    "make(n=1000)": {"n=1024": "make(30.0, n=1024, security=0, insecure=True)"},
    "make(n=1 << 20)": {"n=131072": "make(n=131072)"},
    "make(n=-1)": {"n=8": "make(7.0, n=8, security=0, insecure=True)"},
    "make_parameters(8192, [])": {"q_bits of 1 sizes": "make_parameters(8192, [40.0])"},
    "make(alpha=3)": {"alpha=2": "make(alpha=2)"},
    "make(51.0)": {"sizes of 50 bits at most, and more of them": "make(26.0, 25.0)"},
    "make(-5.0)": {"larger sizes": "make(40.0)"},
    "make(10.0)": {
        "larger sizes, of which there are more primes": "make(40.0)",
        "a smaller n": "make(10.0, n=64, security=0, insecure=True)",
    },
    "make(special_bits=20.0, special_limbs=1)": {AS_NEEDED: "make()"},
    "make(special_limbs=-1)": {
        "special_limbs=0, where nothing is switched; or without it: as many as are needed": "make(special_limbs=0)"
    },
    "make(40.0, 40.0, 40.0, 40.0, 40.0)": {
        "n=16384": "make(40.0, 40.0, 40.0, 40.0, 40.0, n=16384)",
        "security=0, insecure=True, for tests alone": "make(40.0, 40.0, 40.0, 40.0, 40.0, security=0, insecure=True)",
    },
    "make(security=256)": {"n=16384": "make(n=16384, security=256)", "security=192": "make(security=192)"},
    "SECURE.family.sparse": {
        "a ring in which a sparse secret is secure: n=32768, and q_0 of 50 bits at most": (
            "make(50.0, 40.0, n=32768).family.sparse"
        )
    },
}


NAMES = {"Parameters": Parameters, "make_parameters": make_parameters}
NAMES |= {"of": of, "make": make, "Q": Q, "SECURE": SECURE, "WIDE": WIDE}


@pytest.mark.parametrize("refused", REFUSED)
def test_advice_is_taken(refused: str) -> None:
    with pytest.raises(CipherblasError) as caught:
        eval(refused, dict(NAMES))
    assert [one.write for one in caught.value.advice] == list(REFUSED[refused]), str(caught.value)
    for followed in REFUSED[refused].values():
        eval(followed, dict(NAMES))
