"""The products in slots by name: what `methods.registry` holds of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cipherblas.common.errors import ParameterError
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.registry import GEMM, RING, Methods, check_options, unknown

__all__ = ["ALGORITHMS", "GEMM", "RING", "build", "find"]

ALGORITHMS: Mapping[str, type[Algorithm]] = Methods("product", "blocks")


def find(name: str) -> type[Algorithm]:
    """The class of an algorithm.

    Raises:
        ParameterError: there is none of that name.
    """
    try:
        return ALGORITHMS[name]
    except KeyError:
        raise unknown("algorithm", name) from None


def build(name: str, m: int, k: int, n: int, slots: int, options: Mapping[str, Any]) -> Algorithm:
    """An algorithm from its name and options, as stored in a program."""
    cls: Any = find(name)
    check_options(cls, options)
    try:
        built: Algorithm = cls(m, k, n, slots, **options)
    except TypeError as error:
        raise ParameterError(f"The algorithm {name} does not take these options.", got=str(error)) from error
    return built
