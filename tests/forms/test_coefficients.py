"""Rows to slots and back: in the clear against NumPy, on ciphertexts against the clear and within what is predicted."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cipherblas.common.arrays import bit_reversed
from cipherblas.common.errors import LevelError, MissingKeyError, ParameterError, ShapeError
from cipherblas.crypto.keys import SecretKey, decrypt_coefficients, generate_secret, make_evaluation_keys
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.clear import RowsClear
from cipherblas.evaluators.rows.native import RowsNative
from cipherblas.evaluators.rows.symbolic import RowsSymbolic
from cipherblas.evaluators.rows.worst_case import RowsWorstCase
from cipherblas.evaluators.slots.clear import Clear, coefficients_of, embedded
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.worst_case import WorstCase
from cipherblas.forms.convert.coefficients import (
    Halves,
    Packing,
    rows_to_slots,
    slots_to_rows,
    stage,
    stage_layers,
)
from cipherblas.rlwe.basis import FirstLimbs
from cipherblas.rlwe.matrices.encryption import decrypt, encrypt_rows
from cipherblas.rlwe.matrices.rlwe import RlweRows
from cipherblas.rlwe.noise import TRANSFORM_ERROR

SCALE = 2.0**34
CASES = [  # N, d, rows, stages each way, limbs to drop
    (64, 64, 3, 1, 0),
    (64, 2, 45, 2, 0),
    (64, 16, 4, 1, 1),
    (256, 32, 21, 2, 0),
    (256, 256, 1, 3, 1),
    (1024, 64, 16, 3, 0),
    (1024, 8, 131, 2, 1),
    (256, 64, 23, 2, 0),  # six elements: four together, and two
]


@functools.cache
def parameters(n: int, limbs: int, alpha: int = 2) -> Parameters:
    """INSECURE: rings far too small."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_parameters(n, [50.0, *[34.0] * (limbs - 1)], alpha=alpha, scale_bits=34.0, insecure=True)


@functools.cache
def secret_of(n: int, limbs: int) -> SecretKey:
    return generate_secret(parameters(n, limbs))


def matrix_of(rows: int, cols: int, seed: int = 0) -> NDArray[np.float64]:
    """Entries of all sizes, zeros and both bounds among them."""
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, (rows, cols))
    matrix[rng.uniform(size=matrix.shape) < 0.2] = 0
    matrix[0], matrix[-1, ::2] = 1.0, -1.0
    return matrix


def crossed(
    evs: Evaluators, x: Any, packing: Packing, rescales: int, low: bool = False
) -> tuple[list[Halves], Any]:
    """There, and back."""
    pairs = rows_to_slots(evs, x, packing, rescales)
    return pairs, evs.rows.extracted(slots_to_rows(evs, pairs, x.shape[0], packing, low=low))


def raw_scale(params: Parameters, packing: Packing, rescales: int) -> float:
    """Of rows that become slots at `SCALE`."""
    dropped = math.prod(float(q) for q in params.q[len(params.q) - rescales :])
    return SCALE * dropped / packing.rows / math.sqrt(packing.slots)


@pytest.mark.parametrize("slots", [1, 2, 8, 64])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_stages_are_the_embedding(slots: int, stages: int) -> None:
    if stages > slots.bit_length() - 1:
        with pytest.raises(ParameterError, match="stages"):
            Packing(2 * slots, 2 * slots, stages)
        return
    n, packing = 2 * slots, Packing(2 * slots, 2 * slots, stages)
    coefficients = np.random.default_rng(0).normal(size=n)
    powers = np.array([pow(5, j, 2 * n) for j in range(slots)])
    values = np.exp(1j * np.pi / n * np.outer(powers, np.arange(n))) @ coefficients
    np.testing.assert_allclose(embedded(coefficients), values)
    np.testing.assert_allclose(coefficients_of(values), coefficients, atol=1e-12)
    z = (coefficients[:slots] + 1j * coefficients[slots:])[bit_reversed(slots)]
    there, back = values, z
    for first, last in stage_layers(packing, True):
        there = stage(slots, first, last, True).apply(there)
    for first, last in stage_layers(packing, False):
        back = stage(slots, first, last, False).apply(back)
    np.testing.assert_allclose(there / math.sqrt(slots), z, atol=1e-12)
    np.testing.assert_allclose(back * math.sqrt(slots), values, atol=1e-12)


@pytest.mark.parametrize(("n", "degree", "rows", "stages", "rescales"), CASES)
def test_in_the_clear(n: int, degree: int, rows: int, stages: int, rescales: int) -> None:
    params, packing = parameters(n, 8), Packing(n, degree, stages)
    slots, coefficients = Clear(params), RowsClear(params)
    evs = Evaluators(lambda: slots, lambda: coefficients)
    matrix, scale = matrix_of(rows, degree), raw_scale(params, packing, rescales)
    x = coefficients.fresh(
        coefficients.encrypt(matrix, scale), matrix.shape, bound=1.0, scale=scale, basis=FirstLimbs(8)
    )
    pairs, back = crossed(evs, x, packing, rescales)
    for by_columns in (False, True):
        layout = packing.layout(by_columns)
        for number, pair in enumerate(pairs):
            block = np.zeros((packing.rows, degree))
            held = matrix[number * packing.rows : (number + 1) * packing.rows]
            block[: len(held)] = held
            for ct, half in zip(pair, np.split(block, 2, axis=1), strict=True):
                assert ct is not None
                assert ct.limbs == 8 - rescales - stages
                assert ct.bound == pytest.approx(1.0)
                np.testing.assert_allclose(ct.data, layout.pack(half.T if by_columns else half)[0], atol=1e-9)
    np.testing.assert_allclose(coefficients.decrypt(back), matrix, atol=1e-9)
    assert back.limbs == 8 - rescales - 2 * stages


@pytest.mark.parametrize(("n", "degree", "rows", "stages", "rescales"), CASES)
@pytest.mark.parametrize("amplified", [False, True])
@pytest.mark.parametrize("low", [False, True])
def test_encrypted(
    n: int, degree: int, rows: int, stages: int, rescales: int, low: bool, amplified: bool
) -> None:
    """Slots and rows agree with NumPy within the predicted error, which is not far from the real one; only declared
    keys are present; counts are those of the dry run; the worst case is worse."""
    secret = secret_of(n, 8)
    params, packing = secret.params, Packing(n, degree, stages)
    scale, matrix = raw_scale(params, packing, rescales), matrix_of(rows, degree)

    def run(slots: Any, coefficients: Any, data: Any) -> tuple[Evaluators, list[Halves], Any]:
        evs = Evaluators(lambda: slots, lambda: coefficients)
        x = coefficients.fresh(data, matrix.shape, bound=1.0, scale=scale, basis=FirstLimbs(8))
        if amplified:  # an error far above that of the conversion
            x.noise *= 100
        return evs, *crossed(evs, x, packing, rescales, low)

    counted, _, _ = run(Symbolic(params), RowsSymbolic(params), None)
    keys = make_evaluation_keys(secret, counted.request)
    noisy = matrix
    if amplified:
        noise = np.random.default_rng(1).normal(size=matrix.shape)
        noisy = np.clip(matrix + 100 * 3.2 * noise / scale, -1, 1)
    rows_sent = encrypt_rows(secret, noisy, scale)
    native, pairs, back = run(Native(params, keys), RowsNative(params, keys), (rows_sent.a, rows_sent.b))
    worst, worst_pairs, worst_back = run(WorstCase(params), RowsWorstCase(params), None)
    assert native.counts == counted.counts
    assert native.request == counted.request
    context, layout = params.context(), packing.layout(False)
    largest = 0.0
    for number, pair in enumerate(pairs):
        block = np.zeros((packing.rows, degree))
        held = matrix[number * packing.rows : (number + 1) * packing.rows]
        block[: len(held)] = held
        for ct, half in zip(pair, np.split(block, 2, axis=1), strict=True):
            assert ct is not None
            slots = context.decode(decrypt_coefficients(secret, ct.data) / ct.scale)
            largest = max(largest, float(np.abs(slots - layout.pack(half)[0]).max()))
    slot_error, row_error = pairs[0].left.error(matrix.size), back.error(matrix.size)
    found = RlweRows(params, matrix.shape, back.scale, back.data[1], back.data[0], secret.key_id)
    back_error = float(np.abs(decrypt(secret, found) - matrix).max())
    assert slot_error / 100 < largest < slot_error
    assert row_error / 100 < back_error < row_error
    if not amplified:
        assert slot_error < worst.slots.decrypted_error(worst_pairs[0].left)  # type: ignore[attr-defined]
        assert row_error < worst.rows.decrypted_error(worst_back)  # type: ignore[attr-defined]
    assert slot_error > TRANSFORM_ERROR


@pytest.mark.parametrize("low", [False, True])
def test_elements_of_different_levels(low: bool) -> None:
    """Those of equal limbs go together; rows have the fewest limbs of all."""
    secret = secret_of(256, 8)
    params, packing = secret.params, Packing(256, 64, 2)
    scale, matrix = raw_scale(params, packing, 0), matrix_of(23, 64)

    def run(slots: Any, coefficients: Any, data: Any) -> Any:
        evs = Evaluators(lambda: slots, lambda: coefficients)
        x = coefficients.fresh(data, matrix.shape, bound=1.0, scale=scale, basis=FirstLimbs(8))
        pairs = rows_to_slots(evs, x, packing, 0)
        pairs[2] = Halves(*(ct and slots.drop(ct, 5) for ct in pairs[2]))
        return evs.rows.extracted(slots_to_rows(evs, pairs, 23, packing, low=low))

    counted = Symbolic(params)
    assert run(counted, RowsSymbolic(params), None).limbs == 3
    keys = make_evaluation_keys(secret, counted.request)
    sent = encrypt_rows(secret, matrix, scale)
    back = run(Native(params, keys), RowsNative(params, keys), (sent.a, sent.b))
    found = RlweRows(params, matrix.shape, back.scale, back.data[1], back.data[0], secret.key_id)
    assert np.abs(decrypt(secret, found) - matrix).max() < back.error(matrix.size)


@pytest.mark.parametrize(("n", "degree", "rows", "stages", "rescales"), CASES[1::2])
@pytest.mark.parametrize("ratio", [1e-3, 0.9, 1.0, 1.7, 1e3])
def test_to_a_scale(n: int, degree: int, rows: int, stages: int, rescales: int, ratio: float) -> None:
    """Rows come back at the scale that is asked for, at the same levels and within the predicted error, which is not
    far from the real one; the worst case is worse."""
    secret = secret_of(n, 8)
    params, packing = secret.params, Packing(n, degree, stages)
    scale, matrix = raw_scale(params, packing, rescales), matrix_of(rows, degree)

    def run(slots: Any, coefficients: Any, data: Any, wanted: float | None) -> tuple[Evaluators, Any]:
        evs = Evaluators(lambda: slots, lambda: coefficients)
        x = coefficients.fresh(data, matrix.shape, bound=1.0, scale=scale, basis=FirstLimbs(8))
        pairs = rows_to_slots(evs, x, packing, rescales)
        return evs, evs.rows.extracted(slots_to_rows(evs, pairs, x.shape[0], packing, wanted))

    _, plain = run(Symbolic(params), RowsSymbolic(params), None, None)
    wanted = ratio * plain.scale
    counted, _ = run(Symbolic(params), RowsSymbolic(params), None, wanted)
    keys = make_evaluation_keys(secret, counted.request)
    sent = encrypt_rows(secret, matrix, scale)
    native, back = run(Native(params, keys), RowsNative(params, keys), (sent.a, sent.b), wanted)
    worst, worst_back = run(WorstCase(params), RowsWorstCase(params), None, wanted)
    assert native.counts == counted.counts
    assert back.scale == pytest.approx(wanted, rel=1e-14) and back.limbs == plain.limbs
    found = RlweRows(params, matrix.shape, back.scale, back.data[1], back.data[0], secret.key_id)
    error, predicted = float(np.abs(decrypt(secret, found) - matrix).max()), back.error(matrix.size)
    assert predicted / 100 < error < predicted < worst.rows.decrypted_error(worst_back)  # type: ignore[attr-defined]


def test_what_does_not_fit() -> None:
    params = parameters(64, 8)
    for degree in (0, 1, 3, 128):
        with pytest.raises(ShapeError, match="a power of two of entries"):
            Packing(64, degree, 1)
    evs = Evaluators(lambda: Symbolic(params), lambda: RowsSymbolic(params))

    def rows(cols: int, limbs: int = 8) -> Any:
        return evs.rows.fresh(None, (3, cols), bound=1.0, scale=2.0**30, basis=FirstLimbs(limbs))

    with pytest.raises(ShapeError, match="have the wrong length"):
        rows_to_slots(evs, rows(16), Packing(64, 32, 1))
    with pytest.raises(ShapeError, match="power of two"):
        evs.rows.elements(rows(12), 0, 1)
    with pytest.raises(LevelError, match="coefficients to slots"):
        rows_to_slots(evs, rows(16, 2), Packing(64, 16, 2))
    pairs = rows_to_slots(evs, rows(16, 4), Packing(64, 16, 3))
    with pytest.raises(LevelError, match="slots to coefficients"):
        slots_to_rows(evs, pairs, 3, Packing(64, 16, 1))
    with pytest.raises(LevelError, match=r"cannot keep so many limbs .expected 1 to \d+, got 9"):
        evs.rows.drop(rows(16), 9)
    with pytest.raises(ShapeError, match="do not hold rows of this shape"):
        evs.rows.of_elements([None], (5, 16), limbs=1, scale=1.0, bound=1.0, noise=1.0)
    secret = secret_of(64, 8)
    none = make_evaluation_keys(secret, RowsSymbolic(params).request)
    native = Evaluators(lambda: Native(params, none), lambda: RowsNative(params, none))
    sent = encrypt_rows(secret, np.ones((2, 16)), 2.0**30)
    x = native.rows.fresh((sent.a, sent.b), (2, 16), bound=1.0, scale=2.0**30, basis=FirstLimbs(8))
    with pytest.raises(MissingKeyError):
        rows_to_slots(native, x, Packing(64, 16, 1))
