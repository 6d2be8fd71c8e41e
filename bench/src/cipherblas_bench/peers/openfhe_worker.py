"""OpenFHE's primitives, measured through its Python wheel. Run as a script by an interpreter that has it.

Set-up request: ``{"n", "first_bits", "scaling_bits", "limbs", "digits", "hoisted": h}``. CKKS, hybrid key
switching, FIXEDMANUAL scaling, no security check (the caller's parameters). OpenFHE chooses its special
primes itself: 60-bit ones, as many as the largest digit needs. The parent sets OMP_NUM_THREADS.

What each case includes (our own side times the same work):

- ``encode``: S real numbers -> plaintext in NTT form at all limbs (`MakeCKKSPackedPlaintext`).
- ``encrypt``: an encoded plaintext -> public-key ciphertext at all limbs, randomness included (`Encrypt`).
- ``encrypt_symmetric``: the same under the secret key.
- ``decrypt``: a 2-component ciphertext at all limbs -> S numbers (`Decrypt`, which decodes, and reading).
- ``rotate``: one rotation at all limbs (`EvalRotate`).
- ``rotate_hoisted``: one `EvalFastRotationPrecompute`, then h x `EvalFastRotation`; divide by h.
- ``multiply``: ct x ct at all limbs, relinearised, not rescaled (`EvalMult`).
- ``rescale``: a 2-component ciphertext at all limbs -> one limb fewer (`Rescale`).
"""

from __future__ import annotations

import os
from typing import Any

import numpy
import openfhe

from .openfhe_parameters import Built, real_values, version
from .protocol import Case, serve


class OpenfhePrimitives:
    def __init__(self, request: dict[str, Any]) -> None:
        n, limbs, digits = (int(request[name]) for name in ("n", "limbs", "digits"))
        self.first_bits, self.scaling_bits = int(request["first_bits"]), int(request["scaling_bits"])
        self.hoisted = int(request.get("hoisted", 8))
        parameters = openfhe.CCParamsCKKSRNS()
        parameters.SetRingDim(n)
        parameters.SetBatchSize(n // 2)
        parameters.SetSecurityLevel(openfhe.HEStd_NotSet)
        parameters.SetMultiplicativeDepth(limbs - 1)
        parameters.SetFirstModSize(self.first_bits)
        parameters.SetScalingModSize(self.scaling_bits)
        parameters.SetScalingTechnique(openfhe.FIXEDMANUAL)
        parameters.SetKeySwitchTechnique(openfhe.HYBRID)
        parameters.SetNumLargeDigits(digits)
        parameters.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
        context = openfhe.GenCryptoContext(parameters)
        for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE):
            context.Enable(feature)
        keys = context.KeyGen()
        context.EvalMultKeyGen(keys.secretKey)
        steps = list(range(1, self.hoisted + 1))
        context.EvalRotateKeyGen(keys.secretKey, steps)

        values = numpy.random.default_rng(1).uniform(-1, 1, n // 2)
        plain = context.MakeCKKSPackedPlaintext(values)
        x, y = context.Encrypt(keys.publicKey, plain), context.Encrypt(keys.publicKey, plain)

        def decrypt(ciphertext: Any) -> Any:
            result = context.Decrypt(keys.secretKey, ciphertext)
            result.SetLength(n // 2)
            return real_values(result)

        def rotate_hoisted() -> Any:
            digits = context.EvalFastRotationPrecompute(x)
            return [context.EvalFastRotation(x, step, digits) for step in steps]

        self.cases: dict[str, Case] = {
            "encode": lambda: context.MakeCKKSPackedPlaintext(values),
            "encrypt": lambda: context.Encrypt(keys.publicKey, plain),
            "encrypt_symmetric": lambda: context.Encrypt(keys.secretKey, plain),
            "decrypt": lambda: decrypt(x),
            "rotate": lambda: context.EvalRotate(x, 1),
            "rotate_hoisted": rotate_hoisted,
            "multiply": lambda: context.EvalMult(x, y),
            "rescale": lambda: context.Rescale(x),
        }
        checks = [
            (self.cases["rotate"](), numpy.roll(values, -1)),
            (rotate_hoisted()[-1], numpy.roll(values, -steps[-1])),
            (self.cases["multiply"](), values * values),
            (self.cases["encrypt_symmetric"](), values),
        ]
        self.error = max(float(numpy.abs(decrypt(ct) - expected).max()) for ct, expected in checks)
        self.built = Built(context)

    def describe(self) -> dict[str, Any]:
        return {
            "peer": version(),
            **self.built.describe(self.first_bits, self.scaling_bits),
            "hoisted": self.hoisted,
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
            "error": self.error,
        }


if __name__ == "__main__":
    serve(OpenfhePrimitives)
