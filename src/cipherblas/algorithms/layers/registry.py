"""The methods for layers by name, and their objects from saved options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cipherblas.algorithms.layers.base import LayerMethod, Window
from cipherblas.algorithms.layers.imra import Pattern
from cipherblas.algorithms.layers.metakernel import ConvMetaKernel, MatVecMetaKernel
from cipherblas.errors import ParameterError
from cipherblas.layouts.tensors import TensorLayout

METAKERNEL = MatVecMetaKernel.name
LAYER_METHODS = (METAKERNEL,)


def build_matvec(name: str, x: TensorLayout, rows: int, options: Mapping[str, Any]) -> LayerMethod:
    """The method of a product W·x.

    Raises:
        ParameterError: an unknown name. ShapeError: the options do not fit.
    """
    _check(name)
    return MatVecMetaKernel(x, rows, _pattern(1, x.slots, options), int(options["each"]))


def build_conv(name: str, x: TensorLayout, window: Window, options: Mapping[str, Any]) -> LayerMethod:
    """The method of a convolution; errors as `build_matvec`."""
    _check(name)
    return ConvMetaKernel(x, window, _pattern(x.pitch, x.slots, options), int(options["each"]))


def _pattern(unit: int, slots: int, options: Mapping[str, Any]) -> Pattern:
    n, k, p_b, p_s = (int(options[name]) for name in ("n", "k", "p_b", "p_s"))
    return Pattern(n, k, unit, slots, p_b, p_s)


def _check(name: str) -> None:
    if name not in LAYER_METHODS:
        raise ParameterError("method of a layer", expected=" | ".join(LAYER_METHODS), got=name)
