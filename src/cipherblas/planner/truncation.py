"""Terms of sums that lie far below the precision are left out, and counted in the predicted error."""

from __future__ import annotations

from cipherblas.lang.layers import Truncated
from cipherblas.lang.nodes import Expression, operands_of, ordered
from cipherblas.lang.results import results_of

SHARE = 2.0**-10  # of the error asked for, that all terms together which are left out may add


def sensitivities(expression: Expression) -> dict[int, float]:
    """By the id of a node: what a result changes by at most, per change of an entry of the node; values in bounds."""
    found = {id(expression): 1.0}
    for node in reversed(ordered(expression)):
        own = found[id(node)]
        for position, child in enumerate(node.children):
            found[id(child)] = found.get(id(child), 0.0) + own * node.gain(position)
    return found


def truncated(expression: Expression, precision: float) -> Expression:
    """The program without the terms that the precision hides: powers of a polynomial with coefficients near zero.

    Of several results it must hide them in all. Operands that occur in such a term alone stay.
    """
    sums = [node for node in ordered(expression) if _may_lose(node)]
    if not sums:
        return expression
    results = results_of(expression)
    allowed = [SHARE * precision * result.bound / len(sums) for result in results]
    slopes = [sensitivities(result) for result in results]

    def hidden(node: Expression, term: Expression) -> bool:
        errors = (term.bound * slope.get(id(node), 0.0) for slope in slopes)
        return all(error <= most for error, most in zip(errors, allowed, strict=True))

    new: dict[int, Expression] = {}
    for node in ordered(expression):
        parts = [new[id(child)] for child in node.children]
        changed = any(a is not b for a, b in zip(parts, node.children, strict=True))
        new[id(node)] = node.rebuilt(parts) if changed else node
        if _may_lose(node):
            (term, kept) = sorted(parts, key=lambda part: part.bound)
            if hidden(node, term) and operands_of(term) <= operands_of(kept):
                new[id(node)] = Truncated(kept, term.bound)
    return new[id(expression)]


def _may_lose(node: Expression) -> bool:
    return node.op == "add" and all(child.secret for child in node.children)


def truncation_error(expression: Expression) -> float:
    """What the terms that were left out change an entry of the result by at most."""
    nodes = [node for node in ordered(expression) if node.error]
    if not nodes:
        return 0.0
    slopes = sensitivities(expression)
    return sum(node.error * slopes[id(node)] for node in nodes)
