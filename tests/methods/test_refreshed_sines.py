"""Refreshes to sines: what is found, its errors, few slots, pairs, and how all evaluators agree."""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from cipherblas.common.errors import LevelError
from cipherblas.crypto.keys import (
    EvaluationKeys,
    SecretKey,
    decrypt_coefficients,
    encrypt,
    generate_secret,
    make_evaluation_keys,
)
from cipherblas.crypto.params import Parameters
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct
from cipherblas.lang.refreshing import SINE_PERIOD, SINE_PERIODS
from cipherblas.methods.bootstrapping.refresh import Bootstrapping, bootstrapping_of
from cipherblas.planner.rings import modulus_chains as chains

LOG_N, SCALE_BITS = 11, 30.0
HELD = [(0, False), (128, False), (128, True)]


@dataclass
class Party:
    """A ring for sines, INSECURE, and its keys."""

    method: Bootstrapping
    params: Parameters
    secret: SecretKey
    keys: EvaluationKeys

    @property
    def limbs(self) -> int:
        return self.method.limbs_before

    def encrypted(self, ev: Native, values: NDArray[np.float64]) -> Ct:
        coefficients = self.params.context().encode(values.astype(complex), 2.0**SCALE_BITS)
        sent = encrypt(self.secret, coefficients, self.limbs).expand()
        return ev.fresh(sent, bound=1.0, limbs=self.limbs, scale=2.0**SCALE_BITS)

    def decrypted(self, ct: Ct) -> NDArray[np.float64]:
        found = self.params.context().decode(decrypt_coefficients(self.secret, ct.data) / ct.scale)
        assert np.abs(found.imag).max() < 1e-3
        return np.asarray(found.real)


@functools.cache
def party(held: int, repeated: bool) -> Party:
    sizing = chains.chain(1 << LOG_N, 3, 4, profile=chains.Profile.of_sines(SCALE_BITS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = sizing.parameters(0, insecure=True)
    method = bootstrapping_of(params)
    assert method.sine and bootstrapping_of(sizing.shape()).sine
    # As in larger rings, factors of all slots have more giant steps than they may, and so twice the baby steps.
    method = method.packed(held, repeated) if held else replace(method, giants=1)
    secret, ev = generate_secret(params), Symbolic(params)
    method.run_all(ev, [ev.fresh(None, bound=1.0, limbs=method.limbs_before) for _ in range(3)])
    return Party(method, params, secret, make_evaluation_keys(secret, ev.request))


def values_of(kind: str, held: int, repeated: bool, slots: int) -> NDArray[np.float64]:
    rng, length = np.random.default_rng(3), held or slots
    values = {
        "random": rng.uniform(-1, 1, length),
        "at the bound": rng.choice([-1.0, 1.0], length),
        "zeros": np.zeros(length),
    }[kind]
    return np.tile(values, slots // length) if repeated or not held else np.pad(values, (0, slots - length))


@pytest.mark.parametrize(("held", "repeated"), HELD)
@pytest.mark.parametrize("kind", ["random", "at the bound", "zeros"])
def test_sines_of_one_two_and_three_ciphertexts(kind: str, held: int, repeated: bool) -> None:
    """Alone, as the imaginary part of another one, and what is left over."""
    one = party(held, repeated)
    ev = Native(one.params, one.keys)
    values = values_of(kind, held, repeated, ev.slots)
    for number in (1, 2, 3):
        given = [sign * values for sign in (1, -1, 0.5)[:number]]
        found = one.method.run_all(ev, [one.encrypted(ev, each) for each in given])
        for ct, each in zip(found, given, strict=True):
            assert ct.limbs == one.method.limbs(one.params.limbs) and ct.bound < 0.8
            off = np.abs(one.decrypted(ct) - np.sin(2 * math.pi / SINE_PERIOD * each))
            assert (off[: held or None] if not repeated else off).max() <= ct.error(ev.slots) < 1e-3


@pytest.mark.parametrize("period", SINE_PERIODS)
@pytest.mark.parametrize("times", [1.0, 1.5, 2.0, 5.0])
def test_sines_of_all_periods_and_of_values_beyond_the_bound(period: int, times: float) -> None:
    """A sine is found of any number, whatever the bound: nothing wraps around but with its period."""
    one = party(0, False)
    ev, method = Native(one.params, one.keys), one.method.of_period(period)
    values = times * values_of("random", 0, False, ev.slots)
    given = one.encrypted(ev, values)
    assert given.bound == 1.0
    found = method.run(ev, given)
    off = np.abs(one.decrypted(found) - np.sin(2 * math.pi / period * values))
    assert off.max() <= times * found.error(ev.slots) < 2e-2  # what is encoded errs in proportion


def test_the_degree_of_evalmod_is_the_least_that_the_scale_is_as_precise_as() -> None:
    degrees = []
    for scale in (28.0, 30.0, 32.0, 34.0, 38.0):
        sizing = chains.chain(1 << 15, 3, 4, profile=chains.Profile.of_sines(scale))
        method, ev = bootstrapping_of(sizing.shape()), Symbolic(sizing.shape())
        found = method.run(ev, ev.fresh(None, bound=1.0, limbs=method.limbs_before))
        finest = replace(method, reduction=replace(method.reduction, degree=62))
        other = finest.run(ev, ev.fresh(None, bound=1.0, limbs=method.limbs_before))
        assert found.error(ev.slots) < 1.1 * other.error(ev.slots)
        degrees.append(method.reduction.degree)
    assert degrees == sorted(degrees) and degrees[0] < degrees[-1] == 62


def test_errors_are_those_of_each_slot_but_for_the_polynomial() -> None:
    """So that sums of many slots, as a convolution makes, have errors that grow as their root."""
    for scale in chains.SINE_SCALES:
        ring = chains.chain(1 << 15, 8, 4, profile=chains.Profile.of_sines(scale)).shape()
        method, ev = bootstrapping_of(ring), Symbolic(ring)
        errors = method.run(ev, ev.fresh(None, bound=1.0, limbs=method.limbs_before)).errors
        assert errors.common < 0.2 * errors.deviation


@pytest.mark.parametrize("bits", [SCALE_BITS - 6, SCALE_BITS - 1, SCALE_BITS, SCALE_BITS + 1])
def test_messages_of_any_scale_fill_their_share_of_q0(bits: float) -> None:
    """What waits at a smaller scale is scaled up: errors of ModRaise count no more for it."""
    one = party(0, False)
    ev = Symbolic(one.params)
    ct = ev.fresh(None, bound=1.0, limbs=one.limbs, scale=2.0**bits)
    (found,) = one.method.in_coefficients(ev, [ct], 1.0)
    assert found.limbs == 1 and found.scale == pytest.approx(one.params.q[0] / SINE_PERIOD)


@pytest.mark.parametrize(("held", "repeated"), [(0, False), (1 << 13, False), (1 << 13, True)])
def test_first_factors_of_slots_to_coefficients_are_small(held: int, repeated: bool) -> None:
    """They have the more limbs; the last one of all slots goes around, and has half the diagonals."""
    ring = chains.chain(1 << 15, 3, 4, profile=chains.Profile.of_sines(SCALE_BITS)).shape()
    method = bootstrapping_of(ring)
    method = method.packed(held, repeated) if held else method
    first, second = method.down
    assert first < second and first + second == (held or ring.n // 2).bit_length() - 1

    def transformed(down: tuple[int, ...]) -> tuple[int, int]:
        ev = Symbolic(ring)
        replace(method, down=down).in_coefficients(ev, [ev.fresh(None, bound=1.0, limbs=3)], 1.0)
        return ev.counts.ntt_limbs, ev.counts.mac_limbs

    larger = (second, first) if held else (first + 1, second - 1)
    assert all(
        few < many for few, many in zip(transformed((first, second)), transformed(larger), strict=True)
    )


def test_errors_that_values_have_are_damped_by_the_slope() -> None:
    one = party(0, False)
    ev = Symbolic(one.params)
    exact, off = (ev.fresh(None, bound=1.0, limbs=one.limbs) for _ in range(2))
    off = ev.assume_errors(off, off.errors.with_own(1e-3))
    before, after = (one.method.run(ev, ct).errors.deviation for ct in (exact, off))
    assert math.sqrt(after**2 - before**2) == pytest.approx(2 * math.pi / SINE_PERIOD * 1e-3, rel=1e-2)


def test_errors_that_carry_messages_beyond_the_sine_are_refused() -> None:
    one = party(0, False)
    ev = Symbolic(one.params)
    ct = ev.fresh(None, bound=1.0, limbs=one.limbs)
    with pytest.raises(LevelError, match="beyond what a sine"):
        one.method.run(ev, ev.assume_errors(ct, ct.errors.with_own(5e-2)))


def test_evaluators_agree() -> None:
    one = party(0, False)
    counted, clear, native = Symbolic(one.params), Clear(one.params), Native(one.params, one.keys)
    values = values_of("random", 0, False, native.slots)
    expected = one.method.run(counted, counted.fresh(None, bound=1.0, limbs=one.limbs))
    in_clear = one.method.run(clear, clear.fresh(values + 0j, bound=1.0, limbs=one.limbs))
    found = one.method.run(native, one.encrypted(native, values))
    assert native.counts == counted.counts
    for ct in (in_clear, found):
        assert (ct.limbs, ct.bound) == (expected.limbs, expected.bound)
        assert ct.scale == pytest.approx(expected.scale, rel=1e-9)
    off = np.abs(in_clear.data.real - np.sin(2 * math.pi / SINE_PERIOD * values))
    assert off.max() < 2 * math.pi * one.method.reduction.polynomial_error(1 / SINE_PERIOD) < 1e-4


def test_the_chain_says_that_sines_are_found() -> None:
    for scale in chains.SINE_SCALES:
        for n in (1 << 11, 1 << 15, 1 << 16):
            profile = chains.Profile.of_sines(scale)
            assert bootstrapping_of(chains.chain(n, 3, 4, profile=profile).shape()).sine
    for profile in (chains.LINES, chains.TWO_ROUNDS):
        for first in (False, True):
            ring = chains.chain(1 << 15, 3, 8, profile=profile, raised_first=first).shape()
            assert not bootstrapping_of(ring).sine


def test_twice_the_baby_steps_of_wide_factors_take_fewer_transforms() -> None:
    ring = chains.chain(1 << 15, 3, 4, profile=chains.Profile.of_sines(SCALE_BITS)).shape()
    method, forward = bootstrapping_of(ring), list[int]()
    for giants in (method.giants, 8):
        ev = Symbolic(ring)
        replace(method, giants=giants).run(ev, ev.fresh(None, bound=1.0, limbs=method.limbs_before))
        forward.append(ev.counts.ntt_limbs)
    assert forward[0] < 0.9 * forward[1]


def test_a_layer_has_room_between_two_refreshes_at_the_smallest_degree() -> None:
    """A function of degree 126 and a convolution: eight levels, which refreshes of lines leave at twice the degree."""
    sines = chains.chains(1 << 15, 8, 868.0, profile=chains.Profile.of_sines(30.0))
    assert sines and min(sizing.log_qp for sizing in sines) <= 868
    assert chains.most_working(1 << 15, 868.0) < 8
