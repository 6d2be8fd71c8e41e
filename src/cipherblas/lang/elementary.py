"""Functions of every entry that are smooth where it lies: `sigmoid`, `tanh`, `gelu`, `exp`, `inverse`, `sqrt`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cipherblas.common.errors import RangeError
from cipherblas.lang.approximation import chebyshev
from cipherblas.lang.arguments import number_of
from cipherblas.lang.batches import entrywise
from cipherblas.lang.nodes import Expression

erf_of_array = np.vectorize(math.erf, otypes=[np.float64])
MAX_EXPONENT = 400.0  # of exp: its values are doubles, and bounds that products do not leave


@entrywise
def sigmoid(x: Expression, *, degree: int | None = None, precision: float | None = None) -> Expression:
    """Return 1 / (1 + e^-x) of every entry. Entries lie in [-bound, bound] of x.

    On [-8, 8] a precision of 5e-5 takes degree 25 and 5 levels; the degree grows in proportion to the bound.
    Options, levels and errors: `chebyshev`.
    """
    return _on_bound(sigmoid_of_array, x, degree, precision, "sigmoid")


@entrywise
def tanh(x: Expression, *, degree: int | None = None, precision: float | None = None) -> Expression:
    """Return the hyperbolic tangent of every entry. Entries lie in [-bound, bound] of x.

    Options, levels and errors: `chebyshev`.
    """
    return _on_bound(np.tanh, x, degree, precision, "tanh")


@entrywise
def gelu(x: Expression, *, degree: int | None = None, precision: float | None = None) -> Expression:
    """Return x·Φ(x) of every entry, where Φ is the normal distribution function, as `torch.nn.functional.gelu` does.
    Entries lie in [-bound, bound] of x.

    Options, levels, errors: as for `chebyshev`; the precision is relative to the largest value, which is near the bound
    of x."""
    return _on_bound(gelu_of_array, x, degree, precision, "gelu")


@entrywise
def exp(x: Expression, *, degree: int | None = None, precision: float | None = None) -> Expression:
    """Return e^x of every entry. Entries lie in [-bound, bound] of x.

    Options, levels, errors: as for `chebyshev`; the precision is relative to e^bound.

    Raises:
        RangeError: a bound of x above 400, or as `chebyshev`.
    """
    if _bound_of(x) > MAX_EXPONENT:
        raise RangeError(
            "The exponential function could leave the range of doubles.",
            got=f"arguments up to {_bound_of(x):g}",
            advice=f"cb.exp(cb.assume(x, bound)), with a bound of at most {MAX_EXPONENT:g} that its entries keep",
        )
    return _on_bound(np.exp, x, degree, precision, "exp")


@entrywise
def inverse(
    x: Expression, *, lower: float, degree: int | None = None, precision: float | None = None
) -> Expression:
    """Return 1/x of every entry. Entries lie in [lower, bound] of x.

    Args:
        lower: above 0: your promise that no entry is smaller, which is checked nowhere (see `assume`). Where one is,
            the result is nothing like 1/x.
        degree, precision: as `chebyshev`; the precision is relative to 1/lower.

    The degree grows with sqrt(bound/lower): to 5e-5 it is 15 for 10, 49 for 100. Levels and errors: `chebyshev`.
    """
    low = _lower(x, lower, "an inverse")
    return chebyshev(
        *(_inverse, x),
        interval=(low, _bound_of(x)),
        degree=degree,
        precision=precision,
        promised=True,
        name="inverse",
    )


@entrywise
def sqrt(
    x: Expression, *, lower: float, degree: int | None = None, precision: float | None = None
) -> Expression:
    """Return the square root of every entry. Entries lie in [lower, bound] of x.

    Args:
        lower: above 0: your promise that no entry is smaller, which is checked nowhere (see `assume`). Where one is,
            the result is nothing like a root.
        degree, precision: as `chebyshev`; the precision is relative to the root of the bound.

    The degree grows with sqrt(bound/lower). Levels and errors: `chebyshev`.
    """
    low = _lower(x, lower, "a square root")
    return chebyshev(
        *(np.sqrt, x),
        interval=(low, _bound_of(x)),
        degree=degree,
        precision=precision,
        promised=True,
        name="sqrt",
    )


def _on_bound(f: Any, x: Expression, degree: int | None, precision: float | None, name: str) -> Expression:
    return chebyshev(f, x, degree=degree, precision=precision, name=name)


def _bound_of(x: Any) -> float:
    """The bound of a node; `chebyshev` refuses what is none."""
    return x.bound if isinstance(x, Expression) else 1.0


def _lower(x: Any, lower: Any, what: str) -> float:
    """The promised lower end of an interval; without a node, `chebyshev` refuses."""
    low = number_of(lower, f"lower end of the argument of {what}")
    most = _bound_of(x)
    if not 0 < low < most:
        raise RangeError(
            f"The argument of {what} must stay above 0.",
            got=low,
            advice=f"lower=… above 0 and below {most:g}, the bound of the argument",
        )
    return low


def sigmoid_of_array(x: Any) -> Any:
    """1 / (1 + e^-x) of every entry of an array in the clear."""
    return 0.5 + 0.5 * np.tanh(0.5 * np.asarray(x))


def gelu_of_array(x: Any) -> Any:
    """x·Φ(x) of every entry of an array in the clear."""
    return 0.5 * x * (1 + erf_of_array(np.asarray(x) * math.sqrt(0.5)))


def _inverse(x: Any) -> Any:
    return 1 / x
