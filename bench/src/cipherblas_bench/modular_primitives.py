"""The primitives of integers modulo t, beside BGV or BFV of SEAL at equal ring degree, limbs, digits and bits of t, or
beside BGV of OpenFHE at equal t and depth: it chooses the other parameters itself, at 128 bits of security, as ours.

Cases are those of `primitives`, of N integers modulo a prime t of 31 bits in place of N/2 real numbers, and one more:

=================  =================================================================================================
multiply_rescale   ciphertext times ciphertext at all limbs, relinearised, and divided by the last limb: what a program
                   does. Ours divides in the last step of the relinearisation; theirs switches the modulus after it.
=================  =================================================================================================

`encode` takes N integers, half of them imaginary parts of ours, all in slots of theirs. `rescale` is their switch to
the next modulus. Every result is exact, on both sides, or refused; so is that of as many squarings one after the other
as the depth says. Without a peer each case is measured in turns with that of N/2 real numbers, in the same ring with as
many limbs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cipherblas.crypto.params import Parameters
from cipherblas.crypto.residue_slots import centred, residue_slots
from cipherblas.rlwe.noise.modular import ModularNoise
from cipherblas_bench.harness import Row, params_fields

CASES = (
    "encode",
    "encrypt",
    "encrypt_symmetric",
    "decrypt",
    "rotate",
    "rotate_hoisted",
    "multiply",
    "rescale",
    "multiply_rescale",
)
MODULUS = 2147352577  # = 1 mod 2^16, of 31 bits
BITS = 31


class ModularPrimitives:
    """Our side: keys and ciphertexts of one parameter set, and a function of no arguments per case.

    Args:
        depth: so many squarings, one after the other, of what the secret key encrypted, are checked.
    """

    def __init__(self, params: Parameters, hoisted: int, depth: int = 1) -> None:
        from cipherblas.crypto import keys

        assert params.plain_modulus is not None
        self.params, t = params, params.plain_modulus
        context, limbs = params.context(), params.limbs
        transforms = residue_slots(params.n, t)
        steps = list(range(1, hoisted + 1))
        elements = [context.galois_element(step) for step in steps]
        secret = keys.generate_secret(params)
        public = keys.generate_public_key(secret)
        request = keys.KeyRequest.of_galois(dict.fromkeys(elements, limbs), relinearise=limbs)
        evaluation = keys.make_evaluation_keys(secret, request)
        rotation_keys = [evaluation.get(keys.Galois(element), limbs) for element in elements]
        relinearisation = evaluation.relinearisation(limbs)

        parts = np.random.default_rng(1).integers(0, t, (2, params.slots))
        values = parts[0] + 1j * parts[1]
        coefficients = transforms.coefficients(values)
        x = keys.encrypt(public, coefficients, limbs).expand()
        y = keys.encrypt(public, coefficients, limbs).expand()

        def rotate(count: int) -> list[Any]:
            terms = [(i, 0, elements[i], i, -1) for i in range(count)]
            outputs: list[Any] = context.linear_transform([x], terms, rotation_keys, [], count, False, "limb")
            return outputs

        fresh = (
            ModularNoise(params).fresh(public_key=True).common
        )  # as of real numbers, a bound on what is decrypted

        def decrypt(ciphertext: Any, factor: int = 1, within: float = math.inf) -> Any:
            residues = keys.decrypt_residues(secret, ciphertext, within=within)
            return transforms.slots(residues, pow(factor, -1, t))

        def multiply() -> Any:
            return context.multiply_relinearise(x, y, relinearisation, t)

        def multiply_rescale(left: Any = x, right: Any = y) -> Any:
            return context.multiply_rescale(left, right, relinearisation, 1, None, 0, 0, t)

        self.cases: dict[str, Callable[[], Any]] = {
            "encode": lambda: transforms.coefficients(values),
            "encrypt": lambda: keys.encrypt(public, coefficients, limbs),
            "encrypt_symmetric": lambda: keys.encrypt(secret, coefficients, limbs),
            "decrypt": lambda: decrypt(x, within=fresh),
            "rotate": lambda: rotate(1),
            "rotate_hoisted": lambda: rotate(hoisted),
            "multiply": multiply,
            "rescale": lambda: context.rescale(x, 1),
            "multiply_rescale": multiply_rescale,
        }

        expected = _centred(parts, t)
        squares = _centred(_square(parts, t), t)
        divided = pow(params.q[-1], -1, t)

        def wrong(found: Any, wanted: Any) -> float:
            """The share of wrong entries."""
            return float(np.mean(found != wanted))

        self.errors = {
            "encode": wrong(transforms.slots(coefficients), expected),
            "encrypt": wrong(decrypt(x), expected),
            "encrypt_symmetric": wrong(decrypt(keys.encrypt(secret, coefficients, limbs).expand()), expected),
            "decrypt": wrong(decrypt(y, within=fresh), expected),
            "rotate": wrong(decrypt(rotate(1)[0]), np.roll(expected, -1)),
            "rotate_hoisted": max(
                wrong(decrypt(ct), np.roll(expected, -step))
                for ct, step in zip(rotate(hoisted), steps, strict=True)
            ),
            "multiply": wrong(decrypt(multiply()), squares),
            "rescale": wrong(decrypt(context.rescale(x, 1), divided), expected),
            "multiply_rescale": wrong(decrypt(multiply_rescale(), divided), squares),
        }
        deep, factor, powers = keys.encrypt(secret, coefficients, limbs).expand(), 1, parts
        for limb in range(limbs - 1, limbs - 1 - depth, -1):
            deep, powers = multiply_rescale(deep, deep), _square(powers, t)
            factor = factor * factor * pow(params.q[limb], -1, t) % t
        self.errors["multiply_rescale"] += wrong(decrypt(deep, factor), _centred(powers, t))
        self._fresh_bytes = {case: self.cases[case]().nbytes for case in ("encrypt", "encrypt_symmetric")}

    def fields(self, case: str) -> Row:
        """The figures of one operation, as `Primitives.fields`."""
        products = ("multiply", "multiply_rescale")
        switches = case in ("rotate", "rotate_hoisted", *products)
        return {
            "params": params_fields(self.params),
            "algorithm": "hybrid key switching" if switches else None,
            "error": self.errors[case],
            "modulus": self.params.plain_modulus,
            "rotations": int(case in ("rotate", "rotate_hoisted")),
            "products": int(case in products),
            "key_bytes": self.params.key_bytes(self.params.limbs) if switches else 0,
            "upload_bytes": self._fresh_bytes.get(case, 0),
        }


def _square(parts: Any, modulus: int) -> Any:
    """Of numbers with these parts in Z_t[i], by Python's integers."""
    real, imaginary = (part.astype(object) for part in parts)
    return np.stack([(real * real - imaginary * imaginary) % modulus, 2 * real * imaginary % modulus])


def _centred(parts: Any, modulus: int) -> Any:
    real, imaginary = (centred(part.astype(np.int64), modulus) for part in parts)
    return real + 1j * imaginary
