"""TenSEAL, which brings a SEAL of its own, measured through its Python wheel.

Set-up request: ``{"task", "d", "n", "bits": [...], "scale_bits"}``, `bits` those of all primes, the special one last.
TenSEAL has no check of security of its own: SEAL's for 128 bits is what its context asks for.

- ``vector``: `CKKSVector.mm`, an encrypted vector times a clear d x d matrix; it encodes the matrix in every call.
- ``square``: `CKKSTensor.mm`, two encrypted d x d matrices, one ciphertext for each entry: the only product of two
  encrypted matrices that it has.
- ``primitives``: SEAL's operations as TenSEAL hands them on (`tenseal.sealapi`); cases as in seal_worker.py, without
  hoisting, which there is none of.

Without primitives the case is ``run``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy
import tenseal
from tenseal import sealapi

from .protocol import Case, serve


class _Worker:
    cases: dict[str, Case]
    error: float

    def __init__(self, request: dict[str, Any]) -> None:
        self.n, self.bits = int(request["n"]), [int(each) for each in request["bits"]]
        self.scale = 2.0 ** float(request["scale_bits"])

    def primes(self) -> list[int]:
        """Of the built context, the special one last."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        primes = self.primes()
        limbs = len(primes) - 1
        return {
            "peer": f"tenseal {tenseal.__version__}",
            "n": self.n,
            "limbs": limbs,
            "digits": limbs,
            "logq": round(sum(map(math.log2, primes[:-1])), 1),
            "logp": round(math.log2(primes[-1]), 1),
            "slots": self.n // 2,
            "error": self.error,
        }


class Products(_Worker):
    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        self.context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, self.n, coeff_mod_bit_sizes=self.bits)
        self.context.global_scale = self.scale
        d = int(request["d"])
        random = numpy.random.default_rng(int(request.get("seed", 1)))
        matrix = random.uniform(-1, 1, (d, d))
        if request["task"] == "vector":
            self.context.generate_galois_keys()
            x = random.uniform(-1, 1, d)
            vector, weights = tenseal.ckks_vector(self.context, x.tolist()), matrix.tolist()
            self.cases = {"run": lambda: vector.mm(weights)}
            found, expected = numpy.array(self.cases["run"]().decrypt()), x @ matrix
        else:
            other = random.uniform(-1, 1, (d, d))
            a, b = (
                tenseal.ckks_tensor(self.context, tenseal.plain_tensor(each.tolist()), batch=False)
                for each in (matrix, other)
            )
            self.cases = {"run": lambda: a.mm(b)}
            found, expected = numpy.array(self.cases["run"]().decrypt().tolist()), matrix @ other
        self.error = float(numpy.abs(found - expected).max())

    def primes(self) -> list[int]:
        built = self.context.seal_context().data.key_context_data().parms().coeff_modulus()
        return [prime.value() for prime in built]


class Primitives(_Worker):
    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        parameters = sealapi.EncryptionParameters(sealapi.SCHEME_TYPE.CKKS)
        parameters.set_poly_modulus_degree(self.n)
        parameters.set_coeff_modulus(sealapi.CoeffModulus.Create(self.n, self.bits))
        context = self.context = sealapi.SEALContext(parameters, True, sealapi.SEC_LEVEL_TYPE.TC128)
        keys = sealapi.KeyGenerator(context)
        public, relinearisation, galois = sealapi.PublicKey(), sealapi.RelinKeys(), sealapi.GaloisKeys()
        keys.create_public_key(public)
        keys.create_relin_keys(relinearisation)
        keys.create_galois_keys([3], galois)  # the Galois element of a rotation by 1
        secret = keys.secret_key()
        encryptor = sealapi.Encryptor(context, public, secret)
        decryptor = sealapi.Decryptor(context, secret)
        evaluator, encoder = sealapi.Evaluator(context), sealapi.CKKSEncoder(context)
        values = numpy.random.default_rng(1).uniform(-1, 1, self.n // 2)
        listed = values.tolist()

        def made(kind: Any, work: Any, *arguments: Any) -> Any:
            """The object that a function of SEAL writes into its last argument."""
            result = kind()
            work(*arguments, result)
            return result

        plaintext, ciphertext = sealapi.Plaintext, sealapi.Ciphertext
        plain = made(plaintext, encoder.encode, listed, self.scale)
        x, y = (made(ciphertext, encryptor.encrypt, plain) for _ in range(2))

        def decrypt(of: Any) -> Any:
            return numpy.array(encoder.decode_double(made(plaintext, decryptor.decrypt, of)))

        def multiply() -> Any:
            product = made(ciphertext, evaluator.multiply, x, y)
            evaluator.relinearize_inplace(product, relinearisation)
            return product

        self.cases = {
            "encode": lambda: made(plaintext, encoder.encode, listed, self.scale),
            "encrypt": lambda: made(ciphertext, encryptor.encrypt, plain),
            "encrypt_symmetric": lambda: made(ciphertext, encryptor.encrypt_symmetric, plain),
            "decrypt": lambda: decrypt(x),
            "rotate": lambda: made(ciphertext, lambda out: evaluator.rotate_vector(x, 1, galois, out)),
            "multiply": multiply,
            "rescale": lambda: made(ciphertext, evaluator.rescale_to_next, x),
        }
        checks = [
            (self.cases["rotate"](), numpy.roll(values, -1)),
            (multiply(), values * values),
            (self.cases["encrypt_symmetric"](), values),
        ]
        self.error = max(float(numpy.abs(decrypt(ct) - expected).max()) for ct, expected in checks)

    def primes(self) -> list[int]:
        return [prime.value() for prime in self.context.key_context_data().parms().coeff_modulus()]


def task(request: dict[str, Any]) -> _Worker:
    return Primitives(request) if request["task"] == "primitives" else Products(request)


if __name__ == "__main__":
    serve(task)
