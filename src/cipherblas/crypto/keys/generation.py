"""Making evaluation keys from the secret key (on the client)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cipherblas.common.errors import ParameterError
from cipherblas.common.memory import Array, aligned_empty, check_memory
from cipherblas.common.progress import Progress
from cipherblas.crypto import files, randomness
from cipherblas.crypto.keys import storage
from cipherblas.crypto.keys.evaluation import EvaluationKeys
from cipherblas.crypto.keys.key_id import (
    FixedWeights,
    FromPlace,
    FromRows,
    FromSparse,
    Galois,
    KeyId,
    Raising,
    Relinearisation,
    ToPlace,
    ToRows,
    ToSparse,
)
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.keys.secret import SecretKey
from cipherblas.crypto.keys.switching import SwitchingKey, shape_of, uniform_part
from cipherblas.crypto.params import Parameters

# Gives the polynomial, NTT form at all limbs of Q and P, that a key of fixed weights switches from.
WeightSecrets = Callable[[FixedWeights], Array]


class Making(NamedTuple):
    """The secrets and randomness that make the b part of a key.

    Attributes:
        secret: the secret key.
        params: those that the key is made with.
        place: of the ciphertext that the b part is for, among those that share their a part; None of ordinary keys.
        weights: what keys of fixed weights switch from.
    """

    secret: SecretKey
    params: Parameters
    place: int | None
    weights: WeightSecrets | None

    def transformed(self, coefficients: Array) -> Array:
        """A secret in NTT form at all limbs; its coefficients are overwritten."""
        found = self.params.context().plaintext(coefficients, self.params.limbs, special=True)
        coefficients.fill(0)
        return found

    def ordinary(self) -> Array:
        """The secret of ordinary ciphertexts."""
        if self.params == self.secret.params:
            return np.array(self.secret.ntt())
        return self.transformed(self.secret.coefficients().copy())

    def own(self) -> Array:
        """The secret of ordinary ciphertexts, or of the place."""
        if self.place is None:
            return self.ordinary()
        return self.transformed(self.secret.shared_coefficients(self.place))

    @contextmanager
    def reading(self) -> Iterator[Array]:
        """As `own`, to be read alone: the key's own memory where it lies there, or a copy that is overwritten."""
        if self.place is None and self.params == self.secret.params:
            yield self.secret.ntt()
            return
        own = self.own()
        try:
            yield own
        finally:
            own.fill(0)

    def sparse(self) -> Array:
        """The sparse secret, or that of the place."""
        return self.transformed(self.secret.sparse_coefficients(0 if self.place is None else 1 + self.place))

    def of_rows(self) -> Array:
        """The secret of the ring of rows, in the ring of slots."""
        return self.transformed(self.secret.row_coefficients())


# Gives a secret in NTT form, in memory of its own, for a key of a kind.
Secret = Callable[[Any, Making], Array]


class Switch(NamedTuple):
    """The secrets that keys of one kind switch between. Without a target they switch to the secret of their
    ciphertexts."""

    source: Secret
    target: Secret | None = None


def _square(key: Relinearisation, making: Making) -> Array:
    with making.reading() as own:
        return np.asarray(making.params.context().multiply(own, own))


def _rotated_secret(key: Galois, making: Making) -> Array:
    with making.reading() as own:
        return np.asarray(making.params.context().automorphism(own, key.element))


def _rotated_sparse(key: Raising, making: Making) -> Array:
    sparse = making.sparse()
    try:
        return np.asarray(making.params.context().automorphism(sparse, key.element))
    finally:
        sparse.fill(0)


def _weights(key: FixedWeights, making: Making) -> Array:
    if making.weights is None:
        raise ParameterError(
            "Keys of fixed weights cannot be made without the weights.", expected="the weights", got="none"
        )
    return making.weights(key)


def _at_its_place(key: ToPlace, making: Making) -> Array:
    """The secret of ordinary ciphertexts at its own place, nothing at the others."""
    own = making.ordinary()
    if key.place != making.place:
        own.fill(0)
    return own


def _of_place(key: FromPlace, making: Making) -> Array:
    return making.transformed(making.secret.shared_coefficients(key.place))


SWITCHES: dict[type[KeyId], Switch] = {
    Relinearisation: Switch(_square),
    Galois: Switch(_rotated_secret),
    FixedWeights: Switch(_weights),
    ToSparse: Switch(lambda key, making: making.own(), lambda key, making: making.sparse()),
    FromSparse: Switch(lambda key, making: making.sparse()),
    Raising: Switch(_rotated_sparse),
    ToRows: Switch(lambda key, making: making.own(), lambda key, making: making.of_rows()),
    FromRows: Switch(lambda key, making: making.of_rows()),
    ToPlace: Switch(_at_its_place),
    FromPlace: Switch(_of_place),
}


def make_switching_key(
    secret: SecretKey, key: KeyId, limbs: int, weights: WeightSecrets | None = None
) -> SwitchingKey:
    """One switching key: for digit d, b_d = -a_d·s + e_d + P·g_d·s', from s' to s as `SWITCHES` says for its kind.

    For ciphertexts that share their a part there are several b parts beside one a part, one for each place. The a parts
    come from a fresh public seed, the errors from a private one that is forgotten.

    Raises:
        ParameterError: the parameters have no keys for so many limbs.
    """
    if key.ring == "rows":
        made = make_switching_key(secret.rows, replace(key, ring="slots"), limbs)
        return replace(made, id=key)
    params = key.parameters(secret.params)
    params.check_key_limbs(limbs)
    seed = randomness.fresh_seed()
    a = uniform_part(params, seed, limbs)
    if not key.b_parts:
        return SwitchingKey(key, limbs, seed, _part(key, Making(secret, params, None, weights), a, limbs))
    data = aligned_empty(shape_of(secret.params, key, limbs))
    for place in range(key.b_parts):
        part = _part(key, Making(secret, params, place, weights), a, limbs)
        data[place // 2, :, place % 2] = part[:, 0]
        data[-1, :, 1] = part[:, 1]
    return SwitchingKey(key, limbs, seed, data)


def _part(key: KeyId, making: Making, a: Array, limbs: int) -> Array:
    """A b part and the a part beside it, packed."""
    context, switch = making.params.context(), SWITCHES[type(key)]
    errors = randomness.noise(context, making.params.digits(limbs))
    with making.secret.held_open():
        source = switch.source(key, making)
        if switch.target is None:
            with making.reading() as target:
                data = np.asarray(context.switching_key(target, source, a, errors, limbs))
        else:
            target = switch.target(key, making)
            data = np.asarray(context.switching_key(target, source, a, errors, limbs))
            target.fill(0)
    source.fill(0)
    errors.fill(0)
    return data


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
    check_memory(request.nbytes(secret.params), "making the evaluation keys")
    keys = []
    for key, limbs in request.in_order().items():
        keys.append(make_switching_key(secret, key, limbs, weights))
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

    def make(key: KeyId, limbs: int) -> SwitchingKey:
        nonlocal done
        made = make_switching_key(secret, key, limbs, weights)
        done += 1
        if progress is not None:
            progress(done, len(request))
        return made

    storage.check_part_bytes(part_bytes)
    wanted = request.in_order()
    owner = storage.Owner(secret.program_id, secret.key_id)
    storage.save(path, secret.params, owner, wanted, make, part_bytes=part_bytes)
