"""Ciphertexts that share their a part, against NumPy and the evaluator of ordinary ones in the clear."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cipherblas.common.errors import MismatchError, MissingKeyError, ParameterError, ShapeError
from cipherblas.crypto.keys import (
    SecretKey,
    decrypt_coefficients,
    encrypt,
    generate_secret,
    make_evaluation_keys,
)
from cipherblas.crypto.keys.key_id import Galois
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.interface import Evaluator
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.shared import SharedClear, SharedSymbolic, SharedWorstCase
from cipherblas.evaluators.slots.shared_native import SharedNative
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct, Plain
from cipherblas.evaluators.slots.worst_case import WorstCase
from tests.support.reference_engine import ReferenceEngine

pytestmark = pytest.mark.encrypted

SCALE_BITS = 40.0
Operation = Callable[[Evaluator, Ct], Ct]


@functools.cache
def ring(log_n: int = 9, special: int = 2) -> Parameters:
    """INSECURE."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_parameters(
            1 << log_n, [50.0, *[40.0] * 4], alpha=special, scale_bits=SCALE_BITS, insecure=True
        )


@functools.cache
def key(params: Parameters) -> SecretKey:
    return generate_secret(params)


def plain(seed: int, slots: int) -> Plain:
    values = np.random.default_rng(seed).uniform(-1, 1, slots) + 0j
    return Plain(("shared", seed), lambda: values, 1.0)


def products(ev: Evaluator, x: Ct) -> Ct:
    return ev.rescale(ev.multiply_sum([plain(1, ev.slots), plain(2, ev.slots)], [x, ev.rotate(x, 1)]))


def transform(ev: Evaluator, x: Ct, baby_steps: int | None = None, double: bool = False) -> Ct:
    diagonals: dict[Any, Any] = {step: plain(10 + step, ev.slots) for step in range(9)}
    found: Ct = ev.linear_transform(x, diagonals, baby_steps=baby_steps, double=double)
    return found


OPERATIONS: dict[str, Operation] = {
    "nothing": lambda ev, x: x,
    "sum": lambda ev, x: ev.add(x, ev.rotate(x, 3)),
    "difference": lambda ev, x: ev.sub(x, ev.rotate(x, -1)),
    "negated": lambda ev, x: ev.negate(x),
    "conjugated": lambda ev, x: ev.add(ev.conjugate(x), ev.rotate(x, 0)),
    "rotations": lambda ev, x: functools.reduce(ev.add, ev.rotate_many(x, [0, 1, 5, -7])),
    "sum of rotations": lambda ev, x: ev.rotate_sum([x, x, ev.negate(x)], [0, 2, 4]),
    "clear added": lambda ev, x: ev.add_plain(x, plain(3, ev.slots)),
    "number added": lambda ev, x: ev.add_number(x, -0.75),
    "times an integer": lambda ev, x: ev.multiply_scalar(x, -3.0),
    "times a number": lambda ev, x: ev.multiply_scalar(x, 0.37),
    "times the imaginary unit": lambda ev, x: ev.times_monomial(x, ev.n // 2),
    "clear products": products,
    "linear transform": transform,
    "with baby steps": lambda ev, x: transform(ev, x, 2),
    "hoisted twice": lambda ev, x: transform(ev, x, 4, True),
    "fewer limbs": lambda ev, x: ev.drop(x, 2),
    "twice": lambda ev, x: transform(ev, transform(ev, x, 4, True), 2),
}


@dataclass
class Run:
    """An operation on messages that share an a part, and each of them on its own in the clear."""

    found: list[NDArray[np.complex128]]
    expected: list[NDArray[np.complex128]]
    results: list[Ct]
    counted: SharedSymbolic
    native: SharedNative


def encrypted(ev: Evaluator, params: Parameters, values: NDArray[Any], bound: float, limbs: int) -> Ct:
    coefficients = params.context().encode(values.astype(np.complex128), 2.0**SCALE_BITS, 1)
    return ev.drop(ev.fresh(encrypt(key(params), coefficients).expand(), bound=bound), limbs)


def run(
    operation: Operation,
    values: list[NDArray[Any]],
    secrets: int,
    *,
    bound: float = 1.0,
    limbs: int = 5,
    params: Parameters | None = None,
    engine: Any = None,
) -> Run:
    params = ring() if params is None else params
    outside, counted = Symbolic(params), SharedSymbolic(params, secrets)
    fresh = [outside.fresh(None, bound=bound, limbs=limbs) for _ in values]
    counted.parts(operation(counted, counted.shared(fresh)), len(values), outside)
    made = make_evaluation_keys(key(params), counted.request)
    assert made.request == counted.request and made.nbytes == counted.request.nbytes(params)
    ordinary = Native(params, None, engine=engine)
    native = SharedNative(params, made, secrets, engine=ordinary.engine)
    cts = [encrypted(ordinary, params, each, bound, limbs) for each in values]
    results = native.parts(operation(native, native.shared(cts)), len(values), ordinary)
    clear, context = Clear(params), params.context()
    expected = [operation(clear, clear.fresh(each + 0j, bound=bound, limbs=limbs)).data for each in values]
    found = [
        context.decode(decrypt_coefficients(key(params), ordinary.engine.download(ct.data))) / ct.scale
        for ct in results
    ]
    return Run(found, expected, results, counted, native)


def messages(number: int, slots: int, bound: float = 1.0) -> list[NDArray[np.complex128]]:
    """Random, the bound with either sign, zeros, one of many, and others."""
    rng = np.random.default_rng(1)
    signs = np.where(np.arange(slots) % 2, 1.0, -1.0)
    given = [np.exp(2j * np.pi * rng.random(slots)), np.ones(slots), np.zeros(slots), signs]
    given += [np.eye(1, slots, 3)[0], -np.ones(slots)]
    return [bound * given[index % len(given)].astype(np.complex128) for index in range(number)]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_message_is_computed_as_an_ordinary_one(name: str) -> None:
    done = run(OPERATIONS[name], messages(5, ring().slots), 5)
    for ct, found, expected in zip(done.results, done.found, done.expected, strict=True):
        assert np.abs(found - expected).max() <= ct.error(5 * ring().slots)
        assert ct.error(1) < 2.0**-14
        assert np.abs(expected).max() <= ct.bound * (1 + 1e-9)
    assert done.native.counts == done.counted.counts


@pytest.mark.parametrize("name", OPERATIONS)
def test_in_the_clear_and_at_worst(name: str) -> None:
    """`SharedClear` does to every message what `Clear` does to one; bounds are those of an ordinary one and of the
    switches there and back."""
    params, given = ring(), messages(5, ring().slots)
    clear, shared = Clear(params), SharedClear(params, 5)
    x = shared.shared([clear.fresh(each, bound=1.0) for each in given])
    found = shared.parts(OPERATIONS[name](shared, x), 5, clear)
    for ct, each in zip(found, given, strict=True):
        expected = OPERATIONS[name](clear, clear.fresh(each, bound=1.0))
        np.testing.assert_allclose(ct.data, expected.data, atol=1e-12)
        assert (ct.limbs, ct.scale, ct.bound) == (expected.limbs, expected.scale, expected.bound)
    assert shared.request.shared == 5
    worst, together = WorstCase(params), SharedWorstCase(params, 5)
    fresh = [worst.fresh(None, bound=1.0) for _ in given]
    (part, *_) = together.parts(OPERATIONS[name](together, together.shared(fresh)), 5, worst)
    alone = worst.decrypted_error(OPERATIONS[name](worst, fresh[0]))
    assert alone < worst.decrypted_error(part) < 10 * alone + 2.0**-20
    done = run(OPERATIONS[name], given, 5)
    off = max(np.abs(a - b).max() for a, b in zip(done.found, done.expected, strict=True))
    assert off <= worst.decrypted_error(part)


@pytest.mark.parametrize(("secrets", "given"), [(1, 1), (3, 1), (3, 2), (3, 3), (7, 6)])
@pytest.mark.parametrize("limbs", [1, 2, 3, 5])
def test_conversions(secrets: int, given: int, limbs: int) -> None:
    """As many places as are filled, at every number of limbs."""
    done = run(OPERATIONS["nothing"], messages(given, ring().slots, 2.0), secrets, bound=2.0, limbs=limbs)
    assert len(done.found) == given
    for ct, found, expected in zip(done.results, done.found, done.expected, strict=True):
        assert ct.limbs == limbs
        assert np.abs(found - expected).max() <= ct.error(given * ring().slots) < 2.0**-20


@pytest.mark.parametrize("name", ["linear transform", "hoisted twice", "sum of rotations"])
@pytest.mark.parametrize("log_n", [4, 5])
def test_engines_agree_bit_for_bit(name: str, log_n: int) -> None:
    """That of NumPy integers decomposes what is switched for every two components anew."""
    params = ring(log_n, 2)
    given = messages(3, params.slots)
    outside, counted = Symbolic(params), SharedSymbolic(params, 3)
    counted.parts(
        OPERATIONS[name](counted, counted.shared([outside.fresh(None, bound=1.0) for _ in given])), 3, outside
    )
    made = make_evaluation_keys(key(params), counted.request)
    fresh = [
        encrypt(key(params), params.context().encode(each, 2.0**SCALE_BITS, 1)).expand() for each in given
    ]
    words = []
    for engine in (None, ReferenceEngine(params)):
        ordinary = Native(params, None, engine=engine)
        native = SharedNative(params, made, 3, engine=ordinary.engine)
        x = native.shared([ordinary.fresh(each, bound=1.0) for each in fresh])
        results = native.parts(OPERATIONS[name](native, x), 3, ordinary)
        words.append([native.engine.download(ct.data) for ct in results])
    np.testing.assert_array_equal(*words)


@pytest.mark.parametrize("order", ["limb", "rotation"])
def test_orders_agree(order: str) -> None:
    def ordered(ev: Evaluator, x: Ct) -> Ct:
        diagonals: dict[Any, Any] = {step: plain(10 + step, ev.slots) for step in range(9)}
        found: Ct = ev.linear_transform(x, diagonals, order=order)
        return found

    done = run(ordered, messages(3, ring().slots), 3)
    for ct, found, expected in zip(done.results, done.found, done.expected, strict=True):
        assert np.abs(found - expected).max() <= ct.error(3 * ring().slots)


def test_one_decomposition_serves_all() -> None:
    """Counted: r + 1 products with keys instead of 2·r, and one ModUp instead of r."""
    params = ring()

    def rotated(ev: Evaluator) -> Any:
        before = ev.counts.copy()
        ev.rotate_many(ev.fresh(None, bound=1.0), [1, 2])
        return ev.counts - before

    one, seven = rotated(Symbolic(params)), rotated(SharedSymbolic(params, 7))
    assert (one.hoistings, seven.hoistings) == (1, 1)
    assert seven.rotations == one.rotations == 2
    assert seven.key_bytes_read == 4 * one.key_bytes_read
    assert seven.ntt_limbs < 4 * one.ntt_limbs


def test_keys_are_of_the_secrets_of_all_places() -> None:
    """The phase of every component of a key under its own secret is P·g_d·τ(s_j), but for the error."""
    params = ring(5, 2)
    element, limbs = 5, 4
    name = Galois(element, shared=3)
    keys = make_evaluation_keys(key(params), KeyRequest({name: limbs})).get(name, limbs)
    assert keys.shape[0] == 2
    a = keys[-1, :, 1]
    for place in range(3):
        b = keys[place // 2, :, place % 2]
        ordinary = np.ascontiguousarray(np.stack([b, a], axis=1))
        secret = params.context().plaintext(
            key(params).shared_coefficients(place), params.limbs, special=True
        )
        small = params.context().automorphism(secret, element)
        # Switching 1 under τ(s_j) gives τ(s_j) under s_j.
        x = np.zeros((3, limbs, params.n), np.uint64)
        x[2] = 1
        switched = params.context().relinearise(x, ordinary)
        for limb in range(limbs):
            q = params.q[limb]
            phase = [
                (int(b0) + int(a0) * int(s) - int(t)) % q
                for b0, a0, s, t in zip(
                    switched[0, limb], switched[1, limb], secret[limb], small[limb], strict=True
                )
            ]
            error = params.context().rows_from_ntt(
                np.ascontiguousarray(np.array(phase, np.uint64)[None, None].repeat(limb + 1, axis=1))
            )[limb]
            centred = [int(e) - q if int(e) > q // 2 else int(e) for e in error.ravel()]
            assert max(map(abs, centred)) < 2**10


def test_refused() -> None:
    params = ring()
    for secrets in (0, 2, 4, 129, 3.0):
        with pytest.raises(ParameterError, match="An odd number of ciphertexts"):
            SharedSymbolic(params, secrets)  # type: ignore[arg-type]
    outside, counted = Symbolic(params), SharedSymbolic(params, 3)
    fresh = [outside.fresh(None, bound=1.0) for _ in range(4)]
    for number in (0, 4):
        with pytest.raises(ShapeError, match="cannot share an a part"):
            counted.shared(fresh[:number])
        with pytest.raises(ShapeError, match="has not so many parts"):
            counted.parts(counted.fresh(None, bound=1.0), number, outside)
    with pytest.raises(MismatchError, match="differ in limbs"):
        counted.shared([fresh[0], outside.drop(fresh[1], 2)])
    x = counted.shared(fresh[:3])
    with pytest.raises(MismatchError, match="cannot be multiplied"):
        counted.multiply_relinearised(x, x)
    with pytest.raises(MismatchError, match="cannot be multiplied"):
        counted.multiply_sum([x], [x])
    keys = make_evaluation_keys(key(params), KeyRequest({Galois(5, shared=3): 3}))
    ordinary = Native(params, None)
    native = SharedNative(params, keys, 3)
    with pytest.raises(MissingKeyError, match="switch to place 0 of a shared a part"):
        native.shared([encrypted(ordinary, params, np.ones(params.slots), 1.0, 3)])
    y = native.fresh(np.zeros((4, 3, params.n), np.uint64), bound=1.0, limbs=3)
    native.rotate(y, 1)
    for step, limbs in ((2, 3), (1, 4)):
        z = native.fresh(np.zeros((4, limbs, params.n), np.uint64), bound=1.0, limbs=limbs)
        with pytest.raises(MissingKeyError, match=r"rotation by [12] .* with a shared a part"):
            native.rotate(z, step)
    with pytest.raises(MissingKeyError, match="switch from place 0 of a shared a part"):
        native.parts(y, 1, ordinary)
    with pytest.raises(MissingKeyError, match="sparse"):
        native.raise_modulus(native.drop(y, 1), 2, 1.0)
    with pytest.raises(MismatchError, match="cannot be multiplied"):
        native.multiply_sum([y], [y])
    with pytest.raises(MismatchError, match="belong to other parameters"):
        SharedNative(ring(5), keys, 3)
