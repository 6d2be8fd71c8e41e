"""Parameters: valid and as secure as they say, or a typed error."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import InsecureParametersWarning, ParameterError, SecurityError
from cipherblas.crypto import security
from cipherblas.crypto.digits import digit_ranges, equal_digits
from cipherblas.crypto.keys.generation import make_evaluation_keys, make_switching_key
from cipherblas.crypto.keys.key_id import RELINEARISATION, FixedWeights, Galois
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.keys.secret import generate_secret
from cipherblas.crypto.params import Parameters, key_words, make_parameters

TOY = {"n": 16, "q": [97, 193], "p": [257], "alpha": 1, "scale_bits": 6.0, "security": 0}


def toy(**changes: Any) -> Parameters:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Parameters.from_dict({**TOY, **changes}, insecure=True)


# (N, q bits, alpha, security): shapes that programs use, up to the largest sets of the FAME paper.
SETS = [
    (1 << 13, [50.0, 40.0, 40.0], 1, 128),
    (1 << 13, [30.0] * 5, 2, 128),
    (1 << 14, [50.0] + [35.0] * 6, 3, 128),
    (1 << 15, [45.0] + [35.0] * 15, 8, 128),
    (1 << 16, [40.0] * 32, 11, 128),
    (1 << 15, [50.0] + [40.0] * 8, 3, 192),
    (1 << 16, [50.0] + [40.0] * 15, 5, 256),
]


@pytest.mark.parametrize(("n", "q_bits", "alpha", "level"), SETS)
def test_secure_sets(n: int, q_bits: list[float], alpha: int, level: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        params = make_parameters(n, q_bits, alpha=alpha, scale_bits=q_bits[-1], security=level)
    primes = params.q + params.p
    assert params.security == level
    assert params.limbs == len(q_bits)
    assert len(set(primes)) == len(primes)
    for prime, bits in zip(params.q, q_bits, strict=True):
        assert prime % (2 * n) == 1
        assert prime < 1 << 50
        # There are hundreds of primes = 1 mod 2N within this distance.
        assert abs(math.log2(prime) - bits) < 1e-2
    digits = [params.q[start : start + alpha] for start in range(0, len(q_bits), alpha)]
    assert params.dnum == len(digits)
    assert params.log_p >= max(math.log2(math.prod(digit)) for digit in digits) - 0.5
    assert params.log_q + params.log_p <= security.max_log_qp(n, level)
    assert params.log_q + params.log_p == pytest.approx(math.log2(math.prod(primes)), abs=1e-9)
    # One special prime fewer would not do.
    assert (params.special_limbs - 1) * 50 < params.log_p


def test_special_primes_take_a_margin_where_there_is_room() -> None:
    params = make_parameters(1 << 14, [40.0, 30.0, 30.0], alpha=2, scale_bits=30)
    assert params.special_limbs == 2
    assert 72.8 < params.log_p < 73.0  # 70 bits of the largest digit and 2.9 of margin
    tight = make_parameters(1 << 13, [40.0, 30.0, 30.0, 41.0], alpha=2, scale_bits=30)
    assert tight.log_q + tight.log_p <= 214
    assert 71 <= tight.log_p < 73.5


def test_a_set_that_fills_the_table() -> None:
    params = make_parameters(1 << 13, [50.0, 40.0, 40.0, 34.0])  # 164 bits, and 50 of the largest digit
    assert params.security == 128
    assert params.log_q + params.log_p <= 214
    assert params.log_p > 49.5


def test_special_primes_as_asked() -> None:
    params = make_parameters(1 << 14, [40.0] * 4, special_bits=45.0, special_limbs=3, alpha=2)
    assert [round(math.log2(prime), 2) for prime in params.p] == [45.0] * 3
    assert make_parameters(1 << 14, [40.0] * 4, special_bits=42.0, alpha=2).special_limbs == 2
    assert make_parameters(1 << 14, [40.0] * 4, special_limbs=3, alpha=2).special_limbs == 3
    assert make_parameters(1 << 13, [40.0], special_limbs=0).p == ()
    with pytest.raises(ParameterError, match="smaller than the largest digit"):
        make_parameters(1 << 14, [40.0] * 4, special_bits=40.0, special_limbs=1, alpha=2)


@pytest.mark.parametrize(("n", "bound"), [(1 << 12, 106), (1 << 13, 214), (1 << 14, 430)])
def test_the_table_is_enforced(n: int, bound: int) -> None:
    bits = [36.0] * ((bound + 2) // 36 - 1)  # with a special prime, two bits above the table
    with pytest.raises(SecurityError) as caught:
        make_parameters(n, bits)
    assert str(bound) in str(caught.value)
    with pytest.warns(InsecureParametersWarning):
        params = make_parameters(n, bits, insecure=True)
    assert params.security == 0
    with pytest.raises(SecurityError):
        dataclasses.replace(params, security=128)  # a claim is checked as well
    with pytest.warns(InsecureParametersWarning):
        Parameters.from_dict(params.to_dict(), insecure=True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": 1000},
        {"n": 4},
        {"n": 1 << 18},
        {"n": 0},
        {"n": -8},
        {"q_bits": []},
        {"q_bits": [51.0]},
        {"q_bits": [float("nan")]},
        {"q_bits": [float("inf")]},
        {"q_bits": [-5.0]},
        {"q_bits": [10.0]},  # no prime = 1 mod 2^14 near 2^10
        {"alpha": 0},
        {"alpha": 3},
        {"q_bits": [40.0] * 70, "alpha": 65},
        {"digit_limbs": []},
        {"digit_limbs": [1]},
        {"digit_limbs": [1, 2]},
        {"digit_limbs": [2, 0]},
        {"digit_limbs": [3, -1]},
        {"digit_limbs": [1.0, 1.0]},
        {"digit_limbs": [True, True]},
        {"special_bits": 60.0},
        {"special_limbs": 64},
        {"special_limbs": -1},
        {"scale_bits": 0.0},
        {"scale_bits": 5e-324},
        {"scale_bits": float("nan")},
        {"security": 100},
    ],
    ids=str,
)
def test_arguments_out_of_range(arguments: dict[str, Any]) -> None:
    chosen = {"n": 1 << 13, "q_bits": [40.0, 40.0], "security": 0, "insecure": True, **arguments}
    with pytest.raises(ParameterError):
        make_parameters(**chosen)


@pytest.mark.parametrize(
    "changes",
    [
        {"n": 17},
        {"n": 16.0},
        {"n": True},
        {"n": "16"},
        {"n": None},
        {"q": []},
        {"q": 97},
        {"q": [97, 97]},
        {"q": [97, 257]},  # 257 is the special prime
        {"q": [97.0]},
        {"q": [65 * 97]},
        {"q": [33]},
        {"q": [31]},
        {"q": [-97]},
        {"q": [0]},
        {"q": [True]},
        {"q": [10**400]},
        {"q": [1125899906843777 * 32 + 1]},
        {"q": [97] * 600},
        {"p": ["257"]},
        {"p": None},
        {"alpha": 0},
        {"alpha": 3},
        {"alpha": 1.5},
        {"digit_limbs": []},
        {"digit_limbs": [1]},
        {"digit_limbs": [2]},  # alpha is 1
        {"digit_limbs": [1, 1, 1]},
        {"digit_limbs": [1, 0, 1]},
        {"digit_limbs": ["1", "1"]},
        {"digit_limbs": "11"},
        {"digit_limbs": 2},
        {"digit_limbs": {"1": 1}},
        {"scale_bits": 0},
        {"scale_bits": "6"},
        {"scale_bits": 10**400},
        {"scale_bits": float("nan")},
        {"security": 100},
        {"security": None},
        {"other": 1},
    ],
    ids=str,
)
def test_dictionaries_that_are_no_parameters(changes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        toy(**changes)


@pytest.mark.parametrize("values", [None, [], "n", {}, {"n": 16}, {**TOY, 5: 5}])
def test_values_that_are_no_dictionary_of_parameters(values: Any) -> None:
    with pytest.raises(ParameterError):
        Parameters.from_dict(values, insecure=True)


@given(
    name=st.sampled_from(sorted(TOY)),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4),
        max_leaves=5,
    ),
)
def test_any_json_value_is_accepted_or_a_typed_error(name: str, value: Any) -> None:
    try:
        found = toy(**{name: value})
    except (ParameterError, SecurityError):
        return
    assert json.loads(json.dumps(found.to_dict()))[name] == value


def test_round_trip_and_fingerprint() -> None:
    params = make_parameters(1 << 13, [50.0, 40.0, 40.0])
    again = Parameters.from_dict(json.loads(json.dumps(params.to_dict())))
    assert again == params
    assert hash(again) == hash(params)
    assert again.fingerprint() == params.fingerprint()
    assert len(params.fingerprint()) == 64
    changed = [
        dataclasses.replace(params, alpha=2),
        dataclasses.replace(params, alpha=2, digit_limbs=(1, 2)),
        dataclasses.replace(params, alpha=2, digit_limbs=(2, 1)),
        dataclasses.replace(params, scale_bits=39.0),
        dataclasses.replace(params, q=params.q[:2]),
        dataclasses.replace(params, q=params.q[::-1]),
        dataclasses.replace(params, p=()),
        dataclasses.replace(params, security=0, insecure=True),
    ]
    assert len({one.fingerprint() for one in [params, *changed]}) == 9


def test_security_is_that_of_the_largest_modulus_that_is_encrypted_with() -> None:
    """Keys at fewer limbs than ciphertexts: neither modulus may exceed the table, their product with all limbs may."""
    most = security.max_log_qp(1 << 12, 128)
    params = make_parameters(1 << 12, [49.5, 17.0], 50.0, 1, key_limbs=1)
    assert params.security == 128 and params.log_q + params.log_p > most
    assert params.log_qp == math.log2(params.q[0]) + params.log_p <= most
    assert make_parameters(1 << 12, [30.0, 30.0, 40.0], 30.0, 1, key_limbs=1).log_qp > 99
    assert params.dnum == 1
    again = Parameters.from_dict(json.loads(json.dumps(params.to_dict())))
    assert again == params == copy.copy(params) and again.fingerprint() == params.fingerprint()
    with pytest.raises(SecurityError, match="claim 128-bit security"):
        dataclasses.replace(params, key_limbs=None)
    with pytest.raises(SecurityError, match="claim 128-bit security"):
        dataclasses.replace(params, q=(*params.q, *make_parameters(1 << 12, [45.0], 0, 0).q))
    for limbs in (0, 2, True, 1.0, "1"):
        with pytest.raises(ParameterError, match="limbs that keys are made for"):
            dataclasses.replace(params, key_limbs=limbs)


def test_keys_for_more_limbs_than_are_secure_are_refused() -> None:
    params = make_parameters(1 << 12, [49.5, 17.0], 50.0, 1, key_limbs=1)
    secret = generate_secret(params)
    for key in (Galois(5), RELINEARISATION, FixedWeights(0, 0)):
        with pytest.raises(ParameterError, match="no keys for so many limbs"):
            make_evaluation_keys(secret, KeyRequest({key: 2}))
    with pytest.raises(ParameterError, match="no keys for so many limbs"):
        make_switching_key(secret, Galois(5), 2)
    assert make_switching_key(secret, Galois(5), 1).limbs == 1


def test_the_fingerprint_is_the_same_everywhere() -> None:
    # Part of the file format: computed apart from the code, with sha256sum.
    text = '{"alpha":1,"n":16,"p":[257],"q":[97,193],"scale_bits":6.0,"security":0}'
    program = "import hashlib, sys; print(hashlib.sha256(sys.argv[1].encode()).hexdigest())"
    digest = subprocess.run(
        [sys.executable, "-c", program, text], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert toy().fingerprint() == toy(scale_bits=6).fingerprint() == digest


def test_limbs_of_keys_are_packed_by_the_sizes_of_their_primes() -> None:
    sizes = [2**bits + last for bits in (32, 40, 48) for last in (-1, 1)] + [2**50 - 1]
    assert [key_words(64, (prime,)) for prime in sizes] == [32, 40, 40, 48, 48, 50, 50]
    assert [key_words(n, (97, 2**50 - 1)) for n in (8, 16, 1 << 16)] == [4 + 7, 8 + 13, 32768 + 51200]
    for special_bits, words in ((47.0, 48), (49.0, 50)):
        params = make_parameters(1 << 13, [39.0, 31.0], special_bits=special_bits)
        assert params.key_words(2) == (40 + 32 + words * params.special_limbs) << 7
        moduli = np.array([*params.q, *params.p], np.uint64)[:, None]
        residues = np.random.default_rng(0).integers(0, moduli, (len(moduli), params.n), np.uint64)
        packed = params.context().pack_key(residues)
        assert packed.shape == (params.key_words(2),)
        np.testing.assert_array_equal(params.context().unpack_key(packed), residues)


def test_digits_of_unlike_numbers_of_limbs() -> None:
    params = toy(q=[97, 193, 353, 449], alpha=2, digit_limbs=[1, 2, 1])
    assert [params.digits(limbs) for limbs in (1, 2, 3, 4)] == [1, 2, 2, 3]
    assert params.key_bytes(3) == 2 * 2 * (3 + 1) * 16 * 4
    again = Parameters.parsed(json.loads(json.dumps(params.to_dict())))
    assert again == params == copy.copy(params) and again.digit_limbs == (1, 2, 1)
    assert "digit_limbs" not in toy().to_dict()  # sets whose digits are alike are what they were
    made = make_parameters(1 << 14, [50.0, 40.0, 40.0, 40.0, 49.0], digit_limbs=[1, 3, 1])
    assert (made.alpha, made.dnum) == (3, 3)
    largest = math.fsum(map(math.log2, made.q[1:4]))
    assert largest + 2.8 < made.log_p < largest + 3.0
    with pytest.raises(ParameterError, match="smaller than the largest digit"):
        make_parameters(1 << 14, [50.0, 40.0, 40.0, 40.0, 49.0], 50.0, 2, digit_limbs=[1, 3, 1])


@pytest.mark.parametrize("seed", range(20))
def test_digits_of_equal_bits(seed: int) -> None:
    """Against all divisions: the largest digit is as small as can be, and no number of limbs has fewer digits."""
    random = np.random.default_rng(seed)
    bits, digits = random.uniform(20, 50, random.integers(1, 9)).round(1), int(random.integers(1, 6))

    def divisions(limbs: int) -> Iterator[tuple[int, ...]]:
        for cuts in itertools.product((False, True), repeat=limbs - 1):
            ends = [*(place + 1 for place, cut in enumerate(cuts) if cut), limbs]
            yield tuple(end - start for start, end in itertools.pairwise([0, *ends]))

    def largest(sizes: tuple[int, ...]) -> float:
        ends = np.cumsum(sizes)
        return max(float(bits[end - size : end].sum()) for size, end in zip(sizes, ends, strict=True))

    found = equal_digits(tuple(bits.tolist()), digits)
    least = min(largest(sizes) for sizes in divisions(len(bits)) if len(sizes) <= digits)
    assert sum(found) == len(bits) and len(found) <= digits and largest(found) <= least + 1e-6
    for limbs in range(1, len(bits) + 1):
        fewest = min(len(sizes) for sizes in divisions(limbs) if largest(sizes) <= least + 1e-6)
        assert len(digit_ranges(limbs, max(found), found)) == fewest
    assert [len(digit) for digit in digit_ranges(7, 3)] == [3, 3, 1]


def test_sizes() -> None:
    params = toy(q=[97, 193, 353], alpha=2)
    assert (params.slots, params.limbs, params.special_limbs, params.dnum) == (8, 3, 1, 2)
    assert [params.digits(limbs) for limbs in (1, 2, 3)] == [1, 1, 2]
    assert params.key_bytes(3) == 2 * 2 * (3 + 1) * 16 * 4
    assert params.key_bytes(1) == 1 * 2 * (1 + 1) * 16 * 4
    assert params.ciphertext_bytes(2) == 2 * 2 * 16 * 8
    assert params.ciphertext_bytes(2, components=3) == 3 * 2 * 16 * 8
    for limbs in (0, 4, -1):
        with pytest.raises(ParameterError):
            params.digits(limbs)
        with pytest.raises(ParameterError):
            params.ciphertext_bytes(limbs)


def test_the_context_is_made_once() -> None:
    params = make_parameters(1 << 13, [50.0, 40.0, 40.0])
    context = params.context()
    assert context is dataclasses.replace(params, scale_bits=30.0).context()
    assert tuple(context.moduli) == params.q + params.p
    assert (context.n, context.num_q, context.num_p, context.alpha) == (params.n, 3, params.special_limbs, 1)


def test_parameters_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        toy().n = 32  # type: ignore[misc]
