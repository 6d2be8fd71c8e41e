"""Every algorithm on real ciphertexts: entries within the predicted error, counts and keys as planned."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cipherblas.crypto.keys import decrypt_coefficients, encrypt, generate_secret, make_evaluation_keys
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.engines.cpu import CpuEngine
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Plain
from cipherblas.forms.blocks import join, split
from cipherblas.forms.convert.coefficients import Packing
from cipherblas.forms.layouts import Layout
from cipherblas.methods.matmul.base import Algorithm
from cipherblas.methods.matmul.layout_preserving import LayoutPreserving
from cipherblas.methods.products import ALGORITHMS, build
from cipherblas.rlwe.noise import TAIL
from tests.support.product_runs import multiplied
from tests.support.reference_engine import ReferenceEngine

pytestmark = pytest.mark.encrypted


def run(
    algorithm: Algorithm,
    params: Parameters,
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    *,
    public: str = "",
    key_policy: str = "direct",
    make_engine: Callable[[Parameters], Any] = CpuEngine,
) -> None:
    """a·b by blocks: plan on Symbolic, make just the planned keys, compute, decrypt, compare."""
    secret = generate_secret(params)
    context = params.context()

    def operand(ev, layout: Layout, blocks, name: str):
        def one(block, index: int, i: int, j: int):
            bound = layout.slot_bound(1.0)
            if public == name:
                if isinstance(ev, Symbolic):  # one stands for those of all blocks
                    return Plain((name, index), block, bound, blocks=len(blocks) * len(blocks[0]))
                return Plain((name, i, j, index), lambda: layout.pack_one(block, index), bound)
            if isinstance(ev, Symbolic):
                return ev.fresh(None, bound=bound)
            coefficients = context.encode(layout.pack_one(block, index), 2.0**params.scale_bits)
            return ev.fresh(encrypt(secret, coefficients).expand(), bound=bound)

        return [
            [[one(block, index, i, j) for index in range(layout.ciphertexts)] for j, block in enumerate(row)]
            for i, row in enumerate(blocks)
        ]

    def product(ev):
        left = operand(ev, algorithm.left_layout, split(a, algorithm.m, algorithm.k), "left")
        right = operand(ev, algorithm.right_layout, split(b, algorithm.k, algorithm.n), "right")
        return multiplied(ev, algorithm, left, right)

    counter = Symbolic(params, key_policy=key_policy)
    planned = product(counter)
    keys = make_evaluation_keys(secret, counter.request)
    engine = make_engine(params)
    ev = Native(params, keys, engine=engine, key_policy=key_policy)
    cells = product(ev)
    assert ev.counts == counter.counts
    assert ev.request == counter.request
    assert ev.peak_bytes <= counter.peak_bytes <= ev.peak_bytes + ev.run_bytes

    def slots(ct):
        coefficients = decrypt_coefficients(secret, np.ascontiguousarray(engine.download(ct.data)))
        return context.decode(coefficients / ct.scale)

    result = join(
        [[algorithm.out_layout.unpack([slots(ct) for ct in cell]) for cell in row] for row in cells],
        a.shape[0],
        b.shape[1],
    )
    error = np.abs(result - a @ b).max()
    predicted = planned[0][0][0].noise
    assert error <= TAIL * predicted
    if result.size >= 16:  # the largest of four may happen to be small
        assert error >= TAIL * predicted / 400


def toy(n: int, limbs: int = 5) -> Parameters:
    """INSECURE: for breadth."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sizes = [50.0, 50.0] + [40.0] * (limbs - 2)
        return make_parameters(n, sizes, alpha=2, scale_bits=40.0, security=128, insecure=True)


def matrices(m: int, k: int, n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (m, k)), rng.uniform(-1, 1, (k, n))


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("key_policy", ["direct", "composed"])
def test_every_candidate(name, key_policy):
    a, b = matrices(6, 7, 5)
    for options in ALGORITHMS[name].candidates(6, 7, 5, 128):
        run(build(name, 6, 7, 5, 128, options), toy(256), a, b, key_policy=key_policy)


@settings(max_examples=20)
@given(
    st.sampled_from(["fame-published", "hegmm", "hegmm-en", "huang-zong", "e2dm-r", "fhe-mm"]),
    *(st.integers(2, 8) for _ in range(3)),
)
def test_random_shapes_of_published_products(name, m, k, n):
    a, b = matrices(m, k, n, seed=m * 64 + k * 8 + n)
    for options in ALGORITHMS[name].candidates(m, k, n, 128):
        run(build(name, m, k, n, 128, options), toy(256), a, b)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("public", ["", "left", "right"])
def test_blocks_and_clear_operands(name, public):
    a, b = matrices(7, 9, 10)  # two blocks each way
    run(build(name, 4, 5, 6, 128, {}), toy(256), a, b, public=public)


@pytest.mark.parametrize("number", range(len(ALGORITHMS)), ids=sorted(ALGORITHMS))
def test_on_the_slow_reference_engine(number):
    """Two blocks of the inner axis; of two secrets, and with one side or the other in the clear in turn."""
    algorithm = build(sorted(ALGORITHMS)[number], 4, 5, 6, 128, {})
    for public in ("", ("left", "right")[number % 2]):
        run(algorithm, toy(256), *matrices(4, 9, 6), public=public, make_engine=ReferenceEngine)


@pytest.mark.parametrize("clear_left", [False, True])
@pytest.mark.parametrize("degree", [2, 8, 64, 256])
@pytest.mark.parametrize("key_policy", ["direct", "binary"])
def test_in_place(clear_left, degree, key_policy):
    """Where conversions leave entries, both ways they may lie; several blocks inside."""
    for by_columns in (False, True):
        algorithm = LayoutPreserving(Packing(256, degree, 2).layout(by_columns), clear_left)
        m, k, n = algorithm.m, 2 * algorithm.k, algorithm.n
        a, b = matrices(m if clear_left else m + 1, k, n + 1 if clear_left else n)
        run(algorithm, toy(256), a, b, public="left" if clear_left else "right", key_policy=key_policy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape", "log_n", "levels", "options", "key_policy"),
    [
        ("skewed", (32, 64, 64), 13, 0, {}, "direct"),
        ("skewed", (64, 64, 64), 14, 0, {"baby_steps": 8}, "direct"),
        ("outer-product", (64, 64, 64), 13, 0, {}, "direct"),
        ("bicyclic", (31, 30, 37), 13, 0, {}, "direct"),
        ("fame", (64, 64, 64), 14, 2, {"complex_packing": True, "baby_steps": 8}, "direct"),
        ("fame", (64, 16, 64), 14, 3, {"radix": 4, "key_baby_steps": 4}, "composed"),
        ("fame", (16, 64, 64), 14, 2, {"baby_steps": 4, "key_baby_steps": 4}, "binary"),
        ("fame", (50, 60, 55), 14, 2, {"widened": 15, "baby_steps": 8}, "direct"),
        ("fame", (48, 24, 48), 14, 1, {"widened": 12, "complex_packing": True}, "direct"),
        ("e2dm", (64, 64, 64), 14, 2, {}, "direct"),
        ("halevi-shoup", (16, 12, 14), 13, 0, {}, "direct"),
    ],
)
def test_secure_parameters(name, shape, log_n, levels, options, key_policy):
    """128-bit security, shapes of use."""
    params = make_parameters(1 << log_n, [48.0, 48.0] + [40.0] * levels, alpha=2, scale_bits=40.0)
    assert params.security == 128
    algorithm = build(name, *shape, params.slots, options)
    run(algorithm, params, *matrices(*shape), key_policy=key_policy)
