"""`refresh`: bootstrapping, where a program asks for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common import schema
from cipherblas.common.arrays import shape_text
from cipherblas.common.errors import ParameterError
from cipherblas.lang.arguments import node_of
from cipherblas.lang.batches import entrywise
from cipherblas.lang.facts import facts_of
from cipherblas.lang.layers import Same
from cipherblas.lang.nodes import Expression, operation, ordered
from cipherblas.lang.operands import BOUND_RANGE, checked_bound
from cipherblas.lang.operations import arranged
from cipherblas.lang.polynomials import RANGE_TOLERANCE

REFRESH, SINE = "refresh", "refresh_sine"
MAX_ROUNDS = 2
# Periods of sines, in bounds of their arguments: short ones magnify errors less near zero, and more at the bound.
SINE_PERIODS = (8, 6, 5)
SINE_PERIOD = SINE_PERIODS[0]


@operation
class Refresh(Same):
    """The same values, with all levels again.

    Args:
        placed: by the planner.
        rounds: of bootstrapping, 1 or 2.
    """

    op = REFRESH
    fields: ClassVar = {"placed": schema.flag, "rounds": schema.integer(1, MAX_ROUNDS)}

    def __init__(self, x: Expression, placed: bool = False, rounds: int = 1) -> None:
        self.x, self.placed, self.rounds = x, placed, rounds
        super().__init__(x.shape, x.secret, x.bound, x)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"placed": self.placed, "rounds": self.rounds}

    def text(self, parts: Sequence[str]) -> str:
        return f"{REFRESH}({parts[0]}{self._rounds})"

    @property
    def _rounds(self) -> str:
        return f", rounds={self.rounds}" * (self.rounds > 1)

    @property
    def title(self) -> str:
        return f"{REFRESH} {shape_text(self.shape)}{self._rounds}" + ", placed by the planner" * self.placed

    def integral(self, parts: Sequence[bool]) -> bool:
        return False  # it is off by more than rounding takes away

    def _transpose(self) -> Expression:
        return Refresh(self.x.T, self.placed, self.rounds)

    def arranged(self, step: Any) -> Expression:
        return Refresh(arranged(self.x, step), self.placed, self.rounds)


@operation
class RefreshedSine(Expression):
    """sin(2π·x / (period·reach)) of every entry, with all levels again: what bootstrapping finds before anything
    makes a line of it. A polynomial of that sine is any function of x, and messages may be so large that errors of
    bootstrapping count 128 times less. It is that sine of entries beyond the reach as well.

    Args:
        reach: bound of x.
        placed: by the planner, as its refresh is.
        period: in units of the reach.
        clamped: polynomials of it are bounded for all entries, beyond the reach as well, and off their functions by so
            many times as much as others would be; 0: they are not.

    Source: the sine of EvalMod as the variable of a function: Alexandru, Kim, Polyakov, "General functional
    bootstrapping using CKKS" (2024), there for tables.
    """

    op = SINE
    fields: ClassVar = {"reach": schema.number(*BOUND_RANGE), "placed": schema.flag}
    optional: ClassVar = {
        "period": schema.integer(min(SINE_PERIODS), max(SINE_PERIODS)),
        "clamped": schema.number(0.0, BOUND_RANGE[1]),
    }

    def __init__(
        self,
        x: Expression,
        reach: float,
        placed: bool = False,
        period: int = SINE_PERIOD,
        clamped: float = 0.0,
    ) -> None:
        self.x, self.reach, self.placed, self.period = x, checked_bound(float(reach)), placed, period
        self.clamped = float(clamped)
        if x.bound > self.reach * (1 + RANGE_TOLERANCE):
            raise ParameterError(
                "The argument of a sine exceeds its reach.",
                expected=f"at most {reach:g}",
                got=x.bound,
            )
        bound = math.sin(self.rate * min(x.bound, self.reach))
        super().__init__(x.shape, x.secret, max(bound, BOUND_RANGE[0]), x)

    @property
    def rate(self) -> float:
        """The slope at zero."""
        return 2 * math.pi / (self.period * self.reach)

    @property
    def utmost(self) -> float:
        return 1.0 if self.clamped else self.bound

    @property
    def parameters(self) -> dict[str, Any]:
        found: dict[str, Any] = {"reach": self.reach, "placed": self.placed}
        found |= {} if self.period == SINE_PERIOD else {"period": self.period}
        return found | ({"clamped": self.clamped} if self.clamped else {})

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.asarray(np.sin(self.rate * parts[0]))

    def gain(self, position: int) -> float:
        return self.rate

    def log_unit(self, parts: Sequence[float]) -> float:
        return math.log2(self.bound)

    def whole(self, parts: Sequence[bool]) -> bool:
        return False

    def text(self, parts: Sequence[str]) -> str:
        return f"{SINE}({parts[0]})"

    @property
    def title(self) -> str:
        clamped = f", clamped for {self.clamped:.2f} times the error" * (self.clamped > 0)
        return (
            f"refresh to a sine {shape_text(self.shape)}{clamped}" + ", placed by the planner" * self.placed
        )

    def _transpose(self) -> Expression:
        return self._of(self.x.T)

    def arranged(self, step: Any) -> Expression:
        return self._of(arranged(self.x, step))

    def _of(self, x: Expression) -> RefreshedSine:
        return RefreshedSine(x, self.reach, self.placed, self.period, self.clamped)


@entrywise
def refresh(x: Expression, *, rounds: int = 1) -> Expression:
    """Return x unchanged, with all levels again: bootstrapping.

    A program that refreshes may be as deep as it likes: the levels that it spends between two refreshes, and before the
    first one, must be those of a ring (15 at N = 2^16 and 128 bits). It is planned for chains of primes of their own.

    Errors: about 1e-5 of the largest value that x may have, more in larger rings; an error that x already has remains.
    Programs that refresh once reach the default precision, longer ones need a coarser one. Where bounds are far above
    what values are, `assume` the true ones.

    Args:
        x: a node that depends on a secret operand.
        rounds: with 2, a second round corrects the error of the first: about 30 bits, for twice the seconds, one
            more level and larger scales, which leave fewer levels. No keys of its own. Of a product
            by GEMM it is still one round.

    Levels: 3 before, all after. Keys: of some 50 rotations at most levels (some GiB), conjugation, relinearisation, and
    some 30 of a sparse secret, which are small. Seconds: some per ciphertext.

    Source: Cheon, Han, Kim, Kim, Song, "Bootstrapping for approximate homomorphic encryption" (2018); with slots to
    coefficients first and sparse-secret encapsulation, see docs/algorithms.md.

    Raises:
        DTypeError: no node. ParameterError: a node without secrets, an operand, which has all levels, or no such number
            of rounds.
    """
    node_of(x, "What is refreshed")
    if not x.secret:
        raise ParameterError(
            "Only an encrypted node can be refreshed, and this one is clear.",
            advice="the node itself, without cb.refresh",
        )
    if x.packable:
        raise ParameterError(
            "An operand has all levels and cannot be refreshed.",
            advice="the operand itself, without cb.refresh",
        )
    if type(rounds) is not int or not 1 <= rounds <= MAX_ROUNDS:
        raise ParameterError("A refresh has one or two rounds.", got=rounds, advice=("rounds=1", "rounds=2"))
    return Refresh(x, rounds=rounds)


def is_refreshed(expression: Expression) -> bool:
    """Whether a program refreshes anything."""
    return not facts_of(expression).operations.isdisjoint({REFRESH, SINE})


def refreshes_to_sines(expression: Expression) -> bool:
    """Whether it refreshes to sines, which polynomials take."""
    return SINE in facts_of(expression).operations


def refreshes_twice(expression: Expression) -> bool:
    """Whether it does so in two rounds anywhere."""
    return any(node.op == REFRESH and node.parameters["rounds"] > 1 for node in ordered(expression))
