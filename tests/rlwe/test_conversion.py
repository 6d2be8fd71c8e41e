"""Conversions give the same matrix in another format, with the declared keys and within the derived error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import MismatchError, MissingKeyError, ParameterError, ShapeError
from cipherblas.common.memory import Array
from cipherblas.crypto.keys import SecretKey, generate_secret
from cipherblas.crypto.params import make_parameters
from cipherblas.rlwe import matrices, noise
from cipherblas.rlwe.matrices import ConversionRequest
from cipherblas.rlwe.matrices.encryption import (
    decrypt,
    encrypt_module_rows,
    encrypt_rows,
    encrypt_shared_batch,
    encrypt_shared_rows,
)
from cipherblas.rlwe.matrices.generation import make_conversion_keys
from cipherblas.rlwe.matrices.matrix import bit_ceil
from tests.support import format_samples as samples


def check(secret: SecretKey, found: Any, expected: Array, scale: float, terms: int, limbs: int) -> None:
    """Entry by entry: the error of encryption, and that of a sum of `terms` key switches (0: none)."""
    added = noise.switch_bound(secret.params, limbs, terms) if terms else 0.0
    bound = (noise.fresh_bound(secret.params) + added) / scale
    plain = decrypt(secret, found)
    assert plain.shape == expected.shape
    assert (np.abs(plain - expected) <= bound).all()


@given(
    data=st.data(),
    n=samples.RINGS,
    limbs=st.integers(1, 2),
    seed=st.integers(0, 2**32),
    log=st.integers(0, 6),
)
def test_rlwe_rows_split_into_module_rows(data: Any, n: int, limbs: int, seed: int, log: int) -> None:
    secret, _ = samples.toy_keys(n, 2)
    splits = min(1 << log, n)
    rows, width = data.draw(st.integers(1, 5)), data.draw(st.integers(1, n // splits))
    plain = samples.matrix(seed, (rows, width * splits))
    x = encrypt_rows(secret, plain, samples.SCALE, limbs)
    found = matrices.rlwe_to_module(x, splits)
    assert found.degree * splits == x.degree
    expected = plain.reshape(rows, width, splits).transpose(0, 2, 1).reshape(rows * splits, width)
    np.testing.assert_array_equal(decrypt(secret, found), decrypt_split(decrypt(secret, x), splits))
    check(secret, found, expected, samples.SCALE, 0, limbs)


def decrypt_split(plain: Array, splits: int) -> Array:
    """The entries of every row, dealt out to `splits` rows."""
    return np.concatenate([[row[t::splits] for t in range(splits)] for row in plain])


@given(data=st.data(), n=samples.RINGS, gadget=samples.GADGETS, seed=st.integers(0, 2**32))
def test_module_rows_pack_into_rlwe_rows(data: Any, n: int, gadget: tuple[int, int, int], seed: int) -> None:
    secret, _ = samples.toy_keys(n, *gadget)
    limbs = data.draw(st.integers(1, gadget[0]))
    width = data.draw(st.integers(1, n))
    rank = n // bit_ceil(width)
    pack = 1 << data.draw(st.integers(0, rank.bit_length() - 1))
    outputs = data.draw(st.integers(1, 3))
    plain = samples.matrix(seed, (outputs * pack, width))
    x = encrypt_module_rows(secret, plain, samples.SCALE, limbs)
    request = matrices.module_to_rlwe_request(x)
    assert (request.count, request.limbs) == (rank, limbs)
    keys = make_conversion_keys(secret, request)
    found = matrices.module_to_rlwe(x, keys, pack)
    expected = plain.reshape(outputs, pack, width).transpose(0, 2, 1).reshape(outputs, width * pack)
    check(secret, found, expected, samples.SCALE, rank, limbs)
    again = matrices.rlwe_to_module(found, pack)
    check(secret, again, plain, samples.SCALE, rank, limbs)


@given(data=st.data(), n=samples.RINGS, gadget=samples.GADGETS, seed=st.integers(0, 2**32))
@pytest.mark.parametrize("name", ["shared-rows", "shared-batch"])
def test_shared_a_to_rlwe(name: str, data: Any, n: int, gadget: tuple[int, int, int], seed: int) -> None:
    secret, _ = samples.toy_keys(n, *gadget)
    limbs = data.draw(st.integers(1, gadget[0]))
    plain = samples.matrix(seed, data.draw(samples.shapes(name, n, longest=5)))
    x = samples.ENCRYPT[name](secret, plain, samples.SCALE, limbs)
    assert isinstance(x, (matrices.SharedRows, matrices.SharedBatch))
    request = matrices.shared_to_rlwe_request(x)
    blocks = matrices.shared_to_rlwe(x, make_conversion_keys(secret, request))
    for block, begin in zip(blocks, range(0, plain.shape[1], n), strict=True):
        check(secret, block, plain[:, begin : begin + n], samples.SCALE, 1, limbs)


@given(
    data=st.data(), n=samples.RINGS, gadget=samples.GADGETS, seed=st.integers(0, 2**32), batch=st.booleans()
)
def test_rlwe_to_shared_a(data: Any, n: int, gadget: tuple[int, int, int], seed: int, batch: bool) -> None:
    secret, _ = samples.toy_keys(n, *gadget)
    limbs = data.draw(st.integers(1, gadget[0]))
    plain = samples.matrix(seed, data.draw(samples.shapes("shared-rows", n, longest=5)))
    blocks = [
        encrypt_rows(secret, plain[:, begin : begin + n], samples.SCALE, limbs)
        for begin in range(0, plain.shape[1], n)
    ]
    if batch:
        request = matrices.rlwe_to_shared_batch_request(blocks)
        found: Any = matrices.rlwe_to_shared_batch(blocks, make_conversion_keys(secret, request))
        assert request.count == len(plain)
    else:
        request = matrices.rlwe_to_shared_rows_request(blocks)
        found = matrices.rlwe_to_shared_rows(blocks, make_conversion_keys(secret, request))
        assert request.count == len(blocks)
    check(secret, found, plain, samples.SCALE, request.count, limbs)


@pytest.mark.slow
def test_real_parameters() -> None:
    """N = 2^12 at 128 bits: one prime of 50 bits, one special prime; all conversions one after the other."""
    params = make_parameters(1 << 12, [50.0])
    assert params.security == 128
    secret = generate_secret(params)
    plain = samples.matrix(1, (4, 2 * params.n), largest=1.0)
    scale = 2.0**40
    blocks = [encrypt_rows(secret, half, scale) for half in np.split(plain, 2, axis=1)]
    for to, request in (
        (matrices.rlwe_to_shared_rows, matrices.rlwe_to_shared_rows_request(blocks)),
        (matrices.rlwe_to_shared_batch, matrices.rlwe_to_shared_batch_request(blocks)),
    ):
        shared = to(blocks, make_conversion_keys(secret, request))
        check(secret, shared, plain, scale, request.count, 1)
        back = matrices.shared_to_rlwe(
            shared, make_conversion_keys(secret, matrices.shared_to_rlwe_request(shared))
        )
        for block, half in zip(back, np.split(plain, 2, axis=1), strict=True):
            check(secret, block, half, scale, request.count + 1, 1)
    module = matrices.rlwe_to_module(blocks[0], 16)
    assert (module.degree, module.rank, module.shape) == (256, 16, (64, 256))
    keys = make_conversion_keys(secret, matrices.module_to_rlwe_request(module))
    check(secret, matrices.module_to_rlwe(module, keys, 16), plain[:, : params.n], scale, 16, 1)


def test_keys_must_be_the_declared_ones() -> None:
    secret, _ = samples.toy_keys(16, 2, 1)
    x = encrypt_shared_rows(secret, np.ones((2, 40)), samples.SCALE)
    request = matrices.shared_to_rlwe_request(x)
    for other in (
        ConversionRequest(request.conversion, 2, 2),
        ConversionRequest(request.conversion, 3, 1),
        ConversionRequest("rlwe-to-shared", 3, 2),
    ):
        with pytest.raises(MissingKeyError, match="count=3"):
            matrices.shared_to_rlwe(x, make_conversion_keys(secret, other))
    stranger = generate_secret(secret.params)
    with pytest.raises(MismatchError, match="key pair"):
        matrices.shared_to_rlwe(x, make_conversion_keys(stranger, request))
    foreign, _ = samples.toy_keys(16, 3, 2, 2)
    with pytest.raises(MismatchError, match="parameters"):
        matrices.shared_to_rlwe(x, make_conversion_keys(foreign, request))


def test_requests_are_checked() -> None:
    secret, _ = samples.toy_keys(16, 2, 1)
    for conversion, count, limbs in (
        ("rlwe-to-lwe", 1, 1),
        ("module-to-rlwe", 32, 1),
        ("module-to-rlwe", 3, 1),
        ("shared-to-rlwe", 0, 1),
        ("shared-to-rlwe", 1, 3),
        ("rlwe-to-shared", 1 << 17, 1),
    ):
        with pytest.raises(ParameterError):
            make_conversion_keys(secret, ConversionRequest(conversion, count, limbs))
    without_special, _ = samples.toy_keys(16, 2)
    with pytest.raises(ParameterError, match="special primes"):
        make_conversion_keys(without_special, ConversionRequest("shared-to-rlwe", 1, 1))


def test_shapes_are_checked() -> None:
    secret, _ = samples.toy_keys(16, 1, 1)
    rows = encrypt_rows(secret, np.ones((2, 12)), samples.SCALE)
    for splits in (0, 3, 8, -1):
        with pytest.raises(ShapeError, match="12 columns"):
            matrices.rlwe_to_module(rows, splits)
    module = encrypt_module_rows(secret, np.ones((6, 4)), samples.SCALE)
    keys = make_conversion_keys(secret, matrices.module_to_rlwe_request(module))
    for pack in (0, 3, 4, 8):
        with pytest.raises(ShapeError, match="6 rows"):
            matrices.module_to_rlwe(module, keys, pack)
    to_shared = make_conversion_keys(secret, ConversionRequest("rlwe-to-shared", 2, 1))
    with pytest.raises(ShapeError, match="N = 16"):
        matrices.rlwe_to_shared_rows([rows, rows], to_shared)
    with pytest.raises(MismatchError, match="at least one"):
        matrices.rlwe_to_shared_rows([], to_shared)
    full = encrypt_rows(secret, np.ones((2, 16)), samples.SCALE)
    with pytest.raises(MismatchError, match="scales"):
        matrices.rlwe_to_shared_batch([full, full.times(2.0)], to_shared)
    batch = encrypt_shared_batch(secret, np.ones((2, 16)), samples.SCALE)
    with pytest.raises(MismatchError, match="SharedBatch"):
        matrices.rlwe_to_shared_batch([full, batch], to_shared)  # type: ignore[list-item]
