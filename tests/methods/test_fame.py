"""The general product: every entry, the four maps against their definitions, counts against the published ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import LevelError, ParameterError, ShapeError
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.forms.index_maps import rotations_of
from cipherblas.methods.matmul.fame import Fame
from cipherblas.rlwe.key_policies import total_step
from cipherblas.rlwe.rings import RingShape
from tests.support import product_runs as harness

dimension = st.integers(1, 12)
small = st.integers(1, 7)
policy = st.sampled_from(["direct", "composed", "binary"])
baby = st.none() | st.integers(1, 5)
group = st.integers(1, 13)
skewing = (
    st.builds(dict, baby_steps=st.integers(1, 5)) | st.builds(dict, radix=st.integers(1, 5)) | st.just({})
)


@given(dimension, dimension, dimension, st.booleans(), st.booleans(), policy, skewing, baby)
def test_every_shape(m, k, n, aligned, packed, key_policy, skew, key_baby_steps):
    algorithm = Fame(
        m, k, n, 256, aligned=aligned, complex_packing=packed, key_baby_steps=key_baby_steps, **skew
    )
    harness.check(algorithm, seed=m * 144 + k * 12 + n, key_policy=key_policy)


@given(small, small, small, st.booleans(), st.booleans(), skewing)
def test_the_smallest_number_of_slots(m, k, n, aligned, packed, skew):
    options = {"aligned": aligned, "complex_packing": packed, **skew}
    slots = next(s for s in (2**e for e in range(8)) if Fame.fits(m, k, n, s, **options))
    harness.check(Fame(m, k, n, slots, **options), seed=k)


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([(3, 4, 5), (4, 4, 4), (8, 8, 2), (5, 2, 3)]),
    st.sampled_from(["", "left", "right"]),
    policy,
    st.booleans(),
    st.sampled_from([None, 2, 3]),
)
def test_blocks_and_clear_operands(grid, block, public, key_policy, packed, widened):
    options = {"complex_packing": packed, "baby_steps": 2, "key_baby_steps": 2, "widened": widened}
    algorithm = Fame(*block, 64 if widened is None else 512, **options)
    harness.check(algorithm, seed=sum(grid), grid=grid, public=public, key_policy=key_policy)


@given(dimension, dimension, dimension, group, st.booleans(), policy, skewing, baby)
def test_every_shape_widened(m, k, n, widened, packed, key_policy, skew, key_baby_steps):
    options = {"widened": widened, "complex_packing": packed, "key_baby_steps": key_baby_steps, **skew}
    algorithm = Fame(m, k, n, 1024, **options)
    outcome = harness.check(algorithm, seed=m * 144 + k * 12 + n, key_policy=key_policy)
    starts = sum(
        len(algorithm.epsilon(i)) + len(algorithm.omega(i)) for i in range(0, algorithm.terms, widened)
    )
    masks = 0 if widened >= algorithm.terms else starts
    skewings = [*algorithm.sigma(), *algorithm.tau()]
    assert outcome.counts.plain_products == sum(len(stage) for stage in skewings) + masks


@given(small, small, small, group, st.booleans(), skewing)
def test_the_smallest_number_of_slots_widened(m, k, n, widened, packed, skew):
    """What wraps around the slots is multiplied by zero."""
    options = {"widened": widened, "complex_packing": packed, **skew}
    slots = next(s for s in (2**e for e in range(12)) if Fame.fits(m, k, n, s, **options))
    harness.check(Fame(m, k, n, slots, **options), seed=k)


@pytest.mark.parametrize(
    "shape", [(5, 3, 7), (7, 8, 6), (3, 12, 3), (12, 3, 12), (1, 9, 1), (9, 1, 9), (8, 8, 8)]
)
@pytest.mark.parametrize("packed", [True, False])
def test_empty_slots_of_widened_products_are_exactly_zero(shape, packed):
    """In every number of slots from the fewest on that some width needs, by the supports of all factors."""
    m, k, n = shape
    for widened in range(1, k + 1):
        for extra in range(2):
            options = {"widened": widened, "complex_packing": packed}
            slots = next(s for s in (2**e for e in range(12)) if Fame.fits(m, k, n, s, **options)) << extra
            algorithm = Fame(m, k, n, slots, **options)
            outcome = harness.product(algorithm, np.ones((m, k)), np.ones((k, n)))
            (((vector,),),) = outcome.vectors
            empty = algorithm.out_layout.index(0).real < 0
            assert not vector.real[empty].any()


def test_rotations_of_widened_operands_take_masks_by_group():
    """A 16x16 by 16x15 product of 16 terms without groups, in four, and in one."""
    without, four, one = (
        Fame(16, 16, 15, 2048, complex_packing=False, widened=widened) for widened in (None, 4, 16)
    )
    skewed = (2 * 16 - 1) + (2 * 15 - 1)
    counts = [harness.check(algorithm, seed=1).counts for algorithm in (without, four, one)]
    # Columns i … i+14 wrap around from i = 2 on, rows i … i+15 from 1 on; those of the groups always do.
    assert [found.plain_products - skewed for found in counts[:2]] == [2 + 2 * 14 + 1 + 2 * 15, 2 * 4 * 2]
    assert counts[2].plain_products == len(one.sigma()[0]) + len(one.tau()[0])
    assert counts[0].rotations - counts[1].rotations == (30 - 1 + 31 - 1) - (16 - 2 + 2 * 4 * 3)
    assert [algorithm.min_levels for algorithm in (without, four, one)] == [2, 2, 1]


def test_one_group_spends_two_levels():
    algorithm = Fame(4, 4, 4, 64, widened=4)
    ev = Symbolic(RingShape.for_depth(64, 1))
    ct = ev.fresh(None, bound=1.0)
    (product,) = algorithm.finish(ev, algorithm.multiply_once(ev, [ct], [ct], None))
    assert ct.limbs - product.limbs == 1  # and the rescale of the product
    with pytest.raises(LevelError, match=r"spends 1 level.*expected at least 2 limbs, got 1"):
        algorithm.multiply_once(ev, [ev.drop(ct, 1)], [ev.drop(ct, 1)], None)


@pytest.mark.parametrize(
    "options", [{}, {"complex_packing": False}, {"baby_steps": 2}, {"radix": 2}, {"widened": 2}]
)
def test_blocks_are_prepared_once(options):
    harness.check_blocks_prepared_once(Fame(3, 4, 5, 64, **options))


def dense(transform, slots):
    """The matrix of a transform, and its rotations."""
    matrix = np.array([transform.apply(row) for row in np.eye(slots)]).T
    return matrix, {total_step(step) % slots for step in transform.terms}


@given(small, small, small, st.booleans())
def test_maps_against_their_definitions(m, k, n, aligned):
    """Equations 2-5, and no diagonal that is zero."""
    slots = 128
    algorithm = Fame(m, k, n, slots, aligned=aligned)
    a, b = np.arange(1.0, m * k + 1).reshape(m, k), np.arange(1.0, k * n + 1).reshape(k, n)
    left, right = algorithm.left_layout.pack(a)[0], algorithm.right_layout.pack(b)[0]
    r, c = np.ogrid[:m, :k]
    skewed = algorithm.sigma()[0].apply(left)
    np.testing.assert_array_equal(algorithm.left_layout.unpack([skewed]), a[r, (r + c) % k])
    r, c = np.ogrid[:k, :n]
    skewed_right = algorithm.tau()[0].apply(right)
    np.testing.assert_array_equal(algorithm.right_layout.unpack([skewed_right]), b[(r + c) % k, c])
    r, c = np.ogrid[:m, :n]
    for i in range(k):
        columns = algorithm.out_layout.unpack([algorithm.epsilon(i).apply(skewed)])
        np.testing.assert_array_equal(columns, a[r, (r + c + i) % k])
        rows = algorithm.out_layout.unpack([algorithm.omega(i).apply(skewed_right)])
        np.testing.assert_array_equal(rows, b[(r + c + i) % k, c])
    for transform in [*algorithm.sigma(), *algorithm.tau(), algorithm.omega(k - 1)]:
        assert all(plain is None or plain.values().any() for plain in transform.terms.values())


@given(dimension, dimension, dimension)
def test_published_diagonal_counts(m, k, n):
    """FAME, Eq. 12-15, in the compact layout and more slots than the matrices fill."""
    slots = 512
    algorithm = Fame(m, k, n, slots, aligned=False)
    if algorithm.period != slots:
        return
    assert len(algorithm.sigma()[0]) == 2 * min(m, k) - 1
    assert len(algorithm.tau()[0]) == 2 * min(n, k) - 1
    # ε has one diagonal per wrap of the columns i … i+n-1. The published ⌊n/k⌋+1 counts one wrap too few where n
    # leaves a remainder above 1, and one too many for k = 1.
    epsilon = max(len(algorithm.epsilon(i)) for i in range(k))
    assert epsilon - (n // k + 1) == (-1 if k == 1 else 1 if n % k > 1 else 0)
    omega = max(len(algorithm.omega(i)) for i in range(k))
    assert omega <= (2 if m == k else n * (m // k + 2))
    if m == k > 1:
        assert omega == 2


@pytest.mark.slow
@given(small, small, small, st.booleans())
def test_declared_rotations_are_those_of_the_maps(m, k, n, aligned):
    slots = 64
    if not Fame.fits(m, k, n, slots, aligned=aligned):
        return
    algorithm = Fame(m, k, n, slots, aligned=aligned)
    for transform in [
        *algorithm.sigma(),
        *algorithm.tau(),
        algorithm.epsilon(k // 2),
        algorithm.omega(k // 2),
    ]:
        if transform.masked:
            matrix, steps = dense(transform, slots)
            target, source = np.nonzero(matrix)
            indices = np.full(slots, -1)
            indices[target] = source
            assert set(rotations_of(indices)) <= steps if algorithm.period != slots else True
            assert {total_step(step) % algorithm.period for step in transform.terms} == set(
                rotations_of(indices, algorithm.period)
            )


def test_table_one():
    """Rot = φ + ζ less the rotations by zero, CMult = φ + ζ, Mult = k (m = k: ω has two diagonals)."""
    m, k, n = 6, 6, 4
    algorithm = Fame(m, k, n, 64, aligned=False)
    counts = harness.check(algorithm, seed=1).counts
    maps = [*algorithm.sigma(), *algorithm.tau()]
    maps += [algorithm.epsilon(i) for i in range(k)] + [algorithm.omega(i) for i in range(k)]
    diagonals = sum(len(transform) for transform in maps)
    zero = sum(total_step(step) == 0 for transform in maps for step in transform.terms)
    assert counts.plain_products == diagonals
    assert counts.rotations == diagonals - zero
    assert counts.products == k
    assert counts.relinearisations == 1
    assert counts.linear_transforms == 2 * (k + 1)


def test_a_full_square_shifts_columns_without_masks():
    algorithm = Fame(8, 8, 8, 64)
    counts = harness.check(algorithm, seed=1).counts
    assert counts.plain_products == 8 + 15 + (1 + 2 * 7)  # σ on a cycle, τ, ω
    assert not algorithm.epsilon(3).masked


def test_composed_keys_grow_with_the_root():
    algorithm = Fame(15, 16, 16, 1024, baby_steps=4, key_baby_steps=4)
    few = harness.check(algorithm, seed=1, key_policy="composed").counter.request.galois
    many = harness.check(Fame(15, 16, 16, 1024), seed=1).counter.request.galois
    assert len(many) == 2 * 2 * 15
    assert len(few) <= 2 * (3 + 8)


def test_levels_run_out_at_plan_time():
    ring = RingShape.for_depth(64, 0)
    ev = Symbolic(ring)
    algorithm = Fame(4, 4, 4, 64)
    ct = ev.fresh(None, bound=1.0)
    with pytest.raises(LevelError, match=r"spends 2 levels .expected at least 3 limbs, got 2"):
        algorithm.multiply_once(ev, [ct], [ct], None)


def test_a_block_that_does_not_fit():
    with pytest.raises(ShapeError, match="expected at most 64 slots, got 72"):
        Fame(8, 9, 2, 64, aligned=False)


@pytest.mark.slow
@given(dimension, dimension, dimension)
def test_candidates_are_valid(m, k, n):
    options = list(Fame.candidates(m, k, n, 128))
    assert bool(options) == Fame.fits(m, k, n, 128, aligned=False) or options
    for option in options:
        harness.check(Fame(m, k, n, 128, **option), seed=0, key_policy="composed")


@given(small, small, small)
def test_complex_maps_take_the_same_rotations(m, k, n):
    """Where the lines cover all offsets mod k, the second term of a pair costs no rotation."""
    k = 2 * k
    m, n = max(m, k), max(n, k)
    plain, packed = (Fame(m, k, n, 512, complex_packing=flag) for flag in (False, True))
    assert len(packed.sigma()[0]) == len(plain.sigma()[0])
    assert len(packed.tau()[0]) == len(plain.tau()[0])
    assert packed.terms == plain.terms // 2


def test_a_radix_takes_fewer_diagonals_and_one_more_level():
    one = harness.check(Fame(15, 16, 16, 512), seed=1)
    two = harness.check(Fame(15, 16, 16, 512, radix=4), seed=1, ring=RingShape.for_depth(512, 3))
    assert [len(stage) for stage in Fame(15, 16, 16, 512, radix=4).sigma()] == [7, 7]
    assert two.counts.rotations < one.counts.rotations - 30
    with pytest.raises(LevelError, match="spends 3 levels"):
        harness.check(Fame(15, 16, 16, 512, radix=4), seed=1, ring=RingShape.for_depth(512, 1))


def test_bad_options():
    with pytest.raises(ParameterError, match="σ and τ take baby steps or a radix, not both"):
        Fame(4, 4, 4, 64, baby_steps=2, radix=2)
    with pytest.raises(ParameterError, match=r"at least 1 .got 0"):
        Fame(4, 4, 4, 64, radix=0)
    with pytest.raises(ParameterError, match=r"at least 1 .got 0"):
        Fame(4, 4, 4, 64, widened=0)
    with pytest.raises(ParameterError, match=r"common stride .expected aligned=True"):
        Fame(4, 4, 4, 64, widened=2, aligned=False)
