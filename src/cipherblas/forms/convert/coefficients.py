"""Between slots and coefficients: the canonical embedding as a homomorphic linear transform.

A ciphertext whose slots repeat with period h = d/2 holds h complex numbers z. As RLWE row of d entries they are the
real parts, then the imaginary parts: with Y = X^(N/d) the polynomial is Σ_k z_k·Y^k, since Y^h takes the value i at
every slot. Its slots are w_j = Σ_k z_k·ζ^(k·5^j), ζ a primitive 2d-th root of unity: a complex h × h matrix V with
V·V* = h·1. Both ways are one linear transform with h diagonals (SlotToCoeff and CoeffToSlot of bootstrapping, in one
stage), meant for small degrees; baby steps and giant steps need about 2·sqrt(2h) keys.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import ShapeError
from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.values import Ct, Plain, Transform
from cipherblas.rlwe.key_policies import Step
from cipherblas.rlwe.matrices.rlwe import RlweRows


def slots_to_coefficients(ev: Evaluator, x: Ct, degree: int) -> Ct:
    """SlotToCoeff: from slots z of period h = degree/2 to the polynomial Σ_k z_k·Y^k. Levels: 1.

    Args:
        ev: any evaluator; `Symbolic` declares the keys.
        x: slots that repeat with period h.
        degree: d, a power of two from 2 to N.

    Returns:
        A ciphertext whose coefficients are scale · (Re z_0, …, Re z_{h-1}, Im z_0, …) at the multiples of X^(N/d), for
        `rows_of`. Its slots, which the bound is about, may be h times larger.

    Raises:
        ShapeError: no such degree.
        LevelError: no level is left.
    """
    return _transformed(ev, x, degree, inverse=False)


def coefficients_to_slots(ev: Evaluator, x: Ct, degree: int) -> Ct:
    """CoeffToSlot: what a ciphertext of `ciphertexts_of` has at the multiples of X^(N/d), in slots of period d/2.

    For d < N the other coefficients, which rows do not store, are removed first by the trace to the subring, a sum over
    log2(N/d) rotations; it is exact whatever they are. Levels: 1. Arguments and errors as `slots_to_coefficients`.
    """
    _check_degree(ev.params.n, degree)
    step = ev.slots // 2
    while step >= degree // 2:
        x = ev.linear_transform(x, {0: None, step: None})
        step //= 2
    return _transformed(ev, ev.absorb(x, degree / ev.params.n), degree, inverse=True)


def rows_of(
    params: Parameters, words: Sequence[NDArray[np.uint64]], scale: float, cols: int, key_id: str = ""
) -> RlweRows:
    """The RLWE rows that ciphertexts hold in their coefficients, one row each.

    Args:
        words: of ciphertexts that `slots_to_coefficients` made at degree bit_ceil(cols), as an engine downloads them:
            uint64 (2, limbs, N) in NTT form, of equal limbs.
        scale: of all of them.
        cols: entries of a row.

    Raises:
        ShapeError: an array has another shape; more columns than N, or no ciphertext.
    """
    if not words:
        raise ShapeError("rows", expected="at least one ciphertext", got=0)
    expected = (2, words[0].shape[1], params.n)
    for one in words:
        if one.shape != expected:
            raise ShapeError("ciphertexts that hold rows", expected=expected, got=one.shape)
    shape = (len(words), cols)
    RlweRows.check_shape(params, shape)
    context = params.context()
    b, a = (context.rows_from_ntt(np.stack([one[part] for one in words])) for part in (0, 1))
    stride = params.n // (1 << (cols - 1).bit_length())
    stored = np.ascontiguousarray(b[:, :, ::stride][:, :, :cols])
    return RlweRows(params, shape, scale, stored, a, key_id)


def ciphertexts_of(rows: RlweRows) -> list[NDArray[np.uint64]]:
    """The ciphertexts of RLWE rows for the `Native` evaluator: uint64 (2, limbs, N), NTT form.

    Only the multiples of X^(N/d) are the message; `coefficients_to_slots` removes the rest.

    Raises:
        ShapeError: the rows are not as long as their ring degree d: what they do not store would remain.
    """
    params, (count, cols) = rows.params, rows.shape
    if cols != rows.degree:
        raise ShapeError("columns of rows that become slots", expected="a power of two", got=cols)
    full = np.zeros((rows.limbs, count, params.n), np.uint64)
    full[:, :, :: params.n // cols] = rows.b
    parts = [params.context().rows_to_ntt(np.ascontiguousarray(part)) for part in (full, rows.a)]
    return [np.stack([b, a]) for b, a in zip(*parts, strict=True)]


def _check_degree(n: int, degree: int) -> None:
    if not 2 <= degree <= n or degree & (degree - 1):
        raise ShapeError("degree", expected=f"a power of two from 2 to N = {n}", got=degree)


def _transformed(ev: Evaluator, x: Ct, degree: int, *, inverse: bool) -> Ct:
    _check_degree(ev.params.n, degree)
    x = ev.ready(x)
    ev.require_levels(x, 1, "the canonical embedding")
    h = degree // 2
    # Giant rotations are not hoisted and count about twice: sqrt(2h) baby steps.
    baby_steps = min(h, 1 << math.ceil(math.log2(2 * h) / 2))
    result: Ct = ev.linear_transform(x, _embedding(ev.slots, degree, inverse), baby_steps=baby_steps)
    return result


@functools.lru_cache(maxsize=8)
def _embedding(slots: int, degree: int, inverse: bool) -> Transform:
    """V, or its inverse V*/h, by diagonals that repeat with period h."""
    h = degree // 2
    size = 1.0 / h if inverse else 1.0
    terms: dict[Step, Plain | None] = {}
    for step in range(h):
        values = functools.partial(_diagonal, slots, degree, step, inverse)
        terms[step] = Plain(("embedding", slots, degree, inverse, step), values, size, constant=True)
    norm = size * math.sqrt(h)
    return Transform(terms, size * h, norm, ("embedding", slots, degree, inverse))


def _diagonal(slots: int, degree: int, step: int, inverse: bool) -> NDArray[Any]:
    """Entries (j, j + step) of the matrix, repeated over all slots."""
    h, order = degree // 2, 2 * degree
    powers = np.array([pow(5, j, order) for j in range(h)], np.int64)
    j = np.arange(h)
    k = (j + step) % h
    exponent = -j * powers[k] if inverse else k * powers[j]
    values = np.exp(2j * np.pi * (exponent % order) / order) / (h if inverse else 1)
    return np.tile(values, slots // h)
