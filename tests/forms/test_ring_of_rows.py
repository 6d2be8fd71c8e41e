"""Rows in a ring of their own: to elements of the ring of slots and back, and products of ring elements."""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cipherblas.common.arrays import bit_reversed
from cipherblas.common.errors import (
    LevelError,
    MissingKeyError,
    ParameterError,
    SecurityError,
    ShapeError,
)
from cipherblas.crypto.keys import (
    EvaluationKeys,
    SecretKey,
    decrypt_coefficients,
    generate_secret,
    make_evaluation_keys,
)
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.evaluators.family import Evaluators
from cipherblas.evaluators.rows.clear import RowsClear
from cipherblas.evaluators.rows.native import RowsNative
from cipherblas.evaluators.rows.symbolic import RowsSymbolic
from cipherblas.evaluators.rows.worst_case import RowsWorstCase
from cipherblas.evaluators.slots.clear import Clear
from cipherblas.evaluators.slots.native import Native
from cipherblas.evaluators.slots.symbolic import Symbolic
from cipherblas.evaluators.slots.values import ClearFactor
from cipherblas.evaluators.slots.worst_case import WorstCase
from cipherblas.forms.convert.coefficients import Halves, Packing, bundled_rows, slots_to_rows
from cipherblas.forms.row_forms import Placing
from cipherblas.methods.matmul.ring_elements import Elements, placed_elements, rows_of, spread
from cipherblas.methods.matmul.ring_products import ALL, SumTerms, inner_product, outer_product
from cipherblas.methods.matmul.ring_weights import gathered_product, packed_product
from cipherblas.rlwe.basis import FirstLimbs
from cipherblas.rlwe.matrices.encryption import decrypt, encrypt_rows
from cipherblas.rlwe.matrices.rlwe import RlweRows

STAGES, SCALE = 2, 2.0**60
# N, degree of the ring of rows, entries of a row, rows.
CASES = [
    (64, 16, 8, 8),
    (64, 16, 8, 3),
    (64, 32, 4, 21),
    (256, 64, 16, 16),
    (256, 32, 32, 11),
    (64, 16, 16, 1),
]


def parameters(n: int, own: int) -> Parameters:
    """INSECURE."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_parameters(
            *(n, [50.0] * 3 + [40.0] * 3), alpha=2, scale_bits=40.0, insecure=True, row_degree=own
        )


def matrix_of(rows: int, cols: int, seed: int = 0) -> NDArray[np.float64]:
    """Entries of all sizes, zeros and both bounds among them."""
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, (rows, cols))
    matrix[rng.uniform(size=matrix.shape) < 0.2] = 0
    matrix[0], matrix[-1, ::2] = 1.0, -1.0
    return matrix


def counting(params: Parameters) -> Evaluators:
    own = params.family.rows
    return Evaluators(lambda: Symbolic(params), lambda: RowsSymbolic(own), lambda: Symbolic(own))


def bounding(params: Parameters) -> Evaluators:
    own = params.family.rows
    return Evaluators(lambda: WorstCase(params), lambda: RowsWorstCase(own), lambda: WorstCase(own))


def native(params: Parameters, keys: EvaluationKeys) -> Evaluators:
    own = params.family.rows
    return Evaluators(
        *(lambda: Native(params, keys), lambda: RowsNative(own, keys.of_rows)),
        lambda: Native(own, keys.of_rows),
    )


def packed(matrix: NDArray[np.float64], packing: Packing) -> NDArray[np.float64]:
    """The coefficients of the elements that rows are in."""
    count = -(-len(matrix) // packing.rows)
    whole = np.zeros((count * packing.rows, packing.degree))
    whole[: len(matrix)] = matrix
    order = bit_reversed(packing.rows)
    return np.stack([part[order].T.ravel() for part in np.split(whole, count)])


def decrypted(secret: SecretKey, x: Any) -> NDArray[np.float64]:
    own = secret.rows
    a, b = x.data
    return decrypt(own, RlweRows(own.params, x.shape, x.scale, b, a, own.key_id))


@pytest.mark.parametrize(("n", "own", "degree", "rows"), CASES)
def test_rows_become_elements_of_the_ring_of_slots(n: int, own: int, degree: int, rows: int) -> None:
    secret = generate_secret(parameters(n, own))
    params, matrix = secret.params, matrix_of(rows, degree)
    packing = Packing(n, degree, 1, own)
    scale = 2.0**40

    def run(evs: Evaluators, data: Any) -> list[Any]:
        x = evs.rows.fresh(data, matrix.shape, bound=1.0, scale=scale, basis=FirstLimbs(3))
        return bundled_rows(evs, x, packing, 0)

    counted = counting(params)
    run(counted, None)
    keys = make_evaluation_keys(secret, counted.request)
    sent = encrypt_rows(secret.rows, matrix, scale)
    real, worst = native(params, keys), bounding(params)
    found, bounds = run(real, (sent.a, sent.b)), run(worst, None)
    assert real.counts == counted.counts
    assert real.request == counted.request
    assert len(keys) == len(counted.request)
    for one, bound, wanted in zip(found, bounds, packed(matrix, packing), strict=True):
        values = decrypt_coefficients(secret, one.ct.data) / one.ct.scale
        error = np.abs(values - wanted).max()
        assert error < 8 * one.errors.deviation < 8 * bound.worst
        assert error > one.errors.deviation / 100


@pytest.mark.parametrize(("n", "own", "degree", "rows"), CASES)
def test_slots_become_rows(n: int, own: int, degree: int, rows: int) -> None:
    """By every interpreter; errors are within the prediction, and that is within the worst case."""
    secret = generate_secret(parameters(n, own))
    params, matrix = secret.params, matrix_of(rows, degree)
    packing = Packing(n, degree, STAGES, own)
    layout = packing.layout(False)
    blocks = []
    for start in range(0, rows, packing.rows):
        block = np.zeros((packing.rows, degree))
        held = matrix[start : start + packing.rows]
        block[: len(held)] = held
        blocks.append([layout.pack(half)[0] for half in np.split(block, 2, axis=1)])

    def run(evs: Evaluators, data: Any) -> Any:
        def fresh(slots: Any) -> Any:
            return evs.slots.fresh(data(slots), bound=1.0, limbs=3 + STAGES)

        pairs = [Halves(*(fresh(half) for half in block)) for block in blocks]
        return evs.rows.extracted(slots_to_rows(evs, pairs, rows, packing, SCALE))

    counted = counting(params)
    expected = run(counted, lambda slots: None)
    keys = make_evaluation_keys(secret, counted.request)
    real, context = native(params, keys), params.context()

    def encrypted(slots: Any) -> Any:
        from cipherblas.crypto.keys import encrypt

        return encrypt(secret, context.encode(slots, 2.0**40, 1), 3 + STAGES).expand(None)

    found = run(real, encrypted)
    assert real.counts == counted.counts and real.request == counted.request
    error = np.abs(decrypted(secret, found) - matrix).max()
    worst = bounding(params)
    bound = worst.rows.decrypted_error(run(worst, lambda slots: None))  # type: ignore[attr-defined]
    assert expected.error(matrix.size) / 200 < error < expected.error(matrix.size) < bound
    own_params = params.family.rows
    clear_slots, clear_rows, clear_elements = Clear(params), RowsClear(own_params), Clear(own_params)
    clear = Evaluators(lambda: clear_slots, lambda: clear_rows, lambda: clear_elements)
    np.testing.assert_allclose(clear_rows.decrypt(run(clear, lambda slots: slots)), matrix, atol=1e-9)


def placed(evs: Evaluators, secret: SecretKey | None, matrix: NDArray[np.float64], placing: Placing) -> Any:
    """Rows with all coefficients, encrypted where there is a secret or a clear interpreter."""
    scale, own = 2.0**45, evs.elements.n
    whole = placing.placed(matrix, own)
    data: Any = None
    if secret is not None:
        sent = encrypt_rows(secret.rows, whole, scale)
        data = sent.a, sent.b
    elif isinstance(evs.rows, RowsClear):
        data = evs.rows.encrypt(whole, scale)
    return evs.rows.fresh(data, whole.shape, bound=1.0, scale=scale, basis=FirstLimbs(3))


@pytest.mark.parametrize(
    ("own", "m", "k", "n"), [(16, 4, 3, 4), (16, 8, 5, 3), (32, 5, 1, 20), (16, 16, 2, 3), (64, 8, 40, 8)]
)
def test_products_of_ring_elements(own: int, m: int, k: int, n: int) -> None:
    """Outer products and, of what came from elements, inner ones: against NumPy, by every interpreter."""
    secret = generate_secret(parameters(4 * own, own))
    params, left, right = secret.params, matrix_of(k, m), matrix_of(k, n, 1)
    degree = max(2, 1 << (m - 1).bit_length())
    each = own // degree
    values = matrix_of(n, 3, 2)  # of the inner product: (m × n) · (n × 3)
    wanted = left.T @ right

    def run(evs: Evaluators, key: SecretKey | None) -> tuple[Any, Any]:
        x = placed(evs, key, left, Placing(each))
        ys = [placed(evs, key, right, Placing(each, first)) for first in range(0, n, each)]
        outer = outer_product(evs, x, ys, n, degree)
        firsts = range(0, n, each)
        vs = [placed(evs, key, values.T, Placing(each, first, negative=True)) for first in firsts]
        inner = inner_product(evs, outer, vs, n)
        return evs.rows.extracted(outer), evs.rows.extracted(inner)

    counted = counting(params)
    planned = run(counted, None)
    keys = make_evaluation_keys(secret, counted.request)
    real, worst = native(params, keys), bounding(params)
    found, bounds = run(real, secret), run(worst, None)
    assert real.counts == counted.counts and real.request == counted.request
    results = (wanted.T, (wanted @ values).T)
    for one, plan, bound, expected in zip(found, planned, bounds, results, strict=True):
        got = decrypted(secret, one)[:, :m]
        error = np.abs(got - expected).max()
        assert error < plan.error(expected.size) < worst.rows.decrypted_error(bound)  # type: ignore[attr-defined]
        assert np.abs(expected).max() <= plan.bound
        assert plan.error(expected.size) < 1e-3 * max(1.0, np.abs(expected).max())
    clear_params = params.family.rows
    clear_rows, elements = RowsClear(clear_params), Clear(clear_params)
    clear = Evaluators(lambda: Clear(params), lambda: clear_rows, lambda: elements)
    for one, expected in zip(run(clear, None), results, strict=True):
        np.testing.assert_allclose(clear_rows.decrypt(one)[:, :m], expected, atol=1e-7)


@pytest.mark.parametrize("kind", ["permutation", "one row", "shares", "zeros"])
def test_products_of_ring_elements_use_sums(kind: str) -> None:
    """Of a left factor whose rows have sums up to one, and a right one whose columns do."""
    own, m, k, n = 64, 8, 40, 8
    left, right, values = matrix_of(k, m), np.sign(matrix_of(k, n, 1)), matrix_of(n, 3, 2)
    left = {
        "permutation": np.eye(k)[:, :m],
        "one row": np.eye(k)[:, [0] * m],
        "shares": left / np.abs(left).sum(axis=0),
        "zeros": np.zeros((k, m)),
    }[kind]
    values, each = values / np.abs(values).sum(axis=0), own // m
    secret = generate_secret(parameters(4 * own, own))

    def run(evs: Evaluators, key: SecretKey | None, outer: SumTerms, inner: SumTerms) -> list[Any]:
        x = placed(evs, key, left, Placing(each))
        found = outer_product(evs, x, [placed(evs, key, right, Placing(each, 0))], n, m, outer)
        vs = [placed(evs, key, values.T, Placing(each, 0, negative=True))]
        return [evs.rows.extracted(one) for one in (found, inner_product(evs, found, vs, n, inner))]

    known = SumTerms(left=1.0, most=1.0), SumTerms(right=1.0)
    counted = counting(secret.params)
    planned, usual = run(counted, None, *known), run(counting(secret.params), None, ALL, ALL)
    real = native(secret.params, make_evaluation_keys(secret, counted.request))
    worst, wanted = bounding(secret.params), left.T @ right
    decrypted_error = worst.rows.decrypted_error  # type: ignore[attr-defined]
    bounds, others = run(worst, None, *known), run(worst, None, ALL, ALL)
    results = wanted.T, (wanted @ values).T
    for one, plan, other, bound, most, expected in zip(
        run(real, secret, *known), planned, usual, bounds, others, results, strict=True
    ):
        error = np.abs(decrypted(secret, one)[:, :m] - expected).max()
        assert error < plan.error(expected.size) < decrypted_error(bound)
        assert np.abs(expected).max() <= plan.bound <= 1.0 < other.bound
        assert plan.error(expected.size) < other.error(expected.size) / 1.2
        assert decrypted_error(bound) < decrypted_error(most) / 1.2


def factor_of(matrix: NDArray[np.float64], bits: int) -> ClearFactor:
    unit = 2.0**-bits
    integers = np.rint(matrix / unit)
    return ClearFactor(("w", matrix.shape), matrix.shape, 1.0, unit, False, lambda: integers)


# Degree of the ring of rows, entries, rows of the operand and of the result: some that fill no element, elements of one
# row, and more rows than one element holds.
WEIGHTS = [(64, 8, 5, 3), (64, 4, 20, 37), (128, 16, 8, 8), (32, 32, 3, 5), (64, 2, 33, 32)]


@pytest.mark.parametrize(("own", "degree", "k", "m"), WEIGHTS)
def test_products_with_clear_polynomials(own: int, degree: int, k: int, m: int) -> None:
    """What is placed becomes packed, is taken apart, and multiplied again: against NumPy, by every interpreter."""
    secret = generate_secret(parameters(4 * own, own))
    params, x, each = secret.params, matrix_of(k, degree), own // degree
    first, second = matrix_of(m, k, 1), matrix_of(7, m, 2)
    factors = factor_of(first, 20), factor_of(second, 20)
    wanted = first @ x

    def run(evs: Evaluators, key: SecretKey | None) -> list[Any]:
        elements = placed_elements(evs, placed(evs, key, x, Placing(each)))
        packed = packed_product(evs, factors[0], elements, each)
        separated = spread(evs, packed, each, min(1, m - 1), m - min(1, m - 1))
        gathered = gathered_product(evs, factors[1], packed, each)
        some = factors[1].columns(2, m)
        rest = Elements(packed.cts[2 // each :], packed.errors)
        part = gathered_product(evs, some.rows(1, 4), rest, each, 2 % each, most=m * k)
        found = [
            rows_of(evs, packed, (len(packed.cts) * each, degree)),
            rows_of(evs, separated, (len(separated.cts), own)),
            *(rows_of(evs, one, (len(one.cts), degree), held=1) for one in (gathered, part)),
        ]
        return [evs.rows.extracted(one) for one in found]

    counted = counting(params)
    planned = run(counted, None)
    real, worst = native(params, make_evaluation_keys(secret, counted.request)), bounding(params)
    found, bounds = run(real, secret), run(worst, None)
    assert real.counts == counted.counts and real.request == counted.request
    full = np.zeros((found[0].shape[0], degree))
    full[:m] = wanted
    separate = np.zeros((len(wanted[min(1, m - 1) :]), own))
    separate[:, ::each] = wanted[min(1, m - 1) :]
    results = (full, separate, second @ wanted, (second[1:4, 2:] @ wanted[2:]))
    for one, plan, bound, expected in zip(found, planned, bounds, results, strict=True):
        error = np.abs(decrypted(secret, one) - expected).max()
        assert error < plan.error(expected.size) < worst.rows.decrypted_error(bound)  # type: ignore[attr-defined]
        assert np.abs(expected).max() <= plan.bound
        assert plan.error(expected.size) < 1e-2 * max(1.0, np.abs(expected).max())
    clear_params = params.family.rows
    clear_rows, elements = RowsClear(clear_params), Clear(clear_params)
    clear = Evaluators(lambda: Clear(params), lambda: clear_rows, lambda: elements)
    for one, expected in zip(run(clear, None), results, strict=True):
        np.testing.assert_allclose(clear_rows.decrypt(one), expected, atol=1e-4 * m)


def test_rows_that_are_elements_are_made_residues_once() -> None:
    """Whichever handle asks first, of some of them or of several together; nothing is counted twice."""
    secret = generate_secret(parameters(128, 32))
    counted = counting(secret.params)
    real = native(secret.params, make_evaluation_keys(secret, counted.request))
    factor, matrix = factor_of(matrix_of(6, 3, 1), 20), matrix_of(3, 4)

    def run(evs: Evaluators, key: SecretKey | None) -> list[Any]:
        x = placed_elements(evs, placed(evs, key, matrix, Placing(8)))
        gathered = gathered_product(evs, factor, packed_product(evs, factor_of(np.eye(3), 20), x, 8), 8)
        rows = rows_of(evs, gathered, (6, 4), held=1)
        half = evs.rows.fold_into_scale(rows, 1.0)
        first = evs.rows.rows_of(rows, 0, 2)  # before the residues are there
        extracted = evs.rows.extracted(half)
        later = evs.rows.rows_of(rows, 2, 6)  # and after
        whole = evs.rows.stack([first, later])
        both = evs.rows.stack([evs.rows.extracted(first), later])
        total = evs.rows.add(rows, both)
        return [extracted, evs.rows.extracted(whole), both, evs.rows.fold_into_scale(total, 0.5)]

    planned, found = run(counted, None), run(real, secret)
    assert real.counts == counted.counts
    for one, plan in zip(found, planned, strict=True):
        error = np.abs(decrypted(secret, one) - matrix_of(6, 3, 1) @ matrix).max()
        assert error < plan.error(24) < 1e-3


def test_words_of_a_gathered_product() -> None:
    """Those of a GEMM, at the places that mean something."""
    secret = generate_secret(parameters(256, 64))
    each, m = 16, 40
    factor = factor_of(matrix_of(9, m, 1), 20)
    counted = counting(secret.params)
    evs = native(secret.params, make_evaluation_keys(secret, counted.request))
    x = packed_product(
        *(evs, factor_of(matrix_of(m, 5, 2), 20)),
        placed_elements(evs, placed(evs, secret, matrix_of(5, 4), Placing(each))),
        each,
    )
    rows = rows_of(evs, x, (len(x.cts) * each, 4))
    by_gemm = evs.rows.clear_product(factor, evs.rows.rows_of(rows, 0, m))
    by_polynomials = evs.rows.extracted(rows_of(evs, gathered_product(evs, factor, x, each), (9, 4), held=1))
    for got, wanted in zip(by_polynomials.data, by_gemm.data, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert by_polynomials.noise == by_gemm.noise and by_polynomials.bias == by_gemm.bias


def test_what_does_not_fit() -> None:
    params = parameters(64, 16)
    evs = counting(params)
    with pytest.raises(ShapeError, match="a power of two of entries"):
        Packing(64, 32, 1, 16)
    with pytest.raises(LevelError, match="fewer limbs"):
        evs.slots.parted(evs.slots.fresh(None, bound=1.0, limbs=4), evs.elements)
    x = evs.rows.fresh(None, (4, 16), bound=1.0, scale=2.0**40, basis=FirstLimbs(3))
    with pytest.raises(ParameterError, match="does not come from ring elements"):
        inner_product(evs, x, [x], 4)
    secret = generate_secret(params)
    none = native(params, EvaluationKeys(params, "", []))
    with pytest.raises(MissingKeyError, match="to the ring of rows"):
        none.slots.parted(
            none.slots.fresh(np.zeros((2, 3, 64), np.uint64), bound=1.0, limbs=3), none.elements
        )
    secret.close()
    with pytest.raises(SecurityError):
        _ = secret.rows
    with pytest.raises(ParameterError, match="ring of rows"):
        dataclasses.replace(params, row_degree=64, insecure=True)


def test_the_secret_of_rows_is_another_one() -> None:
    """Of the same seed, and closed with it; its ring is as secure as the other one says."""
    secret = generate_secret(parameters(256, 64))
    own = secret.rows
    assert own is secret.rows and own.key_id == secret.key_id
    assert (own.coefficients() != secret.coefficients()[:64]).any()
    spread = secret.row_coefficients()
    assert (spread[::4] == own.coefficients()).all() and np.count_nonzero(spread) <= 64
    secret.close()
    assert own.closed
    bits = [50.0] * 3 + [40.0] * 4
    strong = make_parameters(1 << 15, bits, alpha=2, row_degree=1 << 13)
    assert strong.family.rows.security == 128 and strong.family.descending.n == 1 << 15
    weak = make_parameters(1 << 15, bits, alpha=2, row_degree=1 << 12)
    with pytest.raises(SecurityError, match="128-bit"):
        _ = weak.family.rows
    with pytest.raises(SecurityError, match="128-bit"):
        _ = weak.family.descending
    assert math.isclose(strong.family.rows.log_q, 150, abs_tol=0.1)
