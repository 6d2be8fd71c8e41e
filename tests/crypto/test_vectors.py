"""Frozen known-answer vectors: what seeds derive is what it was, and files of this format version still open.

`scripts/make_vectors.py` made them; they change only with a format version (see CONTRIBUTING.md).
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
import cipherblas._core as _core
from cipherblas.common.errors import InsecureParametersWarning, MismatchError, SecurityError
from cipherblas.crypto import files, keys
from cipherblas.crypto.params import Parameters, make_parameters
from cipherblas.rlwe.matrices import RlweRows
from cipherblas.rlwe.matrices.encryption import decrypt
from cipherblas.roles.key_record import KeyRecord

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "make_vectors.py"
VECTORS = ROOT / "tests" / "vectors"
FROZEN: dict[str, Any] = json.loads((VECTORS / "values.json").read_text(encoding="utf-8"))
NAMES = [(ring, name) for ring, held in FROZEN["rings"].items() for name in held["values"]]
ANY = {"insecure": True}
INTEGERS = ("modular", "products")

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")


@pytest.fixture(scope="module")
def vectors() -> ModuleType:
    specification = importlib.util.spec_from_file_location("make_vectors", SCRIPT)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def derived() -> dict[str, Any]:
    """Instruction set → the values that it derives, each in a process of its own."""
    found = {}
    for isa in _core.isas():
        environment = {**os.environ, "CIPHERBLAS_ISA": isa}
        command = [sys.executable, str(SCRIPT), "--values"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        found[isa] = json.loads(done.stdout)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files, the secret ones readable by their owner alone, as git does not keep them."""
    copied = tmp_path / "vectors"
    shutil.copytree(VECTORS, copied)
    for path in copied.rglob("secret-key*"):
        path.chmod(0o600)
    return copied


@pytest.mark.parametrize("isa", _core.isas())
@pytest.mark.parametrize(("ring", "name"), NAMES)
def test_derived_values_are_the_frozen_ones(derived: dict[str, Any], isa: str, ring: str, name: str) -> None:
    assert derived[isa][ring]["values"].get(name) == FROZEN["rings"][ring]["values"][name]


def test_no_value_is_left_out(derived: dict[str, Any], vectors: ModuleType) -> None:
    for found in derived.values():
        assert {(ring, name) for ring, held in found.items() for name in held["values"]} == set(NAMES)


def test_the_primes_are_the_frozen_ones() -> None:
    frozen = {name: held["parameters"] for name, held in FROZEN["rings"].items()}
    assert Parameters.from_dict(frozen["128 bits"]).security == 128
    assert make_parameters(1 << 12, [36.0, 33.0], scale_bits=30.0).to_dict() == frozen["128 bits"]
    with pytest.warns(InsecureParametersWarning):
        tiny = make_parameters(64, [45.0, 40.0, 40.0], alpha=2, scale_bits=40.0, security=0, insecure=True)
    assert tiny.to_dict() == frozen["tiny"]


def test_there_is_a_file_of_each_kind() -> None:
    kinds = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in VECTORS.rglob("*"):
            if path.is_file() and path.name not in ("values.json", "machine.json"):
                for kind in files.KINDS:
                    try:
                        files.read(path, kind, **ANY)
                        kinds.add(kind)
                    except MismatchError:
                        continue
    assert kinds == set(files.KINDS)


def loaded(folder: Path, **demanded: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Program, client, and what decides whether parameters are accepted."""
    program = cb.Program.load(folder / "program.json", **demanded)
    return program, cb.Client.load(folder / "secret-key", program, **demanded), demanded


def operand(folder: Path, program: Any, name: str, demanded: dict[str, Any]) -> cb.EncryptedOperand:
    path = folder / f"{name}.ciphertext"
    return cb.EncryptedOperand.load(path, **demanded)


def result(folder: Path, program: Any, demanded: dict[str, Any]) -> cb.EncryptedResult:
    path = folder / "result.ciphertext"
    return cb.EncryptedResult.load(path, **demanded)


@pytest.mark.parametrize(("name", "demanded"), [("slots", ANY), ("rows", {})])
def test_results_still_decrypt(folder: Path, name: str, demanded: dict[str, Any]) -> None:
    program, client, demanded = loaded(folder / name, **demanded)
    decrypted = client.decrypt(result(folder / name, program, demanded))
    np.testing.assert_allclose(decrypted, FROZEN["expected"][name], rtol=0, atol=program.plan.error)


def test_operands_and_keys_still_compute_in_slots(folder: Path) -> None:
    program, client, demanded = loaded(folder / "slots", **ANY)
    evaluation = cb.EvaluationKeys.load(folder / "slots" / "evaluation-keys", **ANY)
    server = program.server(evaluation)
    operands = {name: operand(folder / "slots", program, name, demanded) for name in ("a", "b")}
    decrypted = client.decrypt(server.run(operands))
    np.testing.assert_allclose(decrypted, FROZEN["expected"]["slots"], rtol=0, atol=program.plan.error)


@pytest.mark.parametrize("name", INTEGERS)
def test_results_modulo_t_still_decrypt(folder: Path, name: str) -> None:
    program, client, demanded = loaded(folder / name, **ANY)
    found = client.decrypt(result(folder / name, program, demanded))
    np.testing.assert_array_equal(found, FROZEN["expected"][name])


@pytest.mark.parametrize("name", INTEGERS)
def test_operands_modulo_t_still_compute(folder: Path, name: str) -> None:
    program, client, demanded = loaded(folder / name, **ANY)
    evaluation = cb.EvaluationKeys.load(folder / name / "evaluation-keys", **ANY)
    operands = {each: operand(folder / name, program, each, demanded) for each in ("a", "b")}
    found = client.decrypt(program.server(evaluation).run(operands))
    np.testing.assert_array_equal(found, FROZEN["expected"][name])


def test_results_of_three_components_still_decrypt(folder: Path) -> None:
    program, _, demanded = loaded(folder / "products", **ANY)
    assert program.plan.key_bytes == 0 and len(program.plan.moduli) > 1
    found = result(folder / "products", program, demanded)
    assert {array.shape[0] for array in found.ciphertexts} == {3}
    known = cb.ClientProgram.load(folder / "products" / "client-program.json", **ANY)
    client = cb.Client.load(folder / "products" / "secret-key", known, **ANY)
    np.testing.assert_array_equal(client.decrypt(found), FROZEN["expected"]["products"])


def test_the_program_for_clients_still_decrypts(folder: Path) -> None:
    program, _, demanded = loaded(folder / "slots", **ANY)
    known = cb.ClientProgram.load(folder / "slots" / "client-program.json", **ANY)
    client = cb.Client.load(folder / "slots" / "secret-key", known, **ANY)
    decrypted = client.decrypt(result(folder / "slots", program, demanded))
    np.testing.assert_allclose(decrypted, FROZEN["expected"]["slots"], rtol=0, atol=program.plan.error)


def test_the_public_key_still_encrypts(folder: Path, vectors: ModuleType) -> None:
    program, client, demanded = loaded(folder / "slots", **ANY)
    public = cb.PublicKey.load(folder / "slots" / "public-key", **ANY)
    b = program.encryptor(public).encrypt({"b": vectors.matrix(3, 4)})["b"]
    server = program.server(cb.EvaluationKeys.load(folder / "slots" / "evaluation-keys", **ANY))
    decrypted = client.decrypt(server.run({"a": operand(folder / "slots", program, "a", demanded), "b": b}))
    np.testing.assert_allclose(decrypted, FROZEN["expected"]["slots"], rtol=0, atol=program.plan.error)


def test_the_operand_still_computes_by_rows(folder: Path, vectors: ModuleType) -> None:
    program, client, demanded = loaded(folder / "rows")
    server = program.server(client.evaluation_keys())
    x = operand(folder / "rows", program, "x", demanded)
    decrypted = client.decrypt(server.run({"w": vectors.matrix(1, 8), "x": x}))
    np.testing.assert_allclose(decrypted, FROZEN["expected"]["rows"], rtol=0, atol=program.plan.error)


def test_the_record_is_still_known(folder: Path, vectors: ModuleType) -> None:
    """The latest encryption, the budget and what of it was spent."""
    program, client, demanded = loaded(folder / "slots", **ANY)
    path = folder / "slots" / "secret-key"
    a = operand(folder / "slots", program, "a", demanded)
    record = KeyRecord(a.key_id, program.plan.parameters, path)
    assert record.latest() == {"a": a.digest}
    left = vectors.BUDGET.entries - vectors.SPENT
    with pytest.raises(SecurityError, match=f"at most {left} of {vectors.BUDGET.entries}"):
        record.spend(vectors.BUDGET, left + 1, "00" * 32)
    with pytest.raises(SecurityError, match="shared before"):
        record.spend(vectors.BUDGET, 1, vectors.SHARED)
    client.encrypt({"a": vectors.matrix(4, 3)})
    with pytest.raises(MismatchError, match="latest encryption"):
        client.decrypt(result(folder / "slots", program, demanded))


def test_rows_still_open(folder: Path) -> None:
    path = folder / "formats"
    secret = keys.SecretKey.load(path / "secret-key", **ANY)
    rows = RlweRows.load(path / "rows.matrix", **ANY)
    expected = np.array(FROZEN["expected"]["formats"])
    np.testing.assert_allclose(decrypt(secret, rows), expected, rtol=0, atol=30 / rows.scale)


def test_the_script_makes_the_same_each_time(tmp_path: Path, vectors: ModuleType) -> None:
    found = []
    for name in ("first", "second"):
        made = tmp_path / name
        vectors.write(made)
        written = [path for path in made.rglob("*") if path.is_file()]
        found.append({str(path.relative_to(made)): path.read_bytes() for path in written})
    assert found[0] == found[1]
    assert json.loads(found[0]["values.json"]) == FROZEN
    there = {str(path.relative_to(VECTORS)) for path in VECTORS.rglob("*") if path.is_file()}
    later = {
        "slots/secret-key.lock",
        "rows/secret-key.lock",
        "modular/secret-key.lock",
        "products/secret-key.lock",
    }  # that the frozen folders, of an earlier version, lack
    assert set(found[0]) == there | later


def test_the_script_does_not_overwrite_other_folders(tmp_path: Path, vectors: ModuleType) -> None:
    (tmp_path / "kept").write_text("")
    with pytest.raises(SystemExit, match="expected a new folder"):
        vectors.write(tmp_path)
    assert (tmp_path / "kept").exists()
