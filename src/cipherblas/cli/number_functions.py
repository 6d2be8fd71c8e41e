"""Functions of one number that a formula may name: those of NumPy and `math`, looked up in tables, never evaluated."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import numpy as np

NumberFunction = Callable[[Any], Any]

OF_NUMPY: dict[str, NumberFunction] = {
    name: found
    for name, found in vars(np).items()
    if isinstance(found, np.ufunc) and found.nin == found.nout == 1 and "d->d" in found.types
}
_NAMES_IN_MATH = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "degrees", "erf"),
    *("erfc", "exp", "exp2", "expm1", "fabs", "floor", "gamma", "lgamma", "log", "log10", "log1p", "log2"),
    *("radians", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)
OF_MATH: dict[str, NumberFunction] = {
    name: getattr(math, name) for name in _NAMES_IN_MATH if hasattr(math, name)
}
_MODULES = {"np": OF_NUMPY, "numpy": OF_NUMPY, "math": OF_MATH}
_ALONE = {**OF_MATH, **OF_NUMPY}  # NumPy's takes arrays


def number_function(node: ast.expr) -> NumberFunction | None:
    """Return the function that a name such as `np.tanh`, `math.erf` or `tanh` stands for; None for other names."""
    if isinstance(node, ast.Name):
        return _ALONE.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _MODULES.get(node.value.id, {}).get(node.attr)
    return None
