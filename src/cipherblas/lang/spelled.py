"""How functions of NumPy and of networks are written here: for the errors of who writes them on encrypted values."""

from __future__ import annotations

from collections.abc import Collection

ON_CLIENT = "the decrypted result on the client: to compare, the server would have to see values"
# By name, what computes the same, or near it.
SPELLED: dict[str, str] = {
    "exp": "cb.exp(x)",
    "tanh": "cb.tanh(x)",
    "reciprocal": "cb.inverse(x, lower=…), no entry being below lower",
    "square": "cb.square(x)",
    "sign": "cb.sign(x, margin=…)",
    "maximum": "np.maximum(x, y), or y + cb.relu(x - y)",
    "minimum": "np.minimum(x, y), or y - cb.relu(y - x)",
    "clip": "np.clip(x, low, high), or low + cb.relu(x - low) - cb.relu(x - high)",
    "absolute": "abs(x), or 2 * cb.relu(x) - x",
    "abs": "abs(x), or 2 * cb.relu(x) - x",
    "greater": "cb.greater(x, y, margin=…)",
    "less": "cb.greater(y, x, margin=…)",
    "sqrt": "cb.sqrt(x, lower=…), no entry being below lower",
    "cbrt": "cb.chebyshev(np.cbrt, x, interval=(low, high), promised=True)",
    "add.reduce": "x.sum(axis=0)",
    "add.accumulate": "x.cumsum(axis=0)",
    "multiply.outer": "cb.outer(x, y)",
    "multiply.reduce": "x[0] * x[1] * x[2], in pairs",
    "prod": "x[0] * x[1] * x[2], in pairs",
    "heaviside": "cb.greater(x, 0.0, margin=…)",
    "std": "cb.sqrt(x.var(), lower=…)",
    "norm": "cb.sqrt(cb.squared_norm(x), lower=…)",
    "average": "x.mean()",
    "einsum": "sums of products with @, * and .sum(axis)",
    "tensordot": "x.reshape(…) @ y.reshape(…)",
    "vstack": "cb.concatenate([x, y], axis=0)",
    "hstack": "cb.concatenate([x, y], axis=1)",
    "flatten": "x.ravel()",
    "softmax": "e = cb.exp(x), then e * cb.inverse(e.sum(), lower=…)",
    "log_softmax": "the decrypted scores on the client",
    "max_pool2d": "cb.avg_pool2d(x, kernel_size)",
    "linear": "weights @ x + bias",
    "leaky_relu": "a * x + (1 - a) * cb.relu(x)",
    "silu": "x * cb.sigmoid(x)",
    "log": "cb.chebyshev(np.log, x, interval=(low, high), promised=True)",
    "astype": "x itself: all values are computed in float64",
    "copy": "x itself: no operation changes it",
    "real": "x itself",
    "tolist": "the decrypted result on the client",
    **dict.fromkeys(
        ("inv", "pinv", "det", "solve", "lstsq", "eig", "eigh", "eigvalsh", "svd", "qr", "cholesky"),
        "the decrypted matrix on the client",
    ),
    **dict.fromkeys(("log2", "log10", "log1p"), "cb.chebyshev(f, x, interval=(low, high), promised=True)"),
    **dict.fromkeys(
        ("median", "percentile", "quantile", "any", "all", "topk", "partition", "argpartition", "lexsort"),
        ON_CLIENT,
    ),
    **dict.fromkeys(
        ("unique", "searchsorted", "digitize", "histogram", "bincount", "nonzero", "count_nonzero", "ptp"),
        ON_CLIENT,
    ),
    **dict.fromkeys(("equal", "not_equal", "array_equal", "allclose", "isclose"), ON_CLIENT),
}
OTHERS = "cb.chebyshev(f, x), which approximates a function f of one number on every entry"
OTHER_ARRAYS = "@, +, -, * and sums of x, or the decrypted result on the client"


def spelled(name: str, methods: Collection[str], functions: Collection[str], others: str) -> str:
    """Return advice for a function of this name; `others` where nothing is known of it."""
    if name in SPELLED:
        return SPELLED[name]
    if name in methods:
        return f"x.{name}(…) or cb.{name}(x, …)"
    return f"cb.{name}(…)" if name in functions else others
