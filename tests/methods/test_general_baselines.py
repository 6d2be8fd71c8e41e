"""FAME as published, HEGMM, HEGMM-En, Huang-Zong, E2DM-R and FHE-MM: every entry, counts by the published formulas."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ParameterError, ShapeError
from cipherblas.distributed.cgemm import block_operations
from cipherblas.forms.index_maps import rotations_of
from cipherblas.methods.doubling import doublings
from cipherblas.methods.matmul.baselines.e2dm_r import E2dmR
from cipherblas.methods.matmul.baselines.fame_published import FamePublished
from cipherblas.methods.matmul.baselines.fhe_mm import FheMm
from cipherblas.methods.matmul.baselines.hegmm import Hegmm
from cipherblas.methods.matmul.baselines.hegmm_en import HegmmEn
from cipherblas.methods.matmul.baselines.huang_zong import HuangZong
from cipherblas.methods.products import build, find
from cipherblas.rlwe.key_policies import total_step
from tests.support import product_runs as harness

NAMES = ("fame-published", "hegmm", "hegmm-en", "huang-zong", "e2dm-r", "fhe-mm")
SLOTS = 512  # more than the matrices below fill, and no multiple of them: no cycles

name = st.sampled_from(NAMES)
dimension = st.integers(1, 12)
small = st.integers(1, 6)
policy = st.sampled_from(["direct", "composed", "binary"])
odd = st.sampled_from([3, 5, 6, 7, 9, 10, 11, 12])


@given(name, dimension, dimension, dimension, policy)
def test_every_shape(name, m, k, n, key_policy):
    for options in find(name).candidates(m, k, n, SLOTS):
        harness.check(build(name, m, k, n, SLOTS, options), seed=m * 144 + k * 12 + n, key_policy=key_policy)


@given(name, small, small, small)
def test_the_smallest_number_of_slots(name, m, k, n):
    slots = next(s for s in (2**e for e in range(9)) if find(name).fits(m, k, n, s))
    harness.check(build(name, m, k, n, slots, {}), seed=k)


@given(
    name,
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([(2, 4, 4), (4, 4, 2), (2, 5, 3), (4, 2, 4), (4, 4, 4)]),
    st.sampled_from(["", "left", "right"]),
    policy,
)
def test_blocks_and_clear_operands(name, grid, block, public, key_policy):
    for options in find(name).candidates(*block, 64):
        algorithm = build(name, *block, 64, options)
        harness.check(algorithm, seed=sum(grid), grid=grid, public=public, key_policy=key_policy)


@pytest.mark.parametrize(("name", "closing"), list(zip(NAMES, (0, 0, 1, 0, 1, 1), strict=True)))
def test_blocks_are_prepared_once(name, closing):
    """Where an operand holds two copies, each block of the result takes one rotation that adds them."""
    harness.check_blocks_prepared_once(build(name, 3, 5, 4, 64, {}), closing)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_that_do_not_fit(name):
    with pytest.raises(ShapeError, match=r"does not fit .expected at most 64 slots, got \d+"):
        build(name, 9, 9, 9, 64, {})
    assert list(find(name).candidates(9, 9, 9, 64)) == []


# --- counts ---


def shifts(terms, lines, inner):
    """Σ over i < terms of how often lines i … i + lines - 1 wrap around `inner`, and one."""
    return sum((i + lines - 1) // inner + 1 for i in range(terms))


def published_diagonals(m, k, n):
    """Non-zero diagonals of the matrices of FAME's Eq. 6-9, every one made as it is printed there."""

    def diagonals(sources):
        sources = np.asarray(sources)
        return len(set(sources - np.arange(len(sources))))

    sigma = [i + (i + j) % k * m for j in range(k) for i in range(m)]
    tau = [(i + j) % k + j * k for j in range(n) for i in range(k)]
    total = diagonals(sigma) + diagonals(tau)
    for shift in range(k):
        total += diagonals([(shift * m + i) % (m * k) for i in range(m * n)])
        total += diagonals([(shift + i % m) % k + i // m * k for i in range(m * n)])
    return total


@given(odd, odd, odd)
def test_counts_of_fame_as_published(m, k, n):
    """As many rotations and plain products as non-zero diagonals, rotations by 0 aside; 2(k + 1) transforms."""
    algorithm = FamePublished(m, k, n, SLOTS)
    counts = harness.check(algorithm, seed=1).counts
    maps = [*algorithm.sigma(), *algorithm.tau()]
    maps += [found for i in range(k) for found in (algorithm.epsilon(i), algorithm.omega(i))]
    by_zero = sum(total_step(step) == 0 for found in maps for step in found.terms)
    assert counts.plain_products == published_diagonals(m, k, n)
    assert counts.rotations == counts.plain_products - by_zero
    assert (counts.products, counts.linear_transforms) == (k, 2 * (k + 1))


@given(dimension, dimension)
def test_diagonals_of_fame_where_m_is_k(k, n):
    """Eq. 12-15: σ 2k - 1, τ 2·min(n,k) - 1; of all ε together k + n - 1, of all ω 2k - 1."""
    assert published_diagonals(k, k, n) == 2 * k - 1 + 2 * min(n, k) - 1 + k + n - 1 + 2 * k - 1


@given(odd, odd, odd)
def test_counts_of_hegmm(m, k, n):
    """Column-major as FAME; row-major the same of n×k · k×m."""
    column, row = (
        harness.check(Hegmm(m, k, n, SLOTS, mirrored=form), seed=1).counts for form in (False, True)
    )
    assert column == harness.check(FamePublished(m, k, n, SLOTS), seed=1).counts
    assert row == harness.check(FamePublished(n, k, m, SLOTS), seed=1).counts


@given(st.integers(1, 4), st.integers(2, 4), odd)
def test_counts_of_hegmm_en(m, copies, n):
    """m products; σ 2k - 1, τ 2·min(n,k) - 1, of ε and ω the first m; the sum of the copies."""
    k = copies * m
    algorithm = HegmmEn(m, k, n, SLOTS)
    counts = harness.check(algorithm, seed=1).counts
    assert counts.products == m
    assert counts.linear_transforms == 2 * (m + 1)
    assert counts.plain_products == (2 * k - 1 + 2 * min(n, k) - 1 + shifts(m, n, k) + shifts(m, k, k))
    assert counts.rotations == counts.plain_products - 4 + doublings(copies)
    assert harness.check(HegmmEn(n, k, m, SLOTS, mirrored=True), seed=1).counts == counts


@given(dimension, dimension)
def test_hegmm_en_of_few_inner_terms_is_hegmm(k, n):
    counts = harness.check(HegmmEn(12, k, n, SLOTS), seed=1).counts
    assert counts == harness.check(Hegmm(12, k, n, SLOTS), seed=1).counts


@given(odd, odd, odd)
def test_counts_of_huang_zong(m, k, n):
    """k products; σ 2·min(m,k) - 1 diagonals, one of each of k columns, of ω k + m - 1; doublings of n columns."""
    counts = harness.check(HuangZong(m, k, n, SLOTS), seed=1).counts
    assert counts.products == k
    assert counts.plain_products == 2 * min(m, k) - 1 + k + k + m - 1
    assert counts.rotations == counts.plain_products - 3 + k * doublings(n)


@given(st.integers(1, 4), st.sampled_from([3, 5, 6]), st.booleans())
def test_counts_of_e2dm_r(m, copies, mirrored):
    """m products; σ and τ 2s - 1 diagonals, φ and ψ two each but for i = 0; the sum of the copies."""
    s = m * copies
    shape = (s, s, m) if mirrored else (m, s, s)
    counts = harness.check(E2dmR(*shape, 1024, baby_steps=s, mirrored=mirrored), seed=1).counts
    assert (counts.products, counts.relinearisations) == (m, 1)
    assert counts.plain_products == 2 * (2 * s - 1) + 2 * (2 * m - 1)
    # Of σ and τ by s baby steps, 1 - s … -1 share one giant step.
    assert counts.rotations == 2 * (s - 1 + 1) + 2 * (2 * m - 2) + doublings(copies)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_counts_of_e2dm_r_on_a_cycle(m):
    """As published: σ 2s - 1 diagonals, τ s, φ two, ψ no mask, log2(s/m) rotations for the sum (Algorithm 3)."""
    s = 8
    counts = harness.check(E2dmR(m, s, s, s * s, baby_steps=s), seed=1).counts
    assert counts.products == m
    assert counts.plain_products == 2 * s - 1 + s + 2 * m - 1
    assert counts.rotations == s + s - 1 + 2 * (m - 1) + m - 1 + math.log2(s // m)


@pytest.mark.parametrize(("m", "k", "n"), list(itertools.product((16, 32, 64, 128), repeat=3)))
def test_counts_of_fhe_mm(m, k, n):
    """Table II of FHE4DMM and what lines that are no cycles take; rotations by 0 and first terms of sums are none."""
    algorithm = FheMm(m, k, n, max(m, k) * max(k, n))
    counts = harness.counted(algorithm)
    published, d3 = block_operations((m, n, k)), min(m, k, n)
    assert counts.products == published.products == d3
    assert counts.rotations == published.rotations + k + d3 - 4  # two of the grid down by a row
    assert counts.plain_products == published.plain_products + (k - 1) + 2 * (d3 - 1)
    masked = 2 + d3 - 1  # transforms with diagonals, each of which is a sum
    sums = counts.adds + counts.plain_products - masked + counts.products - 1
    assert sums == published.additions + (k - 1) + (d3 - 1) - 3
    assert counts.relinearisations == 1


@pytest.mark.parametrize(("m", "k", "n"), [(8, 8, 8), (4, 16, 8), (16, 4, 8), (2, 4, 16), (5, 7, 3)])
def test_baby_steps_of_fhe_mm(m, k, n):
    """The same product; RotateAlign of A takes those of a side twice, of what stays in a row and what wraps around."""
    steps = 4
    algorithm = FheMm(m, k, n, 512, baby_steps=steps)
    assert type(algorithm)(m, k, n, 512, **algorithm.options).baby_steps == steps
    counts = harness.check(algorithm, seed=1).counts
    every = harness.counted(FheMm(m, k, n, 512))
    inner = algorithm.padded[1]
    giants = -(-inner // steps)
    left = min(inner, steps) - 1 + 2 * giants - 1
    right = min(inner, steps) - 1 + giants - 1
    assert every.rotations - counts.rotations == (2 * (inner - 1) + 1 - left) + (inner - 1 - right)


@pytest.mark.parametrize("steps", [0, -1, 2.0])
def test_baby_steps_that_there_are_not(steps):
    with pytest.raises(ParameterError, match="baby steps"):
        FheMm(4, 4, 4, 16, baby_steps=steps)


@pytest.mark.parametrize(("m", "k", "n"), [(8, 8, 8), (4, 16, 8), (16, 4, 8), (2, 4, 16)])
def test_rotations_of_fhe_mm_along_lines(m, k, n):
    """On a hypercube RotateAlign takes k rotations of each operand, and a step of ShiftByStep one."""
    algorithm = FheMm(m, k, n, 512)
    cols, rows = algorithm.cols, algorithm.rows

    def along(transform, unit, length):
        return {total_step(step) // unit % length for step in transform.terms}

    def keys(transform):
        return {step[-1] if isinstance(step, tuple) else step for step in transform.terms}

    assert along(algorithm.align_left(), 1, cols) == set(range(k))
    assert along(algorithm.align_right(), cols, rows) == set(range(k))
    assert keys(algorithm.align_left()) == set(range(k))
    for r in range(1, min(m, k, n)):
        assert along(algorithm.shift_left(r), 1, cols) == keys(algorithm.shift_left(r)) == {r}
        assert along(algorithm.shift_right(r), cols, rows) == {r}


def test_rotations_of_fhe_mm_in_blocks():
    """Fig. 4 of FHE4DMM: 256×64 by 64×256 in its notation, four block products of 256×64 · 64×64, 1024 rotations."""
    counts = harness.counted(FheMm(256, 64, 64, 1 << 14), grid=(1, 4, 1))
    extras = 4 * (64 + 64 - 4 + math.log2(256 // 64))
    assert counts.rotations == 1024 + extras
    assert (counts.products, counts.relinearisations) == (4 * 64, 1)


@given(dimension, dimension, dimension)
def test_slots_of_fhe_mm(m, k, n):
    """max(m,k)·max(k,n), of lengths padded to powers of two; no fewer fit."""
    pm, pk, pn = (1 << (length - 1).bit_length() for length in (m, k, n))
    needed = max(pm, pk) * max(pk, pn)
    assert FheMm.fits(m, k, n, needed) and not (needed > 1 and FheMm.fits(m, k, n, needed // 2))


def test_sizes_of_e2dm_r():
    """Padded to a multiple of the repeated dimension, or to the next power of two where that is one."""
    assert list(E2dmR.candidates(4, 5, 7, 512)) == [
        {"size": 8, "mirrored": False},
        {"size": 7, "mirrored": True},
    ]
    with pytest.raises(ParameterError, match=r"expected a multiple of 4, at least 7, got 10"):
        E2dmR(4, 5, 7, 512, size=10)


def test_slots_that_are_not_rotated_twice():
    """A map of the published form never takes a rotation that its definition does not have."""
    algorithm = FamePublished(6, 4, 5, 64)
    for found in (*algorithm.sigma(), *algorithm.tau(), algorithm.epsilon(2), algorithm.omega(3)):
        sources = np.array([found.apply(row) for row in np.eye(64)]).T
        target, source = np.nonzero(sources)
        indices = np.full(64, -1)
        indices[target] = source
        assert {total_step(step) % 64 for step in found.terms} == set(rotations_of(indices))
