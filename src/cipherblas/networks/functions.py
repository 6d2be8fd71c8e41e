"""The functions of single entries that files of networks name, on arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cipherblas.lang.elementary import erf_of_array, gelu_of_array, sigmoid_of_array

Function = Callable[[Any], Any]


def relu(x: Any) -> Any:
    """The larger one of a number and zero."""
    return np.maximum(x, 0.0)


def silu(x: Any) -> Any:
    """A number times its sigmoid."""
    return x * sigmoid_of_array(x)


def leaky_relu(x: Any, alpha: float) -> Any:
    """A number, times `alpha` where it is negative."""
    return np.where(np.asarray(x) > 0, x, alpha * np.asarray(x))


def clip(x: Any, low: float, high: float) -> Any:
    """The number of an interval that is nearest."""
    return np.clip(x, low, high)


def _softplus(x: Any) -> Any:
    return np.logaddexp(0.0, x)


def _softsign(x: Any) -> Any:
    return x / (1 + np.abs(x))


def _mish(x: Any) -> Any:
    return x * np.tanh(_softplus(x))


def _hard_sigmoid(x: Any, alpha: float, beta: float) -> Any:
    return np.clip(alpha * np.asarray(x) + beta, 0.0, 1.0)


def _hard_swish(x: Any) -> Any:
    return x * _hard_sigmoid(x, 1 / 6, 0.5)


def _gelu_by_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * np.power(x, 3))))


def _elu(x: Any, alpha: float) -> Any:
    return np.where(np.asarray(x) > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def _celu(x: Any, alpha: float) -> Any:
    return alpha * _elu(np.asarray(x) / alpha, 1.0)


def _selu(x: Any, alpha: float, gamma: float) -> Any:
    return gamma * _elu(x, alpha)


def _thresholded(x: Any, alpha: float) -> Any:
    return np.where(np.asarray(x) > alpha, x, 0.0)


# By operators of ONNX: the function, and its parameters with what they usually are.
FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, float]]] = {
    "Abs": (np.abs, {}),
    "Atan": (np.arctan, {}),
    "Celu": (_celu, {"alpha": 1.0}),
    "Cos": (np.cos, {}),
    "Cosh": (np.cosh, {}),
    "Elu": (_elu, {"alpha": 1.0}),
    "Erf": (erf_of_array, {}),
    "Exp": (np.exp, {}),
    "HardSigmoid": (_hard_sigmoid, {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": (_hard_swish, {}),
    "LeakyRelu": (leaky_relu, {"alpha": 0.01}),
    "Mish": (_mish, {}),
    "Relu": (relu, {}),
    "Selu": (_selu, {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}),
    "Sigmoid": (sigmoid_of_array, {}),
    "Sin": (np.sin, {}),
    "Sinh": (np.sinh, {}),
    "Softplus": (_softplus, {}),
    "Softsign": (_softsign, {}),
    "Swish": (silu, {}),
    "Tanh": (np.tanh, {}),
    "ThresholdedRelu": (_thresholded, {"alpha": 1.0}),
}


def function_of(operator: str, attributes: Mapping[str, Any]) -> Function | None:
    """Return the function of an operator with these attributes; None where it is no function of single entries."""
    if operator == "Gelu":
        return _gelu_by_tanh if attributes.get("approximate", b"none") == b"tanh" else gelu_of_array
    if operator not in FUNCTIONS:
        return None
    function, usual = FUNCTIONS[operator]
    return with_parameters(
        function, **{name: float(attributes.get(name, value)) for name, value in usual.items()}
    )


def with_parameters(function: Callable[..., Any], **parameters: float) -> Function:
    """Return a function of one argument."""
    return functools.partial(function, **parameters) if parameters else function


def same_function(one: Function, other: Function) -> bool:
    """Whether two functions are one with equal parameters."""
    if isinstance(one, functools.partial) and isinstance(other, functools.partial):
        return one.func is other.func and one.keywords == other.keywords
    return one is other
