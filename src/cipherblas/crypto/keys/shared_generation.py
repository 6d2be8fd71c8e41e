"""Making the keys of ciphertexts that share their a part from the secret key (on the client)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from cipherblas.common.memory import Array, aligned_empty, check_memory
from cipherblas.crypto import randomness
from cipherblas.crypto.keys.request import FROM_SPARSE, TO_SPARSE
from cipherblas.crypto.keys.secret import SecretKey
from cipherblas.crypto.keys.shared import SharedKeys, SharedRequest, check_secrets
from cipherblas.crypto.keys.switching import key_shape, uniform_part
from cipherblas.crypto.params import Parameters, encapsulating


def make_shared_keys(secret: SecretKey, request: SharedRequest) -> SharedKeys:
    """The keys of a request, on the client; secrets s_j are `SecretKey.shared_coefficients(j)`.

    Raises:
        ParameterError: an even number of secrets, or keys that the parameters do not have.
        MemoryBudgetError: they do not fit this machine's memory. SecurityError: the secret key is closed.
    """
    params, count = secret.params, request.secrets
    check_secrets(count)
    for limbs in (*request.galois.values(), request.encapsulation, request.joining, request.parting):
        if limbs is not None:
            params.check_key_limbs(limbs)
    check_memory(request.nbytes(params), "keys of ciphertexts that share their a part")
    context = params.context()
    with secret.held_open():
        own = secret.ntt()
        shared = [_ntt(params, secret.shared_coefficients(place)) for place in range(count)]
        made: list[Array] = [*shared]  # what is overwritten at the end
        data = {
            element: _shared_key(
                params, shared, (context.automorphism(each, element) for each in shared), limbs
            )
            for element, limbs in sorted(request.galois.items())
        }
        if request.encapsulation is not None:
            small = encapsulating(params)
            sparse = [_ntt(params, secret.sparse_coefficients(1 + place)) for place in range(count)]
            targets = [_ntt(small, secret.sparse_coefficients(1 + place)) for place in range(count)]
            sources = [_ntt(small, secret.shared_coefficients(place)) for place in range(count)]
            made += [*sparse, *targets, *sources]
            data[TO_SPARSE] = _shared_key(small, targets, sources, 1)
            data[FROM_SPARSE] = _shared_key(params, shared, sparse, request.encapsulation)
        joining: list[Array] = []
        parting: list[Array] = []
        nothing = np.zeros_like(own)
        for place in range(count):
            if request.joining is not None:
                only = (own if other == place else nothing for other in range(count))
                joining.append(_shared_key(params, shared, only, request.joining))
            if request.parting is not None:
                parting.append(_shared_key(params, [own], [shared[place]], request.parting)[0])
        for array in made:
            array.fill(0)
    return SharedKeys(params, request, data, joining, parting)


def _ntt(params: Parameters, coefficients: Array) -> Array:
    """A secret in NTT form at all limbs; its coefficients are overwritten."""
    found: Array = params.context().plaintext(coefficients, params.limbs, special=True)
    coefficients.fill(0)
    return found


def _shared_key(params: Parameters, targets: Sequence[Array], sources: Iterable[Array], limbs: int) -> Array:
    """A key to every target from its source: uint64 (⌈(r + 1)/2⌉, *key_shape)."""
    context = params.context()
    a = uniform_part(params, randomness.fresh_seed(), limbs)
    result = aligned_empty(((len(targets) + 1) // 2, *key_shape(params, limbs)))
    for place, (target, source) in enumerate(zip(targets, sources, strict=True)):
        errors = randomness.noise(context, params.digits(limbs))
        one = np.asarray(context.switching_key(target, source, a, errors, limbs))
        errors.fill(0)
        result[place // 2, :, place % 2] = one[:, 0]
    result[-1, :, 1] = one[:, 1]
    return result
