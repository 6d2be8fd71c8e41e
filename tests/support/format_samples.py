"""Keys, matrices and exact arithmetic for the tests of the coefficient formats."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from cipherblas.crypto import keys
from cipherblas.crypto.keys import PublicKey, SecretKey
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.rlwe.matrices import CoefficientMatrix, SharedBatch, SharedRows, encryption

SCALE = 2.0**30

ENCRYPT: dict[str, Callable[..., CoefficientMatrix]] = {
    "rlwe-rows": encryption.encrypt_rows,
    "rlwe-columns": encryption.encrypt_columns,
    "shared-rows": functools.partial(encryption.encrypt_rows, kind=SharedRows),
    "shared-batch": functools.partial(encryption.encrypt_rows, kind=SharedBatch),
}
RINGS = st.sampled_from([8, 16, 64])
GADGETS = st.sampled_from([(1, 1, 1), (2, 1, 1), (3, 2, 2)])  # limbs, special primes, limbs per digit
PUBLIC = ("rlwe-rows", "rlwe-columns")


@functools.lru_cache(maxsize=64)
def toy(n: int, limbs: int = 1, special: int = 0, alpha: int = 1) -> Parameters:
    """INSECURE parameters: primes of 50 bits in a ring far too small for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_parameters(
            n, [50.0] * limbs, special_bits=50.0, special_limbs=special, alpha=alpha, insecure=True
        )


@functools.lru_cache(maxsize=64)
def toy_keys(n: int, limbs: int = 1, special: int = 0, alpha: int = 1) -> tuple[SecretKey, PublicKey]:
    """A key pair for `toy`."""
    secret = keys.generate_secret(toy(n, limbs, special, alpha))
    return secret, keys.generate_public_key(secret)


@st.composite
def shapes(draw: Any, name: str, n: int, longest: int = 12) -> tuple[int, int]:
    """A shape that the format can hold: one dimension about the ring degree, with its borders, the other short."""
    longest_row = 3 * n + 2 if name.startswith("shared") else n
    corners = [size for size in (1, 2, n // 2, n // 2 + 1, n - 1, n, n + 1, 2 * n) if size <= longest_row]
    length = draw(st.one_of(st.sampled_from(corners), st.integers(1, longest_row)))
    count = draw(st.integers(1, longest))
    return (length, count) if name == "rlwe-columns" else (count, length)


def matrix(seed: int, shape: tuple[int, int], largest: float = 1000.0) -> np.ndarray[Any, Any]:
    """Entries in [-largest, largest]."""
    return np.random.default_rng(seed).uniform(-largest, largest, shape)
