"""Functions with a jump or a kink, by compositions of odd polynomials that are near to the sign function: `sign`,
`greater`, `relu`."""

from __future__ import annotations

from typing import Any

import numpy as np

from cipherblas.common.errors import Advice, PrecisionError, RangeError
from cipherblas.lang.approximation import called
from cipherblas.lang.arguments import node_of, positive
from cipherblas.lang.batches import entrywise
from cipherblas.lang.curves import Gated
from cipherblas.lang.deferred import COARSEST, Deferred, Fitted
from cipherblas.lang.minimax import COARSER, composition
from cipherblas.lang.nodes import Expression, Written
from cipherblas.lang.polynomials import Polynomial
from cipherblas.lang.samples import as_bounded

MAX_MARGIN = 0.99  # margin of a comparison, of the bound
# Of the bound of what `relu` is of, by which the interval of its polynomials exceeds it: they are steep at the ends.
RELU_REACH = 2.0**-5


@entrywise
def sign(x: Expression, *, margin: float, precision: float | None = None) -> Expression:
    """Return -1 for entries up to -margin and 1 for entries from margin on. Entries lie in [-bound, bound] of x.

    Entries between -margin and margin give any value from -1 - precision to 1 + precision, and those at zero 0.

    Args:
        margin: in the units of x, below its bound.
        precision: the largest error outside of the margin; None leaves it to `cb.compile`: as fine as the precision of
            the program needs it.

    Levels: the minimum over compositions of minimax polynomials of degrees 3, 7, 15 and 31 (Lee et al.
    2021): 7 for a margin of 0.1 of the bound and a precision of 1e-3. Key: relinearisation.

    Errors: those of encryption are amplified most around zero, and are planned for entries there too.

    Raises:
        RangeError: the margin is not between 0 and the bound. PrecisionError: more than 24 levels would be needed.
        DTypeError: of the arguments.
    """
    return _sign(x, margin, precision, "sign")


def _sign(x: Expression, margin: float, precision: float | None, name: str) -> Expression:
    found = positive(margin, "margin of a comparison")
    bound = _bound(x)
    if found >= bound:
        raise RangeError(
            "The margin of a comparison must be below the bound of what is compared.",
            got=found,
            advice=f"a margin below {bound:g}",
        )

    def fit(x: Expression, precision: float) -> Fitted:
        least = found if found < x.bound else MAX_MARGIN * x.bound
        return Fitted(_composed(x, least, precision, x.bound), 1.0)

    if precision is None:
        return Deferred(x, name, fit, found, np.sign, found)
    return called(name, x, fit(x, positive(precision, "precision of a comparison", 1.0)).node)


@entrywise
def greater(x: Expression, threshold: Any, *, margin: float, precision: float | None = None) -> Expression:
    """Return 1 where an entry exceeds the threshold by `margin` or more, and 0 where it lies `margin` or more below it.

    Entries nearer to the threshold give any value from -precision to 1 + precision.

    Args:
        threshold: a number, or an array that can be broadcast to the shape of x.
        margin, precision: as `sign` of x - threshold has them, whose bound is that of x and the largest threshold
            together; the error is half of that of the sign.

    Levels, errors: those of `sign`.
    """
    _bound(x)
    finer = None if precision is None else min(1.0, 2 * positive(precision, "precision"))
    return 0.5 * _sign(x - threshold, margin, finer, "greater") + 0.5


@entrywise
def relu(x: Expression, *, precision: float | None = None) -> Expression:
    """Return the larger of each entry and zero, as x·(1 + sign(x))/2. Entries lie in [-bound, bound] of x.

    Args:
        precision: the largest error, relative to the bound of x; None leaves it to `cb.compile`: as fine as the
            precision of the program needs it.

    Levels: those of `sign` for a margin of precision·bound, and one: 10 for a precision of 1e-2, 15 for 1e-3.
    Key: relinearisation.

    Errors, Raises: as `sign`.
    """
    _bound(x)
    if precision is None:
        return Deferred(x, "relu", _relu, (), _positive)
    return called("relu", x, _relu(x, positive(precision, "precision of relu", 0.25)).node)


def _relu(x: Expression, precision: float) -> Fitted:
    # |x|·|sign(x) - s|/2 is at most margin/2·(2 + e) within the margin and bound·e/2 outside of it.
    reach = x.bound * (1 + RELU_REACH)
    halves = _composed(x, precision * x.bound * (1 - precision), 2 * precision, reach, stated=False)
    node: Expression = Gated(x, 0.5 * halves + 0.5, precision * x.bound, 1.0, "relu")
    node.written = Written(_positive, x)
    return Fitted(node, x.bound)


def _composed(
    x: Expression, margin: float, precision: float, reach: float, stated: bool = True
) -> Expression:
    """The composition, on [-reach, reach].

    Args:
        stated: the error of its last polynomial is; otherwise that of what it is a factor of.
    """
    value, low = x, margin
    try:
        stages = composition(margin / reach, precision)
    except PrecisionError as refused:
        if stated:  # else the margin follows the precision
            refused.advice = _nearer(margin / reach, precision)
        raise
    with as_bounded():  # each is near to the sign on the whole range of the one before it
        for stage in stages:
            last, argument = stage is stages[-1], value
            error = stage.error if stated and last else 0.0
            value = Polynomial(argument, stage.coefficients, max(reach, argument.bound), error, "sign")
            if last and stated:  # the others leave signs as they are
                value.written = Written(np.sign, argument, low)
            reach, low = value.bound, 1 - stage.error
    return value


def _nearer(low: float, precision: float) -> tuple[Advice, ...]:
    """Return advice for a precision that no composition reaches."""
    found = ["a larger margin=…", "cb.assume(x, bound), where its entries stay below"]
    if not _exists(MAX_MARGIN, precision):
        return (Advice(COARSER),)
    return tuple(map(Advice, [COARSER, *found] if _exists(low, COARSEST) else found))


def _exists(low: float, precision: float) -> bool:
    try:
        composition(low, precision)
    except PrecisionError:
        return False
    return True


def _positive(x: Any) -> Any:
    return np.maximum(x, 0.0)


def _bound(x: Any) -> float:
    return node_of(x, "The argument of a comparison").bound
