"""Ciphertexts that memory does not hold: a client encrypts them into a file, a server takes them from theirs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common import limits
from cipherblas.planner.predict import dry_run
from cipherblas.roles import received
from tests.support.runs import toy

S = cb.secret
MIN_BYTES = 1 << 20


def uniform(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


VALUES = {"x": uniform(1, 5000, 12), "q": uniform(2, 12)}


@pytest.fixture(scope="module")
def program() -> cb.Program:
    return toy(lambda x, q: x @ q, x=S(5000, 12), q=S(12), algorithm="diagonals")


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than the ciphertexts of x take."""
    monkeypatch.setattr(limits, "available_memory", lambda: MIN_BYTES)


def test_memory_is_taken_where_there_is_enough(program: cb.Program, tmp_path: Path) -> None:
    client = program.client()
    data = client.encrypt(VALUES, folder=tmp_path / "there is none")["x"].feeds[0][0]
    assert isinstance(data, cb.crypto.keys.FreshCiphertext)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("little_memory")
def test_ciphertexts_in_a_file(program: cb.Program, tmp_path: Path) -> None:
    client = program.client()
    with pytest.raises(cb.MemoryBudgetError, match=r"(?s)not enough memory for encrypting x.*folder=…"):
        client.encrypt({"x": VALUES["x"]})
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    x = client.encrypt({"x": VALUES["x"]}, folder=tmp_path)["x"]
    assert x.nbytes > MIN_BYTES
    assert not list(tmp_path.iterdir())  # the file has no name
    x.save(tmp_path / "x")
    again = cb.EncryptedOperand.load(tmp_path / "x", insecure=True)
    assert again.digest == x.digest
    for own, other in zip(x.feeds[0], again.feeds[0], strict=True):
        np.testing.assert_array_equal(own.data, other.data)  # type: ignore[union-attr]
    del x, own
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before


def test_results_of_them(program: cb.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = program.client()
    with monkeypatch.context() as small:
        small.setattr(limits, "available_memory", lambda: MIN_BYTES)
        sent = client.encrypt({"x": VALUES["x"]}, folder=tmp_path) | client.encrypt({"q": VALUES["q"]})
    result = client.decrypt(program.server(client.evaluation_keys()).run(sent))
    assert np.abs(result - VALUES["x"] @ VALUES["q"]).max() <= program.plan.error


@pytest.mark.usefixtures("little_memory")
def test_what_a_folder_does_not_help(program: cb.Program, tmp_path: Path) -> None:
    client = program.client()
    with pytest.raises(cb.StorageError, match="Ciphertexts that memory does not hold"):
        client.encrypt({"x": VALUES["x"]}, folder=tmp_path / "there is none")
    rows = toy(lambda w, y: w @ y, w=cb.public(4, 400), y=S(400, 2000), form="rows")
    with pytest.raises(cb.MemoryBudgetError, match=r"not enough memory for encrypting y") as found:
        rows.client().encrypt({"y": uniform(3, 400, 2000)}, folder=tmp_path)
    assert "folder" not in str(found.value)


def test_files_are_no_memory_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for less where ciphertexts stay in their files, and for no expanded ones that products take once."""
    usual = toy(lambda x, q: x @ q, x=S(5000, 12), q=S(12), algorithm="diagonals").plan
    monkeypatch.setattr(dry_run, "KEPT_BYTES", 0)
    monkeypatch.setattr(received, "KEPT_BYTES", 0)
    monkeypatch.setattr(limits, "STREAMING_BYTES", 1)
    program = toy(lambda x, q: x @ q, x=S(5000, 12), q=S(12), algorithm="diagonals")
    plan = program.plan
    assert plan.streamed_bytes > 0 == usual.streamed_bytes
    assert usual.peak_bytes - plan.streamed_bytes < plan.peak_bytes < usual.peak_bytes
    assert plan.held_bytes == usual.held_bytes == plan.upload_bytes
    assert "that may stay in files" in program.explain()
    client = program.client()
    sent = client.encrypt(VALUES)
    for name, operand in sent.items():
        operand.save(tmp_path / name)
    stored = {name: cb.EncryptedOperand.load(tmp_path / name, lazy=True, insecure=True) for name in sent}
    server = program.server(client.evaluation_keys())
    asked: list[int] = []
    monkeypatch.setattr("cipherblas.roles.one_run.check_available", lambda needed, *_: asked.append(needed))
    results = [client.decrypt(server.run(one)) for one in (sent, stored)]
    np.testing.assert_array_equal(*results)
    in_memory, in_files = asked
    assert in_memory > in_files
    assert in_memory - in_files <= plan.held_bytes
    assert in_memory <= plan.peak_bytes


def test_what_a_public_key_encrypted_is_read_to_stay(
    program: cb.Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of it are no memory that is saved."""
    sizes = {"x": (5000, 12), "q": (12,)}
    operands = {name: S(*shape, encryption="public-key") for name, shape in sizes.items()}
    other = toy(lambda x, q: x @ q, **operands, algorithm="diagonals")
    client = other.client()
    asked: list[int] = []
    monkeypatch.setattr("cipherblas.roles.one_run.check_available", lambda needed, *_: asked.append(needed))
    sent = other.encryptor(client.public_key()).encrypt(VALUES)
    for name, operand in sent.items():
        operand.save(tmp_path / name)
    stored = {name: cb.EncryptedOperand.load(tmp_path / name, lazy=True, insecure=True) for name in sent}
    server = other.server(client.evaluation_keys())
    for one in (sent, stored):
        assert np.abs(client.decrypt(server.run(one)) - VALUES["x"] @ VALUES["q"]).max() <= other.plan.error
    assert asked[0] == asked[1]
