"""Programs of matrices: clear operands and constants, sums, elementwise products, chains, polynomials, refusals."""

from __future__ import annotations

from .case import K, P, S, case

INT8, INT16 = ({"dtype": kind, "exact": True} for kind in ("int8", "int16"))

# --- one side clear ---

for d in (4, 64, 2048):
    case(f"clear/left, square {d}", "a @ b", a=P(d, d), b=S(d, d))
case("clear/thin", "a @ b", a=P(10, 300), b=S(300, 100))
case("clear/one column", "a @ b", a=P(100, 100), b=S(100, 1))
for kind in ("int8", "uint8", "int16", "int32", "float32"):
    case(f"clear/{kind} by rows", "a @ b", a=P(40, 100, dtype=kind), b=S(100, 30), form="rows")
case("clear/int8 in slots", "a @ b", a=P(40, 100, dtype="int8"), b=S(100, 30), form="blocks")
case("clear/int8 with a bound", "a @ b", a=P(40, 100, dtype="int8", bound=7), b=S(100, 30))
case("clear/int64", "a @ b", a=P(4, 10, dtype="int64"), b=S(10, 3))
for name in ("skewed", "bicyclic", "fame", "outer-product", "e2dm", "halevi-shoup"):
    case(f"clear/left, {name}", "a @ b", a=P(12, 16), b=S(16, 10), algorithm=name)
case("clear/in blocks", "a @ b", a=P(100, 100), b=S(100, 100), form="blocks", block=50)
case("clear/both sides", "u @ x @ v", u=P(12, 40), x=S(40, 30), v=P(30, 8))
case("clear/two uses", "u @ x + x @ v", u=P(20, 20), x=S(20, 20), v=P(20, 20))

# --- for clients with another library ---

case("peer/product", "a @ b", a=S(24, 20), b=S(20, 28), for_peer="seal")
case("peer/product without keys", "a * b", a=S(24, 20), b=S(24, 20), for_peer="seal")
case("peer/polynomial", "(x * x - 0.5) * x", x=S(64), for_peer="seal")

# --- constants, fixed weights ---

case("constant/float64", "W(40, 100) @ x", x=S(100, 30))
case("constant/int8", "W(40, 100, most=127, dtype='int8') @ x", x=S(100, 30))
case("constant/small float32", "W(40, 100, most=2**-10, dtype='float32') @ x", x=S(100, 30))
case("constant/in slots", "W(40, 100) @ x", x=S(100, 30), form="blocks")
case("constant/right", "x @ W(64, 20)", x=S(30, 64))
case("constant/both sides", "W(12, 40) @ x @ W(30, 8)", x=S(40, 30))
case("constant/of one row", "W(1, 500) @ x", x=S(500, 100))
case("constant/sparse", "np.eye(32, 32, 1) @ x", x=S(32, 32), form="blocks")
case("constant/zero", "np.zeros((8, 8)) @ x + x", x=S(8, 8))
case("fixed weights/int8", "W(4, 2000, most=127, dtype='int8') @ x", x=S(2000, 1000), form="rows")
case("fixed weights/float64, for the server's time", "W(60, 2000) @ x", x=S(2000, 4000), minimise="server")
case("fixed weights/not worth their keys", "W(60, 500) @ x", x=S(500, 2000), minimise="server", form="rows")
case(
    "fixed weights/no room for their keys",
    "W(4, 2000) @ x",
    x=S(2000, 1000),
    form="rows",
    key_budget=1 << 18,
)
case("fixed weights/right", "x @ W(2000, 4)", x=S(1000, 2000), form="rows")
case(
    "fixed weights/two factors",
    "W(4, 2000) @ x + 2 * W(4, 2000, seed=1) @ y",
    x=S(2000, 900),
    y=S(2000, 900),
    form="rows",
)

# --- sums, factors, transposes, elementwise products ---

case("sum/of two", "a + b", a=S(30, 40), b=S(30, 40))
case("sum/of five", "a + b + c + d + e", **{name: S(9, 9) for name in "abcde"})
case("sum/with a clear one", "a + p", a=S(30, 40), p=P(30, 40))
case("sum/with a constant", "a + W(30, 40)", a=S(30, 40))
case("sum/with a row, broadcast", "a + W(1, 40)", a=S(30, 40))
case("sum/of a matrix and its transpose", "a + a.T", a=S(30, 30))
case("sum/larger than a ciphertext", "a + b", a=S(300, 300), b=S(300, 300))
case("sum/of products", "a @ b + c @ d", a=S(12, 16), b=S(16, 10), c=S(12, 20), d=S(20, 10))
case(
    "sum/of products by rows",
    "a @ b - c @ d",
    a=S(12, 16),
    b=S(16, 10),
    c=S(12, 20),
    d=S(20, 10),
    form="rows",
)
case("sum/of clear products", "W(9, 30) @ a + b", a=S(30, 20), b=S(9, 20))
case("factor/alone", "3 * a", a=S(30, 40))
case("factor/small", "a * 1e-9 + b", a=S(10, 10), b=S(10, 10))
case("factor/zero", "0 * a + b", a=S(10, 10), b=S(10, 10))
case("transpose/alone", "a.T", a=S(30, 40))
case("elementwise/product", "a * b", a=S(30, 40), b=S(30, 40))
case("elementwise/larger than a ciphertext", "a * b", a=S(200, 100), b=S(200, 100))
case("elementwise/square", "a * a", a=S(20, 20))
case("elementwise/cube", "a * a * a", a=S(20, 20))
case("elementwise/eighth power", "cb.square(cb.square(cb.square(a)))", a=S(20, 20))
case("elementwise/with its transpose", "a * a.T", a=S(20, 20))
case("elementwise/clear", "a * p", a=S(30, 40), p=P(30, 40))
case("elementwise/constant, broadcast", "a * W(30, 1)", a=S(30, 40))
case("elementwise/logistic step", "3.5 * a * (1 - a)", a=S(20, 20))

# --- chains ---

for d in (8, 32):
    case(f"chain/of 3, square {d}", "a @ b @ c", **{name: S(d, d) for name in "abc"})
case("chain/of 4, square 8", "a @ b @ c @ d", **{name: S(8, 8) for name in "abcd"})
case("chain/of 6, square 8", "a @ b @ c @ d @ e @ f", **{name: S(8, 8) for name in "abcdef"})
case("chain/of 4, as a tree", "(a @ b) @ (c @ d)", **{name: S(8, 8) for name in "abcd"})
case("chain/rectangular", "a @ b @ c", a=S(5, 30), b=S(30, 10), c=S(10, 20))
case("chain/skewed", "a @ b @ c", **{name: S(20, 20) for name in "abc"}, algorithm="skewed")
case("chain/bicyclic", "a @ b @ c", a=S(15, 16), b=S(16, 17), c=S(17, 15), algorithm="bicyclic")
case("chain/outer-product", "a @ b @ c", **{name: S(12, 12) for name in "abc"}, algorithm="outer-product")
case("chain/fame", "a @ b @ c", **{name: S(8, 8) for name in "abc"}, algorithm="fame", ring_degree=1 << 15)
case("chain/by rows", "a @ b @ c", **{name: S(64, 64) for name in "abc"}, form="rows")
case(
    "chain/of 4 by rows",
    "a @ b @ c @ d",
    **{name: S(64, 64) for name in "abcd"},
    form="rows",
    precision=1e-2,
)
case("chain/clear in the middle", "a @ p @ b", a=S(12, 16), p=P(16, 20), b=S(20, 10))
case("chain/clear at both ends", "W(5, 8) @ a @ b @ W(8, 6)", a=S(8, 8), b=S(8, 8))
case("chain/clear ones by rows", "W(10, 50) @ (W(50, 60) @ x)", x=S(60, 40), form="rows")
case("chain/clear ones in slots", "W(10, 20) @ (W(20, 30) @ x)", x=S(30, 20), form="blocks")
case("chain/with transposes by rows", "(a @ b).T @ c", a=S(12, 16), b=S(16, 10), c=S(12, 9), form="rows")
case("chain/at a fine precision", "a @ b @ c", **{name: S(8, 8) for name in "abc"}, precision=1e-7)
case("scale/of two primes, entrywise", "x * y * x", x=S(8, 8), y=S(8, 8), error=1e-11)
case("scale/of two primes, a product", "(x @ W(8, 8)) * y", x=S(8, 8), y=S(8, 8), error=3e-11)
case("scale/of two primes, a polynomial", "0.5 + x - 0.3 * x**3 + 0.1 * x**6", x=S(8, 8), error=1e-11)
case("scale/of two primes, a layer", "(x @ W(32, 16)) ** 2", x=S(32), error=1e-10)
case("scale/of two primes, variances", "x.var(axis=0)", x=S(16, 3, bound=100001), error=0.0025)
case("scale/beyond two primes", "0.5 + x - 0.3 * x**3", x=S(8, 8), error=9e-15)
case("chain/few keys", "a @ b @ c", **{name: S(16, 16) for name in "abc"}, key_policy="binary")
case("chain/of 10, too deep as it is written", " @ ".join(["a"] * 10), a=S(4, 4), ring_degree=1 << 14)
case("chain/too deep", " @ ".join(["a"] * 17), a=S(4, 4), ring_degree=1 << 14)

# --- assumed bounds, polynomials of matrices, mixed programs ---

case("assumed/product", "cb.assume(a @ b, 4.0) @ c", **{name: S(16, 16) for name in "abc"})
case(
    "assumed/product by rows",
    "cb.assume(a @ b, 4.0) @ c",
    **{name: S(40, 40) for name in "abc"},
    form="rows",
)
case("assumed/square", "cb.square(cb.assume(W(10, 100) @ x, 8.0))", x=S(100, 10))
case("assumed/larger than the bound", "cb.assume(a @ b, 1e9)", a=S(8, 8), b=S(8, 8), algorithm="skewed")
case("assumed/of a clear node", "cb.assume(p, 1.0) @ a", a=S(8, 8), p=P(8, 8))
case("polynomial/of a matrix", "cb.polynomial(a, [0.5, 1, 0, -0.25])", a=S(16, 16))
case("polynomial/of a product", "cb.polynomial(W(8, 16) @ a, [0, 0.5, 0.1])", a=S(16, 16))
case("polynomial/of degree 31", "cb.chebyshev(np.sin, a, degree=31)", a=S(16, 16, bound=20))
case(
    "polynomial/exp between products", "cb.exp(0.1 * (a @ b)) @ b.T", a=S(16, 16), b=S(16, 12), precision=1e-3
)
case(
    "polynomial/sign of a sum",
    "cb.sign(a - b, margin=0.2, precision=1e-3)",
    a=S(16, 16),
    b=S(16, 16),
    precision=1e-2,
)
case("mixed/product and its factor", "(a @ b) * a", a=S(16, 16), b=S(16, 16))
case("mixed/quadratic form", "x.T @ a @ x", a=S(16, 16), x=S(16, 1))
case("mixed/commutator", "a @ b - b @ a", a=S(16, 16), b=S(16, 16))
case("mixed/layer of squares", "W(10, 16, seed=1) @ cb.square(W(16, 30) @ x + W(16, 1))", x=S(30, 12))
case("mixed/Newton step of an inverse", "x @ (2 * np.eye(12) - a @ x)", a=S(12, 12), x=S(12, 12))
case("mixed/gradient", "p.T @ (p @ x - y)", p=P(40, 12), x=S(12, 3), y=S(40, 3))
case("mixed/gradient, all secret", "a.T @ (a @ x - y)", a=S(20, 12), x=S(12, 3), y=S(20, 3))
case("mixed/residual", "x + 0.1 * (W(16, 16) @ cb.square(x))", x=S(16, 16))
case("mixed/one node twice", "(a @ b) * (a @ b) + a @ b", a=S(12, 12), b=S(12, 12))
case(
    "forms/squares and a small product",
    "W(10, 128, seed=1) @ cb.square(W(128, 784) @ x)",
    x=S(784, 256),
    form="mixed",
)
case(
    "forms/squares and a large product",
    "W(64, 512, seed=1) @ cb.square(W(512, 392) @ x)",
    x=S(392, 128),
    form="mixed",
)

# --- one ciphertext for each feature ---

case("features/squares between layers", "W(10, 64, seed=1) @ cb.square(W(64, 196) @ x)", x=S(196, 2000))
case(
    "features/samples along the rows, a polynomial",
    "cb.sigmoid(x @ W(30, 16, most=0.1) + 0.25, degree=15) @ W(16, 4, seed=1)",
    x=S(2000, 30),
    form="features",
    precision=1e-2,
)
case("features/several columns", "cb.square(x @ W(30, 16))[:, ::4]", x=S(5000, 30), form="features")
case("features/encrypted weights", "w @ x", w=S(8, 30), x=S(30, 3000), form="features")
POSITIONS = {"x": S(8 * 3000, 9), "w": S(9, 4, column_sum=3.0), "v": S(32, 5, column_sum=4.0)}
for way, link in (("packed", 1e8), ("one by one", 1e11)):
    case(
        f"features/encrypted weights {way}, positions in slots",
        "cb.square(x @ w).reshape(-1, 8, 4).transpose(0, 2, 1).reshape(-1, 32) @ v",
        **POSITIONS,
        form="features",
        link=link,
    )
case("features/weights that are samples", "x @ x.T", x=S(30, 30), form="features")

# --- integers modulo t ---

T16, T31 = 65537, 2147352577  # = 1 mod 2^16
case("modular/product", "a @ b", a=S(64, 64, modulus=T16), b=S(64, 64, modulus=T16))
case(
    "modular/chain of 31 bits",
    "(a @ b) @ a - 3 * b",
    a=S(16, 16, modulus=T31),
    b=S(16, 16, modulus=T31),
)
case("modular/clear weights", "w @ x + 7", w=P(64, 64, dtype="int32"), x=S(64, modulus=T31))
case("modular/two entries in a slot", "a**3 * b - 2 * a", a=S(70, 60, modulus=T16), b=S(70, 60, modulus=T16))
case("modular/elementwise, public key", "a * b + a", a=K(40, 40, modulus=T16), b=S(40, 40, modulus=T16))
case("modular/polynomial", "cb.polynomial(a, [1, -2, 0, 3, 0, 0, 1])", a=S(20, 20, modulus=T16))
case("modular/many blocks", "a @ b", a=S(200, 300, modulus=T31), b=S(300, 100, modulus=T31))
case(
    "modular/several results",
    "{'gram': x.T @ x, 'sums': x.sum(axis=0)}",
    x=S(50, 8, modulus=T31),
)
case(
    "modular/by rows",
    "a @ b + 3 * c",
    a=S(40, 60, modulus=2**16),
    b=S(60, 30, modulus=2**16),
    c=S(40, 30, modulus=2**16),
)
case("modular/clear weights by rows", "w @ x - x", w=P(500, 500, dtype="int8"), x=S(500, 300, modulus=2**32))
case("modular/1024 by rows", "a @ b", a=S(1024, 1024, modulus=T31), b=S(1024, 1024, modulus=T31))
case("modular/half", "a / 2", a=S(8, 8, modulus=T16))
case("modular/function", "cb.relu(a)", a=S(8, 8, modulus=T16))
case("modular/two moduli", "a + b", a=S(8, 8, modulus=T16), b=S(8, 8, modulus=40961))
case("modular/precision", "a @ a", a=S(8, 8, modulus=T16), precision=1e-3)
case("modular/slots of small rings alone", "a ** 16", a=S(8, 8, modulus=40961))
case("modular/too deep", "a ** 8", a=S(8, 8, modulus=T31), ring_degree=8192)
NETWORK = (
    "W(16, 64, most=9, dtype='int8') @ cb.flatten(cb.square(cb.conv2d(x, W(4, 1, 3, 3, most=9, dtype='int8'), "
    "stride=2, padding=1)))"
)
case("modular/layers", NETWORK, x=S(1, 8, 8, modulus=T16))
case("modular/vector in tensors", "W(40, 60, most=9, dtype='int8') @ x", x=S(60, modulus=T16), form="tensors")
case("modular/mean", "cb.avg_pool2d(x, 2)", x=S(1, 8, 8, modulus=T16))

# --- exact integers ---

case("exact/clear int8, square 256", "a @ b", a=P(256, 256, dtype="int8"), b=S(256, 256, **INT8))
case("exact/clear int8, square 4096", "a @ b", a=P(4096, 4096, dtype="int8"), b=S(4096, 4096, **INT8))
case("exact/clear int16", "a @ b", a=P(40, 1024, dtype="int16"), b=S(1024, 30, **INT16))
case(
    "exact/clear int16 of many terms, for the server's time",
    "a @ b",
    a=P(4096, 4096, dtype="int16"),
    b=S(4096, 4096, **INT16),
    minimise="server",
)
case("exact/secret int8, square 64", "a @ b", a=S(64, 64, **INT8), b=S(64, 64, **INT8))
case(
    "exact/secret int8 by rows, for the server's time",
    "a @ b",
    a=S(1024, 1024, **INT8),
    b=S(1024, 1024, **INT8),
    form="rows",
    minimise="server",
)
case("exact/int16 and a term", "a @ b + 1", a=P(40, 1024, dtype="int16"), b=S(1024, 30, **INT16))
case(
    "exact/secret int16 by rows, for the server's time",
    "a @ b",
    a=S(1024, 1024, **INT16),
    b=S(1024, 1024, **INT16),
    form="rows",
    minimise="server",
)
case("exact/chain", "(a @ b) @ c + 3 * c", a=S(12, 12, **INT8), b=S(12, 12, **INT8), c=S(12, 12, **INT8))
case("exact/elementwise", "a * b - 2 * a", a=S(16, 16, **INT8), b=S(16, 16, **INT8))
case("exact/a smaller error", "a @ b", a=P(40, 100, dtype="int8"), b=S(100, 30, **INT8), error=0.01)
case("exact/fractions", "a @ b / 2", a=S(16, 16, **INT8), b=S(16, 16, **INT8))
case("exact/by residues", "(a @ b) @ c", **{name: S(64, 64, **INT16) for name in "abc"})
case("exact/int64", "a @ b", **{name: S(64, 64, dtype="int64", exact=True, bound=2**31) for name in "ab"})
case(
    "exact/many products modulo 2^64, fastest on the server",
    "a * b",
    **{name: S(100_000, 1, modulus=2**64) for name in "ab"},
    minimise="server",
)
case("exact/products of int64", "a * b", **{name: S(64, 64, dtype="int64", exact=True) for name in "ab"})
case("exact/too large", "a ** 9", a=S(8, 8, dtype="int64", exact=True))
case("exact/precision beside int64", "a @ a", a=S(8, 8, dtype="int64", exact=True), precision=1e-9)
case("exact/error beside int64", "a @ a", a=S(8, 8, dtype="int64", exact=True), error=0.01)
case("exact/mixed int64", "a @ a", a=S(8, 8, dtype="int64", exact=True), form="mixed")
case("exact/mean", "cb.mean(a * a, axis=0)", a=S(8, 8, **INT8))
case("exact/comparison", "cb.greater(a, 3, margin=0.5)", a=S(8, 8, **INT8))
case("exact/refresh of int64", "cb.refresh(a * a) * a", a=S(8, 8, dtype="int64", exact=True))
case("exact/promise of int64", "cb.assume(a * a, 100) * a", a=S(8, 8, dtype="int64", exact=True))
case("exact/small ring", "a ** 4", a=S(8, 8, dtype="int64", exact=True), ring_degree=4096)
case("exact/modulo 2^64, too large", "a ** 9", a=S(8, 8, modulus=2**64))
case("exact/modulo 2^64", "a * b", **{name: S(64, 64, modulus=2**64) for name in "ab"})
case("exact/fixed point", "x.T @ x / 50 - cb.mean(x, axis=0)", x=S(50, 8, bound=1e5, fixed_point=20))
case("exact/layers", NETWORK, x=S(1, 8, 8, **INT8))
case(
    "exact/layers of int64",
    "cb.conv2d(x, W(4, 1, 3, 3, most=9, dtype='int8'))",
    x=S(1, 8, 8, dtype="int64", exact=True),
)
case(
    "exact/means in fixed point",
    "cb.avg_pool2d(cb.conv2d(x, W(2, 1, 3, 3)), 3)",
    x=S(1, 8, 8, fixed_point=12),
)
case("exact/fixed point beside real numbers", "x * y", x=S(8, fixed_point=10), y=S(8))
case("exact/no ring", "(a @ a) @ a", a=S(16, 16, **INT8), security=256, ring_degree=4096)

# --- refused before anything is planned ---

case("refused/inner lengths differ", "a @ b", a=S(8, 9), b=S(8, 9))
case("refused/shapes of a sum", "a + b", a=S(8, 9), b=S(9, 8))
case("refused/constant that cannot be broadcast", "a * W(3, 4)", a=S(8, 9))
case("refused/empty operand", "a @ b", a=S(0, 9), b=S(9, 8))
case("refused/filters of another depth", "cb.conv2d(x, W(4, 2, 3, 3))", x=S(1, 8, 8))
case("refused/a vector as filters", "cb.conv2d(x, cb.flatten(x))", x=S(1, 8, 8))
case("refused/polynomial of degree 256", "cb.polynomial(x, [1.0] * 257)", x=S(6))
case("refused/no secret", "a @ b", a=P(8, 8), b=P(8, 8))
case("refused/clear result", "0 * a + p", a=S(8, 8), p=P(8, 8))
case("refused/operand without use", "a @ a", a=S(8, 8), b=S(8, 8))
case("refused/constant that is not finite", "a * np.inf", a=S(8, 8))
case("refused/division by zero", "a / 0", a=S(8, 8))
case("refused/text in a formula", "a @ 'b'", a=S(8, 8))
case("refused/unknown option", "a @ a", a=S(8, 8), speed=3)
case("refused/name that a method uses", "progress @ progress", progress=S(8, 8))
case("refused/unknown algorithm", "a @ b", a=S(8, 8), b=S(8, 8), algorithm="strassen")
case("refused/unknown policy", "a @ b", a=S(8, 8), b=S(8, 8), key_policy="ternary")
case("refused/unknown order", "a @ b", a=S(8, 8), b=S(8, 8), order="slot")
case("refused/unknown aim", "a @ b", a=S(8, 8), b=S(8, 8), minimise="client")

# --- refreshes ---

case("refresh/powers", "cb.refresh(a * a) * a", a=S(30, 40), precision=1e-2)
case("refresh/of two products", "cb.refresh(a @ b) @ cb.refresh(b @ a)", a=S(8, 8), b=S(8, 8), precision=5e-2)
case(
    "refresh/eleven levels apart",
    "cb.refresh(cb.tanh(cb.assume(cb.refresh(cb.sigmoid(a * a, degree=31)) * 4, 4), degree=63)) * a",
    a=S(20, 20, bound=2),
    precision=0.3,
)
case(
    "refresh/between layers",
    "W(10, 64, seed=1) @ cb.refresh(cb.square(W(64, 100, most=0.1) @ x))",
    x=S(100),
    precision=1e-2,
)
case(
    "refresh/products in the ring of rows",
    "cb.square(cb.refresh(cb.assume((x @ W(64, 16, seed=1, most=0.1)) @ (x @ W(64, 16, seed=2, most=0.1)).T, 2)))"
    " @ cb.assume(x @ W(64, 16, seed=3, most=0.1), 1)",
    x=S(60, 64, bound=0.5),
    form="mixed",
    error=10.0,
)
case("refresh/too precise", "cb.refresh(a * a)", a=S(8, 8), precision=1e-6)
case("refresh/192 bits", "cb.refresh(a * a)", a=S(8, 8), precision=1e-2, security=192)
case("refresh/an a part for three", "cb.refresh(a * a) * a", a=S(240, 400), precision=1e-2, minimise="server")
case(
    "refresh/with one a part, several times",
    "cb.refresh(a * a)",
    a=S(240, 1024),
    precision=1e-2,
    minimise="server",
    key_budget=3 << 30,
)
case("refresh/few keys", "cb.refresh(a * a)", a=S(8, 8), precision=1e-2, key_budget=1 << 30)
