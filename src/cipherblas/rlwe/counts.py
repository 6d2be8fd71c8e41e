"""Operation counts: what a plan costs, in the same unit for every evaluator."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass


@dataclass
class Counts:
    """Numbers of operations. `Symbolic`, `Clear` and `Native` fill them by the same bookkeeping.

    Limbs of a smaller ring, that of rows, are the parts of limbs of N that they are (`in_ring`).

    Attributes:
        rotations: key switches by an automorphism (rotations and conjugations).
        hoistings: decompositions with ModUp, each shared by the rotations that follow it.
        relinearisations: key switches of the third component.
        products: ciphertext × ciphertext products.
        plain_products: plaintext × ciphertext products, masks of linear transforms included.
        sums: of products, each one call into the core however many products it has.
        scalar_products: ciphertext × integer products.
        rescales: divisions by a limb; those merged with a ModDown are counted too.
        moddowns: divisions by P (two components each).
        linear_transforms: outputs of linear transforms.
        modulus_raises: moduli of ciphertexts of one limb that are raised, under the sparse secret.
        adds: additions and subtractions of ciphertexts, those inside lazily reduced sums left out.
        encodings: plaintexts turned into ring elements, as if nothing were cached; stored weights left out.
        operand_encodings: those of clear operands, which are new in every run, unlike masks.
        mask_encodings: different masks and constants among them, which are encoded in a first run and then kept.
        weight_encodings: stored weights, likewise.
        weight_limbs: their limbs.
        ntt_limbs: transforms of one limb (forward or inverse), those of encodings left out.
        encode_ntt_limbs: forward transforms of encoded plaintexts, as if nothing were cached.
        mac_limbs: modular multiply-adds and products by one number, in limbs of N: those of a base conversion are its
            sources times the limbs that it makes; those of encodings left out.
        switched_limbs: limbs modulo Q·P that sums of products with keys make, those of rows left out.
        key_bytes_read: bytes of switching keys streamed from memory.
        plain_bytes_read: bytes of encoded plaintexts that products read, of each as it lies in memory.
        ciphertext_bytes: bytes of ciphertexts that products, sums and rescales read, or write.
        stored_bytes: bytes of weights that are encoded once and kept.
        float_macs: multiply-adds of float64 GEMMs.
        float_inputs: entries of their factors that become float64 numbers, of residues as often as they have digits.
        float_outputs: entries of their products, which become residues.
        modular_macs: multiply-adds of exact GEMMs modulo a prime; which path the core takes is left to their rates.
        modular_inputs: entries of their factors.
        modular_outputs: entries of their products.
        operand_macs: multiply-adds of bytes, of operands of products of secrets, once for each of their moduli.
        operand_inputs: bytes of their factors.
        operand_outputs: bytes of their products, as often as there are limbs that these are switched to.
        transposes: ciphertext transposes of N rows each.
        row_switches: key switches of matrices encrypted by rows, those of transposes included.
        moved_bytes: bytes of such matrices that are read or written by transforms, copies and sums.
        fresh_bytes: bytes of their arrays that are too large to be in memory already when they are first written.
    """

    rotations: int = 0
    hoistings: int = 0
    relinearisations: int = 0
    products: int = 0
    plain_products: int = 0
    sums: int = 0
    scalar_products: int = 0
    rescales: int = 0
    moddowns: int = 0
    linear_transforms: int = 0
    modulus_raises: int = 0
    adds: int = 0
    encodings: int = 0
    operand_encodings: int = 0
    mask_encodings: int = 0
    weight_encodings: int = 0
    weight_limbs: int = 0
    ntt_limbs: int = 0
    encode_ntt_limbs: int = 0
    mac_limbs: int = 0
    switched_limbs: int = 0
    key_bytes_read: int = 0
    plain_bytes_read: int = 0
    ciphertext_bytes: int = 0
    stored_bytes: int = 0
    float_macs: int = 0
    float_inputs: int = 0
    float_outputs: int = 0
    modular_macs: int = 0
    modular_inputs: int = 0
    modular_outputs: int = 0
    operand_macs: int = 0
    operand_inputs: int = 0
    operand_outputs: int = 0
    transposes: int = 0
    row_switches: int = 0
    moved_bytes: int = 0
    fresh_bytes: int = 0

    def __add__(self, other: Counts) -> Counts:
        return self._of(map(operator.add, vars(self).values(), vars(other).values()))

    def __sub__(self, other: Counts) -> Counts:
        return self._of(map(operator.sub, vars(self).values(), vars(other).values()))

    def __mul__(self, times: int) -> Counts:
        return self._of([number * times for number in vars(self).values()])

    def _of(self, numbers: Iterable[int]) -> Counts:
        """Counts of these numbers, field by field: planning makes many, and an initialiser sets each by itself."""
        found = Counts.__new__(Counts)
        vars(found).update(zip(vars(self), numbers, strict=True))
        return found

    def in_ring(self, n: int, of: int) -> Counts:
        """Return counts of a ring of degree n in limbs of degree `of`: transforms by their butterflies, the rest by
        coefficients."""
        found = self.copy()
        layers, whole = n * (n.bit_length() - 1), of * (of.bit_length() - 1)
        found.ntt_limbs = round(self.ntt_limbs * layers / whole)
        found.encode_ntt_limbs = round(self.encode_ntt_limbs * layers / whole)
        found.mac_limbs = round(self.mac_limbs * n / of)
        found.switched_limbs = round(self.switched_limbs * n / of)
        return found

    def multiply_since(self, before: Mapping[str, int], times: int) -> None:
        """Multiply all counts since an earlier state by a number.

        Args:
            before: of each field, as `vars` has them.
        """
        own = vars(self)
        for name, number in before.items():
            if own[name] != number:
                own[name] = number + (own[name] - number) * times

    def copy(self) -> Counts:
        """Return an independent copy, to compute differences over a part of a program."""
        found = Counts.__new__(Counts)
        vars(found).update(vars(self))
        return found

    def to_dict(self) -> dict[str, int]:
        """A JSON-ready dictionary."""
        return asdict(self)


NOTHING = Counts()  # to copy, not to count in
