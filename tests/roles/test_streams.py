"""Files without a path: all that travels is written to streams and read from these, or from bytes."""

from __future__ import annotations

import io
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import DTypeError, FormatError, StorageError
from tests.support.runs import toy

pytestmark = [pytest.mark.encrypted, pytest.mark.filterwarnings("ignore::UserWarning")]
OPTIONS: dict[str, Any] = {"security": 0, "insecure": True}


class World:
    def __init__(self) -> None:
        self.program = toy(
            lambda a, b: a @ b + 1, a=cb.secret(5, 6), b=cb.secret(6, 4, encryption="public-key")
        )
        self.client = self.program.client()
        self.keys = self.client.evaluation_keys()
        self.values = {"a": np.eye(5, 6), "b": np.full((6, 4), 0.5)}
        self.operands = self.client.encrypt(self.values)
        self.result = self.program.server(self.keys).run(self.operands)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


# What travels, how it is read again, and what both have in common.
TRAVELS: dict[str, tuple[Callable[[World], Any], Callable[..., Any], Callable[[Any], object]]] = {
    "program": (lambda w: w.program, cb.Program.load, lambda one: one.id),
    "client program": (
        lambda w: cb.ClientProgram.of(w.program),
        cb.ClientProgram.load,
        lambda one: one.id,
    ),
    "keys": (lambda w: w.keys, cb.EvaluationKeys.load, lambda one: one.digest()),
    "public key": (lambda w: w.client.public_key(), cb.PublicKey.load, lambda one: one.key_id),
    "operand": (lambda w: w.operands["a"], cb.EncryptedOperand.load, lambda one: one.digest),
    "result": (lambda w: w.result, cb.EncryptedResult.load, lambda one: one.digest),
}


@pytest.mark.parametrize("name", TRAVELS)
def test_streams_hold_what_files_do(name: str, world: World, tmp_path: Path) -> None:
    make, load, same = TRAVELS[name]
    one, path, stream = make(world), tmp_path / "file", io.BytesIO()
    one.save(path)
    one.save(stream)
    content = stream.getvalue()
    if name != "keys":  # a set of keys has a name of its own, new each time
        assert content == path.read_bytes()
    for source in (
        content,
        bytearray(content),
        memoryview(content),
        io.BytesIO(content),
        io.BytesIO(b"before" + content),
    ):
        if isinstance(source, io.BytesIO) and source.getvalue() != content:
            source.seek(len(b"before"))  # what was read already is no part of it
        assert same(load(source, **OPTIONS)) == same(one)
    with open(path, "rb") as file:
        assert same(load(file, **OPTIONS)) == same(one)


@pytest.mark.parametrize("name", TRAVELS)
def test_bytes_touch_no_disk(
    name: str, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make, load, same = TRAVELS[name]
    one, options = make(world), OPTIONS
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: pytest.fail("a file on a disk"))
    content = one.to_bytes()
    found = type(one).from_bytes(content, **options)
    assert isinstance(content, bytes) and same(found) == same(one)
    assert same(load(content, **options)) == same(one)
    with pytest.raises(DTypeError, match=rf"{type(one).__name__}.load\(path\)"):
        type(one).from_bytes(str(tmp_path / "file"))


def test_bytes_of_any_shape_are_read(world: World) -> None:
    content = world.result.to_bytes()
    twice = bytes(byte for byte in content for _ in range(2))
    view = memoryview(twice)[::2]  # not one after the other
    assert cb.EncryptedResult.from_bytes(view, **OPTIONS).digest == world.result.digest


def test_a_client_of_bytes_decrypts_and_shares_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", lambda: pytest.fail("a secret on a disk"))
    content = world.client.to_bytes()
    found = cb.Client.from_bytes(content, world.program, **OPTIONS)
    assert np.array_equal(found.decrypt(world.result), world.client.decrypt(world.result))
    assert found.to_bytes() == content
    with pytest.raises(cb.SecurityError, match="without its record"):
        found._record.spend(cb.Sharing(100), 20, world.result.digest)
    # Nor is the count begun again in a file of the same key.
    found.save(tmp_path / "key")
    loaded = cb.Client.load(tmp_path / "key", world.program, **OPTIONS)
    with pytest.raises(cb.SecurityError, match="what was shared under the key"):
        loaded._record.spend(cb.Sharing(100), 20, world.result.digest)


def test_bytes_of_a_client_are_checked(world: World) -> None:
    content, other = world.client.to_bytes(), toy(lambda a: a + 1, a=cb.secret(5, 6))
    with pytest.raises(FormatError):
        cb.Client.from_bytes(content[:-1], world.program, **OPTIONS)
    with pytest.raises(cb.MismatchError):
        cb.Client.from_bytes(content, other, **OPTIONS)
    with pytest.raises(cb.MismatchError):
        cb.Client.from_bytes(world.result.to_bytes(), world.program, **OPTIONS)
    with pytest.raises(DTypeError, match=r"Client\.load"):
        cb.Client.from_bytes("key", world.program)  # type: ignore[arg-type]
    with pytest.raises(cb.SecurityError):
        cb.Client.from_bytes(content, world.program)


def test_keys_go_straight_to_a_stream(world: World) -> None:
    stream = io.BytesIO()
    world.client.write_evaluation_keys(stream)
    keys = cb.EvaluationKeys.load(stream.getvalue(), lazy=True, **OPTIONS)
    result = world.program.server(keys).run(world.operands)
    assert np.abs(world.client.decrypt(result) - (world.values["a"] @ world.values["b"] + 1)).max() < 0.1


def test_lazily_read_operands_stay_in_what_they_came_with(world: World) -> None:
    stream = io.BytesIO()
    world.operands["a"].save(stream)
    stored = cb.EncryptedOperand.load(stream.getvalue(), lazy=True, **OPTIONS)
    del stream
    result = world.program.server(world.keys).run({**world.operands, "a": stored})
    assert result.digest == world.result.digest


def test_what_travels_goes_through_a_socket(world: World) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def write() -> None:
            world.operands["a"].save(ours.makefile("wb", 0))
            ours.shutdown(socket.SHUT_WR)

        writer = threading.Thread(target=write)
        writer.start()
        found = cb.EncryptedOperand.load(theirs.makefile("rb"), **OPTIONS)
        writer.join()
    assert found.digest == world.operands["a"].digest


@pytest.mark.parametrize("name", TRAVELS)
def test_damaged_bytes_are_refused(name: str, world: World) -> None:
    make, load, _ = TRAVELS[name]
    stream = io.BytesIO()
    make(world).save(stream)
    content = bytearray(stream.getvalue())
    for damaged in (content[:-1], content[:20], b"", b"\x93NUMPY" + content):
        with pytest.raises(FormatError, match="the file in memory"):
            load(bytes(damaged), **OPTIONS)
    content[-9] ^= 1
    with pytest.raises(FormatError, match="the file in memory"):
        load(content, **OPTIONS)


def test_nothing_is_written_where_something_fails(world: World) -> None:
    def failing(done: int, total: int) -> None:
        raise KeyboardInterrupt

    stream = io.BytesIO()
    with pytest.raises(KeyboardInterrupt):
        world.operands["a"].save(stream, progress=failing)
    assert stream.getvalue() == b""


def test_streams_of_text_are_refused(world: World, tmp_path: Path) -> None:
    with open(tmp_path / "text", "w") as text, pytest.raises(DTypeError, match='"wb"'):
        world.result.save(text)  # type: ignore[arg-type]
    with open(tmp_path / "text") as text, pytest.raises(DTypeError, match='"rb"'):
        cb.EncryptedResult.load(text)  # type: ignore[arg-type]


def test_a_stream_that_refuses_is_a_storage_error(world: World) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb", buffering=0) as broken, pytest.raises(StorageError, match="Cannot write"):
        world.result.save(broken)
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(StorageError, match="/dev/full"):
        world.result.save(full)


def test_machines_too() -> None:
    stream = io.BytesIO()
    machine = cb.Machine.usual()
    machine.save(stream)
    assert cb.Machine.load(stream.getvalue()) == machine
    assert cb.Machine.from_bytes(machine.to_bytes()) == machine


def test_what_is_no_place_of_a_file(world: World) -> None:
    for call in (
        lambda: world.client.save(io.BytesIO()),  # type: ignore[arg-type]
        lambda: cb.Client.load(io.BytesIO(), world.program),  # type: ignore[arg-type]
        lambda: world.program.save(3),  # type: ignore[arg-type]
        lambda: cb.Program.load(None),  # type: ignore[arg-type]
        lambda: world.client.save(None),  # type: ignore[arg-type]
    ):
        with pytest.raises(DTypeError, match="path"):
            call()
