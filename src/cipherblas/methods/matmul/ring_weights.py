"""Products of encrypted and clear matrices as products of ring elements and clear polynomials of few coefficients.

A GEMM mixes rows of N coefficients, of which d = N/r mean something. A polynomial multiplies all of them by r numbers
at once: of rows that are placed, or packed (`ring_elements`),

    Σ_c x_c(Y)·(Σ_u w_uc·X^(t_u)) = Σ_u (Σ_c w_uc·x_c)(Y)·X^(t_u)   packs what is placed (`packed_product`),
    (Σ_u x_u(Y)·X^(t_u))·(Σ_u w_u·X^(-t_u)) has Σ_u w_u·x_u(Y) at powers of Y, beside what means nothing
                                                                        (`gathered_product`).

So a product of secrets one factor of which is a product with a clear matrix needs that factor nowhere:
Q·(x·W)ᵀ = (Q·Wᵀ)·xᵀ, and P·(x·W) = (P·x)·W.

Source: clear matrices in coefficients, Huang, Lu, Hong, Ding, "Cheetah" (2022).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.arrays import bit_reversed
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import ClearFactor, Ct, Polynomials
from cipherblas.methods.matmul.ring_elements import Elements, Errors


def packed_product(
    evs: Evaluators, factor: ClearFactor, x: Elements, each: int, *, negative: bool = False
) -> Elements:
    """factor @ x for placed rows x: its rows packed, `each` in an element.

    Levels: none; the modulus must hold the product. Keys: none.

    Args:
        negative: row u of an element at X^(-t_u).
    """
    m, k = factor.shape
    count, place = -(-m // each), bit_reversed(each)

    def integers() -> NDArray[np.int64]:
        rows = np.zeros((count * each, k), np.int64)
        rows[:m] = factor.integers()
        if negative:
            rows = -rows
        found = np.empty((count, k, each), np.int64)
        found[:, :, each - 1 - place if negative else place] = rows.reshape(count, each, k).transpose(0, 2, 1)
        return found

    bound, ev = factor.gain * x.cts[0].bound, evs.elements
    cts = ev.polynomial_sums(x.cts, Polynomials((count, k, each), factor.unit, integers), bound)
    cts = _reversed(ev, cts, each) if negative else cts
    # Every coefficient gathers those at `each` powers of X of all elements, one of which means something.
    strays = _weighed(x.errors, x.errors.strays[0], factor, each - 1)
    errors = _weighted(factor, x.errors)
    worst = errors.worst + (each - 1) * factor.largest_sum * x.errors.strays[1]
    noise = math.hypot(errors.noise, strays)
    message = cts[0].scale * bound
    return Elements(cts, Errors(message, noise, errors.bias, worst, (noise, worst)))


def gathered_product(
    evs: Evaluators,
    factor: ClearFactor,
    x: Elements,
    each: int,
    first: int = 0,
    most: float = math.inf,
) -> Elements:
    """factor @ x for packed rows x: an element for each row, at the multiples of X^each, beside what means nothing.

    The words are those of a GEMM. Levels: none; the modulus must hold the product. Keys: none.

    Args:
        first: rows of others that the first element begins with.
        most: what no entry of the product exceeds, as the caller knows.
    """
    m, k = factor.shape
    count, place = len(x.cts), bit_reversed(each)

    def integers() -> NDArray[np.int64]:
        rows = np.zeros((m, count * each), np.int64)
        rows[:, first : first + k] = factor.integers()
        found = np.empty((m, count, each), np.int64)
        found[:, :, each - 1 - place] = -rows.reshape(m, count, each)
        return found

    bound, ev = min(factor.gain * x.cts[0].bound, most), evs.elements
    polynomials = Polynomials((m, count, each), factor.unit, integers)
    cts = ev.polynomial_sums(_reversed(ev, x.cts, each), polynomials, bound)
    return Elements(cts, replace(_weighted(factor, x.errors), message=cts[0].scale * bound))


def _reversed(ev: Evaluator, cts: Sequence[Ct], each: int) -> list[Ct]:
    """-X^(1 - r)·ct of each, whose polynomials are turned round and negated."""
    if each == 1:
        return [ev.negate(ct) for ct in cts]
    return [ev.times_monomial(ct, ev.n + 1 - each) for ct in cts]


def _weighted(factor: ClearFactor, errors: Errors) -> Errors:
    """Of sums of coefficients that mean something; half a unit of every entry of a factor that was rounded is off."""
    rounding = 0.0 if factor.exact else factor.shape[1] * 0.5 * errors.message
    return Errors(
        *(math.inf, _weighed(errors, errors.noise, factor, 1)),
        *(factor.largest_sum * errors.bias + rounding, factor.largest_sum * errors.worst + rounding),
        (math.inf, math.inf),
    )


def _weighed(errors: Errors, deviation: float, factor: ClearFactor, rows: int) -> float:
    """Of sums that some rows of a factor weigh, those of other coefficients; see `Encryption.weighed_noise`."""
    if errors.independent:
        return deviation * math.sqrt(factor.largest * factor.largest_sum * rows)
    return deviation * factor.largest_sum * math.sqrt(rows)
