"""Sums, differences, multiples, and products with a clear matrix, compared with NumPy and Python integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.memory import Array
from cipherblas.rlwe import noise
from cipherblas.rlwe.matrices import CoefficientMatrix, SharedBatch
from cipherblas.rlwe.matrices.encryption import decrypt, encrypt_rows
from tests.support import format_samples as samples

RINGS = st.sampled_from([8, 16, 64])
LEFT = [name for name in samples.ENCRYPT if name not in ("rlwe-columns", "shared-batch")]


def exact_product(weights: Array, residues: Array, moduli: tuple[int, ...]) -> Array:
    """weights · residues modulo each prime, by Python integers."""
    limbs = [
        np.array(weights.astype(object) @ limb.astype(object) % q, dtype=np.uint64)
        for limb, q in zip(residues, moduli, strict=False)
    ]
    return np.stack(limbs)


@given(data=st.data(), n=RINGS, limbs=st.integers(1, 3), seed=st.integers(0, 2**32))
@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_add_and_sub(name: str, data: Any, n: int, limbs: int, seed: int) -> None:
    secret, _ = samples.toy_keys(n, 3)
    shape = data.draw(samples.shapes(name, n))
    left, right = samples.matrix(seed, shape), samples.matrix(seed + 1, shape)
    x, y = (samples.ENCRYPT[name](secret, plain, samples.SCALE, limbs) for plain in (left, right))
    bound = 2 * noise.fresh_bound(secret.params) / samples.SCALE
    for found, expected in ((x.add(y), left + right), (x.sub(y), left - right)):
        assert type(found) is type(x)
        assert (np.abs(decrypt(secret, found) - expected) <= bound).all()
        found.check_residues()


@given(seed=st.integers(0, 2**32), limbs=st.integers(1, 3), factor=st.integers(-(2**9), 2**9))
@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_times_an_integer(name: str, seed: int, limbs: int, factor: int) -> None:
    secret, _ = samples.toy_keys(16, 3)
    plain = samples.matrix(seed, (3, 16))
    x = samples.ENCRYPT[name](secret, plain, samples.SCALE, limbs)
    found = x.times(factor)
    assert found.scale == samples.SCALE
    bound = abs(factor) * noise.fresh_bound(secret.params) / samples.SCALE
    # Plain values near 2^9·1000 have a last bit of 2^-34: it adds to the bound where the factor is 0.
    assert (np.abs(decrypt(secret, found) - factor * plain) <= bound + 2.0**-33).all()
    for limb, q in enumerate(secret.params.q[:limbs]):
        for before, after in ((x.a, found.a), (x.b, found.b)):
            np.testing.assert_array_equal(after[limb], before[limb].astype(object) * factor % q)


@given(seed=st.integers(0, 2**32), size=st.floats(1e-6, 1e6), negative=st.booleans())
@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_times_a_float_changes_the_scale(name: str, seed: int, size: float, negative: bool) -> None:
    secret, _ = samples.toy_keys(16)
    plain = samples.matrix(seed, (3, 16), largest=100.0)
    factor = -size if negative else size
    x = samples.ENCRYPT[name](secret, plain, samples.SCALE)
    found = x.times(factor)
    assert found.scale == samples.SCALE / size
    if not negative:
        assert found.b is x.b
    bound = size * (noise.fresh_bound(secret.params) / samples.SCALE + 100 * 2.0**-50)
    assert (np.abs(decrypt(secret, found) - factor * plain) <= bound).all()


def applied(weights: Array, x: CoefficientMatrix, *, a: bool) -> CoefficientMatrix:
    """U·(a, b) on whole arrays: what a server does; without `a`, on the b part alone."""
    moduli = x.params.q
    uniform = exact_product(weights, x.a, moduli) if a else x.a
    shape = (len(weights), x.shape[1])
    return replace(x, shape=shape, b=exact_product(weights, x.b, moduli), uniform=uniform)


@given(
    data=st.data(), n=RINGS, limbs=st.integers(1, 2), seed=st.integers(0, 2**32), outputs=st.integers(1, 9)
)
@pytest.mark.parametrize("name", LEFT)
def test_a_clear_matrix_on_the_left(
    name: str, data: Any, n: int, limbs: int, seed: int, outputs: int
) -> None:
    secret, _ = samples.toy_keys(n, 2)
    plain = samples.matrix(seed, data.draw(samples.shapes(name, n)), largest=50.0)
    weights = np.random.default_rng(seed).integers(-100, 101, (outputs, len(plain)))
    x = samples.ENCRYPT[name](secret, plain, samples.SCALE, limbs)
    found = decrypt(secret, applied(weights, x, a=True))
    bound = np.abs(weights).sum(axis=1, keepdims=True) * noise.fresh_bound(secret.params) / samples.SCALE
    assert (np.abs(found - weights @ plain) <= bound + 2.0**-30).all()


@given(n=RINGS, limbs=st.integers(1, 2), seed=st.integers(0, 2**32), cols=st.integers(1, 40))
def test_a_clear_matrix_on_the_right_of_columns(n: int, limbs: int, seed: int, cols: int) -> None:
    secret, _ = samples.toy_keys(n, 2)
    plain = samples.matrix(seed, (n, 6), largest=50.0)
    weights = np.random.default_rng(seed).integers(-100, 101, (6, cols))
    x = samples.ENCRYPT["rlwe-columns"](secret, plain, samples.SCALE, limbs)
    moduli = secret.params.q
    product = replace(
        x,
        shape=(n, cols),
        b=exact_product(weights.T, x.b, moduli),
        uniform=exact_product(weights.T, x.a, moduli),
    )
    bound = np.abs(weights).sum(axis=0) * noise.fresh_bound(secret.params) / samples.SCALE
    assert (np.abs(decrypt(secret, product) - plain @ weights) <= bound + 2.0**-30).all()


@given(
    n=RINGS,
    limbs=st.integers(1, 2),
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 9),
    cols=st.integers(1, 150),
    outputs=st.integers(1, 9),
)
def test_a_batch_keeps_its_a_part(n: int, limbs: int, seed: int, rows: int, cols: int, outputs: int) -> None:
    """U·m_j = a·(U·s)_j + (U·b)_j: one product, on the b part, and the secrets become U·s."""
    secret, _ = samples.toy_keys(n, 2)
    plain = samples.matrix(seed, (rows, cols), largest=50.0)
    weights = np.random.default_rng(seed).integers(-100, 101, (outputs, rows))
    x = encrypt_rows(secret, plain, samples.SCALE, limbs, SharedBatch)
    product = applied(weights, x, a=False)
    assert isinstance(product, SharedBatch)
    found = decrypt(secret, product, weights)
    bound = np.abs(weights).sum(axis=1, keepdims=True) * noise.fresh_bound(secret.params) / samples.SCALE
    assert (np.abs(found - weights @ plain) <= bound + 2.0**-30).all()


@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_fewer_limbs_hold_the_same_message(name: str) -> None:
    secret, _ = samples.toy_keys(64, 3)
    plain = samples.matrix(5, (4, 60))
    x = samples.ENCRYPT[name](secret, plain, samples.SCALE)
    bound = noise.fresh_bound(secret.params) / samples.SCALE
    assert x.drop(3) is x
    for limbs in (1, 2):
        dropped = x.drop(limbs)
        assert dropped.limbs == limbs
        np.testing.assert_array_equal(dropped.a, x.a[:limbs])
        assert (np.abs(decrypt(secret, dropped) - plain) <= bound).all()
