"""Bicyclic, E2DM-S and Halevi-Shoup: every entry, and their published counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.methods.matmul.baselines.e2dm import E2dm
from cipherblas.methods.matmul.baselines.halevi_shoup import HaleviShoup
from cipherblas.methods.matmul.bicyclic import Bicyclic
from cipherblas.methods.products import ALGORITHMS, build, find
from tests.support import product_runs as harness

dimension = st.integers(1, 12)
small = st.integers(1, 7)
policy = st.sampled_from(["direct", "composed", "binary"])
grids = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
clear = st.sampled_from(["", "left", "right"])


@given(dimension, dimension, dimension, st.booleans(), policy, st.none() | st.integers(1, 5))
def test_bicyclic(m, k, n, packed, key_policy, key_baby_steps):
    algorithm = Bicyclic(m, k, n, 1024, complex_packing=packed, key_baby_steps=key_baby_steps)
    dimensions = (algorithm.rows, algorithm.inner, algorithm.cols)
    assert all(math.gcd(dimensions[i], dimensions[i - 1]) == 1 for i in range(3))
    harness.check(algorithm, seed=m * 144 + k * 12 + n, key_policy=key_policy)


@given(grids, clear, policy)
def test_bicyclic_blocks(grid, public, key_policy):
    harness.check(Bicyclic(3, 4, 5, 128), seed=1, grid=grid, public=public, key_policy=key_policy)


@pytest.mark.parametrize("packed", [True, False])
def test_bicyclic_blocks_are_prepared_once(packed):
    harness.check_blocks_prepared_once(Bicyclic(3, 4, 5, 128, complex_packing=packed))


def test_bicyclic_counts():
    """Coprime dimensions, as published: k - 1 hoisted rotations per operand, k products, one relinearisation."""
    counts = harness.check(Bicyclic(7, 9, 8, 256, complex_packing=False), seed=1).counts
    assert (counts.rotations, counts.hoistings, counts.products, counts.plain_products) == (16, 3, 9, 0)


@given(small, small, small, st.sampled_from([None, 8]), policy, st.none() | st.integers(1, 5))
def test_e2dm(m, k, n, size, key_policy, baby_steps):
    algorithm = E2dm(m, k, n, 64, size=size, baby_steps=baby_steps)
    harness.check(algorithm, seed=m * 144 + k * 12 + n, key_policy=key_policy)


@given(grids, clear, policy, st.sampled_from([None, 4, 8]))
def test_e2dm_blocks(grid, public, key_policy, size):
    harness.check(E2dm(3, 4, 2, 256, size=size), seed=1, grid=grid, public=public, key_policy=key_policy)


def test_e2dm_counts():
    """s² = slots: σ has 2s - 1 diagonals, τ s, φ 2, ψ none; s products."""
    algorithm = E2dm(8, 8, 8, 64)
    assert [len(algorithm.sigma()), len(algorithm.tau()), len(algorithm.phi(3)), len(algorithm.psi(3))] == [
        15,
        8,
        2,
        1,
    ]
    assert not algorithm.psi(3).masked
    counts = harness.check(algorithm, seed=1).counts
    assert counts.products == 8
    assert counts.plain_products == 15 + 8 + 1 + 2 * 7


@given(small, small, small, policy)
def test_halevi_shoup(m, k, n, key_policy):
    harness.check(HaleviShoup(m, k, n, 16), seed=m * 49 + k * 7 + n, key_policy=key_policy)


@given(grids, clear)
def test_halevi_shoup_blocks(grid, public):
    harness.check(HaleviShoup(3, 4, 2, 16), seed=1, grid=grid, public=public)


def test_halevi_shoup_counts():
    outcome = harness.check(HaleviShoup(4, 5, 6, 16), seed=1)
    assert outcome.counts.products == 5 * 6
    assert outcome.counts.relinearisations == 6
    assert outcome.counts.rotations == 4 * 6
    assert len(outcome.counter.request.galois) == 4


@pytest.mark.parametrize(
    ("name", "shape"), [("bicyclic", (9, 9, 9)), ("e2dm", (9, 2, 2)), ("halevi-shoup", (40, 40, 1))]
)
def test_blocks_that_do_not_fit(name, shape):
    with pytest.raises(ShapeError, match=r"does not fit .expected at most 64 slots, got \d+"):
        build(name, *shape, 64, {})
    assert list(find(name).candidates(*shape, 64)) == []


@given(st.sampled_from(sorted(ALGORITHMS)), small, small, small)
def test_candidates_and_options_rebuild(name, m, k, n):
    options = list(find(name).candidates(m, k, n, 256))
    assert options
    for option in options:
        algorithm = build(name, m, k, n, 256, option)
        again = build(name, m, k, n, 256, algorithm.options)
        assert again.left_layout.key == algorithm.left_layout.key
        assert again.options == algorithm.options
        harness.check(again, seed=0)


def test_unknown_names_and_options():
    with pytest.raises(ParameterError, match=r"no algorithm of this name .expected diagonals"):
        find("strassen")
    with pytest.raises(ParameterError, match="algorithm e2dm does not take these options"):
        build("e2dm", 2, 2, 2, 64, {"colour": 3})
    for cls in ALGORITHMS.values():
        assert cls.title and cls.source and cls.summary


def test_zero_dimensions_and_odd_slots():
    for cls in ALGORITHMS.values():
        with pytest.raises(ShapeError):
            cls(0, 2, 2, 64)
        with pytest.raises(ShapeError):
            cls(2, 2, 2, 63)
