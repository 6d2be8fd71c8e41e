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
from typing import Any, NamedTuple

from cipherblas.common.errors import ParameterError
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.values import Rows
from cipherblas.evaluators.slots.values import Ct
from cipherblas.rlwe.noise import TAIL

MOST_FACTORS = 256  # right factors in memory at once, as ring elements in NTT form


class _Factor(NamedTuple):
    """What the errors of a product depend on, of one factor.

    Attributes:
        message: its largest coefficient.
        entries: nonzero coefficients of an element that meet one coefficient of the other.
        noise, common: of a coefficient; and of a sum over the elements.
        bias, worst: of a coefficient that is not zero; the largest of any.
    """

    message: float
    entries: int
    noise: float
    common: float
    bias: float
    worst: float


def outer_product(evs: Evaluators, wide: Rows, narrow: Sequence[Rows], count: int, degree: int) -> Rows:
    """Wᵀ·Y by columns, or Yᵀ·W by rows: one row for each column of Y, with as many entries as W has columns.

    Levels: none; the modulus must hold the product of both scales. Keys: relinearisation.

    Args:
        wide: k rows of N coefficients, entry i at r·i.
        narrow: the columns of Y in groups of r: k rows of N coefficients each, entry j at t_j.
        count: columns of Y.
        degree: entries of a row, N/r.

    Raises:
        LevelError: the modulus does not hold the product.
    """
    k, each = wide.shape[0], evs.elements.n // degree

    def rights(start: int, stop: int) -> list[list[Ct]]:
        return [_elements(evs, group, 0, k) for group in narrow[start:stop]]

    datas = _sums_of_products(evs, _elements(evs, wide, 0, k), rights, len(narrow))
    first = narrow[0]
    width = min(each, count)
    x = _factor(evs, wide, degree, k)
    y = _factor(evs, first, width, k)
    noise, bias, worst = _errors(evs, x, y, k, wide.limbs)
    return evs.rows.of_elements(
        *(datas, (count, degree)),
        limbs=wide.limbs,
        scale=wide.scale * first.scale,
        bound=k * wide.bound * first.bound,
        noise=noise,
        worst=worst,
        bias=bias,
    )


def inner_product(evs: Evaluators, packed: Rows, narrow: Sequence[Rows], terms: int) -> Rows:
    """P·Y by columns, or Yᵀ·Pᵀ by rows: one row for each row of `narrow`.

    Levels: none; the modulus must hold the product of both scales. Keys: relinearisation.

    Args:
        packed: rows j of P by columns, with entries i, as they came from ring elements, which may hold other rows too.
        narrow: Y by columns in groups of r of its rows, as the elements hold those of P: each as many rows of N
            coefficients as Y has columns, entry j at X^(-t_j), zeros where the elements hold other rows.
        terms: rows of Y.

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
    inner, degree = evs.elements, packed.shape[1]
    limbs = min(packed.limbs, narrow[0].limbs)
    lefts = [
        inner.drop(inner.of_element(data, limbs=packed.limbs, scale=packed.scale, bound=packed.bound), limbs)
        for data in packed.packed
    ]
    first = narrow[0]
    message = max(packed.scale * packed.bound, packed.others)  # errors of Y meet what else the elements hold
    x = _Factor(
        *(message, terms, packed.noise, packed.noise_of_sums(terms), packed.bias),
        evs.rows.worst_error(packed),
    )
    # All coefficients of P meet errors of Y, those that stand where Y is zero among them.
    y = _factor(evs, first, inner.n * len(narrow), 1)
    noise = math.hypot(
        y.message * x.common,
        x.message * y.noise * math.sqrt(y.entries),
        TAIL * x.noise * y.noise * math.sqrt(y.entries),
        math.sqrt(evs.rows.switch_variance(limbs)),
    )
    bias = terms * (x.message * y.bias + (y.message + y.bias) * x.bias)
    worst = terms * x.worst * (y.message + y.bias) + y.entries * (x.message + x.worst) * y.worst
    worst += evs.rows.worst_switch(limbs)

    def rights(start: int, stop: int) -> list[list[Ct]]:
        groups = [_elements(evs, group, start, stop) for group in narrow]
        return [[inner.drop(ct, limbs) for ct in cts] for cts in zip(*groups, strict=True)]

    count = first.shape[0]
    return evs.rows.of_elements(
        *(_sums_of_products(evs, lefts, rights, count), (count, degree)),
        limbs=limbs,
        scale=packed.scale * first.scale,
        bound=terms * packed.bound * first.bound,
        noise=noise,
        worst=worst,
        bias=bias,
        held=1,
    )


def _sums_of_products(
    evs: Evaluators, lefts: list[Ct], rights: Callable[[int, int], list[list[Ct]]], count: int
) -> list[Any]:
    """Data of `count` sums of left_t·right_t, for the right factors of sums start to stop - 1."""
    inner, datas = evs.elements, []
    together = max(1, MOST_FACTORS // len(lefts))
    for start in range(0, count, together):
        factors = rights(start, min(start + together, count))
        datas += [inner.element_of(product) for product in inner.relinearised_sums(lefts, factors)]
    return datas


def _elements(evs: Evaluators, x: Rows, start: int, stop: int) -> list[Ct]:
    """Rows of N coefficients as ring elements."""
    datas = evs.rows.elements(x, start, stop)
    return [evs.elements.of_element(data, limbs=x.limbs, scale=x.scale, bound=x.bound) for data in datas]


def _factor(evs: Evaluators, x: Rows, entries: int, count: int) -> _Factor:
    return _Factor(
        *(x.scale * x.bound, entries, x.noise, x.noise_of_sums(count), x.bias, evs.rows.worst_error(x))
    )


def _errors(evs: Evaluators, x: _Factor, y: _Factor, k: int, limbs: int) -> tuple[float, float, float]:
    """Noise, bias and worst error of a sum of k outer products: errors of different coefficients of a row are
    independent, those of different rows may come from one operand."""
    n = evs.elements.n
    noise = math.hypot(
        x.message * y.common * math.sqrt(x.entries),
        y.message * x.common * math.sqrt(y.entries),
        TAIL * x.noise * y.noise * math.sqrt(n) * k,
        math.sqrt(evs.rows.switch_variance(limbs)),
    )
    bias = k * (x.message * y.bias + (y.message + y.bias) * x.bias)
    worst = k * (x.entries * x.message * y.worst + y.entries * y.message * x.worst + n * x.worst * y.worst)
    return noise, bias, worst + evs.rows.worst_switch(limbs)
