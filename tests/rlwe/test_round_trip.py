"""Every format gives back what was encrypted, entry by entry, within the bound of its errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cipherblas.crypto import randomness
from cipherblas.crypto.keys import generate_secret
from cipherblas.crypto.params import make_parameters
from cipherblas.rlwe import noise
from cipherblas.rlwe.matrices import RlweColumns, RlweRows, SharedBatch, SharedRows, encryption
from cipherblas.rlwe.matrices.encryption import decrypt, encrypt_rows
from tests.support import format_samples as samples

RINGS = st.sampled_from([8, 16, 64, 256])


def error(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], scale: float) -> float:
    """The largest error of an entry, in units of the scaled message."""
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max() * scale)


@given(data=st.data(), n=RINGS, limbs=st.integers(1, 3), seed=st.integers(0, 2**32))
@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_secret_key(name: str, data: Any, n: int, limbs: int, seed: int) -> None:
    secret, _ = samples.toy_keys(n, 3)
    plain = samples.matrix(seed, data.draw(samples.shapes(name, n)))
    encrypted = samples.ENCRYPT[name](secret, plain, samples.SCALE, limbs)
    assert name == encrypted.NAME
    assert (encrypted.shape, encrypted.limbs, encrypted.scale) == (plain.shape, limbs, samples.SCALE)
    assert error(decrypt(secret, encrypted), plain, samples.SCALE) <= noise.fresh_bound(secret.params)


@given(data=st.data(), n=RINGS, limbs=st.integers(1, 3), seed=st.integers(0, 2**32))
@pytest.mark.parametrize("name", samples.PUBLIC)
def test_public_key(name: str, data: Any, n: int, limbs: int, seed: int) -> None:
    secret, public = samples.toy_keys(n, 3)
    plain = samples.matrix(seed, data.draw(samples.shapes(name, n)))
    encrypted = samples.ENCRYPT[name](public, plain, samples.SCALE, limbs)
    assert encrypted.seed is None
    found = decrypt(secret, encrypted)
    assert error(found, plain, samples.SCALE) <= noise.fresh_bound(secret.params, public_key=True)
    assert error(found, plain, samples.SCALE) > 0  # there is an error, and it is not the same each time
    again = samples.ENCRYPT[name](public, plain, samples.SCALE, limbs)
    assert not np.array_equal(again.b, encrypted.b)


@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_the_error_is_the_gaussian_of_the_sampler(name: str) -> None:
    secret, _ = samples.toy_keys(64)
    shape = (64, 64)
    plain = np.zeros(shape)
    count = 40
    found = np.stack([decrypt(secret, samples.ENCRYPT[name](secret, plain, 1.0)) for _ in range(count)])
    assert np.array_equal(found, np.rint(found))
    assert abs(found.std() / noise.SIGMA - 1) < 6 / np.sqrt(2 * found.size)
    assert abs(found.mean()) < 6 * noise.SIGMA / np.sqrt(found.size)
    independent = np.corrcoef(found.reshape(count, -1))[np.triu_indices(count, 1)]
    assert np.abs(independent).max() < 6 / np.sqrt(plain.size)


@pytest.mark.parametrize("together", [1, 3, 4, 11, 12])
@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_rows_that_are_encrypted_together(name: str, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, or some at a time: each has its own a part and errors of its own."""
    secret, _ = samples.toy_keys(64, 2)
    plain = np.tile(samples.matrix(1, (1, 64)), (11, 1))
    monkeypatch.setattr(encryption, "STRIP_WORDS", together * 2 * 64 + 1)
    encrypted = samples.ENCRYPT[name](secret, plain, samples.SCALE)
    found = decrypt(secret, encrypted)
    assert error(found, plain, samples.SCALE) <= noise.fresh_bound(secret.params)
    assert len(np.unique(found, axis=0)) == len(plain)
    assert len(np.unique(encrypted.a[0], axis=0)) == len(encrypted.a[0])


@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_messages_of_two_limbs(name: str) -> None:
    """Messages beyond 64 bits, up to the last that fits."""
    secret, _ = samples.toy_keys(16, 2)
    q = secret.params.q[0] * secret.params.q[1]
    largest = q // 2 - 2 * int(noise.fresh_bound(secret.params))
    message = np.array([[float(largest) * (1 - 2**-50), -float(2**80) - 2.0**40, 2.0**62, -3.0]])
    plain = message.T if name == "rlwe-columns" else message
    found = decrypt(secret, samples.ENCRYPT[name](secret, plain, 1.0))
    # float64 has 53 bits: the centred residues are rounded when they are returned.
    assert (np.abs(found - plain) <= noise.fresh_bound(secret.params) + np.abs(plain) * 2.0**-53).all()


@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_a_fresh_matrix_travels_as_its_b_part(name: str) -> None:
    secret, _ = samples.toy_keys(64, 2)
    encrypted = samples.ENCRYPT[name](secret, np.ones((5, 48)), samples.SCALE)
    assert encrypted.seed is not None
    assert encrypted.nbytes == 2 * 5 * 48 * 8 + 32
    assert encrypted.a.shape == (2, {"rlwe-columns": 48, "shared-batch": 1}.get(name, 5), 64)
    same = type(encrypted)(
        secret.params, (5, 48), samples.SCALE, encrypted.b, encrypted.seed, encrypted.key_id
    )
    np.testing.assert_array_equal(same.a, encrypted.a)
    for limb, q in enumerate(secret.params.q):
        assert encrypted.a[limb].max() < q
        assert encrypted.b[limb].max() < q
    assert not np.array_equal(encrypted.a[0], encrypted.a[1])
    assert "array" not in repr(encrypted)


@pytest.mark.parametrize("public", [False, True])
def test_rounding_has_words_of_its_own(public: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one seed for all else, encryptions of the same, and their strips, differ by how entries are rounded."""
    secret, key = samples.toy_keys(64)
    monkeypatch.setattr(randomness, "fresh_seed", lambda: bytes(32))
    monkeypatch.setattr(encryption, "STRIP_WORDS", 10 * 64)  # ten rows of one limb

    def encrypted(plain: NDArray[np.float64]) -> NDArray[np.float64]:
        return decrypt(secret, encrypt_rows(key if public else secret, plain, 1.0, 1))

    plain = np.tile(np.random.default_rng(0).uniform(-100, 100, (10, 64)), (2, 1))
    first, second = encrypted(plain), encrypted(plain)
    assert set(np.unique(first - second)) == {-1.0, 0.0, 1.0}
    if not public:
        assert set(np.unique(first[:10] - first[10:])) == {-1.0, 0.0, 1.0}
    whole = np.floor(plain)
    np.testing.assert_array_equal(encrypted(whole), encrypted(whole))
    assert np.isin(first - encrypted(whole), (0.0, 1.0)).all()


@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_another_key_decrypts_to_nothing(name: str) -> None:
    secret, _ = samples.toy_keys(64)
    encrypted = samples.ENCRYPT[name](secret, np.zeros((4, 64)), 1.0)
    stranger = generate_secret(secret.params)
    nameless = type(encrypted)(secret.params, encrypted.shape, 1.0, encrypted.b, encrypted.uniform)
    assert np.abs(decrypt(stranger, nameless)).max() > 2.0**44  # spread over the modulus of 2^50
    assert np.abs(decrypt(secret, nameless)).max() <= noise.fresh_bound(secret.params)


def test_transposed_rows_are_columns() -> None:
    secret, _ = samples.toy_keys(64)
    plain = samples.matrix(1, (5, 40))
    rows = encrypt_rows(secret, plain, samples.SCALE)
    columns = rows.T
    assert isinstance(columns, RlweColumns)
    assert isinstance(columns.T, RlweRows)
    assert columns.shape == (40, 5)
    assert columns.b is rows.b
    np.testing.assert_array_equal(decrypt(secret, columns), decrypt(secret, rows).T)


def test_degrees() -> None:
    secret, _ = samples.toy_keys(64)
    rows = encrypt_rows(secret, np.ones((2, 9)), 1.0)
    assert rows.degree == 16
    shared = samples.ENCRYPT["shared-rows"](secret, np.ones((2, 129)), 1.0)
    assert isinstance(shared, SharedRows)
    assert shared.own_secrets(shared.params, shared.shape) == 3
    batch = samples.ENCRYPT["shared-batch"](secret, np.ones((7, 129)), 1.0)
    assert isinstance(batch, SharedBatch)
    assert (batch.own_secrets(batch.params, batch.shape), batch.a.shape) == (7, (1, 3, 64))


@pytest.mark.slow
@pytest.mark.parametrize("name", samples.ENCRYPT)
@pytest.mark.parametrize(("n", "bits"), [(1 << 10, 25.9), (1 << 11, 49.9), (1 << 12, 49.9)])
def test_secure_rings(name: str, n: int, bits: float) -> None:
    """128 bits without evaluation keys, from N = 2^10 on."""
    params = make_parameters(n, [bits], special_limbs=0)
    assert params.security == 128
    secret = generate_secret(params)
    scale = 2.0 ** (bits - 12)
    for shape in ((64, n - 3), (3, 100)):
        plain = samples.matrix(n, shape, largest=1.0)
        encrypted = samples.ENCRYPT[name](secret, plain, scale)
        assert error(decrypt(secret, encrypted), plain, scale) <= noise.fresh_bound(params)
