"""The budget of a key is spent once, whatever name its file is opened by, and whatever happens to its record."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cipherblas as cb
from cipherblas.crypto.keys import SecretKey
from tests.support.shared_keys import BESIDE, SHARE, Shared

pytestmark = [
    pytest.mark.encrypted,
    pytest.mark.filterwarnings("ignore::cipherblas.common.errors.InsecureParametersWarning"),
]


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    made = Shared(tmp_path)
    made.client.save(made.key)
    del made.client  # whatever it knows: the tests are of the files
    return made


def test_symbolic_links_have_one_record(shared: Shared) -> None:
    (shared.folder / "links").mkdir()
    (shared.folder / "links/name").symlink_to("../key")
    (shared.folder / "way").symlink_to("links")
    shared.share(shared.load())
    shared.share(shared.load(shared.folder / "links/name"))
    for path in ("key", "links/name", "way/name"):
        shared.spent(shared.load(shared.folder / path))
    shared.load(shared.folder / "way/name").save(shared.folder / "links/name")
    shared.spent(shared.load())
    assert (shared.folder / "links/name").is_symlink()
    assert sorted(one.name for one in shared.folder.rglob("*.record")) == ["key.record"]


def test_a_hard_link_shares_nothing(shared: Shared) -> None:
    (shared.folder / "other").mkdir()
    os.link(shared.key, shared.folder / "other/key")
    for path in (shared.key, shared.folder / "other/key"):
        shared.refused(shared.load(path), r"several names.*expected one name, got 2 names")
    (shared.folder / "other/key").unlink()
    shared.share(shared.load())


def test_a_removed_record_shares_nothing(shared: Shared) -> None:
    shared.share(shared.load())
    (shared.folder / "key.record").unlink()
    shared.refused(shared.load(), "do not tell what was shared")
    (shared.folder / "key.lock").unlink()
    shared.refused(shared.load(), "do not tell what was shared")
    shared.load().encrypt({"x": np.ones((3, 4))})  # begins a record of encryptions, and no count
    shared.refused(shared.load(), "do not tell what was shared")


def test_a_record_that_comes_back_shares_nothing(shared: Shared) -> None:
    empty = (shared.folder / "key.record").read_bytes()
    shared.share(shared.load())
    first = (shared.folder / "key.record").read_bytes()
    shared.share(shared.load())
    last = (shared.folder / "key.record").read_bytes()
    for earlier in (empty, first):
        (shared.folder / "key.record").write_bytes(earlier)
        shared.refused(shared.load(), "expected 2 results shared, got [01]")
        lock = (shared.folder / "key.lock").read_bytes()
        (shared.folder / "key.lock").unlink()
        shared.refused(shared.load(), "do not tell what was shared")
        (shared.folder / "key.lock").write_bytes(lock)
    (shared.folder / "key.record").write_bytes(last)
    shared.spent(shared.load())


def test_the_key_alone_shares_nothing(shared: Shared) -> None:
    """Not even where nothing was shared under it yet: its copy would begin to count as well."""
    alone = shared.folder / "alone"
    alone.mkdir()
    shutil.copy(shared.key, alone / "key")
    shared.refused(shared.load(alone / "key"), "do not tell what was shared")
    again = shared.load(alone / "key")
    again.save(shared.folder / "third")  # nor do copies of it
    shared.refused(shared.load(shared.folder / "third"), "do not tell what was shared")
    held = cb.Client(shared.program, SecretKey.load(shared.key, insecure=True))
    shared.refused(held, r"Client\.load")


def test_a_key_saved_where_it_lies_knows_what_others_spend(shared: Shared) -> None:
    """In another process, which this one has no other way to know of."""
    held = shared.load()
    shared.result().save(shared.folder / "result")
    shared.program.save(shared.folder / "program")
    script = (
        "import sys, cipherblas as cb\n"
        "program = cb.Program.load(sys.argv[1] + '/program', security=0, insecure=True)\n"
        "client = cb.Client.load(sys.argv[1] + '/key', program, insecure=True)\n"
        "result = cb.EncryptedResult.load(sys.argv[1] + '/result', insecure=True)\n"
        "client.decrypt(result, share=cb.Sharing(entries=24))\n"
    )
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(shared.folder)], check=True, timeout=120
    )
    held.save(shared.key)
    shared.share(held)
    held.save(shared.key)
    shared.spent(held)
    shared.spent(shared.load())


def test_saving_waits_for_who_spends(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both hold the lock, which is no file that either replaces."""
    from cipherblas.roles import key_record

    held: list[bool] = []
    written = key_record.KeyRecord._write

    def write(self: key_record.KeyRecord, content: key_record._Content) -> None:
        code = (
            "import fcntl, sys\n"
            "try:\n"
            "    fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
            "except BlockingIOError:\n"
            "    sys.exit(3)\n"
        )
        lock = str(shared.folder / "key.lock")
        held.append(subprocess.run([sys.executable, "-c", code, lock], check=False).returncode == 3)
        written(self, content)

    client = shared.load()
    inode = (shared.folder / "key.lock").stat().st_ino
    monkeypatch.setattr(key_record.KeyRecord, "_write", write)
    shared.share(client)
    client.save(shared.key)
    client.encrypt({"x": np.ones((3, 4))})
    assert held == [True] * 3
    assert (shared.folder / "key.lock").stat().st_ino == inode
    assert (shared.folder / "key.lock").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [b"x", b"other 00000000000000000000\n", b"\0" * 54])
def test_a_damaged_lock(shared: Shared, damage: bytes) -> None:
    (shared.folder / "key.lock").write_bytes(damage)
    with pytest.raises((cb.FormatError, cb.MismatchError), match=r"key\.lock"):
        shared.share(shared.load())


def test_clients_of_one_key_in_a_process_spend_one_budget(tmp_path: Path) -> None:
    made = Shared(tmp_path)
    other = cb.Client(made.program, made.client._secret)
    made.share(made.client)
    made.share(other)
    for client in (made.client, other):
        made.spent(client)


def in_a_fork(work: Callable[[], None]) -> str:
    """What the work raises in a child of this process, or nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        text = ""
        try:
            work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writing, text.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        found = stream.read()
    os.waitpid(child, 0)
    return found


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_does_not_double_the_budget(tmp_path: Path) -> None:
    made = Shared(tmp_path)
    assert "SecurityError: A forked process" in in_a_fork(lambda: made.share(made.client))

    def save_and_share() -> None:
        made.client.save(made.folder / "child")
        made.share(made.load(made.folder / "child"))

    assert "do not tell what was shared" in in_a_fork(save_and_share)
    made.client.save(made.key)
    assert in_a_fork(lambda: made.share(made.client)) == ""  # whose record is in a file
    made.result()  # the one that the child shared
    made.share(made.client)
    made.spent(made.client)
    assert "at most 0 of 24" in in_a_fork(lambda: made.share(made.client))


def test_a_ledger_is_asked_before_anything_is_decrypted(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, int]] = []
    answers: list[object] = [True, False, None, 1]

    def ledger(key_id: str, digest: str, entries: int) -> bool:
        asked.append((key_id, digest, entries))
        return answers[len(asked) - 1]  # type: ignore[return-value]

    client, share = shared.load(), cb.Sharing(entries=24, ledger=ledger)
    shared.share(client, share)
    with monkeypatch.context() as patch:
        patch.setattr(cb.Client, "_decrypted", lambda *_: pytest.fail("decrypted"))
        for _ in range(3):
            with pytest.raises(cb.SecurityError, match="ledger does not grant"):
                shared.share(client, share)
    assert {(key_id, entries) for key_id, _, entries in asked} == {(client._secret.key_id, 12)}
    assert len({digest for _, digest, _ in asked}) == 4
    shared.share(shared.load())  # what was not granted was not spent; a ledger is no part of the budget
    shared.spent(shared.load())
    assert len(asked) == 4
    assert share == SHARE and "ledger" not in repr(share)
    with pytest.raises(cb.DTypeError, match="ledger"):
        cb.Sharing(entries=1, ledger="book")  # type: ignore[arg-type]


def test_what_a_ledger_raises_spends_nothing(tmp_path: Path) -> None:
    made = Shared(tmp_path)

    def unreachable(*_: object) -> bool:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        made.share(made.client, cb.Sharing(entries=24, ledger=unreachable))
    for _ in range(2):
        made.share(made.client)
    made.spent(made.client)


def test_keys_of_earlier_versions_begin_to_count(shared: Shared) -> None:
    """Their files say nothing of a record."""
    SecretKey.load(shared.key, insecure=True)
    secret = SecretKey.load(shared.key, insecure=True)
    secret.recorded = False
    for name in BESIDE:
        (shared.folder / name).unlink()
    secret.save(shared.key)
    shared.share(shared.load())
    (shared.folder / "key.record").unlink()
    shared.refused(shared.load(), "do not tell what was shared")
