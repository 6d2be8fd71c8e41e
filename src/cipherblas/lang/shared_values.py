"""Arranged values beside the values themselves: `x[:4]` and `x.T` of an x that is computed anyway.

Arrangements are pushed to the operands when they are written (`lang.arrangements`), so that an arranged value is
computed from arranged operands. Where the value itself is needed too, that would compute it twice: its arrangement is
one of the computed value then.
"""

from __future__ import annotations

from collections.abc import Generator

from cipherblas.common.nested import result_of
from cipherblas.lang.arrangements import rearranged
from cipherblas.lang.nodes import Expression, ordered
from cipherblas.lang.steps import Step


def computed_once(node: Expression, entire: bool = False) -> Expression:
    """The graph with arrangements of computed values in the place of values that are computed from arranged operands,
    wherever what they are arrangements of is computed as well; itself where there are none.

    Args:
        entire: also where several of them are arrangements of one value, which is computed for them.
    """
    whole = {id(current) for current in ordered(node)}
    if entire:
        whole |= _in_parts(node)
    found: dict[int, Expression] = {}
    active: set[int] = set()  # nodes that are being rebuilt: nothing may become a part of itself

    def rebuilt(current: Expression) -> Generator[Expression, Expression, Expression]:
        if id(current) not in found:
            active.add(id(current))
            origin = _origin(current, whole, active)
            if origin is not None:
                value, steps = origin
                found[id(current)] = rearranged((yield value), steps)
            else:
                parts = []
                for child in current.children:
                    parts.append((yield child))
                changed = any(a is not b for a, b in zip(parts, current.children, strict=True))
                found[id(current)] = current.rebuilt(parts) if changed else current
            active.discard(id(current))
        return found[id(current)]

    return result_of(node, rebuilt)


def _in_parts(node: Expression) -> set[int]:
    """The values, by their identities, of which a graph has several parts."""
    parts: dict[int, int] = {}
    for current in ordered(node):
        while current.arranged_of is not None:
            current, _ = current.arranged_of
            parts[id(current)] = parts.get(id(current), 0) + 1
    return {value for value, number in parts.items() if number > 1}


def _origin(
    node: Expression, whole: set[int], active: set[int]
) -> tuple[Expression, tuple[Step, ...]] | None:
    """The value that a node is an arrangement of, the first of those that are computed; None where none is."""
    best: tuple[Expression, tuple[Step, ...]] | None = None
    steps: tuple[Step, ...] = ()
    current = node
    while current.arranged_of is not None:
        current, step = current.arranged_of
        steps = (step, *steps)
        if id(current) in whole and id(current) not in active and not current.packable:
            best = current, steps
    return best
