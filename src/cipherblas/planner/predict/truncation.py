"""What a program is known to be off what was written: terms of sums that lie far below the precision are left out, and
functions are approximated."""

from __future__ import annotations

from collections.abc import Sequence

from cipherblas.common.errors import Advice, Call, PrecisionError
from cipherblas.lang.facts import facts_of, operands_of
from cipherblas.lang.layers import Truncated
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.results import results_of

COMPARISONS = ("sign", "greater", "relu")  # that take no degree
SHARE = 2.0**-10  # of the error asked for, that all terms together which are left out may add


def sensitivities(expression: Expression) -> dict[int, float]:
    """By the id of a node: what a result changes by at most, per change of an entry of the node; values in bounds."""
    found = {id(expression): 1.0}
    for node in reversed(facts_of(expression).order):
        own = found[id(node)]
        for position, child in enumerate(node.children):
            found[id(child)] = found.get(id(child), 0.0) + own * node.steepness(position)
    return found


def truncated(expression: Expression, precision: float) -> Expression:
    """The program without the terms that the precision hides: powers of a polynomial with coefficients near zero.

    Of several results it must hide them in all. Operands that occur in such a term alone stay.
    """
    arguments = _arguments(expression)
    sums = [node for node in facts_of(expression).order if _may_lose(node) or _may_shed(node, arguments)]
    if not sums:
        return expression
    results = results_of(expression)
    allowed = [SHARE * precision * result.bound / len(sums) for result in results]
    slopes = [sensitivities(result) for result in results]

    def hidden(node: Expression, size: float) -> bool:
        errors = (size * slope.get(id(node), 0.0) for slope in slopes)
        return all(error <= most for error, most in zip(errors, allowed, strict=True))

    def hideable(node: Expression) -> float:
        """The largest change of a node's value that is hidden."""
        seen = [(slope.get(id(node), 0.0), most) for slope, most in zip(slopes, allowed, strict=True)]
        return min((most / slope for slope, most in seen if slope), default=0.0)

    new: dict[int, Expression] = {}
    for node in facts_of(expression).order:
        parts = [new[id(child)] for child in node.children]
        changed = any(a is not b for a, b in zip(parts, node.children, strict=True))
        new[id(node)] = node.rebuilt(parts) if changed else node
        if _may_lose(node):
            (term, kept) = sorted(parts, key=lambda part: part.bound)
            if hidden(node, term.bound) and operands_of(term) <= operands_of(kept):
                new[id(node)] = Truncated(kept, term.bound)
        elif _may_shed(node, arguments):
            new[id(node)] = new[id(node)].shortened(hideable(node))
    return new[id(expression)]


def _may_lose(node: Expression) -> bool:
    return node.op == "add" and all(child.secret for child in node.children)


def _may_shed(node: Expression, arguments: set[int]) -> bool:
    return node.sheds and node.secret and id(node) not in arguments


def _arguments(expression: Expression) -> set[int]:
    """The nodes below operations whose arguments must stay in an interval: no value of them may grow by an error."""
    found: set[int] = set()
    for node in reversed(facts_of(expression).order):
        if node.sheds or id(node) in found:
            found.update(map(id, node.children))
    return found


def truncation_error(expression: Expression) -> float:
    """Return a bound on the error of a result's entries by left-out terms and by approximations of functions."""
    return expression.missed


def check_approximations(expression: Expression, targets: Sequence[float]) -> None:
    """Raise PrecisionError where they alone exceed the error that is allowed of a result."""
    for result, target in zip(results_of(expression), targets, strict=True):
        known = result.missed
        if known >= target:
            raise PrecisionError(
                f"The functions of the program may err by {known:.3g} in its result, and {target:.3g} is asked for.",
                advice=_finer(result),
                cause="An error of a function is multiplied by whatever follows it.",
            )


def _finer(result: Expression) -> list[Advice]:
    """The function that errs most in a result is left to follow what is asked for."""
    slopes = sensitivities(result)
    node = max(ordered(result), key=lambda node: node.error * slopes[id(node)])
    place = node.place
    function = None if place is None else place.function
    if place is None or function is None:
        return []
    asked = ("precision",) if function in COMPARISONS else ("precision", "degree")
    call = Call(function, place.line, dict.fromkeys(asked))
    return [Advice(f"{place} without {'= and '.join(asked)}=", call=call)]
