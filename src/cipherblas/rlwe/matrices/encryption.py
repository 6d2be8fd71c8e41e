"""Encrypting matrices into the coefficient formats, and decrypting them: the client's side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cipherblas.common.errors import DTypeError, MismatchError, ParameterError, RangeError, ShapeError
from cipherblas.common.memory import Array, aligned_empty
from cipherblas.crypto import randomness
from cipherblas.crypto.fields import MAX_OPERAND_MESSAGE
from cipherblas.crypto.keys import PublicKey, SecretKey
from cipherblas.crypto.params import Parameters
from cipherblas.crypto.plain_residues import from_quotients, multiplied_residues
from cipherblas.rlwe import noise
from cipherblas.rlwe.basis import Basis, FirstLimbs
from cipherblas.rlwe.matrices.matrix import (
    CoefficientMatrix,
    Matrix,
    checked_scale,
    checked_shape,
)
from cipherblas.rlwe.matrices.rlwe import RlweColumns, RlweRows
from cipherblas.rlwe.matrices.uniform import expand

Key = SecretKey | PublicKey

MAX_ROOM = 0.98  # of the room for errors of integers modulo t, that a planned result uses
STRIP_WORDS = 1 << 20  # of an a part, for the rows that are encrypted together


def encrypt_rows(
    key: Key,
    matrix: ArrayLike,
    scale: float,
    basis: Basis | int | None = None,
    kind: type[CoefficientMatrix] = RlweRows,
) -> CoefficientMatrix:
    """Encrypt a matrix as RLWE rows, or in another format that has rows.

    Args:
        key: the secret key (a part from a seed, smallest error), or the public key, which makes RLWE rows alone: other
            formats have secrets that are derived from the client's, or moduli that no public key has.
        matrix: real, of as many columns as the format can hold: N of RLWE rows.
        scale: the message is round(scale · matrix).
        basis: moduli of the ciphertext, or a number of limbs; by default all that the format has.
        kind: the format.

    Raises:
        ShapeError, DTypeError: not a real matrix that the format can hold, or not the key that it needs.
        RangeError: an entry is NaN or infinite, or scale · |entry| does not stay below Q/2 with the error.
        ParameterError: no such scale, or number of limbs.
        SecurityError: the secret key is closed.
    """
    values, basis = _checked(key, kind, matrix, scale, basis)
    if isinstance(key, PublicKey) and kind is RlweRows:
        a, b = _encrypt_public(key, values, scale, basis.limbs)
        return kind(key.params, (values.shape[0], values.shape[1]), scale, b, a, key.key_id)
    return _encrypt_secret(_only_secret(key), kind, values, scale, basis)


def encrypt_integers(
    key: Key,
    integers: NDArray[np.int64],
    basis: Basis,
    kind: type[CoefficientMatrix] = RlweRows,
    low: bool = False,
) -> CoefficientMatrix:
    """Encrypt integers modulo t, the plain modulus of the key's parameters, as `encrypt_rows` does real numbers: the
    phase of an entry m with error e is t^-1·m + e.

    Args:
        integers: of least absolute value modulo t, already times what factor the ciphertext is to have.
        low: the phase is m + t·e, as of one factor of a product.

    Raises:
        As `encrypt_rows`; ParameterError: the parameters are those of real numbers.
    """
    params, modulus = key.params, key.params.plain_modulus
    if modulus is None:
        raise ParameterError(
            "Integers modulo t are encrypted with parameters that have t.",
            expected="plain_modulus=t",
            got=None,
            advice="make_parameters(…, plain_modulus=t)",
        )
    values, basis = _checked(key, kind, integers, 1.0, basis)
    if 2 * max(int(values.max()), -int(values.min())) > modulus:
        raise RangeError(
            f"An entry is not the least one modulo {modulus} in absolute value.",
            expected=f"at most {modulus // 2} in absolute value",
        )
    form = _IntegerForm(modulus, low)
    if not (isinstance(key, PublicKey) and kind is RlweRows):
        return _encrypt_secret(_only_secret(key), kind, values, 1.0, basis, form)
    context = params.context()
    a, b = _encrypt_public(key, np.zeros(values.shape), 1.0, basis.limbs)
    if low:
        a, b = (context.scale_limbs(part, modulus) for part in (a, b))
    b = context.add_limbs(b, form.messages(values, params.q[: basis.limbs]))
    return kind(params, (values.shape[0], values.shape[1]), 1.0, b, a, key.key_id)


class _IntegerForm(NamedTuple):
    """How integers modulo t lie in a phase: t^-1·m + e, or m + t·e in the low form."""

    modulus: int
    low: bool

    def factors(self, moduli: Sequence[int]) -> tuple[list[int], list[int]]:
        """The factors of a message and of an error, modulo each of some moduli."""
        if self.low:
            return [1] * len(moduli), [self.modulus % one for one in moduli]
        return [pow(self.modulus, -1, one) for one in moduli], [1] * len(moduli)

    def messages(self, values: NDArray[np.int64], moduli: Sequence[int]) -> Array:
        """The residues that are added to encryptions of zero, modulo each of some primes."""
        found = aligned_empty((len(moduli), *values.shape))
        for limb, (q, factor) in enumerate(zip(moduli, self.factors(moduli)[0], strict=True)):
            found[limb] = multiplied_residues(values, factor, q)
        return found

    def encrypted(
        self,
        params: Parameters,
        basis: Basis,
        randomness: tuple[Array, Array, Array],
        values: NDArray[np.int64],
        one_a_part: bool,
    ) -> Any:
        """The b part, of secrets, an a part and random words for errors. In the low form it is t times an encryption of
        zero whose a part is t^-1 times what is sent."""
        context, (secrets, a, noise_words) = params.context(), randomness
        moduli = list(map(int, basis.moduli(params)))
        if basis.of_operands:
            return context.encrypt_operand_integers(
                secrets, a, noise_words, values, *self.factors(moduli), moduli
            )
        inverse = pow(self.modulus, -1, math.prod(moduli))
        masks = context.scale_limbs(a, inverse) if self.low else a
        zero = context.encrypt_rows(secrets, masks, noise_words, np.zeros(values.shape), 1.0, 0, one_a_part)
        zero = context.scale_limbs(zero, self.modulus) if self.low else zero
        return context.add_limbs(zero, self.messages(values, moduli))


def encrypt_columns(key: Key, matrix: ArrayLike, scale: float, limbs: int | None = None) -> RlweColumns:
    """Encrypt a matrix of at most N rows as RLWE columns; see `encrypt_rows`."""
    values, basis = _checked(key, RlweColumns, matrix, scale, limbs)
    rows = encrypt_rows(key, values.T, scale, basis)
    return RlweColumns(
        key.params, (values.shape[0], values.shape[1]), scale, rows.b, rows.uniform, key.key_id
    )


def decrypt(
    secret: SecretKey, encrypted: CoefficientMatrix, weights: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Decrypt a matrix of any coefficient format.

    The message is taken modulo all primes of the matrix, so it must stay below half of their product.

    Args:
        secret: the key it was encrypted with.
        encrypted: the matrix.
        weights: of a SharedBatch whose b part was multiplied on the left by a clear matrix, while its a part stayed:
            that matrix, integers (rows, secrets). Its rows are under the secrets weights·s.

    Returns:
        float64, the plain matrix: message over scale, with its error.

    Raises:
        MismatchError: other parameters, or another key pair.
        RangeError: a residue is not below its prime.
        ShapeError, DTypeError: `weights` does not fit.
        SecurityError: the secret key is closed.
    """
    params = secret.params
    if encrypted.params.fingerprint() != params.fingerprint():
        raise MismatchError(
            "The key and the matrix have different parameters.",
            expected=params.fingerprint(),
            got=encrypted.params.fingerprint(),
        )
    if encrypted.key_id and encrypted.key_id != secret.key_id:
        raise MismatchError(
            "The matrix belongs to another key pair.", expected=secret.key_id, got=encrypted.key_id
        )
    if encrypted.basis.of_operands:
        raise DTypeError(
            "Rows modulo the moduli of operands are decrypted as products alone.",
            expected="a product, switched to Q",
            got=type(encrypted).__name__,
        )
    encrypted.check_residues()
    with secret.held_open():
        if weights is None:
            secrets = secrets_of(secret, type(encrypted), encrypted.shape, encrypted.basis)
        else:
            secrets = _weighted_secrets(secret, encrypted, weights)
        rows = params.context().decrypt_rows(
            secrets, encrypted.a, encrypted.b, encrypted.scale, encrypted.ONE_A_PART
        )
        _forget(secret, secrets)
    return rows.T if isinstance(encrypted, RlweColumns) else rows


def decrypt_integers(secret: SecretKey, encrypted: CoefficientMatrix, factor: int = 1) -> NDArray[np.int64]:
    """Decrypt a matrix of integers modulo t whose messages are a factor, a unit, times its entries.

    With the phase t^-1·w modulo Q, t·phase = w + Q·k, where |w| < Q/2: k is found by rounding, and the factor times an
    entry is -Q·k modulo t.

    Returns:
        From 0 to t - 1.

    Raises:
        As `decrypt`; RangeError: errors use up the room of the modulus, of which nothing that was planned comes near.
    """
    params = secret.params
    modulus, product = params.plain_modulus, math.prod(params.q[: encrypted.limbs])
    assert modulus is not None
    quotients = decrypt(secret, replace(encrypted, scale=product / modulus))
    rounded = np.rint(quotients)
    if (np.abs(quotients - rounded) > MAX_ROOM / 2).any():
        raise RangeError(
            f"The errors of an encryption modulo {modulus} leave no room: it was not computed as planned.",
            expected=f"at most {MAX_ROOM} of the room",
        )
    inverse = pow(factor, -1, modulus)
    return from_quotients(rounded.astype(np.int64), modulus, product * inverse)


def shared_secrets(secret: SecretKey, count: int, limbs: int) -> Array:
    """The first `count` secrets of the shared-a formats in NTT form: uint64 (count, limbs, N). Secret."""
    coefficients = _shared_coefficients(secret, count)
    result = np.asarray(secret.params.context().encode_rows(coefficients, limbs))
    coefficients.fill(0)
    return result


def _shared_coefficients(secret: SecretKey, count: int) -> Array:
    """The same as coefficients: int64 (count, N). Secret."""
    coefficients = aligned_empty((count, secret.params.n), np.int64)
    for index in range(count):
        one = secret.shared_coefficients(index)
        coefficients[index] = one
        one.fill(0)
    return coefficients


def secrets_of(
    secret: SecretKey, kind: type[CoefficientMatrix], shape: tuple[int, int], basis: Basis
) -> Array:
    """The secrets that a matrix of this format and shape is under: uint64 (count, limbs or more, N), NTT form."""
    own = kind.own_secrets(secret.params, shape)
    return shared_secrets(secret, own, basis.limbs) if own else secret.ntt()[None]


def _forget(secret: SecretKey, secrets: Array) -> None:
    """Overwrite derived secrets; the key's own stay with it."""
    if not np.shares_memory(secrets, secret.ntt()):
        secrets.fill(0)


def _weighted_secrets(secret: SecretKey, encrypted: CoefficientMatrix, weights: ArrayLike) -> Array:
    """The secrets weights·s of a SharedBatch, modulo each prime."""
    if not encrypted.ONE_A_PART:
        raise DTypeError(
            "Only a SharedBatch can be decrypted with weights.",
            expected="a SharedBatch",
            got=type(encrypted).__name__,
        )
    matrix = np.asarray(weights)
    if not np.issubdtype(matrix.dtype, np.integer):
        raise DTypeError("Weights must be integers.", expected="integers", got=matrix.dtype)
    if matrix.ndim != 2 or matrix.shape[0] != encrypted.shape[0] or matrix.size == 0:
        raise ShapeError(
            "Weights need a column for each secret that they combine.",
            expected=f"({encrypted.shape[0]}, secrets)",
            got=matrix.shape,
        )
    combined = combined_secrets(secret, matrix)
    result = np.asarray(secret.params.context().encode_rows(combined, encrypted.limbs))
    combined.fill(0)
    return result


def combined_secrets(secret: SecretKey, weights: NDArray[Any]) -> NDArray[np.int64]:
    """Integer combinations of the secrets of a shared batch: weights @ (s_0, s_1, …), coefficients. Secret.

    Args:
        secret: the client's key.
        weights: integers, of an integer type or float64, (rows, secrets).

    Raises:
        RangeError: a sum might exceed what float64 holds exactly.
    """
    count = weights.shape[1]
    values = np.asarray(weights, dtype=np.float64)
    largest = int(np.abs(values).max())
    if largest * count >= 1 << 53:  # so that the float64 product below is exact
        raise RangeError(
            "A weight is too large to be combined exactly.",
            expected=f"below 2^53 / {count} in absolute value",
            got=largest,
        )
    ternary = _shared_coefficients(secret, count)
    exact = ternary.astype(np.float64)
    product = values @ exact
    combined: NDArray[np.int64] = product.astype(np.int64)
    for own in (ternary, exact, product):
        own.fill(0)
    return combined


def _encrypt_secret(
    secret: SecretKey,
    kind: type[Matrix],
    values: NDArray[Any],
    scale: float,
    basis: Basis,
    form: _IntegerForm | None = None,
) -> Matrix:
    """Encrypt checked values; the a part is that of a fresh public seed.

    `form`: of integers modulo t; None of real numbers.

    Some rows are encrypted at a time, unless all have one a part: what they alone need stays in cache.
    """
    params, context = secret.params, secret.params.context()
    shape = values.shape[0], values.shape[1]
    seed = randomness.fresh_seed()
    moduli = list(map(int, basis.moduli(params))) if basis.of_operands else None
    words = basis.words(params)
    step = shape[0] if kind.ONE_A_PART else max(1, STRIP_WORDS // (words * max(params.n, shape[1])))

    def encrypted(secrets: Array, rows: slice) -> Array:
        some: NDArray[Any] = np.ascontiguousarray(values[rows], np.float64 if form is None else np.int64)
        a = expand(params, seed, basis, kind.a_rows(params, (len(some), shape[1])), first=rows.start)
        noise_words = _noise_words(len(some), shape[1])
        # Rounding has a word of its own: a message that depends on its error is no longer what the proof is about.
        dither = randomness.fresh_dither()
        if form is not None:
            found = form.encrypted(params, basis, (secrets, a, noise_words), some, kind.ONE_A_PART)
        elif moduli is None:
            found = context.encrypt_rows(secrets, a, noise_words, some, float(scale), dither, kind.ONE_A_PART)
        else:
            found = context.encrypt_operand_rows(secrets, a, noise_words, some, float(scale), dither, moduli)
        noise_words.fill(0)
        return np.asarray(found)

    with secret.held_open():
        secrets = secrets_of(secret, kind, shape, basis)
        strips = [slice(start, start + step) for start in range(0, shape[0], step)]
        if len(strips) == 1:
            b = encrypted(secrets, strips[0])
        else:
            b = aligned_empty((words, *shape))
            for rows in strips:
                b[:, rows] = encrypted(secrets, rows)
        _forget(secret, secrets)
    return kind(params, shape, scale, b, seed, secret.key_id)


def _encrypt_public(key: PublicKey, values: Array, scale: float, limbs: int) -> tuple[Array, Array]:
    """The a and b parts of rows under a public key, uint64 (limbs, rows, N) and (limbs, rows, cols)."""
    n = key.params.n
    rows, cols = values.shape
    values = np.ascontiguousarray(values, np.float64)
    ternary = randomness.streams(
        randomness.fresh_seed(), randomness.Purpose.EPHEMERAL, range(rows), n + n // 64 + 256, np.uint8
    )
    e0, e1 = _noise_words(rows, cols), _noise_words(rows, n)
    dither = randomness.fresh_dither()
    context = key.params.context()
    a, b = context.encrypt_rows_public(key.data, ternary, e0, e1, values, float(scale), dither, limbs)
    for secret in (ternary, e0, e1):
        secret.fill(0)
    return a, b


def _noise_words(rows: int, cols: int) -> Array:
    """Random words for one Gaussian sample each, from a seed drawn here and forgotten."""
    return randomness.streams(randomness.fresh_seed(), randomness.Purpose.NOISE, range(rows), cols)


def _only_secret(key: Any) -> SecretKey:
    if not isinstance(key, SecretKey):
        raise DTypeError(
            "The shared-a formats need the secret key.", expected="SecretKey", got=type(key).__name__
        )
    return key


def _checked(
    key: Key, kind: type[CoefficientMatrix], matrix: ArrayLike, scale: float, basis: Basis | int | None
) -> tuple[NDArray[Any], Basis]:
    """The matrix and its moduli, once everything fits."""
    if not isinstance(key, (SecretKey, PublicKey)):
        raise DTypeError(
            "A matrix is encrypted with a secret key or a public one.",
            expected="SecretKey or PublicKey",
            got=type(key).__name__,
        )
    params = key.params
    if not isinstance(basis, Basis):
        basis = kind.basis_of(params.limbs) if basis is None else FirstLimbs(basis)
    kind.check_moduli(params, basis.primes or basis.words(params))
    given = np.asarray(matrix)
    if given.dtype.kind not in "fiub":
        raise DTypeError("A matrix must hold real numbers.", expected="real numbers", got=given.dtype)
    if given.ndim != 2:
        raise ShapeError("A matrix must have two dimensions.", expected="two dimensions", got=given.shape)
    kind.check_shape(params, checked_shape((given.shape[0], given.shape[1])))
    smallest, largest = float(given.min()), float(given.max())  # NaN passes through both
    if not (math.isfinite(smallest) and math.isfinite(largest)):
        raise RangeError(
            "A matrix must hold finite numbers.", expected="finite entries", got="NaN or infinity"
        )
    modulus = math.prod(map(int, basis.moduli(params)))
    room = modulus // 2 - math.ceil(noise.fresh_bound(params, isinstance(key, PublicKey)))
    if basis.of_operands:
        room = min(room, MAX_OPERAND_MESSAGE)
    message = checked_scale(scale) * max(largest, -smallest)
    if message > room:  # also where the product is infinite
        raise RangeError(
            f"An entry times the scale does not fit {basis}.",
            expected=f"scale · |entry| up to 2^{math.log2(max(room, 1)):.2f}",
        )
    return given, basis
