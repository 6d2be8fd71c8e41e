"""Slots to coefficients and back: on Clear against NumPy, on ciphertexts within the predicted noise."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cipherblas.common.errors import LevelError, MissingKeyError, ShapeError
from cipherblas.crypto.keys import (
    SecretKey,
    decrypt_coefficients,
    encrypt,
    generate_secret,
    make_evaluation_keys,
)
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.engines.cpu import CpuEngine
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.forms.convert.coefficients import (
    ciphertexts_of,
    coefficients_to_slots,
    rows_of,
    slots_to_coefficients,
)
from cipherblas.rlwe import noise as coefficient_noise
from cipherblas.rlwe.matrices.encryption import decrypt, encrypt_rows
from cipherblas.rlwe.noise import TAIL
from tests.support.reference_engine import ReferenceEngine

N, SCALE_BITS = 1 << 8, 40.0
DEGREES = [1 << log for log in range(1, 9)]


def parameters(limbs: int = 3) -> Parameters:
    """INSECURE: a ring far too small."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_parameters(
            N, [50.0, *[SCALE_BITS] * (limbs - 1)], alpha=1, scale_bits=SCALE_BITS, insecure=True
        )


@pytest.fixture(scope="module")
def secret() -> SecretKey:
    return generate_secret(parameters())


def numbers(seed: int, degree: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, degree // 2) + 1j * rng.uniform(-1, 1, degree // 2)


@given(degree=st.sampled_from(DEGREES), seed=st.integers(0, 2**32))
def test_clear_slots_are_those_of_the_polynomial(degree: int, seed: int) -> None:
    """The slots after SlotToCoeff decode from the coefficients that are promised."""
    params = parameters()
    z = numbers(seed, degree)
    clear = Clear(params)
    ct = clear.encrypt(np.tile(z, N // degree))
    polynomial = slots_to_coefficients(clear, ct, degree)
    assert polynomial.limbs == ct.limbs - 1
    coefficients = np.zeros(N)
    coefficients[:: N // degree] = np.concatenate([z.real, z.imag])
    np.testing.assert_allclose(polynomial.data, params.context().decode(coefficients), atol=1e-11)
    back = coefficients_to_slots(clear, polynomial, degree)
    np.testing.assert_allclose(back.data, ct.data, atol=1e-11)


@pytest.mark.parametrize("engine", [CpuEngine, ReferenceEngine])
@pytest.mark.parametrize("degree", DEGREES)
def test_slots_become_rows(secret: SecretKey, degree: int, engine: Callable[[Parameters], Any]) -> None:
    params = secret.params
    counter = Symbolic(params)
    slots_to_coefficients(counter, counter.fresh(None, bound=2.0), degree)
    ev = Native(params, make_evaluation_keys(secret, counter.request), engine=engine(params))
    plain = [numbers(row, degree) for row in range(3)]
    scale = 2.0**SCALE_BITS
    cts = []
    for z in plain:
        coefficients = params.context().encode(np.tile(z, N // degree), scale)
        fresh = ev.fresh(encrypt(secret, coefficients).expand(), bound=2.0)
        cts.append(slots_to_coefficients(ev, fresh, degree))
    words = [ev.engine.download(ct.data) for ct in cts]
    rows = rows_of(params, words, cts[0].scale, degree, secret.key_id)
    assert (rows.shape, rows.scale, rows.limbs) == ((3, degree), scale, 2)
    expected = np.stack([np.concatenate([z.real, z.imag]) for z in plain])
    # The noise of a slot is that of h coefficients in the subring, or of all N/2: the former is the larger share.
    bound = TAIL * max(ct.noise for ct in cts) / math.sqrt(degree / 2)
    error = np.abs(decrypt(secret, rows) - expected).max()
    assert 0 < error <= bound
    narrow = rows_of(params, words, scale, degree // 2 + 1)  # of the same degree, but for 2
    if degree > 2:
        assert np.abs(decrypt(secret, narrow) - expected[:, : degree // 2 + 1]).max() <= bound


@pytest.mark.parametrize("degree", DEGREES)
def test_rows_become_slots(secret: SecretKey, degree: int) -> None:
    """Of rows that lie in a subring only a part is stored: the rest is noise modulo q, and goes."""
    params = secret.params
    scale = 2.0**SCALE_BITS
    counter = Symbolic(params)
    coefficients_to_slots(counter, counter.fresh(None, bound=float(degree)), degree)
    ev = Native(params, make_evaluation_keys(secret, counter.request))
    plain = np.random.default_rng(degree).uniform(-1, 1, (3, degree))
    rows = encrypt_rows(secret, plain, scale)
    for row, data in zip(plain, ciphertexts_of(rows), strict=True):
        ct = coefficients_to_slots(ev, ev.fresh(data, bound=float(degree)), degree)
        found = params.context().decode(
            decrypt_coefficients(secret, np.ascontiguousarray(ct.data)) / ct.scale
        )
        expected = np.tile(row[: degree // 2] + 1j * row[degree // 2 :], N // degree)
        error = found - expected
        assert 0 < max(np.abs(error.real).max(), np.abs(error.imag).max()) <= TAIL * ct.noise


def test_there_and_back_through_a_product(secret: SecretKey) -> None:
    """Rows, a clear matrix on the left as a matrix product modulo q, slots, and rows again."""
    params = secret.params
    degree, scale, largest = 32, 2.0**30, 4 * 9 * 32.0
    counter = Symbolic(params)
    turned = coefficients_to_slots(counter, counter.fresh(None, bound=largest, scale=scale), degree)
    slots_to_coefficients(counter, turned, degree)
    ev = Native(params, make_evaluation_keys(secret, counter.request))
    rng = np.random.default_rng(1)
    plain, weights = rng.uniform(-1, 1, (4, degree)), rng.integers(-9, 10, (2, 4))
    x = encrypt_rows(secret, plain, scale)

    def product(residues: Any) -> Any:
        limbs = [
            weights.astype(object) @ limb.astype(object) % q
            for limb, q in zip(residues, params.q, strict=True)
        ]
        return np.array(limbs, dtype=np.uint64)

    y = type(x)(params, (2, degree), scale, product(x.b), product(x.a), x.key_id)
    cts = []
    for data in ciphertexts_of(y):
        in_slots = coefficients_to_slots(ev, ev.fresh(data, bound=largest, scale=scale), degree)
        cts.append(slots_to_coefficients(ev, in_slots, degree))
    z = rows_of(params, [ct.data for ct in cts], cts[0].scale, degree)
    grown = np.abs(weights).sum(axis=1).max() * coefficient_noise.fresh_bound(params) / scale
    bound = grown + TAIL * max(ct.noise for ct in cts) / math.sqrt(degree / 2)
    assert np.abs(decrypt(secret, z) - weights @ plain).max() <= bound


def test_what_does_not_fit(secret: SecretKey) -> None:
    params = secret.params
    counter = Symbolic(params)
    x = counter.fresh(None, bound=1.0)
    for degree in (0, 1, 3, 2 * N):
        for convert in (slots_to_coefficients, coefficients_to_slots):
            with pytest.raises(ShapeError, match="degree"):
                convert(counter, x, degree)
    with pytest.raises(LevelError):
        slots_to_coefficients(counter, counter.drop(x, 1), 8)
    with pytest.raises(ShapeError, match="at least one"):
        rows_of(params, [], 1.0, 8)
    rows = encrypt_rows(secret, np.ones((2, 12)), 2.0**40)
    with pytest.raises(ShapeError, match="power of two"):
        ciphertexts_of(rows)
    ev = Native(params, make_evaluation_keys(secret, Symbolic(params).request))
    real = ev.fresh(encrypt(secret, np.zeros(N, np.int64)).expand(), bound=1.0)
    with pytest.raises(MissingKeyError):
        slots_to_coefficients(ev, real, 8)
    for other in (ev.drop(real, 2), ev.multiply(real, real)):
        with pytest.raises(ShapeError, match="ciphertexts that hold rows"):
            rows_of(params, [real.data, other.data], real.scale, 8)
    with pytest.raises(ShapeError, match="at most N"):
        rows_of(params, [real.data], real.scale, N + 1)
