"""OpenFHE-NumPy, arrays on top of OpenFHE, measured through its Python wheel. Run by an interpreter that has it.

Set-up request: ``{"task", "d", "depth", "first_bits", "scaling_bits"}``. Matrices are one ciphertext or plaintext,
repeated throughout the slots: d^2 of them decide the ring, together with the security of 128 bits that OpenFHE is
asked for (it chooses the ring degree and its special primes). FIXEDAUTO scaling. The case is ``run``:

- ``vector``: a clear d x d matrix `@` an encrypted vector.
- ``square``: `@` of two encrypted d x d matrices.
"""

from __future__ import annotations

import importlib.metadata
import os
from typing import Any

import numpy
import openfhe  # before the next one, which needs it loaded

import openfhe_numpy  # isort: skip

from .openfhe_parameters import Built, version
from .protocol import Case, serve

MAX_RING_DEGREE = 1 << 17  # ring degree: beyond that OpenFHE has no table of security


class OpenfheNumpy:
    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        d = int(request["d"])
        self.least = d * d
        if 2 * self.least > MAX_RING_DEGREE:
            raise ValueError(
                f"a {d} x {d} matrix needs {d * d} slots, and N = 2^17 has {MAX_RING_DEGREE // 2}"
            )
        self.bits = int(request["first_bits"]), int(request["scaling_bits"])
        context = openfhe.GenCryptoContext(self._parameters())
        for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE):
            context.Enable(feature)
        self.built = Built(context)
        self.slots = self.built.n // 2
        pair = context.KeyGen()
        context.EvalMultKeyGen(pair.secretKey)
        random = numpy.random.default_rng(int(request.get("seed", 1)))
        matrix, other = random.uniform(-1, 1, (d, d)), random.uniform(-1, 1, (d, d))

        def array(data: Any, secret: bool, **options: Any) -> Any:
            kind = {"fhe_type": "C", "public_key": pair.publicKey} if secret else {"fhe_type": "P"}
            return openfhe_numpy.array(context, data, self.slots, **kind, **options)

        if request["task"] == "vector":
            x = random.uniform(-1, 1, d)
            columns = openfhe_numpy.ArrayEncodingType.COL_MAJOR
            left = array(matrix, False, order=openfhe_numpy.ArrayEncodingType.ROW_MAJOR, mode="tile")
            right = array(x, True, order=columns, mode="tile")
            left.extra["colkey"] = openfhe_numpy.sum_col_keys(pair.secretKey, d)
            expected = matrix @ x
        else:
            left, right = array(matrix, True, mode="tile"), array(other, True, mode="tile")
            openfhe_numpy.gen_square_matmult_key(pair.secretKey, left.ncols)
            expected = matrix @ other
        self.cases: dict[str, Case] = {"run": lambda: left @ right}
        found = self.cases["run"]().decrypt(pair.secretKey, unpack_type="original")
        self.error = float(numpy.abs(numpy.asarray(found) - expected).max())

    def _parameters(self) -> Any:
        parameters = openfhe.CCParamsCKKSRNS()
        if 2 * self.least > 1 << 14:  # otherwise the smallest that is secure, which has as many slots
            parameters.SetRingDim(2 * self.least)
        parameters.SetSecurityLevel(openfhe.HEStd_128_classic)
        parameters.SetMultiplicativeDepth(int(self.request["depth"]))
        parameters.SetFirstModSize(self.bits[0])
        parameters.SetScalingModSize(self.bits[1])
        parameters.SetScalingTechnique(openfhe.FIXEDAUTO)
        parameters.SetKeySwitchTechnique(openfhe.HYBRID)
        parameters.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
        return parameters

    def describe(self) -> dict[str, Any]:
        return {
            "peer": f"openfhe-numpy {importlib.metadata.version('openfhe_numpy')} on {version()}",
            **self.built.describe(*self.bits),
            "slots": self.slots,
            "threads": os.environ.get("OMP_NUM_THREADS", "default"),
            "error": self.error,
        }


if __name__ == "__main__":
    serve(OpenfheNumpy)
