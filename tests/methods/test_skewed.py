"""The skewed product: every entry, every key policy, both packings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ShapeError
from cipherblas.methods.matmul.skewed import Skewed
from tests.support import product_runs as harness

dimension = st.integers(1, 12)
policy = st.sampled_from(["direct", "composed", "binary"])


@given(
    dimension, dimension, dimension, policy, st.booleans(), st.integers(1, 12), st.none() | st.integers(1, 5)
)
def test_every_shape(m, k, n, key_policy, packed, baby_steps, key_baby_steps):
    algorithm = Skewed(
        m, k, n, 1024, complex_packing=packed, baby_steps=baby_steps, key_baby_steps=key_baby_steps
    )
    harness.check(algorithm, seed=m * 144 + k * 12 + n, key_policy=key_policy)


@given(st.sampled_from([2, 4, 8]), st.integers(1, 8), st.integers(1, 8), policy, st.integers(1, 4))
def test_columns_that_wrap_around(m, k, n, key_policy, baby_steps):
    """The smallest number of slots that still fits: the cyclic form wherever the spare columns do not."""
    slots = next(s for s in (2**e for e in range(1, 12)) if Skewed.fits(m, k, n, s))
    harness.check(Skewed(m, k, n, slots, baby_steps=baby_steps), seed=k, key_policy=key_policy)


def test_the_cyclic_form_is_taken_where_spare_columns_do_not_fit():
    algorithm = Skewed(32, 64, 64, 4096)
    assert algorithm.cyclic
    assert (algorithm.terms, algorithm.stride) == (32, 64)
    harness.check(algorithm, seed=1)


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([(3, 4, 5), (2, 7, 3), (8, 8, 8)]),
    st.sampled_from(["", "left", "right"]),
    policy,
)
def test_blocks_and_clear_operands(grid, block, public, key_policy):
    algorithm = Skewed(*block, 1024, baby_steps=2)
    harness.check(algorithm, seed=sum(grid), grid=grid, public=public, key_policy=key_policy)


def test_counts_of_a_block_product():
    outcome = harness.check(Skewed(16, 16, 16, 1024), seed=3)
    assert outcome.counts.products == 8
    assert outcome.counts.rotations == 7 + 7
    assert outcome.counts.hoistings == 2 + 1
    assert outcome.counts.relinearisations == 1
    assert outcome.counts.rescales == outcome.counts.plain_products == 0


def test_blocks_are_prepared_once():
    harness.check_blocks_prepared_once(Skewed(8, 8, 8, 1024))


def test_composed_keys_are_few():
    few = harness.check(Skewed(16, 32, 16, 2048, key_baby_steps=4), seed=1, key_policy="composed")
    all_keys = harness.check(Skewed(16, 32, 16, 2048, key_baby_steps=4), seed=1, key_policy="direct")
    assert len(all_keys.counter.request.galois) == 30
    assert len(few.counter.request.galois) == 2 * (3 + 3)


def test_a_block_that_does_not_fit():
    with pytest.raises(ShapeError, match=r"expected at most 1024 slots, got"):
        Skewed(33, 33, 33, 1024)
    assert list(Skewed.candidates(33, 33, 33, 1024)) == []


@given(dimension, dimension, dimension)
def test_candidates_are_valid(m, k, n):
    options = list(Skewed.candidates(m, k, n, 1024))
    assert options
    for option in options:
        harness.check(Skewed(m, k, n, 1024, **option), seed=0, key_policy="composed")
