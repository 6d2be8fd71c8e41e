"""Keystreams are AES-256-CTR with the blocks that are documented, and the distributions are right."""

from __future__ import annotations

import itertools
import math
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import ParameterError
from cipherblas.crypto import randomness
from cipherblas.crypto.randomness import Purpose

if TYPE_CHECKING:
    import cipherblas._core as _core
    from cipherblas.crypto.params import Parameters

SEED = bytes(range(32))
# A count of n events of probability p deviates from its mean by more than 6 standard deviations with
# probability below 2e-9.
DEVIATIONS = 6.0


def stream(seed: bytes, purpose: Purpose, index: int, length: int) -> bytes:
    out = np.empty(length, np.uint8)
    randomness.keystream(seed, purpose, index, out)
    return out.tobytes()


@given(
    seed=st.binary(min_size=32, max_size=32),
    purpose=st.sampled_from(list(Purpose)),
    index=st.integers(0, 2**48 - 1),
    length=st.integers(0, 100),
)
def test_streams_are_aes_of_the_documented_blocks(
    seed: bytes, purpose: Purpose, index: int, length: int
) -> None:
    counters = b"".join(
        purpose.to_bytes(2, "big") + index.to_bytes(6, "big") + block.to_bytes(8, "big") for block in range(7)
    )
    expected = Cipher(algorithms.AES(seed), modes.ECB()).encryptor().update(counters)
    assert stream(seed, purpose, index, length) == expected[:length]


def test_long_streams_are_one_stream() -> None:
    length = 2 * randomness._CHUNK_BYTES + 24
    zeros = Cipher(algorithms.AES(SEED), modes.CTR(b"\0\5" + bytes(14))).encryptor().update(bytes(length))
    assert stream(SEED, Purpose.NOISE, 0, length) == zeros


def test_streams_do_not_meet() -> None:
    seeds = [SEED, bytes(32)]
    blocks: set[bytes] = set()
    count = 0
    for seed, purpose, index in itertools.product(seeds, Purpose, [0, 1, 2, 1 << 16, (1 << 48) - 1]):
        data = stream(seed, purpose, index, 16 * 64)
        blocks.update(data[start : start + 16] for start in range(0, len(data), 16))
        count += 64
    assert len(blocks) == count


def test_several_streams_are_those_of_their_indices() -> None:
    length = randomness._CHUNK_BYTES // 8 + 3
    rows = randomness.streams(SEED, Purpose.NOISE, [3, 1, 4, 1], length)
    for row, index in zip(rows, [3, 1, 4, 1], strict=True):
        assert row.tobytes() == stream(SEED, Purpose.NOISE, index, length * 8)


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33)])
def test_wrong_seeds(seed: bytes) -> None:
    with pytest.raises(ParameterError, match="32 bytes"):
        stream(seed, Purpose.NOISE, 0, 16)


@pytest.mark.parametrize("index", [-1, 1 << 48])
def test_wrong_indices(index: int) -> None:
    with pytest.raises(ParameterError, match="index of the stream"):
        stream(SEED, Purpose.NOISE, index, 16)


def test_seeds_come_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({randomness.fresh_seed() for _ in range(100)}) == 100
    monkeypatch.setattr(os, "urandom", lambda count: b"\7" * count)
    assert randomness.fresh_seed() == b"\7" * 32


def close(count: int, trials: int, probability: float) -> bool:
    spread = math.sqrt(trials * probability * (1 - probability))
    return abs(count - trials * probability) <= DEVIATIONS * spread + 1


def test_noise_is_the_discrete_gaussian(toy_context: _core.Context) -> None:
    values = randomness.noise(toy_context, 200)
    assert values.shape == (200, toy_context.n)
    assert values.dtype == np.int64
    assert abs(values).max() <= 29  # the tail is cut at 9.06 σ
    weights = {value: math.exp(-(value**2) / (2 * 3.2**2)) for value in range(-32, 33)}
    total = sum(weights.values())
    for value, weight in weights.items():
        assert close(int((values == value).sum()), values.size, weight / total), value
    # Moments: the second within its own deviation, neighbours and rows uncorrelated.
    sigma = math.sqrt(sum(weight * value**2 for value, weight in weights.items()) / total)
    assert abs(values.std() / sigma - 1) < DEVIATIONS / math.sqrt(2 * values.size)
    for left, right in ((values[:, 1:], values[:, :-1]), (values[1:], values[:-1])):
        assert abs((left * right).mean()) < DEVIATIONS * sigma**2 / math.sqrt(left.size)


def test_noise_is_new_each_time(toy_context: _core.Context) -> None:
    first, second = randomness.noise(toy_context, 2), randomness.noise(toy_context, 2)
    everything = {row.tobytes() for row in (*first, *second)}
    assert len(everything) == 4


def test_ternary_is_uniform(toy_context: _core.Context) -> None:
    rows = np.stack([randomness.ternary(toy_context, SEED, Purpose.SECRET, index) for index in range(100)])
    assert set(np.unique(rows)) == {-1, 0, 1}
    for value in (-1, 0, 1):
        assert close(int((rows == value).sum()), rows.size, 1 / 3)
    assert np.array_equal(rows[0], randomness.ternary(toy_context, SEED, Purpose.SECRET, 0))
    assert not np.array_equal(
        randomness.ephemeral(toy_context),
        randomness.ephemeral(toy_context),
    )


@pytest.mark.parametrize("log_n", [4, 12, 17])
def test_ternary_has_bytes_to_spare(log_n: int) -> None:
    # One byte in 256 is rejected: the spare bytes must exceed the mean by many deviations, for every N.
    n = 1 << log_n
    drawn = n + n // 64 + 256
    mean = drawn / 256
    assert drawn - n > mean + 20 * math.sqrt(mean)


def test_uniform_is_uniform(toy_context: _core.Context, toy_parameters: Parameters) -> None:
    moduli = toy_parameters.q + toy_parameters.p
    repeats = 20
    positions = list(range(len(moduli))) * repeats
    rows = randomness.uniform(
        toy_context, SEED, Purpose.CIPHERTEXT_UNIFORM, list(range(len(positions))), positions
    )
    assert rows.shape == (len(positions), toy_context.n)
    buckets = 64
    for index, modulus in enumerate(moduli):
        values = rows[index :: len(moduli)]
        assert int(values.max()) < modulus
        assert int(values.max()) > modulus * (1 - 1e-2)
        counts = np.bincount(
            (values.astype(float) * (buckets / modulus)).astype(int).ravel(), minlength=buckets
        )
        assert all(close(int(count), values.size, 1 / buckets) for count in counts)
        low = np.bincount((values % np.uint64(buckets)).astype(int).ravel(), minlength=buckets)
        assert all(close(int(count), values.size, 1 / buckets) for count in low)
    assert len({row.tobytes() for row in rows}) == len(rows)


def test_uniform_is_the_stream_modulo_q(toy_context: _core.Context, toy_parameters: Parameters) -> None:
    n, q = toy_parameters.n, toy_parameters.q[1]
    words = np.empty(n + randomness.UNIFORM_SPARE_WORDS, np.uint64)
    randomness.keystream(SEED, Purpose.CIPHERTEXT_UNIFORM, 9, words)
    accepted = [int(word) % q for word in words if int(word) < 2**64 // q * q]
    (row,) = randomness.uniform(toy_context, SEED, Purpose.CIPHERTEXT_UNIFORM, [9], [1])
    assert row.tolist() == accepted[:n]
