"""Products of clear integers of two bytes and operands with moduli of their own: GEMMs of residues, which are bytes."""

from __future__ import annotations

from collections.abc import Sequence

from cipherblas.lang.exact import is_exact
from cipherblas.lang.modular import modulus_of
from cipherblas.lang.nodes import Expression
from cipherblas.rlwe.basis import OPERAND_BASIS
from cipherblas.runtime.placing import RequiredRows
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.byte_factors import has_two_bytes
from cipherblas.runtime.row_products.kind import FactorRequest, RingSearch, Size, Variant, refuse


class ReducedWeights(Variant):
    """The secret factor is an operand that the secret key encrypts, or a multiple of it. It is multiplied modulo its
    own moduli by the residues of the integers, and the product is switched to Q."""

    name = "moduli"
    alone = True

    @classmethod
    def applies(cls, product: Expression, program: Expression) -> bool:
        clear, other = sorted(product.children, key=lambda part: part.secret)
        while other.op == "scale":
            (other,) = other.children
        own = not clear.secret and other.operand is not None and not other.operand.public_key
        return own and has_two_bytes(clear)

    @classmethod
    def considered(cls, program: Expression, rounded_alone: bool) -> bool:
        return is_exact(program) or modulus_of(program) is not None

    @classmethod
    def taken(cls, run: RowPieces, product: Expression) -> bool:
        if run.ev.params.operand_moduli is None:
            return False
        if not super().taken(run, product):
            raise refuse(
                product,
                "A product is decided to be one of residues, which only those of an operand and clear integers may be.",
                "clear integers of two bytes, and an operand that the secret key encrypts",
            )
        return True

    def request(
        self, run: RowPieces, product: Expression, required: RequiredRows, bounds: tuple[float, float]
    ) -> FactorRequest:
        found = self.beneath.request(run, product, required, bounds)
        if required.basis not in (None, run.basis):
            return found
        return found.before_switch(run, OPERAND_BASIS)

    def sizes(self, search: RingSearch[Size]) -> Sequence[Size]:
        return search.of_operands()
