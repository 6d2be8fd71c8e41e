"""Networks from files of ONNX, which the package `onnx` parses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cipherblas.common.errors import FormatError, ParameterError, StorageError
from cipherblas.networks import translations as translations  # enters them
from cipherblas.networks.network import TrainedNetwork
from cipherblas.networks.reader import GraphReader

MAX_FILE_BYTES = 1 << 31
EXACT = "exact"  # of maxima


def from_onnx(
    source: str | Path | bytes, *, normalise: Any = None, maxpool: str | None = None
) -> TrainedNetwork:
    """Read a trained network from a file of ONNX.

    Args:
        source: the file, or its content, of operator sets 7 to 28, for inference. Its one input, which is encrypted,
            has an axis in front that counts images. Weights are in the file itself.
        normalise: (mean, deviation) of inputs, two numbers or one of each for every channel, where the file does not
            take them out itself. The network then takes inputs as they are, as pixels in bytes, and the client encrypts
            (pixel - mean)/deviation.
        maxpool: "exact" computes MaxPool: max(a, b) = a + relu(b - a) by the polynomials that stand for functions, one
            after the other, log2 of the width and of the height of a window. By default it is refused.

    Returns:
        The network, for one input without the batch axis. Convolutions of one dimension are computed as those of images
        of height 1.

    Raises:
        StorageError: the file cannot be read, or is larger than 2 GiB.
        ShapeError, DTypeError, RangeError: the normalisation is no pair of numbers, or of other channels.
        FormatError: it is none of ONNX, has weights in other files, or weights that are not finite.
        UnsupportedNodeError: nodes cannot be computed encrypted; all of them are named.
        ParameterError: the package `onnx` is not installed, or there is no such way to compute maxima.

    Examples:
        >>> from onnx import TensorProto, helper
        >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 3)) for name in "xy")
        >>> graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], name="first")], "network", [x], [y])
        >>> model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        >>> print(from_onnx(model.SerializeToString()))
        input        3
        first  relu  3
    """
    content, name = (
        (source, "The file") if isinstance(source, bytes) else (_content(Path(source)), str(source))
    )
    return replace(graph_of(content, name, maxpool), normalise=normalise)


def graph_of(content: bytes, name: str, maxpool: str | None = None) -> TrainedNetwork:
    """The network of the content of a file, which errors begin with this name; errors as `from_onnx`."""
    if maxpool not in (None, EXACT):
        raise ParameterError(
            "There is no such way to compute maxima.", expected=f"{EXACT!r} or None", got=repr(maxpool)
        )
    return GraphReader(_parsed(content, name), name, maxpool).network()


def _parsed(content: bytes, name: str) -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ParameterError(
            "Networks are read by the package onnx, which is not installed.", advice="pip install onnx"
        ) from error
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # of protobuf, which has several
        raise FormatError(
            f"{name} is no file of ONNX.", expected="a model of ONNX", got=type(error).__name__
        ) from error
    if not model.graph.node:
        raise FormatError(f"{name} is no file of ONNX.", expected="a model with nodes", got="none")
    return model


def _content(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise StorageError(f"{path} is too large.", expected=f"at most {MAX_FILE_BYTES} bytes", got=size)
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path} cannot be read.", got=str(error)) from error
