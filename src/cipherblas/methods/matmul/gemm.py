"""Products of encrypted matrices as GEMMs modulo q (Bae, Cheon, Hanrot, Park, Stehlé 2024; Park 2025).

Written against `RowsEvaluator`; see "Products reduced to GEMM" in docs/algorithms.md. A matrix encrypted by columns
is given as the row encryption of its transpose.
"""

from __future__ import annotations

import math

from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.rows.values import Rows


def secret_product(
    ev: RowsEvaluator, left: Rows, right: Rows, independent: bool = False, most: float = math.inf
) -> Rows:
    """M1 @ M2, encrypted by rows, from M1 encrypted by columns and M2 encrypted by rows.

    With M1 = Sᵀ·A1 + B1 and M2 = A2·S + B2,
        M1·M2 = Sᵀ·W + (B1·A2·S + B1·B2),   W = A1·M2 = (A1·A2)·S + A1·B2,
    so that four GEMMs give a row encryption of the second term and one of W, exactly. Sᵀ·W is the transpose of
    Wᵀ·S: transpose W, multiply each row by the secret, transpose back.

    Args:
        left: row encryption of M1ᵀ (k × m), m <= N.
        right: row encryption of M2 (k × n), n <= N.
        apart: no operand is in both, so that the errors of fresh ones have nothing in common.
        most: what the caller knows that no entry exceeds.

    Where both are one encryption, as of Xᵀ·X, two of the GEMMs are of symmetric matrices, and two are one.

    Levels: those above the limbs that keys serve, or the moduli of operands: both terms are divided by them before
    anything is switched. The modulus must hold the product of both scales. Keys: those of `transpose` and
    `relinearise`.
    """
    m, n = left.shape[1], right.shape[1]
    rest: Rows | None = None
    if left is right:
        w, rest = ev.gram_products(right)
    else:
        w = ev.part_product(ev.parts(left)[0], right)
    w = ev.at_key_limbs(w)
    transposed = ev.take(ev.transpose(w, last_use=True), n, ev.n)
    del w
    transposed = ev.relinearise(transposed)
    first = ev.take(ev.transpose(transposed, last_use=True), m, n)
    del transposed
    if rest is None:
        rest = ev.part_product(ev.parts(left)[1], right)
    total = ev.add(first, ev.at_key_limbs(rest))
    dropped = ev.dropped(left.basis, total.basis)
    errors = ev.policy.row_product_errors(left, right, independent)
    scale = ev.policy.row_product(left.scale, right.scale)
    return ev.read_as(
        total,
        scale=ev.policy.switched(scale, left.basis, total.basis),
        bound=min(left.total * right.bound, left.bound * right.total, most),
        noise=errors.noise / dropped,
        bias=errors.bias / dropped,
        spread=errors.spread.times(1 / dropped),
    )
