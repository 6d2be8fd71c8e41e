"""Encryption, keys and ciphertext arithmetic of the core against exact integers."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest

import cipherblas._core as _core
from tests.support.ring_oracle import MONTGOMERY, Ring, Words, centred, multiply, to_object


@pytest.fixture(scope="module")
def ring() -> Ring:
    return Ring()


def mixed_ring() -> Ring:
    """Primes on both sides of 2^32, special ones below it."""
    return Ring(n=128, q_bits=(50, 32, 33, 30), special=2, alpha=1, special_bits=31)


def exact(ring: Ring, x: Words) -> tuple[list, int]:
    return ring.polynomials(x), prod(ring.moduli[: x.shape[1]])


def same(ring: Ring, got: Words, expected: list) -> None:
    limbs = got.shape[1]
    np.testing.assert_array_equal(got, np.stack([ring.ntt(x, range(limbs)) for x in expected]))


@pytest.mark.parametrize("limbs", [1, 2, 5])
def test_symmetric_encryption(ring: Ring, limbs: int) -> None:
    a = ring.random_rows(range(limbs))
    noise, message = ring.small(20), ring.generator.integers(-(2**61), 2**61, ring.n, dtype=np.int64)
    b = ring.context.encrypt_symmetric(ring.secret, a, noise, message)
    s = to_object(ring.secret_coefficients)
    expected = to_object(noise) + to_object(message) - multiply(ring.intt(a, range(limbs)), s)
    np.testing.assert_array_equal(b, ring.ntt(expected, range(limbs)))


def test_public_encryption(ring: Ring) -> None:
    key = ring.random_ciphertext(4)
    v, e0, e1 = ring.small(1), ring.small(20), ring.small(20)
    message = ring.generator.integers(-(2**61), 2**61, ring.n, dtype=np.int64)
    for limbs in (1, 4):
        got = ring.context.encrypt_public(key, v, e0, e1, message, limbs)
        pk = ring.polynomials(key)
        same(
            ring,
            got,
            [
                multiply(pk[0], to_object(v)) + to_object(e0) + to_object(message),
                multiply(pk[1], to_object(v)) + to_object(e1),
            ],
        )


@pytest.mark.parametrize("components", [2, 3])
@pytest.mark.parametrize("limbs", [1, 2, 5])
def test_phase_is_exact(ring: Ring, components: int, limbs: int) -> None:
    """Uniform residues give coefficients over the whole range, below and above 2^53."""
    ciphertext = ring.random_ciphertext(limbs, components)
    b, a, *rest = (ring.intt(component, range(limbs)) for component in ciphertext)
    s = to_object(ring.secret_coefficients)
    total = b + multiply(a, s)
    if rest:
        total = total + multiply(rest[0], multiply(s, s))
    expected = centred(total, prod(ring.moduli[:limbs])).astype(float)
    found = ring.context.phase(ring.secret, ciphertext)
    if limbs <= 2:
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=2.0**-52)


@pytest.mark.parametrize("limbs", [1, 2, 3, 5])
def test_phase_at_the_edges(ring: Ring, limbs: int) -> None:
    """Coefficients next to 0, ±2^100 and ±Q/2 modulo every number of primes; small ones exactly."""
    half = prod(ring.moduli[:limbs]) // 2
    edges = [x for x in (0, 1, 2**52, 2**80 + 2**40, 2**99 + 1, 2**140 + 3, half - 1, half) if x <= half]
    values = np.array([sign * x for x in edges for sign in (1, -1)], dtype=object)
    message = np.zeros(ring.n, dtype=object)
    message[: len(values)] = values
    ciphertext = np.zeros((2, limbs, ring.n), np.uint64)
    ciphertext[0] = ring.ntt(message, range(limbs))
    found = ring.context.phase(ring.secret, ciphertext)[: len(values)]
    expected = values.astype(float)
    small = np.abs(values) < 2**100
    np.testing.assert_array_equal(found[small], expected[small])
    np.testing.assert_allclose(found, expected, rtol=2.0**-52)


def test_phase_when_the_first_prime_is_the_larger() -> None:
    ring = Ring(q_bits=(30, 50), special=0, alpha=1)
    test_phase_is_exact(ring, 2, 2)
    test_phase_is_exact(Ring(q_bits=(50, 30), special=0, alpha=1), 3, 2)


@pytest.mark.parametrize("limbs", [1, 3, 5])
@pytest.mark.parametrize(("alpha", "sizes"), [(1, ()), (2, ()), (3, ()), (3, (1, 3, 1)), (3, (2, 3))])
def test_switching_key_equation(limbs: int, alpha: int, sizes: tuple[int, ...]) -> None:
    """b_d + a_d s = e_d + P g_d s', all in Montgomery form; a is taken as it is."""
    ring = Ring(alpha=alpha, digit_limbs=sizes)
    rows, digits = ring.rows(limbs), ring.digits(limbs)
    source = ring.random_rows(range(len(ring.moduli)))
    a = np.stack([ring.random_rows(rows) for _ in digits])
    noise = np.stack([ring.small(20) for _ in digits])
    packed = ring.context.switching_key(ring.secret, source, a, noise, limbs)
    assert packed.shape[:-1] == (len(digits), 2)
    key = np.stack([[ring.context.unpack_key(part) for part in digit] for digit in packed])
    np.testing.assert_array_equal(key[:, 1], a)
    for d, digit in enumerate(digits):
        error = ring.ntt(to_object(noise[d]), rows)
        for row, i in enumerate(rows):
            m = ring.moduli[i]
            left = to_object(key[d, 0, row]) + to_object(a[d, row]) * to_object(ring.secret[i])
            gadget = ring.special_product if i in digit else 0
            right = to_object(error[row]) + gadget * to_object(source[i])
            np.testing.assert_array_equal(left % m, right * MONTGOMERY % m)


def test_sums_of_different_components(ring: Ring) -> None:
    x, y = ring.random_ciphertext(3, 3), ring.random_ciphertext(3, 2)
    (x0, x1, x2), (y0, y1) = ring.polynomials(x), ring.polynomials(y)
    same(ring, ring.context.add(x, y), [x0 + y0, x1 + y1, x2])
    same(ring, ring.context.add(y, x), [x0 + y0, x1 + y1, x2])
    same(ring, ring.context.sub(x, y), [x0 - y0, x1 - y1, x2])
    same(ring, ring.context.sub(y, x), [y0 - x0, y1 - x1, -x2])
    same(ring, ring.context.neg(x), [-x0, -x1, -x2])


@pytest.mark.parametrize("value", [0, 1, -1, 7, -(10**30), 2**64, 10**60 + 1])
def test_multiply_scalar(ring: Ring, value: int) -> None:
    x = ring.random_ciphertext(4)
    same(ring, ring.context.multiply_scalar(x, value), [value * c for c in ring.polynomials(x)])
    if abs(value) < 2**63:
        same(ring, ring.context.multiply_scalar(x, np.int64(value)), [value * c for c in ring.polynomials(x)])


@pytest.mark.parametrize("components", [2, 3])
def test_scaled_sum(ring: Ring, components: int) -> None:
    """Of numbers that are negative, larger than all moduli, and zero; of one term; of more terms than a kernel adds up
    at a time; and of none, which is refused."""
    values = [3, -(10**30), 0, 2**64, *range(-64, 64)]
    cts = [ring.random_ciphertext(4, components) for _ in values]
    for number, constant in ((1, 0), (4, -(10**40)), (64, 7), (65, 0), (132, -1)):
        expected = [0 * c for c in ring.polynomials(cts[0])]
        for ct, value in zip(cts[:number], values, strict=False):
            expected = [total + value * c for total, c in zip(expected, ring.polynomials(ct), strict=True)]
        (found,) = ring.context.scaled_sums([(cts[:number], values[:number], constant)])
        expected[0] = expected[0].copy()
        expected[0][0] += constant
        same(ring, found, expected)
    with pytest.raises(ValueError, match="at least 1"):
        ring.context.scaled_sums([([], [], 0)])
    with pytest.raises(ValueError, match="4 limbs"):
        ring.context.scaled_sums([([cts[0], ring.random_ciphertext(3, components)], [1, 2], 0)])


def test_plain_operations(ring: Ring) -> None:
    x, m = ring.random_ciphertext(4, 3), ring.small(2**40)
    plain = ring.context.plaintext(m, 4)
    mont = ring.context.plaintext(m, 4, montgomery=True)
    x0, x1, x2 = ring.polynomials(x)
    same(ring, ring.context.add_plain(x, plain), [x0 + to_object(m), x1, x2])
    same(ring, ring.context.multiply_plain(x, mont), [multiply(c, to_object(m)) for c in (x0, x1, x2)])


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_multiply_sum(ring: Ring, count: int) -> None:
    lefts = [ring.random_ciphertext(3) for _ in range(count)]
    rights = [ring.random_ciphertext(3) for _ in range(count)]
    expected = [to_object([0] * ring.n) for _ in range(3)]
    for left, right in zip(lefts, rights, strict=True):
        (b, a), (c, d) = ring.polynomials(left), ring.polynomials(right)
        expected[0] = expected[0] + multiply(b, c)
        expected[1] = expected[1] + multiply(b, d) + multiply(a, c)
        expected[2] = expected[2] + multiply(a, d)
    got = ring.context.multiply_sum(lefts, rights)
    same(ring, got, expected)
    again = ring.context.multiply_sum(lefts, rights, got)
    assert again is got
    same(ring, got, [2 * x for x in expected])


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize(
    ("sums", "terms", "lines"), [(1, 1, 1), (7, 3, 2), (8, 2, 4), (9, 13, 5), (20, 5, 1), (2, 200, 3)]
)
def test_relinearised_sums_of_long_limbs(sums: int, terms: int, lines: int, threads: int) -> None:
    """Several at a time take a limb part by part: more words than a part has, by fewer sums than threads and more."""
    wide = Ring(n=4096, q_bits=(50, 40), special=1, alpha=1)
    key = wide.random_key(2)
    lefts = [[wide.random_ciphertext(2) for _ in range(terms)] for _ in range(lines)]
    rights = [[wide.random_ciphertext(2) for _ in range(terms)] for _ in range(sums)]
    before = _core.threads()
    _core.set_threads(threads)
    try:
        found = wide.context.relinearised_sums(lefts, rights, key, -7)
    finally:
        _core.set_threads(before)
    assert len(found) == lines * sums
    assert wide.context.relinearised_sums(lefts, [], key) == []
    for one, (own, each) in zip(found, itertools.product(lefts, rights), strict=True):
        product = wide.context.multiply_scalar(wide.context.multiply_sum(own, each, None), -7)
        np.testing.assert_array_equal(one, wide.context.relinearise(product, key, False))


def test_factors_take_half_a_word_where_a_prime_does() -> None:
    """Limb after limb, those of wide primes in two rows: the words of `plaintext`."""
    ring = mixed_ring()
    message = ring.small(2**40)
    for limbs, special in itertools.product(range(1, ring.num_q + 1), (False, True)):
        found = ring.context.factor(message, limbs, special)
        words = ring.context.plaintext(message, limbs, special, montgomery=True)
        primes = ring.moduli[:limbs] + ring.moduli[ring.num_q :] * special
        row = 0
        for one, q in zip(words, primes, strict=True):
            if q < 2**32:
                np.testing.assert_array_equal(found[row], one)
            else:
                np.testing.assert_array_equal(found[row : row + 2].reshape(-1).view(np.uint64), one)
            row += 1 if q < 2**32 else 2
        assert (row, np.uint32) == (len(found), found.dtype)


@pytest.mark.parametrize("repeats", [8, 32, 128])
def test_factors_that_repeat_have_each_word_once(repeats: int) -> None:
    """Of a polynomial in X^r every r words in a row are equal."""
    ring = mixed_ring()
    message = ring.small(2**40) * (np.arange(ring.n) % repeats == 0)
    whole = ring.context.plaintext(message, 3, True, montgomery=True)
    np.testing.assert_array_equal(whole, whole[:, ::repeats].repeat(repeats, axis=1))
    full, found = (ring.context.factor(message, 3, True, each) for each in (1, repeats))
    assert found.shape == (len(full), ring.n // repeats)
    row = 0
    for words, q in zip(whole, ring.moduli[:3] + ring.moduli[ring.num_q :], strict=True):
        rows = found[row : row + (1 if q < 2**32 else 2)].reshape(-1)
        np.testing.assert_array_equal(rows if q < 2**32 else rows.view(np.uint64), words[::repeats])
        row += 1 if q < 2**32 else 2


@pytest.mark.parametrize("count", [1, 3, 40])
def test_multiply_plain_sum(ring: Ring, count: int) -> None:
    ciphertexts = [ring.random_ciphertext(3) for _ in range(count)]
    plains = [ring.small(2**30) for _ in range(count)]
    rows = [ring.context.factor(m, 3) for m in plains]
    expected = [to_object([0] * ring.n) for _ in range(2)]
    for m, ciphertext in zip(plains, ciphertexts, strict=True):
        for c, x in enumerate(ring.polynomials(ciphertext)):
            expected[c] = expected[c] + multiply(to_object(m), x)
    got = ring.context.multiply_plain_sum(rows, ciphertexts)
    same(ring, got, expected)
    assert ring.context.multiply_plain_sum(rows, ciphertexts, accumulator=got) is got
    same(ring, got, [2 * x for x in expected])


@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("threads", [1, 2])
def test_weighted_sums(width: int, threads: int) -> None:
    """Blocks of weights in pieces: bit for bit what `multiply_plain_sum` makes of the same plaintexts."""
    ring = mixed_ring()
    context, limbs = ring.context, 3
    cts = [ring.random_ciphertext(limbs) for _ in range(4)]
    terms = [[0], [3, 1, 3, 0], [2] * 9]
    messages = [[ring.small(2**30) for _ in row] for row in terms]
    plains = [[context.factor(message, limbs) for message in row] for row in messages]
    halves = len(plains[0][0])
    blocks = [
        context.write_weights(np.zeros((halves, ring.n // width, len(row), width), np.uint32), 0, row)
        for row in messages
    ]
    before = _core.threads()
    try:
        _core.set_threads(threads)
        found = context.weighted_sums(blocks, terms, cts)
    finally:
        _core.set_threads(before)
    for sources, row, got in zip(terms, plains, found, strict=True):
        np.testing.assert_array_equal(
            got, context.multiply_plain_sum(row, [cts[source] for source in sources])
        )


@pytest.mark.parametrize(("limbs", "count"), [(2, 1), (5, 1), (5, 2), (5, 4)])
@pytest.mark.parametrize("components", [2, 3])
def test_rescale_rounds_exactly(ring: Ring, limbs: int, count: int, components: int) -> None:
    x = ring.random_ciphertext(limbs, components)
    polynomials, modulus = exact(ring, x)
    divisor = prod(ring.moduli[limbs - count : limbs])
    got = ring.context.rescale(x, count)
    assert got.shape == (components, limbs - count, ring.n)
    same(ring, got, [ring.divide(c, modulus, divisor) for c in polynomials])


def test_drop(ring: Ring) -> None:
    x = ring.random_ciphertext(5, 3)
    np.testing.assert_array_equal(ring.context.drop(x, 2), x[:, :2])


def test_views_and_unaligned_arrays_are_accepted(ring: Ring) -> None:
    context = ring.context
    x, y = ring.random_ciphertext(5), ring.random_ciphertext(3)
    expected = context.add(x[:, :3].copy(), y)
    np.testing.assert_array_equal(context.add(x[:, :3], y), expected)
    reverse = x[:, ::-1].copy()[:, ::-1]
    np.testing.assert_array_equal(context.add(reverse[:, :3], y), expected)
    np.testing.assert_array_equal(context.add(np.asfortranarray(x)[:, :3], y), expected)
    storage = np.empty(y.nbytes + 8, dtype=np.uint8)
    for offset in range(8):  # not even aligned to words
        shifted = storage[offset : offset + y.nbytes].view(np.uint64).reshape(y.shape)
        shifted[...] = y
        np.testing.assert_array_equal(context.add(x[:, :3], shifted), expected)
    padded = np.zeros((*y.shape[:2], ring.n + 1), dtype=np.uint64)
    padded[..., 1:] = y
    np.testing.assert_array_equal(context.add(x[:, :3], padded[..., 1:]), expected)


def test_results_are_aligned_and_outlive_the_pool(ring: Ring) -> None:
    x = ring.random_ciphertext(5)
    held = [ring.context.neg(x) for _ in range(20)]
    assert all(h.ctypes.data % 64 == 0 and h.flags.c_contiguous and h.flags.writeable for h in held)
    expected = held[0].copy()
    _core.trim_pool()
    before = _core.pool_bytes()
    assert before >= sum(h.nbytes for h in held)
    del held[10:]
    _core.trim_pool()
    assert _core.pool_bytes() <= before - 10 * x.nbytes
    for h in held:
        np.testing.assert_array_equal(h, expected)


def test_a_block_takes_over_the_pages_of_others() -> None:
    """Blocks of changing sizes, none of which would fit beside what idles: no page is shared."""
    n, held = 1 << 14, list[Words]()
    primes = _core.primes(n, 50, 64)
    context = _core.Context(n, primes, [], 1)
    for limbs in (62, 40, 31, 55, 18, 62, 47):
        held.clear()
        for value in range(4):
            x = np.full((2, limbs, n), value, np.uint64)
            held.append(context.neg(x))
        for value, y in enumerate(held):
            expected = np.array([(q - value) % q for q in primes[:limbs]], np.uint64)
            assert (y == expected[None, :, None]).all()


def test_the_pool_recycles() -> None:
    context = _core.Context(1 << 14, _core.primes(1 << 14, 50, 4), [], 1)
    x = np.zeros((2, 4, 1 << 14), dtype=np.uint64)
    for _ in range(3):
        y = context.neg(x)
    held = _core.pool_bytes()
    for _ in range(10):
        y = context.neg(x)
    assert _core.pool_bytes() == held
    np.testing.assert_array_equal(y, 0)
