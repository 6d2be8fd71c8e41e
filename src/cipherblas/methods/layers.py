"""The methods for layers by name, and their objects from saved options."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeAlias

from cipherblas.common.errors import UnsuitedError
from cipherblas.forms.tensors import TensorLayout
from cipherblas.lang.windows import Window
from cipherblas.methods.matvec_conv.base import LayerMethod, OneVectorMethod
from cipherblas.methods.matvec_conv.baselines.fhe_mp_cnn import ConvFheMpCnn
from cipherblas.methods.matvec_conv.baselines.fhelipe import ConvFhelipe, MatVecFhelipe
from cipherblas.methods.matvec_conv.baselines.imra import Pattern
from cipherblas.methods.matvec_conv.metakernel import ConvMetaKernel, MatVecMetaKernel
from cipherblas.methods.matvec_conv.multiplexed import ConvMultiplexed
from cipherblas.methods.registry import Methods

Options: TypeAlias = tuple[tuple[str, Any], ...]
MatVecBaseline: TypeAlias = "type[OneVectorMethod | MatVecFhelipe]"
ConvBaseline: TypeAlias = "type[ConvFheMpCnn | ConvFhelipe]"

METAKERNEL, MULTIPLEXED = MatVecMetaKernel.name, ConvMultiplexed.name
LAYER_METHODS: Mapping[str, type[LayerMethod]] = Methods("matvec", "tensors")
MATVEC_BASELINES: Mapping[str, MatVecBaseline] = Methods("matvec", "tensors", baseline=True)
CONV_BASELINES: Mapping[str, ConvBaseline] = Methods("convolution", "tensors", baseline=True)


def build_matvec(name: str, x: TensorLayout, rows: int, options: Mapping[str, Any]) -> LayerMethod:
    """The method of a product W·x.

    Raises:
        ParameterError: an unknown name. ShapeError: the options do not fit.
    """
    if name != METAKERNEL:
        return _baseline(matvec_baseline(name), x, rows)
    return _matvec(x, rows, tuple(sorted(options.items())))


def build_conv(name: str, x: TensorLayout, window: Window, options: Mapping[str, Any]) -> LayerMethod:
    """The method of a convolution; errors as `build_matvec`."""
    if name == MULTIPLEXED:
        flags = (bool(options.get(name, False)) for name in ConvMultiplexed.kinds)
        return multiplexed(x, window, int(options["unit"]), *flags)
    if name != METAKERNEL:
        return _baseline(conv_baseline(name), x, window)
    return _conv(x, window, tuple(sorted(options.items())))


# A network is run symbolically many times while it is planned: where its weights lie is found once.
@functools.lru_cache(maxsize=64)
def _baseline(method: Any, x: TensorLayout, layer: int | Window) -> LayerMethod:
    built: LayerMethod = method(x, layer)
    return built


@functools.lru_cache(maxsize=64)
def _matvec(x: TensorLayout, rows: int, options: Options) -> LayerMethod:
    found = dict(options)
    return MatVecMetaKernel(x, rows, _pattern(1, x.slots, found), int(found["each"]))


@functools.lru_cache(maxsize=64)
def _conv(x: TensorLayout, window: Window, options: Options) -> LayerMethod:
    found = dict(options)
    return ConvMetaKernel(x, window, _pattern(x.pitch, x.slots, found), int(found["each"]))


@functools.lru_cache(maxsize=64)
def multiplexed(x: TensorLayout, window: Window, unit: int, *kinds: bool) -> ConvMultiplexed:
    """A convolution of a multiplexed image, of the kinds of the class in their order; errors as the class."""
    return ConvMultiplexed(x, window, unit, *kinds)


def matvec_baseline(name: str) -> MatVecBaseline:
    """The class of a baseline for W·x.

    Raises:
        ParameterError: there is none of that name.
    """
    if name not in MATVEC_BASELINES:
        raise UnsuitedError(
            "There is no such method for a product W·x.", expected=_names(MATVEC_BASELINES), got=name
        )
    return MATVEC_BASELINES[name]


def conv_baseline(name: str) -> ConvBaseline:
    """The class of a baseline for convolutions; errors as `matvec_baseline`."""
    if name not in CONV_BASELINES:
        raise UnsuitedError(
            "There is no such method for a convolution.", expected=_names(CONV_BASELINES), got=name
        )
    return CONV_BASELINES[name]


def _names(baselines: Mapping[str, object]) -> str:
    return " | ".join((METAKERNEL, *baselines))


def _pattern(unit: int, slots: int, options: Mapping[str, Any]) -> Pattern:
    n, k, p_b, p_s = (int(options[name]) for name in ("n", "k", "p_b", "p_s"))
    return Pattern(n, k, unit, slots, p_b, p_s)
