"""Infeasibility as a result: something cannot be computed in one way; another way may do.

Whoever computes without data raises where a ring has too few limbs, where a block does not fit, or where a budget is
exceeded. `attempted` is the one place of the planner that catches this. Every other exception is a fault, of a method
or of the planner itself, and ends `compile`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cipherblas.common.errors import (
    CipherblasError,
    FitError,
    LevelError,
    MemoryBudgetError,
    PrecisionError,
    SecurityError,
    UnmatchedError,
    UnsuitedError,
    WorkBudgetError,
)
from cipherblas.crypto.params import TooFewPrimesError

T = TypeVar("T")
Kinds = type[CipherblasError] | tuple[type[CipherblasError], ...]


class TooSlowError(CipherblasError):
    """A candidate is not worth counting to its end."""


class DearError(TooSlowError):
    """A candidate takes more seconds than it may, as far as it was counted.

    Attributes:
        least: seconds that it takes at least.
    """

    def __init__(self, least: float) -> None:
        super().__init__("the program takes more than it may")
        self.least = least


INFEASIBLE: tuple[type[CipherblasError], ...] = (
    FitError,  # a block, a layer or a row is too large
    LevelError,  # a ring has too few limbs
    MemoryBudgetError,  # a budget of bytes
    PrecisionError,  # no ring is so precise
    SecurityError,  # primes as they are found exceed the modulus that is secure
    TooFewPrimesError,
    TooSlowError,
    UnmatchedError,  # scales cannot be made equal on a ring
    UnsuitedError,  # a method does not take these options, or levels of several limbs
    WorkBudgetError,
)


@dataclass(frozen=True)
class Infeasible:
    """The reason why something cannot be computed in one way.

    Attributes:
        error: what a user is told where no other way does.
    """

    error: CipherblasError


def attempted(work: Callable[[], T], only: Kinds = INFEASIBLE) -> T | Infeasible:
    """Return the result of `work`, or the reason why it is infeasible.

    A reason that is kept holds no frames: these hold everything that was counted until there, and the reason itself.

    Args:
        only: of these reasons; others are raised.
    """
    try:
        return work()
    except only as error:
        infeasible = Infeasible(error)
    reason: BaseException | None = infeasible.error
    while reason is not None and reason.__traceback__ is not None:
        reason.__traceback__ = None
        reason = reason.__cause__ or reason.__context__
    return infeasible


def feasible(found: T | Infeasible) -> T:
    """Return the result of an attempt; raise its error if it is infeasible."""
    if isinstance(found, Infeasible):
        raise found.error
    return found
