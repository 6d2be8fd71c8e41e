"""Encryption and decryption: right, noisy as stated, fresh each time, and strict about what they take."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import (
    DTypeError,
    FormatError,
    ParameterError,
    RangeError,
    ShapeError,
)
from cipherblas.crypto import keys
from cipherblas.crypto.keys import FreshCiphertext, PublicKey, SecretKey
from cipherblas.crypto.params import Parameters, make_parameters

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")

N = 1 << 10
SIGMA = 3.2
ZERO = np.zeros(N, np.int64)


@pytest.fixture(scope="module")
def toy_public(toy_secret: SecretKey) -> PublicKey:
    return keys.generate_public_key(toy_secret)


def errors(secret: SecretKey, ciphertext: np.ndarray, message: np.ndarray) -> np.ndarray:
    # Messages stay below 2^52, so that the difference is exact.
    return keys.decrypt_coefficients(secret, ciphertext) - message


@given(seed=st.integers(0, 2**32), limbs=st.integers(1, 5), bits=st.integers(0, 45))
def test_round_trip(toy_secret: SecretKey, toy_public: PublicKey, seed: int, limbs: int, bits: int) -> None:
    message = np.random.default_rng(seed).integers(-(2**bits), 2**bits, N, endpoint=True)
    symmetric = keys.encrypt(toy_secret, message, limbs)
    assert symmetric.expand().shape == (2, limbs, N)
    assert abs(errors(toy_secret, symmetric.expand(), message)).max() <= 32
    public = keys.encrypt(toy_public, message, limbs)
    # v·e + e_0 + e_1·s: the standard deviation is σ·sqrt(4N/3 + 1); eight of them.
    bound = 8 * SIGMA * math.sqrt(4 * N / 3 + 1)
    assert abs(errors(toy_secret, public.expand(), message)).max() <= bound


def test_where_what_is_sent_goes(toy_secret: SecretKey, toy_public: PublicKey) -> None:
    for key, shape in ((toy_secret, (2, N)), (toy_public, (2, 2, N))):
        room = np.zeros((3, *shape), np.uint64)
        fresh = keys.encrypt(key, ZERO, 2, room[1])
        assert np.shares_memory(fresh.data, room) and not room[0].any() and not room[2].any()
        assert abs(errors(toy_secret, fresh.expand(), ZERO)).max() <= 8 * SIGMA * math.sqrt(4 * N / 3 + 1)
        for wrong in (room, room[1].astype(np.float64), np.zeros((1, *shape), np.uint64)):
            with pytest.raises((ShapeError, DTypeError)):
                keys.encrypt(key, ZERO, 2, wrong)


def test_noise_of_fresh_ciphertexts(toy_secret: SecretKey, toy_public: PublicKey) -> None:
    count = 50
    symmetric = np.stack(
        [errors(toy_secret, keys.encrypt(toy_secret, ZERO, 2).expand(), ZERO) for _ in range(count)]
    )
    assert abs(symmetric.std() / SIGMA - 1) < 6 / math.sqrt(2 * symmetric.size)
    assert abs(symmetric.mean()) < 6 * SIGMA / math.sqrt(symmetric.size)
    assert np.array_equal(symmetric, np.rint(symmetric))
    public = np.stack(
        [errors(toy_secret, keys.encrypt(toy_public, ZERO, 2).expand(), ZERO) for _ in range(count)]
    )
    # The key's e is shared by all, so the deviation itself varies with |e|² and the weight of s: 5 %.
    assert abs(public.std() / (SIGMA * math.sqrt(4 * N / 3 + 1)) - 1) < 0.15


def test_the_a_part_is_uniform(toy_secret: SecretKey, toy_public: PublicKey) -> None:
    params = toy_secret.params
    for key in (toy_secret, toy_public):
        both = np.stack([keys.encrypt(key, ZERO).expand() for _ in range(40)])
        for limb, q in enumerate(params.q):
            for component in (0, 1):  # with a uniform a, b is uniform too
                values = both[:, component, limb].astype(float).ravel()
                counts, _ = np.histogram(values, bins=32, range=(0, q))
                mean = values.size / 32
                assert abs(counts - mean).max() < 6 * math.sqrt(mean)


def test_equal_messages_look_different(toy_secret: SecretKey, toy_public: PublicKey) -> None:
    for key in (toy_secret, toy_public):
        first, second = keys.encrypt(key, ZERO), keys.encrypt(key, ZERO)
        same = first.expand() == second.expand()
        assert same.sum() <= 1
        assert first.seed is None or first.seed != second.seed


def test_a_symmetric_ciphertext_is_half_the_size(toy_secret: SecretKey, toy_public: PublicKey) -> None:
    params = toy_secret.params
    fresh = keys.encrypt(toy_secret, ZERO, 3)
    assert fresh.nbytes == params.ciphertext_bytes(3) // 2 + 32
    assert keys.encrypt(toy_public, ZERO, 3).nbytes == params.ciphertext_bytes(3)
    again = FreshCiphertext(params, 3, fresh.seed, fresh.data.copy())
    np.testing.assert_array_equal(again.expand(), fresh.expand())
    np.testing.assert_array_equal(fresh.expand()[0], fresh.data)
    assert fresh.expand().ctypes.data % 64 == 0
    assert "array" not in repr(fresh)


def test_fewer_limbs_are_a_prefix(toy_secret: SecretKey) -> None:
    message = np.arange(N) - 500
    both = keys.encrypt(toy_secret, message, 5).expand()
    for limbs in range(1, 6):
        assert abs(errors(toy_secret, both[:, :limbs], message)).max() <= 32


def test_another_key_decrypts_to_nothing(toy_secret: SecretKey, toy_parameters: Parameters) -> None:
    stranger = keys.generate_secret(toy_parameters)
    found = keys.decrypt_coefficients(stranger, keys.encrypt(toy_secret, ZERO, 2).expand())
    assert abs(found).max() > 2**80  # spread over the modulus of 2^90


def test_what_is_known_of_a_message_saves_limbs(toy_secret: SecretKey) -> None:
    """The same coefficients, of as many limbs as hold them: to the last one, and not a limb fewer."""
    q = toy_secret.params.q
    message = np.random.default_rng(1).integers(-(2**50), 2**50, N)
    both = keys.encrypt(toy_secret, message, 4).expand()
    whole = keys.decrypt_coefficients(toy_secret, both)
    for within in (2.0**51, q[0] * q[1] / 2 - 2.0**40, q[0] * q[1] * 3.0, 1e300, math.inf):
        assert (keys.decrypt_coefficients(toy_secret, both, within=within) == whole).all()
    damaged = both.copy()
    damaged[:, 2:] = 0  # of other limbs than those that are read
    assert (keys.decrypt_coefficients(toy_secret, damaged, within=2.0**51) == whole).all()
    assert (keys.decrypt_coefficients(toy_secret, damaged, within=q[0] * q[1] / 1.9) != whole).any()
    wrapped = keys.decrypt_coefficients(toy_secret, both, within=q[0] / 4)
    assert abs(wrapped).max() <= q[0] / 2


def test_three_components(toy_secret: SecretKey) -> None:
    context = toy_secret.params.context()
    message = np.arange(N) * 1000
    b, a = keys.encrypt(toy_secret, message, 3).expand()
    third = keys.encrypt(toy_secret, ZERO, 3).expand()[1]  # uniform
    s = toy_secret.ntt()[:3]
    shifted = context.multiply(third, context.multiply(s, s))
    moduli = np.array(toy_secret.params.q[:3], np.uint64)[:, None]
    triple = np.stack([(b + moduli - shifted) % moduli, a, third])
    assert abs(errors(toy_secret, triple, message)).max() <= 32


@pytest.mark.slow
def test_real_parameters() -> None:
    params = make_parameters(1 << 15, [50.0] + [40.0] * 12, alpha=5, scale_bits=40.0)
    secret = keys.generate_secret(params)
    message = np.random.default_rng(5).integers(-(2**45), 2**45, params.n)
    assert abs(errors(secret, keys.encrypt(secret, message).expand(), message)).max() <= 32
    public = keys.generate_public_key(secret)
    bound = 8 * SIGMA * math.sqrt(4 * params.n / 3 + 1)
    assert abs(errors(secret, keys.encrypt(public, message).expand(), message)).max() <= bound


# ------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("message", "limbs", "error"),
    [
        (ZERO[:-1], 2, ShapeError),
        (ZERO[None], 2, ShapeError),
        (ZERO.astype(float), 2, DTypeError),
        (ZERO.astype(np.int32), 2, DTypeError),
        (ZERO + 2**49, 1, RangeError),
        (ZERO - 2**49, 1, RangeError),
        (ZERO + np.iinfo(np.int64).min, 1, RangeError),
        (ZERO, 0, ParameterError),
        (ZERO, 6, ParameterError),
        (ZERO, -1, ParameterError),
    ],
)
def test_wrong_messages(
    toy_secret: SecretKey, toy_public: PublicKey, message: np.ndarray, limbs: int, error: type[Exception]
) -> None:
    for key in (toy_secret, toy_public):
        with pytest.raises(error):
            keys.encrypt(key, message, limbs)


def test_the_largest_message(toy_secret: SecretKey) -> None:
    message = ZERO + (toy_secret.params.q[0] // 2 - 40)
    message[::2] *= -1
    assert abs(errors(toy_secret, keys.encrypt(toy_secret, message, 1).expand(), message)).max() <= 32


@pytest.mark.parametrize(
    ("ciphertext", "error"),
    [
        (np.zeros((2, 2, N - 1), np.uint64), ShapeError),
        (np.zeros((1, 2, N), np.uint64), ShapeError),
        (np.zeros((4, 2, N), np.uint64), ShapeError),
        (np.zeros((2, 6, N), np.uint64), ShapeError),
        (np.zeros((2, 0, N), np.uint64), ShapeError),
        (np.zeros((2, N), np.uint64), ShapeError),
        (np.zeros((2, 2, N), np.int64), DTypeError),
        (np.zeros((2, 2, N)), DTypeError),
        (np.full((2, 2, N), 2**50, np.uint64), RangeError),
    ],
)
def test_wrong_ciphertexts(toy_secret: SecretKey, ciphertext: np.ndarray, error: type[Exception]) -> None:
    with pytest.raises(error):
        keys.decrypt_coefficients(toy_secret, ciphertext)


def test_a_residue_at_its_modulus_is_refused(toy_secret: SecretKey) -> None:
    params = toy_secret.params
    fresh = keys.encrypt(toy_secret, ZERO, 3)
    for limb in range(3):
        both = fresh.expand()
        both[1, limb, 7] = params.q[limb]
        with pytest.raises(
            RangeError,
            match=f"residue of limb {limb} that is not below its prime .expected below {params.q[limb]}",
        ):
            keys.decrypt_coefficients(toy_secret, both)
        damaged = fresh.data.copy()
        damaged[limb, 7] = params.q[limb]
        with pytest.raises(RangeError):
            FreshCiphertext(params, 3, fresh.seed, damaged)
    for data in (fresh.data[:2], fresh.data.astype(np.int64), fresh.expand()):
        with pytest.raises((ShapeError, DTypeError)):
            FreshCiphertext(params, 3, fresh.seed, data)


# ------------------------------------------------------------------------------------------- the public key


def test_public_key_file(toy_secret: SecretKey, toy_public: PublicKey, tmp_path: Path) -> None:
    toy_public.save(tmp_path / "public")
    assert (tmp_path / "public").stat().st_size < toy_public.data.nbytes / 2 + 4096
    again = PublicKey.load(tmp_path / "public", insecure=True)
    np.testing.assert_array_equal(again.data, toy_public.data)
    assert again.key_id == toy_public.key_id == toy_secret.key_id
    message = np.arange(N)
    found = errors(toy_secret, keys.encrypt(again, message, 2).expand(), message)
    assert abs(found).max() <= 8 * SIGMA * math.sqrt(4 * N / 3 + 1)
    assert f"N={N}" in repr(again)
    assert isinstance(copy.copy(again), PublicKey)  # it is public


def test_a_public_key_file_that_lies(toy_public: PublicKey, tmp_path: Path) -> None:
    from cipherblas.crypto import files

    toy_public.save(tmp_path / "public")
    _, tensors = files.read(tmp_path / "public", "public-key", insecure=True)
    params = toy_public.params
    header: dict[str, Any] = {"program_id": "", "key_id": ""}
    changes: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = [
        ({**header, "program_id": 5}, tensors),
        ({**header, "key_id": 5}, tensors),
        ({"program_id": ""}, tensors),
        ({"key_id": ""}, tensors),
        (header, {"b": tensors["b"]}),
        (header, {**tensors, "seed": tensors["seed"][:31]}),
        (header, {**tensors, "b": tensors["b"][:2]}),
        (header, {**tensors, "b": tensors["b"] | np.uint64(1 << 60)}),
    ]
    files.write(tmp_path / "faithful", "public-key", header, tensors, parameters=params)
    PublicKey.load(tmp_path / "faithful", insecure=True)
    for changed, content in changes:
        files.write(tmp_path / "lie", "public-key", changed, content, parameters=params)
        with pytest.raises(FormatError):
            PublicKey.load(tmp_path / "lie", insecure=True)
