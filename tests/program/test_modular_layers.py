"""Layers of integers modulo t and of exact integers, by every method, beside Python's integers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas as cb
from cipherblas.common.errors import FitError
from cipherblas.crypto.keys import decrypt_residues, encrypt, generate_secret, make_evaluation_keys
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.crypto.residue_slots import centred, residue_slots
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.forms.tensors import TensorLayout, grid
from cipherblas.lang.windows import Window
from cipherblas.methods.matvec_conv.base import Weights
from cipherblas.methods.matvec_conv.multiplexed import ConvMultiplexed
from cipherblas.methods.registry import entries
from cipherblas.planner.predict.dry_run import dry_run
from tests.corpus.machine import MACHINE
from tests.support.integer_layers import layer
from tests.support.modular_runs import check, largest_error, values_for
from tests.support.runs import Parties, program_of, run_by_files

Array = NDArray[Any]
SMALL, MIDDLE, LARGE = 257, 65537, 2147352577  # = 1 mod 2^8, 2^16, 2^16
conv2d, sum_pool2d, flatten = layer("conv2d"), layer("sum_pool2d"), layer("flatten")


def ring(modulus: int | None, n: int = 128, limbs: int = 8) -> Parameters:
    return make_parameters(n, (48.0,) * limbs, security=0, insecure=True, plain_modulus=modulus)


def toy(function: Callable[..., Any], modulus: int | None = MIDDLE, **rest: Any) -> cb.Program:
    given: dict[str, Any] = {
        "parameters": ring(modulus, rest.pop("n", 128), rest.pop("limbs", 8)),
        **{"security": 0, "insecure": True, "machine": MACHINE},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return program_of(function, **{**given, **rest})


def W(*shape: int, most: int = 9, seed: int = 5) -> Array:
    """Whole weights, zeros among them."""
    rng = np.random.default_rng(seed)
    return rng.integers(-most, most, shape, endpoint=True) * (rng.random(shape) < 0.8)


def dilated(filters: Array, step: int) -> Array:
    """With zeros between the taps."""
    outputs, inputs, rows, columns = filters.shape
    found = np.zeros((outputs, inputs, (rows - 1) * step + 1, (columns - 1) * step + 1), filters.dtype)
    found[:, :, ::step, ::step] = filters
    return found


def _network(x: Any) -> Any:
    y = conv2d(x, W(2, 1, 3, 3), [1, -(2**30)], padding=1)
    y = sum_pool2d(y * y, 2)
    return W(3, 18, seed=6) @ flatten(y)


LAYERS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "one filter": (lambda x: conv2d(x, W(1, 1, 3, 3)), (1, 6, 6)),
    "padding": (lambda x: conv2d(x, W(2, 1, 3, 3), padding=1), (1, 5, 6)),
    "stride": (lambda x: conv2d(x, W(2, 2, 3, 3), stride=2, padding=1), (2, 4, 4)),
    "stride down": (lambda x: conv2d(x, W(2, 1, 2, 2), stride=(2, 1)), (1, 6, 5)),
    "groups": (lambda x: conv2d(x, W(4, 1, 3, 3), groups=2, padding=1), (2, 4, 4)),
    "depthwise": (lambda x: conv2d(x, W(3, 1, 2, 2), groups=3), (3, 4, 4)),
    "one entry": (lambda x: conv2d(x, W(3, 4, 1, 1)), (4, 3, 3)),
    "all of it": (lambda x: conv2d(x, W(3, 2, 4, 4)), (2, 4, 4)),
    "dilation": (lambda x: conv2d(x, dilated(W(2, 1, 2, 2), 3)), (1, 6, 6)),
    "bias": (lambda x: conv2d(x, W(2, 1, 3, 3), [2**31, -7]), (1, 5, 5)),
    "large weights": (lambda x: conv2d(x, W(2, 1, 3, 3, most=2**40)), (1, 5, 5)),
    "zeros": (lambda x: conv2d(x, np.zeros((2, 1, 2, 2), int), [0, 3]), (1, 4, 4)),
    "nothing but padding": (lambda x: conv2d(x, W(1, 1, 1, 1), stride=5, padding=2), (1, 4, 4)),
    "several images": (lambda x: conv2d(x, W(2, 1, 3, 3), padding=1), (3, 1, 4, 4)),
    "sums of windows": (lambda x: sum_pool2d(x, 2), (2, 4, 6)),
    "sums of padded windows": (lambda x: sum_pool2d(x, 3, 2, 1), (1, 6, 6)),
    "sums of all": (lambda x: sum_pool2d(x, (4, 5)), (3, 4, 5)),
    "sums of several images": (lambda x: sum_pool2d(x, 2), (2, 1, 4, 4)),
    "flattened": (lambda x: W(3, 18) @ flatten(x), (2, 3, 3)),
    "reshaped": (lambda x: W(3, 16) @ x.reshape(-1), (1, 4, 4)),
    "two convolutions": (lambda x: conv2d(conv2d(x, W(2, 1, 2, 2)), W(1, 2, 2, 2), padding=1), (1, 5, 5)),
    "a residual": (lambda x: conv2d(x, W(1, 1, 3, 3), padding=1) + 5 * x, (1, 5, 5)),
    "a square": (lambda x: conv2d(x, W(2, 1, 3, 3)) ** 2, (1, 5, 5)),
    "a product of two": (lambda x: conv2d(x, W(1, 1, 2, 2)) * conv2d(x, W(1, 1, 2, 2, seed=8)), (1, 4, 4)),
    "times an image": (lambda x: conv2d(x, W(1, 1, 3, 3), padding=1) * W(1, 4, 4) - 3, (1, 4, 4)),
    "factors": (lambda x: 2**20 * conv2d(x, W(1, 1, 2, 2)) * -(2**12), (1, 4, 4)),
    "a network": (_network, (1, 6, 6)),
    "several results": (lambda x: {"sum": sum_pool2d(x, 2), "conv": conv2d(x, W(2, 1, 2, 2))}, (1, 4, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("modulus", [SMALL, LARGE])
def test_python_integers(name: str, modulus: int) -> None:
    function, shape = LAYERS[name]
    program = toy(function, modulus, x=cb.secret(*shape, modulus=modulus), limbs=12, form="tensors")
    assert program.plan.form == "tensors"
    check(program, function, values_for(program))


@pytest.mark.parametrize("name", ["a network", "several images", "sums of padded windows"])
def test_images_are_tensors_without_being_asked(name: str) -> None:
    function, shape = LAYERS[name]
    program = toy(function, x=cb.secret(*shape, modulus=MIDDLE), limbs=12)
    assert program.plan.form == "tensors" and min(program.noise_budgets) > 0
    assert "noise budget" in program.explain()
    check(program, function, values_for(program, 3))


def test_clear_filters_that_are_given_later() -> None:
    def function(x: Any, w: Any) -> Any:
        return conv2d(x, w, padding=1)

    operands = {"x": cb.secret(2, 4, 4, modulus=MIDDLE), "w": cb.public(3, 2, 3, 3, dtype="int32")}
    program = toy(function, **operands)
    check(program, function, values_for(program))


def test_every_entry_at_the_ends() -> None:
    function, shape = LAYERS["a network"]
    program = toy(function, LARGE, x=cb.secret(*shape, modulus=LARGE), limbs=16)
    parties = Parties(program)
    for value in (0, 1, LARGE - 1, LARGE // 2, LARGE // 2 + 1, -1, 2**63 - 1, -(2**63)):
        x = np.full(shape, value)
        found = parties.client.decrypt(parties.server.run(parties.inputs({"x": x})))
        assert np.array_equal(found, function(x.astype(object)) % LARGE), value


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "int16", "uint64"])
def test_narrow_arrays(dtype: str) -> None:
    function, shape = LAYERS["padding"]
    program = toy(function, x=cb.secret(*shape, modulus=MIDDLE))
    top = 1 if dtype == "bool" else np.iinfo(dtype).max
    x = np.full(shape, top).astype(dtype)
    x[:, ::2] = 0
    parties = Parties(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs({"x": x})))
    assert np.array_equal(found, function(np.vectorize(int, otypes=[object])(x)) % MIDDLE)


def test_saved_and_loaded(tmp_path: Path) -> None:
    function, shape = LAYERS["a network"]
    program = toy(function, x=cb.secret(*shape, modulus=MIDDLE), limbs=12)
    values = values_for(program)
    found = run_by_files(program, values, tmp_path).decrypted
    assert np.array_equal(found, function(values["x"].astype(object)) % MIDDLE)


# --- every method ---


def _of_product(a: Any) -> Any:
    return W(4, 4, most=2**20) @ a


def _of_vector(a: Any) -> Any:
    return W(6, 11, most=2**20) @ a


def _of_image(a: Any) -> Any:
    return conv2d(a, W(3, 2, 3, 3, most=2**20), padding=1)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "product": (_of_product, (4, 4)),
    "matvec": (_of_vector, (11,)),
    "convolution": (_of_image, (2, 4, 4)),
}
IN_SLOTS = [entry for entry in entries() if entry.form in ("blocks", "tensors")]


@pytest.mark.parametrize("entry", IN_SLOTS, ids=lambda entry: f"{entry.name} {entry.computes}")
def test_every_method(entry: Any) -> None:
    """A product with clear weights by each method takes what it takes of real numbers, in every count."""
    function, shape = FUNCTIONS[entry.computes]
    a = cb.secret(*shape, modulus=LARGE)
    program = toy(function, LARGE, a=a, n=256, limbs=12, algorithm=entry.name)
    assert entry.name in program.plan.algorithm and program.plan.form == entry.form
    values = values_for(program)
    check(program, function, values)
    plan, parties = program.plan, Parties(program)
    result = parties.server.run(parties.inputs(values))
    bounds = [handle.noise for value in program._run.results for handle in value.handles]
    for words, bound in zip(result.ciphertexts, bounds, strict=True):
        assert largest_error(parties.client._secret, plan.parameters, words) <= bound
    real = dry_run(ring(None, 256, 12), program.executed, plan.decided, mask_budget=plan.mask_budget)
    fields = vars(real.counts).items()
    differences = {name: (number, getattr(plan.counts, name)) for name, number in fields}
    assert {name: both for name, both in differences.items() if both[0] != both[1]} == {}
    assert real.keys == plan.keys


# --- convolutions of images whose gaps are filled, which programs of integers are not planned with ---


@pytest.mark.parametrize("kind", ["", "paired", "folded", "joined"])
def test_multiplexed_convolutions(kind: str) -> None:
    """Through strides, so that channels fill gaps; every slot of every ciphertext."""
    params = ring(LARGE, 512, 6)
    images, slots, t = 2 if kind == "joined" else 1, params.slots, LARGE
    x = np.random.default_rng(0).integers(-t, t, (images * 3, 8, 8))
    layout = grid(x.shape, slots, {"channels": 3, "pitch": 64, "row": 8})
    steps = [(4, 1), (8, 2), (5, 2)]

    def program(ev: Any, cts: Any) -> tuple[Any, TensorLayout]:
        own = layout
        for number, (outputs, step) in enumerate(steps):
            window = window_of(own, outputs, step)
            method = method_of(own, window)
            filters = W(*window.weight_shape, seed=number)
            sums = float(np.abs(filters).sum((1, 2, 3)).max())
            weights = Weights(f"layer {number}", lambda own=filters: own, 1.0, sums, sums)
            cts, own = [ev.rescaled(ct) for ct in method.run(ev, cts, weights)], method.out
        return cts, own

    def window_of(own: TensorLayout, outputs: int, step: int) -> Window:
        shape = images, own.shape[0] // images, *own.shape[1:]
        return Window.of_images(shape, outputs, (3, 3), (step, step), (1, 1), 1)

    def method_of(own: TensorLayout, window: Window) -> ConvMultiplexed:
        try:
            method = ConvMultiplexed(own, window, 16, **({kind: True} if kind else {}))
            taken.append(kind)
        except FitError:  # images that share ciphertexts have no halves, and not every result has copies
            method = ConvMultiplexed(own, window, 16)
        return method

    taken: list[str] = []
    counted = Symbolic(params)
    program(counted, [counted.fresh(None, bound=1.0) for _ in range(layout.ciphertexts)])
    secret = generate_secret(params, "layers")
    native, encoder = Native(params, make_evaluation_keys(secret, counted.request)), residue_slots(512, t)
    sent = [encoder.coefficients(layout.vector(number, x.ravel())) for number in range(layout.ciphertexts)]
    cts = [native.fresh(encrypt(secret, one).expand(), bound=1.0) for one in sent]
    found, out = program(native, cts)
    assert native.counts == counted.counts and taken
    own = x.astype(object).reshape(images, 3, 8, 8)
    for number, (outputs, step) in enumerate(steps):
        filters = W(outputs, own.shape[1], 3, 3, seed=number)
        own = conv2d(own, filters, stride=step, padding=1)
    expected = centred((own % t).astype(np.int64), t).reshape(-1)
    for number, ct in enumerate(found):
        words = native.engine.download(ct.data)
        assert largest_error(secret, params, words) <= ct.noise
        values = encoder.slots(decrypt_residues(secret, words), pow(ct.scale.value, -1, t))
        assert np.array_equal(values, out.vector(number, expected))


# --- exact integers, and fixed point ---

EXACT = {
    "two convolutions": ((1, 6, 6), 2**40),
    "a square": ((1, 5, 5), 2**31),
    "a product of two": ((1, 4, 4), 2**40),
    "sums of padded windows": ((1, 6, 6), 2**62),
    "several images": ((2, 1, 4, 4), 2**50),
    "reshaped": ((1, 4, 4), 2**53),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_integers_beyond_one_modulus(name: str) -> None:
    function, _ = LAYERS[name]
    shape, bound = EXACT[name]
    x = cb.secret(*shape, dtype="int64", bound=bound, exact=True)
    program = toy(function, LARGE, x=x, n=256, limbs=12, form="tensors")
    assert len(program.plan.moduli) > 1 and program.plan.form == "tensors"
    values = np.random.default_rng(1).integers(-bound, bound, shape, endpoint=True)
    values.flat[:2] = bound, -bound
    parties = Parties(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs({"x": values})))
    expected = function(values.astype(object))
    assert np.array_equal(found, expected) and np.array_equal(program.evaluate({"x": values}), expected)
    assert parties.server.last.counts == program.plan.counts


def test_fixed_point() -> None:
    """Results are the doubles nearest to those of fractions, means included."""
    filters, bits = np.array([[[[0.5, -1.25], [2.0, 0.75]]]]), 10
    values = np.rint(np.random.default_rng(3).uniform(-4, 4, (1, 5, 5)) * 2**bits) / 2**bits

    def function(x: Any) -> Any:
        return cb.avg_pool2d(cb.conv2d(x, filters), (2, 2)) + cb.avg_pool2d(x, 4, 1) / 3

    x = cb.secret(1, 5, 5, bound=4, fixed_point=bits)
    program = toy(function, LARGE, x=x, n=256, limbs=12)
    parties = Parties(program)
    found = parties.client.decrypt(parties.server.run(parties.inputs({"x": values})))
    whole = (values * 2**bits).astype(int).astype(object)
    means = sum_pool2d(conv2d(whole, filters * 4), 2)  # in units of 2^-12 / 4
    others = sum_pool2d(whole, 4, 1)  # in units of 2^-10 / 48
    expected = [
        float(Fraction(int(a), 4 << bits + 2) + Fraction(int(b), 48 << bits))
        for a, b in zip(means.flat, others.flat, strict=True)
    ]
    assert np.array_equal(found.ravel(), expected)
    assert np.array_equal(program.evaluate({"x": values}), found)
