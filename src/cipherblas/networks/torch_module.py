"""Networks from modules of PyTorch, which exports them to ONNX in memory."""

from __future__ import annotations

import io
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from cipherblas.common.errors import (
    CipherblasError,
    DTypeError,
    FormatError,
    ParameterError,
    ShapeError,
    UnsupportedNodeError,
)
from cipherblas.lang.arguments import integer_of
from cipherblas.networks.network import TrainedNetwork
from cipherblas.networks.onnx_file import graph_of

OPSET = 17  # of the export: what PyTorch's exporters know best
INSTALL = 'pip install torch onnx, or the extra "torch" of this package'
# Methods of a tensor that hand its entries to Python, where an export keeps one outcome for all inputs.
TO_PYTHON = ("__bool__", "__int__", "__float__", "__complex__", "__index__", "item", "tolist", "numpy")


def from_torch(
    module: Any, shape: int | Sequence[int], *, normalise: Any = None, maxpool: str | None = None
) -> TrainedNetwork:
    """Read a trained network from a module of PyTorch (`pip install torch onnx`).

    The module is exported to ONNX in memory and read as `from_onnx` reads a file. It is run once, on an input of zeros.

    Args:
        module: a `torch.nn.Module` in evaluation mode: `module.eval()`.
        shape: of one input, without the batch axis: (channels, height, width), or a number of features.
        normalise, maxpool: as of `from_onnx`.

    Returns:
        The network, for one input without the batch axis. Nodes have the names of the modules that they come from.

    Raises:
        ParameterError: the package `torch` or `onnx` is not installed, or the module is in training mode.
        DTypeError: it is no module of PyTorch, or the shape is none of integers.
        ShapeError: the module cannot be run on an input of this shape, or it has other channels than `normalise`.
        UnsupportedNodeError: its forward reads entries in Python, as an `if` does, or has layers that cannot be
            computed encrypted; all of them are named.
        FormatError: PyTorch cannot export it, or it has several results.
    """
    torch = _torch()
    if not isinstance(module, torch.nn.Module):
        raise DTypeError(
            "A network is read from a module of PyTorch.",
            expected="a torch.nn.Module",
            got=type(module).__name__,
            advice=("from_torch(module, (3, 32, 32))", "from_onnx(path), of a file of ONNX"),
        )
    lengths = (shape,) if isinstance(shape, int) or not isinstance(shape, Sequence) else tuple(shape)
    lengths = tuple(integer_of(length, "A length of the input's shape") for length in lengths)
    if not 1 <= len(lengths) <= 3 or min(lengths) < 1:
        raise ShapeError(
            "The shape of an input has one to three lengths, without the batch axis.",
            got=lengths,
            advice="from_torch(module, (channels, height, width)), or from_torch(module, features)",
        )
    if any(part.training for part in module.modules()):
        raise ParameterError(
            "The module is in training mode.",
            advice="from_torch(module.eval(), shape)",
            cause="Batch norms and dropout compute something else in training than the trained network does.",
        )
    weight = next(module.parameters(), None)
    like = {} if weight is None else {"dtype": weight.dtype, "device": weight.device}
    given = torch.zeros((1, *lengths), **like)
    with torch.no_grad():
        _check_runs(torch, module, given)
        content = _exported(torch, module, given)
    return replace(graph_of(content, "The module", maxpool), normalise=normalise)


def _torch() -> ModuleType:
    try:
        import torch
    except ImportError as error:
        raise ParameterError("PyTorch, the package torch, is not installed.", advice=INSTALL) from error
    try:
        import onnx  # noqa: F401  (the export is read by it)
    except ImportError as error:
        raise ParameterError(
            "Modules of PyTorch are read by the package onnx, which is not installed.", advice=INSTALL
        ) from error
    found: ModuleType = torch
    return found


def _check_runs(torch: Any, module: Any, given: Any) -> None:
    """Raise unless the module runs on an input and leaves its entries to PyTorch."""
    from torch.overrides import TorchFunctionMode

    forbidden = {getattr(torch.Tensor, name) for name in TO_PYTHON}

    class Watch(TorchFunctionMode):  # type: ignore[misc]
        """Refuses what hands entries of tensors to Python."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function in forbidden:
                # The innermost call is that of this mode.
                line = traceback.extract_stack()[-2]
                raise UnsupportedNodeError(
                    "The module's forward reads entries of a tensor in Python, as `if` and `while` do.",
                    got=f"{line.line or function.__name__}, line {line.lineno} of {line.filename}",
                    advice="a forward of tensor operations alone: decisions by shapes and by options stay as they are",
                    cause="An encrypted program cannot see a value, and an export keeps one outcome for all inputs.",
                )
            return function(*args, **(kwargs or {}))

    try:
        with Watch():
            module(given)
    except CipherblasError:
        raise
    except Exception as error:  # of whatever the module does
        raise ShapeError(
            "The module cannot be run on an input of this shape.",
            got=tuple(given.shape[1:]),
            advice="from_torch(module, shape), with the shape of one input, without the batch axis",
            cause=_first_line(error),
        ) from error


def _exported(torch: Any, module: Any, given: Any) -> bytes:
    """The module as a file of ONNX, by the exporter that needs no further package."""
    stream = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on the exporter itself, and on decisions by shapes
            torch.onnx.export(
                module,
                (given,),
                stream,
                opset_version=OPSET,
                dynamo=False,
                input_names=["x"],
                dynamic_axes={"x": {0: "n"}},
            )
    except Exception as error:  # of PyTorch, which has many
        raise FormatError(
            "PyTorch cannot export the module to ONNX.",
            advice="a module of tensor operations that ONNX has, or from_onnx of a file that was exported otherwise",
            cause=_first_line(error),
        ) from error
    return stream.getvalue()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
