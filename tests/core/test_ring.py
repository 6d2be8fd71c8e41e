"""The ring and the samplers of the core against exact integers."""

from __future__ import annotations

from decimal import Decimal, getcontext

import numpy as np
import pytest

import cipherblas._core as _core
from cipherblas.common.memory import aligned_empty
from tests.support.ring_oracle import MONTGOMERY, Ring, automorphism, multiply, to_object


@pytest.fixture(scope="module", params=[8, 16, 64])
def ring(request: pytest.FixtureRequest) -> Ring:
    return Ring(n=request.param)


def test_primes() -> None:
    n = 1 << 10
    primes = _core.primes(n, 50, 5)
    assert primes == sorted(primes, reverse=True) and len(set(primes)) == 5
    assert all(p < 1 << 50 and p % (2 * n) == 1 and pow(3, p - 1, p) == 1 for p in primes)
    assert _core.primes(n, 50, 4, primes[:1]) == primes[1:]
    near = _core.primes_near(n, 2.0**40, 3)
    assert [abs(p - 2**40) for p in near] == sorted(abs(p - 2**40) for p in near)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("montgomery", [False, True])
def test_plaintext_is_the_evaluation(ring: Ring, special: bool, montgomery: bool) -> None:
    coefficients = ring.generator.integers(-(2**62), 2**62, ring.n, dtype=np.int64)
    limbs = 3
    index = ring.rows(limbs) if special else list(range(limbs))
    got = ring.context.plaintext(coefficients, limbs, special=special, montgomery=montgomery)
    factor = MONTGOMERY if montgomery else 1
    np.testing.assert_array_equal(got, ring.ntt(to_object(coefficients) * factor, index))


def test_automorphism_and_product(ring: Ring) -> None:
    index = range(len(ring.moduli))
    x, y = ring.small(2**30), ring.small(2**30)
    x_rows, y_rows = ring.ntt(to_object(x), index), ring.ntt(to_object(y), index)
    np.testing.assert_array_equal(
        ring.context.multiply(x_rows, y_rows), ring.ntt(multiply(to_object(x), to_object(y)), index)
    )
    for galois in range(1, 2 * ring.n, 2):
        np.testing.assert_array_equal(
            ring.context.automorphism(x_rows, galois), ring.ntt(automorphism(to_object(x), galois), index)
        )


def test_galois_elements(ring: Ring) -> None:
    for step in (0, 1, 2, -1, 7, ring.n // 2, 10**9, -(10**9)):
        assert ring.context.galois_element(step) == pow(5, step % (ring.n // 2), 2 * ring.n)


def test_uniform_skips_the_rejected_words(ring: Ring) -> None:
    index = [1, 0, 5]
    words = ring.generator.integers(0, 2**64, (3, ring.n + 128), dtype=np.uint64)
    limits = [2**64 // ring.moduli[i] * ring.moduli[i] for i in index]
    words[0, [0, 3, 4]] = 2**64 - 1
    words[1, 2], words[1, 3] = limits[1], limits[1] - 1  # the first rejected, the last accepted
    expected = [
        [int(w) % ring.moduli[i] for w in row if int(w) < limit][: ring.n]
        for row, i, limit in zip(words, index, limits, strict=True)
    ]
    np.testing.assert_array_equal(ring.context.uniform(words, index), np.array(expected, dtype=np.uint64))


def test_uniform_needs_enough_words(ring: Ring) -> None:
    words = np.zeros((1, ring.n + 128), dtype=np.uint64)
    words[0, :128] = 2**64 - 1
    np.testing.assert_array_equal(ring.context.uniform(words, [0]), np.zeros((1, ring.n), dtype=np.uint64))
    words[0, 128] = 2**64 - 1
    with pytest.raises(RuntimeError, match="ran out"):
        ring.context.uniform(words, [0])


@pytest.mark.parametrize("factor", [1, 0, -1, 12345678901234567890123])
def test_expanded_ciphertexts_are_multiples_of_what_was_sent(ring: Ring, factor: int) -> None:
    limbs = 3
    words = ring.generator.integers(0, 2**64, (limbs, ring.n + 128), dtype=np.uint64)
    words[1, [0, 5]] = 2**64 - 1
    a = ring.context.uniform(words, range(limbs))
    b = np.stack([ring.generator.integers(0, q, ring.n, dtype=np.uint64) for q in ring.moduli[:limbs]])
    out = aligned_empty((2, limbs, ring.n))
    ring.context.expand(b, words, factor, out)
    for part, whole in zip(out, (b, a), strict=True):
        for limb, q in enumerate(ring.moduli[:limbs]):
            assert part[limb].tolist() == [int(x) * factor % q for x in whole[limb]]


def test_ternary(ring: Ring) -> None:
    stream = ring.generator.integers(0, 256, ring.n + 300, dtype=np.uint8)
    stream[:5] = [255, 0, 254, 255, 1]
    expected = [int(b) % 3 - 1 for b in stream if b < 255][: ring.n]
    np.testing.assert_array_equal(ring.context.ternary(stream), expected)
    with pytest.raises(RuntimeError, match="ran out"):
        ring.context.ternary(np.full(ring.n + 256, 255, dtype=np.uint8))


def test_gaussian_table_is_the_rounded_distribution() -> None:
    """The value steps from k to k + 1 exactly at round(2^63 Pr[|x| <= k]), sigma 3.2; none exceeds 29."""
    getcontext().prec = 60
    weights = [(-Decimal(k * k) / (2 * Decimal("3.2") ** 2)).exp() for k in range(33)]
    total = weights[0] + 2 * sum(weights[1:])
    bounds, cumulative = [], Decimal(0)
    for k, weight in enumerate(weights):
        cumulative += weight if k == 0 else 2 * weight
        bounds.append(int((cumulative / total * 2**63).to_integral_value()))
    context = Ring(n=128).context
    words, expected = [], []
    for k, bound in enumerate(bounds):
        for word, value in ((bound - 1, k), (bound, k + 1)):
            if word < 2**63 and (value == 0 or word >= bounds[value - 1]):
                sign = len(words) % 2
                words.append(2 * word + sign)
                expected.append(-value if sign else value)
    assert len(words) >= 55
    assert np.abs(expected).max() == 29  # 9.06 sigma
    used = len(words)
    words += [0] * (128 - used)
    got = context.gaussian(np.array(words, dtype=np.uint64))
    np.testing.assert_array_equal(got[:used], expected)
    np.testing.assert_array_equal(got[used:], 0)


def test_gaussian_moments() -> None:
    context = _core.Context(1 << 15, _core.primes(1 << 15, 50, 1), [], 1)
    words = np.random.default_rng(3).integers(0, 2**64, 1 << 15, dtype=np.uint64)
    sample = context.gaussian(words)
    deviation = 3.2 / np.sqrt(len(sample))
    assert abs(sample.mean()) < 5 * deviation
    assert abs((sample**2).mean() - 3.2**2) < 5 * 3.2**2 * np.sqrt(2 / len(sample))
