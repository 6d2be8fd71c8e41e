"""What travels between processes pickles, with its arrays out of band; what holds a secret refuses."""

from __future__ import annotations

import copy
import io
import multiprocessing
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.memory import ALIGNMENT
from cipherblas.common.pickles import rebuilt
from cipherblas.crypto.keys import EvaluationKeys, FreshCiphertext, SecretKey, encrypt, make_evaluation_keys
from cipherblas.crypto.keys.key_id import Galois
from cipherblas.crypto.keys.request import KeyRequest
from cipherblas.crypto.params import make_parameters
from cipherblas.rlwe.matrices import CoefficientMatrix, SharedBatch, SharedRows
from cipherblas.rlwe.matrices.encryption import encrypt_rows
from cipherblas.roles import planned

MATRIX = np.linspace(-1, 1, 16 * 16).reshape(16, 16)


def carried(value: Any, offset: int = 0, readonly: bool = False) -> tuple[Any, int, int]:
    """What arrives where buffers lie at `offset` beyond a multiple of 64 bytes; bytes in the pickle, and beside it."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    moved = []
    for buffer in buffers:
        raw = buffer.raw()
        room = np.empty(raw.nbytes + 2 * ALIGNMENT, np.uint8)
        start = -room.ctypes.data % ALIGNMENT + offset
        room[start : start + raw.nbytes] = raw
        view = memoryview(room)[start : start + raw.nbytes]
        moved.append(view.toreadonly() if readonly else view)
    return pickle.loads(text, buffers=moved), len(text), sum(view.nbytes for view in moved)


@pytest.fixture(scope="module", params=["blocks", "rows", "tensors"])
def program(request: pytest.FixtureRequest) -> cb.Program:
    if request.param == "tensors":
        return cb.compile(lambda a: cb.square(MATRIX @ a), {"a": cb.secret(16)}, precision=1e-3)
    if request.param == "rows":
        return cb.compile(lambda a: MATRIX @ a - MATRIX, {"a": cb.secret(16, 16)}, form="rows")
    return cb.compile(
        lambda a, b: a @ b - MATRIX, {"a": cb.secret(16, 16), "b": cb.secret(16, 16)}, form="blocks"
    )


@pytest.fixture(scope="module")
def client(program: cb.Program) -> cb.Client:
    return program.client()


def values(program: cb.Program) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    return {name: rng.uniform(-1, 1, operand.shape) for name, operand in program.operands.items()}


def encrypted(client: cb.Client) -> dict[str, cb.EncryptedOperand]:
    return client.encrypt(values(client.program))


@pytest.mark.parametrize(("offset", "readonly"), [(0, False), (8, True)])
def test_a_run_of_what_was_pickled(client: cb.Client, offset: int, readonly: bool) -> None:
    program, keys = client.program, client.evaluation_keys()
    there, _, _ = carried(program, offset, readonly)
    assert isinstance(there, cb.Program)
    assert (there.id, there.plan, list(there.operands)) == (program.id, program.plan, list(program.operands))
    keys_there, in_band, beside = carried(keys, offset, readonly)
    assert beside >= keys.nbytes and in_band < 300 * (len(keys) + 10)
    operands = {}
    for name, operand in encrypted(client).items():
        operands[name], in_band, beside = carried(operand, offset, readonly)
        assert in_band < 5000 and beside == operand.nbytes - 32 * sum(map(len, operand.feeds))
        assert operands[name].digest == operand.digest
    result, in_band, beside = carried(there.server(keys_there).run(operands), offset, readonly)
    assert in_band < 5000 and beside == result.nbytes
    found = client.decrypt(result, of=operands)
    assert np.abs(found - program.evaluate(values(program))).max() <= program.plan.error


def test_constants_of_a_program_are_out_of_band(program: cb.Program) -> None:
    _, text, beside = carried(program)
    assert beside % MATRIX.nbytes == 0 and beside > 0 and text < 4000


def test_a_server_in_another_process(client: cb.Client) -> None:
    """Interpreters that start afresh get server and operands by pickle, and send results back."""
    server = client.program.server(client.evaluation_keys(), weight_budget=1 << 30)
    operands = encrypted(client)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        result = pool.apply(server.run, (operands,))
    expected = client.program.evaluate(values(client.program))
    assert np.abs(client.decrypt(result) - expected).max() <= client.program.plan.error


def test_joblib_maps_large_arrays(client: cb.Client) -> None:
    """Its processes see arrays beyond `max_nbytes` in a file that they map and cannot write to."""
    parallel = pytest.importorskip("joblib")
    server, operands = client.program.server(client.evaluation_keys()), encrypted(client)
    run = parallel.delayed(server.run)
    (result,) = parallel.Parallel(n_jobs=2, backend="loky", max_nbytes=1000)([run(operands)])
    parallel.externals.loky.get_reusable_executor().shutdown(wait=True)
    expected = client.program.evaluate(values(client.program))
    assert np.abs(client.decrypt(result) - expected).max() <= client.program.plan.error


def test_the_weight_budget_of_a_server_travels(client: cb.Client, tmp_path: Path) -> None:
    server = client.program.server(client.evaluation_keys(), weight_budget=12345, weight_folder=tmp_path)
    again = carried(server)[0]
    assert again._options == {"engine": "cpu", "weight_budget": 12345, "weight_folder": tmp_path}


def test_a_public_key_and_its_encryptor() -> None:
    program = cb.compile(
        lambda a, w: w @ a, {"a": cb.secret(16, 16, encryption="public-key"), "w": cb.public(16, 16)}
    )
    client = program.client()
    key = client.public_key()
    again, text, beside = carried(key)
    assert beside == key.data.nbytes // 2 and text < 1000  # the other half is a seed
    np.testing.assert_array_equal(again.data, key.data)
    assert (again.key_id, again.program_id) == (key.key_id, key.program_id)
    encryptor = carried(program.encryptor(key))[0]
    operand = carried(encryptor.encrypt({"a": MATRIX})["a"])[0]
    assert operand.encryption == "public-key"
    result = program.server(client.evaluation_keys()).run({"a": operand, "w": MATRIX})
    assert np.abs(client.decrypt(result) - MATRIX @ MATRIX).max() <= program.plan.error


def test_keys_in_files_are_carried_unexpanded(tmp_path: Path) -> None:
    """The file may be gone where the keys arrive; half the bytes of the keys travel."""
    program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(8, 8), "b": cb.secret(8, 8)}, algorithm="skewed")
    client = program.client()
    keys = client.evaluation_keys()
    keys.save(tmp_path / "keys")
    lazy = EvaluationKeys.load(tmp_path / "keys", lazy=True)
    again, _, beside = carried(lazy)
    (tmp_path / "keys").unlink()
    params = program.plan.parameters
    # In files a residue has eight bytes.
    assert beside == sum(
        8 * params.n * params.digits(limbs) * (limbs + params.special_limbs)
        for limbs in keys.request.limbs.values()
    )
    twice = carried(again)[0]
    for key, limbs in keys.request.limbs.items():
        np.testing.assert_array_equal(twice.get(key, limbs), keys.get(key, limbs))


def formats(secret: SecretKey) -> list[CoefficientMatrix]:
    return [
        encrypt_rows(secret, MATRIX, 2.0**30, 2),
        encrypt_rows(secret, MATRIX, 2.0**30, 2, SharedRows),
        encrypt_rows(secret, MATRIX, 2.0**30, 2, SharedBatch),
    ]


def test_matrices_by_rows(toy_secret: SecretKey) -> None:
    for matrix in formats(toy_secret):
        expanded = matrix.a  # is kept, and does not travel
        again, text, beside = carried(matrix)
        assert type(again) is type(matrix) and "a" not in vars(again)
        assert beside == matrix.b.nbytes and text < 2000
        np.testing.assert_array_equal(again.a, expanded)
        assert (again.shape, again.scale, again.key_id) == (matrix.shape, matrix.scale, matrix.key_id)
        summed = carried(matrix.add(matrix))[0]
        np.testing.assert_array_equal(summed.b, matrix.add(matrix).b)


def test_arrays_arrive_where_the_kernels_want_them(toy_secret: SecretKey) -> None:
    """Aligned ones are used where they lie, others are moved once."""
    keys = make_evaluation_keys(toy_secret, KeyRequest.of_galois({3: 2}))
    for offset in (0, 8):
        data = carried(keys, offset)[0].get(Galois(3), 2)
        assert data.ctypes.data % ALIGNMENT == 0
        np.testing.assert_array_equal(data, keys.get(Galois(3), 2))
        assert data.flags.writeable and (data.base is not None)
    lent: list[pickle.PickleBuffer] = []
    text = pickle.dumps(keys, protocol=5, buffer_callback=lent.append)
    same = pickle.loads(text, buffers=lent).get(Galois(3), 2)
    assert np.shares_memory(same, keys.get(Galois(3), 2))


def test_older_protocols(client: cb.Client) -> None:
    (operand, *_) = encrypted(client).values()
    for protocol in range(2, 5):
        assert pickle.loads(pickle.dumps(operand, protocol)).digest == operand.digest


def test_copies(program: cb.Program, client: cb.Client) -> None:
    (operand, *_) = encrypted(client).values()
    for again in (copy.copy(operand), copy.deepcopy(operand)):
        assert again is not operand and again.digest == operand.digest
    assert copy.deepcopy(program).id == program.id
    assert copy.copy(program.plan) == program.plan == pickle.loads(pickle.dumps(program.plan))


def test_a_plan_is_predicted_where_it_arrives(program: cb.Program) -> None:
    plan = program.plan
    assert plan.stages and "stages" in vars(plan)
    again = pickle.loads(pickle.dumps(plan))
    assert "stages" not in vars(again) and again.rejected == plan.rejected


def test_expressions(program: cb.Program) -> None:
    node = program.expression
    again = carried(node)[0]
    operands = values(program)
    assert repr(again) == repr(node) and again.bound == node.bound
    copied = cb.Program(again, program.operands, program.plan, program._run)
    assert copied.id == program.id
    np.testing.assert_array_equal(copied.evaluate(operands), program.evaluate(operands))


# --- what does not arrive ---


def changed(value: Any, change: Any) -> Any:
    """What arrives where `change` was made to the arrays on their way."""
    buffers: list[pickle.PickleBuffer] = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    arrays = [np.frombuffer(bytearray(buffer.raw()), np.uint64) for buffer in buffers]
    change(arrays)
    return pickle.loads(text, buffers=arrays)


def test_residues_are_checked(toy_secret: SecretKey) -> None:
    def too_large(arrays: list[Any]) -> None:
        arrays[0][-1] = 1 << 60

    fresh = encrypt(toy_secret, np.zeros(toy_secret.params.n, np.int64))
    assert isinstance(carried(fresh)[0], FreshCiphertext)
    for value in (fresh, *formats(toy_secret)):
        with pytest.raises(cb.RangeError, match="residue"):
            changed(value, too_large)


def test_programs_are_checked(program: cb.Program) -> None:
    def other_constant(arrays: list[Any]) -> None:
        arrays[0][:] = np.full(arrays[0].size, 0.5).view(np.uint64)

    with pytest.raises(cb.MismatchError, match="not the one that its file names"):
        changed(program, other_constant)


@pytest.mark.filterwarnings("ignore::cipherblas.InsecureParametersWarning")
def test_keys_are_checked(toy_secret: SecretKey, tmp_path: Path) -> None:
    keys = make_evaluation_keys(toy_secret, KeyRequest.of_galois({3: 2}))
    keys.save(tmp_path / "keys")
    lazy = EvaluationKeys.load(tmp_path / "keys", lazy=True, insecure=True)
    build, (params, program_id, (stored,), key_id) = lazy.__reduce__()
    restore, (*fields, array) = stored.__reduce__()
    with pytest.raises(cb.FormatError, match="galois-3"):
        restore(*fields, array[:, :1])
    with pytest.raises(cb.DTypeError):
        build(params, program_id, (array,), key_id)


def needles(client: cb.Client) -> list[bytes]:
    secret = client._secret
    return [bytes(secret._seed), secret.coefficients()[100:116].tobytes(), secret.ntt()[0, 100:108].tobytes()]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_holds_a_secret_refuses(client: cb.Client, protocol: int) -> None:
    """Also beside or within what pickles: nothing of the secret was written by then."""
    for holder in (client, client._secret):
        for value in (holder, {"deep": [holder]}, [*encrypted(client).values(), holder], holder.__repr__):
            stream = io.BytesIO()
            with pytest.raises(cb.SecretCopyError, match="can be neither pickled nor copied") as caught:
                pickle.Pickler(stream, protocol).dump(value)
            assert ".save(path), a file of its owner" in caught.value.advice[0].write
            assert not [needle for needle in needles(client) if needle in stream.getvalue()]


def test_what_holds_a_secret_is_not_copied(client: cb.Client) -> None:
    for holder in (client, client._secret):
        for attempt in (copy.copy, copy.deepcopy, lambda value: copy.deepcopy([value])):
            with pytest.raises(cb.SecretCopyError):
                attempt(holder)
        with pytest.raises(cb.SecretCopyError):
            holder.__getstate__()


def test_the_refusal_is_of_every_kin() -> None:
    for kin in (cb.SecurityError, cb.CipherblasError, pickle.PicklingError, TypeError):
        assert issubclass(cb.SecretCopyError, kin)


def test_nothing_that_travels_holds_the_secret(client: cb.Client) -> None:
    operands = encrypted(client)
    server = client.program.server(client.evaluation_keys())
    for value in (client.program, server, operands, server.run(operands)):
        text = pickle.dumps(value)
        assert not [needle for needle in needles(client) if needle in text]


def test_insecure_parameters_warn_when_they_arrive() -> None:
    """As in a file; copies stay here, and do not."""
    with pytest.warns(cb.InsecureParametersWarning):
        toy = make_parameters(64, [30, 25], alpha=1, scale_bits=20, security=0, insecure=True)
    text = pickle.dumps({"deep": [toy]})
    with pytest.warns(cb.InsecureParametersWarning, match="N = 64"):
        assert pickle.loads(text)["deep"] == [toy]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert copy.deepcopy([toy])[0] is toy and copy.copy(toy) is toy
        secure = make_parameters(4096, [30, 25], scale_bits=20)
        assert pickle.loads(pickle.dumps(secure)) == secure


def called(*values: Any) -> None:
    pytest.fail("a pickle called a function")


@pytest.mark.parametrize("kind", [called, print, list, type, "PublicKey", cb.Program, None])
def test_a_pickle_calls_no_other_class(kind: Any) -> None:
    with pytest.raises(cb.FormatError, match="holds another object"):
        rebuilt(kind, "value")


@pytest.mark.parametrize("kind", [called, dict, cb.EncryptedResult, "Program"])
def test_a_pickle_of_a_program_is_of_a_program(kind: Any) -> None:
    with pytest.raises(cb.FormatError, match="holds another object"):
        planned._unpickled(kind, "{}", {}, None)  # type: ignore[arg-type]
