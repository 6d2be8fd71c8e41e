"""Products with vectors by diagonals: every entry, groups, giant steps, what lies in the slots of the product."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.methods.matmul.diagonals import MAX_VECTORS, Diagonals
from tests.corpus.machine import MACHINE
from tests.support import product_runs as harness

length = st.one_of(st.integers(1, 40), st.sampled_from([1, 2, 4, 8, 16, 32]))


@given(length, length, st.integers(1, 3), st.booleans(), st.booleans(), st.integers(1, 5))
def test_every_shape(m, k, n, transposed, packed, giant_steps):
    shape = (n, k, m) if transposed else (m, k, n)
    algorithm = Diagonals(*shape, 128, complex_packing=packed, giant_steps=giant_steps)
    harness.check(algorithm, seed=m * 1600 + k * 40 + n)


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(["", "left", "right"]),
    st.sampled_from([1, 2]),
)
def test_blocks_and_clear_operands(grid, public, giant_steps):
    harness.check(Diagonals(20, 12, 1, 64, giant_steps=giant_steps), seed=1, grid=grid, public=public)


@pytest.mark.parametrize("k", [16, 15])
def test_tall_matrices_fill_the_slots(k):
    """One diagonal per ciphertext, or two with complex packing; the vector alone is rotated."""
    outcome = harness.check(Diagonals(100, k, 1, 128), seed=1)
    assert (outcome.counts.products, outcome.counts.rotations, outcome.counts.relinearisations) == (8, 7, 1)
    outcome = harness.check(Diagonals(100, k, 1, 128, giant_steps=2), seed=1)
    assert (outcome.counts.products, outcome.counts.rotations, outcome.counts.relinearisations) == (8, 4, 2)


def test_wide_matrices_share_ciphertexts():
    """8×64 in 128 slots: 512 entries, two in a slot; 2^4 groups of 8 slots, added by 4 rotations."""
    algorithm = Diagonals(8, 64, 1, 128)
    assert (algorithm.groups, algorithm.left_layout.ciphertexts) == (8, 4)
    outcome = harness.check(algorithm, seed=1)
    assert (outcome.counts.products, outcome.counts.rotations) == (4, 3 + 3)


def test_a_vector_of_few_diagonals_lies_as_it_comes():
    """So that the sum of a computed vector re-arranges nothing."""
    (first, *_) = Diagonals.candidates(1, 100, 1, 128)
    layout = Diagonals(1, 100, 1, 128, **first).right_layout
    assert layout.index(0).real[:100].tolist() == list(range(100))
    assert (layout.index(0).real[100:] == -1).all()


def test_bad_sizes():
    with pytest.raises(ShapeError, match=r"does not fit .expected at most 64 slots, got \d+"):
        Diagonals(65, 2, 1, 64)
    with pytest.raises(ParameterError, match=r"at least 1 .got 0"):
        Diagonals(4, 4, 1, 64, giant_steps=0)


def test_planned_where_there_are_few_vectors():
    """Or when it is asked for by name."""
    assert Diagonals.worthwhile(40, 9, MAX_VECTORS) and Diagonals.worthwhile(MAX_VECTORS, 9, 40)
    assert not Diagonals.worthwhile(40, 9, MAX_VECTORS + 1)
    operands = {"a": cb.secret(40, 9), "b": cb.secret(9, 30)}
    program = cb.compile(lambda a, b: a @ b, operands, machine=MACHINE)
    assert "diagonals" not in {program.plan.algorithm, *(loser.algorithm for loser in program.plan.rejected)}
    named = cb.compile(lambda a, b: a @ b, operands, algorithm="diagonals", machine=MACHINE)
    assert named.plan.algorithm == "diagonals"


@given(length, length)
def test_candidates_are_valid(m, k):
    for option in Diagonals.candidates(m, k, 1, 128):
        harness.check(Diagonals(m, k, 1, 128, **option), seed=0)
