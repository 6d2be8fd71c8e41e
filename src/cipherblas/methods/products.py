"""The products in slots by name: what `methods.registry` holds of them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.registry import GEMM, RING, Methods, check_options, unknown

__all__ = ["ALGORITHMS", "GEMM", "RING", "build", "find"]

ALGORITHMS: Mapping[str, type[Algorithm]] = Methods("product", "blocks")


def find(name: str) -> type[Algorithm]:
    """Return the class of an algorithm, by name.

    Raises:
        ParameterError: there is none of that name.
    """
    try:
        return ALGORITHMS[name]
    except KeyError:
        raise unknown("algorithm", name) from None


def build(name: str, m: int, k: int, n: int, slots: int, options: Mapping[str, Any]) -> Algorithm:
    """An algorithm from its name and options, as stored in a program; the same object for the same ones.

    Raises:
        ParameterError: there is none of that name.
        UnsuitedError: it has no such option, or not this value of one.
        FitError: a block of this size does not fit the slots.
    """
    cls: Any = find(name)
    check_options(cls, options)
    return _built(cls, m, k, n, slots, tuple(options.items()))


@functools.lru_cache(maxsize=128)
def _built(cls: Any, m: int, k: int, n: int, slots: int, options: tuple[tuple[str, Any], ...]) -> Algorithm:
    found: Algorithm = cls(m, k, n, slots, **dict(options))
    return found
