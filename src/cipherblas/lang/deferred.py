"""Functions of every entry whose polynomials are chosen when the program is whole: their precision follows from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import PrecisionError
from cipherblas.lang.nodes import WATCHER, Expression, Numeric, Written, ordered
from cipherblas.lang.operations import arranged
from cipherblas.lang.places import Place
from cipherblas.lang.steps import Step

COARSEST = 1e-2  # precision of a function that names none
SLACK = 0.03  # of a bound, for what polynomials of other precisions exceed those of the coarsest by


class Fitted(NamedTuple):
    """A function at one precision: the node, and what the precision is relative to."""

    node: Expression
    unit: float


class Chosen(NamedTuple):
    """A function of a program at the precision that was chosen: the node, its argument, and what it is relative to."""

    argument: Expression
    node: Expression
    unit: float


Fit = Callable[[Expression, float], Fitted]  # of an argument and a precision


class Deferred(Expression):
    """A function of every entry of x, to be replaced by a polynomial before the program is planned.

    Args:
        function: its name, as in `cb.relu`.
        fit: the polynomial for a precision.
        key: equal for equal functions of the same name.
        exact: the function itself, of entries that are not nearer to zero than `within`.
        name: in formulas, where that is another one.
    """

    op = "function"

    def __init__(
        self,
        x: Expression,
        function: str,
        fit: Fit,
        key: Hashable,
        exact: Numeric,
        within: float = 0.0,
        name: str | None = None,
    ) -> None:
        self.x, self.function, self.fit, self.key, self.exact, self.within = (
            x,
            function,
            fit,
            key,
            exact,
            within,
        )
        self.named = function if name is None else name
        token = WATCHER.set(None)
        self.draft = fit(x, COARSEST).node  # refuses what no precision can do
        WATCHER.reset(token)
        self.written: Written = Written(exact, x, within)
        super().__init__(x.shape, x.secret, self.draft.bound * (1 + SLACK), x)
        self.place = None if self.place is None else self.place._replace(function=function)

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            **{"function": self.function, "fit": self.fit, "key": self.key},
            **{"exact": self.exact, "within": self.within, "name": self.named},
        }

    @property
    def identity(self) -> Hashable:
        return self.function, self.key

    def _transpose(self) -> Expression:
        return self.rebuilt((self.x.T,))

    def arranged(self, step: Step) -> Expression | None:
        return None if step.fills else self.rebuilt((arranged(self.x, step),))

    def evaluate(self, parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        found = {id(self.x): parts[0]}

        def value(node: Expression) -> NDArray[np.float64]:
            if id(node) not in found:
                found[id(node)] = node.evaluate([value(child) for child in node.children])
            return found[id(node)]

        return self.written.evaluate(parts[0], value(self.draft))

    def integral(self, parts: Sequence[bool]) -> bool:
        return False

    def log_unit(self, parts: Sequence[float]) -> float:
        return math.log2(self.bound)

    def text(self, parts: Sequence[str]) -> str:
        return f"{self.named}({parts[0]})"


def functions_of(expression: Expression) -> list[Deferred]:
    """The functions of a program whose precision is still to be chosen."""
    return [node for node in ordered(expression) if isinstance(node, Deferred)]


def placed(node: Expression, argument: Expression, place: Place | None) -> Expression:
    """The node, which is a function of the argument, with all that it is made of at a place."""
    for one in within(node, argument):
        one.place = place
    return node


def within(node: Expression, argument: Expression) -> list[Expression]:
    """The nodes that a function of an argument is made of."""
    before = set(map(id, ordered(argument)))
    return [one for one in ordered(node) if id(one) not in before]


def _fitted(node: Deferred, argument: Expression, precision: float) -> Fitted:
    try:
        return node.fit(argument, precision)
    except PrecisionError as error:
        what = f"cb.{node.function}" if node.place is None else str(node.place)
        raise PrecisionError(
            f"The result needs {what} to a precision of {precision:.2g}, which no polynomial reaches.",
            advice=error.advice,
            cause=error.sentence,
        ) from error


def with_precisions(
    expression: Expression, precisions: Mapping[int, float]
) -> tuple[Expression, dict[int, Chosen]]:
    """The program with its functions at the given precisions, and each of them; both by the id of a function."""
    made: dict[int, Expression] = {}
    chosen: dict[int, Chosen] = {}
    for node in ordered(expression):
        parts = [made[id(child)] for child in node.children]
        if isinstance(node, Deferred):
            found, unit = _fitted(node, parts[0], precisions[id(node)])
            placed(found, parts[0], node.place)
            chosen[id(node)], made[id(node)] = Chosen(parts[0], found, unit), found
        else:
            changed = any(a is not b for a, b in zip(parts, node.children, strict=True))
            made[id(node)] = node.rebuilt(parts) if changed else node
    return made[id(expression)], chosen
