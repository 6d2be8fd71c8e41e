"""Native on real ciphertexts: the same program on Symbolic, Clear and Native; errors within the noise model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import LevelError, MismatchError, MissingKeyError, RangeError, ShapeError
from cipherblas.crypto.keys import Galois, KeyRequest, make_evaluation_keys
from cipherblas.engines.cpu import CpuEngine
from cipherblas.engines.encodings import Encodings
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Plain
from cipherblas.rlwe.noise import TAIL
from tests.support.reference_engine import ReferenceEngine

pytestmark = pytest.mark.encrypted

POLICIES = ["direct", "composed", "binary"]


def run_everywhere(client, program, vectors, **options):
    """program(ev, cts) on all evaluators: counts and handles agree, slots agree within the predicted noise; on the
    reference engine ciphertexts are the same.

    Returns the largest ratio of error to predicted standard deviation, and the Native evaluator.
    """
    params = client.params
    cts = [None for _ in vectors]
    counter = Symbolic(params, **options)
    cts = [counter.fresh(None, bound=float(np.abs(v).max())) for v in vectors]
    planned = program(counter, cts)
    clear = Clear(params, available=counter.request, **options)
    expected = program(clear, [clear.encrypt(v) for v in vectors])
    keys, words = make_evaluation_keys(client.secret, counter.request), [client.words(v) for v in vectors]
    ckks, plain = (
        Native(params, keys, engine=make(params), **options) for make in (CpuEngine, ReferenceEngine)
    )
    real, again = (
        program(ev, [ev.fresh(w, bound=float(np.abs(v).max())) for w, v in zip(words, vectors, strict=True)])
        for ev in (ckks, plain)
    )
    for ct, other in zip(real, again, strict=True):
        np.testing.assert_array_equal(ct.data, plain.engine.download(other.data))
    assert counter.counts == clear.counts == ckks.counts == plain.counts
    assert counter.request == clear.request == ckks.request
    assert counter.peak_bytes == clear.peak_bytes == ckks.peak_bytes
    worst = 0.0
    for plan, exact, ct in zip(planned, expected, real, strict=True):
        for field in ("limbs", "scale", "bound", "noise", "components"):
            assert getattr(plan, field) == getattr(exact, field) == getattr(ct, field)
        assert ct.data.shape == (ct.components, ct.limbs, params.n)
        error = client.decrypt(ct) - exact.data
        largest = max(np.abs(error.real).max(), np.abs(error.imag).max())
        assert largest <= TAIL * ct.noise
        assert largest >= TAIL * ct.noise / 100
        worst = max(worst, largest / ct.noise)
    return worst, ckks


@pytest.fixture
def vectors(make_client):
    slots = make_client().params.slots
    rng = np.random.default_rng(5)
    return [rng.uniform(-1, 1, slots) + 1j * rng.uniform(-1, 1, slots) for _ in range(3)]


def plain(values, key):
    return Plain(key, lambda: values, float(np.abs(values).max()))


@pytest.mark.parametrize("key_policy", POLICIES)
@pytest.mark.parametrize("order", ["limb", "rotation"])
def test_rotations(make_client, vectors, key_policy, order):
    client = make_client()

    def program(ev, cts):
        if isinstance(ev, Native):
            ev.order = order
        steps = [0, 1, 5, -7, (64, 3), (64, 4), (-64, 3)]
        return [*ev.rotate_many(cts[0], steps), ev.conjugate(cts[1]), ev.rotate(ev.drop(cts[2], 2), 17)]

    run_everywhere(client, program, vectors, key_policy=key_policy)


@pytest.mark.parametrize(
    ("key_policy", "order", "working_bytes"),
    [  # every two of them together
        *[("direct", "limb", 1), ("direct", "rotation", 1 << 30), ("composed", "limb", 1 << 30)],
        *[("composed", "rotation", 1), ("binary", "limb", 1), ("binary", "rotation", 1 << 30)],
    ],
)
def test_linear_transforms(make_client, vectors, key_policy, order, working_bytes):
    client = make_client()
    rng = np.random.default_rng(1)
    slots = client.params.slots
    diagonals = {
        step: plain(rng.uniform(-1, 1, slots), ("u", step)) for step in [0, 1, 2, 3, 4, 5, 9, -1, -5, (32, 7)]
    }

    def program(ev, cts):
        flat = ev.linear_transform(cts[0], diagonals, order=order)
        giant = ev.linear_transform(cts[0], diagonals, baby_steps=3, order=order)
        several = ev.linear_transforms(
            cts[1],
            [{1: diagonals[1], 0: diagonals[2]}, {(32, 5): diagonals[3]}, {(32, 7): None, 3: None}],
            order=order,
        )
        return [flat, giant, *several]

    run_everywhere(client, program, vectors, key_policy=key_policy, working_bytes=working_bytes)


def test_equal_vectors_are_rounded_unlike(make_client, vectors):
    """Under different keys their errors are independent; under one they are the same."""
    client, number, scale = make_client(), 64, 2.0**16  # so coarse that all other errors vanish beside these
    values, deviations = vectors[1], []

    def program(ev, cts):
        keys = [("w", term) for term in range(number)], ["w"] * number
        sums = [
            ev.weighted_sum([cts[0]] * number, [plain(values, key) for key in some], scale) for some in keys
        ]
        deviations.append([ct.noise for ct in sums])
        return sums

    worst, _ = run_everywhere(client, program, vectors)
    assert worst > 1.5  # the largest of a thousand slots is beyond a deviation, or the model is far off
    for separated, together in deviations:
        assert together / separated == pytest.approx(math.sqrt(number), rel=0.01)


def test_products_sums_and_scalars(make_client, vectors):
    client = make_client()
    rng = np.random.default_rng(2)
    clear = plain(rng.uniform(-3, 3, client.params.slots), "w")

    def program(ev, cts):
        x, y, z = cts
        both = ev.multiply_sum([x, y, x], [y, z, z])
        both = ev.multiply_sum([x], [x], both)
        product = ev.rescale(ev.relinearise(both))
        weighted = ev.multiply_sum([clear, clear], [x, y])
        weighted = ev.multiply_sum([z], [clear], weighted)
        lower = ev.rescaled(ev.relinearise(ev.multiply(product, ev.drop(z, 4))))
        scaled = ev.rescaled(ev.multiply_scalar(y, 0.3))
        return [
            both,
            product,
            weighted,
            lower,
            scaled,
            ev.multiply_scalar(x, -7),
            ev.multiply_scalar(y, math.pi),
            ev.add(x, product),
            ev.sub(product, y),
            ev.add(both, ev.relinearise(both)),
            ev.negate(x),
            ev.add_plain(x, clear),
            ev.add_plain(both, clear),
            ev.match(x, 3, weighted.scale),
            ev.match(x, 3, 1.25 * x.scale),
            ev.add_all([x, y, z]),
        ]

    run_everywhere(client, program, vectors)


@given(st.integers(1, 3), st.integers(2, 6), st.sampled_from([30.0, 40.0]), st.integers(0, 2**32))
def test_shapes_of_the_ring(make_client, alpha, limbs, scale_bits, seed):
    """Any number of limbs and digits: a transform, a product and a rotation on what is left."""
    client = make_client(limbs=limbs, alpha=min(alpha, limbs), scale_bits=scale_bits)
    rng = np.random.default_rng(seed)
    slots = client.params.slots
    diagonals = {step: plain(rng.uniform(-1, 1, slots), (seed, step)) for step in (0, 1, 3)}

    def program(ev, cts):
        results = [ev.relinearise(ev.multiply(ev.rotate(cts[0], 3), cts[1]))]
        if limbs > 2:
            results.append(ev.linear_transform(cts[1], diagonals))
            results.append(ev.linear_transform(cts[1], diagonals, baby_steps=2))
        return results

    run_everywhere(client, program, [rng.uniform(-1, 1, slots) for _ in range(2)])


def test_both_orders_give_the_same_bits(make_client, vectors):
    client = make_client()
    steps = [1, 2, 7]
    counter = Symbolic(client.params)
    counter.rotate_many(counter.fresh(None, bound=1.0), steps)
    ev = Native(client.params, make_evaluation_keys(client.secret, counter.request))
    ct = client.encrypt(ev, vectors[0])
    diagonals = {step: plain(vectors[1].real, step) for step in steps}
    limb = ev.linear_transform(ct, diagonals, order="limb")
    rotation = ev.linear_transform(ct, diagonals, order="rotation")
    np.testing.assert_array_equal(limb.data, rotation.data)


def test_missing_keys_are_named(make_client, vectors):
    client = make_client()
    keys = make_evaluation_keys(client.secret, KeyRequest({Galois(pow(5, 3, 2 * client.params.n)): 2}))
    ev = Native(client.params, keys)
    ct = client.encrypt(ev, vectors[0])
    with pytest.raises(MissingKeyError, match="rotation by 5"):
        ev.rotate(ct, 5)
    with pytest.raises(MissingKeyError, match="expected at least 5, got 2"):
        ev.rotate(ct, 3)
    with pytest.raises(MissingKeyError, match="relinearisation"):
        ev.relinearise(ev.multiply(ct, ct))
    with pytest.raises(MissingKeyError, match="No evaluation keys were given"):
        Native(client.params, None).rotate(ct, 1)
    ev.rotate(ev.drop(ct, 2), 3)


def test_keys_of_other_parameters(make_client):
    other = make_client(limbs=3)
    keys = make_evaluation_keys(other.secret, KeyRequest())
    with pytest.raises(MismatchError, match="other parameters"):
        Native(make_client().params, keys)


def test_levels_and_room(make_client, vectors):
    client = make_client()
    ev = Native(client.params, None)
    ct = client.encrypt(ev, vectors[0])
    with pytest.raises(LevelError, match="expected at least 2 limbs, got 1"):
        ev.rescale(ev.drop(ct, 1))
    with pytest.raises(LevelError, match="does not fit the modulus"):
        ev.multiply(ev.drop(ct, 1), ct)


def test_clear_vectors_are_checked(make_client, vectors):
    ev = Native(make_client().params, None)
    ct = make_client().encrypt(ev, vectors[0])
    with pytest.raises(RangeError, match="expected absolute values up to 1, got 2"):
        ev.multiply(ct, Plain("big", lambda: np.full(ev.slots, 2.0), 1.0))
    with pytest.raises(RangeError, match="got nan"):
        ev.add_plain(ct, Plain("nan", lambda: np.full(ev.slots, np.nan), 1.0))
    with pytest.raises(ShapeError, match="clear vector has another length"):
        ev.multiply(ct, Plain("short", lambda: np.ones(3), 1.0))


def test_the_cache_evaluates_a_vector_once(make_client, vectors):
    ev = Native(make_client().params, None)
    ct = make_client().encrypt(ev, vectors[0])
    calls = []

    def values():
        calls.append(1)
        return np.ones(ev.slots)

    for constant in (True, False):
        calls.clear()
        for _ in range(3):
            ev.multiply(ct, Plain("once", values, 1.0, constant=constant))
        assert len(calls) == 1
    calls.clear()
    small = Native(make_client().params, None, encodings=Encodings(0))
    for _ in range(3):
        small.multiply(ct, Plain("once", values, 1.0, constant=True))
    assert len(calls) == 3


def test_only_constants_outlive_a_run(make_client, vectors):
    """Also those that were made of others: rotated, conjugated, multiplied, transformed."""
    encodings, params = Encodings(), make_client().params
    ct = make_client().encrypt(Native(params, None), vectors[0])
    for constant in (False, True):
        ev = Native(params, None, encodings=encodings)
        plain = Plain("x", np.ones(ev.slots), 1.0, constant=constant)
        made = [plain.rolled(1), plain.conjugated(), plain.times(0.5), ev.linear_transform(plain, {1: plain})]
        for derived in (plain, *made):
            ev.multiply(ct, derived)
            ev.add_plain(ct, derived)
        assert len(encodings) == (10 if constant else 0)
