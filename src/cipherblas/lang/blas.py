"""The operations of BLAS, levels 1 to 3, by their names: formulas of nodes, as NumPy's operators write them.

Matrices are whole arrays: there are no leading dimensions, strides or flags for triangles, and nothing is overwritten.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cipherblas.common.arrays import is_scalar
from cipherblas.lang.array_functions import dot, outer
from cipherblas.lang.array_functions import squared_norm as nrm2_squared
from cipherblas.lang.nodes import Expression

__all__ = ["axpy", "dot", "gemm", "gemv", "ger", "nrm2_squared", "scal", "symm", "syrk"]


def axpy(alpha: Any, x: Any, y: Any) -> Expression:
    """alpha * x + y of vectors or matrices. Levels: none where alpha is a number."""
    result: Expression = alpha * x + y
    return result


def scal(alpha: Any, x: Expression) -> Expression:
    """alpha * x."""
    result: Expression = alpha * x
    return result


def gemv(alpha: Any, a: Any, x: Any, beta: Any = 0.0, y: Any = None, trans: bool = False) -> Expression:
    """alpha * a @ x + beta * y; a.T with `trans`. Levels: those of the product."""
    return gemm(alpha, a, x, beta, y, trans_a=trans)


def ger(alpha: Any, x: Any, y: Any, a: Any = None) -> Expression:
    """alpha * outer(x, y) + a."""
    found: Expression = alpha * outer(x, y)
    return found if a is None else found + a


def gemm(
    alpha: Any,
    a: Any,
    b: Any,
    beta: Any = 0.0,
    c: Any = None,
    trans_a: bool = False,
    trans_b: bool = False,
) -> Expression:
    """alpha * a @ b + beta * c; a.T and b.T where that is asked for. Levels: those of the product."""
    left, right = (np.asarray(part) if not isinstance(part, Expression) else part for part in (a, b))
    product = alpha * ((left.T if trans_a else left) @ (right.T if trans_b else right))
    result: Expression = product if c is None or (is_scalar(beta) and beta == 0) else product + beta * c
    return result


def syrk(alpha: Any, a: Expression, beta: Any = 0.0, c: Any = None, trans: bool = False) -> Expression:
    """alpha * a @ a.T + beta * c, with `trans` a.T @ a: the whole symmetric matrix."""
    return gemm(alpha, a, a, beta, c, trans_a=trans, trans_b=not trans)


def symm(alpha: Any, a: Any, b: Any, beta: Any = 0.0, c: Any = None, right: bool = False) -> Expression:
    """alpha * a @ b + beta * c of a symmetric matrix a, which is read whole; b @ a with `right`."""
    return gemm(alpha, b, a, beta, c) if right else gemm(alpha, a, b, beta, c)
