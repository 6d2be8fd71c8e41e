"""Baselines for W·x and convolutions: every entry, the published counts, and what they refuse."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.common.errors import LevelError, ParameterError, ShapeError
from cipherblas.crypto.keys import decrypt_coefficients, encrypt, generate_secret, make_evaluation_keys
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.forms.tensors import contiguous
from cipherblas.lang.analysis import evaluate_clear
from cipherblas.lang.windows import Window
from cipherblas.methods.layers import (
    CONV_BASELINES,
    LAYER_METHODS,
    MATVEC_BASELINES,
    METAKERNEL,
    build_conv,
    build_matvec,
)
from cipherblas.planner.search.tensors import layer_counts
from cipherblas.rlwe.noise import TAIL
from cipherblas.rlwe.rings import RingShape
from tests.support import layer_runs

length = st.integers(1, 20)
slots = st.sampled_from([8, 16, 32, 64])
small = st.integers(1, 6)
size = st.integers(1, 9)
taps = st.integers(1, 4)


def matvec(name, rows, columns, slot_count):
    cls = MATVEC_BASELINES[name]
    return cls(cls.input_layout((columns, 1, 1), rows, slot_count), rows)


def conv(name, window, slot_count):
    cls = CONV_BASELINES[name]
    return cls(cls.input_layout(window, slot_count), window)


def log2(number):
    """Of a number rounded up to a power of two."""
    return (number - 1).bit_length()


def counted(method):
    """Rotations of a run and those that cost nothing."""
    return layer_counts(method, method.x.slots).rotations + method.trivial_rotations


def convolved(x, filters, window):
    (_, height, width), (pad_h, pad_w) = window.out_shape, window.padding
    padded = np.pad(x, ((0, 0), (pad_h, pad_h), (pad_w, pad_w)))
    result = np.zeros(window.out_shape)
    for i, j in window.taps:
        result += np.einsum("oc,chw->ohw", filters[:, :, i, j], padded[:, i : i + height, j : j + width])
    return result


@given(st.sampled_from(sorted(MATVEC_BASELINES)), length, length, slots)
def test_matvec(name, rows, columns, slot_count):
    assume(max(rows, columns) <= slot_count)
    method = matvec(name, rows, columns, slot_count)
    rng = np.random.default_rng(rows * 21 + columns)
    values, x = rng.uniform(-2, 2, (rows, columns)), rng.uniform(-1, 1, columns)
    counts = layer_runs.check(method, values, x, values @ x)
    assert counts.rotations + method.trivial_rotations == method.formula
    assert method.levels <= 2


@given(
    st.sampled_from(sorted(CONV_BASELINES)),
    *(st.tuples(small, size, size), small, st.tuples(taps, taps)),
    *(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.sampled_from([64, 128, 256])),
)
def test_conv(name, shape, outputs, kernel, padding, slot_count):
    """Images that fit, and for Fhelipe images that are cut."""
    try:
        window = Window(shape, outputs, kernel, padding=padding)
        method = conv(name, window, slot_count)
    except ShapeError:
        assume(False)
    rng = np.random.default_rng(outputs)
    values, x = rng.uniform(-2, 2, window.weight_shape), rng.uniform(-1, 1, shape)
    counts = layer_runs.check(method, values, x, convolved(x, values, window))
    assert counts.rotations + method.trivial_rotations == method.formula
    assert method.levels <= 2 + (method.x.segments > 1)


# --- published counts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dimension", "slot_count"), [(16, 64), (4096, 32768), (32, 64)])
def test_bad_dimension(dimension, slot_count):
    """n1 + 2·n2 + 1, n1·n2 = D; rotations by zero: one baby step, one giant step of each part."""
    method = matvec("helib-bsgs", dimension, dimension, slot_count)
    babies = 1 << (log2(dimension) + 1) // 2
    assert counted(method) == babies + 2 * (dimension // babies) + 1
    assert method.trivial_rotations == 3
    assert method.plaintexts == 2 * dimension - 1


@pytest.mark.parametrize("dimension", [16, 32, 4096])
def test_good_dimension(dimension):
    """n1 + n2."""
    method = matvec("helib-bsgs", dimension, dimension, dimension)
    babies = 1 << (log2(dimension) + 1) // 2
    assert counted(method) == babies + dimension // babies
    assert method.trivial_rotations == 2
    assert method.plaintexts == dimension


@given(length, length)
def test_diagonals(rows, columns):
    """n + k - 2, none of them trivial while there are no more diagonals than slots."""
    method = matvec("fhe-mp-cnn", rows, columns, 64)
    assert layer_counts(method, 64).rotations == rows + columns - 2
    assert method.plaintexts == rows + columns - 1
    assert method.trivial_rotations == 0


@given(length, length, slots)
def test_full_replication(rows, columns, slot_count):
    """log2(min(S, n·k)/k) + log2(k)·ceil(n·k/S) + floor(n·k/S) - 1, n and k powers of two, n·k no less than S."""
    n, k = 1 << log2(rows), 1 << log2(columns)
    assume(max(n, k) <= slot_count <= n * k)
    groups = -(-rows * k // slot_count)  # of real rows: as n·k/S, but for those that hold padding alone
    method = matvec("fhelipe", rows, columns, slot_count)
    assert counted(method) == log2(slot_count // k) + log2(k) * groups + groups - 1
    if rows == n:
        assert groups == n * k // slot_count
    assert method.trivial_rotations == 0


@given(st.integers(0, 5), st.integers(0, 4), st.integers(0, 3), st.sampled_from([3, 5]))
def test_siso(inputs, outputs, side, kernel):
    """(K² - 1) + K²·log2(S/(C·HW)) + M·log2 C + (M - 1)."""
    channels, filters, area, slot_count = 1 << inputs, 1 << outputs, 1 << 2 * side, 1024
    assume(channels * area <= slot_count and filters * area <= slot_count)
    assume(kernel <= 2 * (1 << side) - 1)  # every tap reads the image somewhere
    window = Window((channels, 1 << side, 1 << side), filters, (kernel, kernel), padding=(kernel // 2,) * 2)
    groups = max(1, filters * channels * area // slot_count)
    replicated = kernel**2 * log2(slot_count // (channels * area))
    assert counted(conv("fhelipe", window, slot_count)) == (
        kernel**2 - 1 + replicated + groups * inputs + groups - 1
    )


@given(small, st.integers(1, 12), st.integers(2, 6), st.integers(2, 6))
def test_multiplexed_parallel_convolution(inputs, outputs, height, width):
    """(K² - 1) + ceil(C_out/q)·ceil(log2 C_in) + C_out + log2 q', where inputs rounded up fit beside each other."""
    slot_count, area = 512, height * width
    window = Window((inputs, height, width), outputs, (3, 3), padding=(1, 1))
    copies = 1 << int(math.log2(slot_count / (area * inputs)))
    assume(area * outputs <= slot_count)
    assume((1 << log2(inputs)) * area * copies <= slot_count)
    method = conv("fhe-mp-cnn", window, slot_count)
    ending = int(math.log2(slot_count / (area * outputs)))
    assert counted(method) == 8 + -(-outputs // copies) * log2(inputs) + outputs + ending
    assert method.trivial_rotations >= 1
    assert method.out.copies == 1 << ending


# --- refusals ----------------------------------------------------------------------------------------------


def test_shapes_that_are_refused():
    for name in MATVEC_BASELINES:
        with pytest.raises(ShapeError, match="at most 8"):
            matvec(name, 9, 2, 8)
        with pytest.raises(ShapeError, match="at most 8"):
            matvec(name, 2, 9, 8)
        with pytest.raises(ShapeError, match="the first slots"):
            build_matvec(name, contiguous((2, 2, 2), 64, pitch=8), 3, {})
    for name in CONV_BASELINES:
        for window in (
            Window((2, 4, 4), 2, (3, 3), stride=(2, 1), padding=(1, 1)),
            Window((2, 4, 4), 2, (3, 3), padding=(1, 1), groups=2),
        ):
            with pytest.raises(ShapeError, match="stride 1, one group"):
                conv(name, window, 256)
        window = Window((3, 4, 4), 2, (3, 3), padding=(1, 1))
        with pytest.raises(ShapeError, match="image does not lie as"):
            build_conv(name, contiguous((3, 4, 4), 256, pitch=32), window, {})
    with pytest.raises(ShapeError, match="at most 64 slots"):
        conv("fhe-mp-cnn", Window((5, 4, 4), 2, (3, 3), padding=(1, 1)), 64)
    with pytest.raises(ShapeError, match="at most 64 slots"):
        conv("fhe-mp-cnn", Window((2, 4, 4), 5, (3, 3), padding=(1, 1)), 64)
    with pytest.raises(ShapeError, match="A row of 9 channels"):
        conv("fhelipe", Window((9, 8, 8), 2, (3, 3), padding=(1, 1)), 64)


def test_names():
    x = contiguous((4,), 64)
    with pytest.raises(ParameterError, match=r"expected metakernel \| helib-bsgs \| fhe-mp-cnn \| fhelipe"):
        build_matvec("e2dm", x, 2, {})
    with pytest.raises(ParameterError, match=r"expected metakernel \| fhe-mp-cnn \| fhelipe, got helib-bsgs"):
        build_conv("helib-bsgs", contiguous((1, 2, 2), 64), Window((1, 2, 2), 1, (1, 1)), {})
    assert set(LAYER_METHODS) == {METAKERNEL, *MATVEC_BASELINES, *CONV_BASELINES}
    for cls in (*MATVEC_BASELINES.values(), *CONV_BASELINES.values()):
        assert cls.title and cls.source and cls.baseline


def test_garbage_beside_a_repeated_input_is_refused():
    method = matvec("fhelipe", 8, 4, 8)
    dirty = MATVEC_BASELINES["fhelipe"](contiguous((4,), 8).with_zero_padding(False), 8)
    ring = RingShape.for_depth(8, 3)
    for found, refused in ((method, False), (dirty, True)):
        ev = Symbolic(ring)
        inputs = [ev.fresh(None, bound=1.0)]
        weights = layer_runs.weights_of(np.ones((8, 4)))
        if refused:
            with pytest.raises(ShapeError, match="zeros in all other slots"):
                found.run(ev, inputs, weights)
        else:
            assert found.run(ev, inputs, weights)


def test_levels_are_required():
    method = matvec("fhelipe", 8, 4, 8)
    ev = Symbolic(RingShape.for_depth(8, 1))
    with pytest.raises(LevelError, match="at least 3 limbs"):
        method.run(ev, [ev.fresh(None, bound=1.0, limbs=2)], layer_runs.weights_of(np.ones((8, 4))))


# --- real ciphertexts --------------------------------------------------------------------------------------

REAL = {
    "helib, good": lambda s: matvec("helib-bsgs", s - 3, s, s),
    "helib, bad": lambda s: matvec("helib-bsgs", 30, 20, s),
    "fhe-mp-cnn, W·x": lambda s: matvec("fhe-mp-cnn", 60, 25, s),
    "fhelipe, W·x": lambda s: matvec("fhelipe", 40, s // 8 - 1, s),
    "fhe-mp-cnn": lambda s: conv("fhe-mp-cnn", Window((3, 5, 6), 7, (3, 3), padding=(1, 1)), s),
    "fhelipe": lambda s: conv("fhelipe", Window((3, 8, 8), 5, (3, 3), padding=(1, 1)), s),
    "fhelipe, cut": lambda s: conv("fhelipe", Window((s // 128, 15, 16), 3, (3, 3), padding=(1, 1)), s),
}


@pytest.mark.parametrize("name", REAL)
def test_encrypted(name, toy_parameters):
    """Within the predicted error, with the declared keys alone, and with the counts of the plan."""
    params = toy_parameters
    method = REAL[name](params.n // 2)
    rng = np.random.default_rng(5)
    filters = method.window.weight_shape if hasattr(method, "window") else (method.rows, method.columns)
    filters = filters[:2] if filters[2:] == (1, 1) else filters
    values, x = rng.uniform(-1, 1, filters), rng.uniform(-1, 1, method.x.shape)
    values /= np.abs(values).reshape(len(values), -1).sum(axis=1).max()
    expected = values @ x.ravel() if values.ndim == 2 else convolved(x, values, method.window)
    weights = layer_runs.weights_of(values)
    counter = Symbolic(params)
    method.run(counter, [counter.fresh(None, bound=1.0) for _ in range(method.x.ciphertexts)], weights)
    secret, context = generate_secret(params), params.context()
    ev = Native(params, make_evaluation_keys(secret, counter.request))
    inputs = []
    for vector in layer_runs.packed(method, x, rng):
        coefficients = context.encode(vector.astype(np.complex128), 2.0**params.scale_bits)
        inputs.append(ev.fresh(encrypt(secret, coefficients).expand(), bound=1.0))
    results = method.run(ev, inputs, weights)
    assert ev.counts == counter.counts
    assert ev.request == counter.request
    decoded = [
        context.decode(decrypt_coefficients(secret, np.ascontiguousarray(ct.data)) / ct.scale)
        for ct in results
    ]
    result = layer_runs.unpacked(method, decoded) * weights.bound
    error = TAIL * max(ct.noise for ct in results) * weights.bound
    np.testing.assert_allclose(result, expected.reshape(result.shape), rtol=0, atol=error)
    assert error < 1e-3


# --- networks ----------------------------------------------------------------------------------------------

RNG = np.random.default_rng(2)
FIRST, SECOND = RNG.uniform(-1, 1, (4, 3, 3, 3)), RNG.uniform(-1, 1, (2, 4, 3, 3))
LAST, BIAS = RNG.uniform(-1, 1, (5, 2 * 4 * 4)), RNG.uniform(-1, 1, 4)


def network(x):
    y = cb.square(cb.conv2d(x, FIRST, BIAS, padding=1))
    return cb.matvec(LAST, cb.flatten(cb.conv2d(y, SECOND)))


def dense(x):
    return cb.matvec(LAST.T, cb.square(cb.matvec(LAST, x)))


@pytest.mark.parametrize(
    ("name", "function", "shape"),
    [
        ("fhe-mp-cnn", network, (3, 6, 6)),
        ("fhelipe", network, (3, 6, 6)),
        *((name, dense, (32,)) for name in MATVEC_BASELINES),
    ],
)
def test_network(name, function, shape):
    """Layer after layer by one baseline, its results re-arranged where the next layer needs it, encrypted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # toy parameters
        program = cb.compile(
            function, {"x": cb.secret(*shape)}, algorithm=name, ring_degree=4096, security=0, insecure=True
        )
        client = program.client()
    assert program.plan.algorithm == name
    x = np.random.default_rng(3).uniform(-1, 1, shape)
    server = program.server(client.evaluation_keys())
    result = client.decrypt(server.run(client.encrypt({"x": x})))
    expected = evaluate_clear(program.expression, {"x": x})
    np.testing.assert_allclose(result, expected, rtol=0, atol=program.plan.error)


def test_names_that_do_not_suit_a_program():
    image, matrix = cb.secret(3, 6, 6), cb.secret(4, 4)
    with pytest.raises(
        ParameterError, match=r"no such method for a convolution .expected metakernel .* got helib-bsgs"
    ):
        cb.compile(network, {"x": image}, algorithm="helib-bsgs")
    with pytest.raises(
        ParameterError, match=r"network cannot be computed by this algorithm .expected metakernel"
    ):
        cb.compile(network, {"x": image}, algorithm="fame")
    with pytest.raises(ParameterError, match="clear weights and an encrypted factor on their right"):
        cb.compile(lambda a, b: a @ b, {"a": matrix, "b": matrix}, algorithm="fhelipe")
