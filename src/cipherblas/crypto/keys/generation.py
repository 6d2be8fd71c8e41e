"""Making evaluation keys from the secret key (on the client)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cipherblas.common.errors import ParameterError
from cipherblas.common.memory import Array, aligned_empty, check_memory
from cipherblas.common.progress import Progress
from cipherblas.crypto import files, randomness
from cipherblas.crypto.keys import storage
from cipherblas.crypto.keys.evaluation import EvaluationKeys
from cipherblas.crypto.keys.numbers import (
    FROM_ROWS,
    FROM_SHARED,
    FROM_SPARSE,
    RELINEARISE,
    ROW_KEYS,
    TO_ROWS,
    TO_SHARED,
    TO_SPARSE,
    is_of_rows,
    is_of_weights,
    place_of,
    shared_by,
    shared_number,
)
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.keys.secret import SecretKey
from cipherblas.crypto.keys.switching import (
    SwitchingKey,
    b_parts,
    parameters_of,
    shape_of,
    uniform_part,
)
from cipherblas.crypto.params import Parameters

# Gives the polynomial, NTT form at all limbs of Q and P, that the key of a number of `weight_key` switches from.
WeightSecrets = Callable[[int], Array]


def make_switching_key(
    secret: SecretKey, galois: int, limbs: int, weights: WeightSecrets | None = None
) -> SwitchingKey:
    """One switching key: for digit d, b_d = -a_d·s + e_d + P·g_d·s', s' being s(X^galois), s², or what `weights` says.

    The a parts come from a fresh public seed, the errors from a private one that is forgotten.

    Raises:
        ParameterError: the parameters have no keys for so many limbs.
    """
    if b_parts(galois):
        return _shared_key(secret, galois, limbs)
    if is_of_rows(galois):
        return replace(make_switching_key(secret.rows, galois - ROW_KEYS, limbs), galois=galois)
    params = parameters_of(secret.params, galois)
    params.check_key_limbs(limbs)
    context = params.context()
    seed = randomness.fresh_seed()
    a = uniform_part(params, seed, limbs)
    errors = randomness.noise(context, params.digits(limbs))
    with secret.held_open():
        source = _source(secret, galois, weights)
        target = secret.ntt()
        if galois in (TO_SPARSE, TO_ROWS):
            target = _transformed(_second_secret(secret, galois), params)
        data = context.switching_key(target, source, a, errors, limbs)
        if galois in (TO_SPARSE, TO_ROWS):
            target.fill(0)
    source.fill(0)
    errors.fill(0)
    return SwitchingKey(galois, limbs, seed, data)


def _source(secret: SecretKey, galois: int, weights: WeightSecrets | None) -> Array:
    """What a key switches from, in NTT form, in memory of its own."""
    context = secret.params.context()
    if is_of_weights(galois):
        if weights is None:
            raise ParameterError(
                "Keys of fixed weights cannot be made without the weights.",
                expected="the weights",
                got="none",
            )
        return weights(galois)
    if galois in (TO_SPARSE, TO_ROWS):
        params = parameters_of(secret.params, galois)
        return params.context().plaintext(secret.coefficients(), params.limbs, special=True)
    if galois in (FROM_SPARSE, FROM_ROWS):
        return _transformed(_second_secret(secret, galois), secret.params)
    place = place_of(shared_number(galois), FROM_SHARED)
    if place is not None:
        return _transformed(secret.shared_coefficients(place), secret.params)
    ntt = secret.ntt()
    return context.multiply(ntt, ntt) if galois == RELINEARISE else context.automorphism(ntt, galois)


def _second_secret(secret: SecretKey, galois: int) -> Array:
    """The coefficients of the other secret of the ring that a key is to or from."""
    return secret.sparse_coefficients() if galois in (TO_SPARSE, FROM_SPARSE) else secret.row_coefficients()


def _transformed(coefficients: Array, params: Parameters) -> Array:
    """A secret in NTT form at all limbs; its coefficients are overwritten."""
    found = params.context().plaintext(coefficients, params.limbs, special=True)
    coefficients.fill(0)
    return found


def _shared_key(secret: SecretKey, number: int, limbs: int) -> SwitchingKey:
    """A key to the secrets of all places, s_j (`SecretKey.shared_coefficients`), or to their sparse ones, whose b parts
    share one a part."""
    params, own, count = parameters_of(secret.params, number), shared_number(number), shared_by(number)
    params.check_key_limbs(limbs)
    context, seed = params.context(), randomness.fresh_seed()
    a = uniform_part(params, seed, limbs)
    data = aligned_empty(shape_of(secret.params, number, limbs))
    with secret.held_open():
        for place in range(count):
            target = (
                secret.sparse_coefficients(1 + place)
                if own == TO_SPARSE
                else secret.shared_coefficients(place)
            )
            switched = _transformed(target, params)
            source = _shared_source(secret, params, own, place)
            errors = randomness.noise(context, params.digits(limbs))
            one = np.asarray(context.switching_key(switched, source, a, errors, limbs))
            for used in (switched, source, errors):
                used.fill(0)
            data[place // 2, :, place % 2] = one[:, 0]
        data[-1, :, 1] = one[:, 1]
    return SwitchingKey(number, limbs, seed, data)


def _shared_source(secret: SecretKey, params: Parameters, number: int, place: int) -> Array:
    """What the b part of a place switches from, in NTT form, in memory of its own."""
    joined = place_of(number, TO_SHARED)
    if joined is not None:
        own = secret.ntt()
        return own.copy() if joined == place else np.zeros_like(own)
    if number == FROM_SPARSE:
        return _transformed(secret.sparse_coefficients(1 + place), params)
    own = _transformed(secret.shared_coefficients(place), params)
    if number == TO_SPARSE:
        return own
    found = params.context().automorphism(own, number)
    own.fill(0)
    return found


def make_evaluation_keys(
    secret: SecretKey,
    request: KeyRequest,
    progress: Progress | None = None,
    weights: WeightSecrets | None = None,
) -> EvaluationKeys:
    """Make the evaluation keys of a request, in memory.

    Args:
        secret: the secret key; its `program_id` passes to the result.
        request: which keys, each for how many limbs.
        progress: called with (keys done, keys in all).
        weights: what the keys of fixed weights switch from.

    Raises:
        ParameterError: a Galois element or number of limbs does not exist for these parameters.
        MemoryBudgetError: the keys would not fit this machine's memory; see `write_evaluation_keys`.
        SecurityError: the secret key is closed.
    """
    request.check(secret.params)
    check_memory(request.nbytes(secret.params), "the evaluation keys")
    keys = []
    for galois, limbs in request.limbs_by_number(RELINEARISE).items():
        keys.append(make_switching_key(secret, galois, limbs, weights))
        if progress is not None:
            progress(len(keys), len(request))
    return EvaluationKeys(secret.params, secret.program_id, keys, secret.key_id)


def write_evaluation_keys(
    secret: SecretKey,
    request: KeyRequest,
    path: files.Target,
    progress: Progress | None = None,
    weights: WeightSecrets | None = None,
    *,
    part_bytes: int = 1 << 30,
) -> None:
    """Make the evaluation keys of a request part by part into files; memory holds one part at a time.

    Args and errors as `make_evaluation_keys` and `EvaluationKeys.save`.
    """
    request.check(secret.params)
    done = 0

    def make(galois: int, limbs: int) -> SwitchingKey:
        nonlocal done
        key = make_switching_key(secret, galois, limbs, weights)
        done += 1
        if progress is not None:
            progress(done, len(request))
        return key

    storage.check_part_bytes(part_bytes)
    wanted = request.limbs_by_number(RELINEARISE)
    owner = storage.Owner(secret.program_id, secret.key_id)
    storage.save(path, secret.params, owner, wanted, make, part_bytes=part_bytes)
