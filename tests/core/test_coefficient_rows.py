"""Arguments of the functions on batches of rows: what does not fit is named; what fits may lie anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cipherblas._core as _core

Words = NDArray[np.uint64]
Signed = NDArray[np.int64]

N = 16
CONTEXT = _core.Context(N, _core.primes(N, 50, 2), [], 1)
WORDS = np.zeros((2, 3, N), np.uint64)
SECRETS = np.zeros((1, 2, N), np.uint64)
MATRIX = np.zeros((3, N))
NOISE = np.zeros((3, N), np.uint64)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((SECRETS[0], WORDS, NOISE, MATRIX, 1.0, 5), "secrets: expected shape (1, *, 16)"),
        ((SECRETS[:, :1], WORDS, NOISE, MATRIX, 1.0, 5), "secrets: expected at least 2 limbs"),
        ((SECRETS, WORDS[:, :2], NOISE, MATRIX, 1.0, 5), "a: expected shape (*, 3, 16)"),
        ((SECRETS, WORDS[:, :, ::-1], NOISE, MATRIX, 1.0, 5), "a: expected a C-contiguous array"),
        (
            (SECRETS, np.zeros((3, 3, N), np.uint64), NOISE, MATRIX, 1.0, 5),
            "a: expected at most 2 limbs, got 3",
        ),
        ((SECRETS, WORDS.astype(np.int64), NOISE, MATRIX, 1.0, 5), "a: expected dtype uint64"),
        ((SECRETS, WORDS, NOISE[:, :8], MATRIX, 1.0, 5), "noise_words: expected shape (3, 16)"),
        ((SECRETS, WORDS, NOISE, MATRIX.astype(np.float32), 1.0, 5), "matrix: expected dtype float64"),
        ((SECRETS, WORDS, NOISE, np.zeros((0, N)), 1.0, 5), "matrix: expected no empty dimension"),
        ((SECRETS, WORDS, NOISE, MATRIX, 0.0, 5), "scale: expected finite and not 0"),
        ((SECRETS, WORDS, NOISE, MATRIX, np.nan, 5), "scale"),
        ((SECRETS, WORDS, NOISE, MATRIX, 1.0, 5, True), "a: expected shape (*, 1, 16)"),
    ],
)
def test_encrypt_rows(arguments: tuple[Any, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        CONTEXT.encrypt_rows(*arguments)
    assert complaint in str(caught.value)
    assert "got" in str(caught.value)


def test_rounding_depends_on_no_word_of_an_error() -> None:
    """Of a secret that is zero: b is the error and the entry, rounded by the dither and by nothing else."""
    rng = np.random.default_rng(0)
    context = _core.Context(64, _core.primes(64, 50, 1), [], 1)
    (q,), moduli = context.moduli, [255, 253, 251, 247, 241, 239]
    matrix = rng.uniform(-100, 100, (30, 64))
    secrets, key, masks = (np.zeros(shape, np.uint64) for shape in ((1, 1, 64), (2, 1, 64), (1, 30, 64)))
    ternary = np.zeros((30, 64 + 256), np.uint8)

    def by_rows(words: Words, dither: int) -> Signed:
        return centred(context.encrypt_rows(secrets, masks, words, matrix, 1.0, dither)[0], q)

    def by_bytes(words: Words, dither: int) -> Signed:
        found = context.encrypt_operand_rows(secrets, masks, words, matrix, 1.0, dither, moduli)[0]
        return centred(found & np.uint64(255), moduli[0])  # the message and the error are below its half

    def by_public_key(words: Words, dither: int) -> Signed:
        found = context.encrypt_rows_public(key, ternary, words, words, matrix, 1.0, dither, 1)
        return centred(found[1][0], q)

    for encrypt in (by_rows, by_bytes, by_public_key):
        rounded = {}
        for dither in (5, 6):
            for number in range(2):
                words = np.random.default_rng(number).integers(0, 2**64, (30, 64), np.uint64)
                errors = np.stack([context.gaussian(row) for row in words])
                rounded[dither, number] = encrypt(words, dither) - errors
                assert np.isin(rounded[dither, number] - np.floor(matrix), (0, 1)).all()
        np.testing.assert_array_equal(rounded[5, 0], rounded[5, 1])
        np.testing.assert_array_equal(rounded[6, 0], rounded[6, 1])
        assert (rounded[5, 0] != rounded[6, 0]).any()
        # By chance: the sum of what is rounded away has the variance of as many, each at most 1/4.
        assert abs((rounded[5, 0] - matrix).sum()) < 6 * np.sqrt(matrix.size / 4)


def centred(residues: Words, modulus: int) -> Signed:
    signed = residues.astype(np.int64)
    return np.asarray(np.where(signed > modulus // 2, signed - modulus, signed))


def test_decrypt_rows() -> None:
    for b, complaint in (
        (np.zeros((2, 3), np.uint64), "b: expected shape (*, *, *)"),
        (np.zeros((3, 3, N), np.uint64), "b: expected at most 2 limbs"),
        (np.zeros((1, 3, N), np.uint64), "a: expected shape (1, 3, 16)"),
    ):
        with pytest.raises(ValueError, match="expected") as caught:
            CONTEXT.decrypt_rows(SECRETS, WORDS, b)
        assert complaint in str(caught.value)


def test_encrypt_rows_public() -> None:
    key = np.zeros((2, 2, N), np.uint64)
    ternary = np.zeros((3, N + 256), np.uint8)
    good = (key, ternary, NOISE, NOISE, MATRIX, 1.0, 5, 2)
    a, b = CONTEXT.encrypt_rows_public(*good)
    assert a.shape == b.shape == (2, 3, N)
    changes: list[tuple[int, Any, str]] = [
        (0, np.zeros((3, 2, N), np.uint64), "public_key: expected 2 components"),
        (1, ternary[:, :-1].copy(), "ternary_bytes: expected at least 272 per row, got 271"),
        (2, NOISE[:2], "e0_words: expected shape (3, 16)"),
        (3, NOISE[:2], "e1_words: expected shape (3, 16)"),
        (4, np.zeros((3, N + 1)), "matrix: expected at most 16 columns"),
        (7, 3, "limbs: expected 1 to 2"),
        (7, 0, "limbs: expected 1 to 2"),
    ]
    for place, value, complaint in changes:
        arguments: list[Any] = list(good)
        arguments[place] = value
        with pytest.raises(ValueError, match="expected") as caught:
            CONTEXT.encrypt_rows_public(*arguments)
        assert complaint in str(caught.value)


def test_linear_operations() -> None:
    for operation in (CONTEXT.add_limbs, CONTEXT.sub_limbs):
        with pytest.raises(ValueError, match=r"y: expected shape \(2, 3, 16\)"):
            operation(WORDS, WORDS[:, :2].copy())
    with pytest.raises(TypeError):
        CONTEXT.scale_limbs(WORDS, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 2 limbs"):
        CONTEXT.rescale_limbs(WORDS[:1].copy())
    with pytest.raises(ValueError, match="at most 2 limbs"):
        CONTEXT.rows_from_ntt(np.zeros((1, 3, N), np.uint64))
    with pytest.raises(ValueError, match="expected shape"):
        CONTEXT.rows_to_ntt(np.zeros((1, 3, 8), np.uint64))


def test_encode_rows() -> None:
    context = _core.Context(N, CONTEXT.moduli, _core.primes(N, 40, 2), 1)
    coefficients = np.random.default_rng(0).integers(-(2**62), 2**62, (5, N))
    for limbs, special in ((1, False), (2, False), (2, True)):
        found = context.encode_rows(coefficients, limbs, special)
        for row, expected in zip(found, coefficients, strict=True):
            np.testing.assert_array_equal(row, context.plaintext(expected, limbs, special))
    with pytest.raises(ValueError, match="limbs: expected 1 to 2, got 3"):
        context.encode_rows(coefficients, 3)
    with pytest.raises(ValueError, match="coefficients: expected shape"):
        context.encode_rows(coefficients[:, :8], 1)


def test_integers_of_any_size() -> None:
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(0, q, (5, 7), np.uint64) for q in CONTEXT.moduli])
    for factor in (0, -1, 2**200 + 3, -(3**90)):
        found = CONTEXT.scale_limbs(x, factor)
        for limb, q in enumerate(CONTEXT.moduli):
            np.testing.assert_array_equal(found[limb], x[limb].astype(object) * factor % q)


def test_arrays_that_are_not_aligned() -> None:
    """Rows are used where they lie, at any multiple of 8 bytes."""
    rng = np.random.default_rng(0)
    words = np.stack([rng.integers(0, q, (3, N), np.uint64) for q in CONTEXT.moduli])
    noise = rng.integers(0, 2**63, (3, 5), np.uint64)
    secrets = CONTEXT.plaintext(rng.integers(-1, 2, N), 2)[None]
    expected = CONTEXT.encrypt_rows(secrets, words, noise, MATRIX[:, :5].copy(), 1.0, 5)
    for offset in range(1, 8):
        shifted = np.zeros(words.size + 8, np.uint64)[offset : offset + words.size].reshape(words.shape)
        shifted[...] = words
        found = CONTEXT.encrypt_rows(secrets, shifted, noise, MATRIX[:, :5].copy(), 1.0, 5)
        np.testing.assert_array_equal(found, expected)


def test_rows_and_elements() -> None:
    words = np.zeros((2, 3, 4), np.uint64)
    assert CONTEXT.elements_of_rows(WORDS, words).shape == (3, 2, 2, N)
    ct = np.zeros((2, 2, N), np.uint64)
    for rows, held in ((7, 4), (8, 4), (2, 1)):
        a, b = CONTEXT.rows_of_elements([ct, ct], rows, 4, held)
        assert a.shape == (2, rows, N)
        assert b.shape == (2, rows, 4)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: CONTEXT.elements_of_rows(words, words), "a: expected shape (*, *, 16), got shape (2, 3, 4)"),
        (lambda: CONTEXT.elements_of_rows(WORDS, words[:, :2]), "b: expected shape (2, 3, *)"),
        (
            lambda: CONTEXT.elements_of_rows(WORDS, np.zeros((2, 3, 3), np.uint64)),
            "columns of b: expected a power of two up to 16, got 3",
        ),
        (lambda: CONTEXT.rows_of_elements([], 1, 4, 1), "cts: expected at least one ciphertext"),
        (lambda: CONTEXT.rows_of_elements([ct[:, 0]], 1, 4, 1), "cts: expected"),
        (lambda: CONTEXT.rows_of_elements([ct, ct[:, :1]], 5, 4, 4), "cts: expected 2 limbs, got 1"),
        (lambda: CONTEXT.rows_of_elements([ct], 1, 0, 1), "columns: expected a power of two up to 16, got 0"),
        (
            lambda: CONTEXT.rows_of_elements([ct], 1, 32, 1),
            "columns: expected a power of two up to 16, got 32",
        ),
        (lambda: CONTEXT.rows_of_elements([ct], 1, 4, 0), "held: expected 1 to 4, got 0"),
        (lambda: CONTEXT.rows_of_elements([ct], 1, 4, 5), "held: expected 1 to 4, got 5"),
        (
            lambda: CONTEXT.rows_of_elements([ct], 5, 4, 4),
            "rows: expected as many as 1 ciphertexts hold, got 5",
        ),
        (
            lambda: CONTEXT.rows_of_elements([ct], 0, 4, 4),
            "rows: expected as many as 1 ciphertexts hold, got 0",
        ),
        (
            lambda: CONTEXT.rows_of_elements([ct, ct], 4, 4, 4),
            "rows: expected as many as 2 ciphertexts hold, got 4",
        ),
    ]
    for call, complaint in calls:
        with pytest.raises(ValueError, match="expected") as caught:
            call()
        assert complaint in str(caught.value)
