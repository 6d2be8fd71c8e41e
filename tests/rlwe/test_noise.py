"""The noise model: one rule of tails, variances that rows and slots share, constants that are those of the core."""

from __future__ import annotations

import math

import numpy as np
import pytest

import cipherblas._core as _core
from cipherblas.rlwe import noise
from cipherblas.rlwe.rings import RingShape

RING = RingShape.from_bits(1 << 10, [40.0, 40.0, 40.0], [44.0, 44.0], 2, 30.0)


@pytest.mark.parametrize("bits", [0, 3, 6])
def test_tails_hold_where_they_can_be_sampled(bits: int) -> None:
    rng, rounds, n = np.random.default_rng(bits), 400, 256
    ternary = rng.integers(-1, 2, (rounds, n)).astype(np.float64)
    slots = np.abs(np.fft.fft(ternary * np.exp(1j * np.pi * np.arange(n) / n))) / math.sqrt(n * 2 / 3)
    real = np.abs(ternary.sum(axis=1)) / math.sqrt(n * 2 / 3)
    for found, tail in ((slots, noise.slot_tail), (real, noise.tail)):
        expected = 2.0**-bits * found.size
        assert np.count_nonzero(found > tail(1.0, bits)) <= expected + 4 * math.sqrt(expected)


def test_more_entries_and_less_failure_take_more_deviations() -> None:
    for tail in (noise.tail, noise.slot_tail):
        assert tail(1.0, 40) < tail(2.0, 40) < tail(2.0, 41) == tail(4.0, 40)
    assert noise.tail(1.0, noise.FAILURE_BITS) == noise.tail(1.0)
    assert 12 < noise.tail(1.0, 104) < 12.2 and 9.3 < noise.slot_tail(1.0, 104) < 9.4


def test_errors_are_those_that_the_core_samples() -> None:
    assert _core.NOISE_SIGMA == noise.SIGMA and _core.LARGEST_NOISE == noise.MAX_ERROR
    context = _core.Context(1 << 12, _core.primes(1 << 12, 40, 1), [], 1)
    words = np.random.default_rng(0).integers(0, 1 << 64, (8, 1 << 12), dtype=np.uint64)
    samples = np.concatenate([context.gaussian(row) for row in words])
    assert abs(samples.std() / noise.SIGMA - 1) < 6 / math.sqrt(2 * samples.size)
    largest = context.gaussian(np.full(1 << 12, (1 << 64) - 1, np.uint64))
    assert np.abs(largest).max() == noise.MAX_ERROR


def test_slots_and_rows_have_the_same_variances() -> None:
    """A slot has N/2 times the variance of a coefficient per real part, and another tail where products are summed."""
    slots, rows = noise.NoiseModel(RING), noise.CoefficientNoise(RING)
    half = RING.n / 2
    assert slots.fresh(1.0) ** 2 == pytest.approx(half * rows.fresh())
    for limbs in (1, 2, 3):
        found = slots.key_switch(limbs, 1.0) ** 2 / (half * noise.PRODUCT_TAIL**2)
        assert found * noise.concentration(RING.n) == pytest.approx(rows.key_products(limbs))
        assert rows.switch(limbs) == pytest.approx(rows.key_products(limbs) + rows.rounding())
    rounding = slots.rounding(1.0) ** 2 / (half * noise.PRODUCT_TAIL**2)
    assert rounding == pytest.approx(rows.rounding()) == pytest.approx((1 + rows.weight) / 12)


def test_digits_are_those_of_the_modulus() -> None:
    rows = noise.CoefficientNoise(RING)
    assert rows.digits(3) == pytest.approx([2.0**-8, 2.0**-48])
    assert rows.digits(2) == pytest.approx([2.0**-8])


def test_bounds_hold_for_any_secret() -> None:
    """Bounds of formats are no smaller than what a secret of usual weight needs; worst cases no smaller than those."""
    rows, worst = noise.CoefficientNoise(RING), noise.WorstCoefficients(RING)
    for limbs in (1, 2, 3):
        bound = noise.switch_bound(RING, limbs)
        assert noise.tail(1.0, 50) * math.sqrt(rows.switch(limbs)) <= bound <= worst.switch(limbs)
    assert noise.fresh_bound(RING) < noise.fresh_bound(RING, public_key=True)
    assert noise.fresh_bound(RING) > noise.MAX_ERROR
