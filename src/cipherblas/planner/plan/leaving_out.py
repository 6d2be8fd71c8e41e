"""Advice to leave out the options that stand in the way: found by trying."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cipherblas.common.errors import Advice, without
from cipherblas.planner.predict.feasible import Infeasible

Attempt = Callable[[tuple[str, ...]], Advice | Infeasible | None]


def left_out(names: Sequence[str], attempt: Attempt) -> Advice | None:
    """Advice to leave out the first of some options without which it does, or all where no one is enough.

    Args:
        attempt: what is to be done, without these options; it returns what else is to be written, or why it cannot be
            done.
    """
    alone = [(name,) for name in names]
    for dropped in (*alone, tuple(names)) if len(names) > 1 else alone:
        more = attempt(dropped)
        if not isinstance(more, Infeasible):
            return without(*dropped).also(more)
    return None
