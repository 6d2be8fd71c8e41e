"""The transpose under encryption, against NumPy: with the declared keys alone, within the derived error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cipherblas._core as _core
from cipherblas.common.errors import (
    InsecureParametersWarning,
    MismatchError,
    MissingKeyError,
    ParameterError,
    ShapeError,
)
from cipherblas.common.memory import Array
from cipherblas.crypto.keys import (
    EvaluationKeys,
    Galois,
    KeyRequest,
    SecretKey,
    generate_secret,
    make_evaluation_keys,
)
from cipherblas.crypto.params import make_parameters
from cipherblas.rlwe import matrices, noise
from cipherblas.rlwe.matrices.encryption import (
    decrypt,
    encrypt_columns,
    encrypt_rows,
)
from cipherblas.rlwe.matrices.matrix import bit_ceil
from cipherblas.rlwe.matrices.transposition import (
    POLICIES,
    TransposePolicy,
    gathered_switches,
    transpose_bound,
    transpose_plan,
)
from tests.support import format_samples as samples

EVERY_POLICY = pytest.mark.parametrize("policy", POLICIES)


def counts(size: int, policy: str) -> int:
    """Keys of a transposition of d rows: one for each v, two digits of its exponent, its bits and sign."""
    log = size.bit_length() - 1
    base = 1 << -(-log // 2)
    return {"fast": size - 1, "light": base + size // base - 2, "binary": log}[policy]


def check(
    secret: SecretKey, found: Any, expected: Array, policy: TransposePolicy, limbs: int, rounds: int = 1
) -> None:
    """Entry by entry: the error of encryption, and that of so many transpositions to this shape or from it."""
    params = secret.params
    shapes = [expected.shape, expected.shape[::-1]]
    added = sum(transpose_bound(params, limbs, shapes[i % 2 - 1], policy) for i in range(rounds))
    bound = (noise.fresh_bound(params) + added) / samples.SCALE
    plain = decrypt(secret, found)
    assert plain.shape == expected.shape
    assert (np.abs(plain - expected) <= bound).all()


@st.composite
def any_shapes(draw: Any, n: int) -> tuple[int, int]:
    """Both dimensions up to the ring degree, its halves and borders among them."""
    corners = [1, 2, 3, n // 2, n // 2 + 1, n - 1, n]
    lengths = st.one_of(st.sampled_from(corners), st.integers(1, n))
    return draw(lengths), draw(lengths)


@EVERY_POLICY
@given(
    data=st.data(), n=samples.RINGS, gadget=samples.GADGETS, seed=st.integers(0, 2**32), columns=st.booleans()
)
def test_any_shape(
    policy: TransposePolicy, data: Any, n: int, gadget: tuple[int, int, int], seed: int, columns: bool
) -> None:
    secret, _ = samples.toy_keys(n, *gadget)
    limbs = data.draw(st.integers(1, gadget[0]))
    plain = samples.matrix(seed, data.draw(any_shapes(n)))
    encrypt = encrypt_columns if columns else encrypt_rows
    x: Any = encrypt(secret, plain, samples.SCALE, limbs)
    request = matrices.transpose_request(x, policy)
    assert len(request) == counts(max(bit_ceil(max(plain.shape)), 8), policy)
    assert set(request.galois.values()) == {limbs}
    keys = make_evaluation_keys(secret, request)
    found = matrices.transpose(x, keys, policy)
    assert type(found) is type(x)
    assert (found.limbs, found.scale, found.key_id) == (limbs, x.scale, secret.key_id)
    expected = plain if columns else plain.T  # of the rows that are transposed
    check(secret, found.T if columns else found, expected, policy, limbs)


@EVERY_POLICY
@given(rows=st.integers(1, 40), cols=st.integers(1, 40), limbs=st.integers(1, 2), seed=st.integers(0, 2**32))
def test_blocks(policy: TransposePolicy, rows: int, cols: int, limbs: int, seed: int) -> None:
    """Matrices larger than the ring, as blocks of columns; one set of keys for all of them."""
    n = 16
    secret, _ = samples.toy_keys(n, 2, 1)
    plain = samples.matrix(seed, (rows, cols))
    blocks = [
        encrypt_rows(secret, plain[:, start : start + n], samples.SCALE, limbs) for start in range(0, cols, n)
    ]
    request = matrices.transpose_blocks_request(blocks, policy)
    assert len(request) == counts(min(max(bit_ceil(max(rows, cols)), 8), n), policy)
    found = matrices.transpose_blocks(blocks, make_evaluation_keys(secret, request), policy)
    assert [block.shape for block in found] == [(cols, min(n, rows - start)) for start in range(0, rows, n)]
    bound = noise.fresh_bound(secret.params) + transpose_bound(secret.params, limbs, (rows, cols), policy)
    plain_found = np.concatenate([decrypt(secret, block) for block in found], axis=1)
    assert (np.abs(plain_found - plain.T) <= bound / samples.SCALE).all()


@EVERY_POLICY
def test_rows_become_columns_of_the_same_matrix(policy: TransposePolicy) -> None:
    """`.T` of rows is columns, so a transposition changes the orientation; one back and forth adds two errors."""
    secret, _ = samples.toy_keys(64, 2, 1)
    plain = samples.matrix(3, (40, 64))
    x = encrypt_rows(secret, plain, samples.SCALE)
    keys = make_evaluation_keys(secret, matrices.transpose_request(x, policy))
    columns = matrices.transpose(x, keys, policy).T
    assert isinstance(columns, matrices.RlweColumns)
    check(secret, columns.T, plain.T, policy, 2)
    back = matrices.transpose(columns.T, keys, policy)
    check(secret, back, plain, policy, 2, rounds=2)


@EVERY_POLICY
@pytest.mark.parametrize(("n", "size"), [(16, 16), (64, 16), (64, 64)])
def test_bits_are_those_of_the_core(policy: TransposePolicy, n: int, size: int) -> None:
    """A square matrix passes as it lies; a smaller one is the part at its coefficients of one with zeros between."""
    secret, _ = samples.toy_keys(n, 2, 1)
    elements, _ = _core.transpose_plan(size, policy)
    keys = make_evaluation_keys(secret, KeyRequest.of_galois(dict.fromkeys(elements, 2)))
    arrays = [keys.get(Galois(element), 2) for element in elements]
    for rows, cols in ((size, size), (size // 4, size), (size, size // 4 - 1)):
        x = encrypt_rows(secret, samples.matrix(1, (rows, cols)), samples.SCALE)
        row_step, col_step = size // bit_ceil(rows), size // bit_ceil(cols)
        a, b = np.zeros((2, size, n), np.uint64), np.zeros((2, size, size), np.uint64)
        a[:, : rows * row_step : row_step] = x.a
        b[:, : rows * row_step : row_step, : cols * col_step : col_step] = x.b
        a, b = secret.params.context().transpose_rows(a, b, arrays, policy)
        found = matrices.transpose(x, keys, policy)
        np.testing.assert_array_equal(found.a, a[:, : cols * col_step : col_step])
        np.testing.assert_array_equal(
            found.b, b[:, : cols * col_step : col_step, : rows * row_step : row_step]
        )


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_do_not_change_a_bit(threads: int) -> None:
    secret, _ = samples.toy_keys(64, 2, 1)
    x = encrypt_rows(secret, samples.matrix(5, (50, 60)), samples.SCALE)
    keys = make_evaluation_keys(secret, matrices.transpose_request(x, "light"))
    before = _core.threads()
    try:
        _core.set_threads(1)
        one = matrices.transpose(x, keys, "light")
        _core.set_threads(threads)
        other = matrices.transpose(x, keys, "light")
    finally:
        _core.set_threads(before)
    np.testing.assert_array_equal(one.a, other.a)
    np.testing.assert_array_equal(one.b, other.b)


@EVERY_POLICY
@pytest.mark.parametrize("rows", [1, 2, 4, 16, 64, 256])
def test_errors_gather_as_derived(policy: TransposePolicy, rows: int) -> None:
    """Fewer rows than d: with shared keys the error grows. All 256·rows entries of 16 matrices tell its size."""
    n = 256
    secret, _ = samples.toy_keys(n, 1, 1)
    params = secret.params
    x = encrypt_rows(secret, np.zeros((rows, n)), 1.0)
    request = matrices.transpose_request(x, policy)
    squares = []
    for _ in range(16 if rows < 64 else 2):
        x = encrypt_rows(secret, np.zeros((rows, n)), 1.0)
        keys = make_evaluation_keys(secret, request)
        squares.append(np.mean(decrypt(secret, matrices.transpose(x, keys, policy)) ** 2))
    weight = np.count_nonzero(secret.coefficients())
    one = n / 12 * (params.q[0] / params.p[0]) ** 2 * noise.SIGMA**2 + (1 + weight) / 12
    derived = gathered_switches(n, policy, rows) * one + noise.SIGMA**2 + 1 / 12
    assert 0.8 * derived <= np.mean(squares) <= 1.25 * derived
    assert 8 * math.sqrt(derived) <= noise.fresh_bound(params) + transpose_bound(params, 1, (rows, n), policy)


@EVERY_POLICY
def test_all_rows_share_no_error(policy: TransposePolicy) -> None:
    for size in (8, 16, 512, 4096):
        assert gathered_switches(size, policy, size) == _core.transpose_plan(size, policy)[1]
        fewer = [gathered_switches(size, policy, rows) for rows in (1, 2, size // 2, size)]
        assert fewer == sorted(fewer, reverse=True)


def test_keys_may_be_more_than_needed(tmp_path: Any) -> None:
    """Keys of the largest matrix serve all smaller ones under "fast"; those for more limbs serve fewer; from a file."""
    secret, _ = samples.toy_keys(32, 2, 1)
    largest = encrypt_rows(secret, np.ones((32, 3)), samples.SCALE)
    made = make_evaluation_keys(secret, matrices.transpose_request(largest))
    made.save(tmp_path / "keys.safetensors")
    with pytest.warns(InsecureParametersWarning):
        keys = EvaluationKeys.load(tmp_path / "keys.safetensors", lazy=True, insecure=True)
    for shape in ((32, 3), (7, 13), (1, 2)):
        plain = samples.matrix(2, shape)
        x = encrypt_rows(secret, plain, samples.SCALE).drop(1)
        check(secret, matrices.transpose(x, keys), plain.T, "fast", 1)


def test_matrices_under_a_public_key() -> None:
    secret, public = samples.toy_keys(16, 2, 1)
    plain = samples.matrix(8, (11, 5))
    x = encrypt_rows(public, plain, samples.SCALE)
    keys = make_evaluation_keys(secret, matrices.transpose_request(x, "binary"))
    found = decrypt(secret, matrices.transpose(x, keys, "binary"))
    bound = noise.fresh_bound(secret.params, public_key=True)
    bound += transpose_bound(secret.params, 2, plain.shape, "binary")
    assert (np.abs(found - plain.T) <= bound / samples.SCALE).all()


@EVERY_POLICY
def test_other_keys_are_refused(policy: TransposePolicy) -> None:
    secret, _ = samples.toy_keys(16, 2, 1)
    x = encrypt_rows(secret, np.ones((3, 16)), samples.SCALE)
    request = matrices.transpose_request(x, policy)
    dropped = dict(request.galois)
    element, _ = dropped.popitem()
    with pytest.raises(MissingKeyError, match=f"Galois element {element}"):
        matrices.transpose(x, make_evaluation_keys(secret, KeyRequest.of_galois(dropped)), policy)
    short = make_evaluation_keys(secret, KeyRequest.of_galois(dict.fromkeys(request.galois, 1)))
    with pytest.raises(MissingKeyError, match=r"fewer limbs .expected at least 2, got 1"):
        matrices.transpose(x, short, policy)
    with pytest.raises(MismatchError, match="key pair"):
        matrices.transpose(x, make_evaluation_keys(generate_secret(secret.params), request), policy)
    foreign, _ = samples.toy_keys(16, 3, 2, 2)
    with pytest.raises(MismatchError, match="parameters"):
        matrices.transpose(x, make_evaluation_keys(foreign, request), policy)


def test_bad_arguments_are_named() -> None:
    secret, _ = samples.toy_keys(16, 2, 1)
    x = encrypt_rows(secret, np.ones((17, 4)), samples.SCALE)
    keys = make_evaluation_keys(secret, KeyRequest())
    for call in (
        lambda: matrices.transpose_request(x),
        lambda: matrices.transpose(x, keys),
        lambda: matrices.transpose(encrypt_columns(secret, np.ones((4, 17)), 1.0), keys),
    ):
        with pytest.raises(ShapeError, match="at most N = 16, got 17"):
            call()
    good = encrypt_rows(secret, np.ones((4, 4)), samples.SCALE)
    with pytest.raises(ParameterError, match="binary, got direct"):
        matrices.transpose(good, keys, "direct")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="N = 16 columns but for the last"):
        matrices.transpose_blocks([good, good], keys)
    with pytest.raises(MismatchError, match="at least one"):
        matrices.transpose_blocks_request([])
    shared = encrypt_rows(secret, np.ones((4, 4)), samples.SCALE, kind=matrices.SharedRows)
    with pytest.raises(MismatchError, match="SharedRows"):
        matrices.transpose_request(shared)  # type: ignore[arg-type]
    with pytest.raises(MismatchError, match="SharedRows"):
        matrices.transpose_blocks([shared], keys)  # type: ignore[list-item]
    without_special, _ = samples.toy_keys(16, 2)
    request = matrices.transpose_request(encrypt_rows(without_special, np.ones((4, 4)), samples.SCALE))
    with pytest.raises(ParameterError, match="special primes"):
        make_evaluation_keys(without_special, request)


def test_rows_of_any_length_are_transposed() -> None:
    """Beyond 2^13 rows sums are reduced on the way; cpp/tests/ring_rows.cpp shows that on small ones."""
    plan = transpose_plan(1 << 14, "binary")
    assert (len(plan.elements), plan.switches) == (14, 14 << 13)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "policy"), [((300, 512), "fast"), ((4096, 100), "light")])
def test_real_parameters(shape: tuple[int, int], policy: TransposePolicy) -> None:
    """N = 2^12 at 128 bits: one prime of 50 bits, one special prime."""
    params = make_parameters(1 << 12, [50.0])
    assert params.security == 128
    secret = generate_secret(params)
    plain = samples.matrix(1, shape)
    x = encrypt_rows(secret, plain, samples.SCALE)
    keys = make_evaluation_keys(secret, matrices.transpose_request(x, policy))
    check(secret, matrices.transpose(x, keys, policy), plain.T, policy, 1)
