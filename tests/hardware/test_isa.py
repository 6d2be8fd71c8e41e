"""Instructions: encoded, decoded, written as assembly; entries of the table of moduli."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import FormatError, ParameterError
from cipherblas_hardware.accelerator.isa import (
    FIELDS,
    Arithmetic,
    Factors,
    Modulus,
    Pass,
    Permutation,
    encoded,
)

KINDS = {
    "arithmetic": st.sampled_from(Arithmetic),
    "permutation": st.sampled_from(Permutation),
    "factors": st.sampled_from(Factors),
}


@st.composite
def passes(draw: st.DrawFn) -> Pass:
    """Any instruction."""
    values = {}
    for name, bits in FIELDS.items():
        if name != "reserved":
            numbers = st.booleans() if bits == 1 else st.integers(0, (1 << bits) - 1)
            values[name] = draw(KINDS.get(name, numbers))
    return Pass(**values)


@given(passes())
def test_an_instruction_is_decoded(one: Pass) -> None:
    word = one.encode()
    assert 0 <= word < 1 << 128 and Pass.decode(word) == one
    words = encoded([one])[0]
    assert sum(int(part) << 32 * k for k, part in enumerate(words)) == word


def test_fields_lie_from_the_top_on() -> None:
    one = Pass(Arithmetic.ADDMUL, 0, 0, 0, 0, 0, give_store=True)
    assert one.encode() == 6 << 128 - 9 - 3 | 1


@pytest.mark.parametrize("word", [1 << 128, 1 << 127, 7 << 128 - 9 - 3, 7 << 128 - 9 - 3 - 2 - 6 - 3])
def test_other_bits_are_no_instruction(word: int) -> None:
    with pytest.raises(FormatError, match="no instruction"):
        Pass.decode(word)


def test_numbers_fit_their_fields() -> None:
    one = Pass(Arithmetic.MUL, 0, 0, 1 << 13, 0, 0)
    with pytest.raises(ParameterError, match="a_row"):
        one.encode()


def test_assembly() -> None:
    one = Pass(
        Arithmetic.MAC,
        3,
        0,
        64,
        1,
        32,
        Permutation.AUTOMORPHISM,
        5,
        Factors.STREAM,
        c_bank=1,
        c_row=32,
        wait=7,
    )
    assert str(one) == "1[32] = mac automorphism5(0[64]), stream, 1[32] mod m3  ; wait 7"
    assert str(dataclasses.replace(one, arithmetic=Arithmetic.ADD, wait=0)).startswith(
        "1[32] = add automorphism5(0[64]), 1[32] mod"
    )


@pytest.mark.parametrize("q", [97, (1 << 50) - 27, (1 << 54) - 33])
def test_a_reciprocal_has_its_top_bit(q: int) -> None:
    entry = Modulus.of(q)
    reciprocal = (1 << 54) + entry.mu
    assert 0 <= entry.mu < 1 << 54 and reciprocal * q <= 1 << entry.shift + 54 < (reciprocal + 1) * q


def test_a_prime_fits_the_lanes() -> None:
    with pytest.raises(ParameterError, match="50 bits"):
        Modulus.of((1 << 53) + 5, 50)
