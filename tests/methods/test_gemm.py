"""The products by GEMM: data movement on `RowsClear`, counts on `RowsSymbolic`."""

from __future__ import annotations

import dataclasses
import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import LevelError, ShapeError
from cipherblas.evaluators.rows.clear import RowsClear
from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.rows.symbolic import RowsSymbolic
from cipherblas.evaluators.rows.values import Rows
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.methods.matmul.gemm import secret_product
from cipherblas.rlwe.basis import OPERAND_BASIS, FirstLimbs
from cipherblas.rlwe.costs import BYTE_MACS
from cipherblas.rlwe.key_policies import KeyPolicy
from cipherblas.rlwe.rings import RingShape

N = 16
lengths = st.integers(1, N)


def ring(q_bits: float = 50.0, n: int = N) -> RingShape:
    return RingShape.from_bits(n, [q_bits], [50.0], 1, 20.0)


def fresh(ev: RowsClear, matrix: np.ndarray, scale: float = 4.0) -> Rows:
    return ev.fresh(ev.encrypt(matrix, scale), matrix.shape, bound=8.0, scale=scale, basis=FirstLimbs(1))


@given(m=lengths, k=st.integers(1, 40), n=lengths, seed=st.integers(0, 99))
def test_secret_product_moves_the_data_right(m: int, k: int, n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    left, right = random.integers(-8, 9, (m, k)), random.integers(-8, 9, (k, n))
    ev = RowsClear(ring(), seed)
    product = secret_product(ev, fresh(ev, left.T.astype(float)), fresh(ev, right.astype(float)))
    assert product.shape == (m, n)
    np.testing.assert_array_equal(ev.decrypt(product), left @ right)


@given(m=st.integers(1, 30), k=st.integers(1, 40), n=st.integers(1, 3 * N), seed=st.integers(0, 99))
def test_clear_product(m: int, k: int, n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    weights, matrix = random.integers(-8, 9, (m, k)), random.integers(-8, 9, (k, n))
    factor = ClearFactor("w", (m, k), 4.0, 0.5, True, lambda: weights)
    ev = RowsClear(ring(), seed)
    product = ev.clear_product(factor, fresh(ev, matrix.astype(float)))
    np.testing.assert_array_equal(ev.decrypt(product), 0.5 * weights @ matrix)


def test_the_clear_evaluator_hides_nothing_behind_b() -> None:
    """Were the a part forgotten, the message would not come out."""
    ev = RowsClear(ring())
    x = fresh(ev, np.ones((3, N)))
    x.data = (np.zeros_like(x.data[0]), x.data[1])
    assert np.abs(ev.decrypt(x) - 1.0).max() > 0.1


def run(ev: RowsEvaluator, m: int, k: int, n: int) -> Rows:
    left = ev.fresh(None, (k, m), bound=1.0, scale=2.0**15, basis=FirstLimbs(1))
    return secret_product(ev, left, ev.fresh(None, (k, n), bound=1.0, scale=2.0**15, basis=FirstLimbs(1)))


def test_counts_of_the_secret_product() -> None:
    ev = RowsSymbolic(ring(n=4096))
    run(ev, 4096, 4096, 4096)
    counts = ev.counts
    assert counts.modular_macs == 4 * 4096**3
    assert counts.transposes == 2
    assert counts.relinearisations == 4096
    assert counts.row_switches == 2 * 4095 + 4096
    assert len(ev.request.galois) == 4095 and ev.request.relinearise == 1


def test_counts_of_what_goes_into_and_comes_out_of_gemms() -> None:
    ev, n = RowsSymbolic(ring(n=4096)), 4096
    factor = ClearFactor("w", (10, 7), 8.0, 1.0, True, lambda: np.zeros((10, 7)))
    ev.clear_product(factor, ev.fresh(None, (7, 5), bound=1.0, scale=2.0**12, basis=FirstLimbs(1)))
    assert ev.counts.float_inputs == 7 * (10 + n) + 7 * (10 + 5)
    assert ev.counts.float_outputs == 10 * (n + 5)
    ev = RowsSymbolic(ring(n=4096))
    run(ev, 3, 7, 5)
    assert ev.counts.modular_inputs == 7 * ((n + n) + (n + 5) + (3 + n) + (3 + 5))
    assert ev.counts.modular_outputs == (n + 3) * (n + 5)


@pytest.mark.parametrize("shape", [(4096, 4096), (3, 4096), (4096, 3), (3, 3)])
def test_counts_of_the_memory_of_a_transposition(shape: tuple[int, int]) -> None:
    """N rows of N entries, whatever is in them: two transforms of three passes, and the automorphisms."""
    ev, page = RowsSymbolic(ring(n=4096)), 8 * 4096**2
    ev.transpose(ev.fresh(None, shape, bound=1.0, scale=2.0**12, basis=FirstLimbs(1)))
    rows, cols = shape
    spread = 0 if rows == 4096 else page * (2 if cols == 4096 else 1)
    spread += 0 if cols == 4096 else page
    assert ev.counts.fresh_bytes == spread
    small = 8 * 4096 * cols if rows < 4096 and cols < 4096 else 0
    assert ev.counts.moved_bytes == 7 * 2 * 2 * page + small


def test_counts_do_not_depend_on_the_interpreter() -> None:
    clear, counter = RowsClear(ring()), RowsSymbolic(ring())
    random = np.random.default_rng(0)
    secret_product(clear, fresh(clear, random.random((5, 7))), fresh(clear, random.random((5, 3))))
    left = counter.fresh(None, (5, 7), bound=8.0, scale=4.0, basis=FirstLimbs(1))
    secret_product(counter, left, counter.fresh(None, (5, 3), bound=8.0, scale=4.0, basis=FirstLimbs(1)))
    assert clear.counts == counter.counts
    assert clear.request == counter.request


@given(m=lengths, k=st.integers(1, 40), n=lengths, count=st.integers(1, 2), seed=st.integers(0, 99))
def test_a_product_is_divided_before_keys_are_used(m: int, k: int, n: int, count: int, seed: int) -> None:
    """By the limbs that keys do not serve, so that the scale is smaller and all else is as ever."""
    random, narrow = np.random.default_rng(seed), [20.0, 18.0][:count]
    left, right = random.integers(-8, 9, (m, k)), random.integers(-8, 9, (k, n))
    divided = RingShape.from_bits(N, [50.0, *narrow], [50.0], 1, 20.0, key_limbs=1)
    ev = RowsClear(divided, seed)
    scale = 2.0 ** (sum(narrow) / 2 + 2)
    x, y = (
        ev.fresh(ev.encrypt(matrix, scale), matrix.shape, bound=8.0, scale=scale, basis=FirstLimbs(1 + count))
        for matrix in (left.T.astype(float), right.astype(float))
    )
    product = secret_product(ev, x, y)
    assert (product.limbs, product.scale) == (1, 16.0)
    assert ev.counts.rescales == 2 * count
    assert set(ev.request.galois.values()) == {ev.request.relinearise} == {1}
    np.testing.assert_allclose(ev.decrypt(product), left @ right, atol=1e-6)


@given(m=lengths, k=st.integers(1, 40), n=lengths, count=st.integers(1, 3), seed=st.integers(0, 99))
def test_a_product_of_operands_is_switched_before_keys_are_used(
    m: int, k: int, n: int, count: int, seed: int
) -> None:
    """Times q_0 over the product of the moduli of operands; the same with an encryption and itself."""
    random, moduli = np.random.default_rng(seed), (2.0**40, 255.0, 253.0)[:count]
    left, right = random.integers(-8, 9, (k, m)), random.integers(-8, 9, (k, n))
    own = dataclasses.replace(RingShape.from_bits(N, [38.0], [50.0], 1, 20.0), operand_moduli=moduli)
    ev, scale, dropped = RowsClear(own, seed), 2.0**6, math.prod(moduli) / 2.0**38
    assert ev.dropped(OPERAND_BASIS, ev.whole) == pytest.approx(dropped)
    x, y = (
        ev.fresh(ev.encrypt(matrix, scale), matrix.shape, bound=8.0, scale=scale, basis=OPERAND_BASIS)
        for matrix in (left.astype(float), right.astype(float))
    )
    for first, second, matrices in ((x, y, (left, right)), (y, y, (right, right))):
        product = secret_product(ev, first, second)
        assert product.limbs == 1 and product.scale == pytest.approx(scale**2 / dropped)
        np.testing.assert_allclose(ev.decrypt(product), matrices[0].T @ matrices[1], atol=1e-6)


def test_operands_with_moduli_of_their_own_are_for_products_alone() -> None:
    own = RingShape.from_bits(N, [40.0], [50.0], 1, 20.0, operand_moduli=(2.0**52, 255.0))
    ev = RowsSymbolic(own)
    x = ev.fresh(None, (N, N), bound=1.0, scale=2.0**10, basis=OPERAND_BASIS)
    assert (
        ev.log_modulus(OPERAND_BASIS) == pytest.approx(52 + math.log2(255)) and ev.log_modulus(ev.whole) == 40
    )
    whole = ClearFactor("one", (1, N), 1.0, 1.0, True, lambda: np.ones((1, N)))
    assert ev.clear_product(whole, x).limbs == 1
    for operation in (
        lambda: ev.clear_product(dataclasses.replace(whole, exact=False), x),
        lambda: ev.clear_product(dataclasses.replace(whole, bound=2.0**15 + 1), x),
        lambda: ev.transpose(x),
        lambda: ev.relinearise(x),
        lambda: ev.rescale(x),
        lambda: ev.drop(x, 1),
        lambda: ev.add(x, x),
        lambda: ev.sub(x, x),
        lambda: ev.add_clear(x, lambda: np.ones((N, N)), 1.0),
    ):
        with pytest.raises(LevelError, match=r"moduli of operands|no keys for so many|16 bits"):
            operation()


@pytest.mark.parametrize("bits", [(50.0,), (45.0, 45.0), (50.0, 50.0)])
def test_rounded_weights_count_for_each_sum(bits: tuple[float, ...]) -> None:
    """64 units for each modulus and 4096 products, of 2^-64 or, with two limbs, 2^-104 of Q: beside a half."""
    own = RingShape.from_bits(N, bits, [50.0], 1, 20.0, operand_moduli=(255.0,) * 16)
    ev = RowsSymbolic(own)
    for k, sums in ((1, 1), (4096, 1), (4097, 2), (1 << 16, 16)):
        x = ev.fresh(None, (k, N), bound=1.0, scale=2.0**10, basis=OPERAND_BASIS)
        units = 64 * 16 * sums * 2.0 ** (sum(bits) - (64 if len(bits) == 1 else 104))
        assert ev.switch_rounding(x) == pytest.approx(1 + units / 0.5)


def test_errors_of_two_operands_are_independent() -> None:
    """Which those of one, on both sides, are not; of computed values it is not known."""
    ev = RowsSymbolic(ring())
    x, y = (ev.fresh(None, (30, 5), bound=1.0, scale=2.0**12, basis=FirstLimbs(1)) for _ in range(2))
    separated, together = (secret_product(ev, x, y, one) for one in (True, False))
    computed = secret_product(ev, ev.add(x, y), y, True)
    own = together.noise - separated.noise
    assert own > 0 and together.noise < math.sqrt(2) * separated.noise
    assert computed.noise > together.noise


def test_keys_serve_no_more_limbs_than_they_are_made_for() -> None:
    ev = RowsSymbolic(RingShape.from_bits(N, [50.0, 20.0], [50.0], 1, 20.0, key_limbs=1))
    x = ev.fresh(None, (N, N), bound=1.0, scale=2.0**10, basis=FirstLimbs(2))
    for operation in (ev.transpose, ev.relinearise):
        with pytest.raises(LevelError, match="no keys for so many limbs"):
            operation(x)
    with pytest.raises(LevelError, match="cannot be rescaled"):
        ev.rescale(ev.rescale(x))


def test_primes_of_16_bits_take_products_of_bytes() -> None:
    ev = RowsSymbolic(RingShape.from_bits(4096, [50.0, math.log2(40961)], [50.0], 1, 20.0, key_limbs=1))
    x = ev.fresh(None, (1024, 8), bound=1.0, scale=2.0**10, basis=FirstLimbs(2))
    ev.part_product(ev.parts(x)[1], x)
    assert ev.counts.modular_macs == (16 + 4) * 8 * 1024 * (4096 + 8) // BYTE_MACS
    assert ev.counts.float_macs == 0


def test_narrow_primes_take_a_float64_gemm() -> None:
    ev = RowsSymbolic(RingShape.from_bits(4096, [50.0, 20.0], [50.0], 1, 20.0, key_limbs=1))
    x = ev.fresh(None, (1024, 8), bound=1.0, scale=2.0**10, basis=FirstLimbs(2))
    ev.part_product(ev.parts(x)[1], x)
    assert ev.counts.modular_macs == ev.counts.float_macs == 8 * 1024 * (4096 + 8)


def test_a_product_that_does_not_fit_the_modulus_is_refused() -> None:
    with pytest.raises(LevelError, match="does not fit the modulus"):
        run(RowsSymbolic(ring(36.0, 4096)), 8, 4096, 8)
    factor = ClearFactor("w", (4, 8), 2.0**20, 1.0, True, lambda: np.zeros((4, 8)))
    ev = RowsSymbolic(ring(40.0, 4096))
    with pytest.raises(LevelError, match="does not fit the modulus"):
        ev.clear_product(factor, ev.fresh(None, (8, 4), bound=1.0, scale=2.0**20, basis=FirstLimbs(1)))


def test_shapes_are_checked() -> None:
    ev = RowsSymbolic(ring())
    x = ev.fresh(None, (4, 4), bound=1.0, scale=4.0, basis=FirstLimbs(1))
    with pytest.raises(ShapeError, match="inner dimension"):
        ev.clear_product(ClearFactor("w", (2, 5), 1.0, 1.0, True, lambda: np.zeros((2, 5))), x)
    with pytest.raises(ShapeError, match="inner dimension"):
        secret_product(ev, ev.fresh(None, (5, 4), bound=1.0, scale=4.0, basis=FirstLimbs(1)), x)
    long = ev.fresh(None, (4, N + 1), bound=1.0, scale=4.0, basis=FirstLimbs(1))
    with pytest.raises(ShapeError, match="at most N"):
        secret_product(ev, long, x)
    with pytest.raises(ShapeError, match="at most N"):
        ev.transpose(long)


def test_a_rounded_product_is_taken_where_its_error_is_below_the_noise() -> None:
    """One float64 GEMM per part for small weights; where the sums would lose more than the noise, one of digits, or
    products of bytes."""
    macs = {}
    for bits, largest in ((35, 127.0), (50, 2.0**15), (50, 3.0)):
        ev = RowsSymbolic(ring(float(bits), 4096))
        factor = ClearFactor("w", (64, 4096), largest, 1.0, True, lambda: np.zeros((64, 4096)))
        ev.clear_product(factor, ev.fresh(None, (4096, 64), bound=1.0, scale=2.0**12, basis=FirstLimbs(1)))
        of_one = 64 * 4096 * (4096 + 64)
        macs[bits, largest] = ev.counts.float_macs / of_one, BYTE_MACS * ev.counts.modular_macs / of_one
    assert macs == {(35, 127.0): (1, 0), (50, 2.0**15): (2, 0), (50, 3.0): (0, 7)}


def test_integers_beyond_the_rounded_gemm_are_multiplied_exactly() -> None:
    ev = RowsSymbolic(ring(49.9, 4096))
    factor = ClearFactor("w", (2, 3), 2.0**40, 1.0, True, lambda: np.zeros((2, 3)))
    ev.clear_product(factor, ev.fresh(None, (3, 5), bound=1.0, scale=4.0, basis=FirstLimbs(1)))
    assert ev.counts.float_macs == 5 * 2 * 3 * (4096 + 5)


def test_few_rows_gather_the_noise_of_shared_keys() -> None:
    """A key per automorphism adds the same whatever the rows; shared ones as formats/noise.py derives."""
    n, noise = 4096, {}
    for policy in get_args(KeyPolicy):
        for rows in (n, 64):
            ev = RowsSymbolic(ring(n=n), key_policy=policy)
            x = ev.fresh(None, (rows, n), bound=1.0, scale=2.0**20, basis=FirstLimbs(1))
            noise[policy, rows] = math.sqrt(ev.transpose(x).noise ** 2 - x.noise**2)
    assert math.isclose(noise["direct", 64], noise["direct", n])
    assert math.isclose(noise["composed", 64] / noise["composed", n], math.sqrt(3 / 2), rel_tol=1e-3)
    assert math.isclose(noise["binary", 64] / noise["binary", n], math.sqrt((6 * 64 + 63) / 12), rel_tol=1e-3)
