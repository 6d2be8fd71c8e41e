"""SEAL's primitives, measured through its Python wheel (``seal-python``). Run as a script, see protocol.py.

Set-up request: ``{"n", "q_bits": [...], "special_bits", "hoisted": h}``. SEAL's key switching has one special
prime and one digit per limb, so `digits` = limbs. Its security check is off: the parameters are the caller's.

What each case includes (our own side times the same work):

- ``encode``: S real numbers -> plaintext in NTT form at all limbs (`CKKSEncoder.encode`).
- ``encrypt``: an encoded plaintext -> public-key ciphertext at all limbs, randomness included
  (`Encryptor.encrypt`).
- ``encrypt_symmetric``: the same under the secret key.
- ``decrypt``: a 2-component ciphertext at all limbs -> S numbers (`Decryptor.decrypt` and
  `CKKSEncoder.decode`).
- ``rotate``: one rotation with its own key at all limbs.
- ``rotate_hoisted``: h rotations of one ciphertext by different steps; divide by h. SEAL has no hoisting, so
  these are h plain rotations.
- ``multiply``: ct x ct at all limbs, relinearised, not rescaled.
- ``rescale``: a 2-component ciphertext at all limbs -> one limb fewer.
"""

from __future__ import annotations

from typing import Any

import numpy
import seal

from .protocol import Case, serve


class SealPrimitives:
    def __init__(self, request: dict[str, Any]) -> None:
        n, q_bits = int(request["n"]), [int(bits) for bits in request["q_bits"]]
        self.hoisted = int(request.get("hoisted", 8))
        parameters = seal.EncryptionParameters(seal.scheme_type.ckks)
        parameters.set_poly_modulus_degree(n)
        self.modulus_bits = [*q_bits, int(request["special_bits"])]
        parameters.set_coeff_modulus(seal.CoeffModulus.Create(n, self.modulus_bits))
        context = seal.SEALContext(parameters, True, seal.sec_level_type.none)
        if not context.parameters_set():
            raise ValueError(context.parameter_error_message())
        keys = seal.KeyGenerator(context)
        public_key, relinearisation, galois = seal.PublicKey(), seal.RelinKeys(), seal.GaloisKeys()
        keys.create_public_key(public_key)
        keys.create_relin_keys(relinearisation)
        steps = list(range(1, self.hoisted + 1))
        keys.create_galois_keys(steps, galois)
        encryptor = seal.Encryptor(context, public_key, keys.secret_key())
        decryptor = seal.Decryptor(context, keys.secret_key())
        evaluator, encoder = seal.Evaluator(context), seal.CKKSEncoder(context)

        values = numpy.random.default_rng(1).uniform(-1, 1, n // 2)
        scale = 2.0 ** min(40, min(q_bits))
        plain = encoder.encode(values, scale)
        x, y = encryptor.encrypt(plain), encryptor.encrypt(plain)

        def decrypt(ciphertext: Any) -> Any:
            return encoder.decode(decryptor.decrypt(ciphertext))

        def multiply() -> Any:
            product = evaluator.multiply(x, y)
            evaluator.relinearize_inplace(product, relinearisation)
            return product

        self.cases: dict[str, Case] = {
            "encode": lambda: encoder.encode(values, scale),
            "encrypt": lambda: encryptor.encrypt(plain),
            "encrypt_symmetric": lambda: encryptor.encrypt_symmetric(plain),
            "decrypt": lambda: decrypt(x),
            "rotate": lambda: evaluator.rotate_vector(x, 1, galois),
            "rotate_hoisted": lambda: [evaluator.rotate_vector(x, step, galois) for step in steps],
            "multiply": multiply,
            "rescale": lambda: evaluator.rescale_to_next(x),
        }
        self.n, self.limbs = x.poly_modulus_degree(), x.coeff_modulus_size()
        checks = [
            (self.cases["rotate"](), numpy.roll(values, -1)),
            (self.cases["rotate_hoisted"]()[-1], numpy.roll(values, -steps[-1])),
            (multiply(), values * values),
            (encryptor.encrypt_symmetric(plain), values),
        ]
        self.error = max(float(numpy.abs(decrypt(ct) - expected).max()) for ct, expected in checks)

    def describe(self) -> dict[str, Any]:
        return {
            "peer": f"seal-python {seal.__version__}",
            "n": self.n,
            "limbs": self.limbs,
            "digits": self.limbs,
            "logq": sum(self.modulus_bits[:-1]),
            "logp": self.modulus_bits[-1],
            "hoisted": self.hoisted,
            "error": self.error,
        }


if __name__ == "__main__":
    serve(SealPrimitives)
