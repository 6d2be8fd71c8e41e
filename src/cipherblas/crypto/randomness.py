"""Randomness: AES-256-CTR keystreams from 32-byte seeds, through PyCA `cryptography`.

A seed is published only where the stream is public (the uniform half of a key or a fresh ciphertext). Errors
and ephemeral secrets come from a seed of their own, drawn from the operating system, used once, forgotten.

The streams of one seed are kept apart by the CTR start block: purpose (2 bytes), index (6 bytes), block
counter (8 bytes, from 0). A stream would have to be 2^64 blocks long to run into the next one.
"""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cipherblas.common.errors import ParameterError
from cipherblas.common.memory import Array, aligned_empty, bytes_of

if TYPE_CHECKING:
    import cipherblas._core as _core

SEED_BYTES = 32
UNIFORM_SPARE_WORDS = 128  # a limb's stream has N + 128 words: more rejections have probability below 2^-300

_CHUNK_BYTES = 1 << 18  # the zeros that are encrypted, and the piece of stream they become, stay in cache
_ZEROS = bytes(_CHUNK_BYTES)


class Purpose(enum.IntEnum):
    """The purpose of a random stream. Values are part of the file format, and are never reused."""

    SECRET = 1
    CIPHERTEXT_UNIFORM = 2
    SWITCHING_KEY_UNIFORM = 3
    PUBLIC_KEY_UNIFORM = 4
    NOISE = 5
    EPHEMERAL = 6
    MATRIX_UNIFORM = 7
    SHARED_SECRET = 8
    FLOODING = 10  # 9 was that of conversion keys
    SPARSE_SECRET = 11
    ROW_SECRET = 12


def fresh_seed() -> bytes:
    """32 bytes from the operating system."""
    return os.urandom(SEED_BYTES)


def fresh_dither() -> int:
    """A word by which messages are rounded up or down by chance (`_core.Context.encode`, `encrypt_rows`), never 0."""
    return int.from_bytes(os.urandom(8), "little") | 1


@functools.cache
def _ciphers() -> tuple[Any, Any, Any]:
    """Of the library of ciphers, which takes a tenth of the import of the package."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher, algorithms.AES, modes.CTR


def keystream(seed: bytes | Array, purpose: Purpose, index: int, out: Array) -> None:
    """Fill a C-contiguous array with the keystream of (seed, purpose, index); raises as `keystreams`."""
    keystreams(seed, purpose, [index], [bytes_of(out)])


def keystreams(
    seed: bytes | Array, purpose: Purpose, indices: Sequence[int], targets: Sequence[memoryview]
) -> None:
    """Fill the bytes of each target with the keystream of (seed, purpose, its index).

    Raises:
        ParameterError: the seed is not 32 bytes, or an index is not below 2^48.
    """
    key = bytes(seed)
    if len(key) != SEED_BYTES:
        raise ParameterError(
            "The seed has the wrong length.", expected=f"{SEED_BYTES} bytes", got=f"{len(key)} bytes"
        )
    cipher, aes, ctr = _ciphers()
    zeros, encryptor = memoryview(_ZEROS), None
    for index, target in zip(indices, targets, strict=True):
        if not 0 <= index < 1 << 48:
            raise ParameterError(
                "The index of the stream must be below 2^48.", expected="0 to 2^48 - 1", got=index
            )
        start = (purpose << 48 | index).to_bytes(8, "big") + bytes(8)
        if encryptor is None:
            encryptor = cipher(aes(key), ctr(start)).encryptor()
        else:
            encryptor.reset_nonce(start)
        for position in range(0, len(target), _CHUNK_BYTES):
            piece = target[position : position + _CHUNK_BYTES]
            encryptor.update_into(zeros[: len(piece)], piece)


def streams(
    seed: bytes | Array, purpose: Purpose, indices: Sequence[int], length: int, dtype: Any = np.uint64
) -> Array:
    """One stream per index as the rows of an array (len(indices), length). One after the other: a row takes some
    microseconds, so that threads would wait for each other longer than they work."""
    rows = aligned_empty((len(indices), length), dtype)
    nbytes, whole = length * rows.itemsize, bytes_of(rows)
    keystreams(
        seed, purpose, indices, [whole[row * nbytes : (row + 1) * nbytes] for row in range(len(indices))]
    )
    return rows


def uniform(
    context: _core.Context,
    seed: bytes,
    purpose: Purpose,
    indices: Sequence[int],
    moduli_index: Sequence[int],
) -> Array:
    """Polynomials uniform modulo one prime each: row i is stream indices[i] modulo moduli[moduli_index[i]].

    Returns:
        uint64 (rows, N), each row below its modulus.
    """
    return np.asarray(context.uniform(uniform_words(context, seed, purpose, indices), list(moduli_index)))


def uniform_words(context: _core.Context, seed: bytes, purpose: Purpose, indices: Sequence[int]) -> Array:
    """The words that one polynomial each is made of, uniform modulo some prime: uint64 (rows, N + 128)."""
    return streams(seed, purpose, indices, context.n + UNIFORM_SPARE_WORDS)


def ternary(context: _core.Context, seed: bytes | Array, purpose: Purpose, index: int = 0) -> Array:
    """Coefficients uniform on {-1, 0, 1}: int64 (N,). A byte in 256 is rejected, so more than N are drawn."""
    drawn = streams(seed, purpose, [index], context.n + context.n // 64 + 256, np.uint8)
    coefficients = np.asarray(context.ternary(drawn[0]))
    drawn.fill(0)
    return coefficients


def sparse_ternary(n: int, seed: bytes | Array, weight: int, index: int = 0) -> Array:
    """`weight` coefficients ±1 at uniform places, all others 0: int64 (N,), from stream number `index`. Places that
    were drawn before are drawn again."""
    words = streams(seed, Purpose.SPARSE_SECRET, [index], max(4 * weight, 256))[0]
    coefficients = np.zeros(n, np.int64)
    left = min(weight, n // 2)
    for word in words:
        place = int(word) % n  # a power of two: uniform
        if left and coefficients[place] == 0:
            coefficients[place] = 1 - 2 * (int(word) >> 63)
            left -= 1
    words.fill(0)
    if left:  # with 8 draws for each, less than once in 2^100 times
        raise ParameterError(
            "The seed gives no sparse secret.",
            got=f"{left} places short",
            advice="program.client() for another key",
        )
    return coefficients


def noise(context: _core.Context, polynomials: int) -> Array:
    """Discrete Gaussian errors, σ = 3.2, int64 (polynomials, N), from a seed drawn here and forgotten."""
    seed = fresh_seed()
    words = streams(seed, Purpose.NOISE, range(polynomials), context.n)
    errors = aligned_empty((polynomials, context.n), np.int64)
    for row in range(polynomials):
        errors[row] = context.gaussian(words[row])
    words.fill(0)
    return errors


def ephemeral(context: _core.Context) -> Array:
    """A ternary polynomial from a seed that is drawn here and forgotten: int64 (N,)."""
    return ternary(context, fresh_seed(), Purpose.EPHEMERAL)
