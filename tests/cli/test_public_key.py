"""Encryption with the public key on the command line: a third party has the plan and the public key alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cipherblas.crypto.files import Reader
from cipherblas.roles.program import Program
from cipherblas.roles.wire.messages import EncryptedOperand


@dataclass(frozen=True)
class Parties:
    """Folders of the key's owner, of the source of b, and the matrices of a @ b, a by the secret key."""

    owner: Path
    source: Path
    a: np.ndarray
    b: np.ndarray


@pytest.fixture(scope="module", params=["blocks", "rows"])
def parties(invoke: Any, tmp_path_factory: pytest.TempPathFactory, request: Any) -> Parties:
    """Plan and keys; the source has copies of the plan and of the public key. In slots `a` is secret, by rows clear."""
    random = np.random.default_rng(5)
    made = Parties(
        tmp_path_factory.mktemp("owner"),
        tmp_path_factory.mktemp("source"),
        random.uniform(-1, 1, (5, 7)),
        random.uniform(-1, 1, (7, 3)),
    )
    np.save(made.owner / "A.npy", made.a)
    np.save(made.source / "B.npy", made.b)
    plan, keys = made.owner / "plan.cb", made.owner / "keys"
    clear = ["--a-public"] if request.param == "rows" else []
    options = ["--a", "5x7", "--b", "7x3", *clear, "--b-public-key", "--form", request.param]
    for step in (["plan", *options, "-o", plan], ["keygen", plan, "-o", keys]):
        result = invoke(*step)
        assert result.exit_code == 0, result.stderr
    for name in (plan, keys / "public-key"):
        (made.source / name.name).write_bytes(name.read_bytes())
    return made


def encrypted(invoke: Any, parties: Parties, target: Path, *options: Any) -> Any:
    source = parties.source
    keys = ["--public-key", source / "public-key"]
    return invoke("encrypt", source / "plan.cb", source / "B.npy", *keys, "-o", target, *options)


def test_from_encryption_to_decryption(parties: Parties, invoke: Any, tmp_path: Path) -> None:
    result = encrypted(invoke, parties, tmp_path / "B.ct", "--json", "-q")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["operand"], found["encryption"]) == ("b", "public-key")
    program = Program.load(parties.source / "plan.cb")
    keys, a = parties.owner / "keys", parties.owner / "A.npy"
    operands = ["--a", a, "--b", tmp_path / "B.ct"]
    if program.operands["a"].secret:
        assert invoke("encrypt", keys, a, "-o", tmp_path / "A.ct").exit_code == 0
        operands[1] = tmp_path / "A.ct"
    run = ["run", parties.owner / "plan.cb", keys / "evaluation", *operands, "-o", tmp_path / "C.ct"]
    for step in (run, ["decrypt", keys, tmp_path / "C.ct", "-o", tmp_path / "C.npy"]):
        result = invoke(*step)
        assert result.exit_code == 0, result.stderr
    error = np.abs(np.load(tmp_path / "C.npy") - parties.a @ parties.b).max()
    assert error <= program.plan.error <= program.plan.error_target


def test_the_owner_encrypts_it_too(parties: Parties, invoke: Any, tmp_path: Path) -> None:
    keys, b = parties.owner / "keys", parties.source / "B.npy"
    result = invoke("encrypt", keys, b, "--as", "b", "-o", tmp_path / "B.ct", "--json", "-q")
    assert json.loads(result.stdout)["encryption"] == "secret-key"
    program = Program.load(parties.owner / "plan.cb")
    sent = EncryptedOperand.load(tmp_path / "B.ct")
    assert sent.nbytes < program.plan.upload_bytes


def test_the_public_key_lies_beside_the_secret_one(parties: Parties, invoke: Any, tmp_path: Path) -> None:
    keys = parties.owner / "keys"
    names = ["evaluation", "program", "public-key", "secret-key", "secret-key.lock", "secret-key.record"]
    assert sorted(path.name for path in keys.iterdir()) == names
    with Reader(keys / "secret-key", "secret-key") as reader:
        seed = reader.read("seed").tobytes()
    assert seed not in (keys / "public-key").read_bytes()
    again = invoke("keygen", parties.owner / "plan.cb", "-o", tmp_path / "keys", "--json")
    assert json.loads(again.stdout)["public_key"] == str(tmp_path / "keys" / "public-key")
    assert "public key" in again.stderr


def test_the_plan_says_so(parties: Parties, invoke: Any) -> None:
    shown = invoke("plan", "--a", "5x7", "--operand", "b=7x3:public-key", "--program", "a @ b")
    assert "b 7x3 secret (by public key)" in shown.stdout and "encrypts b" in shown.stdout
    described = json.loads(invoke("plan", "--a", "5x7", "--b", "7x3", "--b-public-key", "--json").stdout)
    kinds = {name: operand["encryption"] for name, operand in described["operands"].items()}
    assert kinds == {"a": "secret-key", "b": "public-key"}


def refused(result: Any, *words: str) -> None:
    assert (result.exit_code, result.stdout) == (1, "")
    text = result.stderr
    assert text.startswith("cipherblas: error: ") and all(word in text for word in words), text


def test_refusals(parties: Parties, flow: Any, invoke: Any, tmp_path: Path) -> None:
    source, target = parties.source, tmp_path / "x.ct"
    encrypt = ["encrypt", source / "plan.cb", source / "B.npy", "-o", target, "--public-key"]
    refused(invoke(*encrypt, tmp_path / "nothing"), "nothing")
    refused(invoke(*encrypt, parties.owner / "keys" / "secret-key"), "expected public-key", "got secret-key")
    (tmp_path / "short").write_bytes((source / "public-key").read_bytes()[:-16])
    refused(invoke(*encrypt, tmp_path / "short"), "short")
    other = tmp_path / "other"
    assert invoke("plan", "--a", "4x4", "--b", "4x4", "--a-public-key", "-o", other).exit_code == 0
    assert invoke("keygen", other, "-o", tmp_path / "keys").exit_code == 0
    refused(invoke(*encrypt, tmp_path / "keys" / "public-key"), "expected", "got")
    ours = ["--public-key", source / "public-key", "-o", target]
    refused(invoke("encrypt", flow.plan, flow.a_npy, *ours), "expected", "got")
    refused(invoke("encrypt", parties.owner / "keys", source / "B.npy", *ours), "keys")
    refused(encrypted(invoke, parties, target, "--as", "z"), "no secret operand", "got z")
    assert not target.exists()


def test_an_operand_of_the_secret_key(parties: Parties, invoke: Any, tmp_path: Path) -> None:
    secret = Program.load(parties.source / "plan.cb").operands["a"].secret
    result = encrypted(invoke, parties, tmp_path / "x.ct", "--as", "a")
    refused(result, "planned for the secret key" if secret else "no secret operand")


def test_clear_operands_are_not_encrypted(invoke: Any) -> None:
    result = invoke("plan", "--a", "5x7", "--b", "7x3", "--b-public", "--b-public-key")
    assert result.exit_code == 2 and "--b-public-key" in result.stderr
    result = invoke("plan", "--a", "5x7", "--b-public-key")
    assert result.exit_code == 2 and "--b" in result.stderr
