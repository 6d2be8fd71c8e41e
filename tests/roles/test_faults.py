"""What clients and servers refuse: typed errors that name expected and got, before any long work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common import limits
from cipherblas.common.memory import stacked
from cipherblas.crypto.keys import KeyRequest, generate_secret, make_evaluation_keys

S, P = cb.secret, cb.public
ONES = np.ones((4, 4))


@pytest.fixture(scope="module")
def program() -> cb.Program:
    return cb.compile(lambda a, b: a @ b, {"a": S(4, 4), "b": S(4, 4)}, algorithm="skewed")


@pytest.fixture(scope="module")
def client(program: cb.Program) -> cb.Client:
    return program.client()


@pytest.fixture(scope="module")
def server(program: cb.Program, client: cb.Client) -> cb.Server:
    return program.server(client.evaluation_keys())


def _named(error: cb.CipherblasError) -> None:
    assert error.expected is not None or error.advice
    assert error.got is not None
    assert error.expected is None or str(error.expected) in str(error)  # in the sentence, or after it
    assert "got" in str(error)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (np.ones((4, 5)), cb.ShapeError),
        (np.ones(4), cb.ShapeError),
        (np.ones((2, 2, 2)), cb.ShapeError),
        ([[1, 2], [3]], cb.ShapeError),
        (np.full((4, 4), np.nan), cb.RangeError),
        (np.full((4, 4), np.inf), cb.RangeError),
        (np.full((4, 4), 1.5), cb.RangeError),
        (np.ones((4, 4), dtype=complex), cb.DTypeError),
        (np.full((4, 4), "x"), cb.DTypeError),
        (None, cb.DTypeError),
    ],
)
def test_bad_matrices(client: cb.Client, value: Any, kind: type[cb.CipherblasError]) -> None:
    with pytest.raises(kind) as caught:
        client.encrypt({"a": value})
    if kind is not cb.RangeError:  # which says nothing of an entry
        _named(caught.value)


def test_unknown_operand(client: cb.Client) -> None:
    with pytest.raises(cb.MismatchError) as caught:
        client.encrypt({"c": ONES})
    _named(caught.value)


def test_keys_of_another_program(program: cb.Program) -> None:
    other = cb.compile(lambda a, b: a @ b, {"a": S(5, 5), "b": S(5, 5)}, algorithm="skewed")
    with pytest.raises(cb.MismatchError) as caught:
        program.server(other.client().evaluation_keys())
    _named(caught.value)


def test_missing_rotation_key(program: cb.Program) -> None:
    request = program.plan.keys
    assert len(request.galois) > 1
    fewer = KeyRequest.of_galois(dict(list(request.galois.items())[1:]), request.relinearise)
    keys = make_evaluation_keys(generate_secret(program.plan.parameters, program.id), fewer)
    with pytest.raises(cb.MissingKeyError) as caught:
        program.server(keys)
    assert "rotation" in str(caught.value)


def test_key_made_for_too_few_limbs(program: cb.Program) -> None:
    request = program.plan.keys
    low = KeyRequest.of_galois(dict.fromkeys(request.galois, 1), request.relinearise)
    keys = make_evaluation_keys(generate_secret(program.plan.parameters, program.id), low)
    with pytest.raises(cb.MissingKeyError):
        program.server(keys)


def test_too_little_memory(
    program: cb.Program, client: cb.Client, server: cb.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = client.encrypt({"a": ONES, "b": ONES})
    monkeypatch.setattr(limits, "available_memory", lambda: 1 << 20)
    with pytest.raises(cb.MemoryBudgetError) as caught:
        server.run(sent)
    _named(caught.value)


@pytest.mark.parametrize("form", ["blocks", "rows"])
def test_too_little_memory_of_the_client(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """Refused where not even the ciphertexts, or the decoded entries, have room."""
    options: dict[str, Any] = {"form": form, "algorithm": "skewed" if form == "blocks" else None}
    program = cb.compile(
        lambda a, b: a @ b, {"a": P(40, 40), "b": S(40, 40, encryption="public-key")}, **options
    )
    client = program.client()
    encryptor = program.encryptor(client.public_key())
    b = np.eye(40)
    sent = client.encrypt({"b": b})
    result = program.server(client.evaluation_keys()).run({"a": b, **sent})
    for work, least in (
        (lambda: client.encrypt({"b": b})["b"], client.encrypt({"b": b})["b"].nbytes),
        (lambda: encryptor.encrypt({"b": b})["b"], encryptor.encrypt({"b": b})["b"].nbytes),
        (lambda: client.decrypt(result, of=sent), b.nbytes),
    ):
        monkeypatch.setattr(limits, "available_memory", lambda least=least: least // 2)
        with pytest.raises(cb.MemoryBudgetError, match=r"encrypting b|decrypting the result") as caught:
            work()
        _named(caught.value)
        monkeypatch.setattr(limits, "available_memory", lambda: 1 << 24)
        work()


def test_memory_of_earlier_runs_is_given_back_first(monkeypatch: pytest.MonkeyPatch) -> None:
    program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(4, 4), "b": cb.secret(4, 4)})
    client = program.client()
    server = program.server(client.evaluation_keys())
    inputs = client.encrypt({"a": np.eye(4), "b": np.eye(4)})
    server.run(inputs)
    answers = iter([1 << 20, 8 << 30])
    monkeypatch.setattr(limits, "available_memory", lambda: next(answers))
    encrypted = server.run(inputs)
    assert next(answers, None) is None
    monkeypatch.undo()
    assert np.abs(client.decrypt(encrypted) - np.eye(4)).max() < 1e-3


def test_operands_that_do_not_belong(program: cb.Program, client: cb.Client, server: cb.Server) -> None:
    a, b = client.encrypt({"a": ONES})["a"], client.encrypt({"b": ONES})["b"]
    other = cb.compile(lambda a, b: a @ b, {"a": S(4, 4), "b": S(4, 4)}, algorithm="outer-product")
    foreign = other.client().encrypt({"a": ONES})["a"]
    second = program.client().encrypt({"a": ONES})["a"]
    for sent in (
        {"a": b, "b": a},
        {"a": foreign, "b": b},
        {"a": second, "b": b},
        {"a": a},
        {"a": a, "b": b, "c": a},
    ):
        with pytest.raises(cb.MismatchError):
            server.run(sent)
    with pytest.raises(cb.DTypeError):
        server.run({"a": ONES, "b": b})
    result = server.run({"a": a, "b": b})
    for stranger in (other.client(), program.client()):
        with pytest.raises(cb.MismatchError):
            stranger.decrypt(result)


def test_operands_that_stay_in_their_files(
    program: cb.Program, client: cb.Client, server: cb.Server, tmp_path: Path
) -> None:
    """They are read by each run, and damage is found by it."""
    for name, operand in client.encrypt({"a": ONES, "b": ONES}).items():
        data = [ct.data for ct in operand.feeds[0]]  # type: ignore[union-attr]
        assert np.shares_memory(stacked(data), data[0])  # written from where they were encrypted
        operand.save(tmp_path / name)
    sent = {name: cb.EncryptedOperand.load(tmp_path / name, lazy=True) for name in "ab"}
    for _ in range(2):
        assert np.abs(client.decrypt(server.run(sent)) - 4).max() <= program.plan.error
    data = bytearray((tmp_path / "a").read_bytes())
    data[-100] ^= 1
    (tmp_path / "damaged").write_bytes(data)
    sent["a"] = cb.EncryptedOperand.load(tmp_path / "damaged", lazy=True)
    with pytest.raises(cb.FormatError):
        server.run(sent)
