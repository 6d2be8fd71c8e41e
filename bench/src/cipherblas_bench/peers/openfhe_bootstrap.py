"""OpenFHE's bootstrapping of CKKS, measured through its Python wheel. Run by an interpreter that has it.

Set-up request: ``{"n", "security", "depth", "level_budget": [CtS, StC], "first_bits", "scaling_bits", "digits"}``.
All N/2 slots, slots to coefficients first, hybrid key switching, FIXEDMANUAL scaling, a dense ternary secret and a
sparse one while the modulus is raised (SPARSE_ENCAPSULATED). `security` 128: by OpenFHE's own check
(HEStd_128_classic), which refuses too large moduli; 0: INSECURE, for tests. `depth` is beyond what OpenFHE says that
bootstrapping takes; it chooses the special primes and the degree of the sine. `levels_left`, in the answer, are those
between one bootstrap and the next. The parent sets OMP_NUM_THREADS.

The case ``bootstrap``: a ciphertext at the level at which slots to coefficients begins -> one with all working levels
(`EvalBootstrapStCFirst`). Encoding of diagonals and keys are set-up.
"""

from __future__ import annotations

import os
from typing import Any

import numpy
import openfhe

from .openfhe_parameters import Built, version
from .protocol import Case, serve

SECURITY = {128: openfhe.HEStd_128_classic, 0: openfhe.HEStd_NotSet}


class OpenfheBootstrap:
    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        slots = int(request["n"]) // 2
        budget = [int(levels) for levels in request["level_budget"]]
        depth = openfhe.CryptoContext.GetBootstrapDepth(budget, openfhe.SPARSE_ENCAPSULATED)
        self.depth = int(request["depth"]) + depth
        context = openfhe.GenCryptoContext(self._parameters())
        for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE, openfhe.FHE):
            context.Enable(feature)
        self.built = Built(context)
        context.EvalBootstrapSetup(budget, [0, 0], slots, 0, True, True)
        keys = context.KeyGen()
        context.EvalMultKeyGen(keys.secretKey)
        context.EvalBootstrapKeyGen(keys.secretKey, slots)
        self.keys = 1 + len(context.GetExistingEvalAutomorphismKeyIndices(keys.secretKey.GetKeyTag()))

        values = numpy.random.default_rng(1).uniform(-1, 1, slots)
        spent = self.depth - (
            budget[1] + 1
        )  # what the transform spends is left, and a level that it asks for
        plain = context.MakeCKKSPackedPlaintext(values, 1, spent)
        x = context.Encrypt(keys.publicKey, plain)
        self.cases: dict[str, Case] = {"bootstrap": lambda: context.EvalBootstrapStCFirst(x)}
        result = self.cases["bootstrap"]()
        decrypted = context.Decrypt(keys.secretKey, result)
        decrypted.SetLength(slots)
        self.error = float(numpy.abs(numpy.array(decrypted.GetRealPackedValue()) - values).max())
        # The next bootstrap needs what this one was given.
        self.levels_left = spent - (result.GetLevel() + result.GetNoiseScaleDeg() - 1)

    def _parameters(self) -> Any:
        n = int(self.request["n"])
        parameters = openfhe.CCParamsCKKSRNS()
        parameters.SetRingDim(n)
        parameters.SetBatchSize(n // 2)
        parameters.SetSecurityLevel(SECURITY[int(self.request["security"])])
        parameters.SetSecretKeyDist(openfhe.SPARSE_ENCAPSULATED)
        parameters.SetMultiplicativeDepth(self.depth)
        parameters.SetFirstModSize(int(self.request["first_bits"]))
        parameters.SetScalingModSize(int(self.request["scaling_bits"]))
        parameters.SetScalingTechnique(openfhe.FIXEDMANUAL)
        parameters.SetKeySwitchTechnique(openfhe.HYBRID)
        parameters.SetNumLargeDigits(int(self.request["digits"]))
        return parameters

    def describe(self) -> dict[str, Any]:
        first, scaling = int(self.request["first_bits"]), int(self.request["scaling_bits"])
        return {
            "peer": version(),
            **self.built.describe(first, scaling),
            "security": self.request["security"],
            "slots": self.built.n // 2,
            "secret": "SPARSE_ENCAPSULATED",
            "scaling": "FIXEDMANUAL",
            "scaling_bits": scaling,
            "level_budget": self.request["level_budget"],
            "levels_left": self.levels_left,
            "keys": self.keys,
            "key_bytes": self.keys * self.built.key_bytes(first, scaling),
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
            "error": self.error,
        }


if __name__ == "__main__":
    serve(OpenfheBootstrap)
