"""The methods for layers by name, and their objects from saved options."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeAlias

from cipherblas.algorithms.layers.base import LayerMethod, Window
from cipherblas.algorithms.layers.imra import Pattern
from cipherblas.algorithms.layers.metakernel import ConvMetaKernel, MatVecMetaKernel
from cipherblas.errors import ParameterError
from cipherblas.layouts.tensors import TensorLayout

Options: TypeAlias = tuple[tuple[str, Any], ...]

METAKERNEL = MatVecMetaKernel.name
LAYER_METHODS = (METAKERNEL,)


def build_matvec(name: str, x: TensorLayout, rows: int, options: Mapping[str, Any]) -> LayerMethod:
    """The method of a product W·x.

    Raises:
        ParameterError: an unknown name. ShapeError: the options do not fit.
    """
    _check(name)
    return _matvec(name, x, rows, tuple(sorted(options.items())))


def build_conv(name: str, x: TensorLayout, window: Window, options: Mapping[str, Any]) -> LayerMethod:
    """The method of a convolution; errors as `build_matvec`."""
    _check(name)
    return _conv(name, x, window, tuple(sorted(options.items())))


# A network is run symbolically many times while it is planned: where its weights lie is found once.
@functools.lru_cache(maxsize=64)
def _matvec(name: str, x: TensorLayout, rows: int, options: Options) -> LayerMethod:
    found = dict(options)
    return MatVecMetaKernel(x, rows, _pattern(1, x.slots, found), int(found["each"]))


@functools.lru_cache(maxsize=64)
def _conv(name: str, x: TensorLayout, window: Window, options: Options) -> LayerMethod:
    found = dict(options)
    return ConvMetaKernel(x, window, _pattern(x.pitch, x.slots, found), int(found["each"]))


def _pattern(unit: int, slots: int, options: Mapping[str, Any]) -> Pattern:
    n, k, p_b, p_s = (int(options[name]) for name in ("n", "k", "p_b", "p_s"))
    return Pattern(n, k, unit, slots, p_b, p_s)


def _check(name: str) -> None:
    if name not in LAYER_METHODS:
        raise ParameterError("method of a layer", expected=" | ".join(LAYER_METHODS), got=name)
