"""Decisions for a network whose layers a named baseline computes: inputs are packed as its first layer needs them."""

from __future__ import annotations

from typing import Any

from cipherblas.common.errors import FitError
from cipherblas.forms.tensors import TensorLayout, tensor_shape
from cipherblas.lang.facts import facts_of
from cipherblas.lang.nodes import Expression
from cipherblas.methods.layers import conv_baseline, matvec_baseline
from cipherblas.methods.matvec_conv.base import LayerMethod
from cipherblas.planner.predict.feasible import Infeasible, attempted
from cipherblas.runtime.tensors import PACKING, window_of
from cipherblas.runtime.values import MethodChoice


class BaselineMethods:
    """Decides while a network is run symbolically, as `planner.tensors.GreedyMethods`; nothing is compared.

    An input that does not lie as a layer needs it is re-arranged, which costs levels and rotations of its own.
    """

    def __init__(self, expression: Expression, slots: int, name: str) -> None:
        self.slots, self.name = slots, name
        self.runners_up: dict[int, str] = {}
        self._layers = [
            node for node in facts_of(expression).order if node.product or node.window is not None
        ]

    def __call__(self, node: Expression, x: TensorLayout | None) -> MethodChoice:
        return self._packing(node) if x is None else self._layer(node, x)

    def _packing(self, node: Expression) -> MethodChoice:
        for layer in self._layers:
            if any(child is node for child in layer.children):
                return MethodChoice(PACKING, self._wanted(layer, tensor_shape(node.shape)).grid_options)
        return MethodChoice(PACKING, {})

    def _layer(self, node: Expression, x: TensorLayout) -> MethodChoice:
        options: dict[str, Any] = {}
        method = attempted(lambda: self._method(node, x), only=FitError)
        if isinstance(method, Infeasible):
            wanted = self._wanted(node, x.shape)
            options["layout"] = wanted.grid_options
            method = self._method(node, wanted)
        if method.repeats and not method.x.alone:
            options["mask"] = True
        return MethodChoice(self.name, {**method.options, **options})

    def _method(self, node: Expression, x: TensorLayout) -> LayerMethod:
        if (window := window_of(node)) is None:
            return matvec_baseline(self.name)(x, node.shape[0])
        return conv_baseline(self.name)(x, window)

    def _wanted(self, node: Expression, shape: tuple[int, int, int]) -> TensorLayout:
        """The layout that the baseline asks for."""
        if (window := window_of(node)) is None:
            return matvec_baseline(self.name).input_layout(shape, node.shape[0], self.slots)
        return conv_baseline(self.name).input_layout(window, self.slots)
