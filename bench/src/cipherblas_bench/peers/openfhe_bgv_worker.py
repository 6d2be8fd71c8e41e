"""OpenFHE's primitives of BGV, measured through its Python wheel. Run as a script by an interpreter that has it.

Set-up request: ``{"depth", "plain_modulus", "hoisted": h}``. OpenFHE chooses ring degree, primes and digits itself, for
so many products one after the other and 128 bits of security (HEStd_128_classic): FIXEDMANUAL scaling, hybrid key
switching, a uniform ternary secret. The parent sets OMP_NUM_THREADS.

Cases as of CKKS (openfhe_worker.py), of N integers modulo t, and

- ``multiply``: ct x ct at all limbs, relinearised, the modulus not switched (`EvalMult`).
- ``rescale``: a 2-component ciphertext at all limbs -> one limb fewer (`ModReduce`).
- ``multiply_rescale``: both, one after the other.

Checked as well: `depth` squarings, one after the other.
"""

from __future__ import annotations

import os
from typing import Any

import numpy
import openfhe

from .openfhe_parameters import Built, version
from .protocol import Case, serve

PRIME_BITS = 60  # at most, of the primes that OpenFHE chooses


class OpenfheBgv:
    def __init__(self, request: dict[str, Any]) -> None:
        depth, t = int(request["depth"]), int(request["plain_modulus"])
        self.hoisted = int(request.get("hoisted", 8))
        parameters = openfhe.CCParamsBGVRNS()
        parameters.SetPlaintextModulus(t)
        parameters.SetMultiplicativeDepth(depth)
        parameters.SetSecurityLevel(openfhe.HEStd_128_classic)
        parameters.SetScalingTechnique(openfhe.FIXEDMANUAL)
        parameters.SetKeySwitchTechnique(openfhe.HYBRID)
        parameters.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
        context = openfhe.GenCryptoContext(parameters)
        for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE):
            context.Enable(feature)
        keys = context.KeyGen()
        context.EvalMultKeyGen(keys.secretKey)
        steps = list(range(1, self.hoisted + 1))
        context.EvalRotateKeyGen(keys.secretKey, steps)
        n = context.GetRingDimension()

        values = numpy.random.default_rng(1).integers(-(t // 2), t // 2, n)
        listed = values.tolist()
        plain = context.MakePackedPlaintext(listed)
        x, y = context.Encrypt(keys.publicKey, plain), context.Encrypt(keys.publicKey, plain)

        def decrypt(ciphertext: Any) -> Any:
            result = context.Decrypt(keys.secretKey, ciphertext)
            result.SetLength(n)
            return result.GetPackedValue()

        def rotate_hoisted() -> Any:
            digits = context.EvalFastRotationPrecompute(x)
            return [context.EvalFastRotation(x, step, digits) for step in steps]

        def multiply_rescale(left: Any = x, right: Any = y) -> Any:
            return context.ModReduce(context.EvalMult(left, right))

        self.cases: dict[str, Case] = {
            "encode": lambda: context.MakePackedPlaintext(listed),
            "encrypt": lambda: context.Encrypt(keys.publicKey, plain),
            "encrypt_symmetric": lambda: context.Encrypt(keys.secretKey, plain),
            "decrypt": lambda: decrypt(x),
            "rotate": lambda: context.EvalRotate(x, 1),
            "rotate_hoisted": rotate_hoisted,
            "multiply": lambda: context.EvalMult(x, y),
            "rescale": lambda: context.ModReduce(x),
            "multiply_rescale": multiply_rescale,
        }
        rows, deep, power = values.reshape(2, -1), x, values.astype(object)
        checks = [
            (self.cases["rotate"](), numpy.roll(rows, -1, axis=1)),
            (rotate_hoisted()[-1], numpy.roll(rows, -steps[-1], axis=1)),
            (self.cases["multiply"](), values.astype(object) ** 2 % t),
            (self.cases["encrypt_symmetric"](), values),
        ]
        for _ in range(depth):
            deep, power = multiply_rescale(deep, deep), power * power % t
        checks.append((deep, power))
        wrong = [
            (numpy.asarray(decrypt(ct)).astype(object) - wanted.ravel()) % t != 0 for ct, wanted in checks
        ]
        self.error, self.depth = float(numpy.mean(wrong)), depth
        self.built = Built(context)

    def describe(self) -> dict[str, Any]:
        return {
            "peer": version(),
            "scheme": "bgv",
            **self.built.describe(PRIME_BITS, PRIME_BITS),
            "depth": self.depth,
            "hoisted": self.hoisted,
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
            "error": self.error,
        }


if __name__ == "__main__":
    serve(OpenfheBgv)
