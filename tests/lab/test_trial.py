"""`cb.lab.run`: all interpreters count alike, values are within the predicted error, refusals say what to do."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.crypto.params import Parameters
from cipherblas.lab import rings
from tests.architecture.test_imports import modules_after

RANDOM = np.random.default_rng(5)
X, Y = RANDOM.uniform(-1, 1, (2, 32))
toy = pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")


def shifted_product(ev: Any, x: Any, y: Any) -> Any:
    """x ⊙ (y rotated by 3), summed up with its conjugate."""
    product = ev.multiply_relinearised(x, ev.rotate(y, 3))
    return ev.add(product, ev.conjugate(product))


def power(exponent: int) -> Any:
    def function(ev: Any, x: Any) -> Any:
        for _ in range(exponent):
            x = ev.rescaled(x)
            x = ev.multiply_relinearised(x, x)
        return x

    return function


def test_without_data() -> None:
    found = cb.lab.run(shifted_product, [X, Y])
    assert found.on == "symbolic" and found.value is None and found.measured is None
    assert (found.counts.rotations, found.counts.products, found.counts.relinearisations) == (2, 1, 1)
    assert found.rotation_steps == [3] and len(found.keys) == 3
    assert found.slots == 32 and found.levels == 0
    assert found.bound == pytest.approx(2 * np.abs(X).max() * np.abs(Y).max())
    assert 0 < found.noise < found.error < 1e-8


def test_bounds_will_do_without_data() -> None:
    by_vectors = cb.lab.run(shifted_product, [X, Y])
    bounds = [float(np.abs(vector).max()) for vector in (X, Y)]
    assert cb.lab.run(shifted_product, bounds, slots=32) == by_vectors


def test_in_the_clear() -> None:
    found = cb.lab.run(shifted_product, [X, Y + 1j * X], on="clear")
    np.testing.assert_allclose(found.value, 2 * X * np.roll(Y, -3), atol=1e-15)
    assert found.counts == cb.lab.run(shifted_product, [X, Y + 1j * X]).counts


@toy
@pytest.mark.encrypted
@settings(max_examples=10)
@given(st.integers(0, 3), st.integers(2, 8), st.sampled_from(["direct", "composed", "binary"]))
def test_on_ciphertexts(depth: int, log_slots: int, policy: Any) -> None:
    """Toy rings for breadth: what is counted without data is what is done, within the error that was predicted."""

    def function(ev: Any, x: Any, y: Any) -> list[Any]:
        return [power(depth)(ev, ev.rotate(x, (1, 2))), ev.sub(x, ev.rotate(y, 7))]

    slots = 1 << log_slots
    inputs = [np.resize(X, slots), np.resize(Y, slots) * 1j]
    options: dict[str, Any] = {"key_policy": policy, "insecure": True}
    counted = cb.lab.run(function, inputs, **options)
    clear = cb.lab.run(function, inputs, "clear", **options)
    native = cb.lab.run(function, inputs, "native", compare=True, **options)
    assert counted.counts == clear.counts == native.counts
    assert counted.keys == clear.keys == native.keys
    assert counted.peak_bytes == clear.peak_bytes == native.peak_bytes
    assert counted.levels == native.levels and counted.error == pytest.approx(native.error, rel=0.05)
    expected = [np.roll(inputs[0], -3) ** 2**depth, inputs[0] - np.roll(inputs[1], -7)]
    np.testing.assert_allclose(clear.value, expected, atol=1e-12)
    assert native.value is not None and native.value.shape == (2, slots)
    for part in (np.real, np.imag):
        assert np.abs(part(native.value - expected)).max() <= native.error
    assert native.measured is not None and 0 < native.measured <= native.error


@pytest.mark.encrypted
def test_a_native_run_is_secure_unless_it_is_said() -> None:
    with pytest.raises(cb.SecurityError, match=r"32 slots and depth 0 .* slots=4096 .*insecure=True"):
        cb.lab.run(shifted_product, [X, Y], "native")
    found = cb.lab.run(shifted_product, [X, Y], "native", slots=4096, compare=True)
    assert isinstance(found.ring, Parameters) and found.ring.security == 128
    assert found.value is not None and found.value.shape == (4096,)
    expected = 2 * np.pad(X, (0, 4064)) * np.roll(np.pad(Y, (0, 4064)), -3)
    assert np.abs(found.value - expected).max() <= 2 * found.error
    with pytest.raises(cb.SecurityError, match="slots=8192"):
        cb.lab.run(shifted_product, [X, Y], "native", slots=4096, security=256)
    with pytest.raises(cb.SecurityError, match="Security 0 needs insecure=True"):
        cb.lab.run(shifted_product, [X, Y], "native", security=0)
    for security in (0, 128):
        with pytest.warns(cb.InsecureParametersWarning):
            cb.lab.run(shifted_product, [X, Y], "native", security=security, insecure=True)


@pytest.mark.parametrize("depth", [0, 1, 2, 5, 7, 10])
def test_what_is_refused_says_how_many_slots_are_secure(depth: int) -> None:
    with pytest.raises(cb.SecurityError, match="slots=") as caught:
        rings.parameters(16, depth, 128, False)
    slots = int(str(caught.value.expected).split("slots=")[1].split()[0])
    assert rings.parameters(slots, depth, 128, False).security == 128
    with pytest.raises(cb.SecurityError):
        rings.parameters(slots // 2, depth, 128, False)


# --- rings ---


@pytest.mark.parametrize(("slots", "depth"), [(4096, 1), (8192, 7), (1 << 15, 40), (1 << 16, 80)])
def test_a_shape_has_the_sizes_of_the_primes(slots: int, depth: int) -> None:
    """Some are below a power of two and some above: keys for the shape and for the primes have as many bytes."""
    shape, params = rings.shape(slots, depth), rings.parameters(slots, depth, 128, False)
    assert (shape.q, shape.p, shape.alpha) == (params.q, params.p, params.alpha)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 6, 9])
def test_the_depth_is_the_least(exponent: int) -> None:
    found = cb.lab.run(power(exponent), [X])
    depth = len(found.ring.q) - 2
    cb.lab.run(power(exponent), [X], depth=depth)
    assert depth == max(0, exponent - 1)
    if depth:
        with pytest.raises(cb.LevelError):
            cb.lab.run(power(exponent), [X], depth=depth - 1)


def test_every_depth_is_found_in_few_attempts() -> None:
    for wanted in range(rings.MAX_DEPTH + 1):
        tried: list[int] = []

        def attempt(depth: int, wanted: int = wanted, tried: list[int] = tried) -> None:
            tried.append(depth)
            if depth < wanted:
                raise cb.LevelError("too few limbs")

        assert rings.least_depth(attempt) == wanted
        assert len(tried) <= wanted + 9


def test_what_no_ring_carries_is_an_error() -> None:
    def hopeless(ev: Any, x: Any) -> Any:
        raise cb.LevelError("never enough")

    with pytest.raises(cb.LevelError, match="never enough"):
        cb.lab.run(hopeless, [X])


@toy
@pytest.mark.encrypted
def test_rings_of_ones_own() -> None:
    shape = cb.lab.RingShape.for_depth(64, 3)
    assert cb.lab.run(shifted_product, [X, Y], "clear", ring=shape).ring is shape
    with pytest.raises(cb.DTypeError, match=r"needs Parameters for its ring .got RingShape"):
        cb.lab.run(shifted_product, [X, Y], "native", ring=shape)
    params = cb.lab.make_parameters(128, [50, 50], scale_bits=40, insecure=True)
    found = cb.lab.run(shifted_product, [X, Y], "native", ring=params, insecure=True)
    assert found.ring is params and found.slots == 64
    with pytest.raises(cb.SecurityError):
        cb.lab.run(shifted_product, [X, Y], "native", ring=params)
    with pytest.raises(cb.ParameterError, match="got both"):
        cb.lab.run(shifted_product, [X, Y], ring=params, depth=3)
    with pytest.raises(cb.ParameterError, match="those of the ring"):
        cb.lab.run(shifted_product, [X, Y], ring=params, slots=32)


# --- what is refused ---


@pytest.mark.parametrize(
    ("error", "inputs", "options"),
    [
        (cb.ParameterError, [X, Y], {"on": "paper"}),
        (cb.ParameterError, [1.0, 1.0], {}),
        (cb.ParameterError, [X, Y], {"slots": 48}),
        (cb.ParameterError, [X, Y], {"slots": 1 << 20}),
        (cb.ParameterError, [X, Y], {"slots": 64.0}),
        (cb.ParameterError, [X, Y], {"depth": -1}),
        (cb.ParameterError, [X, Y], {"depth": True}),
        (cb.ParameterError, [X, Y], {"bound": 0}),
        (cb.ParameterError, [X, Y], {"key_policy": "none"}),
        (cb.RangeError, [X, Y], {"bound": 0.1}),
        (cb.RangeError, [X, np.full(8, np.nan)], {}),
        (cb.RangeError, [X, -1.0], {}),
        (cb.ShapeError, [X, Y], {"slots": 16}),
        (cb.ShapeError, [X, Y.reshape(4, 8)], {}),
        (cb.ShapeError, [X, []], {}),
        (cb.DTypeError, [X, 1.0], {"on": "clear"}),
        (cb.DTypeError, [X, ["a"]], {}),
    ],
)
def test_bad_input(error: type[Exception], inputs: list[Any], options: dict[str, Any]) -> None:
    with pytest.raises(error):
        cb.lab.run(shifted_product, inputs, **options)


@pytest.mark.parametrize("result", [None, [], 3, ["x"]])
def test_a_function_returns_ciphertexts(result: Any) -> None:
    with pytest.raises(cb.DTypeError, match="function must return a ciphertext or a list"):
        cb.lab.run(lambda ev, x: result, [X])


def test_a_function_that_does_something_else_with_data() -> None:
    """Keys are declared without data: what is not declared is missing."""
    with pytest.raises(cb.MissingKeyError, match="rotation by 2"):
        cb.lab.run(lambda ev, x: ev.rotate(x, 1 if x.data is None else 2), [X], "clear")


def test_inputs_stay_as_they_are() -> None:
    kept = X.copy()

    def spoil(ev: Any, x: Any) -> Any:
        if x.data is not None:
            x.data *= 0
        return x

    for _ in range(2):
        cb.lab.run(spoil, [X], "clear")
    np.testing.assert_array_equal(X, kept)


def test_zeros() -> None:
    assert cb.lab.run(shifted_product, [np.zeros(8), np.zeros(8)], "clear").bound == 2.0


def test_it_is_told_in_lines() -> None:
    text = str(cb.lab.run(shifted_product, [X, Y], "clear"))
    assert "clear: 32 slots, 2 limbs, 0 levels spent" in text
    assert "2 rotations" in text and "rotations by [3]" in text


def test_it_is_imported_on_first_use() -> None:
    assert "cipherblas.lab" not in modules_after("import cipherblas")
    found = modules_after("import cipherblas as cb; cb.lab.run")
    assert "cipherblas.lab.trial" in found and "cipherblas.roles.server" not in found


def test_the_doctest_of_the_room() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "doctest", cb.lab.__file__], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_everything_a_method_needs_is_there() -> None:
    for name in cb.lab.__all__:
        assert getattr(cb.lab, name) is not None
        assert f"`{name}`" in (cb.lab.__doc__ or "")


def test_former_names_of_methods_still_work() -> None:
    def halved(ev: Any, x: Any) -> Any:
        with pytest.warns(DeprecationWarning, match="absorb is called fold_into_scale"):
            half: Any = ev.absorb(x, 0.5)
        return half

    found = cb.lab.run(halved, [X])
    assert found == cb.lab.run(lambda ev, x: ev.fold_into_scale(x, 0.5), [X])
    with pytest.raises(AttributeError, match="no attribute 'absorbed'"):
        cb.lab.run(lambda ev, x: ev.absorbed(x, 0.5), [X])
