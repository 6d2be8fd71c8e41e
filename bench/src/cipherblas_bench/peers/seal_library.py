"""SEAL as a library of tasks (library.py), through its Python wheel.

Set-up request: that of a task and ``{"n", "q_bits": [...], "special_bits", "scale_bits"}``. SEAL checks that the
parameters have 128 bits of security. It has no hoisting: each rotation decomposes anew. Clear vectors carry the scale
of the prime that is dropped after them, so that the scale of the data never moves. Products are added up in three
components and relinearised once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import seal

from .library import Library
from .protocol import serve
from .tasks import task


class SealLibrary(Library):
    def __init__(self, request: dict[str, Any], steps: set[int]) -> None:
        n = int(request["n"])
        self.slots, self.scale = n // 2, 2.0 ** float(request["scale_bits"])
        parameters = seal.EncryptionParameters(seal.scheme_type.ckks)
        parameters.set_poly_modulus_degree(n)
        bits = [*request["q_bits"], request["special_bits"]]
        parameters.set_coeff_modulus(seal.CoeffModulus.Create(n, [int(each) for each in bits]))
        context = seal.SEALContext(parameters, True, seal.sec_level_type.tc128)
        if not context.parameters_set():
            raise ValueError(context.parameter_error_message())
        built = context.key_context_data().parms()
        self.n = built.poly_modulus_degree()
        self.primes = [prime.value() for prime in built.coeff_modulus()]
        keys = seal.KeyGenerator(context)
        public, self.relinearisation, self.galois = seal.PublicKey(), seal.RelinKeys(), seal.GaloisKeys()
        keys.create_public_key(public)
        keys.create_relin_keys(self.relinearisation)
        signed = sorted({self._signed(step) for step in steps})
        self.keys = len(signed) + 1
        keys.create_galois_keys(signed, self.galois)
        self.encryptor = seal.Encryptor(context, public)
        self.decryptor = seal.Decryptor(context, keys.secret_key())
        self.evaluator, self.encoder = seal.Evaluator(context), seal.CKKSEncoder(context)

    def _signed(self, step: int) -> int:
        step %= self.slots
        return step if step <= self.slots // 2 else step - self.slots

    def encode(self, vectors: Sequence[Any], level: int) -> list[Any]:
        scale = float(self.primes[-2 - level])  # the last one is special
        plains = [self.encoder.encode(vector, scale) for vector in vectors]
        for _ in range(level):  # the wheel encodes at the top alone
            for plain in plains:
                self.evaluator.mod_switch_to_next_inplace(plain)
        return plains

    def encode_input(self, vector: Any) -> Any:
        return self.encoder.encode(vector, self.scale)

    def encrypt(self, plain: Any) -> Any:
        return self.encryptor.encrypt(plain)

    def decrypt(self, ciphertext: Any) -> Any:
        return self.decryptor.decrypt(ciphertext)

    def decode(self, plain: Any) -> Any:
        return self.encoder.decode(plain)

    def rotations(self, x: Any, steps: Sequence[int]) -> list[Any]:
        signed = [self._signed(step) for step in steps]
        return [self.evaluator.rotate_vector(x, step, self.galois) if step else x for step in signed]

    def add(self, x: Any, y: Any) -> Any:
        return self.evaluator.add(x, y)

    def times_plain(self, x: Any, plain: Any) -> Any:
        return self.evaluator.multiply_plain(x, plain)

    def rescale(self, x: Any) -> Any:
        return self.evaluator.rescale_to_next(x)

    def drop(self, x: Any) -> Any:
        return self.evaluator.mod_switch_to_next(x)

    def products(self, lefts: Sequence[Any], rights: Sequence[Any]) -> Any:
        total = functools.reduce(self._added, map(self.evaluator.multiply, lefts, rights))
        self.evaluator.relinearize_inplace(total, self.relinearisation)
        return total

    def _added(self, total: Any, term: Any) -> Any:
        self.evaluator.add_inplace(total, term)
        return total

    def describe(self) -> dict[str, Any]:
        limbs = len(self.primes) - 1
        return {
            "peer": f"seal-python {seal.__version__}",
            "n": self.n,
            "limbs": limbs,
            "digits": limbs,
            "logq": round(sum(map(math.log2, self.primes[:-1])), 1),
            "logp": round(math.log2(self.primes[-1]), 1),
            "keys": self.keys,
            "key_bytes": self.keys * limbs * 2 * (limbs + 1) * self.n * 8,
        }


if __name__ == "__main__":
    serve(lambda request: task(request, SealLibrary))
