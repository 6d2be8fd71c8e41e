"""Integers modulo t in slots, on every interpreter that there is for them, beside Python's integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cipherblas.common.errors import LevelError, ParameterError, RangeError, UnmatchedError, UnsuitedError
from cipherblas.crypto.keys import (
    decrypt_residues,
    encrypt,
    generate_public_key,
    generate_secret,
    make_evaluation_keys,
)
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.crypto.residue_slots import centred, residue_slots
from cipherblas.evaluators.policy.modular import ModularPolicy, PlainFactor
from cipherblas.evaluators.rows.clear import RowsClear
from cipherblas.evaluators.rows.worst_case import RowsWorstCase
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import Ct, Plain
from cipherblas.evaluators.slots.worst_case import WorstCase
from tests.support.modular_runs import largest_error


def toy(n: int, modulus: int, bits: tuple[float, ...], alpha: int = 1) -> Parameters:
    return make_parameters(n, bits, alpha=alpha, security=0, insecure=True, plain_modulus=modulus)


def numbers(random: np.random.Generator, slots: int, modulus: int, real: bool = False) -> Any:
    parts = random.integers(0, modulus, (2, slots))
    return reduced(parts[0] + (0j if real else 1j * parts[1]), modulus)


def reduced(values: Any, modulus: int) -> Any:
    parts = np.rint(np.real(values)).astype(np.int64), np.rint(np.imag(values)).astype(np.int64)
    return centred(parts[0], modulus) + 1j * centred(parts[1], modulus)


def times(x: Any, y: Any, modulus: int) -> Any:
    """The product in Z_t[i], by Python's integers."""
    a, b, c, d = (
        np.rint(part).astype(np.int64).astype(object)
        for part in (np.real(x), np.imag(x), np.real(y), np.imag(y))
    )
    found = [((a * c - b * d) % modulus).astype(np.int64), ((a * d + b * c) % modulus).astype(np.int64)]
    return centred(found[0], modulus) + 1j * centred(found[1], modulus)


def added(*terms: Any, modulus: int) -> Any:
    return reduced(sum(terms), modulus)


class Both:
    """The same operations on ciphertexts and without data; decrypts what the first one found."""

    def __init__(self, params: Parameters, program: Any, rights: int = 2, public_key: bool = False) -> None:
        self.params, self.t = params, params.plain_modulus or 0
        random = np.random.default_rng(7)
        self.values = [numbers(random, params.slots, self.t) for _ in range(rights)]
        counted = Symbolic(params)
        handles = [counted.fresh(None, bound=1.0, public_key=public_key) for _ in self.values]
        self.expected_handle = program(counted, *handles)
        secret = generate_secret(params, "program")
        keys = make_evaluation_keys(secret, counted.request)
        native, slots = Native(params, keys), residue_slots(params.n, self.t)
        key = generate_public_key(secret) if public_key else secret
        cts = [
            native.fresh(encrypt(key, slots.coefficients(value)).expand(), bound=1.0, public_key=public_key)
            for value in self.values
        ]
        self.found_handle: Ct = program(native, *cts)
        assert native.counts == counted.counts
        assert repr(self.found_handle) == repr(self.expected_handle)
        words = native.engine.download(self.found_handle.data)
        inverse = pow(self.found_handle.scale.value, -1, self.t)
        self.found = slots.slots(decrypt_residues(secret, words), inverse)


TOYS = [(64, 257, (40.0,) * 5), (32, 193, (40.0,) * 5), (64, 2147483137, (49.0,) * 8)]


@pytest.fixture(params=TOYS, ids=lambda found: f"{found[0]} mod {found[1]}")
def params(request: Any) -> Parameters:
    return toy(*request.param)


def test_slots_are_those_of_a_ring_of_pairs() -> None:
    n, t, random = 32, 193, np.random.default_rng(0)
    slots = residue_slots(n, t)
    x, y = (numbers(random, n // 2, t) for _ in range(2))
    f, g = slots.coefficients(x), slots.coefficients(y)
    assert np.abs(f).max() <= t // 2
    assert np.array_equal(slots.slots(f), x)
    product = np.zeros(2 * n, np.int64)
    for power, coefficient in enumerate(f):
        product[power : power + n] += coefficient * g % t
    wrapped = (product[:n] - product[n:]) % t
    assert np.array_equal(slots.slots(wrapped), times(x, y, t))
    assert np.array_equal(slots.slots(slots.coefficients(x, 5), pow(5, -1, t)), x)
    middle = np.zeros(n, np.int64)
    middle[n // 2] = 1
    assert np.array_equal(slots.slots(middle), np.full(n // 2, 1j))
    half = slots.slots(slots.coefficients(np.full(n // 2, 0.5)))
    assert np.array_equal(times(half, np.full(n // 2, 2.0), t), np.ones(n // 2))


def test_slots_refuse_what_has_no_value() -> None:
    with pytest.raises(ParameterError, match="no slots"):
        residue_slots(64, 65536)
    with pytest.raises(RangeError, match="whole"):
        residue_slots(32, 193).coefficients(np.full(16, 1 / 3))
    with pytest.raises(RangeError, match="whole"):
        residue_slots(32, 193).coefficients(np.full(16, np.nan))


@pytest.mark.parametrize("public_key", [False, True])
def test_sums_products_and_divisions(params: Parameters, public_key: bool) -> None:
    t = params.plain_modulus or 0

    def program(ev: Any, x: Ct, y: Ct) -> Ct:
        first = ev.rescaled(ev.multiply_relinearised(x, y))
        return ev.sub(ev.add(first, ev.multiply_scalar(x, -3)), ev.negate(y))

    run = Both(params, program, public_key=public_key)
    x, y = run.values
    assert np.array_equal(run.found, added(times(x, y, t), -3 * x, y, modulus=t))


def test_every_way_to_multiply(params: Parameters) -> None:
    t = params.plain_modulus or 0

    def program(ev: Any, x: Ct, y: Ct) -> Ct:
        lazy = ev.multiply_sum([x, y], [y, x])
        lazy = ev.multiply_sum([x], [x], lazy)
        found = ev.relinearise_rescaled(lazy)  # 2xy + x²
        ((sums,),) = ev.relinearised_sums([[x, y]], [[x, y]])  # x² + y²
        found = ev.add(found, ev.rescaled(sums))
        fused = ev.multiply_rescaled(x, y, 3.0, ev.policy.product(x.scale, y.scale), (x, 2.0), -5.0)
        return ev.add(found, fused)  # 3xy + 2x - 5

    run = Both(params, program)
    x, y = run.values
    squares = [times(one, one, t) for one in (x, y)]
    expected = added(5 * times(x, y, t), 2 * squares[0], squares[1], 2 * x, -5 * np.ones(len(x)), modulus=t)
    assert np.array_equal(run.found, expected)


def test_rotations_masks_and_clear_vectors(params: Parameters) -> None:
    t, slots = params.plain_modulus or 0, params.slots
    mask = Plain("mask", (np.arange(slots) % 3 == 0).astype(float), 1.0, constant=True)
    random = np.random.default_rng(3)
    weights = Plain("weights", numbers(random, slots, t), float(t))

    def program(ev: Any, x: Ct, y: Ct) -> Ct:
        found = ev.linear_transform(ev.rotate(x, 3), {0: mask, 1: mask.rolled(5), 4: weights})
        found = ev.add(found, ev.conjugate(ev.times_monomial(y, ev.n // 2)))
        product = ev.rescaled(ev.multiply(y, weights))
        found = ev.add_plain(ev.add(found, product), weights)
        return ev.add(found, ev.rotate_sum([x, y], [1, 2]))

    run = Both(params, program)
    x, y = run.values
    m, w = mask.values(), weights.values()
    moved = np.roll(x, -3)
    expected = added(
        m * moved,
        np.roll(m, -5) * np.roll(moved, -1),
        times(w, np.roll(moved, -4), t),
        np.conj(1j * y),
        times(y, w, t),
        w,
        np.roll(x, -1),
        np.roll(y, -2),
        modulus=t,
    )
    assert np.array_equal(run.found, expected)


def test_a_secure_ring() -> None:
    t = 2147352577  # 31 bits, = 1 mod 2^16
    params = make_parameters(8192, (48.0, 48.0, 47.0), plain_modulus=t)

    def program(ev: Any, x: Ct, y: Ct) -> Ct:
        return ev.rescaled(ev.multiply_relinearised(ev.rotate(x, 5), ev.conjugate(y)))

    run = Both(params, program)
    x, y = run.values
    assert params.security == 128
    assert np.array_equal(run.found, times(np.roll(x, -5), np.conj(y), t))


@pytest.mark.parametrize("double", [False, True])
def test_giant_steps(params: Parameters, double: bool) -> None:
    t, slots = params.plain_modulus or 0, params.slots
    random = np.random.default_rng(4)
    plains = {step: Plain(("w", step), numbers(random, slots, t), float(t)) for step in range(9)}
    run = Both(params, lambda ev, x: ev.linear_transform(x, plains, baby_steps=3, double=double), 1)
    terms = [times(plain.values(), np.roll(run.values[0], -step), t) for step, plain in plains.items()]
    assert np.array_equal(run.found, added(*terms, modulus=t))


@pytest.mark.parametrize("value", ["largest", "least", "zero", "one"])
def test_messages_that_are_chosen(value: str) -> None:
    """Constant polynomials, and coefficients as large as there are: what no random message looks like."""
    n, t = 64, 2147483137
    params = make_parameters(n, (48.0,) * 6, security=0, insecure=True, plain_modulus=t)
    slots = residue_slots(n, t)
    size = {"largest": t // 2, "least": -(t // 2), "zero": 0, "one": 1}[value]
    coefficients = np.full(n, size, np.int64)
    x = slots.slots(coefficients)

    def program(ev: Any, ct: Ct) -> Ct:
        square = ev.rescaled(ev.multiply_relinearised(ct, ct))
        return ev.rescaled(ev.multiply_relinearised(square, ev.conjugate(square)))

    counted = Symbolic(params)
    program(counted, counted.fresh(None, bound=1.0))
    secret = generate_secret(params, "p")
    native = Native(params, make_evaluation_keys(secret, counted.request))
    found = program(native, native.fresh(encrypt(secret, coefficients).expand(), bound=1.0))
    residues = decrypt_residues(secret, native.engine.download(found.data))
    square = times(x, x, t)
    expected = times(square, np.conj(square), t)
    assert np.array_equal(slots.slots(residues, pow(found.scale.value, -1, t)), expected)


def test_what_has_no_room_is_refused_before_it_is_wrong() -> None:
    t = 65537
    params = make_parameters(64, (30.0, 30.0), security=0, insecure=True, plain_modulus=t)
    ev = Symbolic(params)
    x = ev.fresh(None, bound=1.0)
    with pytest.raises(LevelError, match="no room"):
        ev.multiply(ev.multiply_relinearised(x, x), x)


def test_a_ciphertext_without_room_is_not_decrypted() -> None:
    t = 257
    params = make_parameters(64, (30.0,), security=0, insecure=True, plain_modulus=t)
    secret = generate_secret(params, "p")
    random = np.random.default_rng(0)
    words = random.integers(0, params.q[0], (2, 1, 64), np.uint64)
    with pytest.raises(RangeError, match="no room"):
        decrypt_residues(secret, words)


def test_what_integers_modulo_t_do_not_do() -> None:
    params = make_parameters(64, (40.0, 40.0), security=0, insecure=True, plain_modulus=257)
    ev = Symbolic(params)
    x = ev.fresh(None, bound=1.0)
    with pytest.raises(UnsuitedError, match="not refreshed"):
        ev.raise_modulus(x, 2, 1.0)
    for kind in (Clear, WorstCase, RowsClear, RowsWorstCase):
        with pytest.raises(UnsuitedError, match="Integers modulo t have no"):
            kind(params)
    with pytest.raises(UnsuitedError, match="no integer"):
        ev.policy.in_modulus(1 / 3)
    with pytest.raises(UnsuitedError, match="no inverse"):
        ev.fold_into_scale(x, 257.0)
    with pytest.raises(UnmatchedError, match="factor"):
        ev.multiply_sum([x, x], [x, ev.fold_into_scale(x, 3.0)])
    with pytest.raises(ParameterError, match="no plain modulus"):
        ModularPolicy(make_parameters(8192, (40.0,), special_limbs=0))
    with pytest.raises(RangeError, match="centred"):
        encrypt(generate_secret(params, "p"), np.full(64, 129, np.int64))


def test_parameters_have_their_plain_modulus_in_their_name() -> None:
    real, modular, other = (
        make_parameters(64, (40.0, 40.0), security=0, insecure=True, plain_modulus=t)
        for t in (None, 257, 65537)
    )
    assert len({one.fingerprint() for one in (real, modular, other)}) == 3
    assert "plain_modulus" not in real.to_dict()
    assert Parameters.from_dict(modular.to_dict(), security=0, insecure=True) == modular
    for wrong in (1, (1 << 31) + 1, 257.0, True):
        with pytest.raises(ParameterError, match="plain modulus"):
            Parameters.from_dict({**modular.to_dict(), "plain_modulus": wrong}, security=0, insecure=True)
    with pytest.raises(ParameterError, match="in common"):
        Parameters.from_dict(
            {**modular.to_dict(), "q": [12289, 40961], "plain_modulus": 12289}, insecure=True
        )


def test_factors_are_followed() -> None:
    params = make_parameters(64, (40.0,) * 3, security=0, insecure=True, plain_modulus=257)
    policy = ModularPolicy(params)
    found = policy.product(PlainFactor(3), PlainFactor(5, 1))
    assert found == PlainFactor(15, 2)
    divided = policy.divided(found, 3, 2)
    assert divided.value * params.q[2] % 257 == 15
    assert divided.pending == 1
    match = policy.match(PlainFactor(2), PlainFactor(255), 3, 3)
    assert (match.factor * 2 - 255) % 257 == 0
    assert abs(match.factor) <= 128


def test_errors_stay_below_their_bounds_and_near_them() -> None:
    """After each step the largest coefficient of ω is below what is stated, and not far below."""
    t, n = 65537, 1024
    params = make_parameters(n, (49.0,) * 4, security=0, insecure=True, plain_modulus=t)
    weights = Plain("w", numbers(np.random.default_rng(1), n // 2, t), float(t))

    def steps(ev: Any, x: Ct, y: Ct) -> list[Ct]:
        product = ev.multiply_relinearised(x, y)
        divided = ev.rescale(product)
        return [x, ev.rotate(x, 1), product, divided, ev.multiply(x, weights), ev.multiply(divided, divided)]

    counted = Symbolic(params)
    steps(counted, *(counted.fresh(None, bound=1.0) for _ in range(2)))
    secret = generate_secret(params, "p")
    native, slots = Native(params, make_evaluation_keys(secret, counted.request)), residue_slots(n, t)
    random = np.random.default_rng(2)
    found = steps(
        native,
        *(
            native.fresh(encrypt(secret, slots.coefficients(numbers(random, n // 2, t))).expand(), bound=1.0)
            for _ in range(2)
        ),
    )
    for ct in found:
        largest = largest_error(secret, native.params, native.engine.download(ct.data))
        assert largest <= ct.noise <= 2**11 * largest
