"""What to write instead of operators of ONNX that cannot be computed encrypted: why not, and what can."""

from __future__ import annotations

NORMS = "BatchNormalization, and train again: its numbers are known after training, and cost nothing"
COMPARED = "Relu, Clip or Sigmoid of the value, and train again"
FLOAT = "the network in floating point, as it was before it was quantised"
FIXED = "an export of the network for one shape, without control flow: torch.onnx.export by tracing"

# Operators → why they are not computed, and what to write.
_INSTEAD: dict[tuple[str, ...], tuple[str, str]] = {
    ("LpPool", "GlobalLpPool", "MaxRoiPool"): (
        "its windows are no means",
        "AveragePool of the same windows, or a convolution of the same stride, and train again",
    ),
    ("Max",): ("maxima of encrypted values are not computed", "Add(y, Relu(Sub(x, y))) for Max(x, y)"),
    ("Min",): ("minima of encrypted values are not computed", "Sub(x, Relu(Sub(x, y))) for Min(x, y)"),
    ("ReduceMax", "ReduceMin", "ArgMin", "Hardmax"): (
        "maxima of encrypted values are not computed",
        "ReduceMean over height and width, and train again; the client takes the maximum of scores itself",
    ),
    ("LSTM", "GRU", "RNN", "Scan"): (
        "steps that read one another are too deep to be encrypted",
        "convolutions or dense layers on the whole sequence, and train again",
    ),
    ("If", "Loop", "SequenceMap"): ("an encrypted program cannot decide by a value", FIXED),
    (
        "LayerNormalization",
        "InstanceNormalization",
        "GroupNormalization",
        "RMSNormalization",
        "MeanVarianceNormalization",
        "LpNormalization",
        "LRN",
    ): ("it divides by a deviation of encrypted values", NORMS),
    (
        "Where",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Equal",
        "Not",
        "And",
        "Or",
        "Xor",
        "Sign",
        "IsNaN",
        "IsInf",
        "NonZero",
        "NonMaxSuppression",
    ): ("encrypted values are not compared", COMPARED),
    ("Round", "Floor", "Ceil", "Mod", "BitShift"): ("encrypted values are not rounded", FLOAT),
    (
        "QuantizeLinear",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "QLinearConv",
        "QLinearMatMul",
        "ConvInteger",
        "MatMulInteger",
    ): ("weights and values are integers of a quantised network", FLOAT),
    ("Sqrt", "Log", "Reciprocal", "Tan", "Asin", "Acos", "Acosh", "Atanh"): (
        "it has a pole, or an end of its range, where values may come",
        "a function without one, as Softplus or Tanh, and train again",
    ),
    ("ConvTranspose", "Resize", "Upsample", "MaxUnpool", "DepthToSpace", "SpaceToDepth", "GridSample"): (
        "images do not grow, or change channels for pixels",
        "a convolution with more channels in the place of larger images, and train again",
    ),
    ("ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "Sum", "Mean", "CumSum"): (
        "such sums are not computed",
        "Add of two values, or ReduceMean over height and width with larger weights behind it",
    ),
    ("Gather", "GatherND", "GatherElements", "ScatterND", "ScatterElements", "OneHot", "Expand", "Tile"): (
        "entries are not taken by an index, or repeated",
        "Slice, Split and Concat of channels, or a convolution 1x1 with weights 0 and 1",
    ),
    ("Einsum", "Attention"): (
        "products of values with each other are elementwise in a network",
        "convolutions and dense layers; products of encrypted matrices are programs: cb.compile, a @ b",
    ),
}
KNOWN = {name: found for names, found in _INSTEAD.items() for name in names}


def unknown_operator(name: str) -> tuple[str, str]:
    """Return why an operator is not computed, and what to write instead."""
    usual = (
        "no such operator is known",
        "a network of operators of the table in docs/networks.md, From a file of ONNX",
    )
    return KNOWN.get(name, usual)
