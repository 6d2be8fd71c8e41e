"""Evaluation keys in files and directories: half-size, lazily expanded, replaced whole or not at all."""

from __future__ import annotations

import errno
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cipherblas.common.errors import (
    FormatError,
    MemoryBudgetError,
    MismatchError,
    MissingKeyError,
    ParameterError,
    SecurityError,
    StorageError,
)
from cipherblas.crypto import files, keys
from cipherblas.crypto.keys import EvaluationKeys, Galois, KeyId, KeyRequest, SecretKey, generation, storage
from cipherblas.crypto.keys.key_id import FromPlace, ToPlace
from cipherblas.crypto.keys.switching import stored_shape
from cipherblas.crypto.params import Parameters, make_parameters
from tests.support.key_samples import encapsulation, shared_request

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")

REQUEST = KeyRequest.of_galois({5: 5, 25: 3, 125: 2, 2047: 1}, relinearise=4)
KEYS = tuple(REQUEST.in_order())
SMALL = 100_000  # bytes per part: some parts hold one key, some more


@pytest.fixture(scope="module")
def made(toy_parameters: Parameters) -> EvaluationKeys:
    return keys.make_evaluation_keys(keys.generate_secret(toy_parameters, "program"), REQUEST)


def assert_same(found: EvaluationKeys, expected: EvaluationKeys) -> None:
    assert found.params == expected.params
    assert found.program_id == expected.program_id
    assert found.key_id == expected.key_id
    assert found.request == expected.request
    for key in KEYS:
        assert found.key(key).seed == expected.key(key).seed
        np.testing.assert_array_equal(found.get(key, 1), expected.get(key, 1))
        assert found.get(key, 1).ctypes.data % 64 == 0


@pytest.mark.parametrize("part_bytes", [SMALL, 1 << 30])
@pytest.mark.parametrize("lazy", [False, True])
def test_round_trip(made: EvaluationKeys, tmp_path: Path, part_bytes: int, lazy: bool) -> None:
    made.save(tmp_path / "keys", part_bytes=part_bytes)
    assert (tmp_path / "keys").is_dir() == (part_bytes == SMALL)
    assert [file.name for file in tmp_path.iterdir()] == ["keys"]
    found = EvaluationKeys.load(tmp_path / "keys", lazy=lazy, insecure=True)
    assert bool(found._stored) == lazy
    assert_same(found, made)


def _stored_bytes(made: EvaluationKeys, key: KeyId, limbs: int) -> int:
    return 8 * math.prod(stored_shape(made.params, key, limbs))


def test_one_half_of_a_key_is_stored(made: EvaluationKeys, tmp_path: Path) -> None:
    made.save(tmp_path / "keys")
    size = (tmp_path / "keys").stat().st_size
    half = sum(_stored_bytes(made, key, limbs) for key, limbs in made.request.limbs.items())
    assert half < size < half + 4096


def test_parts_are_small(made: EvaluationKeys, tmp_path: Path) -> None:
    made.save(tmp_path / "keys", part_bytes=SMALL)
    parts = sorted((tmp_path / "keys").glob("part-*"))
    assert 1 < len(parts) < len(KEYS)
    largest = max(_stored_bytes(made, key, limbs) for key, limbs in made.request.limbs.items())
    assert all(part.stat().st_size < max(SMALL, largest) + 4096 for part in parts)


def test_a_directory_stays_a_directory(made: EvaluationKeys, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    made.save(tmp_path / "keys")
    assert (tmp_path / "keys" / storage.MANIFEST).exists()
    assert_same(EvaluationKeys.load(tmp_path / "keys", insecure=True), made)


def test_progress(made: EvaluationKeys, tmp_path: Path) -> None:
    made.save(tmp_path / "keys", part_bytes=SMALL)
    seen: list[tuple[int, int]] = []
    EvaluationKeys.load(
        tmp_path / "keys", progress=lambda done, total: seen.append((done, total)), insecure=True
    )
    assert seen == [(done, len(KEYS)) for done in range(1, len(KEYS) + 1)]


def test_saving_lazily_loaded_keys(made: EvaluationKeys, tmp_path: Path) -> None:
    made.save(tmp_path / "keys", part_bytes=SMALL)
    EvaluationKeys.load(tmp_path / "keys", lazy=True, insecure=True).save(tmp_path / "keys", part_bytes=SMALL)
    assert_same(EvaluationKeys.load(tmp_path / "keys", insecure=True), made)


def test_a_lazy_key_that_is_not_there(made: EvaluationKeys, tmp_path: Path) -> None:
    made.save(tmp_path / "keys")
    found = EvaluationKeys.load(tmp_path / "keys", lazy=True, insecure=True)
    with pytest.raises(MissingKeyError, match="rotation by 4"):
        found.get(Galois(625), 1)
    with pytest.raises(MissingKeyError, match="fewer limbs"):
        found.get(Galois(25), 4)
    assert len(found._keys) == 0  # neither was read for the answer


@pytest.mark.parametrize("part_bytes", [SMALL, 1 << 30])
def test_keys_written_while_they_are_made(
    toy_secret: SecretKey, tmp_path: Path, part_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[KeyId, Any] = {}
    make = generation.make_switching_key

    def spy(secret: SecretKey, key: KeyId, limbs: int, weights: Any = None) -> Any:
        made[key] = make(secret, key, limbs)
        return made[key]

    monkeypatch.setattr(generation, "make_switching_key", spy)
    seen: list[tuple[int, int]] = []
    keys.write_evaluation_keys(
        toy_secret,
        REQUEST,
        tmp_path / "keys",
        lambda done, total: seen.append((done, total)),
        part_bytes=part_bytes,
    )
    assert seen == [(done, len(KEYS)) for done in range(1, len(KEYS) + 1)]
    found = EvaluationKeys.load(tmp_path / "keys", insecure=True)
    assert_same(found, EvaluationKeys(toy_secret.params, "", made.values(), toy_secret.key_id))


def test_keys_are_not_made_for_a_file_that_cannot_be_written(
    toy_parameters: Parameters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "make_switching_key", lambda *_: pytest.fail("a key was made"))
    secret = keys.generate_secret(toy_parameters)
    for part_bytes in (1 << 30, SMALL):
        with pytest.raises(StorageError, match="No such file"):
            keys.write_evaluation_keys(secret, REQUEST, tmp_path / "gone" / "keys", part_bytes=part_bytes)


# ------------------------------------------------------------------------------------------- interruptions


def everything(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.parametrize("failing", range(1, 6))
@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_an_interrupted_save_leaves_the_earlier_set(
    made: EvaluationKeys,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    earlier: bool,
    failing: int,
    failure: BaseException,
) -> None:
    target = tmp_path / "keys"
    if earlier:
        made.save(target, part_bytes=SMALL)
    before = everything(tmp_path)
    replaced = 0
    replace = os.replace

    def fail(*details: Any) -> None:
        nonlocal replaced
        replaced += 1
        if replaced == failing:
            raise failure
        replace(*details)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(StorageError if isinstance(failure, OSError) else KeyboardInterrupt):
            made.save(target, part_bytes=SMALL)
    assert everything(tmp_path) == before
    assert target.exists() == earlier
    made.save(target, part_bytes=SMALL)
    assert_same(EvaluationKeys.load(target, insecure=True), made)
    assert len(list(target.glob("part-*"))) == len(storage._groups(made.params, made._limbs(), SMALL))


def test_saving_where_a_file_is(made: EvaluationKeys, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("mine")
    with pytest.raises(StorageError, match="expected a directory or a free name, got a file"):
        made.save(tmp_path / "keys", part_bytes=SMALL)
    assert (tmp_path / "keys").read_text() == "mine"
    with pytest.raises(StorageError):
        made.save(tmp_path / "gone" / "keys", part_bytes=SMALL)
    with pytest.raises(ParameterError):
        made.save(tmp_path / "other", part_bytes=0)
    assert [file.name for file in tmp_path.iterdir()] == ["keys"]


# ------------------------------------------------------------------------------------------- damaged sets


def test_a_directory_without_manifest(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=storage.MANIFEST):
        EvaluationKeys.load(tmp_path, insecure=True)


def test_a_missing_part(made: EvaluationKeys, tmp_path: Path) -> None:
    made.save(tmp_path / "keys", part_bytes=SMALL)
    next((tmp_path / "keys").glob("part-*")).unlink()
    with pytest.raises(StorageError, match="No such file"):
        EvaluationKeys.load(tmp_path / "keys", insecure=True)


def test_a_manifest_is_not_a_key_file(made: EvaluationKeys, tmp_path: Path) -> None:
    made.save(tmp_path / "keys", part_bytes=SMALL)
    with pytest.raises(FormatError, match="is a manifest"):
        EvaluationKeys.load(tmp_path / "keys" / storage.MANIFEST, insecure=True)


def test_parts_of_different_sets(made: EvaluationKeys, tmp_path: Path) -> None:
    made.save(tmp_path / "keys", part_bytes=SMALL)
    made.save(tmp_path / "other", part_bytes=SMALL)
    mine, other = (sorted((tmp_path / name).glob("part-*")) for name in ("keys", "other"))
    content = mine[1].read_bytes()
    for intruder in (other[1], mine[0]):
        mine[1].write_bytes(intruder.read_bytes())
        with pytest.raises(MismatchError, match="another key set"):
            EvaluationKeys.load(tmp_path / "keys", insecure=True)
    mine[1].write_bytes(content)
    assert_same(EvaluationKeys.load(tmp_path / "keys", insecure=True), made)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_flipped_bit_in_a_key(made: EvaluationKeys, tmp_path: Path, lazy: bool) -> None:
    made.save(tmp_path / "keys")
    raw = bytearray((tmp_path / "keys").read_bytes())
    raw[len(raw) // 2] ^= 4
    (tmp_path / "keys").write_bytes(raw)

    def use() -> None:
        found = EvaluationKeys.load(tmp_path / "keys", lazy=lazy, insecure=True)
        for key in KEYS:
            found.get(key, 1)

    with pytest.raises(FormatError, match="damaged"):
        use()


def _set(name: str, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda header, tensors: header.__setitem__(name, value)


def _drop(name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda header, tensors: tensors.pop(name)


def _replace(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda header, tensors: tensors.__setitem__(name, change(tensors[name]))


def _residue_at_modulus(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array[0, 0, 5] = 1 << 50
    return array


@pytest.mark.parametrize(
    "lie",
    [
        _set("keys", None),
        _set("keys", "galois"),
        _set("keys", []),
        _set("keys", [[5, 5]]),
        _set("keys", [[0, 4], [5, 5], [25, 3], [125, 2], [2047, 1], [5, 5]]),
        _set("keys", [[0, 4], [5, 5], [25, 3], [125, 2], [2049, 1]]),
        _set("keys", [[0, 4], [5, 5], [25, 3], [126, 2], [2047, 1]]),
        _set("keys", [[0, 4], [5, 6], [25, 3], [125, 2], [2047, 1]]),
        _set("keys", [[0, 4], [5, 4], [25, 3], [125, 2], [2047, 1]]),
        _set("keys", [[0, 4], [5, 5], [25, 3], [125, 2], [2047, -1]]),
        _set("keys", [[0, 4], [5, 5], [25, 3], [125, 2], [2047, True]]),
        _set("keys", [[0, 4], [5, 5], [25, 3], [125, 2], [2047]]),
        _set("keys", [[0, 4], [5, 5], [25, 3], [125, 2], {"a": 1}]),
        _set("program_id", 5),
        _set("key_id", None),
        _drop("seeds"),
        _drop("galois-5"),
        _replace("seeds", lambda array: array[:-1]),
        _replace("seeds", lambda array: array[:, :-1]),
        _replace("galois-5", lambda array: array[:, :-1]),
        _replace("galois-5", lambda array: array.astype(np.int64)),
        _replace("galois-5", _residue_at_modulus),
    ],
)
def test_key_files_that_lie(
    made: EvaluationKeys, tmp_path: Path, lie: Callable[[dict[str, Any], dict[str, Any]], None]
) -> None:
    made.save(tmp_path / "keys")
    header, tensors = files.read(tmp_path / "keys", "evaluation-keys", insecure=True)
    header = {name: header[name] for name in ("program_id", "key_id", "set", "part", "keys")}
    files.write(tmp_path / "again", "evaluation-keys", header, tensors, parameters=made.params)
    assert_same(EvaluationKeys.load(tmp_path / "again", insecure=True), made)
    lie(header, tensors)
    files.write(tmp_path / "lie", "evaluation-keys", header, tensors, parameters=made.params)
    with pytest.raises(FormatError):
        EvaluationKeys.load(tmp_path / "lie", insecure=True)


@pytest.mark.parametrize(
    "parts",
    [
        None,
        [],
        "part",
        [5],
        ["../secret.key"],
        ["/etc/passwd"],
        ["part-0.safetensors"],
        ["manifest.safetensors"],
    ],
)
def test_manifests_that_lie(made: EvaluationKeys, tmp_path: Path, parts: Any) -> None:
    header = {"program_id": "", "key_id": "", "set": "0" * 16, "parts": parts}
    files.write(tmp_path / storage.MANIFEST, "evaluation-keys", header, {}, parameters=made.params)
    with pytest.raises(FormatError, match="names no parts"):
        EvaluationKeys.load(tmp_path, insecure=True)


def test_keys_larger_than_memory(
    made: EvaluationKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.save(tmp_path / "keys")
    monkeypatch.setattr(KeyRequest, "nbytes", lambda self, params: 1 << 60)
    with pytest.raises(MemoryBudgetError, match="Expanding"):
        EvaluationKeys.load(tmp_path / "keys", insecure=True)


SHARED = shared_request(3, {5: 2, 25: 4}, raised=3, joining=1, parting=2)


@pytest.mark.parametrize(
    "shared", [KeyRequest(), SHARED, shared_request(1, {5: 1}), shared_request(5, {}, joining=5)]
)
def test_keys_of_other_secrets_are_stored_and_carried(
    toy_parameters: Parameters, tmp_path: Path, shared: KeyRequest
) -> None:
    """The switch to the sparse secret has parameters of its own: one limb, two small special primes. Those of a shared
    a part have several b parts."""
    ordinary = KeyRequest({**KeyRequest.of_galois({5: 2}, relinearise=3).limbs, **encapsulation(4)})
    request = ordinary.joined(shared)
    assert request.joined(KeyRequest(encapsulation(5))).encapsulation == 5
    secret = keys.generate_secret(toy_parameters)
    made = keys.make_evaluation_keys(secret, request)
    assert made.request == request and len(made) == len(request) == 4 + len(shared)
    assert made.nbytes == request.nbytes(toy_parameters)
    assert made.nbytes == sum(made.key(key).data.nbytes for key in request.limbs)
    for part_bytes in (1, 1 << 30):
        path = tmp_path / f"keys-{part_bytes}"
        made.save(path, part_bytes=part_bytes)
        for lazy in (True, False):
            found = EvaluationKeys.load(path, lazy=lazy, insecure=True)
            carried = pickle.loads(pickle.dumps(found))
            for one in (found, carried):
                assert one.request == request
                for key in request.limbs:
                    np.testing.assert_array_equal(one.key(key).data, made.key(key).data)
    with pytest.raises(MissingKeyError, match="the switch from the sparse secret was made for fewer limbs"):
        made.check(KeyRequest(encapsulation(5)))
    few = keys.make_evaluation_keys(secret, KeyRequest.of_galois({5: 2}))
    with pytest.raises(MissingKeyError, match="no evaluation key for the switch to the sparse secret"):
        few.check(KeyRequest(encapsulation(4)))


def test_shared_keys_are_for_all_places(toy_parameters: Parameters, tmp_path: Path) -> None:
    """One seed for all b parts; a set that lacks a place, or has two numbers of ciphertexts, is refused."""
    secret = keys.generate_secret(toy_parameters)
    made = keys.make_evaluation_keys(secret, SHARED)
    assert len(made.request) == len(SHARED) == 2 + 2 + 3 + 3
    every = [made.key(key) for key in SHARED.in_order()]
    assert len({key.seed for key in every}) == len(every)
    for key in every:
        if not isinstance(key.id, Galois):
            with pytest.raises(ParameterError, match="are missing"):
                EvaluationKeys(toy_parameters, "", [one for one in every if one is not key])
    with pytest.raises(ParameterError, match="keys for one number of ciphertexts"):
        KeyRequest({**SHARED.limbs, Galois(5, shared=5): 1}).check(toy_parameters)
    with pytest.raises(ParameterError, match="There is no such place"):
        KeyRequest({**SHARED.limbs, ToPlace(3, shared=3): 1}).check(toy_parameters)
    with pytest.raises(ParameterError, match="have other numbers of limbs"):
        KeyRequest({**SHARED.limbs, ToPlace(2, shared=3): 2}).check(toy_parameters)
    both = SHARED.joined(shared_request(3, {5: 5, 125: 1}, parting=4))
    assert both == shared_request(3, {5: 5, 25: 4, 125: 1}, raised=3, joining=1, parting=4)
    for wrong in (shared_request(2, {5: 1}), shared_request(3, {4: 1}), shared_request(3, {}, joining=99)):
        with pytest.raises(ParameterError):
            wrong.check(toy_parameters)
    made.save(tmp_path / "keys")
    found = EvaluationKeys.load(tmp_path / "keys", insecure=True)
    for place in range(3):
        key = ToPlace(place, shared=3)
        np.testing.assert_array_equal(found.get(key, 1), made.key(key).data)
    with pytest.raises(MissingKeyError, match="place 0 of a shared a part was made for fewer limbs"):
        found.get(FromPlace(0, shared=3), 3)
    with pytest.raises(MissingKeyError, match=r"conjugation .* with a shared a part"):
        found.get(Galois(2 * toy_parameters.n - 1, shared=3), 1)
    with pytest.raises(MissingKeyError, match="no evaluation key for rotation by 1 "):
        made.get(Galois(5, shared=5), 1)


def test_a_sparse_secret_has_its_weight_and_goes_with_the_key(toy_parameters: Parameters) -> None:
    secret = keys.generate_secret(toy_parameters)
    sparse = secret.sparse_coefficients()
    assert np.abs(sparse).sum() == (sparse != 0).sum() == 32
    assert set(sparse) == {-1, 0, 1}  # but once in 2^31 times
    np.testing.assert_array_equal(sparse, secret.sparse_coefficients())
    other = keys.generate_secret(toy_parameters).sparse_coefficients()
    assert (sparse != other).any()
    secret.close()
    with pytest.raises(SecurityError):
        secret.sparse_coefficients()


def test_sparse_secrets_need_a_large_ring() -> None:
    """Below N = 2^15 no modulus that is large enough leaves 128 bits."""
    for n, allowed in ((1 << 14, False), (1 << 15, True), (1 << 16, True)):
        params = make_parameters(n, [50.0, 40.0], scale_bits=40.0)
        if allowed:
            small = params.family.sparse
            assert small.q == params.q[:1] and small.security == 128
            assert small.log_q + small.log_p <= 105
            assert not set(small.p) & {*params.q, *params.p}
        else:
            with pytest.raises(SecurityError, match=r"sparse secret .* N = 16384"):
                KeyRequest(encapsulation(2)).check(params)
    strong = make_parameters(1 << 15, [50.0, 40.0], scale_bits=40.0, security=192)
    with pytest.raises(SecurityError, match="192-bit"):
        _ = strong.family.sparse
