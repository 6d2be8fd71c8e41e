"""The secret key stays where it belongs; evaluation keys satisfy their equation and hold public material only."""

from __future__ import annotations

import copy
import dataclasses
import gc
import json
import math
import os
import pickle
import stat
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cipherblas.common.errors import (
    CipherblasError,
    DTypeError,
    MemoryBudgetError,
    MismatchError,
    MissingKeyError,
    ParameterError,
    RangeError,
    SecurityError,
    SecurityWarning,
    ShapeError,
)
from cipherblas.crypto import files, keys, randomness
from cipherblas.crypto.keys import (
    RELINEARISATION,
    EvaluationKeys,
    Galois,
    KeyId,
    KeyRequest,
    SecretKey,
    SwitchingKey,
)
from cipherblas.crypto.keys.switching import uniform_part
from cipherblas.crypto.params import Parameters
from cipherblas.rlwe.matrices.encryption import decrypt as decrypt_matrix
from cipherblas.rlwe.matrices.encryption import encrypt_rows
from tests.support.key_samples import automorphism, key_errors, moduli, residue_bits

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")

N = 1 << 10
CONJUGATION = 2 * N - 1
REQUEST = KeyRequest.of_galois({5: 5, 25: 3, CONJUGATION: 1}, relinearise=4)


@pytest.fixture(scope="module")
def evaluation_keys(toy_secret: SecretKey) -> EvaluationKeys:
    return keys.make_evaluation_keys(toy_secret, REQUEST)


# ------------------------------------------------------------------------------------------- the secret key


def test_secret_is_ternary_and_from_its_seed(toy_parameters: Parameters) -> None:
    secret = SecretKey(toy_parameters, bytes(range(32)))
    coefficients = secret.coefficients()
    assert set(np.unique(coefficients)) == {-1, 0, 1}
    assert coefficients.shape == (N,)
    # Independent of the key class: bytes of the stream below 255, modulo 3, minus 1.
    drawn = np.empty(2 * N, np.uint8)
    randomness.keystream(bytes(range(32)), randomness.Purpose.SECRET, 0, drawn)
    accepted = drawn[drawn < 255][:N].astype(np.int64) % 3 - 1
    np.testing.assert_array_equal(coefficients, accepted)
    assert np.array_equal(SecretKey(toy_parameters, bytes(range(32))).coefficients(), coefficients)
    assert not np.array_equal(SecretKey(toy_parameters, bytes(32)).coefficients(), coefficients)
    with pytest.raises(ParameterError, match="32 bytes"):
        SecretKey(toy_parameters, bytes(31))


def test_secrets_differ(toy_parameters: Parameters) -> None:
    first, second = keys.generate_secret(toy_parameters), keys.generate_secret(toy_parameters)
    assert not np.array_equal(first.coefficients(), second.coefficients())


def shown(value: Any) -> str:
    """Everything that printing, formatting or logging an object could put into a text."""
    return f"{value}{value!r}{value!s:>9}%s" % value


def test_nothing_of_the_secret_is_shown(toy_parameters: Parameters) -> None:
    seed = b"SEEDSEEDSEEDSEEDSEEDSEEDSEEDSEED"
    secret = SecretKey(toy_parameters, seed, "program")
    text = shown(secret) + shown([secret]) + shown({"key": secret})
    for leak in ("SEED", seed.hex()[:16], "[-1", "array", str(list(seed))[1:12]):
        assert leak not in text
    assert not hasattr(secret, "__dict__")
    assert f"N={N}" in text


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_the_secret_is_not_pickled(toy_secret: SecretKey, protocol: int) -> None:
    with pytest.raises(SecurityError):
        pickle.dumps(toy_secret, protocol)
    with pytest.raises(SecurityError):
        pickle.dumps({"deep": [toy_secret]}, protocol)


def test_the_secret_is_not_copied(toy_secret: SecretKey) -> None:
    for attempt in (copy.copy, copy.deepcopy, lambda value: copy.deepcopy([value])):
        with pytest.raises(SecurityError):
            attempt(toy_secret)
    with pytest.raises(SecurityError):
        toy_secret.__getstate__()
    with pytest.raises(TypeError):
        json.dumps(toy_secret)
    with pytest.raises(TypeError):
        np.asarray(toy_secret, np.uint64)


def test_closing_overwrites(toy_parameters: Parameters, tmp_path: Path) -> None:
    with keys.generate_secret(toy_parameters) as secret:
        arrays = [secret.coefficients(), secret.ntt(), secret._seed]
        assert all(array.any() for array in arrays)
    assert not any(array.any() for array in arrays)
    assert secret.closed
    assert "closed" in repr(secret)
    secret.close()
    uses: list[Any] = [
        secret.coefficients,
        secret.ntt,
        lambda: secret.save(tmp_path / "key"),
        lambda: keys.encrypt(secret, np.zeros(N, np.int64), 2),
        lambda: keys.decrypt_coefficients(secret, np.zeros((2, 1, N), np.uint64)),
        lambda: keys.make_evaluation_keys(secret, REQUEST),
        lambda: keys.generate_public_key(secret),
    ]
    for use in uses:
        with pytest.raises(SecurityError, match="closed"):
            use()
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_secret_is_overwritten(toy_parameters: Parameters) -> None:
    secret = keys.generate_secret(toy_parameters)
    arrays = [
        secret._coefficients,
        secret._ntt,
        secret._seed,
    ]  # the memory itself: what is handed out keeps the key
    lent = secret.coefficients()
    del secret
    gc.collect()
    assert all(array.any() for array in arrays)
    del lent
    gc.collect()
    assert not any(array.any() for array in arrays)


@pytest.mark.parametrize("part", ["ntt", "coefficients"])
def test_an_array_of_a_temporary_key_stays_that_of_the_key(toy_parameters: Parameters, part: str) -> None:
    """It was overwritten with its key, and then one encrypted under the secret 0."""
    seed = randomness.fresh_seed()
    array = getattr(SecretKey(toy_parameters, seed), part)()
    view = getattr(SecretKey(toy_parameters, seed), part)()[..., :8]
    gc.collect()
    kept = SecretKey(toy_parameters, seed)
    expected = getattr(kept, part)()
    assert expected.any()
    np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(view, expected[..., :8])


def test_a_key_that_is_closed_while_it_is_used(
    toy_parameters: Parameters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that was made with an overwritten secret is handed out."""
    secret = keys.generate_secret(toy_parameters)

    class Closing:
        """The core, with a thread that closes the key in the middle of every call."""

        def __init__(self, context: Any) -> None:
            self.context = context

        def __getattr__(self, name: str) -> Any:
            found = getattr(self.context, name)
            if name not in ("encrypt_symmetric", "phase", "switching_key", "encrypt_rows", "decrypt_rows"):
                return found

            def call(*arguments: Any) -> Any:
                secret.close()
                return found(*arguments)

            return call

    context = toy_parameters.context()
    encrypted = keys.encrypt(secret, np.zeros(N, np.int64), 2)
    rows = encrypt_rows(secret, np.ones((2, 3)), 2.0**20, 2)
    uses: list[Any] = [
        lambda: keys.encrypt(secret, np.zeros(N, np.int64), 2),
        lambda: keys.decrypt_coefficients(secret, encrypted.expand()),
        lambda: keys.make_evaluation_keys(secret, REQUEST),
        lambda: keys.generate_public_key(secret),
        lambda: encrypt_rows(secret, np.ones((2, 3)), 2.0**20, 2),
        lambda: decrypt_matrix(secret, rows),
    ]
    for use in uses:
        with monkeypatch.context() as patched:
            secret = keys.generate_secret(toy_parameters)
            rows = dataclasses.replace(rows, key_id=secret.key_id)
            patched.setattr(Parameters, "context", lambda _: Closing(context))
            with pytest.raises(SecurityError, match="closed"):
                use()
            assert secret.closed


@pytest.mark.parametrize("coefficient", [2**62, 2**63 - 1, -(2**62), -(2**63)])
def test_messages_leave_room_for_the_error(toy_parameters: Parameters, coefficient: int) -> None:
    """Error and message are added as 64-bit integers: 2^63 - 1 and an error of 1 made -2^63."""
    secret = keys.generate_secret(toy_parameters)
    message = np.zeros(N, np.int64)
    message[3] = coefficient
    for key in (secret, keys.generate_public_key(secret)):
        with pytest.raises(RangeError, match="2\\^62"):
            keys.encrypt(key, message, toy_parameters.limbs)
        message[3] = (2**62 - 1) * (1 if coefficient > 0 else -1)
        found = keys.decrypt_coefficients(secret, keys.encrypt(key, message, toy_parameters.limbs).expand())
        np.testing.assert_allclose(found, message, atol=2000)
        message[3] = coefficient


def test_key_file(toy_parameters: Parameters, tmp_path: Path) -> None:
    secret = keys.generate_secret(toy_parameters, "program")
    umask = os.umask(0)
    try:
        secret.save(tmp_path / "secret.key")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600
    again = SecretKey.load(tmp_path / "secret.key", fingerprint=toy_parameters.fingerprint(), insecure=True)
    assert again.params == toy_parameters
    assert again.program_id == "program"
    assert again.key_id == secret.key_id and len(again.key_id) == 32
    np.testing.assert_array_equal(again.coefficients(), secret.coefficients())
    with pytest.raises(MismatchError):
        SecretKey.load(tmp_path / "secret.key", fingerprint="0" * 64, insecure=True)


def test_an_open_key_file_warns(toy_secret: SecretKey, tmp_path: Path) -> None:
    toy_secret.save(tmp_path / "secret.key")
    (tmp_path / "secret.key").chmod(0o644)
    with pytest.warns(SecurityWarning, match="0644"):
        SecretKey.load(tmp_path / "secret.key", insecure=True)


def test_no_error_tells_the_secret(toy_parameters: Parameters, tmp_path: Path) -> None:
    seed = b"SEEDSEEDSEEDSEEDSEEDSEEDSEEDSEED"
    SecretKey(toy_parameters, seed).save(tmp_path / "key")
    raw = (tmp_path / "key").read_bytes()
    assert seed in raw
    texts = []
    for position in range(0, len(raw), 7):
        damaged = bytearray(raw)
        damaged[position] ^= 0x10
        (tmp_path / "bad").write_bytes(damaged)
        (tmp_path / "bad").chmod(0o600)
        with pytest.raises(CipherblasError) as caught:
            SecretKey.load(tmp_path / "bad", insecure=True)
        texts.append(f"{caught.value}{caught.value!r}{caught.value.args}{caught.value.__cause__}")
    assert not any("SEED" in text or "53, 45" in text or seed.hex()[:16] in text for text in texts)


# ------------------------------------------------------------------------------------------- evaluation keys


@pytest.mark.parametrize(("key", "limbs"), [*REQUEST.limbs.items()])
def test_keys_satisfy_their_equation(
    toy_secret: SecretKey, evaluation_keys: EvaluationKeys, key: KeyId, limbs: int
) -> None:
    params = toy_secret.params
    data = evaluation_keys.get(key, limbs)
    bits = sum(residue_bits(moduli(params, limbs)))
    assert data.shape == (params.digits(limbs), 2, N * bits // 64)
    assert data.nbytes == params.key_bytes(limbs)
    assert data.dtype == np.uint64
    assert data.flags.c_contiguous
    assert data.ctypes.data % 64 == 0
    errors = key_errors(toy_secret, key, limbs, data)
    assert abs(errors).max() <= 32
    assert abs(errors.std() / 3.2 - 1) < 6 / math.sqrt(2 * errors.size)


def test_the_a_parts_are_those_of_the_public_seed(evaluation_keys: EvaluationKeys) -> None:
    for galois, limbs in REQUEST.galois.items():
        key = evaluation_keys.key(Galois(galois))
        expected = uniform_part(evaluation_keys.params, key.seed, limbs)
        for part, words in zip(key.data[:, 1], expected, strict=True):
            np.testing.assert_array_equal(evaluation_keys.params.context().unpack_key(part), words)
    seeds = {evaluation_keys.key(key).seed for key in REQUEST.limbs}
    assert len(seeds) == 4


def test_keys_rotate(toy_secret: SecretKey, evaluation_keys: EvaluationKeys) -> None:
    params = toy_secret.params
    context = params.context()
    message = np.random.default_rng(3).integers(-(2**40), 2**40, N)
    for galois, limbs in REQUEST.galois.items():
        key = evaluation_keys.get(Galois(galois), limbs)
        fresh = keys.encrypt(toy_secret, message, limbs).expand()
        (moved,) = context.linear_transform([fresh], [(0, 0, galois, 0, -1)], [key], [], 1, False, "limb")
        error = keys.decrypt_coefficients(toy_secret, moved) - automorphism(message, galois)
        # Fresh error, error of ModDown (about sqrt(N/18)), and of the key: far below 2^40 if it is the key.
        assert abs(error).max() < 2**10


def test_every_stream_is_used_once(toy_secret: SecretKey, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[tuple[bytes, int, int]] = []
    whole = randomness.keystreams

    def spy(seed: Any, purpose: Any, indices: Any, targets: Any) -> None:
        used.extend((bytes(seed), int(purpose), index) for index in indices)
        whole(seed, purpose, indices, targets)

    monkeypatch.setattr(randomness, "keystreams", spy)
    made = keys.make_evaluation_keys(toy_secret, REQUEST)
    public = keys.generate_public_key(toy_secret)
    message = np.zeros(N, np.int64)
    fresh = [keys.encrypt(key, message, 2) for key in (toy_secret, toy_secret, public, public)]
    repeated = {stream for stream in used if used.count(stream) > 1}
    # Only the public key expands its seed twice: when it is made, and in the object.
    assert {purpose for _, purpose, _ in repeated} <= {randomness.Purpose.PUBLIC_KEY_UNIFORM}
    published = {made.key(key).seed for key in REQUEST.limbs}
    published |= {one.seed for one in fresh if one.seed is not None} | {public._seed}
    private = {
        seed
        for seed, purpose, _ in used
        if purpose in (randomness.Purpose.NOISE, randomness.Purpose.EPHEMERAL)
    }
    assert len(published) == 4 + 2 + 1
    assert len(private) == 4 + 1 + 2 + 2 * 2
    assert not published & private


def test_asking_for_keys(evaluation_keys: EvaluationKeys) -> None:
    assert len(evaluation_keys) == 4
    assert evaluation_keys.request == REQUEST
    assert evaluation_keys.nbytes == sum(evaluation_keys.key(key).data.nbytes for key in REQUEST.limbs)
    assert evaluation_keys.relinearisation(4) is evaluation_keys.get(RELINEARISATION, 1)
    evaluation_keys.check(REQUEST)
    evaluation_keys.check(KeyRequest.of_galois({25: 2}))
    with pytest.raises(
        MissingKeyError, match=r"rotation by 3 \(Galois element 125\).*got 4 keys \(.*rotation by 1"
    ):
        evaluation_keys.get(Galois(125), 1)
    with pytest.raises(MissingKeyError, match=r"rotation by 2 .*fewer limbs .expected at least 4, got 3"):
        evaluation_keys.get(Galois(25), 4)
    with pytest.raises(MissingKeyError, match="relinearisation"):
        evaluation_keys.relinearisation(5)
    for asked in (({125: 1},), ({CONJUGATION: 2},), ({}, 5)):
        request = KeyRequest.of_galois(*asked)
        with pytest.raises(MissingKeyError):
            evaluation_keys.check(request)
    with pytest.raises(MissingKeyError, match="conjugation"):
        evaluation_keys.get(Galois(CONJUGATION), 2)


def test_progress_and_program(toy_parameters: Parameters) -> None:
    secret = keys.generate_secret(toy_parameters, "program")
    seen: list[tuple[int, int]] = []
    made = keys.make_evaluation_keys(secret, REQUEST, lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert made.program_id == "program"
    assert len(keys.make_evaluation_keys(secret, KeyRequest())) == 0


@pytest.mark.parametrize(
    "request_",
    [
        KeyRequest.of_galois({4: 1}),
        KeyRequest.of_galois({1: 1}),
        KeyRequest.of_galois({2 * N + 1: 1}),
        KeyRequest.of_galois({-5: 1}),
        KeyRequest.of_galois({5: 0}),
        KeyRequest.of_galois({5: 6}),
        KeyRequest.of_galois({}, 6),
        KeyRequest.of_galois({}, 0),
    ],
    ids=str,
)
def test_requests_that_cannot_be_met(toy_secret: SecretKey, request_: KeyRequest) -> None:
    with pytest.raises(ParameterError):
        keys.make_evaluation_keys(toy_secret, request_)


def test_keys_need_special_primes() -> None:
    secret = keys.generate_secret(Parameters(N, (12289,), (), 1, 6.0, 0, insecure=True))
    with pytest.raises(ParameterError, match="special primes"):
        keys.make_evaluation_keys(secret, KeyRequest.of_galois({5: 1}))


def test_more_keys_than_memory(toy_secret: SecretKey, monkeypatch: pytest.MonkeyPatch) -> None:
    request = KeyRequest.of_galois(dict.fromkeys(range(3, 2 * N, 2), 5), 5)
    assert request.nbytes(toy_secret.params) == N * toy_secret.params.key_bytes(5)
    monkeypatch.setattr(KeyRequest, "nbytes", lambda self, params: 1 << 60)
    with pytest.raises(MemoryBudgetError):
        keys.make_evaluation_keys(toy_secret, KeyRequest.of_galois({5: 5}))


def test_requests_grow() -> None:
    request = KeyRequest.of_galois({5: 4})
    for limbs in (2, 4, 3):
        request = request.joined(KeyRequest({RELINEARISATION: limbs}))
    assert request == KeyRequest.of_galois({5: 4}, 4)
    assert len(request) == 2


@pytest.mark.parametrize(
    ("galois", "words"),
    [
        (5, "rotation by 1 "),
        (pow(5, -1, 2 * N), "rotation by -1 "),
        (pow(5, 200, 2 * N), "rotation by 200 "),
        (CONJUGATION, "conjugation "),
        (2 * N - 25, "conjugation after rotation by 2 "),
    ],
)
def test_galois_elements_in_words(galois: int, words: str) -> None:
    assert Galois(galois).describe(N) == f"{words}(Galois element {galois})"


# ------------------------------------------------------------------------------------------- public by type


def test_evaluation_keys_take_no_secret(toy_secret: SecretKey, toy_parameters: Parameters) -> None:
    for intruder in (toy_secret, toy_secret.ntt(), None):
        with pytest.raises(DTypeError):
            EvaluationKeys(toy_parameters, "", [intruder])  # type: ignore[list-item]
    data = np.zeros((1, 2, toy_parameters.key_words(1)), np.uint64)
    with pytest.raises(ShapeError):
        EvaluationKeys(toy_parameters, "", [SwitchingKey(Galois(5), 2, bytes(32), data)])
    with pytest.raises(DTypeError):
        EvaluationKeys(toy_parameters, "", [SwitchingKey(Galois(5), 1, bytes(32), data.astype(np.int64))])
    with pytest.raises(ParameterError):
        EvaluationKeys(toy_parameters, "", [SwitchingKey(Galois(5), 1, bytes(32), data)] * 2)
    with pytest.raises(ParameterError):
        EvaluationKeys(toy_parameters, "", [SwitchingKey(Galois(4), 1, bytes(32), data)])


def reachable(start: object) -> list[object]:
    """All objects that can be reached from one, classes, functions and modules aside."""
    seen: dict[int, object] = {}
    waiting = [start]
    while waiting:
        here = waiting.pop()
        if id(here) in seen or isinstance(here, (type, types.ModuleType, types.FunctionType)):
            continue
        seen[id(here)] = here
        waiting += gc.get_referents(here)
        waiting += [value for value in (getattr(here, "base", None),) if isinstance(here, np.ndarray)]
    return list(seen.values())


def test_nothing_leads_from_evaluation_keys_to_the_secret(
    toy_secret: SecretKey, evaluation_keys: EvaluationKeys, tmp_path: Path
) -> None:
    evaluation_keys.save(tmp_path / "keys")
    for held in (evaluation_keys, EvaluationKeys.load(tmp_path / "keys", lazy=True, insecure=True)):
        found = reachable(held)
        assert not any(isinstance(one, SecretKey) for one in found)
        secrets = [
            toy_secret._seed.tobytes(),
            toy_secret.ntt()[0].tobytes(),
            toy_secret.coefficients().tobytes(),
        ]
        arrays = [one for one in found if isinstance(one, np.ndarray)]
        assert not any(secret in one.tobytes() for one in arrays for secret in secrets)
        assert not any(secret in one for one in found if isinstance(one, bytes) for secret in secrets)
    assert toy_secret in reachable([toy_secret])  # the search does find what is there


def test_a_secret_key_file_is_not_evaluation_keys(toy_secret: SecretKey, tmp_path: Path) -> None:
    toy_secret.save(tmp_path / "key")
    for load in (EvaluationKeys.load, keys.PublicKey.load):
        with pytest.raises(MismatchError, match="got secret-key"):
            load(tmp_path / "key")
    keys.make_evaluation_keys(toy_secret, KeyRequest.of_galois({}, 1)).save(tmp_path / "public")
    with pytest.raises(MismatchError, match="expected secret-key, got evaluation-keys"):
        SecretKey.load(tmp_path / "public", insecure=True)


def test_files_of_public_material_hold_no_secret(
    toy_secret: SecretKey, evaluation_keys: EvaluationKeys, tmp_path: Path
) -> None:
    evaluation_keys.save(tmp_path / "keys")
    keys.generate_public_key(toy_secret).save(tmp_path / "public")
    raw = (tmp_path / "keys").read_bytes() + (tmp_path / "public").read_bytes()
    secrets = [toy_secret._seed, toy_secret.coefficients(), *toy_secret.ntt()]
    for secret in secrets:
        assert secret.tobytes()[:32] not in raw
        assert secret.astype(np.int8).tobytes()[:32] not in raw or secret.dtype == np.uint64
    assert files.read(tmp_path / "keys", "evaluation-keys", insecure=True)[0]["security"] == 0
