"""Products of encrypted matrices as GEMMs modulo q (Bae, Cheon, Hanrot, Park, Stehlé 2024; Park 2025).

Written against `RowsEvaluator`; see "Products reduced to GEMM" in docs/algorithms.md. A matrix encrypted by columns
is given as the row encryption of its transpose.
"""

from __future__ import annotations

import math

from cipherblas.evaluators.rows.interface import RowsEvaluator
from cipherblas.evaluators.rows.values import UNKNOWN, Rows, Spread, spread_over
from cipherblas.rlwe.noise import TAIL


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
    (k, m), n = left.shape, right.shape[1]
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
    # (Δ1 M1 + E1)(Δ2 M2 + E2), entries as large as their bounds, and sums of them as far as they are known.
    # Errors of one factor meet the other one; where its norm is known, all of them together grow by that.
    both, (of_right, from_right) = TAIL * left.noise * right.noise * k, _met(right, left)
    of_left, from_left = _met(left, right)
    independent = independent and left.independent and right.independent
    noise = math.hypot(of_right, of_left) if independent else of_right + of_left
    noise += both
    bias = left.scale * left.total * right.bias + (right.scale * right.total + k * right.bias) * left.bias
    more = spread_over((m, n), both, k * right.bias * left.bias)
    return ev.read_as(
        total,
        scale=left.scale * right.scale / dropped,
        bound=min(left.total * right.bound, left.bound * right.total, most),
        noise=noise / dropped,
        bias=bias / dropped,
        spread=from_right.plus(from_left).plus(more).times(1 / dropped),
    )


def _met(x: Rows, other: Rows) -> tuple[float, Spread]:
    """Noise of the sums of errors of x that entries of another matrix weigh, and what is known of these together."""
    noise = other.scale * x.weighed_by(other)
    if math.isinf(other.norm):
        return noise, UNKNOWN
    spread = x.together.times(other.scale * other.norm)
    return min(noise, spread.noise), spread
