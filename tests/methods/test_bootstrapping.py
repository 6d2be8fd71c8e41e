"""Bootstrapping on toy rings: what every step must do, and that the whole keeps what it predicts."""

from __future__ import annotations

import functools
import math
import pickle
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from cipherblas.common.errors import LevelError, MismatchError, MissingKeyError, ShapeError
from cipherblas.crypto.keys import (
    EvaluationKeys,
    KeyRequest,
    SecretKey,
    decrypt_coefficients,
    encrypt,
    generate_secret,
    make_evaluation_keys,
)
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.engines.protocol import Engine
from cipherblas.evaluators.slots.clear import Clear, embedded
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.shared import SharedSymbolic
from cipherblas.evaluators.slots.shared_native import SharedNative
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct
from cipherblas.evaluators.slots.worst_case import WorstCase
from cipherblas.methods.bootstrapping import modular_reduction
from cipherblas.methods.bootstrapping.embedding import coefficients_to_slots, slots_to_coefficients
from cipherblas.methods.bootstrapping.modular_reduction import ModularReduction
from cipherblas.methods.bootstrapping.refresh import Bootstrapping, bootstrapping_of
from cipherblas.planner.rings.modulus_chains import TWO_ROUNDS, chain
from cipherblas.rlwe.rings import RingShape
from tests.support.reference_engine import ReferenceEngine

pytestmark = pytest.mark.encrypted

WORKING = 3
SCALE = 2.0**40


REDUCTION = bootstrapping_of(RingShape(1 << 10, (2.0**50,), (), 1, 40.0)).reduction


def bootstrapping(log_slots: int) -> Bootstrapping:
    half = log_slots // 2
    return Bootstrapping((half, log_slots - half), (log_slots - half, half), REDUCTION)


@dataclass
class Party:
    """Parameters of one ring, INSECURE, with keys for bootstrapping."""

    method: Bootstrapping
    params: Parameters
    secret: SecretKey
    request: KeyRequest
    keys: EvaluationKeys
    scale: float = SCALE

    def encrypted(self, ev: Native, values: NDArray[Any], bound: float) -> Ct:
        context = self.params.context()
        coefficients = context.encode(values.astype(np.complex128), self.scale, 1)
        ct = ev.fresh(encrypt(self.secret, coefficients).expand(), bound=bound, scale=self.scale)
        return ev.drop(ct, self.method.levels_before + 1)

    def decrypted(self, ct: Ct) -> NDArray[np.complex128]:
        return self.params.context().decode(decrypt_coefficients(self.secret, ct.data) / ct.scale)


@functools.cache
def party(log_n: int, alpha: int = 4, held: int = 0, repeated: bool = False) -> Party:
    method = bootstrapping(log_n - 1)
    if held:
        method = replace(method, up=(3, 3, 3))
    q_bits = [50.0] + [34.0] * len(method.down) + [40.0] * WORKING + [49.0] * method.levels_after
    method = method.packed(held, repeated) if held else method
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = make_parameters(1 << log_n, q_bits, alpha=alpha, scale_bits=40.0, insecure=True)
    secret = generate_secret(params)
    ev = Symbolic(params)
    method.run(ev, ev.fresh(None, bound=1.0, limbs=method.levels_before + 1), real=False)
    return Party(method, params, secret, ev.request, make_evaluation_keys(secret, ev.request))


# ---- the embedding ----


def bit_reversed(values: NDArray[Any]) -> NDArray[Any]:
    bits = len(values).bit_length() - 1
    return values[[int(format(index, f"0{bits}b")[::-1], 2) for index in range(len(values))]]


@pytest.mark.parametrize("sizes", [(6,), (2, 2, 2), (1, 2, 3), (4, 2), (1,) * 6], ids=str)
def test_factors_are_the_embedding_and_its_inverse(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=64) + 1j * rng.normal(size=64)
    slots = values
    for transform in slots_to_coefficients(64, sizes):
        slots = transform.apply(slots)
    coefficients = bit_reversed(values)
    expected = embedded(np.concatenate([coefficients.real, coefficients.imag]))
    np.testing.assert_allclose(slots, expected, atol=1e-12)
    for transform in coefficients_to_slots(64, sizes, 0.25):
        slots = transform.apply(slots)
    np.testing.assert_allclose(slots, values / 4, atol=1e-12)


@pytest.mark.parametrize("inverse", [False, True])
def test_factors_state_their_rows_and_have_few_diagonals(inverse: bool) -> None:
    make = coefficients_to_slots if inverse else slots_to_coefficients
    transforms = make(256, (3, 3, 2), 0.5)
    assert [len(transform) for transform in transforms] == ([8, 15, 7] if inverse else [15, 15, 4])
    for transform in transforms:
        diagonals = np.abs([plain.values() for plain in transform.terms.values() if plain is not None])
        assert diagonals.sum(axis=0).max() == pytest.approx(transform.row_sum)
        assert np.sqrt((diagonals**2).sum(axis=0)).max() == pytest.approx(transform.row_norm)
        assert diagonals.max() == pytest.approx(max(p.bound for p in transform.terms.values() if p))


def test_factors_tell_how_often_their_diagonals_repeat() -> None:
    """And so do the diagonals of giant steps: each is encoded once for all repeats."""
    whole, few = coefficients_to_slots(256, (3, 3, 2)), coefficients_to_slots(16, (2, 2), repeated=16)
    assert [transform.repeats for transform in whole] == [1, 8, 64]
    assert [transform.repeats for transform in few] == [16, 1]  # the last one leaves the first 16 slots alone
    down = slots_to_coefficients(256, (3, 3, 2), halved=True)
    assert [transform.repeats for transform in down] == [1, 1, 1]
    down = slots_to_coefficients(256, (3, 3, 2))
    assert [transform.repeats for transform in down] == [32, 1, 1]  # that of 4 repeats is not worth it
    for transform in (*whole, *few, *down):
        for plain in transform.terms.values():
            assert plain is not None
            values = plain.rolled(7).values()
            np.testing.assert_array_equal(
                values, np.tile(values[: 256 // transform.repeats], transform.repeats)
            )


@pytest.mark.parametrize("sizes", [(4,), (2, 2), (1, 2, 1), (3, 1)], ids=str)
@pytest.mark.parametrize("cut", [True, False])
def test_factors_of_few_slots(sizes: tuple[int, ...], cut: bool) -> None:
    """16 of 64: what stands behind them is left out, and comes as 0, or they are repeated."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=64) + 1j * rng.normal(size=64)
    slots = values
    for transform in slots_to_coefficients(64, sizes):
        slots = transform.apply(slots)
    slots = sum(np.roll(slots, 16 * turn) for turn in range(4))
    coefficients = np.zeros(64, np.complex128)
    coefficients[::4] = bit_reversed(values[:16])
    expected = embedded(np.concatenate([coefficients.real, coefficients.imag]))
    np.testing.assert_allclose(slots, expected, atol=1e-12)
    for transform in coefficients_to_slots(16, sizes, 0.25, repeated=4, cut=cut):
        slots = transform.apply(slots)
    held = values[:16] / 4
    wanted = np.concatenate([held, np.zeros(48)]) if cut else np.tile(held, 4)
    np.testing.assert_allclose(slots, wanted, atol=1e-12)


# ---- the sine ----


REDUCTIONS = [
    REDUCTION,
    ModularReduction(13, 62, 1),
    ModularReduction(12, 59, 1),
    ModularReduction(14, 119, 0),
    ModularReduction(15, 30, 3),
    ModularReduction(12, 31, 3),
]


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=str)
def test_modular_reduction_in_the_clear(reduction: ModularReduction) -> None:
    """Around all whole numbers of the range, the extreme ones and both sides of them among these."""
    ev = Clear(party(10).params)
    rng = np.random.default_rng(2)
    part = rng.uniform(-1, 1, ev.slots) * 2.0**-10
    whole = rng.integers(-reduction.range, reduction.range + 1, ev.slots)
    whole[:4], part[:4] = np.array([-1, -1, 1, 1]) * reduction.range, np.array([-1, 1, -1, 1]) * 2.0**-10
    x = ev.fresh((whole + part) / reduction.width + 0j, bound=1.0, scale=float(ev.params.q[-3]))
    y = reduction.run(ev, x, SCALE)
    assert y.scale == pytest.approx(SCALE, rel=1e-12)
    assert x.limbs - y.limbs == reduction.levels
    found = np.abs(y.data / (2 * math.pi) - part).max()
    predicted = reduction.error(2.0**-10)
    assert found <= predicted <= 4 * found


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=str)
def test_polynomials_are_near_where_arguments_are_and_bounded_between(reduction: ModularReduction) -> None:
    """Never worse there than the interpolation of the same degree."""
    y = reduction.polynomial(49.0)
    u = np.linspace(-1, 1, 20001)
    assert np.abs(chebyshev.chebval(u, y.coefficients)).max() < 1.01
    angle = 2 * math.pi * reduction.width / 2**reduction.doublings
    wave = np.sin if reduction.odd else np.cos
    plain = chebyshev.chebinterpolate(lambda v: wave(angle * v), reduction.degree)
    near = (
        np.arange(-reduction.range, reduction.range + 1)[:, None] + np.linspace(-1, 1, 33) * 2.0**-10
    ).ravel()
    near = (near - reduction.shift) / reduction.width
    fitted, interpolated = (
        np.abs(chebyshev.chebval(near, each) - wave(angle * near)).max() for each in (y.coefficients, plain)
    )
    assert fitted <= interpolated + 1e-14
    if reduction == REDUCTION:
        assert fitted < interpolated / 2


@pytest.mark.parametrize("reduction", [ModularReduction(13, 62, 1), ModularReduction(14, 119, 0)])
@pytest.mark.parametrize(
    ("special", "alike"),
    [([(50.0,), (50.0, 50.0, 50.0)], True), ([(24.0,), (20.0,)], False)],
)
def test_errors_are_drawn_once_for_all_digits_where_these_do_not_count(
    reduction: ModularReduction, special: list[tuple[float, ...]], alike: bool
) -> None:
    """Where special primes are far too small they do, and errors are those of each ring."""
    limbs, found = reduction.levels + 2, []
    for bits in special:
        ring = RingShape.from_bits(1 << 11, [50.0] * limbs, bits, len(bits), 40.0)
        given = reduction, ring, limbs, 2.0**50, 2.0**50
        found.append(modular_reduction._deviation(*given))
        assert found[-1] == pytest.approx(modular_reduction._drawn(*given), rel=1e-6)
    assert (found[0] == found[1]) == alike


def test_raised_coefficients_stay_in_the_range() -> None:
    """The probability, against what a million of them do, against its integral for few, and at both ends."""
    rng = np.random.default_rng(3)
    sums = np.rint((rng.random((1 << 18, 32)) - 0.5).sum(axis=1))
    for most in (0, 1, 3, 5, 6):
        chance = 2.0 ** -ModularReduction(most, 119, 0).failure_bits(most)
        found = (np.abs(sums) > most).mean()
        assert abs(found - chance) <= 5 * math.sqrt(chance / len(sums)) + chance * 2.0**-8
    assert REDUCTION.failure_bits(-1) == 0.0
    assert REDUCTION.failure_bits(15) == pytest.approx(
        -math.log2(2 * 0.501**32 / math.factorial(32)), abs=0.1
    )
    assert REDUCTION.failure_bits(16) == math.inf
    assert 58 < bootstrapping(15).failure_bits - 16 < 59


def test_multiples_of_the_modulus_are_as_likely_as_predicted() -> None:
    """Of real ciphertexts, raised and decrypted."""
    one = party(10)
    symbolic = Symbolic(one.params)
    one.method.raised(symbolic, symbolic.fresh(None, bound=1.0), SCALE)
    request = one.request.joined(symbolic.request)
    ev = Native(one.params, make_evaluation_keys(one.secret, request))
    found = []
    for seed in range(40):
        ct = one.encrypted(ev, values_of(VALUES[seed % len(VALUES)], one.params.slots, seed), 1.0)
        (message,) = one.method.in_coefficients(ev, [ev.as_message(ct)])
        raised = one.method.raised(ev, message, message.scale)
        found.append(decrypt_coefficients(one.secret, raised.data) / float(one.params.q[0]))
    wholes = np.abs(np.rint(np.concatenate(found)))
    assert np.abs(np.concatenate(found) - np.rint(np.concatenate(found))).max() < 2.0**-9.8
    assert wholes.max() <= REDUCTION.range
    for most in range(6):
        chance = 2.0 ** -REDUCTION.failure_bits(most)
        # Coefficients of one ciphertext come of the same numbers: counts vary more than those of independent ones.
        assert abs((wholes > most).mean() - chance) <= 8 * math.sqrt(chance / len(wholes)) + chance * 2.0**-7


# ---- the whole ----

VALUES = ("random", "ones", "minus ones", "zeros", "one of many", "alternating")


def values_of(kind: str, slots: int, seed: int = 0) -> NDArray[np.float64]:
    signs = np.where(np.arange(slots) % 2, 1.0, -1.0)
    return {
        "random": np.random.default_rng(seed).uniform(-1, 1, slots),
        "ones": np.ones(slots),
        "minus ones": -np.ones(slots),
        "zeros": np.zeros(slots),
        "one of many": np.eye(1, slots, 5)[0],
        "alternating": signs,
    }[kind]


@pytest.mark.parametrize("bound", [1.0, 1e-3, 300.0])
@pytest.mark.parametrize("kind", VALUES)
def test_real_slots(kind: str, bound: float) -> None:
    one = party(10)
    ev = Native(one.params, one.keys)
    values = bound * values_of(kind, one.params.slots)
    result = one.method.run(ev, one.encrypted(ev, values, bound))
    assert result.limbs == 1 + one.method.levels_before + WORKING
    assert result.scale == pytest.approx(SCALE, rel=1e-9)
    assert result.bound == bound
    found = np.abs(one.decrypted(result) - values).max()
    assert found <= result.error(2 * one.params.slots)
    assert result.error(1) < bound * 2.0**-12 + 2.0**-12


@pytest.mark.parametrize("bits", [32.0, 38.0, 40.0])
def test_messages_of_small_scales_are_as_large_as_others(bits: float) -> None:
    """In the coefficients where ModRaise reads them."""
    one = party(9)
    ev = Symbolic(one.params)
    ct = ev.fresh(None, bound=0.5, limbs=one.method.limbs_before, scale=2.0**bits)
    (found,) = one.method.in_coefficients(ev, [ct])
    assert found.limbs == 1 and 0.5 * found.scale == pytest.approx(one.method.largest(ev))


def test_complex_slots() -> None:
    one = party(10)
    ev = Native(one.params, one.keys)
    angles = np.random.default_rng(4).uniform(0, 2 * np.pi, one.params.slots)
    values = np.exp(1j * angles)
    result = one.method.run(ev, one.encrypted(ev, values, 1.0), real=False)
    assert np.abs(one.decrypted(result) - values).max() <= result.error(2 * one.params.slots)


@pytest.mark.parametrize("held", [4, 64])
@pytest.mark.parametrize("repeated", [False, True])
def test_few_slots(held: int, repeated: bool) -> None:
    """Smaller transforms, from fewer limbs to as many; what stands in other slots is left out."""
    one, whole = party(10, held=held, repeated=repeated), party(10, held=512)
    ev, slots = Native(one.params, one.keys), one.params.slots
    assert len(one.method.down) == -(-one.method.held.bit_length() // 5) <= len(whole.method.down)
    assert one.method.spared == len(whole.method.up) - len(one.method.up) == 1
    assert whole.method.packed(slots) is whole.method
    assert one.method.held == max(held, 16)
    rng = np.random.default_rng(5)
    values = np.tile(rng.uniform(-1, 1, held), slots // held) if repeated else rng.uniform(-1, 1, slots)
    wanted = values if repeated else np.where(np.arange(slots) < one.method.held, values, 0.0)
    errors = []
    for seed in range(8):
        x, y = (one.encrypted(ev, each, 1.0) for each in (values, -values))
        if seed == 0:
            results = [one.method.run(ev, x)]
        else:
            results = one.method.run_all(ev, [x, y])
        assert {ct.limbs for ct in results} == {1 + len(whole.method.down) + WORKING}
        for ct, exact in zip(results, (wanted, -wanted), strict=False):
            errors.append(np.abs(one.decrypted(ct).real - exact).max())
    predicted = results[0].error(len(errors) * slots)
    assert max(errors) <= predicted <= 2.0**4 * max(errors)
    counts = []
    for each in (one, whole):
        counted = Symbolic(each.params)
        each.method.run(counted, counted.fresh(None, bound=1.0, limbs=each.method.levels_before + 1))
        counts.append(counted.counts)
    assert counts[0].plain_products < 0.7 * counts[1].plain_products
    assert counts[0].rotations < counts[1].rotations


def test_few_complex_slots() -> None:
    one = party(10, held=16)
    ev = Native(one.params, one.keys)
    angles = np.random.default_rng(6).uniform(0, 2 * np.pi, 16)
    values = np.concatenate([np.exp(1j * angles), np.zeros(one.params.slots - 16)])
    result = one.method.run(ev, one.encrypted(ev, values, 1.0), real=False)
    assert np.abs(one.decrypted(result) - values).max() <= result.error(2 * one.params.slots)


@pytest.mark.parametrize("kind", ["random", "bound", "zeros"])
def test_no_slot_is_beyond_the_prediction_and_the_prediction_is_near(kind: str) -> None:
    """Forty ciphertexts, ten of zeros, none beyond what is predicted for all together, nor for itself alone; the
    worst one within four bits, but of zeros, at which the sine errs by nothing."""
    one, number = party(10), 10 if kind == "zeros" else 40
    ev = Native(one.params, one.keys)
    errors = []
    for seed in range(number):
        signs = np.random.default_rng(seed).choice([-1.0, 1.0], one.params.slots)
        values = signs if kind == "bound" else values_of(kind, one.params.slots, seed)
        result = one.method.run(ev, one.encrypted(ev, values, 1.0))
        errors.append(float(np.abs(one.decrypted(result).real - values).max()))
        assert errors[-1] <= result.error(one.params.slots)
    worst, predicted = max(errors), result.error(number * one.params.slots)
    assert worst <= predicted
    assert kind == "zeros" or predicted <= 2.0**4 * worst


@functools.cache
def shared_keys(secrets: int) -> EvaluationKeys:
    """Of the party's ring, with `secrets` pairs at a time."""
    one = party(10)
    ev, shared = Symbolic(one.params), SharedSymbolic(one.params, secrets)
    limbs = one.method.levels_before + 1
    one.method.run_shared(ev, shared, [ev.fresh(None, bound=1.0, limbs=limbs) for _ in range(2 * secrets)])
    return make_evaluation_keys(one.secret, shared.request)


@pytest.mark.parametrize(
    ("secrets", "number"), [(1, 2), (3, 2), (3, 4), (3, 6), (5, 10), (1, 4), (3, 8), (3, 10)]
)
@pytest.mark.parametrize("bound", [1.0, 1e-3, 300.0])
def test_pairs_that_share_an_a_part(secrets: int, number: int, bound: float) -> None:
    """Every place, places that nothing is at, several groups: as precise as two by two, with the keys that a dry run
    declared."""
    one = party(10)
    ev = Native(one.params, one.keys)
    shared = SharedNative(one.params, shared_keys(secrets), secrets, engine=ev.engine)
    exact = [
        bound * values_of(VALUES[index % len(VALUES)], one.params.slots, index) for index in range(number)
    ]
    cts = [one.encrypted(ev, values, bound) for values in exact]
    pair = one.method.run_all(ev, cts[:2])[0]
    counted, dry = Symbolic(one.params), SharedSymbolic(one.params, secrets)
    limbs = one.method.levels_before + 1
    planned = one.method.run_shared(
        counted, dry, [counted.fresh(None, bound=bound, limbs=limbs) for _ in range(number)]
    )
    found = one.method.run_shared(ev, shared, cts)
    groups, left = divmod(number, 2 * secrets)
    groups += left > secrets
    assert shared.counts == dry.counts and dry.counts.modulus_raises == groups * secrets
    assert counted.counts.modulus_raises == (left // 2 if left <= secrets else 0)
    for ct, expected, values in zip(found, planned, exact, strict=True):
        assert (ct.limbs, ct.scale, ct.bound) == (expected.limbs, expected.scale, expected.bound)
        assert ct.limbs == pair.limbs and ct.scale == pytest.approx(pair.scale)
        assert np.abs(one.decrypted(ct).real - values).max() <= ct.error(number * one.params.slots)
        # Small messages are scaled up, and so precise that the conversions show.
        assert ct.error(1) < (1.15 if bound < 1 else 1.02) * pair.error(1)


def test_sharing_an_a_part_takes_less_the_more_pairs_there_are() -> None:
    """Counted at real parameters: at the ring degree 2^15, half of the transforms of those that are refreshed alone."""
    params = RingShape(
        1 << 15, (2.0**50, *[2.0**34] * 2, *[2.0**38] * 3, *[2.0**47] * 10), (2.0**47,) * 3, 3, 38.0
    )
    method = bootstrapping_of(params)

    def counted(number: int, secrets: int | None) -> float:
        ev, limbs = Symbolic(params), method.levels_before + 1
        cts = [ev.fresh(None, bound=1.0, limbs=limbs) for _ in range(number)]
        if secrets is None:
            method.run_all(ev, cts)
            return ev.counts.ntt_limbs / number
        shared = SharedSymbolic(params, secrets)
        method.run_shared(ev, shared, cts)
        return (ev.counts + shared.counts).ntt_limbs / number

    alone, pairs = counted(1, None), counted(2, None)
    shares = [counted(2 * secrets, secrets) / alone for secrets in (1, 3, 7, 15)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.5 < pairs / alone < 0.7 and shares[1] < 0.9 * pairs / alone


def test_refused_where_they_cannot_share() -> None:
    one = party(10)
    ev, shared = Symbolic(one.params), SharedSymbolic(one.params, 3)
    cts = [ev.fresh(None, bound=1.0, limbs=one.method.levels_before + 1) for _ in range(8)]
    for number in (0, 1, 3, 7):
        with pytest.raises(ShapeError, match="two by two"):
            one.method.run_shared(ev, shared, cts[:number])
    with pytest.raises(LevelError, match="Bootstrapping spends 2 levels"):
        one.method.run_shared(ev, shared, [ev.drop(ct, 2) for ct in cts[:2]])


def test_ten_in_a_row_stay_within_the_prediction() -> None:
    """One ciphertext, refreshed again and again: errors add up, as predicted, and within four bits of it."""
    one = party(10)
    ev = Native(one.params, one.keys)
    values = values_of("random", one.params.slots)
    ct = one.encrypted(ev, values, 1.0)
    for _ in range(10):
        before, ct = ct, one.method.run(ev, ct)
        found, predicted = np.abs(one.decrypted(ct).real - values).max(), ct.error(one.params.slots)
        assert found <= predicted <= 2.0**4 * found
        assert predicted > before.error(one.params.slots)


def test_refreshed_ciphertexts_are_refreshed_again() -> None:
    """With squares in between, whose errors are followed."""
    one = party(10)
    ev = Native(one.params, one.keys)
    values = values_of("random", one.params.slots, 7)
    ct = one.encrypted(ev, values, 1.0)
    for _ in range(4):
        ct = one.method.run(ev, ct)
        ct = ev.rescale(ev.multiply_relinearised(ct, ct))
        values = values**2
        found = np.abs(one.decrypted(ct).real - values).max()
        assert found <= ct.error(one.params.slots)
        assert found < 2.0**-12
        ct = ev.bounded(ct, 1.0)


def test_all_evaluators_agree_on_what_happens() -> None:
    one = party(10)
    limbs = one.method.levels_before + 1
    counted = Symbolic(one.params, available=one.request)
    expected = one.method.run(counted, counted.fresh(None, bound=1.0, limbs=limbs), real=False)
    clear = Clear(one.params, available=one.request)
    values = values_of("random", one.params.slots)
    found = one.method.run(clear, clear.fresh(values + 0j, bound=1.0, limbs=limbs), real=False)
    assert np.abs(found.data - values).max() < 2.0**-17
    native = Native(one.params, one.keys)
    result = one.method.run(native, one.encrypted(native, values, 1.0), real=False)
    for ev, ct in ((clear, found), (native, result)):
        assert ev.request == one.request
        assert (ct.limbs, ct.scale, ct.bound) == (expected.limbs, expected.scale, expected.bound)
        assert ev.counts == counted.counts
    assert counted.counts.modulus_raises == 1
    worst = WorstCase(one.params)
    bounded = one.method.run(worst, worst.fresh(None, bound=1.0, limbs=limbs), real=False)
    assert worst.worst_error(bounded) / bounded.scale > 2.0**-17


def test_engines_agree_bit_for_bit() -> None:
    one = party(6, alpha=3)
    values = values_of("random", one.params.slots)
    engine: Engine = ReferenceEngine(one.params)
    evs = [Native(one.params, one.keys), Native(one.params, one.keys, engine=engine)]
    fresh = encrypt(one.secret, one.params.context().encode(values + 0j, SCALE, 1)).expand()
    words = []
    for ev in evs:
        ct = ev.drop(ev.fresh(fresh, bound=1.0), one.method.levels_before + 1)
        words.append(ev.engine.download(one.method.run(ev, ct).data))
    np.testing.assert_array_equal(*words)


def test_refused() -> None:
    one = party(10)
    ev = Native(one.params, one.keys)
    ct = one.encrypted(ev, values_of("ones", one.params.slots), 1.0)
    with pytest.raises(LevelError, match="Bootstrapping spends 2 levels"):
        one.method.run(ev, ev.drop(ct, 2))
    without = KeyRequest.of_galois(one.request.galois, one.request.relinearise)
    for lacking in (
        Native(one.params, make_evaluation_keys(one.secret, without)),
        Symbolic(one.params, available=without),
    ):
        given = ct if isinstance(lacking, Native) else lacking.fresh(None, bound=1.0, limbs=3)
        with pytest.raises(MissingKeyError, match="sparse"):
            one.method.run(lacking, given)
    symbolic = Symbolic(one.params)
    x = symbolic.fresh(None, bound=1.0)
    for limbs in (1, symbolic.top_limbs + 1):
        with pytest.raises(LevelError, match="cannot be raised to so many limbs"):
            symbolic.raise_modulus(x, limbs, 1.0)


# ---- ModRaise first ----


@functools.cache
def raised_first_party(log_n: int = 10) -> Party:
    """A chain with one prime below the working levels, and those of slots to coefficients above them."""
    method = replace(bootstrapping(log_n - 1), raised_first=True)
    last = [34.0] * len(method.down)
    q_bits = [50.0, 34.0] + [40.0] * WORKING + last + [49.8] * (method.levels_after - len(last))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = make_parameters(1 << log_n, q_bits, alpha=4, scale_bits=40.0, insecure=True)
    secret, ev = generate_secret(params), Symbolic(params)
    x, y = (ev.fresh(None, bound=1.0, limbs=2) for _ in range(2))
    method.run(ev, x, real=True)
    method.run(ev, x, real=False)
    method.run_all(ev, [x, y])
    return Party(method, params, secret, ev.request, make_evaluation_keys(secret, ev.request))


@pytest.mark.parametrize("bound", [1.0, 1e-3, 300.0])
@pytest.mark.parametrize("kind", VALUES)
def test_real_slots_with_modraise_first(kind: str, bound: float) -> None:
    """Alone, of half of their coefficients, and two as one, of which each is a part."""
    one = raised_first_party()
    ev = Native(one.params, one.keys)
    values = bound * values_of(kind, one.params.slots)
    x, y = (one.encrypted(ev, each, bound) for each in (values, -values[::-1]))
    results = [one.method.run(ev, x), *one.method.run_all(ev, [x, y])]
    for ct, exact in zip(results, (values, values, -values[::-1]), strict=True):
        assert ct.limbs == 2 + WORKING and ct.bound == bound
        assert ct.scale == pytest.approx(SCALE, rel=1e-9)
        found = np.abs(one.decrypted(ct).real - exact).max()
        assert found <= ct.error(3 * one.params.slots) <= 2.0**5 * found
        assert ct.error(1) < bound * 2.0**-10 + 2.0**-10


def test_complex_slots_with_modraise_first() -> None:
    one = raised_first_party()
    ev = Native(one.params, one.keys)
    values = np.exp(1j * np.random.default_rng(4).uniform(0, 2 * np.pi, one.params.slots))
    result = one.method.run(ev, one.encrypted(ev, values, 1.0), real=False)
    assert np.abs(one.decrypted(result) - values).max() <= result.error(2 * one.params.slots) < 2.0**-10


def test_evaluators_agree_on_modraise_first() -> None:
    one = raised_first_party()
    counted = Symbolic(one.params, available=one.request)
    expected = one.method.run(counted, counted.fresh(None, bound=1.0, limbs=2))
    clear, native = Clear(one.params, available=one.request), Native(one.params, one.keys)
    values = values_of("random", one.params.slots)
    found = one.method.run(clear, clear.fresh(values + 0j, bound=1.0, limbs=2))
    result = one.method.run(native, one.encrypted(native, values, 1.0))
    assert np.abs(found.data.real - values).max() < expected.error(1)
    for ev, ct in ((clear, found), (native, result)):
        assert (ct.limbs, ct.scale, ct.bound) == (expected.limbs, expected.scale, expected.bound)
        assert ev.counts == counted.counts


def test_the_chain_says_which_comes_first() -> None:
    assert bootstrapping_of(raised_first_party().params).raised_first
    assert not bootstrapping_of(party(10).params).raised_first
    for log_n, rows in ((15, None), (16, None), (16, 1 << 13)):
        assert not bootstrapping_of(chain(1 << log_n, 3, 8, rows).shape()).raised_first
        assert not bootstrapping_of(chain(1 << log_n, 3, 8, profile=TWO_ROUNDS).shape()).raised_first
    ring = chain(1 << 16, 7, 4, raised_first=True)
    method = bootstrapping_of(ring.shape())
    assert method.raised_first and method.limbs(len(ring.q_bits)) == 2 + 7
    assert method.packed(64) is method


def test_modraise_is_not_first_where_coefficients_must_be() -> None:
    one = raised_first_party()
    ev, shared = Symbolic(one.params), SharedSymbolic(one.params, 3)
    ct = ev.fresh(None, bound=1.0, limbs=2)
    with pytest.raises(MismatchError, match="ModRaise is not first where ciphertexts share an a part"):
        one.method.run_shared(ev, shared, [ct, ct])
    with pytest.raises(MismatchError, match="ModRaise is not first of encrypted rows"):
        one.method.of_rows(None, None, None, 1)  # type: ignore[arg-type]
    with pytest.raises(LevelError, match="Bootstrapping spends 1 level"):
        one.method.run(ev, ev.drop(ct, 1))


# ---- two rounds ----


@functools.cache
def fine_party() -> Party:
    """Scales of 46 bits, and a level more, of the second round."""
    method = bootstrapping(9)
    q_bits = [50.0] + [34.0] * 2 + [46.0] * (WORKING + 1) + [49.8] * (2 + method.reduction.levels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = make_parameters(1 << 10, q_bits, alpha=4, scale_bits=46.0, insecure=True)
    secret, ev = generate_secret(params), Symbolic(params)
    x, y = (ev.fresh(None, bound=1.0, limbs=3) for _ in range(2))
    method.refresh_twice(ev, [x, y])
    method.refresh_twice(ev, [x], real=False)
    return Party(method, params, secret, ev.request, make_evaluation_keys(secret, ev.request), 2.0**46)


@pytest.mark.parametrize("bound", [1.0, 1e-3, 300.0])
def test_two_rounds(bound: float) -> None:
    """A second round makes it almost as precise again; predicted, within four bits, at every scale and bound."""
    one = fine_party()
    ev = Native(one.params, one.keys)
    errors, predicted = [], 0.0
    for seed in range(10):
        exact = [bound * values_of("random", one.params.slots, seed + 100 * part) for part in range(2)]
        cts = [ev.fold_into_scale(one.encrypted(ev, 0.9 * each, 0.9 * bound), 1 / 0.9) for each in exact]
        once = one.method.run(ev, cts[0])
        for ct, values in zip(one.method.refresh_twice(ev, cts), exact, strict=True):
            assert ct.limbs == once.limbs - 1 and ct.bound == pytest.approx(bound)
            errors.append(np.abs(one.decrypted(ct).real - values).max())
            predicted = ct.error(20 * one.params.slots)
    assert max(errors) <= predicted <= 2.0**4 * max(errors)
    assert predicted < bound * 2.0**-27 + 2.0**-33
    assert once.error(1) > bound * 2.0**-19


def test_two_rounds_of_complex_slots() -> None:
    one = fine_party()
    ev = Native(one.params, one.keys)
    values = np.exp(1j * np.random.default_rng(4).uniform(0, 2 * np.pi, one.params.slots))
    (result,) = one.method.refresh_twice(ev, [one.encrypted(ev, values, 1.0)], real=False)
    assert np.abs(one.decrypted(result) - values).max() <= result.error(2 * one.params.slots) < 2.0**-26


def test_all_evaluators_agree_on_two_rounds() -> None:
    one = fine_party()
    counted = Symbolic(one.params, available=one.request)
    (expected,) = one.method.refresh_twice(counted, [counted.fresh(None, bound=1.0, limbs=3)])
    clear, native = Clear(one.params, available=one.request), Native(one.params, one.keys)
    values = values_of("random", one.params.slots)
    fresh = clear.fresh(values + 0j, bound=1.0, limbs=3), one.encrypted(native, values, 1.0)
    for ev, x in zip((clear, native), fresh, strict=True):
        (found,) = one.method.refresh_twice(ev, [x])
        assert (found.limbs, found.scale, found.bound) == (expected.limbs, expected.scale, expected.bound)
        assert ev.counts == counted.counts
    worst = WorstCase(one.params)
    (bounded,) = one.method.refresh_twice(worst, [worst.fresh(None, bound=1.0, limbs=3)])
    assert worst.worst_error(bounded) / bounded.scale > 2.0**-30


def test_keys_that_are_read_from_a_file() -> None:
    """The same words, with as many keys in memory as one call reads, or with none."""
    one = party(8)
    keys = pickle.loads(pickle.dumps(one.keys))
    native = Native(one.params, one.keys)
    ct = one.encrypted(native, values_of("random", one.params.slots), 1.0)
    expected = one.method.run(native, ct, real=False).data
    for memory in (keys.nbytes // 3, 0):
        keys.keep_within(memory)
        assert keys.memory_bytes == memory
        streamed = Native(one.params, keys)
        x = streamed.fresh(ct.data, bound=1.0, limbs=ct.limbs)
        np.testing.assert_array_equal(one.method.run(streamed, x, real=False).data, expected)


def test_all_scales_share_what_coefficients_to_slots_encodes(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = []

    def recorded(slots: int, sizes: Any, factor: float, **options: Any) -> Any:
        factors.append(factor)
        return coefficients_to_slots(slots, sizes, factor, **options)

    monkeypatch.setattr("cipherblas.methods.bootstrapping.refresh.coefficients_to_slots", recorded)
    params = chain(1 << 15, WORKING, 8).parameters(128, insecure=False)
    method, ev = bootstrapping_of(params), Symbolic(params)
    random = np.random.default_rng(0)
    for scale in 2.0 ** random.uniform(38, 40, 12):
        method.run(ev, ev.fresh(None, bound=1.0, limbs=method.levels_before + 1, scale=float(scale)))
    assert len(factors) == 2 * 12 and len(set(factors)) == 1  # for the first factor, and for the others
