"""The algorithms by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from cipherblas.common.errors import ParameterError
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.matmul.baselines.e2dm import E2dm
from cipherblas.methods.matmul.baselines.halevi_shoup import HaleviShoup
from cipherblas.methods.matmul.bicyclic import Bicyclic
from cipherblas.methods.matmul.fame import Fame
from cipherblas.methods.matmul.outer_product import OuterProduct
from cipherblas.methods.matmul.skewed import Skewed

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
