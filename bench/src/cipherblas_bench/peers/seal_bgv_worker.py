"""SEAL's primitives of BGV or BFV, measured through its Python wheel (``seal-python``). Run as a script: protocol.py.

Set-up request: ``{"scheme", "n", "q_bits": [...], "special_bits", "plain_bits", "hoisted": h}``. As of CKKS
(seal_worker.py), its key switching has one special prime and one digit per limb, it has no hoisting, and its security
check is off.

- ``encode``: N integers modulo t (`BatchEncoder.encode`).
- ``encrypt``, ``encrypt_symmetric``, ``decrypt`` (decoding included), ``rotate``, ``rotate_hoisted`` (of rows),
  ``multiply`` (relinearised): as of CKKS.
- ``rescale``: a 2-component ciphertext at all limbs -> one limb fewer (`mod_switch_to_next`).
- ``multiply_rescale``: both, one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy
import seal

from .protocol import Case, serve


class SealBgv:
    def __init__(self, request: dict[str, Any]) -> None:
        n, q_bits = int(request["n"]), [int(bits) for bits in request["q_bits"]]
        self.hoisted = int(request.get("hoisted", 8))
        self.scheme = str(request["scheme"])
        parameters = seal.EncryptionParameters(getattr(seal.scheme_type, self.scheme))
        parameters.set_poly_modulus_degree(n)
        self.modulus_bits = [*q_bits, int(request["special_bits"])]
        parameters.set_coeff_modulus(seal.CoeffModulus.Create(n, self.modulus_bits))
        parameters.set_plain_modulus(seal.PlainModulus.Batching(n, int(request["plain_bits"])))
        context = seal.SEALContext(parameters, True, seal.sec_level_type.none)
        if not context.parameters_set():
            raise ValueError(context.parameter_error_message())
        t = parameters.plain_modulus().value()
        keys = seal.KeyGenerator(context)
        public_key, relinearisation, galois = seal.PublicKey(), seal.RelinKeys(), seal.GaloisKeys()
        keys.create_public_key(public_key)
        keys.create_relin_keys(relinearisation)
        steps = list(range(1, self.hoisted + 1))
        keys.create_galois_keys(steps, galois)
        encryptor = seal.Encryptor(context, public_key, keys.secret_key())
        decryptor = seal.Decryptor(context, keys.secret_key())
        evaluator, encoder = seal.Evaluator(context), seal.BatchEncoder(context)

        values = numpy.random.default_rng(1).integers(-(t // 2), t // 2, n)
        plain = encoder.encode(values)
        x, y = encryptor.encrypt(plain), encryptor.encrypt(plain)

        def decrypt(ciphertext: Any) -> Any:
            return encoder.decode(decryptor.decrypt(ciphertext))

        def multiply() -> Any:
            product = evaluator.multiply(x, y)
            evaluator.relinearize_inplace(product, relinearisation)
            return product

        def multiply_rescale() -> Any:
            return evaluator.mod_switch_to_next(multiply())

        self.cases: dict[str, Case] = {
            "encode": lambda: encoder.encode(values),
            "encrypt": lambda: encryptor.encrypt(plain),
            "encrypt_symmetric": lambda: encryptor.encrypt_symmetric(plain),
            "decrypt": lambda: decrypt(x),
            "rotate": lambda: evaluator.rotate_rows(x, 1, galois),
            "rotate_hoisted": lambda: [evaluator.rotate_rows(x, step, galois) for step in steps],
            "multiply": multiply,
            "rescale": lambda: evaluator.mod_switch_to_next(x),
            "multiply_rescale": multiply_rescale,
        }
        self.n, self.limbs, self.plain_modulus = x.poly_modulus_degree(), x.coeff_modulus_size(), t
        squares = (values.astype(object) ** 2 % t).astype(numpy.int64)
        rows = values.reshape(2, -1)
        checks = [
            (self.cases["rotate"](), numpy.roll(rows, -1, axis=1)),
            (self.cases["rotate_hoisted"]()[-1], numpy.roll(rows, -steps[-1], axis=1)),
            (multiply(), squares),
            (multiply_rescale(), squares),
            (encryptor.encrypt_symmetric(plain), values),
        ]
        wrong = [(numpy.asarray(decrypt(ct)) - wanted.ravel()) % t != 0 for ct, wanted in checks]
        self.error = float(numpy.mean(wrong))

    def describe(self) -> dict[str, Any]:
        return {
            "peer": f"seal-python {seal.__version__}",
            "scheme": self.scheme,
            "n": self.n,
            "limbs": self.limbs,
            "digits": self.limbs,
            "logq": sum(self.modulus_bits[:-1]),
            "logp": self.modulus_bits[-1],
            "plain_bits": self.plain_modulus.bit_length(),
            "hoisted": self.hoisted,
            "error": self.error,
        }


if __name__ == "__main__":
    serve(SealBgv)
