"""Products of a clear matrix and rows: two GEMMs for each limb."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import strips
from cipherblas.common.errors import ParameterError
from cipherblas.evaluators.rows.values import EXACT_BITS
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.lang.analysis import integral_nodes
from cipherblas.lang.nodes import Expression, matrix_shape
from cipherblas.rlwe.counts import Counts
from cipherblas.runtime.executor import Steps
from cipherblas.runtime.inputs import Inputs
from cipherblas.runtime.listing import RunContext
from cipherblas.runtime.placing import RequiredRows
from cipherblas.runtime.row_pieces import RowPieces
from cipherblas.runtime.row_products.kind import Factor, FactorRequest, RowProduct
from cipherblas.runtime.row_products.known import known_most, known_norm
from cipherblas.runtime.values import Handles, Value


class ClearFactors(RowProduct):
    """A clear factor gives the orientation: on the left rows, on the right columns."""

    name = "clear"

    @classmethod
    def applies(cls, product: Expression, program: Expression) -> bool:
        return sum(child.secret for child in product.children) == 1

    def request(
        self, run: RowPieces, product: Expression, required: RequiredRows, bounds: tuple[float, float]
    ) -> FactorRequest:
        factor = clear_factor(run, product, transposed=required.by_columns)
        scale = run.ev.policy.scaled(required.scale, factor(run.inputs).unit)
        return FactorRequest({secret_side(product): required._replace(scale=scale)}, factor)

    def compute(
        self, run: RowPieces, product: Expression, required: RequiredRows, request: FactorRequest
    ) -> Steps[Value]:
        ((side, requested),) = request.requirements.items()
        secret = product.children[side]
        x = yield from run.read(secret, requested)
        of_inputs, in_bytes = request.factor, request.in_bytes
        unit = abs(x.unit)

        def multiplied(context: RunContext, pieces: Handles) -> Handles:
            most = math.inf if in_bytes else known_most(product, pieces, unit, secret)
            factor = of_inputs(context.inputs).once()
            return [context.rows.clear_product(factor, piece, most) for piece in pieces]

        cells = run.made("multiply", [x.cells], multiplied)
        return run.result(product.shape, required.by_columns, cells, x.unit, (in_bytes, False))

    def counts(self, product: Expression, n: int, limbs: int) -> Counts:
        """Of the GEMM with the a part, where that is one of float64 numbers."""
        left, right = product.children
        (rows, inner), cols = left.shape, right.shape[1]
        return Counts(float_macs=(rows if right.secret else cols) * inner * n * limbs)

    def scale(self, run: RowPieces, product: Expression, known: Sequence[float]) -> float:
        return (
            known[0] / clear_factor(run, product, transposed=bool(run.orientation(product)))(run.inputs).unit
        )


def secret_side(product: Expression) -> int:
    """The side of the secret factor of a product with a clear one."""
    return 1 if product.children[1].secret else 0


def clear_factor(run: RowPieces, product: Expression, transposed: bool) -> Factor:
    """The clear factor of a product in integers: as it is where that is exact, else rounded as was chosen.

    Raises:
        ParameterError: the bits of rounded weights were not decided.
    """
    node = next(child for child in product.children if not child.secret)
    rows, cols = matrix_shape(node)
    shape = (cols, rows) if transposed else (rows, cols)
    policy = run.ev.policy
    bound = policy.clear_bound(node.bound)
    exact = integral_nodes(node)[id(node)] and sums_are_exact(bound, shape[1])
    bits = _weight_bits(run, product)
    if exact:
        unit = min(bound, 1.0)  # whole numbers below 1 are zeros, which are whole in any unit
    else:
        bits = min(bits, most_weight_bits(shape[1]))
        # The same of weights like each other: one encryption serves their products.
        unit = (2.0 ** math.ceil(math.log2(node.bound)) if run.run.refreshed else node.bound) / 2**bits

    def integers(inputs: Inputs) -> NDArray[Any]:
        values = inputs.given(node)
        if not exact:
            values = rounded(values, unit, bits)
        elif bound < node.bound:
            values = policy.clear_entries(values)
        elif values.dtype.kind == "f":
            values = values.astype(np.float64, copy=False)
        return values.T if transposed else values

    total = node.column_sum if transposed else node.row_sum
    known = (total, known_norm(node)) if bound == node.bound else ()

    def of_inputs(inputs: Inputs) -> ClearFactor:
        own = functools.partial(integers, inputs)
        return ClearFactor((id(node), transposed), shape, bound, unit, exact, own, *known)

    return of_inputs


def _weight_bits(run: RowPieces, product: Expression) -> int:
    """Of its clear factor, where it must be rounded."""
    bits = run.run.choice(product).options.get("weight_bits")
    if bits is None:
        raise ParameterError(
            f"The decisions lack the bits of the weights of {product.title}.",
            expected="weight_bits",
            got="none",
        )
    return int(bits)


def rounded(values: NDArray[Any], unit: float, bits: int) -> NDArray[Any]:
    """values / unit, rounded to integers of so many bits and a sign, without a float64 copy of all of them."""
    integers = np.empty(values.shape, np.int32 if bits < 31 else np.float64)
    for rows in strips(values):
        integers[rows] = np.rint(np.divide(values[rows], unit, dtype=np.float64))
    return integers


def sums_are_exact(largest: float, terms: int) -> bool:
    """Whether a sum of so many integers up to `largest`, with any signs, is exact in float64."""
    return largest * terms < 2.0**EXACT_BITS


def most_weight_bits(terms: int) -> int:
    """Bits of rounded weights of which a sum of so many is exact in float64: keys of fixed weights are such sums."""
    return EXACT_BITS - 1 - math.ceil(math.log2(terms))
