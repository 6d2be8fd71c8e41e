"""E2DM on SEAL: secret x secret, Jiang, Kim, Lauter, Song 2018 (eprint 2018/1041), Algorithm 2.

Set-up request (see protocol.py): ``{"m", "k", "n", "n_ring", "q_bits": [...], "special_bits", "scale_bits",
"seed", "single_rotation": bool}``. A is m x k, B is k x n, zero-padded to d x d with d the next power of two; slot
d*i + j holds entry (i, j), repeated to fill all slots so that every rotation is cyclic modulo d*d.

    A B = sum over t < d of phi^t(sigma(A)) * psi^t(tau(B)),
    sigma(A)[i,j] = A[i,i+j], tau(B)[i,j] = B[i+j,j], phi shifts columns, psi shifts rows.

What SEAL's interface allows is used: masks are encoded once, in NTT form, at the level where they act; sigma
and tau run by baby-step/giant-step; each giant step is rescaled before it is rotated (one limb fewer to
switch); tau(B) drops to the level of the products before its d - 1 rotations; the products are added in three
components and relinearised once; every rotation has its own key (no chains of powers of two). SEAL has no
hoisting and no lazy ModDown.

phi^t is two rotations and two masks, as published. With `single_rotation` it is one rotation, ours:
phi^t(x) = Rot(mask * x + (1 - mask) * Rot(x, -d), t), where Rot(x, -d) is made once.

Cases: ``encrypt`` (encode and encrypt A and B, secret key), ``multiply`` (the server's work), ``decrypt``.
"""

from __future__ import annotations

from typing import Any

import numpy
import seal

from .protocol import Case, peak_bytes, serve


class E2dm:
    def __init__(self, request: dict[str, Any]) -> None:
        m, k, n = (int(request[name]) for name in ("m", "k", "n"))
        ring = int(request["n_ring"])
        self.slots, self.d = ring // 2, 1 << (max(m, k, n) - 1).bit_length()
        if self.d * self.d > self.slots:
            raise ValueError(f"a {self.d} x {self.d} matrix does not fit {self.slots} slots")
        self.scale = 2.0 ** float(request["scale_bits"])
        self.single_rotation = bool(request.get("single_rotation", False))
        self.bits = [int(bits) for bits in request["q_bits"]] + [int(request["special_bits"])]
        if len(self.bits) < 4:
            raise ValueError(f"expected at least 3 limbs (two masks and a product), got {len(self.bits) - 1}")
        self._make_keys(ring)
        self._make_masks()

        random = numpy.random.default_rng(int(request.get("seed", 1)))
        self.A, self.B = random.uniform(-1, 1, (m, k)), random.uniform(-1, 1, (k, n))
        self.a, self.b = self.encrypt(self.A), self.encrypt(self.B)
        self.product = self.multiply()
        self.error = float(numpy.abs(self.decrypt(self.product, m, n) - self.A @ self.B).max())
        self.cases: dict[str, Case] = {
            "encrypt": lambda: (self.encrypt(self.A), self.encrypt(self.B)),
            "multiply": self.multiply,
            "decrypt": lambda: self.decrypt(self.product, m, n),
        }

    def _make_keys(self, ring: int) -> None:
        parameters = seal.EncryptionParameters(seal.scheme_type.ckks)
        parameters.set_poly_modulus_degree(ring)
        parameters.set_coeff_modulus(seal.CoeffModulus.Create(ring, self.bits))
        context = seal.SEALContext(parameters, True, seal.sec_level_type.tc128)
        if not context.parameters_set():
            raise ValueError(context.parameter_error_message())
        # Masks carry the scale of the prime that their rescale drops, so that the data's scale never moves.
        self.mask_scales = [float(prime.value()) for prime in reversed(parameters.coeff_modulus()[:-1])]
        keys = seal.KeyGenerator(context)
        self.encryptor = seal.Encryptor(context, keys.secret_key())
        self.decryptor = seal.Decryptor(context, keys.secret_key())
        self.evaluator, self.encoder = seal.Evaluator(context), seal.CKKSEncoder(context)
        self.galois, self.relinearisation = seal.GaloisKeys(), seal.RelinKeys()
        d = self.d
        steps = {d * t for t in range(1, d)} | set(range(1, d))
        steps |= {self.slots - d} if self.single_rotation else {-t for t in range(1, d)}
        # sigma's giant steps: multiples of the baby step, on both sides of zero.
        self.baby = 1 << ((d.bit_length() - 1) // 2)
        steps |= {-g for g in range(self.baby, d + 1, self.baby)}
        # A step and its residue modulo the slot count are one key.
        self.steps = sorted({step % self.slots for step in steps})
        signed = [step if step <= self.slots // 2 else step - self.slots for step in self.steps]
        before = peak_bytes()
        keys.create_galois_keys(signed, self.galois)
        keys.create_relin_keys(self.relinearisation)
        self.key_memory = peak_bytes() - before
        limbs = len(self.bits) - 1
        self.key_bytes = (len(self.steps) + 1) * limbs * 2 * (limbs + 1) * ring * 8

    def _encode_mask(self, mask: Any, drops: int) -> Any:
        """A 0/1 matrix, or its slot vector already shifted, in NTT form `drops` levels below the top."""
        vector = numpy.tile(numpy.asarray(mask, dtype=numpy.float64).ravel(), self.slots // self.d**2)
        plain = self.encoder.encode(vector, self.mask_scales[drops])
        for _ in range(drops):
            self.evaluator.mod_switch_to_next_inplace(plain)
        return plain

    def _make_masks(self) -> None:
        d = self.d
        i, j = numpy.indices((d, d))
        # Diagonal `step` of sigma: out[l] = in[l + step]; at (i, j), step = i, or i - d once the row wraps.
        offset = numpy.where(i + j < d, i, i - d)
        self.sigma: dict[int, dict[int, Any]] = {}
        for step in range(-d + 1, d):
            giant = step - step % self.baby
            mask = numpy.roll((offset == step).ravel(), giant)
            self.sigma.setdefault(giant, {})[step - giant] = self._encode_mask(mask, 0)
        self.tau: dict[int, dict[int, Any]] = {}
        for step in range(d):
            giant = step - step % self.baby
            mask = numpy.roll((j == step).ravel(), d * giant)
            self.tau.setdefault(d * giant, {})[d * (step - giant)] = self._encode_mask(mask, 0)
        self.phi: list[Any] = [None]
        for t in range(1, d):
            inside = j < d - t
            if self.single_rotation:  # before the rotation by t
                inside = j >= t
            self.phi.append((self._encode_mask(inside, 1), self._encode_mask(~inside, 1)))

    def _rotate(self, x: Any, step: int) -> Any:
        step %= self.slots
        if step == 0:
            return x
        signed = step if step <= self.slots // 2 else step - self.slots
        return self.evaluator.rotate_vector(x, signed, self.galois)

    def _transform(self, x: Any, diagonals: dict[int, dict[int, Any]]) -> Any:
        """sum over giants g, babies b of Rot(mask * Rot(x, b), g), rescaled: one level."""
        babies = {b: self._rotate(x, b) for b in sorted({b for inner in diagonals.values() for b in inner})}
        total = None
        for giant, inner in diagonals.items():
            partial = None
            for b, mask in inner.items():
                term = self.evaluator.multiply_plain(babies[b], mask)
                if partial is None:
                    partial = term
                else:
                    self.evaluator.add_inplace(partial, term)
            self.evaluator.rescale_to_next_inplace(partial)
            rotated = self._rotate(partial, giant)
            if total is None:
                total = rotated
            else:
                self.evaluator.add_inplace(total, rotated)
        return total

    def _shift_columns(self, x: Any, previous_row: Any, t: int) -> Any:
        inside, outside = self.phi[t]
        if self.single_rotation:
            left, right = x, previous_row
        else:
            left, right = self._rotate(x, t), self._rotate(x, t - self.d)
        shifted = self.evaluator.multiply_plain(left, inside)
        self.evaluator.add_inplace(shifted, self.evaluator.multiply_plain(right, outside))
        self.evaluator.rescale_to_next_inplace(shifted)
        return self._rotate(shifted, t) if self.single_rotation else shifted

    def multiply(self) -> Any:
        evaluator = self.evaluator
        left, right = self._transform(self.a, self.sigma), self._transform(self.b, self.tau)
        evaluator.mod_switch_to_next_inplace(right)
        previous_row = self._rotate(left, -self.d) if self.single_rotation else None
        first = evaluator.mod_switch_to_next(left)
        total = evaluator.multiply(first, right)
        for t in range(1, self.d):
            shifted = self._shift_columns(left, previous_row, t)
            evaluator.add_inplace(total, evaluator.multiply(shifted, self._rotate(right, self.d * t)))
        evaluator.relinearize_inplace(total, self.relinearisation)
        return total

    def encrypt(self, matrix: Any) -> Any:
        padded = numpy.zeros((self.d, self.d))
        padded[: matrix.shape[0], : matrix.shape[1]] = matrix
        vector = numpy.tile(padded.ravel(), self.slots // (self.d * self.d))
        return self.encryptor.encrypt_symmetric(self.encoder.encode(vector, self.scale))

    def decrypt(self, product: Any, m: int, n: int) -> Any:
        vector = self.encoder.decode(self.decryptor.decrypt(product))
        return vector[: self.d * self.d].reshape(self.d, self.d)[:m, :n]

    def describe(self) -> dict[str, Any]:
        return {
            "peer": f"E2DM on seal-python {seal.__version__}",
            "limbs": len(self.bits) - 1,
            "digits": len(self.bits) - 1,
            "logq": sum(self.bits[:-1]),
            "logp": self.bits[-1],
            "n": self.slots * 2,
            "keys": len(self.steps),
            "key_bytes": self.key_bytes,
            "error": self.error,
        }


if __name__ == "__main__":
    serve(E2dm)
