"""OpenFHE, the heir of PALISADE, as a library of tasks (library.py), through its Python wheel.

Set-up request: that of a task and ``{"n", "q_bits": [...], "scale_bits"}``, q_bits that of the first prime and of the
others, which are as large as the scale. FIXEDMANUAL scaling, hybrid key switching with one limb per digit, a uniform
ternary secret; OpenFHE checks that there are 128 bits of security (HEStd_128_classic) and chooses its special prime.
Rotations of one ciphertext are hoisted (`EvalFastRotation`). `decrypt` is `Decrypt`, which decodes as well: what is
left for `decode` is to read the values.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

import openfhe

from .library import Library
from .openfhe_parameters import Built, real_values, version
from .protocol import serve
from .tasks import task


class OpenfheLibrary(Library):
    def __init__(self, request: dict[str, Any], steps: set[int]) -> None:
        n, limbs = int(request["n"]), len(request["q_bits"])
        self.slots = n // 2
        self.bits = int(request["q_bits"][0]), int(request["scale_bits"])
        parameters = openfhe.CCParamsCKKSRNS()
        parameters.SetRingDim(n)
        parameters.SetBatchSize(self.slots)
        parameters.SetSecurityLevel(openfhe.HEStd_128_classic)
        parameters.SetMultiplicativeDepth(limbs - 1)
        parameters.SetFirstModSize(self.bits[0])
        parameters.SetScalingModSize(self.bits[1])
        parameters.SetScalingTechnique(openfhe.FIXEDMANUAL)
        parameters.SetKeySwitchTechnique(openfhe.HYBRID)
        parameters.SetNumLargeDigits(limbs)
        parameters.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
        self.context = openfhe.GenCryptoContext(parameters)
        for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE):
            self.context.Enable(feature)
        self.built = Built(self.context)
        self.pair = self.context.KeyGen()
        self.context.EvalMultKeyGen(self.pair.secretKey)
        self.context.EvalRotateKeyGen(self.pair.secretKey, sorted(steps))
        self.keys = 1 + len(
            self.context.GetExistingEvalAutomorphismKeyIndices(self.pair.secretKey.GetKeyTag())
        )

    def encode(self, vectors: Sequence[Any], level: int) -> list[Any]:
        return [self.context.MakeCKKSPackedPlaintext(vector, 1, level) for vector in vectors]

    def encode_input(self, vector: Any) -> Any:
        return self.context.MakeCKKSPackedPlaintext(vector)

    def encrypt(self, plain: Any) -> Any:
        return self.context.Encrypt(self.pair.publicKey, plain)

    def decrypt(self, ciphertext: Any) -> Any:
        return self.context.Decrypt(self.pair.secretKey, ciphertext)

    def decode(self, plain: Any) -> Any:
        plain.SetLength(self.slots)
        return real_values(plain)

    def rotations(self, x: Any, steps: Sequence[int]) -> list[Any]:
        moved = [step for step in steps if step]
        if len(moved) == 1:
            return [self.context.EvalRotate(x, step) if step else x for step in steps]
        digits = self.context.EvalFastRotationPrecompute(x)
        return [self.context.EvalFastRotation(x, step, digits) if step else x for step in steps]

    def add(self, x: Any, y: Any) -> Any:
        return self.context.EvalAdd(x, y)

    def times_plain(self, x: Any, plain: Any) -> Any:
        return self.context.EvalMult(x, plain)

    def rescale(self, x: Any) -> Any:
        return self.context.Rescale(x)

    def drop(self, x: Any) -> Any:
        return self.context.LevelReduce(x, None, 1)

    def products(self, lefts: Sequence[Any], rights: Sequence[Any]) -> Any:
        return self.context.Relinearize(
            functools.reduce(self._added, map(self.context.EvalMultNoRelin, lefts, rights))
        )

    def _added(self, total: Any, term: Any) -> Any:
        self.context.EvalAddInPlace(total, term)
        return total

    def describe(self) -> dict[str, Any]:
        return {
            "peer": version(),
            **self.built.describe(*self.bits),
            "keys": self.keys,
            "key_bytes": self.keys * self.built.key_bytes(*self.bits),
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
        }


if __name__ == "__main__":
    serve(lambda request: task(request, OpenfheLibrary))
