"""Module (MLWE) rows: ring degree d, rank N/d, for rows shorter than N."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cipherblas.common.errors import ShapeError
from cipherblas.common.memory import Array
from cipherblas.crypto.params import Parameters
from cipherblas.rlwe.matrices.matrix import CoefficientMatrix, bit_ceil


@dataclass(frozen=True, eq=False)
class ModuleRows(CoefficientMatrix):
    """Row i of the matrix in one MLWE ciphertext: b_i + Σ_u a_{i,u}·s_u = scale·M_i in R_d = Z[Y]/(Y^d + 1).

    d is the least power of two that is at least the number of columns; the sub-secrets s_u are the parts of the RLWE
    secret, s(X) = Σ_u X^u·s_u(X^(N/d)), so that RLWE rows split into module rows without a key.

    a: (limbs, rows, N): the N/d polynomials a_u of a row one after the other; b: (limbs, rows, cols).
    """

    NAME: ClassVar[str] = "module-rows"

    @classmethod
    def check_shape(cls, params: Parameters, shape: tuple[int, int]) -> None:
        """Raise ShapeError when a row is longer than N."""
        if shape[1] > params.n:
            raise ShapeError("length of a module row", expected=f"at most N = {params.n}", got=shape[1])

    @property
    def degree(self) -> int:
        """d: the ring degree."""
        return bit_ceil(self.shape[1])

    @property
    def rank(self) -> int:
        """N/d: the number of sub-secrets."""
        return self.params.n // self.degree

    @property
    def lattice_dimension(self) -> int:
        """Rank × degree = N."""
        return self.rank * self.degree


def to_ring(params: Parameters, a: Array, degree: int) -> Array:
    """The element A of R_N whose product with s has, at the multiples of X^(N/d), the coefficients of Σ_u a_u·s_u.

    With s(X) = Σ_u X^u·s_u(X^(N/d)) that is A(X) = Σ_u X^(-u)·a_u(X^(N/d)).

    Args:
        a: uint64 (limbs, rows, N), N/d polynomials of degree d per row.

    Returns:
        uint64 (limbs, rows, N).
    """
    back = np.argsort(_places(params.n, degree, 0))
    ring: Array = np.take(_negated_wraps(params, a, degree), back, axis=2)
    return ring


def from_ring(params: Parameters, a: Array, degree: int, shift: int) -> Array:
    """The N/d polynomials a_u such that Σ_u a_u·s_u has the coefficients of (a·s)(X) at X^shift·X^(k·N/d).

    The inverse of `to_ring` for shift 0; X^shift is divided out first.

    Args:
        a: uint64 (limbs, rows, N), elements of R_N.
        shift: 0 to N/d - 1.

    Returns:
        uint64 (limbs, rows, N).
    """
    taken: Array = np.take(a, _places(params.n, degree, shift), axis=2)
    return _negated_wraps(params, taken, degree, shift)


def _places(n: int, degree: int, shift: int) -> Array:
    """Where coefficient k of a_u lies in R_N, for (u, k) in C order: at X^(k·N/d - u + shift), modulo X^N."""
    rank = n // degree
    u, k = np.arange(rank)[:, None], np.arange(degree)[None, :]
    places: Array = (k * rank - u + shift) % n
    return places.reshape(-1)


def _negated_wraps(params: Parameters, a: Array, degree: int, shift: int = 0) -> Array:
    """A copy with the coefficients negated that X^N = -1 wraps round: those with k = 0 and u > shift."""
    result: Array = a.copy()
    wrapped = result.reshape(*a.shape[:2], params.n // degree, degree)[:, :, shift + 1 :, 0]
    moduli = np.array(params.q[: a.shape[0]], np.uint64)[:, None, None]
    wrapped[...] = np.where(wrapped == 0, wrapped, moduli - wrapped)
    return result
