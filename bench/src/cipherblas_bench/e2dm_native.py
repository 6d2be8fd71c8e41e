"""The stages of E2DM (peers/e2dm_stages.py) on our core, in a process of its own like those of the peers.

An instruction set is fixed when the core is loaded (`CIPHERBLAS_ISA`), hence a process for each. Set-up request:
``{"d", "n", "q_bits": [...], "special_bits", "scale_bits"}``. A mask is encoded into NTT form at the limbs that it
meets, special ones included, as other libraries have it. Linear transforms are one call: rotations hoisted, their
ModDown merged with the rescale (MO-HLT). Products are added up in three components and relinearised once.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from cipherblas_bench.peers.e2dm_stages import LEVELS, Stages
from cipherblas_bench.peers.library import Diagonals, Library
from cipherblas_bench.peers.protocol import serve


class NativeStages(Library):
    """Keys for the steps of one d, each for as many limbs as it meets."""

    def __init__(self, request: dict[str, Any], steps: set[int]) -> None:
        from cipherblas.crypto import keys
        from cipherblas.crypto.params import make_parameters

        self.params = make_parameters(
            int(request["n"]),
            [float(bits) for bits in request["q_bits"]],
            special_bits=float(request["special_bits"]),
            special_limbs=1,
            scale_bits=float(request["scale_bits"]),
        )
        self.context, self.slots = self.params.context(), self.params.slots
        self.limbs, self.scale = self.params.limbs, 2.0**self.params.scale_bits
        self.product_scale, self.d = self.scale**2, int(request["d"])
        self.secret = keys.generate_secret(self.params)
        self.public = keys.generate_public_key(self.secret)
        elements = {self.context.galois_element(step % self.slots): self.limbs for step in steps}
        wanted = keys.KeyRequest.of_galois(elements, relinearise=self.limbs - LEVELS)
        self.evaluation = keys.make_evaluation_keys(self.secret, wanted)

    def encode(self, vectors: Sequence[Any], level: int) -> list[Any]:
        limbs = self.limbs - level
        # The rescale after a mask drops the last limb: masks have its scale, so that the scale of the data never
        # moves.
        scale = float(self.params.q[limbs - 1])
        messages = self.context.encode_all(vectors, scale, [0] * len(vectors))
        return [self.context.plaintext(message, limbs, special=True, montgomery=True) for message in messages]

    def encode_input(self, vector: Any) -> Any:
        return self.context.encode(vector, self.scale)

    def encrypt(self, plain: Any) -> Any:
        from cipherblas.crypto import keys

        return keys.encrypt(self.public, plain, self.limbs).expand()

    def decrypt(self, ciphertext: Any) -> Any:
        from cipherblas.crypto import keys

        return keys.decrypt_coefficients(self.secret, ciphertext, within=2 * self.d * self.product_scale)

    def decode(self, plain: Any) -> Any:
        return self.context.decode(plain).real / self.product_scale

    def transforms(self, x: Any, maps: Sequence[Diagonals]) -> list[Any]:
        return self._transformed(x, maps, True)

    def rotations(self, x: Any, steps: Sequence[int]) -> list[Any]:
        return self._transformed(x, [{step: None} for step in steps], False)

    def _transformed(self, x: Any, maps: Sequence[Diagonals], rescale: bool) -> list[Any]:
        moved = dict.fromkeys(s % self.slots for diagonals in maps for s in diagonals if s % self.slots)
        position = {step: index for index, step in enumerate(moved)}
        from cipherblas.crypto.keys import Galois

        elements = {step: self.context.galois_element(step) for step in moved} | {0: 1}
        plains: list[Any] = []
        terms = []
        for output, diagonals in enumerate(maps):
            for step, plain in diagonals.items():
                step %= self.slots
                number = -1 if plain is None else len(plains)
                terms.append((output, 0, elements[step], position.get(step, -1), number))
                plains += [] if plain is None else [plain]
        switching = [self.evaluation.get(Galois(elements[step]), x.shape[1]) for step in moved]
        found: list[Any] = self.context.linear_transform(
            [x], terms, switching, plains, len(maps), rescale, "limb"
        )
        return found

    def add(self, x: Any, y: Any) -> Any:
        return self.context.add(x, y)

    def times_plain(self, x: Any, plain: Any) -> Any:
        return self.context.multiply_plain(x, plain[: x.shape[1]])

    def rescale(self, x: Any) -> Any:
        return self.context.rescale(x)

    def drop(self, x: Any) -> Any:
        return self.context.drop(x, x.shape[1] - 1)

    def products(self, lefts: Sequence[Any], rights: Sequence[Any]) -> Any:
        total = self.context.multiply_sum(lefts, rights)
        return self.context.relinearise(total, self.evaluation.relinearisation(total.shape[1]))

    def describe(self) -> dict[str, Any]:
        import cipherblas._core as _core

        return {
            "peer": f"cipherblas {version('cipherblas')}",
            "isa": _core.isa(),
            "n": self.params.n,
            "limbs": self.limbs,
            "digits": self.params.dnum,
            "logq": round(float(self.params.log_q), 1),
            "logp": round(float(self.params.log_p), 1),
            "keys": len(self.evaluation),
            "key_bytes": self.evaluation.nbytes,
            "threads": _core.threads(),
        }


if __name__ == "__main__":
    import cipherblas._core as _core

    _core.set_threads(_core.threads())
    serve(lambda request: Stages(request, NativeStages))
