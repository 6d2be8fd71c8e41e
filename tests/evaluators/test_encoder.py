"""Encodings that are sums of parts: as exact as those of a vector by itself, whatever was encoded before."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import RangeError, ShapeError
from cipherblas.evaluators.slots import encoder as module
from cipherblas.evaluators.slots.encoder import PlainEncoder
from cipherblas.evaluators.slots.values import Plain
from cipherblas_bench import masks as bench
from cipherblas_bench.sets import FAME_SETS

PARAMS = FAME_SETS["A"].parameters()
SLOTS = PARAMS.slots
SCALE = float(PARAMS.q[-1])


def encoder() -> PlainEncoder:
    return PlainEncoder(PARAMS.context(), SLOTS)


def repeated(values: np.ndarray, key: object, **options: object) -> Plain:
    return Plain(key, np.tile(values, SLOTS // len(values)), 1.0, constant=True, **options)


def columns(period: int, number: int) -> list[Plain]:
    """1 in every slot that is j modulo a period, for the first j."""
    return [repeated(np.eye(period)[j], ("column", period, j)) for j in range(number)]


def summed(parts: list[tuple[int, Plain]], key: object) -> Plain:
    values = sum(sign * part.values() for sign, part in parts)
    return Plain(key, values, 1.0, constant=True, parts=lambda: tuple(parts))


def exact(plain: Plain, bits: int = 16) -> np.ndarray:
    """scale · embedding, to 2^-bits."""
    coefficients = PARAMS.context().encode(plain.values().astype(complex), SCALE * 2.0**bits)
    return coefficients / 2.0**bits


@given(st.integers(0, 11), st.integers(0, 2**32 - 1))
def test_periodic_vectors_are_embedded_in_a_subring(log_period: int, seed: int) -> None:
    """The coefficients at multiples of N/2P are those of the whole embedding; all others are zero."""
    random = np.random.default_rng(seed)
    values = random.uniform(-1, 1, 1 << log_period) + 1j * random.uniform(-1, 1, 1 << log_period)
    small = module._embedded(values)
    whole = PARAMS.context().encode(np.tile(values, SLOTS >> log_period), 2.0**50) / 2.0**50
    stride = len(whole) // len(small)
    np.testing.assert_allclose(whole[::stride], small, rtol=0, atol=1e-13)
    others = np.delete(whole, np.arange(0, len(whole), stride))
    assert others.size == 0 or np.abs(others).max() < 1e-13


@pytest.mark.parametrize("period", [1, 2, 16, 2048])
def test_periods(period: int) -> None:
    values = np.random.default_rng(period).uniform(-1, 1, period)
    assert module._period(np.tile(values, SLOTS // period)) == period


@given(st.integers(1, 64), st.booleans())
def test_sums_are_rounded_by_less_than_one(number: int, whole: bool) -> None:
    """Up or down by chance: what rounding adds is below 1 for every coefficient, and 0 on average."""
    parts = [(1, part) for part in columns(64, number)]
    if whole:  # a complement, of parts with other signs
        parts = [(1, repeated(np.ones(1), "all")), *((-1, part) for _, part in parts)]
    plain = summed(parts, ("sum", number, whole))
    found = encoder().one(plain, SCALE)
    errors = found - exact(plain)
    assert np.abs(errors).max() < 1
    moved = errors[exact(plain) % 1 != 0]
    if len(moved) > 60:
        assert abs(moved.mean()) < 6 * 0.5 / np.sqrt(len(moved))


def test_the_order_does_not_matter() -> None:
    """The same integers by an encoder that has sums to go on from and by one that has none; in threads, too."""
    parts = [(1, part) for part in columns(32, 32)]
    plains = [summed(parts[:number], ("first", number)) for number in range(1, 33)]
    alone = [encoder().one(plain, SCALE) for plain in plains]
    shared = encoder()
    ordered = list(itertools.chain.from_iterable(shared.all(plains, SCALE)))
    mixed = np.random.default_rng(1).permutation(32)
    with ThreadPoolExecutor(4) as pool:
        again = dict(zip(mixed, pool.map(lambda i: shared.one(plains[i], SCALE), mixed), strict=True))
    for number in range(32):
        assert np.array_equal(alone[number], ordered[number])
        assert np.array_equal(alone[number], again[number])


def test_sums_go_on_from_recent_ones() -> None:
    shared = encoder()
    parts = [(1, part) for part in columns(32, 32)]
    for number in range(1, 33):
        shared.one(summed(parts[:number], ("first", number)), SCALE)
    assert (shared.encodings, shared.additions) == (32, 32)


def test_vectors_without_room_for_many_roundings_are_embedded_themselves() -> None:
    """Of a scale of 2^55 six bits are left, of which the errors of parts may take none."""
    shared = encoder()
    plain = summed([(1, part) for part in columns(32, 4)], "four")
    assert np.array_equal(
        shared.one(plain, 2.0**55), encoder().one(Plain("four", plain.values(), 1.0), 2.0**55)
    )
    assert (shared.encodings, shared.additions) == (1, 0)
    shared.one(plain, 2.0**40)
    assert (shared.encodings, shared.additions) == (5, 4)


def test_parts_are_checked() -> None:
    short, large = Plain("short", np.ones(5), 1.0), repeated(np.full(4, 2.0), "large")
    for part, error in ((short, ShapeError), (large, RangeError)):
        plain = Plain(("of", part.key), np.ones(SLOTS), 1.0, parts=lambda part=part: ((1, part),))
        with pytest.raises(error):
            encoder().one(plain, SCALE)


@pytest.mark.parametrize("d", [4, 16, 64])
def test_additions_of_the_masks_of_fhe_mm(d: int) -> None:
    """O(d³) additions of polynomials become O(d²), where a vector is encoded slot by slot (FHE4DMM, VI-A-1)."""
    each, sums = (bench.encoded(d, PARAMS, composed) for composed in (False, True))
    assert each.encodings == 2 * d - 1 + d + 2 * (d - 1) and each.additions == 0
    assert sums.encodings == 2 * d - 1 + d + (d - 1) + 1
    assert sums.additions == 2 * (d - 1) + 1
    before, after = (
        bench.slot_additions(d, PARAMS, one, composed) for one, composed in ((each, False), (sums, True))
    )
    assert before == 2 * d * d + (d - 1) * d * d
    assert after == 2 * d * d + (d - 1) * d + d * d + sums.additions
    assert after <= 4 * d * d + 2 * d


@pytest.mark.parametrize("d", [8, 32])
def test_masks_of_fhe_mm_are_the_same_both_ways(d: int) -> None:
    """Up to the rounding by chance."""
    for (scale, parts), (_, alone) in zip(
        bench.masks(d, PARAMS, True), bench.masks(d, PARAMS, False), strict=True
    ):
        both = (encoder().all(plains, scale) for plains in (parts, alone))
        for one, other in zip(*map(itertools.chain.from_iterable, both), strict=True):
            assert np.abs(one - other).max() <= 1
