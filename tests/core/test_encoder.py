"""The canonical embedding of the core against its definition and against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas._core as _core

Complex = NDArray[np.complex128]


def context(log_n: int) -> _core.Context:
    n = 1 << log_n
    return _core.Context(n, _core.primes(n, 50, 1), [], 1)


def slots_by_definition(coefficients: NDArray, n: int) -> Complex:
    """m(zeta^(5^j)) with exponents reduced exactly, summed in extended precision."""
    exponents = np.array([pow(5, j, 2 * n) for j in range(n // 2)])[:, None] * np.arange(n) % (2 * n)
    angles = exponents * (np.pi / np.longdouble(n))
    values = np.asarray(coefficients, dtype=np.longdouble)
    return (np.cos(angles) @ values) + 1j * (np.sin(angles) @ values).astype(np.longdouble)


def random_slots(count: int, seed: int = 0) -> Complex:
    generator = np.random.default_rng(seed)
    return generator.normal(size=count) + 1j * generator.normal(size=count)


@pytest.mark.parametrize("log_n", [3, 4, 7, 10])
def test_decode_is_the_evaluation(log_n: int) -> None:
    n = 1 << log_n
    coefficients = np.random.default_rng(1).normal(size=n)
    got = context(log_n).decode(coefficients)
    expected = slots_by_definition(coefficients, n)
    # log2(S) stages, each with a relative error of a few units in the last place.
    bound = 4 * log_n * np.finfo(float).eps * np.abs(coefficients).sum() / np.sqrt(n) * 4
    assert np.abs(got - expected).max() < bound


@pytest.mark.parametrize("log_n", [3, 10, 13, 16])
def test_encode_then_decode(log_n: int) -> None:
    ctx = context(log_n)
    values, scale = random_slots(ctx.slots), 2.0**50
    coefficients = ctx.encode(values, scale)
    assert coefficients.dtype == np.int64 and coefficients.shape == (ctx.n,)
    got = ctx.decode(coefficients / scale)
    # Rounding: each coefficient within 1/2, so each slot within N/2 / scale; float64: 1e-14 of the largest slot.
    assert np.abs(got - values).max() < ctx.n / 2 / scale + 1e-14 * np.abs(values).max()


@pytest.mark.parametrize("log_n", [3, 8, 13])
def test_real_slots_are_encoded_symmetrically(log_n: int) -> None:
    """a(1/X) = a(X), exactly: as float64 and as complex128. Its transform is the same in either half."""
    ctx = context(log_n)
    values = np.random.default_rng(2).normal(size=ctx.slots)
    coefficients = ctx.encode(values, 2.0**40)
    np.testing.assert_array_equal(coefficients, ctx.encode(values.astype(complex), 2.0**40))
    (again,) = ctx.encode_all([values], 2.0**40, [0])
    np.testing.assert_array_equal(coefficients, again)
    assert coefficients[ctx.n // 2] == 0
    np.testing.assert_array_equal(coefficients[:0:-1], -coefficients[1:])
    rows = ctx.plaintext(coefficients, 1)
    np.testing.assert_array_equal(rows, rows[:, ::-1])
    other = ctx.encode(values + 1e-3j, 2.0**40)
    assert (other[:0:-1] != -other[1:]).any()


@pytest.mark.parametrize("count", [0, 1, 5, 16])
def test_missing_slots_are_zero(count: int) -> None:
    ctx = context(5)
    values = random_slots(count)
    got = ctx.decode(ctx.encode(values, 2.0**45) / 2.0**45)
    expected = np.concatenate([values, np.zeros(ctx.slots - count)])
    assert np.abs(got - expected).max() < ctx.n / 2**45


def test_coefficients_are_rounded_to_nearest() -> None:
    """A constant vector is the constant polynomial; the slots 1j are X^(N/2)."""
    ctx = context(6)
    for value, rounded in ((0.75, 1), (0.25, 0), (-0.75, -1), (3.4, 3)):
        real = ctx.encode(np.full(ctx.slots, value, dtype=complex), 1.0)
        imaginary = ctx.encode(np.full(ctx.slots, 1j * value), 1.0)
        assert real[0] == rounded and not real[1:].any()
        assert imaginary[ctx.n // 2] == rounded and np.count_nonzero(imaginary) == (rounded != 0)


def test_rotation_and_conjugation_of_slots() -> None:
    ctx = context(8)
    values, scale = random_slots(ctx.slots), 2.0**40
    coefficients = ctx.encode(values, scale)
    modulus = ctx.moduli[0]
    rows = ctx.plaintext(coefficients, 1)
    identity = np.zeros(ctx.n, dtype=np.int64)
    secret = ctx.plaintext(identity, 1)

    def slots(poly: NDArray[np.uint64]) -> Complex:
        return ctx.decode(ctx.phase(secret, np.stack([poly, np.zeros_like(poly)])) / scale)

    assert modulus > 2 * scale * 10
    for step in (1, 3, -2):
        rotated = slots(ctx.automorphism(rows, ctx.galois_element(step)))
        assert np.abs(rotated - np.roll(values, -step)).max() < 1e-8
    conjugated = slots(ctx.automorphism(rows, 2 * ctx.n - 1))
    assert np.abs(conjugated - values.conj()).max() < 1e-8


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300, 1j * np.nan, 2.0**23])
def test_values_that_do_not_fit(bad: complex) -> None:
    ctx = context(5)
    values = np.zeros(ctx.slots, dtype=complex)
    values[:] = bad
    with pytest.raises(ValueError, match=r"expected finite coefficients below 2\^62"):
        ctx.encode(values, 2.0**40)


def test_the_largest_coefficient_fits() -> None:
    ctx = context(5)
    largest = np.nextafter(2.0**62, 0)
    values = np.full(ctx.slots, largest, dtype=complex)
    assert ctx.encode(values, 1.0)[0] == int(largest)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_scales_that_make_no_sense(scale: float) -> None:
    with pytest.raises(ValueError, match="scale: expected a positive number"):
        context(5).encode(np.zeros(4, dtype=complex), scale)
