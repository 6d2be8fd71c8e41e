"""Making the keys of conversions from the secret key (on the client)."""

from __future__ import annotations

import numpy as np

from cipherblas.common.memory import Array, aligned_empty, check_memory
from cipherblas.crypto import randomness
from cipherblas.crypto.keys import SecretKey
from cipherblas.crypto.keys.switching import unpack
from cipherblas.rlwe.matrices.conversion_keys import (
    MODULE_TO_RLWE,
    RLWE_TO_SHARED,
    ConversionKeys,
    ConversionRequest,
    assemble,
    b_shape,
    uniform_part,
)
from cipherblas.rlwe.matrices.encryption import shared_secrets


def make_conversion_keys(secret: SecretKey, request: ConversionRequest) -> ConversionKeys:
    """The keys that a conversion declared.

    For digit g of a key, b_g = -a_g·t + e_g + P·g_g·t', switching from t' to t; a parts from a fresh public seed,
    errors from private ones that are forgotten. That keys encrypt secrets under each other is the usual circular
    assumption, as with relinearisation.

    Raises:
        ParameterError: no such keys for the parameters of `secret`.
        MemoryBudgetError: they would not fit this machine's memory.
        SecurityError: the secret key is closed.
    """
    params = secret.params
    request.check(params)
    check_memory(2 * request.nbytes(params), "the conversion keys")
    seed = randomness.fresh_seed()
    with secret.held_open():
        b = _b_parts(secret, request, seed)
    return ConversionKeys(params, request, seed, assemble(params, request, seed, b), secret.key_id)


def _b_parts(secret: SecretKey, request: ConversionRequest, seed: bytes) -> Array:
    """b of all keys, uint64 of `b_shape`."""
    params = secret.params
    b = aligned_empty(b_shape(params, request))
    own = secret.ntt()
    if request.conversion == MODULE_TO_RLWE:
        sources = _sub_secrets(secret, request.count)
    else:
        sources = shared_secrets(secret, request.count, params.limbs, special=True)
    nothing = np.zeros_like(own)
    for number in range(request.count):
        a = uniform_part(params, seed, request, number)
        if request.conversion != RLWE_TO_SHARED:
            b[number] = _b_part(secret, own, sources[number], a, request.limbs)
            continue
        for j, target in enumerate(sources):
            b[number, j] = _b_part(secret, target, own if j == number else nothing, a, request.limbs)
    sources.fill(0)
    return b


def _b_part(secret: SecretKey, target: Array, source: Array, a: Array, limbs: int) -> Array:
    """b of a key from `source` to `target`, uint64 (digits, limbs + k, N), Montgomery form."""
    context = secret.params.context()
    errors = randomness.noise(context, len(a))
    key = context.switching_key(target, source, a, errors, limbs)
    errors.fill(0)
    return unpack(secret.params, np.asarray(key)[:, 0])


def _sub_secrets(secret: SecretKey, count: int) -> Array:
    """s_u(X^count) for u < count, where s(X) = Σ_u X^u·s_u(X^count): uint64 (count, L + 1 + k, N), NTT form."""
    params = secret.params
    coefficients = np.zeros((count, params.n), np.int64)
    for u in range(count):
        coefficients[u, ::count] = secret.coefficients()[u::count]
    sources = params.context().encode_rows(coefficients, params.limbs, special=True)
    coefficients.fill(0)
    return sources
