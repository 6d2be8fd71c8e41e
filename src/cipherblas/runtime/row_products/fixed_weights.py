"""Products of constants that have keys of their own: a GEMM with the b part, and a key for each row."""

from __future__ import annotations

from cipherblas.forms.row_forms import SharedRowForm
from cipherblas.lang.analysis import is_constant
from cipherblas.lang.nodes import Expression
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.placing import RequiredRows
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.kind import FactorRequest, Variant
from cipherblas.runtime.row_products.known import known_most
from cipherblas.runtime.values import Handles, Value


class WeightsInKeys(Variant):
    """A product of a constant and an operand that the secret key encrypts: the secrets of rows that share their a parts
    are the client's, so that no public key encrypts them. Other products are computed as without."""

    name = "fixed"
    in_pieces = True

    @classmethod
    def applies(cls, product: Expression, program: Expression) -> bool:
        clear, other = sorted(product.children, key=lambda part: part.secret)
        own = other.operand is not None and not other.operand.public_key
        return not clear.secret and is_constant(clear) and own

    def compute(
        self, run: RowPieces, product: Expression, required: RequiredRows, request: FactorRequest
    ) -> Value:
        ((side, requested),) = request.requirements.items()
        secret, number = product.children[side], len(run.run.fixed_factors)
        factor = request.factor
        run.run.fixed_factors.append(factor(run.inputs))
        x = run.operand(secret, requested._replace(kind=SharedRowForm))
        unit = abs(x.unit)

        def multiplied(context: RunContext, rows: Handles) -> Handles:
            most = known_most(product, rows, unit, secret)
            return context.rows.fixed_product(factor(context.inputs), number, rows[0], most)

        cells = run.made("multiply", [x.cells], multiplied)
        return run.result(product.shape, required.by_columns, cells, x.unit, (request.in_bytes, False))
