"""Bad input gets an error that names what was expected and what came; secrets stay where they are."""

from __future__ import annotations

import ast
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cipherblas.common.errors import (
    DTypeError,
    MismatchError,
    ParameterError,
    RangeError,
    SecurityError,
    ShapeError,
)
from cipherblas.crypto import keys
from cipherblas.crypto.keys import generate_secret
from cipherblas.rlwe import matrices, noise
from cipherblas.rlwe.matrices import RlweRows, SharedBatch, SharedRows
from cipherblas.rlwe.matrices.encryption import (
    decrypt,
    encrypt_rows,
)
from tests.support import format_samples as samples

EVERY = pytest.mark.parametrize("name", samples.ENCRYPT)


@EVERY
@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (), (0, 4), (4, 0)])
def test_shapes_that_are_no_matrix(name: str, shape: tuple[int, ...]) -> None:
    secret, _ = samples.toy_keys(16)
    with pytest.raises(ShapeError, match="dimensions"):
        samples.ENCRYPT[name](secret, np.ones(shape), 1.0)


def test_rows_longer_than_the_ring() -> None:
    secret, public = samples.toy_keys(16)
    for name, shape in (("rlwe-rows", (2, 17)), ("rlwe-columns", (17, 2))):
        for key in (secret, public):
            with pytest.raises(ShapeError, match="expected at most N = 16, got 17"):
                samples.ENCRYPT[name](key, np.ones(shape), 1.0)


@EVERY
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers(name: str, value: float) -> None:
    secret, _ = samples.toy_keys(16)
    plain = np.ones((3, 16))
    plain[1, 5] = value
    with pytest.raises(RangeError, match="finite"):
        samples.ENCRYPT[name](secret, plain, 1.0)


@EVERY
@pytest.mark.parametrize("plain", [np.ones((2, 2), complex), [["a", "b"]], np.array([[None, 1]])])
def test_types_that_are_no_numbers(name: str, plain: Any) -> None:
    secret, _ = samples.toy_keys(16)
    with pytest.raises(DTypeError, match="real numbers"):
        samples.ENCRYPT[name](secret, plain, 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint64, bool])
def test_other_real_types(dtype: Any) -> None:
    secret, _ = samples.toy_keys(16)
    plain = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    found = decrypt(secret, encrypt_rows(secret, plain[:, ::-1], samples.SCALE))
    assert np.abs(found - plain[:, ::-1].astype(float)).max() * samples.SCALE <= 30


@EVERY
def test_messages_beyond_the_modulus(name: str) -> None:
    """The last message that fits decrypts; the next is refused."""
    secret, _ = samples.toy_keys(16)
    room = secret.params.q[0] // 2 - 30
    for sign in (1, -1):
        plain = np.array([[float(sign * room)]])
        encrypted = samples.ENCRYPT[name](secret, plain, 1.0)
        assert abs(decrypt(secret, encrypted) - plain)[0, 0] <= noise.fresh_bound(secret.params)
        for scale in (1.0 + 2**-40, 2.0, 1e300):
            with pytest.raises(RangeError, match="1 limb "):
                samples.ENCRYPT[name](secret, plain, scale)
    with pytest.raises(RangeError):
        samples.ENCRYPT[name](secret, np.array([[1e300]]), 1e300)


@EVERY
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, "1", None, True])
def test_scales(name: str, scale: Any) -> None:
    secret, _ = samples.toy_keys(16)
    with pytest.raises(ParameterError, match="scale"):
        samples.ENCRYPT[name](secret, np.ones((1, 1)), scale)


@EVERY
@pytest.mark.parametrize("limbs", [0, 3, -1])
def test_limbs(name: str, limbs: int) -> None:
    secret, _ = samples.toy_keys(16, 2)
    with pytest.raises(ParameterError, match="limbs"):
        samples.ENCRYPT[name](secret, np.ones((1, 1)), 1.0, limbs)
    with pytest.raises(ParameterError, match="limbs"):
        samples.ENCRYPT[name](secret, np.ones((1, 1)), 1.0).drop(limbs)


def test_keys_of_the_wrong_kind() -> None:
    secret, public = samples.toy_keys(16)
    for kind in (SharedRows, SharedBatch):
        with pytest.raises(DTypeError, match="SecretKey"):
            encrypt_rows(public, np.ones((1, 1)), 1.0, kind=kind)
    with pytest.raises(DTypeError, match="key"):
        encrypt_rows(secret.params, np.ones((1, 1)), 1.0)  # type: ignore[arg-type]


@EVERY
def test_operands_that_do_not_fit(name: str) -> None:
    secret, _ = samples.toy_keys(16, 2)
    x = samples.ENCRYPT[name](secret, np.ones((3, 16)), samples.SCALE)
    encrypt = samples.ENCRYPT[name]
    stranger = generate_secret(secret.params)
    foreign, _ = samples.toy_keys(32, 2)
    others = [
        (ShapeError, "(3, 16)", encrypt(secret, np.ones((2, 16)), samples.SCALE)),
        (MismatchError, "scales", encrypt(secret, np.ones((3, 16)), 2 * samples.SCALE)),
        (MismatchError, "limbs", encrypt(secret, np.ones((3, 16)), samples.SCALE, 1)),
        (MismatchError, "key pairs", encrypt(stranger, np.ones((3, 16)), samples.SCALE)),
        (MismatchError, "parameters", encrypt(foreign, np.ones((3, 16)), samples.SCALE)),
    ]
    for other in samples.ENCRYPT:
        if other != name:
            others.append((MismatchError, "formats", samples.ENCRYPT[other](secret, np.ones((3, 16)), 1.0)))
    for error, words, other in others:
        for operation in (x.add, x.sub):
            with pytest.raises(error) as caught:
                operation(other)  # type: ignore[arg-type]
            assert words in str(caught.value)


@EVERY
def test_factors(name: str) -> None:
    secret, _ = samples.toy_keys(16)
    x = samples.ENCRYPT[name](secret, np.ones((3, 16)), samples.SCALE)
    for factor in (np.nan, np.inf, -np.inf, 0.0, 5e-324, 1.7e308 * 2):
        with pytest.raises(RangeError, match="factor"):
            x.times(factor)
    for wrong in (1j, "2", None, True, np.ones(1)):
        with pytest.raises(DTypeError, match="factor"):
            x.times(wrong)  # type: ignore[arg-type]


def test_arrays_that_do_not_fit() -> None:
    secret, _ = samples.toy_keys(16, 2)
    x = encrypt_rows(secret, np.ones((3, 12)), samples.SCALE)
    cases: list[tuple[type[Exception], dict[str, Any]]] = [
        (ShapeError, {"b": x.b[:, :2]}),
        (ShapeError, {"b": x.b[0]}),
        (ShapeError, {"shape": (3, 13)}),
        (ShapeError, {"shape": (3, -12)}),
        (ShapeError, {"shape": (3, 12, 1)}),
        (ShapeError, {"uniform": x.a[:1]}),
        (ShapeError, {"uniform": x.a[:, :, :8]}),
        (DTypeError, {"uniform": x.a.astype(np.int64)}),
        (DTypeError, {"b": np.asfortranarray(x.b)}),
        (ParameterError, {"b": np.concatenate([x.b, x.b])}),
        (ParameterError, {"uniform": b"short"}),
        (ParameterError, {"scale": 0.0}),
    ]
    for error, change in cases:
        with pytest.raises(error):
            replace(x, **change)


def test_foreign_matrices_are_not_decrypted() -> None:
    secret, _ = samples.toy_keys(16, 2)
    x = encrypt_rows(secret, np.ones((3, 12)), samples.SCALE)
    with pytest.raises(MismatchError, match="key pair"):
        decrypt(generate_secret(secret.params), x)
    with pytest.raises(MismatchError, match="parameters"):
        decrypt(samples.toy_keys(16)[0], x)


def test_weights() -> None:
    secret, _ = samples.toy_keys(16)
    batch = encrypt_rows(secret, np.ones((3, 12)), 1.0, kind=SharedBatch)
    with pytest.raises(ShapeError, match=r"\(3, secrets\)"):
        decrypt(secret, batch, np.ones((2, 3), int))
    with pytest.raises(ShapeError, match=r"\(3, secrets\)"):
        decrypt(secret, batch, np.ones((3, 0), int))
    with pytest.raises(DTypeError, match="integers"):
        decrypt(secret, batch, np.ones((3, 3)))
    with pytest.raises(RangeError, match="2\\^53"):
        decrypt(secret, batch, np.full((3, 3), 2**52))
    with pytest.raises(DTypeError, match="SharedBatch"):
        decrypt(secret, encrypt_rows(secret, np.ones((3, 12)), 1.0), np.ones((3, 3), int))


@EVERY
def test_a_closed_key(name: str) -> None:
    secret = generate_secret(samples.toy(16))
    encrypted = samples.ENCRYPT[name](secret, np.ones((1, 1)), 1.0)
    secret.close()
    with pytest.raises(SecurityError, match="closed"):
        samples.ENCRYPT[name](secret, np.ones((1, 1)), 1.0)
    with pytest.raises(SecurityError, match="closed"):
        decrypt(secret, encrypted)


@EVERY
def test_matrices_hold_no_secret(name: str) -> None:
    """What a server gets: parameters, public arrays and names; and it is not changed."""
    secret, _ = samples.toy_keys(16)
    x = samples.ENCRYPT[name](secret, np.ones((2, 16)), 1.0)
    assert set(vars(x)) <= {"params", "shape", "scale", "b", "uniform", "key_id", "a"}
    assert x.a is x.a
    assert isinstance(x.uniform, bytes)
    for value in vars(x).values():
        assert not isinstance(value, keys.SecretKey)
    with pytest.raises(FrozenInstanceError):
        x.scale = 2.0  # type: ignore[misc]


def test_the_package_does_not_import_the_secret() -> None:
    """A server that imports the formats names neither encryption nor the making of keys."""
    tree = ast.parse(Path(matrices.__file__).read_text(encoding="utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert any(name.endswith("rlwe") for name in imported)
    assert not any(name.endswith((".encryption", ".generation")) for name in imported)


def test_shared_secrets_differ_and_are_derived() -> None:
    secret, _ = samples.toy_keys(64)
    found = np.stack([secret.shared_coefficients(index) for index in range(200)])
    assert set(np.unique(found)) == {-1, 0, 1}
    counts = np.array([(found == value).sum() for value in (-1, 0, 1)])
    assert np.abs(counts - found.size / 3).max() < 6 * np.sqrt(found.size * 2 / 9)
    assert len(np.unique(found, axis=0)) == 200
    assert not any(np.array_equal(row, secret.coefficients()) for row in found)
    np.testing.assert_array_equal(found[7], secret.shared_coefficients(7))


def test_a_matrix_is_made_of_arrays_alone() -> None:
    """A result of matrix products on a and b is a matrix again."""
    secret, _ = samples.toy_keys(16)
    x = encrypt_rows(secret, np.ones((3, 12)), samples.SCALE)
    y = RlweRows(secret.params, (2, 12), x.scale, x.b[:, :2].copy(), x.a[:, 1:].copy())
    assert y.seed is None
    with pytest.raises(ShapeError, match="a part"):
        RlweRows(secret.params, (2, 12), x.scale, x.b[:, :2].copy(), x.a)
