"""From the nodes of ONNX to layers: every node becomes one, or part of the one before it.

Batch norms and numbers for each channel are
folded into the convolution before them, strided slices and channels of zeros into one pointwise convolution, joins of
channels into the convolutions that are joined, and convolutions of one value whose results are added into one.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cipherblas.common.errors import (
    FormatError,
    UnsupportedNodeError,
    printable,
)
from cipherblas.networks.functions import function_of
from cipherblas.networks.instead import unknown_operator
from cipherblas.networks.layers import (
    Activation,
    Convolution,
    Dense,
    Layer,
    NetworkStep,
    Raised,
    Scaled,
    Shape,
)
from cipherblas.networks.network import TrainedNetwork

OPSETS = range(7, 29)
AT_THE_END = ("Softmax", "LogSoftmax", "ArgMax", "TopK")  # the client does these
MAX_LISTED = 8  # nodes in a message
DOMAINS = ("", "ai.onnx")
FLOATS = (1, 10, 11, 16)  # types of ONNX: float, float16, double, bfloat16
# Of translations of damaged nodes: an input or an attribute is missing, of another kind, or larger than the memory.
DAMAGED = (ArithmeticError, AttributeError, IndexError, KeyError, MemoryError, TypeError, ValueError)
NOT_ITS_OWN = "its inputs or attributes are not those of the operator"
EXPORT_AGAIN = "a new export, which onnx.checker.check_model accepts"
IMAGES = (
    "a network of images (C, H, W) or of channels of one dimension (C, L), as Conv2d and Conv1d take them"
)
ON_IMAGES = ("Conv", "AveragePool", "GlobalAveragePool", "MaxPool", "GlobalMaxPool", "BatchNormalization")

Translate = TypeVar("Translate", bound=Callable[..., None])
OPERATORS: dict[str, Callable[[Any, Any], None]] = {}


class UnsuitableError(Exception):
    """A node cannot be computed encrypted: why, and what to write instead."""

    def __init__(self, why: str, write: str) -> None:
        super().__init__(why)
        self.write = write


def operator(*names: str) -> Callable[[Translate], Translate]:
    """Return a decorator that enters the translation of operators."""

    def entered(translate: Translate) -> Translate:
        OPERATORS.update(dict.fromkeys(names, translate))
        return translate

    return entered


def _text(value: Any) -> str:
    """A string of the file, which may be damaged."""
    return value if isinstance(value, str) else bytes(value).decode(errors="replace")


class OnnxNode:
    """A node of the file, with its attributes.

    Attributes:
        name: of it, or of what it makes where it has none.
    """

    def __init__(self, proto: Any) -> None:
        import onnx

        self.operator, self.domain = _text(proto.op_type), _text(proto.domain)
        self.inputs, self.outputs = list(map(_text, proto.input)), list(map(_text, proto.output))
        self.name = printable(_text(proto.name) or (self.outputs[0] if self.outputs else self.operator))
        self._attributes, self._read = proto.attribute, onnx.helper.get_attribute_value

    @functools.cached_property
    def attributes(self) -> dict[str, Any]:
        """By name."""
        return {_text(one.name): self._read(one) for one in self._attributes}

    def get(self, name: str, usual: Any) -> Any:
        """An attribute."""
        return self.attributes.get(name, usual)


class GraphReader:
    """The translation of one file.

    Args:
        path: what errors call the file, at the beginning of a sentence.
        maxpool: "exact" where maxima are to be computed.

    Attributes:
        lines: images of the file have one dimension (C, L); here they are images (C, 1, L).
        rank: axes of an image in the file, that of the batch included.
    """

    def __init__(self, model: Any, path: str, maxpool: str | None = None) -> None:
        self.path, self.maxpool, graph = path, maxpool, model.graph
        versions = [one.version for one in model.opset_import if _text(one.domain) in DOMAINS]
        self.opset = max(versions, default=OPSETS.start)
        if self.opset not in OPSETS:
            raise FormatError(
                f"{path} has another operator set.", expected=f"{OPSETS[0]} to {OPSETS[-1]}", got=self.opset
            )
        self.constants: dict[str, NDArray[Any]] = {}
        for tensor in graph.initializer:
            self.constants[_text(tensor.name)] = self._array(tensor)
        self.nodes = [OnnxNode(proto) for proto in graph.node]
        self.outputs = [_text(one.name) for one in graph.output]
        self.uses = Counter(name for node in self.nodes for name in node.inputs) + Counter(self.outputs)
        given = [one for one in graph.input if _text(one.name) not in self.constants]
        if len(given) != 1 or len(self.outputs) != 1:
            raise FormatError(
                f"{path} has several inputs or results.",
                expected="one of each",
                got=f"{len(given)} inputs, {len(self.outputs)} results",
            )
        self.input = _text(given[0].name)
        dims = [int(dim.dim_value) for dim in given[0].type.tensor_type.shape.dim]
        if not 2 <= len(dims) <= 4 or min(dims[1:]) < 1:
            raise FormatError(
                f"{path} has an input {printable(self.input)!r} of a shape that cannot be encrypted.",
                expected="(n, C, H, W) or (n, F), of known lengths but for n",
                got=tuple(dims),
            )
        self.batch = max(dims[0], 1)  # of what the file computes at once
        self.steps: list[NetworkStep] = []
        self.values: dict[str, int] = {self.input: 0}  # by names of tensors
        self.shapes: list[Shape] = [tuple(dims[1:])]
        self.left_out: list[str] = []
        self.lines = len(dims) == 3 and any(node.operator in ON_IMAGES for node in self.nodes)
        self.rank = 3 if self.lines else 4
        if self.lines:
            raised = Raised()
            self.shapes.append(raised.shape(self.shapes[0]))
            self.steps.append(NetworkStep(printable(self.input), raised, (0,), self.shapes[1]))
            self.values[self.input] = 1

    def network(self) -> TrainedNetwork:
        """All nodes as steps, those alone that the result is made of."""
        refused: list[tuple[str, UnsuitableError]] = []
        unknown: set[str] = set()
        for node in self.nodes:
            if unknown.intersection(node.inputs):
                unknown.update(node.outputs)
                continue
            try:
                with np.errstate(all="ignore"):  # numbers that are not finite are refused
                    self._translate(node)
                continue
            except UnsuitableError as error:
                found = error
            except DAMAGED:
                found = UnsuitableError(NOT_ITS_OWN, EXPORT_AGAIN)
            refused.append((f"{node.name} ({printable(node.operator)})", found))
            unknown.update(node.outputs)
        if refused:
            raise _refusal(self.path, refused)
        (result,) = self.outputs
        if result not in self.values:
            raise FormatError(f"{self.path} has a result that no node makes.", got=printable(result))
        return self._pruned(self.values[result])

    def _pruned(self, result: int) -> TrainedNetwork:
        """Of the steps those that a result needs, numbered anew."""
        needed, todo = set(), [result]
        while todo:
            number = todo.pop()
            if number and number not in needed:
                needed.add(number)
                todo += self.steps[number - 1].inputs
        order = sorted(needed)
        new = {0: 0, **{number: place + 1 for place, number in enumerate(order)}}
        steps = tuple(
            replace(self.steps[number - 1], inputs=tuple(new[one] for one in self.steps[number - 1].inputs))
            for number in order
        )
        return TrainedNetwork(self.shapes[0], steps, tuple(self.left_out))

    # ---- what translations use ----

    def _translate(self, node: OnnxNode) -> None:
        inputs = [name for name in node.inputs if name]
        if node.domain not in DOMAINS:
            raise UnsuitableError(
                f"it is no operator of ONNX but of {printable(node.domain)}",
                "an export to the operators of ONNX alone",
            )
        if all(name in self.constants for name in inputs) or node.operator == "Shape":
            self._folded(node)
        elif node.operator in AT_THE_END:
            if any(self.uses[name] and name not in self.outputs for name in node.outputs):
                raise UnsuitableError(
                    "it is not the end of the network, and only there the client computes it",
                    "Sigmoid in its place, or a network that ends before it, and another one behind it",
                )
            self.left_out.append(node.operator)
            self.alias(node, self.value(node, 0))
        elif node.operator in OPERATORS:
            OPERATORS[node.operator](self, node)
        else:
            function = function_of(node.operator, node.attributes)
            if function is None:
                raise UnsuitableError(*unknown_operator(node.operator))
            self.add(node, Activation(node.operator, function), self.value(node, 0))

    def _folded(self, node: OnnxNode) -> None:
        """The arithmetic of shapes, and other nodes of constants."""
        make = FOLDED.get(node.operator)
        if node.operator == "Shape":
            self.constants[node.outputs[0]] = np.array(self.lengths(self.value(node, 0)), np.int64)
        elif make is None:
            raise UnsuitableError(
                "its inputs are constants, and this operator of constants is not known",
                "a file whose constants are folded, as onnxsim and PyTorch's do_constant_folding do",
            )
        else:
            known = [self.constants[name] if name else None for name in node.inputs]
            self.constants[node.outputs[0]] = np.asarray(make(self, node, *known))

    def _array(self, tensor: Any) -> NDArray[Any]:
        import onnx

        name = printable(_text(tensor.name))
        if tensor.HasField("data_location") and tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise FormatError(
                f"{self.path} has weights in other files.",
                expected="weights in the file itself",
                got=name,
                advice="onnx.save_model(onnx.load(path), path, save_as_external_data=False)",
            )
        try:
            found = np.asarray(onnx.numpy_helper.to_array(tensor))
        except DAMAGED as error:
            raise FormatError(f"{self.path} has a damaged tensor.", got=name) from error
        if found.dtype.kind == "f" and not np.isfinite(found).all():
            raise FormatError(
                f"{self.path} has weights that are not finite.",
                expected="finite numbers",
                got=name,
            )
        return found

    def value(self, node: OnnxNode, place: int) -> int:
        """The number of a value that a node reads."""
        name = node.inputs[place]
        if name not in self.values:
            raise UnsuitableError(
                "it reads a constant, or nothing, where a value of the network is needed", EXPORT_AGAIN
            )
        return self.values[name]

    def constant(self, node: OnnxNode, place: int, usual: Any = None) -> Any:
        """A constant that a node reads, or `usual` where it has none."""
        if place >= len(node.inputs) or not node.inputs[place]:
            return usual
        if node.inputs[place] not in self.constants:
            raise UnsuitableError(
                "it reads a value of the network where weights are needed: values are multiplied entry by entry alone",
                "constant weights, or Mul of two values of one shape",
            )
        return self.constants[node.inputs[place]]

    def image(self, number: int) -> Shape:
        """The shape of a value that must be an image."""
        if len(self.shapes[number]) != 3:
            raise UnsuitableError("its input is not an image", IMAGES)
        return self.shapes[number]

    def lengths(self, number: int) -> Shape:
        """The shape of a value as the file has it, with the batch."""
        shape = self.shapes[number]
        return (self.batch, shape[0], shape[2]) if self.lines and len(shape) == 3 else (self.batch, *shape)

    def add(self, node: OnnxNode, layer: Layer, *inputs: int) -> int:
        """One more step, which makes what the node does."""
        found = layer.shape(*(self.shapes[number] for number in inputs))
        if min(found, default=1) < 1:
            raise UnsuitableError("nothing is left of the image", "larger inputs, or fewer strides before it")
        pads = layer.pads if isinstance(layer, Convolution) else ()
        if any(max(pair) > size for pair, size in zip(pads, self.shapes[inputs[0]][1:], strict=False)):
            raise UnsuitableError(
                "its padding is larger than the image",
                "a padding of at most the height and width of its input",
            )
        self.steps.append(NetworkStep(node.name, layer, inputs, found))
        self.shapes.append(found)
        number = len(self.steps)
        self.alias(node, number)
        return number

    def replaced(self, node: OnnxNode, number: int, layer: Layer) -> None:
        """A step does what the node does as well."""
        step = self.steps[number - 1]
        found = layer.shape(*(self.shapes[one] for one in step.inputs))
        self.steps[number - 1] = replace(step, layer=layer, shape=found)
        self.shapes[number] = found
        self.alias(node, number)

    def alias(self, node: OnnxNode, number: int) -> None:
        """The first result of a node is a value that there is."""
        self.values[node.outputs[0]] = number

    def layer_alone(self, number: int) -> Layer | None:
        """The layer of a value that nothing but one node reads, under whatever name."""
        names = [name for name, known in self.values.items() if known == number]
        # Of several names all but the first are those of nodes that read another one.
        if number == 0 or not names or sum(self.uses[name] for name in names) != len(names):
            return None
        return self.steps[number - 1].layer

    def affine(self, node: OnnxNode, place: int, factors: NDArray[Any], more: NDArray[Any]) -> None:
        """Every channel, or entry of a vector, times a number and plus a number: folded into the layer before."""
        number = self.value(node, place)
        count = self.shapes[number][0]
        own, added = (np.broadcast_to(np.asarray(one, np.float64), (count,)) for one in (factors, more))
        if not (np.isfinite(own).all() and np.isfinite(added).all()):
            raise UnsuitableError(
                "its numbers are not finite",
                "finite numbers, of a variance above zero and no divisor of zero",
            )
        before = self.layer_alone(number)
        if isinstance(before, Convolution):
            self.replaced(node, number, before.scaled(own, added))
        elif isinstance(before, Dense):
            self.replaced(node, number, Dense(before.weights * own[:, None], before.bias * own + added))
        elif (own == own[0]).all() and (added == added[0]).all():
            self.add(node, Scaled(float(own[0]), float(added[0])), number)
        elif len(self.shapes[number]) == 1 and (own == own[0]).all():
            self.add(node, Scaled(float(own[0]), added.copy()), number)
        elif len(self.shapes[number]) == 1:
            self.add(node, Dense(np.diag(own), added.copy()), number)
        else:
            self.image(number)
            self.add(node, Convolution(own.reshape(-1, 1, 1, 1).copy(), added.copy(), groups=count), number)

    def pointwise(self, node: OnnxNode, place: int, layer: Convolution) -> None:
        """A pointwise convolution, together with one before it."""
        number = self.value(node, place)
        before = self.layer_alone(number)
        if isinstance(before, Convolution) and before.pointwise:
            self.replaced(node, number, layer.after(before))
        else:
            self.add(node, layer, number)

    def per_channel(self, number: int, values: NDArray[Any]) -> NDArray[Any] | None:
        """One number for each channel or entry of a vector, of a constant that is broadcast to a value; None where it
        has others."""
        shape = (1, *self.lengths(number)[1:])
        if values.size == 1:
            return np.full(shape[1], float(values.reshape(())))
        lengths = (1,) * (len(shape) - values.ndim) + values.shape
        if len(lengths) == len(shape) and lengths == (1, shape[1], *(1,) * (len(shape) - 2)):
            return np.asarray(values, np.float64).reshape(-1)
        return None


def _refusal(path: str, refused: Sequence[tuple[str, UnsuitableError]]) -> UnsupportedNodeError:
    """The error of nodes that cannot be computed: which and why, and for each what to write; those alike together."""
    many = f"{len(refused)} nodes" if len(refused) > 1 else "a node"
    listed = "; ".join(f"{node}: {error}" for node, error in refused[:MAX_LISTED])
    more = f"; and {len(refused) - MAX_LISTED} more" if len(refused) > MAX_LISTED else ""
    nodes: dict[str, list[str]] = {}
    for node, error in refused[:MAX_LISTED]:
        nodes.setdefault(error.write, []).append(node)
    writes = [f"for {', '.join(names)}: {write}" for write, names in nodes.items()]
    return UnsupportedNodeError(
        f"{path} has {many} that cannot be computed encrypted: {listed}{more}.",
        advice=next(iter(nodes)) if len(refused) == 1 else "; ".join(writes),
    )


# ---- constants ----


def slices_of(reader: GraphReader, node: OnnxNode, shape: Sequence[int]) -> list[tuple[int, int, int]]:
    """Start, stop and step of every axis, of a slice."""
    if reader.opset < 10:
        starts, ends, axes, steps = node.get("starts", ()), node.get("ends", ()), node.get("axes", None), None
    else:
        starts, ends, axes, steps = (reader.constant(node, place) for place in range(1, 5))
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    found = [(0, size, 1) for size in shape]
    for start, stop, axis, step in zip(starts, ends, axes, steps, strict=True):
        if int(step) < 1:
            raise UnsuitableError("its slice runs backwards", "a slice with positive steps")
        first, last, _ = slice(int(start), int(stop), int(step)).indices(shape[int(axis)])
        found[int(axis)] = first, max(first, last), int(step)
    return found


def _reshaped(reader: GraphReader, node: OnnxNode, x: NDArray[Any], shape: NDArray[Any]) -> NDArray[Any]:
    return x.reshape([x.shape[place] if size == 0 else int(size) for place, size in enumerate(shape)])


def _sliced(
    reader: GraphReader, node: OnnxNode, x: NDArray[Any], *others: NDArray[Any] | None
) -> NDArray[Any]:
    return x[tuple(slice(*one) for one in slices_of(reader, node, x.shape))]


def axes_of(node: OnnxNode, given: NDArray[Any] | None) -> tuple[int, ...]:
    return tuple(int(axis) for axis in (node.get("axes", ()) if given is None else given))


def _unsqueezed(
    reader: GraphReader, node: OnnxNode, x: NDArray[Any], axes: NDArray[Any] | None = None
) -> NDArray[Any]:
    return np.expand_dims(x, axes_of(node, axes))


def _squeezed(
    reader: GraphReader, node: OnnxNode, x: NDArray[Any], axes: NDArray[Any] | None = None
) -> NDArray[Any]:
    return np.squeeze(x, axes_of(node, axes) or None)


def _constant(reader: GraphReader, node: OnnxNode) -> NDArray[Any]:
    for name, given in node.attributes.items():
        return reader._array(given) if name == "value" else np.asarray(given)
    raise UnsuitableError("it has no value", EXPORT_AGAIN)


FOLDED: dict[str, Callable[..., Any]] = {
    "Constant": _constant,
    "Identity": lambda reader, node, x: x,
    "Cast": lambda reader, node, x: x.astype(np.float64 if node.get("to", 1) in FLOATS else np.int64),
    "Concat": lambda reader, node, *xs: np.concatenate(xs, node.get("axis", 0)),
    "Gather": lambda reader, node, x, places: np.take(x, places.astype(np.int64), node.get("axis", 0)),
    "Unsqueeze": _unsqueezed,
    "Squeeze": _squeezed,
    "Slice": _sliced,
    "Reshape": _reshaped,
    "Transpose": lambda reader, node, x: np.transpose(x, node.get("perm", None)),
    "Add": lambda reader, node, x, y: x + y,
    "Sub": lambda reader, node, x, y: x - y,
    "Mul": lambda reader, node, x, y: x * y,
    "Div": lambda reader, node, x, y: np.trunc(x / y).astype(x.dtype) if x.dtype.kind == "i" else x / y,
    "Neg": lambda reader, node, x: -x,
    "Sqrt": lambda reader, node, x: np.sqrt(x),
    "ConstantOfShape": lambda reader, node, shape: np.zeros(shape.astype(np.int64)),
    "Pad": lambda reader, node, x, pads, *rest: np.pad(x, np.asarray(pads, np.int64).reshape(2, -1).T),
}
