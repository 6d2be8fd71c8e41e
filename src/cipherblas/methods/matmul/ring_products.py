"""Products of encrypted matrices as products of ring elements, where a matrix is small beside the ring.

A polynomial Σ_i x_i·X^(r·i) times Σ_j y_j·X^(t_j), t_j < r, has all products x_i·y_j as coefficients, each alone at
X^(r·i + t_j): an outer product. A sum of such products over the ciphertexts of both factors is a matrix product, at one
relinearisation. And an element Σ_ij p_ij·X^(r·i + t_j) times Σ_j y_j·X^(-t_j) has Σ_j p_ij·y_j at X^(r·i): a matrix
times a vector, beside what means nothing. Here t_j is the bit-reversed number j, as `forms.convert.coefficients` packs
rows. Zeros of a factor must be zeros: its rows hold all N coefficients, placed as `Placing` says.

Encoding matrices in coefficients like this: Cheon, Kim, Yhee, "Multi-dimensional packing for HEAAN" (2018); Huang, Lu,
Hong, Ding, "Cheetah" (2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from cipherblas.common.errors import ParameterError
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.values import Rows
from cipherblas.evaluators.slots.values import Ct
from cipherblas.methods.matmul.ring_elements import (
    Elements,
    Errors,
    packed_elements,
    placed,
    placed_elements,
    rows_of,
)
from cipherblas.rlwe.noise import TAIL

MAX_FACTORS = 256  # right factors in memory at once, as ring elements in NTT form
Rights = Callable[[int, int], "list[list[Ct]]"]  # the right factors of sums start to stop - 1


class SumTerms(NamedTuple):
    """Facts about the terms of a sum of products.

    Attributes:
        left, right: terms whose factor on that side is as large as its bound, if all others are zero.
        most: what no sum exceeds.
    """

    left: float = math.inf
    right: float = math.inf
    most: float = math.inf

    def of(self, number: int) -> tuple[float, float]:
        """The first two of a sum of so many."""
        return min(self.left, number), min(self.right, number)

    def bound(self, number: int, left: float, right: float) -> float:
        """Of a sum of so many products of factors up to these bounds."""
        return min(min(self.of(number)) * left * right, self.most)


ALL = SumTerms()


def outer_product(
    evs: Evaluators, wide: Rows, narrow: Sequence[Rows], count: int, degree: int, terms: SumTerms = ALL
) -> Rows:
    """Wᵀ·Y by columns, or Yᵀ·W by rows: one row for each column of Y, with as many entries as W has columns.

    Levels: none; the modulus must hold the product of both scales. Keys: relinearisation.

    Args:
        wide: k rows of N coefficients, entry i at r·i.
        narrow: the columns of Y in groups of r: k rows of N coefficients each, entry j at t_j.
        count: columns of Y.
        degree: entries of a row, N/r.
        terms: what is known of the sums, the wide factor on the left.

    Raises:
        LevelError: the modulus does not hold the product.
    """
    k, each = wide.shape[0], evs.elements.n // degree
    first = narrow[0]
    found = outer_elements(
        *(evs, placed_elements(evs, wide)),
        lambda start, stop: [placed(evs, group, 0, k) for group in narrow[start:stop]],
        Errors.of_rows(evs, first),
        sums=len(narrow),
        entries=(degree, min(each, count)),
        bound=terms.bound(k, wide.bound, first.bound),
        terms=terms,
    )
    return rows_of(evs, found, (count, degree))


def outer_elements(
    evs: Evaluators,
    x: Elements,
    rights: Rights,
    y: Errors,
    *,
    sums: int,
    entries: tuple[int, int],
    bound: float,
    terms: SumTerms = ALL,
) -> Elements:
    """`outer_product` of elements: packed rows, of so many sums.

    Args:
        y: errors of the right factors.
        entries: coefficients of a factor of either side that mean something.
        bound: of the entries of the product.
        terms: what else is known of them.
    """
    k, limbs, (of_x, of_y) = len(x.cts), x.cts[0].limbs, entries
    cts, errors, n = _sums_of_products(evs, x.cts, rights, sums, bound), x.errors, evs.elements.n
    any_x, any_y = (max(one.noise, one.strays[0]) for one in (errors, y))
    worst_x, worst_y = (max(one.worst, one.strays[1]) for one in (errors, y))
    left, right = terms.of(k)
    # Errors of different coefficients of a row are independent, those of different rows may come from one operand.
    noise = math.hypot(
        errors.message * y.met(left, of_x),
        y.message * errors.met(right, of_y),
        TAIL * any_x * any_y * math.sqrt(n) * k,
        math.sqrt(evs.rows.switch_variance(limbs)),
    )
    bias = left * errors.message * y.bias + (right * y.message + k * y.bias) * errors.bias
    worst = left * errors.message * y.worst_met(of_x) + right * y.message * errors.worst_met(of_y)
    worst += k * n * worst_x * worst_y + evs.rows.worst_switch(limbs)
    return Elements(cts, Errors(cts[0].scale * bound, noise, bias, worst, (noise, worst)))


def inner_product(
    evs: Evaluators, packed: Rows, narrow: Sequence[Rows], terms: int, known: SumTerms = ALL
) -> Rows:
    """P·Y by columns, or Yᵀ·Pᵀ by rows: one row for each row of `narrow`.

    Levels: none; the modulus must hold the product of both scales. Keys: relinearisation.

    Args:
        packed: rows j of P by columns, with entries i, as they came from ring elements, which may hold other rows too.
        narrow: Y by columns in groups of r of its rows, as the elements hold those of P: each as many rows of N
            coefficients as Y has columns, entry j at X^(-t_j), zeros where the elements hold other rows.
        terms: rows of Y.
        known: what is known of the sums, P on the left.

    Raises:
        ParameterError: the rows do not come from ring elements.
        LevelError: the modulus does not hold the product.
    """
    if packed.packed is None or len(packed.packed) != len(narrow):
        raise ParameterError(
            "The factor does not come from ring elements.",
            expected=f"{len(narrow)} of them",
            got=len(packed.packed or ()),
        )
    inner, first = evs.elements, narrow[0]
    limbs, count = min(packed.limbs, first.limbs), first.shape[0]
    whole = packed_elements(evs, packed)
    cts = [inner.drop(ct, limbs) for ct in whole.cts]
    # Errors of Y meet what else the elements hold.
    errors = replace(whole.errors, message=max(whole.errors.message, packed.others))

    def rights(start: int, stop: int) -> list[list[Ct]]:
        groups = [placed(evs, group, start, stop) for group in narrow]
        return [[inner.drop(ct, limbs) for ct in cts] for cts in zip(*groups, strict=True)]

    found = inner_elements(
        *(evs, Elements(cts, errors), rights, Errors.of_rows(evs, first)),
        sums=count,
        terms=terms,
        bound=known.bound(terms, packed.bound, first.bound),
        known=known,
    )
    return rows_of(evs, found, (count, packed.shape[1]), held=1)


def inner_elements(
    evs: Evaluators,
    x: Elements,
    rights: Rights,
    y: Errors,
    *,
    sums: int,
    terms: int,
    bound: float,
    known: SumTerms = ALL,
) -> Elements:
    """`inner_product` of elements: one for each of so many sums, at the multiples of X^r, beside what means nothing.

    Args:
        y: errors of the right factors.
        terms: rows that the elements of x hold.
        bound: of the entries of the product.
        known: what else is known of them.
    """
    limbs, of_x, coefficients = x.cts[0].limbs, x.errors, evs.elements.n * len(x.cts)
    cts = _sums_of_products(evs, x.cts, rights, sums, bound)
    # All coefficients of x meet errors of y, those that stand where y is zero among them.
    met = max(y.noise, y.strays[0]) * math.sqrt(coefficients)
    left, right = known.of(terms)
    noise = math.hypot(
        y.message * of_x.of_sums(right),
        of_x.message * met,
        TAIL * of_x.noise * met,
        math.sqrt(evs.rows.switch_variance(limbs)),
    )
    bias = left * of_x.message * y.bias + (right * y.message + terms * y.bias) * of_x.bias
    worst = of_x.worst * (right * y.message + terms * y.bias)
    worst += coefficients * (of_x.message + of_x.worst) * max(y.worst, y.strays[1])
    worst += evs.rows.worst_switch(limbs)
    return Elements(cts, Errors(cts[0].scale * bound, noise, bias, worst, (math.inf, math.inf)))


def _sums_of_products(
    evs: Evaluators, lefts: Sequence[Ct], rights: Rights, count: int, bound: float
) -> list[Ct]:
    """`count` sums of left_t·right_t, relinearised, whose entries are bounded."""
    inner, found = evs.elements, list[Ct]()
    together = max(1, MAX_FACTORS // len(lefts))
    for start in range(0, count, together):
        factors = rights(start, min(start + together, count))
        found += inner.relinearised_sums([lefts], factors, bound)[0]
    return found
