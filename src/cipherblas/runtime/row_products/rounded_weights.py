"""Products whose GEMMs are rounded where that adds no more than the noise does, or twice as much."""

from __future__ import annotations

from dataclasses import replace

from cipherblas.lang.nodes import Expression
from cipherblas.runtime.placing import RequiredRows
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.kind import FactorRequest, Variant

# Times the noise, that the rounding of GEMMs may be where that was chosen: a bit of the modulus for half the GEMMs.
MAX_ROUNDING = 2.0


class RoundedWeights(Variant):
    """A product with a clear factor, whose GEMM may be rounded by more than the noise."""

    name = "rounded"

    @classmethod
    def applies(cls, product: Expression, program: Expression) -> bool:
        return not all(child.secret for child in product.children)

    def request(
        self, run: RowPieces, product: Expression, required: RequiredRows, bounds: tuple[float, float]
    ) -> FactorRequest:
        found = self.beneath.request(run, product, required, bounds)
        factor = found.factor
        return replace(found, clear=lambda inputs: replace(factor(inputs), rounding=MAX_ROUNDING))
