"""Operators of ONNX as layers: one translation for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cipherblas.networks.functions import clip, leaky_relu, same_function, silu, with_parameters
from cipherblas.networks.layers import (
    Activation,
    Array,
    Convolution,
    Dense,
    Flattened,
    Layer,
    Pair,
    Pooling,
    Product,
    Scaled,
    SignedSum,
    channels_of,
    pair_text,
)
from cipherblas.networks.maxima import MaxPooling
from cipherblas.networks.reader import (
    EXPORT_AGAIN,
    FLOATS,
    IMAGES,
    GraphReader,
    OnnxNode,
    UnsuitableError,
    axes_of,
    operator,
    slices_of,
)

MAX_CHANNELS = 1 << 16
DIVIDE = (
    "Mul by a number, or a function in its place: cb.inverse in a program of your own, network.encrypted(x)"
)


# ---- linear layers ----


@operator("Identity", "Cast")
def _same(reader: GraphReader, node: OnnxNode) -> None:
    if node.operator == "Cast" and node.get("to", 1) not in FLOATS:
        raise UnsuitableError(
            "encrypted values are not rounded to integers", "Cast to a float type, or no Cast"
        )
    reader.alias(node, reader.value(node, 0))


@operator("Dropout")
def _dropout(reader: GraphReader, node: OnnxNode) -> None:
    if np.any(np.asarray(reader.constant(node, 2, False))):
        raise UnsuitableError(
            "it is for training", "an export of the network in evaluation mode: module.eval()"
        )
    reader.alias(node, reader.value(node, 0))


def _pads(
    reader: GraphReader, node: OnnxNode, sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int]
) -> tuple[Pair, Pair]:
    """Zeros before and after the image, of height and width."""
    auto = node.get("auto_pad", b"NOTSET").decode()
    if auto in ("NOTSET", ""):
        given = [int(one) for one in node.get("pads", (0,) * (2 * reader.rank - 4))]
        top, left, bottom, right = (0, given[0], 0, given[1]) if reader.lines else given
        return (top, bottom), (left, right)
    if auto == "VALID":
        return (0, 0), (0, 0)
    found = []
    for size, length, step in zip(sizes, kernel, stride, strict=True):
        total = max((math.ceil(size / step) - 1) * step + length - size, 0)
        less, more = total // 2, total - total // 2
        found.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return found[0], found[1]


def _pair(reader: GraphReader, node: OnnxNode, name: str) -> Pair:
    """An attribute's numbers for height and width, by default 1."""
    found = tuple(int(one) for one in node.get(name, (1,) * (reader.rank - 2)))
    if reader.lines:
        found = (1, *found)
    if len(found) != 2:
        raise UnsuitableError("its windows are not those of an image", IMAGES)
    return found


@operator("Conv")
def _conv(reader: GraphReader, node: OnnxNode) -> None:
    number = reader.value(node, 0)
    channels, *sizes = reader.image(number)
    weights = np.asarray(reader.constant(node, 1), np.float64)
    bias = np.asarray(reader.constant(node, 2, np.zeros(len(weights))), np.float64)
    groups = int(node.get("group", 1))
    if reader.lines and weights.ndim == 3:
        weights = weights[:, :, None, :]
    if weights.ndim != 4 or weights.shape[1] * groups != channels or bias.shape != weights.shape[:1]:
        raise UnsuitableError("its filters do not fit the channels of the image", EXPORT_AGAIN)
    dilation, stride = _pair(reader, node, "dilations"), _pair(reader, node, "strides")
    if dilation != (1, 1):
        spread = np.zeros(
            (*weights.shape[:2], *((k - 1) * d + 1 for k, d in zip(weights.shape[2:], dilation, strict=True)))
        )
        spread[:, :, :: dilation[0], :: dilation[1]] = weights
        weights = spread
    pads = _pads(reader, node, sizes, weights.shape[2:], stride)
    reader.add(node, Convolution(weights, bias, stride, pads, groups), number)


@operator("BatchNormalization")
def _batch_norm(reader: GraphReader, node: OnnxNode) -> None:
    scale, bias, mean, variance = (
        np.asarray(reader.constant(node, place), np.float64) for place in range(1, 5)
    )
    if node.get("training_mode", 0) or len(node.outputs) > 1:
        raise UnsuitableError(
            "it is for training", "an export of the network in evaluation mode: module.eval()"
        )
    factors = scale / np.sqrt(variance + float(node.get("epsilon", 1e-5)))
    reader.affine(node, 0, factors, bias - mean * factors)


@operator("Gemm")
def _gemm(reader: GraphReader, node: OnnxNode) -> None:
    number = reader.value(node, 0)
    weights = np.asarray(reader.constant(node, 1), np.float64)
    weights = weights if node.get("transB", 0) else weights.T
    bias = float(node.get("beta", 1.0)) * np.asarray(reader.constant(node, 2, 0.0), np.float64)
    _dense(reader, node, number, float(node.get("alpha", 1.0)) * weights, bias)


@operator("MatMul")
def _matmul(reader: GraphReader, node: OnnxNode) -> None:
    if node.inputs[0] in reader.constants:
        raise UnsuitableError(
            "its weights stand on the left of a value, as for batches in columns", "MatMul(value, weights.T)"
        )
    _dense(
        reader, node, reader.value(node, 0), np.asarray(reader.constant(node, 1), np.float64).T, np.zeros(1)
    )


def _dense(reader: GraphReader, node: OnnxNode, number: int, weights: Array, bias: Array) -> None:
    fits = (
        len(reader.shapes[number]) == 1 and weights.ndim == 2 and weights.shape[1:] == reader.shapes[number]
    )
    row = bias.size == 1 or (bias.shape[-1] == bias.size == len(weights))
    if node.get("transA", 0) or not fits or not row:
        raise UnsuitableError(
            "its weights are not a matrix for a vector of features",
            "Flatten before it, and a weight for each feature and output",
        )
    own = np.broadcast_to(bias.reshape(-1), (len(weights),)).copy()
    reader.add(node, Dense(np.ascontiguousarray(weights), own), number)


@operator("GlobalAveragePool")
def _global_pool(reader: GraphReader, node: OnnxNode) -> None:
    number = reader.value(node, 0)
    _, height, width = reader.image(number)
    reader.add(node, Pooling((height, width), (height, width)), number)


@operator("ReduceMean")
def _mean(reader: GraphReader, node: OnnxNode) -> None:
    number = reader.value(node, 0)
    _, height, width = reader.image(number)
    axes = axes_of(node, reader.constant(node, 1))
    if sorted(axis % reader.rank for axis in axes) != list(range(2, reader.rank)):
        raise UnsuitableError(
            "its mean is not over height and width together",
            "ReduceMean over all axes from 2 on, or GlobalAveragePool",
        )
    pooled = reader.add(node, Pooling((height, width), (height, width)), number)
    if not node.get("keepdims", 1):
        reader.add(node, Flattened(), pooled)


@operator("AveragePool")
def _pool(reader: GraphReader, node: OnnxNode) -> None:
    number = reader.value(node, 0)
    channels, *sizes = reader.image(number)
    kernel, stride = _pair(reader, node, "kernel_shape"), _pair(reader, node, "strides")
    pads = _pads(reader, node, sizes, kernel, stride)
    rest = [
        (size + sum(pad) - k) % step for size, pad, k, step in zip(sizes, pads, kernel, stride, strict=True)
    ]
    if _pair(reader, node, "dilations") != (1, 1) or (node.get("ceil_mode", 0) and any(rest)):
        raise UnsuitableError(
            "its windows have gaps, or reach beyond the image",
            "AveragePool without dilations, and with ceil_mode=0",
        )
    if pads == ((0, 0), (0, 0)):
        reader.add(node, Pooling(kernel, stride), number)
    elif node.get("count_include_pad", 0):
        weights = np.full((channels, 1, *kernel), 1 / math.prod(kernel))
        reader.add(node, Convolution(weights, np.zeros(channels), stride, pads, channels), number)
    else:
        raise UnsuitableError(
            "its means at the border leave out the zeros of the padding",
            "count_include_pad=1, which counts them, or no padding",
        )


@operator("MaxPool", "GlobalMaxPool")
def _max_pool(reader: GraphReader, node: OnnxNode) -> None:
    number = reader.value(node, 0)
    channels, *sizes = reader.image(number)
    if any(node.outputs[1:]):
        raise UnsuitableError(
            "it tells where its maxima are", "MaxPool without its second result, the indices"
        )
    if node.operator == "GlobalMaxPool":
        layer = MaxPooling((sizes[0], sizes[1]), (1, 1))
    else:
        kernel, stride = _pair(reader, node, "kernel_shape"), _pair(reader, node, "strides")
        pads = list(_pads(reader, node, sizes, kernel, stride))
        if _pair(reader, node, "dilations") != (1, 1):
            raise UnsuitableError("its windows have gaps", "MaxPool without dilations")
        if node.get("ceil_mode", 0):
            pads = [_rounded_up(*one) for one in zip(sizes, kernel, stride, pads, strict=True)]
        layer = MaxPooling(kernel, stride, (pads[0], pads[1]))
    made = layer.shape((channels, *sizes))[1:]
    places = [(count - 1) * step for count, step in zip(made, layer.stride, strict=True)]
    if any(place >= size for place, size in zip(places, sizes, strict=True)):
        raise UnsuitableError(
            "its last windows begin beyond the image", "MaxPool with less padding, and with ceil_mode=0"
        )
    if reader.maxpool != "exact":
        count = layer.functions((channels, *sizes))
        raise UnsuitableError(
            f"maxima of encrypted values, here {pair_text(layer.kernel)}, take {count} functions one after the other, "
            "and are computed on request alone",
            'maxpool="exact" (import --maxpool exact), or AveragePool of the same windows and train again',
        )
    reader.add(node, layer, number)


def _rounded_up(size: int, kernel: int, stride: int, pads: Pair) -> Pair:
    """The padding with which the last window is whole, where one begins in the image or before it."""
    missing = -(size + sum(pads) - kernel) % stride
    last = (size + sum(pads) + missing - kernel) // stride * stride  # where the last window begins
    return (pads[0], pads[1] + missing) if last < size + pads[0] else pads


# ---- moves of entries ----


@operator("Slice")
def _slice(reader: GraphReader, node: OnnxNode) -> None:
    number = reader.value(node, 0)
    shape = reader.image(number)
    batch, channel, *space = slices_of(reader, node, reader.lengths(number))
    space = [(0, 1, 1), *space] if reader.lines else space
    if batch != (0, reader.batch, 1):
        raise UnsuitableError(
            "it takes some images of a batch", "a slice of channels, height and width alone"
        )
    if any((first, last) != (0, size) for (first, last, _), size in zip(space, shape[1:], strict=True)):
        raise UnsuitableError(
            "it cuts a part out of the height or width",
            "a slice of all rows and columns, with a step or without",
        )
    taken = range(*channel)
    kept = [taken.index(one) if one in taken else -1 for one in range(shape[0])]
    reader.pointwise(node, 0, channels_of(shape[0], kept, len(taken), (space[0][2], space[1][2])))


@operator("Split")
def _split(reader: GraphReader, node: OnnxNode) -> None:
    number, axis = reader.value(node, 0), int(node.get("axis", 0))
    channels = reader.image(number)[0]
    sizes = reader.constant(node, 1, node.get("split", None))
    count = len(node.outputs)
    lengths = [-(-channels // count)] * count if sizes is None else [int(one) for one in sizes]
    lengths[-1] = channels - sum(lengths[:-1])
    if axis % reader.rank != 1:
        raise UnsuitableError("it splits another axis than the channels", "Split along axis 1")
    start = 0
    for name, length in zip(node.outputs, lengths, strict=True):
        kept = [one - start if start <= one < start + length else -1 for one in range(channels)]
        reader.values[name] = reader.add(node, channels_of(channels, kept, length), number)
        start += length
    reader.values[node.outputs[0]] = len(reader.steps) - count + 1


@operator("Pad")
def _pad(reader: GraphReader, node: OnnxNode) -> None:
    number = reader.value(node, 0)
    channels, *_ = reader.image(number)
    pads = node.get("pads", None) if reader.opset < 11 else reader.constant(node, 1)
    value = node.get("value", 0.0) if reader.opset < 11 else reader.constant(node, 2, 0.0)
    axes = reader.constant(node, 3, range(reader.rank)) if reader.opset >= 18 else range(reader.rank)
    if node.get("mode", b"constant") != b"constant" or np.any(np.asarray(value)):
        raise UnsuitableError("it pads with other numbers than zeros", "Pad with mode constant and value 0")
    before, after = np.zeros(reader.rank, np.int64), np.zeros(reader.rank, np.int64)
    many = [int(one) for one in pads]
    for place, axis in enumerate(axes):
        before[axis], after[axis] = many[place], many[place + len(axes)]
    if before[0] or after[0] or min(before.min(), after.min()) < 0:
        raise UnsuitableError(
            "it pads the batch, or cuts entries off", "pads of zero or more, of channels, height and width"
        )
    if before[1] or after[1]:
        count = channels + int(before[1] + after[1])
        if count > MAX_CHANNELS:
            raise UnsuitableError(
                f"it makes more than {MAX_CHANNELS} channels", f"at most {MAX_CHANNELS} channels"
            )
        reader.pointwise(
            node, 0, channels_of(channels, [one + int(before[1]) for one in range(channels)], count)
        )
        number = reader.values[node.outputs[0]]
    pairs = [(0, 0)] * reader.lines + [
        (int(before[axis]), int(after[axis])) for axis in range(2, reader.rank)
    ]
    around = pairs[0], pairs[1]
    if around != ((0, 0), (0, 0)):
        own = reader.shapes[number][0]
        weights = np.ones((own, 1, 1, 1))
        number = reader.add(node, Convolution(weights, np.zeros(own), (1, 1), around, own), number)
    reader.alias(node, number)


@operator("Concat")
def _concat(reader: GraphReader, node: OnnxNode) -> None:
    numbers = [reader.value(node, place) for place in range(len(node.inputs))]
    if (
        int(node.get("axis", 1)) % reader.rank != 1
        or len({reader.image(number)[1:] for number in numbers}) > 1
    ):
        raise UnsuitableError(
            "it joins other axes than channels, or images of different sizes",
            "Concat along axis 1 of images of one height and width",
        )
    common: list[Layer] = []  # what is done to every channel of what is joined, the last first
    while (layer := _of_every_channel([reader.layer_alone(number) for number in numbers])) is not None:
        common.append(layer)
        numbers = [reader.steps[number - 1].inputs[0] for number in numbers]
    joined = _joined(reader, node, numbers)
    for layer in reversed(common):
        joined = reader.add(node, layer, joined)
    reader.alias(node, joined)


def _of_every_channel(layers: Sequence[Layer | None]) -> Layer | None:
    """A layer that does the same to every channel by itself, where all of these are that one."""
    first = layers[0]
    if isinstance(first, Activation):
        functions = [one.function for one in layers if isinstance(one, Activation)]
        same = len(functions) == len(layers) and all(same_function(one, first.function) for one in functions)
    else:
        same = isinstance(first, Pooling) and all(one == first for one in layers)
    return first if same else None


def _joined(reader: GraphReader, node: OnnxNode, numbers: Sequence[int]) -> int:
    """The sum of images that have zeros in the channels of the others; a convolution that nothing else reads makes
    them itself."""
    counts = [reader.shapes[number][0] for number in numbers]
    total, start, terms = sum(counts), 0, []
    layers = [reader.layer_alone(number) for number in numbers]
    for number, count, layer in zip(numbers, counts, layers, strict=True):
        wider = channels_of(count, range(start, start + count), total)
        if isinstance(layer, Convolution) and layer.groups == 1:
            shape = (total, *layer.weights.shape[1:])
            weights, bias = np.zeros(shape), np.zeros(total)
            weights[start : start + count], bias[start : start + count] = layer.weights, layer.bias
            reader.replaced(node, number, replace(layer, weights=weights, bias=bias))
            terms.append(number)
        else:
            terms.append(reader.add(node, wider, number))
        start += count
    return _sum(reader, node, (1,) * len(terms), terms, (True,) * len(terms))


def _sum(
    reader: GraphReader, node: OnnxNode, signs: Sequence[int], terms: Sequence[int], alone: Sequence[bool]
) -> int:
    """A sum of values, each with its sign; convolutions of one value become one of them.

    Args:
        alone: whether nothing but the node reads a term.
    """
    kept: list[tuple[int, int, bool]] = []
    for sign, number, free in zip(signs, terms, alone, strict=True):
        for own, other, other_free in kept:
            found = _merged(reader, other, number, own * sign) if free and other_free else None
            if found is not None:
                reader.replaced(node, other, found)
                break
        else:
            kept.append((sign, number, free))
    if len(kept) == 1 and kept[0][0] == 1:
        return kept[0][1]
    added = SignedSum(tuple(sign for sign, *_ in kept))
    return reader.add(node, added, *(number for _, number, _ in kept))


def _merged(reader: GraphReader, first: int, second: int, sign: int) -> Convolution | None:
    """The convolution that makes a value plus the sign times a second one; None where there is none, or where its
    filters would be larger than both of theirs."""
    steps = reader.steps[first - 1], reader.steps[second - 1]
    one, other = (step.layer for step in steps)
    if not isinstance(one, Convolution) or not isinstance(other, Convolution):
        return None
    if (steps[0].inputs, one.stride, one.groups) != (steps[1].inputs, other.stride, other.groups):
        return None
    wide, small = (one, other) if one.weights[0].size >= other.weights[0].size else (other, one)
    pads = zip(wide.pads, small.pads, strict=True)
    room = zip(wide.weights.shape[2:], small.weights.shape[2:], strict=True)
    around = [
        (own[0] - its[0], most - least - own[0] + its[0])
        for (own, its), (most, least) in zip(pads, room, strict=True)
    ]
    if min(map(min, around)) < 0:
        return None
    weights = np.pad(small.weights, ((0, 0), (0, 0), *around))
    mine, more = (wide.weights, weights) if wide is one else (weights, wide.weights)
    return replace(wide, weights=mine + sign * more, bias=one.bias + sign * other.bias)


def _shaped(reader: GraphReader, node: OnnxNode, shape: Sequence[int]) -> None:
    """A value in another shape, its entries in the same order."""
    number = reader.value(node, 0)
    own = reader.shapes[number]
    if tuple(shape) == reader.lengths(number):
        reader.alias(node, number)
    elif tuple(shape) == (reader.batch, math.prod(own)) and len(own) == 3:
        reader.add(node, Flattened(), number)
    elif len(own) == 1 and tuple(shape) == (reader.batch, *own, *(1,) * (reader.rank - 2)):
        reader.alias(node, number)  # as a vector
    else:
        raise UnsuitableError(
            f"it gives entries of shape {own} another shape than a vector",
            "Flatten, which makes a vector of an image",
        )


@operator("Flatten")
def _flatten(reader: GraphReader, node: OnnxNode) -> None:
    own = reader.shapes[reader.value(node, 0)]
    if int(node.get("axis", 1)) != 1:
        raise UnsuitableError("it joins images of a batch", "Flatten with axis=1")
    _shaped(reader, node, (reader.batch, math.prod(own)))


@operator("Reshape")
def _reshape(reader: GraphReader, node: OnnxNode) -> None:
    own = reader.lengths(reader.value(node, 0))
    wanted = [int(size) for size in np.asarray(reader.constant(node, 1)).reshape(-1)]
    wanted = [own[place] if size == 0 and place < len(own) else size for place, size in enumerate(wanted)]
    if -1 in wanted:
        others = math.prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = math.prod(own) // max(others, 1)
    if math.prod(wanted) != math.prod(own):
        raise UnsuitableError("its shape has another number of entries", EXPORT_AGAIN)
    _shaped(reader, node, wanted)


@operator("Squeeze")
def _squeeze(reader: GraphReader, node: OnnxNode) -> None:
    own = reader.lengths(reader.value(node, 0))
    axes = {axis % len(own) for axis in axes_of(node, reader.constant(node, 1))}
    _shaped(reader, node, [size for axis, size in enumerate(own) if axis not in axes])


@operator("Transpose")
def _transpose(reader: GraphReader, node: OnnxNode) -> None:
    own = reader.lengths(reader.value(node, 0))
    order = [int(axis) for axis in node.get("perm", range(len(own))[::-1])]
    moved = [axis for axis in order if own[axis] != 1]
    if moved != sorted(moved) or order[0] != 0:
        raise UnsuitableError(
            "axes of more than one entry change places",
            "an export in the order (n, C, H, W), without a transpose; weights behind it in another order",
        )
    _shaped(reader, node, [own[axis] for axis in order])


# ---- arithmetic of entries ----


@operator("Add", "Sub")
def _add(reader: GraphReader, node: OnnxNode) -> None:
    sign = -1 if node.operator == "Sub" else 1
    constants = [name in reader.constants for name in node.inputs]
    if not any(constants):
        numbers = reader.value(node, 0), reader.value(node, 1)
        if reader.shapes[numbers[0]] != reader.shapes[numbers[1]]:
            raise UnsuitableError(
                "it adds values of different shapes",
                "values of one shape: a convolution 1x1 changes channels, AveragePool sizes",
            )
        alone = [reader.layer_alone(number) is not None for number in numbers]
        reader.alias(node, _sum(reader, node, (1, sign), numbers, alone))
        return
    place = constants.index(False)
    number, more = reader.value(node, place), np.asarray(reader.constants[node.inputs[1 - place]], np.float64)
    factor, more = (sign, more) if place else (1, sign * more)
    known = reader.per_channel(number, more)
    if known is not None:
        reader.affine(node, place, np.full(len(known), float(factor)), known)
        return
    shape = reader.shapes[number]
    try:
        full = np.broadcast_to(more, (1, *reader.lengths(number)[1:])).reshape(shape)
    except ValueError:
        raise UnsuitableError(
            "it adds a constant of another shape",
            "one number, or numbers of the shape of a value or of its channels",
        ) from None
    reader.add(node, Scaled(float(factor), full.copy()), number)


@operator("Mul", "Div")
def _multiply(reader: GraphReader, node: OnnxNode) -> None:
    constants = [name in reader.constants for name in node.inputs]
    if not any(constants):
        _product(reader, node)
        return
    place = constants.index(False)
    number, factor = (
        reader.value(node, place),
        np.asarray(reader.constants[node.inputs[1 - place]], np.float64),
    )
    if node.operator == "Div" and place:
        raise UnsuitableError("it divides by a value of the network", DIVIDE)
    known = reader.per_channel(number, 1 / factor if node.operator == "Div" else factor)
    if known is None:
        raise UnsuitableError(
            "its constant is neither one number nor one for each channel",
            "one number, or one for each channel",
        )
    reader.affine(node, place, known, np.zeros(len(known)))


def _product(reader: GraphReader, node: OnnxNode) -> None:
    """Two values; of a value and its sigmoid one function."""
    if node.operator == "Div":
        raise UnsuitableError("it divides by a value of the network", DIVIDE)
    numbers = [reader.value(node, 0), reader.value(node, 1)]
    for place in (0, 1):
        layer = reader.layer_alone(numbers[place])
        of_other = numbers[place] > 0 and reader.steps[numbers[place] - 1].inputs == (numbers[1 - place],)
        if isinstance(layer, Activation) and layer.name == "Sigmoid" and of_other:
            reader.replaced(node, numbers[place], Activation("Silu", silu))
            return
    if reader.shapes[numbers[0]] != reader.shapes[numbers[1]]:
        raise UnsuitableError(
            "it multiplies values of different shapes",
            "values of one shape: gates for each channel are not computed yet",
        )
    reader.add(node, Product(), *numbers)


@operator("Neg")
def _negate(reader: GraphReader, node: OnnxNode) -> None:
    count = reader.shapes[reader.value(node, 0)][0]
    reader.affine(node, 0, np.full(count, -1.0), np.zeros(count))


@operator("Pow")
def _power(reader: GraphReader, node: OnnxNode) -> None:
    number, exponent = reader.value(node, 0), np.asarray(reader.constant(node, 1))
    if exponent.size != 1 or float(exponent.reshape(())) != 2.0:
        raise UnsuitableError(
            "it takes another power than a square", "Mul of the value and its square for a cube, and so on"
        )
    reader.add(node, Product(), number, number)


@operator("PRelu")
def _prelu(reader: GraphReader, node: OnnxNode) -> None:
    slope = np.asarray(reader.constant(node, 1))
    if slope.size != 1:
        raise UnsuitableError(
            "its channels have different slopes",
            "PReLU with one slope, as torch.nn.PReLU() has by default, or LeakyRelu",
        )
    reader.add(
        node,
        Activation("PRelu", with_parameters(leaky_relu, alpha=float(slope.reshape(())))),
        reader.value(node, 0),
    )


@operator("Clip")
def _clip(reader: GraphReader, node: OnnxNode) -> None:
    low, high = (
        node.get(name, usual) if reader.opset < 11 else reader.constant(node, place, usual)
        for name, place, usual in (("min", 1, -math.inf), ("max", 2, math.inf))
    )
    first, last = (float(np.asarray(end).reshape(())) for end in (low, high))
    function = with_parameters(clip, low=first, high=last)
    reader.add(node, Activation("Clip", function), reader.value(node, 0))
