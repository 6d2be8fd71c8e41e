"""Networks: layers with clear weights on encrypted vectors and images."""

from __future__ import annotations

from .case import K, P, S, case

# --- networks of vectors ---

case("vector/dense layer 10x784", "W(10, 784) @ x", x=S(784))
case("vector/dense layer 64x64", "W(64, 64) @ x", x=S(64))
case("vector/dense layer 300x200", "W(300, 200) @ x", x=S(200))
case("vector/dense layer as GEMM", "W(64, 64) @ x", x=S(64), form="rows")
case("vector/longer than a ciphertext", "W(4, 9000) @ x", x=S(9000), ring_degree=1 << 13, form="tensors")
case("vector/vector on the left", "x @ W(64, 10)", x=S(64), form="tensors")
case("vector/a number, clear vector on the left", "w @ x", w=P(50), x=S(50))
case("vector/a number, constant on the left", "W(50) @ x", x=S(50))
case("vector/a number, constant on the right", "x @ W(50)", x=S(50))
case("vector/clear operand as weights", "w @ x", w=P(20, 50), x=S(50), form="tensors")
case("vector/int8 weights by rows", "w @ x", w=P(20, 50, dtype="int8"), x=S(50), form="rows")
case("vector/two dense layers", "W(10, 64, seed=1) @ (W(64, 100) @ x)", x=S(100))
case("vector/squares between", "W(10, 64, seed=1) @ cb.square(W(64, 100) @ x + W(64))", x=S(100))
case(
    "vector/two squares",
    "W(4, 10, seed=2) @ cb.square(W(10, 20, seed=1) @ cb.square(W(20, 30) @ x))",
    x=S(30),
)
case("vector/sum of two layers", "W(10, 50) @ x + W(10, 30, seed=1) @ y", x=S(50), y=S(30))
case("vector/product of two vectors", "x * y", x=S(200), y=S(200))
case("vector/polynomial of degree 3", "cb.polynomial(x, [0.5, 0.2, 0, -0.01])", x=S(100))
case("vector/polynomial of degree 7", "cb.polynomial(x, [0, 1, 0, -0.3, 0, 0.1, 0, -0.04])", x=S(100))
case("vector/one power of degree 16", "cb.polynomial(x, [0] * 16 + [1])", x=S(100))
case("vector/terms left out", "cb.polynomial(W(10, 20, most=0.01) @ x, [0, 1, 1e-9, 1e-12])", x=S(20))
case("vector/sigmoid", "cb.sigmoid(x)", x=S(100, bound=8))
case("vector/inverse", "cb.inverse(x, lower=0.1, precision=1e-3)", x=S(100), precision=1e-2)
case(
    "vector/relu between layers",
    "W(10, 64, seed=1) @ cb.relu(cb.assume(W(64, 100) @ x, 16.0), precision=0.02)",
    x=S(100),
    precision=0.05,
)
case("vector/function that is too coarse", "cb.sigmoid(x, degree=3)", x=S(100, bound=8))
case(
    "vector/two layers of relu, too precise",
    "W(4, 6, seed=2) @ cb.relu(W(6, 6, seed=1) @ cb.relu(W(6, 8) @ x))",
    x=S(8),
    precision=2e-4,
)
case("vector/assumed bounds", "W(10, 64, seed=1) @ cb.square(cb.assume(W(64, 100) @ x, 6.0))", x=S(100))
for way in ("promised", "clamped"):
    case(
        f"image/functions inside of refreshes, {way}",
        "cb.chebyshev(np.tanh, cb.refresh(cb.conv2d(x, W(4, 2, 3, 3), padding=1)), degree=30)",
        x=S(2, 8, 8),
        error=0.05,
        range=way,
    )
SAMPLES = {"x": [[0.5, -0.25], [0.125, 0.75], [-0.5, -0.5]]}
case("vector/by samples", "W(3, 2) @ cb.square(W(2, 2, seed=1) @ x)", x=S(2), samples=SAMPLES, slack=2.0)
case("vector/agreement", "W(3, 2) @ cb.square(W(2, 2, seed=1) @ x)", x=S(2), samples=SAMPLES, agreement=0.5)
case("vector/no promise", "W(3, 2) @ cb.square(W(2, 2, seed=1) @ x)", x=S(2), promise="none")
case("vector/by public key and bound", "W(10, 64) @ cb.square(x)", x=K(64, bound=255))
for name in ("metakernel", "helib-bsgs", "fhe-mp-cnn", "fhelipe"):
    case(f"vector/{name}", "W(12, 20, seed=1) @ cb.square(W(20, 30) @ x)", x=S(30), algorithm=name)
case("vector/fame", "cb.square(x)", x=S(6), algorithm="fame")
case("vector/with blocks", "cb.square(x)", x=S(6), block=4)
case("vector/product of two secret vectors", "x @ y", x=S(6), y=S(6))
case("vector/secret matrix and vector", "a @ cb.square(x)", a=S(6, 6), x=S(6))

# --- networks of images ---

CNN = "W(10, {}, seed=1) @ cb.flatten(cb.avg_pool2d(cb.square(cb.conv2d(x, W({}), W({}))), 2))"
case("image/convolution", "cb.conv2d(x, W(4, 1, 3, 3))", x=S(1, 14, 14))
case("image/convolution with a bias", "cb.conv2d(x, W(4, 2, 3, 3), W(4))", x=S(2, 8, 8))
case("image/same padding", "cb.conv2d(x, W(3, 3, 5, 5), padding='same')", x=S(3, 10, 10))
case("image/padding 2", "cb.conv2d(x, W(2, 1, 3, 3), padding=2)", x=S(1, 9, 9))
case("image/stride 2", "cb.conv2d(x, W(4, 2, 3, 3), stride=2)", x=S(2, 15, 15))
case(
    "image/stride 2 across, padding 1",
    "cb.conv2d(x, W(4, 2, 3, 3), stride=(1, 2), padding=1)",
    x=S(2, 12, 12),
)
case("image/depthwise", "cb.conv2d(x, W(4, 1, 3, 3), groups=4)", x=S(4, 8, 8))
case("image/two groups", "cb.conv2d(x, W(6, 2, 3, 3), groups=2)", x=S(4, 8, 8))
case("image/many channels", "cb.conv2d(x, W(32, 16, 3, 3), padding=1)", x=S(16, 8, 8))
case("image/clear operand as filters", "cb.conv2d(x, w)", w=P(4, 1, 3, 3, bound=0.5), x=S(1, 10, 10))
case(
    "image/larger than a ciphertext",
    "cb.conv2d(x, W(2, 1, 3, 3), padding=1)",
    x=S(1, 80, 80),
    ring_degree=1 << 13,
)
case("image/means", "cb.avg_pool2d(x, 2)", x=S(3, 8, 8))
case("image/means that overlap", "cb.avg_pool2d(x, 3, stride=2)", x=S(2, 9, 9))
case("image/means with padding", "cb.avg_pool2d(x, 2, padding=1)", x=S(2, 8, 8))
case("image/mean of all", "W(5, 6) @ cb.flatten(cb.avg_pool2d(x, 8))", x=S(6, 8, 8))
case(
    "image/strides after one another",
    "cb.conv2d(cb.conv2d(x, W(4, 1, 3, 3), stride=2), W(8, 4, 3, 3), stride=2)",
    x=S(1, 21, 21),
)
case(
    "image/residual block",
    "x + cb.conv2d(cb.square(cb.conv2d(x, W(4, 4, 3, 3), padding=1)), W(4, 4, 3, 3, seed=1), padding=1)",
    x=S(4, 8, 8),
)
case(
    "image/three at once",
    "cb.flatten(cb.square(cb.conv2d(x, W(4, 2, 3, 3), padding=1))) @ W(256, 5, seed=1)",
    x=S(3, 2, 8, 8),
    precision=1e-2,
)
case("image/sum with an image", "cb.conv2d(x, W(2, 2, 3, 3)) + W(2, 6, 6) * y", x=S(2, 8, 8), y=S(2, 6, 6))
case("image/the network of the guide", CNN.format(144, "4, 1, 3, 3", 4), x=S(1, 14, 14), precision=1e-3)
case(
    "image/the same, few keys",
    CNN.format(144, "4, 1, 3, 3", 4),
    x=S(1, 14, 14),
    precision=1e-3,
    key_policy="binary",
)
case(
    "image/the same, 192 bits", CNN.format(144, "4, 1, 3, 3", 4), x=S(1, 14, 14), precision=1e-3, security=192
)
case(
    "image/two convolutions, assumed bounds",
    "W(10, 128, seed=2) @ cb.flatten(cb.square(cb.assume(cb.conv2d(cb.square(cb.assume(cb.conv2d("
    "x, W(4, 1, 5, 5), stride=2), 3.0)), W(8, 4, 3, 3, seed=1), stride=2, padding=1), 5.0)))",
    x=S(1, 18, 18),
    precision=1e-2,
)
case(
    "image/CryptoNets",
    "W(10, 100, seed=2) @ cb.square(W(100, 720, seed=1) @ "
    "cb.flatten(cb.square(cb.conv2d(x, W(5, 1, 5, 5), stride=2))))",
    x=S(1, 28, 28),
    precision=1e-2,
)
for name in ("fhe-mp-cnn", "fhelipe"):
    case(
        f"image/{name}",
        "W(10, 144, seed=1) @ cb.flatten(cb.square(cb.conv2d(x, W(4, 1, 3, 3), padding=1)))",
        x=S(1, 6, 6),
        algorithm=name,
    )
case("image/fhelipe, with strides", CNN.format(64, "4, 1, 3, 3", 4), x=S(1, 10, 10), algorithm="fhelipe")
case("image/baseline of vectors alone", "cb.conv2d(x, W(4, 1, 3, 3))", x=S(1, 10, 10), algorithm="helib-bsgs")
