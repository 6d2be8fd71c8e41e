"""Transposition of encrypted matrices, relinearisation and hoisted switches of rows, on toy and real rings."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cipherblas._core as _core
from tests.support.ring_oracle import Integers, Words, automorphism, centred
from tests.support.row_oracle import SIGMA, TAIL, RowScheme, Signed, multiply_rows

POLICIES = ("fast", "light", "binary")
# q bits, special primes, limbs per digit, limbs of the ciphertext: one or two limbs, one or two digits, keys that were
# made for more limbs than the ciphertext has.
RINGS = (
    ((50,), 1, 1, 1),
    ((50, 40), 1, 1, 2),
    ((45, 45), 2, 2, 2),
    ((50, 40, 41), 2, 2, 1),
    ((50, 40, 41), 2, 2, 3),
)


def scheme(ring: tuple, n: int = 1 << 10, seed: int = 0) -> tuple[RowScheme, int]:
    q_bits, special, alpha, limbs = ring
    return RowScheme(n, q_bits, special, alpha, seed), limbs


def messages(rows: RowScheme, *shape: int) -> Signed:
    return rows.generator.integers(-(2**38), 2**38, shape)


def switches(policy: str, d: int) -> float:
    """Key switches per row, on average: those of ±5^e, e < d/2, written in the policy's digits."""
    log_d = d.bit_length() - 1
    base = 1 << -(-log_d // 2)
    return {
        "fast": (d - 1) / d,
        "light": (1 - 1 / base)
        + (1 - base / d),  # a digit is zero in one of `base` rows, the other in `base` of d
        "binary": log_d / 2,
    }[policy]


def deviation(rows: RowScheme, limbs: int, policy: str, d: int) -> float:
    """Of a coefficient after a transposition: d rows' switches add up; fresh noise comes along."""
    added = switches(policy, d) * d * rows.switch_deviation(limbs) ** 2
    return float(np.sqrt(added + SIGMA**2 + 1 / 12))


def transposed(rows: RowScheme, limbs: int, plain: Signed, d: int, policy: str) -> Signed:
    """Errors of the transposed d × d matrix, plain being its first rows."""
    a, b = rows.encrypt(plain, limbs)
    keys = rows.transpose_keys(d, policy, rows.num_q)
    new_a, new_b = rows.context.transpose_rows(a, b, keys, policy)
    assert new_a.shape == (limbs, d, rows.n)
    assert new_b.shape == (limbs, d, d)
    whole = np.zeros((d, d), np.int64)
    whole[: len(plain)] = plain
    return rows.message_errors(new_a, new_b, whole.T)


@settings(max_examples=3 * settings.default.max_examples // 2)
@given(
    ring=st.sampled_from(RINGS),
    log_d=st.integers(3, 7),
    policy=st.sampled_from(POLICIES),
    present=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_any_matrix_is_transposed(ring: tuple, log_d: int, policy: str, present: float, seed: int) -> None:
    rows, limbs = scheme(ring, seed=seed)
    d = 1 << log_d
    plain = messages(rows, max(1, round(present * d)), d)
    errors = transposed(rows, limbs, plain, d, policy)
    bound = TAIL * deviation(rows, limbs, policy, d)
    # All h_u of a single row are equal: rows that share a key get the same noise, which gathers in a few columns.
    gathered = np.sqrt(d) if len(plain) == 1 and policy != "fast" else 1.0
    assert np.abs(errors).max() <= gathered * bound


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("d", "ring"),
    [
        *((64, ring) for ring in RINGS),
        *((256, ring) for ring in RINGS[::3]),
        *(pytest.param(512, ring, marks=pytest.mark.slow) for ring in RINGS[-1:]),
    ],
)
def test_noise_is_as_derived(d: int, ring: tuple, policy: str) -> None:
    """d² independent coefficients: their deviation is known to 2% at d = 64; keys and secret add 5%."""
    rows, limbs = scheme(ring)
    errors = transposed(rows, limbs, messages(rows, d, d), d, policy)
    derived = deviation(rows, limbs, policy, d)
    assert 0.85 * derived <= errors.std() <= 1.15 * derived
    assert np.abs(errors).max() <= TAIL * derived


@pytest.mark.slow
@pytest.mark.parametrize(("d", "policy"), [(128, "fast"), (512, "light"), (512, "binary")])
def test_real_parameters(d: int, policy: str) -> None:
    rows, limbs = scheme(RINGS[0], n=1 << 12)
    errors = transposed(rows, limbs, messages(rows, d, d), d, policy)
    assert np.abs(errors).max() <= TAIL * deviation(rows, limbs, policy, d)


@pytest.mark.slow
def test_a_large_matrix() -> None:
    d = 1024
    rows, limbs = scheme(RINGS[0], n=1 << 12)
    errors = transposed(rows, limbs, messages(rows, d, d), d, "fast")
    assert np.abs(errors).max() <= TAIL * deviation(rows, limbs, "fast", d)


def test_twice_is_the_identity() -> None:
    rows, limbs = scheme(RINGS[1])
    plain = messages(rows, 32, 32)
    keys = rows.transpose_keys(32, "light", limbs)
    a, b = rows.encrypt(plain, limbs)
    for _ in range(2):
        a, b = rows.context.transpose_rows(a, b, keys, "light")
    bound = TAIL * np.sqrt(2) * deviation(rows, limbs, "light", 32)
    assert np.abs(rows.message_errors(a, b, plain)).max() <= bound


def test_missing_rows_are_zero_rows() -> None:
    rows, limbs = scheme(RINGS[1])
    d = 64
    keys = rows.transpose_keys(d, "fast", limbs)
    a, b = rows.encrypt(messages(rows, 37, d), limbs)
    padded = [np.zeros((limbs, d, width), np.uint64) for width in (rows.n, d)]
    padded[0][:, :37], padded[1][:, :37] = a, b
    got = rows.context.transpose_rows(a, b, keys, "fast")
    for part, whole in zip(got, rows.context.transpose_rows(*padded, keys, "fast"), strict=True):
        np.testing.assert_array_equal(part, whole)


@pytest.mark.parametrize("policy", POLICIES)
def test_elements_generate_what_the_rows_need(policy: str) -> None:
    for log_d in range(3, 14):
        d = 1 << log_d
        elements, total = _core.transpose_plan(d, policy)
        assert total == round(switches(policy, d) * d)
        assert len(set(elements)) == len(elements)
        assert all(element % 2 == 1 and 1 < element < 2 * d for element in elements)
        base = 1 << -(-log_d // 2)
        counts = {"fast": d - 1, "light": base + d // base - 2, "binary": log_d}
        assert len(elements) == counts[policy]


def test_only_coefficients_of_the_message_matter() -> None:
    """With d < N, whatever the b parts had at other powers of X does not reach the powers of X^(N/d)."""
    rows, limbs = scheme(RINGS[0])
    d, stride = 32, rows.n // 32
    a, b = rows.encrypt(messages(rows, d, d), limbs)
    keys = rows.transpose_keys(d, "fast", limbs)
    found = rows.phase(*rows.context.transpose_rows(a, b, keys, "fast"))[0]
    # The same automorphisms and monomials on whole polynomials, the garbage included.
    whole = multiply_rows(a[0].astype(np.int64), rows.secret_coefficients, rows.moduli[0])
    whole[:, ::stride] = (whole[:, ::stride] + b[0].astype(np.int64)) % rows.moduli[0]
    other = rows.generator.integers(0, rows.moduli[0], whole.shape)
    other[:, ::stride] = whole[:, ::stride]
    for phases in (whole, other):
        divided = phases.astype(object) * pow(d, -1, rows.moduli[0])
        expected = transposition(divided, d, lambda v, h: automorphism(h, v))[:, ::stride]
        difference = centred(found - expected, rows.moduli[0]).astype(np.int64)
        assert np.abs(difference).max() <= TAIL * deviation(rows, limbs, "fast", d)


def transposition(x: Integers, d: int, turn: Callable[[int, Integers], Integers]) -> Integers:
    """The formulas of cpp/rlwe/transpose.h, term by term, on rows (rows, …, N) that are divided by d; `turn` is what
    the automorphism of exponent v does to h_u."""
    n = x.shape[-1]

    def shifted(polynomials: Integers, power: int) -> Integers:
        places = (np.arange(n) + power * (n // d)) % (2 * n)
        moved = np.zeros_like(polynomials)
        moved[..., places % n] = np.where(places < n, polynomials, -polynomials)
        return moved

    result = np.zeros((d, *x.shape[1:]), object)
    for u in range(1, 2 * d, 2):
        v = pow(u, -1, 2 * d)
        g = turn(v, sum(shifted(row, u * i) for i, row in enumerate(x)))
        for j in range(d):
            result[j] += shifted(g, -v * j)
    return result


def steps(v: int, d: int, policy: str) -> list[int]:
    """The automorphisms that make up v = ±5^e."""
    sign, e = next((s, e) for s in (1, -1) for e in range(d // 2) if (s * 5**e - v) % (2 * d) == 0)
    base = 1 << -(-(d.bit_length() - 1) // 2)
    factors = {
        "fast": [sign * 5**e],
        "light": [sign * 5 ** (e // base * base), 5 ** (e % base)],
        "binary": [sign, *(5 ** (e & 1 << bit) for bit in range(d.bit_length()))],
    }[policy]
    return [factor % (2 * d) for factor in factors if factor % (2 * d) != 1]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("present", [1, 5, 8])
def test_bits_are_those_of_the_definition(ring: tuple, policy: str, present: int) -> None:
    """Against exact integers: every step is an automorphism, digits times a key, and a division by P."""
    rows, limbs = scheme(ring, n=16)
    d = 8
    moduli = rows.moduli[:limbs]
    modulus = prod(moduli)
    keys = {element: rows.random_key(rows.num_q) for element in _core.transpose_plan(d, policy)[0]}
    a, b = rows.uniform_rows(limbs, present), rows.uniform_rows(limbs, present)[:, :, :d]

    def turn(v: int, h: Integers) -> Integers:
        for element in steps(v, d, policy):
            sums = rows.key_switch(h[0], element, keys[element], limbs)
            masks, phases = (
                rows.divide(x, modulus * rows.special_product, rows.special_product) for x in sums[::-1]
            )
            h = np.stack([masks, phases + automorphism(h[1], element)])
        return h

    whole = np.zeros((limbs, present, 2, rows.n), np.uint64)
    whole[:, :, 0], whole[:, :, 1, :: rows.n // d] = a, b
    lifted = sum(
        residues.astype(object) * (modulus // q * pow(modulus // q, -1, q))
        for residues, q in zip(whole, moduli, strict=True)
    )
    expected = transposition(lifted * pow(d, -1, modulus) % modulus, d, turn)
    found = rows.context.transpose_rows(a, b, list(keys.values()), policy)
    for i, q in enumerate(moduli):
        np.testing.assert_array_equal(found[0][i], expected[:, 0] % q)
        np.testing.assert_array_equal(found[1][i], expected[:, 1, :: rows.n // d] % q)


@pytest.mark.parametrize("ring", RINGS)
def test_rows_times_the_secret(ring: tuple) -> None:
    rows, limbs = scheme(ring)
    a, b = rows.uniform_rows(limbs, 9), rows.uniform_rows(limbs, 9)
    key = rows.key(rows.context.multiply(rows.secret, rows.secret), rows.num_q)
    expected = [
        multiply_rows(phase, rows.secret_coefficients, q)
        for phase, q in zip(rows.phase(a, b), rows.moduli, strict=False)
    ]
    errors = rows.errors(*rows.context.relinearise_rows(a, b, key), expected)
    derived = rows.switch_deviation(limbs)
    assert 0.85 * derived <= errors.std() <= 1.15 * derived
    assert np.abs(errors).max() <= TAIL * derived


@pytest.mark.parametrize("columns", [1, 100, 1024])
@pytest.mark.parametrize("ring", RINGS)
def test_one_polynomial_switched_with_many_keys(ring: tuple, columns: int) -> None:
    rows, limbs = scheme(ring)
    a = rows.uniform_rows(limbs, 1)
    sources = [rows.small(1) for _ in range(5)]
    keys = [rows.key(rows.residues(source), rows.num_q) for source in sources]
    for given_keys in (keys, np.stack(keys)):
        new_a, new_b = rows.context.switch_rows(a[:, 0], given_keys, columns)
        assert new_a.shape == (limbs, 5, rows.n)
        assert new_b.shape == (limbs, 5, columns)
        padded = np.zeros((limbs, 5, rows.n), np.uint64)
        padded[:, :, :columns] = new_b
        expected = [
            np.concatenate(
                [multiply_rows(a[i].astype(np.int64), source, rows.moduli[i]) for source in sources]
            )
            for i in range(limbs)
        ]
        phases = rows.phase(new_a, padded)
        for i, q in enumerate(rows.moduli[:limbs]):
            errors = centred((phases[i] - expected[i])[:, :columns], q)
            assert np.abs(errors).max() <= TAIL * rows.switch_deviation(limbs)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_do_not_change_a_bit(threads: int) -> None:
    rows, limbs = scheme(RINGS[1])
    a, b = rows.encrypt(messages(rows, 64, 64), limbs)
    keys = rows.transpose_keys(64, "light", limbs)
    full = rows.uniform_rows(limbs, 64)

    def results() -> list[Words]:
        context = rows.context
        pairs = [
            context.transpose_rows(a, b, keys, "light"),
            context.relinearise_rows(a, full, keys[0]),
            context.switch_rows(a[:, 0], keys, 17),
        ]
        return [array for pair in pairs for array in pair]

    before = _core.threads()
    try:
        _core.set_threads(1)
        expected = results()
        _core.set_threads(threads)
        for got, wanted in zip(results(), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
    finally:
        _core.set_threads(before)


def test_views_and_unaligned_arrays_are_taken() -> None:
    rows, limbs = scheme(RINGS[1])
    d = 16
    keys = rows.transpose_keys(d, "fast", limbs)
    a, b = rows.encrypt(messages(rows, d, d), limbs)
    expected = rows.context.transpose_rows(a, b, keys)
    room = np.zeros((limbs, 2 * d, rows.n + 1), np.uint64)
    view = room[:, ::2, 1:]
    view[...] = a
    for got, wanted in zip(rows.context.transpose_rows(view, b, keys), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


ROWS = RowScheme(n=32, q_bits=(50, 40), special=1, alpha=1)
A, B = ROWS.uniform_rows(2, 8), ROWS.uniform_rows(2, 8)[:, :, :8]
FULL = ROWS.uniform_rows(2, 8)
KEYS = ROWS.transpose_keys(8, "fast", 2)
SHORT = ROWS.key(ROWS.secret, 1)
C = ROWS.context

BAD: list[tuple[str, Callable[[], object]]] = [
    ("policy: expected fast, light or binary, got slow", lambda: _core.transpose_plan(8, "slow")),
    ("d: expected a power of two from 8 to 131072, got 12", lambda: _core.transpose_plan(12, "fast")),
    (
        "d: expected a power of two from 8 to 131072, got 262144",
        lambda: _core.transpose_plan(1 << 18, "fast"),
    ),
    (
        "columns of b: expected a power of two from 8 to 32, got 4",
        lambda: C.transpose_rows(A, B[:, :, :4], KEYS),
    ),
    ("a: expected dtype uint64, got int64", lambda: C.transpose_rows(A.astype(np.int64), B, KEYS)),
    (r"a: expected shape \(\*, \*, 32\)", lambda: C.transpose_rows(A[:, :, :16], B, KEYS)),
    ("a: expected 1 to 2 limbs", lambda: C.transpose_rows(np.concatenate([A, A]), B, KEYS)),
    ("a: expected at least one row", lambda: C.transpose_rows(A[:, :0], B[:, :0], KEYS)),
    (r"b: expected shape \(2, 8, \*\)", lambda: C.transpose_rows(A, B[:, :7], KEYS)),
    ("a: expected at most 8 rows", lambda: C.transpose_rows(np.repeat(A, 2, 1), np.repeat(B, 2, 1), KEYS)),
    ("keys: expected 7, in the order of transpose_plan, got 6", lambda: C.transpose_rows(A, B, KEYS[:6])),
    ("keys: expected keys for at least 2 limbs", lambda: C.transpose_rows(A, B, [SHORT] * 7)),
    (r"b: expected shape \(2, 8, 32\)", lambda: C.relinearise_rows(A, B, KEYS[0])),
    ("keys: expected keys for at least 2 limbs", lambda: C.relinearise_rows(A, FULL, SHORT)),
    ("a: expected 1 to 2 limbs", lambda: C.switch_rows(np.concatenate([A, A])[:3, 0], KEYS, 8)),
    ("keys: expected at least one, got none", lambda: C.switch_rows(A[:, 0], [], 8)),
    ("columns: expected 1 to 32, got 33", lambda: C.switch_rows(A[:, 0], KEYS, 33)),
    ("columns: expected 1 to 32, got 0", lambda: C.switch_rows(A[:, 0], KEYS, 0)),
]


@pytest.mark.parametrize(("message", "call"), BAD, ids=[message for message, _ in BAD])
def test_bad_arguments_are_named(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()
