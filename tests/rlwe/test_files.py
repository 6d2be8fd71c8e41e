"""Matrices in files: whole, smaller when fresh, and refused when damaged or foreign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cipherblas as cb
from cipherblas.common.errors import (
    CipherblasError,
    FormatError,
    MemoryBudgetError,
    MismatchError,
    SecurityError,
    StorageError,
)
from cipherblas.crypto import files
from cipherblas.rlwe.basis import FirstLimbs
from cipherblas.rlwe.matrices import CoefficientMatrix, RlweRows, SharedBatch
from cipherblas.rlwe.matrices.encryption import decrypt, encrypt_rows
from cipherblas.rlwe.matrices.uniform import expand
from tests.support import format_samples as samples

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")


def fresh(name: str, seed: int = 0, shape: tuple[int, int] = (3, 16)) -> CoefficientMatrix:
    secret, _ = samples.toy_keys(16, 2, 1)
    return samples.ENCRYPT[name](secret, samples.matrix(seed, shape), samples.SCALE)


def assert_same(x: CoefficientMatrix, y: CoefficientMatrix) -> None:
    assert type(x) is type(y)
    assert (x.params, x.shape, x.scale, x.key_id, x.seed) == (y.params, y.shape, y.scale, y.key_id, y.seed)
    np.testing.assert_array_equal(x.b, y.b)
    np.testing.assert_array_equal(x.a, y.a)


@given(data=st.data(), seed=st.integers(0, 2**32))
@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_round_trip(name: str, tmp_path_factory: Any, data: Any, seed: int) -> None:
    path = tmp_path_factory.mktemp("files") / "x.matrix"
    x = fresh(name, seed, data.draw(samples.shapes(name, 16)))
    for one in (x, x.times(3), x.drop(1).times(0.3)):
        one.save(path)
        found = type(x).load(path, insecure=True)
        assert_same(one, found)
        secret, _ = samples.toy_keys(16, 2, 1)
        np.testing.assert_array_equal(decrypt(secret, found), decrypt(secret, one))


@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_a_fresh_file_holds_the_seed(name: str, tmp_path: Path) -> None:
    secret, _ = samples.toy_keys(16, 2, 1)
    x = samples.ENCRYPT[name](secret, np.ones((16, 16)), samples.SCALE)
    x.save(tmp_path / "fresh")
    x.times(1).save(tmp_path / "expanded")
    sizes = [(tmp_path / file).stat().st_size for file in ("fresh", "expanded")]
    assert sizes[1] - sizes[0] == pytest.approx(x.a.nbytes - 32, abs=200)
    assert x.nbytes < sizes[0] < x.nbytes + 4096


@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_truncated_and_damaged(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    x = fresh(name)
    x.save(path)
    whole = path.read_bytes()
    for length in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError):
            type(x).load(path, insecure=True)
    random = np.random.default_rng(1)
    for place in random.choice(len(whole), 150, replace=False):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(CipherblasError):
            type(x).load(path, insecure=True)


@pytest.mark.parametrize("name", samples.ENCRYPT)
def test_other_kinds_and_formats(name: str, tmp_path: Path) -> None:
    secret, public = samples.toy_keys(16, 2, 1)
    x = fresh(name)
    x.save(tmp_path / "x")
    for other in samples.ENCRYPT:
        if other != name:
            with pytest.raises(MismatchError, match="another format"):
                type(fresh(other)).load(tmp_path / "x", insecure=True)
    with pytest.raises(MismatchError, match="kind"):
        cb.EvaluationKeys.load(tmp_path / "x", insecure=True)
    secret.save(tmp_path / "secret")
    public.save(tmp_path / "public")
    for file in ("secret", "public"):
        with pytest.raises(MismatchError, match="kind"):
            type(x).load(tmp_path / file, insecure=True)
    with pytest.raises(StorageError):
        type(x).load(tmp_path / "gone", insecure=True)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [3, 17]},
        {"shape": [3, 0]},
        {"shape": [3]},
        {"shape": [3, 8.0]},
        {"shape": [3, True]},
        {"shape": [2**40, 16]},
        {"shape": "3x16"},
        {"shape": None},
        {"scale": 0},
        {"scale": -1.0},
        {"scale": "1"},
        {"scale": None},
        {"key_id": 5},
        {"key_id": None},
    ],
)
def test_hostile_headers(tmp_path: Path, change: dict[str, Any]) -> None:
    """Files that are whole, but whose content is none."""
    x = fresh("rlwe-rows")
    header = {"format": "rlwe-rows", "shape": [3, 16], "scale": 1.0, "key_id": "k"}
    tensors = {"b": x.b, "seed": np.frombuffer(x.seed or b"", np.uint8)}
    files.write(tmp_path / "x", "encrypted-matrix", header, tensors, parameters=x.params)
    assert RlweRows.load(tmp_path / "x", insecure=True).shape == (3, 16)
    changed = {name: value for name, value in {**header, **change}.items() if value is not None}
    files.write(tmp_path / "x", "encrypted-matrix", changed, tensors, parameters=x.params)
    with pytest.raises(FormatError):
        RlweRows.load(tmp_path / "x", insecure=True)


def test_hostile_tensors(tmp_path: Path) -> None:
    x = fresh("rlwe-rows")
    seed = np.frombuffer(x.seed or b"", np.uint8)
    header = {"format": "rlwe-rows", "shape": [3, 16], "scale": 1.0, "key_id": "k"}
    too_large = x.b.copy()
    too_large[1, 2, 3] = x.params.q[1]
    a_too_large = x.a.copy()
    a_too_large[0, 0, 0] = 2**63
    cases: list[dict[str, Any]] = [
        {"b": x.b},
        {"seed": seed},
        {"b": x.b, "seed": seed, "a": x.a},
        {"b": x.b, "seed": seed[:31]},
        {"b": x.b, "a": x.a[:1]},
        {"b": x.b[:, :2], "seed": seed},
        {"b": x.b.astype(np.int64), "seed": seed},
        {"b": np.concatenate([x.b, x.b]), "seed": seed},
        {"b": x.b[0], "seed": seed},
        {"b": x.b[:0], "seed": seed},
        {"b": too_large, "seed": seed},
        {"b": x.b, "a": a_too_large},
    ]
    for tensors in cases:
        files.write(tmp_path / "x", "encrypted-matrix", header, tensors, parameters=x.params)
        with pytest.raises(FormatError):
            RlweRows.load(tmp_path / "x", insecure=True)


def test_a_part_beyond_the_memory() -> None:
    params = samples.toy(1 << 12)
    with pytest.raises(MemoryBudgetError, match="Expanding"):
        expand(params, bytes(32), FirstLimbs(1), 1 << 30)  # 32 TiB, of 8 GiB of b


def test_a_server_needs_files_alone(tmp_path: Path) -> None:
    """A matrix goes through files; what comes back is decrypted by the client."""
    secret, _ = samples.toy_keys(16, 2, 1)
    plain = samples.matrix(3, (5, 30))
    x = encrypt_rows(secret, plain, samples.SCALE, kind=SharedBatch)
    x.save(tmp_path / "x")
    sent = SharedBatch.load(tmp_path / "x", insecure=True)
    sent.add(sent.times(3)).save(tmp_path / "result")
    found = decrypt(secret, SharedBatch.load(tmp_path / "result", insecure=True))
    assert np.abs(found - 4 * plain).max() < 2.0**-18


def test_damaged_residues_do_not_reach_decryption() -> None:
    secret, _ = samples.toy_keys(16, 2, 1)
    x = encrypt_rows(secret, np.ones((2, 16)), samples.SCALE)
    b = x.b.copy()
    b[0, 0, 0] = secret.params.q[0]
    with pytest.raises(ValueError, match="residue of limb 0"):
        decrypt(secret, replace(x, b=b))


def test_insecure_files_need_a_word(tmp_path: Path) -> None:
    """Toy parameters are refused in matrices of every format."""
    for made in map(fresh, samples.ENCRYPT):
        kind = type(made)
        made.save(tmp_path / "x")
        for asked in ({}, {"security": 192}):
            with pytest.raises(SecurityError, match="less secure"):
                kind.load(tmp_path / "x", **asked)
        kind.load(tmp_path / "x", insecure=True)
