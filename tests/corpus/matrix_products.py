"""Products of two secrets: shapes, algorithms, their options, keys, rings, budgets, forms, bounds."""

from __future__ import annotations

from typing import Any

from cipherblas.crypto.params import Parameters, make_parameters

from .case import Chosen, K, P, S, case, product

# --- one product of two secrets, nothing asked ---

for d in (1, 4, 8, 16, 32, 64, 100, 200, 256, 512, 1024):
    product(f"product/square {d}", (d, d, d))
product("product/small of three lengths", (2, 3, 4))
product("product/README", (160, 96, 200))
product("product/tall times small", (1000, 4, 4))
product("product/small times wide", (4, 4, 1000))
product("product/of one row and one column", (1, 256, 1))
product("product/matrix times one column", (64, 64, 1))
product("product/thin inside", (500, 2, 500))
product("product/long inside", (3, 700, 3))

case("product/square of a matrix", "a @ a", a=S(24, 24))
case("product/Gram matrix", "a.T @ a", a=S(40, 12))
case("product/right transposed", "a @ b.T", a=S(16, 24), b=S(20, 24))
case("product/transposed after", "(a @ b).T", a=S(10, 24), b=S(24, 20))
case("product/with factors", "-(3 * a @ b) / 7", a=S(16, 16), b=S(16, 16))

# --- algorithms by name ---

BASELINES = ("e2dm", "e2dm-r", "fame-published", "hegmm", "hegmm-en", "huang-zong", "fhe-mm", "halevi-shoup")

for name in ("skewed", "outer-product", "bicyclic", "fame", *BASELINES, "gemm"):
    product(f"{name}/square 12", (12, 12, 12), algorithm=name)
    product(f"{name}/lengths 6 13 8", (6, 13, 8), algorithm=name)
    product(f"{name}/blocks of 7", (15, 12, 20), algorithm=name, block=7)
product("diagonals/square 12", (12, 12, 12), algorithm="diagonals")
product("diagonals/tall", (3000, 100, 1), algorithm="diagonals")
product("diagonals/large, ciphertexts lent", (100_000, 256, 1), algorithm="diagonals")
product("diagonals/wide, a few vectors", (3, 900, 40), algorithm="diagonals")
for name in ("skewed", "outer-product", "bicyclic", "e2dm", "gemm"):
    product(f"{name}/square 64", (64, 64, 64), algorithm=name)
product("outer-product/square 150", (150, 150, 150), algorithm="outer-product")
product("bicyclic/lengths 61 63 64", (61, 63, 64), algorithm="bicyclic")
product("fame/square 32", (32, 32, 32), algorithm="fame")
product("fame/wide", (8, 8, 60), algorithm="fame")
product("fame/more than one ciphertext", (90, 8, 90), algorithm="fame", ring_degree=1 << 13)
product("gemm/square 300", (300, 300, 300), algorithm="gemm")
product("gemm/square 2048", (2048, 2048, 2048), algorithm="gemm", ring_degree=1 << 13)
product("gemm/thin", (5, 3000, 2), algorithm="gemm")

# --- options of algorithms, blocks ---

product(
    "options/skewed without complex packing",
    (20, 20, 20),
    algorithm="skewed",
    options={"complex_packing": False},
)
product(
    "options/skewed by baby steps",
    (30, 30, 30),
    algorithm="skewed",
    options={"baby_steps": 4, "key_baby_steps": 2},
)
product("options/outer-product with copies", (10, 24, 10), algorithm="outer-product", options={"copies": 4})
product(
    "options/outer-product plainly",
    (10, 24, 10),
    algorithm="outer-product",
    options={"complex_packing": False},
)
product(
    "options/bicyclic without complex packing",
    (15, 16, 17),
    algorithm="bicyclic",
    options={"complex_packing": False},
)
product("options/fame without any", (16, 16, 16), algorithm="fame", options={})
product("options/fame not aligned", (10, 16, 12), algorithm="fame", options={"aligned": False})
product("options/fame by radix", (16, 16, 16), algorithm="fame", options={"radix": 4, "key_baby_steps": 4})
product(
    "options/fame packed, by baby steps",
    (16, 16, 16),
    algorithm="fame",
    options={"complex_packing": True, "baby_steps": 4},
)
product("options/e2dm padded", (12, 12, 12), algorithm="e2dm", options={"size": 16, "baby_steps": 4})
product("options/an unknown one", (12, 12, 12), algorithm="skewed", options={"giant_leaps": 4})
product(
    "options/too few slots",
    (100, 100, 100),
    algorithm="fame",
    options={"aligned": True},
    block=100,
    ring_degree=1 << 12,
)
product("blocks/of 20, any algorithm", (50, 40, 30), block=20)
product("blocks/of 1", (3, 3, 3), block=1, algorithm="outer-product")
product("blocks/larger than the matrices", (12, 12, 12), block=100, algorithm="skewed")
case("blocks/of a chain", "(a @ b) @ c", a=S(20, 16), b=S(16, 12), c=S(12, 8), block=8, algorithm="bicyclic")
case("blocks/of a square", "a @ a", a=S(30, 30), block=15, algorithm="skewed")

# --- keys ---

for policy in ("direct", "composed", "binary"):
    product(f"keys/{policy}, skewed", (40, 40, 40), key_policy=policy, algorithm="skewed")
    product(f"keys/{policy}, fame", (8, 8, 8), key_policy=policy, algorithm="fame")
    product(f"keys/{policy}, gemm", (40, 40, 40), key_policy=policy, algorithm="gemm")
    case(f"keys/{policy}, dense layer", "W(30, 100) @ x", x=S(100), key_policy=policy, form="tensors")

# --- rings, security, parameters, loop orders ---

for log_n in (12, 13, 15, 17):
    product(f"ring/2^{log_n}, skewed", (30, 30, 30), ring_degree=1 << log_n, algorithm="skewed")
for log_n in (12, 13, 14):
    product(f"ring/2^{log_n}, gemm", (100, 100, 100), ring_degree=1 << log_n, algorithm="gemm")
case("ring/2^15, network", "cb.square(W(8, 20) @ x)", x=S(20), ring_degree=1 << 15)
case(
    "ring/2^12 is too small", "a @ b @ c @ d", a=S(8, 8), b=S(8, 8), c=S(8, 8), d=S(8, 8), ring_degree=1 << 12
)
product("ring/2^12 is too small for the precision", (8, 8, 8), ring_degree=1 << 12, precision=1e-11)
product("ring/3000", (8, 8, 8), ring_degree=3000)

for bits in (192, 256):
    product(f"security/{bits} bits, slots", (24, 24, 24), security=bits, form="blocks")
    product(f"security/{bits} bits, rows", (100, 100, 100), security=bits, form="rows")
    case(f"security/{bits} bits, network", "cb.square(W(8, 20) @ x)", x=S(20), security=bits)
INSECURE: dict[str, Any] = {"security": 0, "insecure": True}
product("security/none, slots", (8, 8, 8), **INSECURE, algorithm="skewed", ring_degree=1 << 12)
case("security/none, network", "cb.square(cb.square(W(8, 20) @ x))", x=S(20), **INSECURE, ring_degree=1 << 12)
product("security/0 bits without insecure", (8, 8, 8), security=0)
product("security/100 bits", (8, 8, 8), security=100)


def _fame_set() -> Parameters:
    """FAME's set A: Table II."""
    return make_parameters(
        1 << 13, [35.66] * 5, special_bits=35.66, special_limbs=1, alpha=1, scale_bits=30.66
    )


def _large_set() -> Parameters:
    return make_parameters(1 << 14, [50.0, *[40.0] * 5], alpha=2, scale_bits=40.0)


def _toy_set() -> Parameters:
    return make_parameters(1 << 10, [50.0, *[40.0] * 4], alpha=2, scale_bits=40.0, security=0, insecure=True)


FAME_SET, LARGE_SET, TOY_SET = (
    Chosen(name, make)
    for name, make in (("FAME's set A", _fame_set), ("six limbs", _large_set), ("a toy", _toy_set))
)
product("parameters/FAME's set A, fame", (16, 16, 16), parameters=FAME_SET, algorithm="fame", options={})
product("parameters/FAME's set A, any algorithm", (32, 32, 16), parameters=FAME_SET)
product("parameters/six limbs, skewed", (40, 40, 40), parameters=LARGE_SET, algorithm="skewed")
case(
    "parameters/six limbs, a chain", "a @ b @ c", a=S(12, 12), b=S(12, 12), c=S(12, 12), parameters=LARGE_SET
)
case("parameters/six limbs, network", "cb.square(W(8, 20) @ x)", x=S(20), parameters=LARGE_SET)
product("parameters/a toy", (6, 6, 6), parameters=TOY_SET, **INSECURE)
product("parameters/a toy, not accepted", (6, 6, 6), parameters=TOY_SET)
product("parameters/by GEMM", (6, 6, 6), parameters=LARGE_SET, algorithm="gemm")
product(
    "parameters/miss the precision", (16, 16, 16), parameters=FAME_SET, algorithm="skewed", precision=1e-10
)

for order in ("limb", "rotation"):
    product(f"order/{order}, fame", (12, 12, 12), order=order, algorithm="fame")
    case(f"order/{order}, network", "W(10, 36) @ cb.flatten(x)", x=S(1, 6, 6), order=order, form="tensors")

# --- budgets ---

product("memory/180 MiB are enough", (128, 128, 128), memory_budget=180 << 20, algorithm="skewed")
for budget in (165, 170, 180):  # an algorithm, and blocks, that take more time
    product(
        f"memory/{budget} MiB, minimising the server's time",
        (64, 64, 64),
        memory_budget=budget << 20,
        minimise="server",
    )
product("memory/too little for any plan", (16, 16, 16), memory_budget=100 << 20)
case("memory/too little for a network", "cb.square(W(8, 20) @ x)", x=S(20), memory_budget=64 << 20)
product("key budget/1.5 MiB, skewed", (40, 40, 40), key_budget=3 << 19, algorithm="skewed")
product("key budget/1 MiB, skewed", (16, 16, 16), key_budget=1 << 20, algorithm="skewed")
product("key budget/none, any algorithm", (4, 4, 4), key_budget=0)
product("key budget/12 MiB, fame", (8, 8, 8), key_budget=12 << 20, algorithm="fame", ring_degree=1 << 13)
product("key budget/none for bicyclic", (16, 16, 16), key_budget=0, algorithm="bicyclic")
product("key budget/8 MiB, gemm", (40, 40, 40), key_budget=8 << 20, algorithm="gemm")
product("key budget/none for gemm", (40, 40, 40), key_budget=0, algorithm="gemm")
case(
    "key budget/2 MiB, dense layer",
    "W(30, 100) @ x",
    x=S(100),
    key_budget=2 << 20,
    form="tensors",
    ring_degree=1 << 12,
)
case("key budget/none for a network", "cb.square(W(8, 20) @ x)", x=S(20), key_budget=0)
product("upload/2 MiB, minimising the server's time", (64, 64, 64), upload_budget=2 << 20, minimise="server")
product("upload/none", (16, 16, 16), upload_budget=0)
product("upload/100 KiB for outer-product", (16, 16, 16), upload_budget=100 << 10, algorithm="outer-product")
product("upload/100 KiB for gemm", (64, 64, 64), upload_budget=100 << 10, algorithm="gemm")
case("upload/100 KiB for a network", "cb.square(W(8, 200) @ x)", x=S(200), upload_budget=100 << 10)

# --- forms, what is made least, links, threads ---

for d in (16, 100):
    for form in ("blocks", "rows"):
        product(f"form/{form}, both secret, square {d}", (d, d, d), form=form)
        case(f"form/{form}, left clear, square {d}", "a @ b", a=P(d, d), b=S(d, d), form=form)
product("form/layers for matrices", (8, 8, 8), form="tensors")
product("form/columns", (8, 8, 8), form="columns")
product("form/slots for gemm", (8, 8, 8), form="blocks", algorithm="gemm")
product("form/rows for skewed", (8, 8, 8), form="rows", algorithm="skewed")
case("form/rows for elementwise products", "(a @ b) * a", a=S(4, 4), b=S(4, 4), form="rows")
case("form/slots for a network", "cb.square(x)", x=S(6), form="blocks")
case("form/slots for an image", "cb.square(x)", x=S(2, 3, 3), form="blocks")
case("form/rows for a network", "cb.square(x)", x=S(6), form="rows")
for d in (16, 64):
    product(f"minimise/server, square {d}", (d, d, d), minimise="server")
case("minimise/server, network", "W(10, 100) @ cb.square(W(100, 100) @ x)", x=S(100), minimise="server")
product("link/10 Mbit per second", (48, 48, 48), link=1e7)
product("link/none", (8, 8, 8), link=0)
product("threads/1", (64, 64, 64), threads=1)
product("threads/32", (64, 64, 64), threads=32)

# --- the public key ---

case("public key/both operands", "a @ b", a=K(20, 30), b=K(30, 7))
case("public key/one operand", "a @ b", a=K(20, 30), b=S(30, 7))
case("public key/gemm", "a @ b", a=K(40, 60), b=S(60, 50), algorithm="gemm")
case("public key/clear weights by rows", "w @ x", w=P(20, 300, dtype="int8"), x=K(300, 40), form="rows")
case("public key/weights that would be fixed", "W(4, 2000) @ x", x=K(2000, 1000), minimise="server")
case("public key/outer-product", "a @ b", a=K(16, 16), b=K(16, 16), algorithm="outer-product")
case("public key/sum", "3 * a - b", a=K(20, 30), b=S(20, 30))
case("public key/chain", "(a @ b) @ c", a=K(8, 9), b=S(9, 10), c=K(10, 11))
case("public key/network", "cb.square(W(8, 20) @ x)", x=K(20))
case("public key/of a clear operand", "a @ b", a=P(8, 8), b=K(8, 8))

# --- bounds, precision ---

case("bounds/small", "a @ b", a=S(16, 16, bound=1e-6), b=S(16, 16, bound=1e-3), algorithm="skewed")
case("bounds/of bytes", "a @ b", a=S(16, 16, bound=127), b=S(16, 16, bound=255), algorithm="gemm")
case("bounds/of very different terms", "a @ b + c", a=S(8, 8, bound=1e-4), b=S(8, 8), c=S(8, 8, bound=1e4))
case("bounds/beyond floats", "a * a", a=S(4, 4, bound=1e200))
case("bounds/not positive", "a @ b", a=S(4, 4, bound=0.0), b=S(4, 4))
for precision in (0.05, 1e-6, 1e-10):
    product(f"precision/{precision:g}, skewed", (24, 24, 24), precision=precision, algorithm="skewed")
    product(f"precision/{precision:g}, gemm", (24, 24, 24), precision=precision, algorithm="gemm")
product("precision/1e-12", (8, 8, 8), precision=1e-12)
product("precision/1e-17", (8, 8, 8), precision=1e-17)
product("precision/2", (8, 8, 8), precision=2)
product("precision/one word", (8, 8, 8), precision="fine")
product("precision/an absolute error", (8, 8, 8), error=1e-3)
