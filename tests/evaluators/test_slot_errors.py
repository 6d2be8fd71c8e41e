"""Which errors add up in squares, and which by their absolute values: worst cases, computed in the clear."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.rlwe.noise import (
    FAILURE_BITS,
    PRODUCT_TAIL,
    MatrixSums,
    SlotErrors,
    concentration,
    hamming_weight,
    tail,
    worst,
)
from cipherblas.rlwe.rings import RingShape

SAMPLES = 1 << 20


def test_the_tail_is_that_of_a_gaussian() -> None:
    for entries in (1, 100, 1 << 24):
        assert entries * math.erfc(tail(entries) / math.sqrt(2)) <= 2.0**-FAILURE_BITS
        assert entries * math.erfc((tail(entries) - 0.6) / math.sqrt(2)) > 2.0**-FAILURE_BITS


@pytest.mark.parametrize("log_entries", [12, 20, 30])
def test_products_of_two_gaussians_stay_below_their_tail(log_entries: int) -> None:
    """P(|x·y| > t) = 2t·K_1(2t) <= 1.2·sqrt(π·t)·exp(-2t) for t >= 1, x and y complex with unit variance."""
    entries = 2.0**log_entries
    t = PRODUCT_TAIL * tail(entries) / math.sqrt(2)  # the rms is sqrt(2) deviations of the real part
    log2 = math.log2(entries) + math.log2(1.2 * math.sqrt(math.pi * t)) - 2 * t / math.log(2)
    assert log2 <= -FAILURE_BITS


def test_the_formula_of_that_tail_holds_where_it_can_be_sampled() -> None:
    rng = np.random.default_rng(1)
    x, y = (np.abs(rng.normal(size=(2, SAMPLES)).T @ [1, 1j]) / math.sqrt(2) for _ in range(2))
    for t in (1.0, 2.0, 3.0, 4.0):
        expected = 1.2 * math.sqrt(math.pi * t) * math.exp(-2 * t)
        assert np.mean(x * y > t) <= expected + 4 * math.sqrt(expected / SAMPLES) + 4 / SAMPLES


def test_secrets_and_errors_are_hardly_larger_than_expected() -> None:
    rng = np.random.default_rng(2)
    n = 1 << 12
    for _ in range(100):
        assert np.count_nonzero(rng.integers(-1, 2, n)) <= hamming_weight(n)
        assert np.sum(rng.normal(size=n) ** 2) <= n * concentration(n)
    assert hamming_weight(1 << 15) < 1.04 * 2 / 3 * (1 << 15) and concentration(1 << 15) < 1.07


def test_sums_of_what_may_be_the_same_add_up() -> None:
    x = SlotErrors(own=3.0, mixed=3.0, common=4.0)
    assert x.plus(x) == SlotErrors(own=6.0, common=10.0)
    assert x.rotated().plus(x) == SlotErrors(common=16.0)
    assert x.plus_distinct(x) == SlotErrors(mixed=6.0, common=8.0)


def test_maps_add_own_errors_in_squares_and_others_up() -> None:
    x = SlotErrors(own=1.0, common=1.0)
    assert x.mapped(10.0, 4.0) == SlotErrors(mixed=4.0, common=10.0)
    assert x.mapped(2.0, 2.0) == SlotErrors(
        own=2.0, common=2.0, aligned=False
    )  # one slot each: a permutation


@pytest.mark.parametrize("kind", ["orthogonal", "permutation", "one row", "zeros"])
def test_errors_together_grow_by_the_norm(kind: str) -> None:
    """The errors of three products, followed as a matrix of covariances: the worst ones that are told to be common."""
    rng, n = np.random.default_rng(3), 16
    matrix = {
        "orthogonal": np.linalg.qr(rng.normal(size=(n, n)))[0],
        "permutation": np.eye(n)[rng.permutation(n)],
        "one row": np.eye(n)[[0] * n],
        "zeros": np.zeros((n, n)),
    }[kind]
    sums = MatrixSums(
        float(np.abs(matrix).sum(axis=1).max()),
        float(np.linalg.norm(matrix, axis=1).max()),
        float(np.linalg.norm(matrix, 2)),
    )
    found, roots = SlotErrors(), np.zeros((n, 0))  # the errors are `roots` times independent ones
    for own, common in ((0.5, 1.0), (0.0, 2.0), (1.0, 0.25)):
        found = SlotErrors(own=own).with_spread(found.multiplied(sums, n, 1)).with_common(common)
        signs = np.sign(rng.normal(size=(n, 1)))
        roots = np.hstack([matrix @ roots, own * np.eye(n), common * signs])
        entries = np.linalg.norm(roots, axis=1).max()
        assert entries <= found.deviation * (1 + 1e-9)
        after = found.multiplied(sums, n, 1)
        assert np.linalg.norm(matrix @ roots, axis=1).max() <= after.common + 1e-9
        assert np.linalg.norm(matrix @ roots, 2) <= after.spread + 1e-9
        assert after.common <= sums.row_sum * (found.own + found.dependent) + 1e-9


def test_what_is_known_of_errors_together_is_kept_by_sums_and_numbers_alone() -> None:
    x = SlotErrors(own=1.0).with_spread(SlotErrors(common=2.0, covered=2.0, spread=3.0))
    assert x.times(2.0) == SlotErrors(own=2.0, common=4.0, covered=4.0, spread=6.0)
    assert x.plus(x) == SlotErrors(own=2.0, common=4.0, covered=4.0, spread=6.0)
    assert x.with_common(1.0).dependent == 3.0
    for moved in (x.rotated(), x.mapped(1.0, 1.0), x.share(4), x.seen_once(), x.everywhere()):
        assert moved.covered == moved.spread == 0.0
    assert worst([x, SlotErrors(common=4.0)]).dependent == 6.0  # the parts may be of different ones


def test_terms_of_a_product_that_share_a_factor_share_its_error() -> None:
    ev = Symbolic(RingShape.for_depth(64, 2))
    x, *others = (ev.fresh(None, bound=1.0) for _ in range(5))
    shared = ev.multiply_sum([x] * 4, others).noise
    separated = ev.multiply_sum([ev.fresh(None, bound=1.0) for _ in range(4)], others).noise
    assert math.isclose(shared, (4 + 2) * x.noise, rel_tol=1e-6)
    assert math.isclose(separated, (2 + 2) * x.noise, rel_tol=1e-6)


def test_the_next_product_adds_the_errors_of_a_product_up() -> None:
    """(A·B)·C with A, B, C of ones: the errors of a row of A·B are the same."""
    ev = Symbolic(RingShape.for_depth(64, 4))
    terms = 16
    a, b, c = ([ev.fresh(None, bound=1.0) for _ in range(terms)] for _ in range(3))
    inner = [ev.rescaled(ev.relinearise(ev.multiply_sum(a, b))) for _ in range(terms)]
    propagated = inner[0].errors.dependent
    outer = ev.multiply_sum(inner, [ev.drop(ct, inner[0].limbs) for ct in c])
    assert outer.errors.common >= terms * propagated
