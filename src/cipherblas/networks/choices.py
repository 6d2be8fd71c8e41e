"""How a network is encrypted, as far as its user chooses it by names of nodes: degrees of polynomials, and ranges."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cipherblas.common.errors import (
    Advice,
    DTypeError,
    ParameterError,
    PrecisionWarning,
    RangeError,
    in_place_of,
    printable,
)
from cipherblas.lang.arguments import integer_of, number_of
from cipherblas.lang.operands import checked_bound
from cipherblas.lang.polynomials import MAX_DEGREE
from cipherblas.networks.layers import NetworkStep, Nonlinear
from cipherblas.planner.plan.plan import PlanOptions

MAX_GROWTH = 100.0  # of bounds without samples, over that of the input, which need no warning


class Choices:
    """Of one network.

    Args:
        steps: of the network.
        degree: of polynomials for which nothing else is said.
        activation: by names of nodes with functions, or of their operators, their own degrees.
        ranges: by names of nodes, bounds on what they read.

    Attributes:
        bounds: by numbers of values; the least, of those that several nodes read.

    Raises:
        DTypeError: no mapping of names to numbers. ParameterError: no node has such a name, or it has no function.
        RangeError: a range is no positive number.
    """

    def __init__(
        self,
        steps: Sequence[NetworkStep],
        degree: int,
        activation: Mapping[str, int] | None = None,
        ranges: Mapping[str, float] | None = None,
    ) -> None:
        self._functions = functions_of(steps)
        self._default = integer_of(degree, "The degree of activations")
        operators = [layer.name for _, layer in self._functions]
        known = [*dict.fromkeys((*operators, *(name for name, _ in self._functions)))]
        given = _named("activation", activation, known, "function", 254)
        self._given = {name: integer_of(one, f"The degree of {name}") for name, one in given.items()}
        given = _named("ranges", ranges, [*dict.fromkeys(step.name for step in steps)], "node", 10.0)
        self.ranges = {name: checked_bound(number_of(one, f"range of {name}")) for name, one in given.items()}
        self.bounds: dict[int, float] = {}
        for step in steps:
            for number in step.inputs if step.name in self.ranges else ():
                self.bounds[number] = min(self.ranges[step.name], self.bounds.get(number, math.inf))

    def degree_of(self, name: str, layer: Nonlinear) -> int:
        """Of the polynomials of a node."""
        return self._given.get(name, self._given.get(layer.name, self._default))

    @property
    def degrees(self) -> list[int]:
        """All that the network has."""
        return sorted({self.degree_of(name, layer) for name, layer in self._functions})

    @property
    def finer(self) -> int | None:
        """A degree that errs less, of a level more at most; None where there is none, or it changes nothing."""
        finer = min(2 * self._default + 2, MAX_DEGREE - 1)
        return finer if self._default in self.degrees and finer > self._default else None

    @property
    def advice(self) -> tuple[Advice, ...]:
        """Against polynomials that are too coarse."""
        if self.finer is not None:
            return (Advice(f"degree={self.finer}", {"degree": self.finer}),)
        return (
            (Advice("higher degrees in activation=…"),)
            if self._given and self.degrees[0] < MAX_DEGREE
            else ()
        )

    def check_samples(self, largest: Mapping[str, float]) -> None:
        """Raise RangeError where samples leave a range that is promised: polynomials are nothing like their functions
        there.

        Args:
            largest: by names of nodes, of what they read.
        """
        for name, bound in self.ranges.items():
            if largest[name] > bound:
                raise RangeError(
                    f"The samples leave the range of {name}, {bound:g}, outside of which polynomials are nothing like "
                    "their functions.",
                    got=f"{largest[name]:.4g}",
                    advice=(
                        f"ranges={{{name!r}: {PlanOptions.slack * largest[name]:.4g}}}, with room for others",
                        f"ranges without {name}, which is then measured on the samples",
                    ),
                )


def functions_of(steps: Sequence[NetworkStep]) -> list[tuple[str, Nonlinear]]:
    """The layers that polynomials stand for, with the names of their nodes."""
    return [(step.name, step.layer) for step in steps if isinstance(step.layer, Nonlinear)]


def warn_of_growth(bounds: Mapping[str, float], of_input: float) -> None:
    """Warn where bounds that nobody measured are far above that of the input.

    Args:
        bounds: by names of nodes with functions, on what they read.
    """
    grown = {name: bound for name, bound in bounds.items() if bound > MAX_GROWTH * of_input}
    if grown:
        name, bound = max(grown.items(), key=lambda one: one[1])
        others = f", and {len(grown) - 1} more of its nodes," * (len(grown) > 1)
        warnings.warn(
            PrecisionWarning(
                f"Without samples, what {name} of the network{others} may read is bounded by what any input could "
                f"give: {bound:.3g}, {bound / of_input:.3g} times the largest input. Polynomials for such a range are "
                f"coarse. Give samples, or the range that you know: ranges={{{name!r}: …}}."
            ),
            stacklevel=4,
        )


def _named(option: str, given: Any, known: Sequence[str], what: str, example: float) -> Mapping[str, Any]:
    """A mapping of names that there are."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        name = known[0] if known else "name"
        raise DTypeError(
            f"The {option} of a network is given by names.",
            got=type(given).__name__,
            advice=f"{option}={{{name!r}: {example:g}}}",
        )
    for name in given:
        if name not in known:
            raise ParameterError(
                f"The network has no {what} of the name {printable(str(name))!r}.",
                expected=_listed(known),
                got=printable(str(name)),
                advice=in_place_of(name, known, f"{option}={{{{'{{}}': …}}}}"),
            )
    return given


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none, as it has none"
