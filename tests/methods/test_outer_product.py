"""The outer-product form: every entry, packings, copies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.methods.matmul.outer_product import OuterProduct
from tests.support import product_runs as harness

dimension = st.integers(1, 12)


@given(dimension, dimension, dimension, st.booleans(), st.sampled_from([1, 2, 4]))
def test_every_shape(m, k, n, packed, copies):
    algorithm = OuterProduct(m, k, n, 1024, complex_packing=packed, copies=copies)
    harness.check(algorithm, seed=m * 144 + k * 12 + n)


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(["", "left", "right"]),
    st.sampled_from([1, 4]),
)
def test_blocks_and_clear_operands(grid, public, copies):
    harness.check(OuterProduct(4, 5, 6, 256, copies=copies), seed=1, grid=grid, public=public)


def test_needs_no_rotation_key():
    outcome = harness.check(OuterProduct(16, 16, 16, 256), seed=1)
    assert outcome.counter.request.galois == {}
    assert outcome.counts.products == 8
    assert outcome.counts.relinearisations == 1


def test_a_full_ciphertext_of_copies():
    algorithm = OuterProduct(4, 16, 4, 64, copies=4)
    assert algorithm.left_layout.ciphertexts == 2
    outcome = harness.check(algorithm, seed=1)
    assert outcome.counts.rotations == 2


def test_bad_sizes():
    with pytest.raises(ShapeError, match="expected at most 64 slots, got 81"):
        OuterProduct(9, 2, 9, 64)
    with pytest.raises(ParameterError, match=r"a power of two .got 3"):
        OuterProduct(2, 2, 2, 64, copies=3)


@given(dimension, dimension, dimension)
def test_candidates_are_valid(m, k, n):
    for option in OuterProduct.candidates(m, k, n, 256):
        harness.check(OuterProduct(m, k, n, 256, **option), seed=0)
