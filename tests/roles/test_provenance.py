"""Results name the encryptions that they are of, and entries beyond their bound raise, on every form."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from tests.support.runs import values_of

PROGRAMS: dict[str, Callable[[], cb.Program]] = {
    "blocks": lambda: cb.compile(
        lambda a, b: a @ b, {"a": cb.secret(3, 4), "b": cb.secret(4, 5)}, form="blocks"
    ),
    "rows": lambda: cb.compile(
        lambda a, b: 0.5 * np.ones((3, 3)) @ (a - b),
        {"a": cb.secret(3, 4), "b": cb.secret(3, 4)},
        form="rows",
    ),
    "columns": lambda: cb.compile(
        lambda a, b: (a - b) @ (-np.ones((4, 2))), {"a": cb.secret(3, 4), "b": cb.secret(3, 4)}, form="rows"
    ),
    "layers": lambda: cb.compile(
        lambda a, b: np.full((3, 8), 0.1) @ (a * b), {"a": cb.secret(8), "b": cb.secret(8)}, form="tensors"
    ),
}


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> cb.Program:
    return PROGRAMS[request.param]()


def _close(program: cb.Program, found: Any, values: dict[str, Any]) -> bool:
    return bool((np.abs(found - program.evaluate(values)) <= program.plan.error).all())


def test_a_result_of_an_earlier_run_is_refused(program: cb.Program, tmp_path: Path) -> None:
    """With the keys of one client; in its process, in another one with its key file, and with `of`."""
    client = program.client()
    server = program.server(client.evaluation_keys())
    earlier, later = values_of(program, 1), values_of(program, 2)
    first = client.encrypt(earlier)
    old = server.run(first)
    assert _close(program, client.decrypt(old), earlier)
    client.save(tmp_path / "key")
    second = client.encrypt({"b": later["b"]})  # the same a
    new = server.run({**first, **second})
    for holder in (client, cb.Client.load(tmp_path / "key", program)):
        with pytest.raises(cb.MismatchError, match=r"(?s)latest encryption of operand 'b'.*of=…"):
            holder.decrypt(old)
        assert _close(program, holder.decrypt(new), {"a": earlier["a"], "b": later["b"]})
        # What is asked for by name may be of any time, all or some.
        assert _close(program, holder.decrypt(old, of=first), earlier)
        assert _close(program, holder.decrypt(old, of={"b": first["b"]}), earlier)
        with pytest.raises(cb.MismatchError, match="given encryption of operand 'b'"):
            holder.decrypt(old, of=second)
        with pytest.raises(cb.MismatchError, match="given encryption of operand 'b'"):
            holder.decrypt(new, of=first)


def test_the_same_values_encrypted_again_are_another_encryption(program: cb.Program) -> None:
    client = program.client()
    server = program.server(client.evaluation_keys())
    values = values_of(program, 1)
    old = server.run(client.encrypt(values))
    client.encrypt(values)
    with pytest.raises(cb.MismatchError, match="operand 'a'"):
        client.decrypt(old)


def test_digests_survive_files(program: cb.Program, tmp_path: Path) -> None:
    client = program.client()
    operands = client.encrypt(values_of(program, 1))
    loaded = {}
    for name, operand in operands.items():
        operand.save(tmp_path / name)
        loaded[name] = cb.EncryptedOperand.load(tmp_path / name)
        assert loaded[name].digest == operand.digest
    assert len({operand.digest for operand in operands.values()}) == 2
    result = program.server(client.evaluation_keys()).run(loaded)
    assert result.operands == {name: operand.digest for name, operand in operands.items()}
    result.save(tmp_path / "result")
    again = cb.EncryptedResult.load(tmp_path / "result")
    assert again.operands == result.operands
    assert again.digest == result.digest
    client.decrypt(again)


def test_what_a_result_is_of_is_checked_by_type_and_name() -> None:
    program = PROGRAMS["blocks"]()
    client = program.client()
    server = program.server(client.evaluation_keys())
    first = client.encrypt(values_of(program, 1))
    result = server.run(first)
    with pytest.raises(cb.DTypeError, match="expected EncryptedOperand, got str"):
        client.decrypt(result, of={"a": "A.ct"})  # type: ignore[dict-item]
    with pytest.raises(
        cb.DTypeError, match=r"must be a dictionary of encrypted operands .got EncryptedOperand"
    ):
        client.decrypt(result, of=first["a"])  # type: ignore[arg-type]
    with pytest.raises(cb.MismatchError, match=r"under another name .expected b, got a"):
        client.decrypt(result, of={"b": first["a"]})
    other = PROGRAMS["layers"]()
    stranger = other.client().encrypt({"a": np.zeros(8)})
    with pytest.raises(cb.MismatchError, match="another program"):
        client.decrypt(result, of=stranger)
    for operands in ({}, {"a": first["a"].digest}, {**result.operands, "c": "0"}):
        with pytest.raises(cb.MismatchError, match="computed from"):
            client.decrypt(replace(result, operands=operands), of=first)


def test_operands_of_others_are_checked_where_they_are_given() -> None:
    program = cb.compile(
        lambda a, b: a @ b, {"a": cb.secret(3, 4), "b": cb.secret(4, 5, encryption="public-key")}
    )
    client = program.client()
    source = program.encryptor(client.public_key())
    server = program.server(client.evaluation_keys())
    values = values_of(program, 1)
    mine = client.encrypt({"a": values["a"]})
    theirs, other = source.encrypt({"b": values["b"]}), source.encrypt({"b": values["b"]})
    assert theirs["b"].digest != other["b"].digest
    result = server.run({**mine, **theirs})
    assert _close(program, client.decrypt(result), values)
    assert _close(program, client.decrypt(result, of=theirs), values)
    with pytest.raises(cb.MismatchError, match="operand 'b'"):
        client.decrypt(result, of=other)
    client.encrypt({"b": values["b"]})  # from now on that one is expected
    with pytest.raises(cb.MismatchError, match="operand 'b'"):
        client.decrypt(result)
    assert _close(program, client.decrypt(result, of=theirs), values)


def test_another_process_knows_the_latest_encryption(tmp_path: Path) -> None:
    program = PROGRAMS["blocks"]()
    client = program.client()
    server = program.server(client.evaluation_keys())
    client.save(tmp_path / "key")
    program.save(tmp_path / "program")
    server.run(client.encrypt(values_of(program, 1))).save(tmp_path / "old")
    server.run(client.encrypt(values_of(program, 2))).save(tmp_path / "new")
    script = (
        "import sys, cipherblas as cb\n"
        "folder = sys.argv[1]\n"
        "program = cb.Program.load(folder + '/program')\n"
        "client = cb.Client.load(folder + '/key', program)\n"
        "result = cb.EncryptedResult.load(sys.argv[2])\n"
        "print(client.decrypt(result).shape)\n"
    )

    def decrypted(name: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", script, str(tmp_path), str(tmp_path / name)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert decrypted("new").returncode == 0
    stale = decrypted("old")
    assert stale.returncode != 0
    assert "MismatchError" in stale.stderr


def test_two_processes_take_turns(tmp_path: Path) -> None:
    """Each knows its own latest encryptions, and of operands that it did not encrypt those of the other."""
    program = PROGRAMS["blocks"]()
    first = program.client()
    first.save(tmp_path / "key")
    second = cb.Client.load(tmp_path / "key", program)
    server = program.server(first.evaluation_keys())
    values, later = values_of(program, 1), values_of(program, 2)
    second.encrypt({"b": values["b"]})
    a = first.encrypt({"a": values["a"]})["a"]
    b = second.encrypt({"b": later["b"]})["b"]
    for holder in (first, second, cb.Client.load(tmp_path / "key", program)):
        found = holder.decrypt(server.run({"a": a, "b": b}))
        assert _close(program, found, {"a": values["a"], "b": later["b"]})


def test_encryption_goes_on_where_the_record_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS["blocks"]()
    client = program.client()
    client.save(tmp_path / "key")
    server = program.server(client.evaluation_keys())
    old = server.run(client.encrypt(values_of(program, 1)))

    def full(*_: object, **__: object) -> None:
        raise cb.StorageError("cannot write", got="Read-only file system")

    monkeypatch.setattr("cipherblas.crypto.files.write", full)
    values = values_of(program, 2)
    with pytest.warns(UserWarning, match="Read-only"):
        operands = client.encrypt(values)
    new = server.run(operands)
    assert _close(program, client.decrypt(new), values)
    with pytest.raises(cb.MismatchError):
        client.decrypt(old)


@pytest.mark.parametrize("sign", [1, -1])
def test_entries_beyond_the_bound_raise(program: cb.Program, sign: int) -> None:
    """A server's result, moved by 1.5 times the bound: every entry is then beyond it; the message tells no value."""
    client = program.client()
    values = {name: 0.1 * value for name, value in values_of(program, 1).items()}
    result = program.server(client.evaluation_keys()).run(client.encrypt(values))
    spec = program.outputs[0]
    expected = program.evaluate(values)
    bound = program.expression.bound
    assert np.abs(expected).max() < 0.4 * bound

    def moved(distance: float) -> cb.EncryptedResult:
        arrays = [array.copy() for array in result.ciphertexts]
        shift = round(sign * distance * spec.scale)
        places = [a[0] for a in arrays] if program.plan.form != "rows" else list(arrays[1::2])
        for residues in places:  # a constant in slots; of rows, every entry
            for limb, q in enumerate(program.plan.parameters.q[: len(residues)]):
                residues[limb] = (residues[limb].astype(object) + shift) % q
        return replace(result, ciphertexts=tuple(arrays))

    small = client.decrypt(moved(0.3 * bound))  # within the bound nothing can be noticed
    assert np.abs(small - expected - sign * 0.3 * bound).max() <= 2 * program.plan.error
    far = moved(1.5 * bound)
    with pytest.raises(cb.RangeError, match="beyond its bound") as caught:
        client.decrypt(far)
    assert caught.value.got is None
    assert f"{bound + program.plan.error:g}" in str(caught.value)


def test_an_assumption_that_does_not_hold_raises() -> None:
    weights = np.full((2, 16), 0.5)
    program = cb.compile(lambda x: cb.assume(weights @ x, 2.0), {"x": cb.secret(16)}, form="tensors")
    client = program.client()
    server = program.server(client.evaluation_keys())
    x = np.full(16, 0.2)
    assert np.abs(client.decrypt(server.run(client.encrypt({"x": x}))) - 1.6).max() <= program.plan.error
    with pytest.raises(cb.RangeError, match="assumption"):
        client.decrypt(server.run(client.encrypt({"x": 1.5 * x})))


def test_results_at_the_bound_decrypt() -> None:
    """All entries at ±bound: the error is allowed for on top."""
    program = cb.compile(lambda a, b: a @ b, {"a": cb.secret(4, 6), "b": cb.secret(6, 4)})
    client = program.client()
    server = program.server(client.evaluation_keys())
    for sign in (1.0, -1.0):
        found = client.decrypt(server.run(client.encrypt({"a": np.ones((4, 6)), "b": np.full((6, 4), sign)})))
        assert np.abs(found - 6 * sign).max() <= program.plan.error
