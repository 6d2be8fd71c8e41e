"""What a file is, by its header: of every kind, and of what is none."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.common.errors import DTypeError, FormatError, StorageError
from cipherblas.crypto import files
from tests.support.runs import toy

pytestmark = [pytest.mark.encrypted, pytest.mark.filterwarnings("ignore::UserWarning")]


class World:
    def __init__(self) -> None:
        self.program = toy(
            lambda a, b: {"sum": a @ b + 1, "product": a @ b},
            a=cb.secret(5, 6),
            b=cb.secret(6, 4, encryption="public-key"),
        )
        self.client = self.program.client()
        self.keys = self.client.evaluation_keys()
        self.operands = self.client.encrypt({"a": np.eye(5, 6), "b": np.ones((6, 4))})
        self.result = self.program.server(self.keys).run(self.operands)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


# Each kind: its content, whether it names the key pair, its shapes.
BOTH = {"a": (5, 6), "b": (6, 4)}
KINDS: dict[str, tuple[Any, bool, dict[str, tuple[int, ...]]]] = {
    "program": (lambda w: w.program.to_bytes(), False, BOTH),
    "client-program": (lambda w: cb.ClientProgram.of(w.program).to_bytes(), False, BOTH),
    "secret-key": (lambda w: w.client.to_bytes(), True, {}),
    "public-key": (lambda w: w.client.public_key().to_bytes(), True, {}),
    "evaluation-keys": (lambda w: w.keys.to_bytes(), True, {}),
    "encrypted-operand": (lambda w: w.operands["a"].to_bytes(), True, {"a": (5, 6)}),
    "encrypted-result": (lambda w: w.result.to_bytes(), True, {"sum": (5, 4), "product": (5, 4)}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_told(kind: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, owned, shapes = KINDS[kind]
    content = make(world)
    (tmp_path / "file").write_bytes(content)
    monkeypatch.setattr(files.Reader, "_read", lambda *given: pytest.fail("an array was read"))
    facts = cb.inspect(content)
    assert facts == cb.inspect(tmp_path / "file") == cb.inspect(io.BytesIO(content))
    assert (facts.kind, facts.secret) == (kind, kind == "secret-key")
    assert facts.program_id == world.program.id
    assert facts.key_id == (world.operands["a"].key_id if owned else "")
    assert facts.shapes == shapes
    assert facts.nbytes == len(content) and facts.format == files.FORMAT_VERSION
    assert facts.security == 0 and facts.ring_degree == world.program.plan.parameters.n
    assert facts.keys == (len(world.program.plan.keys.limbs) if kind == "evaluation-keys" else None)
    assert json.loads(json.dumps(facts.to_dict()))["kind"] == kind
    assert ("send it to nobody" in str(facts)) == facts.secret


def test_folders_of_keys(world: World, tmp_path: Path) -> None:
    world.keys.save(tmp_path / "keys", part_bytes=1)
    facts = cb.inspect(tmp_path / "keys")
    assert facts.kind == "evaluation-keys" and facts.key_id == world.operands["a"].key_id
    assert facts.nbytes == sum(file.stat().st_size for file in (tmp_path / "keys").iterdir())
    next(iter((tmp_path / "keys").glob("part-*"))).unlink()
    with pytest.raises(StorageError):
        cb.inspect(tmp_path / "keys")


def test_what_is_no_file_of_ours(world: World, tmp_path: Path) -> None:
    content = world.result.to_bytes()
    for damaged in (
        b"",
        b"text",
        b"\x93NUMPY" + content,
        content[:50],
        content[:-1],
        content[:200] + content[201:],
    ):
        with pytest.raises(FormatError):
            cb.inspect(damaged)
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(StorageError):
            cb.inspect(place)
    with pytest.raises(DTypeError):
        cb.inspect(3)  # type: ignore[arg-type]


def test_any_changed_byte_of_a_header_is_noticed(world: World) -> None:
    content = world.client.public_key().to_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    for place in range(0, length, 7):
        changed = bytearray(content)
        changed[place] ^= 1
        with pytest.raises(FormatError):
            cb.inspect(changed)
