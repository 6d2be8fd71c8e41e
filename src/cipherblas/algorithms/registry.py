"""The algorithms by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cipherblas.algorithms.base import Algorithm
from cipherblas.algorithms.bicyclic import Bicyclic
from cipherblas.algorithms.e2dm import E2dm
from cipherblas.algorithms.fame import Fame
from cipherblas.algorithms.halevi_shoup import HaleviShoup
from cipherblas.algorithms.outer_product import OuterProduct
from cipherblas.algorithms.skewed import Skewed
from cipherblas.errors import ParameterError

ALGORITHMS: Mapping[str, type[Algorithm]] = MappingProxyType(
    {algorithm.name: algorithm for algorithm in (Skewed, OuterProduct, Bicyclic, Fame, E2dm, HaleviShoup)}
)

GEMM = "gemm"  # products of matrices that are encrypted by rows: not in slots, see algorithms/gemm.py


def find(name: str) -> type[Algorithm]:
    """The class of an algorithm.

    Raises:
        ParameterError: there is none of that name.
    """
    try:
        return ALGORITHMS[name]
    except KeyError:
        raise ParameterError("algorithm", expected=" | ".join((*ALGORITHMS, GEMM)), got=name) from None


def build(name: str, m: int, k: int, n: int, slots: int, options: Mapping[str, Any]) -> Algorithm:
    """An algorithm from its name and options, as stored in a program."""
    cls: Any = find(name)
    try:
        built: Algorithm = cls(m, k, n, slots, **options)
    except TypeError as error:
        raise ParameterError(f"options of {name}", got=str(error)) from error
    return built
