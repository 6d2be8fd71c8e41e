"""FAME's cost model: the sizes that the paper prints, and the ring that Eq. 16 means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ParameterError
from cipherblas.rlwe.fast_memory import FastMemory, ring_degree

MIB = 2**20
dimension = st.integers(1, 300)


def test_published_sizes_of_set_c() -> None:
    """Section III-B3 and Eq. 24: ciphertext 27 MB, product about 255 MB, MO-HLT about 29 MB (2^20)."""
    model = FastMemory.of(1 << 16, 32, 12, 3, word_bytes=1693 / 32 / 8)
    assert model.ciphertext / MIB == pytest.approx(27, abs=1)
    assert model.product / MIB == pytest.approx(255, rel=0.02)
    assert model.by_limbs / MIB == pytest.approx(29, abs=1)


def test_published_sizes_of_set_b() -> None:
    """Ciphertext 6.7 MB, product about 61 MB."""
    model = FastMemory.of(1 << 15, 16, 8, 2, word_bytes=855 / 16 / 8)
    assert model.ciphertext / MIB == pytest.approx(6.7, abs=0.05)
    assert model.product / MIB == pytest.approx(61, rel=0.02)


def test_published_sizes_of_set_a() -> None:
    """Ciphertext 0.43 MB, product about 3.6 MB: of four limbs, as the paper counts them there."""
    model = FastMemory.of(1 << 13, 4, 1, 1, word_bytes=218 / 4 / 8)
    assert model.ciphertext / MIB == pytest.approx(0.43, abs=0.01)
    assert model.product / MIB == pytest.approx(3.6, rel=0.05)


def test_each_need_includes_the_one_before() -> None:
    model = FastMemory.of(1 << 15, 16, 8, 2)
    assert model.key == 2 * 2 * (16 + 8) * (1 << 15) * 8
    steps = model.key_switch, model.rotation, model.first_transforms, model.second_transforms, model.product
    assert list(steps) == sorted(steps)
    assert model.ciphertext < model.by_limbs < model.key_switch


@given(dimension, dimension, dimension)
def test_ring_degree(m: int, k: int, n: int) -> None:
    """The least power of two whose half holds the largest of the three matrices."""
    degree = ring_degree(m, k, n)
    assert degree & (degree - 1) == 0
    assert degree // 2 >= max(m * k, k * n, m * n)
    assert degree == 1 or degree // 4 < max(m * k, k * n, m * n)


def test_ring_degrees_of_the_paper() -> None:
    """By Eq. 16 alone 160-16-160 would take N = 2^13, where its result does not fit."""
    assert [ring_degree(s, s, s) for s in (64, 128, 160)] == [1 << 13, 1 << 15, 1 << 16]
    assert ring_degree(160, 16, 160) == 1 << 16
    with pytest.raises(ParameterError, match="positive dimensions"):
        ring_degree(0, 1, 1)


def test_traffic_of_a_transform() -> None:
    """Set C with 54 bits: a key of 115 MiB for each rotation; ciphertexts "roughly a hundred MB" (Section IV)."""
    model = FastMemory.of(1 << 16, 32, 12, 3, word_bytes=54 / 8)
    assert model.key / MIB == pytest.approx(2 * 3 * 44 * 27 / 64)
    enough = model.first_transforms
    ciphertexts = model.traffic(enough, "limb", 0, 0)
    assert 50 * MIB < model.passing() * model.limb < 110 * MIB
    assert ciphertexts == model.passing(rotated=False) * model.limb
    for order in ("limb", "rotation"):
        assert model.spilled(enough, order, 9) == 0
        read = model.traffic(enough, order, 2, 3)
        assert read == 2 * model.key + 3 * model.extended * model.limb + model.passing() * model.limb


def test_what_spills() -> None:
    """By limbs what lacks, once for every limb; by rotations the same for each, whatever lacks."""
    model = FastMemory.of(1 << 13, 4, 1, 4)
    assert model.needed("limb") == model.by_limbs < model.needed("rotation") == model.first_transforms
    assert model.spilled(model.by_limbs - model.limb, "limb", 7) == 5 * model.limb
    assert model.spilled(model.by_limbs, "limb", 7) == 0
    each = (4 * 5 + 4 + 4 * 5) * model.limb
    for fast in (0.0, model.first_transforms - 1):
        assert model.spilled(fast, "rotation", 7) == 7 * each
