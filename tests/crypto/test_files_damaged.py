"""Files that are damaged, foreign, hostile, or random: a typed error, quickly."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save_file

from cipherblas.common.errors import (
    CipherblasError,
    FormatError,
    MemoryBudgetError,
    MismatchError,
    StorageError,
    VersionError,
)
from cipherblas.crypto import files
from cipherblas.crypto.files import format as form
from tests.support.file_samples import OTHER, TOY, assert_equal, tensors, write

pytestmark = pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning")


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    raw = write(tmp_path / "x.ct")
    assert len(raw) < 4000
    # In place: a disk waits for files that are replaced.
    with (tmp_path / "x.ct").open("r+b", buffering=0) as damaged:
        for position, byte in enumerate(raw):
            for flip in (0x01, 0x20, 0x80):  # 0x20 changes the case of letters: JSON and hex that still parse
                os.pwrite(damaged.fileno(), bytes([byte ^ flip]), position)
                with pytest.raises(FormatError):
                    files.read(tmp_path / "x.ct", "ciphertext", insecure=True)
            os.pwrite(damaged.fileno(), bytes([byte]), position)
    files.read(tmp_path / "x.ct", "ciphertext", insecure=True)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    raw = write(tmp_path / "x.ct")
    for length in reversed(range(len(raw))):
        os.truncate(tmp_path / "x.ct", length)
        with pytest.raises(FormatError):
            files.read(tmp_path / "x.ct", "ciphertext", insecure=True)
    (tmp_path / "y.ct").write_bytes(raw + b"\0")
    with pytest.raises(FormatError):
        files.read(tmp_path / "y.ct", "ciphertext", insecure=True)


def test_wrong_kind_and_foreign_parameters(tmp_path: Path) -> None:
    write(tmp_path / "s.key", "secret-key", private=True)
    with pytest.raises(MismatchError) as caught:
        files.read(tmp_path / "s.key", "evaluation-keys", insecure=True)
    assert (caught.value.expected, caught.value.got) == ("evaluation-keys", "secret-key")
    with pytest.raises(MismatchError) as caught:
        files.read(tmp_path / "s.key", "secret-key", fingerprint=OTHER.fingerprint(), insecure=True)
    assert (caught.value.expected, caught.value.got) == (OTHER.fingerprint(), TOY.fingerprint())


@pytest.mark.parametrize(("version", "words"), [(7, "newer"), (1, "older")])
def test_another_format_version_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, words: str
) -> None:
    monkeypatch.setattr(form, "FORMAT_VERSION", version)
    write(tmp_path / "x.ct")
    monkeypatch.undo()
    with pytest.raises(VersionError, match=words) as caught:
        files.read(tmp_path / "x.ct", "ciphertext", insecure=True)
    assert f"format {form.FORMAT_VERSION}" in str(caught.value)
    assert f"got {version}" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x04\x95",
        b"PK\x03\x04" + bytes(60),
        b"\x89PNG\r\n\x1a\n" + bytes(60),
        bytes(64),
        b"\xff" * 64,
    ],
    ids=["empty", "pickle", "zip", "png", "zeros", "ones"],
)
def test_foreign_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FormatError):
        files.read(tmp_path / "x", "ciphertext", insecure=True)


def test_a_foreign_safetensors_file(tmp_path: Path) -> None:
    save_file({"weights": np.zeros((2, 2), np.float32)}, tmp_path / "x")
    with pytest.raises(FormatError, match="not a cipherblas file"):
        files.read(tmp_path / "x", "ciphertext", insecure=True)


def container(entries: Any, data: bytes = b"") -> bytes:
    """A safetensors file with any header, and with a right checksum where the header has a place for it."""
    text = entries if isinstance(entries, bytes) else json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    text = text.replace(form.NO_CHECKSUM.encode(), form.header_checksum(text).encode())
    return len(text).to_bytes(8, "little") + text + data


def entries_of(raw: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(raw[:8], "little")
    entries = json.loads(raw[8 : 8 + length])
    entries["__metadata__"]["checksum"] = form.NO_CHECKSUM
    return entries, raw[8 + length :]


HUGE = 1 << 62


def _change(**changes: Any) -> Callable[[dict[str, Any]], None]:
    def change(entries: dict[str, Any]) -> None:
        for name, value in changes.items():
            if name in entries["b"]:
                entries["b"][name] = value
            else:
                entries["__metadata__"][name] = value

    return change


def _without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda entries: entries["__metadata__"].pop(name)


@pytest.mark.parametrize(
    "change",
    [
        _change(data_offsets=[0, HUGE]),
        _change(data_offsets=[HUGE, HUGE + 768]),
        _change(data_offsets=[-768, 0]),
        _change(data_offsets=[768, 0]),
        _change(data_offsets=[8, 776]),
        _change(data_offsets=[0]),
        _change(data_offsets=[0.0, 768.0]),
        _change(shape=[HUGE, HUGE]),
        _change(shape=[2, 3, -16]),
        _change(shape=[2, 3, 17]),
        _change(shape=[2, 3, 16] + [1] * 10),
        _change(shape="long"),
        _change(dtype="F32"),
        _change(dtype="BF16", shape=[2, 3, 64]),
        _change(dtype="object"),
        _change(digests="{}"),
        _change(digests="[]"),
        _change(digests="nonsense"),
        _change(digests=json.dumps(dict.fromkeys(tensors(), 5))),
        _change(digests=json.dumps(dict.fromkeys(tensors(), "00"))),
        _change(parameters="{}"),
        _change(parameters="null"),
        _change(parameters=json.dumps({**TOY.to_dict(), "n": 17})),
        _change(parameters=json.dumps({**TOY.to_dict(), "q": [97, 97]})),
        _change(parameters=json.dumps({**TOY.to_dict(), "q": ["97"]})),
        _change(parameters=json.dumps({**TOY.to_dict(), "scale_bits": 10**300})),
        _change(parameters=json.dumps({**TOY.to_dict(), "security": 128})),
        _change(parameters=json.dumps(OTHER.to_dict())),
        _change(security="128"),
        _change(fingerprint="00"),
        _change(header="[" * 100_000),
        _change(header='{"a":NaN}'),
        _change(header='{"a":1,"a":2}'),
        _change(header="1" * 10_000),
        _change(cipherblas="0"),
        _change(cipherblas="-1"),
        _change(cipherblas="one"),
        _change(cipherblas="1 "),
        _change(cipherblas="9" * 100),
        _change(extra="x"),
        _change(checksum="\ud800" * 64),
        _change(header='{"a":"\\ud800"}'),
        _change(header='{"a":1e999}'),
        _change(header='{"a":-1e999}'),
        _change(header='{"a":1' + "0" * 400 + "}"),
        _change(header='{"a":18446744073709551617}'),
        _change(header='{"a":' + "[" * 20 + "]" * 20 + "}"),
        *[_without(name) for name in form.ENTRIES],
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    entries, data = entries_of(write(tmp_path / "x"))
    (tmp_path / "x").write_bytes(container(entries, data))
    files.read(tmp_path / "x", "ciphertext", insecure=True)  # the unchanged header passes
    change(entries)
    (tmp_path / "x").write_bytes(container(entries, data))
    with pytest.raises(FormatError):
        files.read(tmp_path / "x", "ciphertext", insecure=True)


def test_overlapping_tensors_are_refused(tmp_path: Path) -> None:
    entries, data = entries_of(write(tmp_path / "x"))
    entries["scale"]["data_offsets"] = [0, 8]
    (tmp_path / "x").write_bytes(container(entries, data))
    with pytest.raises(FormatError):
        files.read(tmp_path / "x", "ciphertext", insecure=True)


@pytest.mark.parametrize(
    "header",
    [
        b'{"__metadata__":{"cipherblas":"1","cipherblas":"1"}}',
        b"[" * 1_000_000,
        b'{"a":' * 100_000,
        b'{"__metadata__":{"cipherblas":5}}',
        b'{"__metadata__":[]}',
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"__metadata__":{"cipherblas":"1"},"t":{"dtype":"U8","shape":[0,4611686018427387904],"data_offsets":[0,0]}}',
        b"{"
        + b",".join(b'"t%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(50_000))
        + b"}",
    ],
    ids=["twice", "lists", "objects", "number", "list", "array", "null", "bytes", "empty-huge", "many"],
)
def test_header_bombs(tmp_path: Path, header: bytes) -> None:
    (tmp_path / "x").write_bytes(container(header))
    with pytest.raises(FormatError):
        files.read(tmp_path / "x", "ciphertext", insecure=True)


def test_an_empty_tensor_with_a_huge_dimension(tmp_path: Path) -> None:
    entries, data = entries_of(write(tmp_path / "x"))
    entries["none"]["shape"] = [0, 1 << 61]
    (tmp_path / "x").write_bytes(container(entries, data))
    with pytest.raises(FormatError):
        files.read(tmp_path / "x", "ciphertext", insecure=True)


def test_a_sparse_file_larger_than_memory(tmp_path: Path) -> None:
    size = 1 << 43
    entries, _ = entries_of(write(tmp_path / "x"))
    for name in ("b", "seeds", "scale", "none"):
        del entries[name]
    entries["b"] = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    entries["__metadata__"]["digests"] = json.dumps({"b": "00"})
    raw = container(entries)
    (tmp_path / "x").write_bytes(raw)
    try:
        os.truncate(tmp_path / "x", len(raw) + size)
    except OSError:
        pytest.skip("no file of this size here")
    with pytest.raises((MemoryBudgetError, FormatError, StorageError)):
        files.read(tmp_path / "x", "ciphertext", insecure=True)


RAW: dict[str, bytes] = {}


def valid_bytes(tmp_path: Path) -> bytes:
    if not RAW:
        RAW["file"] = write(tmp_path / "valid")
    return RAW["file"]


def assert_typed(path: Path) -> None:
    """Reading ends with a typed error or with the right content, without a hang."""
    begun = time.monotonic()
    try:
        _, found = files.read(path, "ciphertext", insecure=True)
    except CipherblasError:
        pass
    else:
        assert_equal(found, tensors())
    assert time.monotonic() - begun < 30  # no hang; a read takes a millisecond


@given(content=st.binary(max_size=400))
@example(content=(5).to_bytes(8, "little") + b"{}   ")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "y").write_bytes(content)
    with pytest.raises(FormatError):
        files.read(tmp_path / "y", "ciphertext", insecure=True)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_mutations_of_a_valid_file(tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(valid_bytes(tmp_path))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        end = data.draw(st.integers(start, min(len(raw), start + 40)))
        raw[start:end] = data.draw(st.binary(max_size=40))
    (tmp_path / "y").write_bytes(raw)
    assert_typed(tmp_path / "y")


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_mutations_behind_a_right_checksum(tmp_path: Path, data: st.DataObject) -> None:
    entries, content = entries_of(valid_bytes(tmp_path))
    values = (
        st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats()
        | st.text(max_size=30)
        | st.sampled_from(['{"n":1}', "[[[", '{"b":"x"}'])
        | st.lists(st.integers(-(2**70), 2**70), max_size=9)
    )
    for _ in range(data.draw(st.integers(1, 2))):
        where = entries[data.draw(st.sampled_from(sorted(entries)))]
        if isinstance(where, dict):
            where[data.draw(st.sampled_from([*sorted(where), "new"]))] = data.draw(values)
    (tmp_path / "y").write_bytes(container(entries, content))
    try:
        files.read(tmp_path / "y", "ciphertext", insecure=True)
    except (FormatError, MismatchError):
        pass  # a typed error, or a change that does not matter
    else:
        load((tmp_path / "y").read_bytes())  # any safetensors program reads what we read
