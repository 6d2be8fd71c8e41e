"""Independent arithmetic for the tests of keys: exact, slow, in Python integers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from cipherblas.crypto.keys import Galois, KeyId, KeyRequest, SecretKey
from cipherblas.crypto.keys.key_id import FromPlace, FromSparse, ToPlace, ToSparse
from cipherblas.crypto.params import Parameters


def moduli(params: Parameters, limbs: int) -> list[int]:
    """The moduli of a switching key's rows."""
    return [*params.q[:limbs], *params.p]


def residue_bits(moduli: Iterable[float]) -> list[int]:
    """Bits that keys take for a residue in memory, modulo each of these primes."""
    return [next((bits for bits in (32, 40, 48) if modulus < 1 << bits), 50) for modulus in moduli]


def negacyclic(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x·y mod X^N + 1 for small int64 coefficients."""
    full = np.convolve(x, y)
    n = len(x)
    low = full[:n].copy()
    low[: n - 1] -= full[n:]
    return low


def automorphism(coefficients: np.ndarray, galois: int) -> np.ndarray:
    """Coefficients of x(X^galois) mod X^N + 1."""
    n = len(coefficients)
    moved = np.zeros_like(coefficients)
    for index, value in enumerate(coefficients):
        power = index * galois % (2 * n)
        moved[power % n] = value if power < n else -value
    return moved


def source_of(secret: SecretKey, key: KeyId) -> np.ndarray:
    """Coefficients of what a key switches from: s(X^galois) or s²."""
    s = secret.coefficients()
    return automorphism(s, key.element) if isinstance(key, Galois) else negacyclic(s, s)


def key_errors(
    secret: SecretKey, key: KeyId, limbs: int, data: np.ndarray, source: np.ndarray | None = None
) -> np.ndarray:
    """Check every residue of a switching key against its equation; return the errors, int64 (digits, N).

    The errors are found modulo the first limb, then the equation b = -a·s + e + P·g·s' is evaluated exactly on
    every row, in Python integers.
    """
    params = secret.params
    context = params.context()
    rows = moduli(params, limbs)
    s = secret.ntt()
    places = [*range(limbs), *range(params.limbs, params.limbs + params.special_limbs)]
    switched = source_of(secret, key) if source is None else source
    transformed = context.plaintext(switched, params.limbs, special=True)
    product_p = math.prod(params.p)
    errors, sizes = [], params.digit_limbs or (params.alpha,) * limbs
    for digit in range(params.digits(limbs)):
        held = range(sum(sizes[:digit]), min(sum(sizes[: digit + 1]), limbs))
        residues = np.empty((len(rows), params.n), np.uint64)  # b + a·s - P·g·s' in NTT form: the error
        parts = [context.unpack_key(part) for part in data[digit]]
        for row, q in enumerate(rows):
            inverse = pow(2, -52, q)
            b, a = (part[row].astype(object) * inverse for part in parts)
            gadget = product_p if row in held else 0
            value = (
                b + a * s[places[row]].astype(object) - gadget * transformed[places[row]].astype(object)
            ) % q
            residues[row] = value.astype(np.uint64)
        # A ciphertext (error, 0) of one limb decrypts to the error's coefficients.
        alone = np.zeros((2, 1, params.n), np.uint64)
        alone[0, 0] = residues[0]
        error = np.rint(context.phase(s, alone)).astype(np.int64)
        again = context.plaintext(error, params.limbs, special=True)[places]
        np.testing.assert_array_equal(residues, again)
        errors.append(error)
    return np.stack(errors)


def encapsulation(limbs: int, shared: int = 0) -> dict[KeyId, int]:
    """The keys by which a modulus is raised to so many limbs."""
    return {ToSparse(shared=shared): 1, FromSparse(shared=shared): limbs}


def shared_request(
    shared: int,
    galois: Mapping[int, int],
    *,
    raised: int | None = None,
    joining: int | None = None,
    parting: int | None = None,
) -> KeyRequest:
    """Keys for so many ciphertexts that share their a part, by Galois element, and those of the others by limbs."""
    found: dict[KeyId, int] = {Galois(element, shared=shared): limbs for element, limbs in galois.items()}
    found |= {} if raised is None else encapsulation(raised, shared)
    for place in range(shared):
        found |= {} if joining is None else {ToPlace(place, shared=shared): joining}
        found |= {} if parting is None else {FromPlace(place, shared=shared): parting}
    return KeyRequest(found)
