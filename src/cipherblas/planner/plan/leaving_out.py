"""Advice to leave out the options that stand in the way: found by trying."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cipherblas.common.errors import Advice, CipherblasError, without

Attempt = Callable[[tuple[str, ...]], Advice | None]


def left_out(names: Sequence[str], attempt: Attempt) -> Advice | None:
    """Advice to leave out the first of some options without which it does, or all where no one is enough.

    Args:
        attempt: what is to be done, without these options; it returns what else is to be written, or raises
            CipherblasError where it cannot be done.
    """
    alone = [(name,) for name in names]
    for dropped in (*alone, tuple(names)) if len(names) > 1 else alone:
        try:
            more = attempt(dropped)
        except CipherblasError:
            continue
        return without(*dropped).also(more)
    return None
